"""One target at one place: its drafters, each at its best draft length; others choose what is compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from simulator.acceptance.base import Acceptance
from simulator.analytic import predict
from simulator.drafters import build_drafter
from simulator.drafters.base import DrafterModel
from simulator.errors import UnknownNameError
from simulator.lowering.finish import case_of_steps, metrics_of_case
from simulator.lowering.question import ask
from simulator.results import Result
from simulator.specs import TargetSpec, load_target
from simulator.studies.evidence import (
    Evidence,
    NoResponsesError,
    TraceLike,
    published_evidence,
    published_tasks,
    shipped_trace,
    trace_evidence,
    traces_of_kind,
)
from simulator.studies.notes import MAX_OVERLAP, within
from simulator.studies.replays import ReplayedTrace, loaded, replayed
from simulator.studies.rows import ALL_TASKS, Row, row_of
from simulator.studies.selection import PUBLISHED, drafter_by_name

PROMPT_TOKENS, OUTPUT_TOKENS = 1024, 256
"""Request where the acceptance has none of its own: that of the public phone benchmarks."""
COST_ONLY_DRAFT_LENGTH = 3


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is compared, everywhere alike; see `compare`."""

    draft_lengths: tuple[int, ...]
    tasks: tuple[str, ...] | None
    traces: tuple[TraceLike, ...]
    transfer: bool
    max_overlap: float | None
    min_prob: float | None
    prompt_tokens: float | None
    output_tokens: float | None
    axes: dict[str, Any] | None
    intervals: bool
    every_length: bool
    every_task: bool

    @property
    def about_tasks(self) -> str:
        """``of TASK, TASK`` where tasks were asked for, else empty."""
        return f" of {', '.join(self.tasks)}" if self.tasks else ""

    def settings(self, evidence: Evidence | None) -> str:
        """What the caller overrides in a row with this evidence (None: plain decoding, cost only)."""
        found = [
            f"{name}={value:g}" if isinstance(value, (int, float)) else f"{name}={value}"
            for name, value in (self.axes or {}).items()
        ]
        if evidence is not None and evidence.pooled is not None:
            if self.prompt_tokens is not None:
                found.append(f"prompt_tokens={self.prompt_tokens:g}")
            if self.min_prob is not None:
                found.append(f"min_prob={self.min_prob:g}")
            if self.max_overlap != MAX_OVERLAP:
                found.append(f"max_overlap={'none' if self.max_overlap is None else f'{self.max_overlap:g}'}")
        return ", ".join(found)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where and how: the arguments of a prediction that do not change from drafter to drafter."""

    device: str
    runtime: str | None
    engine: str | None
    batch: int
    target: str | TargetSpec
    target_id: str
    block: str


@dataclass
class Found:
    """Rows and notes as they come."""

    rows: list[Row] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)
    untraced: dict[str, dict[str, None]] = field(default_factory=dict)

    def note(self, text: str) -> None:
        """Remember a note once."""
        if text:
            self.notes[text] = None


def rows_of_target(found: Found, place: Place, drafters: Sequence[DrafterModel], question: Question) -> None:
    """All rows of one target at one place, plain decoding first."""
    evidence = {drafter.id: _evidence(found, place, drafter, question) for drafter in drafters}
    found.rows.append(_plain_row(place, drafters, evidence, question))
    for drafter in drafters:
        known = evidence[drafter.id]
        for each in known:
            found.note(each.note)
            _rows_of(found, place, drafter, each, question)
        if not known:
            found.rows.append(_cost_row(place, drafter, question))


def _evidence(found: Found, place: Place, drafter: DrafterModel, question: Question) -> tuple[Evidence, ...]:
    """What is known: the caller's traces, else shipped ones, else (in the published block) published sets."""
    traces = _traces(place.target_id, drafter, question)
    if place.block == PUBLISHED and not traces:
        return published_evidence(
            target_id=place.target_id, drafter=drafter, tasks=question.tasks, transfer=question.transfer
        )
    known = []
    for trace in traces:
        try:
            known.append(trace_evidence(
                trace, target_id=place.target_id, drafter=drafter, tasks=question.tasks,
                max_overlap=question.max_overlap, min_prob=question.min_prob, transfer=question.transfer,
            ))  # fmt: skip
        except NoResponsesError as error:
            found.note(str(error))
    if not traces:
        found.untraced.setdefault(place.target_id, {})[drafter.trace_id] = None
    return tuple(known)


def _traces(target_id: str, drafter: DrafterModel, question: Question) -> list[TraceLike]:
    given = traces_of_kind(question.traces, target_id=target_id, drafter=drafter, transfer=question.transfer)
    own = shipped_trace(target_id, drafter)
    return given or ([] if own is None else [own])


def check_tasks(question: Question, drafters: Sequence[tuple[str, Sequence[DrafterModel]]]) -> None:
    """Refuse a task that neither a trace nor a published set knows."""
    if question.tasks is None:
        return
    known = published_tasks()
    for target_id, models in drafters:
        for model in models:
            for trace in _traces(target_id, model, question):
                known |= set(loaded(trace).tasks)
    for task in question.tasks:
        if task not in known:
            raise UnknownNameError("tasks", task, known)


def _rows_of(
    found: Found, place: Place, drafter: DrafterModel, evidence: Evidence, question: Question
) -> None:
    """Rows of one drafter with one evidence: at its best draft length, or at every one."""
    lengths, note = within(
        question.draft_lengths, evidence.max_draft_length, drafter=drafter.id, target=place.target_id,
        acceptance=evidence.label,
    )  # fmt: skip
    found.note(note)
    if not lengths:
        return
    longest = None
    if not question.every_length and len(lengths) > 1:
        longest = max(lengths)
        lengths = [_best(place, drafter, evidence, lengths, question)]
    for length in lengths:
        rows = _rows_at(place, drafter, evidence, length, question)
        found.rows.extend(replace(row, at_longest=length == longest) for row in rows)
        found.note(_pooling_note(rows[0], evidence))


def _pooling_note(row: Row, evidence: Evidence) -> str:
    """Why a row of several tasks differs from the mean that their publisher prints; empty where none is."""
    if evidence.overall is None or row.mean_acceptance_length is None:
        return ""
    theirs = float(evidence.overall.mean_acceptance_length(row.draft_length))
    return (
        f"{row.drafter} on {row.target}: the row of all {row.tasks} tasks of {evidence.label} has as many "
        "tokens of each, hence the harmonic mean of their acceptance lengths, "
        f"{row.mean_acceptance_length:.2f} at K = {row.draft_length}; the publisher's plain mean "
        f"({evidence.overall.name}) is {theirs:.2f}."
    )


def _rows_at(
    place: Place, drafter: DrafterModel, evidence: Evidence, length: int, question: Question
) -> list[Row]:
    """The row of all tasks at one draft length, and where asked for those of each task."""
    pooled = evidence.pooled
    parts = []
    if pooled is None or question.every_task:
        parts = [
            _row(
                place, drafter, evidence, task,
                [_predict(place, drafter, model, length, question, task=asked)], question,
                requests=None if pooled is None else len(pooled.requests_of(task)),
            )
            for task, model, asked in evidence.members
        ]  # fmt: skip
        speedups = [(row.task, row.speedup) for row in parts if row.speedup is not None]
    elif len(evidence.members) > 1:
        speedups = [
            (task, _quick(place, drafter, pooled, length, question, task=task)["speedup"])
            for task, _, _ in evidence.members
        ]
    else:
        speedups = []
    if pooled is None:
        results = [result for part in parts for result in part.results]
    else:
        results = [_predict(place, drafter, pooled, length, question)]
    several = len(evidence.members) > 1
    whole = _row(
        place, drafter, evidence, ALL_TASKS if several else evidence.members[0][0], results, question,
        requests=None if pooled is None else pooled.trace.n_requests,
    )  # fmt: skip
    if several:
        whole = replace(whole, tasks=len(evidence.members), acceptance=evidence.label)
    shown = [replace(part, is_part=True) for part in parts] if question.every_task and several else []
    return [whole.spread_over(speedups), *shown]


def _best(
    place: Place, drafter: DrafterModel, evidence: Evidence, lengths: list[int], question: Question
) -> int:
    """Draft length with the highest speed over all tasks."""
    pooled = evidence.pooled
    if pooled is not None:
        speeds = [
            _quick(place, drafter, pooled, length, question)["decode_tokens_per_s"] for length in lengths
        ]
    else:
        array = np.array(lengths)
        each = [
            _predict(place, drafter, model, array, question, quick=True) for _, model, _ in evidence.members
        ]
        speeds = list(1.0 / np.atleast_1d(sum(1.0 / result["decode_tokens_per_s"] for result in each)))
    return lengths[int(np.argmax(speeds))]


def _row(
    place: Place,
    drafter: DrafterModel,
    evidence: Evidence,
    task: str,
    results: Sequence[Result],
    question: Question,
    *,
    requests: int | None,
) -> Row:
    row = row_of(
        results, block=place.block, label=drafter.label, family=drafter.family, task=task, requests=requests,
        note=evidence.note,
    )  # fmt: skip
    return replace(row, benchmark=evidence.benchmark, control=drafter.control,
                   settings=question.settings(evidence))  # fmt: skip


def _plain_row(
    place: Place,
    drafters: Sequence[DrafterModel],
    evidence: dict[str, tuple[Evidence, ...]],
    question: Question,
) -> Row:
    """Plain decoding: of the recorded responses where there are any, else of the request asked for."""
    spec = load_target(place.target) if isinstance(place.target, str) else place.target
    none = build_drafter("none", spec)
    traced = [each for known in evidence.values() for each in known if each.pooled is not None]
    text, requests = None, None
    if traced and traced[0].pooled is not None:
        text = replayed(traced[0].pooled.trace, any_drafter=True, max_overlap=None, target_id=place.target_id,
                        transfer=question.transfer)  # fmt: skip
        requests = text.trace.n_requests
    result = _predict(place, none, text, 0, question)
    row = row_of([result], block=place.block, label=none.label, family=none.family, task=ALL_TASKS,
                 requests=requests)  # fmt: skip
    return replace(row, settings=question.settings(traced[0] if traced else None))


def _cost_row(place: Place, drafter: DrafterModel, question: Question) -> Row:
    """A design without acceptance: RAM, time to first token, step cost and break-even, nothing else."""
    wanted = COST_ONLY_DRAFT_LENGTH
    length = min(question.draft_lengths, key=lambda k: (abs(k - wanted), k))
    result = _predict(place, drafter, 0.0, length, question, quick=True)
    row = row_of([result], block=place.block, label=drafter.label, family=drafter.family, task=ALL_TASKS)
    source = "published acceptance" if place.block == PUBLISHED else "acceptance trace"
    return replace(
        row.without_acceptance(f"no {source}{question.about_tasks}: cost only"),
        confidence=result.confidence_by_group["time"], settings=question.settings(None),
    )  # fmt: skip


def _predict(
    place: Place,
    drafter: DrafterModel,
    acceptance: Acceptance | float | None,
    length: Any,
    question: Question,
    *,
    task: str | None = None,
    quick: bool = False,
) -> Result:
    """One prediction; ``quick`` without intervals."""
    return predict(
        **_arguments(place, drafter, acceptance, length, question, task),
        intervals=question.intervals and not quick,
    )


def _quick(
    place: Place,
    drafter: DrafterModel,
    trace: ReplayedTrace,
    length: int,
    question: Question,
    *,
    task: str | None = None,
) -> dict[str, Any]:
    """Metrics of a replayed trace as `predict` gives them, without what makes a Result of them."""
    asked = ask(**_arguments(place, drafter, trace, length, question, task))
    prompt = asked.scenario.prompt_tokens if asked.has_prompt else None
    case = case_of_steps(asked.bind(), trace.steps(length, task=task), prompt_tokens=prompt)
    return metrics_of_case(case, ledger=False)[0]


def _arguments(
    place: Place,
    drafter: DrafterModel,
    acceptance: Acceptance | float | None,
    length: Any,
    question: Question,
    task: str | None,
) -> dict[str, Any]:
    has_requests = acceptance is not None and hasattr(acceptance, "trace")
    prompt, output = question.prompt_tokens, question.output_tokens
    if not has_requests:
        prompt = PROMPT_TOKENS if prompt is None else prompt
        output = OUTPUT_TOKENS if output is None else output
    return {
        "device": place.device, "runtime": place.runtime, "engine": place.engine, "batch": place.batch,
        "draft_runtime": None, "draft_engine": None, "scenario": None,
        "target": place.target, "drafter": drafter_by_name(drafter, place.target),
        "acceptance": acceptance, "draft_length": length, "task": task, "prompt_tokens": prompt,
        "output_tokens": output, "axes": question.axes, "transfer": question.transfer,
    }  # fmt: skip
