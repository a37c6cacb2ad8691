"""Calibrated prediction: a row from the other rows of its group (same machine, stack, target and drafter).

The step cost ``R = tokens / speedup`` of a group is a Gaussian process in the draft length around the tuned
cost model: a free level and slope (a straight line costs nothing), a cubic spline, a step where kernels
change to tiles, and terms for what else differs between its rows: context, gate, and tokens per pass that
nobody stated.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simulator.studies.validation.cases import Case
from simulator.studies.validation.tokens import Tokens

Vector = NDArray[np.float64]

LEVEL, SLOPE, BEND, CLIFF = 0.25, 0.03, 0.0003, 0.3
CONTEXT, GATE, GATE_NEAR = 0.02, 0.1, 0.01
UNSTATED = 0.02
NOISE = 0.02
TILE_DRAFTS = 7.0


def predict_in_group(
    cases: Sequence[Case], tokens: Sequence[Tokens], costs: Vector, expected: Vector, wanted: int
) -> tuple[float, float]:
    """Step cost of one row of a group and its variance, from the measured costs of the others.

    Parameters
    ----------
    cases, tokens : sequence
        The group.
    costs : ndarray
        Measured step costs; that of ``wanted`` is not read.
    expected : ndarray
        What the tuned model expects.
    wanted : int
        Index of the row to predict.
    """
    others = np.array([i for i in range(len(cases)) if i != wanted and np.isfinite(costs[i])])
    scale = float(np.median(costs[others])) if len(others) else float(expected[wanted])
    covariance = _covariance(cases, tokens, expected, scale)
    if not len(others):
        return float(expected[wanted]), float(covariance[wanted, wanted])
    noise = np.diag((NOISE * costs[others]) ** 2)
    among = covariance[np.ix_(others, others)] + noise
    cross = covariance[wanted, others]
    error = costs[others] - expected[others]
    mean = expected[wanted] + cross @ np.linalg.solve(among, error)
    variance = covariance[wanted, wanted] - cross @ np.linalg.solve(among, cross)
    return max(float(mean), 0.3), float(max(variance, 0.0) + (NOISE * mean) ** 2)


def _covariance(cases: Sequence[Case], tokens: Sequence[Tokens], expected: Vector, scale: float) -> Vector:
    length = np.array([each.proposed for each in tokens])
    gate = np.array([case.row.p_min or 0.0 for case in cases])
    unstated = np.array([0.0 if each.stated else 1.0 for each in tokens]) * expected
    task, context = _same([case.row.task for case in cases]), _same([case.row.context_len for case in cases])
    small, large = np.minimum.outer(length, length), np.maximum.outer(length, length)
    beyond = (length > TILE_DRAFTS).astype(float)
    gates = np.outer(gate > 0, gate > 0) * np.exp(-0.5 * (np.subtract.outer(gate, gate) / 0.12) ** 2)
    near = np.exp(-0.5 * np.subtract.outer(length, length) ** 2)
    level = LEVEL + SLOPE * np.outer(length - 2, length - 2)
    bends = BEND * small**2 * (3 * large - small) / 6 + CLIFF * np.outer(beyond, beyond)
    total: Vector = (
        scale**2
        * (level + bends + CONTEXT * context + GATE * np.outer(gate, gate) + GATE_NEAR * gates * near)
        + UNSTATED * np.outer(unstated, unstated) * task
    )
    return total


def _same(values: Sequence[str]) -> Vector:
    array = np.array(values)
    equal: Vector = (array[:, None] == array[None]).astype(float)
    return equal
