"""Bytes that a served model keeps: KV caches, RAM ledger, experts touched; paging is unknown here."""

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


def expected_experts(*, experts: Quantity, experts_per_token: Quantity, rows: Quantity) -> Quantity:
    """Distinct experts that a pass of several rows touches, for independent uniform routing.

    ``E[u(w)] = E (1 - (1 - k/E)^w)``

    Parameters
    ----------
    experts : float or array
        Experts ``E`` of the layer.
    experts_per_token : float or array
        Experts ``k`` that one row uses.
    rows : float or array
        Width ``w`` of the pass.

    Returns
    -------
    float or array
        Expected number of distinct experts.

    Notes
    -----
    Real routing is correlated between neighbouring tokens, so this is an upper estimate for text.
    """
    return experts * (1.0 - (1.0 - experts_per_token / experts) ** rows)


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
