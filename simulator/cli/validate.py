"""``draftscope validate``: predictions beside measurements of others (`simulator.studies.validation`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simulator.cli.output import DEFAULT, Output, interval, table

HEAD = ("id", "status", "measured", "predicted", "error", "tokens a pass", "kernels", "drafter", "reason")
LISTED = ("n", "median_absolute_error", "mean_absolute_error", "mean_capped_error", "mean_signed_error",
          "sign_accuracy", "interval_coverage", "mean_relative_width")  # fmt: skip


def validate(
    *,
    measurements: str | None = None,
    mode: str = "anchored",
    decode: bool = False,
    output: Output = DEFAULT,
) -> int:
    """Predict measured speedups and say how often that is right; see docs/background/validation.md.

    Parameters
    ----------
    measurements
        CSV file with the columns of docs/reference/file_formats.md; the shipped table where omitted.
    mode
        What may be read of the row that is predicted: "zero-shot" no answer, "anchored" the speed of plain
        decoding, "calibrated" also the answers of the other rows of its group (same device, framework,
        target, quantisation and drafter).
    decode
        Instead: speeds of plain decoding, each row of the shipped table from all the others.
    """
    output.check()
    from simulator.errors import UnknownNameError
    from simulator.studies.validation import (
        MODES,
        read_measurements,
        report,
        shipped_measurements,
    )
    from simulator.studies.validation import validate as study

    if decode:
        return _decode(measurements, output)
    if mode not in MODES:
        raise UnknownNameError("--mode", mode, MODES)
    rows = shipped_measurements() if measurements is None else read_measurements(measurements)
    verdicts = study(rows, mode)
    summary = report(rows, verdicts, mode)
    records = [each.record() for each in verdicts]
    output.emit(
        records,
        command="validate",
        markdown=lambda: as_markdown(records, summary, mode),
        extra={"mode": mode, "summary": summary},
    )
    return 0


def _decode(measurements: str | None, output: Output) -> int:
    from simulator.errors import DraftscopeError
    from simulator.studies.validation.decode import decode_report, validate_decode

    if measurements is not None:
        raise DraftscopeError("--decode: judges the shipped table; allowed: without --measurements.")
    verdicts = validate_decode()
    summary = decode_report(verdicts)
    records = [{**each.__dict__, "group": "/".join(each.group)} for each in verdicts]
    names = ("measured_tokens_per_s", "tokens_per_s", "unseen_machine_tokens_per_s")

    def markdown() -> str:
        lines = [(each.id, *(f"{getattr(each, name):.1f}" for name in names)) for each in verdicts]
        totals = [(name, f"{value:g}") for name, value in summary.items()]
        return table(("aggregate", "value"), totals) + "\n" + table(("id", *names), lines)

    output.emit(records, command="validate", markdown=markdown, extra={"mode": "decode", "summary": summary})
    return 0


def as_markdown(records: list[dict[str, Any]], summary: Mapping[str, Any], mode: str) -> str:
    """Verdict, aggregates, naive rules, and one line a row."""
    parts = [f"# Validation, {mode}\n", _headline(summary, mode)]
    lines = [("judged: " + str(summary["judged"]), summary), *summary["subsets"].items()]
    parts.append(table(("rows", *LISTED), [(name, *_numbers(each)) for name, each in lines]))
    parts.append("Rules without physics on the judged rows\n")
    parts.append(
        table(
            ("rule", "median_absolute_error", "sign_accuracy"),
            [
                (name, *(_fixed(each.get(key)) for key in ("median_absolute_error", "sign_accuracy")))
                for name, each in summary["rules"].items()
            ],
        )
    )
    for split, groups in summary["by"].items():
        rows = [(name, *_numbers(each)) for name, each in groups.items()]
        parts.append(f"By {split}\n")
        parts.append(table((split, *LISTED), rows))
    parts.append("Rows\n")
    parts.append(table(HEAD, [_cells(each) for each in records], left=2))
    return "\n".join(parts)


def _headline(summary: Mapping[str, Any], mode: str) -> str:
    counts = ", ".join(f"{number} {status}" for status, number in summary["status"].items())
    if not summary["n"]:
        return f"No row can be judged: {counts}.\n"
    error, sign, inside = (
        100 * summary[name] for name in ("median_absolute_error", "sign_accuracy", "interval_coverage")
    )
    return (
        f"{mode}: half of {summary['n']} judged speedups are predicted within {error:.1f} %, the sign of "
        f"{sign:.0f} % is right, and {inside:.0f} % lie in their 90 % interval. Rows: {counts}.\n"
    )


def _numbers(summary: Mapping[str, Any]) -> list[str]:
    return [str(summary.get("n", 0)), *(_fixed(summary.get(name)) for name in LISTED[1:])]


def _fixed(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    measured, predicted = row["measured_speedup"], row["predicted_speedup"]
    return (
        str(row["id"]),
        str(row["status"]),
        "-" if measured is None else f"{measured:.2f}",
        interval(predicted, row["low"], row["high"]),
        "-" if measured is None else f"{100 * (predicted / measured - 1):+.0f} %",
        f"{row['tokens_per_pass']:.2f}" + ("" if row["tokens_stated"] else " (est.)"),
        str(row["kernel_family"]),
        str(row["drafter"]),
        str(row["reason"]),
    )
