"""Lowering against a plain loop over ops, and its refusals."""

from dataclasses import replace

import numpy as np
import pytest

from hw_profiles import load_device, load_runtime
from hw_profiles.errors import ProfileError
from simulator.drafters import build_drafter, list_drafters
from simulator.errors import DraftscopeError, UnknownNameError
from simulator.lowering import AXES, lower
from simulator.lowering.affine import Affine, ContextSums
from simulator.lowering.memory import ram_ledger
from simulator.ops import ledger, prefill_ops, target_ops
from simulator.physics.roofline import mbu_of_model
from simulator.physics.verify import relative_cost
from simulator.specs import Scenario, list_targets, load_target

TARGET = "gemma_4_e2b"
SCENARIO = Scenario(prompt_tokens=300, output_tokens=100, draft_length=4)
RUNTIMES = ("litert_lm_gpu_mali", "litert_lm_gpu_powervr", "tuned_cpu", "ideal")


def measured_time_s(device, runtime, ops, width, context, floor_s):
    """T(w, n) of a measured runtime, straight from the ops."""
    found = ledger(ops, width, context, runtime.kv_reads)
    peak = device.dram.peak_bandwidth_bytes_per_s.value
    mbu = mbu_of_model(
        model_bytes=ledger(ops, 1, 0).weight_bytes,
        mbu_small=runtime.mbu_small.value,
        mbu_large=runtime.mbu_large.value,
        small_model_bytes=runtime.small_model_bytes.value,
        large_model_bytes=runtime.large_model_bytes.value,
    )
    widths, costs = zip(*runtime.verify_curve.value, strict=True)
    curve = relative_cost(
        width=width,
        widths=widths,
        costs=costs,
        tile=None if runtime.tile is None else int(runtime.tile.value),
        extrapolation=runtime.verify_extrapolation,
    )
    kv = (found.kv_bytes + found.row_bytes) / (peak * runtime.mbu_kv.value)
    return floor_s + found.weight_bytes / (peak * mbu) * curve + kv + width * runtime.host_per_row_s.value


def ideal_time_s(device, engine, ops, width, context):
    """Sum over ops of max(bytes / bandwidth, MACs / rate)."""
    peak = device.dram.peak_bandwidth_bytes_per_s.value
    total = 0.0
    for op in ops:
        found = ledger([op], width, context)
        rate = device.engines[engine].peak_macs_per_s[op.dtype].value
        total += max(found.total_bytes / peak, found.total_macs / rate)
    return total


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("drafter", [name for name in list_drafters(TARGET) if name != "none"])
@pytest.mark.parametrize(("width", "context"), [(1, 0), (1, 400), (2, 511), (5, 513), (9, 4000)])
def test_pass_times_and_bytes_equal_a_loop_over_ops(runtime, drafter, width, context):
    device, stack = load_device("pixel_9"), load_runtime(runtime)
    lowered = lower(device=device, target=TARGET, drafter=drafter, runtime=stack)
    params = lowered.bind(SCENARIO)
    target = load_target(TARGET)
    sides = [(target_ops(target), params.verify_cost(width), stack.floor_per_pass_s.value, True)]
    draft_ops = build_drafter(drafter, target).draft_ops
    if draft_ops:
        sides.append((draft_ops, params.draft_cost(width), stack.floor_per_draft_pass_s.value, False))
    for ops, cost, floor_s, verify in sides:
        found = ledger(ops, width, context, stack.kv_reads)
        assert cost.bytes_moved.at(context) == pytest.approx(found.total_bytes, rel=1e-12)
        parts = params.bytes_by_part(verify=verify, width=width)
        assert {part: each.at(context) for part, each in parts.items()} == pytest.approx(found.bytes_by_part)
        macs = params.macs(verify=verify, width=width).at(context)
        assert macs == pytest.approx(found.total_macs, rel=1e-12)
        energy = sum(
            macs * device.engines[lowered.ids["engine"]].energy_per_mac_j[dtype].value
            for dtype, macs in found.macs_by_dtype.items()
        )
        assert cost.mac_energy_j.at(context) == pytest.approx(energy, rel=1e-12)
        if stack.ideal:
            expected = ideal_time_s(device, lowered.ids["engine"], ops, width, context)
        else:
            expected = measured_time_s(device, stack, ops, width, context, floor_s)
        assert cost.time_at(context) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("target", list_targets())
def test_no_op_mixes_rows_and_context_so_that_the_roofline_stays_affine(target):
    loaded = load_target(target)
    ops = list(target_ops(loaded))
    for name in list_drafters(target):
        ops += build_drafter(name, loaded).draft_ops
    for op in ops:
        rows = op.weight_bytes or op.bytes_per_row or op.macs_per_row or op.macs_per_pass
        context = op.kv_bytes_per_context or op.macs_per_row_per_context
        assert not (rows and context), op.name


def test_prefill_is_the_roofline_at_its_fraction_and_floor():
    device, stack = load_device("pixel_9"), load_runtime("litert_lm_gpu_mali")
    params = lower(device=device, target=TARGET, runtime=stack).bind(SCENARIO)
    rate = {
        dtype: stack.prefill_macs_per_s_fraction.value * cited.value
        for dtype, cited in device.engines["gpu"].peak_macs_per_s.items()
    }
    peak, prompt = device.dram.peak_bandwidth_bytes_per_s.value, 300
    ops = prefill_ops(load_target(TARGET), skip_shared_kv=stack.prefill_skips_shared_kv_layers.value)
    expected = stack.prefill_floor_s.value
    for op in ops:
        seen = sum(i if op.window is None else min(i, op.window) for i in range(prompt))
        memory_s = op.weight_bytes / (peak * stack.mbu_large.value)
        memory_s += prompt * (op.bytes_per_row + op.kv_bytes_per_context) / (peak * stack.mbu_kv.value)
        macs = op.macs_per_pass + prompt * op.macs_per_row + seen * op.macs_per_row_per_context
        expected += max(memory_s, macs / rate[op.dtype])
    assert params.target_prefill().time_s == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("target", "faster"), [(TARGET, True), ("gemma_3_1b", False)])
def test_runtime_decides_whether_prefill_skips_layers_that_store_no_kv(target, faster):
    stack = load_runtime("litert_lm_gpu_mali")
    cited = stack.prefill_skips_shared_kv_layers
    whole = stack.model_copy(
        update={"prefill_skips_shared_kv_layers": cited.model_copy(update={"value": False})}
    )
    skips, all_rows = (lower(device="pixel_9", target=target, runtime=each).bind(SCENARIO)
                       for each in (stack, whole))  # fmt: skip
    assert cited.value is True
    assert skips.verify_cost(4) == all_rows.verify_cost(4)
    times = [params.target_prefill().time_s for params in (skips, all_rows)]
    energies = [params.target_prefill().mac_energy_j for params in (skips, all_rows)]
    moved = [params.target_prefill().bytes_moved for params in (skips, all_rows)]
    assert moved[0] == pytest.approx(moved[1])
    if faster:
        assert times[0] < 0.5 * times[1]
        assert energies[0] < 0.5 * energies[1]
    else:
        assert times[0] == times[1]


def test_frozen_head_has_no_prefill_and_a_standalone_drafter_has_one():
    frozen = lower(device="pixel_9", target=TARGET, drafter="gemma_4_e2b_assistant").bind(SCENARIO)
    alone = lower(device="pixel_9", target=TARGET, drafter="standalone_128m").bind(SCENARIO)
    assert frozen.draft_prefill().time_s == 0.0
    assert alone.draft_prefill().time_s > 0.0
    assert replace(alone, draft_length=0).draft_prefill().time_s == 0.0


def test_batch_reads_weights_once_and_kv_per_stream():
    params = lower(device="pixel_9", target=TARGET, runtime="ideal").bind(SCENARIO)
    one, many = params.verify_cost(5), replace(params, batch=8).verify_cost(5)
    assert many.rows == 8 * one.rows
    parts_one = params.bytes_by_part(verify=True, width=5)
    parts_many = replace(params, batch=8).bytes_by_part(verify=True, width=5)
    assert parts_many["layers"].at(500) == parts_one["layers"].at(500)
    assert parts_many["kv_cache"].at(500) == pytest.approx(8 * parts_one["kv_cache"].at(500))
    assert many.time_at(500) < 8 * one.time_at(500)


def test_kv_reads_per_row_multiply_by_the_width():
    lowered = lower(device="pixel_9", target=TARGET, runtime="litert_lm_gpu_mali")
    shared = lowered.bind(SCENARIO)
    again = replace(shared, target_side=replace(shared.target_side, kv_reads="per_row"))
    once = replace(shared, target_side=replace(shared.target_side, kv_reads="once"))
    assert again.verify_cost(5).bytes_moved.per_token == pytest.approx(
        5 * once.verify_cost(5).bytes_moved.per_token
    )


def test_affine_costs_and_context_sums():
    cost = Affine(1.0, 2.0, ((10, 3.0),))
    contexts = np.array([4, 12, 20])
    assert [cost.at(n) for n in (4, 12)] == [1 + 8 + 12, 1 + 24 + 30]
    assert cost.at(contexts).tolist() == [cost.at(int(n)) for n in contexts]
    sums = ContextSums.of(contexts, (10,), [1.0, 0.5, 2.0])
    assert cost.total(sums) == pytest.approx(cost.at(4) + 0.5 * cost.at(12) + 2 * cost.at(20))
    assert cost.total(sums + sums) == pytest.approx(2 * cost.total(sums)) == cost.total(sums * 2.0)


def test_draft_passes_by_way_of_drafting():
    params = lower(device="pixel_9", target=TARGET, drafter="gemma_4_e2b_assistant").bind(SCENARIO)
    for way, expected in (("none", [0, 0]), ("one", [0, 1]), ("per_draft", [0, 3])):
        each = replace(params, passes_per_step=way)
        assert [float(each.draft_passes(k)) for k in (0, 3)] == expected


def test_ram_ledger_parts():
    lowered = lower(device="pixel_9", target=TARGET, drafter="standalone_128m")
    params = lowered.bind(SCENARIO)
    found = ram_ledger(params)
    target, context = load_target(TARGET), 300 + 100 - 1 + 4
    assert found["target_weights"] == pytest.approx(target.resident_bytes())
    assert found["target_kv_cache"] == pytest.approx(target.kv_bytes(context))
    assert 0 < found["target_mapped"] < target.mapped_bytes()
    drafter = lowered.drafter
    own = sum(value for part, value in found.items() if part.startswith("drafter_") and "kv" not in part)
    assert own == pytest.approx(drafter.resident_bytes)
    assert found["drafter_kv_cache"] == pytest.approx(drafter.own_kv_bytes(context))
    doubled = ram_ledger(lowered.bind(SCENARIO, drafter_weight_scale=2.0))
    assert doubled["drafter_layers"] == pytest.approx(2 * found["drafter_layers"])


def test_axes_override_profiles_and_reach_the_drafters_side_alone():
    lowered = lower(
        device="pixel_9", target=TARGET, drafter="gemma_4_e2b_assistant", runtime="litert_lm_gpu_mali"
    )
    both = lowered.bind(SCENARIO, mbu_kv=0.5)
    assert (both.target_side.mbu_kv, both.draft_side.mbu_kv) == (0.5, 0.5)
    alone = lowered.bind(SCENARIO, draft_mbu_kv=0.5)
    assert alone.draft_side.mbu_kv == 0.5 != alone.target_side.mbu_kv
    steep = lowered.bind(SCENARIO, verify_cost_scale=0.0)
    assert steep.verify_cost(5).busy_s.constant < lowered.bind(SCENARIO).verify_cost(5).busy_s.constant
    assert lowered.bind(SCENARIO, batch=3, context=77).fixed_context == 77


def test_drafter_on_another_engine_uses_its_own_runtime():
    lowered = lower(
        device="pixel_9",
        target=TARGET,
        drafter="gemma_4_e2b_assistant",
        runtime="litert_lm_gpu_mali",
        draft_runtime="litert_lm_cpu",
    )
    assert lowered.own_draft_runtime
    assert lowered.ids["draft_engine"] == "cpu"
    params = lowered.bind(SCENARIO, mbu_kv=0.5)
    assert params.target_side.mbu_kv == 0.5
    assert params.draft_side.mbu_kv == load_runtime("litert_lm_cpu").mbu_kv.value
    assert params.draft_side.floor_s == load_runtime("litert_lm_cpu").floor_per_draft_pass_s.value


def test_runtime_measured_elsewhere_counts_as_assumed_and_says_so():
    lowered = lower(device="pixel_9", target=TARGET, runtime="litert_lm_gpu_adreno")
    assert lowered.kind_of("time") == "assumed"
    assert any("litert_lm_gpu_adreno" in note for note in lowered.notes)


def test_every_documented_axis_can_be_bound():
    lowered = lower(device="pixel_9", target=TARGET, drafter="ngram", runtime="litert_lm_gpu_mali")
    tables = {
        "macs_per_s": {"int8": 1e12, "f16": 1e12, "f32": 1e12},
        "energy_per_mac_j": {"int8": 1e-12, "f16": 1e-12, "f32": 1e-12},
        "verify_curve": lowered.inputs["verify_curve"].value,
        "drafter_resident_bytes": {"history": 1e6},
    }
    for name in AXES:
        params = lowered.bind(SCENARIO, **{name: tables.get(name, 0.5)})
        assert params.verify_cost(2).time_at(100) > 0


@pytest.mark.parametrize(("axis", "wrong"), [
    ("macs_per_s", 1e12),
    ("macs_per_s", {"int8": 1e12}),
    ("draft_macs_per_s", {"int8": 1e12, "f16": 1e12, "f32": 1e12, "int4": 1e12}),
    ("drafter_resident_bytes", {"layers": 1e6}),
    ("drafter_resident_bytes", {"history": -1e6}),
])  # fmt: skip
def test_tables_need_their_own_keys(axis, wrong):
    lowered = lower(device="pixel_9", target=TARGET, drafter="ngram", runtime="litert_lm_gpu_mali")
    with pytest.raises(DraftscopeError, match=f"axis {axis}"):
        lowered.bind(SCENARIO, **{axis: wrong})


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf"), "fast", np.array([1.0, -1.0])])
def test_wrong_numbers_are_refused(wrong):
    lowered = lower(device="pixel_9", target=TARGET)
    with pytest.raises(DraftscopeError, match="axis mbu_large"):
        lowered.bind(SCENARIO, mbu_large=wrong)


def test_unknown_names_offer_the_nearest():
    with pytest.raises(UnknownNameError, match="mbu_large"):
        lower(device="pixel_9", target=TARGET).bind(SCENARIO, mbu_larg=0.5)
    with pytest.raises(ProfileError, match="pixel_9"):
        lower(device="pixel_99", target=TARGET)
    with pytest.raises(ProfileError, match="litert_lm_gpu"):
        lower(device="pixel_9", target=TARGET, runtime="litert_gpu")
    with pytest.raises(DraftscopeError, match="gemma_4_e2b"):
        lower(device="pixel_9", target="gemma_4_e2")
    with pytest.raises(DraftscopeError, match="ngram"):
        lower(device="pixel_9", target=TARGET, drafter="n_gram")
    with pytest.raises(DraftscopeError, match="prompt_tokens"):
        lower(device="pixel_9", target=TARGET).bind(batch=2)


def test_drafter_of_another_target_is_refused():
    other = build_drafter("ngram", load_target("gemma_4_e4b"))
    with pytest.raises(DraftscopeError, match="gemma_4_e4b"):
        lower(device="pixel_9", target=TARGET, drafter=replace(other, target_id="gemma_4_e4b"))


def test_floor_of_a_step_is_charged_where_drafts_are_asked_for_and_only_there():
    lowered = lower(device="pixel_9", target=TARGET, drafter="ngram", runtime="litert_lm_gpu_mali")
    floor_s, search_s = (lowered.inputs[name].value for name in ("floor_per_step_s", "host_s_per_step"))
    assert floor_s > 0 and search_s > 0
    for length, expected in ((0, 0.0), (1, floor_s + search_s), (8, floor_s + search_s)):
        assert lowered.bind(SCENARIO, draft_length=length).step_host_s == pytest.approx(expected)
    lengths = lowered.bind(SCENARIO, draft_length=np.array([0, 3])).step_host_s
    assert lengths.tolist() == pytest.approx([0.0, floor_s + search_s])
