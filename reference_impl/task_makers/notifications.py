"""Prompts of the notification-summary class: a few threads and app notices that one glance should cover."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources

import numpy as np

from reference_impl.task_makers.grammar import expand, part, pick

@cache
def _data() -> dict[str, list[str]]:
    text = resources.files("reference_impl").joinpath("task_data/notifications.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _line(rng: np.random.Generator, template: str, split: str, scene: dict[str, str]) -> str:
    sender, _, text = template.partition("|")
    return f"{expand(rng, sender, split, scene)} says: {expand(rng, text, split, scene)}"


def make(rng: np.random.Generator, split: str) -> list[dict[str, str]]:
    """Return the chat messages of one prompt of 3 to 5 notifications."""
    threads, singles = part(_data()["threads"], split), part(_data()["singles"], split)
    scene: dict[str, str] = {}
    count = int(rng.integers(3, 6))
    together = [_line(rng, row, split, scene) for row in pick(rng, threads).split("\n")] if rng.random() < 0.8 else []
    chosen = rng.choice(len(singles), size=count - len(together), replace=False)
    alone = [_line(rng, singles[int(index)], split, {}) for index in chosen]
    lines = alone + together if rng.random() < 0.4 else together + alone
    return [{"role": "user", "content": pick(rng, _data()["instructions"]) + "\n\n" + "\n".join(lines)}]
