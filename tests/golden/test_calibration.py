"""Calibrating on the published rows of a known device gives back its shipped runtime, from another's start.

The shipped runtimes were derived by hand from the same rows (two equations, ratios); here they are found by
least squares from the numbers of a different stack.
"""

from __future__ import annotations

import pytest

from hw_profiles import load_runtime
from hw_profiles.measurements import decode_table
from hw_profiles.verify_curves import row_cost_table
from simulator.adapters.observations import Observations, PassTime
from simulator.studies.calibrate import FITTED, calibrate

LAYERS = 40
"""The row costs are of one feed-forward layer of a 14B model; a pass is taken as forty of them."""


def decode_row(row: str, target: str) -> Observations:
    """Plain decoding at the mean context of the benchmark: 1,024 tokens of prompt, 256 of response."""
    seconds = 1 / decode_table()[row]["decode_tokens_per_s"]
    each = PassTime(width=1, context=1152, seconds=seconds, stderr_s=0.01 * seconds, where=row)
    return Observations(source=row, format="generic_csv", device="galaxy_s26_ultra", model=target,
                        passes=(each,))  # fmt: skip


def row_costs(curve: str) -> Observations:
    table = row_cost_table()[curve]
    passes = tuple(
        PassTime(width=int(key[1:]), context=0, seconds=LAYERS * value, stderr_s=0.02 * LAYERS * value,
                 where=f"{curve}:{key}")
        for key, value in table.items() if key.startswith("m")
    )  # fmt: skip
    return Observations(source=curve, format="generic_csv", device="pixel_10_pro", model=curve, passes=passes,
                        weight_bytes=LAYERS * table["weight_bytes"])  # fmt: skip


def within(value: float, cited) -> bool:
    return cited.low <= value <= cited.high


@pytest.mark.parametrize(
    ("engine", "start", "shipped"),
    [("gpu", "litert_lm_gpu_mali", "litert_lm_gpu_adreno"), ("cpu", "litert_lm_cpu", "litert_lm_cpu_oryon")],
)
def test_two_sizes_give_bandwidth_and_floor_of_the_s26_ultra(engine, start, shipped):
    files = [decode_row(f"s26u_{engine}_gemma4_{size}", f"gemma_4_{size}") for size in ("e2b", "e4b")]
    found, known = calibrate(files, runtime=start), load_runtime(shipped)
    fields = {row.field: row for row in found.fields}
    for name in ("mbu_large", "floor_per_pass_s"):
        assert within(fields[name].value, getattr(known, name)), (name, fields[name])
    assert fields["mbu_large"].status == FITTED
    assert found.residual < 0.01


@pytest.mark.parametrize(
    ("curve", "start", "shipped"),
    [
        ("g5_cpu_packed_tuned", "packed_cpu_untuned", "tuned_cpu"),
        ("g5_cpu_f16", "packed_cpu_untuned", "tuned_cpu_f16"),
    ],
)
def test_row_costs_give_bandwidth_and_curve_of_tuned_kernels(curve, start, shipped):
    found, known = calibrate([row_costs(curve)], runtime=start), load_runtime(shipped)
    assert within(found.runtime.mbu_large.value, known.mbu_large)
    ends = {w: (low, high) for (w, low), (_, high) in zip(known.verify_curve.low, known.verify_curve.high,
                                                         strict=True)}  # fmt: skip
    points = dict(found.runtime.verify_curve.value)
    assert set(ends) <= set(points)
    for width, (low, high) in ends.items():
        assert low <= points[width] <= high, width
