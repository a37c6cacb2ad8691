"""Scores of predictions against measurements, and of naive rules on the same rows; it predicts nothing.

Sources are capped: no source weighs more than a quarter of an aggregate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
SOURCE_SHARE = 0.25
ERROR_CAP = 0.5


@dataclass(frozen=True, kw_only=True)
class Scored:
    """One prediction beside its measurement; ``tokens`` and ``length`` feed the naive rules."""

    source: str
    device_class: str
    family: str
    drafter: str
    measured: float
    predicted: float
    low: float
    high: float
    tokens: float
    length: float


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Aggregates over scored rows; errors are relative, medians and means weighted by capped sources."""

    n: int
    median_absolute_error: float
    mean_absolute_error: float
    mean_capped_error: float
    mean_signed_error: float
    sign_accuracy: float
    interval_coverage: float
    mean_relative_width: float

    def record(self) -> dict[str, float]:
        """Rounded to four digits."""
        return {name: round(value, 4) for name, value in self.__dict__.items()}


def source_weights(sources: Sequence[str]) -> Vector:
    """Weight of each row: 1, less where its source holds more than a quarter of the rows."""
    counts, total = Counter(sources), len(sources)
    return np.array([min(1.0, SOURCE_SHARE * total / counts[source]) for source in sources])


def weighted_median(values: Vector, weights: Vector) -> float:
    """Smallest value with at least half of the weight at or below it."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / weights.sum()
    return float(values[order][np.searchsorted(reached, 0.5)])


def summarise(rows: Sequence[Scored]) -> Summary | None:
    """Aggregates, or None for no rows."""
    if not rows:
        return None
    weights = source_weights([row.source for row in rows])
    measured = np.array([row.measured for row in rows])
    predicted = np.array([row.predicted for row in rows])
    low, high = np.array([row.low for row in rows]), np.array([row.high for row in rows])
    signed = predicted / measured - 1
    error = np.abs(signed)

    def mean(values: Any) -> float:
        return float(np.average(np.asarray(values, dtype=float), weights=weights))

    return Summary(
        n=len(rows),
        median_absolute_error=weighted_median(error, weights),
        mean_absolute_error=mean(error),
        mean_capped_error=mean(np.minimum(error, ERROR_CAP)),
        mean_signed_error=mean(signed),
        sign_accuracy=mean((predicted > 1) == (measured > 1)),
        interval_coverage=mean((measured >= low) & (measured <= high)),
        mean_relative_width=mean((high - low) / predicted),
    )


def by(rows: Sequence[Scored], name: str) -> dict[str, Summary]:
    """Aggregates by one attribute of the rows, largest group first."""
    groups = Counter(str(getattr(row, name)) for row in rows)
    found = {}
    for key, _ in groups.most_common():
        summary = summarise([row for row in rows if str(getattr(row, name)) == key])
        if summary is not None:
            found[key] = summary
    return found


def rules(rows: Sequence[Scored]) -> dict[str, dict[str, float]]:
    """Median error and sign accuracy of rules without physics on the same rows, sources capped."""
    if not rows:
        return {}
    weights = source_weights([row.source for row in rows])
    measured = np.array([row.measured for row in rows])
    tokens = np.array([row.tokens for row in rows])
    length = np.array([row.length for row in rows])

    def scored(rule: Callable[[], Vector]) -> dict[str, float]:
        value = rule()
        return {
            "median_absolute_error": round(weighted_median(np.abs(value / measured - 1), weights), 4),
            "sign_accuracy": round(float(np.average((value > 1) == (measured > 1), weights=weights)), 4),
        }

    grid = [(a, b) for a in np.linspace(0.6, 1.8, 61) for b in np.linspace(0.0, 0.4, 41)]
    best = min(
        grid,
        key=lambda ab: weighted_median(np.abs(tokens / (ab[0] + ab[1] * length) / measured - 1), weights),
    )
    return {
        "tokens per pass": scored(lambda: tokens),
        "tokens / (1 + 0.2 K)": scored(lambda: tokens / (1 + 0.2 * length)),
        f"tokens / ({best[0]:.2f} + {best[1]:.2f} K), fitted to these rows": scored(
            lambda: tokens / (best[0] + best[1] * length)
        ),
    }
