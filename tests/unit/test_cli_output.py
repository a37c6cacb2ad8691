"""Formats and files of the command line."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys

import numpy as np
import pytest

from simulator.cli.output import Output, interval, table
from simulator.errors import DraftscopeError, UnknownNameError
from simulator.units import rounded

ROWS = [{"a": 1, "b": "x|y", "c": None}, {"a": float("nan"), "b": ["p", "q"], "c": np.float64(2.5)}]


def emitted(output: str, capsys: pytest.CaptureFixture[str]) -> str:
    Output(output=output).emit(ROWS, command="test", markdown=lambda: "text", notes=["n"], extra={"more": 1})
    return capsys.readouterr().out


def test_json_is_one_document(capsys):
    found = json.loads(emitted("json", capsys))
    assert list(found) == ["command", "version", "more", "rows", "notes"]
    assert found["rows"] == [{"a": 1, "b": "x|y", "c": None}, {"a": None, "b": ["p", "q"], "c": 2.5}]


def test_jsonl_is_one_row_a_line(capsys):
    assert [json.loads(line)["c"] for line in emitted("jsonl", capsys).splitlines()] == [None, 2.5]


def test_csv_has_one_header_and_empty_cells(capsys):
    rows = list(csv.DictReader(io.StringIO(emitted("csv", capsys))))
    assert rows == [{"a": "1", "b": "x|y", "c": ""}, {"a": "", "b": '["p", "q"]', "c": "2.5"}]


def test_md_ends_with_one_newline(capsys):
    assert emitted("md", capsys) == "text\n"


def test_unknown_format_names_the_nearest():
    with pytest.raises(UnknownNameError, match="'jsonl'"):
        Output(output="jsonll").check()


def test_files_are_replaced_whole(tmp_path, capsys):
    path = tmp_path / "x.csv"
    path.write_text("old")
    Output(output="csv", out=str(path)).emit(ROWS, command="test", markdown=str)
    assert path.read_text().startswith("a,b,c\n")
    assert capsys.readouterr() == ("", f"wrote {path}\n")
    assert [each.name for each in tmp_path.iterdir()] == ["x.csv"]


def test_a_file_that_cannot_be_written_is_one_clear_error(tmp_path):
    with pytest.raises(DraftscopeError, match=r"--out .*missing/x\.csv: could not be written.*no folder"):
        Output(out=str(tmp_path / "missing" / "x.csv")).write("text")


def test_tables_are_padded_and_escape_bars():
    text = table(("name", "n"), [("a|b", "1"), ("c", "22")])
    lines = text.splitlines()
    assert len({len(line) for line in lines}) == 1
    assert r"a\|b" in lines[2]
    assert re.fullmatch(r"\| -+ \| -+: \|", lines[1])


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (float("nan"), "-"), (0.0, "0"), (1234.5, "1,234"), (12.345, "12.3"), (0.01234, "0.0123")],
)
def test_numbers_keep_their_digits(value, text):
    assert rounded(value) == text


def test_intervals():
    assert interval(1.234, 1.0, 2.0) == "1.23 [1.00..2.00]"
    assert interval(1.234, None, None) == "1.23"
    assert interval(None, 1.0, 2.0) == "-"


def test_a_closed_stdout_is_silence(repo_root):
    command = f"{sys.executable} -m simulator.cli profiles list targets >&-"
    ran = subprocess.run(["sh", "-c", command], cwd=repo_root, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
