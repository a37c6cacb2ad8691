"""Ranges that an override of a cited input must keep, those of the profiles; it knows no profile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from simulator.errors import DraftscopeError

SHARES = frozenset({"mbu_large", "mbu_small", "mbu_kv", "prefill_macs_per_s_fraction"})
"""Above 0, at most 1."""
POSITIVE = frozenset({
    "peak_bandwidth_bytes_per_s", "expert_bandwidth_bytes_per_s", "macs_per_s", "verify_curve",
    "macs_per_s_scale", "target_weight_scale", "drafter_weight_scale",
})  # fmt: skip
"""Above 0. The others may be 0."""


def check_range(axis: str, value: Any) -> None:
    """Refuse an override that a profile could not hold.

    Parameters
    ----------
    axis : str
        One of :data:`simulator.lowering.AXES`, perhaps with ``draft_`` in front.
    value : number, array, tuple or mapping of them
        What the caller gave; whether it is a number is checked elsewhere.

    Raises
    ------
    DraftscopeError
        Out of range.
    """
    name = axis.removeprefix("draft_")
    share = name in SHARES
    if not (share or name in POSITIVE):
        return
    for part in (
        value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple) else (value,)
    ):
        numbers = np.asarray(part)
        if numbers.dtype.kind in "fiu" and ((numbers <= 0).any() or (share and (numbers > 1).any())):
            shown = f"{numbers.item():g}" if numbers.size == 1 else f"{numbers.min():g} to {numbers.max():g}"
            upper = " and <= 1" if share else ""
            raise DraftscopeError(f"axis {axis}: {shown} given; allowed: numbers > 0{upper}.")
