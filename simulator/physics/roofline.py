"""Roofline of a kernel, its ridge, achieved bandwidth; kernels follow each other and never overlap."""

from __future__ import annotations

from typing import Any

import numpy as np

Quantity = Any  # a float or a numpy array that broadcasts


def roofline_time_s(*, memory_s: Quantity, macs: Quantity, macs_per_s: Quantity) -> Quantity:
    """Time of one kernel that is bound by memory or by arithmetic, whichever is slower.

    ``t = max(bytes / bandwidth, MACs / rate)``. The time of a pass is the sum over its kernels, so that a
    memory-bound one never hides behind a compute-bound one.

    Parameters
    ----------
    memory_s : float or array
        Time of its bytes at the bandwidth that they reach [s].
    macs : float or array
        Multiply-accumulates [MAC].
    macs_per_s : float or array
        Arithmetic rate [MAC/s].

    References
    ----------
    Williams, Waterman, Patterson, "Roofline: an insightful visual performance model", CACM 52(4), 2009.
    """
    return np.maximum(memory_s, macs / macs_per_s)


def ridge_point_macs_per_byte(*, macs_per_s: Quantity, bandwidth_bytes_per_s: Quantity) -> Quantity:
    """Arithmetic intensity at which an engine turns from memory-bound to compute-bound [MAC/B].

    ``ridge = rate / bandwidth``; a weight matrix of ``b`` bytes per weight read for ``w`` rows has intensity
    ``w / b``, so verification is free up to a width of about ``ridge * b``.

    Parameters
    ----------
    macs_per_s : float or array
        Arithmetic rate [MAC/s].
    bandwidth_bytes_per_s : float or array
        Memory bandwidth [B/s].
    """
    return macs_per_s / bandwidth_bytes_per_s


def mbu_of_model(
    *,
    model_bytes: Quantity,
    mbu_small: Quantity,
    mbu_large: Quantity,
    small_model_bytes: float,
    large_model_bytes: float,
) -> Quantity:
    """Fraction of the peak bandwidth that a runtime reaches on a model of this size.

    ``mbu_small`` up to ``small_model_bytes``, ``mbu_large`` from ``large_model_bytes``, linear in the
    logarithm of the bytes between: small matrices fill neither queues nor caches, whatever the bus could do.

    Parameters
    ----------
    model_bytes : float or array
        Weights streamed by one pass [B]; 0 gives ``mbu_small``.
    mbu_small, mbu_large : float or array
        Achieved / peak bandwidth at both ends [1].
    small_model_bytes, large_model_bytes : float
        The ends [B]; equal ends make a step.

    Returns
    -------
    float or array
        Model bandwidth utilisation [1].
    """
    if large_model_bytes <= small_model_bytes:
        return np.where(np.asarray(model_bytes) <= small_model_bytes, mbu_small, mbu_large)
    span = np.log(large_model_bytes / small_model_bytes)
    position = np.log(np.maximum(model_bytes, small_model_bytes) / small_model_bytes) / span
    return mbu_small + np.minimum(position, 1.0) * (mbu_large - mbu_small)
