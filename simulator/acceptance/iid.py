"""Independent drafts with one acceptance rate; it does not know that misses cluster (there it is low).

Equation: tokens per step = (1 - a^(K+1)) / (1 - a), Leviathan et al., "Fast inference from transformers via
speculative decoding" (arXiv 2211.17192), eq. 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from simulator.acceptance.base import AcceptanceError, Floats, draft_lengths, plain, rate
from simulator.acceptance.replay import StepTable


def iid_length(acceptance_rate: Floats, draft_length: ArrayLike) -> Floats:
    """Tokens per step of independent drafts, (1 - a^(K+1)) / (1 - a), also near and at a = 1; broadcasts."""
    a, k = np.asarray(acceptance_rate, dtype=np.float64), np.asarray(draft_length, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        length = -np.expm1((k + 1) * np.log(a)) / (1 - a)
    return np.clip(np.where(a == 1, k + 1, length), 1, k + 1)


def equivalent_rate(mean_acceptance_length: float, draft_length: int, *, where: str = "acceptance") -> float:
    """The i.i.d. rate that gives a mean acceptance length at one draft length, by bisection.

    Parameters
    ----------
    mean_acceptance_length : float
        Tokens per step, bonus included, 1..K+1.
    draft_length : int
        K >= 1.

    Raises
    ------
    AcceptanceError
        Where no rate gives it: more tokens per step than K + 1 cannot be.
    """
    k = int(draft_lengths(draft_length, where=where))
    if k < 1 or not 1 <= mean_acceptance_length <= k + 1:
        raise AcceptanceError(
            f"{where}: mean acceptance length {mean_acceptance_length} at draft_length {k}, "
            f"allowed: 1..{k + 1} (bonus token included) with draft_length >= 1."
        )
    low, high = 0.0, 1.0
    while (middle := (low + high) / 2) not in (low, high):
        # iid_length in plain numbers: a bisection asks sixty times
        tokens = 1.0 if middle == 0 else -math.expm1((k + 1) * math.log(middle)) / (1 - middle)
        if tokens < mean_acceptance_length:
            low = middle
        else:
            high = middle
    return high if mean_acceptance_length > 1 else 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class IidAcceptance:
    """Every draft is accepted with the same probability, whatever came before.

    Attributes
    ----------
    acceptance_rate : float or ndarray
        Probability a that a draft is accepted given that all before it were, 0..1.
    low, high : float or None
        Range of the rate.
    target_id, drafter_id, kind, sources
        As in `Acceptance`; a number of the caller's is "assumed".
    """

    acceptance_rate: ArrayLike
    low: float | None = None
    high: float | None = None
    target_id: str | None = None
    drafter_id: str | None = None
    kind: str = "assumed"
    sources: tuple[str, ...] = ()
    max_draft_length: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        rates = [self.acceptance_rate, *(value for value in (self.low, self.high) if value is not None)]
        for value in rates:
            rate(value, where="acceptance_rate")
        if (self.low is None) != (self.high is None) or (
            self.low is not None and self.high is not None and not self.low <= self.high
        ):
            raise AcceptanceError(f"acceptance_rate: low {self.low} and high {self.high} are not a range.")

    @property
    def id(self) -> str:
        """``iid(0.8)``."""
        rates = np.asarray(self.acceptance_rate)
        return f"iid({float(rates):g})" if rates.ndim == 0 else f"iid({rates.size} rates)"

    def kind_at(self, draft_length: int) -> str:
        """`kind`: the model is the same at every K."""
        return self.kind

    def mean_acceptance_length(self, draft_length: ArrayLike) -> Any:
        """Tokens per step; broadcasts the rate against K."""
        k = draft_lengths(draft_length, where=self.id)
        return plain(iid_length(np.asarray(self.acceptance_rate), k))

    def per_position_acceptance_rate(self, draft_length: int) -> Floats:
        """S_k = a^k, (..., K)."""
        k = int(draft_lengths(draft_length, where=self.id))
        powers: Floats = np.asarray(self.acceptance_rate, dtype=np.float64)[..., None] ** np.arange(1, k + 1)
        return powers

    def interval(
        self, draft_length: int, *, rng: np.random.Generator | None = None, task: str | None = None
    ) -> tuple[float, float] | None:
        """Mean acceptance length at the low and the high rate."""
        if self.low is None or self.high is None:
            return None
        k = draft_lengths(draft_length, where=self.id)
        low, high = (float(iid_length(np.asarray(value), k)) for value in (self.low, self.high))
        return low, high

    def steps(self, draft_length: int, *, task: str | None = None) -> StepTable | None:
        """None: there is no sequence of steps."""
        return None


@dataclass(frozen=True, kw_only=True, eq=False)
class LengthAcceptance(IidAcceptance):
    """A mean acceptance length known at one draft length, carried to others by the i.i.d. rate that gives it.

    Attributes
    ----------
    length : float
        Tokens per step, bonus included, 1..K+1.
    at_draft_length : int
        The K at which it holds.
    length_low, length_high : float or None
        Range of the length.
    """

    length: float
    at_draft_length: int
    length_low: float | None = None
    length_high: float | None = None
    acceptance_rate: ArrayLike = field(default=np.nan, init=False)
    low: float | None = field(default=None, init=False)
    high: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        for name, value in (
            ("acceptance_rate", self.length),
            ("low", self.length_low),
            ("high", self.length_high),
        ):
            if value is not None:
                object.__setattr__(
                    self, name, equivalent_rate(value, self.at_draft_length, where="acceptance_length")
                )
        super().__post_init__()

    @property
    def id(self) -> str:
        """``length(2.9 at 4)``."""
        return f"length({self.length:g} at {self.at_draft_length})"

    def kind_at(self, draft_length: int) -> str:
        """`kind` at its own K; "derived" (or weaker) below it and "assumed" above."""
        if draft_length > self.at_draft_length:
            return "assumed"
        if draft_length < self.at_draft_length and self.kind in ("published", "measured"):
            return "derived"
        return self.kind
