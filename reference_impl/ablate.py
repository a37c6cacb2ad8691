"""What makes a head good: small heads that differ in one choice, trained alike, scored on held-out responses.

Scores are conditional acceptance by depth along the target's text, which ranks designs; what a design is
worth in tokens per step is measured by traces (``collect.py``). It does not know how the features were
collected.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .drafters.mtp_head import MTPHead
from .features import FeatureStore
from .gguf_target import Target
from .pipeline import build_drafter, draft_vocabulary
from .train import TrainConfig, head_loss, make_labels, train

#: What differs from the base design: head fields, training fields, share of the training shards.
VARIANTS: dict[str, dict[str, Any]] = {
    "base": {},
    "two_layers": {"head": {"kv_layers": (24, 29)}},
    "one_layer": {"head": {"kv_layers": (29,)}},
    "last_layers_only": {"head": {"kv_layers": (28, 29, 28, 29)}},
    "without_hidden_state": {"head": {"use_hidden": False}},
    "unroll_1": {"train": {"unroll": 1}},
    "unroll_4": {"train": {"unroll": 4}},
    "quarter_of_data": {"share": 0.25},
    "half_of_training": {"positions": 0.5},
}


def ablate(
    target: Target,
    train_folder: Path,
    test_folder: Path,
    out: Path,
    *,
    positions: int = 60_000,
    depths: int = 4,
    report: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Train every variant not yet in ``out`` and score it by task.

    Parameters
    ----------
    target : Target
        In bfloat16.
    train_folder, test_folder : Path
        Feature shards; the test shards are of prompts that the training shards do not hold.
    out : Path
        JSON, rewritten after each variant, so that a killed run goes on.
    positions : int
        Training anchors of the base design.

    Returns
    -------
    dict
        Variant -> parameters, positions, and conditional acceptance by depth for each task.
    """
    results: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
    for name, change in VARIANTS.items():
        if name in results:
            continue
        results[name] = _variant(target, train_folder, test_folder, change, positions, depths)
        temporary = out.with_name(out.name + ".tmp")
        temporary.write_text(json.dumps(results, indent=1) + "\n")
        os.replace(temporary, out)
        if report:
            report(f"ablation {name}: {results[name]['tasks']}")
    return results


def _variant(
    target: Target, train_folder: Path, test_folder: Path, change: dict[str, Any], positions: int, depths: int
) -> dict[str, Any]:
    layers = tuple(sorted({12, 18, 24, 29, *change.get("head", {}).get("kv_layers", ())}))
    store = FeatureStore(train_folder, layers, share=change.get("share", 1.0))
    ids = draft_vocabulary(FeatureStore(train_folder, ()), target.backbone.config.vocab_size)
    head = build_drafter("mtp_head", target, ids, changes=change.get("head"))
    config = TrainConfig(
        positions=int(positions * change.get("positions", 1.0)),
        anchors_per_batch=512,
        **change.get("train", {}),
    )
    if not isinstance(head, MTPHead):
        raise TypeError("ablations are of the head")
    embedding = target.backbone.weights.embedding
    train(head, store, embedding, config)
    return {
        "parameters": sum(p.numel() for p in head.parameters()),
        "positions": config.positions,
        "tasks": score(head, FeatureStore(test_folder, layers), embedding, depths=depths),
    }


@torch.no_grad()
def score(head: MTPHead, store: FeatureStore, embedding: Tensor, *, depths: int) -> dict[str, list[float]]:
    """Conditional acceptance at depth 1, 2, .. along the target's own text, by task."""
    index = torch.full((embedding.shape[0],), -1)
    index[head.draft_ids] = torch.arange(len(head.draft_ids))
    config = dataclasses.replace(TrainConfig(positions=1), unroll=depths, depth_keep=1.0)
    generator = torch.Generator().manual_seed(0)
    totals: dict[str, Tensor] = {}
    for shard, task in enumerate(store.tasks):
        total = totals.setdefault(task, torch.zeros(depths, 2))
        for rows in torch.arange(store.sequence_count(shard)).split(16):
            batch = store.load(shard, rows.tolist())
            columns = int((batch.last - batch.first).max()) + 1
            labels = make_labels(batch, embedding[head.draft_ids], index, columns + depths, 0.5)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                _, counts = head_loss(head, batch, embedding, labels, config, generator)
            total[: len(counts)] += torch.tensor(counts, dtype=torch.float32)
    return {task: [round(float(c / n), 4) if n else 0.0 for c, n in total] for task, total in totals.items()}
