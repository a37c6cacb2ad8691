"""Acceptance by draft position; it does not know beyond its last position unless asked to extrapolate.

Equations: with a_k = P(draft k accepted | all before it were), S_k = a_1 ... a_k, and tokens per step = 1 +
sum S_k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from simulator.acceptance.base import AcceptanceError, Floats, draft_lengths, plain, rate
from simulator.acceptance.iid import iid_length
from simulator.acceptance.replay import StepTable


def conditional_from_unconditional(rates: Sequence[float], *, where: str) -> tuple[float, ...]:
    """a_k = S_k / S_{k-1}; S must lie in 0..1 and not rise with k."""
    survival = rate(rates, where=where)
    before = np.concatenate([[1.0], survival[:-1]])
    if (survival > before).any():
        k = int(np.argmax(survival > before)) + 1
        raise AcceptanceError(
            f"{where}: position {k}: given {survival[k - 1]:g} after {before[k - 1]:g}, "
            "allowed: unconditional rates that do not rise (conditional rates are another option)."
        )
    return tuple(
        float(value) for value in np.divide(survival, before, out=np.zeros(len(before)), where=before > 0)
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class PositionalAcceptance:
    """Conditional acceptance rates by draft position.

    Attributes
    ----------
    conditional_rates : tuple of float
        a_1..a_K, each 0..1.
    extrapolate : bool
        Continue beyond the last position with the last rate; those answers are "assumed".
    target_id, drafter_id, kind, sources
        As in `Acceptance`.
    label : str
        Shown as `id` where given.
    """

    conditional_rates: tuple[float, ...]
    extrapolate: bool = False
    target_id: str | None = None
    drafter_id: str | None = None
    kind: str = "assumed"
    sources: tuple[str, ...] = ()
    label: str = ""

    def __post_init__(self) -> None:
        if not self.conditional_rates:
            raise AcceptanceError("conditional_rates: given none, allowed: one or more rates in 0..1.")
        rate(self.conditional_rates, where="conditional_rates")

    @classmethod
    def from_unconditional(cls, rates: Sequence[float], **fields: Any) -> PositionalAcceptance:
        """From the rates S_k that vLLM prints; other fields as in the constructor."""
        return cls(
            conditional_rates=conditional_from_unconditional(rates, where="per_position_acceptance_rate"),
            **fields,
        )

    @property
    def id(self) -> str:
        """The label, or ``positional(0.84/0.71)``."""
        return self.label or f"positional({'/'.join(f'{value:.3g}' for value in self.conditional_rates)})"

    @property
    def max_draft_length(self) -> int | None:
        """Positions known; None where it extrapolates."""
        return None if self.extrapolate else len(self.conditional_rates)

    def kind_at(self, draft_length: int) -> str:
        """`kind` up to the last known position, "assumed" beyond."""
        return self.kind if draft_length <= len(self.conditional_rates) else "assumed"

    def mean_acceptance_length(self, draft_length: ArrayLike) -> Any:
        """Tokens per step, 1 + S_1 + ... + S_K."""
        k = draft_lengths(draft_length, where=self.id, largest=self.max_draft_length)
        survival = np.concatenate([[1.0], np.cumprod(self.conditional_rates)])
        known = np.minimum(k, len(self.conditional_rates))
        beyond = iid_length(np.asarray(self.conditional_rates[-1]), k - known) - 1
        return plain(np.asarray(np.cumsum(survival)[known] + survival[-1] * beyond))

    def per_position_acceptance_rate(self, draft_length: int) -> Floats:
        """S_k, (K,)."""
        k = int(draft_lengths(draft_length, where=self.id, largest=self.max_draft_length))
        rates = (
            *self.conditional_rates[:k],
            *[self.conditional_rates[-1]] * (k - len(self.conditional_rates)),
        )
        return np.asarray(np.cumprod(rates), dtype=np.float64)

    def interval(
        self, draft_length: int, *, rng: np.random.Generator | None = None, task: str | None = None
    ) -> tuple[float, float] | None:
        """None: no range was given."""
        return None

    def steps(self, draft_length: int, *, task: str | None = None) -> StepTable | None:
        """None: there is no sequence of steps."""
        return None
