"""Each way to write a profile wrongly gives a message: file, dotted key, what was given, what is allowed."""

from __future__ import annotations

import math
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hw_profiles import (
    CitedValue,
    ProfileError,
    UnknownProfileError,
    load_device,
    load_device_file,
    load_runtime,
    load_runtime_file,
)
from hw_profiles.errors import nearest, unknown

CLOCK = (
    '[dram.clock_hz]\nvalue = {value}\nunit = "{unit}"\nkind = "{kind}"\nsource = "lineage_wiki"\n{more}\n'
)


def packaged(folder: str, name: str) -> str:
    return (files("hw_profiles") / folder / f"{name}.toml").read_text(encoding="utf-8")


@pytest.fixture
def device_error(tmp_path):
    """Load the Pixel 9 file with lines added or replaced, and return the message."""

    def load(added: str = "", old: str = "", new: str = "") -> str:
        text = packaged("devices", "pixel_9")
        assert old in text
        path = tmp_path / "my_phone.toml"
        path.write_text(text.replace(old, new, 1) + added if old else text + added, encoding="utf-8")
        with pytest.raises(ProfileError) as caught:
            load_device_file(path)
        return str(caught.value)

    return load


@pytest.fixture
def runtime_error(tmp_path):
    """Load the tuned CPU runtime with one piece replaced, and return the message."""

    def load(old: str, new: str) -> str:
        text = packaged("runtimes", "tuned_cpu")
        assert old in text
        path = tmp_path / "my_stack.toml"
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
        with pytest.raises(ProfileError) as caught:
            load_runtime_file(path)
        return str(caught.value)

    return load


def clock(value="1e9", unit="Hz", kind="published", more="") -> str:
    return CLOCK.format(value=value, unit=unit, kind=kind, more=more)


def test_unknown_key_names_the_nearest(device_error):
    message = device_error('[dram.peak_bandwith_bytes_per_s]\nvalue = 1\nunit = "B/s"\nkind = "measured"\n')
    assert "my_phone.toml:dram.peak_bandwith_bytes_per_s: unknown key" in message
    assert "Did you mean 'peak_bandwidth_bytes_per_s'?" in message
    assert "Allowed: " in message


def test_unknown_key_in_a_cited_value(device_error):
    message = device_error(clock(more="lo = 1"))
    assert "dram.clock_hz.lo: unknown key 'lo'. Did you mean 'low'?" in message


def test_unknown_key_at_the_top_knows_base(device_error):
    message = device_error(old='base = "tensor_g4"', new='base = "tensor_g4"\nbass = "x"')
    assert "my_phone.toml:bass: unknown key 'bass'. Did you mean 'base'?" in message


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "+nan"])
def test_numbers_must_be_finite(device_error, value):
    message = device_error(clock(value=value))
    assert "my_phone.toml:dram.clock_hz.value: given" in message
    assert "allowed: a" in message


@pytest.mark.parametrize("more", ["low = nan\nhigh = 2e9", "low = 1\nhigh = inf"])
def test_ranges_must_be_finite(device_error, more):
    message = device_error(clock(more=more))
    assert "dram.clock_hz." in message
    assert "allowed: a finite number" in message


def test_negative_number(device_error):
    message = device_error(clock(value="-5"))
    assert "dram.clock_hz.value: given -5, a negative number; allowed: a number > 0" in message


def test_text_instead_of_a_number(device_error):
    assert "dram.clock_hz.value: given '5'; allowed: a number" in device_error(clock(value='"5"'))


def test_boolean_is_no_number(device_error):
    assert "dram.clock_hz.value: given True; allowed: a number" in device_error(clock(value="true"))


def test_bare_number_without_evidence(device_error):
    message = device_error("[dram]\nclock_hz = 5\n")
    assert "dram.clock_hz: given 5; allowed: a table with value, unit, kind and source" in message


@pytest.mark.parametrize("field", ["value", "unit", "kind", "source"])
def test_missing_field(device_error, field):
    lines = [line for line in clock().splitlines() if not line.startswith(field)]
    message = device_error("\n".join(lines) + "\n")
    assert f"my_phone.toml:dram.clock_hz.{field}: is missing; needed: {field}" in message


def test_wrong_unit(device_error):
    assert "dram.clock_hz: has unit 'GHz'; allowed: 'Hz'" in device_error(clock(unit="GHz"))


def test_wrong_kind(device_error):
    message = device_error(clock(kind="mesured"))
    assert "dram.clock_hz.kind: given 'mesured'; allowed: published, measured, derived, assumed" in message
    assert "Did you mean 'measured'?" in message


def test_assumed_without_a_range(device_error):
    message = device_error(clock(kind="assumed", more='note = "a guess"'))
    assert "kind 'assumed' without a range" in message
    assert "low and high" in message


def test_assumed_without_a_reason(device_error):
    assert "without a note" in device_error(clock(kind="assumed", more="low = 1\nhigh = 2e9"))


def test_derived_without_a_formula(device_error):
    assert "dram.clock_hz: has kind 'derived' without a formula" in device_error(clock(kind="derived"))


def test_formula_belongs_to_derived(device_error):
    message = device_error(clock(more='formula = "1 + 1"'))
    assert "has a formula but kind 'published'" in message


def test_half_a_range(device_error):
    assert "only one of low and high" in device_error(clock(more="low = 1"))


def test_value_outside_its_range(device_error):
    assert "value 1e+09 outside its range 2e+09 to 3e+09" in device_error(clock(more="low = 2e9\nhigh = 3e9"))


def test_unknown_source(device_error):
    message = device_error(clock().replace("lineage_wiki", "lineage_wik"))
    assert "dram.clock_hz.source: unknown reference 'lineage_wik'. Did you mean 'lineage_wiki'?" in message
    assert "[references.lineage_wik]" in message


def test_empty_source(device_error):
    assert "dram.clock_hz.source: is empty" in device_error(clock().replace("lineage_wiki", " , "))


def test_falling_clock_ladder(device_error):
    text = '[dram.levels_hz]\nvalue = [2e9, 1e9]\nunit = "Hz"\nkind = "measured"\nsource = "lineage_wiki"\n'
    assert "dram.levels_hz: must be a list of numbers in strictly rising order" in device_error(text)


def test_unknown_engine(device_error):
    assert "engines.npu: given 'npu'; allowed: cpu, gpu, tpu" in device_error('[engines.npu]\nname = "x"\n')


def test_unknown_base(device_error):
    message = device_error(old='base = "tensor_g4"', new='base = "tensor_g44"')
    assert "my_phone.toml:base: unknown SoC 'tensor_g44'. Did you mean 'tensor_g4'?" in message


def test_id_is_the_file_name(device_error):
    assert "my_phone.toml:id: must not stand in the file" in device_error(
        old="name =", new='id = "x"\nname ='
    )


def test_sustained_above_peak(device_error):
    text = (
        '[dram.sustained_bandwidth_bytes_per_s]\nvalue = 9e10\nunit = "B/s"\nkind = "measured"\n'
        'source = "lineage_wiki"\n'
    )
    message = device_error(text)
    assert "sustained_bandwidth_bytes_per_s above dram.peak_bandwidth_bytes_per_s" in message


def test_several_faults_come_together(device_error):
    message = device_error(clock(value="-1", unit="GHz", kind="wild"))
    assert len(message.splitlines()) == 2
    assert all(line.count("my_phone.toml:dram.clock_hz.") == 1 for line in message.splitlines())


def test_own_references_are_accepted(tmp_path):
    path = tmp_path / "my_phone.toml"
    own = '[references.my_lab]\ntitle = "Our own measurement"\n'
    text = packaged("devices", "pixel_9") + clock().replace("lineage_wiki", "my_lab") + own
    path.write_text(text, encoding="utf-8")
    device = load_device(str(path))
    assert device.id == "my_phone"
    assert device.dram.clock_hz.value == 1e9
    assert device.references["my_lab"].title == "Our own measurement"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = ", "is not valid TOML"),
        ("", "dram: is missing"),
        ('name = "a"\nname = "b"', "is not valid TOML"),
    ],
)
def test_broken_files(tmp_path, text, said):
    path = tmp_path / "broken.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ProfileError, match=said):
        load_device_file(path)


def test_binary_file(tmp_path):
    path = tmp_path / "broken.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ProfileError, match="cannot be read as UTF-8"):
        load_device_file(path)


def test_no_such_file(tmp_path):
    with pytest.raises(ProfileError, match="no such file"):
        load_device(str(tmp_path / "absent.toml"))
    with pytest.raises(ProfileError, match="no such file"):
        load_runtime(str(tmp_path / "absent.toml"))


def test_unknown_ids_offer_the_nearest():
    with pytest.raises(
        UnknownProfileError, match=r"device: unknown device 'pixel9'\. Did you mean 'pixel_9'\?"
    ):
        load_device("pixel9")
    with pytest.raises(UnknownProfileError, match=r"Did you mean 'litert_lm_tpu'\?"):
        load_runtime("litertlm_tpu")


def test_runtime_engine(runtime_error):
    message = runtime_error('engine = "cpu"', 'engine = "cpus"')
    assert "my_stack.toml:engine: given 'cpus'; allowed: cpu, gpu, tpu, any. Did you mean 'cpu'?" in message


def test_runtime_bandwidth_above_peak(runtime_error):
    message = runtime_error("[mbu_large]\nvalue = 0.383838", "[mbu_large]\nvalue = 1.2")
    assert "mbu_large.value: given 1.2, a number out of range; allowed: a number <= 1" in message


def test_runtime_without_a_curve(tmp_path):
    path = tmp_path / "my_stack.toml"
    text = packaged("runtimes", "tuned_cpu")
    path.write_text(text[: text.index("[verify_curve]")], encoding="utf-8")
    with pytest.raises(ProfileError, match="is not ideal and has no verify_curve"):
        load_runtime_file(path)


def test_runtime_curve_must_start_at_one(runtime_error):
    message = runtime_error("value = [[1, 1], [2, 1.3", "value = [[2, 1], [4, 1.3")
    assert "verify_curve" in message


def test_runtime_curve_range_needs_the_same_widths(runtime_error):
    message = runtime_error("low = [[1, 1], [2, 1.24]", "low = [[1, 1], [1.9, 1.24]")
    assert "verify_curve: has" in message


def test_only_ideal_may_leave_the_engine_open(runtime_error):
    assert "only an ideal runtime may leave the engine open" in runtime_error(
        'engine = "cpu"', 'engine = "any"'
    )


def test_ideal_and_curve_exclude_each_other(runtime_error):
    assert "never both" in runtime_error("ideal = false", "ideal = true")


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_only_finite_numbers_become_cited_values(number):
    def build():
        return CitedValue[float](value=number, unit="1", kind="published", source="x")

    if math.isfinite(number):
        assert build().value == number
    else:
        with pytest.raises(ValueError, match="finite"):
            build()


def test_nearest_and_unknown_without_a_candidate():
    assert nearest("zzz", ["alpha", "beta"]) == ""
    assert "Did you mean" not in str(unknown("here", "thing", "zzz", ["alpha"]))
    assert "Allowed: none." in str(unknown("here", "thing", "zzz", []))
