"""A fit as a runtime profile, and the profile as TOML with its evidence; it measures and fits nothing."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomlkit
from tomlkit.items import Table

from hw_profiles import list_devices
from hw_profiles.cited import CitedValue
from hw_profiles.loader import cited_values
from hw_profiles.schema import DeviceProfile, Reference, RuntimeProfile
from simulator.studies.calibration.data import times_of
from simulator.studies.calibration.fit import Fit
from simulator.studies.calibration.problem import FIELDS, LOGARITHMIC, RELATIVE, Z95

if TYPE_CHECKING:
    from simulator.adapters.observations import Observations

PREFILL = ("prefill_macs_per_s_fraction", "prefill_floor_s")
NOT_CARRIED = ("engine_init_s", "cancel_latency_s", "idle_cadence_slowdown", "energy_per_token_j")
"""Facts about the start's own device that no pass time depends on."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Where a calibration comes from.

    Attributes
    ----------
    date : str
        Day of the calibration.
    references : dict of str to Reference
        One for each measurement file with times.
    pass_sources, prefill_sources : str
        Keys of those that hold passes, and prefills.
    passes, prefills : int
        How many times.
    residual : float
        Root mean square of the relative residuals.
    """

    date: str
    references: dict[str, Reference]
    pass_sources: str
    prefill_sources: str
    passes: int
    prefills: int
    residual: float


def evidence_of(files: Sequence[Observations], *, date: str, residual: float) -> Evidence:
    """Name, hash and lines of the files that were fitted.

    Parameters
    ----------
    files : sequence of Observations
        Measurements.
    date : str
        Day of the calibration.
    residual : float
        Root mean square of the relative residuals.
    """
    references: dict[str, Reference] = {}
    keys: dict[str, list[str]] = {"passes": [], "prefills": []}
    for file in files:
        times = times_of(file)
        if not times:
            continue
        key = f"calibration_{len(references) + 1}"
        places = [each.where.removeprefix(file.source).lstrip(":") for each in times]
        about = [f"{what} {value}" for what, value in (("device", file.device), ("runtime", file.runtime),
                                                        ("model", file.model)) if value]  # fmt: skip
        references[key] = Reference(
            title=f"Measurement file {Path(file.source).name} ({file.format})",
            year=date[:4],
            note=f"sha256 {sha256_of(file.source)}; read on {date}; {', '.join([*about, _listed(places)])}",
        )
        passes = (*file.passes, *file.draft_passes)
        for kind, some in (("passes", passes), ("prefills", file.prefills)):
            if some:
                keys[kind].append(key)
    return Evidence(
        date=date, references=references, pass_sources=", ".join(keys["passes"]),
        prefill_sources=", ".join(keys["prefills"] or keys["passes"]),
        passes=sum(len(file.passes) + len(file.draft_passes) for file in files),
        prefills=sum(len(file.prefills) for file in files), residual=residual,
    )  # fmt: skip


def sha256_of(path: str) -> str:
    """Hash of a file; ``unknown`` where it is gone."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return "unknown"


def _listed(places: Sequence[str]) -> str:
    shown = list(dict.fromkeys(places))
    return f"at {', '.join(shown[:8])}{f' and {len(shown) - 8} more' if len(shown) > 8 else ''}"


def calibrated_profile(
    start: RuntimeProfile, fit: Fit, device: DeviceProfile, evidence: Evidence, *, name: str, id_: str
) -> RuntimeProfile:
    """The start runtime with the fitted numbers in it.

    Numbers that were not fitted keep value and range; where they were observed on another chip, or derived
    from others, they become ``assumed`` and say so.

    Parameters
    ----------
    start : RuntimeProfile
        Prior.
    fit : Fit
        Result.
    device : DeviceProfile
        What was measured.
    evidence : Evidence
        Files.
    name, id_ : str
        For people, and the file's stem.
    """
    foreign = start.is_transfer(device)
    fields: dict[str, CitedValue[Any]] = {
        key: _kept(cited, start, foreign) for key, cited in cited_values(start) if key not in NOT_CARRIED
    }
    for key in FIELDS:
        if key in fit.contradicted or key not in fit.kept:
            fields[key] = _fitted(key, fit, start, evidence)
        elif key in RELATIVE and fit.values[key] != getattr(start, key).value:
            fields[key] = _followed(key, fit, start)
    if fit.curve:
        fields["verify_curve"] = _curve(fit, evidence)
        fields.pop("tile", None)
    used = {source for cited in fields.values() for source in cited.sources}
    return RuntimeProfile.model_validate({
        "id": id_, "name": name, "engine": start.engine, "kernel_family": start.kernel_family,
        "devices": (device.soc_id,) if device.id in list_devices() else ("*",),
        "measured_socs": (device.soc_id,), "ideal": False, "kv_reads": fit.kv_reads,
        "verify_extrapolation": start.verify_extrapolation,
        "notes": f"Calibrated on {evidence.date} from {evidence.passes} passes and {evidence.prefills} "
        f"prefills on {device.name}, starting from {start.id}; residual {evidence.residual:.2%} (root mean "
        "square).",
        "references": {
            **{key: each for key, each in start.references.items() if key in used}, **evidence.references,
        },
        **{key: cited.model_dump(exclude_none=True) for key, cited in fields.items()},
    })  # fmt: skip


def _kept(cited: CitedValue[Any], start: RuntimeProfile, foreign: bool) -> CitedValue[Any]:
    if cited.kind == "assumed" or not (foreign or cited.kind == "derived"):
        return cited
    numbers = not isinstance(cited.value, bool | str)
    why = "observed on another chip" if foreign else "derived"
    note = f"Not calibrated: kept from {start.id}, where it is {cited.kind} ({why}). {cited.note or ''}"
    return cited.model_copy(update={
        "kind": "assumed", "formula": None, "note": note.strip(),
        "low": cited.value if cited.low is None and numbers else cited.low,
        "high": cited.value if cited.high is None and numbers else cited.high,
    })  # fmt: skip


def range_of(key: str, fit: Fit) -> tuple[float, float]:
    """Range of 95 % of a fitted field, within what is possible."""
    value, error = fit.values[key], fit.stderr[key]
    if key not in LOGARITHMIC:
        return max(value - Z95 * error, 0.0), value + Z95 * error
    spread = math.exp(Z95 * error / value)
    return value / spread, min(value * spread, 1.0)


def kept_range(key: str, fit: Fit, start: RuntimeProfile) -> tuple[float | None, float | None]:
    """Range of a field that was kept: the start's, in proportion where its value follows ``mbu_large``."""
    cited = getattr(start, key)
    ratio = fit.values[key] / cited.value if key in RELATIVE else 1.0
    low, high = (None if end is None else end * ratio for end in (cited.low, cited.high))
    return low, None if high is None else min(high, 1.0) if key in LOGARITHMIC else high


def _fitted(key: str, fit: Fit, start: RuntimeProfile, evidence: Evidence) -> CitedValue[Any]:
    before: CitedValue[Any] = getattr(start, key)
    low, high = range_of(key, fit)
    prefill = key in PREFILL
    ends = "" if before.low is None else f", {before.low:.4g} to {before.high:.4g}"
    text = (
        f"Least squares over {evidence.prefills if prefill else evidence.passes} "
        f"{'prefills' if prefill else 'passes'}, with the range of {start.id} as prior "
        f"({before.value:.4g}{ends}); "
        f"range: 95 %; residual {evidence.residual:.2%}."
    )
    changed: dict[str, Any] = {"kind": "measured"}
    if key in fit.contradicted:
        changed = {"kind": "assumed"}
        text += f" The data exclude the prior's value but do not identify this one ({fit.kept[key]})."
    changed |= {
        "value": fit.values[key], "low": low, "high": high, "formula": None, "note": text,
        "source": evidence.prefill_sources if prefill else evidence.pass_sources,
    }  # fmt: skip
    return before.model_copy(update=changed)


def _followed(key: str, fit: Fit, start: RuntimeProfile) -> CitedValue[Any]:
    before: CitedValue[Any] = getattr(start, key)
    low, high = kept_range(key, fit, start)
    return before.model_copy(update={
        "value": fit.values[key], "low": fit.values[key] if low is None else low,
        "high": fit.values[key] if high is None else high, "kind": "assumed", "formula": None,
        "note": f"Not identified ({fit.kept[key]}): follows mbu_large by the ratio that {start.id} has. "
        f"{before.note or ''}".strip(),
    })  # fmt: skip


def _curve(fit: Fit, evidence: Evidence) -> CitedValue[Any]:
    def points(side: float) -> tuple[tuple[float, float], ...]:
        return ((1.0, 1.0), *((width, cost * math.exp(side * Z95 * error))
                              for width, cost, error in fit.curve))  # fmt: skip

    return CitedValue[Any](
        value=points(0), low=points(-1), high=points(1), unit="1", kind="measured",
        source=evidence.pass_sources,
        note=f"Least squares over {evidence.passes} passes, floor and cache reads taken out; range: 95 %.",
    )  # fmt: skip


def as_toml(profile: RuntimeProfile) -> str:
    """The profile as a file that `hw_profiles.load_runtime_file` reads; its id is the file's name."""
    document = tomlkit.document()
    document.add(tomlkit.comment(profile.notes))
    document.add(tomlkit.nl())
    cited = dict(cited_values(profile))
    for key in RuntimeProfile.model_fields:
        value = getattr(profile, key)
        if key not in ("id", "references") and key not in cited and value is not None:
            document.add(key, list(value) if isinstance(value, tuple) else value)
    for key, each in cited.items():
        document.add(key, _table({
            "value": each.value, "unit": each.unit, "kind": each.kind, "source": each.source, "low": each.low,
            "high": each.high, "formula": each.formula, "note": each.note,
        }))  # fmt: skip
    references = tomlkit.table(is_super_table=True)
    for key, reference in profile.references.items():
        references.add(key, _table(reference.model_dump()))
    document.add("references", references)
    return tomlkit.dumps(document)


def _table(items: Mapping[str, Any]) -> Table:
    table = tomlkit.table()
    for key, value in items.items():
        if value is not None:
            table.add(key, _plain(value))
    return table


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
