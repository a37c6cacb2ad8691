"""Records of the report: sums, best draft lengths, acceptance and texts are those of model and traces."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simulator.acceptance import TraceAcceptance, walk
from simulator.acceptance.trace import read_responses, read_trace
from simulator.analytic import predict
from simulator.errors import DraftscopeError
from simulator.figures.report import embedded
from simulator.studies.report_data import report_data
from simulator.studies.reporting import readings
from simulator.studies.reporting.sources import source_records
from simulator.studies.reporting.strips import strip_records
from simulator.studies.reporting.traces import read_token_texts, strips_of
from tests.report_samples import CHANCES, DRAFTERS, TARGET, write_sample_traces


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sample_traces(tmp_path_factory.mktemp("traces"))


@pytest.fixture(scope="module")
def data(folder: Path) -> dict[str, Any]:
    return report_data(
        devices=["pixel_9"],
        targets=[TARGET, "gemma_3n_e2b"],
        draft_lengths=range(1, 5),
        traces=[folder / f"{name}.parquet" for name in DRAFTERS],
    )


@pytest.fixture(scope="module")
def measured(data: dict[str, Any]) -> dict[str, Any]:
    return next(section for section in data["sections"] if section["target"] == TARGET)


def test_records_are_plain(data: dict[str, Any]) -> None:
    again = json.loads(embedded(data))
    assert set(again) == set(data)


def test_a_speedup_figure_for_each_task_with_every_drafter(measured: dict[str, Any]) -> None:
    assert [part["task"] for part in measured["speedup"]] == list(CHANCES)
    for part in measured["speedup"]:
        drafters = {record["drafter"].removeprefix("smollm2_") for record in part["records"]}
        assert drafters == set(DRAFTERS)
        assert {record["draft_length"] for record in part["records"]} == {1, 2, 3, 4}


def test_best_draft_length_is_the_fastest(measured: dict[str, Any]) -> None:
    for part in measured["speedup"]:
        for name in {record["drafter"] for record in part["records"]}:
            mine = [record for record in part["records"] if record["drafter"] == name]
            (best,) = [record for record in mine if record["best"]]
            assert best["speedup"] == max(record["speedup"] for record in mine)
        top = max(part["records"], key=lambda record: record["speedup"])
        assert part["winner"] == top["drafter"]
        assert f"{top['speedup']:.2f}×" in part["reading"]


def test_speedups_are_those_of_predict(measured: dict[str, Any], folder: Path) -> None:
    trace = read_trace(folder / "mtp_head.parquet")
    part = next(part for part in measured["speedup"] if part["task"] == "code")
    for record in part["records"]:
        if record["drafter"] == "smollm2_mtp_head":
            result = predict(
                device="pixel_9", target=TARGET, drafter=record["drafter"], task="code", intervals=False,
                acceptance=TraceAcceptance(trace=trace), draft_length=record["draft_length"],
            )  # fmt: skip
            assert record["speedup"] == pytest.approx(result["speedup"], rel=1e-9)


def test_ledgers_sum_to_their_totals(measured: dict[str, Any]) -> None:
    for name, value in (("ram", "ram_bytes"), ("drafter_ram", "ram_bytes"), ("bytes", "bytes_per_token")):
        for drafter in {record["drafter"] for record in measured[name]}:
            mine = [record for record in measured[name] if record["drafter"] == drafter]
            assert sum(record[value] for record in mine) == pytest.approx(mine[0]["total_bytes"])
            if name == "drafter_ram":
                assert all(record["part"].startswith("drafter_") for record in mine)


def test_energy_by_phase_sums_to_decode_and_prefill(measured: dict[str, Any]) -> None:
    for drafter in {record["drafter"] for record in measured["energy"]}:
        mine = {record["phase"]: record for record in measured["energy"] if record["drafter"] == drafter}
        decode_j = sum(mine[phase]["energy_per_token_j"] for phase in ("draft", "verify", "commit"))
        assert decode_j == pytest.approx(
            mine["verify"]["decode_j"], rel=0.02
        )  # mean of responses of any length
        assert 0 <= mine["verify"]["rejected_j"] < decode_j
    plain = [record for record in measured["energy"] if record["drafter"] == "none"]
    assert plain[0]["rejected_j"] == 0


def test_plain_decoding_stands_beside_every_speed(measured: dict[str, Any]) -> None:
    plain = {record["task"] for record in measured["speed"] if record["drafter"] == "none"}
    assert plain == {record["task"] for record in measured["speed"]} == set(CHANCES)


def test_acceptance_by_depth_is_that_of_the_walk(data: dict[str, Any], folder: Path) -> None:
    trace = read_trace(folder / "mtp_head.parquet").filtered(max_overlap=0.2, tasks=["proofread"])
    expected = walk(trace, 4)
    part = next(part for part in data["acceptance"] if part["task"] == "proofread")
    mine = [record for record in part["records"] if record["drafter"] == "mtp_head"]
    assert [record["per_position_acceptance_rate"] for record in mine] == pytest.approx(
        list(expected.per_position_acceptance_rate)
    )
    assert mine[0]["conditional_acceptance_rate"] == pytest.approx(expected.conditional_acceptance_rate[0])
    assert mine[0]["requests"] == 5, "the response that overlaps training text is left out"


def test_strips_spell_the_same_text_for_every_drafter(data: dict[str, Any], folder: Path) -> None:
    responses = read_responses(folder / "responses.parquet")
    assert [strip["task"] for strip in data["strips"]] == list(CHANCES)
    for strip in data["strips"]:
        whole = responses.token_texts[responses.request_ids.index(strip["request_id"])]
        assert {row["drafter"] for row in strip["drafters"]} == set(DRAFTERS)
        for row in strip["drafters"]:
            texts = [text for step in row["steps"] for text in (*step["accepted"], step["bonus"]) if text]
            assert texts == list(whole[: len(texts)])
            assert row["cut"] == (len(texts) < len(whole))


def test_strip_counts_are_those_of_the_walk(data: dict[str, Any], folder: Path) -> None:
    strip = data["strips"][0]
    trace = read_trace(folder / "ngram.parquet")
    one = walk(trace.take([trace.request_ids.index(strip["request_id"])]), 4)
    row = next(row for row in strip["drafters"] if row["drafter"] == "ngram")
    assert f"{one.accepted} of {one.proposed} drafts accepted" in row["summary"]
    assert f"{one.emitted} tokens in {one.steps} steps" in row["summary"]


def test_roofline_points_lie_under_the_roof(measured: dict[str, Any]) -> None:
    roof = measured["roof"]
    for record in measured["passes"]:
        limit = min(roof["peak_macs_per_s"], roof["peak_bandwidth_bytes_per_s"] * record["macs_per_byte"])
        assert 0 < record["macs_per_s"] <= limit * (1 + 1e-9), record["label"]
    widths = [record["width"] for record in measured["passes"] if record["pass"] == "verify"]
    assert widths == list(range(2, 10))
    assert roof["ridge_macs_per_byte"] == roof["peak_macs_per_s"] / roof["peak_bandwidth_bytes_per_s"]


def test_verify_curves_start_at_one_inside_their_range(data: dict[str, Any]) -> None:
    for part in data["verify"]:
        for record in part["records"]:
            low, high = record["verify_cost_ratio_low"], record["verify_cost_ratio_high"]
            assert low <= record["verify_cost_ratio"] <= high
            if record["width"] == 1:
                assert record["verify_cost_ratio"] == low == high == 1


def test_published_block_uses_its_own_acceptance(data: dict[str, Any]) -> None:
    lines = [line for line in data["comparison"] if line["target"] == "gemma_3n_e2b"]
    assert {line["block"] for line in lines} == {"published"}
    heads = [line for line in lines if line["drafter"] == "frozen_mtp_nano"]
    assert heads and all(line["acceptance_kind"] == "assumed" for line in heads)
    for line in lines:
        if line["acceptance"] is None and line["drafter"] != "none":
            assert line["devices"]["pixel_9"]["decode_tokens_per_s"] is None


def test_answer_names_device_target_reason_and_kind(data: dict[str, Any]) -> None:
    first = data["answers"][0]["text"]
    for words in ("Pixel 9", "SmolLM2-135M", "plain", "tokens for the time of", "Acceptance is measured"):
        assert words in first
    names = ("the frozen MTP head", "the best standalone drafter", "Plain decoding")
    order = [first.index(words) for words in names]
    assert order == sorted(order) and first.startswith("On Pixel 9, the frozen MTP head")


def test_sources_and_assumptions_are_spelled_out(data: dict[str, Any]) -> None:
    assert {"draftscope_traces", "google_frozen_mtp"} <= {row["key"] for row in data["sources"]}
    assert all(row["title"] for row in data["sources"])
    assert not any("{" in row["title"] or "\\" in row["title"] for row in data["sources"])
    assert data["assumptions"]
    for row in data["assumptions"]:
        assert row["note"], row["key"]
        assert (row["low"] and row["high"]) or row["value"] in ("yes", "no"), row["key"]
    assert source_records(["nobody_knows"])[0]["title"] == ""


def test_without_traces_only_costs_are_told(tmp_path: Path) -> None:
    trace = write_sample_traces(tmp_path, requests_per_task=2) / "ngram.parquet"
    (tmp_path / TARGET / "responses.parquet").unlink()
    found = report_data(
        devices=["pixel_10"],
        targets=[TARGET],
        draft_lengths=[2],
        traces=trace,
        tasks=["code"],
        max_overlap=None,
    )
    assert found["strips"] == [], "no texts, no strip"
    assert [part["task"] for part in found["acceptance"]] == ["code"]
    heads = [line for line in found["comparison"] if line["drafter"] == "smollm2_mtp_head"]
    assert heads[0]["devices"]["pixel_10"]["speedup"] is None or heads[0]["acceptance"]


def test_profiles_may_be_files(folder: Path, tmp_path: Path, repo_root: Path) -> None:
    source = repo_root / "hw_profiles" / "runtimes" / "litert_lm_tpu.toml"
    mine = tmp_path / "my_runtime.toml"
    mine.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    found = report_data(
        devices=["pixel_9"], targets=[TARGET], runtime=str(mine), draft_lengths=[3], tasks=["code"],
        traces=folder / "mtp_head.parquet",
    )  # fmt: skip
    assert found["devices"][0]["runtime"] == "my_runtime"
    assert "my_runtime" in {record["runtime"] for record in found["verify"][0]["records"]}


def test_published_curves_that_are_alike_are_one_line(data: dict[str, Any]) -> None:
    section = next(section for section in data["sections"] if section["target"] == "gemma_3n_e2b")
    (curve,) = section["speedup"]
    assert {record["task"] for record in curve["records"]} == {"all"}
    assert "× at K = 3" in curve["reading"]


def test_comparison_and_figures_name_the_head_first_and_plain_last(data: dict[str, Any]) -> None:
    lines = [line["drafter"] for line in data["comparison"] if line["target"] == TARGET]
    assert lines[0] == "smollm2_mtp_head" and lines[-1] == "none"
    section = next(part for part in data["sections"] if part["target"] == TARGET)
    for name in ("speed", "energy", "ram", "bytes"):
        drafters = [record["drafter"] for record in section[name]]
        assert drafters[0] == "smollm2_mtp_head" and drafters[-1] == "none", name


@pytest.mark.parametrize(("low", "doubt"), [(0.88, True), (0.994, True), (0.996, False), (1.2, False)])
def test_caption_says_the_range_in_words(low: float, doubt: bool) -> None:
    head = {
        "drafter": "mtp_head",
        "label": "Frozen MTP head",
        "best": True,
        "speedup": 1.1,
        "draft_length": 1,
    }
    rival = {"drafter": "ngram", "label": "Prompt look-up (n-gram)", "best": True, "speedup": 1.6,
             "draft_length": 8, "speedup_low": low, "speedup_high": 1.75}  # fmt: skip
    text = readings.speedup_reading([head, rival])
    assert text.startswith("The frozen MTP head: 1.10× at K = 1. Best: n-gram look-up, 1.60× at K = 8 (")
    assert f"{low:.2f}× to 1.75× over the ranges of the inputs" in text
    assert ("slower than plain decoding" in text) == doubt
    assert "down to" not in text


def test_texts_of_rejected_drafts_come_from_the_file_beside(tmp_path: Path) -> None:
    folder = write_sample_traces(tmp_path, requests_per_task=2) / "mtp_head.parquet"
    trace, responses = read_trace(folder), read_responses(folder.with_name("responses.parquet"))
    bare = replace(responses, tokens=tuple(tokens + 100_000 for tokens in responses.tokens))

    def rejected(**more: Any) -> list[str | int]:
        strips = strip_records([trace], bare, tasks=["code", "chat"], max_overlap=None, **more)
        return [text for strip in strips for row in strip["drafters"] for step in row["steps"]
                for text in step["rejected"]]  # fmt: skip

    unknown = rejected()
    assert unknown and all(isinstance(token, int) for token in unknown)
    named = rejected(texts={token: f"<{token}>" for token in unknown})
    assert named == [f"<{token}>" for token in unknown]


def test_token_texts_are_read_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "token_texts.json"
    path.write_text('{"target": "smollm2_135m", "texts": {"7": " the"}}', encoding="utf-8")
    assert read_token_texts(path, target_id="smollm2_135m") == {7: " the"}
    assert read_token_texts(path, target_id="other") == {}
    for wrong in ("", "[]", '{"target": "a"}', '{"target": "a", "texts": {"x": "y"}}'):
        path.write_text(wrong, encoding="utf-8")
        with pytest.raises(DraftscopeError, match=r"token_texts\.json: not a file of token texts"):
            read_token_texts(path, target_id="smollm2_135m")


def test_report_takes_the_file_of_token_texts_beside_the_traces(tmp_path: Path) -> None:
    folder = write_sample_traces(tmp_path, requests_per_task=2)
    given = [folder / "mtp_head.parquet"]
    assert strips_of([read_trace(given[0])], given, None, tasks=["code"], max_overlap=None)
    (folder / "token_texts.json").write_text("no", encoding="utf-8")
    with pytest.raises(DraftscopeError, match="token_texts"):
        strips_of([read_trace(given[0])], given, None, tasks=["code"], max_overlap=None)
