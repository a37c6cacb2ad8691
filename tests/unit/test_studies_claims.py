"""The claims table: every claim of the list is there, judged by its numbers, and honest where it fails."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

from simulator.acceptance.statistics import statistics_of
from simulator.cli.claims import as_markdown
from simulator.drafters import build_drafter
from simulator.errors import DraftscopeError
from simulator.specs import load_target
from simulator.studies.claims import COLUMNS, claims, gemma, identity, nano, traced
from simulator.studies.claims.base import BOUNDED, FAILED, POSSIBLE, REPRODUCED, UNKNOWN, judge
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
    rows = [row for key, row in found.items() if key.startswith("2.") and key != "2.total"]
    least = sum(row.value if row.low is None else row.low for row in rows)
    most = sum(row.value if row.high is None else row.high for row in rows)
    assert least < found["2.total"].low < found["2.total"].high < most


def test_ram_ranges_are_those_of_the_parts(without_traces):
    found = by_id(without_traces)
    parts = {part.name: part for part in build_drafter(nano.STANDALONE, load_target(nano.TARGET)).parts}
    for name in ("prefill_variants", "per_app"):
        row = found[f"2.{name}"]
        assert row.low == pytest.approx(parts[name].resident_low_bytes / 1e6)
        assert row.high == pytest.approx(parts[name].resident_high_bytes / 1e6)
        assert "draftscope_judgement" in row.sources
    head = {part.name: part for part in build_drafter(nano.HEAD, load_target(nano.TARGET)).parts}
    row = found["2.layers"]
    assert row.low == pytest.approx(
        (parts["layers"].resident_low_bytes - head["layers"].resident_high_bytes) / 1e6
    )
    assert row.high == pytest.approx(
        (parts["layers"].resident_high_bytes - head["layers"].resident_low_bytes) / 1e6
    )


def test_nano_speed_grows_with_the_gap_in_acceptance():
    equal, better = nano.speed("pixel_9", None)
    assert 1 < equal.value < better.value
    assert "2.95 tokens a step" in equal.assumptions


@pytest.mark.parametrize(
    ("value", "low", "high", "wanted", "no_effect", "verdict"),
    [
        (2.0, None, None, (1.5, None), None, REPRODUCED),
        (1.4, 1.3, 1.6, (1.5, None), None, POSSIBLE),
        (1.4, 1.3, 1.45, (1.5, None), None, FAILED),
        (1.4, None, None, (1.5, 1.6), None, FAILED),
        (1.8, 1.5, 2.0, (1.4, 1.6), None, POSSIBLE),
        (0.5, None, None, (None, 1.0), None, REPRODUCED),
        (0.5, None, None, (None, None), None, UNKNOWN),
        (None, None, None, (1.0, None), None, UNKNOWN),
        # a saving
        (0.132, -0.079, 0.221, (0.0, None), 0.0, POSSIBLE),
        (0.132, 0.01, 0.221, (0.0, None), 0.0, REPRODUCED),
        (0.132, 0.0, 0.221, (0.0, None), 0.0, POSSIBLE),
        (-0.02, -0.079, 0.221, (0.0, None), 0.0, POSSIBLE),
        (-0.02, -0.079, -0.01, (0.0, None), 0.0, FAILED),
        (0.0, None, None, (0.0, None), 0.0, POSSIBLE),
        # faster
        (1.6, 0.9, 1.8, (1.5, None), 1.0, POSSIBLE),
        (1.6, 1.1, 1.8, (1.5, None), 1.0, REPRODUCED),
        # fewer, slower
        (0.9, 0.8, 1.1, (None, 1.0), 1.0, POSSIBLE),
        (0.9, 0.8, 0.95, (None, 1.0), 1.0, REPRODUCED),
        # "up to": a range from no effect to a maximum
        (1.37, 1.23, 1.53, (1.0, 1.55), 1.0, BOUNDED),
        (1.37, 0.98, 1.53, (1.0, 1.55), 1.0, POSSIBLE),
        (1.60, 1.50, 1.70, (1.0, 1.55), 1.0, POSSIBLE),
        (1.80, 1.70, 1.90, (1.0, 1.55), 1.0, FAILED),
        (0.90, 0.85, 0.95, (1.0, 1.55), 1.0, FAILED),
        (0.80, 0.70, 0.90, (0.6, 1.0), 1.0, BOUNDED),
        # a published range on both sides of no effect claims no direction
        (1.02, 0.9, 1.1, (0.98, 1.08), 1.0, REPRODUCED),
    ],
)
def test_verdicts(value, low, high, wanted, no_effect, verdict):
    assert judge(value, low, high, *wanted, no_effect) == verdict


def test_no_claim_of_a_direction_is_reproduced_across_no_effect(shipped):
    found = claims()
    directed = [row for row in found if row.no_effect is not None and row.value is not None]
    assert {row.id.partition(".")[0] for row in directed} == {"1", "2", "3", "7", "9"}
    for row in directed:
        assert row.verdict == judge(
            row.value, row.low, row.high, row.wanted_low, row.wanted_high, row.no_effect
        )
        if row.low is not None and row.low <= row.no_effect <= row.high:
            assert row.verdict != REPRODUCED, row.id


def test_an_up_to_claim_is_an_upper_bound(shipped):
    found = by_id(claims())
    for key in ("3.standalone_total", "3.standalone_body"):
        row = found[key]
        assert row.wanted_low == row.no_effect < 1 + traced.MOST_BETTER < row.wanted_high
        assert row.verdict == judge(row.value, row.low, row.high, row.wanted_low, row.wanted_high, 1.0)
        ours, theirs, points = (float(each) for each in re.findall(r"[+-]?\d+\.\d", row.explanation))
        assert points == pytest.approx(ours - theirs)
    below = traced._why_acceptance(1.37)
    assert below.startswith("+37 %, below the published maximum of 55 %: that is an upper bound")
    assert "above the published maximum" in traced._why_acceptance(1.8)


def test_what_is_assumed_of_a_part_is_said_in_words(without_traces):
    for row in without_traces:
        assert not row.assumptions.startswith(("assumed", ";")), row.id
        assert ": ;" not in row.assumptions and not row.assumptions.endswith((":", ";", ".")), row.id
    parts = by_id(without_traces)
    assert parts["2.layers"].assumptions.count("bits a weight") == 2
    assert parts["2.per_app"].assumptions.startswith("standalone_128m: ")


def test_reasons_and_assumptions_name_their_rows(without_traces):
    text = as_markdown(without_traces)
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        rows = re.findall(r"^\| (\d[a-z]) +\|", section, re.M)
        bullets = re.findall(r"^- \[(.+?)\] \S.*[.\w]$", section, re.M)
        assert len(bullets) == len(re.findall(r"^- ", section, re.M))
        named = {name for bullet in bullets for name in (rows if bullet == "all" else bullet.split(", "))}
        assert rows and named <= set(rows)


def test_energy_saving_that_may_be_a_loss_is_not_reproduced(shipped, monkeypatch):
    """Regression: 13 % [-8 %..22 %] once read "reproduced"."""
    monkeypatch.setattr(traced, "spread", lambda value, draws: (0.132, -0.079, 0.221))
    found = traced.recorded(traced.shipped_paths(), device="pixel_9", runtime=None, max_overlap=0.2)
    row = by_id(traced.energy(found))["7.plain"]
    assert row.verdict == POSSIBLE == "consistent, not shown"
    assert "do not exclude a loss" in row.explanation


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


def test_identity_reads_what_the_parity_run_writes(tmp_path):
    """The pieces are summed up by reference_impl.parity itself; only the models are left out."""
    parity = pytest.importorskip("reference_impl.parity")
    names = ("mtp_head", "ngram")
    drafters = [SimpleNamespace(id=name) for name in names]
    requests = [SimpleNamespace(request_id=f"code-{i}", prompt_tokens=(1, 2)) for i in range(3)]

    class Records:
        def get(self, key, make):
            if key == "locked/width":
                return {"width": 9}
            if key.startswith("locked/"):
                return {"tokens": 20, "draft_length": 4, "equal": dict.fromkeys(names, True)}
            return {"tokens": 20, "draft_length": 4,
                    "divergences": {"ngram": [7, 3e-6]} if key.endswith("code-1") else {}}  # fmt: skip

    def quiet(line):
        return None

    target, plan = SimpleNamespace(backbone=None), parity.Plan()
    summary = {
        "target_sha256": "0", "drafters": dict.fromkeys(names, "0"), "threads": 1, "torch": "2", "plan": {},
        "near_tie": 1e-3, "oracle": {"texts": 2}, "replay": {"prompts": 3},
        "locked": parity._locked(target, drafters, requests, plan, Records(), quiet),
        "natural_float32": parity._natural("float32", target, drafters, requests, plan, Records(), quiet),
        "natural_bfloat16": parity._natural("bfloat16", target, drafters, requests, plan, Records(), quiet),
        "date": "2026-01-02", "machine": "x86_64, 2 logical cores",
    }  # fmt: skip
    file = tmp_path / "parity.json"
    file.write_text(json.dumps(summary, indent=1) + "\n")
    locked, natural, bfloat16 = identity.identical(file)
    assert (locked.value, locked.verdict, locked.unit) == (1.0, REPRODUCED, "share")
    assert "3 prompts, 2 drafters" in locked.case
    assert "6 runs with equal tokens and bit-equal logits" in locked.explanation
    assert natural.value == bfloat16.value == pytest.approx(5 / 6)
    assert "3e-06" in natural.explanation and "bfloat16" in bfloat16.case


def test_identity_is_found_in_a_checkout_or_said_to_be_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(identity, "PLACES", (str(tmp_path / "parity.json"),))
    assert identity.parity_file() is None
    (row,) = identity.identical()
    assert (row.id, row.verdict) == ("6.missing", UNKNOWN)
    (tmp_path / "parity.json").write_text(json.dumps(PARITY))
    assert [row.id for row in identity.identical()] == ["6.locked", "6.natural.float32"]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "not json", '{"locked": {"width": 9}}', '{"locked": 3}', '{"natural_bfloat16": [1]}'],
)
def test_identity_without_a_usable_result_says_so(tmp_path, text):
    file = tmp_path / "parity.json"
    file.write_text(text)
    (row,) = identity.identical(file)
    assert "make parity" in row.explanation
