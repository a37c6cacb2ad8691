"""Lists, ranges and assignments of the command line, as in llama-bench; it does not know what they name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from simulator.errors import DraftscopeError

_RANGE = re.compile(r"(\d+)-(\d+)(?:([+*])(\d+))?")
LONGEST_RANGE = 10_000


def names(text: str | None) -> list[str]:
    """``a,b`` as a list; nothing given is an empty list."""
    return list(dict.fromkeys(part.strip() for part in (text or "").split(",") if part.strip()))


def check_name(text: str, *, where: str) -> None:
    """Refuse a name that is empty or blank; ``where`` names the option."""
    if not text.strip():
        raise DraftscopeError(f"{where}: {text!r} given; allowed: a name that is not empty.")


MOST_DIGITS = 12


def whole_numbers(text: str, *, where: str, minimum: int = 0, maximum: int | None = None) -> list[int]:
    """``1-8``, ``1,2,4``, ``1-9+2`` (steps of 2), ``1-64*2`` (doubling), or mixed.

    Parameters
    ----------
    text : str
        List.
    where : str
        Option, for messages.
    minimum, maximum : int, int or None
        Smallest and largest number allowed.
    """
    found: list[int] = []
    if re.search(rf"\d{{{MOST_DIGITS + 1},}}", text):
        raise DraftscopeError(
            f"{where}: a number of more than {MOST_DIGITS} digits given; allowed: shorter ones."
        )
    for part in text.split(","):
        given = part.strip()
        match = _RANGE.fullmatch(given)
        if match:
            first, last, sign, step = int(match[1]), int(match[2]), match[3], int(match[4] or 1)
            values = _range(first, last, sign, step)
        elif re.fullmatch(r"\d+", given):
            values = [int(given)]
        else:
            values = []
        if not values or min(values) < minimum:
            raise DraftscopeError(
                f"{where}: {text!r} given; allowed: whole numbers >= {minimum}, lists (1,2,4) and ranges "
                "(1-8, 1-9+2, 1-64*2)."
            )
        found += values
    if maximum is not None and max(found) > maximum:
        raise DraftscopeError(f"{where}: {max(found)} given; allowed: whole numbers up to {maximum}.")
    return list(dict.fromkeys(found))


def _range(first: int, last: int, sign: str | None, step: int) -> list[int]:
    values: list[int] = []
    value = first
    while value <= last and len(values) <= LONGEST_RANGE:
        values.append(value)
        following = value * step if sign == "*" else value + step
        if following <= value:
            return []
        value = following
    return values


def number(
    text: str | None, *, where: str, minimum: float = 0.0, maximum: float = float("inf")
) -> float | None:
    """A finite number in a range; None where nothing was given."""
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not (minimum <= value <= maximum and value < float("inf")):
        upper = "" if maximum == float("inf") else f" and <= {maximum:g}"
        raise DraftscopeError(f"{where}: {text!r} given; allowed: a number >= {minimum:g}{upper}.")
    return value


def share(text: str, *, where: str) -> float | None:
    """A number from 0 to 1, or ``none``."""
    return None if text.strip().lower() == "none" else number(text, where=where, maximum=1.0)


def assignments(given: Sequence[str] | None) -> dict[str, Any] | None:
    """``--set name=number``: overrides of cited inputs, with or without their place in front.

    ``device.dram.peak_bandwidth_bytes_per_s=68e9``, ``runtime.mbu_large=0.5`` and ``mbu_large=0.5`` work;
    ``draft_mbu_large`` moves the drafter's side alone. An unknown name raises UnknownNameError with the
    nearest.
    """
    if not given:
        return None
    found: dict[str, Any] = {}
    for each in given:
        key, sign, text = each.partition("=")
        if not sign or not key.strip():
            raise DraftscopeError(f"--set: {each!r} given; allowed: name=number.")
        axis = _axis(key.strip())
        if axis in found:
            raise DraftscopeError(
                f"--set {key.strip()}: {axis} given twice; allowed: one value for each name."
            )
        found[axis] = number(text.strip(), where=f"--set {key.strip()}")
    return found


def _axis(key: str) -> str:
    from simulator.lowering import AXES
    from simulator.lowering.lowered import SIDE_AXES

    name = key.rpartition(".")[2]
    if ".dram." in f".{key}" and f"dram_{name}" in AXES:
        name = f"dram_{name}"
    if name in AXES or (name.startswith("draft_") and name.removeprefix("draft_") in SIDE_AXES):
        if name in {"macs_per_s", "energy_per_mac_j", "verify_curve"}:
            raise DraftscopeError(
                f"--set {key}: is a table; scale it with macs_per_s_scale, energy_per_mac_scale or "
                "verify_cost_scale."
            )
        if name in {"prompt_tokens", "output_tokens", "draft_length", "batch", "context"}:
            raise DraftscopeError(f"--set {key}: has an option of its own, --{name.replace('_', '-')}.")
        return name
    from simulator.errors import UnknownNameError

    raise UnknownNameError("--set", key, AXES)
