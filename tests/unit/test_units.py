"""Units: what people write, and every message that they can get."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.errors import DraftscopeError, UnknownNameError
from simulator.units import UNITS, at_most, format_quantity, parse_quantity


@pytest.mark.parametrize(
    ("text", "kind", "si"),
    [
        ("7.5 GB/s", "bytes_per_s", 7.5e9),
        ("12 GB", "bytes", 12e9),
        ("130 MiB", "bytes", 130 * 2**20),
        ("3 ms", "s", 3e-3),
        ("4.6 W", "w", 4.6),
        ("4600mW", "w", 4.6),
        ("1e3 B/s", "bytes_per_s", 1e3),
        ("1,024 kB", "bytes", 1.024e6),
        ("3.6 pJ/bit", "j_per_byte", 28.8e-12),
        ("45 TOPS", "macs_per_s", 22.5e12),
        ("-10 °C", "c", -10.0),
        ("35 %", "ratio", 0.35),
        (".5", "ratio", 0.5),
        ("8_533 MHz", "hz", 8.533e9),
        (5, "s", 5.0),
    ],
)
def test_parse(text, kind, si):
    assert parse_quantity(text, kind) == pytest.approx(si, rel=1e-12)


@pytest.mark.parametrize("text", ["nan W", "NaN", "inf", "-inf W", math.nan, math.inf])
def test_not_finite(text):
    with pytest.raises(DraftscopeError, match=r"device\.power: .* finite"):
        parse_quantity(text, "w", where="device.power")


@pytest.mark.parametrize("text", ["-1 GB", -3.0])
def test_negative(text):
    with pytest.raises(DraftscopeError, match="at least 0"):
        parse_quantity(text, "bytes")


@pytest.mark.parametrize("text", ["fast", "", "GB", None, True, [1]])
def test_no_number(text):
    with pytest.raises(DraftscopeError, match="a number with a unit such as"):
        parse_quantity(text, "bytes_per_s")


def test_unknown_unit_offers_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'GB/s'"):
        parse_quantity("7.5 GBs", "bytes_per_s", where="dram.bandwidth")
    with pytest.raises(UnknownNameError, match="bandwith"):
        parse_quantity("7.5 GB/s", "bandwith")


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (68.3e9, "bytes_per_s", "68.3 GB/s"),
        (130 * 2**20, "bytes", "130 MiB"),
        (0.0145, "s", "14.5 ms"),
        (4.6, "w", "4.60 W"),
        (0.0, "w", "0 mW"),
        (1023.99999 * 2**20, "bytes", "1.00 GiB"),
        (1.5, "ratio", "1.50"),
        (1234.5, "per_s", "1,234 tok/s"),
    ],
)
def test_format(value, kind, text):
    assert format_quantity(value, kind) == text


def test_format_in_a_given_unit():
    assert format_quantity(12e9, "bytes", unit="GB") == "12.0 GB"
    with pytest.raises(UnknownNameError):
        format_quantity(1.0, "bytes", unit="Gb")
    with pytest.raises(UnknownNameError):
        format_quantity(1.0, "byte")


@given(st.floats(1e-9, 1e15), st.sampled_from(sorted(set(UNITS) - {"c"})))
def test_round_trip(value, kind):
    assert parse_quantity(format_quantity(value, kind, digits=12), kind) == pytest.approx(
        value, rel=1e-3, abs=1e-12
    )


def test_at_most():
    import numpy as np

    assert at_most(5.0, 3) == 3
    assert at_most(5.0, None) == 5.0
    assert at_most(np.array([1.0, 9.0]), 4).tolist() == [1.0, 4.0]
