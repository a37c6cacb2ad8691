"""The engine against a bare SimPy loop with as many timeouts and grants, interleaved in one run."""

from __future__ import annotations

import time
from itertools import count

import numpy as np
import pytest
import simpy

from simulator.acceptance import IidAcceptance
from simulator.engine import simulate
from simulator.engine.simulate import machine_of, run
from simulator.engine.work import drawn
from simulator.lowering import lower_cached
from simulator.specs import Scenario

LEAST_RATIO = 0.5
REQUESTS, PROMPT_TOKENS, OUTPUT_TOKENS, DRAFT_LENGTH, ALPHA = 20, 200, 257, 4, 0.7
CASE = {"device": "pixel_9", "target": "gemma_4_e2b"}
ROUNDS = 5


def bare(grants: int, timeouts: int) -> None:
    """One resource, taken and given back; some holders wait for the clock."""
    env = simpy.Environment()
    resource = simpy.Resource(env)

    def loop():
        for number in range(grants):
            with resource.request() as grant:
                yield grant
                if number < timeouts:
                    yield env.timeout(1e-3)

    env.run(until=env.process(loop()))


def cpu_s(work) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


@pytest.mark.parametrize("drafter", ["gemma_4_e2b_assistant", "standalone_128m", "ngram"])
def test_engine(benchmark, drafter, capsys):
    lowered = lower_cached(**CASE, drafter=drafter, runtime=None, engine=None, draft_runtime=None,
                           draft_engine=None)  # fmt: skip
    params = lowered.bind(Scenario(prompt_tokens=PROMPT_TOKENS, output_tokens=OUTPUT_TOKENS,
                                   draft_length=DRAFT_LENGTH))  # fmt: skip
    requests = list(drawn(
        IidAcceptance(acceptance_rate=ALPHA), draft_length=DRAFT_LENGTH, prompt_tokens=float(PROMPT_TOKENS),
        decoded_tokens=OUTPUT_TOKENS - 1, replications=REQUESTS, rng=np.random.default_rng(0),
    ))  # fmt: skip
    steps = sum(len(request.steps) for request in requests)
    counted = machine_of(lowered, params)
    run(lowered, params, requests, machine=counted)
    seeds = count()

    def loop() -> None:
        run(lowered, params, requests)

    def whole() -> None:
        simulate(**CASE, drafter=drafter, prompt_tokens=PROMPT_TOKENS, output_tokens=OUTPUT_TOKENS,
                 draft_length=DRAFT_LENGTH, acceptance=ALPHA, replications=REQUESTS,
                 seed=next(seeds))  # fmt: skip

    def reference() -> None:
        bare(counted.grants, counted.timeouts)

    times = np.array([[cpu_s(work) for work in (reference, loop, whole)] for _ in range(ROUNDS)]).min(axis=0)
    ratio, whole_ratio = times[0] / times[1], times[0] / times[2]
    events = counted.grants + counted.timeouts
    benchmark.extra_info |= {"ratio": ratio, "whole_ratio": whole_ratio, "steps_per_s": steps / times[1]}
    with capsys.disabled():
        print(f"\n{drafter}: {events} grants and timeouts, {steps} steps; of a bare loop's rate the engine "
              f"reaches {ratio:.0%}, all of simulate() {whole_ratio:.0%}; {events / times[1]:,.0f} events/s, "
              f"{steps / times[1]:,.0f} steps/s")  # fmt: skip
    assert ratio >= LEAST_RATIO
    assert whole_ratio >= LEAST_RATIO
    benchmark.pedantic(loop, rounds=3)
