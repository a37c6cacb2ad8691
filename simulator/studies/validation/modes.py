"""The three ways to predict a table of measurements, and what each may read.

``zero-shot`` reads neither the speedup nor the speed of plain decoding of the row, ``anchored`` reads the
latter, ``calibrated`` predicts a row from the other rows of its group. Tuning never sees a row's own source:
parameters and residuals come from the shipped table without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from simulator.errors import UnknownNameError
from simulator.studies.validation.cases import Case, case_of
from simulator.studies.validation.cost import Design, design_of, step_cost, tune
from simulator.studies.validation.groups import predict_in_group
from simulator.studies.validation.profiled import profiled_cost
from simulator.studies.validation.residuals import predict_residuals
from simulator.studies.validation.scores import Scored, source_weights
from simulator.studies.validation.table import Measured, shipped_measurements
from simulator.studies.validation.tokens import Tokens, estimate_tokens

Vector = NDArray[np.float64]
Status = Literal["scored", "predicted", "skipped", "inconsistent"]

MODES = ("zero-shot", "anchored", "calibrated")
Z = 1.645
"""Intervals hold 90 %."""

GROUP_ROWS = 3
"""Rows of a group from which on ``calibrated`` is judged."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What came out for one row.

    Attributes
    ----------
    id : str
        Of the row.
    measured_speedup : float or None
        The answer, where there is one.
    predicted_speedup, low, high : float
        With its 90 % interval.
    status : {"scored", "predicted", "skipped", "inconsistent"}
        What became of it.
    reason : str
        Why it is not scored, or what a reader should know.
    tokens_per_pass, tokens_stated, kernel_family, drafter : float, bool, str, str
        What the prediction rests on.
    group_rows : int
        Rows of its group with an answer, its own included.
    scored : Scored
        For aggregates; meaningful where the row has an answer.
    """

    id: str
    measured_speedup: float | None
    predicted_speedup: float
    low: float
    high: float
    status: Status
    reason: str
    tokens_per_pass: float
    tokens_stated: bool
    kernel_family: str
    drafter: str
    group_rows: int
    scored: Scored

    def record(self) -> dict[str, object]:
        """As the command prints it."""
        return {name: value for name, value in self.__dict__.items() if name != "scored"}


@dataclass(frozen=True, kw_only=True)
class _Predicted:
    log_mean: float
    log_sd: float
    tokens: Tokens
    cost: float


def validate(rows: Sequence[Measured], mode: str) -> tuple[Verdict, ...]:
    """Predict every row of a table.

    Parameters
    ----------
    rows : sequence of Measured
        What was measured.
    mode : str
        One of `MODES`.

    Returns
    -------
    tuple of Verdict
        One a row, in order.

    Raises
    ------
    UnknownNameError
        For another mode.
    """
    if mode not in MODES:
        raise UnknownNameError("--mode", mode, MODES)
    seen = [row.without_answers(keep_baseline=mode != "zero-shot") for row in rows]
    cases = [case_of(row) for row in seen]
    predicted = _without_own_source(cases, [case_of(row) for row in rows])
    if mode == "calibrated":
        predicted = _calibrated(rows, cases, predicted)
    return tuple(
        _verdict(row, case, each, rows, mode) for row, case, each in zip(rows, cases, predicted, strict=True)
    )


def _usable(row: Measured) -> bool:
    """Whether a row may be learnt from."""
    return (
        row.speedup is not None
        and row.clean_pair != "C"
        and not row.inconsistent
        and row.batch in (None, 1.0)
    )


def _without_own_source(cases: Sequence[Case], answered: Sequence[Case]) -> list[_Predicted]:
    """General prediction of every row, tuned on the shipped rows of all other sources."""
    shipped = [case_of(row) for row in shipped_measurements()]
    ids = {case.row.id for case in answered}
    pool = [*answered, *(case for case in shipped if case.row.id not in ids)]
    tokens = dict(zip((case.row.id for case in pool), estimate_tokens(pool, pool), strict=True))
    own = [case.row.source for case in shipped]
    found: dict[int, _Predicted] = {}
    for source in dict.fromkeys(case.row.source if case.row.source in own else "" for case in cases):
        indices = [
            i for i, case in enumerate(cases)
            if (case.row.source if case.row.source in own else "") == source
        ]  # fmt: skip
        train = [case for case in shipped if _usable(case.row) and case.row.source != source]
        model = _Model(train, [tokens[case.row.id] for case in train])
        wanted = [cases[i] for i in indices]
        costs = model.costs(wanted, [tokens[case.row.id] for case in wanted])
        siblings = [case for case in pool if _usable(case.row)]
        others = model.costs(siblings, [tokens[case.row.id] for case in siblings])
        for i, case, cost in zip(indices, wanted, costs, strict=True):
            known = _from_siblings(case, tokens[case.row.id], siblings, others)
            log_mean = float(np.log(known.mean) - cost[0])
            found[i] = _Predicted(
                log_mean=log_mean, log_sd=float(np.hypot(known.log_sd, cost[1])), tokens=known,
                cost=float(np.exp(cost[0])),
            )  # fmt: skip
    return [found[i] for i in range(len(cases))]


class _Model:
    """Cost model tuned on some rows, with what it misses."""

    def __init__(self, train: Sequence[Case], tokens: Sequence[Tokens]) -> None:
        self._cases, self._design = train, design_of(train, tokens)
        self._weight = source_weights([case.row.source for case in train])
        self._noise = np.array([each.log_sd**2 for each in tokens])
        cost = np.array(
            [np.log(t.mean / (c.row.speedup or np.nan)) for c, t in zip(train, tokens, strict=True)]
        )
        self._parameters = tune(self._design, cost, self._noise, self._weight)
        self._error = cost - np.log(step_cost(self._parameters, self._design))

    def costs(self, cases: Sequence[Case], tokens: Sequence[Tokens]) -> list[tuple[float, float]]:
        """Logarithm of the step cost and its standard deviation, for each row."""
        design: Design = design_of(cases, tokens)
        mean, variance = predict_residuals(
            (self._cases, self._design), self._error, self._noise, self._weight, (cases, design)
        )
        log_cost = np.log(step_cost(self._parameters, design)) + mean
        found = []
        for case, value, spread in zip(cases, log_cost, variance, strict=True):
            profiled = profiled_cost(case)
            if profiled is None:
                found.append((float(value), float(spread**0.5)))
            else:
                found.append((float(np.log(profiled.cost)), profiled.log_sd))
        return found


def _from_siblings(
    case: Case, prior: Tokens, pool: Sequence[Case], costs: Sequence[tuple[float, float]]
) -> Tokens:
    """Tokens per pass that speedups on other machines tell: same target, drafter and task."""
    if prior.stated or case.row.p_min:
        return prior
    exact = profiled_cost(case) is not None
    told: dict[str, list[float]] = {}
    spreads: dict[str, float] = {}
    for other, (log_cost, log_sd) in zip(pool, costs, strict=True):
        if other.key != case.key or other.row.device == case.row.device or other.row.p_min:
            continue
        if other.draft_length != case.draft_length or other.row.speedup is None:
            continue
        told.setdefault(other.row.device, []).append(float(np.log(other.row.speedup)) + log_cost)
        spreads[other.row.device] = log_sd
    if not told:
        return prior
    means = [float(np.mean(values)) for values in told.values()]
    variances = [spreads[device] ** 2 for device in told]
    precision = [1 / max(variance, 1e-4) for variance in variances]
    own = 0.0 if exact else 1 / prior.log_sd**2
    total = own + sum(precision)
    mean = (own * np.log(prior.mean) + float(np.dot(precision, means))) / total
    longest = 1 + prior.proposed
    return Tokens(
        mean=float(np.clip(np.exp(mean), 1.0, longest)), log_sd=float(total**-0.5), proposed=prior.proposed,
        stated=False,
    )  # fmt: skip


def _calibrated(
    rows: Sequence[Measured], cases: Sequence[Case], general: Sequence[_Predicted]
) -> list[_Predicted]:
    """Each row from the other answered rows of its group; alone it keeps the general prediction."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for i, row in enumerate(rows):
        groups.setdefault(row.group, []).append(i)
    found = list(general)
    for indices in groups.values():
        tokens = [general[i].tokens for i in indices]
        costs = np.array(
            [
                general[i].tokens.mean / (rows[i].speedup or np.nan) if _informs(rows[i]) else np.nan
                for i in indices
            ]
        )
        expected = np.array([general[i].cost for i in indices])
        for position, i in enumerate(indices):
            if not np.isfinite(np.delete(costs, position)).any():
                continue
            cost, variance = predict_in_group([cases[j] for j in indices], tokens, costs, expected, position)
            found[i] = _Predicted(
                log_mean=float(np.log(tokens[position].mean / cost)),
                log_sd=float(np.hypot(variance**0.5 / cost, 0.02)), tokens=tokens[position], cost=cost,
            )  # fmt: skip
    return found


def _informs(row: Measured) -> bool:
    return row.speedup is not None and not row.inconsistent


def _verdict(row: Measured, case: Case, found: _Predicted, rows: Sequence[Measured], mode: str) -> Verdict:
    status: Status = "scored"
    reason = ""
    if row.speedup is None:
        status, reason = "predicted", "no measured speedup"
    elif row.inconsistent:
        status = "inconsistent"
        reason = f"speedup {row.speedup:g} above {row.mean_tokens_per_pass:g} tokens per pass"
    elif row.clean_pair == "C":
        status, reason = "skipped", "clean_pair C: confounded"
    group = sum(other.group == row.group and _informs(other) for other in rows)
    if mode == "calibrated" and status == "scored" and group < 2:
        reason = "alone in its group: as anchored"
    speedup = float(np.exp(found.log_mean))
    low, high = (float(np.exp(found.log_mean + sign * Z * found.log_sd)) for sign in (-1, 1))
    scored = Scored(
        source=row.source, device_class=row.device_class, family=case.family, drafter=case.drafter,
        measured=row.speedup or float("nan"), predicted=speedup, low=low, high=high,
        tokens=found.tokens.mean, length=found.tokens.proposed,
    )  # fmt: skip
    return Verdict(
        id=row.id, measured_speedup=row.speedup, predicted_speedup=speedup, low=low, high=high, status=status,
        reason=reason, tokens_per_pass=found.tokens.mean, tokens_stated=found.tokens.stated,
        kernel_family=case.family, drafter=case.drafter, group_rows=group, scored=scored,
    )  # fmt: skip
