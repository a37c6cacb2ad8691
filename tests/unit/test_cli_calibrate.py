"""``draftscope calibrate``: files in, a table and a runtime out, errors in one line."""

from __future__ import annotations

import json
import os

import pytest

from hw_profiles import load_runtime
from tests.calibration_samples import DEVICE, RUNTIME, sample

HEAD = "kind,device,model,width,context,tokens,time_s,stderr_time_s,drafter,draft_length,steps,output_tokens,"
HEAD += "baseline_tokens_per_s"


def written(folder, target, *, runs=(), noise=0.01):
    """A sample as a CSV of one's own."""
    file = sample(target, noise=noise)
    lines = [HEAD]
    for each in file.passes:
        lines.append(f"pass,{DEVICE},{target},{each.width:g},{each.context:g},,{each.seconds!r},"
                     f"{each.stderr_s!r},,,,,")  # fmt: skip
    for each in file.prefills:
        lines.append(f"prefill,{DEVICE},{target},,,{each.tokens:g},{each.seconds!r},{each.stderr_s!r},,,,,")
    lines += [f"run,{DEVICE},{target},,,,{run}" for run in runs]
    path = folder / f"{target}.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("measured")
    run = "9.0,,gemma_4_e2b_assistant,3,60,128,15"
    return [written(folder, "gemma_4_e2b", runs=[run]), written(folder, "gemma_4_e4b")]


def test_the_page_names_what_is_fitted_and_what_is_not(draftscope, files):
    ran = draftscope("calibrate", "--measurements", *files, "--runtime", RUNTIME)
    assert (ran.code, ran.err) == (0, "")
    for words in ("| mbu_large ", "| verify_curve[8]", "What these data do not identify",
                  "host_per_row_s (kept)", "correlation", "gemma_4_e2b.csv:2", "Speculative runs, not fitted",
                  "gemma_4_e2b_assistant",                  "Widths 6 to 7 were not timed"):  # fmt: skip
        assert words in ran.out


def test_json_holds_everything(draftscope, files):
    ran = draftscope("calibrate", "--measurements", *files, "--runtime", RUNTIME, "-o", "json")
    document = json.loads(ran.out)
    assert document["command"] == "calibrate" and document["converged"]
    assert {row["status"] for row in document["rows"]} >= {"fitted", "kept"}
    assert len({tuple(row) for row in document["rows"]}) == 1
    assert len(document["times"]) == 28 and len(document["held_out"]) == 1
    assert document["held_out"][0]["status"] == "scored"
    assert all(-1.0000001 <= each["correlation"] <= 1.0000001 for each in document["correlations"])
    assert ran.err.splitlines() == [f"note: {note}" for note in document["notes"]]


@pytest.mark.parametrize("style", ["csv", "jsonl"])
def test_tables_have_a_row_a_field(draftscope, files, style):
    ran = draftscope("calibrate", "--measurements", *files, "--runtime", RUNTIME, "-o", style)
    assert len(ran.out.splitlines()) == 12 + (style == "csv")


def test_the_written_runtime_is_used_by_other_commands(draftscope, files, tmp_path):
    out = tmp_path / "mine.toml"
    ran = draftscope(
        "calibrate", "--measurements", *files, "--runtime", RUNTIME, "--out", out, "--name", "Mine"
    )
    assert ran.code == 0 and ran.err.strip().endswith(f"wrote {out}")
    runtime = load_runtime(str(out))
    assert (runtime.id, runtime.name) == ("mine", "Mine")
    assert "sha256" in runtime.references["calibration_1"].note
    assert draftscope("profiles", "check", out).out == "No problem found.\n"
    predicted = draftscope("predict", "--device", DEVICE, "--target", "gemma_4_e2b", "--runtime", out,
                           "--prompt-tokens", 10, "--output-tokens", 10, "-o", "json")  # fmt: skip
    (row,) = json.loads(predicted.out)["rows"]
    assert row["inputs"]["runtime"] == "mine"


def test_a_calibrated_runtime_is_a_start_too(draftscope, files, tmp_path):
    out = tmp_path / "mine.toml"
    draftscope("calibrate", "--measurements", *files, "--runtime", RUNTIME, "--out", out)
    before = load_runtime(str(out)).mbu_large
    again = tmp_path / "again.toml"
    ran = draftscope("calibrate", "--measurements", files[0], "--runtime", out, "--out", again)
    assert ran.code == 0
    after = load_runtime(str(again)).mbu_large
    assert before.low <= after.value <= before.high


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--measurements"),
        (("--measurements", "missing.csv"), "missing.csv"),
        (("--measurements", "FILE", "--device", "pixel9"), "'pixel_9'"),
        (("--measurements", "FILE", "--target", "gemma_4_e2"), "'gemma_4_e2b'"),
        (("--measurements", "FILE", "--runtime", "ideal"), "roofline"),
        (("--measurements", "FILE", "--loss", "hubert"), "allowed: linear, soft_l1"),
        (("--measurements", "FILE", "--out", "mine.txt"), "ending in .toml"),
        (("--measurements", "FILE", "-o", "xml"), "--output"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_options_are_one_line_and_two(draftscope, files, arguments, words):
    ran = draftscope("calibrate", *(files[0] if word == "FILE" else word for word in arguments))
    assert (ran.code, ran.out) == (2, "")
    assert words.lower() in ran.err.lower()
    assert len(ran.err.splitlines()) == 1


def test_a_target_that_is_no_file_is_refused_before_anything_is_fitted(draftscope, files, tmp_path):
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    ran = draftscope("calibrate", "--measurements", files[0], "--out", pipe)
    assert ran.code == 2 and "is a pipe" in ran.err


def test_a_damaged_line_is_named(draftscope, files, tmp_path):
    lines = files[1].read_text().splitlines()
    lines[3] = lines[3].replace(lines[3].split(",")[6], "nan")
    path = tmp_path / "bad.csv"
    path.write_text("\n".join(lines))
    ran = draftscope("calibrate", "--measurements", path)
    assert ran.code == 2
    assert "bad.csv:4" in ran.err and "time_s" in ran.err


def test_an_empty_name_is_refused(draftscope, files, tmp_path):
    out = tmp_path / "new.toml"
    ran = draftscope("calibrate", "--measurements", *files, "--runtime", RUNTIME, "--name", "", "--out", out)
    assert ran.code == 2
    assert "--name: '' given; allowed: a name that is not empty." in ran.err
    assert not out.exists()


def test_a_folder_is_not_a_measurement_file(draftscope, tmp_path):
    ran = draftscope("calibrate", "--measurements", tmp_path)
    assert ran.code == 2
    assert f"{tmp_path}: is a folder; allowed: a file." in ran.err
