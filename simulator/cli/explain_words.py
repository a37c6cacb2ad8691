"""Numbers in the prose of ``draftscope explain``; it does not know what they mean."""

from __future__ import annotations

from simulator.units import readable, rounded


def number(value: float) -> str:
    """Three significant digits."""
    return rounded(value)


def times(value: float) -> str:
    """A ratio of speeds: ``1.62x``."""
    return f"{value:.2f}x"


def ms(seconds: float) -> str:
    """A time in the unit that reads best."""
    unit, scale = readable("s", abs(seconds))
    return f"{rounded(seconds / scale)} {unit}"


def many(count: int, noun: str) -> str:
    """``1 draft``, ``4 drafts``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
