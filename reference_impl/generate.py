"""Batched greedy generation by the target: responses, and the features that drafters train on.

One pass serves many prompts; finished rows are dropped and the batch is compacted. The final hidden states
and the keys and values of the wanted layers are a by-product of decoding, so they cost no second pass.
It does not speculate (see ``decode.py``) and, being batched, may round differently from a batch of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .backbone import Backbone, greedy


@dataclass(frozen=True)
class Generation:
    """A prompt with its greedy response and, where asked for, the target's features of both.

    Attributes
    ----------
    tokens : list of int
        Prompt and response; the response ends with the stop token or at the length limit.
    prompt_length : int
    hidden : Tensor, shape (len(tokens) - 1, hidden_size), or None
        Post-norm final states; row ``t`` predicts ``tokens[t + 1]``.
    keys, values : Tensor, shape (kv_layers, kv_heads, len(tokens) - 1, head_dim), or None
    """

    tokens: list[int]
    prompt_length: int
    hidden: Tensor | None = None
    keys: Tensor | None = None
    values: Tensor | None = None


@torch.inference_mode()
def generate_batch(
    backbone: Backbone,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    kv_layers: Sequence[int] | None = None,
    compact_below: float = 0.75,
    prefill_rows: int = 16,
) -> list[Generation]:
    """Greedy responses for a batch of prompts (ties go to the lowest token id).

    Parameters
    ----------
    prompts : sequence of token id sequences, none empty
    max_new_tokens : int
        Length limit of a response, stop token included.
    kv_layers : sequence of int, optional
        Layers whose keys and values to return; hidden states come with them.
    compact_below : float
        Compact the batch when fewer than this share of its rows still run.
    prefill_rows : int
        Rows prefilled together (bounds the memory of the attention mask).
    """
    if not prompts:
        return []
    config = backbone.config
    lengths = torch.tensor([len(p) for p in prompts])
    capacity = int(lengths.max()) + max_new_tokens
    cache = backbone.new_cache(batch=len(prompts), capacity=capacity)
    hidden = torch.zeros(len(prompts), capacity, config.hidden_size, dtype=backbone.dtype)
    tokens = torch.zeros(len(prompts), capacity, dtype=torch.int64)
    _prefill(backbone, prompts, lengths, tokens, hidden, cache, prefill_rows)

    rows = torch.arange(len(prompts))  # original index of each live row
    start = lengths.clone()
    live = torch.ones(len(prompts), dtype=torch.bool)
    done: list[Generation | None] = [None] * len(prompts)
    state = hidden[rows, start - 1]

    def finish(local: int) -> None:
        index, length = int(rows[local]), int(start[local])
        generation = Generation(tokens[local, : length + 1].tolist(), int(lengths[index]))
        if kv_layers is not None:
            generation = Generation(
                generation.tokens,
                generation.prompt_length,
                hidden[local, :length].clone(),
                torch.stack([cache.keys[i][local, :, :length] for i in kv_layers]),
                torch.stack([cache.values[i][local, :, :length] for i in kv_layers]),
            )
        done[index] = generation

    for _ in range(max_new_tokens):
        following = greedy(backbone.lm_head(state))
        tokens[torch.arange(len(rows)), start] = following
        ended = (following == config.eos_token_id) | (start + 1 - lengths[rows] >= max_new_tokens)
        for local in (ended & live).nonzero().flatten().tolist():
            finish(local)
        live &= ~ended
        if not live.any():
            break
        if int(live.sum()) < compact_below * len(rows):
            keep = live.nonzero().flatten()
            rows, start, live = rows[keep], start[keep], live[keep]
            tokens, hidden, following = tokens[keep], hidden[keep], following[keep]
            cache.select(keep)
        start_clamped = torch.where(live, start, torch.clamp(start, max=capacity - 1))
        state = backbone.forward(following[:, None], cache, start_clamped)[:, 0]
        hidden[torch.arange(len(rows)), start_clamped] = state
        start = torch.where(live, start + 1, start)
    return [g for g in done if g is not None]


def _prefill(
    backbone: Backbone,
    prompts: Sequence[Sequence[int]],
    lengths: Tensor,
    tokens: Tensor,
    hidden: Tensor,
    cache: object,
    chunk: int,
) -> None:
    """Prefill rows of similar length together; right padding is harmless (its slots are overwritten)."""
    order = torch.argsort(lengths).tolist()
    for first in range(0, len(order), chunk):
        some = order[first : first + chunk]
        width = int(lengths[some].max())
        padded = torch.zeros(len(some), width, dtype=torch.int64)
        for i, index in enumerate(some):
            padded[i, : len(prompts[index])] = torch.tensor(prompts[index])
        part = backbone.new_cache(batch=len(some), capacity=width)
        states = backbone.forward(padded, part, 0)
        tokens[some, :width] = padded
        hidden[some, :width] = states
        for layer in range(backbone.config.num_hidden_layers):
            cache.keys[layer][some, :, :width] = part.keys[layer]  # type: ignore[attr-defined]
            cache.values[layer][some, :, :width] = part.values[layer]  # type: ignore[attr-defined]


def generate_many(
    backbone: Backbone,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    batch: int = 64,
    progress: Callable[[int, int], None] | None = None,
) -> list[Generation]:
    """Responses without features for any number of prompts, in the order given."""
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    results: dict[int, Generation] = {}
    for first in range(0, len(order), batch):
        some = order[first : first + batch]
        made = generate_batch(backbone, [prompts[i] for i in some], max_new_tokens=max_new_tokens)
        results.update(zip(some, made, strict=True))
        if progress:
            progress(len(results), len(prompts))
    return [results[i] for i in range(len(prompts))]
