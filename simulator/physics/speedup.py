"""Tokens per step and speedup from acceptance and cost ratios; acceptance depends on position at most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from simulator.errors import DraftscopeError

Quantity = Any


def checked_acceptance_rate(value: Quantity, *, where: str = "acceptance_rate") -> Quantity:
    """Return ``value``, or refuse what is not a probability.

    Parameters
    ----------
    value : float or array
        Acceptance probability.
    where : str
        Name for the message.

    Raises
    ------
    DraftscopeError
        For NaN, negative numbers, numbers above 1 and non-numbers.
    """
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise DraftscopeError(f"{where}: {value!r} is not a number; allowed: 0 to 1.") from None
    inside = (array >= 0.0) & (array <= 1.0)
    if not inside.all():
        wrong = array if array.ndim == 0 else array[~inside].flat[0]
        raise DraftscopeError(f"{where}: {float(wrong)!r} given; allowed: a probability from 0 to 1.")
    return value


def survival_iid(*, acceptance_rate: Quantity, draft_length: Quantity) -> list[Quantity]:
    """Probability that draft ``k`` and all before it are accepted, ``S_k = alpha^k`` for ``k <= K``.

    Parameters
    ----------
    acceptance_rate : float or array
        i.i.d. acceptance ``alpha`` per token, 0 to 1.
    draft_length : int or array of int
        Drafts ``K`` per step.

    Returns
    -------
    list of float or array
        ``S_1 .. S_Kmax``, zero beyond each design's own ``K``.

    References
    ----------
    Leviathan, Kalman, Matias, arXiv:2211.17192, section 3.1.
    """
    alpha = checked_acceptance_rate(acceptance_rate)
    lengths = np.asarray(draft_length)
    shortest, longest = (int(lengths.min()), int(lengths.max())) if lengths.size else (0, 0)
    out: list[Quantity] = []
    power: Quantity = 1.0
    for k in range(1, longest + 1):
        power = power * alpha
        out.append(power if k <= shortest else power * (lengths >= k))
    return out


def mean_acceptance_length_iid(*, acceptance_rate: Quantity, draft_length: Quantity) -> Quantity:
    """Tokens per step for i.i.d. acceptance, bonus token included.

    ``tau = 1 + sum_{k=1..K} alpha^k = (1 - alpha^(K+1)) / (1 - alpha)``; the sum also holds at ``alpha = 1``.

    Parameters
    ----------
    acceptance_rate : float or array
        ``alpha``, 0 to 1.
    draft_length : int or array of int
        ``K``.

    Returns
    -------
    float or array
        ``tau``, from 1 to ``K + 1``.

    References
    ----------
    Leviathan, Kalman, Matias, arXiv:2211.17192, equation 1.
    """
    survival = survival_iid(acceptance_rate=acceptance_rate, draft_length=draft_length)
    shape = np.broadcast_shapes(np.shape(acceptance_rate), np.shape(draft_length))
    return sum(survival, np.ones(shape)) if shape else float(sum(survival, 1.0))


def mean_acceptance_length_positional(*, conditional_acceptance_rate: Sequence[Quantity]) -> Quantity:
    """Tokens per step when acceptance depends on the position in the draft.

    ``S_k = prod_{i<=k} a_i`` and ``tau = 1 + sum_k S_k``

    Parameters
    ----------
    conditional_acceptance_rate : sequence of float or array
        ``a_k``: P(accept k given all before), 0 to 1.

    Returns
    -------
    float or array
        ``tau``.
    """
    tau: Quantity = 1.0
    survival: Quantity = 1.0
    for k, rate in enumerate(conditional_acceptance_rate, 1):
        survival = survival * checked_acceptance_rate(rate, where=f"conditional_acceptance_rate[{k}]")
        tau = tau + survival
    return tau


def acceptance_rate_from_length(*, mean_acceptance_length: float, draft_length: int) -> float:
    """i.i.d. acceptance that gives a mean acceptance length (inverts :func:`mean_acceptance_length_iid`).

    Parameters
    ----------
    mean_acceptance_length : float
        ``tau``, from 1 to ``K + 1``.
    draft_length : int
        ``K >= 1``.

    Raises
    ------
    DraftscopeError
        If no acceptance between 0 and 1 gives that length.
    """
    if draft_length < 1 or not 1.0 <= mean_acceptance_length <= draft_length + 1:
        raise DraftscopeError(
            f"mean_acceptance_length: {mean_acceptance_length!r} given for draft_length {draft_length}; "
            f"allowed: 1 to draft_length + 1, with draft_length >= 1."
        )
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        tau = mean_acceptance_length_iid(acceptance_rate=middle, draft_length=draft_length)
        low, high = (middle, high) if tau < mean_acceptance_length else (low, middle)
    return 0.5 * (low + high)


def speedup(
    *,
    mean_acceptance_length: Quantity,
    draft_length: Quantity,
    draft_cost_ratio: Quantity,
    verify_cost_ratio: Quantity = 1.0,
    overhead_ratio: Quantity = 0.0,
) -> Quantity:
    """Speed against plain decoding, all costs relative to one plain pass.

    ``S = tau / (K c + v(K+1) + o)``

    Parameters
    ----------
    mean_acceptance_length : float or array
        ``tau``, bonus included.
    draft_length : float or array
        Draft passes ``K`` per step.
    draft_cost_ratio : float or array
        ``c``: one draft pass / one plain target pass.
    verify_cost_ratio : float or array
        ``v(K+1)``: the verify pass / one plain target pass.
    overhead_ratio : float or array
        ``o``: host time of a speculative step / one plain target pass.

    Returns
    -------
    float or array
        Speedup.

    References
    ----------
    Leviathan, Kalman, Matias, arXiv:2211.17192, theorem 3.8, with v = 1 and o = 0.
    """
    return mean_acceptance_length / (draft_length * draft_cost_ratio + verify_cost_ratio + overhead_ratio)


def leviathan_speedup(
    *, acceptance_rate: Quantity, draft_length: Quantity, draft_cost_ratio: Quantity
) -> Quantity:
    """Speedup with i.i.d. acceptance and a verify pass that costs one plain pass.

    ``S = (1 - alpha^(K+1)) / ((1 - alpha) (K c + 1))``; an improvement exists if and only if ``alpha > c``.

    Parameters
    ----------
    acceptance_rate, draft_cost_ratio : float or array
        ``alpha`` and ``c``.
    draft_length : int or array of int
        ``K``.

    References
    ----------
    Leviathan, Kalman, Matias, arXiv:2211.17192, theorem 3.8 and corollary 3.9.
    """
    tau = mean_acceptance_length_iid(acceptance_rate=acceptance_rate, draft_length=draft_length)
    return speedup(mean_acceptance_length=tau, draft_length=draft_length, draft_cost_ratio=draft_cost_ratio)


def operations_growth(
    *, mean_acceptance_length: Quantity, draft_length: Quantity, draft_operations_ratio: Quantity
) -> Quantity:
    """Arithmetic per emitted token relative to plain decoding.

    ``(K c_ops + K + 1) / tau``, never below 1: speculation saves bytes, not arithmetic.

    Parameters
    ----------
    mean_acceptance_length, draft_length : float or array
        ``tau`` and ``K``.
    draft_operations_ratio : float or array
        ``c_ops``: MACs of one draft pass / MACs of one target row.

    References
    ----------
    Leviathan, Kalman, Matias, arXiv:2211.17192, theorem 3.11.
    """
    return (draft_length * draft_operations_ratio + draft_length + 1.0) / mean_acceptance_length


def break_even_acceptance_rate(*, draft_length: int, step_cost_ratio: Quantity) -> Quantity:
    """i.i.d. acceptance at which a speculative step costs as much per token as plain decoding.

    Solves ``tau(alpha, K) = step / plain`` by bisection (``tau`` rises in ``alpha``).

    Parameters
    ----------
    draft_length : int
        ``K``.
    step_cost_ratio : float or array
        ``K c + v(K+1) + o``: one step / one plain pass.

    Returns
    -------
    float or array
        ``alpha``; 0 where a step is as cheap as a plain pass, NaN where even ``alpha = 1`` loses.
    """
    ratio = np.asarray(step_cost_ratio, dtype=float)
    low, high = np.zeros_like(ratio), np.ones_like(ratio)
    for _ in range(60):
        middle = 0.5 * (low + high)
        below = mean_acceptance_length_iid(acceptance_rate=middle, draft_length=draft_length) < ratio
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    alpha = np.where(ratio > draft_length + 1, np.nan, np.where(ratio <= 1.0, 0.0, 0.5 * (low + high)))
    return float(alpha) if alpha.ndim == 0 else alpha


def best_draft_length(
    *,
    per_position_acceptance_rate: Sequence[float],
    draft_cost_ratio: float,
    verify_cost_ratio: Sequence[float],
    overhead_ratio: float = 0.0,
) -> tuple[int, float]:
    """Draft length with the highest speedup, 0 (plain decoding, speedup 1) included.

    Extending from ``k - 1`` to ``k`` pays while ``S_k / (c + v(k+1) - v(k)) > tau_{k-1} / T_{k-1}``; a curve
    with cliffs may dip and recover, so every length is tried.

    Parameters
    ----------
    per_position_acceptance_rate : sequence of float
        Unconditional ``S_1 .. S_K``.
    draft_cost_ratio, overhead_ratio : float
        ``c`` and ``o``.
    verify_cost_ratio : sequence of float
        ``v(2) .. v(K+1)``.

    Returns
    -------
    draft_length : int
        Best ``K``; the shortest of equals.
    speedup : float
        Its speedup.
    """
    if len(per_position_acceptance_rate) != len(verify_cost_ratio):
        raise DraftscopeError(
            f"verify_cost_ratio: {len(verify_cost_ratio)} values given for "
            f"{len(per_position_acceptance_rate)} draft positions; allowed: one for each width 2 .. K+1."
        )
    best, best_speedup, tau = 0, 1.0, 1.0
    pairs = zip(per_position_acceptance_rate, verify_cost_ratio, strict=True)
    for k, (survival, width_cost) in enumerate(pairs, 1):
        tau += survival
        gain = speedup(mean_acceptance_length=tau, draft_length=k, draft_cost_ratio=draft_cost_ratio,
                       verify_cost_ratio=width_cost, overhead_ratio=overhead_ratio)  # fmt: skip
        if gain > best_speedup:
            best, best_speedup = k, float(gain)
    return best, best_speedup
