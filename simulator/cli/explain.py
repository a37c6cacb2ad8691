"""``draftscope explain``: one case taken apart, and a measurement beside it (`simulator.studies.explain`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from simulator.cli.case import NOTHING, Case
from simulator.cli.output import DEFAULT, Output, say
from simulator.cli.parsing import number, whole_numbers
from simulator.errors import DraftscopeError

if TYPE_CHECKING:
    from simulator.studies.explain_measured import Measured


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What was measured, where something was; lists are K:VALUE pairs, 2:1.11,3:0.88."""

    measured_speedup: str | None = None
    """Measured speedup at the draft length of the case, or K:X pairs."""
    measured_tokens_per_s: str | None = None
    """Measured decode speed instead of a speedup, with --baseline-tokens-per-s."""
    baseline_tokens_per_s: str | None = None
    """Measured plain decode speed; the prediction is anchored to it."""
    mean_tokens_per_pass: str | None = None
    """Counted tokens a verify pass, bonus token included; the acceptance too where none is given."""
    busy_s: str | None = None
    """Time under load when the measurement ended, for heat; one response where omitted."""


MOST_SPEEDUP, MOST_TOKENS_PER_S = 1e4, 1e7
"""Largest measured numbers that are believed; tokens a pass bound the speedup, so they share its limit."""
NOT_MEASURED = Measurement()
"""No option given."""


def explain(
    *,
    case: Case = NOTHING,
    measurement: Measurement = NOT_MEASURED,
    draws: Annotated[str, Parameter()] = "256",
    output: Output = DEFAULT,
) -> int:
    """Explain one case: where every millisecond and byte goes, break-even, best K, what the answer hangs on.

    With a measured speedup: the gap to the prediction, and its likeliest causes in order, each with the
    number that supports it.

    Parameters
    ----------
    draws
        Draws for the intervals.
    """
    output.check()
    from simulator.cli.explain_text import markdown, verdict
    from simulator.studies.explain import explain as explained
    from simulator.studies.notes import ram_note

    (count,) = whole_numbers(draws, where="--draws", minimum=16)[:1]
    questions, left_out = _with_counted(case, measurement).expand()
    if len(questions) != 1:
        raise DraftscopeError(
            f"explain: {len(questions)} cases given; allowed: one device, runtime, target, drafter, task, "
            "draft length and batch."
        )
    arguments = questions[0].settled()
    measured = measured_of(measurement, int(arguments["draft_length"]), best=questions[0].length is None)
    found = explained(**arguments, measured=measured, draws=count)
    if note := ram_note(found.result, arguments["device"]):
        found = replace(found, result=replace(found.result, notes=(*found.result.notes, note)))
    row = {"verdict": verdict(found), **found.record()}
    whole = output.output == "json"
    output.emit(
        [row] if whole else list(flat(row)), command="explain", notes=[*left_out, *found.result.notes],
        markdown=lambda: markdown(found),
    )  # fmt: skip
    for note in [*left_out, *([] if output.output == "md" else found.result.notes)]:
        say(f"note: {note}")
    return 0


def measured_of(given: Measurement, draft_length: int, *, best: bool = False) -> Measured | None:
    """The measured points; None where nothing was measured.

    Parameters
    ----------
    given : Measurement
        Options.
    draft_length : int
        K of numbers without one.
    best : bool
        True where the caller named no draft length, so that such numbers have none.

    Raises
    ------
    DraftscopeError
        For options that contradict each other or lack each other, and what is not a number.
    """
    from simulator.studies.explain_measured import Measured, Point

    if given.measured_speedup is None and given.measured_tokens_per_s is None:
        extra = [f"--{name.replace('_', '-')}" for name in ("baseline_tokens_per_s", "busy_s")
                 if getattr(given, name) is not None]  # fmt: skip
        if extra:
            raise DraftscopeError(
                f"{extra[0]}: given alone; allowed with --measured-speedup or --measured-tokens-per-s."
            )
        return None
    if given.measured_speedup is not None and given.measured_tokens_per_s is not None:
        raise DraftscopeError(
            "--measured-speedup and --measured-tokens-per-s given; allowed: one of them (and the baseline)."
        )
    baseline = number(given.baseline_tokens_per_s, where="--baseline-tokens-per-s", minimum=1e-6,
                      maximum=MOST_TOKENS_PER_S)  # fmt: skip
    at = None if best else draft_length
    if given.measured_speedup is not None:
        speedups = pairs(given.measured_speedup, "--measured-speedup", at, maximum=MOST_SPEEDUP)
    elif baseline is None:
        raise DraftscopeError(
            "--measured-tokens-per-s: given without --baseline-tokens-per-s; a speedup needs both."
        )
    else:
        speeds = pairs(given.measured_tokens_per_s or "", "--measured-tokens-per-s", at,
                       maximum=MOST_TOKENS_PER_S)  # fmt: skip
        speedups = {length: speed / baseline for length, speed in speeds.items()}
        if max(speedups.values()) > MOST_SPEEDUP:
            raise DraftscopeError(
                f"--measured-tokens-per-s: {max(speedups.values()):g} times --baseline-tokens-per-s given; "
                f"allowed: a speedup of at most {MOST_SPEEDUP:g}."
            )
    tokens: Mapping[int, float] = {}
    if given.mean_tokens_per_pass is not None:
        tokens = pairs(given.mean_tokens_per_pass, "--mean-tokens-per-pass", at, maximum=MOST_SPEEDUP)
        lost = [length for length in tokens if length not in speedups]
        if lost:
            raise DraftscopeError(
                f"--mean-tokens-per-pass: draft length {lost[0]} given, which has no measured speed; "
                f"measured: {', '.join(map(str, speedups))}."
            )
    return Measured(
        points=tuple(Point(draft_length=length, speedup=speedups[length], tokens_per_pass=tokens.get(length))
                     for length in sorted(speedups)),
        baseline_tokens_per_s=baseline,
        busy_s=number(given.busy_s, where="--busy-s"),
    )  # fmt: skip


def pairs(text: str, where: str, draft_length: int | None, *, maximum: float) -> dict[int, float]:
    """``1.2`` at the draft length of the case, or ``2:1.11,3:0.88``.

    Parameters
    ----------
    text : str
        Numbers.
    where : str
        Option, for messages.
    draft_length : int or None
        K of a number without one.
    maximum : float
        Largest number allowed.

    Raises
    ------
    DraftscopeError
        For what is not a positive number, a number without K where none is known, and a K given twice.
    """
    found: dict[int, float] = {}
    for part in text.split(","):
        key, sign, rest = part.partition(":")
        value = number(rest if sign else key, where=where, minimum=1e-6, maximum=maximum)
        if not sign and draft_length is None:
            raise DraftscopeError(
                f"{where}: {text!r} given without a draft length; give --draft-length, or K:VALUE pairs such "
                "as 2:1.11,3:0.88."
            )
        length = draft_length
        if sign:
            (length,) = whole_numbers(key, where=f"{where} (the K of K:VALUE)", minimum=1)[:1]
        if length is None or value is None or length in found:
            raise DraftscopeError(f"{where}: {text!r} given; allowed: one number for each draft length.")
        found[length] = value
    return found


def _with_counted(case: Case, given: Measurement) -> Case:
    """Counted tokens a pass as the acceptance of the case, where no other is given."""
    named = (case.acceptance_trace, case.acceptance, case.acceptance_rate, case.acceptance_length)
    if given.mean_tokens_per_pass is None or any(each is not None for each in named):
        return case
    lengths = (
        whole_numbers(case.draft_length, where="--draft-length") if case.draft_length != "best" else [None]
    )
    counted = pairs(given.mean_tokens_per_pass, "--mean-tokens-per-pass", lengths[0], maximum=MOST_SPEEDUP)
    at = lengths[0] if lengths[0] in counted else max(counted)
    if at is not None and not 1.0 <= counted[at] <= at + 1.0:
        raise DraftscopeError(
            f"--mean-tokens-per-pass: {counted[at]:g} given at draft length {at}; allowed: 1..{at + 1}. Give "
            "the acceptance of the case in another way, so that the count can be judged."
        )
    return replace(case, acceptance_length=f"{counted[at or 0]}@{at}")


def flat(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Rows of CSV and JSON lines: one number each, with section, name and what it belongs to.

    Parameters
    ----------
    row : mapping
        The JSON row.
    """
    for section, value in row.items():
        yield from _numbers(section, "", value)


def _numbers(section: str, name: str, value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _numbers(section, f"{name}.{key}" if name else str(key), each)
    elif isinstance(value, (list, tuple)):
        for i, each in enumerate(value):
            yield from _numbers(section, f"{name}.{i}" if name else str(i), each)
    else:
        yield {"section": section, "name": name, "value": value}
