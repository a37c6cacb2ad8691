"""Prompts of the chat class: open questions of many topics."""

from __future__ import annotations

import numpy as np

from reference_impl.task_makers.data import templates, texts
from reference_impl.task_makers.grammar import expand, part, pick

FOUND_SHARE = 0.05


def make(rng: np.random.Generator, split: str) -> tuple[str, list[dict[str, str]]]:
    """Return the question and the chat messages of one prompt; found questions are for train only."""
    if split == "train" and rng.random() < FOUND_SHARE:
        question = pick(rng, texts("questions.jsonl.gz", split))
    else:
        question = expand(rng, pick(rng, part(templates("chat.toml")["templates"], split)), split)
    return question, [{"role": "user", "content": question}]
