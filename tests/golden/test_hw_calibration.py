"""The runtimes give back the decode speeds they were derived from, and the S26 Ultra table of both engines.

The pass time is computed here from the profile's fields alone, by the equation in DESIGN 4.4.
Byte counts: E2B 0.79 GB and E4B 2.24 GB of text weights; cache read at a context of 1,152 (prefill 1024,
decode 256): E2B 28 x 512 x 1,024 + 7 x 1,152 x 2,048 B, E4B 35 x 512 x 2,048 + 7 x 1,152 x 4,096 B.
"""

from __future__ import annotations

from itertools import pairwise
from statistics import geometric_mean

import pytest

from hw_profiles import load_device, load_runtime
from hw_profiles.measurements import decode_table, rows

E2B = (0.79e9, 28 * 512 * 1024 + 7 * 1152 * 2048)
E4B = (2.24e9, 35 * 512 * 2048 + 7 * 1152 * 4096)
ASSISTANT = (
    11.67e6,
    3 * 512 * 1024 + 1152 * 2048,
)  # int8 weights read with centroids; 3 local and 1 global layer
DRAFTS = 3  # not stated by the source; the width of the compiled verify graph less one


def cost_of_width(runtime, width):
    points = runtime.verify_curve.value
    for (w0, g0), (w1, g1) in pairwise(points):
        if w0 <= width <= w1:
            return g0 + (g1 - g0) * (width - w0) / (w1 - w0)
    raise AssertionError(width)


def pass_time(runtime, device, bytes_, width=1):
    weights, cache = bytes_
    peak = device.dram.peak_bandwidth_bytes_per_s.value
    return (
        runtime.floor_per_pass_s.value
        + weights / (runtime.mbu_large.value * peak) * cost_of_width(runtime, width)
        + cache / (runtime.mbu_kv.value * peak)
        + width * runtime.host_per_row_s.value
    )


def step_cost(runtime, device):
    """Time of a step in plain passes."""
    peak = device.dram.peak_bandwidth_bytes_per_s.value
    draft = runtime.floor_per_draft_pass_s.value + sum(ASSISTANT) / (runtime.mbu_small.value * peak)
    step = DRAFTS * draft + pass_time(runtime, device, E2B, DRAFTS + 1) + runtime.floor_per_step_s.value
    return step / pass_time(runtime, device, E2B)


def published(engine):
    found = {}
    for row in rows("s26_ultra_mtp.csv"):
        if row["engine"] == engine:
            found[row["task"]] = float(row["mtp_tokens_per_s"]) / float(row["baseline_tokens_per_s"])
    return found


@pytest.mark.parametrize(
    ("runtime", "device", "bytes_", "row", "tolerance"),
    [
        ("litert_lm_gpu_adreno", "galaxy_s26_ultra", E2B, "s26u_gpu_gemma4_e2b", 1e-3),
        ("litert_lm_gpu_adreno", "galaxy_s26_ultra", E4B, "s26u_gpu_gemma4_e4b", 1e-3),
        ("litert_lm_cpu_oryon", "galaxy_s26_ultra", E2B, "s26u_cpu_gemma4_e2b", 1e-3),
        ("litert_lm_cpu_oryon", "galaxy_s26_ultra", E4B, "s26u_cpu_gemma4_e4b", 1e-3),
        ("litert_lm_tpu", "pixel_10_pro", (0.79e9, 0), "g5_tpu_gemma4_e2b", 1e-3),
        ("litert_lm_gpu_powervr", "pixel_10_pro", (0.557e9, 0), "g5_gpu_gemma3_1b", 1e-3),
        ("litert_lm_gpu_mali", "pixel_9", (2.24e9, 0), "g4_gpu_gemma4_e4b", 1e-3),
        ("litert_lm_tpu", "pixel_10_pro", (1.0e9, 0), "g5_tpu_gemma3_1b", 0.25),  # measured 8.5 to 12.1
    ],
)
def test_decode_speed_comes_back(runtime, device, bytes_, row, tolerance):
    time = pass_time(load_runtime(runtime), load_device(device), bytes_)
    assert 1 / time == pytest.approx(decode_table()[row]["decode_tokens_per_s"], rel=tolerance)


@pytest.mark.parametrize(
    ("name", "mbu", "floor_s"),
    [
        ("litert_lm_gpu_adreno", 0.669, 4.7e-3),
        ("litert_lm_cpu_oryon", 0.496, 1.8e-3),
        ("litert_lm_tpu", 0.136, 5e-3),
        ("litert_lm_gpu_mali", 0.231, 10e-3),
        ("litert_lm_gpu_powervr", 0.029, 50e-3),
        ("tuned_cpu", 0.384, 1.5e-3),
        ("tuned_cpu_f16", 0.387, 1.5e-3),
        ("tuned_gpu_f16", 0.540, 3e-3),
        ("packed_cpu_untuned", 0.191, 1.5e-3),
    ],
)
def test_bandwidth_share_and_floor(name, mbu, floor_s):
    runtime = load_runtime(name)
    assert runtime.mbu_large.value == pytest.approx(mbu, abs=6e-4)
    assert runtime.floor_per_pass_s.value == pytest.approx(floor_s, rel=0.02)


@pytest.mark.parametrize(
    ("name", "costs"),
    [
        ("tuned_cpu", {2: 1.33, 4: 2.86}),
        ("tuned_cpu_f16", {2: 0.98, 4: 1.07, 8: 1.75}),
        ("tuned_gpu_f16", {2: 2.08, 4: 5.98}),
        ("litert_lm_gpu_powervr", {2: 2.08, 4: 5.98}),
        ("packed_cpu_untuned", {2: 1.75, 4: 3.64, 8: 8.65}),
    ],
)
def test_measured_width_curves(name, costs):
    for width, cost in costs.items():
        assert cost_of_width(load_runtime(name), width) == pytest.approx(cost, abs=6e-3)


def test_one_acceptance_a_task_explains_both_engines_of_the_s26_ultra():
    """Tokens a pass from the GPU rows give the CPU rows; code is an outlier by the source's own ratios."""
    device = load_device("galaxy_s26_ultra")
    gpu = step_cost(load_runtime("litert_lm_gpu_adreno"), device)
    cpu = step_cost(load_runtime("litert_lm_cpu_oryon"), device)
    assert gpu == pytest.approx(1.30, abs=0.02)
    assert cpu == pytest.approx(2.00, abs=0.02)
    tokens = {task: speedup * gpu for task, speedup in published("gpu").items()}
    assert all(1.6 < value < 3 for value in tokens.values())
    predicted = {task: value / cpu for task, value in tokens.items()}
    measured = published("cpu")
    for task in ("summarize", "rewrite", "free_form"):
        assert predicted[task] == pytest.approx(measured[task], rel=0.11)
    assert predicted["code"] / measured["code"] > 1.15
    assert predicted["free_form"] < 1 < predicted["summarize"]
    ratios = [predicted[task] / measured[task] for task in measured]
    assert geometric_mean(ratios) == pytest.approx(1, abs=0.03)


def test_the_ranges_hold_the_code_row_of_the_cpu():
    """The high end of the CPU curve and the low end of the GPU curve reach the slowdown on code."""
    device = load_device("galaxy_s26_ultra")
    gpu, cpu = load_runtime("litert_lm_gpu_adreno"), load_runtime("litert_lm_cpu_oryon")
    low_gpu = gpu.model_copy(update={"verify_curve": _end(gpu.verify_curve, "low")})
    high_cpu = cpu.model_copy(update={"verify_curve": _end(cpu.verify_curve, "high")})
    tokens = published("gpu")["code"] * step_cost(low_gpu, device)
    assert tokens / step_cost(high_cpu, device) < published("cpu")["code"]


def _end(cited, end):
    return cited.model_copy(update={"value": getattr(cited, end)})


def test_a_pixel_gpu_cannot_gain_from_four_rows():
    """PowerVR: even three accepted drafts of three do not pay for a pass that costs six."""
    assert cost_of_width(load_runtime("tuned_gpu_f16"), 4) > 4
