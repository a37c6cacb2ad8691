"""Traces whose replays are kept, so that many designs can ask for the same steps; it does not know cost."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from simulator.acceptance.base import draft_lengths
from simulator.acceptance.replay import StepTable, replay_many
from simulator.acceptance.schema import Trace
from simulator.acceptance.statistics import bootstrap
from simulator.acceptance.traced import TraceAcceptance

REPLICATES = 300
"""Bootstrap resamples: enough for the two digits of an interval that are shown."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ReplayedTrace(TraceAcceptance):
    """A trace acceptance that replays all draft lengths at once and takes tasks out of the pooled steps.

    Attributes
    ----------
    any_drafter : bool
        Use the recorded text only (draft length 0): it holds for every drafter of the target.
    """

    any_drafter: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.any_drafter:
            object.__setattr__(self, "drafter_id", None)

    def steps(self, draft_length: int, *, task: str | None = None) -> StepTable:
        """The exact sequence of steps at K; ``task`` keeps one task class."""
        k = int(draft_lengths(draft_length, where=self.id, largest=self.max_draft_length))
        if (k, task) in self._tables:
            return self._tables[k, task]
        if task is None:
            wanted = [0] if k == 0 else range(1, self.max_draft_length + 1)
            tables = replay_many(self.trace, wanted, min_prob=self.min_prob)
            self._tables.update({(length, None): table for length, table in tables.items()})
        else:
            self._tables[k, task] = self.steps(k).of_requests(self.requests_of(task))
        return self._tables[k, task]

    def interval(
        self, draft_length: int, *, rng: np.random.Generator | None = None
    ) -> tuple[float, float] | None:
        """95 % bootstrap interval of the mean acceptance length over requests; None without a generator."""
        if rng is None:
            return None
        bounds = bootstrap(self.steps(draft_length), rng=rng, replicates=REPLICATES)
        low, high = bounds["mean_acceptance_length"]
        return float(low), float(high)

    def requests_of(self, task: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Indices of the requests of a task class; an unknown one raises UnknownNameError."""
        self.trace.filtered(max_overlap=None, tasks=[task])
        found: np.ndarray[tuple[int], np.dtype[np.int64]]
        found = np.flatnonzero(np.array(self.trace.request_tasks) == task)
        return found


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
