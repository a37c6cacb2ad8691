"""Parts of the validation study: words into cases, tokens per pass, step cost, scores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hw_profiles.accelerators import accelerators, find_accelerator
from hw_profiles.kernel_families import kernel_priors
from hw_profiles.loader import list_devices, load_device
from hw_profiles.references import references
from hw_profiles.verify_curves import curve_families, load_curve
from simulator.studies.validation import Measured, shipped_measurements, summarise
from simulator.studies.validation.cases import case_of
from simulator.studies.validation.cost import FAMILIES, design_of, priors, step_cost
from simulator.studies.validation.scores import Scored, rules, source_weights, weighted_median
from simulator.studies.validation.tokens import estimate_tokens, rate_of, tokens_per_pass

PLAIN = Measured(
    id="x", source="someone", device="RTX 3090", device_class="consumer GPU", framework="llama.cpp",
    target_model="Qwen3.8-27B", target_quant="Q4_K_M", drafter_family="MTP head", drafter_kind="MTP head",
    target_params=27e9, weight_bytes=17.1e9, draft_length=2.0, mean_tokens_per_pass=2.5, baseline_tps=40.0,
    task="code", clean_pair="A",
)  # fmt: skip


def case(**changes):
    return case_of(replace(PLAIN, **changes))


@pytest.mark.parametrize(
    ("changes", "family"),
    [
        ({}, "llama_cpp_cuda"),
        ({"device": "Apple M4", "device_class": "Apple GPU/ANE"}, "llama_cpp_metal"),
        ({"framework": "mlx-lm", "device": "Apple M2"}, "mlx"),
        ({"framework": "vLLM nightly"}, "cuda_graphs"),
        ({"framework": "vLLM 0.26 ROCm 7.14", "device": "Ryzen AI Max+ 395"}, "rocm_graphs"),
        ({"framework": "llama.cpp Vulkan", "device": "RX 9070"}, "llama_cpp_amd"),
        ({"framework": "LiteRT-LM", "device": "Samsung Galaxy S26 Ultra CPU"}, "litert_cpu"),
        ({"framework": "LiteRT-LM", "device": "Samsung Galaxy S26 Ultra GPU"}, "litert_gpu"),
        ({"framework": "PyTorch 2.5.1 HF"}, "pytorch_eager"),
        ({"framework": "T5X", "device": "TPU v4"}, "tpu_xla"),
        ({"device_class": "partial CPU offload"}, "offload"),
        ({"framework": "home-made", "device": "unheard-of", "device_class": ""}, "other"),
    ],
)
def test_kernel_families_from_words(changes, family):
    assert case(**changes).family == family


def test_every_family_has_a_prior():
    found = {case_of(row).family for row in shipped_measurements()}
    assert found <= set(FAMILIES)
    assert set(kernel_priors().families) == set(FAMILIES)


def test_priors_hold_the_curves_of_the_atlas():
    """Median cost of a row up to width 8, over the curves of the families that a prior names."""
    for name, family in kernel_priors().families.items():
        curves = [load_curve(each) for group in family.curves for each in curve_families()[group]]
        slopes = []
        for curve in curves:
            ratio = {point[0]: point[1] for point in curve.verify_cost_ratio if 1 < point[0] <= 8}
            slopes += [(ratio[max(ratio)] - 1) / (max(ratio) - 1)] if ratio else []
        if slopes:
            assert family.row_cost.low <= np.median(slopes) <= family.row_cost.high, name


def test_sizes_from_words():
    assert case().bits == pytest.approx(8 * 17.1 / 27)
    assert case(weight_bytes=None, target_quant="Q8_0").bits == 8.5
    mixture = case(target_model="Qwen3.6-35B-A3B MoE", target_params=35e9, target_active_params=3e9)
    assert mixture.experts and mixture.active_params == 3e9
    assert case(drafter_kind="EAGLE-2 dynamic tree", drafter_family="EAGLE").tree_nodes == 50
    assert case(device="2x RTX 3090 (TP)").tensor_parallel
    spilled = case(device="RTX 3080 10GB", weight_bytes=9.01e9, context_len="32K allocated")
    assert spilled.spill_bytes > 0
    assert case(device="RTX 4090", weight_bytes=9.01e9).spill_bytes == 0


def test_unknown_words_still_make_a_case():
    strange = case_of(Measured(id="y", device="?", framework="?", target_model="?", drafter_family="?"))
    assert strange.family == "other" and strange.drafter == "other" and not strange.known_bandwidth


def test_accelerators_agree_with_profiles_and_have_sources():
    known = references()
    for accelerator, phrases in accelerators():
        assert accelerator.source in known
        assert all(phrase == phrase.lower().strip() for phrase in phrases)
    assert find_accelerator("2x RTX 3090 + 3090 Ti (TP)").name == "RTX 3090"
    assert find_accelerator("Apple M4 Pro 64GB").name == "Apple M4 Pro"
    assert find_accelerator("something else") is None
    names = {"rtx_3090": "RTX 3090", "rtx_5090": "RTX 5090", "h100": "H100", "apple_m1_max": "Apple M1 Max"}
    for device_id in set(names) & set(list_devices()):
        peak = load_device(device_id).dram.peak_bandwidth_bytes_per_s.value
        assert find_accelerator(names[device_id]).bandwidth_bytes_per_s == pytest.approx(peak, rel=0.02)


@given(rate=st.floats(0.05, 0.95), length=st.integers(1, 16))
def test_rate_of_inverts_tokens_per_pass(rate, length):
    tokens = tokens_per_pass(rate, length)
    assert 1 <= tokens <= length + 1
    assert rate_of(tokens, length) == pytest.approx(rate, abs=1e-6)


def test_stated_tokens_are_taken_and_unstated_are_borrowed():
    stated, silent = case(), case(id="z", mean_tokens_per_pass=None)
    own, borrowed = estimate_tokens([stated, silent], [stated, silent])
    assert (own.mean, own.stated) == (2.5, True)
    assert borrowed.mean == pytest.approx(2.5, rel=0.05) and not borrowed.stated
    (alone,) = estimate_tokens([silent], [])
    assert alone.log_sd > borrowed.log_sd


def test_tokens_do_not_read_answers():
    rows = shipped_measurements()[:60]
    cases = [case_of(row) for row in rows]
    blind = [case_of(row.without_answers(keep_baseline=False)) for row in rows]
    assert estimate_tokens(cases, cases) == estimate_tokens(blind, blind)


def test_step_cost_rises_with_drafts_and_is_one_without_any():
    cases = [case(draft_length=float(k), mean_tokens_per_pass=None) for k in (1, 2, 4, 7)]
    tokens = estimate_tokens(cases, [])
    cost = step_cost(priors()[0], design_of(cases, tokens))
    assert (np.diff(cost) > 0).all() and cost[0] > 1


def test_a_mixture_pays_for_the_experts_that_more_rows_touch():
    pair = [
        case(target_params=35e9, target_active_params=active, weight_bytes=20e9, baseline_tps=100.0)
        for active in (35e9, 3e9)
    ]
    design = design_of(pair, estimate_tokens(pair, pair))
    assert design.union[0] == 0 and design.union[1] > 0


def scored(measured, predicted, source="a", width=0.1):
    return Scored(
        source=source, device_class="", family="", drafter="", measured=measured, predicted=predicted,
        low=predicted - width, high=predicted + width, tokens=2.0, length=2.0,
    )  # fmt: skip


def test_scores_by_hand():
    summary = summarise(
        [scored(1.0, 1.1, "a"), scored(2.0, 1.0, "b", 2.0), scored(0.8, 1.2, "c"), scored(1.5, 1.5, "d")]
    )
    assert summary.n == 4
    assert summary.median_absolute_error == pytest.approx(0.1)
    assert summary.mean_absolute_error == pytest.approx((0.1 + 0.5 + 0.5 + 0) / 4)
    assert summary.sign_accuracy == pytest.approx(1 / 4)
    assert summary.interval_coverage == pytest.approx(3 / 4)
    assert summarise([]) is None


def test_sources_weigh_at_most_a_quarter():
    weights = source_weights(["a"] * 6 + ["b", "c"])
    assert weights[:6].sum() == pytest.approx(0.25 * 8)
    assert weighted_median(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 5.0])) == 2.0


def test_the_fitted_rule_is_no_worse_than_the_fixed_one():
    rows = [scored(2.0 / (1 + 0.2 * k), 1.0, str(k)) for k in range(1, 5)]
    found = rules([Scored(**{**row.__dict__, "length": float(k)}) for k, row in enumerate(rows, 1)])
    fitted = next(value for name, value in found.items() if "fitted" in name)
    assert fitted["median_absolute_error"] <= found["tokens / (1 + 0.2 K)"]["median_absolute_error"] + 1e-9
