"""The claims table: every claim of the list is there, judged by its numbers, and honest where it fails."""

from __future__ import annotations

import json

import numpy as np
import pytest

from simulator.acceptance.statistics import statistics_of
from simulator.errors import DraftscopeError
from simulator.studies.claims import COLUMNS, claims, gemma, identity, nano
from simulator.studies.claims.base import FAILED, POSSIBLE, REPRODUCED, UNKNOWN, judge
from simulator.studies.claims.draws import drawn, ratio, spread
from simulator.studies.claims.traced import DRAFT_LENGTH
from simulator.studies.replays import replayed
from tests.study_samples import write_sample


@pytest.fixture(scope="module")
def without_traces(tmp_path_factory):
    """All claims of an installation without traces."""
    from simulator.acceptance import trace as trace_files

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_files, "_shipped_folder", lambda: tmp_path_factory.mktemp("empty") / "none")
        return claims()


def numbers(found):
    return [row.id.partition(".")[0] for row in found]


def by_id(found):
    return {row.id: row for row in found}


def test_all_nine_claims_in_order(without_traces):
    assert list(dict.fromkeys(numbers(without_traces))) == list("123456789")
    assert len(by_id(without_traces)) == len(without_traces)


def test_records_have_fixed_columns(without_traces):
    for row in without_traces:
        assert tuple(row.record()) == COLUMNS


def test_what_cannot_be_judged_says_why(without_traces):
    missing = [row for row in without_traces if row.how == "missing"]
    assert {row.id.partition(".")[0] for row in missing} >= {"1", "3", "4", "7"}
    assert all(row.value is None and row.verdict == UNKNOWN and row.explanation for row in missing)


def test_traced_claims_come_from_the_traces(shipped):
    found = by_id(claims())
    head, other = (replayed(shipped / f"{name}.parquet") for name in ("mtp_head", "standalone_total"))
    lengths = [
        statistics_of(model.steps(DRAFT_LENGTH, task="smart_reply")).mean_acceptance_length
        for model in (head, other)
    ]
    row = found["3.standalone_total"]
    assert row.value == pytest.approx((lengths[0] - 1) / (lengths[1] - 1))
    assert row.low <= row.value <= row.high
    assert row.how == "measured here"
    extra = found[f"4.proofread.{DRAFT_LENGTH}"]
    proofread = statistics_of(head.steps(DRAFT_LENGTH, task="proofread"))
    assert extra.value == pytest.approx(proofread.mean_acceptance_length - 1)
    assert found["7.passes"].value < 1
    assert found["1.standalone_total.all"].unit == "x"
    assert {key for key in found if key.startswith("1.standalone_body")} >= {"1.standalone_body.all"}


def test_traces_may_be_given(tmp_path):
    paths = [write_sample(tmp_path, name) for name in ("mtp_head", "standalone_total")]
    found = by_id(claims(traces=paths))
    assert found["3.standalone_total"].value is not None
    assert "3.standalone_body" not in found
    wrong = write_sample(tmp_path, "ngram", target="gemma_4_e2b")
    with pytest.raises(DraftscopeError, match="allowed: traces of smollm2_135m"):
        claims(traces=[wrong])


def test_sizes_of_the_assistants(without_traces):
    """Golden: parameters and bytes of a draft pass, by arithmetic from the published configurations."""
    found = by_id(without_traces)
    assert found["8.params.gemma_4_e2b"].value == pytest.approx(77.73 + 0.262, abs=0.01)
    assert found["8.read.gemma_4_e2b"].value == pytest.approx(11.67, abs=0.06)
    assert found["8.read.gemma_4_e2b_dense"].value == pytest.approx(77.2, abs=0.06)
    assert all(row.verdict == REPRODUCED for key, row in found.items() if key.startswith("8."))


def test_two_engines_from_one_acceptance(without_traces):
    found = by_id(without_traces)
    gpu = found["9.cpu.summarize"]
    assert gpu.wanted_low < 47.5 / 40.7 < gpu.wanted_high
    assert gpu.verdict == REPRODUCED
    code = found["9.cpu.code"]
    assert code.verdict != REPRODUCED
    assert "outlier" in code.explanation
    assert set(gemma.RUNTIMES) == {"gpu", "cpu"}


def test_prefill_of_a_frozen_head_is_nothing(without_traces):
    found = by_id(without_traces)
    assert found["5.frozen_mtp_nano"].value == 0
    assert found["5.standalone_128m"].value > 0
    assert found["5.mtp_own_kv_nano"].value > 0


def test_ram_parts_add_up(without_traces):
    found = by_id(without_traces)
    parts = [row.value for key, row in found.items() if key.startswith("2.") and key != "2.total"]
    assert sum(parts) == pytest.approx(found["2.total"].value, abs=0.1)
    assert found["2.total"].low < 130 < found["2.total"].high


def test_nano_speed_grows_with_the_gap_in_acceptance():
    equal, better = nano.speed("pixel_9", None)
    assert 1 < equal.value < better.value
    assert "2.95 tokens a step" in equal.assumptions


@pytest.mark.parametrize(
    ("value", "low", "high", "wanted", "verdict"),
    [
        (2.0, None, None, (1.5, None), REPRODUCED),
        (1.4, 1.3, 1.6, (1.5, None), POSSIBLE),
        (1.4, 1.3, 1.45, (1.5, None), FAILED),
        (1.4, None, None, (1.5, 1.6), FAILED),
        (1.8, 1.5, 2.0, (1.4, 1.6), POSSIBLE),
        (0.5, None, None, (None, 1.0), REPRODUCED),
        (0.5, None, None, (None, None), UNKNOWN),
        (None, None, None, (1.0, None), UNKNOWN),
    ],
)
def test_verdicts(value, low, high, wanted, verdict):
    assert judge(value, low, high, *wanted) == verdict


def test_shared_inputs_cancel_in_a_ratio():
    case = {
        "device": "pixel_9",
        "target": "gemma_4_e2b",
        "drafter": "ngram",
        "draft_length": 2,
        "prompt_tokens": 64,
        "output_tokens": 32,
    }
    one = drawn(**case, acceptance=0.5)
    assert ratio(one, one, "decode_tokens_per_s") == pytest.approx((1.0, 1.0, 1.0))
    value, low, high = ratio(drawn(**case, acceptance=0.8), one, "decode_tokens_per_s")
    assert low <= value <= high
    speeds = one.draws("decode_tokens_per_s")
    assert (high - low) / value < (speeds.max() - speeds.min()) / speeds.mean()


def test_spread_holds_its_value():
    assert spread(5.0, np.array([1.0, 2.0, np.nan])) == (5.0, pytest.approx(1.05), 5.0)


PARITY = {
    "date": "2026-01-02",
    "machine": "x86_64, 2 logical cores",
    "locked": {
        "width": 12,
        "prompts": 4,
        "tokens": 99,
        "prompts_with_equal_tokens_and_logits": {"mtp_head": 4, "ngram": 4},
    },
    "natural_float32": {
        "prompts": 4,
        "draft_length": 4,
        "identical_texts": {"mtp_head": 4, "ngram": 3},
        "largest_gap_at_first_divergence": {"mtp_head": None, "ngram": 2e-5},
    },
}


def test_identity_reads_the_dated_result(tmp_path):
    file = tmp_path / "parity.json"
    file.write_text(json.dumps(PARITY))
    locked, natural = identity.identical(file)
    assert (locked.value, locked.verdict) == (1.0, REPRODUCED)
    assert (natural.value, natural.verdict) == (7 / 8, FAILED)
    assert "2e-05" in natural.explanation
    assert "2026-01-02" in locked.explanation


@pytest.mark.parametrize("text", ["", "[]", "{}", "not json"])
def test_identity_without_a_usable_result_says_so(tmp_path, text):
    file = tmp_path / "parity.json"
    file.write_text(text)
    (row,) = identity.identical(file)
    assert "make parity" in row.explanation
