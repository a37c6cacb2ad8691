"""RAM ledger of a design at the end of its response; it does not know fragmentation or eviction."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from simulator.lowering.affine import Quantity
from simulator.physics.memory import kv_cache_bytes, peak_ram_bytes

if TYPE_CHECKING:
    from simulator.lowering.params import CostParams

PAGE_BYTES = 4096.0
"""Android's common page size: a row gathered from a mapped table brings in one page more than its bytes."""

ACTIVATION_BYTES, LOGIT_BYTES = 2.0, 4.0
"""float16 activations, float32 logits."""


@dataclass(frozen=True, kw_only=True)
class KvShape:
    """A KV cache: bytes per token of full layers, of sliding layers, and their window (infinite: none)."""

    bytes_per_token: float = 0.0
    windowed_bytes_per_token: float = 0.0
    window: float = math.inf

    def bytes_at(self, context: Quantity) -> Quantity:
        """Cache of one stream at ``context`` cached tokens [B]."""
        return kv_cache_bytes(
            context=context, bytes_per_token=self.bytes_per_token,
            windowed_bytes_per_token=self.windowed_bytes_per_token, window=self.window,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What stays in RAM.

    Attributes
    ----------
    target_resident_bytes, target_mapped_bytes : float
        Weights in RAM, and tables in a memory-mapped file [B].
    target_gather_bytes_per_token, drafter_gather_bytes_per_token : float
        Rows gathered from tables for one token [B].
    target_kv, drafter_kv : KvShape
        Caches of one stream.
    drafter_mapped_bytes : float
        Mapped tables of the drafter [B].
    vocab_size, hidden_size, intermediate_size : int
        Of the target, for the activations.
    """

    target_resident_bytes: float
    target_mapped_bytes: float
    target_gather_bytes_per_token: float
    target_kv: KvShape
    drafter_mapped_bytes: float
    drafter_gather_bytes_per_token: float
    drafter_kv: KvShape
    vocab_size: int
    hidden_size: int
    intermediate_size: int


def last_context(params: CostParams) -> Quantity:
    """Longest context of a stream: prompt and output, and the drafts of the last step [tokens]."""
    if params.fixed_context is not None:
        return params.fixed_context + params.draft_length + 1.0
    return params.prompt_tokens + params.output_tokens - 1.0 + params.draft_length


def resident_weights(params: CostParams) -> dict[str, Quantity]:
    """Weights of the target, and parts of the drafter, that stay in RAM [B].

    Parameters
    ----------
    params : CostParams
        Design or designs.
    """
    return {
        "target_weights": params.memory.target_resident_bytes * params.target_weight_scale,
        **{f"drafter_{name}": resident * params.drafter_weight_scale
           for name, resident in params.drafter_resident_bytes.items()},
    }  # fmt: skip


def ram_ledger(params: CostParams) -> dict[str, Quantity]:
    """Peak RAM by part [B].

    Tables in a mapped file count with the pages that gathered rows touch, at most one page a row more than
    the bytes of the row. Activations are the larger of a prefill (hidden state and MLP of every prompt row)
    and a verify pass (logits of every row).

    Parameters
    ----------
    params : CostParams
        Design or designs.
    """
    memory = params.memory
    context = last_context(params)
    tokens = params.batch * context
    ledger = {
        **resident_weights(params),
        "target_mapped": _touched(memory.target_mapped_bytes, memory.target_gather_bytes_per_token, tokens),
        "target_kv_cache": params.batch * memory.target_kv.bytes_at(context),
    }
    if memory.drafter_mapped_bytes:
        ledger["drafter_mapped"] = _touched(
            memory.drafter_mapped_bytes, memory.drafter_gather_bytes_per_token, tokens
        )
    if memory.drafter_kv.bytes_per_token or memory.drafter_kv.windowed_bytes_per_token:
        ledger["drafter_kv_cache"] = params.batch * memory.drafter_kv.bytes_at(context)
    prefill = params.prompt_tokens * (
        2.0 * ACTIVATION_BYTES * (memory.hidden_size + memory.intermediate_size)
    )
    verify = (params.draft_length + 1.0) * (LOGIT_BYTES * memory.vocab_size)
    ledger["activations"] = params.batch * np.maximum(prefill, verify)
    return ledger


def ram_bytes(params: CostParams) -> Quantity:
    """Peak RAM [B]: the sum of :func:`ram_ledger`."""
    return peak_ram_bytes(parts=ram_ledger(params))


def _touched(mapped_bytes: float, bytes_per_token: float, tokens: Quantity) -> Quantity:
    if not mapped_bytes:
        return 0.0
    return np.minimum(mapped_bytes, tokens * (bytes_per_token + PAGE_BYTES))
