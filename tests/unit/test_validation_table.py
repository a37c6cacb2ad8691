"""Tables of measured speedups: what is read, and what is refused with line and column."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.errors import DraftscopeError
from simulator.studies.validation import read_measurements, shipped_measurements

HEADER = (
    "id,device,framework,target_model,drafter_family,K,mean_tokens_per_pass,baseline_tps,spec_tps,speedup"
)
ROW = "a,RTX 3090,llama.cpp,Qwen,MTP head,2,2.5,40,60,"


def table(tmp_path, *rows, header=HEADER):
    path = tmp_path / "table.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_speedup_from_the_two_rates(tmp_path):
    (row,) = read_measurements(table(tmp_path, ROW))
    assert row.speedup == pytest.approx(1.5)
    assert (row.draft_length, row.mean_tokens_per_pass, row.weight_bytes) == (2.0, 2.5, None)
    assert not row.inconsistent


def test_more_gained_than_emitted_is_inconsistent(tmp_path):
    (row,) = read_measurements(table(tmp_path, ROW + "2.6"))
    assert row.inconsistent


def test_units_of_the_shipped_table():
    rows = {row.id: row for row in shipped_measurements()}
    assert len(rows) == 313
    assert rows["Q38-002"].bandwidth_bytes_per_s == 896e9
    assert rows["Q38-002"].target_params == 27e9
    assert rows["S26-01"].speedup == pytest.approx(1.7806)
    assert rows["S26-01"].without_answers(keep_baseline=False).baseline_tps is None
    assert [row.id for row in rows.values() if row.inconsistent] == ["PAP-002", "PAP-003", "PAP-004"]


@pytest.mark.parametrize(
    ("rows", "header", "said"),
    [
        ([], HEADER, "no rows"),
        ([ROW], HEADER.replace("device", "devices"), r":1: column 'device' is missing.*Nearest column there"),
        ([ROW, ROW], HEADER, r":3: id: 'a' stands in line 2"),
        ([ROW.replace(",2,", ",two,", 1)], HEADER, r":2: K: 'two' is not a number"),
        ([ROW.replace(",2,", ",2.5,", 1)], HEADER, r":2: K: 2.5 given; allowed: a whole number"),
        ([ROW.replace("40", "nan")], HEADER, r":2: baseline_tps: nan given; allowed"),
        ([ROW.replace("40", "-4")], HEADER, r":2: baseline_tps: -4 given"),
        ([ROW.replace("60", "inf")], HEADER, r":2: spec_tps: inf given"),
        ([ROW.replace("2.5", "0.5")], HEADER, r":2: mean_tokens_per_pass: 0.5 given; allowed: a number"),
        ([ROW + ",more"], HEADER, r":2: the row has another number of cells"),
        ([ROW + ",3"], HEADER + ",K", r":1: column 'K' stands twice"),
        ([ROW.replace(",", ";")], HEADER.replace(",", ";"), r"separated by commas"),
        ([ROW.replace("40", "1e-308")], HEADER, r":2: baseline_tps: 1e-308 given"),
        ([f"{n}{ROW}" for n in range(2001)], HEADER, r"2001 rows; allowed: 2000"),
        (["," + ROW[2:]], HEADER, r":2: id: is empty"),
        ([ROW + ",D"], HEADER + ",clean_pair", r":2: clean_pair: unknown name 'D'"),
    ],
)  # fmt: skip
def test_bad_tables_say_line_and_column(tmp_path, rows, header, said):
    with pytest.raises(DraftscopeError, match=said):
        read_measurements(table(tmp_path, *rows, header=header))


def test_files_that_are_no_tables(tmp_path):
    with pytest.raises(DraftscopeError, match="no such file"):
        read_measurements(tmp_path / "missing.csv")
    with pytest.raises(DraftscopeError, match="cannot be read"):
        read_measurements(tmp_path)
    empty = tmp_path / "empty.csv"
    empty.write_bytes(b"")
    with pytest.raises(DraftscopeError, match="column 'id' is missing"):
        read_measurements(empty)
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(DraftscopeError, match="UTF-8"):
        read_measurements(binary)


@given(data=st.binary(max_size=300))
def test_any_bytes_give_rows_or_one_clear_error(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("fuzz") / "x.csv"
    path.write_bytes(data)
    try:
        rows = read_measurements(path)
    except DraftscopeError as error:
        assert str(path) in str(error)
    else:
        assert rows
