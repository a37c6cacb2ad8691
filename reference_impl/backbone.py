"""Frozen Llama-family decoder with a static KV cache and rollback.

The decoder is written for reading and for speed on a CPU: fused QKV and gate/up projections, one
scaled-dot-product attention per layer, and a cache whose slot index *is* the token position. A slot is
visible to a query at position ``p`` when its index is ``<= p``, so rolling back is setting a length:
stale rows behind it are never seen and the next pass overwrites them.

It does not know: training, dropout, sliding windows, mixture of experts, or any family but Llama.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .linear import linear, pack


@dataclass(frozen=True)
class BackboneConfig:
    """Dimensions of a Llama-family decoder, named as in Hugging Face ``config.json``."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    rope_theta: float
    rms_norm_eps: float
    eos_token_id: int


@dataclass(frozen=True)
class LayerWeights:
    """Weights of one decoder layer; every matrix is ``(out_features, in_features)``."""

    input_norm: Tensor
    qkv: Tensor
    attention_output: Tensor
    post_attention_norm: Tensor
    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True)
class BackboneWeights:
    """All tensors of the decoder; the LM head is the (tied) ``embedding``."""

    embedding: Tensor
    layers: tuple[LayerWeights, ...]
    final_norm: Tensor


class KVCache:
    """Static key/value buffers of one or more sequences, slot index = token position.

    Attributes
    ----------
    keys, values : list of Tensor
        One ``(batch, num_key_value_heads, capacity, head_dim)`` tensor a layer; keys are stored rotated.
    length : int
        Committed tokens (batch 1 only); ``rollback`` sets it, ``Backbone.forward`` never does.
    """

    def __init__(self, config: BackboneConfig, batch: int, capacity: int, dtype: torch.dtype) -> None:
        shape = (batch, config.num_key_value_heads, capacity, config.head_dim)
        self.keys = [torch.zeros(shape, dtype=dtype) for _ in range(config.num_hidden_layers)]
        self.values = [torch.zeros(shape, dtype=dtype) for _ in range(config.num_hidden_layers)]
        self.length = 0

    @property
    def capacity(self) -> int:
        """Number of slots a sequence may use."""
        return self.keys[0].shape[2]

    def rollback(self, length: int) -> None:
        """Forget every token from position ``length`` on (their slots are overwritten later)."""
        if not 0 <= length <= self.capacity:
            raise ValueError(f"rollback length: given {length}, allowed 0..{self.capacity}")
        self.length = length

    def select(self, rows: Tensor) -> None:
        """Keep only these batch rows, in this order (batched generation drops finished sequences)."""
        for i in range(len(self.keys)):
            self.keys[i] = self.keys[i].index_select(0, rows)
            self.values[i] = self.values[i].index_select(0, rows)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Root-mean-square norm over the last axis, computed in float32 as transformers does."""
    return weight * F.rms_norm(x.float(), weight.shape, None, eps).to(x.dtype)


class RMSNorm(nn.RMSNorm):
    """Trainable norm that computes in the dtype of its weight, whatever autocast made of the input."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last axis."""
        return super().forward(x.to(self.weight.dtype))


def rope_tables(capacity: int, head_dim: int, theta: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Tables ``(capacity, head_dim)`` of rotary embedding, half-split layout.

    The first is the cosine; the second the sine, negated in its first half, so that a rotation needs no sign.
    """
    inverse = 1.0 / theta ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    angles = torch.outer(torch.arange(capacity, dtype=torch.float32), inverse)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([cos, cos], dim=-1).to(dtype), torch.cat([-sin, sin], dim=-1).to(dtype)


def rotate(x: Tensor, cos: Tensor, signed_sin: Tensor) -> Tensor:
    """Apply rotary embedding; the tables broadcast against ``x`` ``(..., head_dim)``."""
    return x * cos + x.roll(x.shape[-1] // 2, dims=-1) * signed_sin


def greedy(logits: Tensor) -> Tensor:
    """Index of the largest logit along the last axis; ties go to the lowest.

    The same as ``argmax``, four times as fast in bfloat16.
    """
    return logits.max(-1).indices


class Backbone:
    """The frozen target: hidden states, logits and the KV cache that drafters may read.

    Parameters
    ----------
    config : BackboneConfig
    weights : BackboneWeights
        All of one dtype; they are never modified.
    max_positions : int
        Longest sequence for which rotary tables are kept.
    """

    def __init__(
        self, config: BackboneConfig, weights: BackboneWeights, *, max_positions: int = 8192
    ) -> None:
        self.config = config
        self.weights = weights
        self.dtype = weights.embedding.dtype
        self._cos, self._sin = rope_tables(max_positions, config.head_dim, config.rope_theta, self.dtype)
        self._head = pack(weights.embedding)
        self._layers = [
            replace(
                layer,
                qkv=pack(layer.qkv),
                attention_output=pack(layer.attention_output),
                gate_up=pack(layer.gate_up),
                down=pack(layer.down),
            )
            for layer in weights.layers
        ]

    def new_cache(self, *, batch: int = 1, capacity: int) -> KVCache:
        """Allocate an empty cache of ``capacity`` slots a sequence."""
        return KVCache(self.config, batch, capacity, self.dtype)

    def embed(self, tokens: Tensor) -> Tensor:
        """Embedding rows of ``tokens``, ``(..., hidden_size)`` (Llama applies no scale)."""
        return F.embedding(tokens, self.weights.embedding)

    def lm_head(self, hidden: Tensor) -> Tensor:
        """Logits ``(..., vocab_size)`` of post-final-norm hidden states."""
        return linear(hidden, self._head)

    @torch.inference_mode()
    def forward(
        self,
        tokens: Tensor,
        cache: KVCache,
        start: int | Tensor,
        *,
        span: int | None = None,
        queries: dict[int, Tensor] | None = None,
    ) -> Tensor:
        """Run one pass and write its keys and values into the cache.

        Parameters
        ----------
        tokens : Tensor of int64, shape (batch, width)
        cache : KVCache
            Written at positions ``start .. start + width - 1`` of every row.
        start : int or Tensor of int64, shape (batch,)
            Position of the first token of each row.
        span : int, optional
            Attend over the first ``span`` slots (at least ``start + width``). Fixing it, together with the
            width, fixes every kernel's shape, which is what makes two runs bit for bit equal.
        queries : dict of int to Tensor, optional
            The queries of the layers that are its keys are put in, before rotation:
            ``(batch, heads, width, head_dim)``.

        Returns
        -------
        Tensor, shape (batch, width, hidden_size)
            Final hidden states *after* the final norm.
        """
        cfg = self.config
        batch, width = tokens.shape
        per_row = isinstance(start, Tensor)
        end = int(start.max()) + width if per_row else start + width
        span = end if span is None else span
        if end > span or span > cache.capacity:
            raise ValueError(
                f"span: positions up to {end} and span {span} must fit the cache of {cache.capacity}"
            )
        steps = torch.arange(width)
        positions = start[:, None] + steps if per_row else (start + steps)[None, :]
        cos, sin = self._cos[positions][:, None], self._sin[positions][:, None]
        heads, kv_heads = cfg.num_attention_heads, cfg.num_key_value_heads
        groups = heads // kv_heads
        mask = None
        if per_row or width > 1 or span > end:  # a single query at the end of the span sees all of it
            visible = torch.arange(span)[None, None, :] <= positions[:, :, None]
            mask = torch.zeros(visible.shape, dtype=self.dtype).masked_fill_(~visible, float("-inf"))
            mask = mask.repeat(1, groups, 1)[:, None]
        rows = torch.arange(batch)[:, None] if per_row else None

        x = self.embed(tokens)
        for i, layer in enumerate(self._layers):
            qkv = linear(rms_norm(x, layer.input_norm, cfg.rms_norm_eps), layer.qkv)
            qkv = qkv.view(batch, width, heads + 2 * kv_heads, cfg.head_dim).transpose(1, 2)
            if queries is not None and i in queries:
                queries[i] = qkv[:, :heads]
            rotated = rotate(qkv[:, : heads + kv_heads], cos, sin)
            q, k, v = rotated[:, :heads], rotated[:, heads:], qkv[:, heads + kv_heads :]
            if rows is None:
                cache.keys[i][:, :, start:end] = k
                cache.values[i][:, :, start:end] = v
            else:
                cache.keys[i][rows, :, positions] = k.transpose(1, 2)
                cache.values[i][rows, :, positions] = v.transpose(1, 2)
            q = q.reshape(batch, kv_heads, groups * width, cfg.head_dim)
            attended = F.scaled_dot_product_attention(
                q, cache.keys[i][:, :, :span], cache.values[i][:, :, :span], attn_mask=mask
            )
            attended = (
                attended.reshape(batch, heads, width, cfg.head_dim).transpose(1, 2).reshape(batch, width, -1)
            )
            x = x + linear(attended, layer.attention_output)
            gate, up = linear(rms_norm(x, layer.post_attention_norm, cfg.rms_norm_eps), layer.gate_up).chunk(
                2, -1
            )
            x = x + linear(F.silu(gate) * up, layer.down)
        return rms_norm(x, self.weights.final_norm, cfg.rms_norm_eps)
