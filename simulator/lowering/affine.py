"""Costs that are affine in the context, and sums of contexts to apply them to, whatever the cost is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Quantity = Any  # a float or a numpy array of designs


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSums:
    """Sums over a set of passes, everything that an affine cost needs to know about their contexts.

    Attributes
    ----------
    count : float or array
        Passes.
    tokens : float or array
        Sum of the contexts ``n``.
    windowed : mapping of int to float or array
        For each sliding window ``W``: the sum of ``min(n, W)``.
    """

    count: Quantity
    tokens: Quantity
    windowed: Mapping[int, Quantity] = field(default_factory=dict)

    @classmethod
    def of(cls, contexts: Any, windows: tuple[int, ...], weights: Any = None) -> ContextSums:
        """Sums over listed contexts.

        Parameters
        ----------
        contexts : array, shape (passes,)
            Context of each pass [tokens].
        windows : tuple of int
            Sliding windows that will be asked for.
        weights : array, shape (passes,), optional
            Expected number of passes at each context; 1 where omitted.
        """
        seen = np.asarray(contexts, dtype=float)
        share = np.ones_like(seen) if weights is None else np.asarray(weights, dtype=float)
        return cls(
            count=float(share.sum()),
            tokens=float(share @ seen),
            windowed={window: float(share @ np.minimum(seen, window)) for window in windows},
        )

    def __add__(self, other: ContextSums) -> ContextSums:
        """Sums over both sets of passes."""
        return ContextSums(
            count=self.count + other.count,
            tokens=self.tokens + other.tokens,
            windowed={window: self.windowed[window] + other.windowed[window] for window in self.windowed},
        )

    def __mul__(self, factor: Quantity) -> ContextSums:
        """Sums over every pass repeated ``factor`` times."""
        return ContextSums(
            count=self.count * factor,
            tokens=self.tokens * factor,
            windowed={window: total * factor for window, total in self.windowed.items()},
        )


@dataclass(frozen=True, slots=True)
class Affine:
    """``c(n) = constant + per_token n + sum_j per_windowed_j min(n, W_j)``.

    Attributes
    ----------
    constant, per_token : float or array
        Coefficients.
    per_windowed : tuple of (int, float or array)
        Sliding window [tokens] and its coefficient, one entry a window.
    """

    constant: Quantity
    per_token: Quantity = 0.0
    per_windowed: tuple[tuple[int, Quantity], ...] = ()

    def at(self, context: Quantity) -> Quantity:
        """Cost at one context (or at an array of contexts) [tokens]."""
        cost = self.constant + self.per_token * context
        for window, slope in self.per_windowed:
            cost = cost + slope * (np.minimum(context, window) if hasattr(context, "dtype")
                                   else min(context, window))  # fmt: skip
        return cost

    def total(self, sums: ContextSums) -> Quantity:
        """Cost summed over a set of passes."""
        cost = self.constant * sums.count + self.per_token * sums.tokens
        for window, slope in self.per_windowed:
            cost = cost + slope * sums.windowed[window]
        return cost

    @staticmethod
    def from_terms(constant: Quantity, terms: Mapping[int | None, Quantity]) -> Affine:
        """Affine cost from a constant and a slope a window, the key None standing for the whole context."""
        windowed = tuple((window, slope) for window, slope in terms.items() if window is not None)
        return Affine(constant, terms.get(None, 0.0), windowed)
