"""Invariants of predictions over random hardware, runtimes, drafters and scenarios."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.analytic import predict
from simulator.analytic.designs import evaluate
from simulator.lowering import lower
from simulator.lowering.outcome import decode_totals
from simulator.lowering.workload import expected_workload
from simulator.physics.energy import max_power_w
from simulator.physics.speedup import speedup, survival_iid
from simulator.specs import Scenario

TARGET = "gemma_4_e2b"
DRAFTERS = ("gemma_4_e2b_assistant", "gemma_4_e2b_assistant_dense", "standalone_128m", "ngram")
RUNTIMES = ("ideal", "litert_lm_gpu_mali", "litert_lm_gpu_powervr", "litert_lm_cpu", "aicore_tpu")
FLOORS = (
    "floor_per_pass_s",
    "floor_per_draft_pass_s",
    "floor_per_step_s",
    "host_per_row_s",
    "host_s_per_step",
    "prefill_floor_s",
)

cases = st.fixed_dictionaries({"drafter": st.sampled_from(DRAFTERS), "runtime": st.sampled_from(RUNTIMES)})
scenarios = st.builds(
    Scenario,
    prompt_tokens=st.integers(1, 3000),
    output_tokens=st.integers(2, 300),
    draft_length=st.integers(0, 8),
    batch=st.sampled_from([1, 1, 1, 4, 64]),
)
rates = st.floats(0.0, 1.0)
axes = st.fixed_dictionaries(
    {},
    optional={
        "peak_bandwidth_bytes_per_s": st.floats(5e9, 1e12),
        "mbu_large": st.floats(0.05, 1.0),
        "mbu_small": st.floats(0.05, 1.0),
        "mbu_kv": st.floats(0.05, 1.0),
        "floor_per_pass_s": st.floats(0.0, 0.05),
        "floor_per_draft_pass_s": st.floats(0.0, 0.05),
        "floor_per_step_s": st.floats(0.0, 0.05),
        "host_per_row_s": st.floats(0.0, 0.01),
        "host_s_per_step": st.floats(0.0, 0.01),
        "macs_per_s_scale": st.floats(0.05, 20.0),
        "energy_per_mac_scale": st.floats(0.0, 20.0),
        "host_power_w": st.floats(0.0, 5.0),
        "base_power_w": st.floats(0.0, 5.0),
        "drafter_weight_scale": st.floats(0.1, 10.0),
    },
)


def prediction(case, scenario, alpha, overrides):
    return predict(
        device="pixel_9",
        target=TARGET,
        **case,
        scenario=scenario,
        acceptance=alpha,
        axes=overrides,
        intervals=False,
    )


@given(case=cases, scenario=scenarios, alpha=rates, overrides=axes)
def test_ledgers_add_up_and_power_is_bounded(case, scenario, alpha, overrides):
    result = prediction(case, scenario, alpha, overrides)
    rails, phases = (sum(result.energy_ledger[name].values()) for name in ("rail", "phase"))
    assert rails == pytest.approx(result["request_energy_j"])
    assert phases == pytest.approx(result["request_energy_j"])
    assert result["average_power_w"] <= result["peak_power_w"] * (1 + 1e-9)
    energy_j = result["request_energy_j"] * result.inputs["batch"]
    assert energy_j <= result["peak_power_w"] * result["request_time_s"] * (1 + 1e-9)
    assert sum(result.ram_ledger.values()) == pytest.approx(result["peak_ram_bytes"])
    assert sum(result.byte_ledger.values()) == pytest.approx(result["bytes_per_token"])
    assert 0.0 <= result.energy_ledger["rejected_share"] <= 1.0
    step = result["draft_time_s"] + result["verify_time_s"] + result["host_time_s"]
    assert step == pytest.approx(result["step_time_s"])
    assert min(min(result.byte_ledger.values()), min(result.ram_ledger.values())) >= 0.0


@given(case=cases, scenario=scenarios, alpha=rates, overrides=axes)
def test_mean_acceptance_length_bounds_the_speedup(case, scenario, alpha, overrides):
    result = prediction(case, scenario, alpha, overrides)
    length = scenario.draft_length
    assert 1.0 <= result["mean_acceptance_length"] <= length + 1 + 1e-9
    assert 1.0 - 1e-9 <= result["tokens_per_step"] <= length + 1 + 1e-9
    assert 0.0 <= result["draft_acceptance_rate"] <= 1.0 + 1e-12
    # no case here has a verify curve below 1: a step costs at least a plain pass
    assert result["speedup"] <= result["tokens_per_step"] * (1 + 1e-9)
    assert result["break_even_acceptance_length"] >= 1.0 - 1e-9
    at_break_even = result["tokens_per_step"] / result["break_even_acceptance_length"]
    assert result["speedup"] == pytest.approx(at_break_even, rel=1e-9)


@given(case=cases, scenario=scenarios, overrides=axes)
def test_no_acceptance_never_speeds_up_and_no_drafts_change_nothing(case, scenario, overrides):
    none_right = prediction(case, scenario, 0.0, overrides)
    assert none_right["speedup"] <= 1.0 + 1e-12
    plain = prediction(
        case,
        Scenario(
            prompt_tokens=scenario.prompt_tokens, batch=scenario.batch, output_tokens=scenario.output_tokens
        ),
        0.9,
        overrides,
    )
    assert plain["speedup"] == 1.0
    assert plain["energy_saving"] == 0.0
    assert plain["request_speedup"] == 1.0


@given(case=cases, scenario=scenarios, alpha=rates, overrides=axes)
def test_doubling_every_rate_and_halving_every_floor_halves_every_time(case, scenario, alpha, overrides):
    lowered = lower(device="pixel_9", target=TARGET, **case)
    given_values = {name: each.value for name, each in lowered.inputs.items()} | overrides
    slow = prediction(case, scenario, alpha, overrides)
    faster = {name: given_values[name] / 2 for name in FLOORS}
    faster["peak_bandwidth_bytes_per_s"] = 2 * given_values["peak_bandwidth_bytes_per_s"]
    faster["macs_per_s_scale"] = 2 * overrides.get("macs_per_s_scale", 1.0)
    fast = prediction(case, scenario, alpha, overrides | faster)
    for name in (
        "ttft_s",
        "tpot_s",
        "itl_s",
        "request_time_s",
        "draft_time_s",
        "verify_time_s",
        "host_time_s",
    ):
        assert fast[name] == pytest.approx(slow[name] / 2), name
    assert fast["speedup"] == pytest.approx(slow["speedup"])


@given(drafter=st.sampled_from(DRAFTERS), scenario=scenarios, alpha=rates, bandwidth=st.floats(5e9, 1e12))
def test_without_floors_and_arithmetic_the_ledger_is_the_time(drafter, scenario, alpha, bandwidth):
    """Bytes in the ledger = bytes charged by time: with endless MACs, bytes / bandwidth = time."""
    result = prediction(
        {"drafter": drafter, "runtime": "ideal"},
        scenario,
        alpha,
        {"peak_bandwidth_bytes_per_s": bandwidth, "macs_per_s_scale": 1e9, "host_s_per_step": 0.0},
    )
    tokens = result.inputs["batch"]
    assert result["bytes_per_token"] * tokens / bandwidth == pytest.approx(result["tpot_s"])


@given(drafter=st.sampled_from(DRAFTERS), scenario=scenarios, alpha=rates, overrides=axes)
def test_roofline_never_draws_more_than_everything_at_once(drafter, scenario, alpha, overrides):
    lowered = lower(device="pixel_9", target=TARGET, drafter=drafter, runtime="ideal")
    kept = {name: value for name, value in overrides.items() if not name.startswith(("mbu", "floor"))}
    params = lowered.bind(scenario, **kept)
    side = params.target_side
    limit = max_power_w(
        bandwidth_bytes_per_s=params.peak_bandwidth_bytes_per_s,
        energy_per_byte_j=params.energy_per_byte_j,
        macs_per_s=1.0,
        energy_per_mac_j=sum(side.macs_per_s[d] * side.energy_per_mac_j[d] for d in side.macs_per_s),
        engine_active_power_w=max(side.active_power_w, side.idle_power_w),
        host_power_w=params.host_power_w,
        base_power_w=params.base_power_w,
    )
    assert prediction({"drafter": drafter, "runtime": "ideal"}, scenario, alpha, kept)[
        "peak_power_w"
    ] <= limit * (1 + 1e-9)


@given(case=cases, scenario=scenarios, low=rates, high=rates)
def test_better_acceptance_is_never_slower(case, scenario, low, high):
    low, high = min(low, high), max(low, high)
    worse, better = (prediction(case, scenario, alpha, {})["tpot_s"] for alpha in (low, high))
    # a catch-up row after a full accept costs a little, which may exceed what a nearly equal rate gains
    slack = 1e-3 if case["drafter"] == "standalone_128m" else 1e-9
    assert better <= worse * (1 + slack)


@given(case=cases, scenario=scenarios, alpha=rates)
def test_longer_contexts_are_never_faster(case, scenario, alpha):
    longer = Scenario(
        prompt_tokens=scenario.prompt_tokens + 500,
        output_tokens=scenario.output_tokens,
        draft_length=scenario.draft_length,
        batch=scenario.batch,
    )
    one, other = (prediction(case, each, alpha, {}) for each in (scenario, longer))
    for name in ("tpot_s", "ttft_s", "peak_ram_bytes", "bytes_per_token"):
        assert other[name] >= one[name] * (1 - 1e-12)


@given(case=cases, alpha=st.floats(0, 0.85), prompt=st.integers(1000, 4000), length=st.integers(0, 8))
def test_closed_form_metrics_equal_the_exact_expectation(case, alpha, prompt, length):
    lowered = lower(device="pixel_9", target=TARGET, **case)
    params = lowered.bind(Scenario(prompt_tokens=prompt, output_tokens=500, draft_length=length))
    survival = survival_iid(acceptance_rate=alpha, draft_length=length)
    exact = prediction(
        case, Scenario(prompt_tokens=prompt, output_tokens=500, draft_length=length), alpha, {}
    )
    closed = evaluate(params, survival)
    for name in ("tpot_s", "speedup", "energy_per_token_j", "ttft_s", "peak_ram_bytes", "steps"):
        assert float(np.asarray(closed[name])) == pytest.approx(exact[name], rel=1e-7), name


@given(case=cases, alpha=rates, length=st.integers(1, 8), context=st.integers(1, 3000), overrides=axes)
def test_speedup_is_the_textbook_formula_of_the_ratios_shown(case, alpha, length, context, overrides):
    """S = tokens per step / (K c + v(K+1) + o) where every step sees the same context."""
    scenario = Scenario(prompt_tokens=9, output_tokens=90, draft_length=length, context=context)
    result = prediction(case, scenario, alpha, overrides)
    plain_s = 1.0 / result["baseline_decode_tokens_per_s"]
    passes = length if result["draft_time_s"] else 0
    assert result["speedup"] == pytest.approx(speedup(
        mean_acceptance_length=result["tokens_per_step"], draft_length=passes,
        draft_cost_ratio=result["draft_cost_ratio"], verify_cost_ratio=result["verify_cost_ratio"],
        overhead_ratio=result["host_time_s"] / plain_s,
    ))  # fmt: skip


def test_server_batch_loses_what_a_phone_wins():
    """At batch 1 the weights are read once for five rows; at batch 64 the arithmetic of every row is paid."""
    case = {"drafter": "gemma_4_e2b_assistant", "runtime": "ideal"}
    one, many = (
        prediction(
            case,
            Scenario(prompt_tokens=200, output_tokens=200, draft_length=4, batch=batch),
            0.7,
            {"macs_per_s_scale": 0.2},
        )["speedup"]
        for batch in (1, 64)
    )
    assert one > 1.5 > many


def test_energy_of_a_decode_is_that_of_its_passes():
    lowered = lower(
        device="pixel_9", target=TARGET, drafter="gemma_4_e2b_assistant", runtime="litert_lm_gpu_mali"
    )
    params = lowered.bind(Scenario(prompt_tokens=200, output_tokens=50, draft_length=4))
    decode = decode_totals(params, expected_workload(params, [0.8**k for k in range(1, 5)]))
    energy = decode.energy_j(params)["verify"]
    side = params.target_side
    assert energy["dram"] == pytest.approx(decode.verify.bytes_moved * params.energy_per_byte_j)
    assert energy["engine"] == pytest.approx(
        decode.verify.mac_energy_j + side.active_power_w * decode.verify.time_s
    )
    assert energy["host"] == pytest.approx(params.host_power_w * decode.verify.host_s)
    assert energy["base"] == pytest.approx(params.base_power_w * decode.verify.time_s)
