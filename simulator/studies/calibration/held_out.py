"""Measured speculative runs beside what the calibrated runtime predicts for them; they are never fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from hw_profiles.schema import DeviceProfile, RuntimeProfile
from simulator.acceptance.base import Acceptance
from simulator.acceptance.iid import LengthAcceptance
from simulator.acceptance.positional import PositionalAcceptance
from simulator.analytic import predict
from simulator.errors import DraftscopeError
from simulator.specs import TargetSpec
from simulator.studies.selection import drafter_for

if TYPE_CHECKING:
    from simulator.adapters.observations import Observations, SpeculativeRun

SCORED, PREDICTED, SKIPPED, INCONSISTENT = "scored", "predicted", "skipped", "inconsistent"
OUTPUT_TOKENS = 128
"""Response of a run whose file does not say how long it was."""


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """One speculative run.

    Attributes
    ----------
    where, drafter, draft_length, task
        Of the run.
    tokens_per_step : float or None
        Mean acceptance length that was measured, bonus included; the prediction takes it as given.
    measured_speedup : float or None
        Against plain decoding of the same file.
    predicted_speedup, low, high : float or None
        With the calibrated runtime.
    error : float or None
        predicted / measured - 1.
    status : {"scored", "predicted", "skipped", "inconsistent"}
        ``inconsistent``: a measured speedup above the tokens per step cannot be.
    reason : str
        Why it was not scored.
    """

    where: str
    drafter: str
    draft_length: int | None
    task: str | None
    tokens_per_step: float | None = None
    measured_speedup: float | None = None
    predicted_speedup: float | None = None
    low: float | None = None
    high: float | None = None
    error: float | None = None
    status: str = SKIPPED
    reason: str = ""

    def record(self) -> dict[str, Any]:
        """All of it, in a fixed order."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


def held_out(
    files: Sequence[Observations],
    targets: Sequence[TargetSpec | None],
    *,
    device: DeviceProfile,
    runtime: RuntimeProfile,
) -> list[HeldOut]:
    """Predict every speculative run of the files.

    Parameters
    ----------
    files : sequence of Observations
        Measurements.
    targets : sequence of TargetSpec or None
        Target of each file.
    device : DeviceProfile
        Where.
    runtime : RuntimeProfile
        Calibrated.
    """
    return [
        _one(run, target, _context(file), device, runtime)
        for file, target in zip(files, targets, strict=True)
        for run in file.runs
    ]


def _context(file: Observations) -> float:
    """Context at which plain decoding of the file was timed; runs do not state their own."""
    plain = [each.context for each in file.passes if each.width == 1]
    return sum(plain) / len(plain) if plain else 0.0


def _one(
    run: SpeculativeRun,
    target: TargetSpec | None,
    context: float,
    device: DeviceProfile,
    runtime: RuntimeProfile,
) -> HeldOut:
    about: dict[str, Any] = {"where": run.where, "drafter": run.drafter, "draft_length": run.draft_length,
                             "task": run.task}  # fmt: skip
    length, tokens = run.draft_length, tokens_per_step(run)
    about |= {"tokens_per_step": tokens, "measured_speedup": measured_speedup(run)}
    if target is None:
        return HeldOut(**about, reason="the target is not known; name it with --target")
    if not length:
        return HeldOut(**about, reason="the file does not say the draft length")
    if tokens is None or not 1 <= tokens <= length + 1:
        given = "no acceptance in the file" if tokens is None else f"{tokens:.3g} tokens per step"
        return HeldOut(**about, reason=f"{given}; needed: 1 to {length + 1}")
    try:
        drafter = drafter_for(run.drafter, target)
        found = predict(
            device=device, target=target, drafter=drafter, runtime=runtime, draft_length=length,
            acceptance=acceptance_of(run, tokens, length), transfer=True, prompt_tokens=1.0,
            output_tokens=max(2.0, float(round(run.output_tokens or OUTPUT_TOKENS))),
            axes={"context": context},
        )  # fmt: skip
    except DraftscopeError as error:
        return HeldOut(**about, reason=str(error).partition(" Allowed")[0])
    low, high = found.intervals.get("speedup", (None, None))
    about |= {"predicted_speedup": found["speedup"], "low": low, "high": high}
    measured = about["measured_speedup"]
    if measured is None:
        return HeldOut(**about, status=PREDICTED, reason="no plain decoding in the file to compare with")
    if measured > tokens:
        return HeldOut(**about, status=INCONSISTENT, reason="the speedup exceeds the tokens per step")
    return HeldOut(**about, error=found["speedup"] / measured - 1, status=SCORED)


def tokens_per_step(run: SpeculativeRun) -> float | None:
    """Mean acceptance length, bonus included, from whatever the file counts; None where it does not."""
    if run.steps and run.output_tokens is not None:
        return run.output_tokens / run.steps
    if run.steps and run.accepted_tokens is not None:
        return 1 + run.accepted_tokens / run.steps
    if run.accepted_tokens is not None and run.output_tokens and run.output_tokens > run.accepted_tokens:
        return run.output_tokens / (run.output_tokens - run.accepted_tokens)
    if run.draft_length and len(run.per_position_acceptance_rate) >= run.draft_length:
        return 1 + sum(run.per_position_acceptance_rate[: run.draft_length])
    return None


def measured_speedup(run: SpeculativeRun) -> float | None:
    """Speed against plain decoding of the same file."""
    if not run.output_tokens or not run.decode_s or not run.baseline_tokens_per_s:
        return None
    return run.output_tokens / run.decode_s / run.baseline_tokens_per_s


def acceptance_of(run: SpeculativeRun, tokens: float, length: int) -> Acceptance:
    """Rates by position where the file has them for every draft, else the mean length."""
    rates = run.per_position_acceptance_rate[:length]
    if len(rates) == length:
        return PositionalAcceptance.from_unconditional(rates, kind="measured", label=run.where)
    return LengthAcceptance(length=tokens, at_draft_length=length, kind="measured")
