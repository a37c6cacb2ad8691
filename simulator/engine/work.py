"""What is asked of the engine: requests and their steps, replayed or drawn; it does not know costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from simulator.acceptance.base import Acceptance, sample_accepted
from simulator.acceptance.replay import StepTable
from simulator.errors import DraftscopeError

PlannedStep = tuple[float, int, int, int, int]
"""Context at the start, drafts proposed, accepted, tokens emitted, drafts computed."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One prompt and the steps that answer it.

    Attributes
    ----------
    prompt_tokens : float
        Prompt.
    steps : list of PlannedStep
        In order; the first output token comes from the prefill.
    """

    prompt_tokens: float
    steps: list[PlannedStep]


def replayed(table: StepTable, *, prompt_tokens: float | None = None) -> list[Request]:
    """Requests of listed steps.

    Parameters
    ----------
    table : StepTable
        The steps, requests contiguous.
    prompt_tokens : float, optional
        Start every response at this context instead of the table's own.

    Raises
    ------
    DraftscopeError
        For a table without steps.
    """
    if not len(table):
        raise DraftscopeError("acceptance: the trace has no steps for this task; allowed: at least one.")
    request = np.asarray(table.request)
    bounds = [0, *(np.flatnonzero(request[1:] != request[:-1]) + 1).tolist(), len(request)]
    context = np.asarray(table.context, dtype=float)
    requests = []
    for first, end in pairwise(bounds):
        own = float(context[first])
        start = own if prompt_tokens is None else float(prompt_tokens)
        columns = (table.proposed, table.accepted, table.emitted, table.draft_passes)
        plain = (column[first:end].tolist() for column in columns)
        moved = (context[first:end] + (start - own)).tolist()
        requests.append(Request(prompt_tokens=start, steps=list(zip(moved, *plain, strict=True))))
    return requests


def undrafted(*, prompt_tokens: float, decoded_tokens: int) -> Request:
    """Return a request that is decoded plainly.

    Parameters
    ----------
    prompt_tokens : float
        Prompt.
    decoded_tokens : int
        Tokens after the first one.
    """
    steps = [(prompt_tokens + t, 0, 0, 1, 0) for t in range(decoded_tokens)]
    return Request(prompt_tokens=prompt_tokens, steps=steps)


def drawn(
    acceptance: Acceptance, *, draft_length: int, prompt_tokens: float, decoded_tokens: int,
    replications: int, rng: np.random.Generator,
) -> Iterator[Request]:  # fmt: skip
    """Requests whose steps are drawn from the per-position rates of a model, one after the other.

    Parameters
    ----------
    acceptance : Acceptance
        Model; steps are independent.
    draft_length : int
        Drafts per step.
    prompt_tokens : float
        Prompt.
    decoded_tokens : int
        Tokens after the first one. The last step is partial where it accepts more than is still wanted.
    replications : int
        Requests.
    rng : numpy.random.Generator
        The run's generator.

    Raises
    ------
    DraftscopeError
        For a model of many designs.
    """
    if acceptance.per_position_acceptance_rate(draft_length).shape != (draft_length,):
        raise DraftscopeError(f"acceptance: {acceptance.id} given; allowed: one rate (the engine simulates "
                              "one design; predict takes arrays).")  # fmt: skip
    for _ in range(replications):
        accepted = sample_accepted(acceptance, draft_length, size=decoded_tokens, rng=rng)
        ends = np.cumsum(accepted + 1)
        count = int(np.searchsorted(ends, decoded_tokens)) + 1
        starts = np.concatenate(([0], ends[: count - 1]))
        emitted = np.minimum(accepted[:count] + 1, decoded_tokens - starts)
        columns = ((starts + prompt_tokens).tolist(), accepted[:count].tolist(), emitted.tolist())
        steps = [(n, draft_length, a, e, draft_length) for n, a, e in zip(*columns, strict=True)]
        yield Request(prompt_tokens=prompt_tokens, steps=steps)
