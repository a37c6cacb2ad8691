"""Bytes that a served model keeps: KV caches, RAM ledger; paging is unknown here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from simulator.errors import DraftscopeError

Quantity = Any


def kv_cache_bytes(
    *,
    context: Quantity,
    bytes_per_token: Quantity,
    windowed_bytes_per_token: Quantity = 0.0,
    window: Quantity = math.inf,
) -> Quantity:
    """KV cache at ``context`` cached tokens: full layers grow, sliding layers stop at their window.

    ``KV(n) = k n + k_w min(n, window)``

    Parameters
    ----------
    context : float or array
        Tokens cached.
    bytes_per_token, windowed_bytes_per_token : float or array
        K and V of all full and of all sliding layers [B/token].
    window : float or array
        Sliding window [tokens].

    Returns
    -------
    float or array
        Bytes.
    """
    return bytes_per_token * context + windowed_bytes_per_token * np.minimum(context, window)


def peak_ram_bytes(*, parts: Mapping[str, Quantity]) -> Quantity:
    """Peak RAM as the plain sum of the parts of the ledger.

    Parameters
    ----------
    parts : mapping of str to float or array
        Bytes by part.

    Raises
    ------
    DraftscopeError
        If a part is negative or not a number.
    """
    total: Quantity = 0.0
    for name, value in parts.items():
        if not np.all(np.asarray(value) >= 0):
            raise DraftscopeError(f"RAM part {name!r}: {value!r} given; allowed: a number >= 0.")
        total = total + value
    return total
