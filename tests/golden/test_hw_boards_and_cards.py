"""Boards, PCs and servers: decode speeds of the open table, verification curves, split cards, generic device.

The pass time is computed here from the profiles' fields alone. A pass of one row takes ``floor_per_pass +
layers x floor_per_layer + weights / (mbu_large x peak) + cache / (mbu_kv x peak) + host_per_row``.
Weights are the file's bytes without the embedding table, of which one row is read; a tied table is the LM
head and stays in.
"""

from __future__ import annotations

import pytest

from hw_profiles import ProfileError, check, load_device, load_runtime
from hw_profiles.measurements import decode_table
from simulator.acceptance import IidAcceptance
from simulator.analytic import predict
from simulator.engine import simulate
from simulator.lowering import lower
from simulator.specs import Scenario
from tests.engine_samples import assert_equal, random_steps

LLAMA_8B_TABLE = 128256 * 4096
QWEN_27B_TABLE = 248320 * 5120
LLAMA_13B_TABLE = 32000 * 5120
E2B = (0.79e9, 28 * 512 * 1024 + 7 * 1152 * 2048)
E4B = (2.24e9, 35 * 512 * 2048 + 7 * 1152 * 4096)


def pass_time(runtime, device, weights, *, layers=0, cache=0.0):
    runtime, peak = load_runtime(runtime), load_device(device).dram.peak_bandwidth_bytes_per_s.value
    per_layer = runtime.floor_per_layer_s.value if runtime.floor_per_layer_s else 0.0
    return (
        runtime.floor_per_pass_s.value
        + layers * per_layer
        + weights / (runtime.mbu_large.value * peak)
        + cache / (runtime.mbu_kv.value * peak)
        + runtime.host_per_row_s.value
    )


@pytest.mark.parametrize(
    ("runtime", "device", "row", "weights", "layers", "cache", "tolerance"),
    [
        # calibrated on this row, or on it and another one
        ("llama_cpp_cpu_neon", "raspberry_pi_5", "raspberry_pi_5_16gb_cpu_llama_3p2_3b_q4_k_m",
         2.02e9, 28, 0, 0.01),
        ("llama_cpp_cpu_neon", "raspberry_pi_5", "raspberry_pi_5_16gb_cpu_llama_3p1_8b_q4_k_m",
         4.92e9 - LLAMA_8B_TABLE * 4.5 / 8, 32, 0, 0.01),
        ("llama_cpp_cuda_ampere", "rtx_3090", "rtx_3090_27b_q4_k_xl",
         17.6e9 - QWEN_27B_TABLE * 5.5 / 8, 64, 0, 0.01),
        ("llama_cpp_cuda_unified", "gb10", "gb10_llama_3p1_8b_q6_k",
         6.60e9 - LLAMA_8B_TABLE * 6.5625 / 8, 32, 0, 0.01),
        ("llama_cpp_vulkan", "strix_halo", "strix_halo_llama_3p1_8b_q4_k_m",
         4.92e9 - LLAMA_8B_TABLE * 4.5 / 8, 32, 0, 0.01),
        ("llama_cpp_cuda_tp_pcie", "rtx_5060_ti_x2", "rtx_5060_ti_x2_27b_q4_k_xl",
         17.9e9 - QWEN_27B_TABLE * 5.5 / 8, 64, 0, 0.01),
        ("vllm_cuda", "h100", "h100_llama_3p1_8b_bf16", 16.06e9 - LLAMA_8B_TABLE * 2, 32, 0, 0.01),
        ("vllm_cuda_tp_pcie", "rtx_3090_x2", "rtx_3090_x2_gemma_4_12b_bf16", 2 * 12.0e9 * 0.993, 48, 0, 0.01),
        # not used, or only to place a rounded value
        ("llama_cpp_cpu_neon", "raspberry_pi_5", "raspberry_pi_5_16gb_cpu_llama_2_13b_q4_0",
         7.37e9 - LLAMA_13B_TABLE * 4.5 / 8, 40, 0, 0.05),
        ("litert_lm_cpu_a76", "raspberry_pi_5", "raspberry_pi_5_16gb_cpu_gemma_4_e2b_int4_mixed_2p58_gb_file",
         E2B[0], 35, E2B[1], 0.06),
        ("litert_lm_cpu_a76", "raspberry_pi_5", "raspberry_pi_5_16gb_cpu_gemma_4_e4b_int4_mixed_3p65_gb_file",
         E4B[0], 42, E4B[1], 0.06),
        ("llama_cpp_cuda_ampere", "rtx_3060", "rtx_3060_llama_3p1_8b_q8_0",
         8.54e9 - LLAMA_8B_TABLE * 8.5 / 8, 32, 0, 0.10),
        ("llama_cpp_cuda", "rtx_4090", "rtx_4090_gpu_llama_3p2_3b_q4_k_m", 2.02e9, 28, 0, 0.10),
        ("llama_cpp_cuda", "rtx_4090", "rtx_4090_27b_q4_k_m", 17.1e9 - QWEN_27B_TABLE * 5 / 8, 64, 0, 0.06),
        ("llama_cpp_cuda", "rtx_5060_ti", "rtx_5060_ti_27b_q4", 15.1e9 - QWEN_27B_TABLE * 5 / 8, 64, 0, 0.06),
        ("llama_cpp_cuda_unified", "gb10", "nvidia_gb10_dell_pro_max_gpu_llama_3p2_3b_q4_k_m",
         2.02e9, 28, 0, 0.05),
        ("llama_cpp_cuda_unified", "gb10", "gb10_llama_3p1_8b_q4_k_m",
         4.92e9 - LLAMA_8B_TABLE * 4.5 / 8, 32, 0, 0.05),
        ("llama_cpp_cuda_unified", "gb10", "gb10_llama_3p1_8b_q8_0",
         8.54e9 - LLAMA_8B_TABLE * 8.5 / 8, 32, 0, 0.12),
        ("llama_cpp_cuda_orin", "jetson_agx_orin", "jetson_agx_orin_8b_q4_k_m",
         4.92e9 - LLAMA_8B_TABLE * 4.5 / 8, 32, 0, 0.10),
        ("llama_cpp_cuda_orin", "jetson_orin_nano", "jetson_orin_nano_smollm2_135m", 0.105e9, 30, 0, 0.25),
    ],
)  # fmt: skip
def test_decode_speed(runtime, device, row, weights, layers, cache, tolerance):
    speed = 1 / pass_time(runtime, device, weights, layers=layers, cache=cache)
    assert speed == pytest.approx(decode_table()[row]["decode_tokens_per_s"], rel=tolerance)


def cost_of_width(name, width):
    return dict(load_runtime(name).verify_curve.value)[width]


def test_ninth_row_of_2024_doubles_the_pass():
    """160.81 token/s at 8 rows and 80.38 at 9: 49.7 ms and 112 ms."""
    assert cost_of_width("llama_cpp_cuda_2024", 8) == pytest.approx(49.7 / 28.84, rel=2e-3)
    assert cost_of_width("llama_cpp_cuda_2024", 9) / cost_of_width("llama_cpp_cuda_2024", 8) > 2.2


def test_ninth_row_on_ampere_is_cheaper_than_the_eighth():
    """A ladder on an RTX 3090 gains 9 % at seven drafts and 39 % at eight."""
    ampere = {width: cost_of_width("llama_cpp_cuda_ampere", width) for width in (8, 9)}
    assert ampere[9] < 0.8 * ampere[8]
    assert ampere[8] == pytest.approx(2.39, rel=0.05)  # another table of the same model and card


def test_rows_cost_by_what_the_chip_has_beside_its_bandwidth():
    """Four rows: nearly free where arithmetic is plenty, half a pass and more where it is not."""
    four = {name: cost_of_width(f"llama_cpp_{name}", 4) for name in ("cuda_unified", "cuda", "cuda_ampere")}
    assert four["cuda_unified"] < 1.05 < four["cuda"] < 1.2 < 1.5 < four["cuda_ampere"]


@pytest.mark.parametrize("runtime", ["llama_cpp_cuda_tp_pcie", "pytorch_eager_cuda"])
def test_layers_are_charged_to_target_and_drafter(runtime):
    case = {"device": "rtx_5060_ti_x2", "target": "gemma_4_e2b", "drafter": "gemma_4_e2b_assistant"}
    lowered = lower(**case, runtime=runtime)
    assert (lowered.target_pass.layers, lowered.draft_pass.layers) == (35, 4)
    profile = load_runtime(runtime)
    params = lowered.bind(Scenario(prompt_tokens=100, output_tokens=10))
    layer = profile.floor_per_layer_s.value
    assert params.target_side.floor_s == pytest.approx(profile.floor_per_pass_s.value + 35 * layer)
    assert params.draft_side.floor_s == pytest.approx(profile.floor_per_draft_pass_s.value + 4 * layer)
    faster = lowered.bind(Scenario(prompt_tokens=100, output_tokens=10), floor_per_layer_s=0.0)
    saved = params.verify_cost(3).time_at(100) - faster.verify_cost(3).time_at(100)
    assert saved == pytest.approx(35 * layer)


@pytest.mark.parametrize(
    ("device", "runtime", "two", "four", "tolerance"),
    [
        ("rtx_3090", "llama_cpp_cuda_ampere", 334.79, 465.39, 0.25),
        ("rtx_5090", "llama_cpp_cuda", 566.73, 923.17, 0.6),
    ],
)
def test_a_mixture_of_experts_pays_for_the_union_and_no_dearer_kernel(device, runtime, two, four, tolerance):
    """llama.cpp pull request 29152: Gemma 4 26B-A4B in Q4_0, token/s at 2 and 4 rows.

    Two further rows cost 2.6 ms and 0.8 ms. The union of their experts and the slope of the dense kernels
    give 3.0 ms and 1.2 ms; with that slope on the union too it would be 5.0 ms on the RTX 3090.
    """
    params = lower(device=device, target="gemma_4_26b_a4b", runtime=runtime).bind(
        Scenario(prompt_tokens=100, output_tokens=10)
    )
    more = params.verify_cost(4).time_at(128) - params.verify_cost(2).time_at(128)
    assert more == pytest.approx(4 / four - 2 / two, rel=0.5)


EXPERTS = {"device": "rtx_4090", "target": "gemma_4_26b_a4b", "drafter": "gemma_4_26b_a4b_assistant"}
EXPERT_BYTES = 30 * 3 * 2816 * 704 * 4.5 / 8


def test_experts_in_host_memory_are_read_at_its_speed():
    """8 experts a row of 128, 15.5 for two rows: the union of 7.5 more at 50 GB/s."""
    params = lower(**EXPERTS, runtime="llama_cpp_cuda_cpu_experts").bind(
        Scenario(prompt_tokens=100, output_tokens=10)
    )
    dense = params.target_pass.weights.dense_bytes
    one, two = (params.verify_cost(width).busy_s.at(0) for width in (1, 2))
    assert one > 8 * EXPERT_BYTES / 50e9
    curve = cost_of_width("llama_cpp_cuda_cpu_experts", 2) - 1
    bandwidth = load_runtime("llama_cpp_cuda").mbu_large.value * 1008e9
    assert two - one == pytest.approx(7.5 * EXPERT_BYTES / 50e9 + curve * dense / bandwidth, rel=0.01)


def test_experts_in_host_memory_make_speculation_lose():
    """A report on another mixture: 19.6 to 11.4 token/s at four drafts and 2.7 tokens a pass, 0.58."""
    case = {**EXPERTS, "draft_length": 4, "acceptance": IidAcceptance(acceptance_rate=0.69),
            "prompt_tokens": 100, "output_tokens": 100, "intervals": False}  # fmt: skip
    offloaded = predict(**case, runtime="llama_cpp_cuda_cpu_experts")
    assert offloaded["mean_acceptance_length"] == pytest.approx(2.7, abs=0.1)
    assert offloaded["speedup"] == pytest.approx(0.58, rel=0.25)
    assert offloaded["speedup"] < 0.9 * predict(**case, runtime="llama_cpp_cuda")["speedup"]
    assert any("host memory" in note for note in offloaded.notes)


@pytest.mark.parametrize("length", [0, 1, 4])
@pytest.mark.parametrize("runtime", ["llama_cpp_cuda_cpu_experts", "pytorch_eager_cuda", "vllm_cuda"])
def test_engine_equals_the_closed_form(runtime, length, rng):
    case = {**EXPERTS, "runtime": runtime, "draft_length": length,
            "acceptance": random_steps(rng, length, [9, 14])}  # fmt: skip
    assert_equal(simulate(**case), predict(**case, intervals=False))


def test_engine_equals_the_closed_form_with_experts_on_the_roofline(rng):
    case = {**EXPERTS, "runtime": "ideal", "draft_length": 2, "acceptance": random_steps(rng, 2, [9, 14]),
            "axes": {"expert_bandwidth_bytes_per_s": 50e9}}  # fmt: skip
    offloaded = predict(**case, intervals=False)
    assert_equal(simulate(**case), offloaded)
    assert offloaded["decode_tokens_per_s"] < 0.5 * predict(
        **{**case, "axes": None}, intervals=False
    )["decode_tokens_per_s"]  # fmt: skip


def test_generic_device_follows_its_bandwidth():
    generic, slow = load_device("generic"), load_device("generic:50")
    assert slow.id == "generic:50"
    assert slow.dram.peak_bandwidth_bytes_per_s.value == 50e9
    assert slow.dram.peak_bandwidth_bytes_per_s.low == slow.dram.peak_bandwidth_bytes_per_s.high == 50e9
    for engine in ("cpu", "gpu"):
        for dtype, rate in generic.engines[engine].peak_macs_per_s.items():
            scaled = slow.engines[engine].peak_macs_per_s[dtype]
            ends = [(rate.value, scaled.value), (rate.low, scaled.low), (rate.high, scaled.high)]
            assert all(new == pytest.approx(old / 2) for old, new in ends)
    assert slow.ram_bytes == generic.ram_bytes
    assert check("generic:50") == []


def test_generic_device_is_predicted_with_a_wide_interval():
    case = {"target": "gemma_4_e2b", "drafter": "none", "prompt_tokens": 100, "output_tokens": 50}
    result = predict(device="generic:120", **case)
    low, high = result.intervals["decode_tokens_per_s"]
    assert low < result["decode_tokens_per_s"] < high
    assert high / low > 2
    assert predict(device="generic:240", **case, intervals=False)["decode_tokens_per_s"] > 1.5 * low


@pytest.mark.parametrize(
    "stated", ["", "abc", "0", "-3", "nan", "inf", "1e400", "12GB", "1e99", "1e-30", "0.99", "100001"]
)
def test_generic_device_refuses_what_is_no_bandwidth(stated):
    with pytest.raises(ProfileError, match=r"allowed: generic:N with the peak memory bandwidth N in GB/s"):
        load_device(f"generic:{stated}")
