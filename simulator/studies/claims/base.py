"""One published claim beside what comes out here, and how it is judged; it does not know any claim."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

MEASURED, PREDICTED, ARITHMETIC, MISSING = "measured here", "predicted", "arithmetic", "missing"
REPRODUCED, POSSIBLE, FAILED, UNKNOWN = (
    "reproduced", "within the interval", "not reproduced", "cannot be judged",
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
    value, low, high : float or None
        What comes out here, and its interval.
    unit : str
        Of all of them.
    how : str
        ``measured here`` (acceptance recorded here, no model of a phone), ``predicted``, ``arithmetic`` or
        ``missing``.
    verdict : str
        ``reproduced``, ``within the interval``, ``not reproduced`` or ``cannot be judged``.
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
    how: str,
    **rest: Any,
) -> Claim:
    """A claim with its verdict: the value, or at least its interval, lies in the published range.

    Parameters
    ----------
    value, low, high : float or None
        What comes out here.
    wanted_low, wanted_high : float or None
        The published range; None at an open end.
    how : str
        See `Claim`.
    **rest
        Further fields of `Claim`; ``verdict`` overrides the judgement.
    """
    verdict = rest.pop("verdict", None) or judge(value, low, high, wanted_low, wanted_high)
    return Claim(
        value=value, low=low, high=high, wanted_low=wanted_low, wanted_high=wanted_high, how=how,
        verdict=verdict, **rest,
    )  # fmt: skip


def judge(
    value: float | None,
    low: float | None,
    high: float | None,
    wanted_low: float | None,
    wanted_high: float | None,
) -> str:
    """Compare a value and its interval with a range that may be open at an end."""
    if value is None or (wanted_low is None and wanted_high is None):
        return UNKNOWN
    bottom = float("-inf") if wanted_low is None else wanted_low
    top = float("inf") if wanted_high is None else wanted_high
    if bottom <= value <= top:
        return REPRODUCED
    reach = (value if low is None else low, value if high is None else high)
    return POSSIBLE if reach[0] <= top and reach[1] >= bottom else FAILED
