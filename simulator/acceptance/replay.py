"""Exact replay of a drafted chain over an anchor trace; it does not know trees, or what a step costs.

Greedy exact verification never changes the text, so a chain of length K visits the anchors t, t+a+1, ... of
the recorded response. At anchor t with R = N - 1 - t response tokens left, of the drafts proposed there the
longest prefix equal to y_{t+1}, y_{t+2}, ... is accepted (a <= R); the step emits min(a + 1, R) tokens.
Where a = R the response ends before the bonus token: the step is *partial*. A one-token response has no
steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.acceptance.schema import Trace, TraceError

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class StepTable:
    """One row per step (or per anchor), in order; all columns have shape (steps,).

    Attributes
    ----------
    draft_length : int
        K of the replay; the largest number of proposals for a live log.
    n_requests : int
        Requests behind the table, those without a step included.
    request : ndarray of int
        Index of the request in its trace.
    position : ndarray of int
        Anchor t: response tokens emitted before the step, less one.
    context : ndarray of int
        Tokens whose KV is cached when the step starts.
    proposed, accepted, emitted : ndarray of int
        Draft tokens proposed and accepted; tokens emitted, bonus included.
    draft_passes : ndarray of int
        Drafts computed: with a confidence stop, one more than proposed where the stop fired.
    remaining : ndarray of int
        Response tokens still to come when the step starts, R.
    """

    draft_length: int
    n_requests: int
    request: Ints
    position: Ints
    context: Ints
    proposed: Ints
    accepted: Ints
    emitted: Ints
    draft_passes: Ints
    remaining: Ints

    def __len__(self) -> int:
        return len(self.request)

    @property
    def partial(self) -> NDArray[np.bool_]:
        """Steps whose bonus token lies beyond the end of the response."""
        result: NDArray[np.bool_] = self.emitted == self.accepted
        return result

    def of_requests(self, requests: Ints) -> StepTable:
        """The steps of some requests, renumbered in the given order."""
        number = np.full(self.n_requests, -1, dtype=np.int64)
        number[requests] = np.arange(len(requests))
        chosen = number[self.request]
        order = np.flatnonzero(chosen >= 0)
        order = order[np.argsort(chosen[order], kind="stable")]
        columns = {name: getattr(self, name)[order] for name in STEP_COLUMNS}
        columns["request"] = chosen[order]
        return StepTable(draft_length=self.draft_length, n_requests=len(requests), **columns)


STEP_COLUMNS = (
    "request",
    "position",
    "context",
    "proposed",
    "accepted",
    "emitted",
    "draft_passes",
    "remaining",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Anchors:
    """What replay needs at every anchor, independent of K; arrays of shape (rows,)."""

    match: Ints  # drafts equal to the text before the first miss
    offered: Ints  # drafts before the confidence stop
    computed: Ints  # the same, with the one that fell below the threshold
    remaining: Ints
    request: Ints


def _check_draft_length(trace: Trace, draft_length: int) -> None:
    if not 0 <= draft_length <= trace.metadata.max_depth:
        depth = trace.metadata.max_depth
        raise TraceError(
            f"{trace.source}: draft_length: given {draft_length}, allowed: 0..{depth} (the trace's depth)."
        )


def _anchors(trace: Trace, depth: int, min_prob: float | None) -> _Anchors:
    remaining, proposed = trace.remaining, trace["proposed"].astype(np.int64)
    token, draft = trace["token"], trace["draft_token"]
    match = np.zeros(trace.n_rows, dtype=np.int64)
    alive = np.ones(trace.n_rows, dtype=bool)
    for k in range(1, depth + 1):
        # Rows past the end of a request compare with the next request; `remaining` masks them.
        truth = np.concatenate([token[k:], np.full(min(k, len(token)), -2, dtype=token.dtype)])
        alive &= (draft[:, k - 1] == truth) & (remaining >= k)
        match += alive
    computed = offered = proposed
    if min_prob is not None:
        if not 0 <= min_prob <= 1:
            raise TraceError(f"min_prob: given {min_prob}, allowed: 0..1 or None.")
        weak = ~(trace["draft_top1_prob"] >= np.float32(min_prob))
        confident = np.where(weak.any(axis=1), weak.argmax(axis=1), trace.metadata.max_depth)
        offered = np.minimum(proposed, confident)
        computed = np.minimum(proposed, confident + 1)
    request = np.repeat(np.arange(trace.n_requests), trace.lengths)
    return _Anchors(match=match, offered=offered, computed=computed, remaining=remaining, request=request)


def _table(trace: Trace, at: _Anchors, draft_length: int, *, every_anchor: bool) -> StepTable:
    proposed = np.minimum(at.offered, draft_length)
    accepted = np.minimum(at.match, proposed)
    emitted = np.minimum(accepted + 1, at.remaining)
    if every_anchor:
        rows = np.flatnonzero(at.remaining > 0)
    else:
        visited = _visited(np.arange(trace.n_rows) + np.maximum(emitted, 1))
        rows = visited[at.remaining[visited] > 0]
    columns: dict[str, Any] = {
        "request": at.request,
        "position": trace["position"],
        "context": trace["context_length"],
        "proposed": proposed,
        "accepted": accepted,
        "emitted": emitted,
        "draft_passes": np.minimum(at.computed, draft_length),
        "remaining": at.remaining,
    }
    return StepTable(
        draft_length=draft_length,
        n_requests=trace.n_requests,
        **{name: column[rows].astype(np.int64) for name, column in columns.items()},
    )


def _visited(following: Ints) -> Ints:
    """Rows on the walk 0, following[0], ...

    The last row of a request leads to the first row of the next one, so that one walk passes through all
    requests. A plain loop over Python integers takes about 0.1 us a step, whether there are many short
    responses or a few long ones; a lock step over requests would be slow for the latter.
    """
    jump, row, rows = following.tolist(), 0, []
    while row < len(jump):
        rows.append(row)
        row = jump[row]
    return np.array(rows, dtype=np.int64)


def replay_many(
    trace: Trace, draft_lengths: Iterable[int], *, min_prob: float | None = None
) -> dict[int, StepTable]:
    """Replay several chain lengths; the comparison with the text is done once.

    Parameters
    ----------
    trace : Trace
        Anchor trace.
    draft_lengths : iterable of int
        K, each 0..D; K = 0 is plain decoding.
    min_prob : float or None
        Confidence stop: a draft whose top-1 probability is below it is computed but neither proposed nor
        continued.

    Returns
    -------
    dict of int to StepTable
        The exact sequence of steps for each K.
    """
    lengths = [int(length) for length in draft_lengths]
    for length in lengths:
        _check_draft_length(trace, length)
    at = _anchors(trace, max(lengths, default=0), min_prob)
    return {length: _table(trace, at, length, every_anchor=False) for length in lengths}


def replay(trace: Trace, draft_length: int, *, min_prob: float | None = None) -> StepTable:
    """Replay one chain length; see `replay_many`."""
    return replay_many(trace, [draft_length], min_prob=min_prob)[draft_length]


def anchors(trace: Trace, draft_length: int, *, min_prob: float | None = None) -> StepTable:
    """The same step taken at *every* anchor: for anchor averages, which over-represent easy text."""
    _check_draft_length(trace, draft_length)
    return _table(trace, _anchors(trace, draft_length, min_prob), draft_length, every_anchor=True)
