"""llama.cpp's server, programs and batched bench: by hand, and what is refused."""

from __future__ import annotations

import pytest

from simulator.adapters.observations import read_observations
from tests.adapter_samples import changed, cut, read, refused


def test_timings_of_responses():
    found = read("llama_server_timings.jsonl")
    assert (found.model, found.runtime) == ("qwen3.6-27b-code", "llama.cpp")
    (plain,) = found.passes
    # 201 tokens, the first from prefill: 200 passes at contexts 256..455
    assert (plain.width, plain.passes, plain.context) == (1, 200, 256 + 199 / 2)
    assert plain.seconds == pytest.approx(12.0 / 200)
    assert [(one.tokens, one.context) for one in found.prefills] == [(256, 0), (4, 6151)]
    (run,) = found.runs
    assert (run.drafted_tokens, run.accepted_tokens, run.output_tokens) == (165, 147, 243)
    assert run.steps == 243 - 147
    assert run.decode_s == pytest.approx(8.121839)
    assert run.baseline_tokens_per_s == pytest.approx(200 / 12.0)
    assert run.where.endswith("llama_server_timings.jsonl:2")


def test_stream_of_a_response(tmp_path):
    path = tmp_path / "stream.txt"
    path.write_text(
        'data: {"choices":[{"delta":{"content":"Hi"}}],"model":"m"}\n\n'
        'data: {"choices":[],"model":"m","timings":{"prompt_n":17,"prompt_ms":98.626,"predicted_n":4,'
        '"predicted_ms":57.514}}\n\ndata: [DONE]\n'
    )
    found = read_observations(path)
    assert found.passes[0].passes == 3
    assert found.passes[0].where.endswith(":3")


def test_log_with_statistics_of_two_drafters():
    found = read("llama_server.log")
    assert found.model == "Qwen3.8 27B"
    assert found.weight_bytes == pytest.approx(15.93 * 2**30)
    first, second = found.runs
    assert (first.drafter, first.steps) == ("ngram-mod + draft-mtp", 884)
    assert (first.drafted_tokens, first.accepted_tokens, first.output_tokens) == (5420, 2235, 3114)
    assert first.draft_s == pytest.approx((1.631 + 70964.224) / 1e3)
    # the counters run on: 20 calls, 60 drafts and 1.6 s belong to the second request
    assert (second.drafter, second.steps) == ("draft-mtp", 20)
    assert (second.drafted_tokens, second.accepted_tokens, second.output_tokens) == (60, 30, 49)
    assert second.draft_s == pytest.approx((0.069 + 1600.0) / 1e3)
    # n_tokens 889 = 800 cached + 40 + 50 - 1
    assert [one.context for one in found.prefills] == [0, 800]


def test_statistics_that_contradict_the_server_are_not_used(tmp_path):
    path = changed(tmp_path, "llama_server.log", ("#gen tokens =   5292", "#gen tokens =   9999"))
    found = read_observations(path)
    assert found.runs[0].draft_s is None
    assert found.runs[0].steps == 3114 - 2235
    assert any("statistics count" in reason for reason in found.ignored)


def test_log_without_release_line_and_a_name_for_two_models(tmp_path):
    path = changed(
        tmp_path,
        "llama_server.log",
        ("slot      release", "slot  other"),
        ("print_info: general.name     = Qwen3.8 27B", "general.name = A\ngeneral.name = B"),
    )
    found = read_observations(path)
    assert found.model is None
    assert any("which is the target" in reason for reason in found.ignored)


def test_runs_of_the_command_line_program():
    (plain,) = read("llama_cli.log").passes
    # 898 runs after 14 prompt tokens: contexts 14..911
    assert (plain.passes, plain.context) == (898, 14 + 897 / 2)
    assert plain.seconds == pytest.approx(27.63604 / 898)


def test_summary_of_llama_speculative():
    (run,) = read("llama_speculative.log").runs
    assert (run.draft_length, run.drafted_tokens, run.accepted_tokens) == (5, 730, 526)
    assert (run.output_tokens, run.steps, run.decode_s) == (673, 147, 12.132)


def test_batched_bench():
    found = read("llama_batched_bench.md")
    assert [one.width for one in found.passes] == [1, 2, 4, 8]
    assert found.passes[2].seconds == pytest.approx(6.878 / 128)
    assert found.passes[2].context == 128 + 127 / 2
    assert [one.tokens for one in found.prefills] == [128], "prompts at once are no prefill of one"
    (plain,) = read("llama_batched_bench.jsonl").passes
    assert plain.seconds == pytest.approx(3.503684 / 128)


def test_shared_prompt(tmp_path):
    path = changed(tmp_path, "llama_batched_bench.md", ("is_pp_shared = 0", "is_pp_shared = 1"))
    refused(path, ":6: field 'speed_pp'", "646.465")


@pytest.mark.parametrize(
    ("name", "old", "new", "parts"),
    [
        ("llama_server_timings.jsonl", '"predicted_ms":12000.0', '"predicted_ms":12.0', (":1:", "unit")),
        ("llama_server_timings.jsonl", '"predicted_n":201', '"predicted_n":-1', (":1: field 'predicted_n'",)),
        ("llama_server_timings.jsonl", '"predicted_n":201', '"predicted_n":NaN', (":1: NaN given",)),
        ("llama_server_timings.jsonl", '"draft_n_accepted":147', '"draft_n_accepted":170',
         (":2: field 'draft_n_accepted'", "170", "at most draft_n, 165")),
        ("llama_server_timings.jsonl", ',"draft_n_accepted":147', "", ("'draft_n_accepted' is missing",)),
        ("llama_server_timings.jsonl", "qwen3.6-27b-code", "other", (":2: field 'model'", "split it")),
        ("llama_server.log", "250457.50 ms", "250457.50 s", (":4: field 'eval time'", "'ms'")),
        ("llama_server.log", "=  250457.50", "=  nan", (":4: field 'eval time'", "'nan'")),
        ("llama_server.log", "=  250457.50", "=  -250457.50", (":4: field 'eval time'", ">= 0")),
        ("llama_server.log", "250457.50 ms /  3115", "250457.50 ms /  311", (":4:", "unit")),
        ("llama_server.log", "( 2235 accepted", "( 9235 accepted", (":7: field 'draft acceptance'", "5420")),
        ("llama_server.log", "= 0.41236", "= 0.81236", (":7: field 'draft acceptance'",)),
        ("llama_server.log", "#acc drafts =   716,", "", (":9", "statistics", "truncated")),
        ("llama_speculative.log", "n_accept  = 526\n", "", ("field 'n_accept' is missing",)),
        ("llama_speculative.log", "n_accept  = 526", "n_accept  = 926", ("at most n_drafted, 730",)),
        ("llama_speculative.log", "decoded  673", "coded  673", ("decoded N tokens", "missing")),
        ("llama_batched_bench.md", "6.878", "6878", (":7: field 'speed_tg'", "unit")),
        ("llama_batched_bench.md", "|    74.44 |", "|      nan |", (":7: field 'speed_tg'", "'nan'")),
        ("llama_batched_bench.md", " S_TG t/s |", "", (":3: column 'S_TG t/s' is missing",)),
        ("llama_batched_bench.jsonl", '"t_tg": 3.503684, ', "", (":1: field 't_tg' is missing",)),
    ],
)  # fmt: skip
def test_damaged(tmp_path, name, old, new, parts):
    refused(changed(tmp_path, name, (old, new)), *parts)


def test_truncated(tmp_path):
    refused(cut(tmp_path, "llama_server_timings.jsonl", '"draft_n":165'), "not JSON")
    refused(
        cut(tmp_path, "llama_server.log", "slot print_timing: id  3 | task 900 |        eval"),
        ":11",
        "missing",
    )
    refused(cut(tmp_path, "llama_batched_bench.md", "|   252.99"), ":8: 8 fields", "header has 10")


def test_one_token_is_no_pass(tmp_path):
    path = tmp_path / "one.json"
    path.write_text('{"timings": {"prompt_n": 5, "prompt_ms": 10, "predicted_n": 1, "predicted_ms": 0.001}}')
    found = read_observations(path)
    assert not found.passes
    assert "no pass after prefill" in found.ignored[0]
