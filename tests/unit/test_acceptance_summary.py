"""Summary tables and the comparison of two heads."""

from __future__ import annotations

import json

import numpy as np
import pytest

from simulator.acceptance import anchors, diff, is_regression, replay, statistics_of, summarise
from simulator.acceptance.schema import TraceError, trace_from_columns
from simulator.errors import UnknownNameError
from tests.trace_samples import columns, metadata, random_trace, trace_of_text


@pytest.fixture
def trace(rng):
    return random_trace(rng, [30, 25, 20, 35, 15, 28])  # overlaps 0 .1 .2 .3 0 .1; tasks alternate


def pick(records, task, draft_length):
    (found,) = [r for r in records if r["task"] == task and r["draft_length"] == draft_length]
    return found


def test_records_are_the_statistics_of_the_steps(trace):
    records = summarise(trace)
    assert len(records) == 3 * 8
    assert [r["task"] for r in records[::8]] == ["code", "chat", "all"]
    code = trace.filtered(tasks=["code"])
    record, statistics = pick(records, "code", 4), statistics_of(replay(code, 4))
    assert record["mean_acceptance_length"] == statistics.mean_acceptance_length
    assert record["per_position_acceptance_rate"] == statistics.per_position_acceptance_rate.tolist()
    assert record["steps"] == statistics.steps
    assert record["anchor_mean_acceptance_length"] == statistics_of(anchors(code, 4)).mean_acceptance_length
    assert (record["target"], record["drafter"], record["max_overlap"]) == ("toy_target", "toy_head", 0.2)
    assert record["mean_acceptance_length_low"] is None


def test_overlap_filter_is_counted(trace):
    filtered, everything = summarise(trace), summarise(trace, max_overlap=None)
    assert (pick(filtered, "chat", 1)["requests"], pick(filtered, "chat", 1)["requests_removed"]) == (2, 1)
    assert (pick(everything, "chat", 1)["requests"], pick(everything, "chat", 1)["requests_removed"]) == (
        3,
        0,
    )
    assert pick(everything, "all", 1)["tokens"] == 153


def test_tasks_in_the_order_asked_for(trace):
    records = summarise(trace, draft_lengths=[2], tasks=["chat"])
    assert [r["task"] for r in records] == ["chat", "all"]
    assert records[0]["mean_acceptance_length"] == records[1]["mean_acceptance_length"]
    with pytest.raises(UnknownNameError, match="Did you mean 'chat'"):
        summarise(trace, tasks=["cha"])


def test_a_task_without_data_is_none_and_json_is_strict(trace):
    records = summarise(trace.take(np.array([3])), draft_lengths=[4])  # overlap 0.3: filtered away
    assert records[0]["requests"] == 0
    assert records[0]["mean_acceptance_length"] is None
    assert records[0]["conditional_acceptance_rate"] == [None] * 4
    json.dumps(records, allow_nan=False)


def test_bounds_with_a_generator(trace):
    records = [summarise(trace, draft_lengths=[4], rng=np.random.default_rng(5)) for _ in range(2)]
    assert records[0] == records[1]
    record = pick(records[0], "all", 4)
    assert (
        record["mean_acceptance_length_low"]
        <= record["mean_acceptance_length"]
        <= record["mean_acceptance_length_high"]
    )


# ----------------------------------------------------------------------------------------------- diff
@pytest.fixture
def heads():
    """Two heads on the same 40 responses: the second one knows the text of task code."""
    old = columns(np.random.default_rng(1), [20] * 40, depth=4, vocabulary=3)
    new = {name: column.copy() for name, column in old.items()}
    rows = np.flatnonzero(new["task"] == "code")
    for k in range(1, 5):
        ahead = np.minimum(rows + k, len(new["token"]) - 1)
        drafted = new["proposed"][rows] >= k
        new["draft_token"][rows[drafted], k - 1] = new["token"][ahead[drafted]]
    return (
        trace_from_columns(old, metadata(4), "old.parquet"),
        trace_from_columns(new, metadata(4, drafter_id="new_head"), "new.parquet"),
    )


def test_diff_says_up_and_same(heads, rng):
    records = diff(*heads, rng=rng)
    assert {r["task"]: r["verdict"] for r in records} == {"code": "up", "chat": "same", "all": "up"}
    code = pick(records, "code", 4)
    assert code["difference"] == pytest.approx(
        code["mean_acceptance_length_b"] - code["mean_acceptance_length_a"]
    )
    assert code["difference_low"] <= code["difference"] <= code["difference_high"]
    assert (code["drafter_a"], code["drafter_b"], code["requests"]) == ("toy_head", "new_head", 20)
    assert pick(records, "chat", 4)["difference"] == 0
    assert not is_regression(records)


def test_diff_the_other_way_is_a_regression(heads, rng):
    records = diff(heads[1], heads[0], rng=rng, draft_lengths=(1, 4))
    assert pick(records, "code", 1)["verdict"] == "down"
    assert is_regression(records)


def test_diff_does_not_mind_the_order_of_requests(heads, rng):
    old, new = heads
    shuffled = new.take(rng.permutation(new.n_requests))
    assert [r["difference"] for r in diff(old, shuffled, rng=rng)] == [
        r["difference"] for r in diff(old, new, rng=rng)
    ]


def test_diff_without_data_is_unknown(heads, rng):
    old, new = heads
    records = diff(old.take(np.array([3])), new.take(np.array([3])), rng=rng)
    assert {r["verdict"] for r in records} == {"unknown"}
    assert not is_regression(records)


def test_diff_keeps_only_what_is_unseen_by_both(heads, rng):
    old, new = heads
    seen = type(new)(**{**vars(new), "train_overlap": np.ones(new.n_requests, dtype=np.float32)})
    assert {r["requests"] for r in diff(old, seen, rng=rng)} == {0}


def test_diff_needs_one_target(rng):
    text = [[5, 6, 7]]
    with pytest.raises(TraceError, match="target_id differs: 'toy_target' and 'other'"):
        diff(trace_of_text(text, {}), trace_of_text(text, {}, target_id="other"), rng=rng)
    with pytest.raises(TraceError, match="target_sha256 differs"):
        diff(trace_of_text(text, {}), trace_of_text(text, {}, target_sha256="ab"), rng=rng)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ([[5, 6, 9, 8], [1, 2]], r"request 'r0', position 2: the text differs \(7 and 9\)"),
        ([[5, 6, 7], [1, 2]], r"request 'r0', position 3: the text differs \(8 and the end\)"),
        ([[5, 6, 7, 8]], "request 'r1' stands in one trace only"),
    ],
)
def test_diff_needs_identical_text(other, message, rng):
    with pytest.raises(TraceError, match=message):
        diff(trace_of_text([[5, 6, 7, 8], [1, 2]], {}), trace_of_text(other, {}), rng=rng)


def test_an_interval_does_not_hang_on_what_else_is_asked(trace):
    def ends(**options):
        records = summarise(trace, rng=np.random.default_rng(3), replicates=50, **options)
        return {
            (r["task"], r["draft_length"]): [r[f"mean_acceptance_length_{end}"] for end in ("low", "high")]
            for r in records if r["task"] != "all"
        }  # fmt: skip

    many = ends(draft_lengths=[1, 2, 4])
    for task in trace.tasks:
        for length in (1, 4):
            few = ends(draft_lengths=[length], tasks=[task])
            assert few == {(task, length): many[task, length]}
