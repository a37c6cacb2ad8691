"""``draftscope profiles``: what there is, every number, what differs, whether all is well-formed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import hw_profiles
from hw_profiles import list_curves, list_devices, list_runtimes
from hw_profiles.references import references


def rows(ran):
    assert ran.code == 0, ran.err
    return json.loads(ran.out)["rows"]


def test_list_has_every_profile(draftscope):
    found = rows(draftscope("profiles", "list", "-o", "json"))
    assert [row["id"] for row in found] == [*list_devices(), *list_runtimes(), *list_curves()]
    text = draftscope("profiles", "list").out
    assert "pixel_9" in text
    assert "ideal" in text
    assert "g5_gpu_f16" in text


@pytest.mark.parametrize(
    ("sort", "names"), [("devices", list_devices()), ("runtimes", list_runtimes()), ("curves", list_curves())]
)
def test_list_of_one_sort(draftscope, sort, names):
    found = rows(draftscope("profiles", "list", sort, "-o", "json"))
    assert [row["id"] for row in found] == list(names)
    text = draftscope("profiles", "list", sort).out
    assert sum(line.startswith("| --") for line in text.splitlines()) == 1


def test_curves_are_listed_with_their_ratios(draftscope):
    found = {row["id"]: row for row in rows(draftscope("profiles", "list", "curves", "-o", "json"))}
    curve = found["g5_gpu_f16"]
    assert curve["kernel_family"] == "vulkan_f16_per_row"
    assert curve["verify_cost_ratio"][1] == [2, pytest.approx(30.21 / 14.51)]


def test_a_curve_is_shown_with_its_source(draftscope):
    text = " ".join(draftscope("profiles", "show", "g5_gpu_f16", "--sources").out.split())
    assert "points = (1, 14.51), (2, 30.21), (4, 86.77) ms (measured: pixel10_ffn_dvfs)" in text
    assert "verify_cost_ratio = (1, 1), (2, 2.082), (4, 5.98)" in text
    assert "Pixel 10 Pro FFN worker" in text


def test_show_has_kind_and_source_of_every_number(draftscope):
    for name in ("pixel_9", "litert_lm_tpu"):
        found = rows(draftscope("profiles", "show", name, "-o", "json"))
        assert all(row["kind"] in hw_profiles.KINDS and row["source"] for row in found)
    text = draftscope("profiles", "show", "pixel_9").out
    assert "dram.peak_bandwidth_bytes_per_s" in text


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("name", ["pixel_9", "pixel_10_pro", "litert_lm_tpu"])
def test_sources_are_paragraphs_as_wide_as_the_terminal(draftscope, monkeypatch, name, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    text = draftscope("profiles", "show", name, "--sources").out
    for line in text.splitlines():
        assert len(line) <= columns or " " not in line.strip()
    values, _, sources = text.partition("\nSources\n")
    found = rows(draftscope("profiles", "show", name, "-o", "json"))
    flat = " ".join(values.split())
    assert all(f"- {row['key']} = " in flat and f"{row['kind']}: {row['source']})" in flat for row in found)
    paragraphs = [" ".join(each.split()) for each in sources.strip().split("\n\n")]
    keys = list(dict.fromkeys(key.strip() for row in found for key in row["source"].split(",")))
    assert len(paragraphs) == len(keys)
    for paragraph, key in zip(paragraphs, keys, strict=True):
        entry = references()[key]
        assert paragraph.startswith(f"- {key}: ")
        assert paragraph.endswith(
            f"<{entry.url}>" if entry.url else f"[{entry.howpublished or 'no address known'}]"
        )


def test_own_judgement_is_this_project_and_not_an_unknown_address(draftscope):
    out = " ".join(draftscope("profiles", "show", "pixel_9", "--sources").out.split())
    for key in ("draftscope_judgement", "draftscope_arithmetic"):
        paragraph = out.partition(f"- {key}: ")[2].partition(" - ")[0]
        assert paragraph.endswith("[this project]")
    own = [key for key in references() if key.startswith("draftscope_")]
    assert all(references()[key].howpublished == "this project" for key in own)


def test_a_file_that_builds_on_a_runtime_is_a_runtime(draftscope, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('base = "litert_lm_cpu"  # four threads\nname = "Mine"\n')
    assert draftscope("profiles", "check", path).code == 0
    assert "mbu_large" in draftscope("profiles", "show", path).out


def test_diff_shows_ratios(draftscope):
    found = rows(draftscope("profiles", "diff", "pixel_9", "pixel_10", "-o", "json"))
    ratios = {row["key"]: row["ratio"] for row in found}
    assert ratios["dram.peak_bandwidth_bytes_per_s"] > 1
    assert "- dram.peak_bandwidth_bytes_per_s: " in draftscope("profiles", "diff", "pixel_9", "pixel_10").out
    assert rows(draftscope("profiles", "diff", "pixel_9", "pixel_9", "-o", "json")) == []


def test_check_passes_for_what_is_shipped(draftscope):
    ran = draftscope("profiles", "check")
    assert (ran.code, ran.out) == (0, "No problem found.\n")


def test_check_fails_for_a_broken_file(draftscope, tmp_path):
    source = Path(hw_profiles.__file__).parent / "runtimes" / "ideal.toml"
    path = tmp_path / "mine.toml"
    shutil.copy(source, path)
    path.write_text(path.read_text().replace("ideal = true", "idea = true"))
    ran = draftscope("profiles", "check", path)
    assert ran.code == 1
    assert "idea" in ran.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("show", "pixel9"), ("pixel9", "'pixel_9'")),
        (("show", "g5_gpu_f61"), ("g5_gpu_f61", "'g5_gpu_f16'")),
        (("list", "curvs"), ("curvs", "'curves'", "drafters, runtimes")),
        (("diff", "g5_gpu_f16", "g5_cpu_f16"), ("g5_gpu_f16", "two devices or two runtimes")),
        (("show", "missing.toml"), ("missing.toml",)),
        (("diff", "pixel_9", "ideal"), ("device and a runtime",)),
        (("show",), ("profile",)),
        (("lst",), ("lst", "list")),
    ],
    ids=lambda value: " ".join(value),
)
def test_bad_names_are_one_clear_error(draftscope, arguments, words):
    ran = draftscope("profiles", *arguments)
    assert ran.code == 2
    assert ran.out == ""
    for word in words:
        assert word in ran.err


def test_check_of_a_missing_file_says_so(draftscope, tmp_path):
    ran = draftscope("profiles", "check", tmp_path / "missing.toml")
    assert ran.code == 2
    assert "missing.toml: no such file" in ran.err


@pytest.mark.parametrize("command", [("show",), ("check",), ("diff", "pixel_9")])
def test_a_folder_and_a_missing_file_are_named(draftscope, tmp_path, command):
    folder = tmp_path / "folder.toml"
    folder.mkdir()
    for given, words in (
        (tmp_path, f"{tmp_path}: is a folder; needed: "),
        (folder, f"{folder}: is a folder; needed: "),
        (tmp_path / "nope.toml", f"{tmp_path / 'nope.toml'}: no such file"),
    ):
        ran = draftscope("profiles", *command, given)
        assert ran.code == 2
        assert words in ran.err and ran.err.count("\n") == 1


def test_check_of_an_unknown_name_is_wrong_usage(draftscope):
    for name, words in (("pixel9", "Did you mean 'pixel_9'?"), ("generic:1e99", "from 1 to 100000")):
        ran = draftscope("profiles", "check", name)
        assert (ran.code, ran.out) == (2, "")
        assert words in ran.err and len(ran.err.splitlines()) == 1
    assert draftscope("profiles", "check", "generic:120").code == 0


@pytest.mark.parametrize(
    ("name", "sort"),
    [
        ("gemma_4_e2b", "targets"),
        ("gemma_4_e2b_assistant", "drafters"),
        ("gemma_4_e4b_speed_bench_coding", "acceptances"),
    ],
)
@pytest.mark.parametrize("command", [["show"], ["check"], ["diff", "pixel_9"]])
def test_a_name_of_another_list_says_which(draftscope, command, name, sort):
    ran = draftscope("profiles", *command, name)
    assert (ran.code, ran.out) == (2, "")
    assert f"{name}: is one of the {sort}, see draftscope profiles list {sort}" in ran.err
