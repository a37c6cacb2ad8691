"""What the cost model misses, learnt from machines that are alike; it knows rows only by what they share.

The model's error in the logarithm of a step's cost is taken as a Gaussian process over kernel family, kind of
drafter and the numbers that costs depend on (Kennedy and O'Hagan 2001). Outliers are weighed down by iterated
reweighting (Huber). It moves predictions where measurements of like machines agree, and says how sure it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simulator.studies.validation.cases import Case
from simulator.studies.validation.cost import Design

Vector = NDArray[np.float64]

LENGTHS = np.array([0.8, 0.6, 0.4, 0.5, 1.2, 0.5, 0.5])
"""Scales of log plain pass, log FLOP per byte, log bits, log width, log draft share, experts, parallel."""


ALIKE, FAMILY_AND_DRAFTER, NOISE = 0.025, 0.065, 0.18**2
"""Variance of what rows of one kernel family share where their numbers are close, of what one family does
with one kind of drafter, and of a single measurement around it."""


def predict_residuals(
    train: tuple[Sequence[Case], Design],
    error: Vector,
    noise: Vector,
    weight: Vector,
    wanted: tuple[Sequence[Case], Design],
) -> tuple[Vector, Vector]:
    """Mean and variance of the model's error on the wanted rows (the scatter of a measurement included).

    Parameters
    ----------
    train, wanted : (sequence of Case, Design)
        Rows that teach, and rows to predict.
    error : ndarray
        Log cost measured minus log cost of the model, for the first.
    noise, weight : ndarray
        Variance of their tokens per pass; weights, at most 1.
    """
    base = ALIKE + FAMILY_AND_DRAFTER
    if not len(error):
        return np.zeros(len(wanted[0])), np.full(len(wanted[0]), base + NOISE)
    among, cross = _covariance(train, train), _covariance(wanted, train)
    own = (NOISE + noise) / weight
    trust = np.ones(len(error))
    for _ in range(3):
        solved = np.linalg.solve(among + np.diag(own / trust), error)
        distance = np.abs(error - among @ solved) / np.sqrt(own)
        trust = np.minimum(1.0, 2.0 / np.maximum(distance, 1e-9))
    weights = np.linalg.solve(among + np.diag(own / trust), cross.T)
    mean: Vector = weights.T @ error
    spread = base - np.einsum("ij,ji->i", cross, weights)
    return mean, np.maximum(spread, 0.0) + NOISE


def _covariance(first: tuple[Sequence[Case], Design], second: tuple[Sequence[Case], Design]) -> Vector:
    a, b = _numbers(first[1]), _numbers(second[1])
    alike = np.exp(-0.5 * (((a[:, None] - b[None]) / LENGTHS) ** 2).sum(-1))

    def same(values: Sequence[str], others: Sequence[str]) -> Vector:
        equal: Vector = (np.array(values)[:, None] == np.array(others)[None]).astype(float)
        return equal

    family = same([case.family for case in first[0]], [case.family for case in second[0]])
    drafter = same([case.drafter for case in first[0]], [case.drafter for case in second[0]])
    total: Vector = family * (ALIKE * alike + FAMILY_AND_DRAFTER * drafter)
    return total


def _numbers(design: Design) -> Vector:
    return np.stack(
        [
            np.log(design.plain_s), np.log(design.flop_per_byte), np.log(design.bits), np.log(design.width),
            np.log(np.maximum(design.share, 0.01)), (design.union > 0).astype(float), design.tensor_parallel,
        ],
        axis=1,
    )  # fmt: skip
