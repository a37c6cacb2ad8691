"""Tokens a pass emits, where a row states them and where it does not; it knows no costs.

A row without its own number borrows from rows that are alike: same drafter family, target, task, author. A
row's acceptance is the conditional acceptance of the first draft; later drafts of a step are accepted a
little less often (`DECAY`). Its logit is a sum of effects of what rows share, so that the best linear
unbiased prediction (kriging with a nugget) weighs the evidence and says how sure it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.studies.validation.cases import Case

DECAY = 0.93
"""Conditional acceptance of a draft over that of the draft before."""

PRIOR_RATE, NUGGET = 0.72, 0.03
EFFECTS: tuple[tuple[Callable[[Case], Any], float], ...] = (
    (lambda case: case.drafter, 0.5),
    (lambda case: (case.target, case.drafter), 0.3),
    (lambda case: case.task_class, 0.2),
    (lambda case: (case.drafter, case.task_class), 0.1),
    (lambda case: case.key, 0.15),
    (lambda case: (case.row.source, case.drafter), 0.2),
    (lambda case: (case.row.source, case.key), 0.05),
)
"""What rows share, and the variance of its effect on the logit of acceptance."""

USUAL_LENGTH = {"block": 7.0, "ngram": 5.0}
STATED_SD, SHARE_SD, RANGE_SD = 0.05, 0.2, 0.4
"""Standard deviation of the logit behind a stated tokens-per-pass, a rate, a range of rates."""

Vector = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """Tokens per pass of one row.

    Attributes
    ----------
    mean : float
        Tokens a pass emits, bonus included.
    log_sd : float
        Standard deviation of its logarithm.
    proposed : float
        Drafts a step really proposes (a confidence gate proposes fewer than K).
    stated : bool
        Whether the row itself says it.
    """

    mean: float
    log_sd: float
    proposed: float
    stated: bool


def tokens_per_pass(rate: float, length: float) -> float:
    """``1 + sum_k prod_{j<=k} rate DECAY^(j-1)``, linear between whole lengths."""
    whole = int(length)
    total, survival = 1.0, 1.0
    for k in range(whole + 1):
        survival *= min(rate * DECAY**k, 0.995)
        total += survival if k < whole else survival * (length - whole)
    return total


def rate_of(tokens: float, length: float) -> float:
    """Invert `tokens_per_pass`."""
    low, high = 0.005, 0.995
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if tokens_per_pass(middle, length) < tokens else (low, middle)
    return (low + high) / 2


def estimate_tokens(cases: Sequence[Case], pool: Sequence[Case]) -> list[Tokens]:
    """Tokens per pass of some cases, from their own rows and from a pool of rows (answers are not read)."""
    seen = [(case, _observed(case)) for case in pool]
    known = [(case, *found) for case, found in seen if found is not None]
    prior = _logit(PRIOR_RATE)
    variance = sum(size for _, size in EFFECTS)
    mean = np.full(len(cases), prior)
    spread = np.full(len(cases), variance)
    if known:
        others = [case for case, _, _ in known]
        noise = np.array([sd**2 + NUGGET for _, _, sd in known])
        covariance = _covariance(others, others) + np.diag(noise)
        cross = _covariance(cases, others)
        weights = np.linalg.solve(covariance, cross.T)
        mean = prior + weights.T @ (np.array([value for _, value, _ in known]) - prior)
        spread = variance - np.einsum("ij,ji->i", cross, weights)
    return [
        _tokens(case, float(m), float(max(v, 1e-6))) for case, m, v in zip(cases, mean, spread, strict=True)
    ]


def _tokens(case: Case, logit: float, variance: float) -> Tokens:
    row = case.row
    length = case.draft_length
    gated = bool(row.p_min) and length is not None
    if row.mean_tokens_per_pass is not None and not gated:
        stated = row.mean_tokens_per_pass
        proposed = length if length is not None else max(round(1.4 * (stated - 1)), 1)
        return Tokens(mean=stated, log_sd=0.03, proposed=float(proposed), stated=True)
    if (told := _told(case)) is not None:
        return told
    length = length if length is not None else USUAL_LENGTH.get(case.drafter, 3.0)
    low, middle, high = (
        tokens_per_pass(_expit(logit + step * variance**0.5), length) for step in (-1.0, 0.0, 1.0)
    )
    log_sd = float(np.log(high / low) / 2)
    if not gated:
        return Tokens(mean=middle, log_sd=log_sd, proposed=length, stated=False)
    return _gated(row.p_min or 0.0, row.acceptance_value, middle, length, log_sd)


def _gated(gate: float, rate: float | None, ungated: float, length: float, log_sd: float) -> Tokens:
    """A gate drops unlikely drafts: few accepted ones are lost, many rejected ones are saved."""
    accepted = (ungated - 1) * (1 - 0.35 * gate**2)
    share = (ungated - 1) / length
    rate = rate if rate else min(0.95, share + (1 - share) * 0.8 * gate)
    proposed = min(length, accepted / max(rate, 1e-3))
    return Tokens(mean=1 + accepted, log_sd=log_sd, proposed=proposed, stated=False)


def _told(case: Case) -> Tokens | None:
    """Conventions that give tokens per pass without K."""
    row, words = case.row, case.row.acceptance_convention.lower()
    length = case.draft_length
    rate = row.acceptance_value
    if "accepted/generated" in words and rate is not None and rate < 0.97:
        proposed = length or (15.0 if case.drafter == "block" else 7.0)
        return Tokens(mean=1 / (1 - rate), log_sd=0.15, proposed=proposed, stated=False)
    if "alpha" in words and rate is not None and rate < 1:
        k = length or 5.0
        return Tokens(mean=(1 - rate ** (k + 1)) / (1 - rate), log_sd=0.1, proposed=k, stated=False)
    if length is None and (found := re.search(r"\bar (0?\.\d+)-(0?\.\d+)", words)):
        k = USUAL_LENGTH.get(case.drafter, 3.0)
        mean = 1 + k * (float(found[1]) + float(found[2])) / 2
        return Tokens(mean=mean, log_sd=0.2, proposed=k, stated=False)
    return None


def _observed(case: Case) -> tuple[float, float] | None:
    """Logit of the first draft's acceptance and its standard deviation, where the row tells anything."""
    row, length = case.row, case.draft_length
    if not length or case.tree_nodes:
        return None
    stated = row.mean_tokens_per_pass
    if stated is not None and stated <= length + 1 and not row.p_min:
        return _clipped(stated, length), STATED_SD
    rate = row.acceptance_value
    words = row.acceptance_convention.lower()
    if rate is not None and not row.p_min and "alpha" not in words and "generated" not in words:
        return _clipped(1 + length * rate, length), SHARE_SD
    if found := re.search(r"range(?: only)?:?\s*(0?\.\d+|1\.0+)-(0?\.\d+|1\.0+)", words):
        middle = (float(found[1]) + float(found[2])) / 2
        return _clipped(1 + length * middle, length), RANGE_SD
    if found := re.search(r"(\d+\.?\d*) of (\d+) drafted accepted", words):
        return _clipped(1 + float(found[1]), float(found[2])), SHARE_SD
    return None


def _clipped(tokens: float, length: float) -> float:
    return _logit(min(max(rate_of(tokens, length), 0.02), 0.98))


def _covariance(first: Sequence[Case], second: Sequence[Case]) -> Vector:
    total = np.zeros((len(first), len(second)))
    for of, size in EFFECTS:
        codes: dict[Any, int] = {}
        a = np.array([codes.setdefault(of(case), len(codes)) for case in first])
        b = np.array([codes.setdefault(of(case), len(codes)) for case in second])
        total += size * (a[:, None] == b[None, :])
    return total


def _logit(rate: float) -> float:
    return float(np.log(rate / (1 - rate)))


def _expit(value: float) -> float:
    return float(1 / (1 + np.exp(-value)))
