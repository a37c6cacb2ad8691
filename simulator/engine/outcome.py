"""Served requests to the totals, metrics and intervals of a Result; it runs nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.engine.session import Served
from simulator.engine.statistics import jackknife_interval, leave_one_out, percentiles
from simulator.lowering import ContextSums, CostParams
from simulator.lowering.affine import Quantity
from simulator.lowering.finish import Case
from simulator.lowering.outcome import Decode, PassTotals, decode_totals, metrics_of, plain_totals
from simulator.lowering.workload import VerifyGroup, Workload, plain_sums

Reduction = Callable[[NDArray[Any]], Quantity]


@dataclass(frozen=True, kw_only=True)
class ServedCase(Case):
    """A case whose prefills were simulated.

    Attributes
    ----------
    served : sequence of Served
        Requests.
    """

    served: Sequence[Served]

    def prefills(self) -> tuple[PassTotals, PassTotals]:
        """Prefill of the target and of the drafter, mean over the requests."""
        return _totals(self.served, "prefill", np.mean), _totals(self.served, "draft_prefill", np.mean)


def case_of(params: CostParams, served: Sequence[Served]) -> ServedCase:
    """Case of served requests; prompt and output of the longest one set the RAM.

    Parameters
    ----------
    params : CostParams
        Costs.
    served : sequence of Served
        Requests, at least one.
    """
    longest = max(served, key=lambda each: each.prompt_tokens + each.decoded_tokens)
    return ServedCase(
        params=replace(params, prompt_tokens=longest.prompt_tokens,
                       output_tokens=longest.decoded_tokens + 1.0),
        work=_workload(params, served),
        prompt_tokens=float(np.mean([each.prompt_tokens for each in served])),
        served=served,
    )  # fmt: skip


def decode_of(case: ServedCase) -> Decode:
    """Decode totals, mean over the requests; bytes by part and rejected energy from the passes that ran.

    Parameters
    ----------
    case : ServedCase
        Costs and requests.
    """
    listed = decode_totals(case.params, case.work)
    found = _decode(case, np.mean)
    return replace(found, bytes_by_part=listed.bytes_by_part, macs=listed.macs, rejected_j=listed.rejected_j)


def intervals_of(case: ServedCase, point: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """95 % confidence intervals of every metric over equal requests with drawn steps.

    Parameters
    ----------
    case : ServedCase
        Costs and requests.
    point : dict of str to float
        Metrics over all of them.
    """
    if len(case.served) < 2:
        return {}
    values, _ = metrics_of(
        case.params,
        _decode(case, leave_one_out),
        plain_totals(case.params, case.work),
        prefill=_totals(case.served, "prefill", leave_one_out),
        draft_prefill=_totals(case.served, "draft_prefill", leave_one_out),
        prompt_tokens=case.prompt_tokens,
    )
    return jackknife_interval(point, values)


def distributions_of(served: Sequence[Served]) -> dict[str, float]:
    """p50, p90 and p99 of what a user waits for.

    Parameters
    ----------
    served : sequence of Served
        Requests.

    Returns
    -------
    dict of str to float
        ``ttft_p50_s`` and so on over requests, ``itl_p50_s`` over all deliveries (a step delivers all its
        tokens at once), ``request_time_p50_s`` over requests.
    """
    waits = [step.draft_s + step.verify_s + step.host_s for each in served for step in each.steps]
    return {
        **percentiles("ttft", [each.ttft_s for each in served]),
        **percentiles("itl", waits),
        **percentiles("request_time", [each.ttft_s + each.decode_s for each in served]),
    }


def _decode(case: ServedCase, over: Reduction) -> Decode:
    params, served = case.params, case.served
    one = params.verify_cost(1)

    def column(value: Callable[[Served], float]) -> Quantity:
        return over(np.array([value(each) for each in served]))

    at_one = [PassTotals.of(one, _sum(sums for _, sums in each.verify_sums.values())) for each in served]
    steps = column(lambda each: len(each.steps))
    accepted = column(lambda each: sum(step.accepted for step in each.steps))
    passes = column(lambda each: each.drafts.count + each.catch_ups.count)
    if params.passes_per_step == "per_draft":
        passes = column(lambda each: each.drafted)
    elif params.passes_per_step == "one":
        passes = column(lambda each: sum(step.proposed > 0 for step in each.steps))
    return Decode(
        decoded_tokens=column(lambda each: each.decoded_tokens),
        steps=steps,
        draft_passes=passes,
        proposed=column(lambda each: sum(step.proposed for step in each.steps)),
        accepted=accepted,
        mean_acceptance_length=1.0 + accepted / steps,
        draft=_totals(served, "draft", over),
        verify=_totals(served, "verify", over),
        commit_s=column(lambda each: each.commit_s),
        verify_at_width_one=_reduced(at_one, over),
    )


def _workload(params: CostParams, served: Sequence[Served]) -> Workload:
    """The passes that ran as context sums, mean over the requests."""
    share = 1.0 / len(served)
    groups = []
    for proposed in sorted({length for each in served for length in each.verify_sums}):
        found = [each.verify_sums[proposed] for each in served if proposed in each.verify_sums]
        groups.append(VerifyGroup(proposed=proposed, accepted=sum(accepted for accepted, _ in found) * share,
                                  sums=_sum(sums for _, sums in found) * share))  # fmt: skip
    prompts = np.array([each.prompt_tokens for each in served])
    decoded = np.array([each.decoded_tokens for each in served])
    drafted, steps = sum(each.drafted for each in served), sum(len(each.steps) for each in served)
    accepted = sum(step.accepted for each in served for step in each.steps)
    return Workload(
        decoded_tokens=float(decoded.sum()) * share,
        verify=tuple(groups),
        drafts=_sum(each.drafts for each in served) * share,
        catch_ups=_sum(each.catch_ups for each in served) * share,
        draft_passes=sum(each.drafts.count + each.catch_ups.count for each in served) * share,
        wasted_draft_share=(drafted - accepted) / drafted if drafted else 0.0,
        mean_acceptance_length=1.0 + accepted / max(steps, 1),
        plain=plain_sums(params, prompts, decoded) * share,
    )


def _totals(served: Sequence[Served], phase: str, over: Reduction) -> PassTotals:
    return _reduced([getattr(each, phase) for each in served], over)


def _reduced(totals: Sequence[PassTotals], over: Reduction) -> PassTotals:
    return PassTotals(
        time_s=over(np.array([each.time_s for each in totals])),
        host_s=over(np.array([each.host_s for each in totals])),
        bytes_moved=over(np.array([each.bytes_moved for each in totals])),
        mac_energy_j=over(np.array([each.mac_energy_j for each in totals])),
    )


def _sum(sums: Any) -> ContextSums:
    total: ContextSums = reduce(add, sums)
    return total
