"""From the frozen target to trained drafters: which prompts, how many, which dimensions, in which order.

``collect_features`` lets the target answer training prompts and keeps what it computed; ``build_drafter``
sets up a drafter of a known design on a draft vocabulary counted from those answers. It does not know how a
step of training works (``train.py``).

``python -m reference_impl.pipeline --out FOLDER --rounds 0-3`` collects features and resumes where it was
killed.
"""

from __future__ import annotations

if __name__ == "__main__":
    from .errors import need_torch

    need_torch()

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .drafters.mtp_head import MTPHead, MTPHeadConfig
from .drafters.standalone import Standalone, StandaloneConfig
from .drafters.suffix import SuffixLookup
from .errors import ReferenceImplError
from .features import FeatureStore, write_shard
from .fetch import load_target
from .generate import generate_batch
from .gguf_target import Target
from .responses import training_responses
from .tasks import TASKS, prompts
from .warm_start import warm_start

#: Target layers whose keys and values are kept with the features (heads read some of them).
KV_LAYERS = (12, 17, 18, 20, 23, 24, 28, 29)

#: Prompts of one round of generation; a round is about 75,000 response tokens.
ROUND_PROMPTS = {
    "notification_summary": 384,
    "proofread": 576,
    "smart_reply": 384,
    "passage_summary": 192,
    "code": 128,
    "chat": 96,
}

DRAFT_VOCAB_SIZE = 8192

#: The last tokens of each prompt that serve as training anchors beside its response.
PROMPT_ANCHORS = 24


def collect_features(
    target: Target,
    folder: Path,
    *,
    rounds: range,
    batch: int = 192,
    report: Callable[[str], None] | None = None,
) -> None:
    """Generate responses to training prompts, one feature shard a batch; existing shards are kept.

    Parameters
    ----------
    target : Target
        In bfloat16 for speed; the responses are its greedy answers.
    folder : Path
    rounds : range
        Round ``r`` uses prompt seed ``r``; disjoint ranges can run as separate processes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for index in rounds:
        for task, count in ROUND_PROMPTS.items():
            chosen = prompts(task, "train", count, index)
            for part, first in enumerate(range(0, count, batch)):
                path = folder / f"{index:03d}_{task}_{part}.safetensors"
                if path.exists():
                    continue
                began = time.monotonic()
                encoded = [target.encode_chat(p.messages) for p in chosen[first : first + batch]]
                made = generate_batch(
                    target.backbone, encoded, max_new_tokens=TASKS[task].max_new_tokens, kv_layers=KV_LAYERS
                )
                write_shard(path, made, KV_LAYERS, task=task)
                if report:
                    tokens = sum(len(g.tokens) - g.prompt_length for g in made)
                    report(
                        f"{path.name}: {tokens} tokens, {tokens / (time.monotonic() - began):.0f} a second"
                    )


def draft_vocabulary(store: FeatureStore, vocab_size: int, size: int = DRAFT_VOCAB_SIZE) -> Tensor:
    """The tokens most frequent in the target's training responses, then in their prompts; ascending ids."""
    counts = torch.zeros(vocab_size, dtype=torch.float64)
    for tokens, prompt_length in store.sequences():
        counts += torch.bincount(tokens[prompt_length:], minlength=vocab_size)
        counts += 1e-3 * torch.bincount(tokens[:prompt_length], minlength=vocab_size)
    counts -= 1e-9 * torch.arange(vocab_size)  # ties go to the lower id
    return counts.topk(size).indices.sort().values


def build_drafter(
    drafter_id: str,
    target: Target,
    draft_ids: Tensor,
    store: FeatureStore | None = None,
    *,
    seed: int = 0,
    changes: Mapping[str, Any] | None = None,
) -> MTPHead | Standalone:
    """An untrained drafter of one of the known designs.

    A head starts from linear fits on the sequences of ``store`` (from noise without one), a standalone
    drafter from the target's embedding geometry. ``changes`` replaces fields of the head's configuration.
    """
    torch.manual_seed(seed)
    config = target.backbone.config
    model: MTPHead | Standalone
    if drafter_id == "mtp_head":
        head = MTPHeadConfig(
            target_hidden_size=config.hidden_size,
            num_attention_heads=config.num_attention_heads,
            num_key_value_heads=config.num_key_value_heads,
            head_dim=config.head_dim,
            draft_vocab_size=len(draft_ids),
            rope_theta=config.rope_theta,
            **HEAD_DIMS,
        )
        model = MTPHead(replace(head, **(changes or {})), draft_ids)
        if store is not None:
            warm_start(model, target.backbone, store)
    elif drafter_id in STANDALONE_DIMS:
        model = Standalone(
            StandaloneConfig(
                vocab_size=config.vocab_size, draft_vocab_size=len(draft_ids), **STANDALONE_DIMS[drafter_id]
            ),
            draft_ids,
        )
        model.initialise_from(target.backbone.weights.embedding)
    else:
        allowed = ["mtp_head", *STANDALONE_DIMS]
        raise ReferenceImplError(f"drafter: given {drafter_id!r}, allowed {allowed}")
    return model


#: The layers are those with the target's induction heads (attention to what followed the last occurrence of a
#: token: 17, 18, 23) and its last one.
HEAD_DIMS: dict[str, Any] = {"width": 384, "kv_layers": (17, 18, 23, 29), "intermediate_size": 1024}

#: ``standalone_total`` has the head's total parameters, most of them in its table; ``standalone_body`` has
#: the head's parameters outside tables and LM heads, and a table of its own on top.
STANDALONE_DIMS: dict[str, dict[str, int]] = {
    "standalone_total": {
        "width": 112,
        "num_hidden_layers": 8,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 56,
        "intermediate_size": 504,
    },
    "standalone_body": {
        "width": 256,
        "num_hidden_layers": 10,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "intermediate_size": 672,
    },
}


def main(argv: Sequence[str] | None = None) -> None:
    """Collect features from the command line; ranges of rounds may run as separate processes."""
    parser = argparse.ArgumentParser(
        prog="python -m reference_impl.pipeline", description="Collect training features from the target."
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the feature shards")
    parser.add_argument("--rounds", default="0-3", help="first and last round, e.g. 0-3")
    parser.add_argument("--suffix", type=Path, help="also write the suffix lookup of all responses here")
    arguments = parser.parse_args(argv)
    first, _, last = arguments.rounds.partition("-")
    if not (first.isdigit() and (last or first).isdigit()):
        parser.error(f"--rounds: given {arguments.rounds!r}, allowed: two whole numbers such as 0-3")

    def report(line: str) -> None:
        sys.stderr.write(f"[features] {line}\n")
        sys.stderr.flush()

    target = load_target(torch.bfloat16)
    collect_features(target, arguments.out, rounds=range(int(first), int(last or first) + 1), report=report)
    if arguments.suffix is not None:
        SuffixLookup(training_responses(arguments.out)).save(arguments.suffix)


if __name__ == "__main__":
    main()
