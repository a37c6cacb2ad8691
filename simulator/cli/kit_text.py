"""Pages and rows of ``draftscope kit``; they compute nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.cli.calibrate import FIELD_HEAD, field_cells
from simulator.cli.output import interval, table
from simulator.units import rounded

if TYPE_CHECKING:
    from simulator.adapters.power_rails import Rail
    from simulator.studies.kit import Prediction, Span
    from simulator.studies.kit_verdicts import Verdict, Verdicts

SHOWN_WIDTHS, SHOWN_PROMPTS = (1, 2, 4, 8, 16), (128, 512)
WRITTEN_HEAD = ("runtime", "quantity", "predicted [low..high]")
STEP_HEAD = (
    "runtime", "K", "step cost [low..high]", "tokens per step", "tok/s [low..high]", "speedup [low..high]",
)  # fmt: skip
ROW_HEAD = (
    "runtime", "quantity", "at context", "measured", "predicted [low..high]", "error %", "inside",
    "calibrated", "where",
)  # fmt: skip
CHANGE_HEAD = (
    "runtime", "K", "step cost before [low..high]", "calibrated [low..high]", "tokens per step", "speedup",
)  # fmt: skip
RAIL_HEAD = ("trace", "rail", "mean W", "highest W", "J")


def as_rows(prediction: Prediction) -> list[dict[str, Any]]:
    """The prediction as rows, one a number."""
    rows: list[dict[str, Any]] = []

    def add(runtime: str, what: str, unit: str, span: Span | None, **which: float) -> None:
        if span is not None:
            keys: dict[str, Any] = {"width": None, "context": None, "tokens": None, "draft_length": None}
            rows.append({"runtime": runtime, "what": what, "unit": unit, **keys, **which,
                         "predicted": span.value, "low": span.low, "high": span.high})  # fmt: skip

    for each in prediction.runtimes:
        add(each.id, "plain decoding", "tok/s", each.plain_tokens_per_s, context=prediction.prompt_tokens)
        for one in each.passes:
            add(each.id, "pass", "s", one.seconds, width=one.width, context=one.context)
        for prompt in each.prefills:
            add(each.id, "prefill", "s", prompt.seconds, tokens=prompt.tokens)
        for step in each.steps:
            add(each.id, "step cost", "", step.step_cost, draft_length=step.draft_length)
            add(each.id, "tokens per step", "", step.tokens_per_step, draft_length=step.draft_length)
            add(each.id, "decoding", "tok/s", step.decode_tokens_per_s, draft_length=step.draft_length)
            add(each.id, "speedup", "", step.speedup, draft_length=step.draft_length)
    return rows


def prediction_page(
    prediction: Prediction, out: Path, records: Sequence[dict[str, Any]], script: str, notes: Sequence[str]
) -> str:
    """What was predicted, its digest, and the commands."""
    shown = [
        row for row in records
        if not (row["what"] == "pass" and (row["context"] or row["width"] not in SHOWN_WIDTHS))
        and not (row["what"] == "prefill" and row["tokens"] not in SHOWN_PROMPTS)
        and row["draft_length"] is None
    ]  # fmt: skip
    rows = [(row["runtime"], _quantity(row), _with_unit(row, "predicted")) for row in shown]
    steps = [
        (each.id, str(step.draft_length), _ends(step.step_cost),
         "-" if step.tokens_per_step is None else f"{step.tokens_per_step.value:.2f}",
         _ends(step.decode_tokens_per_s, 1), _ends(step.speedup))
        for each in prediction.runtimes for step in each.steps
    ]  # fmt: skip
    costs = (
        "What a step costs, in plain passes: with so many tokens per step it breaks even\n\n"
        + table(STEP_HEAD, steps, left=1) + "\n"
    ) if steps else ""  # fmt: skip
    lines = "".join(f"- {note}\n" for note in notes)
    about = f"drafter {prediction.drafter}" + (
        f", acceptance {prediction.acceptance}" if prediction.acceptance else ""
    )
    return (
        f"# {prediction.device}, {prediction.target}, {about}\n\n"
        f"Written {prediction.written_at:%Y-%m-%d %H:%M:%S} UTC, draftscope {prediction.version}, digest "
        f"{prediction.sha256}\n\n"
        f"Ranges hold {prediction.level:.0%} of the draws from the ranges of the inputs.\n\n"
        f"{table(WRITTEN_HEAD, rows, left=2)}\n{costs}{lines}\n"
        f"Run it, {out}/run.sh:\n\n```bash\n{script}```\n\n"
        f"Then: draftscope kit --results {out}\n"
    )


def _ends(span: Span | None, digits: int = 2) -> str:
    return "-" if span is None else interval(span.value, span.low, span.high, digits)


def _quantity(row: dict[str, Any]) -> str:
    if row["what"] == "pass":
        return "plain pass" if row["width"] == 1 else f"pass of {row['width']:g} rows"
    if row["what"] == "prefill":
        return f"prefill of {row['tokens']:g} tokens"
    length = row["draft_length"]
    return f"{row['what']}, K = {length}" if length else str(row["what"])


def _with_unit(row: dict[str, Any], name: str) -> str:
    one, unit = (1e3, " ms") if row["unit"] == "s" else (1.0, f" {row['unit']}".rstrip())
    value, low, high = (row[key] for key in (name, "low", "high"))
    if value is None:
        return "-"
    ends = "" if low is None or name != "predicted" else f" [{rounded(one * low)}..{rounded(one * high)}]"
    return f"{rounded(one * value)}{ends}{unit}"


def verdict_page(
    prediction: Prediction, verdicts: Verdicts, rails: dict[str, tuple[Rail, ...]], written: Path
) -> str:
    """How many rows are inside, the rows, what the calibrated runtimes say, the rails, notes."""
    parts = [
        f"# {prediction.device}, {prediction.target}\n\n"
        f"Prediction of {prediction.written_at:%Y-%m-%d %H:%M:%S} UTC beside results. "
        f"{_headline(verdicts.summary, prediction.level)}\n",
        table(ROW_HEAD, [_row(row, written.parent) for row in verdicts.rows], left=2),
    ]
    for name, each in verdicts.calibrations.items():
        fields = [row for row in each.fields if row.status != "kept"]
        parts.append(f"{name}, calibrated: what the results moved ({written / name}.toml has all)\n")
        parts.append(table(FIELD_HEAD, [field_cells(row) for row in fields], left=2))
    if verdicts.changes:
        parts.append("Cost of a step in plain passes, and what the calibrated runtime makes of it\n")
        parts.append(table(CHANGE_HEAD, [
            (each.runtime, str(each.draft_length),
             interval(each.before.value, each.before.low, each.before.high),
             interval(each.after.value, each.after.low, each.after.high),
             "-" if each.tokens_per_step is None else f"{each.tokens_per_step:.2f}",
             "-" if each.speedup is None else f"{each.speedup:.2f}")
            for each in verdicts.changes
        ], left=1))  # fmt: skip
    if rails:
        parts.append("Power rails over their whole traces, idle time included; not compared\n")
        parts.append(table(RAIL_HEAD, [
            (name, rail.name, f"{rail.mean_w:.3f}", f"{rail.highest_w:.3f}", rounded(rail.energy_j))
            for name, each in rails.items() for rail in each
        ], left=2))  # fmt: skip
    parts.append("".join(f"- {note}\n" for note in verdicts.notes))
    return "\n".join(parts)


def _headline(summary: dict[str, Any], level: float) -> str:
    if not summary["judged"]:
        return f"None of {summary['rows']} measured numbers was predicted."
    later, missing = summary["median_absolute_error_calibrated"], summary["rows"] - summary["judged"]
    unseen = "" if later is None else (
        f" Runs with a drafter were not fitted: {later:.1%} with the calibrated runtime."
    )  # fmt: skip
    return (
        f"{summary['inside']} of {summary['judged']} predicted numbers lie in their {level:.0%} range; "
        f"median absolute error {summary['median_absolute_error']:.1%}.{unseen} Measured numbers without a "
        f"prediction: {missing}."
    )


def _row(row: Verdict, folder: Path) -> tuple[str, ...]:
    record = row.record()
    return (
        row.runtime, _quantity(record), "-" if row.context is None else f"{row.context:g}",
        _with_unit(record, "measured"), row.reason or _with_unit(record, "predicted"),
        "-" if row.error is None else f"{100 * row.error:+.1f}",
        "-" if row.inside is None else "yes" if row.inside else "NO",
        _with_unit(record, "calibrated"), row.where.removeprefix(f"{folder}/"),
    )  # fmt: skip
