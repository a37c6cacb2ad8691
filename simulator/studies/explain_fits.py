"""Causes fitted to measured speedups, each alone and all together; it does not know what they stand for.

How causes are ranked. Each is fitted alone to all measured points: its size ``z`` is the change in units of
its cited range. The score is ``sum (log(y / y_measured) / 5 %)^2 + 2 log(1 + (1.645 z)^2)``: how badly it
fits beyond run-to-run noise, plus how far the input must leave its range (ranges as 90 % intervals with heavy
tails); a cliff that is chosen among n widths pays 2 log(2 n) more. The lowest score comes first. Impossible
counts come before all. A fault is what all causes together cannot reach, and what no cause fits within ten
times its range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from simulator.studies.explain_causes import CLIFF, NOISE, Cause, Floats

SIGMAS = 1.645
"""Half of a 90 % interval in standard deviations."""
FITS = 4.0
"""Mean squared misfit, in units of noise, up to which a cause fits."""
STRETCH = 10.0
"""A gap that no cause explains within so many times its range is a fault."""


def misfit(y: Any, wanted: Floats) -> Any:
    """Squared distance of predictions from measurements, in units of noise."""
    return np.sum((np.log(y / wanted) / NOISE) ** 2, axis=-1)


def penalty(z: Any) -> Any:
    """What it costs to leave a value by ``z`` times its cited range."""
    return 2.0 * np.log1p((SIGMAS * np.asarray(z)) ** 2)


def fits(cause: Cause, y: Floats, wanted: Floats) -> tuple[float, float]:
    """Score of a cause at its best size, and the size that fits best whatever its size."""
    sizes = [0.0]
    for sign, ends in ((1.0, cause.slow), (-1.0, -cause.fast)):
        some = ends > 0
        if some.any():
            longest = float(np.max(np.abs(wanted - y)[some] / ends[some])) * 1.2
            sizes += list(sign * np.geomspace(1e-4, 1.0, 2000) * longest)
    z = np.array(sizes)[:, None]
    off = misfit(np.maximum(cause.at(y, z), 1e-9), wanted)
    score = off + penalty(z[:, 0]) + 2.0 * math.log(cause.choices)
    return float(score.min()), float(z[np.argmin(off), 0])


def one_cliff(found: Sequence[Cause], y: Floats, wanted: Floats) -> list[Cause]:
    """The cliffs by the one that fits best, so that the verify curve is one cause among the others."""
    cliffs = [cause for cause in found if cause.name == CLIFF]
    best = min(cliffs, key=lambda cause: fits(cause, y, wanted)[0])
    return [best, *(cause for cause in found if cause.name != CLIFF)]


def together(found: Sequence[Cause], y: Floats, wanted: Floats, at: int) -> tuple[float, float]:
    """What all causes together leave, in units of noise, and the speedup with all cited ends that help.

    For what is left the verify pass may cost as much as its rows in the worst kernel published: that is how
    far bytes and arithmetic go without a good batched kernel.
    """
    from scipy.optimize import lsq_linear

    columns: list[Floats] = []
    cited = 0.0
    whole = next(cause for cause in found if cause.name == CLIFF)
    for cause in (whole, *(cause for cause in found if cause.name != CLIFF)):
        cited += float(cause.slow[at] if wanted[at] > y[at] else cause.fast[at])
        if cause.one_by_one is None:
            columns += [cause.slow, cause.fast]
        else:
            slow = np.maximum(cause.slow, cause.one_by_one - y)
            columns += [*np.diag(slow), *np.diag(cause.fast)]
    matrix = np.stack(columns, axis=1)
    matrix = matrix[:, np.abs(matrix).sum(axis=0) > 0]
    weight = 1.0 / (NOISE * wanted)
    fit = lsq_linear(matrix * weight[:, None], (wanted - y) * weight, bounds=(0.0, 1.0))
    left = float(np.max(np.abs(matrix @ fit.x - (wanted - y)) * weight))
    return left, float(1.0 / max(y[at] + cited, 1e-9))
