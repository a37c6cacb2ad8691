"""Acceptance measured on one target and drafter, replayed exactly; it does not know other targets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from simulator.acceptance.base import AcceptanceError, Floats, draft_lengths, plain, resolve_kind
from simulator.acceptance.replay import StepTable, replay
from simulator.acceptance.schema import Trace
from simulator.acceptance.statistics import bootstrap, statistics_of

OWN_TRACES = "draftscope_traces"


@dataclass(frozen=True, kw_only=True, eq=False)
class TraceAcceptance:
    """The steps that a drafter takes on recorded responses.

    Attributes
    ----------
    trace : Trace
        Anchor trace.
    target_id, drafter_id : str or None
        What it is asked for; None takes the trace's own. Others are refused, unless `transfer`.
    transfer : bool
        Allow another target or drafter; `kind` is then "assumed".
    task : str or None
        Keep one task class.
    max_overlap : float or None
        Keep the responses that share at most this part of their 8-grams with training responses; None keeps
        all.
    min_prob : float or None
        Confidence stop of the drafter.
    sources : tuple of str
        Reference keys; the traces of this package by default.
    """

    trace: Trace
    target_id: str | None = None
    drafter_id: str | None = None
    transfer: bool = False
    task: str | None = None
    max_overlap: float | None = 0.2
    min_prob: float | None = None
    sources: tuple[str, ...] = (OWN_TRACES,)
    kind: str = field(default="measured", init=False)
    _tables: dict[tuple[int, str | None], StepTable] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        own = (self.trace.metadata.target_id, self.trace.metadata.drafter_id)
        asked = (self.target_id or own[0], self.drafter_id or own[1])
        kind = resolve_kind(
            "measured", where=self.trace.source, known=own, asked=asked, transfer=self.transfer
        )
        chosen = self.trace.filtered(
            max_overlap=self.max_overlap, tasks=None if self.task is None else [self.task]
        )
        if not (chosen.lengths > 1).any():
            raise AcceptanceError(
                f"{self.trace.source}: no response with a step is left for task {self.task or 'all'} and "
                f"max_overlap {self.max_overlap}; tasks there: {', '.join(self.trace.tasks)}."
            )
        values = {"trace": chosen, "target_id": asked[0], "drafter_id": asked[1], "kind": kind}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def id(self) -> str:
        """``smollm2_135m/mtp_head`` of the trace, with ``[task]``."""
        metadata = self.trace.metadata
        return f"{metadata.target_id}/{metadata.drafter_id}" + (f"[{self.task}]" if self.task else "")

    @property
    def max_draft_length(self) -> int:
        """Depth of the trace."""
        return self.trace.metadata.max_depth

    def kind_at(self, draft_length: int) -> str:
        """`kind`: every K up to the depth is measured."""
        return self.kind

    def steps(self, draft_length: int, *, task: str | None = None) -> StepTable:
        """The exact sequence of steps at K; ``task`` keeps one task class of those in the trace."""
        k = int(draft_lengths(draft_length, where=self.id, largest=self.max_draft_length))
        if (k, task) not in self._tables:
            part = self.trace if task is None else self.trace.filtered(max_overlap=None, tasks=[task])
            self._tables[k, task] = replay(part, k, min_prob=self.min_prob)
        return self._tables[k, task]

    def mean_acceptance_length(self, draft_length: ArrayLike) -> Any:
        """1 + accepted per step of the replay at each K."""
        k = draft_lengths(draft_length, where=self.id, largest=self.max_draft_length)
        distinct, which = np.unique(k, return_inverse=True)
        lengths = np.array([statistics_of(self.steps(int(one))).mean_acceptance_length for one in distinct])
        return plain(np.asarray(lengths[which].reshape(k.shape)))

    def per_position_acceptance_rate(self, draft_length: int) -> Floats:
        """S_k over the steps of the replay, (K,)."""
        return statistics_of(self.steps(draft_length)).per_position_acceptance_rate

    def interval(
        self, draft_length: int, *, rng: np.random.Generator | None = None, task: str | None = None
    ) -> tuple[float, float] | None:
        """95 % bootstrap interval of the mean acceptance length over requests, of one task class where given.

        None without a generator, and with fewer than two requests.
        """
        if rng is None:
            return None
        low, high = bootstrap(self.steps(draft_length, task=task), rng=rng)["mean_acceptance_length"]
        return None if np.isnan(low) or np.isnan(high) else (float(low), float(high))
