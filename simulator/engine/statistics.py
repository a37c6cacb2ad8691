"""Percentiles, and confidence intervals over replications; it does not know what was replicated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from simulator.results.registry import PERCENTILES

LEVEL = 0.95


def percentiles(name: str, samples: Sequence[float]) -> dict[str, float]:
    """Percentiles of a sample of times, named ``ttft_p90_s`` and so on; none for an empty sample.

    Parameters
    ----------
    name : str
        Metric without its unit.
    samples : sequence of float
        Times [s].
    """
    if not len(samples):
        return {}
    found = np.percentile(np.asarray(samples, dtype=float), PERCENTILES)
    return {f"{name}_p{each}_s": float(value) for each, value in zip(PERCENTILES, found, strict=True)}


def leave_one_out(values: NDArray[Any]) -> NDArray[np.float64]:
    """Means of all values but one.

    Parameters
    ----------
    values : array, shape (replications,)
        At least two.
    """
    return np.asarray((values.sum() - values) / (len(values) - 1), dtype=np.float64)


def jackknife_interval(
    point: Mapping[str, Any], left_out: Mapping[str, Any]
) -> dict[str, tuple[float, float]]:
    """Student's interval with the jackknife's standard error, also for ratios of means.

    ``theta +- t sqrt((R - 1) / R sum_r (theta_(r) - mean)^2)``; for a plain mean it is the usual t interval.

    Parameters
    ----------
    point : mapping of str to float
        Metrics over all R replications.
    left_out : mapping of str to array, shape (replications,)
        The same metrics without each replication; what does not vary has no interval.

    Returns
    -------
    dict of str to (low, high)
        By metric.

    References
    ----------
    Efron, Stein, "The jackknife estimate of variance", Annals of Statistics 9, 1981.
    """
    intervals = {}
    for name, value in left_out.items():
        values = np.asarray(value, dtype=float)
        if values.ndim != 1 or not np.isfinite(values).all():
            continue
        count = len(values)
        error = np.sqrt((count - 1) / count * ((values - values.mean()) ** 2).sum())
        if error > 1e-12 * abs(float(point[name])):
            half = float(stdtrit(count - 1, 0.5 + LEVEL / 2) * error)
            intervals[name] = (float(point[name]) - half, float(point[name]) + half)
    return intervals
