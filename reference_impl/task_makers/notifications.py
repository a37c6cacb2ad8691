"""Prompts of the notification-summary class: a few threads and app notices that one glance should cover."""

from __future__ import annotations

import numpy as np

from reference_impl.task_makers.data import templates
from reference_impl.task_makers.grammar import expand, part, pick

FILE = "notifications.toml"
THREAD_SHARE = 0.75
THREAD_FIRST = 0.6


def _line(rng: np.random.Generator, template: str, split: str, scene: dict[str, str]) -> str:
    sender, _, text = template.partition("|")
    return f"{expand(rng, sender, split, scene)} says: {expand(rng, text, split, scene)}"


def make(rng: np.random.Generator, split: str) -> tuple[str, list[dict[str, str]]]:
    """Return the notifications and the chat messages of one prompt of 3 to 5 notifications."""
    threads, singles = part(templates(FILE)["threads"], split), part(templates(FILE)["singles"], split)
    scene: dict[str, str] = {}
    count = int(rng.integers(3, 6))
    together = (
        [_line(rng, row, split, scene) for row in pick(rng, threads).split("\n")]
        if rng.random() < THREAD_SHARE
        else []
    )
    chosen = rng.choice(len(singles), size=count - len(together), replace=False)
    alone = [_line(rng, singles[int(index)], split, {}) for index in chosen]
    lines = together + alone if rng.random() < THREAD_FIRST else alone + together
    listing = "\n".join(lines)
    return listing, [
        {"role": "user", "content": f"{pick(rng, templates(FILE)['instructions'])}\n\n{listing}"}
    ]
