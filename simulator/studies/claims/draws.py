"""Ratios of two designs under the same draws of uncertain inputs, so that what they share cancels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.acceptance.statistics import rates, request_sums, resample
from simulator.analytic import predict
from simulator.lowering import lower_cached
from simulator.results import Result
from simulator.studies.replays import ReplayedTrace

DRAWS, SEED, LEVEL = 256, 0, 0.9


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A prediction at the values of its inputs, and once for each draw.

    Attributes
    ----------
    point, spread : Result
        Numbers, and arrays of shape (draws,).
    """

    point: Result
    spread: Result

    def draws(self, name: str) -> NDArray[np.float64]:
        """A metric in each draw, (draws,)."""
        return np.broadcast_to(np.asarray(self.spread[name], dtype=float), (DRAWS,))


def drawn(*, device: str, target: str, drafter: str, runtime: str | None = None, **case: Any) -> Drawn:
    """Predict a design at its values and under draws; equal seeds give common inputs equal draws.

    Parameters
    ----------
    device, target, drafter, runtime : str
        Names.
    **case
        Further arguments of `simulator.analytic.predict`.
    """
    place: dict[str, Any] = {"device": device, "target": target, "drafter": drafter, "runtime": runtime}
    axes = lower_cached(**place).draw(np.random.default_rng(SEED), DRAWS)
    point = predict(**place, **case, intervals=False)
    return Drawn(point=point, spread=predict(**place, **case, axes=axes, intervals=False))


def ratio(
    a: Drawn, b: Drawn, name: str, *, factor: NDArray[np.float64] | None = None
) -> tuple[float, float, float]:
    """Quotient of a metric: value, low and high (the middle 90 % of the draws, widened to hold the value).

    Parameters
    ----------
    a, b : Drawn
        Two designs.
    name : str
        Metric.
    factor : array, shape (draws,), optional
        Multiplies the ratio of each draw, for example the sampling error of the acceptance.
    """
    value = float(a.point[name] / b.point[name])
    return spread(value, a.draws(name) / b.draws(name) * (1.0 if factor is None else factor))


def spread(value: float, draws: NDArray[np.float64]) -> tuple[float, float, float]:
    """Value, low and high of draws."""
    tail = (1.0 - LEVEL) / 2.0
    low, high = np.quantile(draws[np.isfinite(draws)], [tail, 1.0 - tail])
    return value, min(float(low), value), max(float(high), value)


def lengths_drawn(
    a: ReplayedTrace, b: ReplayedTrace, length_a: int, length_b: int, *, task: str | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean acceptance lengths of two traces of the same requests, resampled together, each (draws,)."""
    tables = a.steps(length_a, task=task), b.steps(length_b, task=task)
    weights = resample(tables[0].n_requests, rng=np.random.default_rng(SEED), replicates=DRAWS)
    first, second = (rates(weights @ request_sums(table))["mean_acceptance_length"] for table in tables)
    return first, second


def length_factor(
    a: ReplayedTrace, b: ReplayedTrace, length_a: int, length_b: int, *, task: str | None = None
) -> NDArray[np.float64]:
    """Sampling error of the ratio of two mean acceptance lengths, relative to the ratio itself, (draws,).

    Speed is tokens per step over time per step, and the latter hardly depends on acceptance: the error of a
    ratio of speeds is that of the ratio of lengths.
    """
    first, second = lengths_drawn(a, b, length_a, length_b, task=task)
    return first / second / np.nanmean(first / second)
