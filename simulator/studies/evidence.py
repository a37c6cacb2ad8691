"""Which acceptance is known for a drafter on a target: traces, published sets or none; never a default."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from simulator.acceptance.base import Acceptance, TransferError
from simulator.acceptance.published import PublishedAcceptance, list_published, load_published
from simulator.acceptance.schema import Trace
from simulator.drafters.base import DrafterModel
from simulator.errors import DraftscopeError
from simulator.studies.replays import ReplayedTrace, loaded, replayed

STAND_INS = {"gemma_3n_e2b": "gemini_nano_v3", "gemma_3n_e4b": "gemini_nano_v3"}
"""Public model -> unpublished model that it stands for; the latter's acceptance then counts as assumed."""

KINDS_OF_DRAFTING = {
    "frozen_mtp": "multi-token prediction",
    "mtp_own_kv": "multi-token prediction",
    "gemma4_assistant": "multi-token prediction",
    "standalone": "standalone",
    "ngram": "n-gram",
}
"""Family -> kind. With `transfer`, acceptance is carried over within a kind only."""

TraceLike = Trace | str | os.PathLike[str]


class NoResponsesError(DraftscopeError):
    """Tasks and overlap filter leave nothing of a trace."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Acceptance of one drafter on one target.

    Attributes
    ----------
    label : str
        Short name, which ``--acceptance`` understands where it is a publication.
    benchmark : str
        Prompts that the acceptance was obtained on: only results on one benchmark can be ranked.
    members : tuple of (str, Acceptance, str or None)
        Task, model, and the task to ask the model for.
    pooled : Acceptance or None
        All tasks together, where they are of one trace.
    overall : PublishedAcceptance or None
        The publisher's own mean of the members.
    max_draft_length : int or None
        Largest K that all members answer for.
    note : str
        What a reader must know.
    """

    label: str
    benchmark: str
    members: tuple[tuple[str, Acceptance, str | None], ...]
    pooled: ReplayedTrace | None = None
    overall: PublishedAcceptance | None = None
    max_draft_length: int | None = None
    note: str = ""


def trace_evidence(
    trace: TraceLike,
    *,
    target_id: str,
    drafter: DrafterModel,
    tasks: Sequence[str] | None,
    max_overlap: float | None,
    min_prob: float | None,
    transfer: bool,
) -> Evidence:
    """Acceptance of a trace; one of another target or drafter raises TransferError, unless ``transfer``."""
    own = loaded(trace).metadata.drafter_id
    left = loaded(trace).filtered(max_overlap=max_overlap)
    if not any(
        length > 1 and (tasks is None or task in tasks)
        for task, length in zip(left.request_tasks, left.lengths, strict=True)
    ):
        raise NoResponsesError(
            f"{loaded(trace).source}: no response of {', '.join(tasks or ['any task'])} is left with "
            f"max_overlap {max_overlap}: cost only."
        )
    model = replayed(
        trace, tasks=tasks, target_id=target_id,
        drafter_id=own if own in (drafter.id, drafter.trace_id) else drafter.id,
        max_overlap=max_overlap, min_prob=min_prob, transfer=transfer,
    )  # fmt: skip
    note = "" if model.kind == "measured" else f"acceptance carried over from {model.id}"
    return Evidence(
        label=model.id,
        benchmark=loaded(trace).metadata.task_set,
        members=tuple((task, model.of_task(task), task) for task in model.trace.tasks),
        pooled=model,
        max_draft_length=model.max_draft_length,
        note=note,
    )


def published_evidence(
    *, target_id: str, drafter: DrafterModel, tasks: Sequence[str] | None, transfer: bool
) -> tuple[Evidence, ...]:
    """Published sets of a drafter's family on a target, one Evidence for each publication.

    A stand-in takes the sets of the model that it stands for. With ``transfer`` a drafter without sets of its
    own takes those of its kind on any target; both count as assumed.
    """

    def sets(of_target: str | None, families: set[str]) -> list[PublishedAcceptance]:
        return _sets(of_target, families, target_id=target_id, drafter=drafter)

    own, stands_for = {drafter.family}, STAND_INS.get(target_id)
    found, note = sets(target_id, own), ""
    if not found and stands_for:
        found = sets(stands_for, own)
        note = f"{target_id} stands for {stands_for}: acceptance counts as assumed"
    if not found and transfer:
        kind = kind_of_family(drafter.family)
        kin = {family for family in KINDS_OF_DRAFTING if kind_of_family(family) == kind}
        found = sets(stands_for, own) or sets(stands_for, kin)
        note = "acceptance carried over from another target or drafter"
    groups: dict[str, list[PublishedAcceptance]] = {}
    for model in found:
        if tasks is None or model.task_class in tasks or model.task in tasks:
            groups.setdefault(model.sources[0], []).append(model)
    return tuple(_grouped(source, models, note) for source, models in groups.items())


def _grouped(source: str, models: list[PublishedAcceptance], note: str) -> Evidence:
    """Sets of one publication; a set that is their average is left out beside the others."""
    means = [model for model in models if model.task.endswith("_overall")]
    single = [model for model in models if model not in means] or models
    lengths = [model.max_draft_length for model in single if model.max_draft_length is not None]
    return Evidence(
        label=source,
        benchmark=source,
        members=tuple((model.task, model, None) for model in single),
        overall=means[0] if means and single is not models else None,
        max_draft_length=min(lengths, default=None),
        note=note,
    )


@lru_cache(maxsize=512)
def _published(name: str, *asked: str) -> PublishedAcceptance:
    """One set, for the target, drafter and family asked for (transfer is decided by the caller)."""
    if not asked:
        return load_published(name)
    target_id, drafter_id, family, drafter = asked
    return load_published(
        name,
        target_id=target_id,
        drafter_id=drafter_id,
        drafter_family=family,
        drafter=drafter,
        transfer=True,
    )


def _sets(
    of_target: str | None, families: set[str], *, target_id: str, drafter: DrafterModel
) -> list[PublishedAcceptance]:
    """Sets of some families on a target (None: on any), asked for another target or drafter."""
    known = [_published(name) for name in list_published(of_target)]
    return [
        _published(model.name, target_id, drafter.id, drafter.family, drafter.published_as)
        for model in known
        if model.drafter_family in families and model.target_id
    ]


def traces_of_kind(
    traces: Sequence[TraceLike], *, target_id: str, drafter: DrafterModel, transfer: bool
) -> list[TraceLike]:
    """The given traces that hold for a drafter: its own, or with ``transfer`` those of its kind."""
    chosen = []
    for trace in traces:
        metadata = loaded(trace).metadata
        if metadata.target_id == target_id:
            if metadata.drafter_id in (drafter.id, drafter.trace_id):
                chosen.append(trace)
        elif transfer and kind_of_family(metadata.drafter_family) == kind_of_family(drafter.family):
            chosen.append(trace)
    return chosen


def kind_of_family(family: str) -> str:
    """Kind of drafting of a family; families of traces may be spelt otherwise than those of specs."""
    spelt = {"mtp_head": "frozen_mtp", "suffix": "ngram", "prompt_lookup": "ngram"}.get(family, family)
    return KINDS_OF_DRAFTING.get(spelt, spelt)


def shipped_trace(target_id: str, drafter: DrafterModel) -> Path | None:
    """File of the shipped trace of a drafter on a target; None where none is shipped."""
    from simulator.acceptance.trace import shipped_targets, shipped_traces

    if target_id not in shipped_targets():
        return None
    files = shipped_traces(target_id)
    return files.get(drafter.trace_id) or files.get(drafter.id)


def check_transfer(traces: Sequence[TraceLike], targets: Sequence[str], *, transfer: bool) -> None:
    """Refuse traces of a target that is not compared, unless ``transfer``."""
    for trace in traces:
        metadata = loaded(trace).metadata
        if metadata.target_id not in targets and not transfer:
            raise TransferError(
                f"acceptance trace {metadata.target_id}/{metadata.drafter_id}: holds for target "
                f"{metadata.target_id!r}, not {', '.join(targets)}. Allow it with transfer (--transfer): the "
                "result is then labelled assumed."
            )


def published_tasks() -> set[str]:
    """Names that `tasks` may hold for published sets: benchmarks, and the nearest task classes."""
    known = [_published(name) for name in list_published()]
    return {name for model in known for name in (model.task, model.task_class) if name}
