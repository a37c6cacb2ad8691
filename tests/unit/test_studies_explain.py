"""The study behind ``draftscope explain``: sums, sensitivities, causes injected one at a time."""

from __future__ import annotations

import numpy as np
import pytest

from hw_profiles import load_device, load_runtime
from simulator.acceptance.iid import IidAcceptance
from simulator.analytic import predict
from simulator.errors import DraftscopeError
from simulator.studies.explain import EITHER, LOSES, PAYS, explain
from simulator.studies.explain_case import ACCEPTANCE as LENGTH
from simulator.studies.explain_case import Asked
from simulator.studies.explain_causes import (
    ACCEPTANCE,
    BANDWIDTH,
    CLIFF,
    COUNTER,
    DISPATCH,
    FAULT,
    HEAT,
    HOST_TIME,
    PLAIN_PASS,
    SAMPLING,
    WORST_ROW,
    sustained_share,
)
from simulator.studies.explain_measured import Measured, Point

CASE = {
    "device": "pixel_10_pro",
    "runtime": "tuned_cpu",
    "target": "gemma_4_e2b",
    "drafter": "gemma_4_e2b_assistant",
    "prompt_tokens": 256,
    "output_tokens": 257,
}
LENGTHS = (1, 2, 3, 4, 6, 8)


def case(**changes):
    return {**CASE, "acceptance": IidAcceptance(acceptance_rate=0.7), "draft_length": 3, **changes}


def points(asked, axes=None, *, factor=1.0, lengths=LENGTHS, counted=True):
    """Measurements made by the model itself with other inputs."""
    found = []
    for length in lengths:
        metrics = asked.metrics(length, axes)
        tokens = float(metrics["mean_acceptance_length"]) if counted else None
        found.append(
            Point(draft_length=length, speedup=float(metrics["speedup"]) * factor, tokens_per_pass=tokens)
        )
    return tuple(found)


def baseline(asked, axes=None):
    return float(asked.metrics(1, axes)["baseline_decode_tokens_per_s"])


def test_the_parts_of_a_step_and_the_result_are_those_of_predict():
    arguments = case()
    found, alone = explain(**arguments), predict(**arguments)
    assert found.result.to_dict() == alone.to_dict()
    for phase in ("draft", "verify", "host"):
        seconds = sum(part.seconds for part in found.time if part.phase == phase)
        assert seconds == pytest.approx(alone[f"{phase}_time_s"], rel=1e-9)
    moved = sum(row.draft + row.verify for row in found.bytes)
    assert moved == pytest.approx(alone["bytes_per_token"] * alone["tokens_per_step"], rel=1e-9)


def test_break_even_rate_gives_a_speedup_of_one():
    arguments = case(draft_length=2)
    found = explain(**arguments)
    rate = found.break_even.acceptance_rate
    assert 0.0 < rate < 1.0
    at_rate = predict(**{**arguments, "acceptance": rate}, intervals=False)
    assert at_rate["speedup"] == pytest.approx(1.0, abs=1e-6)


def test_no_acceptance_is_enough_where_rows_cost_more_than_passes():
    found = explain(**case(runtime="tuned_gpu_f16", draft_length=3))
    assert found.break_even.acceptance_rate is None
    assert found.stance == LOSES
    assert found.best.draft_length < 3


def test_stances_follow_the_interval():
    assert explain(**case(runtime="litert_lm_tpu", draft_length=3)).stance == PAYS
    wide = explain(**case(runtime="litert_lm_tpu", acceptance=IidAcceptance(
        acceptance_rate=0.1, low=0.0, high=0.6)))  # fmt: skip
    assert wide.stance == EITHER


def test_sensitivity_is_one_input_at_a_time():
    found = explain(**case(acceptance=IidAcceptance(acceptance_rate=0.7, low=0.5, high=0.8)))
    by_name = {each.input: each for each in found.sensitivity}
    assert LENGTH in by_name
    swings = [each.swing for each in found.sensitivity]
    assert swings == sorted(swings, reverse=True)
    assert len(swings) == 5
    curve = by_name["verify_curve"]
    profile = Asked(**case()).question.lowered.inputs["verify_curve"]
    at_high = predict(**case(), axes={"verify_curve": profile.high}, intervals=False)
    assert curve.speedup_high == pytest.approx(at_high["speedup"], rel=1e-9)
    assert curve.low <= curve.value <= curve.high


def test_the_best_length_agrees_with_the_curve():
    found = explain(**case())
    fastest = max(found.curve, key=lambda point: point.speedup)
    assert found.best.draft_length == fastest.draft_length
    assert found.best.low <= found.best.draft_length <= found.best.high
    assert 0.0 < found.best.share <= 1.0


def test_plain_decoding_is_best_where_every_length_loses():
    found = explain(**case(acceptance=0.0))
    assert found.best.draft_length == 0
    assert found.stance == LOSES


def test_plain_decoding_is_refused():
    with pytest.raises(DraftscopeError, match="a drafter and a draft length >= 1"):
        explain(**case(drafter="none", acceptance=None, draft_length=0))


# One cause at a time is injected; the prediction does not know of it. Its name must come first.


def residual(arguments, measured):
    return explain(**arguments, measured=measured, lengths=(), draws=16).residual


def test_no_cause_is_no_gap():
    asked = Asked(**case())
    found = residual(case(), Measured(points=points(asked), baseline_tokens_per_s=baseline(asked)))
    assert found.status == "agrees"
    assert found.anchor == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("start", [3, 5])
def test_a_cliff_comes_first_with_its_width(start):
    """Passes of this width and wider cost twice as much: a switch to another kernel."""
    asked = Asked(**case())
    found = []
    for length in LENGTHS:
        metrics = asked.metrics(length)
        extra = metrics["verify_time_s"] if length + 1 >= start else 0.0
        slower = metrics["step_time_s"] / (metrics["step_time_s"] + extra)
        found.append(Point(draft_length=length, speedup=float(metrics["speedup"] * slower),
                           tokens_per_pass=float(metrics["mean_acceptance_length"])))  # fmt: skip
    gap = residual(case(), Measured(points=tuple(found), baseline_tokens_per_s=baseline(asked)))
    first = gap.causes[0]
    assert (first.cause, first.from_width) == (CLIFF, start)
    assert first.needed == pytest.approx(2 * first.predicted, rel=0.05)
    assert gap.status == "stretched"


def test_the_whole_verify_curve_inside_its_range_explains_the_gap():
    asked = Asked(**case(runtime="litert_lm_tpu"))
    curve = asked.question.lowered.inputs["verify_curve"]
    measured = Measured(
        points=points(asked, {"verify_curve": curve.drawn(0.9)}), baseline_tokens_per_s=baseline(asked)
    )
    gap = residual(case(runtime="litert_lm_tpu"), measured)
    first = gap.causes[0]
    assert (first.cause, first.allowed) == (CLIFF, True)
    assert gap.status in ("inside", "explained")
    assert first.low < first.predicted < first.needed < first.high


def test_slow_small_matrices_come_first():
    """A drafter of many bytes on a runtime whose launches cost little."""
    arguments = case(drafter="standalone_128m", axes={"floor_per_draft_pass_s": 1e-4, "host_per_row_s": 1e-5})
    asked = Asked(**arguments)
    value = asked.question.lowered.inputs["mbu_small"].value
    slow = {f"draft_mbu_{name}": value / 2 for name in ("small", "large", "kv")}
    measured = Measured(points=points(asked, slow), baseline_tokens_per_s=baseline(asked))
    gap = residual(arguments, measured)
    first = gap.causes[0]
    assert first.cause == BANDWIDTH
    assert first.needed == pytest.approx(first.predicted / 2, rel=0.05)


def test_slow_launches_come_first():
    asked = Asked(**case())
    measured = Measured(
        points=points(asked, {"draft_floor_per_draft_pass_s": 0.012}), baseline_tokens_per_s=baseline(asked)
    )
    first = residual(case(), measured).causes[0]
    assert first.cause == DISPATCH
    assert first.needed == pytest.approx(12.0, rel=0.05)


@pytest.mark.parametrize(
    ("name", "drafter"), [("floor_per_step_s", "gemma_4_e2b_assistant"), ("host_s_per_step", "ngram")]
)
def test_host_overhead_comes_first(name, drafter):
    arguments = case(runtime="tuned_npu", drafter=drafter)
    asked = Asked(**arguments)
    before = asked.question.lowered.inputs[name].value
    measured = Measured(points=points(asked, {name: before + 0.008}), baseline_tokens_per_s=baseline(asked))
    gap = residual(arguments, measured)
    first = gap.causes[0]
    assert first.cause == HOST_TIME
    assert first.needed - first.predicted == pytest.approx(8.0, rel=0.05)


def test_sampling_comes_first_where_its_range_is_wide_and_that_of_the_kernels_is_not():
    """Host time and kernels of a row look alike over K: the ranges decide."""
    runtime = load_runtime("tuned_npu")
    narrow = runtime.model_copy(update={
        "verify_curve": runtime.verify_curve.model_copy(update={"low": None, "high": None}),
        "host_per_row_s": runtime.host_per_row_s.model_copy(update={"high": 0.01}),
    })  # fmt: skip
    arguments = case(runtime=narrow, drafter="ngram")
    asked = Asked(**arguments)
    before = runtime.host_per_row_s.value
    measured = Measured(
        points=points(asked, {"host_per_row_s": before + 0.008}), baseline_tokens_per_s=baseline(asked)
    )
    gap = residual(arguments, measured)
    assert (gap.status, gap.causes[0].cause) == ("explained", SAMPLING)


def test_heat_comes_first_after_long_load_and_not_after_a_short_one():
    asked = Asked(**case())
    hot = points(asked, factor=0.7)
    gaps = [
        residual(case(), Measured(points=hot, baseline_tokens_per_s=baseline(asked), busy_s=seconds))
        for seconds in (900.0, 1.0)
    ]
    assert (gaps[0].causes[0].cause, gaps[0].status) == (HEAT, "explained")
    assert gaps[0].causes[0].needed == pytest.approx(0.7, rel=0.02)
    cool = next(each for each in gaps[1].causes if each.cause == HEAT)
    assert not cool.allowed
    assert cool.covers < 0.05


def test_heat_grows_with_time_to_the_sustained_fraction():
    device = load_device("pixel_10_pro")
    fractions = [sustained_share(device, seconds) for seconds in (0.0, 60.0, 600.0, 1e6)]
    assert fractions == sorted(fractions, reverse=True)
    assert fractions[0] == 1.0
    assert fractions[-1] == pytest.approx(device.thermal.sustained_fraction.low)


def test_counted_acceptance_comes_first():
    asked, other = Asked(**case()), Asked(**case(acceptance=0.35))
    measured = Measured(points=points(other), baseline_tokens_per_s=baseline(asked))
    first = residual(case(), measured).causes[0]
    assert (first.cause, first.allowed) == (ACCEPTANCE, True)
    assert first.covers > 0.99


def test_uncounted_acceptance_comes_first():
    asked, other = Asked(**case()), Asked(**case(acceptance=0.35))
    measured = Measured(points=points(other, counted=False), baseline_tokens_per_s=baseline(asked))
    first = residual(case(), measured).causes[0]
    assert (first.cause, first.cited) == (ACCEPTANCE, False)
    length = LENGTHS[int(np.argmax([abs(np.log(asked.speedup(k) / other.speedup(k))) for k in LENGTHS]))]
    wanted = float(other.metrics(length)["mean_acceptance_length"])
    assert first.needed == pytest.approx(wanted, rel=0.05)


def test_other_plain_decoding_comes_first_where_it_was_not_measured():
    """The speculative step takes its predicted time, but plain decoding is faster than predicted."""
    asked = Asked(**case())
    value = asked.question.lowered.inputs["mbu_large"].value
    held = {f"draft_mbu_{name}": asked.question.lowered.inputs[f"mbu_{name}"].value
            for name in ("small", "large", "kv")}  # fmt: skip
    measured = Measured(points=points(asked, {"mbu_large": value * 1.6, **held}))
    gap = residual(case(), measured)
    assert PLAIN_PASS in [each.cause for each in gap.causes]
    anchored = residual(case(), Measured(points=measured.points, baseline_tokens_per_s=baseline(asked)))
    assert PLAIN_PASS not in [each.cause for each in anchored.causes]


@pytest.mark.parametrize(("speedup", "tokens"), [(2.6, 2.4), (4.5, None), (1.5, 4.2), (1.5, 0.9)])
def test_impossible_counts_are_never_fitted(speedup, tokens):
    measured = Measured(points=(Point(draft_length=3, speedup=speedup, tokens_per_pass=tokens),))
    gap = residual(case(), measured)
    assert gap.status == "inconsistent"
    assert [each.cause for each in gap.causes] == [COUNTER]
    assert gap.points[0]["step_time_s"] is None


def test_a_counter_that_says_all_were_accepted_comes_first():
    """The counter saw fully accepted steps only; the speed is that of the predicted acceptance."""
    asked = Asked(**case())
    lying = tuple(Point(draft_length=p.draft_length, speedup=p.speedup, tokens_per_pass=p.draft_length + 1.0)
                  for p in points(asked))  # fmt: skip
    gap = residual(case(), Measured(points=lying, baseline_tokens_per_s=baseline(asked)))
    first = gap.causes[0]
    assert first.cause == COUNTER
    length = gap.at
    assert first.needed == pytest.approx(asked.metrics(length)["mean_acceptance_length"], rel=0.05)


def test_what_no_input_can_reach_is_a_fault():
    asked = Asked(**case())
    gap = residual(case(), Measured(points=points(asked, factor=0.15), baseline_tokens_per_s=baseline(asked)))
    assert (gap.status, gap.causes[0].cause) == ("unexplained", FAULT)
    measured = next(point for point in gap.points if point["draft_length"] == gap.at)["measured"]
    assert gap.reach > measured
    assert gap.causes[0].covers == pytest.approx(1 - measured / gap.reach, abs=1e-9)


def test_the_worst_row_is_that_of_the_worst_published_kernel():
    high = load_runtime("tuned_gpu_f16").verify_curve.high
    assert max(cost / width for width, cost in high) == pytest.approx(WORST_ROW)


def test_a_measured_baseline_anchors_the_prediction():
    asked = Asked(**case())
    peak = asked.question.lowered.inputs["peak_bandwidth_bytes_per_s"].value
    faster = {
        "peak_bandwidth_bytes_per_s": 2 * peak,
        "macs_per_s_scale": 2.0,
        "draft_macs_per_s_scale": 2.0,
    }
    measured = Measured(points=points(asked, faster), baseline_tokens_per_s=baseline(asked, faster))
    gap = residual(case(), measured)
    assert gap.anchor == pytest.approx(2.0, rel=1e-6)
    assert gap.plain_predicted == pytest.approx(baseline(asked), rel=1e-9)


def test_a_baseline_that_the_floors_forbid_is_not_anchored():
    asked = Asked(**case())
    gap = residual(case(), Measured(points=points(asked), baseline_tokens_per_s=1e6))
    assert gap.anchor is None


@pytest.mark.parametrize("lengths", [(), (3, 2), (2, 2), (0,)])
def test_measured_lengths_must_rise(lengths):
    with pytest.raises(DraftscopeError, match="different, rising, >= 1"):
        Measured(points=tuple(Point(draft_length=length, speedup=1.0) for length in lengths))


@pytest.mark.parametrize("speedup", [0.0, -1.0, float("nan"), float("inf")])
def test_measured_speedups_are_positive(speedup):
    with pytest.raises(DraftscopeError, match="a number > 0"):
        Measured(points=(Point(draft_length=1, speedup=speedup),))
