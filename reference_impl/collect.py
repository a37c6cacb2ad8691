"""Anchor traces: run the target once over each response, ask every drafter at every position, write Parquet.

It runs at near the target's prefill rate, because no drafter decodes step by step (``anchors.py``). It does
not know how responses are made (``responses.py``) or how a trace is replayed (``simulator.acceptance``).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from simulator.acceptance.trace import TraceMetadata, write_responses, write_trace
from simulator.files import whole_file

from .anchors import AnchorDrafts, TargetPass, drafts_at_anchors, read_response
from .errors import ReferenceImplError
from .gguf_target import Target
from .live import NamedDrafter
from .responses import Request, to_responses

DEPTH = 8

Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Collected:
    """An anchor trace before it is written.

    Attributes
    ----------
    columns : dict of str to ndarray
        The columns of the file format.
    gap : ndarray of float32, shape (rows, D)
        The drafter's logit gap behind each draft (infinite for lookups and where there is no draft).
    target_gap : ndarray of float32, shape (rows,)
        The target's logit gap where it chose the next token; infinite in a last row.
    """

    columns: Columns
    gap: NDArray[np.float32]
    target_gap: NDArray[np.float32]


def collect(
    target: Target,
    drafters: Sequence[NamedDrafter],
    requests: Sequence[Request],
    *,
    depth: int = DEPTH,
    scratch: Path | None = None,
    report: Callable[[str], None] | None = None,
) -> dict[str, Collected]:
    """Anchor traces of several drafters on the same responses, by drafter id.

    Parameters
    ----------
    target : Target
        In float32, like the drafters.
    drafters : sequence of NamedDrafter
    requests : sequence of Request
        Rows keep their order within a task; tasks come in order of first appearance.
    depth : int
        Drafts recorded at each anchor, D.
    scratch : Path, optional
        Finished tasks are kept here, so that a killed run goes on where it was.

    Raises
    ------
    ReferenceImplError
        For no requests or drafters, or a depth outside 1..127.
    """
    if not requests or not drafters:
        raise ReferenceImplError(
            f"collect: given {len(requests)} requests, {len(drafters)} drafters, allowed: 1 or more"
        )
    if not 1 <= depth <= 127:
        raise ReferenceImplError(f"depth: given {depth}, allowed 1..127")
    parts: dict[str, list[Columns]] = {d.id: [] for d in drafters}
    for task in dict.fromkeys(r.task for r in requests):
        some = [r for r in requests if r.task == task]
        for drafter_id, columns in _task(target, drafters, some, depth, scratch, task, report).items():
            parts[drafter_id].append(columns)
    result = {}
    for drafter_id, columns_of in parts.items():
        merged = {name: np.concatenate([c[name] for c in columns_of]) for name in columns_of[0]}
        result[drafter_id] = Collected(
            gap=merged.pop("gap"), target_gap=merged.pop("target_gap"), columns=merged
        )
    return result


def _task(
    target: Target,
    drafters: Sequence[NamedDrafter],
    requests: Sequence[Request],
    depth: int,
    scratch: Path | None,
    task: str,
    report: Callable[[str], None] | None,
) -> dict[str, Columns]:
    digest = _digest(target, requests, depth)
    done: dict[str, Columns] = {}
    for drafter in drafters:
        if (kept := _load(_shard(scratch, task, drafter), digest + drafter.digest)) is not None:
            done[drafter.id] = kept
    missing = [d for d in drafters if d.id not in done]
    began = time.monotonic()
    rows: dict[str, list[Columns]] = {d.id: [] for d in missing}
    for request in requests if missing else ():
        read = read_response(target.backbone, request.prompt_tokens, request.response)
        shared = _target_columns(request, read)
        for drafter in missing:
            drafts = drafts_at_anchors(drafter.model, target.backbone, read, depth)
            rows[drafter.id].append({**shared, **_draft_columns(drafts, read)})
    for drafter in missing:
        columns = {name: np.concatenate([r[name] for r in rows[drafter.id]]) for name in rows[drafter.id][0]}
        _save(_shard(scratch, task, drafter), digest + drafter.digest, columns)
        done[drafter.id] = columns
    if report:
        tokens = sum(len(r.prompt_tokens) + len(r.response) for r in requests)
        rate = (
            f"{tokens / (time.monotonic() - began):.0f} tokens a second"
            if missing
            else "kept from an earlier run"
        )
        report(f"collect: {task}: {len(requests)} responses, {len(missing)} drafters, {rate}")
    return {d.id: done[d.id] for d in drafters}


def _target_columns(request: Request, read: TargetPass) -> Columns:
    """What does not depend on the drafter; the last row of a request has no distribution."""
    rows = read.anchors + 1
    probabilities = read.log_probs.exp()
    entropy = -(probabilities * read.log_probs).sum(-1)
    return {
        "request_id": np.full(rows, request.request_id),
        "task": np.full(rows, request.task),
        "position": np.arange(rows, dtype=np.int32),
        "context_length": np.arange(rows, dtype=np.int32) + read.prompt_length,
        "token": read.tokens[read.prompt_length :].numpy().astype(np.int32),
        "target_top1_prob": _last(probabilities.amax(-1).numpy(), np.nan),
        "target_entropy": _last(entropy.clamp(min=0).numpy(), np.nan),
        "target_gap": _last(read.gap.float().numpy(), np.inf),
        "train_overlap": np.full(rows, request.train_overlap, dtype=np.float32),
    }


def _draft_columns(drafts: AnchorDrafts, read: TargetPass) -> Columns:
    """A drafter's columns, with the target's opinion of each draft given the true text before it."""
    count, depth = drafts.draft_token.shape
    row = np.arange(count)[:, None] + np.arange(depth)
    known = (row < count) & (drafts.draft_token >= 0)
    of_draft = np.full((count, depth), np.nan, dtype=np.float32)
    picked = read.log_probs[torch.from_numpy(row[known]), torch.from_numpy(drafts.draft_token[known]).long()]
    of_draft[known] = picked.exp().numpy()
    return {
        "proposed": _last(drafts.proposed, 0),
        "draft_token": _last(drafts.draft_token, -1),
        "draft_top1_prob": _last(drafts.draft_top1_prob, np.nan),
        "rank": _last(drafts.rank, -1),
        "draft_prob": _last(drafts.draft_prob, 0.0),
        "target_prob_of_draft": _last(of_draft, np.nan),
        "gap": _last(drafts.gap, np.inf),
    }


def _last(values: NDArray[Any], sentinel: float) -> NDArray[Any]:
    """Append the row of the last token, which has no drafts."""
    return np.concatenate([values, np.full((1, *values.shape[1:]), sentinel, dtype=values.dtype)])


def write_traces(
    folder: Path,
    target: Target,
    drafters: Sequence[NamedDrafter],
    requests: Sequence[Request],
    collected: Mapping[str, Collected],
    *,
    task_set: str,
    date: str,
    note: str = "",
) -> list[Path]:
    """Write ``<folder>/<target id>/<drafter id>.parquet``; the trace paths.

    Beside them ``responses.parquet`` and ``token_texts.json``, the text of every token that was drafted.
    """
    home = folder / target.id
    paths = []
    for drafter in drafters:
        columns = collected[drafter.id].columns
        metadata = TraceMetadata(
            target_id=target.id,
            target_sha256=target.sha256,
            drafter_id=drafter.id,
            drafter_family=drafter.family,
            drafter_sha256=drafter.sha256,
            drafter_params=drafter.params,
            dtype=str(target.backbone.dtype).removeprefix("torch."),
            max_depth=columns["draft_token"].shape[1],
            task_set=task_set,
            date=date,
            note=note,
        )
        paths.append(home / f"{drafter.id}.parquet")
        write_trace(paths[-1], columns, metadata)
    write_responses(home / "responses.parquet", to_responses(target, requests))
    drafted = np.unique(np.concatenate([collected[d.id].columns["draft_token"].ravel() for d in drafters]))
    decode = target.tokenizer.decode
    texts = {str(t): decode([t], skip_special_tokens=False) for t in drafted.tolist() if t >= 0}
    with whole_file(home / "token_texts.json", error=ReferenceImplError) as temporary:
        temporary.write_text(json.dumps({"target": target.id, "texts": texts}, ensure_ascii=False, indent=0))
    return paths


def _digest(target: Target, requests: Sequence[Request], depth: int) -> str:
    texts = [[r.request_id, r.prompt_tokens, r.response, r.train_overlap] for r in requests]
    text = json.dumps([target.sha256, str(target.backbone.dtype), depth, texts])
    return hashlib.sha256(text.encode()).hexdigest()


def _shard(scratch: Path | None, task: str, drafter: NamedDrafter) -> Path | None:
    return None if scratch is None else scratch / f"anchors_{task}_{drafter.id}.npz"


def _load(shard: Path | None, digest: str) -> Columns | None:
    if shard is None or not shard.exists():
        return None
    with np.load(shard, allow_pickle=False) as stored:
        columns = {name: stored[name] for name in stored.files}
    return columns if str(columns.pop("digest")) == digest else None


def _save(shard: Path | None, digest: str, columns: Columns) -> None:
    if shard is None:
        return
    with (
        whole_file(shard, error=ReferenceImplError, make_folder=True) as temporary,
        temporary.open("wb") as handle,
    ):
        np.savez(handle, digest=np.array(digest), **columns)
