"""Times a Hugging Face model on the CPU with the options and the output of llama-bench.

A foreign runtime for trying `draftscope kit` where no phone is at hand: called `llama-bench` in the folder
BIN of the kit's run.sh, with LOCAL=1, it takes the phone's place. See docs/guides/phone_kit.md. Needs the
extra "reference". Times are wall-clock, or with CLOCK=cpu processor time of one thread, for a busy machine.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, DynamicCache

CLOCK: Callable[[], float] = time.process_time if os.environ.get("CLOCK") == "cpu" else time.perf_counter


def load(path: Path) -> Any:
    """The model of a GGUF file or of a folder, as float32."""
    if path.suffix == ".gguf":
        return AutoModelForCausalLM.from_pretrained(
            path.parent, gguf_file=path.name, dtype=torch.float32
        ).eval()
    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()


def tokens(model: Any, count: int) -> torch.Tensor:
    """Random tokens, as llama-bench takes them."""
    return torch.randint(0, model.config.vocab_size, (1, count))


def prefilled(model: Any, depth: int) -> DynamicCache:
    """A cache of so many tokens."""
    cache = DynamicCache(config=model.config)
    if depth:
        model(tokens(model, depth), cache=cache, logits_to_keep=1)
    return cache


def timed(model: Any, cache: DynamicCache, prompt: int, generated: int, repetitions: int) -> list[float]:
    """Seconds of every repetition: one pass over a prompt, or one pass a generated token."""
    depth, seconds = cache.get_seq_length(), []
    for repetition in range(repetitions + 1):
        rows = [tokens(model, prompt)] if prompt else [tokens(model, 1) for _ in range(generated)]
        start = CLOCK()
        for row in rows:
            model(row, cache=cache, logits_to_keep=1)
        if repetition:  # the first one warms up
            seconds.append(CLOCK() - start)
        cache.crop(depth - cache.get_seq_length())
    return seconds


def main() -> None:
    """Run every test and print one line of JSON each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-m", type=Path, required=True)
    parser.add_argument("-p", default="512")
    parser.add_argument("-n", default="128")
    parser.add_argument("-d", default="0")
    parser.add_argument("-r", type=int, default=5)
    parser.add_argument("-t", type=int, default=torch.get_num_threads())
    parser.add_argument("-ngl", type=int, choices=(0,), default=0)
    parser.add_argument("-o", choices=("jsonl",), default="jsonl")
    given = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(given.t)
    model = load(given.m)
    stored = {id(each): each.numel() for each in model.parameters()}
    about = {
        "build_commit": transformers.__version__, "build_number": 0, "backends": "PyTorch",
        "model_filename": given.m.name, "model_type": f"{model.config.model_type} F32",
        "model_size": 4 * sum(stored.values()), "model_n_params": sum(stored.values()), "n_threads": given.t,
    }  # fmt: skip
    tests = [(int(count), 0) for count in given.p.split(",") if int(count)]
    tests += [(0, int(count)) for count in given.n.split(",") if int(count)]
    with torch.inference_mode():
        for depth in (int(each) for each in given.d.split(",")):
            cache = prefilled(model, depth)
            for prompt, generated in tests:
                when = datetime.now(UTC)
                samples = timed(model, cache, prompt, generated, given.r)
                print(json.dumps({**about, **record(prompt, generated, depth, when, samples)}), flush=True)


def record(prompt: int, generated: int, depth: int, when: datetime, samples: list[float]) -> dict[str, Any]:
    """The fields of one test."""
    rates = [(prompt + generated) / each for each in samples]
    return {
        "n_prompt": prompt, "n_gen": generated, "n_depth": depth, "test_time": f"{when:%Y-%m-%dT%H:%M:%SZ}",
        "avg_ns": round(1e9 * mean(samples)), "stddev_ns": round(1e9 * stdev(samples)) if rates[1:] else 0,
        "avg_ts": mean(rates), "stddev_ts": stdev(rates) if rates[1:] else 0.0,
        "samples_ns": [round(1e9 * each) for each in samples], "samples_ts": rates,
    }  # fmt: skip


if __name__ == "__main__":
    main()
