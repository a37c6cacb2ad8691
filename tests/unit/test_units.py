"""Units: what people read, and that no number is changed by it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.units import READABLE, at_most, readable, rounded


@pytest.mark.parametrize(
    ("unit", "value", "text"),
    [
        ("s", 0.0145, "14.5 ms"),
        ("s", 2.063, "2.06 s"),
        ("s", 0.0, "0 s"),
        ("J/token", 0.0754, "75.4 mJ/token"),
        ("J", 2.523, "2.52 J"),
        ("W", 4.6, "4.60 W"),
        ("B", 130 * 2**20, "130 MiB"),
        ("B", 1023.99999 * 2**20, "1.00 GiB"),
        ("B/token", 463.4e6, "463 MB/token"),
        ("MAC/token", 4.023e9, "4.02 GMAC/token"),
        ("tok/s", 1234.5, "1,234 tok/s"),
        ("x", 1.674, "1.67 x"),
        ("s", math.nan, "- s"),
    ],
)
def test_readable(unit, value, text):
    name, scale = readable(unit, value)
    assert f"{rounded(value / scale)} {name}" == text


@given(st.sampled_from(sorted(READABLE)), st.floats(1e-8, 1e14))
def test_scaling_back_gives_the_value(unit, value):
    name, scale = readable(unit, value)
    assert dict(READABLE[unit])[name] == scale
    assert float(rounded(value / scale, 9).replace(",", "")) * scale == pytest.approx(value, rel=1e-8)


def test_units_rise():
    for units in READABLE.values():
        scales = [scale for _, scale in units]
        assert scales == sorted(set(scales))
        assert 1.0 in scales


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.000929, "0.000929"), (9.999, "10.0"), (-2.0, "-2.00"), (math.inf, "-")],
)
def test_rounded(value, text):
    assert rounded(value) == text


def test_at_most():
    assert at_most(5.0, 3) == 3
    assert at_most(5.0, None) == 5.0
    assert at_most(np.array([1.0, 9.0]), 4).tolist() == [1.0, 4.0]
