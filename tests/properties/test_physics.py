"""Invariants of the closed forms over random inputs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.physics.renewal import (
    expected_step_sums,
    step_start_probability,
    sum_of_contexts,
    sum_of_windowed_contexts,
)
from simulator.physics.roofline import mbu_of_model
from simulator.physics.speedup import mean_acceptance_length_iid, speedup, survival_iid
from simulator.physics.verify import relative_cost

rates = st.floats(0.0, 1.0)
lengths = st.integers(0, 16)


@given(alpha=rates, length=lengths)
def test_mean_acceptance_length_lies_between_one_and_k_plus_one(alpha, length):
    tau = mean_acceptance_length_iid(acceptance_rate=alpha, draft_length=length)
    assert 1.0 <= tau <= length + 1.0 + 1e-12


@given(alpha=st.floats(0.0, 0.999), length=lengths)
def test_sum_equals_leviathans_quotient(alpha, length):
    tau = mean_acceptance_length_iid(acceptance_rate=alpha, draft_length=length)
    assert tau == pytest.approx((1 - alpha ** (length + 1)) / (1 - alpha))


@given(st.lists(st.tuples(rates, lengths), min_size=1, max_size=20))
def test_arrays_of_designs_equal_single_designs(designs):
    alpha, length = (np.array(column) for column in zip(*designs, strict=True))
    together = mean_acceptance_length_iid(acceptance_rate=alpha, draft_length=length)
    single = [mean_acceptance_length_iid(acceptance_rate=a, draft_length=int(k)) for a, k in designs]
    assert together == pytest.approx(single)


@given(length=lengths, c=st.floats(0, 2), o=st.floats(0, 2), v=st.floats(1, 5))
def test_no_acceptance_never_speeds_up(length, c, o, v):
    gain = speedup(
        mean_acceptance_length=1.0,
        draft_length=length,
        draft_cost_ratio=c,
        verify_cost_ratio=v,
        overhead_ratio=o,
    )
    assert gain <= 1.0


@given(
    alpha=st.floats(0, 0.8),
    length=st.integers(0, 8),
    first=st.integers(1, 2000),
    window=st.integers(1, 3000),
    decoded=st.integers(500, 900),
)
def test_closed_form_step_sums_equal_the_renewal_recursion(alpha, length, first, window, decoded):
    survival = survival_iid(acceptance_rate=alpha, draft_length=length)
    starts = step_start_probability(per_position_acceptance_rate=survival, decoded_tokens=decoded)
    rate, extra, moment = expected_step_sums(per_position_acceptance_rate=survival, decoded_tokens=decoded)
    contexts = first + np.arange(decoded)
    assert rate * decoded + extra == pytest.approx(starts.sum(), rel=1e-9)
    closed = rate * sum_of_contexts(first=first, count=decoded) + extra * first + moment
    assert closed == pytest.approx(starts @ contexts, rel=1e-9)
    if not first < window < first + 200:  # the window opens within the transient: stated as inexact
        inside = sum_of_windowed_contexts(first=first, count=decoded, window=window)
        closed = rate * inside + extra * min(first, window) + moment * (first < window)
        assert closed == pytest.approx(starts @ np.minimum(contexts, window), rel=1e-9)


@given(alpha=rates, length=lengths, decoded=st.integers(1, 300))
def test_expected_steps_lie_between_best_and_worst_case(alpha, length, decoded):
    survival = survival_iid(acceptance_rate=alpha, draft_length=length)
    starts = step_start_probability(per_position_acceptance_rate=survival, decoded_tokens=decoded)
    assert np.all((starts >= 0) & (starts <= 1 + 1e-12))
    assert decoded / (length + 1) - 1e-9 <= starts.sum() <= decoded + 1e-9
    rate, extra, _ = expected_step_sums(per_position_acceptance_rate=survival, decoded_tokens=decoded)
    assert abs(rate * decoded + extra - starts.sum()) <= 1.0


@given(first=st.integers(0, 500), count=st.integers(0, 500), window=st.integers(0, 1200))
def test_windowed_sums_equal_the_plain_loop(first, count, window):
    found = sum_of_windowed_contexts(first=first, count=count, window=window)
    assert found == sum(min(first + t, window) for t in range(count))
    assert sum_of_contexts(first=first, count=count) == sum(first + t for t in range(count))


@given(
    steps=st.lists(st.tuples(st.integers(1, 5), st.floats(0, 3)), max_size=5),
    width=st.floats(1, 40),
    tile=st.sampled_from([None, 1, 4, 8]),
)
def test_rising_curves_stay_above_one_and_monotone(steps, width, tile):
    widths, costs = [1.0], [1.0]
    for run, rise in steps:
        widths.append(widths[-1] + run)
        costs.append(costs[-1] + rise)
    points = {"widths": widths, "costs": costs, "tile": tile}
    here, further = relative_cost(width=width, **points), relative_cost(width=width + 1, **points)
    assert relative_cost(width=1, **points) == 1.0
    assert 1.0 - 1e-12 <= here <= further + 1e-9


@given(small=st.floats(0.01, 1), large=st.floats(0.01, 1), size=st.floats(1, 1e12))
def test_mbu_stays_between_its_ends(small, large, size):
    mbu = mbu_of_model(
        model_bytes=size, mbu_small=small, mbu_large=large, small_model_bytes=1e7, large_model_bytes=1e9
    )
    assert min(small, large) - 1e-12 <= mbu <= max(small, large) + 1e-12
