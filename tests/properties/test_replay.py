"""Replay against a naive walk in plain Python, and what must hold for every trace."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simulator.acceptance import anchors, replay, replay_many, statistics_of
from tests.trace_samples import random_trace

traces = st.builds(
    lambda seed, lengths, depth, vocabulary, short: random_trace(
        np.random.default_rng(seed), lengths, depth=depth, vocabulary=vocabulary, short_proposals=short
    ),
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(1, 25), min_size=1, max_size=6),
    st.integers(1, 9),
    st.integers(1, 4),
    st.booleans(),
)


def naive_walk(trace, draft_length, min_prob):
    """The rule of the trace contract, one token at a time."""
    steps = []
    for request in range(trace.n_requests):
        begin, end = int(trace.start[request]), int(trace.start[request + 1])
        text, t = trace["token"][begin:end].tolist(), 0
        while t < len(text) - 1:
            row = begin + t
            chain, passes = [], 0
            for k in range(min(draft_length, int(trace["proposed"][row]))):
                passes += 1
                if min_prob is not None and trace["draft_top1_prob"][row, k] < np.float32(min_prob):
                    break
                chain.append(int(trace["draft_token"][row, k]))
            accepted = 0
            while (
                accepted < len(chain)
                and t + 1 + accepted < len(text)
                and chain[accepted] == text[t + 1 + accepted]
            ):
                accepted += 1
            left = len(text) - 1 - t
            emitted = min(accepted + 1, left)
            steps.append(
                (request, t, int(trace["context_length"][row]), len(chain), accepted, emitted, passes, left)
            )
            t += emitted
    return steps


def as_rows(table):
    names = ("request", "position", "context", "proposed", "accepted", "emitted", "draft_passes", "remaining")
    return list(zip(*(getattr(table, name).tolist() for name in names), strict=True))


@given(traces, st.data(), st.none() | st.floats(0, 1))
def test_replay_is_the_naive_walk(trace, data, min_prob):
    length = data.draw(st.integers(0, trace.metadata.max_depth))
    assert as_rows(replay(trace, length, min_prob=min_prob)) == naive_walk(trace, length, min_prob)


@given(traces)
def test_every_token_is_emitted_once(trace):
    for length, table in replay_many(trace, range(trace.metadata.max_depth + 1)).items():
        emitted = np.bincount(table.request, weights=table.emitted, minlength=trace.n_requests)
        np.testing.assert_array_equal(emitted, trace.lengths - 1)
        assert (table.emitted >= 1).all()
        assert (table.accepted <= table.proposed).all()
        assert (table.proposed <= length).all()
        # partial only where the response ends, and at most once a request
        assert (table.partial == (table.accepted == table.remaining)).all()
        assert np.bincount(table.request[table.partial], minlength=1).max() <= 1


@given(traces)
def test_lengths_stay_within_their_bounds(trace):
    for length in range(trace.metadata.max_depth + 1):
        for table in (replay(trace, length), anchors(trace, length)):
            statistics = statistics_of(table)
            if statistics.steps:
                assert 1 <= statistics.tokens_per_step <= length + 1
                assert 1 <= statistics.mean_acceptance_length <= length + 1
                survival = statistics.per_position_acceptance_rate
                assert (np.diff(survival) <= 0).all()
                np.testing.assert_allclose(statistics.mean_acceptance_length, 1 + survival.sum(), rtol=1e-12)


@given(traces)
def test_accepted_never_falls_with_the_draft_length_at_an_anchor(trace):
    tables = [anchors(trace, length) for length in range(trace.metadata.max_depth + 1)]
    for shorter, longer in pairwise(tables):
        assert (longer.accepted >= shorter.accepted).all()
        # what a shorter chain did not use up, a longer one cannot change
        unused = shorter.accepted < shorter.proposed
        assert (longer.accepted[unused] == shorter.accepted[unused]).all()


@given(traces)
def test_conditional_rates_multiply_to_the_unconditional_one_without_ends(trace):
    """Where every draft is proposed and inside the response, S_k is the product of the conditional rates."""
    length = trace.metadata.max_depth
    table = anchors(trace, length)
    inside = np.flatnonzero((table.proposed == length) & (table.remaining > length))
    chosen = type(table)(
        draft_length=length,
        n_requests=table.n_requests,
        **{
            name: getattr(table, name)[inside]
            for name in (
                "request",
                "position",
                "context",
                "proposed",
                "accepted",
                "emitted",
                "draft_passes",
                "remaining",
            )
        },
    )
    statistics = statistics_of(chosen)
    if statistics.steps:
        conditional = np.nan_to_num(statistics.conditional_acceptance_rate)
        np.testing.assert_allclose(
            np.cumprod(conditional), statistics.per_position_acceptance_rate, atol=1e-12
        )
