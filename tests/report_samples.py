"""Made-up traces with text for tests of the report; they say nothing about any drafter."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from simulator.acceptance.schema import TraceMetadata
from simulator.acceptance.trace import Responses, write_responses, write_trace

TARGET = "smollm2_135m"
DEPTH = 8
# Chance that a draft is right, by task and, in the order of DRAFTERS, by drafter.
CHANCES = {
    "notification_summary": (0.78, 0.55, 0.62, 0.30, 0.35),
    "proofread": (0.80, 0.50, 0.60, 0.62, 0.20),
    "smart_reply": (0.76, 0.55, 0.58, 0.10, 0.40),
    "passage_summary": (0.62, 0.42, 0.48, 0.35, 0.15),
    "code": (0.66, 0.40, 0.50, 0.45, 0.30),
    "chat": (0.58, 0.40, 0.45, 0.08, 0.20),
}
DRAFTERS = {
    "mtp_head": "frozen_mtp",
    "standalone_total": "standalone",
    "standalone_body": "standalone",
    "ngram": "ngram",
    "suffix": "ngram",
}
TEXT = (
    "the a team meeting moved to noon on Friday please bring notes and coffee we will talk about budget "
    "plans for spring then decide who writes summary def return for in range if else print value list thanks "
    'see you soon great news it works <b> & " , . ! \n'
)
WORDS = TEXT.split(" ")


def write_sample_traces(folder: Path, *, requests_per_task: int = 6, seed: int = 7) -> Path:
    """Write one trace for each drafter and the responses; return the folder of the target."""
    rng = np.random.default_rng(seed)
    ids, tasks, texts = [], [], []
    for task in CHANCES:
        for i in range(requests_per_task):
            ids.append(f"{task}_{i}")
            tasks.append(task)
            texts.append(rng.integers(0, len(WORDS), int(rng.integers(28, 70))))
    overlap = np.where(np.arange(len(ids)) % requests_per_task == 0, 0.5, 0.05).astype(np.float32)
    place = folder / TARGET
    write_responses(
        place / "responses.parquet",
        Responses(
            target_id=TARGET,
            request_ids=tuple(ids),
            tasks=tuple(tasks),
            prompts=tuple(f"A prompt for {task}" for task in tasks),
            tokens=tuple(text.astype(np.int32) for text in texts),
            token_texts=tuple(tuple(f" {WORDS[token]}" for token in text) for text in texts),
            train_overlap=overlap,
        ),
    )
    for which, (drafter, family) in enumerate(DRAFTERS.items()):
        columns = _columns(rng, ids, tasks, texts, overlap, which, drafter)
        write_trace(place / f"{drafter}.parquet", columns, _metadata(drafter, family))
    return place


def _metadata(drafter: str, family: str) -> TraceMetadata:
    return TraceMetadata(
        target_id=TARGET, target_sha256="00ff", drafter_id=drafter, drafter_family=family,
        drafter_sha256="11ee", drafter_params=7, dtype="float32", max_depth=DEPTH, task_set="made up",
        date="2026-01-01",
    )  # fmt: skip


def _columns(
    rng: np.random.Generator,
    ids: list[str],
    tasks: list[str],
    texts: list[np.ndarray],
    overlap: np.ndarray,
    which: int,
    drafter: str,
) -> dict[str, np.ndarray]:
    lengths = np.array([len(text) for text in texts])
    rows = int(lengths.sum())
    tokens = np.concatenate(texts).astype(np.int32)
    position = np.concatenate([np.arange(n) for n in lengths]).astype(np.int32)
    remaining = np.repeat(lengths, lengths) - 1 - position
    chance = np.repeat([CHANCES[task][which] for task in tasks], lengths)
    k = np.arange(1, DEPTH + 1)
    truth = np.stack([np.concatenate([tokens[i:], np.zeros(i, np.int32)]) for i in k], axis=1)
    right = rng.random((rows, DEPTH)) < chance[:, None] * 0.97 ** (k - 1)
    draft = np.where(right, truth, (truth + rng.integers(1, len(WORDS), (rows, DEPTH))) % len(WORDS))
    proposed = np.full(rows, DEPTH)
    if drafter in ("ngram", "suffix"):
        proposed = np.where(rng.random(rows) < 0.6, rng.integers(1, DEPTH + 1, rows), 0)
    proposed = np.where(remaining == 0, 0, proposed)
    drafted, inside = k <= proposed[:, None], k <= remaining[:, None]
    return {
        "request_id": np.repeat(ids, lengths),
        "task": np.repeat(tasks, lengths),
        "position": position,
        "context_length": (np.repeat(80 + 3 * np.arange(len(ids)), lengths) + position).astype(np.int32),
        "token": tokens,
        "proposed": proposed.astype(np.int8),
        "draft_token": np.where(drafted, draft, -1).astype(np.int32),
        "draft_top1_prob": np.where(drafted, 0.7, np.nan).astype(np.float32),
        "rank": np.where(inside, 0, -1).astype(np.int32),
        "draft_prob": np.where(inside, 0.5, 0.0).astype(np.float32),
        "target_prob_of_draft": np.where(drafted & inside, 0.4, np.nan).astype(np.float32),
        "target_top1_prob": np.where(remaining > 0, 0.75, np.nan).astype(np.float32),
        "target_entropy": np.where(remaining > 0, 1.5, np.nan).astype(np.float32),
        "train_overlap": np.repeat(overlap, lengths),
    }
