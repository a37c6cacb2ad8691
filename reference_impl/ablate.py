"""What makes a head good: small heads that differ in one choice, trained alike, scored on held-out responses.

Scores are conditional acceptance by depth along the target's text, which ranks designs; what a design is
worth in tokens per step is measured by traces (``collect.py``). It does not know how the features were
collected.

``python -m reference_impl.ablate --train FOLDER --test FOLDER`` runs what is missing in the shipped results
and prints the table; without folders it prints the table of the shipped results.
"""

from __future__ import annotations

if __name__ == "__main__":
    from .errors import need_torch

    need_torch()

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from simulator.files import whole_file

from .drafters.mtp_head import MTPHead
from .errors import ReferenceImplError
from .features import FeatureStore
from .fetch import load_target
from .gguf_target import Target
from .pipeline import HEAD_DIMS, build_drafter, draft_vocabulary
from .train import TrainConfig, head_loss, make_labels, train

RESULTS = Path(__file__).parent / "checkpoints" / "ablations.json"

#: What differs from the base design: start, head fields, training fields, share of the training shards.
VARIANTS: dict[str, dict[str, Any]] = {
    "base": {},
    "from_noise": {"warm": False},
    "two_layers": {"head": {"kv_layers": (18, 29)}},
    "one_layer": {"head": {"kv_layers": (29,)}},
    "last_layers_only": {"head": {"kv_layers": (28, 29, 28, 29)}},
    "layers_12_20_24_29": {"head": {"kv_layers": (12, 20, 24, 29)}},
    "without_hidden_state": {"head": {"use_hidden": False}},
    "unroll_1": {"train": {"unroll": 1}},
    "unroll_4": {"train": {"unroll": 4}},
    "quarter_of_data": {"share": 0.25},
    "quarter_of_training": {"positions": 0.25},
}


def ablate(
    target: Target,
    train_folder: Path,
    test_folder: Path,
    out: Path,
    *,
    positions: int = 30_000,
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
        with whole_file(out, error=ReferenceImplError, make_folder=True) as temporary:
            temporary.write_text(json.dumps(results, indent=1) + "\n")
        if report:
            report(f"ablation {name}: {results[name]['tasks']}")
    return results


def _variant(
    target: Target, train_folder: Path, test_folder: Path, change: dict[str, Any], positions: int, depths: int
) -> dict[str, Any]:
    layers = tuple(sorted(set(change.get("head", {}).get("kv_layers", HEAD_DIMS["kv_layers"]))))
    store = FeatureStore(train_folder, layers, share=change.get("share", 1.0))
    ids = draft_vocabulary(FeatureStore(train_folder, ()), target.backbone.config.vocab_size)
    warm = store if change.get("warm", True) else None
    head = build_drafter("mtp_head", target, ids, warm, changes=change.get("head"))
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
    config = dataclasses.replace(TrainConfig(positions=1), unroll=depths, depth_keep=1.0)
    generator = torch.Generator().manual_seed(0)
    totals: dict[str, Tensor] = {}
    for shard, task in enumerate(store.tasks):
        total = totals.setdefault(task, torch.zeros(depths, 2))
        for rows in torch.arange(store.sequence_count(shard)).split(16):
            batch = store.load(shard, rows.tolist())
            columns = int((batch.last - batch.first).max()) + 1
            labels = make_labels(batch, embedding, head.draft_ids, columns + depths, 0.5)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                _, counts = head_loss(head, batch, embedding, labels, config, generator)
            total[: len(counts)] += torch.tensor(counts, dtype=torch.float32)
    return {task: [round(float(c / n), 4) if n else 0.0 for c, n in total] for task, total in totals.items()}


def table(results: dict[str, Any], depth: int = 4) -> str:
    """Markdown: for each variant and task the mean acceptance length at ``depth`` that the scores compose to.

    ``1 + a_1 + a_1 a_2 + ..`` over the conditional acceptances ``a_k`` along the target's text: what a step
    emits when its anchors are drawn evenly from the text.
    """
    tasks = list(next(iter(results.values()))["tasks"])
    lines = [
        "| variant | parameters | anchors | " + " | ".join(tasks) + " |",
        "|---|" + "---:|" * (2 + len(tasks)),
    ]
    for name, found in results.items():
        cells = []
        for task in tasks:
            product = total = 1.0
            for rate in found["tasks"][task][:depth]:
                product *= rate
                total += product
            cells.append(f"{total:.2f}")
        lines.append(f"| {name} | {found['parameters']:,} | {found['positions']:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the missing variants and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m reference_impl.ablate", description="Compare heads that differ in one choice."
    )
    parser.add_argument("--train", type=Path, help="feature shards to train on")
    parser.add_argument("--test", type=Path, help="feature shards of other prompts to score on")
    parser.add_argument("--out", type=Path, default=RESULTS, help="results, resumed where it exists")
    parser.add_argument("--positions", type=int, default=30_000, help="training anchors of the base design")
    arguments = parser.parse_args(argv)
    if (arguments.train is None) != (arguments.test is None):
        parser.error("--train and --test: give both, or neither to print what is there")
    try:
        if arguments.train is not None:

            def report(line: str) -> None:
                sys.stderr.write(f"{line}\n")
                sys.stderr.flush()

            target = load_target(torch.bfloat16)
            ablate(target, arguments.train, arguments.test, arguments.out,
                   positions=arguments.positions, report=report)  # fmt: skip
        if not arguments.out.exists():
            raise ReferenceImplError(f"--out: {arguments.out} does not exist; give --train and --test")
        sys.stdout.write(table(json.loads(arguments.out.read_text())) + "\n")
    except ValueError as problem:
        parser.error(str(problem))


if __name__ == "__main__":
    main()
