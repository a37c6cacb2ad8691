"""``draftscope profiles list`` of names, and how ``diff``, ``check`` and errors of profiles read."""

from __future__ import annotations

import json

import pytest

from simulator.acceptance.published import list_published, load_published
from simulator.drafters import list_drafters
from simulator.specs import list_targets, load_target

NAMES = {"targets": list_targets(), "drafters": list_drafters(), "acceptances": list_published()}


@pytest.mark.parametrize("sort", NAMES)
def test_every_name_is_listed(draftscope, sort):
    ran = draftscope("profiles", "list", sort, "-o", "json")
    found = json.loads(ran.out)["rows"]
    assert sorted(row["id"] for row in found) == sorted(NAMES[sort])
    assert len({tuple(row) for row in found}) == 1
    table = draftscope("profiles", "list", sort).out
    assert all(f"| {name} " in table for name in NAMES[sort])


def test_numbers_of_the_lists_are_those_of_the_files(draftscope):
    targets = {
        row["id"]: row
        for row in json.loads(draftscope("profiles", "list", "targets", "-o", "json").out)["rows"]
    }
    spec = load_target("gemma_4_e2b")
    assert targets["gemma_4_e2b"]["weight_bytes"] == pytest.approx(spec.weight_bytes())
    assert targets["gemma_4_e2b"]["max_context"] == 131072
    assert all(load_target(f"gemma_4_e2b@{build}") for build in targets["gemma_4_e2b"]["builds"])
    rows = json.loads(draftscope("profiles", "list", "acceptances", "-o", "json").out)["rows"]
    lengths = {row["id"]: row["mean_acceptance_length"] for row in rows}
    assert lengths["gemma_4_e4b_speed_bench_qa"] == {"3": pytest.approx(2.2314), "7": pytest.approx(2.59)}
    assert {row["publication"] for row in rows} == {
        load_published(name).sources[0] for name in list_published()
    }


def test_a_misspelt_list_offers_all(draftscope):
    ran = draftscope("profiles", "list", "target")
    assert ran.code == 2
    assert "'targets'" in ran.err
    assert "acceptances" in ran.err


@pytest.mark.parametrize("pair", [("pixel_9", "pixel_10"), ("litert_lm_tpu", "litert_lm_cpu")], ids=" ".join)
def test_differences_fit_the_terminal(draftscope, monkeypatch, pair):
    monkeypatch.setenv("COLUMNS", "90")
    lines = draftscope("profiles", "diff", *pair).out.splitlines()
    assert lines[0] == f"{pair[0]} -> {pair[1]}"
    assert max(map(len, lines)) <= 90
    assert (
        draftscope("profiles", "diff", pair[0], pair[0]).out
        == f"No difference between {pair[0]} and {pair[0]}.\n"
    )


def test_faults_of_a_profile_are_one_line_and_the_check_lists_them_all(draftscope, tmp_path):
    path = tmp_path / "my_phone.toml"
    path.write_text('base = "tensor_g4"\nname = 3\n')
    listed = draftscope("profiles", "check", path)
    assert listed.code == 1
    faults = listed.out.splitlines()
    assert len(faults) > 2
    assert all(line.count(str(path)) == 1 for line in faults)
    ran = draftscope("predict", "--device", path, "--target", "gemma_4_e2b", "--prompt-tokens", "9",
                     "--output-tokens", "9")  # fmt: skip
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
    assert f"{len(faults) - 1} more: draftscope profiles check {path}" in ran.err


def test_a_range_that_is_none_is_not_printed(draftscope):
    rows = json.loads(draftscope("profiles", "show", "litert_lm_tpu", "-o", "json").out)["rows"]
    shown = " ".join(draftscope("profiles", "show", "litert_lm_tpu").out.split())
    empty = [row for row in rows if row["low"] is not None and row["low"] == row["value"] == row["high"]]
    ranged = [row for row in rows if row["low"] is not None and row["low"] != row["value"]]
    assert ranged
    for row in empty:
        assert " [" not in shown.partition(f"- {row['key']} = ")[2].partition(" (")[0]
    assert all(
        " [" in shown.partition(f"- {row['key']} = ")[2].partition(f"({row['kind']}")[0] for row in ranged
    )
