"""What is asked of a target: tokens, draft length, batch; it knows no target, drafter or device."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from simulator.errors import DraftscopeError

Quantity = Any
"""A float, or a numpy array with one value for each design; nothing here needs numpy."""

_MINIMUM = {
    "prompt_tokens": 1.0, "output_tokens": 1.0, "draft_length": 0.0, "batch": 1.0, "temperature": 0.0,
    "context": 0.0, "ambient_c": -40.0,
}  # fmt: skip
_MAXIMUM = {
    "prompt_tokens": 1e7, "output_tokens": 1e7, "draft_length": 1024.0, "batch": 1e6, "temperature": 100.0,
    "context": 1e7, "ambient_c": 100.0,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One request, or a batch of equal ones. Numbers may be floats or numpy arrays (broadcast together).

    Attributes
    ----------
    prompt_tokens, output_tokens : float or array
        Tokens prefilled and tokens emitted (the first one comes from prefill).
    draft_length : float or array
        Drafts proposed per step, 0 = plain decoding.
    batch : float or array
        Equal requests decoded together.
    temperature : float or array
        0 = greedy.
    context : float, array or None
        If given, every step is costed at this many cached tokens; None lets the context grow from the prompt.
    ambient_c : float or array
        Ambient temperature in degrees Celsius.
    engine, draft_engine : str or None
        Engine of the target and of the drafter; None leaves it to the runtime (and to ``engine``).
    """

    prompt_tokens: Quantity
    output_tokens: Quantity
    draft_length: Quantity = 0
    batch: Quantity = 1
    temperature: Quantity = 0.0
    context: Quantity | None = None
    ambient_c: Quantity = 25.0
    engine: str | None = None
    draft_engine: str | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _MINIMUM and value is not None:
                _check(f"scenario.{field.name}", value, _MINIMUM[field.name], _MAXIMUM[field.name])


def _check(where: str, value: Quantity, minimum: float, maximum: float) -> None:
    """Refuse NaN, too small, too large or non-numeric values of a float or an array."""
    allowed = f"allowed: a finite number >= {minimum:g} and <= {maximum:,g}."
    try:
        good = (value >= minimum) & (value <= maximum)
    except TypeError:
        raise DraftscopeError(f"{where}: {value!r} given; {allowed}") from None
    if isinstance(value, bool) or not (good.all() if hasattr(good, "all") else good):
        raise DraftscopeError(f"{where}: {value!r} given; {allowed}")
