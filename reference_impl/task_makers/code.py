"""Prompts of the code class: a function signature with its docstring; HumanEval is the test set, mined functions train."""

from __future__ import annotations

import gzip
import json
from functools import cache
from importlib import resources

import numpy as np

from reference_impl.task_makers.grammar import pick

SYSTEM = "You are a Python programmer. Complete the function. Output only code."


@cache
def signatures(split: str) -> list[str]:
    """Return the function heads of a split."""
    name = "HumanEval.jsonl.gz" if split == "test" else "code_train.jsonl.gz"
    raw = resources.files("reference_impl").joinpath(f"task_data/{name}").read_bytes()
    rows = [json.loads(line) for line in gzip.decompress(raw).decode("utf-8").splitlines() if line]
    return [row["prompt"] if isinstance(row, dict) else row for row in rows]


def make(rng: np.random.Generator, split: str) -> list[dict[str, str]]:
    """Return the chat messages of one prompt."""
    content = f"Complete this Python function:\n\n```python\n{pick(rng, signatures(split)).strip()}\n```"
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": content}]
