"""Small made-up traces of the small target, as if they were shipped; they say nothing about any drafter."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from simulator.acceptance.schema import Trace, trace_from_columns
from simulator.acceptance.trace import write_trace
from tests.trace_samples import columns, metadata

TARGET = "smollm2_135m"
TASKS = ("notification_summary", "proofread", "smart_reply", "passage_summary", "code", "chat")
DRAFTERS = {
    "mtp_head": ("frozen_mtp", 0.8),
    "standalone_total": ("standalone", 0.6),
    "standalone_body": ("standalone", 0.5),
    "ngram": ("ngram", 0.4),
    "suffix": ("ngram", 0.3),
}
REQUESTS = 24


def sample(drafter: str, *, requests: int = REQUESTS, depth: int = 8, target: str = TARGET) -> Trace:
    """The same texts for every drafter; each of its drafts is right with a chance of its own."""
    family, right = DRAFTERS[drafter]
    lengths = [int(n) for n in np.random.default_rng(7).integers(12, 30, requests)]
    data = columns(np.random.default_rng(7), lengths, depth=depth, vocabulary=50, tasks=TASKS)
    token, rows = data["token"], len(data["token"])
    rng = np.random.default_rng(sum(map(ord, drafter)))
    truth = np.stack(
        [np.concatenate([token[k:], np.zeros(k, dtype=token.dtype)]) for k in range(1, depth + 1)], 1
    )
    hit = rng.random((rows, depth)) < right
    drafted = np.arange(1, depth + 1) <= data["proposed"][:, None]
    data["draft_token"] = np.where(drafted, np.where(hit, truth, 99), -1).astype(np.int32)
    about = metadata(depth, target_id=target, drafter_id=drafter, drafter_family=family, task_set="sample")
    return trace_from_columns(data, about)


def write_sample(folder: Path, drafter: str, **options: int | str) -> Path:
    """Write a sample as ``<folder>/<target>/<drafter>.parquet``."""
    trace = sample(drafter, **options)  # type: ignore[arg-type]
    path = folder / trace.metadata.target_id / f"{drafter}.parquet"
    write_trace(path, columns_of(trace), trace.metadata)
    return path


def columns_of(trace: Trace) -> dict[str, np.ndarray]:
    """The columns of a trace as they are written."""
    named = {
        "request_id": np.repeat(np.array(trace.request_ids), trace.lengths),
        "task": np.repeat(np.array(trace.request_tasks), trace.lengths),
        "train_overlap": np.repeat(trace.train_overlap, trace.lengths),
    }
    return {**named, **trace.columns}
