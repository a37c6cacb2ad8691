"""Invariants of a simulation, whatever is simulated: energy, bytes, time, tokens, order, resources."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.acceptance import IidAcceptance
from simulator.engine import Timeline, simulate
from simulator.engine.outcome import case_of, decode_of
from simulator.engine.simulate import machine_of, run
from simulator.engine.work import drawn
from simulator.lowering import lower_cached
from simulator.physics.energy import max_power_w
from simulator.specs import Scenario
from tests.engine_samples import DRAFTERS, PIXEL_CASES, first_target, random_steps

COMMON = settings(max_examples=15)


ANY_LENGTH = st.integers(0, 8)


@st.composite
def cases(draw, lengths=ANY_LENGTH):
    """A design with fixed random steps."""
    device, runtime, engine = draw(st.sampled_from(PIXEL_CASES))
    drafter, length = draw(st.sampled_from(DRAFTERS)), draw(lengths)
    decoded = draw(st.lists(st.integers(1, 25), min_size=1, max_size=3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    prompt, short = draw(st.integers(1, 600)), draw(st.booleans())
    steps = random_steps(rng, length, decoded, prompt_tokens=prompt, short=short)
    return {"device": device, "runtime": runtime, "engine": engine, "target": first_target(drafter),
            "drafter": drafter, "draft_length": length, "batch": draw(st.integers(1, 4)),
            "acceptance": steps}  # fmt: skip


def lowered_of(case):
    names = ("device", "target", "drafter", "runtime", "engine")
    return lower_cached(**{name: case[name] for name in names}, draft_runtime=None, draft_engine=None)


@COMMON
@given(case=cases(lengths=st.just(0)))
def test_no_drafts_give_speedup_one(case):
    result = simulate(**case)
    assert result["speedup"] == pytest.approx(1.0, rel=1e-12)
    assert result["energy_saving"] == pytest.approx(0.0, abs=1e-12)
    assert result["mean_acceptance_length"] == 1.0
    assert result.energy_ledger["rejected_share"] == 0.0


@COMMON
@given(case=cases())
def test_tokens_and_times(case):
    result = simulate(**case)
    assert 1.0 <= result["mean_acceptance_length"] <= case["draft_length"] + 1
    assert result["tokens_per_step"] <= result["mean_acceptance_length"] + 1e-12
    assert 0.0 <= result["draft_acceptance_rate"] <= 1.0
    parts = result["draft_time_s"] + result["verify_time_s"] + result["host_time_s"]
    assert result["step_time_s"] == pytest.approx(parts, rel=1e-12)
    decode_s = result["steps"] * result["step_time_s"]
    assert result["request_time_s"] == pytest.approx(result["ttft_s"] + decode_s, rel=1e-12)


@COMMON
@given(case=cases())
def test_energy_is_the_sum_of_rails_and_of_phases_and_below_full_power(case):
    result = simulate(**case)
    total = result["request_energy_j"]
    for ledger in ("rail", "phase"):
        values = result.energy_ledger[ledger].values()
        assert min(values) >= 0.0
        assert sum(values) == pytest.approx(total, rel=1e-12)
    assert 0.0 <= result.energy_ledger["rejected_share"] <= 1.0
    params = lowered_of(case).bind(Scenario(prompt_tokens=1, output_tokens=2))
    side = params.target_side
    mac_w = max(rate * side.energy_per_mac_j[dtype] for dtype, rate in side.macs_per_s.items())
    most = max_power_w(
        bandwidth_bytes_per_s=params.peak_bandwidth_bytes_per_s, energy_per_byte_j=params.energy_per_byte_j,
        macs_per_s=1.0, energy_per_mac_j=mac_w,
        engine_active_power_w=side.active_power_w, host_power_w=params.host_power_w,
        base_power_w=params.base_power_w,
    )  # fmt: skip
    assert result["average_power_w"] <= most * (1 + 1e-9)
    assert result["peak_power_w"] <= most * (1 + 1e-9)


@COMMON
@given(case=cases())
def test_ram_parts_sum_to_the_peak(case):
    result = simulate(**case)
    assert sum(result.ram_ledger.values()) == pytest.approx(result["peak_ram_bytes"], rel=1e-12)
    assert min(result.ram_ledger.values()) >= 0.0


@COMMON
@given(case=cases(lengths=st.integers(1, 8)))
def test_nothing_accepted_never_speeds_up(case):
    table = case["acceptance"].table
    wanted = int(table.remaining[table.position == 0].max())
    case = {**case, "acceptance": 0.0, "prompt_tokens": 20, "output_tokens": wanted + 1, "replications": 1}
    assert simulate(**case)["speedup"] <= 1.0 + 1e-12


@COMMON
@given(case=cases(), factor=st.floats(1.1, 10.0))
def test_a_faster_machine_is_faster_by_as_much(case, factor):
    inputs = lowered_of(case).inputs
    floors = ("floor_per_pass_s", "floor_per_draft_pass_s", "floor_per_step_s", "host_per_row_s",
              "host_s_per_step", "prefill_floor_s")  # fmt: skip
    axes = {name: inputs[name].value / factor for name in floors}
    axes |= {"peak_bandwidth_bytes_per_s": inputs["peak_bandwidth_bytes_per_s"].value * factor,
             "macs_per_s_scale": factor}  # fmt: skip
    slow, fast = simulate(**case), simulate(**case, axes=axes)
    for name in ("request_time_s", "ttft_s", "step_time_s", "tpot_s"):
        assert fast[name] * factor == pytest.approx(slow[name], rel=1e-9)
    assert fast["speedup"] == pytest.approx(slow["speedup"], rel=1e-9)


@COMMON
@given(
    drafter=st.sampled_from(DRAFTERS), device=st.sampled_from(PIXEL_CASES), length=st.integers(1, 8),
    alpha=st.floats(0.0, 1.0), seed=st.integers(0, 2**32), decoded=st.integers(1, 40),
    batch=st.integers(1, 3),
)  # fmt: skip
def test_what_the_resources_saw_is_what_the_result_says(drafter, device, length, alpha, seed, decoded, batch):
    lowered = lower_cached(device=device[0], runtime=device[1], engine=device[2], drafter=drafter,
                           target=first_target(drafter), draft_runtime=None, draft_engine=None)  # fmt: skip
    asked = Scenario(prompt_tokens=40, output_tokens=decoded + 1, draft_length=length, batch=batch)
    params = lowered.bind(asked)
    requests = list(drawn(
        IidAcceptance(acceptance_rate=alpha), draft_length=length, prompt_tokens=40.0,
        decoded_tokens=decoded, replications=2, rng=np.random.default_rng(seed),
    ))  # fmt: skip
    machine = machine_of(lowered, params)
    served = run(lowered, params, requests, machine=machine)

    for request, done in zip(requests, served, strict=True):
        assert done.decoded_tokens == decoded == sum(step[3] for step in request.steps)
        contexts = [step.context for step in done.steps]
        emitted = [step.emitted for step in done.steps]
        assert contexts == (40 + np.cumsum([0, *emitted[:-1]])).tolist()
    # bytes in the ledger = bytes moved on the bus by decode; host and clock agree with the phases
    decode = decode_of(case_of(params, served))
    decode_bytes = sum(decode.bytes_by_part.values()) * len(served)
    prefill_bytes = sum(done.prefill.bytes_moved + done.draft_prefill.bytes_moved for done in served)
    assert sum(machine.bus.bytes_by_client.values()) == pytest.approx(decode_bytes + prefill_bytes, rel=1e-9)
    phases = ("prefill", "draft_prefill", "draft", "verify")
    host_s = sum(getattr(done, name).host_s for done in served for name in phases)
    host_s += sum(done.commit_s for done in served)
    assert machine.host.busy_s == pytest.approx(host_s, rel=1e-9, abs=1e-15)
    now_s = float(machine.env.now)
    assert now_s == pytest.approx(sum(done.ttft_s + done.decode_s for done in served), rel=1e-9)
    assert machine.host.busy_s + machine.bus.busy_s == pytest.approx(now_s, rel=1e-9)
    assert sum(map(machine.bus.utilisation, machine.engines)) <= 1.0 + 1e-9
    for unit in (machine.host, machine.bus, *machine.engines.values()):
        assert (unit.resource.count, len(unit.resource.queue)) == (0, 0)


@COMMON
@given(case=cases())
def test_step_records_add_up(case):
    result = simulate(**case, steps=True)
    table = case["acceptance"].table
    for name in ("context", "proposed", "accepted", "emitted"):
        assert [getattr(step, name) for step in result.steps] == getattr(table, name).tolist()
    requests = result.inputs["requests"]
    decode_j = sum(result.energy_ledger["phase"][name] for name in ("draft", "verify", "commit"))
    assert sum(step.energy_j for step in result.steps) / requests / case["batch"] == pytest.approx(
        decode_j, rel=1e-9
    )
    total_s = sum(step.draft_s + step.verify_s + step.host_s for step in result.steps)
    assert total_s == pytest.approx(result["step_time_s"] * len(result.steps), rel=1e-9)
    starts = [step.start_s for step in result.steps]
    assert starts == sorted(starts)


@COMMON
@given(case=cases())
def test_timeline_has_no_overlap_and_adds_up(case):
    timeline = Timeline()
    result = simulate(**case, timeline=timeline)
    requests = result.inputs["requests"]
    for track in {span.track for span in timeline}:
        spans = timeline.of(track)
        assert all(one.end_s <= two.start_s + 1e-9 for one, two in pairwise(spans))
        assert all(span.duration_s >= 0.0 for span in spans)
    engines = [span for span in timeline if span.track.startswith("engine:")]
    for phase, name in (("draft", "draft_time_s"), ("verify", "verify_time_s")):
        total_s = sum(span.duration_s for span in engines if span.phase == phase)
        assert total_s == pytest.approx(result[name] * result["steps"] * requests, rel=1e-7, abs=1e-12)
    verify = [span for span in engines if span.name == "verify"]
    assert len(verify) == len(case["acceptance"].table)
    assert [span.detail["accepted"] for span in verify] == case["acceptance"].table.accepted.tolist()
    table = case["acceptance"].table
    dropped = [span.detail["dropped"] for span in timeline if span.name == "rollback"]
    assert dropped == [n for n in (table.proposed - table.accepted).tolist() if n]


def test_watching_changes_nothing(rng):
    case = {"device": "pixel_9", "target": "gemma_4_e2b", "drafter": "standalone_128m", "draft_length": 3,
            "acceptance": random_steps(rng, 3, [20, 20])}  # fmt: skip
    watched = simulate(**case, steps=True, timeline=Timeline())
    assert watched.metrics == simulate(**case).metrics
