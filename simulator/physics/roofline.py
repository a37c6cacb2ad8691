"""Time of one forward pass: roofline, measured-runtime form, achieved bandwidth; passes never overlap."""

from __future__ import annotations

from typing import Any

import numpy as np

Quantity = Any  # a float or a numpy array that broadcasts


def roofline_time_s(
    *, bytes_moved: Quantity, macs: Quantity, bandwidth_bytes_per_s: Quantity, macs_per_s: Quantity
) -> Quantity:
    """Time of one op that is bound by memory or by arithmetic, whichever is slower.

    ``t = max(bytes / bandwidth, MACs / rate)``

    Parameters
    ----------
    bytes_moved : float or array
        Bytes read and written [B].
    macs : float or array
        Multiply-accumulates [MAC].
    bandwidth_bytes_per_s : float or array
        Memory bandwidth [B/s].
    macs_per_s : float or array
        Arithmetic rate [MAC/s].

    Returns
    -------
    float or array
        Time [s].

    References
    ----------
    Williams, Waterman, Patterson, "Roofline: an insightful visual performance model", CACM 52(4), 2009.
    """
    return np.maximum(bytes_moved / bandwidth_bytes_per_s, macs / macs_per_s)


def roofline_pass_time_s(
    *, bytes_moved: Quantity, macs: Quantity, bandwidth_bytes_per_s: Quantity, macs_per_s: Quantity
) -> Quantity:
    """Time of a pass under ``ideal``: the sum over its ops (last axis) of :func:`roofline_time_s`.

    Ops follow each other, so a memory-bound op never hides behind a compute-bound one.

    Parameters
    ----------
    bytes_moved, macs : array, shape (..., ops)
        Bytes [B] and multiply-accumulates [MAC] of each op.
    bandwidth_bytes_per_s, macs_per_s : float or array
        Rates [B/s], [MAC/s], broadcast against the ops.

    Returns
    -------
    float or array, shape (...)
        Time [s].
    """
    return np.sum(
        roofline_time_s(
            bytes_moved=np.asarray(bytes_moved, dtype=float),
            macs=np.asarray(macs, dtype=float),
            bandwidth_bytes_per_s=bandwidth_bytes_per_s,
            macs_per_s=macs_per_s,
        ),
        axis=-1,
    )


def measured_pass_time_s(
    *,
    floor_s: Quantity,
    weight_bytes: Quantity,
    weight_bandwidth_bytes_per_s: Quantity,
    relative_cost: Quantity,
    kv_bytes: Quantity,
    kv_bandwidth_bytes_per_s: Quantity,
    rows: Quantity,
    host_per_row_s: Quantity,
) -> Quantity:
    """Time of one pass of a measured runtime.

    ``T(w, n) = floor + W / bw_weights * g(w) + kv(w, n) / bw_kv + w * host_per_row``

    The curve ``g`` already holds the arithmetic of wider passes, so no MAC term is added.

    Parameters
    ----------
    floor_s : float or array
        Time of an empty pass: dispatches, synchronisation [s].
    weight_bytes : float or array
        Weights streamed once [B].
    weight_bandwidth_bytes_per_s, kv_bandwidth_bytes_per_s : float or array
        Achieved bandwidths [B/s].
    relative_cost : float or array
        ``g(w)``, 1 at width 1 (see :func:`simulator.physics.verify.relative_cost`).
    kv_bytes : float or array
        KV and per-row traffic of the pass [B].
    rows : float or array
        Width ``w`` of the pass, all streams together.
    host_per_row_s : float or array
        Host time per row [s].

    Returns
    -------
    float or array
        Time [s].
    """
    return (
        floor_s
        + weight_bytes / weight_bandwidth_bytes_per_s * relative_cost
        + kv_bytes / kv_bandwidth_bytes_per_s
        + rows * host_per_row_s
    )


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
