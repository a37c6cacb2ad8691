"""Where the steps of a response start: exact and closed-form context sums; acceptance must be stationary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Quantity = Any


def step_start_probability(
    *, per_position_acceptance_rate: Sequence[float], decoded_tokens: int
) -> NDArray[np.float64]:
    """Probability that a step starts at each token of a response, exactly.

    Steps advance by ``X = a + 1`` tokens with ``P(X > k) = S_k``. The starts are a renewal sequence:
    ``u_0 = 1``, ``u_t = sum_{x=1..K+1} P(X = x) u_{t-x}``.

    Parameters
    ----------
    per_position_acceptance_rate : sequence of float
        Unconditional ``S_1 .. S_K``; empty for plain decoding.
    decoded_tokens : int
        Tokens ``M`` to emit after the first one, which comes from prefill.

    Returns
    -------
    array, shape (decoded_tokens,)
        ``u_0 .. u_{M-1}``; their sum is the expected number of steps.

    References
    ----------
    Feller, "An Introduction to Probability Theory and Its Applications" I, XIII.
    """
    survival = np.concatenate(([1.0], np.asarray(per_position_acceptance_rate, dtype=float), [0.0]))
    advance = survival[:-1] - survival[1:]
    reach = len(advance)
    starts = np.zeros(reach + decoded_tokens)
    if decoded_tokens:
        starts[reach] = 1.0
    reverse = advance[::-1].copy()
    for t in range(1, decoded_tokens):
        starts[reach + t] = reverse @ starts[t : t + reach]
    return starts[reach:]


def expected_step_sums(
    *, per_position_acceptance_rate: Sequence[Quantity], decoded_tokens: Quantity
) -> tuple[Quantity, Quantity, Quantity]:
    """Closed form behind :func:`step_start_probability` for responses much longer than a step.

    With ``tau = E[X]``, ``a = E[X(X-1)] / (2 tau)`` and ``b = E[X(X-1)(X-2)] / (6 tau)``, the starts settle
    at ``u = 1/tau`` after a transient with ``sum_t (u_t - 1/tau) = a/tau`` and
    ``sum_t t (u_t - 1/tau) = (b - a^2)/tau`` (expand ``1 / (1 - P(z))`` at ``z = 1``). For a cost ``c(t)``
    that is affine in the context, the expected sum over the steps is therefore
    ``sum_{t<M} c(t) / tau + c(0) a/tau + c'(0) (b - a^2)/tau``.

    Parameters
    ----------
    per_position_acceptance_rate : sequence of float or array
        Unconditional ``S_1 .. S_K``, one entry a position, zero beyond a design's own length.
    decoded_tokens : float or array
        ``M``; 0 gives no steps.

    Returns
    -------
    rate : float or array
        ``1 / tau``.
    transient : float or array
        ``a / tau``: steps beyond ``M / tau``, because the last step may overshoot.
    transient_moment : float or array
        ``(b - a^2) / tau``.

    Notes
    -----
    The error falls geometrically in ``M`` unless acceptance is nearly certain; at ``alpha = 1`` the steps are
    periodic and the count is off by less than one step.
    """
    tau: Quantity = 1.0
    second: Quantity = 0.0
    third: Quantity = 0.0
    for k, survival in enumerate(per_position_acceptance_rate, 1):
        tau = tau + survival
        second = second + k * survival
        if k > 1:
            third = third + (k * (k - 1) // 2) * survival
    rate = 1.0 / tau
    a = second * rate
    b = third * rate
    some = decoded_tokens > 0
    return rate, a * rate * some, (b - a * a) * rate * some


def sum_of_contexts(*, first: Quantity, count: Quantity) -> Quantity:
    """``sum_{t=0..count-1} (first + t)``.

    Parameters
    ----------
    first : float or array
        Context of the first pass [tokens].
    count : float or array
        Passes; the context grows by one token each.
    """
    return count * (first + 0.5 * (count - 1.0))


def sum_of_windowed_contexts(*, first: Quantity, count: Quantity, window: Quantity) -> Quantity:
    """``sum_{t=0..count-1} min(first + t, window)``, exactly for whole tokens.

    Parameters
    ----------
    first, count : float or array
        As in :func:`sum_of_contexts`.
    window : float or array
        Sliding window [tokens].
    """
    growing = np.minimum(np.maximum(window - first, 0.0), count)
    return growing * (first + 0.5 * (growing - 1.0)) + (count - growing) * window
