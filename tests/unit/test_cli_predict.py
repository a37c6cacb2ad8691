"""``draftscope predict`` and ``simulate``: cases, acceptance, scenario files."""

from __future__ import annotations

import csv
import json
import re

import pytest

from simulator.analytic import predict
from simulator.drafters import DATA

GEMMA = ("--device", "pixel_10", "--target", "gemma_4_e2b", "--drafter", "gemma_4_e2b_assistant")
E4B = ("--device", "pixel_9", "--target", "gemma_4_e4b", "--drafter", "gemma_4_e4b_assistant",
       "--acceptance", "gemma_4_e4b_gsm8k")  # fmt: skip
REQUEST = ("--prompt-tokens", "128", "--output-tokens", "32")


def rows(ran):
    assert ran.code == 0, ran.err
    return json.loads(ran.out)["rows"]


def test_one_case_is_a_whole_result(draftscope):
    ran = draftscope(
        "predict", *GEMMA, *REQUEST, "--draft-length", "3", "--acceptance-rate", "0.7", "-o", "json"
    )
    (row,) = rows(ran)
    alone = predict(
        device="pixel_10",
        target="gemma_4_e2b",
        drafter="gemma_4_e2b_assistant",
        acceptance=0.7,
        draft_length=3,
        prompt_tokens=128,
        output_tokens=32,
    )
    assert {**row, "inputs_digest": ""} == {**alone.to_dict(), "inputs_digest": ""}
    assert row["intervals"]["speedup"][0] < row["metrics"]["speedup"]


def test_markdown_shows_the_byte_ledger(draftscope):
    ran = draftscope("predict", *GEMMA, *REQUEST, "--draft-length", "3", "--acceptance-rate", "0.7")
    assert re.search(r"^\| bytes per token +\| MB/token \|$", ran.out, re.M)
    assert "Confidence: assumed" in ran.out


def test_lists_give_every_combination(draftscope):
    found = rows(
        draftscope(
            "predict",
            "--device",
            "pixel_9,pixel_10",
            "--target",
            "gemma_4_e2b",
            "--drafter",
            "ngram,gemma_4_e2b_assistant",
            "--draft-length",
            "1-2",
            "--batch",
            "1,4",
            *REQUEST,
            "--acceptance-rate",
            "0.5",
            "--no-intervals",
            "-o",
            "json",
        )
    )
    assert len(found) == 16
    assert (
        len(
            {
                (
                    row["inputs"]["device"],
                    row["inputs"]["drafter"],
                    row["inputs"]["draft_length"],
                    row["inputs"]["batch"],
                )
                for row in found
            }
        )
        == 16
    )
    ran = draftscope("predict", *GEMMA, *REQUEST, "--draft-length", "1-2", "--acceptance-rate", "0.5")
    assert ran.out.count("gemma_4_e2b_assistant") == 2


def test_the_best_length_is_searched_where_none_is_given(draftscope):
    speeds = {
        row["inputs"]["draft_length"]: row["metrics"]["decode_tokens_per_s"]
        for row in rows(
            draftscope(
                "predict",
                *GEMMA,
                *REQUEST,
                "--draft-length",
                "1-8",
                "--acceptance-rate",
                "0.6",
                "--no-intervals",
                "-o",
                "json",
            )
        )
    }
    (best,) = rows(
        draftscope("predict", *GEMMA, *REQUEST, "--acceptance-rate", "0.6", "--no-intervals", "-o", "json")
    )
    assert best["inputs"]["draft_length"] == max(speeds, key=speeds.get)


def test_plain_decoding_needs_no_acceptance(draftscope):
    (row,) = rows(
        draftscope("predict", "--device", "pixel_9", "--target", "gemma_4_e2b", *REQUEST, "-o", "json")
    )
    assert row["metrics"]["speedup"] == 1


def test_acceptance_by_name_and_by_length(draftscope):
    named = ("--device", "pixel_9", "--target", "gemma_4_e4b", "--drafter", "gemma_4_e4b_assistant")
    (row,) = rows(
        draftscope(
            "predict",
            *named,
            *REQUEST,
            "--acceptance",
            "gemma_4_e4b_humaneval",
            "--draft-length",
            "2",
            "-o",
            "json",
        )
    )
    assert row["metrics"]["mean_acceptance_length"] == pytest.approx(2.68)
    found = rows(
        draftscope(
            "predict",
            *GEMMA,
            *REQUEST,
            "--acceptance-length",
            "2.4@3",
            "--draft-length",
            "2,3",
            "--no-intervals",
            "-o",
            "json",
        )
    )
    assert found[1]["metrics"]["mean_acceptance_length"] == pytest.approx(2.4)
    assert found[0]["metrics"]["mean_acceptance_length"] < 2.4


def test_a_trace_is_replayed_by_task(draftscope, shipped):
    file = shipped / "mtp_head.parquet"
    case = (
        "predict",
        "--device",
        "pixel_9",
        "--target",
        "smollm2_135m",
        "--drafter",
        "mtp_head",
        "--acceptance-trace",
        file,
        "--draft-length",
        "3",
        "-o",
        "json",
    )
    found = rows(draftscope(*case, "--tasks", "code,smart_reply"))
    assert [row["inputs"]["task"] for row in found] == ["code", "smart_reply"]
    for row in found:
        low, high = row["intervals"]["mean_acceptance_length"]
        assert low <= row["metrics"]["mean_acceptance_length"] <= high
    (pooled,) = rows(draftscope(*case))
    assert pooled["confidence_by_group"]["acceptance"] == "measured"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("acceptance", "never defaulted", "--acceptance-trace")),
        (("--acceptance-rate", "1.5"), ("--acceptance-rate", "<= 1")),
        (("--acceptance-rate", "nan"), ("--acceptance-rate",)),
        (("--acceptance-rate", "0.5", "--acceptance", "gemma_4_e4b_gsm8k"), ("exactly one",)),
        (("--acceptance", "gemma_4_e4b_gsm8"), ("'gemma_4_e4b_gsm8k'",)),
        (("--acceptance", "gemma_4_e4b_gsm8k"), ("gemma_4_e4b", "--transfer")),
        (("--acceptance-length", "2.4", "--draft-length", "1-3"), ("2.4@3",)),
        (("--acceptance-length", "9", "--draft-length", "3"), ("acceptance_length", "1..4")),
        (("--acceptance-rate", "0.5", "--tasks", "code"), ("--tasks", "--acceptance-trace")),
        (("--acceptance-rate", "0.5", "--drafter", "none", "--draft-length", "2"), ("'none'", "allowed: 0")),
        (("--acceptance-rate", "0.5", "--drafter", "assistant"), ("drafter", "Did you mean")),
        (("--acceptance-rate", "0.5", "--drafter", "gemma_4_e4b_assistant"), ("made for gemma_4_e4b",)),
    ],
    ids=lambda value: " ".join(value),
)
def test_bad_cases_are_one_clear_error(draftscope, arguments, words):
    base = list(GEMMA) if "--drafter" not in arguments else list(GEMMA[:4])
    ran = draftscope("predict", *base, *REQUEST, *arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert len(ran.err.splitlines()) == 1
    for word in words:
        assert word in ran.err


@pytest.mark.parametrize("command", ["predict", "compare"])
def test_a_drafter_file_of_another_target_says_what_targets_means(draftscope, tmp_path, command):
    path = tmp_path / "my_lookup.toml"
    lookup = (DATA / "ngram.toml").read_text()
    path.write_text('targets = ["gemma_4_e2"]\n' + re.sub(r"(?m)^targets = .*\n", "", lookup))
    arguments = (command, *GEMMA[:4], *REQUEST, "--drafter", path, "--draft-length", "2")
    given = ("--acceptance-rate", "0.5") if command == "predict" else ()
    ran = draftscope(*arguments, *given)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
    for words in (
        "drafter my_lookup: made for gemma_4_e2; target 'gemma_4_e2b' given", "'targets' in a drafter file",
        "add 'gemma_4_e2b'", '["*"]', "file's name without its ending", "folder's for config.json",
        "smollm2_135m", "Allowed for it: none, gemma_4_e2b_assistant",
    ):  # fmt: skip
        assert words in ran.err
    path.write_text(path.read_text().replace('"gemma_4_e2"', '"gemma_4_e2b"'))
    assert draftscope(*arguments, *given).code == 0


def test_missing_names_and_tokens(draftscope):
    assert "--device: nothing given" in draftscope("predict", "--target", "gemma_4_e2b").err
    ran = draftscope("predict", *GEMMA, "--acceptance-rate", "0.5", "--draft-length", "2")
    assert ran.code == 2
    assert "prompt_tokens" in ran.err


def test_simulate_agrees_with_predict_on_a_trace(draftscope, shipped):
    case = (
        "--device",
        "pixel_9",
        "--target",
        "smollm2_135m",
        "--drafter",
        "mtp_head",
        "--acceptance-trace",
        shipped / "mtp_head.parquet",
        "--draft-length",
        "2",
        "-o",
        "json",
    )
    (closed,), (engine,) = rows(draftscope("predict", *case)), rows(draftscope("simulate", *case))
    for name in ("decode_tokens_per_s", "energy_per_token_j", "ttft_s", "peak_ram_bytes"):
        assert engine["metrics"][name] == pytest.approx(closed["metrics"][name], rel=1e-9)
    assert engine["method"] == "engine"


SCENARIO = """
device = "pixel_10"
target = "gemma_4_e2b"
drafter = "ngram"
draft_length = [1, 2]
acceptance_rate = 0.5
prompt_tokens = 64
output_tokens = 16
[set]
mbu_large = 0.5
"""


def test_a_scenario_file_is_the_same_options(draftscope, tmp_path):
    path = tmp_path / "case.toml"
    path.write_text(SCENARIO)
    found = rows(draftscope("simulate", path, "--replications", "5", "-o", "json"))
    assert [row["inputs"]["draft_length"] for row in found] == [1, 2]
    (one,) = rows(draftscope("simulate", path, "--replications", "5", "--draft-length", "2", "-o", "json"))
    assert one == found[1]
    again = draftscope(
        "simulate", path, "--replications", "5", "--draft-length", "2", "--seed", "1", "-o", "json"
    )
    assert rows(again)[0]["metrics"]["steps"] != one["metrics"]["steps"]


def test_steps_are_written(draftscope, tmp_path):
    path, steps = tmp_path / "case.toml", tmp_path / "steps.csv"
    path.write_text(SCENARIO)
    ran = draftscope("simulate", path, "--replications", "2", "--draft-length", "2", "--steps", steps)
    assert ran.code == 0
    records = list(csv.DictReader(steps.read_text().splitlines()))
    assert {record["request"] for record in records} == {"0", "1"}
    assert "--steps" in draftscope("simulate", path, "--steps", steps).err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('devise = "x"', ("devise", "'device'")),
        ("device = ", ("not valid TOML",)),
        ("device = 2026-01-01", ("device", "allowed")),
    ],
    ids=["unknown key", "broken", "wrong type"],
)
def test_bad_scenarios_say_where(draftscope, tmp_path, text, words):
    path = tmp_path / "case.toml"
    path.write_text(text)
    ran = draftscope("simulate", path)
    assert ran.code == 2
    assert str(path) in ran.err
    for word in words:
        assert word in ran.err


def test_a_missing_scenario(draftscope, tmp_path):
    ran = draftscope("simulate", tmp_path / "none.toml")
    assert ran.code == 2
    assert "No such file" in ran.err


def test_missing_tokens_name_the_options(draftscope):
    ran = draftscope("predict", "--device", "pixel_9", "--target", "gemma_4_e2b")
    assert ran.code == 2
    assert "--prompt-tokens and --output-tokens" in ran.err
