"""Designs side by side on devices, in two blocks that are never mixed; it knows no acceptance of its own.

Block ``traced``: targets whose acceptance was recorded (the small real model of this package, or the
caller's own traces). Block ``published``: other targets with the acceptance that others published for them;
a design without one is shown with its cost only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from simulator.acceptance.trace import shipped_targets
from simulator.errors import DraftscopeError
from simulator.results import Result
from simulator.studies.elsewhere import elsewhere
from simulator.studies.evidence import TraceLike, check_transfer
from simulator.studies.notes import gathered, ram_notes, unused_notes
from simulator.studies.places import Found, Place, Question, check_tasks, rows_of_target
from simulator.studies.replays import loaded
from simulator.studies.rows import Row
from simulator.studies.selection import (
    PUBLISHED,
    TRACED,
    by_name,
    chosen_drafters,
    chosen_targets,
    several,
)

DRAFT_LENGTHS = tuple(range(1, 9))


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What `compare` found.

    Attributes
    ----------
    rows : tuple of Row
        In order of block, device, runtime, batch, target and drafter.
    notes : tuple of str
        What was assumed, left out or missing.
    elsewhere : dict
        By `Row.place`: which other runtimes of the device decode the target faster, where the runtime is the
        device's default.
    """

    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    elsewhere: dict[tuple[Any, ...], str] = field(default_factory=dict)

    def records(self) -> list[dict[str, Any]]:
        """The rows as flat records."""
        return [row.record() for row in self.rows]

    def block(self, name: str) -> tuple[Row, ...]:
        """Rows of a block."""
        return tuple(row for row in self.rows if row.block == name)


def compare(
    *,
    devices: str | Sequence[str] = "pixel_9",
    runtimes: str | Sequence[str | None] | None = None,
    engine: str | None = None,
    targets: str | Sequence[str] | None = None,
    drafters: str | Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    draft_lengths: int | Iterable[int] = DRAFT_LENGTHS,
    batches: int | Sequence[int] = 1,
    traces: TraceLike | Sequence[TraceLike] = (),
    transfer: bool = False,
    max_overlap: float | None = 0.2,
    min_prob: float | None = None,
    prompt_tokens: float | None = None,
    output_tokens: float | None = None,
    axes: dict[str, Any] | None = None,
    intervals: bool = True,
    every_length: bool = False,
    every_task: bool = False,
) -> Comparison:
    """Compare drafters on devices: each at its best draft length, or at every one.

    Parameters
    ----------
    devices, runtimes, engine : str or sequence of str
        Where; a device's default runtime where none is given.
    targets : str or sequence of str, optional
        The traced target and Gemma-class targets by default.
    drafters : str or sequence of str, optional
        Instances, trace ids (``mtp_head``) or files; all that fit a target by default. Plain decoding always
        comes along.
    tasks : sequence of str, optional
        Task classes, or published benchmarks.
    draft_lengths : int or iterable of int
        K to choose from.
    batches : int or sequence of int
        Streams decoded together.
    traces : Trace, path or sequence of them
        Traces instead of the shipped ones, or for other targets with ``transfer``.
    transfer : bool
        Allow acceptance of another target or drafter; such rows count as assumed.
    max_overlap : float or None
        Leave out responses that share more of their 8-grams with training responses.
    min_prob : float or None
        Confidence stop of the drafters.
    prompt_tokens, output_tokens : float, optional
        Request of the published block (1024 and 256 by default). A trace has its own prompts and responses;
        ``prompt_tokens`` replaces the prompts.
    axes : dict, optional
        Overrides of cited inputs (see :data:`simulator.lowering.AXES`).
    intervals : bool
        Also propagate the ranges of the cited inputs.
    every_length : bool
        One row for each draft length instead of the best.
    every_task : bool
        One row for each task as well.

    Returns
    -------
    Comparison
        Rows and notes.

    Raises
    ------
    DraftscopeError, hw_profiles.errors.ProfileError
        For unknown names (with the nearest), numbers that are not allowed, and traces of another target
        without ``transfer``.
    """
    lengths = tuple(dict.fromkeys([draft_lengths] if isinstance(draft_lengths, int) else draft_lengths))
    question = Question(
        draft_lengths=tuple(length for length in lengths if length > 0),
        tasks=None if tasks is None else tuple(tasks),
        traces=(traces,) if isinstance(traces, str) or not isinstance(traces, Sequence) else tuple(traces),
        transfer=transfer,
        max_overlap=max_overlap,
        min_prob=min_prob,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        axes=axes,
        intervals=intervals,
        every_length=every_length,
        every_task=every_task,
    )
    if not question.draft_lengths or min(lengths) < 0:
        raise DraftscopeError(f"draft_length: {list(lengths)} given; allowed: whole numbers, some > 0.")
    own = {loaded(trace).metadata.target_id for trace in question.traces}
    specs = chosen_targets(targets, with_traces={*shipped_targets(), *own})
    check_transfer(question.traces, [spec.id for _, spec in specs], transfer=transfer)
    found_drafters = chosen_drafters(drafters, [spec for _, spec in specs])
    served = [(block, spec, models) for (block, spec), models in zip(specs, found_drafters, strict=True)]
    if targets is None and drafters is not None:
        served = [each for each in served if each[2]] or served
    check_tasks(question, [(spec.id, models) for _, spec, models in served])
    found = Found()
    shown: list[tuple[Result, str]] = []
    faster: dict[tuple[Any, ...], str] = {}
    for device in several(devices):
        for runtime in several(runtimes) or [None]:
            for batch in several(batches):
                for block, spec, models in served:
                    place = Place(
                        device=device, runtime=runtime, engine=engine, batch=batch, block=block,
                        target=by_name(spec), target_id=spec.id,
                    )  # fmt: skip
                    before = len(found.rows)
                    rows_of_target(found, place, models, question)
                    shown += [(each, device) for row in found.rows[before:] for each in row.results]
                    if runtime is None and engine is None and not axes:
                        plain = found.rows[before]
                        if words := elsewhere(plain, place):
                            faster[plain.place] = words
    for target_id, names in found.untraced.items():
        found.note(
            f"No acceptance trace on {target_id} is shipped or given for {', '.join(names)}: cost only. "
            "Record one with: draftscope trace collect"
        )
    order = {TRACED: 0, PUBLISHED: 1}
    rows = sorted(found.rows, key=lambda row: order[row.block])
    for note in unused_notes(rows, min_prob=min_prob, max_overlap=max_overlap, output_tokens=output_tokens):
        found.note(note)
    for note in [*ram_notes(shown), *gathered([result for result, _ in shown])]:
        found.note(note)
    return Comparison(rows=tuple(rows), notes=tuple(found.notes), elsewhere=faster)
