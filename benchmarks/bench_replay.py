"""Replay of 100,000 anchors at K = 1..8: within one second on one slow core."""

from __future__ import annotations

import time

import numpy as np
import pytest

from simulator.acceptance import replay_many
from tests.trace_samples import random_trace

ANCHORS = 100_000
LIMIT_S = 1.0


@pytest.mark.parametrize("response_tokens", [100, ANCHORS], ids=["1000 short responses", "one long response"])
def test_replay(benchmark, response_tokens):
    lengths = [response_tokens] * (ANCHORS // response_tokens)
    trace = random_trace(np.random.default_rng(1), lengths, depth=8, vocabulary=2)
    tables = benchmark(replay_many, trace, range(1, 9))
    assert all(int(table.emitted.sum()) == ANCHORS - len(lengths) for table in tables.values())
    start = time.process_time()
    replay_many(trace, range(1, 9))
    assert time.process_time() - start < LIMIT_S
