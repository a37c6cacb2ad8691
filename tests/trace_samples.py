"""Small random traces for tests of the algorithm; they say nothing about any drafter."""

from __future__ import annotations

from typing import Any

import numpy as np

from simulator.acceptance.schema import Trace, TraceMetadata, trace_from_columns


def metadata(depth: int, **changes: Any) -> TraceMetadata:
    fields: dict[str, Any] = {
        "target_id": "toy_target",
        "target_sha256": "00ff",
        "drafter_id": "toy_head",
        "drafter_family": "frozen_mtp",
        "drafter_sha256": "11ee",
        "drafter_params": 7,
        "dtype": "float32",
        "max_depth": depth,
        "task_set": "toy",
        "date": "2026-01-01",
    }
    return TraceMetadata(**{**fields, **changes})


def columns(
    rng: np.random.Generator,
    lengths: list[int],
    *,
    depth: int = 8,
    vocabulary: int = 2,
    short_proposals: bool = False,
    tasks: tuple[str, ...] = ("code", "chat"),
) -> dict[str, np.ndarray]:
    """Columns of a valid trace with ``lengths`` response tokens; few words: drafts match by chance."""
    rows = sum(lengths)
    request = np.repeat(np.arange(len(lengths)), lengths)
    position = np.concatenate([np.arange(n) for n in lengths]).astype(np.int32)
    remaining = np.repeat(lengths, lengths) - 1 - position
    proposed = rng.integers(0, depth + 1, rows) if short_proposals else np.full(rows, depth)
    proposed = np.where(remaining == 0, 0, proposed).astype(np.int8)
    k = np.arange(1, depth + 1)
    drafted, inside = k <= proposed[:, None], k <= remaining[:, None]
    probability = rng.random((rows, depth), dtype=np.float32)
    rank = np.where(inside, rng.integers(-1, 4, (rows, depth)), -1).astype(np.int32)
    return {
        "request_id": np.array([f"r{i}" for i in request]),
        "task": np.array([tasks[i % len(tasks)] for i in request]),
        "position": position,
        "context_length": (10 + 5 * request + position).astype(np.int32),
        "token": rng.integers(0, vocabulary, rows).astype(np.int32),
        "proposed": proposed,
        "draft_token": np.where(drafted, rng.integers(0, vocabulary, (rows, depth)), -1).astype(np.int32),
        "draft_top1_prob": np.where(drafted, probability, np.nan).astype(np.float32),
        "rank": rank,
        "draft_prob": np.where(rank >= 0, 0.5, 0.0).astype(np.float32),
        "target_prob_of_draft": np.where(drafted & inside, 0.25, np.nan).astype(np.float32),
        "target_top1_prob": np.where(remaining > 0, 0.75, np.nan).astype(np.float32),
        "target_entropy": np.where(remaining > 0, 1.5, np.nan).astype(np.float32),
        "train_overlap": (request % 4 / 10).astype(np.float32),
    }


def random_trace(rng: np.random.Generator, lengths: list[int], *, depth: int = 8, **options: Any) -> Trace:
    changes = options.pop("metadata", {})
    return trace_from_columns(columns(rng, lengths, depth=depth, **options), metadata(depth, **changes))


def trace_of_text(
    texts: list[list[int]], drafts: dict[tuple[int, int], list[int]], *, depth: int = 4, **changes: Any
) -> Trace:
    """A trace with the given response tokens; ``drafts`` by (request, position), none elsewhere."""
    sample = columns(np.random.default_rng(0), [len(text) for text in texts], depth=depth, vocabulary=2)
    rows = len(sample["token"])
    sample["token"] = np.concatenate(texts).astype(np.int32)
    sample["proposed"] = np.zeros(rows, dtype=np.int8)
    sample["draft_token"] = np.full((rows, depth), -1, dtype=np.int32)
    sample["draft_top1_prob"] = np.full((rows, depth), np.nan, dtype=np.float32)
    first = np.concatenate([[0], np.cumsum([len(text) for text in texts])])
    for (request, position), chain in drafts.items():
        row = first[request] + position
        sample["proposed"][row] = len(chain)
        sample["draft_token"][row, : len(chain)] = chain
        sample["draft_top1_prob"][row, : len(chain)] = 1.0
    sample["target_prob_of_draft"] = np.full((rows, depth), 0.5, dtype=np.float32)
    return trace_from_columns(sample, metadata(depth, **changes))
