"""A CSV of one's own: documented columns, the unit in the name; it does not guess.

``kind`` is ``pass``, ``prefill`` or ``run``. Times are ``time_s``, ``time_ms`` or ``time_us`` of one pass,
one prompt or all steps of a run, with ``stderr_`` before the name for the standard error.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from types import MappingProxyType

from simulator.adapters.fields import Record, Source, mixed
from simulator.adapters.fields import row as table_row
from simulator.adapters.observations import (
    MeasurementError,
    Observations,
    PassTime,
    PrefillTime,
    SpeculativeRun,
)
from simulator.errors import UnknownNameError, nearest

_SCALE = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
_TIMES = tuple(f"time_{unit}" for unit in _SCALE)
_WHOLE_FILE = ("device", "runtime", "model", "weight_bytes", "peak_bandwidth_bytes_per_s")
_COUNTS = ("steps", "drafted_tokens", "accepted_tokens", "output_tokens")

COLUMNS: Mapping[str, str] = MappingProxyType(
    {
        "kind": "pass, prefill or run",
        "width": "rows of the pass (pass)",
        "context": "tokens in the cache before it (pass, prefill; 0 where empty)",
        "tokens": "tokens of the prompt (prefill)",
        **dict.fromkeys(_TIMES, "time of one pass, of the prompt, or of all steps of a run"),
        **{f"stderr_{name}": "standard error of it" for name in _TIMES},
        "passes": "passes behind the mean (pass)",
        "drafter": "name of the drafter (run)",
        "draft_length": "drafts proposed per step at most (run)",
        "steps": "steps (run)",
        "drafted_tokens": "draft tokens proposed (run)",
        "accepted_tokens": "draft tokens accepted (run)",
        "output_tokens": "tokens emitted by the steps, the first token of a response left out (run)",
        "baseline_tokens_per_s": "plain decoding of the same target (run)",
        "task": "what was written (run)",
        "device": "one for the whole file",
        "runtime": "one for the whole file",
        "model": "one for the whole file",
        "weight_bytes": "one for the whole file",
        "peak_bandwidth_bytes_per_s": "one for the whole file",
    }
)
"""Column -> meaning."""


def recognised(source: Source) -> bool:
    """Whether the first line names the column ``kind`` and a time."""
    text = source.decoded
    if text is None:
        return False
    header = next((line for line in source.lines if line.strip() and not line.startswith("#")), "")
    names = [name.strip().strip('"') for name in header.split(",")]
    return "kind" in names and any(name.startswith("time") for name in names)


def read(source: Source) -> Observations:
    """Read the rows."""
    records = _records(source)
    whole = _whole_file(records)
    passes, prefills, runs = [], [], []
    for record in records:
        kind = record.text("kind")
        if kind == "pass":
            passes.append(
                PassTime(
                    width=record.number("width", least=1, whole=True),
                    context=record.optional("context") or 0.0,
                    seconds=_seconds(record),
                    stderr_s=_stderr(record),
                    passes=int(record.optional("passes", least=1, whole=True) or 1),
                    where=record.where,
                )
            )
        elif kind == "prefill":
            prefills.append(
                PrefillTime(
                    tokens=record.number("tokens", least=1),
                    seconds=_seconds(record),
                    stderr_s=_stderr(record),
                    context=record.optional("context") or 0.0,
                    where=record.where,
                )
            )
        elif kind == "run":
            runs.append(_run(record))
        else:
            raise UnknownNameError(record.at("kind"), kind or "", ("pass", "prefill", "run"))
    return Observations(
        source=source.path,
        format="generic_csv",
        device=whole.text("device"),
        runtime=whole.text("runtime"),
        model=whole.text("model"),
        weight_bytes=whole.optional("weight_bytes", above=True),
        peak_bandwidth_bytes_per_s=whole.optional("peak_bandwidth_bytes_per_s", above=True),
        passes=tuple(passes),
        prefills=tuple(prefills),
        runs=tuple(runs),
    )


def _records(source: Source) -> list[Record]:
    lines = [line if not line.lstrip().startswith("#") else "" for line in source.lines]
    reader = csv.reader(lines, strict=True)
    header: list[str] | None = None
    records = []
    try:
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            place = f"{source.path}:{reader.line_num}"
            cells = [cell.strip() for cell in row]
            if header is None:
                header = cells
                _check_header(header, place)
                continue
            records.append(table_row(header, cells, source.path, reader.line_num))
    except csv.Error as error:
        raise MeasurementError(f"{source.path}:{reader.line_num}: not CSV: {error}.") from None
    if not records:
        raise MeasurementError(f"{source.path}: no row.")
    return records


def _check_header(header: list[str], place: str) -> None:
    for name in header:
        if name not in COLUMNS:
            close = nearest(name, COLUMNS)
            hint = f"; nearest: {close!r}" if close else ""
            raise MeasurementError(f"{place}: unknown column {name!r}{hint}. Allowed: {', '.join(COLUMNS)}.")
        if header.count(name) > 1:
            raise MeasurementError(f"{place}: column {name!r} stands twice.")
    if "kind" not in header:
        raise MeasurementError(f"{place}: column 'kind' is missing; allowed values: pass, prefill, run.")


def _whole_file(records: list[Record]) -> Record:
    """What holds for the whole file; two values of it are two files."""
    given: dict[str, str] = {}
    places: dict[str, str] = {}
    for record in records:
        for name in _WHOLE_FILE:
            value = record.text(name)
            if value is None:
                continue
            if given.setdefault(name, value) != value:
                raise mixed(record.at(name), value, given[name], name)
            places.setdefault(name, record.place)
    return Record(given, records[0].path, records[0].place, places)


def _seconds(record: Record, *, prefix: str = "") -> float:
    names = [name for name in _TIMES if record.has(prefix + name)]
    if len(names) != 1:
        given = ", ".join(prefix + name for name in names) or "none"
        raise MeasurementError(
            f"{record.at(prefix + _TIMES[0])}: given {given}; allowed: one of "
            f"{', '.join(prefix + name for name in _TIMES)}."
        )
    scale = _SCALE[names[0].removeprefix("time_")]
    return record.number(prefix + names[0], above=not prefix) * scale


def _stderr(record: Record) -> float | None:
    if not any(record.has(f"stderr_{name}") for name in _TIMES):
        return None
    return _seconds(record, prefix="stderr_")


def _run(record: Record) -> SpeculativeRun:
    length = record.optional("draft_length", whole=True)
    steps, drafted, accepted, output = (record.optional(name) for name in _COUNTS)
    return SpeculativeRun(
        drafter=record.text("drafter") or "unknown",
        draft_length=None if length is None else int(length),
        steps=steps,
        drafted_tokens=drafted,
        accepted_tokens=accepted,
        output_tokens=output,
        decode_s=_seconds(record) if any(record.has(name) for name in _TIMES) else None,
        baseline_tokens_per_s=record.optional("baseline_tokens_per_s", above=True),
        task=record.text("task"),
        where=record.where,
    )
