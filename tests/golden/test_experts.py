"""Mixture of experts: a wider pass streams the union of the experts that its rows are routed to.

128 experts, 8 a row, independent routing: 128 (1 - (1 - 8/128)^w) = 8, 15.5, 22.5, 29.1, 35.3, 41.1 distinct
experts for w = 1 .. 6. Gemma 4 26B-A4B: 30 layers of 3 x 2816 x 704 weights an expert, four bits and a 16-bit
scale for every 32 weights (4.5 bits a weight).
"""

from __future__ import annotations

import pytest

from simulator.acceptance import IidAcceptance
from simulator.analytic import predict
from simulator.engine import simulate
from simulator.lowering import compile_ops, lower
from simulator.ops import ledger, target_ops
from simulator.specs import Scenario, load_target
from tests.engine_samples import assert_equal, random_steps

TARGET = "gemma_4_26b_a4b"
DISTINCT = (8, 15.5, 22.5, 29.1, 35.3, 41.1)
EXPERT_BYTES = 30 * 3 * 2816 * 704 * 4.5 / 8
WIDTHS = range(1, 7)
CASE = {"device": "pixel_10_pro", "target": TARGET, "drafter": "gemma_4_26b_a4b_assistant"}


def test_distinct_experts_of_an_op():
    (op,) = (op for op in target_ops(load_target(TARGET)) if op.experts)
    assert op.weight_bytes == pytest.approx(8 * EXPERT_BYTES)
    found = [op.weight_bytes_at(width) / EXPERT_BYTES for width in WIDTHS]
    assert found == pytest.approx(DISTINCT, abs=0.05)


def test_distinct_experts_of_a_compiled_pass():
    ops = target_ops(load_target(TARGET))
    compiled = compile_ops(ops)
    dense = sum(op.weight_bytes for op in ops if not op.experts)
    found = [(compiled.weights.at(width) - dense) / EXPERT_BYTES for width in WIDTHS]
    assert found == pytest.approx(DISTINCT, abs=0.05)
    assert [compiled.weights.at(width) for width in WIDTHS] == pytest.approx(
        [ledger(ops, width, 0).weight_bytes for width in WIDTHS]
    )


@pytest.mark.parametrize("runtime", ["ideal", "aicore_tpu"])
def test_verify_charges_the_union_in_bytes_and_time(runtime):
    params = lower(**CASE, runtime=runtime).bind(Scenario(prompt_tokens=100, output_tokens=10))
    passes = [params.verify_cost(width) for width in WIDTHS]
    layers = [params.bytes_by_part(verify=True, width=width)["layers"].at(100) for width in WIDTHS]
    assert [(each - layers[0]) / EXPERT_BYTES + 8 for each in layers] == pytest.approx(DISTINCT, abs=0.05)
    moved = [each.bytes_moved.at(100) - passes[0].bytes_moved.at(100) for each in passes]
    assert moved[-1] > (DISTINCT[-1] - 8.1) * EXPERT_BYTES
    least_s = moved[-1] / params.peak_bandwidth_bytes_per_s
    assert passes[-1].time_at(100) - passes[0].time_at(100) > 0.99 * least_s
    assert passes[-1].time_at(100) > 2.2 * passes[0].time_at(100)


@pytest.mark.parametrize("runtime", ["ideal", "aicore_tpu"])
@pytest.mark.parametrize("length", [0, 1, 5])
def test_engine_equals_the_closed_form(runtime, length, rng):
    case = {**CASE, "runtime": runtime, "draft_length": length,
            "acceptance": random_steps(rng, length, [9, 14])}  # fmt: skip
    simulated = simulate(**case)
    assert_equal(simulated, predict(**case, intervals=False))


def test_a_dense_target_gains_more_from_the_same_acceptance():
    """Why the vendor says that a mixture of experts may not gain at batch 1."""
    gain = {
        target: predict(device="pixel_10_pro", runtime="ideal", target=target, drafter=f"{target}_assistant",
                        acceptance=IidAcceptance(acceptance_rate=0.7), prompt_tokens=100, output_tokens=100,
                        draft_length=4, intervals=False)["speedup"]
        for target in (TARGET, "gemma_4_31b")
    }  # fmt: skip
    assert gain[TARGET] < 1.3 < 2.0 < gain["gemma_4_31b"]
