"""What each drafter proposes at *every* position of a known response, in a few wide passes.

The target reads prompt and response once; its states, keys and values then serve all anchors side by side.
At anchor ``t`` the response token ``y_t`` is pending at position ``n = prompt + t``. A drafter runs free on
its own chain (what it would propose) and, where it has a distribution, along the true text (what it would
have said).

It does not know files (``collect.py``) or the loop (``decode.py``), whose drafts it must equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from .backbone import Backbone, KVCache, greedy
from .decode import PREFILL_CHUNK
from .drafters.mtp_head import MTPHead
from .drafters.ngram import NGramLookup
from .drafters.standalone import Standalone
from .drafters.suffix import SuffixLookup
from .drafters.vocabulary import request_vocabulary


@dataclass(frozen=True)
class TargetPass:
    """The target's reading of one prompt (P tokens) and response (N tokens).

    Attributes
    ----------
    tokens : Tensor of int64, shape (P + N,)
    prompt_length : int
    hidden : Tensor, shape (P + N - 1, hidden_size)
        Post-norm state after each token but the last.
    cache : KVCache
        Keys and values of the same tokens.
    log_probs : Tensor of float32, shape (N - 1, vocab_size)
        Row ``t`` is the distribution from which ``y_{t+1}`` was chosen.
    gap : Tensor, shape (N - 1,)
        Largest logit minus the second largest.
    """

    tokens: Tensor
    prompt_length: int
    hidden: Tensor
    cache: KVCache
    log_probs: Tensor
    gap: Tensor

    @property
    def prompt(self) -> Tensor:
        """The prompt's tokens, ``(P,)``."""
        return self.tokens[: self.prompt_length]

    @property
    def anchors(self) -> int:
        """Positions with something left to draft, ``N - 1``."""
        return len(self.log_probs)


@dataclass(frozen=True)
class AnchorDrafts:
    """Proposals at A anchors to depth D; every array but ``proposed`` has shape (A, D).

    ``rank`` and ``draft_prob`` are teacher-forced, ``draft_token`` and ``draft_top1_prob`` free-running;
    sentinels as in an anchor trace. ``gap`` is the drafter's largest logit minus its second largest on its
    own chain (infinite where it has none): below 1e-4 another order of rounding may choose another token.
    """

    proposed: NDArray[np.int8]
    draft_token: NDArray[np.int32]
    draft_top1_prob: NDArray[np.float32]
    rank: NDArray[np.int32]
    draft_prob: NDArray[np.float32]
    gap: NDArray[np.float32]


@torch.inference_mode()
def read_response(backbone: Backbone, prompt: Sequence[int], response: Sequence[int]) -> TargetPass:
    """One pass of the target over prompt and response."""
    tokens = torch.tensor([*prompt, *response])
    length = len(tokens) - 1
    cache = backbone.new_cache(capacity=length)
    parts = [
        backbone.forward(tokens[None, start : min(start + PREFILL_CHUNK, length)], cache, start)[0]
        for start in range(0, length, PREFILL_CHUNK)
    ]
    hidden = torch.cat(parts)
    logits = backbone.lm_head(hidden[len(prompt) :]).float()
    gap = _choice_and_gap(logits)[1] if len(logits) else logits.new_zeros(0)
    return TargetPass(tokens, len(prompt), hidden, cache, logits.log_softmax(-1), gap)


def drafts_at_anchors(
    model: MTPHead | Standalone | NGramLookup | SuffixLookup, backbone: Backbone, read: TargetPass, depth: int
) -> AnchorDrafts:
    """Proposals of any drafter at every anchor of a response (a one-token response has none)."""
    if not read.anchors:
        nothing = np.zeros((0, depth))
        return AnchorDrafts(
            proposed=np.zeros(0, dtype=np.int8),
            draft_token=nothing.astype(np.int32),
            draft_top1_prob=nothing.astype(np.float32),
            rank=nothing.astype(np.int32),
            draft_prob=nothing.astype(np.float32),
            gap=nothing.astype(np.float32),
        )
    if isinstance(model, MTPHead):
        return head_drafts(model, backbone, read, depth)
    if isinstance(model, Standalone):
        return standalone_drafts(model, read, depth)
    return lookup_drafts(model, read, depth)


@torch.inference_mode()
def head_drafts(head: MTPHead, backbone: Backbone, read: TargetPass, depth: int) -> AnchorDrafts:
    """All anchors of an MTP head in one batch, ``depth`` passes.

    From the second draft on, the free-running and the teacher-forced chains run together as twice the
    anchors.
    """
    count = read.anchors
    position = read.prompt_length + torch.arange(count)
    keys = [read.cache.keys[i] for i in head.config.kv_layers]
    values = [read.cache.values[i] for i in head.config.kv_layers]
    hidden_slots = torch.arange(read.cache.capacity) >= position[:, None]
    mask = torch.zeros(hidden_slots.shape, dtype=keys[0].dtype).masked_fill_(hidden_slots, float("-inf"))
    ids = request_vocabulary(head.draft_ids, read.prompt)
    rows_of_head = backbone.weights.embedding[ids]
    label = _labels(ids, read)
    token, state = read.tokens[position][None], read.hidden[position - 1][None]
    columns = []
    for k in range(1, depth + 1):
        twice = k > 1
        rows = torch.cat([position, position]) if twice else position
        visible = mask.repeat(2, 1) if twice else mask
        state = head.step(
            backbone.embed(token), state, keys, values, visible[None, None], head.rotary(rows[None])
        )
        logits = F.linear(state, rows_of_head)[0].float()
        free, forced = (logits[:count], logits[count:]) if twice else (logits, logits)
        column = _score(free, forced, _ahead(label, k - 1, -1))
        columns.append((ids[column[0]], *column[1:]))
        state = state if twice else state.repeat(1, 2, 1)
        token = torch.cat([ids[column[0]], _ahead(read.tokens[position], k, 0)])[None]
    return _stack(columns)


@torch.inference_mode()
def standalone_drafts(model: Standalone, read: TargetPass, depth: int) -> AnchorDrafts:
    """All anchors of a standalone drafter: one pass over the text, then one a depth for all chains.

    A chain sees the true text up to its anchor and its own drafts; the chains' keys lie behind the text's.
    Teacher-forced scores come from the pass over the text.
    """
    count, length = read.anchors, len(read.tokens) - 1
    position = read.prompt_length + torch.arange(count)
    ids = request_vocabulary(model.draft_ids, read.prompt)
    table = model.embedding.weight[ids]
    cache = model.new_cache(length + count * (depth - 1), table.dtype)
    label = _labels(ids, read)
    features = model(read.tokens[None, :length], cache=cache)[0, position]
    text_logits = F.linear(features, table).float()
    _, _, rank, forced_prob, _ = _score(text_logits, text_logits, label)
    mask = torch.arange(length) <= position[:, None]
    own = torch.eye(count, dtype=torch.bool)
    logits = text_logits
    columns = []
    for k in range(1, depth + 1):
        if k > 1:
            mask = torch.cat([mask, own], dim=1)
            token = columns[-1][0]
            start = length + (k - 2) * count
            features = model(token[None], cache=cache, start=start, positions=position + k - 1, mask=mask)[0]
            logits = F.linear(features, table).float()
        choice, probability, _, _, gap = _score(logits, logits, label)
        ranks, probabilities = _ahead(rank, k - 1, -1), _ahead(forced_prob, k - 1, 0.0)
        columns.append((ids[choice], probability, ranks, probabilities, gap))
    return _stack(columns)


def lookup_drafts(lookup: NGramLookup | SuffixLookup, read: TargetPass, depth: int) -> AnchorDrafts:
    """Proposals of a lookup: one token a depth, so the rank is 0 where that is the text and else -1."""
    tokens = read.tokens.tolist()
    count, prompt = read.anchors, read.prompt_length
    first = prompt if isinstance(lookup, SuffixLookup) else 0
    if isinstance(lookup, NGramLookup):
        lookup.restart()
    draft_token = np.full((count, depth), -1, dtype=np.int32)
    top1 = np.full((count, depth), np.nan, dtype=np.float32)
    truth = np.full((count, depth), -2, dtype=np.int32)
    proposed = np.zeros(count, dtype=np.int8)
    for t in range(count):
        found, shares = lookup.propose(tokens[first : prompt + t + 1], depth)
        proposed[t] = len(found)
        draft_token[t, : len(found)], top1[t, : len(found)] = found, shares
        ahead = tokens[prompt + t + 1 : prompt + t + 1 + depth]
        truth[t, : len(ahead)] = ahead
    right = draft_token == truth
    return AnchorDrafts(
        proposed=proposed,
        draft_token=draft_token,
        draft_top1_prob=top1,
        rank=np.where(right, 0, -1).astype(np.int32),
        draft_prob=np.where(right, np.nan_to_num(top1), 0.0).astype(np.float32),
        gap=np.full((count, depth), np.inf, dtype=np.float32),
    )


def _labels(ids: Tensor, read: TargetPass) -> Tensor:
    """Index in the request's vocabulary of ``y_{t+1}`` at each anchor, -1 where that lacks it."""
    index = torch.full((read.log_probs.shape[-1],), -1)
    index[ids] = torch.arange(len(ids))
    return index[read.tokens[read.prompt_length + 1 :]]


def _ahead(column: Tensor, k: int, fill: float) -> Tensor:
    """``column[t + k]`` at each ``t``; ``fill`` where that lies behind the end."""
    return torch.cat([column[k:], column.new_full((min(k, len(column)),), fill)])


def _score(free: Tensor, forced: Tensor, label: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Choice, its probability, rank and probability of the label, and the gap between the two best logits."""
    choice, gap = _choice_and_gap(free)
    best = free.gather(-1, choice[:, None])[:, 0]
    total = free.logsumexp(-1)
    forced_total = total if forced is free else forced.logsumexp(-1)
    known = label >= 0
    of_label = forced.gather(-1, label.clamp(min=0)[:, None])
    rank = (forced > of_label).sum(-1)
    first = (rank == 0).nonzero()[:, 0]
    rank[first] += greedy(forced[first]) != label[first]  # an equal logit with a lower id stands before it
    rank = torch.where(known, rank, -1)
    forced_prob = torch.where(known, (of_label[:, 0] - forced_total).exp(), 0.0)
    return choice, (best - total).exp(), rank, forced_prob, gap


def _choice_and_gap(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Index of the largest logit (ties: the lowest) and its lead over the second largest."""
    best, choice = logits.max(-1)
    second = logits.scatter(-1, choice[:, None], float("-inf")).amax(-1)
    return choice, best - second


def _stack(columns: list[tuple[Tensor, Tensor, Tensor, Tensor, Tensor]]) -> AnchorDrafts:
    token, probability, rank, forced, gap = (
        torch.stack(column, dim=1).numpy() for column in zip(*columns, strict=True)
    )
    return AnchorDrafts(
        proposed=np.full(len(token), token.shape[1], dtype=np.int8),
        draft_token=token.astype(np.int32),
        draft_top1_prob=probability.astype(np.float32),
        rank=rank.astype(np.int32),
        draft_prob=forced.astype(np.float32),
        gap=gap.astype(np.float32),
    )
