"""A case (costs and workload) to a Result, for closed form and engine alike; it simulates nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.acceptance.replay import StepTable
from simulator.errors import DraftscopeError
from simulator.lowering.affine import Quantity
from simulator.lowering.lowered import Lowered
from simulator.lowering.outcome import (
    Decode,
    PassTotals,
    decode_totals,
    ledgers_of,
    metrics_of,
    plain_totals,
)
from simulator.lowering.params import CostParams, PrefillCost
from simulator.lowering.workload import Workload, workload_of_steps
from simulator.results import Result, weakest_kind
from simulator.results.version import version


@dataclass(frozen=True, kw_only=True)
class Case:
    """Costs and workload of one prediction.

    Attributes
    ----------
    params : CostParams
        Costs; with several requests, prompt and output of the longest one (they set the RAM).
    work : Workload
        Steps.
    prompt_tokens : float or array
        Prompt (mean over requests).
    prompts : array, shape (requests, 1), or None
        Prompts of the requests where they differ.
    """

    params: CostParams
    work: Workload
    prompt_tokens: Quantity
    prompts: NDArray[Any] | None = None

    def prefills(self) -> tuple[PassTotals, PassTotals]:
        """Prefill of the target and of the drafter, mean over the requests."""
        if self.prompts is None:
            return (PassTotals.of_prefill(self.params.target_prefill()),
                    PassTotals.of_prefill(self.params.draft_prefill()))  # fmt: skip
        each = replace(self.params, prompt_tokens=self.prompts)
        return _mean(each.target_prefill()), _mean(each.draft_prefill())


def case_of_steps(params: CostParams, table: StepTable, *, prompt_tokens: Quantity | None = None) -> Case:
    """Case of listed steps (a trace, or a live log).

    Parameters
    ----------
    params : CostParams
        Costs; their prompt and output are replaced.
    table : Steps
        The steps, requests contiguous.
    prompt_tokens : float, optional
        One prompt for all requests; each request's own where omitted.
    """
    if not len(table):
        raise DraftscopeError("steps: none given; allowed: at least one step.")
    _, first, which = np.unique(table.request, return_index=True, return_inverse=True)
    prompts = np.asarray(table.context)[first].astype(float)
    if prompt_tokens is not None:
        prompts = np.full(len(first), float(prompt_tokens))
    outputs = 1.0 + np.bincount(which, weights=table.emitted)
    longest = int(np.argmax(prompts + outputs))
    params = replace(params, prompt_tokens=float(prompts[longest]), output_tokens=float(outputs[longest]))
    return Case(
        params=params,
        work=workload_of_steps(params, table, prompt_tokens=prompt_tokens),
        prompt_tokens=float(prompts.mean()),
        prompts=prompts[:, None],
    )


def metrics_of_case(
    case: Case, *, decode: Decode | None = None, ledger: bool = True
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Metrics and energy ledger of a case.

    Parameters
    ----------
    case : Case
        Costs and workload.
    decode : Decode, optional
        Totals that a simulation found; computed from the workload where omitted.
    ledger : bool
        Compute bytes by part too (they are in ``decode``).
    """
    prefill, draft_prefill = case.prefills()
    found = decode_totals(case.params, case.work, ledger=ledger) if decode is None else decode
    return metrics_of(case.params, found, plain_totals(case.params, case.work), prefill=prefill,
                      draft_prefill=draft_prefill, prompt_tokens=case.prompt_tokens)  # fmt: skip


def finish(
    lowered: Lowered,
    case: Case,
    *,
    inputs: dict[str, Any],
    acceptance_kind: str | None,
    acceptance_sources: tuple[str, ...],
    digest: str,
    method: str,
    decode: Decode | None = None,
    seed: int | None = None,
) -> Result:
    """Put a Result together.

    Parameters
    ----------
    lowered : Lowered
        Ids, kinds and sources.
    case : Case
        Costs and workload.
    inputs : dict
        Further inputs to show (acceptance, task).
    acceptance_kind : str or None
        Kind of the acceptance; None for plain decoding.
    acceptance_sources : tuple of str
        Its sources.
    digest : str
        sha256 of all inputs.
    method : str
        ``analytic`` or ``engine``.
    decode : Decode, optional
        Totals that a simulation found, with bytes by part.
    seed : int, optional
        Seed of the simulation.
    """
    params = case.params
    found = decode_totals(params, case.work) if decode is None else decode
    metrics, energy = metrics_of_case(case, decode=found)
    byte_ledger, ram, macs = ledgers_of(params, found)
    metrics["macs_per_token"] = macs
    groups = {
        "time": lowered.kind_of("time"),
        "prefill": lowered.kind_of("time", "prefill"),
        "energy": lowered.kind_of("time", "prefill", "energy"),
        "memory": lowered.kind_of("memory"),
    }
    if acceptance_kind is not None:
        groups["acceptance"] = acceptance_kind
    shown = {
        **lowered.ids, **inputs,
        "draft_length": params.draft_length, "batch": params.batch, "prompt_tokens": case.prompt_tokens,
        "output_tokens": case.work.decoded_tokens + 1.0,
    }  # fmt: skip
    return Result(
        inputs=_numbers(shown),
        metrics=_numbers(metrics),
        byte_ledger=_numbers(byte_ledger),
        ram_ledger=_numbers(ram),
        energy_ledger={name: _numbers(value) for name, value in energy.items()},
        confidence=weakest_kind(groups.values()),
        confidence_by_group=groups,
        references=tuple(dict.fromkeys((*lowered.references, *acceptance_sources))),
        inputs_digest=digest,
        seed=seed,
        version=version(),
        method=method,
        notes=lowered.notes,
    )  # fmt: skip


def number(value: Any) -> Any:
    """A plain float for anything with one value; arrays and other things as they are."""
    if isinstance(value, (np.ndarray, np.generic)) and np.size(value) == 1:
        return np.asarray(value).reshape(()).item()
    return value


def _numbers(values: Any) -> Any:
    if isinstance(values, dict):
        return {name: number(value) for name, value in values.items()}
    return number(values)


def _mean(cost: PrefillCost) -> PassTotals:
    """Mean over the first axis of a prefill of shape (requests, 1) or (requests, draws)."""

    def mean(value: Quantity) -> Quantity:
        return value if np.ndim(value) < 2 else np.mean(value, axis=0)

    return PassTotals(time_s=mean(cost.time_s), host_s=mean(cost.host_s), bytes_moved=mean(cost.bytes_moved),
                      mac_energy_j=mean(cost.mac_energy_j))  # fmt: skip
