"""The steps of a response as sums of contexts: listed, expected, or in closed form; costs are unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.acceptance.replay import StepTable
from simulator.lowering.affine import ContextSums, Quantity
from simulator.lowering.params import CostParams
from simulator.physics.renewal import (
    expected_step_sums,
    step_start_probability,
    sum_of_contexts,
    sum_of_windowed_contexts,
)


@dataclass(frozen=True, kw_only=True)
class VerifyGroup:
    """Steps that verify the same number of drafts.

    Attributes
    ----------
    proposed : int or array
        Drafts ``K`` in the pass of width ``K + 1``.
    accepted : float or array
        Accepted drafts of all these steps together.
    sums : ContextSums
        Their contexts.
    """

    proposed: Quantity
    accepted: Quantity
    sums: ContextSums


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What one response asks for (mean over the requests where there are several).

    Attributes
    ----------
    decoded_tokens : float or array
        Tokens after the first one.
    verify : tuple of VerifyGroup
        Target passes.
    drafts, catch_ups : ContextSums
        Draft passes of width 1 and of width 2.
    draft_passes : float or array
        Passes of both kinds together.
    wasted_draft_share : float or array
        Share of the drafted tokens that were rejected or stopped.
    mean_acceptance_length : float or array
        1 + accepted drafts per step.
    plain : ContextSums
        The passes of plain decoding of the same tokens.
    """

    decoded_tokens: Quantity
    verify: tuple[VerifyGroup, ...]
    drafts: ContextSums
    catch_ups: ContextSums
    draft_passes: Quantity
    wasted_draft_share: Quantity
    mean_acceptance_length: Quantity
    plain: ContextSums

    @property
    def steps(self) -> Quantity:
        """Steps of the response."""
        return sum(group.sums.count for group in self.verify)

    @property
    def proposed(self) -> Quantity:
        """Drafts verified in the response."""
        return sum(group.sums.count * group.proposed for group in self.verify)

    @property
    def accepted(self) -> Quantity:
        """Drafts accepted in the response."""
        return sum(group.accepted for group in self.verify)


def workload_of_steps(
    params: CostParams, table: StepTable, *, prompt_tokens: Quantity | None = None
) -> Workload:
    """Exact sums over listed steps, of a trace or of a live log.

    Parameters
    ----------
    params : CostParams
        For the drafter's way of drafting, its windows, and a fixed context.
    table : Steps
        The steps, requests contiguous.
    prompt_tokens : float, optional
        Start every response at this context instead of the table's own.

    Returns
    -------
    Workload
        Mean over the requests.
    """
    order, first_row = np.unique(table.request, return_index=True)
    requests = len(order)
    which = np.searchsorted(order, table.request)
    start = table.context[first_row].astype(float)
    shift = 0.0 if prompt_tokens is None else (float(prompt_tokens) - start)[which]
    contexts = table.context + shift
    if prompt_tokens is not None:
        start = np.full(requests, float(prompt_tokens))
    if params.fixed_context is not None:
        contexts = np.full(len(contexts), float(params.fixed_context))
    share = 1.0 / requests
    decoded = np.bincount(which, weights=table.emitted, minlength=requests)
    proposed = np.asarray(table.proposed)
    passes = np.asarray(table.draft_passes if params.passes_per_step == "per_draft" else proposed)
    groups = []
    for width in np.unique(proposed):
        rows = proposed == width
        groups.append(VerifyGroup(
            proposed=int(width), accepted=float(table.accepted[rows].sum()) * share,
            sums=ContextSums.of(contexts[rows], params.windows) * share,
        ))  # fmt: skip
    caught = _after_full_accept(table, passes) if params.catch_up else np.zeros(len(contexts), dtype=bool)
    drafts = _draft_sums(params, contexts, passes, caught)
    drafted = float(passes.sum())
    accepted = float(table.accepted.sum())
    return Workload(
        decoded_tokens=float(decoded.sum()) * share,
        verify=tuple(groups),
        drafts=drafts * share,
        catch_ups=ContextSums.of(contexts[caught], params.windows) * share,
        draft_passes=float(np.sum(params.draft_passes(passes))) * share,
        wasted_draft_share=(drafted - accepted) / drafted if drafted else 0.0,
        mean_acceptance_length=1.0 + accepted / max(len(contexts), 1),
        plain=plain_sums(params, start, decoded) * share,
    )


def _after_full_accept(table: StepTable, passes: NDArray[Any]) -> NDArray[np.bool_]:
    """Steps whose drafter has not seen the last accepted draft yet, and that draft again."""
    full = (np.asarray(table.accepted) == passes) & (passes > 0)
    after = np.concatenate(([False], full[:-1]))
    same = np.concatenate(([False], np.asarray(table.request[1:]) == np.asarray(table.request[:-1])))
    result: NDArray[np.bool_] = after & same & (passes > 0)
    return result


def _draft_sums(
    params: CostParams, contexts: NDArray[Any], passes: NDArray[Any], caught: NDArray[np.bool_],
    weights: NDArray[Any] | None = None,
) -> ContextSums:  # fmt: skip
    """Draft passes of width 1; pass i of an own-cache drafter sees ``n + i``."""
    share = np.ones(len(contexts)) if weights is None else weights
    if params.passes_per_step == "none" or not len(contexts):
        return ContextSums.of([], params.windows)
    if params.passes_per_step == "one" or params.draft_context != "own":
        return ContextSums.of(contexts, params.windows, share * params.draft_passes(passes))
    total = ContextSums.of([], params.windows)
    moving = 0.0 if params.fixed_context is not None else 1.0
    for i in range(int(passes.max(initial=0))):
        runs = share * ((passes > i) & ~(caught & (i == 0)))
        total = total + ContextSums.of(contexts + i * moving, params.windows, runs)
    return total


def plain_sums(params: CostParams, start: NDArray[Any], decoded: NDArray[Any]) -> ContextSums:
    """Passes of plain decoding, all requests together.

    Parameters
    ----------
    params : CostParams
        For its windows, and a fixed context.
    start, decoded : array, shape (requests,)
        Prompt, and tokens after the first one.
    """
    if params.fixed_context is not None:
        return _fixed(params.fixed_context, float(decoded.sum()), params.windows)
    return ContextSums(
        count=float(decoded.sum()),
        tokens=float(sum_of_contexts(first=start, count=decoded).sum()),
        windowed={
            window: float(sum_of_windowed_contexts(first=start, count=decoded, window=float(window)).sum())
            for window in params.windows
        },
    )


def _fixed(context: Quantity, count: Quantity, windows: tuple[int, ...]) -> ContextSums:
    return ContextSums(
        count=count, tokens=count * context,
        windowed={window: count * np.minimum(context, window) for window in windows},
    )  # fmt: skip


def expected_workload(params: CostParams, per_position_acceptance_rate: Sequence[float]) -> Workload:
    """Exact expectation of one response under stationary acceptance, context growing.

    Parameters
    ----------
    params : CostParams
        One design (plain numbers, whole tokens).
    per_position_acceptance_rate : sequence of float
        Unconditional ``S_1 .. S_K``, one entry a draft; empty for plain decoding.
    """
    survival = [float(each) for each in per_position_acceptance_rate]
    decoded, length = round(float(params.output_tokens)) - 1, len(survival)
    starts = step_start_probability(per_position_acceptance_rate=survival, decoded_tokens=decoded)
    first = float(params.prompt_tokens)
    contexts = first + np.arange(decoded)
    if params.fixed_context is not None:
        contexts = np.full(decoded, float(params.fixed_context))
    tau = 1.0 + sum(survival)
    after = np.zeros(decoded)
    if params.catch_up and length and decoded > length + 1:
        after[length + 1 :] = survival[-1] * starts[: decoded - length - 1]
    none_caught = np.zeros(decoded, dtype=bool)
    drafts = _draft_sums(params, contexts, np.full(decoded, length), none_caught, starts)
    caught = ContextSums.of(contexts, params.windows, after)
    if params.catch_up:
        drafts = drafts + caught * -1.0
    sums = ContextSums.of(contexts, params.windows, starts)
    return Workload(
        decoded_tokens=float(decoded),
        verify=(VerifyGroup(proposed=length, accepted=(tau - 1.0) * sums.count, sums=sums),),
        drafts=drafts,
        catch_ups=caught,
        draft_passes=sums.count * float(params.draft_passes(float(length))),
        wasted_draft_share=1.0 - (tau - 1.0) / length if length else 0.0,
        mean_acceptance_length=tau,
        plain=ContextSums.of(contexts, params.windows),
    )


def closed_form_workload(params: CostParams, per_position_acceptance_rate: Sequence[Quantity]) -> Workload:
    """The same expectation in closed form, for arrays of designs.

    Equal to :func:`expected_workload` up to terms that vanish geometrically with the length of the response
    (see :func:`simulator.physics.renewal.expected_step_sums`); a window that fills up within the first few
    tokens of a response is taken as open for all of them.

    Parameters
    ----------
    params : CostParams
        Designs.
    per_position_acceptance_rate : sequence of float or array
        ``S_1 .. S_Kmax``, zero beyond each design's own draft length.
    """
    decoded, length, windows = params.output_tokens - 1.0, params.draft_length, params.windows
    rate, extra, moment = expected_step_sums(
        per_position_acceptance_rate=per_position_acceptance_rate, decoded_tokens=decoded
    )
    tau = 1.0 / rate

    def passes_from(first: Quantity, count: Quantity) -> ContextSums:
        if params.fixed_context is not None:
            return _fixed(params.fixed_context, rate * count + extra, windows)
        return ContextSums(
            count=rate * count + extra,
            tokens=rate * sum_of_contexts(first=first, count=count) + extra * first + moment,
            windowed={window: windowed(first, count, window) for window in windows},
        )

    def windowed(first: Quantity, count: Quantity, window: int) -> Quantity:
        inside = sum_of_windowed_contexts(first=first, count=count, window=float(window))
        return rate * inside + extra * np.minimum(first, window) + moment * (first < window)

    steps = passes_from(params.prompt_tokens, decoded)
    drafts, caught = ContextSums.of([], windows), ContextSums.of([], windows)
    if params.passes_per_step == "one" or (
        params.passes_per_step == "per_draft" and params.draft_context != "own"
    ):
        drafts = steps * params.draft_passes(length)
    elif params.passes_per_step == "per_draft":
        moving = 0.0 if params.fixed_context is not None else 1.0
        seen: dict[int, Quantity] = dict.fromkeys(windows, 0.0)
        for i, window in product(range(int(np.max(length))), windows):
            shifted = passes_from(params.prompt_tokens + i * moving, decoded).windowed[window]
            seen[window] = seen[window] + shifted * (length > i)
        drafts = ContextSums(
            count=steps.count * length,
            tokens=length * (steps.tokens + moving * steps.count * (0.5 * (length - 1.0))),
            windowed=seen,
        )
        if params.catch_up:
            ahead = np.minimum(length + 1.0, decoded)
            full = sum(
                (survival * (length == k) for k, survival in enumerate(per_position_acceptance_rate, 1)), 0.0
            )
            caught = passes_from(params.prompt_tokens + ahead, decoded - ahead) * (full * (decoded > ahead))
            drafts = drafts + caught * -1.0
    return Workload(
        decoded_tokens=decoded,
        verify=(VerifyGroup(proposed=length, accepted=(tau - 1.0) * steps.count, sums=steps),),
        drafts=drafts,
        catch_ups=caught,
        draft_passes=steps.count * params.draft_passes(length),
        wasted_draft_share=(length - (tau - 1.0)) / np.maximum(length, 1.0),
        mean_acceptance_length=tau,
        plain=_closed_plain(params, decoded),
    )


def _closed_plain(params: CostParams, decoded: Quantity) -> ContextSums:
    if params.fixed_context is not None:
        return _fixed(params.fixed_context, decoded, params.windows)
    first = params.prompt_tokens
    return ContextSums(
        count=decoded,
        tokens=sum_of_contexts(first=first, count=decoded),
        windowed={
            window: sum_of_windowed_contexts(first=first, count=decoded, window=float(window))
            for window in params.windows
        },
    )
