"""predict() against a plain loop over steps; inputs, intervals, refusals and the lazy package."""

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import simulator
from hw_profiles.errors import ProfileError
from simulator.acceptance import PositionalAcceptance, TraceAcceptance, TransferError, load_published, replay
from simulator.acceptance.iid import IidAcceptance
from simulator.analytic import predict, predict_designs
from simulator.errors import DraftscopeError, UnknownNameError
from simulator.lowering import lower
from simulator.lowering.finish import case_of_steps
from simulator.lowering.workload import (
    closed_form_workload,
    expected_workload,
    workload_of_steps,
)
from simulator.results import METRICS
from simulator.specs import Scenario
from tests.trace_samples import random_trace

TARGET = "gemma_4_e2b"
CASE = {"device": "pixel_9", "target": TARGET, "runtime": "litert_lm_gpu_mali"}
ASSISTANT = {**CASE, "drafter": "gemma_4_e2b_assistant"}
TOKENS = {"prompt_tokens": 400, "output_tokens": 120}
DRAFTERS = ("gemma_4_e2b_assistant", "standalone_128m", "ngram")


def toy_trace(seed=0, lengths=(40, 7, 90), depth=8, **options):
    names = {"target_id": TARGET, "drafter_id": "gemma_4_e2b_assistant"}
    return random_trace(np.random.default_rng(seed), list(lengths), depth=depth, metadata=names, **options)


def loop_over_steps(params, table):
    """Decode time, bytes and energy by a plain loop, and the time of plain decoding."""
    drafter_own = params.draft_context == "own"
    total_s = total_bytes = plain_s = 0.0
    last = None
    for i in range(len(table)):
        n, proposed = int(table.context[i]), int(table.proposed[i])
        passes = {"per_draft": int(table.draft_passes[i]), "one": min(proposed, 1), "none": 0}
        caught = params.catch_up and last is not None and last[0] == table.request[i] and last[1]
        for j in range(passes[params.passes_per_step]):
            cost = params.draft_cost(2 if j == 0 and caught else 1)
            seen = n + j if drafter_own else n
            total_s += cost.time_at(seen)
            total_bytes += cost.bytes_moved.at(seen)
        verify = params.verify_cost(proposed + 1)
        total_s += verify.time_at(n) + params.floor_per_step_s * (params.draft_length > 0)
        total_s += params.host_s_per_step * (params.draft_length > 0)
        total_bytes += verify.bytes_moved.at(n)
        plain_s += sum(params.verify_cost(1).time_at(n + t) for t in range(int(table.emitted[i])))
        full = table.accepted[i] == table.draft_passes[i] > 0
        last = (table.request[i], bool(full))
    return total_s, total_bytes, plain_s


@pytest.mark.parametrize("runtime", ["litert_lm_gpu_mali", "litert_lm_gpu_powervr", "ideal"])
@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("min_prob", [None, 0.3])
def test_trace_is_summed_exactly_over_its_steps(runtime, drafter, min_prob):
    trace = toy_trace(vocabulary=1 if min_prob is None else 2, short_proposals=True)
    for length in (0, 1, 4, 8):
        table = replay(trace, length, min_prob=min_prob)
        acceptance = TraceAcceptance(
            trace=trace, drafter_id=drafter, transfer=True, max_overlap=None, min_prob=min_prob
        )
        case = {**CASE, "runtime": runtime, "drafter": drafter}
        result = predict(**case, acceptance=acceptance, draft_length=length, transfer=True, intervals=False)
        params = lower(**case).bind(Scenario(prompt_tokens=1, output_tokens=2, draft_length=length))
        decode_s, moved, plain_s = loop_over_steps(params, table)
        tokens = int(table.emitted.sum())
        assert result["tpot_s"] == pytest.approx(decode_s / tokens, rel=1e-9)
        assert result["bytes_per_token"] == pytest.approx(moved / tokens, rel=1e-9)
        assert result["speedup"] == pytest.approx(plain_s / decode_s, rel=1e-9)
        assert result["step_time_s"] == pytest.approx(decode_s / len(table), rel=1e-9)
        assert result["mean_acceptance_length"] == pytest.approx(1 + table.accepted.sum() / len(table))
        assert result["tokens_per_step"] == pytest.approx(tokens / len(table))


def test_trace_prompts_are_its_own_unless_the_scenario_says_otherwise():
    acceptance = TraceAcceptance(trace=toy_trace(), max_overlap=None)
    own = predict(**ASSISTANT, acceptance=acceptance, draft_length=2, intervals=False)
    assert own.inputs["prompt_tokens"] == pytest.approx(np.mean([10, 15, 20]))
    assert own.inputs["output_tokens"] == pytest.approx(np.mean([40, 7, 90]))
    longer = predict(**ASSISTANT, acceptance=acceptance, draft_length=2, prompt_tokens=900, intervals=False)
    assert longer.inputs["prompt_tokens"] == 900
    assert longer["ttft_s"] > own["ttft_s"]
    assert longer["tpot_s"] > own["tpot_s"]
    assert longer["mean_acceptance_length"] == own["mean_acceptance_length"]


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("length", [1, 4, 7])
def test_expectation_equals_the_mean_over_simulated_responses(drafter, length):
    """Monte Carlo over 1,500 responses against the exact expectation, within five standard errors."""
    rng, survival = np.random.default_rng(3), [0.75**k for k in range(1, length + 1)]
    params = lower(**{**CASE, "drafter": drafter}).bind(
        Scenario(prompt_tokens=480, output_tokens=60, draft_length=length)
    )
    expected = expected_workload(params, survival)
    samples = []
    draws = (rng.random((1500, 59, 1)) < np.array(survival)).sum(axis=2).tolist()
    for draw in draws:
        t = count = tokens = caught = drafted = 0
        full = False
        while t < 59:
            accepted = draw[count]
            count, tokens = count + 1, tokens + 480 + t
            caught += full and params.catch_up
            drafted += length * (480 + t) + (
                length * (length - 1) // 2 if params.draft_context == "own" else 0
            )
            full = accepted == length > 0
            t += accepted + 1
        samples.append((count, tokens, caught, drafted))
    mean, error = np.mean(samples, axis=0), np.std(samples, axis=0) / math.sqrt(len(samples))
    drafts = (
        expected.drafts.tokens + expected.catch_ups.tokens if params.passes_per_step != "none" else mean[3]
    )
    found = (expected.steps, expected.verify[0].sums.tokens, expected.catch_ups.count, drafts)
    assert np.all(np.abs(mean - found) <= 5 * error + 1e-9)


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("prompt", [64, 5000])
def test_closed_form_equals_the_exact_expectation(drafter, prompt):
    lowered = lower(**{**CASE, "drafter": drafter})
    for length in (0, 1, 4, 8):
        survival = [0.7**k for k in range(1, length + 1)]
        params = lowered.bind(Scenario(prompt_tokens=prompt, output_tokens=400, draft_length=length))
        exact, closed = expected_workload(params, survival), closed_form_workload(params, survival)
        assert closed.steps == pytest.approx(exact.steps, rel=1e-9)
        for name in ("drafts", "catch_ups", "plain"):
            one, other = getattr(closed, name), getattr(exact, name)
            assert one.count == pytest.approx(other.count, rel=1e-9, abs=1e-9)
            assert one.tokens == pytest.approx(other.tokens, rel=1e-9, abs=1e-6)
            for window in other.windowed:
                assert one.windowed[window] == pytest.approx(other.windowed[window], rel=1e-9, abs=1e-6)


def test_fixed_context_costs_every_step_alike():
    scenario = Scenario(prompt_tokens=10, output_tokens=50, draft_length=3, context=1000)
    result = predict(**ASSISTANT, acceptance=0.5, scenario=scenario, intervals=False)
    params = lower(**ASSISTANT).bind(scenario)
    assert result["verify_time_s"] == pytest.approx(params.verify_cost(4).time_at(1000))
    assert result["draft_time_s"] == pytest.approx(3 * params.draft_cost(1).time_at(1000))
    closed = closed_form_workload(params, [0.5, 0.25, 0.125])
    exact = expected_workload(params, [0.5, 0.25, 0.125])
    assert closed.verify[0].sums.tokens == pytest.approx(exact.verify[0].sums.tokens)
    own = replace(params, draft_context="own")
    assert expected_workload(own, [0.5] * 3).drafts.tokens == pytest.approx(
        closed_form_workload(own, [0.5] * 3).drafts.tokens
    )


def test_arrays_of_designs_equal_single_predictions():
    rates, lengths = np.array([0.2, 0.5, 0.8]), np.array([1, 4, 8])
    bandwidth = np.array([4e10, 5e10, 6e10])
    together = predict(
        **ASSISTANT,
        acceptance=rates,
        prompt_tokens=2000,
        output_tokens=300,
        draft_length=lengths,
        axes={"peak_bandwidth_bytes_per_s": bandwidth},
    )
    assert together.intervals == {}
    for i in range(3):
        single = predict(
            **ASSISTANT,
            acceptance=float(rates[i]),
            prompt_tokens=2000,
            output_tokens=300,
            draft_length=int(lengths[i]),
            intervals=False,
            axes={"peak_bandwidth_bytes_per_s": float(bandwidth[i])},
        )
        for name in ("speedup", "energy_per_token_j", "ttft_s", "peak_ram_bytes", "draft_acceptance_rate"):
            assert together[name][i] == pytest.approx(single[name], rel=1e-4), name
    rows = together.to_rows()
    assert len(rows) == 3 and rows[1]["draft_length"] == 4


def test_designs_are_chunked_without_seams(rng):
    lowered = lower(**ASSISTANT)
    axes = {
        "prompt_tokens": rng.integers(10, 1000, 50),
        "output_tokens": 80,
        "draft_length": rng.integers(0, 6, 50),
    }
    rates = rng.random(50)
    whole = predict_designs(lowered, axes, acceptance_rate=rates)
    parts = predict_designs(lowered, axes, acceptance_rate=rates, chunk=7)
    for name in whole:
        assert np.array_equal(whole[name], parts[name])
    assert np.all(whole["speedup"][axes["draft_length"] == 0] == 1.0)
    scalar = predict_designs(
        lowered, {**TOKENS, "draft_length": 4}, acceptance_rate=0.8, metrics=("speedup",)
    )
    assert scalar["speedup"].shape == (1,)


@pytest.mark.parametrize(
    ("axes", "rate", "message"),
    [
        ({**TOKENS, "draft_length": np.array([1, 2])}, np.array([0.1, 0.2, 0.3]), "unequal length"),
        ({**TOKENS, "output_tokens": 1}, 0.5, "output_tokens"),
        ({**TOKENS, "draft_length": 2}, 1.5, "acceptance_rate"),
        ({**TOKENS, "draft_length": 2}, math.nan, "acceptance_rate"),
        ({**TOKENS, "mbu_large": np.array([0.5, -0.5])}, 0.5, "mbu_large"),
    ],
)
def test_wrong_designs_are_refused(axes, rate, message):
    with pytest.raises(DraftscopeError, match=message):
        predict_designs(lower(**ASSISTANT), axes, acceptance_rate=rate)


def test_every_metric_of_the_registry_is_given_but_the_engines_own():
    result = predict(**ASSISTANT, acceptance=0.8, **TOKENS, draft_length=4)
    assert set(result.metrics) == {name for name, each in METRICS.items() if not each.engine_only}
    assert all(isinstance(value, float) and math.isfinite(value) for value in result.metrics.values())
    for name, (low, high) in result.intervals.items():
        assert low <= result[name] <= high, name
    assert result.method == "analytic"
    assert result.references and result.inputs_digest


@pytest.mark.parametrize("case", [ASSISTANT, {**CASE, "target": "gemma_4_26b_a4b", "drafter": "ngram"}])
def test_weights_in_ram_are_those_of_the_ledger_whatever_a_pass_reads(case):
    result = predict(**case, acceptance=0.8, **TOKENS, draft_length=4, intervals=False)
    lowered = lower(**case)
    drafter = lowered.drafter.resident_bytes
    assert result["weight_bytes"] == pytest.approx(lowered.memory.target_resident_bytes + drafter)
    assert result["weight_bytes"] == pytest.approx(result.ram_ledger["target_weights"] + drafter)


def test_positional_and_published_acceptance():
    model = PositionalAcceptance(conditional_rates=(0.9, 0.5))
    result = predict(**ASSISTANT, acceptance=model, **TOKENS, draft_length=2, intervals=False)
    assert result["mean_acceptance_length"] == pytest.approx(1 + 0.9 + 0.45)
    with pytest.raises(DraftscopeError, match="draft_length"):
        predict(**ASSISTANT, acceptance=model, **TOKENS, draft_length=3)
    published = load_published("gemma_4_e4b_mt_bench")
    target = {**CASE, "target": "gemma_4_e4b", "drafter": "gemma_4_e4b_assistant"}
    by_name = predict(**target, acceptance="gemma_4_e4b_mt_bench", **TOKENS, draft_length=2)
    assert by_name["mean_acceptance_length"] == pytest.approx(published.mean_acceptance_length(2))
    assert set(published.sources) <= set(by_name.references)


def test_plain_decoding_needs_no_acceptance_and_has_speedup_one():
    result = predict(**CASE, **TOKENS)
    assert result["speedup"] == 1.0 and result["energy_saving"] == 0.0
    assert result.energy_ledger["rejected_share"] == 0.0
    assert "acceptance" not in result.confidence_by_group


def test_same_inputs_same_result_and_another_seed_other_intervals():
    one, again = (predict(**ASSISTANT, acceptance=0.8, **TOKENS, draft_length=4) for _ in range(2))
    assert one.to_json() == again.to_json()
    other = predict(**ASSISTANT, acceptance=0.8, **TOKENS, draft_length=4, rng=np.random.default_rng(5))
    assert other.metrics == one.metrics and other.intervals != one.intervals
    changed = predict(**ASSISTANT, acceptance=0.81, **TOKENS, draft_length=4, intervals=False)
    assert changed.inputs_digest != one.inputs_digest


def test_range_of_the_acceptance_widens_the_interval():
    sure = predict(**ASSISTANT, acceptance=IidAcceptance(acceptance_rate=0.7), **TOKENS, draft_length=4)
    wide = IidAcceptance(acceptance_rate=0.7, low=0.3, high=0.9)
    unsure = predict(**ASSISTANT, acceptance=wide, **TOKENS, draft_length=4)
    assert unsure["speedup"] == sure["speedup"]
    low, high = unsure.intervals["mean_acceptance_length"]
    assert low < sure["mean_acceptance_length"] < high
    assert np.ptp(unsure.intervals["speedup"]) > np.ptp(sure.intervals["speedup"])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"acceptance": None}, DraftscopeError, "never defaulted"),
        ({"acceptance": math.nan}, DraftscopeError, "acceptance_rate"),
        ({"acceptance": -0.1}, DraftscopeError, "acceptance_rate"),
        ({"acceptance": 1.1}, DraftscopeError, "acceptance_rate"),
        ({"acceptance": True}, DraftscopeError, "acceptance"),
        ({"acceptance": "gemma_4_e4b_mtbench"}, UnknownNameError, "gemma_4_e4b_mt_bench"),
        ({"acceptance": "gemma_4_e4b_mt_bench"}, TransferError, "gemma_4_e4b"),
        ({"draft_length": -1}, DraftscopeError, "draft_length"),
        ({"draft_length": 1.5}, DraftscopeError, "whole numbers"),
        ({"draft_length": math.nan}, DraftscopeError, "draft_length"),
        ({"output_tokens": 1}, DraftscopeError, "output_tokens"),
        ({"output_tokens": None}, DraftscopeError, "scenario"),
        ({"prompt_tokens": -5}, DraftscopeError, "prompt_tokens"),
        ({"batch": 0}, DraftscopeError, "batch"),
        ({"drafter": "none"}, DraftscopeError, "drafter 'none'"),
        ({"device": "pixel9"}, ProfileError, "pixel_9"),
        ({"engine": "npu"}, ProfileError, "gpu"),
        ({"drafter": "gemma_4_e2b_assistent"}, UnknownNameError, "gemma_4_e2b_assistant"),
    ],
)
def test_bad_input_is_refused_with_a_clear_message(change, error, message):
    asked = {**ASSISTANT, **TOKENS, "acceptance": 0.8, "draft_length": 4, **change}
    with pytest.raises(error, match=message):
        predict(**asked)


def test_trace_of_another_target_is_refused_unless_transferred():
    acceptance = TraceAcceptance(trace=toy_trace(), max_overlap=None)
    other = {**CASE, "target": "gemma_4_e4b", "drafter": "gemma_4_e4b_assistant", "draft_length": 2}
    with pytest.raises(TransferError, match="gemma_4_e2b"):
        predict(**other, acceptance=acceptance)
    carried = predict(**other, acceptance=acceptance, transfer=True, intervals=False)
    assert carried.confidence_by_group["acceptance"] == "assumed"
    own = predict(**ASSISTANT, acceptance=acceptance, draft_length=2, intervals=False)
    assert own.confidence_by_group["acceptance"] == "measured"


def test_traces_take_one_draft_length_at_a_time_and_have_steps():
    trace = toy_trace()
    acceptance = TraceAcceptance(trace=trace, max_overlap=None)
    with pytest.raises(DraftscopeError, match="one draft length at a time"):
        predict(**ASSISTANT, acceptance=acceptance, draft_length=np.array([1, 2]), **TOKENS)
    empty = replay(trace, 2).of_requests(np.array([], dtype=int))
    params = lower(**ASSISTANT).bind(Scenario(**TOKENS, draft_length=2))
    with pytest.raises(DraftscopeError, match="at least one step"):
        case_of_steps(params, empty)


def test_fractional_tokens_use_the_closed_form():
    whole, half, more = (
        predict(
            **ASSISTANT, acceptance=0.6, prompt_tokens=900, output_tokens=n, draft_length=3, intervals=False
        )
        for n in (200, 200.5, 201)
    )
    assert whole["request_time_s"] < half["request_time_s"] < more["request_time_s"]
    assert half.inputs["output_tokens"] == 200.5


def test_catch_up_follows_a_full_accept_within_a_request_only():
    trace = toy_trace(vocabulary=1, lengths=(9, 9))  # every draft is right
    table = replay(trace, 2)
    params = lower(**{**CASE, "drafter": "standalone_128m"}).bind(
        Scenario(prompt_tokens=1, output_tokens=2, draft_length=2)
    )
    work = workload_of_steps(params, table)
    assert len(table) == 6  # two requests of three steps, each emitting three tokens (the last one two)
    assert work.catch_ups.count == pytest.approx(2.0)  # a request: all steps but the first
    assert work.drafts.count == pytest.approx(2 * 3 - 2)


def test_public_names_are_lazy_and_errors_name_them():
    assert simulator.predict is predict
    assert "predict" in dir(simulator) and isinstance(simulator.__version__, str)
    with pytest.raises(AttributeError, match="predict"):
        simulator.predictt  # noqa: B018
    code = (
        "import sys, simulator; heavy = {'numpy', 'torch', 'plotly', 'dash', 'pydantic'} & set(sys.modules); "
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
