"""Where the time and the bytes of a step go, part by part; it does not know what they are compared with."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.lowering.affine import ContextSums, Quantity
from simulator.lowering.finish import Case
from simulator.lowering.params import CostParams, PassCost, Side

WEIGHTS, KV, FLOOR, SAMPLING = "weights", "kv", "floor", "sampling"
EXTRA_ROWS, EXTRA_KV, EXTRA_SAMPLING = "extra_rows", "extra_kv", "extra_sampling"
STEP_FLOOR, SEARCH = "step_floor", "search"
DRAFT, VERIFY, HOST, PLAIN = "draft", "verify", "host", "plain"

LABELS = {
    WEIGHTS: "weights",
    KV: "KV cache",
    FLOOR: "floor of the passes",
    SAMPLING: "host time of the rows",
    EXTRA_ROWS: "extra rows, kernels",
    EXTRA_KV: "extra rows, KV cache",
    EXTRA_SAMPLING: "extra rows, host time",
    STEP_FLOOR: "floor of a step",
    SEARCH: "search of the drafter",
}
"""Part -> words for people. Weights hold the arithmetic that hides behind them."""


@dataclass(frozen=True, kw_only=True)
class TimePart:
    """Time of one part of a step, or of a plain pass (phase ``plain``).

    Attributes
    ----------
    phase, part : str
        ``draft``, ``verify``, ``host`` or ``plain``; a key of :data:`LABELS`.
    seconds : float
        Mean over the steps (plain: over the passes) of the response [s].
    """

    phase: str
    part: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class ByteRow:
    """Memory traffic of one part of the byte ledger.

    Attributes
    ----------
    part : str
        Part of the byte ledger.
    draft, verify : float
        In the draft passes and in the verify pass of a step [B].
    plain : float
        In a plain pass [B].
    """

    part: str
    draft: float
    verify: float
    plain: float


def time_parts(case: Case) -> list[TimePart]:
    """Parts of a step, which sum to its time, and of a plain pass, which sum to that of a plain pass.

    The verify pass is a plain pass over the same context and what its extra rows cost: kernels that grow with
    the rows, KV that is read once more for each row, and host time of the rows.

    Parameters
    ----------
    case : Case
        One design.
    """
    params, work = case.params, case.work
    steps = float(work.steps)
    found = [
        TimePart(phase=phase, part=part, seconds=seconds / steps)
        for phase, parts in ((DRAFT, _draft(case)), (VERIFY, _verify(case)), (HOST, _host(case)))
        for part, seconds in parts.items()
        if seconds != 0.0
    ]
    plain = _pass(params.verify_cost(1), work.plain, params.target_side)
    count = float(work.plain.count)
    return [*found, *(TimePart(phase=PLAIN, part=part, seconds=value / count)
                      for part, value in plain.items() if value != 0.0)]  # fmt: skip


def byte_rows(case: Case) -> list[ByteRow]:
    """Bytes of a step and of a plain pass by part of the byte ledger.

    Parameters
    ----------
    case : Case
        One design.
    """
    params, work = case.params, case.work
    steps, count = float(work.steps), float(work.plain.count)
    draft: dict[str, float] = {}
    verify: dict[str, float] = {}
    if _drafting(params):
        _add(draft, params, work.drafts, steps, verify=False, width=1)
        if params.catch_up:
            _add(draft, params, work.catch_ups, steps, verify=False, width=2)
    for group in work.verify:
        _add(verify, params, group.sums, steps, verify=True, width=group.proposed + 1)
    plain: dict[str, float] = {}
    _add(plain, params, work.plain, count, verify=True, width=1)
    return [
        ByteRow(part=part, draft=draft.get(part, 0.0), verify=verify.get(part, 0.0),
                plain=plain.get(part, 0.0))
        for part in dict.fromkeys((*verify, *draft, *plain))
    ]  # fmt: skip


def _drafting(params: CostParams) -> bool:
    return params.passes_per_step != "none" and not params.draft_pass.empty


def _draft(case: Case) -> dict[str, float]:
    params, work = case.params, case.work
    if not _drafting(params):
        return {}
    found = _pass(params.draft_cost(1), work.drafts, params.draft_side)
    if params.catch_up:
        _merge(found, _pass(params.draft_cost(2), work.catch_ups, params.draft_side))
    return found


def _verify(case: Case) -> dict[str, float]:
    params = case.params
    found: dict[str, float] = {}
    one = params.verify_cost(1)
    for group in case.work.verify:
        plain = _pass(one, group.sums, params.target_side)
        wide = _pass(params.verify_cost(group.proposed + 1), group.sums, params.target_side)
        _merge(found, plain)
        _merge(found, {
            EXTRA_ROWS: wide[WEIGHTS] - plain[WEIGHTS],
            EXTRA_KV: wide[KV] - plain[KV],
            EXTRA_SAMPLING: wide[FLOOR] + wide[SAMPLING] - plain[FLOOR] - plain[SAMPLING],
        })  # fmt: skip
    return found


def _host(case: Case) -> dict[str, float]:
    params, steps = case.params, float(case.work.steps)
    search = float(params.host_s_per_step) * steps if float(params.draft_length) > 0 else 0.0
    return {STEP_FLOOR: float(params.step_host_s) * steps - search, SEARCH: search}


def _pass(cost: PassCost, sums: ContextSums, side: Side) -> dict[str, float]:
    """Passes of one width: what does not depend on the context, what does, and host time, floor apart."""
    count = float(sums.count)
    constant = _number(cost.busy_s.constant) * count
    floor = _number(side.floor_s) * count
    return {
        WEIGHTS: constant,
        KV: _number(cost.busy_s.total(sums)) - constant,
        FLOOR: floor,
        SAMPLING: _number(cost.host_s) * count - floor,
    }


def _add(
    into: dict[str, float],
    params: CostParams,
    sums: ContextSums,
    per: float,
    *,
    verify: bool,
    width: Quantity,
) -> None:
    for part, affine in params.bytes_by_part(verify=verify, width=width).items():
        into[part] = into.get(part, 0.0) + _number(affine.total(sums)) / per


def _merge(into: dict[str, float], other: dict[str, float]) -> None:
    for part, value in other.items():
        into[part] = into.get(part, 0.0) + value


def _number(value: Quantity) -> float:
    return float(value)
