"""Prompts of the smart-reply class: a short conversation whose last message wants an answer."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources

import numpy as np

from reference_impl.task_makers.grammar import expand, part, pick

SYSTEM = "You write short text messages for the user. Answer with one or two short sentences."


@cache
def _data() -> dict[str, list[str]]:
    text = resources.files("reference_impl").joinpath("task_data/replies.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def make(rng: np.random.Generator, split: str) -> list[dict[str, str]]:
    """Return the chat messages of one prompt; half of them say what the reply should do."""
    scene: dict[str, str] = {}
    sender = expand(rng, "<name>", split)
    lines = pick(rng, part(_data()["threads"], split)).split("\n")
    lines = [expand(rng, line, split, scene) for line in lines]
    talk = "\n".join(line.replace("A: ", f"{sender}: ", 1).replace("B: ", "Me: ", 1) for line in lines)
    wish = ""
    if rng.random() < 0.6:
        mood = expand(rng, pick(rng, part(_data()["moods"], split)), split)
        wish = f" In the reply, {mood[:1].lower() + mood[1:]}."
    content = f"Write my reply to {sender}'s last message.{wish}\n\n{talk}\nMe:"
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": content}]
