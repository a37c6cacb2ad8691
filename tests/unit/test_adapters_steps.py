"""``trace import``: logs of steps become step traces without an off-by-one; totals are refused."""

from __future__ import annotations

import json

import pytest

from simulator.acceptance.statistics import statistics_of
from simulator.acceptance.steps import read_step_trace
from simulator.adapters.observations import MeasurementError
from simulator.adapters.step_logs import DRAFT_PASSES, read_step_log
from simulator.cli.app import run
from simulator.errors import UnknownNameError
from tests.adapter_samples import FORMAT_OF, SAMPLES, changed, cut

LOG = "llama_server_steps.log"


def imported(path, **options):
    return read_step_log(path, target_id="t", drafter_id="d", **options)


def refused(path, *parts):
    with pytest.raises(MeasurementError) as caught:
        imported(path)
    message = str(caught.value)
    assert "\n" not in message
    assert all(part in message for part in (str(path), *parts)), message


def test_log_of_the_server():
    trace = imported(SAMPLES / LOG)
    columns = {name: values.tolist() for name, values in trace.columns.items()}
    # Two interleaved requests. Task 0: prompt of 17; contexts 21 and 22 have no line, they are plain steps.
    # 13 tokens, the first from prefill: 12 of the 13 of the steps, so the last step ends one early.
    assert columns["request_id"] == ["0"] * 6 + ["5"] * 2
    assert columns["context"] == [17, 20, 21, 22, 23, 27, 100, 102]
    assert columns["proposed"] == [3, 3, 0, 0, 3, 3, 1, 0]
    assert columns["accepted"] == [2, 0, 0, 0, 3, 2, 1, 0]
    assert columns["emitted"] == [3, 1, 1, 1, 4, 2, 2, 1]
    assert columns["verify_width"] == [4, 4, 1, 1, 4, 4, 2, 1]
    assert columns["draft_passes"] == [3, 3, 0, 0, 3, 3, 1, 0]
    assert (trace.target_id, trace.drafter_id, trace.origin) == ("t", "d", "llama.cpp server log")
    statistics = statistics_of(trace.table())
    assert statistics.emitted == 12 + 3
    assert statistics.mean_acceptance_length == 1 + 8 / 8
    assert statistics.partial_steps == 1


@pytest.mark.parametrize(
    ("passes", "expected"), [("chain", [3, 0, 1]), ("one", [1, 0, 1]), ("none", [0, 0, 0])]
)
def test_draft_passes(passes, expected):
    columns = imported(SAMPLES / LOG, draft_passes=passes).columns
    assert [int(columns["draft_passes"][at]) for at in (0, 2, 6)] == expected
    assert set(DRAFT_PASSES) == {"chain", "one", "none"}
    with pytest.raises(UnknownNameError, match="Did you mean 'chain'"):
        imported(SAMPLES / LOG, draft_passes="chian")


def test_a_draft_verified_twice_counts_once(tmp_path):
    """A target with recurrent state verifies a rejected draft again, cut to what it accepted: 2/2 was 2/3."""
    path = changed(
        tmp_path,
        LOG,
        (
            "D slot update_slots: id  3 | task 0 | accepted 2/3 draft tokens, new n_tokens = 20",
            "I slot update_slots: id  3 | task 0 | accepted  2/ 3 draft tokens (restore checkpoint)\n"
            "D slot update_slots: id  3 | task 0 | restoring speculative checkpoint (pos_min = 16)\n"
            "D slot update_slots: id  3 | task 0 | accepted 2/2 draft tokens, new n_tokens = 20",
        ),
    )
    assert imported(path).columns["proposed"].tolist() == [3, 3, 0, 0, 3, 3, 1, 0]
    text = path.read_text().replace("accepted  2/ 3 draft tokens (restore checkpoint)", "other")
    path.write_text(text)
    refused(path, ":4", "LLAMA_TRACE=1")


def test_lines_without_n_tokens_do_not_count_a_step_twice(tmp_path):
    path = changed(
        tmp_path,
        LOG,
        (
            "0.01.200.001 D",
            "0.01.200.000 I slot update_slots: id  3 | task 0 | accepted  2/ 3 draft tokens\n0.01.200.001 D",
        ),
    )
    assert len(imported(path)) == 8


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("accepted 0/3 draft tokens, new n_tokens = 21", "accepted 0/3 draft tokens, new n_tokens = 20",
         (":4: field 'new n_tokens'", "given 20, allowed: at least 21")),
        ("accepted 3/3 draft", "accepted 4/3 draft", (":7: field 'accepted'", "given 4, allowed: 0..3")),
        ("500.00 ms /    13", "500.00 ms /    3", (":8", "lines are missing or counted twice")),
        ("(    7 accepted /    12", "(    7 accepted /    15", (":11: field 'draft acceptance'", "7 of 12")),
        ("id  3 | task 0 | accepted 0/3", "accepted 0/3", (":4", "'id N | task N |' is missing")),
        ("task 0 | new prompt", "task 0 | prompt", (":3", "'new prompt, ... task.n_tokens = N'")),
        ("new n_tokens = 27", "new n_tokens = 9999999", (":7", "steps without a line", "at most 1000000")),
    ],
)  # fmt: skip
def test_damaged_log(tmp_path, old, new, parts):
    refused(changed(tmp_path, LOG, (old, new)), *parts)


def test_a_huge_draft_in_a_log(tmp_path):
    changes = [
        ("accepted 0/3 draft", "accepted 0/999999999 draft"),
        ("accepted /    12", "accepted / 1000000008"),
    ]
    refused(changed(tmp_path, LOG, *changes), ":4: field 'proposed'", "given 999999999", "<= 1024")


def test_truncated_log(tmp_path):
    refused(cut(tmp_path, LOG, "0.01.700.001"), ":8", "'eval time' of task 0 is missing")


def test_table(tmp_path):
    trace = imported(SAMPLES / "steps.csv")
    assert trace.columns["request_id"].tolist() == ["a", "a", "b", "b"]
    assert trace.columns["task"].tolist() == ["code", "code", "chat", "chat"]
    assert trace.columns["emitted"].tolist() == [3, 5, 1, 1]
    assert trace.columns["draft_passes"].tolist() == [4, 4, 2, 0]
    rows = [
        {"request_id": 7, "context": 10, "proposed": 4, "accepted": 2, "verify_width": 8},
        {"request_id": 7, "context": 13, "proposed": 4, "accepted": 4, "emitted": 4},
    ]
    path = tmp_path / "steps.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    trace = imported(path, task="code")
    assert trace.columns["task"].tolist() == ["code", "code"]
    assert trace.columns["verify_width"].tolist() == [8, 5]
    assert trace.columns["emitted"].tolist() == [3, 4]


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("a,code,13", "a,code,12", (":3: field 'context'", "given 12, allowed: 13", "bonus token")),
        (
            "a,code,13",
            "a,code,15",
            (":3: field 'context'", "given 15, allowed: 13, the context before it + 3"),
        ),
        ("10,4,2", "10,4,5", (":2: field 'accepted'", "given 5, allowed: 0..4")),
        ("10,4,2", "10,4,1.5", (":2: field 'accepted'", "'1.5'", "whole number")),
        ("10,4,2", "10,4,-1", (":2: field 'accepted'", ">= 0")),
        ("10,4,2", "10,4,nan", (":2: field 'accepted'", "'nan'")),
        ("10,4,2", "10,1025,2", (":2: field 'proposed'", "'1025'", "whole number >= 0 and <= 1024")),
        ("10,4,2", "10,2000000000,2", (":2: field 'proposed'", "'2000000000'", "<= 1024")),
        ("a,code,10", "a,code,10000001", (":2: field 'context'", "'10000001'", "<= 10000000")),
        ("a,code,10", "a,code,9223372036854775807", (":2: field 'context'", "'9223372036854775807'")),
        ("a,code,10", "a,code,99999999999999999999", (":2: field 'context'", "'99999999999999999999'")),
        ("b,chat,21,0,0,0", "b,chat,21,0,0,2000000000", (":5: field 'draft_passes'", "<= 1024")),
        ("b,chat,21,0,0,0", "b,chat,21,0", (":5: 4 fields given, the header has 6", "truncated")),
        ("draft_passes", "drafter_passes", (":2: field 'drafter_passes' is not known", "'draft_passes'")),
        ("draft_passes", "accepted", (":1: column 'accepted'", "given 2 times, allowed: once")),
        ("request_id", "task_id", ("field 'task_id' is not known",)),
        (",context", ",verify_width", ("field 'context' is missing",)),
    ],
)
def test_damaged_table(tmp_path, old, new, parts):
    refused(changed(tmp_path, "steps.csv", (old, new)), *parts)


@pytest.mark.parametrize("name", [name for name in FORMAT_OF if name != LOG])
def test_totals_and_averages_are_refused(name):
    refused(SAMPLES / name, FORMAT_OF[name], "totals, no steps", "accepted and proposed of every step")


def test_averages_of_a_log_are_refused(tmp_path):
    path = tmp_path / "vllm.log"
    path.write_text(
        "INFO SpecDecoding metrics: Mean acceptance length: 2.17, Accepted throughput: 18.90 tokens/s, "
        "Drafted throughput: 48.30 tokens/s, Accepted: 189 tokens, Drafted: 483 tokens, Per-position "
        "acceptance rate: 0.646, 0.354, 0.174, Avg Draft acceptance rate: 39.1%\n"
    )
    refused(path, "is not a log of steps", "averages do not say how they are spread")


def test_command(tmp_path, capsys):
    out = tmp_path / "steps.parquet"
    command = [
        "trace",
        "import",
        str(SAMPLES / LOG),
        "--target",
        "qwen",
        "--drafter",
        "mtp",
        "--out",
        str(out),
    ]
    assert run([*command, "-o", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["requests"], row["steps"], row["proposed"], row["accepted"], row["emitted"]) == (
        2,
        8,
        13,
        8,
        15,
    )
    back = read_step_trace(out)
    assert (back.target_id, back.drafter_id, len(back)) == ("qwen", "mtp", 8)
    assert run(command) == 0
    assert "| mean_acceptance_length       |" in capsys.readouterr().out


def test_command_refuses(tmp_path, capsys):
    out = tmp_path / "steps.parquet"
    command = ["trace", "import", "--target", "qwen", "--drafter", "mtp"]
    assert run([*command, str(SAMPLES / "vllm_metrics_spec.prom"), "--out", str(out)]) == 2
    assert "totals, no steps" in capsys.readouterr().err
    assert not out.exists()
    assert run([*command, str(SAMPLES / LOG), "--out", str(tmp_path)]) == 2
    assert "is a folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing/x.parquet", "there is no folder"),
        ("x.csv", "allowed: a file ending in .parquet"),
        ("x", "allowed: a file ending in .parquet"),
    ],
)
def test_command_refuses_where_to_write(tmp_path, capsys, name, words):
    out = tmp_path / name
    command = ["trace", "import", str(SAMPLES / LOG), "--target", "qwen", "--drafter", "mtp"]
    assert run([*command, "--out", str(out)]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1 and words in message and str(out) in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--target", "--drafter", "--task"])
@pytest.mark.parametrize("empty", ["", "  "])
def test_command_refuses_an_empty_name(tmp_path, capsys, option, empty):
    given = {"--target": "qwen", "--drafter": "mtp", "--task": "code", option: empty}
    out = tmp_path / "steps.parquet"
    words = [word for pair in given.items() for word in pair]
    assert run(["trace", "import", str(SAMPLES / LOG), *words, "--out", str(out)]) == 2
    assert f"{option}: {empty!r} given; allowed: a name" in capsys.readouterr().err
    assert not out.exists()
