"""Costs times context sums: totals, energies, metrics, for closed form and engine alike; no acceptance."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from simulator.lowering.affine import ContextSums, Quantity
from simulator.lowering.memory import last_context, ram_bytes, ram_ledger, resident_weights
from simulator.lowering.params import CostParams, PassCost, PrefillCost, Side
from simulator.lowering.workload import VerifyGroup, Workload
from simulator.physics.energy import dram_energy_j, engine_energy_j, rejected_energy_j


@dataclass(frozen=True, kw_only=True)
class PassTotals:
    """A set of passes, all streams together: time, host share of it, memory traffic, energy of the MACs."""

    time_s: Quantity = 0.0
    host_s: Quantity = 0.0
    bytes_moved: Quantity = 0.0
    mac_energy_j: Quantity = 0.0

    @classmethod
    def of(cls, cost: PassCost, sums: ContextSums) -> PassTotals:
        """Passes of one width over summed contexts."""
        host_s = cost.host_s * sums.count
        return cls(
            time_s=host_s + cost.busy_s.total(sums),
            host_s=host_s,
            bytes_moved=cost.bytes_moved.total(sums),
            mac_energy_j=cost.mac_energy_j.total(sums),
        )

    @classmethod
    def of_prefill(cls, cost: PrefillCost) -> PassTotals:
        """One prefill."""
        return cls(time_s=cost.time_s, host_s=cost.host_s, bytes_moved=cost.bytes_moved,
                   mac_energy_j=cost.mac_energy_j)  # fmt: skip

    def __add__(self, other: PassTotals) -> PassTotals:
        """Both sets."""
        return PassTotals(
            time_s=self.time_s + other.time_s,
            host_s=self.host_s + other.host_s,
            bytes_moved=self.bytes_moved + other.bytes_moved,
            mac_energy_j=self.mac_energy_j + other.mac_energy_j,
        )

    def energy_j(self, params: CostParams, side: Side) -> dict[str, Quantity]:
        """Energy by rail [J]: the engine is active for the whole pass, the host for its own share."""
        return {
            "dram": dram_energy_j(bytes_moved=self.bytes_moved, phy_energy_per_byte_j=0.0,
                                  device_energy_per_byte_j=params.energy_per_byte_j),
            "engine": engine_energy_j(mac_energy_j=self.mac_energy_j, active_power_w=side.active_power_w,
                                      active_s=self.time_s),
            "host": params.host_power_w * self.host_s,
            "base": params.base_power_w * self.time_s,
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Decode:
    """Decoding one response, all streams together; the mean over requests where there are several.

    Attributes
    ----------
    decoded_tokens, steps, draft_passes : float or array
        Per stream; passes are shared by the streams.
    proposed, accepted : float or array
        Drafts of one stream.
    mean_acceptance_length : float or array
        1 + accepted per step.
    draft, verify : PassTotals
        Passes of the phases.
    commit_s : float or array
        Host time between passes [s].
    verify_at_width_one : PassTotals
        Plain passes over the contexts of the steps.
    rejected_j : float or array
        Energy that rejected drafts cost [J].
    bytes_by_part : dict of str to float or array
        Memory traffic by part [B].
    macs : float or array
        Multiply-accumulates [MAC].
    """

    decoded_tokens: Quantity
    steps: Quantity
    draft_passes: Quantity
    proposed: Quantity
    accepted: Quantity
    mean_acceptance_length: Quantity
    draft: PassTotals
    verify: PassTotals
    commit_s: Quantity
    verify_at_width_one: PassTotals
    rejected_j: Quantity = 0.0
    bytes_by_part: dict[str, Quantity] = field(default_factory=dict)
    macs: Quantity = 0.0

    @property
    def time_s(self) -> Quantity:
        """Time of the decode [s]."""
        return self.draft.time_s + self.verify.time_s + self.commit_s

    def energy_j(self, params: CostParams) -> dict[str, dict[str, Quantity]]:
        """Energy by phase and rail [J]."""
        commit = {
            "dram": 0.0,
            "engine": params.target_side.idle_power_w * self.commit_s,
            "host": params.host_power_w * self.commit_s,
            "base": params.base_power_w * self.commit_s,
        }
        return {
            "draft": self.draft.energy_j(params, params.draft_side),
            "verify": self.verify.energy_j(params, params.target_side),
            "commit": commit,
        }


def decode_totals(params: CostParams, work: Workload, *, ledger: bool = True) -> Decode:
    """Apply the costs of a design to its workload.

    Parameters
    ----------
    params : CostParams
        Costs.
    work : Workload
        Steps as context sums.
    ledger : bool
        Also compute bytes by part, MACs and the energy of rejected drafts.
    """
    draft = PassTotals()
    drafting = params.passes_per_step != "none" and not params.draft_pass.empty
    if drafting:
        draft = PassTotals.of(params.draft_cost(1), work.drafts)
        if params.catch_up:
            draft = draft + PassTotals.of(params.draft_cost(2), work.catch_ups)
    one = params.verify_cost(1)
    verify, at_one, rejected_j = PassTotals(), PassTotals(), 0.0
    if ledger:
        rejected_j = _sum(draft.energy_j(params, params.draft_side)) * work.wasted_draft_share
    for group in work.verify:
        plain = PassTotals.of(one, group.sums)
        wide = plain if _never_wide(group) else PassTotals.of(
            params.verify_cost(group.proposed + 1), group.sums)  # fmt: skip
        verify, at_one = verify + wide, at_one + plain
        if ledger and wide is not plain:
            rejected_j = rejected_j + rejected_energy_j(
                draft_energy_j=0.0,
                verify_energy_j=_sum(wide.energy_j(params, params.target_side)),
                verify_energy_at_width_one_j=_sum(plain.energy_j(params, params.target_side)),
                proposed=group.proposed * group.sums.count,
                accepted=group.accepted,
            )
    steps = work.steps
    parts, macs = _ledger(params, work, drafting) if ledger else ({}, 0.0)
    return Decode(
        decoded_tokens=work.decoded_tokens,
        steps=steps,
        draft_passes=work.draft_passes,
        proposed=work.proposed,
        accepted=work.accepted,
        mean_acceptance_length=work.mean_acceptance_length,
        draft=draft,
        verify=verify,
        commit_s=params.step_host_s * steps,
        verify_at_width_one=at_one,
        rejected_j=rejected_j,
        bytes_by_part=parts,
        macs=macs,
    )


def plain_totals(params: CostParams, work: Workload) -> Decode:
    """Plain decoding of the same tokens: one pass of width 1 a token.

    Parameters
    ----------
    params : CostParams
        Costs.
    work : Workload
        Whose ``plain`` sums are used.
    """
    verify = PassTotals.of(params.verify_cost(1), work.plain)
    return Decode(
        decoded_tokens=work.decoded_tokens,
        steps=work.plain.count,
        draft_passes=0.0,
        proposed=0.0,
        accepted=0.0,
        mean_acceptance_length=1.0,
        draft=PassTotals(),
        verify=verify,
        commit_s=0.0 * work.plain.count,
        verify_at_width_one=verify,
    )


def metrics_of(
    params: CostParams, decode: Decode, plain: Decode, *, prefill: PassTotals, draft_prefill: PassTotals,
    prompt_tokens: Quantity,
) -> tuple[dict[str, Any], dict[str, Any]]:  # fmt: skip
    """Every metric of the registry but those of the ledgers, and the energy ledger of one response.

    Parameters
    ----------
    params : CostParams
        Costs; tokens and draft length for the RAM.
    decode, plain : Decode
        The design, and plain decoding of the same tokens.
    prefill, draft_prefill : PassTotals
        Prefill of the target, and of a drafter with its own cache.
    prompt_tokens : float or array
        Prompt (mean over requests).

    Returns
    -------
    metrics : dict
        By registry name.
    energy_ledger : dict
        ``rail``, ``phase`` and ``rejected_share``; energies of one stream [J].
    """
    tokens, batch = decode.decoded_tokens, params.batch
    phases = {"prefill": prefill.energy_j(params, params.target_side)}
    draft_prefill_j = draft_prefill.energy_j(params, params.draft_side)
    phases["prefill"] = {rail: value + draft_prefill_j[rail] for rail, value in phases["prefill"].items()}
    phases |= decode.energy_j(params)
    by_phase = {phase: _sum(rails) for phase, rails in phases.items()}
    by_rail = {rail: sum(rails[rail] for rails in phases.values()) for rail in phases["prefill"]}
    decode_j = by_phase["draft"] + by_phase["verify"] + by_phase["commit"]
    plain_j = _sum({phase: _sum(rails) for phase, rails in plain.energy_j(params).items()})
    total_j = decode_j + by_phase["prefill"]
    decode_s, plain_s = decode.time_s, plain.time_s
    ttft_s = prefill.time_s + draft_prefill.time_s
    request_s = ttft_s + decode_s
    step_s, per_step = decode_s / decode.steps, 1.0 / decode.steps
    plain_step_s = plain_s / plain.steps
    phase_times = {"prefill": ttft_s, "draft": decode.draft.time_s, "verify": decode.verify.time_s,
                   "commit": decode.commit_s}  # fmt: skip
    memory, context = params.memory, last_context(params)
    metrics: dict[str, Any] = {
        "ttft_s": ttft_s,
        "tpot_s": decode_s / tokens,
        "itl_s": step_s,
        "request_time_s": request_s,
        "prefill_tokens_per_s": prompt_tokens * batch / ttft_s,
        "decode_tokens_per_s": batch * tokens / decode_s,
        "baseline_decode_tokens_per_s": batch * tokens / plain_s,
        "speedup": plain_s / decode_s,
        "request_speedup": (prefill.time_s + plain_s) / request_s,
        "mean_acceptance_length": decode.mean_acceptance_length,
        "tokens_per_step": tokens * per_step,
        "draft_acceptance_rate": decode.accepted / np.maximum(decode.proposed, 1e-300),
        "steps": decode.steps,
        "step_time_s": step_s,
        "draft_time_s": decode.draft.time_s * per_step,
        "verify_time_s": decode.verify.time_s * per_step,
        "host_time_s": decode.commit_s * per_step,
        "verify_cost_ratio": decode.verify.time_s / decode.verify_at_width_one.time_s,
        "draft_cost_ratio": decode.draft.time_s
        / np.maximum(decode.draft_passes, 1e-300)
        / (plain.verify.time_s / plain.steps),
        "break_even_acceptance_length": step_s / plain_step_s,
        "energy_per_token_j": decode_j / (tokens * batch),
        "energy_saving": 1.0 - decode_j / plain_j,
        "request_energy_j": total_j / batch,
        "average_power_w": total_j / request_s,
        "peak_power_w": _highest([_ratio(by_phase[phase], time_s) for phase, time_s in phase_times.items()]),
        "weight_bytes": _sum(resident_weights(params)),
        "kv_cache_bytes": batch * (memory.target_kv.bytes_at(context) + memory.drafter_kv.bytes_at(context)),
        "mapped_bytes": memory.target_mapped_bytes + memory.drafter_mapped_bytes,
        "peak_ram_bytes": ram_bytes(params),
        "bytes_per_token": (decode.draft.bytes_moved + decode.verify.bytes_moved) / (tokens * batch),
    }
    energy = {
        "rail": {rail: value / batch for rail, value in by_rail.items()},
        "phase": {phase: value / batch for phase, value in by_phase.items()},
        "rejected_share": _ratio(decode.rejected_j, decode_j),
    }
    return metrics, energy


def ledgers_of(params: CostParams, decode: Decode) -> tuple[dict[str, Any], dict[str, Any], Quantity]:
    """Byte ledger per emitted token, RAM ledger, and MACs per token.

    Parameters
    ----------
    params : CostParams
        Costs.
    decode : Decode
        Totals with bytes by part.
    """
    emitted = decode.decoded_tokens * params.batch
    return (
        {part: value / emitted for part, value in decode.bytes_by_part.items()},
        ram_ledger(params),
        decode.macs / emitted,
    )


def _ledger(params: CostParams, work: Workload, drafting: bool) -> tuple[dict[str, Quantity], Quantity]:
    parts: dict[str, Quantity] = {}
    macs: Quantity = 0.0
    runs = [(True, group.proposed + 1, group.sums) for group in work.verify]
    if drafting:
        runs.append((False, 1, work.drafts))
        if params.catch_up:
            runs.append((False, 2, work.catch_ups))
    for verify, width, sums in runs:
        macs = macs + params.macs(verify=verify, width=width).total(sums)
        for part, affine in params.bytes_by_part(verify=verify, width=width).items():
            parts[part] = parts.get(part, 0.0) + affine.total(sums)
    return parts, macs


def _never_wide(group: VerifyGroup) -> bool:
    return np.ndim(group.proposed) == 0 and group.proposed == 0


def _sum(parts: dict[str, Quantity]) -> Quantity:
    return sum(parts.values())


def _ratio(over: Quantity, under: Quantity) -> Quantity:
    """``over / under``, 0 where nothing happened."""
    return over / np.where(np.asarray(under) > 0, under, np.inf)


def _highest(values: list[Quantity]) -> Quantity:
    highest = values[0]
    for value in values[1:]:
        highest = np.maximum(highest, value)
    return highest
