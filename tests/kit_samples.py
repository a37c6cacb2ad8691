"""A phone that is not there: programs with the names of the real ones, for the kit's script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LLAMA_BENCH = """\
import argparse, json, sys
from datetime import datetime, timezone
parser = argparse.ArgumentParser()
for name in ("-m", "-p", "-n", "-d", "-r", "-t", "-o", "-ngl"):
    parser.add_argument(name, required=True)
given = parser.parse_args()
assert given.o == "jsonl"
now = f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
pairs = [(int(p), 0) for p in given.p.split(",")] + [(0, int(n)) for n in given.n.split(",")]
for depth in map(int, given.d.split(",")):
    for prompt, generated in pairs:
        if not prompt + generated:
            continue
        one = 40e6 * (1 + depth / 20000)
        ns = one * generated if generated else one * (1 + 0.2 * (prompt - 1))
        print(json.dumps({
            "model_filename": given.m, "model_type": "a model", "n_prompt": prompt, "n_gen": generated,
            "n_depth": depth, "test_time": now, "avg_ns": ns, "stddev_ns": ns / 100,
            "avg_ts": (prompt + generated) / ns * 1e9, "stddev_ts": 0.1, "samples_ns": [ns] * int(given.r),
        }))
"""
"""40 ms for one row, a fifth of that for each further one."""

LITERT_LM = """\
import sys
given = dict(each.lstrip("-").partition("=")[::2] for each in sys.argv[1:])
drafting = given["enable_speculative_decoding"] == "true"
prompt = int(given.get("benchmark_prefill_tokens", 230))
tokens = int(given.get("benchmark_decode_tokens", 256))
speed = 25.0 if drafting else 20.0
print("I0000 litert_lm_advanced_main.cc:1] BenchmarkInfo:")
print(f"    Prefill Turn 1: Processed {prompt} tokens in {prompt * 0.004}s duration.")
print("      Prefill Speed: 250.00 tokens/sec.")
print(f"    Decode Turn 1: Processed {tokens} tokens in {tokens / speed}s duration.")
print(f"      Decode Speed: {speed:.2f} tokens/sec.")
if drafting:
    print("Num drafted tokens: 300")
    print("Num verified tokens: 156")
    print("MTP Drafter - Success rate: 0.52")
"""
"""Plain decoding 20 tok/s; with a drafter 25 tok/s: 256 tokens in 100 steps of 3 drafts, 2.56 tokens each."""


def programs(folder: Path, *, llama_bench: str = LLAMA_BENCH, litert_lm: str = LITERT_LM) -> Path:
    """Put both programs into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("llama-bench", llama_bench), ("litert_lm_advanced_main", litert_lm)):
        path = folder / name
        path.write_text(f"#!{sys.executable} -S\n{text}")
        path.chmod(0o755)
    return folder


def run_script(kit: Path, programs: Path) -> subprocess.CompletedProcess[str]:
    """Run the kit's script on this machine."""
    return subprocess.run(
        ["bash", kit / "run.sh"], capture_output=True, text=True, check=False,
        env={**os.environ, "LOCAL": "1", "REST": "0", "BIN": str(programs)},
    )  # fmt: skip
