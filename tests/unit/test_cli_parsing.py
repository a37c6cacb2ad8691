"""Lists, ranges and assignments of the command line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.cli.app import run
from simulator.cli.parsing import assignments, names, number, share, whole_numbers
from simulator.errors import DraftscopeError, UnknownNameError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1-8", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("1,2,4", [1, 2, 4]),
        ("4", [4]),
        ("1-9+2", [1, 3, 5, 7, 9]),
        ("1-64*2", [1, 2, 4, 8, 16, 32, 64]),
        ("1-3,3,8", [1, 2, 3, 8]),
        (" 2 , 3 ", [2, 3]),
    ],
)
def test_ranges_as_in_llama_bench(text, expected):
    assert whole_numbers(text, where="--draft-length") == expected


@pytest.mark.parametrize("text", ["", "x", "1-", "-1", "3-1", "1.5", "1,,2", "1-3*1", "1-3+0", "nan"])
def test_bad_lists_say_where_what_and_how(text):
    with pytest.raises(DraftscopeError, match=r"--draft-length: .* given; allowed: whole numbers"):
        whole_numbers(text, where="--draft-length")


def test_minimum_is_kept():
    with pytest.raises(DraftscopeError, match="whole numbers >= 1"):
        whole_numbers("0-2", where="--batch", minimum=1)


@given(st.integers(0, 500), st.integers(0, 60))
def test_a_range_has_both_ends(first, more):
    found = whole_numbers(f"{first}-{first + more}", where="x")
    assert found == list(range(first, first + more + 1))


def test_names_drop_repetitions_and_spaces():
    assert names("a, b,a,,c") == ["a", "b", "c"]
    assert names(None) == []


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "x", ""])
def test_numbers_are_finite_and_not_negative(text):
    with pytest.raises(DraftscopeError, match="--prompt-tokens"):
        number(text, where="--prompt-tokens")


def test_share_takes_none():
    assert share("none", where="--max-overlap") is None
    assert share("0.2", where="--max-overlap") == 0.2
    with pytest.raises(DraftscopeError, match="<= 1"):
        share("1.2", where="--max-overlap")


@pytest.mark.parametrize(
    ("given_text", "axis"),
    [
        ("peak_bandwidth_bytes_per_s=1e9", "peak_bandwidth_bytes_per_s"),
        ("device.dram.peak_bandwidth_bytes_per_s=1e9", "peak_bandwidth_bytes_per_s"),
        ("device.dram.energy_per_byte_j=1e9", "dram_energy_per_byte_j"),
        ("device.dram.phy_energy_per_byte_j=1e9", "phy_energy_per_byte_j"),
        ("runtime.mbu_large=1e9", "mbu_large"),
        ("draft_mbu_large=1e9", "draft_mbu_large"),
    ],
)
def test_set_finds_the_axis(given_text, axis):
    assert assignments([given_text]) == {axis: 1e9}


def test_set_errors():
    assert assignments(None) is None
    with pytest.raises(DraftscopeError, match="name=number"):
        assignments(["mbu_large"])
    with pytest.raises(UnknownNameError, match="'mbu_large'"):
        assignments(["mbu_larg=1"])
    with pytest.raises(DraftscopeError, match="mbu_large given twice; allowed: one value"):
        assignments(["mbu_large=0.5", "runtime.mbu_large=0.6"])
    with pytest.raises(DraftscopeError, match="macs_per_s_scale"):
        assignments(["macs_per_s=1"])
    with pytest.raises(DraftscopeError, match="--prompt-tokens"):
        assignments(["prompt_tokens=1"])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('device = true\ntarget = "smollm2_135m"', "device: True given"),
        ("draft_length = {a = 1}", "draft_length: {'a': 1} given"),
        ("output_tokens = " + "9" * 40, "more than 12 digits"),
        ('device = "pixel_9"\ntarget = "smollm2_135m"\nprompt_tokens = 3\noutput_tokens = -1', "'-1' given"),
        ("transfer = 1", "transfer: 1 given; allowed: true or false"),
    ],
)
def test_faults_of_a_scenario_name_its_file(tmp_path, capsys, line, said):
    path = tmp_path / "mine.toml"
    path.write_text(line + "\n")
    assert run(["simulate", str(path)]) == 2
    err = capsys.readouterr().err
    assert said in err and "mine.toml" in err and "Traceback" not in err


@pytest.mark.parametrize(
    "more",
    [
        ["--draft-length", "999999999"],
        ["--draft-length", "9" * 100],
        ["--prompt-tokens", "1e308"],
        ["--output-tokens", "1e12"],
    ],
)
def test_numbers_beyond_any_request_are_refused(capsys, more):
    case = ["predict", "--device", "pixel_9", "--target", "smollm2_135m", "--drafter", "smollm2_mtp_head",
            "--acceptance-rate", "0.7", "--prompt-tokens", "10", "--output-tokens", "20"]  # fmt: skip
    name = more[0]
    given = case[: case.index(name)] + case[case.index(name) + 2 :] if name in case else case
    assert run([*given, *more]) == 2
    assert "allowed" in capsys.readouterr().err


def test_endless_nesting_is_one_line(tmp_path, capsys):
    path = tmp_path / "deep.json"
    path.write_text("[" * 100_000)
    assert run(["predict", "--device", "pixel_9", "--target", str(path), "--prompt-tokens", "1",
                "--output-tokens", "2"]) == 2  # fmt: skip
    assert capsys.readouterr().err.count("\n") == 1
