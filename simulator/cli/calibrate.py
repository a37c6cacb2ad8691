"""``draftscope calibrate``: a runtime profile from measured pass times (`simulator.studies.calibrate`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from simulator.cli.output import Output, interval, say, table, write_file
from simulator.cli.parsing import check_name, names
from simulator.errors import DraftscopeError, UnknownNameError
from simulator.files import check_target
from simulator.units import readable, rounded

if TYPE_CHECKING:
    from simulator.studies.calibrate import Calibration, FieldRow

LOSSES: dict[str, Literal["linear", "soft_l1"]] = {"linear": "linear", "soft_l1": "soft_l1"}
FIELD_HEAD = (
    "field", "unit", "start [low..high]", "value ± stderr", "low..high", "of prior width", "status",
)  # fmt: skip
TIME_HEAD = ("where", "model", "what", "context", "measured ms", "fitted ms", "error %")
RUN_HEAD = (
    "where", "drafter", "K", "tokens per step", "measured", "predicted [low..high]", "error %", "status",
)  # fmt: skip


def calibrate(
    *,
    measurements: Annotated[list[Path], Parameter(consume_multiple=True, negative="")],
    device: str | None = None,
    target: str | None = None,
    runtime: str | None = None,
    name: str | None = None,
    loss: str = "linear",
    out: Path | None = None,
    output: Annotated[str, Parameter(name=["--output", "-o"])] = "md",
) -> int:
    """Fit a runtime profile to measured pass and prefill times, with errors and what they cannot tell.

    Speculative runs in the files are never fitted: they are predicted with the result, as a check.

    Parameters
    ----------
    measurements
        Files: llama-bench, llama.cpp server, LiteRT-LM, vLLM, MLX, generic CSV, draftscope measure.
    device
        Device that was measured: name or .toml file; needed where the files name no known one.
    target
        Target of all files, or one for each in order, comma-separated: names, config.json, GGUF or
        safetensors; needed where the files name no known one.
    runtime
        Runtime whose values and ranges the fit starts from; the device's default where omitted.
    name
        Name of the new runtime, for people.
    loss
        linear, or soft_l1: outliers count less.
    out
        Runtime profile to write (.toml), for --runtime of other commands.
    output
        Format of what is printed: md, csv, json or jsonl.
    """
    page = Output(output=output)
    page.check()
    if loss not in LOSSES:
        raise UnknownNameError("--loss", loss, LOSSES)
    if name is not None:
        check_name(name, where="--name")
    if out is not None:
        if out.suffix != ".toml":
            raise DraftscopeError(f"--out: {str(out)!r} given; allowed: a file ending in .toml.")
        check_target(out, where="--out ")
    from simulator.adapters.observations import read_observations
    from simulator.studies.calibrate import calibrate as study

    found = study(
        [read_observations(path) for path in dict.fromkeys(measurements)],
        device=device,
        targets=names(target),
        runtime=runtime,
        name=name,
        id_="calibrated" if out is None else out.stem,
        loss=LOSSES[loss],
    )
    page.emit(
        [row.record() for row in found.fields],
        command="calibrate",
        markdown=lambda: as_markdown(found),
        notes=found.notes,
        extra=_extra(found),
    )
    if output != "md":
        for note in found.notes:
            say(f"note: {note}")
    if not found.converged:
        say("the fit did not converge; nothing was written. Try --loss soft_l1, or another --runtime.")
        return 1
    if out is not None:
        from simulator.studies.calibration.profile import as_toml

        write_file(out, as_toml(found.runtime))
        say(f"wrote {out}")
    return 0


def _extra(found: Calibration) -> dict[str, Any]:
    return {
        "runtime": found.runtime.id, "device": found.device_id, "start": found.start_id,
        "residual": found.residual, "chi2": found.chi2, "freedom": found.freedom, "spread": found.spread,
        "converged": found.converged,
        "correlations": [{"a": a, "b": b, "correlation": value} for a, b, value in found.correlations],
        "times": [row.record() for row in found.times],
        "held_out": [row.record() for row in found.held_out],
    }  # fmt: skip


def as_markdown(found: Calibration) -> str:
    """Fields, what cannot be identified, correlations, times, runs held out, notes."""
    from simulator.studies.calibrate import STRONG

    passes = sum(row.sort == "pass" for row in found.times)
    parts = [
        f"Runtime for {found.device_id} from {passes} passes and {len(found.times) - passes} prefills, "
        f"starting from {found.start_id}. Residual {found.residual:.2%} (root mean square); chi-squared "
        f"{found.chi2:.3g} for {found.freedom} degrees of freedom.\n",
        table(FIELD_HEAD, [field_cells(row) for row in found.fields], left=2),
    ]
    unclear = [row for row in found.fields if row.status != "fitted"]
    if unclear:
        lines = [f"- {row.field} ({row.status}): {row.reason}.\n" for row in unclear]
        parts.append("What these data do not identify:\n\n" + "".join(lines))
    tied = [
        (a, b, f"{value:+.2f}")
        for a, b, value in found.correlations
        if abs(value) >= STRONG and not (a.startswith("verify_curve") and b.startswith("verify_curve"))
    ]
    if tied:
        parts.append(table(("", "", "correlation"), tied, left=2))
    parts.append(table(TIME_HEAD, [
        (row.where, row.model, f"{row.width:g} {'rows' if row.sort == 'pass' else 'prompt tokens'}",
         f"{row.context:g}", rounded(row.measured_s * 1e3, 4), rounded(row.fitted_s * 1e3, 4),
         f"{row.error:+.1%}".rstrip("%"))
        for row in found.times
    ], left=3))  # fmt: skip
    if found.held_out:
        parts.append("Speculative runs, not fitted; the prediction takes their tokens per step as given:\n")
        parts.append(table(RUN_HEAD, [
            (row.where, row.drafter, str(row.draft_length or "-"), _two(row.tokens_per_step),
             _two(row.measured_speedup), interval(row.predicted_speedup, row.low, row.high),
             "-" if row.error is None else f"{row.error:+.1%}".rstrip("%"),
             row.status + (f": {row.reason}" if row.reason else ""))
            for row in found.held_out
        ], left=2))  # fmt: skip
    if found.notes:
        parts.append("".join(f"- {note}\n" for note in found.notes))
    return "\n".join(parts)


def _two(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def field_cells(row: FieldRow) -> tuple[str, ...]:
    """One field as the cells of :data:`FIELD_HEAD`."""
    unit, one = readable(row.unit, max(value or 0.0 for value in (row.value, row.start)))

    def shown(value: float | None) -> str:
        return "-" if value is None else rounded(value / one)

    def ends(low: float | None, high: float | None) -> str:
        return "" if low is None or high is None else f"{shown(low)}..{shown(high)}"

    start_ends = ends(row.start_low, row.start_high)
    return (
        row.field, unit, shown(row.start) + (f" [{start_ends}]" if start_ends else ""),
        f"{shown(row.value)} ± {shown(row.stderr)}", ends(row.low, row.high) or "-",
        "-" if row.share is None else f"{row.share:.0%}",
        row.status + (f", {row.reason}" if row.status == "fitted" and row.reason else ""),
    )  # fmt: skip
