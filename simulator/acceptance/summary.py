"""Tables of acceptance by task and draft length, and the comparison of two heads; it does not print.

Every statistic is over the steps of the replayed walk; anchor averages stand beside it under ``anchor_``
names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from zlib import crc32

import numpy as np

from simulator.acceptance.replay import StepTable, anchors, replay_many
from simulator.acceptance.schema import Trace, TraceError
from simulator.acceptance.statistics import (
    AcceptanceStatistics,
    bootstrap,
    interval,
    rates,
    request_sums,
    resample,
    statistics_of,
)

ALL_TASKS = "all"
_RATES = (
    "mean_acceptance_length",
    "tokens_per_step",
    "draft_acceptance_rate",
    "per_position_acceptance_rate",
    "conditional_acceptance_rate",
)


def _plain(value: Any) -> Any:
    """Floats and lists for records; NaN becomes None."""
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value.tolist()] if value.ndim else _plain(value.item())
    return None if value is None or np.isnan(value) else float(value)


def _rates_of(statistics: AcceptanceStatistics, prefix: str = "") -> dict[str, Any]:
    return {prefix + name: _plain(getattr(statistics, name)) for name in _RATES}


def _groups(trace: Trace, tasks: Iterable[str] | None) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
    """Request indices by task in the given order, and all of them under ``all``."""
    names = list(trace.tasks if tasks is None else dict.fromkeys(tasks))
    trace.filtered(max_overlap=None, tasks=names)  # refuses an unknown task
    of_task = np.array(trace.request_tasks)
    groups = {name: np.flatnonzero(of_task == name) for name in names}
    groups[ALL_TASKS] = np.flatnonzero(np.isin(of_task, names))
    return groups


def summarise(
    trace: Trace,
    *,
    draft_lengths: Sequence[int] = tuple(range(1, 9)),
    tasks: Iterable[str] | None = None,
    max_overlap: float | None = 0.2,
    min_prob: float | None = None,
    rng: np.random.Generator | None = None,
    replicates: int = 1000,
) -> list[dict[str, Any]]:
    """Acceptance by task and draft length.

    Parameters
    ----------
    trace : Trace
        Anchor trace.
    draft_lengths : sequence of int
        K, up to the depth of the trace.
    tasks : iterable of str or None
        Task classes; None takes all.
    max_overlap : float or None
        Leave out responses that share more of their 8-grams with training responses; None keeps all.
    min_prob : float or None
        Confidence stop.
    rng : numpy.random.Generator or None
        With a generator, ``mean_acceptance_length_low/high`` are bootstrap bounds over requests; else None.
    replicates : int
        Bootstrap resamples.

    Returns
    -------
    list of dict
        One record for each task (the last is ``all``, pooled over steps) and K: target, drafter, task,
        draft_length, max_overlap, requests, requests_removed, tokens, steps, drafted_steps, partial_steps,
        proposed, accepted, the statistics of `simulator.acceptance.statistics`, and the same over anchors as
        ``anchor_<name>``. A statistic without data is None.
    """
    groups = _groups(trace, tasks)
    keep = np.ones(trace.n_requests, dtype=bool) if max_overlap is None else _kept(trace, max_overlap)
    seed = None if rng is None else int(rng.integers(2**32))
    tables = replay_many(trace, draft_lengths, min_prob=min_prob)
    everywhere = {k: anchors(trace, k, min_prob=min_prob) for k in tables}
    records = []
    for task, members in groups.items():
        requests = members[keep[members]]
        for k, table in tables.items():
            part = table.of_requests(requests)
            statistics = statistics_of(part)
            low, high = _bounds(part, None if seed is None else _own_generator(seed, task, k), replicates)
            records.append(
                {
                    "target": trace.metadata.target_id,
                    "drafter": trace.metadata.drafter_id,
                    "task": task,
                    "draft_length": k,
                    "max_overlap": max_overlap,
                    "requests": len(requests),
                    "requests_removed": len(members) - len(requests),
                    "tokens": int(trace.lengths[requests].sum()),
                    "steps": statistics.steps,
                    "drafted_steps": statistics.drafted_steps,
                    "partial_steps": statistics.partial_steps,
                    "proposed": statistics.proposed,
                    "accepted": statistics.accepted,
                    **_rates_of(statistics),
                    "mean_acceptance_length_low": low,
                    "mean_acceptance_length_high": high,
                    **_rates_of(statistics_of(everywhere[k].of_requests(requests)), "anchor_"),
                }
            )
    return records


def _own_generator(seed: int, task: str, draft_length: int) -> np.random.Generator:
    """Generator of one row, whatever other rows are asked for."""
    return np.random.default_rng([seed, crc32(task.encode()), draft_length])


def _kept(trace: Trace, max_overlap: float) -> np.ndarray[Any, np.dtype[np.bool_]]:
    kept = set(trace.filtered(max_overlap=max_overlap).request_ids)
    return np.array([name in kept for name in trace.request_ids], dtype=bool)


def _bounds(
    table: StepTable, rng: np.random.Generator | None, replicates: int
) -> tuple[float | None, float | None]:
    if rng is None:
        return None, None
    low, high = bootstrap(table, rng=rng, replicates=replicates)["mean_acceptance_length"]
    return _plain(low), _plain(high)


def diff(
    trace_a: Trace,
    trace_b: Trace,
    *,
    rng: np.random.Generator,
    draft_lengths: Sequence[int] = (4,),
    max_overlap: float | None = 0.2,
    replicates: int = 2000,
) -> list[dict[str, Any]]:
    """Compare two heads on the same target and identical text: the gate for shipping a head update.

    Parameters
    ----------
    trace_a, trace_b : Trace
        Old and new head. Target (id and hash), requests and texts must be the same.
    rng : numpy.random.Generator
        For the paired bootstrap over requests.
    draft_lengths : sequence of int
        K to compare at.
    max_overlap : float or None
        A request is kept if its overlap is at most this in both traces (the heads may differ in training
        data).
    replicates : int
        Resamples.

    Returns
    -------
    list of dict
        One record for each task (the last is ``all``) and K: both values of each rate, and of the mean
        acceptance length the ``difference`` b - a with its 95 % bounds and a ``verdict``: "up" or "down"
        where the interval excludes 0, "same" otherwise, "unknown" without data.

    Raises
    ------
    TraceError
        Naming the first difference, where target, requests or text differ.
    """
    trace_b = trace_b.take(_same_text(trace_a, trace_b))
    keep = np.ones(trace_a.n_requests, dtype=bool)
    if max_overlap is not None:
        keep = _kept(trace_a, max_overlap) & _kept(trace_b, max_overlap)
    tables_a, tables_b = replay_many(trace_a, draft_lengths), replay_many(trace_b, draft_lengths)
    seed = int(rng.integers(2**32))
    records = []
    for task, members in _groups(trace_a, None).items():
        requests = members[keep[members]]
        for k in tables_a:
            part_a, part_b = tables_a[k].of_requests(requests), tables_b[k].of_requests(requests)
            of_a, of_b = statistics_of(part_a), statistics_of(part_b)
            change = of_b.mean_acceptance_length - of_a.mean_acceptance_length
            low, high = _paired(part_a, part_b, _own_generator(seed, task, k), replicates)
            records.append(
                {
                    "target": trace_a.metadata.target_id,
                    "drafter_a": trace_a.metadata.drafter_id,
                    "drafter_b": trace_b.metadata.drafter_id,
                    "task": task,
                    "draft_length": k,
                    "requests": len(requests),
                    **{f"{name}_a": value for name, value in _rates_of(of_a).items()},
                    **{f"{name}_b": value for name, value in _rates_of(of_b).items()},
                    "difference": _plain(change),
                    "difference_low": _plain(low),
                    "difference_high": _plain(high),
                    "verdict": _verdict(change, low, high),
                }
            )
    return records


def is_regression(records: Iterable[dict[str, Any]]) -> bool:
    """Whether any task of a `diff` went down: such an update is not shipped."""
    return any(record["verdict"] == "down" for record in records)


def _verdict(change: float, low: float, high: float) -> str:
    if np.isnan(change):
        return "unknown"
    if low > 0:
        return "up"
    return "down" if high < 0 else "same"


def _paired(
    part_a: StepTable, part_b: StepTable, rng: np.random.Generator, replicates: int
) -> tuple[float, float]:
    """Bounds of the difference of mean acceptance lengths, the same requests drawn for both."""
    if part_a.n_requests < 2:
        return float("nan"), float("nan")
    weights = resample(part_a.n_requests, rng=rng, replicates=replicates)
    length_a, length_b = (
        rates(weights @ request_sums(part))["mean_acceptance_length"] for part in (part_a, part_b)
    )
    low, high = interval(length_b - length_a)
    return float(low), float(high)


def _same_text(trace_a: Trace, trace_b: Trace) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Requests of b in the order of a; TraceError at the first difference of target, requests or text."""
    where = f"{trace_a.source} and {trace_b.source}"
    for name in ("target_id", "target_sha256"):
        value_a, value_b = getattr(trace_a.metadata, name), getattr(trace_b.metadata, name)
        if value_a != value_b:
            raise TraceError(
                f"{where}: {name} differs: {value_a!r} and {value_b!r}; only one target can be compared."
            )
    row_of = {name: index for index, name in enumerate(trace_b.request_ids)}
    for name in sorted(set(trace_a.request_ids) ^ set(row_of)):
        raise TraceError(f"{where}: request {name!r} stands in one trace only.")
    order = np.array([row_of[name] for name in trace_a.request_ids], dtype=np.int64)
    for index_a, index_b in enumerate(order):
        name = trace_a.request_ids[index_a]
        if trace_a.request_tasks[index_a] != trace_b.request_tasks[index_b]:
            raise TraceError(f"{where}: request {name!r}: the task differs.")
        text_a = trace_a["token"][trace_a.start[index_a] : trace_a.start[index_a + 1]]
        text_b = trace_b["token"][trace_b.start[index_b] : trace_b.start[index_b + 1]]
        if not np.array_equal(text_a, text_b):
            shared = min(len(text_a), len(text_b))
            differ = np.flatnonzero(text_a[:shared] != text_b[:shared])
            at = int(differ[0]) if len(differ) else shared
            tokens = [str(text[at]) if at < len(text) else "the end" for text in (text_a, text_b)]
            raise TraceError(
                f"{where}: request {name!r}, position {at}: the text differs ({tokens[0]} and {tokens[1]}); "
                "acceptance can be compared on identical text only."
            )
    return order
