"""Cost of a wider pass relative to width 1: curve and tile padding; it does not know why kernels bend."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from simulator.errors import DraftscopeError

Quantity = Any


def padded_width(*, width: Quantity, tile: int | None) -> Quantity:
    """Rows that a kernel really computes when it pads to a multiple of ``tile``.

    Parameters
    ----------
    width : float or array
        Rows asked for.
    tile : int or None
        Padding step; None or 1 leaves the width alone.
    """
    if tile is None or tile <= 1:
        return width
    return np.ceil(np.asarray(width) / tile) * tile


def relative_cost(
    *, width: Quantity, widths: Any, costs: Any, tile: int | None = None, extrapolation: str = "linear"
) -> Quantity:
    """Measured kernel curve ``g(w)``: piecewise linear through the points.

    With a tile the width is padded first, and the curve is divided by its value at the padded width 1, so
    that ``g(1) = 1`` always holds.

    Parameters
    ----------
    width : float or array
        Rows of the pass, >= 1.
    widths : sequence of float
        Measured widths, rising, the first one 1.
    costs : array, shape (points,) or (points, ...)
        Cost relative to width 1 at each point; further axes broadcast against ``width`` (one curve a design).
    tile : int or None
        Padding step of the kernel.
    extrapolation : {"linear", "flat"}
        Beyond the last point: its last slope, or its value.

    Returns
    -------
    float or array
        ``g(w)``.

    Raises
    ------
    DraftscopeError
        If the points do not rise from width 1, or a cost is not positive.
    """
    points = [float(point) for point in widths]
    if not points or points[0] != 1.0 or any(b <= a for a, b in itertools.pairwise(points)):
        raise DraftscopeError(f"verify curve: widths {points} given; allowed: rising widths that start at 1.")
    if len(points) != len(costs):
        raise DraftscopeError(f"verify curve: {len(points)} widths but {len(costs)} costs.")
    if not np.all(np.asarray(costs, dtype=float) > 0):
        raise DraftscopeError("verify curve: every relative cost must be a number > 0.")
    padded = padded_width(width=width, tile=tile)
    flat = extrapolation == "flat"
    value = _piecewise(padded, points, costs, flat)
    if tile is not None and tile > 1:
        value = value / _piecewise(padded_width(width=1.0, tile=tile), points, costs, flat)
    return value


def _piecewise(width: Quantity, points: list[float], costs: Any, flat: bool) -> Quantity:
    """Linear through the points; a sum of hinges, so it vectorises."""
    if len(points) == 1:
        return costs[0] + 0.0 * width
    value = costs[0]
    for i in range(len(points) - 1):
        slope = (costs[i + 1] - costs[i]) / (points[i + 1] - points[i])
        run = np.maximum(width - points[i], 0.0)
        if flat or i < len(points) - 2:
            run = np.minimum(run, points[i + 1] - points[i])
        value = value + slope * run
    return value
