"""Calibrating this machine: the runtime to start from, and live runs beside what is then predicted.

Only the counts of a live run (context, drafts proposed and accepted in each step) enter its prediction, never
its times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from hw_profiles import load_runtime
from hw_profiles.cited import CitedValue
from hw_profiles.schema import Reference, RuntimeProfile
from simulator.acceptance.iid import LengthAcceptance
from simulator.acceptance.replay import StepTable
from simulator.acceptance.steps import StepTrace
from simulator.analytic import predict
from simulator.analytic.intervals import intervals_of
from simulator.drafters.base import DrafterModel
from simulator.lowering.finish import case_of_steps, metrics_of_case, number
from simulator.lowering.question import ask
from simulator.specs import TargetSpec

PRIOR, START = "prior_cpu", "start"
SOURCE = "draftscope_measure"
PLAIN = "none"
WIDE = 3.0
"""A floor of tiny matrices says the floor of real ones to within this factor."""

Sample = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Live:
    """One drafter at one draft length, all requests together.

    Attributes
    ----------
    drafter : str
    draft_length, requests : int
    tokens_per_step : float
        Tokens emitted by a step.
    measured_speedup, measured_low, measured_high : float
        Against plain decoding of the same requests in the same rounds; quartiles over the requests.
    predicted_speedup, low, high : float
        With the counts of every step; 90 % of the draws from the runtime's ranges.
    error : float
        predicted / measured - 1.
    predicted_from_length : float
        With the tokens per step alone, all ``draft_length`` drafts proposed in every step.
    draft_s, predicted_draft_s, verify_s, predicted_verify_s : float
        Of a step: drafting, and the rest.
    """

    drafter: str
    draft_length: int
    requests: int
    tokens_per_step: float
    measured_speedup: float
    measured_low: float
    measured_high: float
    predicted_speedup: float
    low: float
    high: float
    error: float
    predicted_from_length: float
    draft_s: float
    predicted_draft_s: float
    verify_s: float
    predicted_verify_s: float

    def record(self) -> dict[str, Any]:
        """All of it, in a fixed order."""
        return dict(vars(self))


def start_runtime(
    samples: Sequence[Sample], *, target: TargetSpec, drafters: Sequence[DrafterModel], about: str
) -> RuntimeProfile:
    """Prior of the calibration: any CPU stack, with the floors that tiny models showed.

    Parameters
    ----------
    samples : sequence of mapping
        Of :func:`reference_impl.measure.measure`.
    target : TargetSpec
        Its bytes are those of a large model here.
    drafters : sequence of DrafterModel
        Those with passes are the small models.
    about : str
        Software and machine, for the profile.
    """
    layers = {n: median(s["seconds"] for s in samples if s["kind"] == "floor" and s["layers"] == n)
              for n in {s["layers"] for s in samples if s["kind"] == "floor"}}  # fmt: skip
    few, many = min(layers), max(layers)
    per_layer = max(layers[many] - layers[few], 0.0) / (many - few)
    per_pass = max(layers[few] - few * per_layer, 1e-6)
    host = median(s["seconds"] for s in samples if s["kind"] == "step_host")
    prior = load_runtime(PRIOR)
    tiny = f"Passes of models of {few} and {many} layers with hardly any weights; real ones within a factor."
    small = [sum(op.weight_bytes for op in each.draft_ops) for each in drafters if each.draft_ops]
    sizes = {} if not small else {
        "large_model_bytes": _cited(prior.large_model_bytes, target.streamed_bytes(), 1.0, "The target."),
        "small_model_bytes": _cited(prior.small_model_bytes, max(small), 1.0, "The largest drafter."),
    }  # fmt: skip
    everything = "Any share of the bandwidth that was measured."
    return prior.model_copy(update={
        **sizes,
        "id": START, "name": "Start of a calibration of this machine", "devices": ("*",),
        "kernel_family": "PyTorch on a CPU: one launch an operation", "notes": about,
        "mbu_large": _cited(prior.mbu_large, 0.6, 1 / 0.6, everything),
        "mbu_small": _cited(prior.mbu_small, 0.6, 1 / 0.6, everything),
        "mbu_kv": _cited(prior.mbu_kv, 0.35, 1 / 0.35, everything),
        "floor_per_pass_s": _cited(prior.floor_per_pass_s, per_pass, WIDE, tiny),
        "floor_per_layer_s": _cited(prior.floor_per_pass_s, per_layer, WIDE, tiny),
        "floor_per_draft_pass_s": _cited(prior.floor_per_draft_pass_s, per_pass, WIDE, tiny),
        "floor_per_step_s": _cited(prior.floor_per_step_s, host, WIDE, "Comparing drafts, timed alone."),
        "references": {SOURCE: Reference(title="draftscope measure", note=about)},
    })  # fmt: skip


def _cited(like: CitedValue[Any], value: float, factor: float, note: str) -> CitedValue[Any]:
    return like.model_copy(update={
        "value": value, "low": value / factor, "high": value * factor, "kind": "assumed", "source": SOURCE,
        "formula": None, "note": note,
    })  # fmt: skip


def live_runs(
    samples: Sequence[Sample],
    *,
    device: str,
    target: str,
    runtime: RuntimeProfile | str,
    drafters: Mapping[str, str],
) -> list[Live]:
    """Measured and predicted speedup of every drafter and draft length.

    Parameters
    ----------
    samples : sequence of mapping
        Of :func:`reference_impl.measure.measure`.
    device, target : str
        Names for the prediction.
    runtime : RuntimeProfile or str
        Calibrated.
    drafters : mapping of str to str
        Name in the samples -> name for the prediction.
    """
    runs = [each for each in samples if each["kind"] == "run" and each["output_tokens"]]
    plain: dict[str, list[float]] = defaultdict(list)
    arms: dict[tuple[str, int], list[Sample]] = defaultdict(list)
    for each in runs:
        if each["drafter"] == PLAIN:
            plain[each["request"]].append(each["seconds"] / each["output_tokens"])
        else:
            arms[each["drafter"], each["draft_length"]].append(each)
    per_token = {request: median(values) for request, values in plain.items()}
    order = list(drafters)
    where = {"device": device, "target": target, "runtime": runtime}
    return [
        _live(arms[arm], per_token, {**where, "drafter": drafters[arm[0]]})
        for arm in sorted(arms, key=lambda arm: (order.index(arm[0]), arm[1]))
    ]


def steps_of(runs: Sequence[Sample]) -> StepTable:
    """Steps of live runs, one request after the other."""
    rows = [(run["request"], run["task"], *step) for run in runs for step in run["steps"]]
    columns = (np.array(column) for column in zip(*rows, strict=True))
    request, task, context, proposed, accepted, emitted = columns
    return StepTrace(
        target_id="", drafter_id="", origin="draftscope measure",
        columns={"request_id": request, "task": task, "context": context, "proposed": proposed,
                 "accepted": accepted, "draft_passes": proposed, "verify_width": proposed + 1,
                 "emitted": emitted},
    ).table()  # fmt: skip


def _live(runs: Sequence[Sample], per_token: Mapping[str, float], where: Mapping[str, Any]) -> Live:
    length, table = runs[0]["draft_length"], steps_of(runs)
    steps, tokens = len(table), sum(run["output_tokens"] for run in runs)
    seconds = sum(run["seconds"] for run in runs)
    alone = [run["output_tokens"] * per_token[run["request"]] / run["seconds"] for run in runs]
    measured = sum(run["output_tokens"] * per_token[run["request"]] for run in runs) / seconds
    asked = ask(
        **where, acceptance=0.0, draft_length=length, engine="cpu", draft_runtime=None, draft_engine=None,
        scenario=None, prompt_tokens=None, output_tokens=None, batch=None, task=None, axes=None,
        transfer=True,
    )  # fmt: skip
    case = case_of_steps(asked.bind(), table)
    metrics = {name: number(value) for name, value in metrics_of_case(case, ledger=False)[0].items()}
    spans = intervals_of(asked, case, metrics, length_range=None, rng=np.random.default_rng(0), draws=256)
    predicted = float(metrics["speedup"])
    low, high = spans.get("speedup", (predicted, predicted))
    draft_s = sum(run["draft_s"] for run in runs)
    return Live(
        drafter=runs[0]["drafter"], draft_length=length, requests=len(runs), tokens_per_step=tokens / steps,
        measured_speedup=measured, measured_low=float(np.quantile(alone, 0.25)),
        measured_high=float(np.quantile(alone, 0.75)), predicted_speedup=predicted, low=low, high=high,
        error=predicted / measured - 1,
        predicted_from_length=_from_length(runs, tokens / steps, length, where),
        draft_s=draft_s / steps, predicted_draft_s=float(metrics["draft_time_s"]),
        verify_s=(seconds - draft_s) / steps,
        predicted_verify_s=float(metrics["verify_time_s"] + metrics["host_time_s"]),
    )  # fmt: skip


def _from_length(
    runs: Sequence[Sample], tokens_per_step: float, length: int, where: Mapping[str, Any]
) -> float:
    prompt = sum(run["prompt_tokens"] for run in runs) / len(runs)
    output = 1 + sum(run["output_tokens"] for run in runs) / len(runs)
    tau = min(max(tokens_per_step, 1.0), length + 1.0)
    found = predict(
        **where, acceptance=LengthAcceptance(length=tau, at_draft_length=length, kind="measured"),
        draft_length=length, prompt_tokens=prompt, output_tokens=max(output, 2.0), intervals=False,
    )  # fmt: skip
    return float(found["speedup"])
