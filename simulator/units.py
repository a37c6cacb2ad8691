"""SI inside, units at the edges: parse and format quantities; it does not know what a quantity is used for.

Decimal prefixes are powers of ten (1 GB/s = 1e9 B/s), binary ones powers of two (1 MiB = 2**20 B).
One multiply-accumulate (MAC) counts as two operations, so 1 TOPS = 0.5e12 MAC/s.
"""

from __future__ import annotations

import math
import re
from typing import Any

from simulator.errors import DraftscopeError, UnknownNameError

_BYTES = {
    "B": 1.0, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
    "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40,
}  # fmt: skip

UNITS: dict[str, dict[str, float]] = {
    "bytes": _BYTES,
    "bytes_per_s": {f"{unit}/s": scale for unit, scale in _BYTES.items()},
    "s": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0},
    "w": {"W": 1.0, "mW": 1e-3, "uW": 1e-6, "µW": 1e-6, "kW": 1e3},
    "j": {"J": 1.0, "mJ": 1e-3, "uJ": 1e-6, "µJ": 1e-6, "nJ": 1e-9, "pJ": 1e-12, "kJ": 1e3, "Wh": 3600.0,
          "mWh": 3.6},
    "j_per_byte": {"J/B": 1.0, "nJ/B": 1e-9, "pJ/B": 1e-12, "pJ/bit": 8e-12},
    "j_per_mac": {"J/MAC": 1.0, "nJ/MAC": 1e-9, "pJ/MAC": 1e-12, "fJ/MAC": 1e-15},
    "hz": {"Hz": 1.0, "kHz": 1e3, "MHz": 1e6, "GHz": 1e9},
    "macs_per_s": {"MAC/s": 1.0, "MMAC/s": 1e6, "GMAC/s": 1e9, "TMAC/s": 1e12, "GOPS": 0.5e9, "TOPS": 0.5e12,
                   "GFLOPS": 0.5e9, "TFLOPS": 0.5e12},
    "per_s": {"1/s": 1.0, "tok/s": 1.0, "tokens/s": 1.0},
    "c": {"C": 1.0, "°C": 1.0, "degC": 1.0},
    "ratio": {"": 1.0, "x": 1.0, "%": 1e-2},
}  # fmt: skip
"""Kind of quantity -> unit -> SI value of one unit. The kinds are the suffixes of names in the code."""

_PREFERRED = {
    "bytes": ("B", "KiB", "MiB", "GiB"),
    "bytes_per_s": ("B/s", "kB/s", "MB/s", "GB/s"),
    "s": ("ns", "us", "ms", "s"),
    "w": ("mW", "W"),
    "j": ("nJ", "uJ", "mJ", "J", "kJ"),
    "j_per_byte": ("pJ/B", "nJ/B"),
    "j_per_mac": ("fJ/MAC", "pJ/MAC", "nJ/MAC"),
    "hz": ("Hz", "kHz", "MHz", "GHz"),
    "macs_per_s": ("MAC/s", "MMAC/s", "GMAC/s", "TMAC/s"),
    "per_s": ("tok/s",),
    "c": ("°C",),
    "ratio": ("",),
}
_NUMBER = re.compile(
    r"\s*([+-]?(?:\d[\d_,]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:nan|inf(?:inity)?)\b)\s*(.*?)\s*$",
    re.IGNORECASE,
)


def parse_quantity(text: str | float, kind: str, *, where: str = "quantity", minimum: float = 0.0) -> float:
    """Parse ``"7.5 GB/s"`` and the like into SI.

    Parameters
    ----------
    text : str or float
        Number and unit; a bare number is taken as SI.
    kind : str
        Key of :data:`UNITS`, for example ``"bytes_per_s"``.
    where : str
        Parameter or ``file:key`` for the error message.
    minimum : float
        Smallest allowed SI value; temperatures have none.

    Returns
    -------
    float
        SI value.

    Raises
    ------
    DraftscopeError
        NaN, infinite or too small a number, or no number at all.
    UnknownNameError
        An unknown unit; names the nearest.
    """
    if kind not in UNITS:
        raise UnknownNameError(f"{where}: kind of quantity", kind, UNITS)
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        raise DraftscopeError(
            f"{where}: {text!r} given; allowed: a number with a unit such as {_example(kind)!r}."
        )
    if isinstance(text, str):
        match = _NUMBER.match(text)
        if match is None:
            raise DraftscopeError(
                f"{where}: {text!r} given; allowed: a number with a unit such as {_example(kind)!r}."
            )
        number, unit = float(match[1].replace(",", "").replace("_", "")), match[2]
        if unit and unit not in UNITS[kind]:
            raise UnknownNameError(f"{where}: unit of {text!r}", unit, UNITS[kind])
        value = number * UNITS[kind].get(unit, 1.0)
    else:
        value = float(text)
    if not math.isfinite(value):
        raise DraftscopeError(f"{where}: {text!r} given; allowed: a finite number.")
    if kind != "c" and value < minimum:
        raise DraftscopeError(f"{where}: {text!r} given; allowed: at least {minimum:g}.")
    return value


def format_quantity(value: float, kind: str, *, unit: str | None = None, digits: int = 3) -> str:
    """Format an SI value with the given unit, or with the one that keeps the number readable.

    Parameters
    ----------
    value : float
        SI value.
    kind : str
        Key of :data:`UNITS`.
    unit : str, optional
        Fixed unit; default: the largest preferred unit that gives a number of at least 1.
    digits : int
        Significant digits (never fewer than the integer part needs).
    """
    if kind not in UNITS:
        raise UnknownNameError("kind of quantity", kind, UNITS)
    if unit is None:
        fitting = [
            name for name in _PREFERRED[kind] if abs(value) >= UNITS[kind][name] * (1 - 0.5 * 10**-digits)
        ]
        unit = fitting[-1] if fitting else _PREFERRED[kind][0]
    elif unit not in UNITS[kind]:
        raise UnknownNameError(f"unit of {kind}", unit, UNITS[kind])
    number = value / UNITS[kind][unit]
    if not math.isfinite(number) or number == 0:
        text = f"{number:g}"
    else:
        decimals = digits - 1 - math.floor(math.log10(abs(float(f"{number:.{digits}g}"))))
        text = f"{number:,.{max(0, min(decimals, 12))}f}"
    return f"{text} {unit}".rstrip()


def at_most(value: Any, limit: float | None) -> Any:
    """Return ``min(value, limit)`` for a float or, elementwise, an array; ``None`` is no limit."""
    if limit is None:
        return value
    return value.clip(max=limit) if hasattr(value, "clip") else min(value, limit)


def _example(kind: str) -> str:
    return f"3 {_PREFERRED[kind][-1]}".rstrip()
