"""What must hold for every model of acceptance."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simulator.acceptance import IidAcceptance, LengthAcceptance, PositionalAcceptance
from simulator.acceptance.iid import equivalent_rate

rates = st.floats(0, 1)
draft_lengths = st.integers(0, 64)


@given(rates, draft_lengths)
def test_iid_bounds_and_monotone(rate, k):
    model = IidAcceptance(acceptance_rate=rate)
    length = model.mean_acceptance_length(k)
    assert 1 <= length <= k + 1
    assert model.mean_acceptance_length(k + 1) >= length


@given(rates, draft_lengths)
def test_iid_is_one_plus_the_sum_of_its_positions(rate, k):
    model = IidAcceptance(acceptance_rate=rate)
    np.testing.assert_allclose(
        model.mean_acceptance_length(k), 1 + model.per_position_acceptance_rate(k).sum(), rtol=1e-10
    )


@given(st.integers(1, 32), rates)
def test_inversion(k, fraction):
    length = 1 + fraction * k
    rate = equivalent_rate(length, k)
    assert 0 <= rate <= 1
    np.testing.assert_allclose(
        IidAcceptance(acceptance_rate=rate).mean_acceptance_length(k), length, rtol=1e-9
    )
    assert LengthAcceptance(length=length, at_draft_length=k).mean_acceptance_length(0) == 1


@given(st.lists(rates, min_size=1, max_size=8), st.integers(0, 20))
def test_positional_bounds_and_sum(conditional, k):
    model = PositionalAcceptance(conditional_rates=tuple(conditional), extrapolate=True)
    survival = model.per_position_acceptance_rate(k)
    assert survival.shape == (k,)
    assert (np.diff(survival) <= 0).all()
    length = model.mean_acceptance_length(k)
    assert 1 <= length <= k + 1 + 1e-12
    np.testing.assert_allclose(length, 1 + survival.sum(), rtol=1e-10)


@given(rates, st.integers(1, 8), st.integers(0, 12))
def test_positional_with_equal_rates_is_iid(rate, positions, k):
    positional = PositionalAcceptance(conditional_rates=(rate,) * positions, extrapolate=True)
    np.testing.assert_allclose(
        positional.mean_acceptance_length(k),
        IidAcceptance(acceptance_rate=rate).mean_acceptance_length(k),
        rtol=1e-10,
    )


@given(st.lists(rates, min_size=1, max_size=8))
def test_unconditional_rates_come_back(conditional):
    survival = np.cumprod(conditional)
    model = PositionalAcceptance.from_unconditional(survival.tolist())
    np.testing.assert_allclose(
        model.per_position_acceptance_rate(len(survival)), survival, rtol=1e-9, atol=1e-300
    )
