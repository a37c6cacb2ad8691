"""Invariants of explanations over random inputs: parts sum to the whole, words agree with numbers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.analytic import predict
from simulator.cli.explain_text import verdict
from simulator.studies.explain import EITHER, LOSES, PAYS, explain
from simulator.studies.explain_case import Asked
from simulator.studies.explain_measured import Measured, Point
from simulator.studies.explain_parts import byte_rows, time_parts

cases = st.fixed_dictionaries({
    "device": st.just("pixel_9"),
    "target": st.just("gemma_4_e2b"),
    "drafter": st.sampled_from(
        ["gemma_4_e2b_assistant", "gemma_4_e2b_assistant_dense", "standalone_128m", "ngram"]
    ),
    "runtime": st.sampled_from(["ideal", "litert_lm_gpu_mali", "litert_lm_cpu", "aicore_tpu"]),
    "acceptance": st.floats(0.0, 1.0),
    "draft_length": st.integers(1, 8),
    "batch": st.sampled_from([1, 1, 4]),
    "prompt_tokens": st.integers(1, 3000),
    "output_tokens": st.integers(2, 300),
})  # fmt: skip


@given(case=cases)
def test_parts_sum_to_the_step_and_bytes_to_the_ledger(case):
    asked = Asked(**case)
    found, alone = asked.at(case["draft_length"]), predict(**case, intervals=False)
    parts, rows = time_parts(found), byte_rows(found)
    step = [part for part in parts if part.phase != "plain"]
    assert sum(part.seconds for part in step) == pytest.approx(alone["step_time_s"], rel=1e-9)
    for phase in ("draft", "verify", "host"):
        together = sum(part.seconds for part in step if part.phase == phase)
        assert together == pytest.approx(alone[f"{phase}_time_s"], rel=1e-9, abs=1e-15)
    plain_s = sum(part.seconds for part in parts if part.phase == "plain")
    assert case["batch"] / plain_s == pytest.approx(alone["baseline_decode_tokens_per_s"], rel=1e-9)
    moved = sum(row.draft + row.verify for row in rows)
    wanted = alone["bytes_per_token"] * alone["tokens_per_step"] * case["batch"]
    assert moved == pytest.approx(wanted, rel=1e-9)
    plain_bytes = predict(**{**case, "draft_length": 0}, intervals=False)["bytes_per_token"]
    assert sum(row.plain for row in rows) == pytest.approx(plain_bytes * case["batch"], rel=1e-9)


@settings(max_examples=25)
@given(case=cases)
def test_the_verdict_agrees_with_the_speedup(case):
    found = explain(**case, lengths=(), draws=32)
    speedup = float(found.result["speedup"])
    low, high = found.result.intervals.get("speedup", (speedup, speedup))
    assert {PAYS: low > 1, LOSES: high < 1, EITHER: low <= 1 <= high}[found.stance]
    text = verdict(found)
    assert ("makes decoding slower" in text) == (found.stance == LOSES)
    assert ("as fast as plain decoding" in text) == (found.stance == PAYS)
    assert ("emits only" in text) == (speedup < 1)
    even = found.break_even
    assert even.tokens_per_step / even.step_cost == pytest.approx(speedup, rel=1e-9)


@settings(max_examples=25)
@given(case=cases)
def test_break_even_acceptance_separates_gain_from_loss(case):
    rate = Asked(**case).break_even_rate(case["draft_length"])

    def speedup(acceptance):
        return predict(**{**case, "acceptance": acceptance}, intervals=False)["speedup"]

    if rate is None:
        assert speedup(1.0) < 1.0
    else:
        assert speedup(rate) >= 1.0 - 1e-9
        if rate > 1e-3:
            assert speedup(rate - 1e-3) <= 1.0 + 1e-9


@settings(max_examples=25)
@given(case=cases, factor=st.floats(0.3, 3.0), counted=st.booleans())
def test_causes_are_ranked_and_shares_are_shares(case, factor, counted):
    asked = Asked(**case)
    length = case["draft_length"]
    metrics = asked.metrics(length)
    tokens = float(metrics["mean_acceptance_length"]) if counted else None
    point = Point(draft_length=length, speedup=float(metrics["speedup"]) * factor, tokens_per_pass=tokens)
    gap = explain(**case, lengths=(), draws=32, measured=Measured(points=(point,))).residual
    possible = point.speedup <= (length + 1.0 if tokens is None else tokens)
    assert (gap.status == "inconsistent") == (not possible)
    scores = [each.score for each in gap.causes if each.score is not None]
    assert scores == sorted(scores)
    assert all(0.0 <= each.covers <= 1.0 for each in gap.causes)
    assert all(each.needed is not None for each in gap.causes if each.allowed)
    for each in gap.causes:
        if each.low is not None and each.high is not None:
            assert each.low <= each.high
