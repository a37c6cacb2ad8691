"""vLLM's metrics and MLX's output: by hand, and what is refused."""

from __future__ import annotations

import pytest

from simulator.adapters.observations import read_observations
from tests.adapter_samples import changed, cut, read, refused


def test_counters_of_speculative_decoding():
    found = read("vllm_metrics_spec.prom")
    assert (found.runtime, found.model) == ("vLLM", "Qwen/Qwen3-8B")
    (run,) = found.runs
    assert (run.draft_length, run.steps, run.drafted_tokens, run.accepted_tokens) == (3, 161, 483, 189)
    # 360 generated, of which prefill gave one for each of 10 requests
    assert (run.output_tokens, run.decode_s) == (350, 4.2)
    assert run.per_position_acceptance_rate == pytest.approx((104 / 161, 57 / 161, 28 / 161))
    assert not found.passes
    assert found.prefills[0].tokens == 120
    assert found.prefills[0].seconds == pytest.approx(0.24)


def test_plain_decoding():
    (plain,) = read("vllm_metrics.prom").passes
    assert (plain.width, plain.passes) == (1, 350)
    assert plain.seconds == pytest.approx(7.0 / 350)
    assert plain.context == 120 + 34 / 2


def test_prefix_cache_hides_prefill(tmp_path):
    path = changed(
        tmp_path, "vllm_metrics.prom", ("# HELP", 'vllm:prefix_cache_hits_total{engine="0"} 64.0\n# HELP')
    )
    found = read_observations(path)
    assert not found.prefills
    assert any("prefix cache" in reason for reason in found.ignored)


@pytest.mark.parametrize(
    ("name", "old", "new", "parts"),
    [
        (
            "vllm_metrics_spec.prom",
            "} 161.0",
            "} NaN",
            (":14", "'vllm:spec_decode_num_drafts_total'", "'NaN'"),
        ),
        ("vllm_metrics_spec.prom", "} 161.0", "} -161.0", (":14", "'-161.0'", ">= 0")),
        ("vllm_metrics_spec.prom", "} 189.0", "} 190.0", ("accepted_tokens_per_pos_total", "189", "190")),
        ("vllm_metrics_spec.prom", 'position="1"', 'position="one"', ("'position'", "'one'")),
        ("vllm_metrics_spec.prom", 'position="1"', 'position="5"', ("'position': 1 is missing",)),
        (
            "vllm_metrics_spec.prom",
            "} 483.0",
            "} 183.0",
            ("accepted_tokens_total", "at most draft_tokens, 183"),
        ),
        ("vllm_metrics_spec.prom", "} 483.0", "} 983.0", ("draft_tokens_total", "drafts x positions, 483")),
        ("vllm_metrics.prom", 'le="0.3"} 8.0', 'le="0.3"} 18.0', ("_bucket", "at least 18")),
        ("vllm_metrics.prom", 'le="0.3"', 'le="big"', ("label 'le'",)),
        ("vllm_metrics.prom", "_count", "_coun", ("'_sum' and '_count'",)),
        ("vllm_metrics.prom", "Qwen/Qwen3-8B", "Qwen/Qwen3-4B", ("'model_name'", "one model a file")),
        ("vllm_metrics.prom", '{engine="0"', "{engine=0", (":3", "labels")),
    ],
)
def test_damaged_vllm(tmp_path, name, old, new, parts):
    refused(changed(tmp_path, name, (old, new)), *parts)


def test_truncated_vllm(tmp_path):
    refused(cut(tmp_path, "vllm_metrics.prom", 'vllm:request_decode_time_seconds_sum{engine="0"'), "_sum")
    path = cut(tmp_path, "vllm_metrics.prom", " 7.0")
    refused(path, "truncated")


def test_mlx_benchmark():
    found = read("mlx_benchmark.txt")
    assert found.model == "./mlx-community/Qwen3.5-4B-MLX-4bit"
    (plain,) = found.passes
    # 64 tokens, 63 passes after the first, contexts 1024..1086
    rates = (38.757, 38.150, 39.020, 39.020, 39.119)
    assert plain.seconds == pytest.approx(sum(64 / rate / 63 for rate in rates) / 5)
    assert (plain.passes, plain.context) == (63 * 5, 1024 + 31)
    assert plain.stderr_s == pytest.approx(1.2016e-4, rel=1e-3)
    assert found.prefills[0].tokens == 1024


def test_mlx_batch_is_a_width(tmp_path):
    path = changed(tmp_path, "mlx_benchmark.txt", ("batch_size=1", "batch_size=4"))
    found = read_observations(path)
    assert (found.passes[0].width, found.passes[0].passes) == (4, 64 * 5)
    assert not found.prefills


def test_mlx_generate(tmp_path):
    (plain,) = read("mlx_generate.txt").passes
    assert (plain.passes, plain.context) == (100, 39 + 99 / 2)
    assert plain.seconds == pytest.approx(101 / 25.25 / 100)
    path = changed(tmp_path, "mlx_generate.txt", ("Peak", "Draft acceptance: 60/90 (66.7%)\nPeak"))
    found = read_observations(path)
    assert not found.passes
    assert (found.runs[0].accepted_tokens, found.runs[0].drafted_tokens) == (60, 90)


@pytest.mark.parametrize(
    ("name", "old", "new", "parts"),
    [
        ("mlx_benchmark.txt", "generation_tps=38.757", "generation_tps=nan", (":4: field 'generation_tps'",)),
        (
            "mlx_benchmark.txt",
            "generation_tps=38.757",
            "generation_tps=-3",
            (":4: field 'generation_tps'", "> 0"),
        ),
        (
            "mlx_benchmark.txt",
            "generation_tps=38.813",
            "generation_tps=3.88",
            (":9: field", "mean of the trials"),
        ),
        (
            "mlx_benchmark.txt",
            "generation_tokens=64",
            "generation_tokens=six",
            (":3: field 'generation_tokens'",),
        ),
        ("mlx_benchmark.txt", "Timing with", "With", (":4", "'Timing with prompt_tokens=...' is missing")),
        ("mlx_generate.txt", "25.250 tokens-per-sec", "25.250 ms", (":5: field 'Generation'", "'ms'")),
        ("mlx_generate.txt", "Prompt: 39", "Text: 39", (":5", "missing before 'Generation'")),
        ("mlx_generate.txt", "Generation: 101", "Generation: 0", (":5: field 'Generation'", ">= 1")),
        ("mlx_generate.txt", "Peak", "Draft acceptance: 95/90 (1%)\nPeak", (":6: accepted_tokens", "90")),
    ],
)
def test_damaged_mlx(tmp_path, name, old, new, parts):
    refused(changed(tmp_path, name, (old, new)), *parts)


def test_truncated_mlx(tmp_path):
    refused(cut(tmp_path, "mlx_benchmark.txt", "Averages"), "'Averages' are missing")
    refused(cut(tmp_path, "mlx_generate.txt", "Generation"), ":4: 'Generation' is missing")


def test_two_mlx_models(tmp_path):
    path = changed(tmp_path, "mlx_benchmark.txt", ("Running", "$ mlx_lm.benchmark --model other\nRunning"))
    refused(path, "split the file")
