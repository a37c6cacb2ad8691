"""Prompts of the passage-summary class: a passage of 80 to 150 words to be put into two sentences."""

from __future__ import annotations

import gzip
import json
import zlib
from functools import cache
from importlib import resources

import numpy as np

from reference_impl.task_makers.grammar import TEST_EVERY, pick

SYSTEM = "You summarize texts. Answer with a summary of one or two sentences."
INSTRUCTIONS = (
    "Summarize this passage in two sentences.",
    "Give a short summary of this text.",
    "What is the main point of this passage? Answer in one or two sentences.",
)


@cache
def passages(split: str) -> list[str]:
    """Return the passages of a split; all passages of one source page are in the same split."""
    raw = resources.files("reference_impl").joinpath("task_data/passages.jsonl.gz").read_bytes()
    rows = [json.loads(line) for line in gzip.decompress(raw).decode("utf-8").splitlines()]
    return [row["text"] for row in rows if (zlib.crc32(row["key"].encode()) % TEST_EVERY == 0) == (split == "test")]


def make(rng: np.random.Generator, split: str) -> list[dict[str, str]]:
    """Return the chat messages of one prompt."""
    content = f"{pick(rng, list(INSTRUCTIONS))}\n\n{pick(rng, passages(split))}"
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": content}]
