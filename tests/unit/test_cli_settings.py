"""What a caller sets is seen in the answer, kept within its range, and never ignored without a word."""

from __future__ import annotations

import csv
import io
import json

import pytest
from pydantic import TypeAdapter, ValidationError

from hw_profiles.schema import Dram, RuntimeProfile
from simulator.acceptance.published import list_published, load_published
from simulator.analytic import predict
from simulator.errors import DraftscopeError
from simulator.lowering import AXES
from simulator.lowering.limits import check_range
from simulator.specs import list_targets, load_target

CASE = ("--device", "pixel_9", "--target", "gemma_4_e4b", "--drafter", "gemma_4_e4b_assistant")
REQUEST = ("--prompt-tokens", "64", "--output-tokens", "16", "--no-intervals")
RATE = ("--acceptance-rate", "0.5", "--draft-length", "2")


def rows(ran):
    assert ran.code == 0, ran.err
    return json.loads(ran.out)["rows"]


def test_overrides_stand_in_every_output(draftscope, tmp_path):
    given = ("--set", "mbu_large=0.5", "--context", "3000")
    (row,) = rows(draftscope("predict", *CASE, *REQUEST, *RATE, *given, "-o", "json"))
    assert row["inputs"]["set.mbu_large"] == 0.5
    assert row["inputs"]["context"] == 3000
    (cells,) = csv.DictReader(
        io.StringIO(draftscope("predict", *CASE, *REQUEST, *RATE, *given, "-o", "csv").out)
    )
    assert (cells["set.mbu_large"], cells["context"]) == ("0.5", "3000.0")
    one = draftscope("predict", *CASE, *REQUEST, *RATE, *given).out
    assert "| set.mbu_large | 0.5 " in one
    table = draftscope("predict", *CASE, *REQUEST, *RATE[:2], "--draft-length", "1,2", *given).out
    assert "context 3000 · mbu_large 0.5" in table.splitlines()[0]
    path = tmp_path / "case.toml"
    path.write_text('device = "pixel_9"\ntarget = "gemma_4_e4b"\nprompt_tokens = 64\noutput_tokens = 16\n'
                    "context = 2000\n[set]\nmbu_large = 0.25\n")  # fmt: skip
    (simulated,) = rows(draftscope("simulate", path, "--replications", "2", "-o", "json"))
    assert (simulated["inputs"]["set.mbu_large"], simulated["inputs"]["context"]) == (0.25, 2000)


def test_overrides_stand_in_the_heading_of_a_comparison(draftscope, shipped):
    ran = draftscope("compare", "--target", "smollm2_135m", "--drafters", "mtp_head", "--draft-length", "2",
                     "--no-intervals", "--set", "mbu_large=0.5", "--prompt-tokens", "99",
                     "--min-prob", "0.25")  # fmt: skip
    heading = next(line for line in ran.out.splitlines() if line.startswith("## "))
    assert heading.endswith("mbu_large=0.5, prompt_tokens=99, min_prob=0.25")
    kept = draftscope("compare", "--target", "smollm2_135m", "--drafters", "mtp_head", "--draft-length", "2",
                      "--no-intervals")  # fmt: skip
    assert next(line for line in kept.out.splitlines() if line.startswith("## ")).endswith(" responses")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ((*RATE, "--min-prob", "0.5"), ("--min-prob", "'0.5'", "--acceptance-trace")),
        ((*RATE, "--max-overlap", "none"), ("--max-overlap", "--acceptance-trace")),
    ],
    ids=["min-prob", "max-overlap"],
)
def test_options_of_a_trace_are_refused_without_one(draftscope, more, words):
    ran = draftscope("predict", *CASE, *REQUEST, *more)
    assert (ran.code, ran.out) == (2, "")
    assert all(word in ran.err for word in words)


def test_a_response_length_is_refused_with_a_trace(draftscope, shipped):
    ran = draftscope("predict", "--device", "pixel_9", "--target", "smollm2_135m", "--drafter", "mtp_head",
                     "--acceptance-trace", shipped / "mtp_head.parquet", "--output-tokens", "99")  # fmt: skip
    assert ran.code == 2
    assert "--output-tokens" in ran.err


def test_a_comparison_says_where_the_confidence_stop_is_not_used(draftscope, shipped):
    ran = draftscope("compare", "--target", "smollm2_135m,gemma_4_e4b", "--draft-length", "2",
                     "--no-intervals", "--min-prob", "0.3")  # fmt: skip
    assert "min_prob 0.3, is not used on gemma_4_e4b:" in ran.out
    ran = draftscope("compare", "--target", "smollm2_135m,gemma_4_e4b", "--draft-length", "2",
                     "--no-intervals", "--max-overlap", "none", "--output-tokens", "99")  # fmt: skip
    assert "The overlap filter is not used on gemma_4_e4b:" in ran.out
    assert "output_tokens 99 is not used on smollm2_135m:" in ran.out


def allowed(profile: type, name: str, value: float) -> bool:
    """Whether a profile may hold a number in a field."""
    field = profile.model_fields[name]
    adapter = TypeAdapter(field.rebuild_annotation())
    units = {"bytes_per_s": "B/s", "per_byte_j": "J/B", "_s": "s"}
    unit = next((unit for end, unit in units.items() if name.endswith(end)), "1")
    try:
        adapter.validate_python({"value": value, "unit": unit, "kind": "published", "source": "x"})
    except ValidationError:
        return False
    return True


def test_overrides_keep_the_ranges_of_the_profiles():
    fields = {
        name: profile for profile in (RuntimeProfile, Dram) for name in profile.model_fields if name in AXES
    }
    checked = 0
    for name, profile in fields.items():
        if name == "verify_curve":
            continue
        for value in (0.0, 0.5, 1.0, 7.0):
            checked += 1
            if allowed(profile, name, value):
                check_range(name, value)
                check_range(f"draft_{name}", value)
            else:
                with pytest.raises(DraftscopeError, match=rf"axis {name}: {value:g} given; allowed"):
                    check_range(name, value)
    assert checked >= 40


def test_an_impossible_override_is_refused(draftscope):
    for given in ("mbu_large=7", "draft_mbu_small=1.5", "peak_bandwidth_bytes_per_s=0"):
        ran = draftscope("predict", *CASE, *REQUEST, *RATE, "--set", given)
        assert (ran.code, ran.out) == (2, "")
        assert given.partition("=")[0] in ran.err


def test_requests_beyond_the_limit_of_a_target_are_noted():
    case = {"device": "pixel_9", "target": "gemma_3n_e2b", "output_tokens": 256, "intervals": False}
    limit = load_target("gemma_3n_e2b").max_position_embeddings
    assert limit == 32768
    said = predict(**case, prompt_tokens=40000).notes
    assert any("40,256 tokens of context" in note and "32,768 at most" in note for note in said)
    assert not any("of context" in note for note in predict(**case, prompt_tokens=limit - 256).notes)
    assert any("of context" in note for note in predict(**case, prompt_tokens=limit - 255).notes)


def test_requests_of_a_trace_are_held_against_the_limit(shipped):
    case = {"device": "pixel_9", "target": "smollm2_135m", "drafter": "smollm2_mtp_head", "draft_length": 2,
            "acceptance": str(shipped / "mtp_head.parquet"), "intervals": False}  # fmt: skip
    assert not any("of context" in note for note in predict(**case).notes)
    assert any("8,192 at most" in note for note in predict(**case, prompt_tokens=8190).notes)


def test_every_shipped_target_has_a_limit():
    assert all(load_target(name).max_position_embeddings for name in list_targets())


def test_a_publication_stands_for_its_sets(draftscope):
    def found(given: str) -> list[dict]:
        return rows(
            draftscope("predict", *CASE, *REQUEST, "--draft-length", "2", "--acceptance", given, "-o", "json")
        )

    wanted = [name for name in list_published("gemma_4_e4b")
              if load_published(name).sources == ("vllm_gemma4_acceptance_test",)]  # fmt: skip
    assert len(wanted) == 3
    assert sorted(row["inputs"]["acceptance"] for row in found("vllm_gemma4_acceptance_test")) == wanted
    both = found("gemma_4_e4b_gsm8k,gemma_4_e4b_speed_bench_qa")
    assert [row["inputs"]["acceptance"] for row in both] == [
        "gemma_4_e4b_gsm8k",
        "gemma_4_e4b_speed_bench_qa",
    ]
    assert [row["metrics"]["mean_acceptance_length"] for row in both] == pytest.approx(
        [float(load_published(row["inputs"]["acceptance"]).mean_acceptance_length(2)) for row in both]
    )


def test_every_acceptance_that_a_comparison_names_is_understood(draftscope, nothing_shipped):
    compared = rows(draftscope(
        "compare", "--target", "gemma_4_e4b", "--drafters", "gemma_4_e4b_assistant", "--detail",
        "--draft-length", "2", "--no-intervals", "-o", "json",
    ))  # fmt: skip
    names = {row["acceptance"] for row in compared if row["acceptance"]}
    assert len(names) == 2 + 3 + 11
    ran = draftscope(
        "predict", *CASE, *REQUEST, "--draft-length", "2", "--acceptance", ",".join(sorted(names))
    )
    assert ran.code == 0, ran.err


def test_acceptance_of_another_drafter_of_the_family_is_assumed_and_said(draftscope):
    case = (
        "predict",
        *CASE[:4],
        *REQUEST,
        "--draft-length",
        "2",
        "--acceptance",
        "gemma_4_e4b_gsm8k",
        "-o",
        "json",
    )
    (own,) = rows(draftscope(*case, "--drafter", "gemma_4_e4b_assistant"))
    (dense,) = rows(draftscope(*case, "--drafter", "gemma_4_e4b_assistant_dense"))
    assert (own["confidence_by_group"]["acceptance"], dense["confidence_by_group"]["acceptance"]) == (
        "published", "assumed",
    )  # fmt: skip
    said = "published for google/gemma-4-E4B-it-assistant, another drafter of the family"
    assert any(said in note for note in dense["notes"])
    assert not any(said in note for note in own["notes"])


def test_a_file_in_int4_is_the_shipped_phone_build(draftscope, tmp_path):
    shape = load_target("smollm2_135m")
    path = tmp_path / "own" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps({
        "model_type": "llama", "hidden_size": shape.hidden_size, "intermediate_size": shape.intermediate_size,
        "num_hidden_layers": shape.num_hidden_layers, "num_attention_heads": shape.num_attention_heads,
        "num_key_value_heads": shape.num_key_value_heads, "vocab_size": shape.vocab_size,
        "tie_word_embeddings": True, "torch_dtype": "bfloat16",
    }))  # fmt: skip
    case = ("predict", "--device", "pixel_9", *REQUEST, "-o", "json", "--target")
    (own,), (shipped_build,) = (
        rows(draftscope(*case, f"{path}@int4")),
        rows(draftscope(*case, "smollm2_135m")),
    )
    assert own["metrics"]["decode_tokens_per_s"] == pytest.approx(
        shipped_build["metrics"]["decode_tokens_per_s"]
    )
    assert own["ram_ledger"] == pytest.approx(shipped_build["ram_ledger"])
