"""Published acceptance: every printed number comes back, sources resolve, nothing is answered unasked."""

from __future__ import annotations

import re
import tomllib
from importlib import resources

import numpy as np
import pytest

from simulator.acceptance import AcceptanceError, TransferError, list_published, load_published
from simulator.acceptance.traced import OWN_TRACES
from simulator.errors import UnknownNameError

DATA = resources.files("simulator.acceptance") / "data"
ENTRIES = {
    entry["name"]: entry for entry in tomllib.loads((DATA / "published.toml").read_text())["acceptance"]
}


@pytest.mark.parametrize("name", ENTRIES)
def test_sources_resolve(name):
    keys = re.findall(r"^@\w+\{([^,\s]+),", (DATA / "references.bib").read_text(), flags=re.MULTILINE)
    assert len(keys) == len(set(keys))
    assert set(load_published(name).sources) <= set(keys)
    assert OWN_TRACES in keys


@pytest.mark.parametrize("name", ENTRIES)
def test_printed_numbers_come_back(name):
    entry, model = ENTRIES[name], load_published(name)
    for point in entry.get("mean_acceptance_length", []):
        assert model.mean_acceptance_length(point["draft_length"]) == pytest.approx(point["value"], rel=1e-12)
    if rates := entry.get("per_position_acceptance_rate"):
        np.testing.assert_allclose(model.per_position_acceptance_rate(len(rates)), rates, rtol=1e-12)
    assert ("mean_acceptance_length" in entry) != ("per_position_acceptance_rate" in entry)


@pytest.mark.parametrize("name", ENTRIES)
def test_entries_are_sound(name):
    model = load_published(name, extrapolate=True)
    lengths = model.mean_acceptance_length(np.arange(13))
    assert (np.diff(lengths) > 0).all()
    assert lengths[0] == 1
    assert model.kind in ("published", "assumed")
    if model.low is not None:
        k = len(model.conditional_rates)
        low, high = model.interval(k)
        assert (low, high) == pytest.approx((model.low, model.high))
        assert low <= model.mean_acceptance_length(k) <= high
    assert model.note or model.kind == "published"


# tokens per step, bonus included: as published, or 1 + sum of the published per-position rates
@pytest.mark.parametrize(
    ("name", "draft_length", "length"),
    [
        ("gemma_4_e4b_mt_bench", 2, 2.28),
        ("gemma_4_e4b_humaneval", 2, 2.68),
        ("gemma_4_e4b_gsm8k", 2, 2.67),
        ("gemma_4_e4b_speed_bench_summarization", 3, 2.3774),
        ("gemma_4_e4b_speed_bench_summarization", 7, 2.8275),
        ("gemma_4_26b_a4b_spark_k4", 4, 3.10),
        ("gemma_4_26b_a4b_spark_k2", 2, 2.31),
        ("gemma_4_l20_coding", 3, 3.84),
        ("eagle3_llama_3_1_8b_mt_bench", 3, 2.60),
        ("eagle3_qwen3_8b_mt_bench", 3, 2.26),
        ("eagle3_gpt_oss_20b_mt_bench", 3, 2.56),
        ("gemini_nano_v3_notification_summary", 3, 2.95),
        ("gemini_nano_v3_proofread", 3, 2.95),
    ],
)
def test_golden(name, draft_length, length):
    assert load_published(name).mean_acceptance_length(draft_length) == pytest.approx(length, abs=0.006)


@pytest.mark.parametrize(
    ("name", "rate"),
    [("gemma_4_e4b_mt_bench", 0.737), ("gemma_4_e4b_humaneval", 0.889), ("gemma_4_e4b_gsm8k", 0.886)],
)
def test_equivalent_rates(name, rate):
    """a + a^2 = length - 1, so a = (sqrt(1 + 4 (length - 1)) - 1) / 2."""
    np.testing.assert_allclose(load_published(name).conditional_rates, [rate, rate], atol=5e-4)


def test_two_published_lengths_do_not_contradict_themselves():
    """The rate beyond K = 3 follows from the K = 7 figure, not from the K = 3 one."""
    model = load_published("gemma_4_e4b_speed_bench_coding")
    assert len(set(model.conditional_rates[:3])) == 1
    assert len(set(model.conditional_rates[3:])) == 1
    assert model.conditional_rates[3] != model.conditional_rates[2]
    assert [model.kind_at(k) for k in (0, 2, 3, 5, 7, 8)] == [
        "published",
        "derived",
        "published",
        "derived",
        "published",
        "assumed",
    ]


def test_unknown_name_offers_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'gemma_4_e4b_mt_bench'"):
        load_published("gemma-4-e4b-mtbench")


def test_not_beyond_what_was_published():
    with pytest.raises(AcceptanceError, match=r"gemma_4_e4b_mt_bench: draft_length: given 4, allowed: 0..2"):
        load_published("gemma_4_e4b_mt_bench").mean_acceptance_length(4)
    asked = load_published("gemma_4_e4b_mt_bench", extrapolate=True)
    assert asked.kind_at(2) == "published"
    assert asked.kind_at(4) == "assumed"
    low, high = asked.interval(4)
    assert low < asked.mean_acceptance_length(4) < high


def test_other_targets_and_families_are_refused():
    with pytest.raises(TransferError, match="target 'gemma_4_e4b', not 'gemma_4_e2b'"):
        load_published("gemma_4_e4b_mt_bench", target_id="gemma_4_e2b")
    with pytest.raises(TransferError, match="drafter 'gemma4_assistant', not 'standalone'"):
        load_published("gemma_4_e4b_mt_bench", target_id="gemma_4_e4b", drafter_family="standalone")
    moved = load_published("gemma_4_e4b_mt_bench", target_id="gemma_4_e2b", transfer=True)
    assert (moved.kind, moved.kind_at(2), moved.target_id) == ("assumed", "assumed", "gemma_4_e2b")


def test_the_assumed_draft_length_is_the_callers_to_choose():
    for at in (3, 4, 5):
        model = load_published("gemini_nano_v3_proofread", at_draft_length=at)
        assert model.mean_acceptance_length(at) == pytest.approx(2.95)
        assert model.max_draft_length == at
        assert model.kind == "assumed"
        assert model.interval(at) == pytest.approx((2.9, 3.0))
    # i.i.d.-equivalent rates of the facts: 0.79, 0.72, 0.69 for 3, 4, 5 drafts, from 2.9 to 3.0 tokens
    rates = [
        load_published("gemini_nano_v3_proofread", at_draft_length=at).conditional_rates[0]
        for at in (3, 4, 5)
    ]
    np.testing.assert_allclose(rates, [0.80, 0.74, 0.70], atol=0.011)
    with pytest.raises(AcceptanceError, match=r"at_draft_length: given 8, allowed: 3..5 \(assumed\)"):
        load_published("gemini_nano_v3_proofread", at_draft_length=8)
    with pytest.raises(AcceptanceError, match="but K was published"):
        load_published("gemma_4_e4b_mt_bench", at_draft_length=3)


def test_names_by_target_and_task_class():
    assert "gemma_4_e4b_humaneval" in list_published("gemma_4_e4b", task_class="code")
    assert all(name.startswith("gemma_4_26b") for name in list_published("gemma_4_26b_a4b"))
    assert list_published("gemma_4_e2b") == []
    assert set(list_published()) == set(ENTRIES)
