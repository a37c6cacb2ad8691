"""The target's greedy responses to test prompts, and how much of each stands in the training responses.

It does not know drafters or traces; ``collect.py`` writes what it makes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simulator.acceptance.trace import Responses
from simulator.files import whole_file

from .errors import ReferenceImplError
from .features import FeatureStore
from .generate import generate_many
from .gguf_target import Target
from .tasks import TASKS, prompts

_WINDOW = 8

Tokens = NDArray[np.integer] | Sequence[int]


@dataclass(frozen=True)
class Request:
    """One test prompt with the target's response.

    Attributes
    ----------
    prompt : str
        As the model reads it, chat template included; ``Target.encode`` gives ``prompt_tokens``.
    response : tuple of int
        Greedy, ending with the stop token or at the length limit of the task.
    train_overlap : float
        Share of the response's 8-grams that stand in training responses.
    """

    request_id: str
    task: str
    prompt: str
    prompt_tokens: tuple[int, ...]
    response: tuple[int, ...]
    train_overlap: float = 0.0


class TrainingText:
    """All 8-grams of the training responses.

    Parameters
    ----------
    responses : iterable of token id arrays
        Token ids below 65,536.
    """

    def __init__(self, responses: Iterable[Tokens]) -> None:
        found = [_windows(r) for r in responses]
        self._known = np.unique(np.concatenate(found)) if found else np.zeros(0, dtype="S16")

    def share(self, response: Tokens) -> float:
        """Share of the response's 8-grams that are known.

        A response of fewer than 8 tokens counts as one gram: 1.0 where a training response equals it.
        """
        windows = _windows(response)
        if not len(self._known):
            return 0.0
        at = np.searchsorted(self._known, windows).clip(max=len(self._known) - 1)
        return float((self._known[at] == windows).mean())


def _windows(response: Tokens) -> NDArray[np.bytes_]:
    """8-grams as 16-byte strings; a shorter response is padded with an id that no token has."""
    tokens = np.asarray(response, dtype=np.int64)
    if tokens.size and not 0 <= tokens.min() <= tokens.max() < 0xFFFF:
        raise ReferenceImplError(f"response: token ids {tokens.min()}..{tokens.max()}, allowed 0..65534")
    padded = np.concatenate([tokens, np.full(max(0, _WINDOW - len(tokens)), 0xFFFF)]).astype(np.uint16)
    windows = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)
    return np.ascontiguousarray(windows).view(f"S{2 * _WINDOW}").reshape(-1)


def training_responses(*folders: Path) -> list[NDArray[np.int64]]:
    """The responses (without prompts) of all feature shards in some folders."""
    return [
        tokens[prompt_length:].numpy()
        for folder in folders
        for tokens, prompt_length in FeatureStore(folder, ()).sequences()
    ]


def make_responses(
    target: Target,
    tasks: Sequence[str],
    n_test: int,
    *,
    seed: int = 0,
    max_new_tokens: int | None = None,
    scratch: Path | None = None,
    batch: int = 64,
    report: Callable[[str], None] | None = None,
) -> list[Request]:
    """Let the target answer test prompts; see :func:`with_overlap` for the overlap.

    Parameters
    ----------
    target : Target
        In float32, in which traces are recorded.
    tasks : sequence of str
    n_test : int
        Prompts a task.
    seed : int
        Prompt seed.
    max_new_tokens : int, optional
        Shortens the limits of the tasks.
    scratch : Path, optional
        Finished tasks are kept here, so that a killed run goes on where it was.
    """
    requests: list[Request] = []
    for task in tasks:
        chosen = prompts(task, "test", n_test, seed)
        texts = [target.render_chat(p.messages) for p in chosen]
        limit = min(TASKS[task].max_new_tokens, max_new_tokens or TASKS[task].max_new_tokens)
        encoded = [target.encode(text) for text in texts]
        shard = None if scratch is None else scratch / f"responses_{task}.json"
        digest = _digest(target, encoded, limit)
        responses = _load(shard, digest)
        if responses is None:
            made = generate_many(target.backbone, encoded, max_new_tokens=limit, batch=batch)
            responses = [g.tokens[g.prompt_length :] for g in made]
            _save(shard, digest, responses)
        if report:
            report(f"responses: {task}: {len(responses)} prompts, {sum(map(len, responses))} tokens")
        for prompt, text, ids, response in zip(chosen, texts, encoded, responses, strict=True):
            requests.append(Request(prompt.request_id, task, text, tuple(ids), tuple(response)))
    return requests


def with_overlap(requests: Sequence[Request], training: TrainingText) -> list[Request]:
    """The same requests with ``train_overlap`` filled in."""
    return [
        Request(r.request_id, r.task, r.prompt, r.prompt_tokens, r.response, training.share(r.response))
        for r in requests
    ]


def to_responses(target: Target, requests: Sequence[Request]) -> Responses:
    """The form that ``simulator.acceptance.trace.write_responses`` stores."""
    decode = target.tokenizer.decode
    return Responses(
        target_id=target.id,
        request_ids=tuple(r.request_id for r in requests),
        tasks=tuple(r.task for r in requests),
        prompts=tuple(r.prompt for r in requests),
        tokens=tuple(np.array(r.response, dtype=np.int32) for r in requests),
        token_texts=tuple(
            tuple(decode([t], skip_special_tokens=False) for t in r.response) for r in requests
        ),
        train_overlap=np.array([r.train_overlap for r in requests], dtype=np.float32),
    )


def from_responses(target: Target, responses: Responses) -> list[Request]:
    """Requests out of a stored file, so that another drafter is measured on the same texts.

    Raises
    ------
    ReferenceImplError
        When they are another target's.
    """
    if responses.target_id != target.id:
        raise ReferenceImplError(f"responses: target: given {responses.target_id!r}, allowed {target.id!r}")
    rows = zip(
        responses.request_ids, responses.tasks, responses.prompts, responses.tokens, responses.train_overlap,
        strict=True,
    )  # fmt: skip
    return [
        Request(
            request_id, task, prompt, tuple(target.encode(prompt)), tuple(tokens.tolist()), float(overlap)
        )
        for request_id, task, prompt, tokens, overlap in rows
    ]


def _digest(target: Target, encoded: Sequence[Sequence[int]], limit: int) -> str:
    text = json.dumps([target.sha256, str(target.backbone.dtype), list(encoded), limit])
    return hashlib.sha256(text.encode()).hexdigest()


def _load(shard: Path | None, digest: str) -> list[list[int]] | None:
    if shard is None or not shard.exists():
        return None
    data = json.loads(shard.read_text())
    return data["responses"] if data["digest"] == digest else None


def _save(shard: Path | None, digest: str, responses: list[list[int]]) -> None:
    if shard is None:
        return
    with whole_file(shard, error=ReferenceImplError, make_folder=True) as temporary:
        temporary.write_text(json.dumps({"digest": digest, "responses": responses}))
