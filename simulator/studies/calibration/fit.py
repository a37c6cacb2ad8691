"""What a fit may be believed: which fields the data can tell apart, and how sure; it knows no files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from simulator.errors import DraftscopeError
from simulator.studies.calibration.problem import (
    DRAFTING,
    FIELDS,
    LOGARITHMIC,
    RELATIVE,
    Problem,
    natural,
    pull_slope,
)
from simulator.studies.calibration.times import Floats

PRIOR_DOMINATED = 0.8
"""A field whose width after the fit exceeds this share of its width before is not identified."""

LEAST_INFORMATION = PRIOR_DOMINATED**-2 - 1
"""Precision that the data must add, in units of the prior's, to narrow a width to that share."""

CONTRADICTED = 9.0
"""Rise of chi-squared (three standard errors) from which data contradict what they cannot identify alone."""

NO_DATA = 1e-9
NOTHING = "nothing measured depends on it"
NO_DRAFTER = "no pass of a drafter was timed"


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What the data say.

    Attributes
    ----------
    values, stderr : dict of str to float
        By field, in its unit; a field that was kept has the start's, those of :data:`RELATIVE` in proportion.
    share : dict of str to float
        Width after the fit / width of the prior; 0 where the start states no range.
    kept : dict of str to str
        Fields that the data cannot identify, and why.
    curve : tuple of (float, float, float)
        Width, cost relative to width 1 and the standard error of its logarithm; empty: only width 1 is there.
    names, correlation
        Fields and points ``verify_curve[w]`` in order, and the matrix.
    predicted_s : tuple of ndarray
        Fitted times of each model.
    chi2 : float
        Sum of squared errors, in standard errors.
    freedom : int
        Data less fitted numbers.
    spread : float
        By how much the residuals exceed the stated errors; standard errors are multiplied by it.
    contradicted : tuple of str
        Unidentified fields that moved because the data exclude the start's values.
    kv_reads : {"once", "per_row"}
        How a pass reads the cache.
    converged : bool
        Whether the minimisation ended well.
    """

    values: dict[str, float]
    stderr: dict[str, float]
    share: dict[str, float]
    kept: dict[str, str]
    curve: tuple[tuple[float, float, float], ...]
    names: tuple[str, ...]
    correlation: Floats
    predicted_s: tuple[Floats, ...]
    chi2: float
    freedom: int
    spread: float
    contradicted: tuple[str, ...]
    kv_reads: Literal["once", "per_row"]
    converged: bool


def identified(
    slopes: Floats, curve_slopes: Floats, candidates: Sequence[int]
) -> tuple[list[int], dict[int, str]]:
    """Which fields the data can tell apart from each other and from the curve, most telling first.

    Columns are taken one by one, each time the one that the data know most about once what the earlier ones
    explain is taken out (QR with pivoting), as long as the data would narrow its prior to
    :data:`PRIOR_DOMINATED` of its width.

    Parameters
    ----------
    slopes : ndarray, shape (data, fields)
        Derivatives in standard errors of the data and prior widths of the fields.
    curve_slopes : ndarray, shape (data, points)
        Of the curve, which has no prior.
    candidates : sequence of int
        Fields with a range.

    Returns
    -------
    chosen : list of int
        Identified fields.
    reasons : dict of int to str
        Why the others are not.
    """
    basis, _ = np.linalg.qr(curve_slopes)
    alone = (slopes**2).sum(axis=0)
    left = slopes - basis @ (basis.T @ slopes)
    beside_curve = (left**2).sum(axis=0)
    chosen: list[int] = []
    while True:
        power = (left**2).sum(axis=0)
        open_fields = [i for i in candidates if i not in chosen]
        best = max(open_fields, key=lambda i: power[i], default=None)
        if best is None or power[best] < LEAST_INFORMATION:
            break
        chosen.append(best)
        unit = left[:, best] / math.sqrt(power[best])
        left = left - np.outer(unit, unit @ left)
    reasons = {}
    for i in set(range(len(FIELDS))) - set(chosen):
        if i not in candidates and FIELDS[i] in DRAFTING:
            reasons[i] = NO_DRAFTER
        elif i not in candidates:
            reasons[i] = "the start states no range"
        elif alone[i] < NO_DATA:
            reasons[i] = NOTHING
        elif alone[i] < LEAST_INFORMATION:
            reasons[i] = "the data are too coarse to narrow its range"
        elif beside_curve[i] < LEAST_INFORMATION:
            reasons[i] = "cannot be told from verify_curve"
        else:
            alike = abs(slopes.T @ slopes[:, i]) / np.sqrt(np.maximum(alone, NO_DATA))
            reasons[i] = f"cannot be told from {FIELDS[max(chosen, key=lambda j: alike[j])]}"
    return chosen, reasons


def fit(problem: Problem) -> Fit:
    """Fit twice where the residuals exceed the stated errors: the second time with errors that hold.

    Parameters
    ----------
    problem : Problem
        Data, prior, equation.

    Raises
    ------
    DraftscopeError
        Where the equations of the fit have no solution.
    """
    try:
        found = _fit(problem)
        if found.freedom > 0 and found.chi2 > found.freedom:
            spread = math.sqrt(found.chi2 / found.freedom)
            found = _fit(replace(problem, spread=spread))
    except np.linalg.LinAlgError as error:
        raise DraftscopeError(
            f"measurements: these times cannot be fitted together ({error}); allowed: times in the unit of "
            "their column, and standard errors that are a believable share of them."
        ) from None
    return found


def _fit(problem: Problem) -> Fit:
    n, ranged = len(FIELDS), problem.ranged
    joint = problem.solve(ranged)
    slopes = problem.weighted(joint)
    chosen, reasons = identified(slopes[:, :n], slopes[:, n:], ranged)
    chosen.sort()
    found = joint if chosen == ranged else problem.solve(chosen)
    told = len(chosen)
    while found.chi2 > joint.chi2 + CONTRADICTED:
        # The start's values of what was left out do not fit: free the one that helps most.
        more = [[*chosen, i] for i in ranged if i not in chosen and reasons[i] != NOTHING]
        if not more:
            break
        chosen, found = min(((some, problem.solve(some)) for some in more), key=lambda each: each[1].chi2)
    contradicted = tuple(FIELDS[i] for i in sorted(chosen) if i in reasons)
    covariance = _covariance(problem.weighted(found), chosen, pull_slope(found.z) ** 2)
    centre, sd = problem.prior
    z_error = np.sqrt(np.diag(covariance))
    values = {name: float(each) for name, each in natural(centre + sd * found.z).items()}
    unit = np.diag(np.concatenate([sd, np.ones(len(problem.widths))]))
    for i, name in enumerate(FIELDS):
        if name in RELATIVE:
            unit[i, 0] = sd[0]
    spread = unit @ covariance @ unit.T
    error = np.sqrt(np.diag(spread))
    scale = np.where(error > 0, error, 1.0)
    predicted = problem.predicted(found.z, found.curve)
    sizes = np.cumsum([len(each.measured_s) for each in problem.models])[:-1]
    return Fit(
        values=values,
        stderr={name: float(error[i]) * (values[name] if name in LOGARITHMIC else 1.0)
                for i, name in enumerate(FIELDS)},
        share={name: float(z_error[i]) if sd[i] > 0 else 0.0 for i, name in enumerate(FIELDS)},
        kept={FIELDS[i]: reasons[i] for i in sorted(reasons)},
        curve=tuple((width, float(np.exp(log)), float(error[n + j]))
                    for j, (width, log) in enumerate(zip(problem.widths, found.curve, strict=True))),
        names=(*FIELDS, *(f"verify_curve[{width:g}]" for width in problem.widths)),
        correlation=spread / np.outer(scale, scale),
        predicted_s=tuple(np.split(predicted, sizes)),
        chi2=found.chi2,
        freedom=len(problem.measured) - told - len(problem.widths),
        spread=problem.spread,
        contradicted=contradicted,
        kv_reads=problem.kv_reads,
        converged=joint.converged and found.converged,
    )  # fmt: skip


def _covariance(slopes: Floats, chosen: Sequence[int], prior: Floats) -> Floats:
    """Covariance of all fields (in prior widths) and curve points: kept fields as uncertain as their prior.

    With ``A`` the information on what is fitted, its own priors included, and ``B`` how the data tie it to
    what is kept, an error of a kept field moves the fit by ``-B / A``. ``prior`` is the information of each
    field's prior where the fit ended.
    """
    n = len(prior)
    fitted = [*chosen, *range(n, slopes.shape[1])]
    kept = [i for i in range(n) if i not in chosen]
    whole = np.zeros((slopes.shape[1], slopes.shape[1]))
    whole[np.ix_(kept, kept)] = np.eye(len(kept))
    if not fitted:
        return whole
    information = slopes[:, fitted].T @ slopes[:, fitted]
    information += np.diag([*prior[list(chosen)], *[0.0] * (len(fitted) - len(chosen))])
    own = np.linalg.inv(information)
    moved = -own @ (slopes[:, fitted].T @ slopes[:, kept])
    whole[np.ix_(fitted, fitted)] = own + moved @ moved.T
    whole[np.ix_(fitted, kept)] = moved
    whole[np.ix_(kept, fitted)] = moved.T
    return whole
