"""One case explained: where time and bytes go, what must hold for it to pay, what the answer hangs on.

It writes no text: the command line does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hw_profiles import load_device
from hw_profiles.schema import DeviceProfile
from simulator.analytic import predict
from simulator.drafters.base import DrafterModel
from simulator.errors import DraftscopeError
from simulator.results import Result
from simulator.studies.explain_case import Asked, Best, Sensitivity
from simulator.studies.explain_measured import Measured, Residual, residual_of
from simulator.studies.explain_parts import ByteRow, TimePart, byte_rows, time_parts

LENGTHS = range(1, 9)
"""Draft lengths of the curve."""
TOP = 5
"""Inputs shown of the sensitivity."""
PAYS, EITHER, LOSES = "pays", "could go either way", "does not pay"


@dataclass(frozen=True, kw_only=True)
class BreakEven:
    """What acceptance the case needs.

    Attributes
    ----------
    step_cost : float
        Time of a step in plain passes: tokens that a step must emit.
    tokens_per_step : float
        Tokens that it emits.
    acceptance_rate : float or None
        i.i.d. rate at which the speedup is 1; None where no rate is enough.
    equivalent_rate : float
        i.i.d. rate that gives the case's own acceptance length.
    """

    step_cost: float
    tokens_per_step: float
    acceptance_rate: float | None
    equivalent_rate: float


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """Prediction at one draft length.

    Attributes
    ----------
    draft_length : int
        K.
    mean_acceptance_length, speedup, low, high : float
        Tokens a step; speedup and its interval.
    step_time_s, draft_time_s, verify_time_s, host_time_s : float
        A step and its phases [s].
    """

    draft_length: int
    mean_acceptance_length: float
    speedup: float
    low: float | None
    high: float | None
    step_time_s: float
    draft_time_s: float
    verify_time_s: float
    host_time_s: float


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Everything about one case.

    Attributes
    ----------
    result : Result
        As `predict` gives it.
    device : DeviceProfile
        Where.
    drafter : DrafterModel
        What drafts.
    peak_bandwidth_bytes_per_s : float
        Of the device [B/s].
    time : tuple of TimePart
        Parts of a step and of a plain pass.
    bytes : tuple of ByteRow
        Memory traffic.
    break_even : BreakEven
        Acceptance that is needed.
    curve : tuple of CurvePoint
        Speedup over the draft length.
    best : Best
        Best draft length.
    sensitivity : tuple of Sensitivity
        Inputs with the largest swings.
    acceptance_range : (float, float) or None
        Range of the mean acceptance length, where one is known.
    residual : Residual or None
        Where something was measured.
    """

    result: Result
    device: DeviceProfile
    drafter: DrafterModel
    peak_bandwidth_bytes_per_s: float
    time: tuple[TimePart, ...]
    bytes: tuple[ByteRow, ...]
    break_even: BreakEven
    curve: tuple[CurvePoint, ...]
    best: Best
    sensitivity: tuple[Sensitivity, ...]
    acceptance_range: tuple[float, float] | None = None
    residual: Residual | None = None

    @property
    def stance(self) -> str:
        """``pays`` or ``does not pay`` where the whole interval of the speedup says so."""
        speedup = float(self.result["speedup"])
        low, high = self.result.intervals.get("speedup", (speedup, speedup))
        if low > 1.0:
            return PAYS
        return LOSES if high < 1.0 else EITHER

    def record(self) -> dict[str, Any]:
        """Plain data, the JSON contract of ``docs/reference/cli.md``."""
        result = self.result
        low, high = result.intervals.get("speedup", (None, None))
        step = ("step_time_s", "draft_time_s", "verify_time_s", "host_time_s", "verify_cost_ratio",
                "draft_cost_ratio", "tokens_per_step", "mean_acceptance_length")  # fmt: skip
        return {
            "stance": self.stance,
            "inputs": result.inputs,
            "speedup": result["speedup"],
            "speedup_low": low,
            "speedup_high": high,
            "decode_tokens_per_s": result["decode_tokens_per_s"],
            "baseline_decode_tokens_per_s": result["baseline_decode_tokens_per_s"],
            "step": {name: result[name] for name in step},
            "plain_pass_time_s": 1.0 / result["baseline_decode_tokens_per_s"] * result.inputs["batch"],
            "time": [asdict(part) for part in self.time],
            "bytes": [asdict(row) for row in self.bytes],
            "break_even": asdict(self.break_even),
            "curve": [asdict(point) for point in self.curve],
            "best": asdict(self.best),
            "sensitivity": [asdict(each) for each in self.sensitivity],
            "residual": None if self.residual is None else self.residual.record(),
            "confidence": result.confidence,
            "references": list(result.references),
        }


def explain(
    *, measured: Measured | None = None, lengths: Sequence[int] = LENGTHS, draws: int = 256, **case: Any
) -> Explanation:
    """Explain one case.

    Parameters
    ----------
    measured : Measured, optional
        What came out on a machine; its gap to the prediction is explained too.
    lengths : sequence of int
        Draft lengths of the curve; those that the acceptance does not know are left out.
    draws : int
        Draws for the intervals.
    **case
        As :func:`simulator.analytic.predict` takes it.

    Raises
    ------
    DraftscopeError
        For a case without a drafter, and what `predict` refuses.
    """
    asked = Asked(**case)
    length, lowered = asked.draft_length, asked.question.lowered
    if length < 1:
        raise DraftscopeError(
            f"explain: drafter {lowered.drafter.id!r} at draft length {length} given; allowed: a drafter and "
            "a draft length >= 1, because plain decoding has no speedup to explain."
        )
    device = case["device"] if isinstance(case["device"], DeviceProfile) else load_device(str(case["device"]))
    known = None if asked.question.acceptance is None else asked.question.acceptance.max_draft_length
    shown = sorted({*lengths, length, *(point.draft_length for point in measured.points)}
                   if measured else {*lengths, length})  # fmt: skip
    # The length that is asked for stays: `predict` says why it is refused.
    shown = [each for each in shown if each == length or (each >= 1 and (known is None or each <= known))]
    results = {each: predict(**{**case, "draft_length": each}, draws=draws) for each in shown}
    result = results[length]
    peak = asked.question.axes.get("peak_bandwidth_bytes_per_s")
    if peak is None:
        peak = lowered.inputs["peak_bandwidth_bytes_per_s"].value
    residual = None
    if measured is not None:
        beyond = [p.draft_length for p in measured.points if known is not None and p.draft_length > known]
        if beyond:
            raise DraftscopeError(
                f"measured: draft length {beyond[0]} given; the acceptance is known up to {known}."
            )
        residual = residual_of(
            asked, measured, device,
            intervals={each: results[each].intervals.get("speedup") for each in results},
            plain_interval=result.intervals.get("baseline_decode_tokens_per_s"),
        )  # fmt: skip
    return Explanation(
        result=result,
        device=device,
        drafter=lowered.drafter,
        peak_bandwidth_bytes_per_s=float(peak),
        time=tuple(time_parts(asked.at(length))),
        bytes=tuple(byte_rows(asked.at(length))),
        break_even=_break_even(asked, result),
        curve=tuple(_curve_point(each, one) for each, one in results.items()),
        best=asked.best(shown, draws=draws),
        sensitivity=tuple(asked.sensitivities()[:TOP]),
        acceptance_range=asked.acceptance_range(length),
        residual=residual,
    )


def _break_even(asked: Asked, result: Result) -> BreakEven:
    from simulator.acceptance.iid import equivalent_rate

    length = asked.draft_length
    tau = min(max(float(result["mean_acceptance_length"]), 1.0), length + 1.0)
    return BreakEven(
        step_cost=result["break_even_acceptance_length"],
        tokens_per_step=result["tokens_per_step"],
        acceptance_rate=asked.break_even_rate(length),
        equivalent_rate=equivalent_rate(tau, length),
    )


def _curve_point(length: int, result: Result) -> CurvePoint:
    low, high = result.intervals.get("speedup", (None, None))
    names = (
        "mean_acceptance_length",
        "speedup",
        "step_time_s",
        "draft_time_s",
        "verify_time_s",
        "host_time_s",
    )
    return CurvePoint(
        draft_length=length, low=low, high=high, **{name: float(result[name]) for name in names}
    )
