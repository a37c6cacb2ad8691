"""``draftscope trace``: summary of shipped or given traces, and the gate for a new head."""

from __future__ import annotations

import json

import numpy as np
import pytest

from simulator.acceptance.summary import summarise
from simulator.acceptance.trace import read_trace, write_trace
from tests.study_samples import DRAFTERS, TASKS, columns_of, sample

QUICK = ("--no-bootstrap",)


def test_summary_has_every_task_and_drafter_with_and_without_filter(draftscope, shipped):
    rows = json.loads(draftscope("trace", "summary", *QUICK, "-o", "json").out)["rows"]
    assert {row["drafter"] for row in rows} == set(DRAFTERS)
    assert {row["task"] for row in rows} == {*TASKS, "all"}
    assert {row["max_overlap"] for row in rows} == {0.2, None}
    assert {row["draft_length"] for row in rows} == set(range(1, 9))
    assert {"conditional_acceptance_rate", "per_position_acceptance_rate", "mean_acceptance_length"} <= set(
        rows[0]
    )


def test_summary_is_that_of_the_traces(draftscope, shipped):
    file = shipped / "mtp_head.parquet"
    rows = json.loads(
        draftscope("trace", "summary", file, *QUICK, "--max-overlap", "none", "-o", "json").out
    )["rows"]
    assert rows == json.loads(json.dumps(summarise(read_trace(file), max_overlap=None)))


def test_markdown_has_lengths_and_positions(draftscope, shipped):
    out = draftscope("trace", "summary", *QUICK, "--drafters", "mtp_head", "--draft-length", "1-4").out
    assert "## mtp_head on smollm2_135m, prompts with overlap <= 0.2" in out
    assert "## mtp_head on smollm2_135m, all prompts" in out
    assert "K=4" in out
    assert "K=5" not in out
    assert "Per position" in out
    assert "Conditional" in out


def test_selections_and_confidence_stop(draftscope, shipped):
    ran = draftscope(
        "trace",
        "summary",
        *QUICK,
        "--drafters",
        "mtp_head",
        "--tasks",
        "code",
        "--min-prob",
        "0.5",
        "-o",
        "json",
    )
    rows = json.loads(ran.out)["rows"]
    assert {row["task"] for row in rows} == {"code", "all"}
    assert all(row["proposed"] < row["steps"] * row["draft_length"] for row in rows)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--drafters", "mtp"), ("--drafters", "'mtp_head'")),
        (("--tasks", "cod"), ("task", "'code'")),
        (("--target", "gemma"), ("target with shipped traces",)),
        (("--draft-length", "9"), ("--draft-length", "depth 8")),
        (("nowhere.parquet",), ("nowhere.parquet", "no such file")),
    ],
    ids=lambda value: " ".join(value),
)
def test_bad_input_is_one_clear_error(draftscope, shipped, arguments, words):
    ran = draftscope("trace", "summary", *arguments)
    assert ran.code == 2
    assert ran.out == ""
    for word in words:
        assert word in ran.err


def test_an_empty_folder_is_said(draftscope, tmp_path):
    assert "holds no .parquet file" in draftscope("trace", "summary", tmp_path).err


def test_nothing_shipped_is_said(draftscope, nothing_shipped):
    ran = draftscope("trace", "summary")
    assert ran.code == 2
    assert "draftscope trace collect" in ran.err


@pytest.fixture
def heads(tmp_path):
    """An old head, and a new one that is never right, on the same text."""
    old = sample("mtp_head")
    data = columns_of(old)
    worse = {**data, "draft_token": np.where(data["draft_token"] >= 0, 99, -1).astype(np.int32)}
    paths = [tmp_path / f"{name}.parquet" for name in ("old", "new")]
    for path, columns in zip(paths, (data, worse), strict=True):
        write_trace(path, columns, old.metadata)
    return paths


def test_diff_is_a_gate(draftscope, heads):
    old, new = heads
    same = draftscope("trace", "diff", old, old)
    assert same.code == 0
    assert "No task went down" in same.out
    down = draftscope("trace", "diff", old, new)
    assert down.code == 1
    assert "do not ship" in down.out
    up = json.loads(draftscope("trace", "diff", new, old, "-o", "json").out)
    assert up["regression"] is False
    assert {row["verdict"] for row in up["rows"]} <= {"up", "same"}


def test_diff_refuses_other_text(draftscope, heads, tmp_path):
    other = tmp_path / "other.parquet"
    trace = sample("mtp_head", requests=8)
    write_trace(other, columns_of(trace), trace.metadata)
    ran = draftscope("trace", "diff", heads[0], other)
    assert ran.code == 2
    assert "stands in one trace only" in ran.err


def test_a_full_disk_leaves_nothing_behind(draftscope, shipped, tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("simulator.files.os.replace", full)
    path = tmp_path / "rows.csv"
    ran = draftscope("trace", "summary", *QUICK, "-o", "csv", "--out", path)
    assert ran.code == 2
    assert "No space left on device" in ran.err
    assert list(tmp_path.iterdir()) == []
