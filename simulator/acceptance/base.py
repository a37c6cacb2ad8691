"""What every model of acceptance answers, and the checks they share; it does not know any number."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulator.acceptance.replay import StepTable
from simulator.errors import DraftscopeError

Floats = NDArray[np.float64]


class AcceptanceError(DraftscopeError):
    """A rate, length or draft length that is not allowed."""


class TransferError(AcceptanceError):
    """Acceptance of one target or drafter asked for another."""


class Acceptance(Protocol):
    """How many of K drafts the target accepts.

    Every model answers for the target and drafter that it was obtained on (None = whatever the caller says),
    says how it is known (``kind``: published | measured | derived | assumed) and where from (``sources``).
    """

    @property
    def id(self) -> str:
        """Name for labels and digests."""

    @property
    def target_id(self) -> str | None:
        """Target it holds for."""

    @property
    def drafter_id(self) -> str | None:
        """Drafter it holds for."""

    @property
    def kind(self) -> str:
        """How it is known, at the draft lengths it was obtained for."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Reference keys."""

    @property
    def max_draft_length(self) -> int | None:
        """Largest K it answers for; None = any."""

    def kind_at(self, draft_length: int) -> str:
        """How the answer at this K is known: `kind`, or weaker where it is extrapolated."""

    def mean_acceptance_length(self, draft_length: ArrayLike) -> Any:
        """Tokens per step, bonus included, 1..K+1: a float, or an array for an array of K."""

    def per_position_acceptance_rate(self, draft_length: int) -> Floats:
        """Unconditional S_k, k = 1..K: probability that draft k and all before it are accepted, (K,)."""

    def interval(
        self, draft_length: int, *, rng: np.random.Generator | None = None, task: str | None = None
    ) -> tuple[float, float] | None:
        """Low and high mean acceptance length, or None where no range is known (traces need ``rng``).

        ``task`` keeps one task class of a trace, as in `steps`; other models have none.
        """

    def steps(self, draft_length: int, *, task: str | None = None) -> StepTable | None:
        """The exact sequence of steps; None for models that are not traces."""


def draft_lengths(value: ArrayLike, *, where: str, largest: int | None = None) -> NDArray[np.int64]:
    """Check draft lengths: whole numbers from 0 to ``largest``; the shape is kept."""
    array = np.asarray(value, dtype=np.float64)
    if not (np.isfinite(array).all() and (array >= 0).all() and (array == np.floor(array)).all()):
        raise AcceptanceError(f"{where}: draft_length: given {value!r}, allowed: whole numbers >= 0.")
    if largest is not None and (array > largest).any():
        raise AcceptanceError(
            f"{where}: draft_length: given {value!r}, allowed: 0..{largest} (nothing is known beyond; "
            "a model that extrapolates must be asked for and counts as assumed)."
        )
    return array.astype(np.int64)


def rate(value: ArrayLike, *, where: str) -> Floats:
    """Check a probability (or an array of them): finite, 0..1."""
    array = np.asarray(value, dtype=np.float64)
    if not ((array >= 0) & (array <= 1)).all():
        raise AcceptanceError(f"{where}: given {value!r}, allowed: 0..1.")
    return array


def plain(value: Floats) -> Any:
    """A float for a 0-d array, the array itself otherwise."""
    return float(value) if value.ndim == 0 else value


def resolve_kind(
    kind: str,
    *,
    where: str,
    known: tuple[str | None, str | None],
    asked: tuple[str | None, str | None],
    transfer: bool,
) -> str:
    """Kind of an acceptance that was obtained on ``known`` = (target, drafter) when asked for ``asked``.

    None on either side matches everything. Anything else that differs raises TransferError, unless
    ``transfer`` allows it: then the answer is "assumed".
    """
    differ = [
        f"{role} {mine!r}, not {other!r}"
        for role, mine, other in zip(("target", "drafter"), known, asked, strict=True)
        if mine is not None and other is not None and mine != other
    ]
    if not differ:
        return kind
    if not transfer:
        raise TransferError(
            f"{where}: holds for {' and '.join(differ)}. Allow it with transfer (--transfer): the result is "
            "then labelled assumed."
        )
    return "assumed"


def sample_accepted(
    acceptance: Acceptance, draft_length: int, *, size: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw accepted counts with the per-position rates of a model: P(accepted >= k) = S_k, steps independent.

    Parameters
    ----------
    acceptance : Acceptance
        Any model; of a trace, prefer the exact ``steps``.
    draft_length : int
        K.
    size : int
        Steps to draw.
    rng : numpy.random.Generator
        The run's generator.
    """
    survival = acceptance.per_position_acceptance_rate(draft_length)
    return np.asarray((rng.random(size)[:, None] < survival).sum(axis=1), dtype=np.int64)
