"""The page docs/background/validation.md and the aggregates that tests hold it to; it formats, no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simulator.studies.validation.decode import DecodeVerdict, decode_report, validate_decode
from simulator.studies.validation.modes import MODES, Verdict, validate
from simulator.studies.validation.report import report
from simulator.studies.validation.table import Measured, shipped_measurements

AGGREGATES = ("median_absolute_error", "mean_capped_error", "sign_accuracy", "interval_coverage",
              "mean_relative_width")  # fmt: skip
WORST = 12

INTRO = """# Validation: predictions beside other people's measurements

Written by `make validation` from `hw_profiles/measurements/speedups.csv` and `decode.csv`; do not edit.
A test fails when an aggregate gets worse by more than 5 %. The same numbers for any table of yours:
`draftscope validate --measurements FILE --mode MODE`.

**What each mode reads** of the row that it predicts: `zero-shot` everything but the answers, `anchored`
also the speed of plain decoding, `calibrated` also the answers of the other rows of its group (same
device, framework, target, quantisation, drafter). Rows of clean_pair C are never judged; a speedup above
tokens per pass is inconsistent and never learnt from.

**How it predicts.** speedup = tokens per pass / step cost. Tokens per pass are the row's own where it
states them, else borrowed from rows that share drafter, target, task or author, with the uncertainty
that this leaves. The step cost comes from bytes, arithmetic and floors with priors by *kernel family*
(`hw_profiles/kernel_families.toml`), tuned on the shipped rows **of all other sources**, and corrected
by what the model missed on like machines (a Gaussian process over kernel family, kind of drafter and the
numbers that costs depend on). Rows whose device, runtime, target and drafter have profiles here are
predicted by the simulator itself. Nothing is fitted to a row or a source that is judged with it.

**What was chosen on this table.** The variances of the Gaussian processes (two for step costs, seven for
acceptance, nine for groups), and the list of terms of the cost model, were chosen with these sources in
view; a table that nobody has seen yet will fare somewhat worse. Aggregates cap every source at a quarter
of the weight.
"""


def validation_page() -> tuple[str, dict[str, dict[str, float]]]:
    """Markdown of the page, and the aggregates that a test holds the study to."""
    rows = shipped_measurements()
    parts: list[str] = [INTRO]
    aggregates: dict[str, dict[str, float]] = {}
    anchored: tuple[Verdict, ...] = ()
    for mode in MODES:
        verdicts = validate(rows, mode)
        anchored = verdicts if mode == "anchored" else anchored
        summary = report(rows, verdicts, mode)
        aggregates[mode] = {name: float(summary[name]) for name in AGGREGATES}
        parts += [f"## {mode}\n", _mode(summary)]
    parts += ["## Phones\n", _phones(rows, anchored), "## Where it fails\n", _worst(rows, anchored)]
    decoded = validate_decode()
    plain = decode_report(decoded)
    aggregates["decode"] = {name: float(value) for name, value in plain.items() if "error" in name}
    parts += ["## Plain decoding\n", _decode(decoded, plain)]
    return "\n".join(parts), aggregates


def _mode(summary: Mapping[str, Any]) -> str:
    lines = [
        "| rows | n | median error | mean, capped at 50 % | sign right | in the 90 % interval | mean width |",
        "|---|---:|---:|---:|---:|---:|---:|",
        _line(f"judged: {summary['judged']}", summary),
        *(_line(name, each) for name, each in summary["subsets"].items()),
        "",
        "| rule without physics, on the judged rows | median error | sign right |",
        "|---|---:|---:|",
    ]
    for name, each in summary["rules"].items():
        if each:
            lines.append(
                f"| {name} | {_percent(each['median_absolute_error'])} | {_percent(each['sign_accuracy'])} |"
            )
    lines += ["", "| kernel family | n | median error | sign right |", "|---|---:|---:|---:|"]
    lines += [
        f"| {name} | {each['n']} | {_percent(each['median_absolute_error'])} | "
        f"{_percent(each['sign_accuracy'])} |"
        for name, each in summary["by"]["family"].items()
    ]
    status = ", ".join(f"{number} {name}" for name, number in summary["status"].items())
    return "\n".join([*lines, "", f"Of all rows: {status}.", ""])


def _line(name: str, each: Mapping[str, Any]) -> str:
    return (
        f"| {name} | {each['n']} | {_percent(each['median_absolute_error'])} | "
        f"{_percent(each['mean_capped_error'])} | {_percent(each['sign_accuracy'])} | "
        f"{_percent(each['interval_coverage'])} | {each['mean_relative_width']:.2f} x |"
    )


def _phones(rows: Sequence[Measured], verdicts: Sequence[Verdict]) -> str:
    lines = [
        "Tokens per pass of a phone row come from the same task on the phone's other engine where that is",
        "published, else from a range; the draft length of these graphs is not published (3 is assumed).",
        "",
        "| row | device | task | measured | predicted [90 %] | error |",
        "|---|---|---|---:|---:|---:|",
    ]
    for row, each in zip(rows, verdicts, strict=True):
        if each.status == "scored" and row.device_class.startswith("phone"):
            cells = (row.id, row.device, row.task, f"{row.speedup:.2f}", _interval(each), _error(each))
            lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "The outlier is code on the Galaxy's CPU: its GPU/CPU ratio is 1.84 where the other tasks have 1.37",
        "to 1.52, so no model with one acceptance a task fits all four.",
        "",
    ]
    return "\n".join(lines)


def _worst(rows: Sequence[Measured], verdicts: Sequence[Verdict]) -> str:
    pairs = [(row, each) for row, each in zip(rows, verdicts, strict=True) if each.status == "scored"]
    pairs.sort(key=lambda pair: -abs(_miss(pair[1])))
    lines = [
        f"The {WORST} largest misses of `anchored`. Most come from what bytes, compute and dispatch do not",
        "hold: memory that overflowed, drafts rejected on a task whose acceptance no row states,",
        "synchronisation between cards.",
        "",
        "| row | device | stack | drafter | task | measured | predicted [90 %] |",
        "|---|---|---|---|---|---:|---:|",
    ]
    for row, each in pairs[:WORST]:
        names = (row.id, row.device, row.framework, row.drafter_kind, row.task)
        lines.append(f"| {' | '.join(names)} | {row.speedup:.2f} | {_interval(each)} |")
    return "\n".join([*lines, ""])


def _decode(verdicts: Sequence[DecodeVerdict], plain: Mapping[str, Any]) -> str:
    return "\n".join([
        f"{plain['n']} rows of `decode.csv` with a size and a rate, each predicted from the others",
        "(`draftscope validate --decode`).",
        "",
        "| predicted from | n | median error |",
        "|---|---:|---:|",
        f"| rows of other machines and stacks only | {plain['n']} | "
        f"{_percent(plain['unseen_machine_median_absolute_error'])} |",
        f"| all other rows | {plain['n']} | {_percent(plain['median_absolute_error'])} |",
        f"| all other rows, one of the same machine and stack among them | {plain['calibrated_n']} | "
        f"{_percent(plain['calibrated_median_absolute_error'])} |",
        "",
        "The last figure misses the 5 % that a calibration should reach: one machine's rows differ in more",
        "than size. On one NPU a 1.5B model runs slower than a 3B one, on another two builds of one model",
        "differ by 1.7 times, and both stand in the table.",
        "",
    ])  # fmt: skip


def _interval(each: Verdict) -> str:
    return f"{each.predicted_speedup:.2f} [{each.low:.2f}..{each.high:.2f}]"


def _miss(each: Verdict) -> float:
    return each.predicted_speedup / (each.measured_speedup or float("nan")) - 1


def _error(each: Verdict) -> str:
    return f"{100 * _miss(each):+.0f} %"


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"
