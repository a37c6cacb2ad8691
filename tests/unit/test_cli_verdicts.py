"""What ``draftscope compare`` announces: which rows are ranked, which draft length, which other runtime."""

from __future__ import annotations

import csv
import io
import re

import pytest

from simulator.acceptance.published import load_published
from simulator.analytic import predict
from simulator.studies.compare import compare
from simulator.studies.reporting.readings import candidates, speedup_reading

E4B = ("compare", "--device", "pixel_9", "--target", "gemma_4_e4b", "--drafters", "gemma_4_e4b_assistant",
       "--no-intervals")  # fmt: skip
BENCHMARKS = {"vllm_gemma4_acceptance_test": 3, "modelopt_speed_bench_e4b_k7": 11}


def fastest(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("Fastest")]


def test_each_benchmark_has_its_own_verdict_over_all_its_tasks(draftscope, shipped):
    ran = draftscope(*E4B)
    rows = compare(
        devices="pixel_9", targets="gemma_4_e4b", drafters="gemma_4_e4b_assistant", intervals=False
    ).rows
    wanted = {row.benchmark: row for row in rows if row.draft_length}
    assert {name: row.tasks for name, row in wanted.items()} == BENCHMARKS
    assert len(fastest(ran.out)) == 2
    for line, (name, row) in zip(fastest(ran.out), wanted.items(), strict=True):
        assert line.startswith(f"Fastest on {name}: ")
        assert f"at K = {row.draft_length}, {row.speedup:.2f} times" in line


def test_detail_changes_no_verdict(draftscope, shipped):
    plain, detailed = draftscope(*E4B).out, draftscope(*E4B, "--detail").out
    assert len(detailed.splitlines()) > len(plain.splitlines()) + 10
    assert fastest(plain) == fastest(detailed)


def test_a_control_is_shown_but_never_announced(draftscope, shipped):
    arguments = ("compare", "--target", "smollm2_135m", "--no-intervals", "--drafters")
    assert "| suffix " in draftscope(*arguments, "suffix,standalone_body").out
    rows = compare(targets="smollm2_135m", drafters=["suffix", "standalone_body"], intervals=False).rows
    assert [row.drafter for row in rows if row.control] == ["suffix"]
    (line,) = re.findall(r"^(?:Fastest|No drafter).*$", draftscope(*arguments, "suffix,ngram").out, re.M)
    assert "Suffix" not in line


def test_a_best_length_at_the_end_of_what_is_known_is_flagged(draftscope, shipped):
    rows = compare(
        devices="pixel_9", targets="gemma_4_e4b", drafters="gemma_4_e4b_assistant", intervals=False
    ).rows
    assert [(row.draft_length, row.at_longest) for row in rows] == [(0, False), (2, True), (7, True)]
    out = draftscope(*E4B).out
    assert re.search(r"\| +7\+ \|", out)
    assert "a longer one may be faster" in out
    chosen = draftscope(*E4B, "--draft-length", "2")
    assert "2+" not in chosen.out
    searched = draftscope(
        "predict", "--device", "pixel_9", "--target", "gemma_4_e4b", "--drafter", "gemma_4_e4b_assistant",
        "--acceptance", "gemma_4_e4b_gsm8k", "--prompt-tokens", "64", "--output-tokens", "16",
        "--no-intervals",
    )  # fmt: skip
    assert "K = 2 is the longest draft length known" in searched.err


def test_another_runtime_of_the_stack_that_decodes_faster_is_named(draftscope, shipped):
    out = draftscope(*E4B).out
    (line,) = re.findall(r"^Plain decoding of .*$", out, re.M)
    found = re.findall(r"(litert_lm_\w+) \(([\d.]+) tok/s, first token ([\d,]+) ms\)", line)
    assert [name for name, _, _ in found] == ["litert_lm_cpu", "litert_lm_gpu_mali", "litert_lm_tpu"]
    for name, speed, ttft_ms in found:
        alone = predict(
            device="pixel_9", runtime=name, target="gemma_4_e4b", prompt_tokens=1024, output_tokens=256,
            intervals=False,
        )  # fmt: skip
        assert float(speed) == pytest.approx(alone["decode_tokens_per_s"], rel=5e-3)
        assert float(ttft_ms.replace(",", "")) == pytest.approx(alone["ttft_s"] * 1e3, rel=5e-3)
    assert "Plain decoding of" not in draftscope(*E4B, "--runtime", "litert_lm_tpu").out
    assert line in draftscope(*E4B, "-o", "json").out


def test_pooled_tasks_say_why_they_differ_from_the_publishers_mean(draftscope, shipped):
    note = next(line for line in draftscope(*E4B).out.splitlines() if "harmonic mean" in line)
    rows = compare(
        devices="pixel_9", targets="gemma_4_e4b", drafters="gemma_4_e4b_assistant", intervals=False,
        every_task=True,
    ).rows  # fmt: skip
    lengths = [
        row.mean_acceptance_length for row in rows if row.is_part and row.task.startswith("speed_bench")
    ]
    assert f"{len(lengths) / sum(1 / length for length in lengths):.2f} at K = 7" in note
    assert f"{load_published('gemma_4_e4b_speed_bench_overall').mean_acceptance_length(7):.2f}." in note


def test_rates_carry_their_range(draftscope, shipped):
    arguments = (
        "compare",
        "--target",
        "gemma_4_e4b",
        "--drafters",
        "gemma_4_e4b_assistant",
        "--draft-length",
        "2",
    )
    cells = list(csv.DictReader(io.StringIO(draftscope(*arguments, "-o", "csv").out)))
    low, high = (float(cells[0][f"decode_tokens_per_s_{end}"]) for end in ("low", "high"))
    assert low < float(cells[0]["decode_tokens_per_s"]) < high
    assert f"[{low:.2f}..{high:.2f}]" in draftscope(*arguments).out


def test_a_task_without_acceptance_is_said_to_be_it(draftscope, shipped):
    out = draftscope("compare", "--target", "gemma_4_e4b", "--tasks", "proofread", "--no-intervals").out
    assert "no published acceptance of proofread" in out
    assert "Fastest" not in out


def test_a_control_is_not_the_best_of_a_report():
    control = {"drafter": "suffix", "label": "Suffix look-up", "best": True, "speedup": 1.9,
               "draft_length": 3, "control": True}  # fmt: skip
    head = {"drafter": "frozen_mtp_nano", "label": "Frozen MTP head", "best": True, "speedup": 1.2,
            "draft_length": 2, "control": False}  # fmt: skip
    assert speedup_reading([control, head]).startswith("Best: the frozen MTP head, 1.20× at K = 2")
    assert [record["drafter"] for record in candidates([control])] == ["suffix"]
