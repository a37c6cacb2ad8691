"""Prompts of the proofreading class: one to three sentences with errors in them, to be corrected."""

from __future__ import annotations

import numpy as np

from reference_impl.task_makers.data import templates, texts
from reference_impl.task_makers.grammar import expand, part, pick
from reference_impl.task_makers.noise import corrupt

INSTRUCTION = "Correct the spelling and grammar of this text:"
FOUND_SHARE = 0.4
WORDS_PER_ERROR = (6.0, 12.0)


def clean_text(rng: np.random.Generator, split: str) -> str:
    """Return one to three correct sentences, from templates or found in documents."""
    if rng.random() < FOUND_SHARE:
        found = texts("sentences.jsonl.gz", split)
        return " ".join(pick(rng, found) for _ in range(int(rng.choice([1, 2], p=[0.7, 0.3]))))
    sentences = part(templates("sentences.toml")["sentences"], split)
    count = int(rng.choice([1, 2, 3], p=[0.35, 0.45, 0.2]))
    chosen = rng.choice(len(sentences), size=count, replace=False)
    return " ".join(expand(rng, sentences[int(index)], split) for index in chosen)


def make(rng: np.random.Generator, split: str) -> tuple[str, list[dict[str, str]]]:
    """Return the correct text and the chat messages of one prompt."""
    clean = clean_text(rng, split)
    errors = max(1, round(len(clean.split()) / float(rng.uniform(*WORDS_PER_ERROR))))
    return clean, [{"role": "user", "content": f"{INSTRUCTION}\n\n{corrupt(rng, clean, errors)}"}]
