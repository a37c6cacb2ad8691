"""Data, prior and pass-time equation, and their bounded least squares; it does not judge what comes out.

Fitted are the runtime's numbers in the pass-time equation of `RuntimeProfile` (utilisations and the curve as
logarithms, times as they are) and the curve's measured points. A number's prior is the start runtime's value;
its range is read as a 95 % interval, and the prior has long tails, so that a start that is wrong by many
widths hardly pulls. `mbu_small` and `mbu_kv` are fitted as multiples of `mbu_large`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy.optimize import least_squares

from hw_profiles.schema import RuntimeProfile
from simulator.physics.verify import relative_cost
from simulator.studies.calibration.times import Floats, Timed

DRAFTING = ("floor_per_draft_pass_s", "floor_per_layer_s")
"""Fitted only where passes of drafters were timed: without them a floor of layers is a floor of passes."""

FIELDS = (
    "mbu_large", "mbu_small", "mbu_kv", "floor_per_pass_s", "host_per_row_s", "prefill_macs_per_s_fraction",
    "prefill_floor_s", *DRAFTING,
)  # fmt: skip
LOGARITHMIC = ("mbu_large", "mbu_small", "mbu_kv", "prefill_macs_per_s_fraction")
RELATIVE = ("mbu_small", "mbu_kv")
Z95 = 1.959964
"""Standard errors on each side of a value that a range of 95 % reaches."""

STEP = 1e-5
TOLERANCE = 1e-12
MOST_EVALUATIONS = 500
NEGLIGIBLE_S = 1e-15

Loss = Literal["linear", "soft_l1"]


@dataclass(frozen=True, kw_only=True)
class Solution:
    """Position of one minimisation: fields in prior widths from the start, and logarithms of the curve."""

    z: Floats
    curve: Floats
    chi2: float
    converged: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """Data, prior and equation.

    Attributes
    ----------
    start : RuntimeProfile
        Prior.
    models : tuple of Timed
        Data.
    widths : tuple of float
        Measured widths above 1.
    kv_reads : {"once", "per_row"}
        How a pass reads the cache; the models are compiled with it.
    loss : {"linear", "soft_l1"}
        ``soft_l1`` lets outliers count less.
    spread : float
        Factor on the stated errors.
    """

    start: RuntimeProfile
    models: tuple[Timed, ...]
    widths: tuple[float, ...]
    kv_reads: Literal["once", "per_row"]
    loss: Loss = "linear"
    spread: float = 1.0
    measured: Floats = field(init=False)
    error: Floats = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "measured", np.concatenate([each.measured_s for each in self.models]))
        error = np.concatenate([each.error_s for each in self.models]) * self.spread
        object.__setattr__(self, "error", error)

    @cached_property
    def prior(self) -> tuple[Floats, Floats]:
        """Centre and standard deviation of each field, in the space that it is fitted in."""
        found = [_prior(self.start, name) for name in FIELDS]
        return np.array([centre for centre, _ in found]), np.array([sd for _, sd in found])

    @cached_property
    def ranged(self) -> list[int]:
        """Fields with a range; one without is taken as known, and so are those of absent drafters."""
        drafting = any(each.model.drafter is not None for each in self.models)
        known = () if drafting else DRAFTING
        return [i for i, sd in enumerate(self.prior[1]) if sd > 0 and FIELDS[i] not in known]

    @cached_property
    def start_curve(self) -> Floats:
        """Logarithms of the start's curve at the measured widths."""
        curve = self.start.verify_curve
        if not self.widths or curve is None:
            return np.zeros(0)
        tile = self.start.tile
        costs = relative_cost(
            width=np.array(self.widths), widths=[width for width, _ in curve.value],
            costs=[cost for _, cost in curve.value],
            tile=None if tile is None else round(tile.value), extrapolation=self.start.verify_extrapolation,
        )  # fmt: skip
        return np.asarray(np.log(np.maximum(costs, 1e-3)))

    def predicted(self, z: Floats, curve: Floats) -> Floats:
        """Times of all models [s].

        Parameters
        ----------
        z : ndarray, shape (..., fields)
            Position in prior widths from the start.
        curve : ndarray, shape (..., points)
            Logarithms of the curve.

        Returns
        -------
        ndarray, shape (..., data)
            Passes and prefills, model by model.
        """
        centre, sd = self.prior
        axes: dict[str, Any] = {name: each[..., None] for name, each in natural(centre + sd * z).items()}
        if self.widths:
            costs = np.exp(curve)
            first = np.ones((*costs.shape[:-1], 1))
            axes["verify_curve"] = (first, *(costs[..., i, None] for i in range(len(self.widths))))
        return np.concatenate([each.predicted_s(axes) for each in self.models], axis=-1)

    def jacobian(self, z: Floats, curve: Floats) -> Floats:
        """Derivatives of the times by every field and curve point, in standard errors of the times."""
        position = np.concatenate([z, curve])
        up = position + STEP * np.eye(len(position))
        # A time must not turn negative, and the equation is linear in it: one side is as good as both.
        back = [0.0 if name not in LOGARITHMIC else STEP for name in FIELDS] + [STEP] * len(curve)
        down = position - np.diag(back)
        change = np.subtract(*(self.predicted(at[:, : len(z)], at[:, len(z) :]) for at in (up, down)))
        return np.asarray((change / (STEP + np.array(back))[:, None] / self.error).T)

    def solve(self, free: Sequence[int]) -> Solution:
        """Minimise over some fields, the others at the start's values, and over all curve points.

        Parameters
        ----------
        free : sequence of int
            Indices into :data:`FIELDS`.
        """
        centre, sd = self.prior
        fields, n = list(free), len(FIELDS)

        def unpack(x: Floats) -> tuple[Floats, Floats]:
            z = np.zeros(n)
            z[fields] = x[: len(fields)]
            return z, x[len(fields) :]

        def residuals(x: Floats) -> Floats:
            z, curve = unpack(x)
            return np.concatenate([(self.predicted(z, curve) - self.measured) / self.error, pull(z[fields])])

        def slopes(x: Floats) -> Floats:
            whole = self.jacobian(*unpack(x))[:, [*fields, *range(n, n + len(self.widths))]]
            prior = np.diag(pull_slope(x[: len(fields)]))
            return np.concatenate([whole, np.pad(prior, ((0, 0), (0, len(self.widths))))])

        limits = [_limits(FIELDS[i], centre[i], sd[i]) for i in fields]
        limits += [(-math.inf, math.inf)] * len(self.widths)
        low, high = zip(*limits, strict=True) if limits else ((), ())
        at = np.concatenate([np.zeros(len(fields)), self.start_curve])
        if not len(at):
            z, curve = unpack(at)
            return Solution(z=z, curve=curve, chi2=self._chi2(residuals(at)), converged=True)
        found = least_squares(
            residuals, np.clip(at, low, high), jac=slopes, bounds=(low, high), loss=self.loss, ftol=TOLERANCE,
            xtol=TOLERANCE, gtol=TOLERANCE, max_nfev=MOST_EVALUATIONS,
        )  # fmt: skip
        z, curve = unpack(found.x)
        return Solution(z=z, curve=curve, chi2=self._chi2(residuals(found.x)), converged=found.status > 0)

    def weighted(self, solution: Solution) -> Floats:
        """Jacobian at a solution, rows weighted as the loss weights them."""
        slopes = self.jacobian(solution.z, solution.curve)
        if self.loss == "linear":
            return slopes
        off = (self.predicted(solution.z, solution.curve) - self.measured) / self.error
        return np.asarray(slopes * ((1 + off**2) ** -0.25)[:, None])

    def _chi2(self, residuals: Floats) -> float:
        squares = residuals[: len(self.measured)] ** 2
        return float(np.sum(squares if self.loss == "linear" else 2 * (np.sqrt(1 + squares) - 1)))


def pull(z: Floats) -> Floats:
    """Residual of a prior at ``z`` widths from its centre: ``z`` nearby, growing as a logarithm far away."""
    return np.asarray(np.sign(z) * np.sqrt(np.log1p(z**2)))


def pull_slope(z: Floats) -> Floats:
    """Derivative of :func:`pull`."""
    near = np.abs(z) < 1e-6
    safe = np.where(near, 1.0, z)
    return np.asarray(np.where(near, 1.0, safe / ((1 + safe**2) * pull(safe))))


def natural(x: Floats) -> dict[str, Floats]:
    """Fields in their units from the space that they are fitted in, shape (..., fields)."""
    values = {}
    for i, name in enumerate(FIELDS):
        if name in LOGARITHMIC:
            own = x[..., i] + (x[..., 0] if name in RELATIVE else 0.0)
            values[name] = np.asarray(np.minimum(np.exp(own), 1.0))
        else:
            values[name] = np.where(x[..., i] > NEGLIGIBLE_S, x[..., i], 0.0)
    return values


def _prior(start: RuntimeProfile, name: str) -> tuple[float, float]:
    cited = getattr(start, name)
    if cited is None:
        return 0.0, 0.0
    low, high = (cited.value, cited.value) if cited.low is None else (cited.low, cited.high)
    if name not in LOGARITHMIC:
        return cited.value, (high - low) / (2 * Z95)
    whole = math.log(start.mbu_large.value) if name in RELATIVE else 0.0
    return math.log(cited.value) - whole, math.log(high / low) / (2 * Z95)


def _limits(name: str, centre: float, sd: float) -> tuple[float, float]:
    """Bounds in prior widths: no negative time, nothing above the peak."""
    if name not in LOGARITHMIC:
        return -centre / sd, math.inf
    return -math.inf, math.inf if name in RELATIVE else -centre / sd
