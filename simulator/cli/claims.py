"""``draftscope claims``: published claims beside what comes out here (`simulator.studies.claims`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from string import ascii_lowercase
from typing import TYPE_CHECKING

from simulator.cli.compare import trace_files
from simulator.cli.output import DEFAULT, Output, table
from simulator.cli.parsing import share
from simulator.units import rounded

if TYPE_CHECKING:
    from simulator.studies.claims import Claim

HEAD = ("row", "case", "published", "here [low..high]", "how", "verdict")


def claims(
    *,
    device: str = "pixel_9",
    runtime: str | None = None,
    acceptance_trace: str | None = None,
    max_overlap: str = "0.2",
    output: Output = DEFAULT,
) -> int:
    """Published claims beside what is reproduced here: value, interval, assumptions, and how it was obtained.

    Parameters
    ----------
    device
        Phone of the claims about speed, first token and energy.
    runtime
        Its runtime; the device's default where omitted.
    acceptance_trace
        Trace files of the small target, comma-separated, instead of the shipped ones.
    max_overlap
        Leave out responses that share more than this part of their 8-grams with training text; "none" keeps
        all.
    """
    output.check()
    from simulator.studies.claims import claims as study

    found = study(
        device=device,
        runtime=runtime,
        traces=trace_files(acceptance_trace),
        max_overlap=share(max_overlap, where="--max-overlap"),
    )
    output.emit([each.record() for each in found], command="claims", markdown=lambda: as_markdown(found))
    return 0


def as_markdown(found: Sequence[Claim]) -> str:
    """One table for each claim; the reasons and assumptions below it name the rows that they are about."""
    parts = []
    for number, group in groupby(found, key=lambda each: each.id.partition(".")[0]):
        rows = {f"{number}{letter}": row for letter, row in zip(ascii_lowercase, group, strict=False)}
        parts.append(f"## {number}. {next(iter(rows.values())).claim}\n")
        parts.append(table(HEAD, [(name, *_cells(row)) for name, row in rows.items()], left=3))
        reasons = {name: row.explanation for name, row in rows.items() if row.explanation}
        assumed = {name: f"Assumed: {row.assumptions}." for name, row in rows.items() if row.assumptions}
        lines = [*_lines(reasons, len(rows)), *_lines(assumed, len(rows))]
        parts.append("".join(f"- {line}\n" for line in lines))
    return "\n".join(parts)


def _lines(texts: Mapping[str, str], total: int) -> list[str]:
    """Each text once, after the rows that it belongs to."""
    names: dict[str, list[str]] = {}
    for name, text in texts.items():
        names.setdefault(text, []).append(name)
    return [f"[{'all' if len(rows) == total else ', '.join(rows)}] {text}" for text, rows in names.items()]


def _cells(row: Claim) -> tuple[str, ...]:
    return row.case, row.published, _value(row), row.how, row.verdict


def _value(row: Claim) -> str:
    if row.value is None:
        return "-"
    unit = f" {row.unit}" if row.unit else ""
    if row.low is None or row.high is None:
        return f"{rounded(row.value)}{unit}"
    return f"{rounded(row.value)} [{rounded(row.low)}..{rounded(row.high)}]{unit}"
