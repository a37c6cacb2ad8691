"""Prompts of the smart-reply class: a short conversation whose last message wants an answer."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources

import numpy as np

from reference_impl.task_makers.grammar import expand, part, pick

SYSTEM = "You are chatting with a friend. Answer in one or two short sentences."


@cache
def _data() -> dict[str, list[str]]:
    text = resources.files("reference_impl").joinpath("task_data/replies.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def make(rng: np.random.Generator, split: str) -> list[dict[str, str]]:
    """Return the chat messages of one prompt: earlier talk that sets the tone, then the conversation to answer."""
    talk = part(_data()["talk"], split)
    messages = [{"role": "system", "content": SYSTEM}]
    for index in rng.choice(len(talk), size=int(rng.integers(3, 6)), replace=False):
        question, _, answer = talk[int(index)].partition("|")
        messages.append({"role": "user", "content": expand(rng, question, split)})
        messages.append({"role": "assistant", "content": expand(rng, answer, split)})
    scene: dict[str, str] = {}
    for line in pick(rng, part(_data()["threads"], split)).split("\n"):
        role = "user" if line.startswith("A: ") else "assistant"
        messages.append({"role": role, "content": expand(rng, line[3:], split, scene)})
    return messages
