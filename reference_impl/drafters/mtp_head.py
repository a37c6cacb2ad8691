"""Frozen multi-token prediction head: a small Transformer after the target's last layer.

The head joins the target's embedding of the pending token with a state, projects the pair down to its own
width, and runs a few layers that have *queries only*: each cross-attends the keys and values that one layer
of the frozen target already holds in its cache. It owns no cache and needs no prefill. Its output, projected
back up, is the state of the next draft, so drafts are made one after another while the position and the
visible keys stay those of the step's start. The same state is read by rows of the target's own LM head: those
of a fixed draft vocabulary and of the request's prompt (``vocabulary.py``), so the head owns no table at all.

At the start of a step the state is the target's post-final-norm hidden state at the last verified position
``t`` and the pending token is ``x[t+1]``, so the first draft is ``x[t+2]`` (the pairing matters: one off, and
acceptance collapses while the output stays correct).

Sources: EAGLE (Li et al. 2024) for autoregression over features, GLIDE (Du et al. 2024) for cross-attention
into the target's cache, the Gemma 4 assistant for queries without keys and a constant position.
It does not know how it is started (``warm_start.py``), trained (``train.py``) or verified (``decode.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..backbone import RMSNorm, rope_tables, rotate


@dataclass(frozen=True)
class MTPHeadConfig:
    """Dimensions of a head; ``kv_layers[i]`` is the target layer that head layer ``i`` reads."""

    target_hidden_size: int
    width: int
    kv_layers: tuple[int, ...]
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    draft_vocab_size: int
    rope_theta: float
    rms_norm_eps: float = 1e-5
    use_hidden: bool = True


class MTPLayer(nn.Module):
    """Queries into the target's keys and values, then a gated MLP; both are residual and pre-normed."""

    def __init__(self, config: MTPHeadConfig) -> None:
        super().__init__()
        inner = config.num_attention_heads * config.head_dim
        self.config = config
        self.attention_norm = RMSNorm(config.width, eps=config.rms_norm_eps)
        self.query = nn.Linear(config.width, inner, bias=False)
        self.attention_output = nn.Linear(inner, config.width, bias=False)
        self.mlp_norm = RMSNorm(config.width, eps=config.rms_norm_eps)
        self.gate_up = nn.Linear(config.width, 2 * config.intermediate_size, bias=False)
        self.down = nn.Linear(config.intermediate_size, config.width, bias=False)

    def forward(
        self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, cos: Tensor, sin: Tensor
    ) -> Tensor:
        """``x (b, a, width)``, ``keys, values (b, kv_heads, s, head_dim)``, mask ``(b, 1, a, s)`` added."""
        cfg = self.config
        b, a, _ = x.shape
        q = (
            self.query(self.attention_norm(x))
            .view(b, a, cfg.num_attention_heads, cfg.head_dim)
            .transpose(1, 2)
        )
        q = rotate(q, cos, sin).to(keys.dtype)
        groups = cfg.num_attention_heads // cfg.num_key_value_heads
        q = q.reshape(b, cfg.num_key_value_heads, groups * a, cfg.head_dim)
        mask = None if mask is None else mask.repeat(1, 1, groups, 1)
        out = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        out = out.reshape(b, cfg.num_attention_heads, a, cfg.head_dim).transpose(1, 2).reshape(b, a, -1)
        x = x + self.attention_output(out.to(x.dtype))
        gate, up = self.gate_up(self.mlp_norm(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class MTPHead(nn.Module):
    """The head; the LM head is the target's.

    Parameters
    ----------
    config : MTPHeadConfig
    draft_ids : Tensor of int64, shape (draft_vocab_size,)
        Tokens that any request may propose, ascending.
    """

    draft_ids: Tensor

    def __init__(self, config: MTPHeadConfig, draft_ids: Tensor, *, max_positions: int = 8192) -> None:
        super().__init__()
        if draft_ids.shape != (config.draft_vocab_size,):
            raise ValueError(
                f"draft_ids: given shape {tuple(draft_ids.shape)}, allowed ({config.draft_vocab_size},)"
            )
        self.config = config
        size = config.target_hidden_size
        self.embedding_norm = RMSNorm(size, eps=config.rms_norm_eps)
        self.state_norm = RMSNorm(size, eps=config.rms_norm_eps)
        self.pre_projection = nn.Linear(2 * size, config.width, bias=False)
        self.layers = nn.ModuleList(MTPLayer(config) for _ in config.kv_layers)
        self.final_norm = RMSNorm(config.width, eps=config.rms_norm_eps)
        self.post_projection = nn.Linear(config.width, size, bias=False)
        self.register_buffer("draft_ids", draft_ids)
        cos, sin = rope_tables(max_positions, config.head_dim, config.rope_theta, torch.float32)
        self._cos, self._sin = cos, sin

    def rotary(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Tables ``(b, 1, a, head_dim)`` for query positions ``(b, a)``."""
        return self._cos[positions][:, None], self._sin[positions][:, None]

    def step(
        self,
        token_embedding: Tensor,
        state: Tensor,
        keys: Sequence[Tensor],
        values: Sequence[Tensor],
        mask: Tensor | None,
        rotary: tuple[Tensor, Tensor],
    ) -> Tensor:
        """One draft for each anchor.

        Parameters
        ----------
        token_embedding, state : Tensor, shape (batch, anchors, target_hidden_size)
            Target embedding of the last token; target hidden state (first draft) or fed-back state.
        keys, values : one ``(batch, kv_heads, slots, head_dim)`` tensor for each head layer
            The target's own cache, not a copy.
        mask : Tensor, shape (batch, 1, anchors, slots)
            Additive; slot ``j`` is visible when ``j <= t``. None: every slot given is visible.
        rotary : pair of Tensor
            Tables at the position of the pending token, the same for every draft of a step.

        Returns
        -------
        Tensor, shape (batch, anchors, target_hidden_size)
            State of the next draft; the target's LM head rows read it (:meth:`logits`).
        """
        state = self.state_norm(state)
        if not self.config.use_hidden:
            state = torch.zeros_like(state)
        x = self.pre_projection(torch.cat([self.embedding_norm(token_embedding), state], dim=-1))
        for layer, k, v in zip(self.layers, keys, values, strict=True):
            x = layer(x, k, v, mask, *rotary)
        return self.post_projection(self.final_norm(x))
