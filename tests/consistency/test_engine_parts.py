"""Parts of the engine: resources that queue, prices, drawn steps, statistics, and messages for bad input."""

from __future__ import annotations

import numpy as np
import pytest
import simpy

from simulator.acceptance import IidAcceptance
from simulator.engine import simulate
from simulator.engine.costs import pass_prices
from simulator.engine.machine import Machine
from simulator.engine.session import Session
from simulator.engine.simulate import machine_of, run
from simulator.engine.statistics import jackknife_interval, leave_one_out, percentiles
from simulator.engine.work import drawn, replayed
from simulator.errors import DraftscopeError
from simulator.lowering import lower_cached
from simulator.specs import Scenario
from tests.engine_samples import random_steps
from tests.trace_samples import random_trace

CASE = {"device": "pixel_9", "target": "gemma_4_e2b", "drafter": "ngram", "draft_length": 2,
        "acceptance": 0.5, "prompt_tokens": 10, "output_tokens": 10}  # fmt: skip


def machine(**options):
    return Machine(**{"engines": ["tpu"], "capacity_bytes_per_s": 100.0, **options})


def test_transfers_queue_and_the_wait_is_part_of_the_answer():
    phone, answers = machine(engines=["tpu", "gpu"]), {}

    def client(name, start_s, duration_s):
        yield phone.env.timeout(start_s)
        answers[name] = yield from phone.bus.transfer(name, 50.0, duration_s)

    for name, start_s, duration_s in (("tpu", 0.0, 3.0), ("gpu", 1.0, 2.0), ("tpu", 1.5, 1.0)):
        phone.env.process(client(name, start_s, duration_s))
    phone.env.run()
    assert answers == {"gpu": 4.0, "tpu": 4.5}  # waits 2 s and 3.5 s
    assert phone.env.now == 6.0
    assert phone.bus.bytes_by_client == {"tpu": 100.0, "gpu": 50.0}
    assert phone.bus.busy_s_by_client == {"tpu": 4.0, "gpu": 2.0}
    assert phone.bus.utilisation("tpu") == pytest.approx(100.0 / 600.0)
    assert phone.bus.utilisation("cpu") == 0.0


def test_two_sessions_on_one_machine_take_turns(rng):
    lowered = lower_cached(device="pixel_9", target="gemma_4_e2b", drafter="ngram", runtime="ideal",
                           engine="tpu", draft_runtime=None, draft_engine=None)  # fmt: skip
    params = lowered.bind(Scenario(prompt_tokens=60, output_tokens=10, draft_length=3))
    requests = replayed(random_steps(rng, 3, [20]).table)
    (alone,) = run(lowered, params, requests)
    phone, served = machine_of(lowered, params), ([], [])
    for each in served:
        session = Session(phone, params, engine="tpu", draft_engine="tpu")
        phone.env.process(session.serve(requests, each))
    phone.env.run()
    moved = alone.prefill.bytes_moved + alone.verify.bytes_moved
    assert phone.bus.bytes_by_client["tpu"] == pytest.approx(2 * moved, rel=1e-12)
    busy_s = 2 * (alone.prefill.time_s + alone.verify.time_s)
    assert phone.bus.busy_s + phone.host.busy_s == pytest.approx(busy_s + 2 * alone.commit_s, rel=1e-9)
    assert busy_s <= phone.env.now <= busy_s + 2 * alone.commit_s + 1e-9
    for (together,) in served:
        assert together.decode_s > 1.5 * alone.decode_s
        assert together.ttft_s + together.decode_s <= float(phone.env.now) + 1e-9


def test_an_interrupted_holder_gives_the_unit_back():
    phone = machine()

    def holder():
        with pytest.raises(simpy.Interrupt):
            yield from phone.host.hold(10.0)

    process = phone.env.process(holder())

    def canceller():
        yield phone.env.timeout(1.0)
        process.interrupt()

    phone.env.process(canceller())
    phone.env.run()
    assert phone.host.resource.count == 0
    assert phone.host.busy_s == 0.0


def test_prices_are_the_costs_and_plain_floats():
    lowered = lower_cached(device="pixel_9", target="gemma_4_e2b", drafter="none", runtime=None, engine=None,
                           draft_runtime=None, draft_engine=None)  # fmt: skip
    params = lowered.bind(Scenario(prompt_tokens=10, output_tokens=10))
    for width in (1, 5):
        cost = params.verify_cost(width)
        prices = pass_prices(cost)
        for context in (0, 100, 511.5, 512, 4000):
            parts = (cost.busy_s, cost.bytes_moved, cost.mac_energy_j)
            expected = [float(part.at(context)) for part in parts]
            assert prices[context] == pytest.approx(expected, rel=1e-12)
            assert {type(value) for value in prices[context]} == {float}
        assert len(prices) == 5


def test_drawn_requests_emit_exactly_what_is_wanted(rng):
    for decoded in (1, 2, 37):
        requests = list(drawn(IidAcceptance(acceptance_rate=0.8), draft_length=4, prompt_tokens=5.0,
                              decoded_tokens=decoded, replications=30, rng=rng))  # fmt: skip
        for request in requests:
            context = 5.0
            for start, proposed, accepted, emitted, computed in request.steps:
                assert (start, proposed, computed) == (context, 4, 4)
                assert 1 <= emitted <= accepted + 1 <= 5
                context += emitted
            assert context == 5.0 + decoded


def test_drawn_steps_follow_the_rate(rng):
    requests = drawn(IidAcceptance(acceptance_rate=0.8), draft_length=4, prompt_tokens=5.0,
                     decoded_tokens=200, replications=100, rng=rng)  # fmt: skip
    accepted = [step[2] for request in requests for step in request.steps]
    assert 1 + np.mean(accepted) == pytest.approx(3.3616, abs=0.06)


def test_replayed_requests_start_where_they_are_told(rng):
    table = random_steps(rng, 3, [8, 5], prompt_tokens=60).table
    assert [request.prompt_tokens for request in replayed(table)] == [60.0, 67.0]
    moved = replayed(table, prompt_tokens=100)
    assert [request.steps[0][0] for request in moved] == [100.0, 100.0]
    assert [len(request.steps) for request in moved] == np.bincount(table.request).tolist()


def test_jackknife_of_a_mean_is_the_t_interval(rng):
    values = rng.normal(5.0, 1.0, 9)
    low, high = jackknife_interval({"a": values.mean()}, {"a": leave_one_out(values), "b": 3.0})["a"]
    half = 2.306004 * values.std(ddof=1) / 3.0  # t table, 8 degrees of freedom, 0.975
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), rel=1e-6)


def test_what_does_not_vary_has_no_interval():
    values = np.full(5, 0.3)
    assert jackknife_interval({"a": 0.3}, {"a": leave_one_out(values)}) == {}


def test_percentiles_by_hand():
    found = percentiles("itl", list(range(101)))
    assert found == {"itl_p50_s": 50.0, "itl_p90_s": 90.0, "itl_p99_s": 99.0}
    assert percentiles("itl", []) == {}


@pytest.mark.parametrize(("change", "message"), [
    ({"device": "pixle_9"}, "pixel_9"),
    ({"drafter": "n_gram"}, "Did you mean 'ngram'"),
    ({"target": "gemma_4_e2"}, "gemma_4_e2b"),
    ({"acceptance": None}, "never defaulted"),
    ({"acceptance": 1.5}, "0..1"),
    ({"acceptance": float("nan")}, "0..1"),
    ({"acceptance": "gemma_4_e4b_mtbench"}, "gemma_4_e4b_mt_bench"),
    ({"acceptance": "gemma_4_e4b_mt_bench"}, "transfer"),
    ({"acceptance": np.array([0.1, 0.2])}, "acceptance"),
    ({"acceptance": IidAcceptance(acceptance_rate=np.array([0.1, 0.2]))}, "one design"),
    ({"acceptance": object()}, "give a trace"),
    ({"draft_length": -1}, "draft_length"),
    ({"draft_length": 1.5}, "draft_length"),
    ({"draft_length": np.array([1, 2])}, "one design"),
    ({"prompt_tokens": float("nan")}, "prompt_tokens"),
    ({"prompt_tokens": None}, "scenario: none given"),
    ({"output_tokens": 1}, "output_tokens"),
    ({"output_tokens": 9.5}, "whole numbers"),
    ({"batch": 0}, "batch"),
    ({"replications": 0}, "replications"),
    ({"replications": 2.5}, "replications"),
    ({"seed": -1}, "seed"),
    ({"seed": "one"}, "seed"),
    ({"axes": {"floor_per_step": 1.0}}, "Did you mean 'floor_per_step_s'"),
    ({"axes": {"floor_per_step_s": -1.0}}, "floor_per_step_s"),
    ({"axes": {"floor_per_step_s": np.array([1.0, 2.0])}}, "one design"),
    ({"axes": {"macs_per_s": {"int8": np.array([1.0, 2.0])}}}, "one design"),
    ({"drafter": "none"}, "allowed: 0, or leave it out. Or name a drafter; for gemma_4_e2b"),
    ({"drafter": "smollm2_mtp_head"}, "target"),
], ids=str)  # fmt: skip
def test_bad_input_is_answered_with_what_is_allowed(change, message):
    with pytest.raises(ValueError, match="(?s)" + message.replace("(", r"\(")) as caught:
        simulate(**{**CASE, **change})
    assert type(caught.value).__name__.endswith("Error")
    assert type(caught.value) is not ValueError


def test_a_trace_for_something_else_is_refused_or_labelled(rng):
    trace = random_trace(rng, [20, 20], metadata={"target_id": "smollm2_135m", "drafter_id": "mtp_head"})
    case = {**CASE, "drafter": "gemma_4_e2b_assistant", "acceptance": trace}
    with pytest.raises(DraftscopeError, match="transfer"):
        simulate(**case)
    carried = simulate(**case, transfer=True)
    assert carried.confidence_by_group["acceptance"] == "assumed"
