"""``draftscope profiles``: what there is, every number, what differs, whether all is well-formed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import hw_profiles
from hw_profiles import list_devices, list_runtimes


def rows(ran):
    assert ran.code == 0, ran.err
    return json.loads(ran.out)["rows"]


def test_list_has_every_profile(draftscope):
    found = rows(draftscope("profiles", "list", "-o", "json"))
    assert [row["id"] for row in found] == [*list_devices(), *list_runtimes()]
    text = draftscope("profiles", "list").out
    assert "pixel_9" in text
    assert "ideal" in text


def test_show_has_kind_and_source_of_every_number(draftscope):
    for name in ("pixel_9", "litert_lm_tpu"):
        found = rows(draftscope("profiles", "show", name, "-o", "json"))
        assert all(row["kind"] in hw_profiles.KINDS and row["source"] for row in found)
    text = draftscope("profiles", "show", "pixel_9").out
    assert "dram.peak_bandwidth_bytes_per_s" in text
    assert "http" in draftscope("profiles", "show", "pixel_9", "--sources").out


def test_diff_shows_ratios(draftscope):
    found = rows(draftscope("profiles", "diff", "pixel_9", "pixel_10", "-o", "json"))
    ratios = {row["key"]: row["ratio"] for row in found}
    assert ratios["dram.peak_bandwidth_bytes_per_s"] > 1
    assert "| key" in draftscope("profiles", "diff", "pixel_9", "pixel_10").out
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
