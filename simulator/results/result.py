"""The frozen Result of a prediction or a simulation, and how it is written; it computes nothing."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from simulator.files import whole_file
from simulator.results.registry import metric
from simulator.units import readable, rounded

KINDS = ("published", "measured", "derived", "assumed")  # strongest first


class StepRecord(NamedTuple):
    """One step of a simulated response.

    Attributes
    ----------
    request, step : int
        Request and step number in it.
    context : int
        Tokens whose KV is cached when the step starts.
    proposed, accepted, emitted : int
        Drafts, accepted drafts, tokens emitted.
    start_s, draft_s, verify_s, host_s : float
        Start and durations of the phases [s].
    energy_j : float
        Energy of the step [J].
    """

    request: int
    step: int
    context: int
    proposed: int
    accepted: int
    emitted: int
    start_s: float
    draft_s: float
    verify_s: float
    host_s: float
    energy_j: float = 0.0


def weakest_kind(kinds: Iterable[str]) -> str:
    """Weakest of some kinds of cited values; ``published`` if there are none.

    Parameters
    ----------
    kinds : iterable of str
        ``published``, ``measured``, ``derived`` or ``assumed``.
    """
    return max(kinds, key=KINDS.index, default=KINDS[0])


def digest_of(value: Any) -> str:
    """Return the sha256 of a nested value of mappings, sequences, numbers, strings and arrays.

    Parameters
    ----------
    value : object
        What went into a computation.
    """
    return hashlib.sha256(json.dumps(_plain(value), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one design costs on one device. Equal for the closed form and for the event engine.

    Attributes
    ----------
    inputs : dict
        Ids and numbers asked for: device, runtime, engine, target, drafter, acceptance, draft_length, batch,
        prompt_tokens, output_tokens, task.
    metrics : dict of str to float or array
        By name of the metric registry.
    byte_ledger : dict of str to float or array
        Bytes moved per emitted token of decode, by part.
    ram_ledger : dict of str to float or array
        Peak RAM by part [B]; the sum is ``peak_ram_bytes``.
    energy_ledger : dict
        ``rail`` and ``phase``: energy of one response [J] by part, each summing to ``request_energy_j``;
        ``rejected_share``: share of the decode energy that rejected drafts cost.
    intervals : dict of str to (low, high)
        From the ranges of the cited inputs.
    confidence : str
        Weakest kind of the inputs used.
    confidence_by_group : dict of str to str
        The same for ``time``, ``energy``, ``memory`` and ``acceptance``.
    references : tuple of str
        Sources of all inputs used.
    inputs_digest : str
        sha256 of every input value.
    seed : int or None
        Seed of the run, None where nothing was drawn.
    version : str
        Version of draftscope.
    method : str
        ``analytic`` or ``engine``.
    notes : tuple of str
        What a reader must know, one sentence each.
    steps : tuple of StepRecord
        Steps of a simulation; empty for the closed form. Not written to files.
    """

    inputs: dict[str, Any]
    metrics: dict[str, Any]
    byte_ledger: dict[str, Any]
    ram_ledger: dict[str, Any]
    energy_ledger: dict[str, Any]
    intervals: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    confidence: str = "assumed"
    confidence_by_group: dict[str, str] = field(default_factory=dict)
    references: tuple[str, ...] = ()
    inputs_digest: str = ""
    seed: int | None = None
    version: str = ""
    method: str = "analytic"
    notes: tuple[str, ...] = ()
    steps: tuple[StepRecord, ...] = ()

    def __getitem__(self, name: str) -> Any:
        """Value of a metric; an unknown name is answered with the nearest one."""
        if name not in self.metrics:
            metric(name)
        return self.metrics[name]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the steps, with plain numbers and lists; not-a-number becomes None."""
        names = [each.name for each in fields(self) if each.name != "steps"]
        plain = _plain({name: getattr(self, name) for name in names})
        return dict(plain)

    def to_json(self, path: str | Path | None = None, *, indent: int | None = 2) -> str:
        """JSON text, also written to ``path`` where one is given.

        Parameters
        ----------
        path : str, Path or None
            File to write.
        indent : int or None
            Indentation.
        """
        return _written(json.dumps(self.to_dict(), indent=indent, allow_nan=False), path)

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Tables of inputs, metrics and ledgers as Markdown, in units to read; also written to ``path``.

        Parameters
        ----------
        path : str, Path or None
            File to write.
        """
        lines = [f"# {self.inputs.get('drafter', '')} on {self.inputs.get('device', '')} ({self.method})", ""]
        lines += _table(
            ("input", "value"),
            [(name, _asked(value, mean=name.endswith("_tokens"))) for name, value in self.inputs.items()],
        )
        rows: list[tuple[str, ...]] = []
        for name, value in self.metrics.items():
            unit, scale = readable(metric(name).unit, _largest(value))
            low, high = self.intervals.get(name, (None, None))
            span = "" if low is None else f"{_shown(low, scale)} to {_shown(high, scale)}"
            rows.append((metric(name).label, _shown(value, scale), unit, span))
        lines += _table(("metric", "value", "unit", "interval"), rows, numbers=(1, 3))
        tables = (
            ("bytes per token", "B/token", self.byte_ledger),
            ("RAM", "B", self.ram_ledger),
            ("energy of a response by rail", "J", self.energy_ledger.get("rail", {})),
            ("energy of a response by phase", "J", self.energy_ledger.get("phase", {})),
        )
        for title, si, ledger in tables:
            unit, scale = readable(si, max(map(_largest, ledger.values()), default=0.0))
            parts = [(part, _shown(value, scale)) for part, value in ledger.items()]
            lines += _table((title, unit), parts, numbers=(1,))
        wasted = self.energy_ledger.get("rejected_share")
        if wasted is not None:
            lines += [f"Rejected drafts: {_shown(wasted, 0.01)} % of the energy of decoding.", ""]
        lines += [f"Confidence: {self.confidence}. Sources: {', '.join(self.references) or 'none'}.", ""]
        lines += [f"- {note}" for note in self.notes]
        return _written("\n".join(lines).rstrip() + "\n", path)

    def to_rows(self) -> list[dict[str, Any]]:
        """One flat record a design: inputs, metrics, intervals and ledgers with dotted names."""
        flat: dict[str, Any] = {}
        for name, value in self.inputs.items():
            flat[name] = json.dumps(_plain(value)) if isinstance(value, (dict, list, tuple)) else value
        flat |= self.metrics
        for name, (low, high) in self.intervals.items():
            flat |= {f"{name}_low": low, f"{name}_high": high}
        groups: dict[str, Mapping[str, Any]] = {
            "bytes": self.byte_ledger, "ram": self.ram_ledger,
            "energy.rail": self.energy_ledger.get("rail", {}),
            "energy.phase": self.energy_ledger.get("phase", {}),
        }  # fmt: skip
        for group, ledger in groups.items():
            flat |= {f"{group}.{part}": value for part, value in ledger.items()}
        flat["energy.rejected_share"] = self.energy_ledger.get("rejected_share")
        flat |= {"confidence": self.confidence, "method": self.method, "version": self.version,
                 "seed": self.seed, "inputs_digest": self.inputs_digest,
                 "notes": " ".join(self.notes)}  # fmt: skip
        designs = max((np.size(value) for value in flat.values() if isinstance(value, np.ndarray)), default=1)
        return [
            {key: _plain(value.flat[i] if isinstance(value, np.ndarray) and value.size > 1 else value)
             for key, value in flat.items()}
            for i in range(designs)
        ]  # fmt: skip

    def to_parquet(self, path: str | Path) -> None:
        """Write :meth:`to_rows` as Parquet; references and notes go to the metadata key ``draftscope``.

        Parameters
        ----------
        path : str or Path
            File to write.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_pylist(self.to_rows())
        extra = {"references": self.references, "notes": self.notes, "version": self.version}
        table = table.replace_schema_metadata({b"draftscope": json.dumps(extra).encode()})
        with whole_file(path) as temporary:
            pq.write_table(table, temporary)


def _written(text: str, path: str | Path | None) -> str:
    if path is not None:
        with whole_file(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return text


def _plain(value: Any) -> Any:
    """Plain Python for JSON: arrays to lists, NumPy numbers to numbers, not-a-number and infinity to None."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value) if isinstance(value, (set, frozenset)) else value
        return [_plain(item) for item in items]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (str, int, bool)):
        return value
    if hasattr(value, "__dataclass_fields__"):
        return _plain(asdict(value))
    return str(value)


def _asked(value: Any, *, mean: bool) -> str:
    """An input as it was given: a number in full, several as their range; a fraction of a token is a mean."""
    if value is None:
        return "-"
    if isinstance(value, np.ndarray):
        return f"{value.size} values, {value.min():g} to {value.max():g}" if value.size else "none"
    if not isinstance(value, (float, np.floating)):
        return str(value)
    return f"{value:.1f} (mean)" if mean and not float(value).is_integer() else f"{value:g}"


def _shown(value: Any, scale: float = 1.0) -> str:
    if isinstance(value, np.ndarray):
        if not value.size:
            return "none"
        return f"{value.size} values, {rounded(value.min() / scale)} to {rounded(value.max() / scale)}"
    return rounded(value / scale)


def _largest(value: Any) -> float:
    """The largest of the finite numbers in a value; 0 where there is none."""
    numbers = np.abs(np.asarray(value, dtype=float))
    return float(np.max(numbers, initial=0.0, where=np.isfinite(numbers)))


def _table(
    head: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, numbers: tuple[int, ...] = ()
) -> list[str]:
    """A Markdown table, columns padded, those of ``numbers`` aligned to the right."""
    if not rows:
        return []
    cells = [tuple(cell.replace("|", "\\|") for cell in row) for row in (head, *rows)]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(head))]
    rule = ["-" * (width - 1) + (":" if i in numbers else "-") for i, width in enumerate(widths)]
    padded = [
        [cell.rjust(width) if i in numbers else cell.ljust(width)
         for i, (cell, width) in enumerate(zip(row, widths, strict=True))]
        for row in cells
    ]  # fmt: skip
    return [f"| {' | '.join(row)} |" for row in (padded[0], rule, *padded[1:])] + [""]
