"""``draftscope predict``: one case or a table of them, in closed form (`simulator.analytic`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from simulator.cli.case import NOTHING, Case
from simulator.cli.output import DEFAULT, Output, say, table
from simulator.units import rounded

if TYPE_CHECKING:
    from simulator.results import Result

CASE = ("device", "runtime", "target", "drafter", "acceptance", "task", "K", "batch")
"""Columns that say which case a row is; one that is the same in all rows stands above the table."""
KEPT = ("drafter", "K")
SETTINGS = ("context", "min_prob")
"""Inputs that a caller set for all rows; overrides of cited inputs are called ``set.NAME``."""
FOUND = (
    "acceptance length", "tok/s [low..high]", "speedup [low..high]", "mJ/token", "RAM MiB", "TTFT ms",
    "confidence",
)  # fmt: skip


def predict(*, case: Case = NOTHING, intervals: bool = True, output: Output = DEFAULT) -> int:
    """Predict speed, energy and memory of one design, with ledgers, intervals and sources.

    Lists and ranges (--device pixel_9,pixel_10 --draft-length 1-8) give a table instead. Acceptance is never
    defaulted: give a trace, a published name, a rate or a length.

    Parameters
    ----------
    intervals
        Carry the ranges of the cited inputs to the results.
    """
    output.check()
    from simulator.analytic import predict as closed_form

    questions, left_out = case.expand()
    settled = [question.settled() for question in questions]
    results = [closed_form(**each, intervals=intervals) for each in settled]
    ends = [question.end_note(each) for question, each in zip(questions, settled, strict=True)]
    emit_results(
        results, [question.arguments["device"] for question in questions], command="predict", output=output,
        left_out=[*left_out, *dict.fromkeys(filter(None, ends))],
    )  # fmt: skip
    return 0


def emit_results(
    results: Sequence[Result],
    devices: Sequence[str],
    *,
    command: str,
    output: Output,
    left_out: Iterable[str] = (),
) -> None:
    """Results in any format: whole in JSON, flat in CSV and JSON lines, one page or a table in Markdown.

    Each result carries its own notes; those of all together, each once, stand below a table, in the JSON
    document, and beside data on stderr.

    Parameters
    ----------
    results : sequence of Result
        One for each design.
    devices : sequence of str
        Name or file of the device of each.
    command : str
        For the JSON document.
    output : Output
        Where to and how.
    left_out : iterable of str
        Notes on what was asked for and is not there; always on stderr.
    """
    from simulator.studies.notes import gathered, ram_note, ram_notes

    notes = [*gathered(results), *ram_notes(zip(results, devices, strict=True))]
    own = [
        replace(result, notes=(*result.notes, note)) if (note := ram_note(result, device)) else result
        for result, device in zip(results, devices, strict=True)
    ]
    whole = output.output == "json"
    output.emit(
        [row for each in own for row in ([each.to_dict()] if whole else each.to_rows())],
        command=command,
        notes=[*left_out, *notes],
        markdown=lambda: own[0].to_markdown() if len(own) == 1 else _table(own, notes),
    )
    for note in [*left_out, *([] if output.output == "md" else notes)]:
        say(f"note: {note}")


def _table(results: Sequence[Result], notes: Sequence[str]) -> str:
    cases = [_case(result) for result in results]
    shown = [i for i, name in enumerate(CASE) if name in KEPT or len({case[i] for case in cases}) > 1]
    rows = [
        (
            *(case[i] for i in shown),
            f"{result['mean_acceptance_length']:.2f}",
            _span(result, "decode_tokens_per_s", rounded),
            _span(result, "speedup", lambda value: f"{value:.2f}"),
            rounded(result["energy_per_token_j"] * 1e3),
            rounded(result["peak_ram_bytes"] / 2**20),
            rounded(result["ttft_s"] * 1e3),
            result.confidence,
        )
        for case, result in zip(cases, results, strict=True)
    ]
    alike = " · ".join(_alike(cases[0], results))
    head = [CASE[i] for i in shown]
    lines = "".join(f"- {note}\n" for note in notes)
    return f"## {alike}\n\n{table((*head, *FOUND), rows, left=len(head) - 1)}\n{lines}"


def _case(result: Result) -> tuple[str, ...]:
    names = ("device", "runtime", "target", "drafter", "acceptance")
    return (
        *(str(result.inputs[name] or "-") for name in names),
        str(result.inputs.get("task") or "all"),
        str(result.inputs["draft_length"]),
        f"{result.inputs['batch']:g}",
    )


def _alike(case: tuple[str, ...], results: Sequence[Result]) -> list[str]:
    """What is the same in all rows, with the caller's overrides."""
    same = [
        text if name in ("device", "runtime", "target") else f"{name} {text}"
        for name, text in zip(CASE, case, strict=True)
        if name not in KEPT and all(_case(result)[CASE.index(name)] == text for result in results)
    ]
    settings = [name for name in results[0].inputs if name in SETTINGS or name.startswith("set.")]
    return [*same, *(f"{name.removeprefix('set.')} {results[0].inputs[name]:g}" for name in settings
                     if results[0].inputs[name] is not None)]  # fmt: skip


def _span(result: Result, name: str, shown: Callable[[float], str]) -> str:
    low, high = result.intervals.get(name, (None, None))
    span = "" if low is None or high is None else f" [{shown(low)}..{shown(high)}]"
    return shown(result[name]) + span
