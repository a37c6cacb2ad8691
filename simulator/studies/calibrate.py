"""Measurement files and a start runtime in, a calibrated runtime out; it does not know file formats.

Passes and prefills are fitted (`simulator.studies.calibration.fit`), speculative runs never: they are
predicted with the result, as a check that it has not seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from hw_profiles.schema import DeviceProfile, RuntimeProfile
from simulator.errors import DraftscopeError, UnknownNameError
from simulator.studies.calibration.data import (
    Model,
    check_enough,
    device_of,
    models_of,
    notes_on,
    start_of,
    targets_of,
)
from simulator.studies.calibration.fit import CONTRADICTED, NO_DRAFTER, Fit, fit
from simulator.studies.calibration.held_out import HeldOut, held_out
from simulator.studies.calibration.problem import FIELDS, LOGARITHMIC, RELATIVE, Loss, Problem
from simulator.studies.calibration.profile import calibrated_profile, evidence_of, kept_range, range_of
from simulator.studies.calibration.times import Timed, measured_widths, prepared, timed

if TYPE_CHECKING:
    from simulator.adapters.observations import Observations

FITTED, KEPT, FOLLOWS, MOVED = "fitted", "kept", "follows mbu_large", "moved"
LOSSES = ("linear", "soft_l1")
STRONG = 0.5
"""Correlations from this on are shown to people."""

ADVICE = {
    "mbu_large": "time a second model of another size",
    "mbu_small": "time a second, much smaller model",
    "mbu_kv": "time plain decoding at a short and a long context",
    "floor_per_pass_s": "time a second model of another size",
    "host_per_row_s": "time the choice of a token alone; until then the verify curve holds it",
    "prefill_macs_per_s_fraction": "time a long prompt",
    "prefill_floor_s": "time a short prompt as well as a long one",
    "floor_per_draft_pass_s": "time passes of drafters of several sizes, as draftscope measure does",
    "floor_per_layer_s": "time passes of drafters with few and with many layers",
    "verify_curve": "time passes of several widths, such as 1 to 9, at one context",
}
"""What would identify a field."""


@dataclass(frozen=True, kw_only=True)
class FieldRow:
    """One field, or one point of the curve, before and after.

    Attributes
    ----------
    field, unit : str
        Dotted key; a point is ``verify_curve[w]``.
    start, start_low, start_high : float or None
        Prior.
    value, stderr, low, high : float or None
        After; range of 95 %.
    share : float or None
        Width after / width before.
    status : {"fitted", "kept", "follows mbu_large", "moved"}
        ``moved``: not identified, but the data exclude the start's value.
    reason : str
        Why it was not fitted, and what would identify it.
    """

    field: str
    unit: str
    start: float | None
    start_low: float | None
    start_high: float | None
    value: float | None
    stderr: float | None
    low: float | None
    high: float | None
    share: float | None
    status: str
    reason: str = ""

    def record(self) -> dict[str, Any]:
        """All of it, in a fixed order."""
        return dict(vars(self))


@dataclass(frozen=True, kw_only=True)
class TimeRow:
    """One measured time beside the fitted one.

    Attributes
    ----------
    where, model, sort : str
        Place, model, and ``pass`` or ``prefill``.
    width, context : float
        Of a pass; a prefill has its tokens as width.
    measured_s, stderr_s, fitted_s : float
        Times [s]; the standard error as it was weighed, without `Calibration.spread`.
    error : float
        fitted / measured - 1.
    """

    where: str
    model: str
    sort: str
    width: float
    context: float
    measured_s: float
    stderr_s: float
    fitted_s: float
    error: float

    def record(self) -> dict[str, Any]:
        """All of it, in a fixed order."""
        return dict(vars(self))


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Result of `calibrate`.

    Attributes
    ----------
    runtime : RuntimeProfile
        The start with the fitted numbers.
    device_id, start_id : str
        Device and start runtime.
    fields : tuple of FieldRow
        Every field, then the curve's points.
    correlations : tuple of (str, str, float)
        Of pairs of fields that are tied to each other, strongest first.
    times : tuple of TimeRow
        Measured and fitted times.
    held_out : tuple of HeldOut
        Speculative runs, measured and predicted.
    residual : float
        Root mean square of the relative residuals.
    chi2, spread : float
        Sum of squared residuals in (widened) standard errors, and by how much they were widened.
    freedom : int
        Times less fitted numbers.
    converged : bool
        False: do not use it.
    notes : tuple of str
        What a reader must know.
    """

    runtime: RuntimeProfile
    device_id: str
    start_id: str
    fields: tuple[FieldRow, ...]
    correlations: tuple[tuple[str, str, float], ...]
    times: tuple[TimeRow, ...]
    held_out: tuple[HeldOut, ...]
    residual: float
    chi2: float
    spread: float
    freedom: int
    converged: bool
    notes: tuple[str, ...]


def calibrate(
    files: Sequence[Observations],
    *,
    device: str | None = None,
    targets: Sequence[str] = (),
    runtime: str | None = None,
    name: str | None = None,
    id_: str = "calibrated",
    loss: Loss = "linear",
    date: str | None = None,
) -> Calibration:
    """Fit a runtime to measured pass and prefill times.

    Parameters
    ----------
    files : sequence of Observations
        Measurements of one software stack on one engine of one device, of any number of models.
    device : str, optional
        Device profile; found from the files where they name a known one.
    targets : sequence of str
        Target of all files, or of each; found from the files where they name a known one.
    runtime : str, optional
        Start runtime, whose values and ranges are the prior; the device's default where omitted.
    name, id_ : str
        Of the calibrated runtime.
    loss : {"linear", "soft_l1"}
        ``soft_l1`` lets outliers count less.
    date : str, optional
        Of the calibration, as YYYY-MM-DD; today where omitted.

    Returns
    -------
    Calibration
        Runtime, errors, correlations, what is not identified, runs held out.

    Raises
    ------
    DraftscopeError, hw_profiles.errors.ProfileError
        For files that contradict each other, know too little or cannot be; the message says where.
    """
    if loss not in LOSSES:
        raise UnknownNameError("loss", loss, LOSSES)
    if not files:
        raise DraftscopeError("measurements: no file given; needed: one or more.")
    where = device_of(files, device)
    start = start_of(files, where, runtime)
    models, notes = models_of(files, targets)
    check_enough(models, where.dram.peak_bandwidth_bytes_per_s.value)
    found, compiled, choice = _best(models, where, start, loss)
    notes = [*notes_on(files, where), *notes, *choice, *_fit_notes(found, start)]
    rows = _times(compiled, found)
    residual = math.sqrt(sum(row.error**2 for row in rows) / len(rows))
    evidence = evidence_of(files, date=date or datetime.now(UTC).date().isoformat(), residual=residual)
    profile = calibrated_profile(
        start, found, where, evidence, name=name or f"{start.name}, calibrated on {where.name}", id_=id_
    )
    return Calibration(
        runtime=profile,
        device_id=where.id,
        start_id=start.id,
        fields=tuple(_fields(found, start, profile)),
        correlations=_correlations(found),
        times=tuple(rows),
        held_out=tuple(held_out(files, targets_of(files, targets), device=where, runtime=profile)),
        residual=residual,
        chi2=found.chi2,
        spread=found.spread,
        freedom=found.freedom,
        converged=found.converged,
        notes=tuple(dict.fromkeys(notes)),
    )


def _best(
    models: Sequence[Model], device: DeviceProfile, start: RuntimeProfile, loss: Loss
) -> tuple[Fit, tuple[Timed, ...], list[str]]:
    """Fit as the start reads the cache, and the other way where wide passes saw several contexts."""
    widths = measured_widths(models)

    def attempt(kv_reads: Literal["once", "per_row"]) -> tuple[Fit, tuple[Timed, ...]]:
        stack = prepared(start, widths, kv_reads)
        compiled = tuple(timed(model, device, stack) for model in models)
        problem = Problem(start=start, models=compiled, widths=widths, kv_reads=kv_reads, loss=loss)
        return fit(problem), compiled

    found, compiled = attempt(start.kv_reads)
    seen = {(model.name, each.context) for model in models if model.target and not model.drafter
            for each in model.passes if each.width > 1}  # fmt: skip
    if len(seen) == len({model for model, _ in seen}):
        return found, compiled, []
    other, recompiled = attempt("once" if start.kv_reads == "per_row" else "per_row")
    if other.converged and other.chi2 * other.spread**2 + CONTRADICTED < found.chi2 * found.spread**2:
        text = (
            f"The data say that a pass reads the cache {other.kv_reads.replace('_', ' ')}, not "
            f"{found.kv_reads.replace('_', ' ')} as {start.id}."
        )
        return other, recompiled, [text]
    return found, compiled, []


def _fit_notes(found: Fit, start: RuntimeProfile) -> list[str]:
    notes = []
    if found.spread > 1:
        notes.append(
            f"The times scatter {found.spread:.3g} times as much about the fit as their files say; standard "
            "errors are widened by that."
        )
    if found.freedom <= 0:
        notes.append("There are no more times than fitted numbers, so the fit cannot show where it is wrong.")
    if not found.curve:
        notes.append(
            f"Only passes of width 1 were timed: verify_curve is that of {start.id}; "
            f"{ADVICE['verify_curve']}."
        )
    widths = [1.0, *(width for width, _, _ in found.curve)]
    gaps = [f"{a + 1:g}{f' to {b - 1:g}' if b - a > 2 else ''}" for a, b in pairwise(widths) if b - a > 1]
    if gaps:
        notes.append(
            f"Widths {', '.join(gaps)} were not timed: there the curve is a straight line and shows no cliff."
        )
    if found.curve and start.tile is not None:
        notes.append(f"The tile of {start.id} is left out: the measured curve has its steps.")
    return notes


def _times(compiled: Sequence[Timed], found: Fit) -> list[TimeRow]:
    rows = []
    for each, predicted in zip(compiled, found.predicted_s, strict=True):
        passes = [(one.where, "pass", one.width, one.context) for one in each.model.passes]
        prefills = [(one.where, "prefill", one.tokens, one.context) for one in each.model.prefills]
        for (place, sort, width, context), measured, error, value in zip(
            [*passes, *prefills], each.measured_s, each.error_s, predicted, strict=True
        ):
            rows.append(TimeRow(
                where=place, model=each.model.name, sort=sort, width=width, context=context,
                measured_s=float(measured), stderr_s=float(error), fitted_s=float(value),
                error=float(value / measured - 1),
            ))  # fmt: skip
    return rows


def _fields(found: Fit, start: RuntimeProfile, profile: RuntimeProfile) -> list[FieldRow]:
    rows = []
    for key in FIELDS:
        before, after = getattr(start, key), getattr(profile, key)
        if before is None or found.kept.get(key) == NO_DRAFTER:
            continue
        status, reason = FITTED, ""
        low: float | None
        high: float | None
        low, high = range_of(key, found)
        if key in found.kept:
            moved = key in found.contradicted
            status = MOVED if moved else FOLLOWS if key in RELATIVE and after.value != before.value else KEPT
            reason = f"{found.kept[key]}: {ADVICE[key]}"
            low, high = (low, high) if moved else kept_range(key, found, start)
        elif before.low is not None and not before.low <= after.value <= before.high:
            reason = f"outside the range of {start.id}"
        if key not in found.kept or key in found.contradicted:
            bound = 1.0 if key in LOGARITHMIC else 0.0
            reason += f"{'; ' if reason else ''}at its bound" if after.value == bound else ""
        rows.append(FieldRow(
            field=key, unit=before.unit, start=before.value, start_low=before.low, start_high=before.high,
            value=found.values[key], stderr=found.stderr[key], low=low, high=high, share=found.share[key],
            status=status, reason=reason,
        ))  # fmt: skip
    if not found.curve:
        return rows
    curve = profile.verify_curve
    ends = [] if curve is None or curve.low is None or curve.high is None else list(
        zip(curve.low[1:], curve.high[1:], strict=True)
    )  # fmt: skip
    for (width, cost, error), ((_, low), (_, high)) in zip(found.curve, ends, strict=True):
        rows.append(FieldRow(
            field=f"verify_curve[{width:g}]", unit="1", start=None, start_low=None, start_high=None,
            value=cost, stderr=cost * error, low=low, high=high, share=None, status=FITTED,
        ))  # fmt: skip
    return rows


def _correlations(found: Fit) -> tuple[tuple[str, str, float], ...]:
    """Of all pairs that are tied at all, strongest first."""
    pairs = [
        (one, two, float(found.correlation[i, j]))
        for i, one in enumerate(found.names)
        for j, two in enumerate(found.names[:i])
        if abs(found.correlation[i, j]) > 1e-9
    ]
    return tuple(sorted(pairs, key=lambda pair: -abs(pair[2])))
