"""``draftscope kit``: commands and a dated prediction before a run, a verdict after it, refusals."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from statistics import median

import pytest

from hw_profiles import load_runtime
from tests.kit_samples import LLAMA_BENCH, programs, run_script

STACKS = ("prior_cpu", "litert_lm_cpu")
CASE = ("--device", "pixel_10_pro", "--target", "gemma_4_e2b", "--drafter", "gemma_4_e2b_assistant")
SMALL = ("--device", "generic:20", "--target", "smollm2_135m")


def call(*arguments):
    """Run the command outside of a test's capture."""
    from simulator.cli.app import run

    return run([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A kit whose script has run on programs that stand in for those of a phone."""
    folder = tmp_path_factory.mktemp("kit")
    assert call("kit", *CASE, "--runtime", ",".join(STACKS), "--draft-length", "2-3",
                "--acceptance-length", "2.4@3", "--out", folder / "kit") == 0  # fmt: skip
    done = run_script(folder / "kit", programs(folder / "bin"))
    assert done.returncode == 0, done.stderr
    return folder / "kit"


@pytest.fixture
def kit(finished, tmp_path):
    """A copy of it, to damage."""
    return shutil.copytree(finished, tmp_path / "kit", ignore=shutil.ignore_patterns("calibrated"))


def results(kit, stack=STACKS[0]):
    return kit / "results" / stack / "llama_bench_widths.jsonl"


# --------------------------------------------------------------------------------------------- before
def test_before_the_run_commands_and_prediction_are_printed_and_written(draftscope, tmp_path):
    out = tmp_path / "new" / "kit"
    ran = draftscope("kit", *CASE, "--draft-length", "1-2", "--out", out)
    assert ran.code == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "power.textproto", "prediction.json", "prompt.txt", "results", "run.sh"
    ]  # fmt: skip
    script = (out / "run.sh").read_text()
    assert script in ran.out and f"draftscope kit --results {out}" in ran.out
    assert json.loads((out / "prediction.json").read_text())["sha256"] in ran.out
    assert ran.err.splitlines() == [
        f"wrote {out / name}" for name in ("run.sh", "prompt.txt", "power.textproto", "prediction.json")
    ]
    for words in ("-p 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,512 -n 64 -d 0 -r 5", "-d 1024", "-ngl 0",
                  "-o jsonl", "--backend=gpu", "--backend=npu", "--enable_speculative_decoding=true",
                  "--enable_speculative_decoding=false", "--input_prompt_file=prompt.txt",
                  "perfetto --background --txt -c - -o /data/misc/perfetto-traces/"):  # fmt: skip
        assert words in script
    assert subprocess.run(["bash", "-n", out / "run.sh"], check=False).returncode == 0
    power = (out / "power.textproto").read_text()
    assert 'name: "android.power"' in power and "collect_power_rails: true" in power
    assert power.count("{") == power.count("}")
    stacks = {path.name for path in (out / "results").iterdir()}
    assert stacks == {"prior_cpu", "litert_lm_cpu", "litert_lm_gpu_powervr", "litert_lm_tpu"}


def test_without_acceptance_no_speedup_is_made_up(draftscope, tmp_path):
    ran = draftscope("kit", *CASE, "--runtime", "litert_lm_cpu", "--draft-length", 3, "--out", tmp_path / "k",
                     "-o", "json")  # fmt: skip
    document = json.loads(ran.out)
    (stack,) = document["prediction"]["runtimes"]
    (step,) = stack["steps"]
    assert step["speedup"] is None and step["step_cost"]["low"] < step["step_cost"]["value"]
    assert {row["what"] for row in document["rows"]} == {"plain decoding", "pass", "prefill", "step cost"}
    assert len([row for row in document["rows"] if row["what"] == "pass"]) == len(stack["passes"]) == 64
    for row in document["rows"]:
        assert row["low"] <= row["predicted"] <= row["high"]


def test_published_acceptance_reaches_as_far_as_it_is_known(draftscope, tmp_path):
    ran = draftscope("kit", "--device", "pixel_10_pro", "--target", "gemma_4_e4b", "--drafter",
                     "gemma_4_e4b_assistant", "--acceptance", "gemma_4_e4b_gsm8k", "--draft-length", "2,4",
                     "--runtime", "litert_lm_tpu", "--out", tmp_path / "k", "-o", "json")  # fmt: skip
    two, four = json.loads(ran.out)["prediction"]["runtimes"][0]["steps"]
    assert two["tokens_per_step"]["value"] == pytest.approx(2.67, abs=0.03)
    assert four["speedup"] is None and four["step_cost"]["value"] > two["step_cost"]["value"]


def test_the_prediction_is_what_predict_says(draftscope, tmp_path):
    given = (*CASE, "--runtime", "litert_lm_cpu", "--draft-length", 3, "--acceptance-length", "2.2@3",
             "--prompt-tokens", 100, "--output-tokens", 64)  # fmt: skip
    kit = json.loads(draftscope("kit", *given, "--out", tmp_path / "k", "-o", "json").out)
    (result,) = json.loads(draftscope("predict", *given, "-o", "json").out)["rows"]
    step = kit["prediction"]["runtimes"][0]["steps"][0]
    assert step["speedup"]["value"] == result["metrics"]["speedup"]
    assert [step["speedup"]["low"], step["speedup"]["high"]] == list(result["intervals"]["speedup"])


def test_a_prediction_is_never_replaced(draftscope, kit):
    before = (kit / "prediction.json").read_bytes()
    ran = draftscope("kit", *CASE, "--out", kit)
    assert ran.code == 2 and "never replaced" in ran.err and len(ran.err.splitlines()) == 1
    assert (kit / "prediction.json").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "needed: one of --out"),
        (("--out", "a", "--results", "a"), "needed: one of --out"),
        (("--out", "a"), "--device: missing"),
        (("--results", "a", *CASE), "--device: given with --results"),
        (("--results", "nowhere"), "there is no nowhere/prediction.json"),
        (("--out", "a", *SMALL, "--loss", "linear"), "--loss: given with --out"),
        (("--results", "a", "--loss", "cubic"), "--loss"),
        (("--out", "a", *SMALL, "--runtime", "prior_cpu,prior_cpux"), "prior_cpu"),
        (("--out", "a", *SMALL, "--acceptance-rate", "0.5"), "given without --drafter"),
        (("--out", "a", *SMALL, "--draft-length", "3"), "--draft-length: '3' given without --drafter"),
        (("--out", "a", *SMALL, "--prompt-tokens", "-1"), "--prompt-tokens"),
        (("--out", "a", *SMALL, "-o", "xml"), "--output"),
    ],
)
def test_wrong_usage_is_one_line(draftscope, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    ran = draftscope("kit", *arguments)
    assert ran.code == 2 and words in ran.err and len(ran.err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------------------------------------- after
@pytest.fixture(scope="module")
def judged(finished):
    """The verdict as a JSON document."""
    import contextlib
    import io

    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        assert call("kit", "--results", finished, "-o", "json") == 0
    return json.loads(text.getvalue())


def test_every_measured_number_has_a_row(judged):
    rows = judged["rows"]
    assert {row["runtime"] for row in rows} == set(STACKS)
    bench = [row for row in rows if row["runtime"] == "prior_cpu"]
    assert len(bench) == 16 + 1 + 1 + 3 + 1 + 1
    assert judged["summary"]["rows"] == len(rows)
    assert judged["summary"]["inside"] == sum(row["inside"] is True for row in rows)
    for row in rows:
        if row["predicted"] is not None:
            assert row["error"] == pytest.approx(row["predicted"] / row["measured"] - 1)
            assert row["inside"] == (row["low"] <= row["measured"] <= row["high"])
    assert {row["inside"] for row in rows} == {True, False}


def test_passes_are_judged_at_their_own_context(judged, finished):
    (stack,) = [each for each in json.loads((finished / "prediction.json").read_text())["runtimes"]
                if each["id"] == "prior_cpu"]  # fmt: skip
    at = {each["context"]: each["seconds"]["value"] for each in stack["passes"] if each["width"] == 1}
    (row,) = [row for row in judged["rows"] if row["runtime"] == "prior_cpu" and row["context"] == 1055.5]
    assert row["measured"] == pytest.approx(0.04 * (1 + 1024 / 20000))
    assert at[1024.0] < row["predicted"] < at[2048.0]


def test_calibration_brings_the_passes_right(judged, finished):
    passes = [row for row in judged["rows"] if row["what"] == "pass"]
    off = [abs(row["calibrated"] / row["measured"] - 1) for row in passes]
    assert max(off) < 0.05 < max(abs(row["error"]) for row in passes)
    unseen = [abs(row["calibrated"] / row["measured"] - 1) for row in judged["rows"]
              if row["draft_length"] and row["calibrated"]]  # fmt: skip
    assert judged["summary"]["median_absolute_error_calibrated"] == pytest.approx(median(unseen))
    runtime = load_runtime(str(finished / "calibrated" / "prior_cpu.toml"))
    costs = dict(runtime.verify_curve.value)
    assert costs[4.0] == pytest.approx(1.6, rel=0.1) and costs[16.0] == pytest.approx(4.0, rel=0.1)
    assert {each["runtime"] for each in judged["changes"]} == set(STACKS)


def test_the_speculative_run_is_counted_and_not_fitted(judged):
    rows = {row["what"]: row for row in judged["rows"] if row["draft_length"]}
    assert {row["draft_length"] for row in rows.values()} == {3}
    assert rows["speedup"]["measured"] == pytest.approx(1.25)
    assert rows["tokens per step"]["measured"] == pytest.approx(2.56)
    assert rows["step cost"]["measured"] == pytest.approx(2.56 / 1.25)
    told = rows["speedup, tokens per step as measured"]
    assert told["predicted"] == pytest.approx(2.56 / rows["step cost"]["predicted"])
    assert told["low"] == pytest.approx(2.56 / rows["step cost"]["high"])
    (change,) = [each for each in judged["changes"] if each["runtime"] == "litert_lm_cpu"
                 and each["draft_length"] == 3]  # fmt: skip
    assert change["tokens_per_step"] == pytest.approx(2.56)
    assert change["speedup"] == pytest.approx(2.56 / change["after"]["value"])


def test_the_page_for_people(draftscope, kit):
    ran = draftscope("kit", "--results", kit)
    assert ran.code == 0
    for words in ("predicted numbers lie in their 90% range", "| pass of 4 rows", " NO |", " yes |",
                  "calibrated: what the results moved", "| mbu_large", "Cost of a step in plain passes",
                  "speedup, tokens per step as measured, K = 3", "litert_prompt_mtp.log:"):  # fmt: skip
        assert words in ran.out, words
    assert ran.err.splitlines() == [f"wrote {kit / 'calibrated' / stack}.toml" for stack in STACKS]


def test_a_changed_prediction_is_refused(draftscope, kit):
    file = kit / "prediction.json"
    text = file.read_text()
    file.write_text(re.sub(r'"value": 0\.0', '"value": 0.1', text, count=1))
    ran = draftscope("kit", "--results", kit)
    assert ran.code == 2 and "was changed after it was written" in ran.err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text[:500], "not JSON"),
        (lambda text: "[]", "this is not a prediction"),
        (lambda text: text.replace('"schema_version": 1', '"schema_version": 2'), "given 2, allowed: 1"),
        (lambda text: "\xff" + text, "not JSON"),
    ],
)
def test_a_damaged_prediction_is_refused(draftscope, kit, change, words):
    file = kit / "prediction.json"
    file.write_text(change(file.read_text()))
    ran = draftscope("kit", "--results", kit)
    assert ran.code == 2 and words in ran.err and len(ran.err.splitlines()) == 1


def test_results_older_than_the_prediction_are_refused(draftscope, kit):
    file = results(kit)
    file.write_text(re.sub(r'"test_time": "\d{4}', '"test_time": "2020', file.read_text(), count=1))
    ran = draftscope("kit", "--results", kit)
    assert ran.code == 2 and f"{file}: measured at 2020-" in ran.err and "its test_time" in ran.err
    log = kit / "results" / "litert_lm_cpu" / "litert_long.log"
    file.unlink()
    os.utime(log, (1e9, 1e9))
    ran = draftscope("kit", "--results", kit)
    assert ran.code == 2 and f"{log}: measured at 2001-09-09" in ran.err and "the date of the file" in ran.err


def test_what_is_not_understood_is_refused_with_file_and_line(draftscope, kit):
    file = results(kit)
    file.write_text(file.read_text().replace('"avg_ns": 64', '"avg_ns": -64', 1))
    ran = draftscope("kit", "--results", kit)
    assert ran.code == 2 and f"{file}:4: field 'avg_ns'" in ran.err
    file.write_text("some notes of mine\n")
    ran = draftscope("kit", "--results", kit)
    assert ran.code == 2 and f"{file}: no known tool writes such a file" in ran.err
    assert not (kit / "calibrated").exists()


def test_results_of_a_stack_that_was_not_predicted_are_refused(draftscope, kit):
    (kit / "results" / "litert_lm_cpux").mkdir()
    ran = draftscope("kit", "--results", kit)
    assert ran.code == 2 and "Did you mean 'litert_lm_cpu'?" in ran.err
    (kit / "results" / "litert_lm_cpux").rmdir()
    (kit / "results" / "stray.json").write_text("{}")
    ran = draftscope("kit", "--results", kit)
    assert ran.code == 2 and "stray.json: is no folder" in ran.err


def test_no_results_yet(draftscope, kit):
    for file in (kit / "results").glob("*/*"):
        file.unlink()
    ran = draftscope("kit", "--results", kit)
    assert ran.code == 2 and "no results yet" in ran.err


def test_profiles_that_changed_since_are_noted(draftscope, tmp_path, repo_root):
    mine = tmp_path / "mine.toml"
    mine.write_text((repo_root / "hw_profiles/runtimes/prior_cpu.toml").read_text())
    kit = tmp_path / "kit"
    assert draftscope("kit", *SMALL, "--runtime", mine, "--out", kit).code == 0
    fast = LLAMA_BENCH.replace("40e6", "8e6")
    assert run_script(kit, programs(tmp_path / "bin", llama_bench=fast)).returncode == 0
    notes = [json.loads(draftscope("kit", "--results", kit, "-o", "json").out)["notes"]]
    text = mine.read_text()
    value = re.search(r"\[mbu_large\]\nvalue = (\S+)", text)[1]
    mine.write_text(text.replace(f"value = {value}", f"value = {float(value) * 0.99}", 1))
    notes.append(json.loads(draftscope("kit", "--results", kit, "-o", "json").out)["notes"])
    assert [any("have changed since" in note for note in each) for each in notes] == [False, True]


def test_a_run_that_fails_leaves_no_result(draftscope, tmp_path):
    kit = tmp_path / "kit"
    assert draftscope("kit", *SMALL, "--runtime", "prior_cpu", "--out", kit).code == 0
    broken = programs(tmp_path / "bin", llama_bench="print('{'); raise SystemExit(3)")
    done = run_script(kit, broken)
    assert done.returncode == 0 and "failed, see failed-llama_bench_widths.jsonl" in done.stderr
    assert not list((kit / "results" / "prior_cpu").iterdir())
