"""Acceptance statistics over steps, and their bootstrap intervals; it does not know where steps come from.

With n steps, of which step i proposed p_i drafts, accepted a_i and had R_i response tokens left:

- ``mean_acceptance_length`` = 1 + sum a_i / n: the bonus token counts in every step, the partial last one
  included (as vLLM, but over all steps: vLLM leaves out steps without a proposal, see ``drafted_steps``);
- ``tokens_per_step`` = sum of emitted tokens / n: a partial step emits no bonus token;
- ``draft_acceptance_rate`` = sum a_i / sum p_i: drafts beyond the end of the response count as proposed;
- ``per_position_acceptance_rate[k]`` = (steps with a_i >= k) / n, unconditional as in vLLM, so that
  ``mean_acceptance_length`` = 1 + its sum;
- ``conditional_acceptance_rate[k]`` = (steps with a_i >= k) / (steps with a_i >= k - 1, p_i >= k and R_i >=
  k): only steps where draft k was proposed, was reached and could be judged.

A quotient without a denominator is NaN.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.acceptance.replay import StepTable, replay
from simulator.acceptance.schema import Trace

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class AcceptanceStatistics:
    """What the module docstring defines, for one table of steps.

    Attributes
    ----------
    draft_length, steps, drafted_steps, partial_steps : int
        K; steps; steps with at least one proposal; steps cut by the end of the response.
    proposed, accepted, emitted : int
        Sums over the steps.
    mean_acceptance_length, tokens_per_step, draft_acceptance_rate : float
        Means over the steps.
    per_position_acceptance_rate, conditional_acceptance_rate : ndarray, (K,)
        By draft position 1..K.
    """

    draft_length: int
    steps: int
    drafted_steps: int
    partial_steps: int
    proposed: int
    accepted: int
    emitted: int
    mean_acceptance_length: float
    tokens_per_step: float
    draft_acceptance_rate: float
    per_position_acceptance_rate: Floats
    conditional_acceptance_rate: Floats


def request_sums(table: StepTable) -> Floats:
    """Sums by request, (n_requests, 4 + 2K): steps, proposed, accepted, emitted, a >= k, judged at k."""
    k = np.arange(1, table.draft_length + 1)
    reached = table.accepted[:, None] >= k
    judged = (table.accepted[:, None] >= k - 1) & (np.minimum(table.proposed, table.remaining)[:, None] >= k)
    ones = np.ones(len(table), dtype=np.int64)
    rows = np.column_stack([ones, table.proposed, table.accepted, table.emitted, reached, judged])
    running = np.concatenate([np.zeros((1, rows.shape[1]), dtype=np.int64), np.cumsum(rows, axis=0)])
    first = np.searchsorted(table.request, np.arange(table.n_requests + 1))
    return np.asarray(np.diff(running[first], axis=0), dtype=np.float64)


def _ratio(over: Floats, under: Floats) -> Floats:
    unknown = np.full(np.broadcast_shapes(over.shape, under.shape), np.nan)
    return np.asarray(np.divide(over, under, out=unknown, where=under > 0))


def rates(sums: Floats) -> dict[str, Floats]:
    """Statistics from sums of shape (..., 4 + 2K); scalars have shape (...), positions (..., K)."""
    n_positions = (sums.shape[-1] - 4) // 2
    steps, proposed, accepted, emitted = (sums[..., i] for i in range(4))
    reached, judged = sums[..., 4 : 4 + n_positions], sums[..., 4 + n_positions :]
    return {
        "mean_acceptance_length": 1 + _ratio(accepted, steps),
        "tokens_per_step": _ratio(emitted, steps),
        "draft_acceptance_rate": _ratio(accepted, proposed),
        "per_position_acceptance_rate": _ratio(reached, steps[..., None]),
        "conditional_acceptance_rate": _ratio(reached, judged),
    }


def statistics_of(table: StepTable) -> AcceptanceStatistics:
    """Statistics over all steps of a table (for an anchor table: anchor averages)."""
    values = rates(request_sums(table).sum(axis=0))
    return AcceptanceStatistics(
        draft_length=table.draft_length,
        steps=len(table),
        drafted_steps=int((table.proposed > 0).sum()),
        partial_steps=int(table.partial.sum()),
        proposed=int(table.proposed.sum()),
        accepted=int(table.accepted.sum()),
        emitted=int(table.emitted.sum()),
        mean_acceptance_length=float(values["mean_acceptance_length"]),
        tokens_per_step=float(values["tokens_per_step"]),
        draft_acceptance_rate=float(values["draft_acceptance_rate"]),
        per_position_acceptance_rate=values["per_position_acceptance_rate"],
        conditional_acceptance_rate=values["conditional_acceptance_rate"],
    )


def walk(trace: Trace, draft_length: int, *, min_prob: float | None = None) -> AcceptanceStatistics:
    """Replay a chain and return the statistics over its steps."""
    return statistics_of(replay(trace, draft_length, min_prob=min_prob))


def resample(n_requests: int, *, rng: np.random.Generator, replicates: int) -> Floats:
    """Bootstrap weights over requests, (replicates, n_requests): how often each request is drawn."""
    return rng.multinomial(n_requests, np.full(n_requests, 1 / n_requests), size=replicates).astype(
        np.float64
    )


def interval(values: Floats, *, level: float = 0.95) -> tuple[Floats, Floats]:
    """Percentile interval over the first axis; NaN replicates are left out, all-NaN columns stay NaN."""
    low, high = np.full(values.shape[1:], np.nan), np.full(values.shape[1:], np.nan)
    known = ~np.isnan(values).all(axis=0)
    if known.any():
        tail = (1 - level) / 2
        low[known], high[known] = np.nanquantile(values[:, known], [tail, 1 - tail], axis=0)
    return low, high


def bootstrap(
    table: StepTable, *, rng: np.random.Generator, replicates: int = 1000, level: float = 0.95
) -> dict[str, tuple[Floats, Floats]]:
    """Intervals (low, high) of each statistic, requests resampled with replacement.

    Steps of one response depend on each other, so requests and not steps are resampled. With fewer than two
    requests there is nothing to resample: all bounds are NaN.

    Parameters
    ----------
    table : StepTable
        Steps; ``n_requests`` is the sample size.
    rng : numpy.random.Generator
        The run's generator.
    replicates : int
        Resamples.
    level : float
        Coverage of the percentile interval.
    """
    sums = request_sums(table)
    if table.n_requests < 2:
        values = rates(np.full((1, sums.shape[1]), np.nan))
    else:
        values = rates(resample(table.n_requests, rng=rng, replicates=replicates) @ sums)
    return {name: interval(value, level=level) for name, value in values.items()}
