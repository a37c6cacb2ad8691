"""Single passes for the roofline and the verify curves; it does not know how many tokens a pass yields."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from hw_profiles import load_runtime
from simulator.lowering import Lowered, lower_cached
from simulator.lowering.params import CostParams, PassCost
from simulator.physics.roofline import mbu_of_model, ridge_point_macs_per_byte
from simulator.specs import Scenario

Record = dict[str, Any]
WIDTHS = tuple(range(1, 10))
DRAWS = 128


def roofline_records(
    *, device: str, runtime: str, engine: str, target: str, drafters: Iterable[tuple[str, str]],
    prompt_tokens: float, output_tokens: float,
) -> tuple[list[Record], Record]:  # fmt: skip
    """Passes of a target and its drafters in the roofline of an engine, at the middle of a response.

    Parameters
    ----------
    device, runtime, engine, target : str
        Where.
    drafters : iterable of (str, str)
        Instance and label.
    prompt_tokens, output_tokens : float
        Request; the context is that of the middle of the response.

    Returns
    -------
    passes : list of dict
        drafter, pass, label, width, macs_per_byte, macs_per_s, bytes, time_s.
    roof : dict
        Points of the roof, of the bandwidth that the runtime reaches, and the ridge.
    """
    context = prompt_tokens + output_tokens / 2

    def bound(drafter: str) -> CostParams:
        asked = Scenario(prompt_tokens=prompt_tokens, output_tokens=output_tokens,
                         draft_length=0 if drafter == "none" else 1)  # fmt: skip
        return _lowered(device, runtime, engine, target, drafter).bind(asked)

    plain = bound("none")
    passes = [_pass(plain, "none", "plain", "plain pass of the target", 1, context)]
    passes += [_pass(plain, "none", "verify", "verify passes, widths 2 to 9", width, context)
               for width in WIDTHS[1:]]  # fmt: skip
    for name, label in drafters:
        params = bound(name)
        if not params.draft_pass.empty and params.passes_per_step != "none":
            passes.append(_pass(params, name, "draft", f"draft pass: {label}", 1, context))
    return passes, _roof(plain)


def _pass(params: CostParams, drafter: str, kind: str, label: str, width: int, context: float) -> Record:
    verify = kind != "draft"
    cost: PassCost = params.verify_cost(width) if verify else params.draft_cost(width)
    macs = float(params.macs(verify=verify, width=width).at(context))
    moved, time_s = float(cost.bytes_moved.at(context)), float(cost.time_at(context))
    return {"drafter": drafter, "pass": kind, "label": label, "width": width, "bytes": moved, "macs": macs,
            "time_s": time_s, "macs_per_byte": macs / moved, "macs_per_s": macs / time_s}  # fmt: skip


def _roof(params: CostParams) -> Record:
    side, bandwidth = params.target_side, float(params.peak_bandwidth_bytes_per_s)
    dtype = max(params.target_pass.macs_per_row, key=lambda name: params.target_pass.macs_per_row[name])
    rate = float(side.macs_per_s[dtype])
    reached = bandwidth * float(mbu_of_model(
        model_bytes=params.target_pass.weight_bytes, mbu_small=side.mbu_small, mbu_large=side.mbu_large,
        small_model_bytes=side.small_model_bytes, large_model_bytes=side.large_model_bytes,
    ))  # fmt: skip
    ridge = float(ridge_point_macs_per_byte(macs_per_s=rate, bandwidth_bytes_per_s=bandwidth))
    points = [0.1, ridge, max(10 * ridge, 1000.0)]
    return {
        "dtype": dtype, "peak_bandwidth_bytes_per_s": bandwidth, "achieved_bandwidth_bytes_per_s": reached,
        "peak_macs_per_s": rate, "ridge_macs_per_byte": ridge, "macs_per_byte": points,
        "macs_per_s": [min(rate, bandwidth * x) for x in points],
        "achieved_macs_per_s": [min(rate, reached * x) for x in points],
    }  # fmt: skip


def verify_records(
    *, device: str, runtimes: Iterable[str], target: str, context: float, rng: np.random.Generator
) -> list[Record]:
    """Verify cost ratio v(w) of a target under each runtime, with the range that the cited inputs give.

    Parameters
    ----------
    device, target : str
        Where.
    runtimes : iterable of str
        Runtimes for the device.
    context : float
        Cached tokens.
    rng : numpy.random.Generator
        For the range: the middle 90 % of draws of the runtime's inputs.
    """
    records: list[Record] = []
    for runtime in runtimes:
        lowered = _lowered(device, runtime, None, target, "none")
        asked = Scenario(prompt_tokens=1, output_tokens=2)
        middle = lowered.bind(asked)
        drawn = lowered.bind(asked, **lowered.draw(rng, DRAWS))
        for width in WIDTHS:
            low, high = np.quantile(np.atleast_1d(_ratio(drawn, width, context)), [0.05, 0.95])
            value = float(_ratio(middle, width, context))
            records.append({
                "device": lowered.ids["device"], "target": lowered.ids["target"],
                "runtime": lowered.ids["runtime"], "label": load_runtime(runtime).name,
                "width": width, "verify_cost_ratio": value,
                "verify_cost_ratio_low": min(float(low), value),
                "verify_cost_ratio_high": max(float(high), value),
            })  # fmt: skip
    return records


def _ratio(params: CostParams, width: int, context: float) -> Any:
    return params.verify_cost(width).time_at(context) / params.verify_cost(1).time_at(context)


def _lowered(device: str, runtime: str, engine: str | None, target: str, drafter: str) -> Lowered:
    return lower_cached(device=device, runtime=runtime, engine=engine, target=target, drafter=drafter)
