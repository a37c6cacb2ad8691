"""Prompts of the proofreading class: one to three sentences with errors in them, to be corrected."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources

import numpy as np

from reference_impl.task_makers.grammar import expand, part, pick
from reference_impl.task_makers.noise import corrupt

INSTRUCTION = "Correct the spelling and grammar of this text:"


@cache
def _data() -> dict[str, list[str]]:
    text = resources.files("reference_impl").joinpath("task_data/sentences.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def clean_text(rng: np.random.Generator, split: str) -> str:
    """Return one to three correct sentences."""
    templates = part(_data()["sentences"], split)
    count = int(rng.choice([1, 2, 3], p=[0.35, 0.45, 0.2]))
    chosen = rng.choice(len(templates), size=count, replace=False)
    return " ".join(expand(rng, templates[int(index)], split) for index in chosen)


def make(rng: np.random.Generator, split: str) -> list[dict[str, str]]:
    """Return the chat messages of one prompt."""
    clean = clean_text(rng, split)
    errors = max(1, round(len(clean.split()) / float(rng.uniform(6, 12))))
    return [{"role": "user", "content": f"{INSTRUCTION}\n\n{corrupt(rng, clean, errors)}"}]
