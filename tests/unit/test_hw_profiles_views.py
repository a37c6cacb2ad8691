"""Showing, comparing and checking profiles; reference list, formulas and measurement tables behind them."""

from __future__ import annotations

from importlib.resources import files

import pytest

from hw_profiles import ProfileError, UnknownProfileError, load_device, load_runtime, references
from hw_profiles.formula import evaluate
from hw_profiles.measurements import (
    COLLECTED_FILES,
    CSV_FILES,
    JSON_FILES,
    decode_table,
    facts,
    rows,
)
from hw_profiles.reference_page import reference_page, write_reference_page
from hw_profiles.references import parse_bibtex
from hw_profiles.verify_curves import load_curve, row_cost_table
from hw_profiles.views import check, diff, load_any, show


def text_of(folder: str, name: str) -> str:
    return (files("hw_profiles") / folder / f"{name}.toml").read_text(encoding="utf-8")


def test_show_lists_every_value_with_its_evidence():
    shown = {row.key: row for row in show("pixel_9")}
    ram = shown["ram_bytes"]
    assert (ram.value, ram.unit, ram.kind, ram.source) == (12 * 2**30, "B", "published", "lineage_wiki")
    assert shown["engines.tpu.peak_macs_per_s.int8"].unit == "MAC/s"
    assert shown["thermal.budgets[0].max_power_w"].value == 4.6
    assert len(shown) > 80


def test_show_spells_sources_out_on_request():
    assert all(row.titles == () for row in show("litert_lm_tpu"))
    rows_ = show("litert_lm_tpu", sources=True)
    assert all(row.titles for row in rows_)
    mbu = next(row for row in rows_ if row.key == "mbu_large")
    assert "relais" in mbu.titles[0] and "https://" in mbu.titles[0]


def test_show_accepts_a_loaded_profile():
    assert show(load_runtime("ideal")) == show("ideal")


def test_diff_of_a_profile_with_itself_is_empty():
    assert diff("pixel_9", "pixel_9") == []


def test_diff_names_what_differs():
    found = {row.key: row for row in diff("pixel_9", "pixel_10")}
    assert found["dram.peak_bandwidth_bytes_per_s"].ratio == pytest.approx(68.264 / 59.904)
    assert found["dram.clock_hz"].b is None
    assert "on_chip_energy_per_byte_j" not in found
    assert "ram_bytes" not in found or found["ram_bytes"].a == found["ram_bytes"].b


def test_diff_refuses_a_device_against_a_runtime():
    with pytest.raises(ProfileError, match="a device and a runtime"):
        diff("pixel_9", "ideal")


def test_diff_refuses_a_verify_curve():
    with pytest.raises(ProfileError, match="no verify curve"):
        diff("g5_gpu_f16", "ideal")


def test_load_any_knows_all_sorts_and_paths(tmp_path):
    assert load_any("pixel_9") is load_device("pixel_9")
    assert load_any("ideal") is load_runtime("ideal")
    assert load_any("g5_gpu_f16") is load_curve("g5_gpu_f16")
    device, runtime, curve = tmp_path / "d.toml", tmp_path / "r.toml", tmp_path / "c.toml"
    device.write_text(text_of("devices", "pixel_9"), encoding="utf-8")
    runtime.write_text(text_of("runtimes", "tuned_cpu"), encoding="utf-8")
    curve.write_text(text_of("verify_curves", "g5_gpu_f16"), encoding="utf-8")
    assert load_any(str(device)).id == "d"
    assert load_any(str(runtime)).id == "r"
    assert load_any(str(curve)).verify_cost_ratio == load_curve("g5_gpu_f16").verify_cost_ratio
    with pytest.raises(UnknownProfileError, match="Did you mean 'pixel_9'"):
        load_any("pixel9")
    with pytest.raises(ProfileError, match="no such file"):
        load_any(str(tmp_path / "absent.toml"))


def test_check_of_one_good_profile():
    assert check("pixel_10_pro") == []
    assert check("tuned_cpu") == []


def test_check_finds_a_value_that_left_its_formula(tmp_path):
    path = tmp_path / "phone.toml"
    text = text_of("devices", "pixel_9")
    path.write_text(text.replace("value = 65649.6", "value = 66_500"), encoding="utf-8")
    problems = check(str(path))
    assert [p.where for p in problems] == ["phone:battery.energy_j"]
    assert "differs from its formula by 1." in problems[0].message


def test_check_finds_a_formula_that_leads_nowhere(tmp_path):
    path = tmp_path / "phone.toml"
    text = text_of("devices", "pixel_9").replace("battery.capacity_mah / 1000", "battery.capacity / 1000")
    path.write_text(text, encoding="utf-8")
    (problem,) = check(str(path))
    assert "leads nowhere at 'capacity'" in problem.message


def test_check_finds_a_wrong_default_runtime(tmp_path):
    path = tmp_path / "phone.toml"
    text = text_of("devices", "pixel_9")
    path.write_text(text.replace('"litert_lm_tpu"', '"litert_lm_tpus"'), encoding="utf-8")
    (problem,) = check(str(path))
    assert "Did you mean 'litert_lm_tpu'" in problem.message
    path.write_text(text.replace('"litert_lm_tpu"', '"litert_lm_cpu_oryon"'), encoding="utf-8")
    (problem,) = check(str(path))
    assert "not stated to run on this device" in problem.message


def test_check_finds_a_wrong_device_in_a_runtime(tmp_path):
    path = tmp_path / "stack.toml"
    path.write_text(
        text_of("runtimes", "tuned_cpu").replace('devices = ["tensor_g5"', 'devices = ["tensor_g55"'),
        encoding="utf-8",
    )
    (problem,) = check(str(path))
    assert "unknown device or SoC 'tensor_g55'" in problem.message


def test_check_reports_a_broken_file_instead_of_raising(tmp_path):
    path = tmp_path / "phone.toml"
    path.write_text("name = ", encoding="utf-8")
    (problem,) = check(str(path))
    assert "is not valid TOML" in problem.message


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("1 + 2 * 3", 7.0),
        ("(1 - 3) / 4", -0.5),
        ("a.b * 2", 6.0),
        ("[[1, 1], [2, a.b / 2]]", ((1, 1), (2, 1.5))),
    ],
)
def test_formulas(formula, value):
    assert evaluate(formula, {"a": {"b": 3}}) == value


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("1 +", "is not arithmetic"),
        ("__import__('os')", "is not allowed"),
        ("a.b.__class__", "leads nowhere"),
        ("a", "is not one number"),
        ("2 ** 3", "is not allowed"),
        ("1 / 0", "divides by zero"),
        ("'x'", "is not allowed"),
        ("True", "is not allowed"),
        ("nowhere.b", "leads nowhere at 'nowhere'"),
    ],
)
def test_formulas_that_are_refused(formula, said):
    with pytest.raises(ProfileError, match=said):
        evaluate(formula, {"a": {"b": 3}})


def test_reference_list_is_readable():
    assert len(references()) > 60
    assert all(entry.title for entry in references().values())
    assert references()["google_frozen_mtp"].url.startswith("https://research.google/blog/")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("@misc{a,\n  title = {x},\n}\n@misc{a,\n  title = {y},\n}\n", "stands twice"),
        ("@misc{a,\n  url = {x},\n}\n", "has no title"),
        ("@misc{a,\n  title = {x},\n  pages = {1},\n}\n", "unknown field 'pages'"),
        ("@misc{a,\n  title = {x},\n", "1 entries begin but 0 could be read"),
    ],
)
def test_broken_reference_lists(text, said):
    with pytest.raises(ProfileError, match=said):
        parse_bibtex(text)


@pytest.mark.parametrize("name", CSV_FILES)
def test_measurement_rows_cite_known_sources(name):
    for row in rows(name):
        keys = [key.strip() for key in row["source"].split(",")]
        assert all(key in references() for key in keys), row
        assert row["kind"] in ("published", "measured", "derived", "assumed")


@pytest.mark.parametrize("name", JSON_FILES)
def test_fact_rows_cite_known_sources(name):
    found = facts(name)
    assert len({fact["id"] for fact in found}) == len(found)
    for fact in found:
        assert all(key.strip() in references() for key in fact["source"].split(",")), fact
        assert {"id", "what", "value", "unit", "kind"} <= set(fact)


@pytest.mark.parametrize("name", COLLECTED_FILES)
def test_collected_rows_name_their_source(name):
    assert all(row["source"].strip() for row in rows(name))


def test_ids_of_measurements_are_unique():
    for name in ("decode.csv", "s26_ultra_mtp.csv"):
        ids = [row["id"] for row in rows(name)]
        assert len(ids) == len(set(ids))


def test_unknown_measurement_table():
    with pytest.raises(ProfileError, match=r"allowed: decode\.csv"):
        rows("decodes.csv")
    with pytest.raises(ProfileError, match=r"allowed: energy\.json"):
        facts("decode.csv")


def test_tables_by_name():
    assert decode_table()["g5_tpu_gemma4_e2b"]["decode_tokens_per_s"] == 11.07
    assert "power_w" not in decode_table()["g5_tpu_gemma4_e2b"]
    assert row_cost_table()["g5_cpu_f16"]["m8"] == pytest.approx(0.035423)


def test_reference_page_is_up_to_date(repo_root):
    page = (repo_root / "docs" / "reference" / "profiles.md").read_text(encoding="utf-8")
    assert page == reference_page(), (
        "run hw_profiles.reference_page.write_reference_page(docs/reference/profiles.md)"
    )


def test_reference_page_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    target = tmp_path / "profiles.md"
    target.write_text("old", encoding="utf-8")

    def fail() -> str:
        raise OSError("disk is full")

    monkeypatch.setattr("hw_profiles.reference_page.reference_page", fail)
    with pytest.raises(OSError, match="disk is full"):
        write_reference_page(target)
    assert target.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [target]
