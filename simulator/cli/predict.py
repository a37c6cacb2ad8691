"""``draftscope predict``: one case or a table of them, in closed form (`simulator.analytic`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from simulator.cli.case import NOTHING, Case
from simulator.cli.output import DEFAULT, Output, interval, say, table
from simulator.units import rounded

if TYPE_CHECKING:
    from simulator.results import Result

HEAD = (
    "device", "runtime", "target", "drafter", "task", "K", "batch", "accept len", "tok/s",
    "speedup [low..high]", "mJ/token", "RAM MiB", "TTFT ms", "MB/token", "confidence",
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
    results = [closed_form(**question.settled(), intervals=intervals) for question in questions]
    emit_results(
        results, [question.arguments["device"] for question in questions], command="predict", output=output,
        left_out=left_out,
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
    rows = [
        (
            *(str(result.inputs[name]) for name in ("device", "runtime", "target", "drafter")),
            str(result.inputs.get("task") or "all"),
            str(result.inputs["draft_length"]),
            f"{result.inputs['batch']:g}",
            f"{result['mean_acceptance_length']:.2f}",
            rounded(result["decode_tokens_per_s"]),
            _span(result),
            rounded(result["energy_per_token_j"] * 1e3),
            rounded(result["peak_ram_bytes"] / 2**20),
            rounded(result["ttft_s"] * 1e3),
            rounded(result["bytes_per_token"] / 1e6),
            result.confidence,
        )
        for result in results
    ]
    return table(HEAD, rows, left=5) + "\n" + "".join(f"- {note}\n" for note in notes)


def _span(result: Result) -> str:
    return interval(result["speedup"], *result.intervals.get("speedup", (None, None)))
