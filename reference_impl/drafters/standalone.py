"""Standalone drafter: a small Llama-style language model with its own embeddings, cache and prefill.

It sees text only. It shares nothing with the target but the tokenizer, and pays for it: an embedding table,
a cache that grows with the context, and a pass over the prompt before the first draft. Outputs are limited to
the same tokens as the head's (``vocabulary.py``), by reading only those rows of its tied table.
It does not know how it is trained (``train.py``) or verified (``decode.py``).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..backbone import RMSNorm, rope_tables, rotate


@dataclass(frozen=True)
class StandaloneConfig:
    """Dimensions of a standalone drafter; the LM head is tied to the embedding table."""

    vocab_size: int
    width: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    draft_vocab_size: int
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-5


class StandaloneLayer(nn.Module):
    """Pre-norm self-attention and a gated MLP."""

    def __init__(self, config: StandaloneConfig) -> None:
        super().__init__()
        self.config = config
        heads = config.num_attention_heads + 2 * config.num_key_value_heads
        self.attention_norm = RMSNorm(config.width, eps=config.rms_norm_eps)
        self.qkv = nn.Linear(config.width, heads * config.head_dim, bias=False)
        self.attention_output = nn.Linear(
            config.num_attention_heads * config.head_dim, config.width, bias=False
        )
        self.mlp_norm = RMSNorm(config.width, eps=config.rms_norm_eps)
        self.gate_up = nn.Linear(config.width, 2 * config.intermediate_size, bias=False)
        self.down = nn.Linear(config.intermediate_size, config.width, bias=False)

    def forward(
        self,
        x: Tensor,
        cos: Tensor,
        sin: Tensor,
        mask: Tensor | None,
        cache: tuple[Tensor, Tensor] | None,
        start: int,
        causal: bool,
    ) -> Tensor:
        """``x (b, w, width)``; with a cache, keys go to slot ``start`` and all slots before are seen."""
        cfg = self.config
        b, w, _ = x.shape
        split = (cfg.num_attention_heads, cfg.num_key_value_heads, cfg.num_key_value_heads)
        qkv = self.qkv(self.attention_norm(x)).view(b, w, sum(split), cfg.head_dim).transpose(1, 2)
        q, k, v = qkv.split(split, dim=1)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if cache is not None:
            cache[0][:, :, start : start + w] = k
            cache[1][:, :, start : start + w] = v
            span = start + w
            k, v = cache[0][:, :, :span], cache[1][:, :, :span]
        out = F.scaled_dot_product_attention(
            q.to(v.dtype), k.to(v.dtype), v, attn_mask=mask, is_causal=causal, enable_gqa=split[0] != split[1]
        )
        x = x + self.attention_output(out.transpose(1, 2).reshape(b, w, -1))
        gate, up = self.gate_up(self.mlp_norm(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Standalone(nn.Module):
    """The whole small language model; ``draft_ids`` are the tokens any request may propose."""

    draft_ids: Tensor

    def __init__(self, config: StandaloneConfig, draft_ids: Tensor, *, max_positions: int = 8192) -> None:
        super().__init__()
        if draft_ids.shape != (config.draft_vocab_size,):
            raise ValueError(
                f"draft_ids: given shape {tuple(draft_ids.shape)}, allowed ({config.draft_vocab_size},)"
            )
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.width)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.layers = nn.ModuleList(StandaloneLayer(config) for _ in range(config.num_hidden_layers))
        self.final_norm = RMSNorm(config.width, eps=config.rms_norm_eps)
        self.register_buffer("draft_ids", draft_ids)
        self._cos, self._sin = rope_tables(max_positions, config.head_dim, config.rope_theta, torch.float32)

    @torch.no_grad()
    def initialise_from(self, embedding: Tensor) -> None:
        """Start the table from the target's on its leading directions (the same help as the head gets)."""
        wide = embedding.float()
        _, vectors = torch.linalg.eigh(wide.T @ wide)
        basis = vectors[:, -self.config.width :]
        table = wide @ basis
        self.embedding.weight.copy_(table / table.norm(dim=-1).mean())
        for layer in self.layers:
            nn.init.normal_(layer.attention_output.weight, std=1e-3)
            nn.init.normal_(layer.down.weight, std=1e-3)

    def new_cache(self, capacity: int, dtype: torch.dtype) -> list[tuple[Tensor, Tensor]]:
        """Its own key/value buffers, batch 1, one pair a layer."""
        shape = (1, self.config.num_key_value_heads, capacity, self.config.head_dim)
        return [(torch.zeros(shape, dtype=dtype), torch.zeros(shape, dtype=dtype)) for _ in self.layers]

    def forward(
        self,
        tokens: Tensor,
        *,
        cache: list[tuple[Tensor, Tensor]] | None = None,
        start: int = 0,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Features ``(batch, width, hidden)`` of ``tokens (batch, width)``, causal.

        With a cache, keys and values go to its slots from ``start`` on. ``positions (width,)`` and the
        boolean ``mask (width, start + width)`` replace the causal order, for many continuations side by
        side.
        """
        x = self.embedding(tokens)
        width = tokens.shape[1]
        if positions is None:
            positions = torch.arange(start, start + width)
        cos, sin = self._cos[positions].to(x.dtype), self._sin[positions].to(x.dtype)
        if mask is None and start and width > 1:
            mask = torch.arange(start + width) <= positions[:, None]
        for i, layer in enumerate(self.layers):
            x = layer(
                x, cos, sin, mask, None if cache is None else cache[i], start, mask is None and width > 1
            )
        return self.final_norm(x)
