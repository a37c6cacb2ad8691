"""Samples of other tools' files, and damaged copies of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator.adapters.observations import MeasurementError, read_observations

SAMPLES = Path(__file__).parent / "samples"
FORMAT_OF = {
    "generic.csv": "generic_csv",
    "litert_lm_command.txt": "litert_lm",
    "litert_lm_info.log": "litert_lm",
    "litert_lm_metrics.pb": "litert_lm",
    "litert_lm_metrics.pb.txt": "litert_lm",
    "litert_lm_mtp.log": "litert_lm",
    "llama_batched_bench.jsonl": "llama_server",
    "llama_batched_bench.md": "llama_server",
    "llama_bench.csv": "llama_bench",
    "llama_bench.json": "llama_bench",
    "llama_bench.md": "llama_bench",
    "llama_bench_widths.jsonl": "llama_bench",
    "llama_cli.log": "llama_server",
    "llama_server.log": "llama_server",
    "llama_server_steps.log": "llama_server",
    "llama_server_timings.jsonl": "llama_server",
    "llama_speculative.log": "llama_server",
    "mlx_benchmark.txt": "mlx",
    "mlx_generate.txt": "mlx",
    "vllm_metrics.prom": "vllm_metrics",
    "vllm_metrics_spec.prom": "vllm_metrics",
}
"""Sample -> its format; ``steps.csv`` has none, it is for step traces."""


def read(name):
    return read_observations(SAMPLES / name)


def changed(folder, name, *replacements):
    """A copy of a sample with texts replaced, each of which must stand in it; only the first is."""
    text = (SAMPLES / name).read_text(encoding="utf-8")
    for old, new in replacements:
        assert old in text, old
        text = text.replace(old, new, 1)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def cut(folder, name, marker):
    """A copy of a sample that ends before a text."""
    text = (SAMPLES / name).read_text(encoding="utf-8")
    assert marker in text
    path = folder / name
    path.write_text(text[: text.index(marker)], encoding="utf-8")
    return path


def refused(path, *parts, format=None):
    """Reading must fail with one line that has all parts."""
    with pytest.raises(MeasurementError) as caught:
        read_observations(path, format)
    message = str(caught.value)
    assert "\n" not in message
    for part in (str(path), *parts):
        assert part in message, message
