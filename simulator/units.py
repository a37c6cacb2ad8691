"""SI inside, readable units at the edges; it does not know what a quantity is used for.

Decimal prefixes are powers of ten (1 MB = 1e6 B), binary ones powers of two (1 MiB = 2**20 B).
"""

from __future__ import annotations

import math
from typing import Any

_BINARY = (("B", 1.0), ("KiB", 2.0**10), ("MiB", 2.0**20), ("GiB", 2.0**30))
_LARGE = (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12))
_SMALL = (("n", 1e-9), ("u", 1e-6), ("m", 1e-3), ("", 1.0))

READABLE: dict[str, tuple[tuple[str, float], ...]] = {
    "s": tuple((f"{prefix}s", scale) for prefix, scale in _SMALL),
    "W": tuple((f"{prefix}W", scale) for prefix, scale in _SMALL[2:]),
    "J": tuple((f"{prefix}J", scale) for prefix, scale in _SMALL),
    "J/token": tuple((f"{prefix}J/token", scale) for prefix, scale in _SMALL),
    "B": _BINARY,
    "B/token": tuple((f"{prefix}B/token", scale) for prefix, scale in _LARGE),
    "MAC/token": tuple((f"{prefix}MAC/token", scale) for prefix, scale in _LARGE),
}
"""SI unit -> units to read it in, with the SI value of one, rising. Memory counts in powers of two."""


def readable(unit: str, value: float) -> tuple[str, float]:
    """Unit that keeps a value readable, and the SI value of one: the largest that gives at least 1.

    Parameters
    ----------
    unit : str
        SI unit; one that is not in :data:`READABLE` stays as it is.
    value : float
        SI value; of several that share a unit the largest.

    Examples
    --------
    >>> readable("s", 0.157)
    ('ms', 0.001)
    """
    units = READABLE.get(unit)
    if units is None or not math.isfinite(value):
        return unit, 1.0
    if value == 0:
        return next(each for each in units if each[1] == 1.0)
    fitting = [each for each in units if abs(value) >= each[1] * (1 - 0.5e-3)]
    return fitting[-1] if fitting else units[0]


def rounded(value: float | None, digits: int = 3) -> str:
    """A number with so many significant digits, no exponent, thousands kept; ``-`` where it is not known."""
    if value is None or not math.isfinite(value):
        return "-"
    if value == 0:
        return "0"
    power = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    return f"{value:,.{min(max(0, digits - 1 - power), 12)}f}"


def at_most(value: Any, limit: float | None) -> Any:
    """Return ``min(value, limit)`` for a float or, elementwise, an array; ``None`` is no limit."""
    if limit is None:
        return value
    return value.clip(max=limit) if hasattr(value, "clip") else min(value, limit)
