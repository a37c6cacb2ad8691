"""Acceptance by depth and token strips from traces, for a report; it does not know any cost."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from simulator.acceptance.schema import Trace, TraceError
from simulator.acceptance.summary import ALL_TASKS, summarise
from simulator.acceptance.trace import (
    RESPONSES_FILE,
    Responses,
    load_shipped,
    load_shipped_responses,
    read_responses,
    read_trace,
    shipped_targets,
    shipped_traces,
)
from simulator.drafters import build_drafter, list_drafters
from simulator.errors import DraftscopeError
from simulator.specs import list_targets, load_target
from simulator.studies.evidence import TraceLike
from simulator.studies.reporting import readings
from simulator.studies.reporting.designs import Record
from simulator.studies.reporting.strips import strip_records

TRACED_TARGET = "smollm2_135m"
STRIP_DRAFT_LENGTH = 4
TOKEN_TEXTS_FILE = "token_texts.json"
"""Beside the traces: texts of tokens that were drafted but stand in no response."""
FEWEST_STEPS = 50
"""Shares of fewer steps are noise: left out of the acceptance by depth."""
_FAMILIES = ("frozen_mtp", "mtp_head", "standalone", "ngram", "suffix")


def chosen_traces(given: Sequence[TraceLike]) -> list[Trace]:
    """The given traces, or the shipped ones; the frozen head first."""
    if given:
        loaded = [trace if isinstance(trace, Trace) else read_trace(trace) for trace in given]
    elif TRACED_TARGET in shipped_targets():
        loaded = [load_shipped(TRACED_TARGET, name) for name in shipped_traces(TRACED_TARGET)]
    else:
        loaded = []
    return sorted(loaded, key=_rank)


def _rank(trace: Trace) -> tuple[int, bool, bool]:
    family, name = trace.metadata.drafter_family, trace.metadata.drafter_id
    place = _FAMILIES.index(family) if family in _FAMILIES else len(_FAMILIES)
    return place, name == "suffix", "body" in name


def acceptance_records(
    traces: Sequence[Trace],
    *,
    tasks: Sequence[str] | None,
    draft_lengths: Iterable[int],
    max_overlap: float | None,
) -> list[Record]:
    """Acceptance by depth, task by task, over the steps of the longest chain asked for.

    Parameters
    ----------
    traces : sequence of Trace
        One a drafter.
    tasks : sequence of str or None
        Task classes; those that a trace lacks are left out.
    draft_lengths : iterable of int
        K asked for.
    max_overlap : float or None
        Leave out responses that share more of their 8-grams with training responses.

    Returns
    -------
    list of dict
        task, reading, and records of `simulator.figures.acceptance_by_depth`.
    """
    longest = max(draft_lengths)
    groups: dict[str, list[Record]] = {}
    for trace in traces:
        label, depth = _label(trace), min(longest, trace.metadata.max_depth)
        wanted = None if tasks is None else [task for task in tasks if task in trace.tasks]
        for record in summarise(trace, draft_lengths=[depth], tasks=wanted, max_overlap=max_overlap):
            whole, given = record["per_position_acceptance_rate"], record["conditional_acceptance_rate"]
            reached = [record["steps"], *(record["steps"] * (share or 0.0) for share in whole)]
            groups.setdefault(record["task"], []).extend(
                {"drafter": record["drafter"], "label": label, "task": record["task"], "depth": k + 1,
                 "requests": record["requests"], "draft_length": depth,
                 "per_position_acceptance_rate": whole[k],
                 "conditional_acceptance_rate": given[k] if reached[k] >= FEWEST_STEPS else None}
                for k in range(depth)
            )  # fmt: skip
    return [{"task": task, "records": records, "reading": readings.acceptance_reading(records)}
            for task, records in groups.items() if task != ALL_TASKS]  # fmt: skip


def _label(trace: Trace) -> str:
    """Label of the drafter that a trace is of; its id where no shipped drafter has it."""
    target, name = trace.metadata.target_id, trace.metadata.drafter_id
    if target in list_targets():
        for each in list_drafters(target):
            drafter = build_drafter(each, load_target(target))
            if name in (drafter.trace_id, drafter.id):
                return drafter.label
    return name


def strips_of(
    traces: Sequence[Trace],
    given: Sequence[TraceLike],
    responses: Responses | str | os.PathLike[str] | None,
    *,
    tasks: Sequence[str] | None,
    max_overlap: float | None,
) -> list[Record]:
    """Token strips; none where the texts behind the traces are not at hand.

    Parameters
    ----------
    traces : sequence of Trace
        One a drafter, all of one target.
    given : sequence of Trace or path
        What the caller gave; texts are looked for beside files.
    responses : Responses, path or None
        The texts, where the caller gave them.
    tasks : sequence of str or None
        Task classes; all of the texts where None.
    max_overlap : float or None
        As for `acceptance_records`.
    """
    texts = _responses(given, responses)
    if texts is None:
        return []
    known = list(dict.fromkeys(texts.tasks))
    wanted = known if tasks is None else [task for task in tasks if task in known]
    tokens = _token_texts(given, responses, texts.target_id)
    of_target = [trace for trace in traces if trace.metadata.target_id == texts.target_id]
    return strip_records(of_target, texts, tasks=wanted, draft_length=STRIP_DRAFT_LENGTH,
                         max_overlap=max_overlap, texts=tokens)  # fmt: skip


def _responses(
    given: Sequence[TraceLike], responses: Responses | str | os.PathLike[str] | None
) -> Responses | None:
    if isinstance(responses, Responses):
        return responses
    if responses is not None:
        return read_responses(responses)
    if given:
        beside = [Path(trace).with_name(RESPONSES_FILE) for trace in given if not isinstance(trace, Trace)]
        return next((read_responses(path) for path in beside if path.is_file()), None)
    try:
        return load_shipped_responses(TRACED_TARGET) if TRACED_TARGET in shipped_targets() else None
    except TraceError:
        return None


def _token_texts(
    given: Sequence[TraceLike], responses: Responses | str | os.PathLike[str] | None, target_id: str
) -> dict[int, str]:
    """Texts of drafted tokens from the file beside the responses or the traces; empty where there is none."""
    if isinstance(responses, (str, os.PathLike)):
        beside = [Path(responses)]
    elif given:
        beside = [Path(trace) for trace in given if not isinstance(trace, Trace)]
    else:
        beside = list(shipped_traces(target_id).values()) if target_id in shipped_targets() else []
    for path in dict.fromkeys(each.with_name(TOKEN_TEXTS_FILE) for each in beside):
        if path.is_file():
            return read_token_texts(path, target_id=target_id)
    return {}


def read_token_texts(path: str | os.PathLike[str], *, target_id: str) -> dict[int, str]:
    """Token id -> text from a JSON file ``{"target": id, "texts": {"<token id>": text}}``.

    Parameters
    ----------
    path : path
        The file.
    target_id : str
        Target whose tokens are asked for; a file of another target gives nothing.

    Raises
    ------
    DraftscopeError
        If the file is not of this form.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        target, texts = data["target"], {int(token): str(text) for token, text in data["texts"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise DraftscopeError(
            f'{path}: not a file of token texts; allowed: {{"target": id, "texts": {{"<token id>": text}}}}.'
        ) from None
    return texts if target == target_id else {}
