"""What a reader of several results must know, each thing said once; it predicts nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hw_profiles import load_device
from simulator.results import Result
from simulator.studies.rows import Row

MAX_OVERLAP = 0.2
"""Overlap filter where the caller names none."""


def within(
    lengths: Sequence[int], largest: int | None, *, drafter: str, target: str, acceptance: str
) -> tuple[list[int], str]:
    """Draft lengths that an acceptance answers for, and a note on those left out (empty where none is).

    Parameters
    ----------
    lengths : sequence of int
        Draft lengths asked for.
    largest : int or None
        Largest one known; None where all are.
    drafter, target, acceptance : str
        Names for the note.
    """
    kept = [length for length in lengths if largest is None or length <= largest]
    left = [length for length in lengths if length not in kept]
    if not left:
        return kept, ""
    return kept, (
        f"{drafter} on {target}: draft length{'s' if len(left) > 1 else ''} {_spans(left)} left out: "
        f"acceptance {acceptance} is known up to draft length {largest} only."
    )


def _spans(numbers: Iterable[int]) -> str:
    """``3-5, 8``."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][-1] + 1:
            spans[-1] = [spans[-1][0], number]
        else:
            spans.append([number, number])
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in spans)


def gathered(results: Sequence[Result]) -> list[str]:
    """Every note of some results once; in front of one that holds for a part of them stands for which.

    Parameters
    ----------
    results : sequence of Result
        Predictions or simulations.
    """
    return [_named(note, results) for note in dict.fromkeys(each for one in results for each in one.notes)]


def _named(note: str, results: Sequence[Result]) -> str:
    having = [result for result in results if note in result.notes]
    if len(having) == len(results):
        return note
    for key in ("target", "drafter", "device", "runtime"):
        names = dict.fromkeys(str(result.inputs.get(key)) for result in having)
        if len(having) == sum(str(result.inputs.get(key)) in names for result in results):
            return f"{', '.join(names)}: {note}"
    pairs = dict.fromkeys(
        f"{result.inputs.get('drafter')} on {result.inputs.get('target')}" for result in having
    )
    return f"{', '.join(pairs)}: {note}"


def ram_note(result: Result, device: str) -> str:
    """What a reader must know where a design needs more RAM than its device has free; else empty.

    Parameters
    ----------
    result : Result
        Of one design.
    device : str
        Name or file of the device.
    """
    free, peak = load_device(device).free_ram_bytes, result["peak_ram_bytes"]
    if peak <= free:
        return ""
    return (
        f"{result.inputs['target']} with {result.inputs['drafter']} needs {peak / 2**20:,.0f} MiB of RAM at "
        f"batch {result.inputs['batch']:g}; {result.inputs['device']} has {free / 2**20:,.0f} MiB free (RAM "
        "less the reserves of OS and AI services): it does not fit."
    )


def ram_notes(results: Iterable[tuple[Result, str]]) -> list[str]:
    """One :func:`ram_note` for each target, drafter and batch on a device: of the case that needs most.

    Parameters
    ----------
    results : iterable of (Result, str)
        Results, each with the name or file of its device.
    """
    most: dict[tuple[object, ...], tuple[Result, str]] = {}
    for result, device in results:
        key = (device, *(result.inputs[name] for name in ("target", "drafter", "batch")))
        if key not in most or result["peak_ram_bytes"] > most[key][0]["peak_ram_bytes"]:
            most[key] = result, device
    return [note for result, device in most.values() if (note := ram_note(result, device))]


def unused_notes(
    rows: Sequence[Row], *, min_prob: float | None, max_overlap: float | None, output_tokens: float | None
) -> list[str]:
    """What was asked for and changes nothing on some targets of a comparison, because of their acceptance.

    Parameters
    ----------
    rows : sequence of Row
        All rows.
    min_prob, max_overlap, output_tokens : float or None
        As :func:`simulator.studies.compare.compare` takes them.
    """
    drafted = [row for row in rows if row.draft_length]
    untraced = ", ".join(dict.fromkeys(row.target for row in drafted if not row.requests))
    traced = ", ".join(dict.fromkeys(row.target for row in drafted if row.requests))
    notes = []
    if min_prob is not None and untraced:
        notes.append(
            f"The confidence stop, min_prob {min_prob:g}, is not used on {untraced}: only a trace knows the "
            "drafter's probabilities."
        )
    if max_overlap != MAX_OVERLAP and untraced:
        notes.append(f"The overlap filter is not used on {untraced}: only a trace knows its training text.")
    if output_tokens is not None and traced:
        notes.append(
            f"output_tokens {output_tokens:g} is not used on {traced}: a trace has responses of its own."
        )
    return notes
