"""Rows of a comparison as designs (one drafter, one evidence, all draft lengths); it predicts nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from simulator.results import Result
from simulator.studies.compare import Comparison
from simulator.studies.rows import ALL_TASKS, Row

Record = dict[str, Any]
TRACED, PUBLISHED = "traced", "published"


@dataclass(kw_only=True)
class Design:
    """A drafter on a target and a device, with one evidence of its acceptance.

    Attributes
    ----------
    by_length : dict of int to Row
        Draft length -> all tasks together.
    tasks_by_length : dict of int to list of Row
        Draft length -> task by task.
    """

    by_length: dict[int, Row] = field(default_factory=dict)
    tasks_by_length: dict[int, list[Row]] = field(default_factory=dict)

    @property
    def first(self) -> Row:
        """Any row: device, target, drafter and block are the same in all."""
        return next(iter(self.by_length.values()))

    @property
    def known(self) -> bool:
        """True if its acceptance is known (plain decoding needs none)."""
        return self.first.decode_tokens_per_s is not None

    @property
    def plain(self) -> bool:
        """True for plain decoding."""
        return self.first.draft_length == 0

    @property
    def best(self) -> Row:
        """All tasks together at the draft length with the highest decode speed."""
        return max(self.by_length.values(), key=lambda row: row.decode_tokens_per_s or 0.0)

    def task_rows(self, task: str) -> list[Row]:
        """One task at every draft length."""
        return [row for rows in self.tasks_by_length.values() for row in rows if row.task == task]

    @property
    def tasks(self) -> list[str]:
        """Tasks in order."""
        return list(dict.fromkeys(row.task for rows in self.tasks_by_length.values() for row in rows))


def designs_of(comparison: Comparison) -> list[Design]:
    """Put the rows of a comparison (every length, every task) together.

    Rows of single tasks follow the row of all tasks; a design whose evidence is a single task has no others.
    """
    found: dict[tuple[Any, ...], Design] = {}
    current: tuple[Any, ...] = ()
    whole: Row | None = None
    for row in comparison.rows:
        same = whole is not None and _place(row) == _place(whole) and row.draft_length == whole.draft_length
        if same and whole is not None and whole.tasks > 1 and row.task != ALL_TASKS:
            found[current].tasks_by_length[row.draft_length].append(row)
            continue
        whole = row
        current = (*_place(row), row.acceptance)
        design = found.setdefault(current, Design())
        design.by_length[row.draft_length] = row
        single = [row] if row.task != ALL_TASKS else []
        design.tasks_by_length.setdefault(row.draft_length, single)
    return list(found.values())


def primary(designs: Iterable[Design]) -> list[Design]:
    """One design for each drafter: the evidence that answers for most draft lengths."""
    chosen: dict[tuple[Any, ...], Design] = {}
    for design in designs:
        key = _place(design.first)
        if key not in chosen or len(design.by_length) > len(chosen[key].by_length):
            chosen[key] = design
    return list(chosen.values())


def speedup_records(design: Design, task: str) -> list[Record]:
    """Speedup at every draft length for one task (or ``all``); the best draft length is marked."""
    rows = list(design.by_length.values()) if task == ALL_TASKS else design.task_rows(task)
    known = [row for row in rows if row.speedup is not None]
    if not known:
        return []
    top = max(known, key=lambda row: row.speedup or 0.0)
    return [{**_names(row), "task": task, "speedup": row.speedup, "speedup_low": row.speedup_low,
             "speedup_high": row.speedup_high, "best": row is top} for row in known]  # fmt: skip


def speed_records(designs: Iterable[Design], tasks: Iterable[str]) -> list[Record]:
    """Decode speed of each drafter and task at the best draft length of that drafter over all tasks."""
    records: list[Record] = []
    for design in designs:
        if not design.known or design.plain:
            continue
        rows = {row.task: row for row in design.tasks_by_length[design.best.draft_length]}
        rows.setdefault(ALL_TASKS, design.best)
        for task in tasks:
            if task in rows:
                records.append(_speed(rows[task], task))
    return [*records, *_plain_speeds(records, designs)]


def _plain_speeds(records: list[Record], designs: Iterable[Design]) -> list[Record]:
    """Plain decoding of the same tasks: the baseline of any drafted row of the task."""
    seen: dict[str, Record] = {}
    for record in records:
        seen.setdefault(record["task"], {
            **record, "drafter": "none", "label": "No drafter (plain decoding)", "draft_length": 0,
            "decode_tokens_per_s": record["baseline_tokens_per_s"],
            "decode_tokens_per_s_low": None, "decode_tokens_per_s_high": None,
        })  # fmt: skip
    return list(seen.values())


def _speed(row: Row, task: str) -> Record:
    speed, gain = row.decode_tokens_per_s or 0.0, row.speedup or 1.0
    return {
        **_names(row), "task": task, "decode_tokens_per_s": row.decode_tokens_per_s,
        "decode_tokens_per_s_low": row.decode_tokens_per_s_low,
        "decode_tokens_per_s_high": row.decode_tokens_per_s_high, "baseline_tokens_per_s": speed / gain,
    }  # fmt: skip


def energy_records(designs: Iterable[Design]) -> list[Record]:
    """Energy per emitted token by phase, mean over tasks, each drafter at its best draft length."""
    records: list[Record] = []
    for design in designs:
        if not design.known:
            continue
        row = design.best
        phases = _mean([
            {phase: value / _decoded(result) for phase, value in result.energy_ledger["phase"].items()}
            for result in row.results
        ])  # fmt: skip
        rejected_j = _average(
            result["energy_per_token_j"] * (result.energy_ledger["rejected_share"] or 0.0)
            for result in row.results
        )
        decode_j = _average(result["energy_per_token_j"] for result in row.results)
        shared = {"total_j": sum(phases.values()), "decode_j": decode_j, "rejected_j": rejected_j,
                  "rejected_share": rejected_j / decode_j}  # fmt: skip
        records += [{**_names(row), "phase": phase, "energy_per_token_j": value, **shared}
                    for phase, value in phases.items()]  # fmt: skip
    return records


def ram_records(designs: Iterable[Design], *, drafter_only: bool = False) -> list[Record]:
    """Peak RAM by part; the RAM of a design does not need its acceptance."""
    records: list[Record] = []
    for design in designs:
        row = design.best
        ledger = max(row.results, key=lambda result: float(result["peak_ram_bytes"])).ram_ledger
        if drafter_only:
            ledger = {part: value for part, value in ledger.items() if part.startswith("drafter_")}
        total = sum(ledger.values())
        if drafter_only and not total:
            continue
        records += [{**_names(row), "part": part, "ram_bytes": value, "total_bytes": total}
                    for part, value in ledger.items()]  # fmt: skip
    return records


def byte_records(designs: Iterable[Design]) -> list[Record]:
    """Bytes moved per emitted token by part, mean over tasks, each drafter at its best draft length."""
    records: list[Record] = []
    for design in designs:
        if design.known:
            ledger = _mean([result.byte_ledger for result in design.best.results])
            records += [{**_names(design.best), "part": part, "bytes_per_token": value,
                         "total_bytes": sum(ledger.values())} for part, value in ledger.items()]  # fmt: skip
    return records


def _decoded(result: Result) -> float:
    """Tokens after the first."""
    return float(result.inputs["output_tokens"]) - 1.0


def _place(row: Row) -> tuple[Any, ...]:
    return (row.block, row.device, row.runtime, row.engine, row.batch, row.target, row.drafter)


def _names(row: Row) -> Record:
    return {"block": row.block, "device": row.device, "target": row.target, "drafter": row.drafter,
            "label": row.label, "draft_length": row.draft_length, "control": row.control}  # fmt: skip


def _average(values: Iterable[float]) -> float:
    some = [float(value) for value in values]
    return sum(some) / len(some)


def _mean(ledgers: list[dict[str, Any]]) -> dict[str, float]:
    """Mean of ledgers, part by part; a part that one lacks counts as 0 there."""
    parts = dict.fromkeys(part for ledger in ledgers for part in ledger)
    return {part: _average(ledger.get(part, 0.0) for ledger in ledgers) for part in parts}
