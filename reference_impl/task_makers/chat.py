"""Prompts of the chat class: open questions of many topics."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources

import numpy as np

from reference_impl.task_makers.grammar import expand, part, pick

SYSTEM = "You are a helpful assistant on a phone. Answer clearly and briefly."


@cache
def _data() -> dict[str, list[str]]:
    text = resources.files("reference_impl").joinpath("task_data/chat.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def make(rng: np.random.Generator, split: str) -> list[dict[str, str]]:
    """Return the chat messages of one prompt."""
    question = expand(rng, pick(rng, part(_data()["templates"], split)), split)
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
