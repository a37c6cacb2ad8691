"""Prompts of the code class: function heads; HumanEval is test, mined and composed heads are train."""

from __future__ import annotations

from functools import cache

import numpy as np

from reference_impl.task_makers.composed_code import compose
from reference_impl.task_makers.data import rows
from reference_impl.task_makers.grammar import pick

COMPOSED_SHARE = 0.6


@cache
def heads(split: str) -> tuple[str, ...]:
    """Return the function heads of a split."""
    if split == "test":
        return tuple(row["prompt"].strip() for row in rows("HumanEval.jsonl.gz"))
    return tuple(row["text"].strip() for row in rows("code_train.jsonl.gz"))


def make(rng: np.random.Generator, split: str) -> tuple[str, list[dict[str, str]]]:
    """Return the head and the chat messages of one prompt."""
    composed = split == "train" and rng.random() < COMPOSED_SHARE
    head = compose(rng) if composed else pick(rng, heads(split))
    return head, [{"role": "user", "content": f"Complete this Python function:\n\n```python\n{head}\n```"}]
