"""Closed forms: single values by hand, limits, and refusals."""

import math

import numpy as np
import pytest

from simulator.errors import DraftscopeError
from simulator.physics import energy, memory, renewal, roofline, speedup, verify


def test_roofline_takes_the_slower_side():
    # 10 B at 5 B/s = 2 s against 6 MAC at 2 MAC/s = 3 s, and against 1 MAC
    found = [roofline.roofline_time_s(memory_s=10 / 5.0, macs=macs, macs_per_s=2.0) for macs in (6, 1)]
    assert found == [3.0, 2.0]
    assert roofline.ridge_point_macs_per_byte(macs_per_s=9e12, bandwidth_bytes_per_s=60e9) == 150.0


def test_mbu_is_log_linear_between_its_ends():
    ends = {"mbu_small": 0.1, "mbu_large": 0.5, "small_model_bytes": 1e7, "large_model_bytes": 1e9}
    for model_bytes, expected in ((0.0, 0.1), (1e6, 0.1), (1e7, 0.1), (1e8, 0.3), (1e9, 0.5), (1e12, 0.5)):
        assert roofline.mbu_of_model(model_bytes=model_bytes, **ends) == pytest.approx(expected)
    step = {**ends, "large_model_bytes": 1e7}
    assert roofline.mbu_of_model(model_bytes=2e7, **step) == pytest.approx(0.5)


CURVE = {"widths": (1, 2, 4), "costs": (1.0, 2.0, 6.0)}


@pytest.mark.parametrize(
    ("width", "expected"), [(1, 1.0), (1.5, 1.5), (2, 2.0), (3, 4.0), (4, 6.0), (6, 10.0)]
)
def test_verify_curve_is_piecewise_linear_and_goes_on_by_its_last_slope(width, expected):
    assert verify.relative_cost(width=width, **CURVE) == pytest.approx(expected)
    assert verify.relative_cost(width=np.array([width]), **CURVE)[0] == pytest.approx(expected)


def test_verify_curve_flat_beyond_its_end():
    assert verify.relative_cost(width=9, extrapolation="flat", **CURVE) == pytest.approx(6.0)
    assert verify.relative_cost(width=9, widths=(1,), costs=(1.0,)) == pytest.approx(1.0)


def test_verify_curve_with_one_curve_per_design():
    costs = (np.ones(3), np.array([1.0, 2.0, 3.0]))
    found = verify.relative_cost(width=np.array([1, 2, 3]), widths=(1, 2), costs=costs)
    assert found == pytest.approx([1.0, 2.0, 5.0])


def test_tile_pads_the_width_and_keeps_width_one_at_one():
    tiled = {**CURVE, "tile": 4}
    assert verify.padded_width(width=5, tile=4) == 8
    assert [verify.relative_cost(width=w, **tiled) for w in (1, 4)] == pytest.approx([1.0, 1.0])
    assert verify.relative_cost(width=5, **tiled) == pytest.approx(14.0 / 6.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"widths": (2, 4), "costs": (1.0, 2.0)},
        {"widths": (1, 1), "costs": (1.0, 2.0)},
        {"widths": (1, 2), "costs": (1.0,)},
        {"widths": (1, 2), "costs": (1.0, -1.0)},
        {"widths": (1, 2), "costs": (1.0, math.nan)},
        {"widths": (), "costs": ()},
    ],
)
def test_wrong_curves_are_refused(wrong):
    with pytest.raises(DraftscopeError, match="verify curve"):
        verify.relative_cost(width=2, **wrong)


def test_leviathan_improves_exactly_where_alpha_exceeds_c():
    for alpha, c in ((0.3, 0.29), (0.3, 0.31)):
        gain = speedup.leviathan_speedup(acceptance_rate=alpha, draft_length=1, draft_cost_ratio=c)
        assert gain == pytest.approx((1 + alpha) / (1 + c))
        assert (gain > 1) == (alpha > c)


@pytest.mark.parametrize("wrong", [math.nan, -0.1, 1.01, math.inf, "often", [0.5, math.nan]])
def test_acceptance_that_is_no_probability_is_refused(wrong):
    with pytest.raises(DraftscopeError, match="acceptance_rate"):
        speedup.mean_acceptance_length_iid(acceptance_rate=wrong, draft_length=3)


def test_operations_grow_even_when_everything_is_accepted():
    grown = speedup.operations_growth(mean_acceptance_length=5.0, draft_length=4, draft_operations_ratio=0.1)
    assert grown == pytest.approx(5.4 / 5.0)


def test_rejected_energy_is_the_drafts_and_the_widening_of_verify():
    found = energy.rejected_energy_j(
        draft_energy_j=4.0, verify_energy_j=10.0, verify_energy_at_width_one_j=8.0, proposed=4, accepted=1
    )
    assert found == pytest.approx((4.0 + 2.0) * 3 / 4)
    nothing = energy.rejected_energy_j(
        draft_energy_j=0.0, verify_energy_j=8.0, verify_energy_at_width_one_j=8.0, proposed=0, accepted=0
    )
    assert nothing == 0.0


def test_kv_cache_stops_at_its_window():
    shape = {"bytes_per_token": 6144.0, "windowed_bytes_per_token": 12288.0, "window": 512.0}
    assert memory.kv_cache_bytes(context=100, **shape) == 100 * (6144 + 12288)
    assert memory.kv_cache_bytes(context=4096, **shape) == 4096 * 6144 + 512 * 12288


def test_ram_parts_must_be_numbers():
    assert memory.peak_ram_bytes(parts={"a": 1.0, "b": 2.0}) == 3.0
    for wrong in (-1.0, math.nan):
        with pytest.raises(DraftscopeError, match="RAM part 'a'"):
            memory.peak_ram_bytes(parts={"a": wrong})


def test_step_starts_of_certain_acceptance_are_periodic():
    starts = renewal.step_start_probability(per_position_acceptance_rate=[1.0, 1.0], decoded_tokens=7)
    assert starts == pytest.approx([1, 0, 0, 1, 0, 0, 1])


def test_step_starts_of_no_acceptance_are_all_tokens():
    starts = renewal.step_start_probability(per_position_acceptance_rate=[0.0, 0.0], decoded_tokens=5)
    assert starts == pytest.approx(np.ones(5))
    assert len(renewal.step_start_probability(per_position_acceptance_rate=[], decoded_tokens=0)) == 0


def test_context_sums_by_hand():
    assert renewal.sum_of_contexts(first=3, count=4) == 3 + 4 + 5 + 6
    for window, expected in ((2, 8), (4, 15), (5, 17), (100, 18)):
        assert renewal.sum_of_windowed_contexts(first=3, count=4, window=window) == expected
