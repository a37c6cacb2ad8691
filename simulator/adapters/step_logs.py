"""Logs with accepted and proposed counts of every step -> a step trace; it refuses totals and averages.

Two logs have them: llama.cpp's server at its most verbose, and a table of one's own. The context ties the
steps together: it grows by what a step emits, accepted drafts and the bonus token, so that a log which counts
the bonus among the accepted, or which leaves out steps, is noticed.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from simulator.acceptance.steps import LARGEST, STEP_TRACE_COLUMNS, StepTrace
from simulator.adapters import llama_steps
from simulator.adapters.detect import recognised
from simulator.adapters.fields import Record, Source, json_records, number, row
from simulator.adapters.observations import FORMATS, MeasurementError
from simulator.errors import UnknownNameError, nearest

DRAFT_PASSES: Mapping[str, str] = MappingProxyType(
    {"chain": "one pass a draft", "one": "one pass a step", "none": "no pass: a look-up"}
)
"""How the drafter runs -> what that means; a log does not say."""

_NEEDED = ("request_id", "context", "proposed", "accepted")


@dataclass(frozen=True)
class Step:
    """One step of a log."""

    request: str
    context: int
    proposed: int
    accepted: int
    emitted: int
    where: str
    task: str = ""
    draft_passes: int | None = None
    verify_width: int | None = None


def read_step_log(
    path: str | os.PathLike[str],
    *,
    target_id: str,
    drafter_id: str,
    task: str = "unknown",
    draft_passes: str = "chain",
) -> StepTrace:
    """Read a log as a step trace.

    Parameters
    ----------
    path : path
        Log of llama.cpp's server, or a CSV or JSONL with ``request_id, context, proposed, accepted``, and
        optionally ``task, draft_passes, verify_width, emitted``.
    target_id, drafter_id : str
        What ran.
    task : str
        Task class of steps that do not name one.
    draft_passes : str
        One of :data:`DRAFT_PASSES`, for steps that do not say how many passes the drafter took.

    Raises
    ------
    MeasurementError
        If the file has only totals or averages, or is damaged.
    """
    if draft_passes not in DRAFT_PASSES:
        raise UnknownNameError("draft passes", draft_passes, DRAFT_PASSES)
    source = Source.read(path)
    if _is_table(source):
        origin, steps = "table of steps", _table(source)
    elif llama_steps.recognised(source):
        origin = "llama.cpp server log"
        steps = [_sized(Step(*step)) for step in llama_steps.read(source)]
    else:
        raise _refusal(source)
    steps = _contiguous(steps)
    _check_contexts(steps)
    values: dict[str, Any] = {
        "request_id": [step.request for step in steps],
        "task": [step.task or task for step in steps],
        "context": [step.context for step in steps],
        "proposed": [step.proposed for step in steps],
        "accepted": [step.accepted for step in steps],
        "draft_passes": [_passes(step, draft_passes) for step in steps],
        "verify_width": [step.verify_width or step.proposed + 1 for step in steps],
        "emitted": [step.emitted for step in steps],
    }
    return StepTrace(
        target_id=target_id, drafter_id=drafter_id, origin=origin, source=str(path), columns=values
    )


def _sized(step: Step) -> Step:
    for name in ("context", "proposed"):
        number(getattr(step, name), f"{step.where}: field {name!r}", most=LARGEST[name], whole=True)
    return step


def _refusal(source: Source) -> MeasurementError:
    name = recognised(source)
    what = "is not a log of steps" if name is None else f"is {name} ({FORMATS[name]}): totals, no steps"
    return MeasurementError(
        f"{source.path}: {what}. A step trace needs accepted and proposed of every step; averages do not say "
        "how they are spread. Allowed: a log of llama-server --verbose with lines 'accepted a/n draft "
        f"tokens, new n_tokens = m', or CSV or JSONL with {', '.join(_NEEDED)}."
    )


def _passes(step: Step, draft_passes: str) -> int:
    if step.draft_passes is not None:
        return step.draft_passes
    return {"chain": step.proposed, "one": min(step.proposed, 1), "none": 0}[draft_passes]


def _contiguous(steps: list[Step]) -> list[Step]:
    """Steps of a request together, requests in the order of their first step."""
    by_request: dict[str, list[Step]] = {}
    for step in steps:
        by_request.setdefault(step.request, []).append(step)
    return [step for group in by_request.values() for step in group]


def _check_contexts(steps: list[Step]) -> None:
    for step, after in pairwise(steps):
        if step.request == after.request and after.context != step.context + step.emitted:
            hint = ""
            if after.context == step.context + step.accepted and step.accepted:
                hint = " Does the log count the bonus token among the accepted?"
            raise MeasurementError(
                f"{after.where}: field 'context': given {after.context}, allowed: "
                f"{step.context + step.emitted}, the context before it + {step.emitted} emitted.{hint}"
            )


# ------------------------------------------------------------------------------------ a table of one's own
def _is_table(source: Source) -> bool:
    text = source.decoded
    if text is None:
        return False
    first = next((line for line in source.lines if line.strip() and not line.startswith("#")), "")
    return "proposed" in first and "accepted" in first and ("," in first or first.lstrip().startswith("{"))


def _table(source: Source) -> list[Step]:
    if source.text.lstrip().startswith(("{", "[")):
        records = json_records(source)
    else:
        records = _csv(source)
    if not records:
        raise MeasurementError(f"{source.path}: no row.")
    return [_step(record) for record in records]


def _csv(source: Source) -> list[Record]:
    lines = ["" if line.startswith("#") else line for line in source.lines]
    reader = csv.reader(lines, strict=True)
    header: list[str] | None = None
    records = []
    try:
        for cells in reader:
            if header is None:
                header = _header([cell.strip() for cell in cells], f"{source.path}:{reader.line_num}")
            elif cells:
                records.append(row(header, [cell.strip() for cell in cells], source.path, reader.line_num))
    except csv.Error as error:
        raise MeasurementError(f"{source.path}:{reader.line_num}: not CSV: {error}.") from None
    return records


def _header(names: list[str], where: str) -> list[str] | None:
    for name in names:
        if names.count(name) > 1:
            raise MeasurementError(
                f"{where}: column {name!r}: given {names.count(name)} times, allowed: once."
            )
    return names or None


def _step(record: Record) -> Step:
    for name in record.values:
        if name not in STEP_TRACE_COLUMNS:
            close = nearest(name, STEP_TRACE_COLUMNS)
            hint = f"; nearest: {close!r}" if close else ""
            raise MeasurementError(
                f"{record.at(name)} is not known{hint}. Allowed: {', '.join(STEP_TRACE_COLUMNS)}."
            )
    request = record.text("request_id")
    if request is None:
        raise MeasurementError(f"{record.at('request_id')} is missing.")
    context, proposed, accepted = (
        int(record.number(name, most=LARGEST[name], whole=True))
        for name in ("context", "proposed", "accepted")
    )
    if accepted > proposed:
        raise MeasurementError(
            f"{record.at('accepted')}: given {accepted}, allowed: 0..{proposed}, the drafts proposed."
        )
    emitted = record.optional("emitted", least=1, most=LARGEST["emitted"], whole=True)
    passes = record.optional("draft_passes", most=LARGEST["draft_passes"], whole=True)
    width = record.optional("verify_width", least=1, most=LARGEST["verify_width"], whole=True)
    return Step(
        request,
        context,
        proposed,
        accepted,
        accepted + 1 if emitted is None else int(emitted),
        record.where,
        record.text("task") or "",
        None if passes is None else int(passes),
        None if width is None else int(width),
    )
