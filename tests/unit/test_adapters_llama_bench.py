"""llama-bench: all four formats by hand, and what is refused."""

from __future__ import annotations

import json

import pytest

from tests.adapter_samples import SAMPLES, changed, cut, read, refused


def test_json():
    found = read("llama_bench.json")
    assert (found.format, found.device) == ("llama_bench", "NVIDIA GeForce RTX 4080")
    assert (found.runtime, found.model) == ("llama.cpp 8cf427ff CUDA", "qwen2 7B Q4_K - Medium")
    assert found.weight_bytes == 4_677_120_000
    (prefill,) = found.prefills
    assert (prefill.tokens, prefill.seconds, prefill.context) == (512, pytest.approx(0.07213564), 0)
    assert prefill.stderr_s == pytest.approx(1453752e-9 / 5**0.5)
    assert prefill.where.endswith("llama_bench.json:2")
    (plain,) = found.passes
    # 128 passes over contexts 0..127, five times
    assert (plain.width, plain.context, plain.passes) == (1, 63.5, 640)
    assert plain.seconds == pytest.approx(1.07676788 / 128)
    assert plain.stderr_s == pytest.approx(9449585e-9 / 5**0.5 / 128)


def test_csv_does_not_say_repetitions():
    found = read("llama_bench.csv")
    (plain,) = found.passes
    assert plain.passes == 128
    assert plain.stderr_s == pytest.approx(3834831e-9 / 128), "deviation of one repetition, not divided"
    assert found.prefills[0].seconds == pytest.approx(0.07028566)


def test_markdown():
    found = read("llama_bench.md")
    assert found.weight_bytes == pytest.approx(4.36 * 2**30)
    assert found.runtime == "llama.cpp 8cf427ff CUDA"
    assert [(one.width, one.context) for one in found.passes] == [(4, 0), (1, 63.5), (1, 512 + 63.5)]
    assert found.passes[0].seconds == pytest.approx(4 / 448.43)
    assert found.passes[0].stderr_s == pytest.approx(4 / 448.43 * 2.10 / 448.43)
    assert found.passes[1].seconds == pytest.approx(1 / 120.60)
    assert [(one.tokens, one.context) for one in found.prefills] == [(512, 0), (512, 512)]


def test_widths_depths_and_mixed_tests():
    found = read("llama_bench_widths.jsonl")
    assert [(one.width, one.context) for one in found.passes] == [
        (1, 0), (4, 0), (4, 4096), (16, 0), (1, 4096 + 31.5),
    ]  # fmt: skip
    assert found.passes[1].seconds == pytest.approx(8.91e-3)
    assert [one.tokens for one in found.prefills] == [32]
    (left_out,) = found.ignored
    assert "llama_bench_widths.jsonl:7" in left_out


def test_a_width_beyond_the_batch_is_several_passes(tmp_path):
    rows = [json.loads(line) for line in (SAMPLES / "llama_bench_widths.jsonl").read_text().splitlines()]
    for row in rows:
        row["n_ubatch"] = 8
    path = tmp_path / "bench.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    from simulator.adapters.observations import read_observations

    found = read_observations(path)
    assert 16 not in [one.width for one in found.passes]
    assert any("16 tokens in batches of 8" in reason for reason in found.ignored)


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ('"avg_ns": 72135640', '"avg_ns": NaN', (":23", "NaN")),
        ('"avg_ns": 72135640', '"avg_ns": -72135640', (":23: field 'avg_ns'", "-72135640", "> 0")),
        ('"avg_ns": 72135640', '"avg_ns": "fast"', (":23: field 'avg_ns'", "'fast'")),
        ('"avg_ns": 72135640,', "", ("field 'avg_ns' is missing", "nearest given: 'avg_ts'")),
        ('"avg_ns": 72135640', '"avg_ns": 72135.640', (":23: field 'avg_ns'", "mean of samples_ns")),
        ('"avg_ts": 7100.002165', '"avg_ts": 7.100002165', (":25: field 'avg_ts'", "another unit")),
        ('"n_prompt": 512', '"n_prompt": 51.5', (":19: field 'n_prompt'", "whole number")),
        ('"n_prompt": 512', '"n_prompt": 0', (":19: field 'n_prompt'", "nothing was measured")),
        ("qwen2 7B Q4_K - Medium", "llama 8B Q4_0", (":37: field 'model_type'", "one model", "split it")),
        ('"n_threads": 8', '"n_threads": 4', (":42: field 'n_threads'", "one setting")),
        ('"stddev_ns": 1453752', '"stddev_ns": -1', ("field 'stddev_ns'", ">= 0")),
        ("[ 74601900", "[ -74601900", ("field 'samples_ns'", "> 0")),
        ("7100.002165", "1e999999", ("field 'avg_ts'", "inf")),
    ],
)
def test_damaged_json(tmp_path, old, new, parts):
    refused(changed(tmp_path, "llama_bench.json", (old, new)), *parts)


def test_truncated_json(tmp_path):
    refused(cut(tmp_path, "llama_bench.json", '"samples_ts": [ 119.03'), "not JSON")
    refused(cut(tmp_path, "llama_bench.json", "\n]\n"), ":57", "does not end")


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ('"1067431600"', '"nan"', (":3: field 'avg_ns'", "'nan'")),
        (
            '"7285.676949","100.064434"',
            '"7285.676949"',
            (":2: 41 fields given, the header has 42", "truncated"),
        ),
        ('"119.915244"', '"119915.244"', (":3: field 'avg_ts'", "another unit")),
        ('"NVIDIA GeForce RTX 4080","CUDA"', '"NVIDIA GeForce RTX 4090","CUDA"', ("gpu_info", "split it")),
        ('"119.915244"', '"119.915244', (":3", "not CSV")),
    ],
)
def test_damaged_csv(tmp_path, old, new, parts):
    refused(changed(tmp_path, "llama_bench.csv", (old, new)), *parts)


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        (
            "tg128 |        120.60 ± 0.59 |",
            "tg128 |        120.60",
            (":5: 6 fields given, the header has 7",),
        ),
        ("tg128", "xx128", (":5: field 'test'", "'xx128'", "pp512")),
        ("120.60 ± 0.59", "120.60 ms", (":5: field 't/s'", "120.60 ms", "tokens/s")),
        ("120.60 ± 0.59", "nan ± nan", (":5: field 't/s'", "'nan'")),
        ("120.60 ± 0.59", "-120.60 ± 0.59", (":5: field 't/s'", "> 0")),
        ("4.36 GiB", "4.36 GB", ("field 'size'", "4.36 GB")),
        ("pp4 |", "pp0 |", (":3: field 'test'", "at least one token")),
    ],
)
def test_damaged_markdown(tmp_path, old, new, parts):
    refused(changed(tmp_path, "llama_bench.md", (old, new)), *parts)
