"""The atlas of verify curves: what a file may say, how it is converted, averaged, listed and drawn."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hw_profiles import (
    ProfileError,
    UnknownProfileError,
    VerifyCurve,
    curve_families,
    family_curve,
    list_curves,
    list_devices,
    list_runtimes,
    load_curve,
    references,
)
from hw_profiles.curve_page import curve_page
from hw_profiles.verify_curves import curve_records, row_cost_table
from hw_profiles.views import check, show
from simulator.figures import curve_atlas

GOOD = """
device = "A phone"
engine = "gpu"
kernel_family = "my_kernels"
framework = "mine"
model = "one layer"
quant = "f16"
unit = "ms"
points = [[1, 10], [2, 12.5], [4, 30, 25, 40]]
kind = "measured"
source = "mine"
date = "2026-11"

[references.mine]
title = "My notes"
"""


def built(unit, points, **other):
    fields = {"id": "x", "device": "d", "engine": "cpu", "kernel_family": "k", "framework": "f", "model": "m",
              "quant": "q", "unit": unit, "points": tuple(map(tuple, points)), "kind": "measured",
              "source": "s", "date": "2026"}  # fmt: skip
    return VerifyCurve.model_validate({**fields, **other})


def ratios(curve):
    return [point.value for point in curve.verify_cost_ratio]


@pytest.fixture
def own_file(tmp_path):
    def write(text=GOOD):
        path = tmp_path / "mine.toml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def test_a_file_of_ones_own(own_file):
    curve = load_curve(own_file())
    assert curve.id == "mine"
    assert [tuple(point) for point in curve.verify_cost_ratio] == [
        (1, 1, 1, 1), (2, 1.25, 1.25, 1.25), (4, 3, 2.5, 4)
    ]  # fmt: skip
    assert curve.times_s == pytest.approx({1: 0.010, 2: 0.0125, 4: 0.030})
    assert curve.cliff == (2, 4)
    assert check(own_file()) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('unit = "ms"', 'unit = "msec"', r"mine.toml:unit: given 'msec'; allowed: s, ms.* Did you mean 'ms'"),
        ('quant = "f16"', 'quants = "f16"', r"mine.toml:quants: unknown key 'quants'. Did you mean 'quant'"),
        ('framework = "mine"\n', "", r"mine.toml:framework: is missing"),
        ("[[1, 10],", "[[2, 10],", r"rising widths, the first one 1"),
        ("[2, 12.5]", "[4, 12.5]", r"rising widths"),
        ("[2, 12.5]", "[2, 12.5, 12]", r"allowed: \[width, value\] or \[width, value, low, high\]"),
        ("[4, 30, 25, 40]", "[4, 30, 35, 40]", r"outside its own range"),
        ("[2, 12.5]", "[2, -1]", r"points\[1\]\[1\]: given -1, a negative number; allowed: a number > 0"),
        ('unit = "ms"', 'unit = "relative"', r"first point other than \[1, 1\]"),
        ('kind = "measured"', 'kind = "guessed"', r"mine.toml:kind: given 'guessed'; allowed: measured"),
        ('date = "2026-11"', 'date = "last week"', r"mine.toml:date: given 'last week'"),
        ('kernel_family = "my_kernels"', 'kernel_family = "My kernels"', r"mine.toml:kernel_family: given"),
        ('source = "mine"', 'source = "mines"', r"unknown reference 'mines'. Did you mean 'mine'"),
        ('engine = "gpu"', 'engine = "gpus"', r"mine.toml:engine: given 'gpus'; .* Did you mean 'gpu'"),
        ('device = "A phone"', 'device = "A phone"\ndevice_id = "pixel_99"', r"device_id: unknown device"),
        ('device = "A phone"', 'device = "A phone"\nid = "mine"', r"mine.toml:id: must not stand"),
        ("points = [[1, 10]", "points = [[1 10]", r"is not valid TOML"),
    ],
)
def test_files_that_are_refused(own_file, old, new, said):
    assert old in GOOD
    with pytest.raises(ProfileError, match=said):
        load_curve(own_file(GOOD.replace(old, new)))


def test_unknown_names_offer_the_nearest(tmp_path):
    with pytest.raises(UnknownProfileError, match="Did you mean 'g5_cpu_f16'"):
        load_curve("g5_cpu_f61")
    with pytest.raises(UnknownProfileError, match="Did you mean 'cuda_mmvq'"):
        family_curve("cuda_mmv")
    with pytest.raises(ProfileError, match="no such file"):
        load_curve(str(tmp_path / "absent.toml"))


TIMES = st.lists(st.floats(0.1, 100), min_size=2, max_size=6)


@given(TIMES)
def test_every_unit_gives_the_same_ratios(times):
    points = list(enumerate(times, start=1))
    one = times[0]
    in_units = {
        "ms": points,
        "s": [(w, 1e-3 * t) for w, t in points],
        "us": [(w, 1e3 * t) for w, t in points],
        "tokens/s": [(w, w / (1e-3 * t)) for w, t in points],
        "relative": [(w, t / one) for w, t in points],
        "amortization": [(1, 1.0), *((w, w * one / t) for w, t in points[1:])],
    }
    expected = [t / one for t in times]
    for unit, converted in in_units.items():
        curve = built(unit, converted)
        assert ratios(curve) == pytest.approx(expected, rel=1e-12), unit
        timed = unit in ("s", "ms", "us", "tokens/s")
        assert list(curve.times_s.values()) == pytest.approx([1e-3 * t for t in times] if timed else [])


@given(st.floats(1, 50), st.floats(1.01, 3))
def test_conversions_are_monotone(value, factor):
    """More time is a larger v; more tokens a second or rows saved is a smaller one."""
    for unit, rises in (("s", True), ("relative", True), ("tokens/s", False), ("amortization", False)):
        low, high = (ratios(built(unit, [(1, 1.0), (4, x)]))[1] for x in (value, value * factor))
        assert (low < high) is rises, unit


def test_ranges_of_inverse_units_keep_low_below_high():
    point = built("tokens/s", [(1, 10.0), (2, 16.0, 10.0, 20.0)]).verify_cost_ratio[1]
    assert tuple(point) == (2, 1.25, 1.0, 2.0)


def test_between_the_points_only_where_they_are_close():
    curve = built("ms", [(1, 1.0), (2, 2.0), (4, 6.0), (16, 18.0)])
    assert curve.at(3).value == pytest.approx(4.0)
    assert curve.at(16).value == 18.0
    assert curve.at(8) is None
    assert curve.at(32) is None


def test_a_cliff_is_the_steepest_jump():
    assert built("ms", [(1, 1.0), (2, 1.1), (8, 1.7), (9, 3.9), (10, 4.0)]).cliff == (8, 9)
    assert built("ms", [(1, 1.0), (2, 4.7), (3, 4.7)]).cliff == (1, 2)
    assert built("ms", [(1, 1.0), (2, 1.5), (3, 2.0), (4, 2.5)]).cliff is None
    assert built("ms", [(1, 1.0), (2, 1.001), (3, 1.01)]).cliff is None


# golden: typed in from the sources, not read back
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("g5_cpu_f16", {2: 19.829 / 20.235, 4: 21.697 / 20.235, 8: 35.423 / 20.235}),
        ("g5_gpu_f16", {2: 30.21 / 14.51, 4: 86.77 / 14.51}),
        ("g5_cpu_packed_tuned", {2: 8.03 / 6.03, 4: 17.24 / 6.03}),
        ("cuda_llama_34b_q8_0", {8: 8 * 34.67 / 160.81, 9: 9 * 34.67 / 80.38}),
        ("m4_metal_qwen3_8_27b_q3_k_xl", {8: 6.54}),
        ("m4_metal_qwen3_0_6b_bf16", {8: 8 / 4.99}),
        ("m4_metal_qwen3_0_6b_q4_0", {8: 8 / 1.66}),
        ("m3_ultra_mlx_glm_5_2", {2: 112 / 51}),
        ("m5_max_mlx_qwen3_8_27b", {4: 39.4 / 30.7, 8: 75.7 / 30.7}),
        ("iphone_17_pro_ane_gemma_4_e2b", {3: 31.5 / 32.3}),
        ("mlx_27b_mxfp8", {3: 1.84}),
        ("mlx_nemotron_30b_a3b", {2: 13.49 / 8.47, 8: 28.13 / 8.47}),
        ("cpu_f32_smollm2_135m", {2: 59 / 39, 3: 74 / 39, 4: 56 / 39, 5: 50 / 39}),
    ],
)
def test_golden_ratios(name, values):
    known = {point.width: point.value for point in load_curve(name).verify_cost_ratio}
    assert {width: known[width] for width in values} == pytest.approx(values)


def test_the_kernel_switch_of_llama_cpp_is_at_nine_rows():
    curve = load_curve("cuda_llama_34b_q8_0")
    assert curve.cliff == (8, 9)
    assert 1e3 * curve.times_s[8] == pytest.approx(49.7, abs=0.1)
    assert 1e3 * curve.times_s[9] == pytest.approx(112, abs=0.1)


@pytest.mark.parametrize("name", list_curves())
def test_every_curve_starts_at_one_and_names_its_sources(name):
    curve = load_curve(name)
    assert curve.verify_cost_ratio[0].value == 1
    assert curve.sources
    for key in curve.sources:
        assert key in references()
    assert check(name) == []
    assert all(point.low <= point.value <= point.high for point in curve.verify_cost_ratio)


def test_names_are_unique_over_all_sorts():
    names = [*list_devices(), *list_runtimes(), *list_curves()]
    assert len(names) == len(set(names))


def test_formulas_find_times_in_seconds():
    table = row_cost_table()
    assert table["g5_cpu_f16"] == pytest.approx(
        {"m1": 0.020235, "m2": 0.019829, "m4": 0.021697, "m8": 0.035423, "weight_bytes": 535e6}
    )
    assert "m4_metal_qwen3_8_27b_q3_k_xl" not in table


def test_a_family_of_one_curve_is_that_curve():
    average = family_curve("cpu_f16")
    curve = load_curve("g5_cpu_f16")
    assert average.widths == (1, 2, 4, 8)
    assert average.value == pytest.approx(ratios(curve))
    assert average.low == average.high == pytest.approx(average.value)


@pytest.mark.parametrize("family", curve_families())
def test_an_average_lies_within_its_spread(family):
    average = family_curve(family)
    assert average.value[0] == average.low[0] == average.high[0] == 1
    for value, low, high in zip(*average[1:], strict=True):
        assert low * (1 - 1e-12) <= value <= high * (1 + 1e-12)


def test_a_device_with_many_curves_counts_once():
    """cuda_float at width 8: two curves of the RTX 3090, one of the RTX 4090."""
    three_090 = (8 * 200.97 / 1178.45 * 8 * 379.20 / 2602.11) ** 0.5
    four_090 = 8 * 65.20 / 485.16
    average = dict(zip(*family_curve("cuda_float")[:2], strict=True))
    assert average[8] == pytest.approx((three_090 * four_090) ** 0.5)


def test_a_source_can_be_kept_out_of_its_own_prediction():
    whole = family_curve("mlx_quantized")
    without = family_curve("mlx_quantized", without_sources=["mlxcel_pr_1182"])
    assert dict(zip(whole.widths, whole.value, strict=True))[8] != pytest.approx(
        dict(zip(without.widths, without.value, strict=True))[8]
    )
    with pytest.raises(ProfileError, match="no curve without pixel10_ffn_kernels"):
        family_curve("cpu_f16", without_sources=["pixel10_ffn_kernels"])


def test_show_has_points_as_measured_and_converted():
    shown = {row.key: row for row in show("g5_gpu_f16")}
    assert shown["points"].value == ((1, 14.51), (2, 30.21), (4, 86.77))
    assert (shown["points"].unit, shown["points"].kind) == ("ms", "measured")
    assert shown["verify_cost_ratio"].value[1] == (2, pytest.approx(2.082, abs=1e-3))
    assert (shown["verify_cost_ratio"].kind, shown["verify_cost_ratio"].low) == ("derived", None)
    ranged = {row.key: row for row in show("mlx_27b_mxfp8")}["verify_cost_ratio"]
    assert ranged.high[1] == (3, 1.95)


def test_the_page_is_up_to_date(repo_root):
    page = (repo_root / "docs" / "reference" / "verify_curves.md").read_text(encoding="utf-8")
    assert page == curve_page(), "run python docs/build.py curves"
    assert set(re.findall(r"^\| `(\w+)` \| [^|]+ \| (?:cpu|gpu|npu|tpu) ", page, re.M)) == set(list_curves())


def test_the_example_of_the_page_is_valid(own_file):
    (example,) = re.findall(r"```toml\n(.*?)```", curve_page(), re.S)
    assert load_curve(own_file(example)).cliff is not None


def test_the_figure_shows_every_point():
    rows = curve_records(map(load_curve, list_curves()))
    figure = curve_atlas(rows, title="t", reading="r")
    drawn = {trace.name: trace for trace in figure.data if trace.mode == "lines+markers"}
    assert set(drawn) == set(list_curves())
    assert list(drawn["g5_gpu_f16"].x) == [1, 2, 4]
    assert list(drawn["g5_gpu_f16"].y) == pytest.approx([1, 30.21 / 14.51, 86.77 / 14.51])
    assert drawn["mlx_27b_mxfp8"].error_y.array[1] == pytest.approx(0.11)
    titles = [note.text for note in figure.layout.annotations if not str(note.xref).endswith("domain")]
    assert titles == list(dict.fromkeys(row["kernel_family"] for row in rows))
    assert "<script>" not in json.dumps(curve_atlas([{**rows[0], "device": "<script>"}]).to_plotly_json())
