"""One published claim beside what comes out here, and how it is judged; it does not know any claim.

The rule of the verdicts stands in `judge`, and for readers in ``docs/reference/metrics.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

MEASURED, PREDICTED, ARITHMETIC, MISSING = "measured here", "predicted", "arithmetic", "missing"
REPRODUCED, BOUNDED, POSSIBLE, FAILED, UNKNOWN = (
    "reproduced", "within the bound", "consistent, not shown", "not reproduced", "cannot be judged",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A row of the claims table.

    Attributes
    ----------
    id : str
        ``3.smart_reply.total``: number of the claim, then the case.
    claim : str
        What is claimed, for people.
    case : str
        What is looked at here: device, target, drafter, draft length, task.
    published : str
        The published number or wording.
    wanted_low, wanted_high : float or None
        The published number as a range in ``unit``; None where it is open or not a number.
    no_effect : float or None
        Value at which nothing is gained (1 for a ratio of speeds, 0 for a saving), where the claim says which
        side of it is right; None for a claim of a number alone.
    value, low, high : float or None
        What comes out here, and its interval.
    unit : str
        Of all of them.
    how : str
        ``measured here`` (acceptance recorded here, no model of a phone), ``predicted``, ``arithmetic`` or
        ``missing``.
    verdict : str
        ``reproduced``, ``within the bound``, ``consistent, not shown``, ``not reproduced`` or ``cannot be
        judged``; see `judge`.
    assumptions : str
        What the number hangs on.
    explanation : str
        Why it comes out as it does, above all where it does not reproduce the claim.
    sources : tuple of str
        Keys of references.
    """

    id: str
    claim: str
    case: str
    published: str
    wanted_low: float | None = None
    wanted_high: float | None = None
    no_effect: float | None = None
    value: float | None
    low: float | None = None
    high: float | None = None
    unit: str
    how: str
    verdict: str
    assumptions: str = ""
    explanation: str = ""
    sources: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """All of it, in a fixed order."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


COLUMNS = tuple(each.name for each in fields(Claim))
"""Keys of `Claim.record`, in order."""


def claim(
    *,
    value: float | None,
    low: float | None = None,
    high: float | None = None,
    wanted_low: float | None = None,
    wanted_high: float | None = None,
    no_effect: float | None = None,
    how: str,
    **rest: Any,
) -> Claim:
    """A claim with its verdict (`judge`).

    Parameters
    ----------
    value, low, high : float or None
        What comes out here.
    wanted_low, wanted_high : float or None
        The published range; None at an open end.
    no_effect : float or None
        Where nothing is gained, for a claim of a direction (faster, saves).
    how : str
        See `Claim`.
    **rest
        Further fields of `Claim`; ``verdict`` overrides the judgement.
    """
    verdict = rest.pop("verdict", None) or judge(value, low, high, wanted_low, wanted_high, no_effect)
    return Claim(
        value=value, low=low, high=high, wanted_low=wanted_low, wanted_high=wanted_high,
        no_effect=no_effect, how=how, verdict=verdict, **rest,
    )  # fmt: skip


def judge(
    value: float | None,
    low: float | None,
    high: float | None,
    wanted_low: float | None,
    wanted_high: float | None,
    no_effect: float | None = None,
) -> str:
    """The verdict, one rule for all claims.

    ``not reproduced``: our interval and the published range do not meet. ``reproduced``: our value lies in
    the published range and, for a claim of a direction, our whole interval lies on the right side of no
    effect. ``within the bound``: the same for an "up to" claim, a range from no effect to a maximum: a gain
    is shown, that it reaches the maximum is not. ``consistent, not shown``: all between, such as a saving
    whose interval reaches below zero.
    ``cannot be judged``: no value here, or no number published.

    Parameters
    ----------
    value, low, high : float or None
        What comes out here; without an interval the value is its own.
    wanted_low, wanted_high : float or None
        The published range, its tolerance included; None at an open end.
    no_effect : float or None
        The right side of it is that of the published range; a range on both sides claims no direction.
    """
    if value is None or (wanted_low is None and wanted_high is None):
        return UNKNOWN
    bottom = float("-inf") if wanted_low is None else wanted_low
    top = float("inf") if wanted_high is None else wanted_high
    least, most = min(value, value if low is None else low), max(value, value if high is None else high)
    if most < bottom or least > top:
        return FAILED
    shown = bottom <= value <= top
    if no_effect is not None and bottom >= no_effect:
        shown = shown and least > no_effect
    elif no_effect is not None and top <= no_effect:
        shown = shown and most < no_effect
    if not shown:
        return POSSIBLE
    up_to = no_effect in (wanted_low, wanted_high) and None not in (wanted_low, wanted_high)
    return BOUNDED if up_to else REPRODUCED
