"""Notes of ``predict``, ``simulate`` and ``compare``: what was clipped, carried over, or does not fit."""

from __future__ import annotations

import json

import pytest

from tests.unit.test_cli_predict import E4B, GEMMA, REQUEST, rows


def test_a_foreign_config_says_its_precision(draftscope, tmp_path):
    path = tmp_path / "mine" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps({
        "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256, "torch_dtype": "bfloat16",
    }))  # fmt: skip
    arguments = ("predict", "--device", "pixel_9", *REQUEST, "-o", "json", "--target")
    (own,), (int4,) = rows(draftscope(*arguments, path)), rows(draftscope(*arguments, f"{path}@int4"))
    assert any("bf16 as the file says" in note and "@int4" in note for note in own["notes"])
    assert not any("as the file says" in note for note in int4["notes"])
    assert int4["inputs"]["target"] == "mine@int4"
    assert own["ram_ledger"]["target_weights"] > 2.5 * int4["ram_ledger"]["target_weights"]


def test_more_ram_than_the_device_has_free_is_noted(draftscope, shipped):
    """In `predict` and `compare`; not where it fits."""
    device = ("--device", "pixel_9", *REQUEST, "-o", "json")
    big = ("--target", "gemma_4_e4b@f32")
    (row,) = rows(draftscope("predict", *device, *big))
    assert any("MiB free" in note for note in row["notes"])
    (row,) = rows(draftscope("predict", *device, "--target", "smollm2_135m"))
    assert not any("MiB free" in note for note in row["notes"])
    compared = json.loads(draftscope("compare", *device, *big, "--no-intervals", "--draft-length", "2").out)
    assert any("MiB free" in note for note in compared["notes"])


@pytest.mark.parametrize("command", ["predict", "simulate"])
@pytest.mark.parametrize("wanted", ["1-4", "2,3,4", "best"])
def test_a_range_beyond_what_is_known_is_clipped_and_said(draftscope, command, wanted):
    """The published set ends at K = 2."""
    ran = draftscope(command, *E4B, *REQUEST, "--draft-length", wanted, "-o", "json")
    found = [row["inputs"]["draft_length"] for row in rows(ran)]
    assert found == {"1-4": [1, 2], "2,3,4": [2]}.get(wanted, found)
    assert max(found) <= 2
    left = "3-8" if wanted == "best" else "3-4"
    words = (
        f"gemma_4_e4b_assistant on gemma_4_e4b: draft lengths {left} left out: acceptance gemma_4_e4b_gsm8k "
        "is known up to draft length 2 only."
    )
    assert words in json.loads(ran.out)["notes"]
    assert ran.err.count(f"note: {words}\n") == 1


@pytest.mark.parametrize("wanted", ["3", "3-4", "4,8"])
def test_lengths_beyond_what_is_known_are_an_error(draftscope, wanted):
    ran = draftscope("predict", *E4B, *REQUEST, "--draft-length", wanted)
    assert (ran.code, ran.out) == (2, "")
    assert "draft" in ran.err
    assert "gemma_4_e4b_gsm8k" in ran.err


def test_traces_are_clipped_at_their_depth(draftscope, shipped):
    """The samples end at K = 8."""
    case = ("--device", "pixel_9", "--target", "smollm2_135m", "--drafter", "mtp_head")
    file = shipped / "mtp_head.parquet"
    ran = draftscope("predict", *case, "--acceptance-trace", file, "--draft-length", "7-9", "-o", "json")
    assert [row["inputs"]["draft_length"] for row in rows(ran)] == [7, 8]
    assert "smollm2_mtp_head on smollm2_135m: draft length 9 left out" in ran.err


def test_plain_decoding_stands_beside_drafters(draftscope):
    ran = draftscope(
        "predict", *GEMMA[:4], *REQUEST, "--drafter", "none,ngram", "--draft-length", "4",
        "--acceptance-rate", "0.5", "-o", "json",
    )  # fmt: skip
    found = [(row["inputs"]["drafter"], row["inputs"]["draft_length"]) for row in rows(ran)]
    assert found == [("none", 0), ("ngram", 4)]


def test_an_acceptance_that_is_carried_over_says_where_from(draftscope, shipped):
    published = ("--acceptance", "gemma_4_e4b_gsm8k", "--draft-length", "2", "-o", "json")
    (row,) = rows(draftscope("predict", *GEMMA, *REQUEST, *published, "--transfer"))
    (note,) = [note for note in row["notes"] if "carried over" in note]
    assert "target 'gemma_4_e4b'" in note
    assert "drafter family 'gemma4_assistant'" in note
    assert "therefore assumed" in note
    assert row["confidence"] == "assumed"
    (own,) = rows(draftscope("predict", *E4B, *REQUEST, "--draft-length", "2", "--transfer", "-o", "json"))
    assert not any("carried over" in note for note in own["notes"])
    traced = ("--acceptance-trace", shipped / "mtp_head.parquet", "--draft-length", "2", "-o", "json")
    (row,) = rows(draftscope("simulate", *GEMMA, *traced, "--transfer"))
    (note,) = [note for note in row["notes"] if "carried over" in note]
    assert "target 'smollm2_135m' and drafter 'mtp_head'" in note


BIG = ("--device", "pixel_9", "--target", "gemma_4_e4b@f32", *REQUEST)


@pytest.mark.parametrize("command", ["predict", "simulate"])
def test_each_drafter_that_does_not_fit_is_noted_once(draftscope, command):
    """Once for two draft lengths; each row has its own as well."""
    arguments = (*BIG, "--drafter", "none,gemma_4_e4b_assistant,ngram", "--draft-length", "1,2",
                 "--acceptance-rate", "0.5")  # fmt: skip
    ran = draftscope(command, *arguments, "-o", "json")
    assert all(any("does not fit" in note for note in row["notes"]) for row in rows(ran))
    whole = [note.split(" needs")[0] for note in json.loads(ran.out)["notes"] if "does not fit" in note]
    build = "gemma_4_e4b@f32 with"
    assert whole == [f"{build} none", f"{build} gemma_4_e4b_assistant", f"{build} ngram"]
    assert ran.err.count("does not fit") == 3
    assert draftscope(command, *arguments).out.count("does not fit") == 3


def test_a_note_of_some_drafters_names_them_all(draftscope, shipped):
    arguments = ("--device", "pixel_9", "--target", "gemma_4_e4b", *REQUEST, "--draft-length", "2")
    both = "gemma_4_e4b_assistant,gemma_4_e4b_assistant_dense"
    predicted = draftscope("predict", *arguments, "--drafter", f"{both},ngram", "--acceptance-rate", "0.5",
                           "--no-intervals", "-o", "json")  # fmt: skip
    compared = draftscope(
        "compare", *arguments, "--drafters", f"{both},ngram", "--no-intervals", "-o", "json"
    )
    for ran in (predicted, compared):
        notes = json.loads(ran.out)["notes"]
        assert sum("Shipped as bf16" in note for note in notes) == 1
        assert any(note.startswith(f"{both.replace(',', ', ')}: Dimensions published") for note in notes)
        assert any(note.startswith("ngram: ") for note in notes)
