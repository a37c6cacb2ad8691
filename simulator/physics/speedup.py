"""Tokens per step and speedup from acceptance and cost ratios; acceptance depends on position at most."""

from __future__ import annotations

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
