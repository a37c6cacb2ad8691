"""``draftscope explain``: the JSON contract, text, formats, options that contradict each other."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

from simulator.cli.explain import Measurement, measured_of
from simulator.cli.worked_examples import refreshed
from simulator.errors import DraftscopeError

CASE = (
    "explain", "--device", "pixel_9", "--target", "gemma_4_e2b", "--drafter", "gemma_4_e2b_assistant",
    "--prompt-tokens", "128", "--output-tokens", "65", "--draws", "32",
)  # fmt: skip
RATE = ("--acceptance-rate", "0.7")
K3 = ("--draft-length", "3")


def row(ran):
    assert ran.code == 0, ran.err
    (found,) = json.loads(ran.out)["rows"]
    return found


def test_json_contract(draftscope):
    found = row(draftscope(*CASE, *RATE, *K3, "-o", "json"))
    assert list(found) == [
        "verdict", "stance", "inputs", "speedup", "speedup_low", "speedup_high", "decode_tokens_per_s",
        "baseline_decode_tokens_per_s", "step", "plain_pass_time_s", "time", "bytes", "break_even", "curve",
        "best", "sensitivity", "residual", "confidence", "references",
    ]  # fmt: skip
    assert found["residual"] is None
    assert {each["phase"] for each in found["time"]} == {"draft", "verify", "host", "plain"}
    assert set(found["bytes"][0]) == {"part", "draft", "verify", "plain"}
    assert set(found["break_even"]) == {
        "step_cost", "tokens_per_step", "acceptance_rate", "equivalent_rate",
    }  # fmt: skip
    assert [each["draft_length"] for each in found["curve"]] == list(range(1, 9))
    assert set(found["best"]) == {"draft_length", "low", "high", "share", "pays"}
    assert len(found["sensitivity"]) == 5
    assert found["speedup_low"] <= found["speedup"] <= found["speedup_high"]
    assert found["plain_pass_time_s"] == pytest.approx(1 / found["baseline_decode_tokens_per_s"])


def test_json_of_a_measurement(draftscope):
    ran = draftscope(
        *CASE, *RATE, *K3, "--measured-speedup", "1.2", "--mean-tokens-per-pass", "2.4", "-o", "json"
    )
    residual = row(ran)["residual"]
    assert set(residual) == {
        "status", "points", "at", "causes", "plain_measured", "plain_predicted", "plain_low", "plain_high",
        "anchor", "reach", "busy_s",
    }  # fmt: skip
    assert residual["points"][0]["measured"] == 1.2
    assert set(residual["causes"][0]) == {
        "cause", "predicted", "needed", "low", "high", "unit", "cited", "fits", "allowed", "covers", "score",
        "from_width",
    }  # fmt: skip


def test_the_verdict_comes_first_and_says_the_speedup_of_predict(draftscope):
    predicted = json.loads(draftscope("predict", *CASE[1:-2], *RATE, *K3, "-o", "json").out)["rows"][0]
    text = draftscope(*CASE, *RATE, *K3).out
    title, _, verdict = text.splitlines()[:3]
    assert title.startswith("# ")
    assert f"{predicted['metrics']['speedup']:.2f}x" in verdict
    assert verdict.startswith("On Pixel 9, ")
    sections = re.findall(r"^## (.*)$", text, re.M)
    assert sections == [
        "Where a step goes", "What it reads", "What it takes to pay", "Best draft length",
        "What the answer hangs on",
    ]  # fmt: skip


def test_csv_and_jsonl_have_one_number_a_line(draftscope):
    table = list(csv.DictReader(io.StringIO(draftscope(*CASE, *RATE, *K3, "-o", "csv").out)))
    lines = [json.loads(line) for line in draftscope(*CASE, *RATE, *K3, "-o", "jsonl").out.splitlines()]
    assert [each["section"] for each in table] == [each["section"] for each in lines]
    assert all(set(each) == {"section", "name", "value"} for each in lines)
    whole = row(draftscope(*CASE, *RATE, *K3, "-o", "json"))
    value = next(each["value"] for each in lines if each["section"] == "speedup")
    assert value == pytest.approx(whole["speedup"])


def test_counted_tokens_stand_in_for_the_acceptance(draftscope):
    found = row(
        draftscope(*CASE, *K3, "--measured-speedup", "1.2", "--mean-tokens-per-pass", "2.4", "-o", "json")
    )
    assert found["inputs"]["acceptance"] == "length(2.4 at 3)"


def test_tokens_per_s_are_a_speedup_and_a_baseline(draftscope):
    found = row(
        draftscope(
            *CASE, *RATE, "--measured-tokens-per-s", "2:12,4:9", "--baseline-tokens-per-s", "10", "-o", "json"
        )
    )  # fmt: skip
    points = {each["draft_length"]: each["measured"] for each in found["residual"]["points"]}
    assert points == {2: 1.2, 4: 0.9}
    assert found["residual"]["plain_measured"] == 10.0


def test_impossible_counts_are_said_in_words(draftscope):
    ran = draftscope(*CASE, *RATE, *K3, "--measured-speedup", "2.6", "--mean-tokens-per-pass", "2.4")
    assert "The counts contradict each other" in ran.out
    assert "A speedup of 2.60x needs 2.60 tokens a step or more; the counter says 2.40." in ran.out
    row = next(line for line in ran.out.splitlines() if line.replace(" ", "").startswith("|3|2.60x|"))
    assert row.split("|")[6].strip() == "-"
    assert float(row.split("|")[7]) > 0


def test_what_cannot_move_is_said_in_words(draftscope):
    ideal = [*CASE]
    ideal[ideal.index("gemma_4_e2b_assistant")] = "ngram"
    ran = draftscope(*ideal, "--runtime", "ideal", *RATE, *K3, "--measured-speedup", "0.9")
    assert "**Sampling on the host.** It has no range in this case, so it cannot move." in ran.out
    assert "No acceptance from 1 to K + 1 tokens a step is enough; its range covers" in ran.out
    assert "Acceptance was not counted in this run: count it first." in ran.out


def test_a_fault_is_said_in_words(draftscope):
    ran = draftscope(*CASE, *RATE, *K3, "--measured-speedup", "0.2", "--mean-tokens-per-pass", "2.5")
    assert "1. **Fault, not economics.**" in ran.out
    assert "unexplained by bytes, compute and dispatch" in ran.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*RATE, "--draft-length", "1-3"), "3 cases given; allowed: one device"),
        (("--draft-length", "0"), "plain decoding has no speedup to explain"),
        ((*RATE, *K3, "--baseline-tokens-per-s", "10"), "--baseline-tokens-per-s: given alone"),
        ((*RATE, *K3, "--busy-s", "10"), "--busy-s: given alone"),
        ((*RATE, *K3, "--measured-tokens-per-s", "10"), "without --baseline-tokens-per-s"),
        ((*RATE, *K3, "--measured-speedup", "1", "--measured-tokens-per-s", "10"), "allowed: one of them"),
        ((*RATE, "--measured-speedup", "1"), "given without a draft length"),
        ((*RATE, "--measured-speedup", "nan"), "'nan' given; allowed: a number"),
        ((*RATE, "--measured-speedup", "abc"), "'abc' given; allowed: a number"),
        ((*RATE, *K3, "--measured-speedup", "1e5"), "<= 10000"),
        ((*RATE, *K3, "--measured-tokens-per-s", "1e8", "--baseline-tokens-per-s", "9"), "<= 1e+07"),
        ((*RATE, *K3, "--measured-tokens-per-s", "9", "--baseline-tokens-per-s", "1e8"), "<= 1e+07"),
        ((*RATE, *K3, "--measured-tokens-per-s", "1e6", "--baseline-tokens-per-s", "1"), "at most 10000"),
        ((*RATE, *K3, "--measured-speedup", "0"), "a number >= 1e-06"),
        ((*RATE, *K3, "--measured-speedup", "x"), "'x' given; allowed: a number"),
        ((*RATE, *K3, "--measured-speedup", "2:1,2:1"), "one number for each draft length"),
        ((*RATE, *K3, "--measured-speedup", "0:1"), "whole numbers >= 1"),
        ((*RATE, *K3, "--measured-speedup", "2:1", "--mean-tokens-per-pass", "2"), "draft length 3 given"),
        ((*K3, "--measured-speedup", "1", "--mean-tokens-per-pass", "5"), "allowed: 1..4"),
        ((*K3, "--measured-speedup", "1"), "acceptance: nothing given"),
        ((*RATE, *K3, "--draws", "3"), "--draws"),
    ],
)  # fmt: skip
def test_wrong_options_are_one_clear_error(draftscope, arguments, message):
    ran = draftscope(*CASE, *arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert message in ran.err
    assert len(ran.err.splitlines()) == 1


def test_a_length_beyond_the_acceptance_is_refused_as_by_predict(draftscope):
    arguments = [
        *("--device", "pixel_10_pro", "--target", "gemma_4_e4b", "--drafter", "gemma_4_e4b_assistant"),
        *("--acceptance", "gemma_4_e4b_speed_bench_coding", "--draft-length", "8"),
        *("--prompt-tokens", "100", "--output-tokens", "50"),
    ]
    ran = draftscope("explain", *arguments, "--draws", "16")
    assert (ran.code, ran.out) == (2, "")
    assert "draft_length: given 8, allowed: 0..7" in ran.err
    assert ran.err == draftscope("predict", *arguments).err


def test_a_measured_length_beyond_the_acceptance_is_refused(draftscope):
    ran = draftscope(
        "explain", "--device", "pixel_9", "--target", "gemma_4_e4b", "--drafter", "gemma_4_e4b_assistant",
        "--acceptance", "gemma_4_e4b_gsm8k", "--prompt-tokens", "128", "--output-tokens", "65",
        "--draft-length", "1", "--measured-speedup", "99:1",
    )  # fmt: skip
    assert ran.code == 2
    assert "the acceptance is known up to" in ran.err


def test_nothing_measured_is_none():
    assert measured_of(Measurement(), 3) is None


def test_worked_examples_are_run_again():
    page = (
        'text\n\n```\ndraftscope profiles list\n```\n\n<!-- prints up to "| runtime" -->\n\n> old\n\nmore\n'
    )
    fresh = refreshed(page)
    assert "> old" not in fresh
    assert "> | device" in fresh
    assert "> | runtime" not in fresh
    assert fresh.startswith("text\n\n```\ndraftscope profiles list\n```\n")
    assert fresh.endswith("\n\nmore\n")
    assert refreshed(fresh) == fresh


def test_a_page_without_examples_and_a_failing_command_are_errors():
    with pytest.raises(DraftscopeError, match="no example"):
        refreshed("# nothing here\n")
    with pytest.raises(DraftscopeError, match="exit status 2"):
        refreshed("```\ndraftscope profiles show nonsense\n```\n\n<!-- prints -->\n\n> old\n")


def test_the_guide_shows_what_its_commands_print(repo_root):
    page = (repo_root / "docs" / "guides" / "explain.md").read_text(encoding="utf-8")
    assert refreshed(page) == page, "run: python -m simulator.cli.worked_examples docs/guides/explain.md"
