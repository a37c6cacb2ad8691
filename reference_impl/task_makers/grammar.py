"""Template grammar: ``{a|b}`` picks one, ``<slot>`` draws a word, ``<slot#1>`` once a scene; no task."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import TypeVar

import numpy as np

T = TypeVar("T")
SPLITS = ("train", "test")
TEST_EVERY = 5
_ALTERNATIVES = re.compile(r"\{([^{}]*)\}")
_SLOT = re.compile(r"<(\w+)(#\w+)?>")


def part(items: Sequence[T], split: str) -> list[T]:
    """Return the entries of a list that belong to one split: every fifth is test, the rest is train."""
    return [
        item
        for index, item in enumerate(items)
        if (index % TEST_EVERY == TEST_EVERY - 1) == (split == "test")
    ]


def pick(rng: np.random.Generator, items: Sequence[T]) -> T:
    """Draw one entry."""
    return items[int(rng.integers(len(items)))]


@cache
def _all_words() -> dict[str, list[str]]:
    text = resources.files("reference_impl").joinpath("task_data/vocab.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def words(split: str) -> dict[str, list[str]]:
    """Return the slot vocabulary of a split; the two splits share no word of any list but day and time."""
    shared = ("day", "time")
    return {key: items if key in shared else part(items, split) for key, items in _all_words().items()}


def _join_day(match: re.Match[str]) -> str:
    """Keep one preposition before a day: "on tomorrow" loses it; "until on" keeps the first."""
    lead, day = match.group(0).split(" ")[0], match.group(1)
    if day == "on ":
        return lead + " "
    return day if lead == "on" else f"{lead} {day}"


def expand(rng: np.random.Generator, template: str, split: str, scene: dict[str, str] | None = None) -> str:
    """Expand a template; slots with ``#key`` keep their word within ``scene``."""
    scene = {} if scene is None else scene

    def fill(match: re.Match[str]) -> str:
        slot, key = match.group(1), match.group(2)
        if slot == "n":
            word = str(int(rng.integers(2, 60)))
        elif slot == "money":
            word = f"{int(rng.integers(3, 400))}.{int(rng.integers(100)):02d}"
        elif slot == "code":
            word = str(int(rng.integers(100_000, 999_999)))
        else:
            word = pick(rng, words(split)[slot])
        return scene.setdefault(slot + key, word) if key else word

    text = template
    while True:
        match = _ALTERNATIVES.search(text)
        if match is None:
            break
        text = text[: match.start()] + pick(rng, match.group(1).split("|")) + text[match.end() :]
    text = _SLOT.sub(fill, text)
    text = re.sub(r"\b(?:on|by|until) (on |tomorrow|tonight|next |this |the day )", _join_day, text)
    text = re.sub(r" +([,.!?])", r"\1", re.sub(r"\s+", " ", text)).strip()
    text = re.sub(r"([.!?] )([a-z])", lambda match: match.group(1) + match.group(2).upper(), text)
    return text[:1].upper() + text[1:]
