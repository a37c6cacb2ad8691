"""Help, errors, notes and formats that new users stumble over, each with what it must say."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys

import pytest

from simulator.analytic import predict
from simulator.cli.app import COMMANDS
from simulator.drafters import build_drafter
from simulator.errors import DraftscopeError
from simulator.specs import load_target
from simulator.units import rounded

CASE = ("predict", "--device", "pixel_10", "--target", "gemma_4_e2b", "--drafter", "gemma_4_e2b_assistant",
        "--prompt-tokens", "64", "--output-tokens", "16", "--acceptance-rate", "0.5",
        "--draft-length", "2")  # fmt: skip
NAMES = [
    [name] if group == "app" else [group, name] for group, each in COMMANDS.items() for _, name, _ in each
]


def helped(repo_root, *command: str) -> str:
    done = subprocess.run([sys.executable, "-m", "simulator.cli", *command, "--help"], cwd=repo_root,
                          capture_output=True, text=True, check=True)  # fmt: skip
    return " ".join(done.stdout.replace("│", " ").split())


def test_help_keeps_its_words(repo_root):
    assert "OUT/TARGET/DRAFTER.parquet" in helped(repo_root, "trace", "collect")
    said = helped(repo_root, "predict")
    for option in ("device", "target"):
        said_of = said.partition(f"--{option} STR")[2].partition(" --")[0]
        assert "Required." in said_of
        assert "[default" not in said_of
    for listed in ("targets", "drafters", "acceptances"):
        assert f"profiles list {listed}" in said


@pytest.mark.parametrize("command", NAMES, ids=" ".join)
def test_no_docstring_has_angle_brackets_that_the_help_eats(command):
    import importlib

    group, name = (command[0], command[-1]) if len(command) > 1 else ("app", command[0])
    where = next(path for path, each, _ in COMMANDS[group] if each == name)
    module, _, function = where.partition(":")
    assert "<" not in (getattr(importlib.import_module(module), function).__doc__ or "").replace("<=", "")


@pytest.mark.parametrize(
    ("ending", "reads"), [("json", json.loads), ("csv", csv.reader), ("jsonl", json.loads)]
)
def test_the_ending_of_the_file_is_its_format(draftscope, tmp_path, ending, reads):
    path = tmp_path / f"x.{ending}"
    assert draftscope(*CASE, "--out", path).code == 0
    text = path.read_text()
    assert not text.startswith("# ")
    assert list(reads(io.StringIO(text) if ending == "csv" else text))
    stated = tmp_path / f"stated.{ending}"
    draftscope(*CASE, "--out", stated, "-o", "md")
    assert stated.read_text().startswith("# ")


def test_rows_of_predict_are_named_as_those_of_compare_and_keep_their_notes(draftscope, shipped):
    (row,) = csv.DictReader(io.StringIO(draftscope(*CASE, "-o", "csv").out))
    compared = next(
        csv.DictReader(io.StringIO(draftscope("compare", "--draft-length", "2", "-o", "csv").out))
    )
    shared = {name for name in compared if name.startswith(("decode_tokens_per_s", "speedup"))}
    assert {"speedup_low", "speedup_high", "decode_tokens_per_s_low"} <= shared <= set(row)
    assert "8-bit" in row["notes"] or "int8 on the device is assumed" in row["notes"]


def test_markdown_says_what_rejected_drafts_cost(draftscope):
    out = draftscope(*CASE).out
    (row,) = json.loads(draftscope(*CASE, "-o", "json").out)["rows"]
    share = 100 * row["energy_ledger"]["rejected_share"]
    assert f"Rejected drafts: {rounded(share)} % of the energy of decoding." in out
    assert "energy of a response by rail" in out


def test_a_scenario_holds_the_options_of_its_command(draftscope, tmp_path):
    path, steps = tmp_path / "case.toml", tmp_path / "steps.csv"
    options = {"device": "pixel_10", "target": "gemma_4_e2b", "drafter": "ngram", "draft_length": 2,
               "acceptance_rate": 0.5, "prompt_tokens": 64, "output_tokens": 16}  # fmt: skip

    def write(**more: object) -> None:
        path.write_text(
            "".join(f"{key} = {json.dumps(value)}\n" for key, value in {**options, **more}.items())
        )

    def found(*more: object) -> dict:
        return json.loads(draftscope("simulate", path, *more, "-o", "json").out)["rows"][0]

    write(replications=3, seed=5, steps=str(steps))
    one = found()
    assert one["seed"] == 5
    assert {row["request"] for row in csv.DictReader(steps.read_text().splitlines())} == {"0", "1", "2"}
    write()
    assert found("--replications", "3", "--seed", "5")["metrics"] == one["metrics"]
    write(replications=3, seed=5)
    assert found("--seed", "6")["seed"] == 6


def test_a_layer_that_the_target_lacks_lists_those_it_has():
    spec = {"id": "mine", "family": "frozen_mtp", "kind": "assumed", "hidden_size": 64,
            "intermediate_size": 128, "num_attention_heads": 9, "kv_layers": ["last_local"]}  # fmt: skip
    with pytest.raises(DraftscopeError) as caught:
        build_drafter(spec, load_target("smollm2_135m"))
    assert "Allowed for it: 'last_global', or numbers from 0 to 29" in str(caught.value)


def test_an_engine_that_a_device_lacks_names_the_runtime(draftscope):
    ran = draftscope("predict", "--device", "pixel_10", "--runtime", "ideal", "--engine", "npu", "--target",
                     "gemma_4_e2b", "--prompt-tokens", "9", "--output-tokens", "9")  # fmt: skip
    assert ran.code == 2
    assert "runtime ideal" in ran.err
    assert "pixel_10" in ran.err


@pytest.mark.parametrize(
    ("runtime", "target", "words"),
    [
        ("tuned_gpu_f16", "gemma_4_e2b", "f16 weights; gemma_4_e2b has 2.77 bits"),
        ("tuned_cpu", "gemma_4_e2b@bf16", "4-bit weights; gemma_4_e2b has 16 bits"),
        ("tuned_gpu_f16", "gemma_4_e2b@bf16", ""),
        ("tuned_cpu", "gemma_4_e2b", ""),
        ("litert_lm_tpu", "gemma_4_e2b", ""),
    ],
)
def test_kernels_for_other_weights_are_noted(runtime, target, words):
    notes = predict(device="pixel_10", runtime=runtime, target=target, prompt_tokens=9, output_tokens=9,
                    intervals=False).notes  # fmt: skip
    said = [note for note in notes if "measured with kernels" in note]
    assert len(said) == bool(words)
    assert all(words in note for note in said)


def test_a_runtime_measured_nowhere_says_so():
    notes = predict(device="pixel_9", runtime="litert_lm_cpu", target="gemma_4_e2b", prompt_tokens=9,
                    output_tokens=9, intervals=False).notes  # fmt: skip
    assert "Runtime litert_lm_cpu was measured on no device: its numbers count as assumed." in notes
