"""Prompts of the passage-summary class: a passage of 80 to 150 words to be put into two sentences."""

from __future__ import annotations

import numpy as np

from reference_impl.task_makers.data import texts
from reference_impl.task_makers.grammar import pick

INSTRUCTIONS = (
    "Summarize this passage in two sentences.",
    "Give a short summary of this text in two sentences.",
    "What is the main point of this passage? Answer in two sentences.",
)


def make(rng: np.random.Generator, split: str) -> tuple[str, list[dict[str, str]]]:
    """Return the passage and the chat messages of one prompt."""
    passage = pick(rng, texts("passages.jsonl.gz", split))
    return passage, [{"role": "user", "content": f"{pick(rng, INSTRUCTIONS)}\n\n{passage}"}]
