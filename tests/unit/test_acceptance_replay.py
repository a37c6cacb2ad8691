"""Replay and its statistics on traces small enough to walk by hand."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.acceptance import anchors, bootstrap, replay, replay_many, statistics_of, walk
from simulator.acceptance.schema import TraceError
from tests.trace_samples import random_trace, trace_of_text

TEXT = [5, 6, 7, 8, 9]  # y_0..y_4: four tokens to emit after prefill


def rows(table):
    return list(
        zip(
            table.position.tolist(),
            table.proposed.tolist(),
            table.accepted.tolist(),
            table.emitted.tolist(),
            strict=True,
        )
    )


def test_by_hand():
    """t=0: 6 7 match, 1 not: accept 2, emit 3 -> t=3: 9 matches and ends the response: partial, no bonus."""
    trace = trace_of_text([TEXT], {(0, 0): [6, 7, 1, 9], (0, 1): [1, 1], (0, 3): [9, 2, 2]})
    table = replay(trace, 4)
    assert rows(table) == [(0, 4, 2, 3), (3, 3, 1, 1)]
    assert table.context.tolist() == [10, 13]
    assert table.remaining.tolist() == [4, 1]
    assert table.partial.tolist() == [False, True]
    statistics = statistics_of(table)
    assert statistics.mean_acceptance_length == 2.5
    assert statistics.tokens_per_step == 2.0
    assert statistics.draft_acceptance_rate == pytest.approx(3 / 7)
    assert (statistics.steps, statistics.drafted_steps, statistics.partial_steps) == (2, 2, 1)
    np.testing.assert_allclose(statistics.per_position_acceptance_rate, [1, 0.5, 0, 0])
    # position 2 could be judged at t=0 only (beyond the end at t=3); position 3 there, and it missed
    np.testing.assert_allclose(statistics.conditional_acceptance_rate[:3], [1, 1, 0])
    assert np.isnan(statistics.conditional_acceptance_rate[3])


def test_shorter_chains_visit_other_anchors():
    trace = trace_of_text([TEXT], {(0, 0): [6, 7, 1, 9], (0, 1): [1, 1], (0, 3): [9, 2, 2]})
    assert rows(replay(trace, 1)) == [(0, 1, 1, 2), (2, 0, 0, 1), (3, 1, 1, 1)]


def test_no_drafting_is_plain_decoding():
    trace = trace_of_text([TEXT, [1]], {(0, 0): [6, 7, 8, 9]})
    table = replay(trace, 0)
    assert rows(table) == [(t, 0, 0, 1) for t in range(4)]
    assert statistics_of(table).mean_acceptance_length == 1.0
    assert statistics_of(table).per_position_acceptance_rate.shape == (0,)


def test_full_acceptance_at_the_end_has_no_bonus():
    trace = trace_of_text([[5, 6, 7]], {(0, 0): [6, 7, 0, 0]})
    assert rows(replay(trace, 4)) == [(0, 4, 2, 2)]
    assert rows(replay(trace, 2)) == [(0, 2, 2, 2)]
    assert rows(replay(trace, 1)) == [(0, 1, 1, 2)]


def test_drafts_do_not_match_the_next_request():
    trace = trace_of_text([[5, 6], [7, 8, 9]], {(0, 0): [6, 7, 8]})
    table = replay(trace, 4)
    assert rows(table)[0] == (0, 3, 1, 1)
    assert table.request.tolist() == [0, 1, 1]


def test_one_token_responses_have_no_steps():
    trace = trace_of_text([[5], [6], [7]], {})
    for length in (0, 1, 4):
        table = replay(trace, length)
        assert len(table) == 0
        assert table.n_requests == 3
        assert np.isnan(statistics_of(table).mean_acceptance_length)
        assert np.isnan(statistics_of(table).draft_acceptance_rate)


def test_trace_filtered_to_nothing(rng):
    trace = random_trace(rng, [3, 4]).filtered(max_overlap=None, tasks=[])
    assert trace.n_rows == 0
    assert len(replay(trace, 3)) == 0
    assert len(anchors(trace, 3)) == 0
    assert np.isnan(statistics_of(replay(trace, 3)).tokens_per_step)


def test_ngram_anchors_without_a_proposal():
    """Steps without a proposal count as steps; vLLM's own length counts drafted steps only."""
    trace = trace_of_text([TEXT], {(0, 1): [7, 8]})
    table = replay(trace, 3)
    assert rows(table) == [(0, 0, 0, 1), (1, 2, 2, 3)]
    statistics = statistics_of(table)
    assert statistics.drafted_steps == 1
    assert statistics.mean_acceptance_length == 2.0
    assert 1 + statistics.accepted / statistics.drafted_steps == 3.0
    np.testing.assert_allclose(statistics.per_position_acceptance_rate, [0.5, 0.5, 0])


def test_confidence_stop(rng):
    sample = random_trace(rng, [40, 30], vocabulary=2)
    free, stopped = replay(sample, 8), replay(sample, 8, min_prob=0.5)
    assert (stopped.proposed < 8).any()
    assert np.array_equal(stopped.draft_passes, np.minimum(stopped.proposed + 1, 8))
    assert np.array_equal(free.draft_passes, free.proposed)
    confidence = sample["draft_top1_prob"]
    for request, position, proposed in zip(stopped.request, stopped.position, stopped.proposed, strict=True):
        row = confidence[sample.start[request] + position]
        assert (row[:proposed] >= 0.5).all()
        assert proposed == 8 or row[proposed] < 0.5
    assert np.array_equal(replay(sample, 8, min_prob=0.0).accepted, free.accepted)


def test_confidence_stop_after_a_short_proposal(rng):
    """Where the drafter itself had fewer drafts, no pass was run for the one that is not there."""
    sample = random_trace(rng, [40], short_proposals=True)
    table = anchors(sample, 8, min_prob=0.0)
    assert np.array_equal(table.draft_passes, table.proposed)


def test_anchor_table_has_every_anchor_but_the_last(rng):
    trace = random_trace(rng, [5, 1, 7])
    table = anchors(trace, 3)
    assert len(table) == 4 + 0 + 6
    assert table.position.tolist() == [*range(4), *range(6)]


def test_draft_length_beyond_the_trace(rng):
    trace = random_trace(rng, [5], depth=8)
    for length in (-1, 9):
        with pytest.raises(TraceError, match=rf"draft_length: given {length}, allowed: 0..8"):
            replay(trace, length)
    with pytest.raises(TraceError, match=r"min_prob: given nan, allowed: 0..1"):
        replay(trace, 3, min_prob=float("nan"))


def test_of_requests_renumbers(rng):
    trace = random_trace(rng, [9, 8, 7])
    table = replay(trace, 2)
    part = table.of_requests(np.array([2, 0]))
    assert part.n_requests == 2
    assert part.position.tolist() == [
        *table.position[table.request == 2],
        *table.position[table.request == 0],
    ]
    assert sorted(set(part.request.tolist())) == [0, 1]


def test_replay_many_is_replay(rng):
    trace = random_trace(rng, [20, 1, 13])
    for length, table in replay_many(trace, range(9)).items():
        assert rows(table) == rows(replay(trace, length))


def test_walk_is_the_statistics_of_the_replay(rng):
    trace = random_trace(rng, [20, 13])
    assert walk(trace, 4).mean_acceptance_length == statistics_of(replay(trace, 4)).mean_acceptance_length


def test_bootstrap_contains_the_mean_and_shrinks_with_requests(rng):
    few, many = (replay(random_trace(rng, [30] * n), 4) for n in (8, 200))
    widths = []
    for table in (few, many):
        low, high = bootstrap(table, rng=rng, replicates=500)["mean_acceptance_length"]
        assert low < statistics_of(table).mean_acceptance_length < high
        widths.append(high - low)
    assert widths[1] < widths[0] / 2


def test_bootstrap_is_reproducible_and_needs_two_requests(rng):
    table = replay(random_trace(rng, [30] * 5), 4)
    first, second = (bootstrap(table, rng=np.random.default_rng(3), replicates=50) for _ in range(2))
    assert first["mean_acceptance_length"] == second["mean_acceptance_length"]
    single = bootstrap(replay(random_trace(rng, [30]), 4), rng=rng)
    assert np.isnan(single["mean_acceptance_length"]).all()
    assert np.isnan(single["per_position_acceptance_rate"]).all()
