"""The comparison: two blocks, best draft lengths, totals over totals, nothing defaulted, nothing mixed."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.acceptance.base import TransferError
from simulator.acceptance.replay import STEP_COLUMNS, replay
from simulator.acceptance.trace import read_trace
from simulator.analytic import predict
from simulator.errors import DraftscopeError, UnknownNameError
from simulator.studies.compare import compare
from simulator.studies.notes import within
from simulator.studies.replays import loaded, replayed
from simulator.studies.rows import COLUMNS, row_of
from tests.study_samples import DRAFTERS, TASKS, sample, write_sample

QUICK = {"intervals": False}


@pytest.fixture
def traced(shipped):
    return compare(targets="smollm2_135m", **QUICK)


def by_drafter(found):
    return {row.drafter: row for row in found.rows}


def test_traced_block_has_plain_decoding_and_every_drafter(traced):
    assert [row.block for row in traced.rows] == ["traced"] * 6
    assert traced.rows[0].drafter == "none"
    assert set(by_drafter(traced)) == {
        "none",
        "ngram",
        "smollm2_mtp_head",
        "smollm2_standalone_body",
        "smollm2_standalone_total",
        "suffix",
    }


def test_plain_decoding_is_of_the_same_responses(traced):
    plain, *others = traced.rows
    for row in others:
        assert row.requests == plain.requests
        result = row.results[0]
        assert result["baseline_decode_tokens_per_s"] == pytest.approx(plain.decode_tokens_per_s, rel=1e-12)
        assert row.speedup == pytest.approx(row.decode_tokens_per_s / plain.decode_tokens_per_s, rel=1e-12)


def test_overlap_filter_is_on_and_can_be_lifted(traced, shipped):
    trace = read_trace(shipped / "mtp_head.parquet")
    assert traced.rows[1].requests == trace.filtered().n_requests < trace.n_requests
    lifted = compare(targets="smollm2_135m", drafters="mtp_head", max_overlap=None, **QUICK)
    assert lifted.rows[1].requests == trace.n_requests


def test_best_length_is_the_fastest_of_those_asked_for(shipped):
    every = compare(targets="smollm2_135m", drafters="mtp_head", every_length=True, **QUICK).rows[1:]
    assert [row.draft_length for row in every] == list(range(1, 9))
    best = compare(targets="smollm2_135m", drafters="mtp_head", **QUICK).rows[1]
    assert best.decode_tokens_per_s == max(row.decode_tokens_per_s for row in every)
    chosen = compare(targets="smollm2_135m", drafters="mtp_head", draft_lengths=2, **QUICK).rows[1]
    assert chosen.record() == every[1].record()


def test_all_tasks_are_total_tokens_over_total_time(shipped):
    whole, *parts = compare(
        targets="smollm2_135m", drafters="mtp_head", draft_lengths=3, every_task=True, **QUICK
    ).rows[1:]
    assert [row.task for row in parts] == list(dict.fromkeys(row.task for row in parts))
    tokens = [row.requests * (row.output_tokens - 1) for row in parts]
    times = [n / row.decode_tokens_per_s for n, row in zip(tokens, parts, strict=True)]
    assert whole.decode_tokens_per_s == pytest.approx(sum(tokens) / sum(times), rel=1e-9)
    assert whole.tasks == len(parts)
    speedups = {row.task: row.speedup for row in parts}
    assert whole.slowest_task_speedup == min(speedups.values())
    assert whole.fastest_task == max(speedups, key=speedups.get)


def test_a_row_is_what_predict_says(traced, shipped):
    row = by_drafter(traced)["smollm2_mtp_head"]
    alone = predict(
        device="pixel_9",
        target="smollm2_135m",
        drafter="smollm2_mtp_head",
        acceptance=read_trace(shipped / "mtp_head.parquet"),
        draft_length=row.draft_length,
        intervals=False,
    )
    for name in ("decode_tokens_per_s", "energy_per_token_j", "ttft_s", "peak_ram_bytes", "bytes_per_token"):
        assert getattr(row, name) == pytest.approx(alone[name], rel=1e-12)


def test_intervals_hold_the_value(shipped):
    row = compare(targets="smollm2_135m", drafters="mtp_head").rows[1]
    assert row.speedup_low <= row.speedup <= row.speedup_high
    assert row.decode_tokens_per_s_low < row.decode_tokens_per_s < row.decode_tokens_per_s_high


def test_records_have_fixed_columns(traced):
    assert all(tuple(record) == COLUMNS for record in traced.records())
    assert "results" not in COLUMNS


def test_published_block_uses_each_targets_own_sets(nothing_shipped):
    found = compare(targets=["gemma_4_e4b", "gemma_4_e2b", "gemma_3n_e2b"], **QUICK)
    rows = {(row.target, row.drafter, row.acceptance) for row in found.rows if row.acceptance}
    assert ("gemma_4_e4b", "gemma_4_e4b_assistant", "vllm_gemma4_acceptance_test") in rows
    assert ("gemma_4_e4b", "gemma_4_e4b_assistant", "modelopt_speed_bench_e4b_k7") in rows
    assert not any(target == "gemma_4_e2b" for target, _, _ in rows)
    stand_in = next(row for row in found.rows if row.drafter == "frozen_mtp_nano")
    assert stand_in.acceptance_kind == "assumed"
    assert stand_in.mean_acceptance_length == pytest.approx(2.95)
    assert any("stands for gemini_nano_v3" in note for note in found.notes)


def test_published_sets_are_not_asked_beyond_their_draft_lengths(nothing_shipped):
    rows = compare(targets="gemma_4_e4b", drafters="gemma_4_e4b_assistant", every_length=True, **QUICK).rows
    lengths = {}
    for row in rows[1:]:
        lengths.setdefault(row.acceptance, []).append(row.draft_length)
    assert lengths["vllm_gemma4_acceptance_test"] == [1, 2]
    assert lengths["modelopt_speed_bench_e4b_k7"] == [1, 2, 3, 4, 5, 6, 7]


def test_draft_lengths_that_are_left_out_are_said(nothing_shipped):
    """In the words of `predict`; one for each drafter and publication."""
    asked = {"targets": "gemma_4_e4b", "drafters": ["gemma_4_e4b_assistant", "gemma_4_e4b_assistant_dense"]}
    notes = compare(**asked, draft_lengths=range(1, 5), **QUICK).notes
    for drafter in asked["drafters"]:
        assert notes.count(
            f"{drafter} on gemma_4_e4b: draft lengths 3-4 left out: acceptance vllm_gemma4_acceptance_test "
            "is known up to draft length 2 only."
        ) == 1  # fmt: skip
    assert not any("left out" in note for note in compare(**asked, draft_lengths=2, **QUICK).notes)


@pytest.mark.parametrize(
    ("largest", "kept", "words"),
    [
        (None, [1, 2, 3, 5, 8], ""),
        (2, [1, 2], "lengths 3, 5, 8 left"),
        (5, [1, 2, 3, 5], "length 8 left"),
        (0, [], "1-3, 5, 8"),
    ],
)
def test_within(largest, kept, words):
    found, note = within([1, 2, 3, 5, 8], largest, drafter="d", target="t", acceptance="a")
    assert found == kept
    assert words in note
    assert bool(note) == bool(words)


def test_a_mean_over_benchmarks_is_total_tokens_over_total_time(nothing_shipped):
    whole, *parts = compare(
        targets="gemma_4_e4b", drafters="gemma_4_e4b_assistant", draft_lengths=2, every_task=True, **QUICK
    ).rows[1:5]
    assert {row.task for row in parts} == {"mt_bench", "humaneval", "gsm8k"}
    times = [1 / row.decode_tokens_per_s for row in parts]
    assert whole.decode_tokens_per_s == pytest.approx(3 / sum(times))
    assert whole.mean_acceptance_length == pytest.approx(
        3 / sum(1 / row.mean_acceptance_length for row in parts)
    )


def test_designs_without_acceptance_show_cost_only(nothing_shipped):
    row = next(
        row for row in compare(targets="gemma_4_e2b", **QUICK).rows if row.drafter == "standalone_128m"
    )
    for name in (
        "acceptance",
        "mean_acceptance_length",
        "decode_tokens_per_s",
        "speedup",
        "energy_per_token_j",
        "bytes_per_token",
    ):
        assert getattr(row, name) is None
    assert row.break_even_acceptance_length > 1
    assert row.drafter_ram_bytes > 1e8
    assert row.note == "no published acceptance: cost only"


def test_without_shipped_traces_the_traced_block_says_so(nothing_shipped):
    found = compare(targets="smollm2_135m", **QUICK)
    assert all(row.speedup is None for row in found.rows[1:])
    assert any("No acceptance trace on smollm2_135m" in note for note in found.notes)


def test_a_trace_never_serves_another_target_silently(shipped):
    file = shipped / "mtp_head.parquet"
    with pytest.raises(TransferError, match="--transfer"):
        compare(targets="gemma_4_e2b", traces=file, **QUICK)
    found = by_drafter(compare(targets="gemma_4_e2b", traces=[file], transfer=True, **QUICK))
    assistant = found["gemma_4_e2b_assistant"]
    assert assistant.acceptance_kind == assistant.confidence == "assumed"
    assert assistant.requests == loaded(file).filtered().n_requests
    assert found["standalone_128m"].speedup is None


def test_transfer_without_traces_takes_published_sets_of_the_same_kind(nothing_shipped):
    rows = compare(targets="gemma_4_e2b", drafters="gemma_4_e2b_assistant", transfer=True, **QUICK).rows
    assert {row.acceptance_kind for row in rows[1:]} == {"assumed"}


def test_own_traces_make_a_target_traced(tmp_path):
    path = write_sample(tmp_path, "ngram", target="gemma_3_270m")
    found = compare(targets="gemma_3_270m", traces=path, drafters="ngram", **QUICK)
    assert found.rows[1].block == "traced"
    assert found.rows[1].acceptance_kind == "measured"


def test_given_traces_replace_shipped_ones(shipped, tmp_path):
    path = write_sample(tmp_path, "mtp_head", requests=8)
    row = compare(targets="smollm2_135m", drafters="mtp_head", traces=path, max_overlap=None, **QUICK).rows[1]
    assert row.requests == 8


def test_tasks_select_in_both_blocks(shipped):
    found = compare(tasks=["code"], draft_lengths=2, **QUICK)
    assert {row.task for row in found.block("traced") if row.acceptance} == {"code"}
    assert {row.task for row in found.block("published") if row.acceptance} == {
        "humaneval",
        "speed_bench_coding",
    }
    with pytest.raises(UnknownNameError, match="'code'"):
        compare(tasks=["cod"], **QUICK)


def test_a_filter_that_leaves_nothing_is_said(shipped):
    found = compare(targets="smollm2_135m", drafters="mtp_head", tasks=["code"], max_overlap=0.0, **QUICK)
    trace = loaded(shipped / "mtp_head.parquet").filtered(max_overlap=0.0)
    if "code" in trace.tasks:
        assert found.rows[1].speedup is not None
    else:
        assert any("no response of code is left" in note for note in found.notes)


def test_speculation_pays_less_when_many_streams_share_a_pass(nothing_shipped):
    phone, server = (
        compare(
            devices="pixel_10",
            runtimes="ideal",
            targets="gemma_4_e4b",
            drafters="gemma_4_e4b_assistant",
            draft_lengths=7,
            batches=batch,
            **QUICK,
        )
        .rows[1]
        .speedup
        for batch in (1, 256)
    )
    assert phone > 2
    assert server < 1


@pytest.mark.parametrize("name", ["mtp_head", "smollm2_mtp_head"])
def test_trace_names_stand_for_instances(shipped, name):
    found = compare(drafters=name, **QUICK)
    assert [row.drafter for row in found.rows] == ["none", "smollm2_mtp_head"]


def test_errors_name_the_nearest(nothing_shipped):
    with pytest.raises(UnknownNameError, match="'mtp_head'"):
        compare(drafters="mtp_hed", **QUICK)
    with pytest.raises(ValueError, match="'pixel_9'"):
        compare(devices="pixel9", **QUICK)
    with pytest.raises(DraftscopeError, match="draft_length"):
        compare(draft_lengths=[0], **QUICK)


def test_replays_are_shared_and_equal_plain_ones():
    trace = sample("mtp_head")
    model = replayed(trace)
    assert replayed(trace) is model
    code = model.steps(3, task="code")
    kept = trace.filtered(tasks=["code"])
    again = replayed(kept).steps(3)
    for name in ("context", "proposed", "accepted", "emitted", "remaining"):
        assert np.array_equal(getattr(code, name), getattr(again, name))
    assert code.n_requests == kept.n_requests


def test_plain_decoding_visits_every_anchor():
    trace = sample("mtp_head")
    table, walk = replayed(trace, max_overlap=None, any_drafter=True).steps(0), replay(trace, 0)
    for name in STEP_COLUMNS:
        assert np.array_equal(getattr(table, name), getattr(walk, name)), name


def test_row_of_means_has_the_right_shape():
    results = [
        predict(
            device="pixel_9",
            target="gemma_4_e2b",
            drafter="ngram",
            acceptance=rate,
            draft_length=2,
            prompt_tokens=64,
            output_tokens=32,
            intervals=False,
        )
        for rate in (0.2, 0.8)
    ]
    row = row_of(results, block="published", label="x", family="ngram", task="all")
    lengths = [result["mean_acceptance_length"] for result in results]
    assert row.mean_acceptance_length == pytest.approx(2 / sum(1 / length for length in lengths))
    assert row.energy_per_token_j == pytest.approx(
        np.mean([result["energy_per_token_j"] for result in results])
    )
    assert row.acceptance == "iid(0.2), iid(0.8)"


def test_sample_knows_all_tasks():
    assert set(sample("ngram").tasks) == set(TASKS)
    assert set(DRAFTERS) >= {"mtp_head", "ngram"}
