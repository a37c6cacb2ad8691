"""``draftscope trace``: record, summarise and compare acceptance traces (`simulator.acceptance`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from simulator.cli.compare import trace_files
from simulator.cli.output import DEFAULT, Output, table
from simulator.cli.parsing import names, number, share, whole_numbers
from simulator.errors import DraftscopeError, UnknownNameError
from simulator.units import rounded

if TYPE_CHECKING:
    from simulator.acceptance.schema import Trace

TRACED_TARGET = "smollm2_135m"


def summary(
    traces: str | None = None,
    /,
    *,
    target: str = TRACED_TARGET,
    drafters: Annotated[str, Parameter(name=["--drafters", "--drafter"])] = "all",
    tasks: Annotated[str, Parameter(name=["--tasks", "--task"])] = "all",
    draft_length: str = "1-8",
    max_overlap: str = "0.2",
    min_prob: str | None = None,
    bootstrap: bool = True,
    output: Output = DEFAULT,
) -> int:
    """Acceptance per task and drafter, over the steps of the replayed walk.

    Once over the prompts that pass the overlap filter and once over all of them.

    Parameters
    ----------
    traces
        Trace files or folders, comma-separated; the shipped ones where omitted.
    target
        Target of the shipped traces.
    drafters
        Trace names, comma-separated, or "all".
    tasks
        Task classes, comma-separated, or "all".
    draft_length
        Draft lengths K.
    max_overlap
        Leave out responses that share more than this part of their 8-grams with training text; "none": no
        filter.
    min_prob
        Confidence stop: drafts below this top-1 probability are not proposed.
    bootstrap
        95 % intervals of the mean acceptance length over requests.
    """
    output.check()
    lengths = whole_numbers(draft_length, where="--draft-length", minimum=1)
    limit = share(max_overlap, where="--max-overlap")
    stop = number(min_prob, where="--min-prob", maximum=1.0)
    wanted = None if tasks == "all" else names(tasks)
    from numpy.random import default_rng

    from simulator.acceptance.summary import summarise

    chosen = _chosen(traces, target, None if drafters == "all" else names(drafters))
    records = []
    for trace in chosen:
        depth = trace.metadata.max_depth
        known = [length for length in lengths if length <= depth]
        if not known:
            raise DraftscopeError(
                f"--draft-length: {draft_length!r} given; {trace.source} has depth {depth}."
            )
        for overlap in [limit] if limit is None else [limit, None]:
            records += summarise(
                trace, draft_lengths=known, tasks=wanted, max_overlap=overlap, min_prob=stop,
                rng=default_rng(0) if bootstrap else None, replicates=300,
            )  # fmt: skip
    output.emit(records, command="trace summary", markdown=lambda: _summary(records))
    return 0


def _chosen(given: str | None, target: str, drafters: Sequence[str] | None) -> list[Trace]:
    from simulator.acceptance.trace import load_shipped, read_trace, shipped_targets, shipped_traces

    if given is not None:
        loaded = [read_trace(path) for path in trace_files(given)]
    elif not shipped_targets():
        raise DraftscopeError(
            "no acceptance traces are shipped with this installation; give trace files, or record them with: "
            "draftscope trace collect"
        )
    else:
        loaded = [load_shipped(target, name) for name in shipped_traces(target)]
    known = [trace.metadata.drafter_id for trace in loaded]
    for name in drafters or ():
        if name not in known:
            raise UnknownNameError("--drafters", name, known)
    return [trace for trace in loaded if drafters is None or trace.metadata.drafter_id in drafters]


def _summary(records: Sequence[dict[str, Any]]) -> str:
    parts = []
    for (target, drafter, overlap), group in groupby(
        records, key=lambda record: (record["target"], record["drafter"], record["max_overlap"])
    ):
        rows = list(group)
        kept = "all prompts" if overlap is None else f"prompts with overlap <= {overlap:g}"
        parts.append(f"## {drafter} on {target}, {kept}\n\n" + _lengths(rows))
        if overlap is None and any(record["max_overlap"] is not None for record in records):
            continue
        longest = max(row["draft_length"] for row in rows)
        last = [row for row in rows if row["draft_length"] == longest]
        for name, title in (
            ("per_position_acceptance_rate", "Per position: P(draft k and all before it accepted)"),
            ("conditional_acceptance_rate", "Conditional: P(draft k accepted, given all before it)"),
        ):
            parts.append(f"{title}, steps at K = {longest}\n\n" + _positions(last, name, longest))
    return "\n".join(parts)


def _lengths(rows: Sequence[dict[str, Any]]) -> str:
    """Mean acceptance length by task and K; n is requests, removed those of the filter."""
    lengths = list(dict.fromkeys(row["draft_length"] for row in rows))
    cells = []
    for task, group in groupby(rows, key=lambda row: row["task"]):
        by_length = {row["draft_length"]: row for row in group}
        first = next(iter(by_length.values()))
        counts = (str(first["requests"]), str(first["requests_removed"]), str(first["tokens"]))
        cells.append((task, *counts, *(_length(by_length[length]) for length in lengths)))
    return table(("mean acceptance length", "n", "removed", "tokens", *(f"K={k}" for k in lengths)), cells)


def _length(row: dict[str, Any]) -> str:
    value, low, high = (row[f"mean_acceptance_length{end}"] for end in ("", "_low", "_high"))
    half = "" if value is None or low is None else f" ±{(high - low) / 2:.2f}"
    return "-" if value is None else f"{value:.2f}{half}"


def _positions(rows: Sequence[dict[str, Any]], name: str, longest: int) -> str:
    cells = [
        (row["task"], str(row["steps"]), *(rounded(value, 2) for value in row[name] or [None] * longest))
        for row in rows
    ]
    return table(("task", "steps", *(f"k={k}" for k in range(1, longest + 1))), cells)


def diff(
    old: Path,
    new: Path,
    /,
    *,
    draft_length: str = "4",
    max_overlap: str = "0.2",
    output: Output = DEFAULT,
) -> int:
    """Compare two heads on the same target and text: the gate for shipping a head update.

    Exit status 1 where a task went down.

    Parameters
    ----------
    old
        Trace of the head that is shipped.
    new
        Trace of the head that is to replace it.
    draft_length
        Draft lengths K.
    max_overlap
        Leave out responses above this overlap with training text in either trace; "none" keeps all.
    """
    output.check()
    lengths = whole_numbers(draft_length, where="--draft-length", minimum=1)
    limit = share(max_overlap, where="--max-overlap")
    from numpy.random import default_rng

    from simulator.acceptance.summary import diff as differences
    from simulator.acceptance.summary import is_regression
    from simulator.acceptance.trace import read_trace

    records = differences(
        read_trace(old), read_trace(new), rng=default_rng(0), draft_lengths=lengths, max_overlap=limit
    )
    worse = is_regression(records)
    output.emit(records, command="trace diff", markdown=lambda: _diff(records, worse),
                extra={"regression": worse})  # fmt: skip
    return 1 if worse else 0


def _diff(records: Iterable[dict[str, Any]], worse: bool) -> str:
    rows = [
        (
            record["task"],
            str(record["draft_length"]),
            str(record["requests"]),
            rounded(record["mean_acceptance_length_a"]),
            rounded(record["mean_acceptance_length_b"]),
            _signed(record),
            record["verdict"],
        )
        for record in records
    ]
    head = ("task", "K", "n", "old length", "new length", "difference [95 %]", "verdict")
    verdict = "A task went down: do not ship." if worse else "No task went down."
    return table(head, rows) + "\nThe text is identical. " + verdict + "\n"


def _signed(record: dict[str, Any]) -> str:
    value, low, high = (record[f"difference{end}"] for end in ("", "_low", "_high"))
    if value is None:
        return "-"
    return f"{value:+.2f}" if low is None else f"{value:+.2f} [{low:+.2f}..{high:+.2f}]"
