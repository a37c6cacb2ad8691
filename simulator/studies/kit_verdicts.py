"""A prediction beside what was measured afterwards, row by row; it does not know file formats.

Each software stack is calibrated on its passes and prefills. Speculative runs are not fitted: their rows test
the prediction, and then the calibrated runtime.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from hw_profiles import load_device, load_runtime
from simulator.errors import DraftscopeError
from simulator.specs import load_target
from simulator.studies.calibrate import Calibration, calibrate
from simulator.studies.calibration.held_out import tokens_per_step
from simulator.studies.calibration.problem import Loss
from simulator.studies.kit import (
    Prediction,
    RuntimePrediction,
    Span,
    StepPrediction,
    step_costs,
    times_of,
)
from simulator.studies.selection import drafter_for

if TYPE_CHECKING:
    from simulator.adapters.observations import Observations, PassTime, PrefillTime, SpeculativeRun

UNNAMED = ("mtp", "unknown")
"""Drafters of files that do not say which one ran: the predicted one."""

WHOLE = 0.05
"""Drafts per step this close to a whole number are the draft length."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One measured number beside its prediction.

    Attributes
    ----------
    runtime, where : str
        Stack, and place in the file.
    what, unit : str
        Quantity.
    width, context, tokens, draft_length : float or None
        Which one.
    measured : float
    predicted, low, high, error : float or None
        None where the prediction does not reach; ``error`` is predicted / measured - 1.
    inside : bool or None
        Whether the measurement lies in the predicted range.
    calibrated : float or None
        The same with the runtime calibrated on these files; fitted to this row where it is a pass or prefill.
    reason : str
        Why there is no prediction.
    """

    runtime: str
    where: str
    what: str
    unit: str
    width: float | None = None
    context: float | None = None
    tokens: float | None = None
    draft_length: int | None = None
    measured: float
    predicted: float | None = None
    low: float | None = None
    high: float | None = None
    error: float | None = None
    inside: bool | None = None
    calibrated: float | None = None
    reason: str = ""

    def record(self) -> dict[str, Any]:
        """All of it, in a fixed order."""
        return dict(vars(self))


@dataclass(frozen=True, kw_only=True)
class Change:
    """Cost of a step before and after calibration, in plain passes, and with the measured tokens per step."""

    runtime: str
    draft_length: int
    before: Span
    after: Span
    tokens_per_step: float | None = None
    speedup: float | None = None


@dataclass(frozen=True, kw_only=True)
class Verdicts:
    """Result of :func:`compared`.

    Attributes
    ----------
    rows : tuple of Verdict
        Every measured number.
    changes : tuple of Change
        What the calibrated runtimes say of every draft length.
    calibrations : dict of str to Calibration
        By stack.
    summary : dict
        Numbers of rows, share inside, median absolute errors.
    notes : tuple of str
        What a reader must know.
    """

    rows: tuple[Verdict, ...]
    changes: tuple[Change, ...]
    calibrations: dict[str, Calibration]
    summary: dict[str, Any]
    notes: tuple[str, ...]


def check_dates(prediction: Prediction, measured: Mapping[str, tuple[datetime, str]]) -> None:
    """Refuse results that are older than the prediction.

    Parameters
    ----------
    prediction : Prediction
        With its date.
    measured : mapping of str to (datetime, str)
        File -> when it was measured, and how that is known.

    Raises
    ------
    DraftscopeError
        With the file.
    """
    written = prediction.written_at
    for file, (when, how) in measured.items():
        if when < written:
            raise DraftscopeError(
                f"{file}: measured at {when:%Y-%m-%d %H:%M:%S} UTC ({how}), but the prediction was written "
                f"at {written:%Y-%m-%d %H:%M:%S} UTC; allowed: results that are younger than the prediction. "
                "Measure again, or look at the clock of the phone."
            )


def compared(
    prediction: Prediction, files: Mapping[str, Sequence[Observations]], *, loss: Loss = "linear"
) -> Verdicts:
    """Measurements beside the prediction, and a runtime calibrated on them for every stack.

    Parameters
    ----------
    prediction : Prediction
        What was written before the run.
    files : mapping of str to sequence of Observations
        Id of a stack -> its files.
    loss : {"linear", "soft_l1"}
        As in :func:`simulator.studies.calibrate.calibrate`.
    """
    rows: list[Verdict] = []
    changes: list[Change] = []
    notes: list[str] = []
    calibrations: dict[str, Calibration] = {}
    for each in prediction.runtimes:
        measured = [_settled(file, prediction) for file in files.get(each.id, ())]
        if not measured:
            notes.append(f"No results of {each.id}.")
            continue
        found = calibrate(
            measured, device=prediction.device, targets=[prediction.target], runtime=each.runtime,
            id_=each.id, loss=loss,
        )  # fmt: skip
        calibrations[each.id] = found
        notes += [f"{each.id}: {note}" for note in found.notes]
        after = step_costs(prediction, each, found.runtime)
        fitted = {(row.where, row.sort): row.fitted_s for row in found.times}
        plain = [one for file in measured for one in file.passes if one.width == 1]
        for file in measured:
            rows += [_of_pass(each, one, fitted) for one in file.passes]
            rows += [_of_prefill(each, one, fitted) for one in file.prefills]
            for run in file.runs:
                rows += _of_run(prediction, each, run, plain, after)
        changes += _changes(each, after, [row for row in rows if row.runtime == each.id])
        if _moved(prediction, each):
            notes.append(
                f"{each.id}: the profiles behind the prediction have changed since; rows are judged by what "
                "was written."
            )
    return Verdicts(
        rows=tuple(rows), changes=tuple(changes), calibrations=calibrations, summary=_summary(rows),
        notes=tuple(dict.fromkeys(notes)),
    )  # fmt: skip


def _settled(file: Observations, prediction: Prediction) -> Observations:
    """Runs with the draft length that their counts say, and the drafter that was predicted where none is."""
    runs = []
    for run in file.runs:
        name = prediction.drafter if run.drafter in UNNAMED else run.drafter
        runs.append(replace(run, drafter=name, draft_length=run.draft_length or _length(run)))
    return replace(file, runs=tuple(runs))


def _length(run: SpeculativeRun) -> int | None:
    if not run.steps or not run.drafted_tokens:
        return None
    per_step = run.drafted_tokens / run.steps
    length = round(per_step)
    return length if length >= 1 and abs(per_step - length) <= WHOLE * length else None


# ------------------------------------------------------------------------------------------------- rows
def _judged(row: Verdict, span: Span | None, reason: str = "") -> Verdict:
    if span is None:
        return replace(row, reason=reason)
    return replace(
        row, predicted=span.value, low=span.low, high=span.high, error=span.value / row.measured - 1,
        inside=span.low <= row.measured <= span.high,
    )  # fmt: skip


def _between(at: float, points: Sequence[tuple[float, Span]], what: str) -> tuple[Span | None, str]:
    """Prediction between two that were written down: a straight line, nothing beyond the last."""
    places = [place for place, _ in points]
    if not places:
        return None, f"no {what} was predicted"
    if not places[0] <= at <= places[-1]:
        return None, f"predicted for {what} {places[0]:g} to {places[-1]:g}"
    value, low, high = (
        float(np.interp(at, places, [getattr(span, name) for _, span in points]))
        for name in ("value", "low", "high")
    )
    return Span(value=value, low=low, high=high), ""


def _of_pass(each: RuntimePrediction, one: PassTime, fitted: Mapping[tuple[str, str], float]) -> Verdict:
    points = [(one_.context, one_.seconds) for one_ in each.passes if one_.width == one.width]
    row = Verdict(
        runtime=each.id, where=one.where, what="pass", unit="s", width=one.width, context=one.context,
        measured=one.seconds, calibrated=fitted.get((one.where, "pass")),
    )  # fmt: skip
    return _judged(row, *_between(one.context, points, f"context, at {one.width:g} rows,"))


def _of_prefill(
    each: RuntimePrediction, one: PrefillTime, fitted: Mapping[tuple[str, str], float]
) -> Verdict:
    row = Verdict(
        runtime=each.id, where=one.where, what="prefill", unit="s", tokens=one.tokens, context=one.context,
        measured=one.seconds, calibrated=fitted.get((one.where, "prefill")),
    )  # fmt: skip
    if one.context:
        return _judged(row, None, "a prompt behind a cached one is not predicted")
    points = [(one_.tokens, one_.seconds) for one_ in each.prefills]
    return _judged(row, *_between(one.tokens, points, "tokens"))


def _of_run(
    prediction: Prediction,
    each: RuntimePrediction,
    run: SpeculativeRun,
    plain: Sequence[PassTime],
    after: Sequence[StepPrediction],
) -> list[Verdict]:
    """Cost of a step and speedup, the latter also from the tokens per step that were measured."""
    tokens, length = tokens_per_step(run), run.draft_length
    speed = None if not (run.output_tokens and run.decode_s) else run.output_tokens / run.decode_s
    base = run.baseline_tokens_per_s or _nearest_plain(plain, prediction)
    common: dict[str, Any] = {"runtime": each.id, "where": run.where, "unit": "", "draft_length": length}
    if speed is None or base is None:
        return []
    speedup = Verdict(**common, what="speedup", measured=speed / base)
    why = _unfit(prediction, run)
    step = next((one for one in each.steps if one.draft_length == length), None)
    if not why and step is None:
        lengths = ", ".join(str(one.draft_length) for one in each.steps)
        why = f"predicted for K = {lengths}" if length else "the file does not say the draft length"
    if why or step is None:
        return [_judged(speedup, None, why)]
    later = next(one.step_cost.value for one in after if one.draft_length == length)
    rows = [] if step.speedup is None else [_judged(speedup, step.speedup)]
    if step.tokens_per_step is not None and tokens is not None:
        told = Verdict(**common, what="tokens per step", measured=tokens)
        rows.append(_judged(told, step.tokens_per_step))
    if tokens is None:
        return rows or [_judged(speedup, None, "no acceptance was predicted, and the file counts none")]
    if speedup.measured > tokens:
        return [*rows, _judged(speedup, None, "inconsistent: the speedup exceeds the tokens per step")]
    cost = Verdict(**common, what="step cost", measured=tokens / speedup.measured, calibrated=later)
    given = Span(value=tokens / step.step_cost.value, low=tokens / step.step_cost.high,
                 high=tokens / step.step_cost.low)  # fmt: skip
    told = replace(speedup, what="speedup, tokens per step as measured", calibrated=tokens / later)
    return [*rows, _judged(cost, step.step_cost), _judged(told, given)]


def _unfit(prediction: Prediction, run: SpeculativeRun) -> str:
    target = load_target(prediction.target)
    try:
        same = drafter_for(run.drafter, target) == drafter_for(prediction.drafter, target)
    except DraftscopeError:
        same = False
    return "" if same else f"drafter {run.drafter!r}, predicted {prediction.drafter!r}"


def _nearest_plain(plain: Sequence[PassTime], prediction: Prediction) -> float | None:
    """Plain decoding in the same stack, at the context nearest to the middle of the response."""
    middle = prediction.prompt_tokens + prediction.output_tokens / 2
    nearest = min(plain, key=lambda one: abs(one.context - middle), default=None)
    return None if nearest is None else 1 / nearest.seconds


def _moved(prediction: Prediction, each: RuntimePrediction) -> bool:
    """Whether today's profiles predict other times of passes than those that were written down."""
    passes, _ = times_of(load_device(prediction.device), prediction.target, load_runtime(each.runtime))
    pairs = zip(passes, each.passes, strict=False)
    return len(passes) != len(each.passes) or not all(
        np.isclose(now.seconds.value, then.seconds.value, rtol=1e-6, atol=0.0) for now, then in pairs
    )


def _changes(
    each: RuntimePrediction, after: Sequence[StepPrediction], rows: Sequence[Verdict]
) -> list[Change]:
    found = []
    for before, later in zip(each.steps, after, strict=True):
        costs = [row for row in rows if row.what == "step cost" and row.draft_length == before.draft_length]
        speedups = [row for row in rows if row.what == "speedup, tokens per step as measured"
                    and row.draft_length == before.draft_length]  # fmt: skip
        tokens = [cost.measured * speedup.measured for cost, speedup in zip(costs, speedups, strict=True)]
        mean = sum(tokens) / len(tokens) if tokens else None
        if mean is None and before.tokens_per_step is not None:
            mean = before.tokens_per_step.value
        found.append(Change(
            runtime=each.id, draft_length=before.draft_length, before=before.step_cost, after=later.step_cost,
            tokens_per_step=mean, speedup=None if mean is None else mean / later.step_cost.value,
        ))  # fmt: skip
    return found


def _summary(rows: Sequence[Verdict]) -> dict[str, Any]:
    judged = [row for row in rows if row.error is not None]
    # Each width is a point of the fitted curve: only runs with a drafter test the calibrated runtime.
    later = [row for row in judged if row.calibrated is not None and row.draft_length]
    return {
        "rows": len(rows), "judged": len(judged), "inside": sum(row.inside is True for row in judged),
        "median_absolute_error": median(abs(row.error or 0.0) for row in judged) if judged else None,
        "median_absolute_error_calibrated": median(
            abs((row.calibrated or 0.0) / row.measured - 1) for row in later) if later else None,
    }  # fmt: skip
