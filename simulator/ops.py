"""One forward pass as a short list of Ops (bytes and MACs by part); it does not know any device, time or energy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Op:
    """One group of operations of one forward pass, affine in width ``w`` (rows) and context ``n`` (tokens cached).

    Attributes
    ----------
    name : str
        What it does, for people.
    part : str
        Key of the byte ledger: ``layers``, ``lm_head``, ``embedding``, ``per_layer_embedding``, ``kv_cache``,
        ``projection``, and the same with ``drafter_`` in front.
    weight_bytes : float
        Bytes of weights (and scales), read once per pass.
    bytes_per_row : float
        Bytes read or written per row: gathered embedding rows, KV written.
    kv_bytes_per_context : float
        KV bytes read per context token, for all rows together when the kernel reads the cache once.
    macs_per_row, macs_per_row_per_context : float
        Multiply-accumulates.
    window : int or None
        The op sees ``min(n, window)`` context tokens.
    dtype : str
        MAC type for the rate and energy look-ups: ``int8``, ``f16`` or ``f32``.
    dispatches : int
        Kernels launched.
    """

    name: str
    part: str
    weight_bytes: float = 0.0
    bytes_per_row: float = 0.0
    kv_bytes_per_context: float = 0.0
    macs_per_row: float = 0.0
    macs_per_row_per_context: float = 0.0
    window: int | None = None
    dtype: str = "int8"
    dispatches: int = 1
