"""Train a drafter on what the frozen target generated; the target itself is never touched.

Both drafters learn from the same sequences and the same soft labels: the target's next-token distribution
over the draft vocabulary, recomputed from its cached hidden states, mixed with its actual choice. The head is
unrolled on its own state as deep as drafts are used; deeper drafts train on a shrinking random subset of
anchors. Runs checkpoint (model, optimiser, position) and resume after a kill.

It does not know where the features come from (``features.py``) or how acceptance is measured
(``collect.py``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .checkpoint import load_training_state, save_training_state
from .drafters.mtp_head import MTPHead
from .drafters.standalone import Standalone
from .features import FeatureBatch, FeatureStore


@dataclass(frozen=True)
class TrainConfig:
    """How long and how hard to train.

    Attributes
    ----------
    positions : int
        Anchors to train on, all epochs together.
    anchors_per_batch : int
    unroll : int
        Drafts the head is unrolled for (ignored by a standalone, which is trained on every next token).
    depth_keep : float
        Share of the anchors kept from one depth to the next.
    depth_weight : float
        Loss weight of one depth relative to the one before.
    hard_weight : float
        Share of a response token's label that is the token itself; the rest is the target's distribution.
    """

    positions: int
    anchors_per_batch: int = 640
    unroll: int = 8
    depth_keep: float = 0.5
    depth_weight: float = 0.9
    hard_weight: float = 0.5
    learning_rate: float = 1e-3
    muon_learning_rate: float = 0.015
    warmup_batches: int = 40
    final_learning_rate: float = 0.05
    seed: int = 0
    checkpoint_seconds: float = 60.0


@dataclass(frozen=True)
class Labels:
    """Soft labels of the anchors of a batch.

    ``ids`` are the tokens that have a row in this batch: the draft vocabulary and all tokens of its texts.
    ``probabilities (b, columns, len(ids))`` where column ``a + k - 1`` labels draft ``k`` of anchor column
    ``a``; ``argmax (b, columns)`` is the true token as an index into ``ids``.
    """

    ids: Tensor
    probabilities: Tensor
    argmax: Tensor


def make_labels(
    batch: FeatureBatch, embedding: Tensor, draft_ids: Tensor, columns: int, hard: float
) -> Labels:
    """Soft labels from cached hidden states: row ``t + 1`` of the target predicts ``tokens[t + 2]``."""
    ids = torch.cat([draft_ids, batch.tokens.flatten()]).unique()
    index = torch.zeros(embedding.shape[0], dtype=torch.int64)
    index[ids] = torch.arange(len(ids))
    length = batch.hidden.shape[1]
    steps = torch.arange(columns)
    rows = (batch.first[:, None] + 1 + steps).clamp(max=length - 1)
    hidden = torch.gather(batch.hidden, 1, rows[..., None].expand(-1, -1, batch.hidden.shape[-1]))
    probabilities = F.linear(hidden, embedding[ids]).float().softmax(-1)
    label = index[torch.gather(batch.tokens, 1, (rows + 1).clamp(max=length))]
    answered = rows + 1 >= batch.prompt_lengths[:, None]  # a prompt's tokens are not the target's choice
    share = hard * answered.float()[..., None]
    probabilities = probabilities.mul_(1 - share).scatter_add_(2, label[..., None], share)
    return Labels(ids, probabilities.to(torch.bfloat16), label)


def head_loss(
    head: MTPHead,
    batch: FeatureBatch,
    embedding: Tensor,
    labels: Labels,
    config: TrainConfig,
    generator: torch.Generator,
) -> tuple[Tensor, list[tuple[int, int]]]:
    """Weighted cross-entropy over depths; also ``(correct, counted)`` anchors a depth."""
    length = batch.hidden.shape[1]
    anchors = int((batch.last - batch.first).max()) + 1
    columns = torch.arange(anchors)
    position = batch.first[:, None] + columns
    rows = position.clamp(max=length - 1)
    state = torch.gather(batch.hidden, 1, rows[..., None].expand(-1, -1, batch.hidden.shape[-1]))
    keys = [batch.keys[n] for n in head.config.kv_layers]
    values = [batch.values[n] for n in head.config.kv_layers]
    slots = torch.arange(length)
    total = embedding.new_zeros((), dtype=torch.float32)
    weight, weights = 1.0, 0.0
    scores: list[tuple[int, int]] = []
    for depth in range(config.unroll):
        if depth:
            keep = max(1, math.ceil(len(columns) * config.depth_keep))
            chosen = torch.randperm(len(columns), generator=generator)[:keep].sort().values
            columns, position, rows, state = (
                columns[chosen],
                position[:, chosen],
                rows[:, chosen],
                state[:, chosen],
            )
        token_at = position + 1 + depth
        valid = token_at + 1 <= batch.last[:, None] + 2
        tokens = torch.gather(batch.tokens, 1, token_at.clamp(max=length))
        mask = torch.zeros(*position.shape, length, dtype=keys[0].dtype)
        mask = mask.masked_fill_(slots > rows[..., None], float("-inf"))[:, None]
        state = head.step(F.embedding(tokens, embedding), state, keys, values, mask, head.rotary(rows + 1))
        target = labels.probabilities[:, columns + depth][valid]
        label = labels.argmax[:, columns + depth][valid]
        if len(label):
            logits = F.linear(state[valid], embedding[labels.ids]).float()
            loss = -(target * F.log_softmax(logits, -1)).sum(-1).mean()
            total, weights = total + weight * loss, weights + weight
            scores.append((int((logits.argmax(-1) == label).sum()), len(label)))
        weight *= config.depth_weight
    return total / max(weights, 1e-9), scores


def standalone_loss(
    model: Standalone, batch: FeatureBatch, labels: Labels
) -> tuple[Tensor, list[tuple[int, int]]]:
    """Cross-entropy of every next response token; same labels as the head's first draft."""
    length = batch.hidden.shape[1]
    anchors = int((batch.last - batch.first).max()) + 1
    columns = torch.arange(anchors)
    position = batch.first[:, None] + columns + 1  # the drafter has read the pending token
    valid = position <= batch.last[:, None] + 1
    features = model(batch.tokens[:, :length])
    features = torch.gather(
        features, 1, position.clamp(max=length - 1)[..., None].expand(-1, -1, features.shape[-1])
    )[valid]
    logits = F.linear(features, model.embedding.weight[labels.ids]).float()
    label = labels.argmax[:, columns][valid]
    loss = -(labels.probabilities[:, columns][valid] * F.log_softmax(logits, -1)).sum(-1).mean()
    return loss, [(int((logits.argmax(-1) == label).sum()), len(label))]


def make_optimisers(model: nn.Module, config: TrainConfig) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the network, AdamW for tables, heads and norms."""
    tables = ("embedding.weight",)
    inner = [p for n, p in model.named_parameters() if p.ndim == 2 and n not in tables]
    rest = [p for n, p in model.named_parameters() if p.ndim != 2 or n in tables]
    return [
        torch.optim.Muon(inner, lr=config.muon_learning_rate, weight_decay=0.01, ns_steps=4),
        torch.optim.AdamW(rest, lr=config.learning_rate, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def train(
    model: MTPHead | Standalone,
    store: FeatureStore,
    embedding: Tensor,
    config: TrainConfig,
    *,
    state_path: Path | None = None,
    report: Callable[[str], None] | None = None,
    report_every: int = 50,
) -> dict[str, float]:
    """Train in place until ``config.positions`` anchors were seen; resumes from ``state_path``.

    Parameters
    ----------
    model : MTPHead or Standalone
    store : FeatureStore
    embedding : Tensor, shape (vocab, hidden)
        The target's (frozen) embedding table, also its LM head.
    state_path : Path, optional
        Where the run is checkpointed every ``config.checkpoint_seconds`` and on Ctrl-C.

    Returns
    -------
    dict
        ``positions``, ``seconds`` and the last running accuracy.
    """
    generator = torch.Generator().manual_seed(config.seed)
    optimisers = make_optimisers(model, config)
    base = [[g["lr"] for g in o.param_groups] for o in optimisers]
    seen, batches_done, spent = 0, 0, 0.0
    if state_path is not None and state_path.exists():
        seen, batches_done, spent = load_training_state(state_path, model, optimisers, generator)
    started = saved = time.monotonic()
    window: list[list[tuple[int, int]]] = []
    accuracy = 0.0
    stream = _endless(store, config, generator)
    try:
        while seen < config.positions:
            batch = next(stream)
            columns = int((batch.last - batch.first).max()) + 1
            labels = make_labels(
                batch, embedding, model.draft_ids, columns + config.unroll, config.hard_weight
            )
            with torch.autocast("cpu", dtype=torch.bfloat16):
                if isinstance(model, MTPHead):
                    loss, scores = head_loss(model, batch, embedding, labels, config, generator)
                else:
                    loss, scores = standalone_loss(model, batch, labels)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            seen += int((batch.last - batch.first + 1).clamp(min=0).sum())
            factor = _schedule(batches_done, seen / config.positions, config)
            for optimiser, rates in zip(optimisers, base, strict=True):
                for group, rate in zip(optimiser.param_groups, rates, strict=True):
                    group["lr"] = rate * factor
                optimiser.step()
                optimiser.zero_grad(set_to_none=True)
            batches_done += 1
            window = [*window[-report_every + 1 :], scores]
            accuracy = _accuracy(window)[0]
            now = time.monotonic()
            if report and batches_done % report_every == 0:
                rates = " ".join(f"{a:.3f}" for a in _accuracy(window))
                elapsed = spent + now - started
                report(
                    f"{seen}/{config.positions} anchors, {elapsed:.0f} s, "
                    f"loss {loss.item():.3f}, top-1 {rates}"
                )
            if state_path is not None and now - saved > config.checkpoint_seconds:
                save_training_state(
                    state_path, model, optimisers, generator, (seen, batches_done, spent + now - started)
                )
                saved = now
    finally:
        elapsed = spent + time.monotonic() - started
        if state_path is not None:
            save_training_state(state_path, model, optimisers, generator, (seen, batches_done, elapsed))
    return {"positions": seen, "seconds": elapsed, "top1": accuracy}


def _endless(store: FeatureStore, config: TrainConfig, generator: torch.Generator) -> Iterator[FeatureBatch]:
    while True:
        yield from store.batches(anchors=config.anchors_per_batch, generator=generator)


def _schedule(batches: int, progress: float, config: TrainConfig) -> float:
    warm = min(1.0, (batches + 1) / config.warmup_batches)
    low = config.final_learning_rate
    return warm * (low + (1 - low) * 0.5 * (1 + math.cos(math.pi * min(progress, 1.0))))


def _accuracy(window: list[list[tuple[int, int]]]) -> list[float]:
    depth = max((len(s) for s in window), default=0)
    totals = [[sum(s[d][i] for s in window if d < len(s)) for i in (0, 1)] for d in range(depth)]
    return [c / n if n else 0.0 for c, n in totals] or [0.0]
