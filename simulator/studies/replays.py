"""Traces whose replays are kept, so that many designs can ask for the same steps; it does not know cost."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.acceptance.base import draft_lengths
from simulator.acceptance.replay import StepTable, anchors, replay_many
from simulator.acceptance.schema import Trace
from simulator.acceptance.traced import TraceAcceptance

NORMAL_95 = 1.959964
"""Half width of a 95 % interval in standard errors."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ReplayedTrace(TraceAcceptance):
    """A trace acceptance that replays all draft lengths at once and takes tasks out of the pooled steps.

    Attributes
    ----------
    any_drafter : bool
        Use the recorded text only (draft length 0): it holds for every drafter of the target.
    pooled : ReplayedTrace or None
        For one task: the acceptance of all tasks, whose steps are used.
    """

    any_drafter: bool = False
    pooled: ReplayedTrace | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.any_drafter:
            object.__setattr__(self, "drafter_id", None)

    def steps(self, draft_length: int, *, task: str | None = None) -> StepTable:
        """The exact sequence of steps at K; ``task`` keeps one task class."""
        k = int(draft_lengths(draft_length, where=self.id, largest=self.max_draft_length))
        if (k, task) in self._tables:
            return self._tables[k, task]
        if task is not None:
            self._tables[k, task] = self.steps(k).of_requests(self.requests_of(task))
        elif self.pooled is not None and self.task is not None:
            self._tables[k, None] = self.pooled.steps(k, task=self.task)
        elif k == 0:
            self._tables[0, None] = anchors(self.trace, 0)  # without drafts the walk visits every anchor
        else:
            wanted = range(1, self.max_draft_length + 1)
            tables = replay_many(self.trace, wanted, min_prob=self.min_prob)
            self._tables.update({(length, None): table for length, table in tables.items()})
        return self._tables[k, task]

    def interval(
        self, draft_length: int, *, rng: np.random.Generator | None = None, task: str | None = None
    ) -> tuple[float, float] | None:
        """95 % interval of the mean acceptance length over requests (of one task); None with fewer than two.

        The length is 1 + a ratio of two sums over requests, accepted drafts and steps; its standard error is
        that of the linearised ratio, ``sqrt(n / (n - 1) sum (a_i - r s_i)^2) / sum s_i``.
        """
        table = self.steps(draft_length, task=task)
        steps, accepted = sums_by_request(table)
        count, total = len(steps), steps.sum()
        if count < 2 or not total:
            return None
        ratio = accepted.sum() / total
        error = np.sqrt(count / (count - 1) * ((accepted - ratio * steps) ** 2).sum()) / total
        low, high = np.clip(1 + ratio + NORMAL_95 * error * np.array([-1, 1]), 1, draft_length + 1)
        return float(low), float(high)

    def of_task(self, task: str) -> ReplayedTrace:
        """The same acceptance on one task class, with its own interval."""
        return _of_task(self, task)

    def requests_of(self, task: str) -> NDArray[np.int64]:
        """Indices of the requests of a task class; an unknown one raises UnknownNameError."""
        self.trace.filtered(max_overlap=None, tasks=[task])
        return np.flatnonzero(np.array(self.trace.request_tasks) == task)


def sums_by_request(table: StepTable) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Steps and accepted drafts of each request that has a step.

    Parameters
    ----------
    table : StepTable
        Steps.
    """
    size = table.n_requests
    steps = np.asarray(np.bincount(table.request, minlength=size), dtype=np.float64)
    accepted = np.asarray(np.bincount(table.request, table.accepted, size), dtype=np.float64)
    return steps[steps > 0], accepted[steps > 0]


def replayed(
    trace: Trace | str | os.PathLike[str], *, tasks: Iterable[str] | None = None, **options: Any
) -> ReplayedTrace:
    """A trace or its file as acceptance; equal questions are replayed once in a process.

    Parameters
    ----------
    trace : Trace or path
        Anchor trace.
    tasks : iterable of str, optional
        Keep these task classes of those in the trace.
    **options
        Fields of `ReplayedTrace`: target_id, drafter_id, transfer, max_overlap, min_prob, any_drafter.
    """
    known = loaded(trace)
    wanted = None if tasks is None else tuple(task for task in known.tasks if task in set(tasks))
    return _replayed(known, wanted, tuple(sorted(options.items())))


@lru_cache(maxsize=64)
def _replayed(
    trace: Trace, tasks: tuple[str, ...] | None, options: tuple[tuple[str, Any], ...]
) -> ReplayedTrace:
    chosen = trace if tasks is None else trace.filtered(max_overlap=None, tasks=tasks)
    return ReplayedTrace(trace=chosen, **dict(options))


@lru_cache(maxsize=512)
def _of_task(pooled: ReplayedTrace, task: str) -> ReplayedTrace:
    return ReplayedTrace(
        trace=pooled.trace,
        task=task,
        pooled=pooled,
        target_id=pooled.target_id,
        drafter_id=pooled.drafter_id,
        transfer=pooled.transfer,
        max_overlap=pooled.max_overlap,
        min_prob=pooled.min_prob,
        sources=pooled.sources,
    )


def loaded(trace: Trace | str | os.PathLike[str]) -> Trace:
    """A trace as it is; a file is read once in a process, as long as it does not change."""
    if isinstance(trace, Trace):
        return trace
    file = Path(trace)
    stamp = file.stat() if file.is_file() else None
    return _read(file, None if stamp is None else (stamp.st_mtime_ns, stamp.st_size))


@lru_cache(maxsize=16)
def _read(path: Path, _stamp: tuple[int, int] | None) -> Trace:
    from simulator.acceptance.trace import read_trace

    return read_trace(path)
