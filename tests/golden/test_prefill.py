"""Prefill speed of two model sizes on two engines of a Galaxy S26 Ultra (litert_lm_gemma4: prompts of 1,024).

Token/s: CPU 557 (Gemma 4 E2B) and 195 (E4B), GPU 3808 and 1293. One share of the peak rate for each engine
must give both sizes: it does within 16 % if the layers without KV of their own are skipped for all rows but
the last. Tolerance: the two shares that each size alone would give differ by 25 %.
"""

from __future__ import annotations

import pytest

from hw_profiles import load_device, load_runtime
from hw_profiles.measurements import decode_table
from simulator.analytic import predict
from simulator.ops import prefill_ops
from simulator.specs import load_target

PROMPT = 1024
SPEEDS = {
    ("cpu", "e2b"): 557, ("cpu", "e4b"): 195, ("gpu", "e2b"): 3808, ("gpu", "e4b"): 1293,
}  # fmt: skip
RUNTIMES = {"cpu": "litert_lm_cpu_oryon", "gpu": "litert_lm_gpu_adreno"}


def macs_per_row(size, *, skip):
    """MACs of a prompt row in int8 and in f16."""
    ops = prefill_ops(load_target(f"gemma_4_{size}"), skip_shared_kv=skip)
    attention = sum(
        op.macs_per_row_per_context * sum(min(i, op.window or PROMPT) for i in range(PROMPT)) / PROMPT
        for op in ops
    )
    return sum(op.macs_per_row for op in ops), attention


def share_of_peak(engine, size, *, skip):
    peak = load_device("galaxy_s26_ultra").engines[engine].peak_macs_per_s
    int8, f16 = macs_per_row(size, skip=skip)
    return SPEEDS[engine, size] * (int8 / peak["int8"].value + f16 / peak["f16"].value)


@pytest.mark.parametrize(("engine", "size"), SPEEDS)
def test_stored_measurements(engine, size):
    assert decode_table()[f"s26u_{engine}_gemma4_{size}"]["prefill_tokens_per_s"] == SPEEDS[engine, size]


@pytest.mark.parametrize(
    ("size", "skip", "int8", "f16"),
    [("e2b", False, 1.877e9, 0.0733e9), ("e4b", False, 3.973e9, 0.0843e9),
     ("e2b", True, 0.577759e9, 0.031433e9), ("e4b", True, 2.313742e9, 0.048198e9)],
)  # fmt: skip
def test_macs_of_a_prompt_row(size, skip, int8, f16):
    assert macs_per_row(size, skip=skip) == pytest.approx((int8, f16), rel=6e-4)


@pytest.mark.parametrize(("engine", "size"), SPEEDS)
def test_time_to_first_token(engine, size):
    result = predict(device="galaxy_s26_ultra", runtime=RUNTIMES[engine], target=f"gemma_4_{size}",
                     prompt_tokens=PROMPT, output_tokens=256)  # fmt: skip
    measured = SPEEDS[engine, size]
    assert result["prefill_tokens_per_s"] == pytest.approx(measured, rel=0.16)
    low, high = result.intervals["ttft_s"]
    assert low < PROMPT / measured < high


@pytest.mark.parametrize("engine", RUNTIMES)
def test_shares_of_both_sizes_agree_only_if_layers_are_skipped(engine):
    skipping, whole = ([share_of_peak(engine, size, skip=skip) for size in ("e2b", "e4b")]
                       for skip in (True, False))  # fmt: skip
    assert sum(skipping) / 2 == pytest.approx(
        load_runtime(RUNTIMES[engine]).prefill_macs_per_s_fraction.value, rel=1e-3
    )
    assert skipping[1] / skipping[0] == pytest.approx(1.26, abs=0.03)  # larger matrices run better
    assert whole[0] / whole[1] > 1.4  # smaller ones would have to


@pytest.mark.parametrize("engine", RUNTIMES)
def test_without_skipping_a_row_would_cost_less_than_nothing_beside_its_arithmetic(engine):
    """Two sizes, two unknowns, time a MAC and time a row: the latter negative if every layer is computed."""
    peak = load_device("galaxy_s26_ultra").engines[engine].peak_macs_per_s
    for skip in (True, False):
        work = []
        for size in ("e2b", "e4b"):
            int8, f16 = macs_per_row(size, skip=skip)
            work.append(int8 / peak["int8"].value + f16 / peak["f16"].value)
        row_s = [1 / SPEEDS[engine, size] for size in ("e2b", "e4b")]
        slope = (row_s[1] - row_s[0]) / (work[1] - work[0])
        assert (row_s[0] - slope * work[0] > 0) is skip
