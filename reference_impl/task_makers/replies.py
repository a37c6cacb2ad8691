"""Prompts of the smart-reply class: a short conversation whose last message wants an answer."""

from __future__ import annotations

import numpy as np

from reference_impl.task_makers.data import templates
from reference_impl.task_makers.grammar import expand, part, pick

FILE = "replies.toml"
SYSTEM = "You are chatting with a friend. Answer in one or two short sentences."


def make(rng: np.random.Generator, split: str) -> tuple[str, list[dict[str, str]]]:
    """Return the conversation and the chat messages of one prompt.

    Earlier talk sets the tone; the last message is the one to answer.
    """
    talk = part(templates(FILE)["talk"], split)
    messages = [{"role": "system", "content": SYSTEM}]
    for index in rng.choice(len(talk), size=int(rng.integers(3, 6)), replace=False):
        question, _, answer = talk[int(index)].partition("|")
        messages.append({"role": "user", "content": expand(rng, question, split)})
        messages.append({"role": "assistant", "content": expand(rng, answer, split)})
    scene: dict[str, str] = {}
    turns = [
        expand(rng, line, split, scene)
        for line in pick(rng, part(templates(FILE)["threads"], split)).split("\n")
    ]
    messages += [
        {"role": "user" if turn.startswith("A: ") else "assistant", "content": turn[3:4].upper() + turn[4:]}
        for turn in turns
    ]
    return "\n".join(turns), messages
