"""Steps in the verbose log of llama.cpp's server; it does not know step traces.

``accepted a/n draft tokens, new n_tokens = m`` stands behind a step: it started with ``m - a - 1`` tokens in
the cache, verified ``n`` drafts and kept ``a`` of them and the token before. Steps without drafts have no
line; they are the gaps between contexts, one token each. ``eval time`` says how many tokens were emitted, the
first of them by prefill, and so how much of the last step lies beyond the stop.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from simulator.adapters.fields import Source
from simulator.adapters.observations import MeasurementError

LONGEST_GAP = 1_000_000
"""Steps without drafts in a row; more are damage."""

_SLOT = re.compile(r"\bid\s+\d{1,9} \| task (-?\d{1,12}) \|")
_PROMPT = re.compile(r"new prompt,.*\b(?:task\.n_tokens|n_prompt_tokens) = (\d{1,12})\b")
_STEP = re.compile(r"accepted\s+(\d{1,9})/\s*(\d{1,9}) draft tokens, new n_tokens = (\d{1,12})\b")
_REPLAY = re.compile(r"accepted\s+(\d{1,9})/\s*(\d{1,9}) draft tokens \(restore checkpoint\)")
_RESTORE = re.compile(r"restoring speculative checkpoint")
_EVAL = re.compile(r"(?<!prompt )eval time\s*=\s*\S+ ms\s*/\s*(\d{1,12}) tokens")
_TOTAL = re.compile(
    r"draft acceptance(?: rate)?\s*=\s*\S+\s*\(\s*(\d{1,12})\s*accepted\s*/\s*(\d{1,12})\s*generated"
)


class Step(NamedTuple):
    """One step: request, tokens cached before it, drafts proposed, accepted, tokens emitted, place."""

    request: str
    context: int
    proposed: int
    accepted: int
    emitted: int
    where: str


@dataclass
class _Task:
    name: str
    where: str
    prompt: int | None = None
    steps: list[Step] = field(default_factory=list)
    emitted: int | None = None
    replayed: tuple[int, int] | None = None
    restored: int = 0
    total: tuple[int, int] | None = None
    total_where: str = ""


def recognised(source: Source) -> bool:
    """Whether the log has lines of steps."""
    return source.decoded is not None and _STEP.search(source.decoded) is not None


def read(source: Source) -> list[Step]:
    """Steps of all requests, or one MeasurementError."""
    tasks: dict[str, _Task] = {}
    for at, line in enumerate(source.lines, 1):
        where = f"{source.path}:{at}"
        slot = _SLOT.search(line)
        if slot is None:
            if _STEP.search(line):
                raise MeasurementError(f"{where}: 'id N | task N |' is missing: which request is not said.")
            continue
        _line(tasks.setdefault(slot[1], _Task(slot[1], where)), line, where)
    return [step for task in tasks.values() if task.steps for step in _finished(task)]


def _line(task: _Task, line: str, where: str) -> None:
    if found := _PROMPT.search(line):
        task.prompt = int(found[1])
    elif found := _REPLAY.search(line):
        task.replayed = (int(found[1]), int(found[2]))
    elif _RESTORE.search(line):
        task.restored += 1
        if task.replayed is None:
            raise MeasurementError(
                f"{where}: a rejected draft is verified again, and the log does not say how long it was; "
                "allowed: a log made with LLAMA_TRACE=1, with lines 'accepted a/n draft tokens (restore "
                "checkpoint)'."
            )
    elif found := _STEP.search(line):
        _step(task, int(found[1]), int(found[2]), int(found[3]), where)
    elif found := _EVAL.search(line):
        task.emitted = int(found[1]) - 1
    elif found := _TOTAL.search(line):
        task.total, task.total_where = (int(found[1]), int(found[2])), where


def _step(task: _Task, accepted: int, proposed: int, n_tokens: int, where: str) -> None:
    if accepted > proposed:
        raise MeasurementError(f"{where}: field 'accepted': given {accepted}, allowed: 0..{proposed}.")
    if task.replayed is not None:
        kept, drafted = task.replayed
        if proposed != kept or accepted != kept:
            raise MeasurementError(
                f"{where}: {accepted}/{proposed} given after {kept}/{drafted} (restore checkpoint), allowed: "
                f"{kept}/{kept}."
            )
        proposed, task.replayed = drafted, None
    context = n_tokens - accepted - 1
    if task.prompt is None:
        raise MeasurementError(
            f"{where}: 'new prompt, ... task.n_tokens = N' of task {task.name} is missing."
        )
    reached = task.steps[-1].context + task.steps[-1].emitted if task.steps else task.prompt
    if context < reached:
        raise MeasurementError(
            f"{where}: field 'new n_tokens': given {n_tokens}, allowed: at least {reached + accepted + 1}: "
            f"{reached} were in the cache before the step."
        )
    _check_gap(context - reached, where)
    task.steps += [Step(task.name, plain, 0, 0, 1, where) for plain in range(reached, context)]
    task.steps.append(Step(task.name, context, proposed, accepted, accepted + 1, where))


def _check_gap(steps: int, where: str) -> None:
    if steps > LONGEST_GAP:
        raise MeasurementError(f"{where}: {steps} steps without a line, allowed: at most {LONGEST_GAP}.")


def _finished(task: _Task) -> list[Step]:
    """Steps of a request that ended: the last one cut at the stop, or steps without drafts behind it."""
    last = task.steps[-1]
    if task.emitted is None:
        raise MeasurementError(f"{last.where}: 'eval time' of task {task.name} is missing: truncated?")
    if task.total is not None and not task.restored:
        counted = (sum(step.accepted for step in task.steps), sum(step.proposed for step in task.steps))
        if counted != task.total:
            raise MeasurementError(
                f"{task.total_where}: field 'draft acceptance': given {task.total[0]} of {task.total[1]}, "
                f"but the steps are {counted[0]} of {counted[1]}: lines are missing."
            )
    beyond = sum(step.emitted for step in task.steps) - task.emitted
    if beyond <= 0:
        end = last.context + last.emitted
        _check_gap(-beyond, last.where)
        return task.steps + [Step(task.name, end + n, 0, 0, 1, last.where) for n in range(-beyond)]
    left = last.emitted - beyond
    if left < 1:
        raise MeasurementError(
            f"{last.where}: the steps emit {task.emitted + beyond} tokens, 'eval time' counts "
            f"{task.emitted} after the first: lines are missing or counted twice."
        )
    return [*task.steps[:-1], last._replace(accepted=min(last.accepted, left), emitted=left)]
