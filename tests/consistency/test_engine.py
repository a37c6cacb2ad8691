"""The engine lives through what the closed form sums: equal for fixed steps, on average for drawn ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simulator.acceptance import IidAcceptance, PositionalAcceptance
from simulator.analytic import predict
from simulator.engine import simulate
from simulator.lowering import lower
from simulator.results import METRICS
from simulator.specs import Scenario
from tests.engine_samples import (
    DRAFTERS,
    PIXEL_CASES,
    assert_equal,
    drafter_model,
    first_target,
    random_steps,
)
from tests.trace_samples import random_trace


def both(**case):
    return simulate(**case), predict(**case, intervals=False)


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_fixed_steps_every_drafter_every_length(drafter, rng):
    for length in range(9):
        device, runtime, engine = PIXEL_CASES[length % len(PIXEL_CASES)]
        acceptance = random_steps(rng, length, [23, 1, 40], short=drafter in ("ngram", "suffix"))
        simulated, predicted = both(
            device=device, runtime=runtime, engine=engine, draft_length=length, target=first_target(drafter),
            drafter=drafter, acceptance=acceptance,
        )  # fmt: skip
        assert_equal(simulated, predicted)
        assert simulated.method == "engine"
        assert simulated.seed is None
        assert simulated.intervals == {}


@pytest.mark.parametrize(("device", "runtime", "engine"), PIXEL_CASES)
@pytest.mark.parametrize("drafter", ["frozen_mtp_nano", "mtp_own_kv_nano", "standalone_128m", "ngram"])
def test_fixed_steps_every_runtime(device, runtime, engine, drafter, rng):
    acceptance = random_steps(rng, 3, [30, 17])
    simulated, predicted = both(device=device, runtime=runtime, engine=engine, target="gemma_3n_e2b",
                                drafter=drafter, draft_length=3, acceptance=acceptance)  # fmt: skip
    assert_equal(simulated, predicted)


@pytest.mark.parametrize("options", [
    {"prompt_tokens": 500},
    {"scenario": Scenario(prompt_tokens=90.5, output_tokens=2, draft_length=4, batch=8)},
    {"scenario": Scenario(prompt_tokens=90, output_tokens=2, draft_length=4, context=1000.0)},
    {"axes": {"floor_per_step_s": 1e-3, "host_s_per_step": 2e-3, "peak_bandwidth_bytes_per_s": 3e10}},
    {"runtime": "litert_lm_tpu", "draft_runtime": "tuned_cpu"},
    {"runtime": "ideal", "engine": "tpu", "draft_engine": "cpu"},
], ids=["longer prompt", "batch", "fixed context", "axes", "two runtimes", "two engines"])  # fmt: skip
def test_fixed_steps_with_options(options, rng):
    case = {"device": "pixel_9", "target": "gemma_4_e2b", "drafter": "standalone_128m", "draft_length": 4,
            "acceptance": random_steps(rng, 4, [12, 33], prompt_tokens=480)}  # fmt: skip
    assert_equal(*both(**{**case, **options}))


def test_windows_that_fill_up_while_decoding(rng):
    acceptance = random_steps(rng, 5, [60, 80], prompt_tokens=480)
    for drafter in ("gemma_4_e2b_assistant", "mtp_own_kv_nano"):
        assert_equal(*both(device="pixel_10", target=first_target(drafter), drafter=drafter, draft_length=5,
                           acceptance=acceptance))  # fmt: skip


def test_confidence_stop_and_one_pass_drafters(rng):
    stopping = random_steps(rng, 6, [40, 20], short=True, confidence_stop=True)
    case = {"device": "pixel_9", "target": "gemma_3n_e2b", "draft_length": 6, "acceptance": stopping}
    for name in ("frozen_mtp_nano", "mtp_own_kv_nano"):
        assert_equal(*both(drafter=name, **case))
    block = replace(drafter_model("frozen_mtp_nano", "gemma_3n_e2b"), passes_per_step="one")
    assert_equal(*both(drafter=block, **case))


@pytest.mark.parametrize("length", [0, 1, 4, 8])
def test_trace(length, rng):
    changes = {"target_id": "smollm2_135m", "drafter_id": "mtp_head"}
    trace = random_trace(rng, [1, 30, 2, 45, 12], short_proposals=True, metadata=changes)
    for options in ({}, {"task": "code"}, {"prompt_tokens": 300}):
        assert_equal(*both(device="pixel_9", target="smollm2_135m", drafter="smollm2_mtp_head",
                           draft_length=length, acceptance=trace, **options))  # fmt: skip


def test_plain_decoding_needs_no_acceptance_and_draws_nothing():
    for drafter in ("none", "gemma_4_e2b_assistant"):
        simulated, predicted = both(device="pixel_9", target="gemma_4_e2b", drafter=drafter, draft_length=0,
                                    prompt_tokens=100, output_tokens=30)  # fmt: skip
        assert_equal(simulated, predicted)
        assert simulated["speedup"] == pytest.approx(1.0, rel=1e-12)
        assert simulated.seed is None
        assert simulated.inputs["requests"] == 1


DRAWN = [
    ("gemma_4_e2b", "gemma_4_e2b_assistant", 4, 0.7, None),
    ("gemma_4_e2b", "standalone_128m", 3, 0.85, None),
    ("gemma_3n_e2b", "mtp_own_kv_nano", 2, 0.5, "ideal"),
    ("gemma_3n_e2b", "frozen_mtp_nano", 6, 0.9, "tuned_cpu"),
    ("smollm2_135m", "ngram", 5, 0.3, "litert_lm_gpu_mali"),
    ("gemma_4_e2b", "ngram", 8, 0.95, None),
]
COMPARED = ("decode_tokens_per_s", "speedup", "steps", "mean_acceptance_length", "draft_acceptance_rate",
            "step_time_s", "draft_time_s", "tpot_s", "request_time_s", "energy_per_token_j", "energy_saving",
            "average_power_w", "bytes_per_token", "tokens_per_step")  # fmt: skip


@pytest.mark.parametrize(("target", "drafter", "length", "alpha", "runtime"), DRAWN)
def test_closed_form_lies_inside_the_interval_of_drawn_steps(target, drafter, length, alpha, runtime):
    case = {"device": "pixel_9", "runtime": runtime, "target": target, "drafter": drafter,
            "draft_length": length, "acceptance": alpha, "prompt_tokens": 100,
            "output_tokens": 60}  # fmt: skip
    simulated = simulate(**case, replications=120, seed=7)
    predicted = predict(**case, intervals=False)
    for name in COMPARED:
        if name in simulated.intervals:
            low, high = simulated.intervals[name]
            assert low < simulated[name] < high, name
            assert low <= predicted[name] <= high, name
            assert simulated[name] == pytest.approx(predicted[name], rel=0.1), name
        else:
            assert simulated[name] == pytest.approx(predicted[name], rel=1e-9), name
    assert {"speedup", "steps", "energy_per_token_j"} <= set(simulated.intervals)
    shares = (simulated.energy_ledger["rejected_share"], predicted.energy_ledger["rejected_share"])
    assert shares[0] == pytest.approx(shares[1], rel=0.1)
    for ledger in ("rail", "phase"):
        assert simulated.energy_ledger[ledger] == pytest.approx(predicted.energy_ledger[ledger], rel=0.1)


def test_intervals_cover_the_closed_form_as_often_as_they_say():
    case = {"device": "pixel_9", "target": "gemma_4_e2b", "drafter": "ngram", "draft_length": 3,
            "acceptance": 0.6, "prompt_tokens": 50, "output_tokens": 25}  # fmt: skip
    expected = predict(**case, intervals=False)
    inside = dict.fromkeys(("speedup", "mean_acceptance_length", "energy_per_token_j"), 0)
    for seed in range(40):
        found = simulate(**case, replications=12, seed=seed)
        for name in inside:
            low, high = found.intervals[name]
            inside[name] += low <= expected[name] <= high
    for name, hits in inside.items():
        assert hits >= 35, f"{name}: {hits} of 40 intervals hold the expectation; 38 are expected"


def test_positional_acceptance_and_a_response_of_a_few_tokens():
    model = PositionalAcceptance(conditional_rates=(0.9, 0.6, 0.3))
    case = {"device": "pixel_10", "target": "gemma_4_e2b", "drafter": "gemma_4_e2b_assistant",
            "draft_length": 3, "acceptance": model, "prompt_tokens": 20, "output_tokens": 6}  # fmt: skip
    simulated, predicted = simulate(**case, replications=400, seed=1), predict(**case, intervals=False)
    for name in ("steps", "speedup", "mean_acceptance_length"):
        low, high = simulated.intervals[name]
        assert low <= predicted[name] <= high


def test_certain_acceptance_and_certain_rejection_have_no_spread():
    case = {"device": "pixel_9", "target": "gemma_4_e2b", "drafter": "gemma_4_e2b_assistant",
            "draft_length": 3, "prompt_tokens": 20, "output_tokens": 42}  # fmt: skip
    for alpha in (0.0, 1.0):
        simulated, predicted = (simulate(**case, acceptance=alpha, replications=3),
                                predict(**case, acceptance=alpha, intervals=False))  # fmt: skip
        assert_equal(simulated, predicted)
        assert simulated.intervals == {}


def test_engine_takes_what_lower_gives(rng):
    """Loaded objects instead of names."""
    lowered = lower(device="pixel_9", target="gemma_4_e2b", drafter="ngram")
    acceptance = random_steps(rng, 2, [9])
    named = simulate(device="pixel_9", target="gemma_4_e2b", drafter="ngram", draft_length=2,
                     acceptance=acceptance)  # fmt: skip
    loaded = simulate(device="pixel_9", target="gemma_4_e2b", drafter=lowered.drafter, draft_length=2,
                      acceptance=acceptance)  # fmt: skip
    assert loaded == named


def test_simulation_gives_every_metric_of_the_registry_percentiles_too():
    result = simulate(device="pixel_9", target="gemma_4_e2b", drafter="ngram", draft_length=2,
                      acceptance=IidAcceptance(acceptance_rate=0.5), prompt_tokens=9,
                      output_tokens=9, replications=30, steps=True)  # fmt: skip
    assert set(result.metrics) == set(METRICS)
    waits = [step.draft_s + step.verify_s + step.host_s for step in result.steps]
    assert result["itl_p90_s"] == np.percentile(waits, 90)
    assert result["ttft_p50_s"] == result["ttft_p99_s"] == pytest.approx(result["ttft_s"])
    assert result["request_time_p50_s"] < result["request_time_p90_s"] < result["request_time_p99_s"]
    assert "time between deliveries, p90" in result.to_markdown()


def test_seed_decides_everything():
    case = {"device": "pixel_9", "target": "gemma_4_e2b", "drafter": "ngram", "draft_length": 4,
            "acceptance": 0.5, "prompt_tokens": 9, "output_tokens": 40, "replications": 5,
            "steps": True}  # fmt: skip
    first, again, other = (simulate(**case, seed=seed) for seed in (3, 3, 4))
    assert first == again
    assert first.seed == 3
    assert first.steps != other.steps
    assert first.inputs_digest == again.inputs_digest != other.inputs_digest
    drawn = simulate(**case, rng=np.random.default_rng(3))
    assert drawn.steps == first.steps
    assert drawn.seed is None
