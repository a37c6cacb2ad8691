"""Prompts of the notification-summary class: a few threads and app notices that one glance should cover."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources

import numpy as np

from reference_impl.task_makers.grammar import expand, part, pick

SYSTEM = "You summarize phone notifications. Be brief and keep the names, times and places."


@cache
def _data() -> dict[str, list[str]]:
    text = resources.files("reference_impl").joinpath("task_data/notifications.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def make(rng: np.random.Generator, split: str) -> list[dict[str, str]]:
    """Return the chat messages of one prompt of 3 to 6 notifications."""
    threads, singles = part(_data()["threads"], split), part(_data()["singles"], split)
    scene: dict[str, str] = {}
    lines: list[str] = []
    count = int(rng.integers(3, 7))
    if rng.random() < 0.8:
        group, _, body = pick(rng, threads).partition("|")
        group = expand(rng, group, split, scene)
        for line in body.split("\n")[:count]:
            text = expand(rng, line, split, scene)
            lines.append(text if text.startswith(group + ":") else f"{group} - {text}")
    notices = [expand(rng, pick(rng, singles), split) for _ in range(count - len(lines))]
    lines = notices + lines if rng.random() < 0.3 else lines + notices
    listing = "\n".join(f"- {line}" for line in lines)
    return [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": f"{pick(rng, _data()['instructions'])}\n{listing}"},
    ]
