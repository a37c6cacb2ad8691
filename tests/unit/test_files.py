"""Files are written whole or not at all, and nothing but a file is ever replaced."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hw_profiles.errors import ProfileError
from hw_profiles.reference_page import write_reference_page
from simulator.acceptance.parquet import write_table
from simulator.cli import main
from simulator.cli.output import Output, write_file
from simulator.errors import DraftscopeError
from simulator.figures.report import build_report
from simulator.files import check_target, whole_file
from simulator.results import Result

RESULT = Result(
    inputs={"device": "pixel_9"}, metrics={"speedup": np.float64(1.5)}, byte_ledger={}, ram_ledger={},
    energy_ledger={}, intervals={}, confidence="derived", references=(), inputs_digest="00", version="0",
)  # fmt: skip
WRITERS: dict[str, Callable[[Path], object]] = {
    "write_file": lambda path: write_file(path, "text"),
    "Output": lambda path: Output(out=str(path)).check(),
    "to_json": RESULT.to_json,
    "to_markdown": RESULT.to_markdown,
    "to_parquet": RESULT.to_parquet,
    "write_table": lambda path: write_table(path, pa.table({"a": [1]})),
    "build_report": lambda path: build_report({}, out_path=path),
    "write_reference_page": write_reference_page,
}


def write(path: Path, text: str = "new") -> None:
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("name", WRITERS)
def test_no_writer_replaces_a_pipe_or_a_folder(name: str, tmp_path: Path) -> None:
    pipe, folder, link = tmp_path / "pipe", tmp_path / "folder", tmp_path / "link"
    os.mkfifo(pipe)
    folder.mkdir()
    link.symlink_to(pipe)
    for target in (pipe, folder, link):
        with pytest.raises((DraftscopeError, ProfileError), match=r"is .*; allowed: .*not exist yet"):
            WRITERS[name](target)
    assert stat.S_ISFIFO(pipe.stat().st_mode) and folder.is_dir() and link.is_symlink()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["folder", "link", "pipe"]


def test_the_command_line_says_so_with_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setattr(sys, "argv", ["draftscope", "compare", "--device", "pixel_9", "--out", str(pipe)])
    try:
        code: object = main()
    except SystemExit as stop:
        code = stop.code
    out, err = capsys.readouterr()
    assert code == 2 and out == ""
    assert f"--out {pipe}: is a pipe; allowed: a regular file" in err and "Traceback" not in err
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("old", ["old", None])
def test_a_link_stays_a_link(tmp_path: Path, old: str | None) -> None:
    file, link = tmp_path / "there" / "file", tmp_path / "link"
    file.parent.mkdir()
    if old:
        file.write_text(old, encoding="utf-8")
    link.symlink_to(file)
    write(link)
    assert link.is_symlink() and file.read_text(encoding="utf-8") == "new"
    assert list(file.parent.iterdir()) == [file]


def test_a_link_to_itself_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "link")
    with pytest.raises(DraftscopeError, match=r"could not be written.*symbolic links"):
        write(tmp_path / "link")


def test_folders(tmp_path: Path) -> None:
    with pytest.raises(DraftscopeError, match=r"new/x: could not be written.*there is no folder .*new"):
        write(tmp_path / "new" / "x")
    with whole_file(tmp_path / "new" / "x", make_folder=True) as temporary:
        temporary.write_text("text", encoding="utf-8")
    with pytest.raises(DraftscopeError, match="Not a directory"):
        check_target(tmp_path / "new" / "x" / "y")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS])
@pytest.mark.parametrize("failing", ["write", "replace"])
def test_a_write_that_fails_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, failing: str
) -> None:
    file = tmp_path / "file"
    file.write_text("old", encoding="utf-8")

    def fails(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    if failing == "replace":
        monkeypatch.setattr(os, "replace", fails)
    said = pytest.raises(DraftscopeError, match=f"nothing was changed: {os.strerror(code)}")
    with said, whole_file(file) as temporary:
        temporary.write_text("half", encoding="utf-8")
        if failing == "write":
            fails()
    assert file.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), whole_file(tmp_path / "file") as temporary:
        temporary.write_text("half", encoding="utf-8")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_name_as_long_as_the_system_allows(tmp_path: Path) -> None:
    write(tmp_path / ("x" * 255))
    assert [len(each.name) for each in tmp_path.iterdir()] == [255]


def test_parity_refuses_before_it_loads_anything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    from reference_impl.parity import main as parity

    with pytest.raises(SystemExit) as stop:
        parity(["--out", str(tmp_path)])
    assert stop.value.code == 2 and "is a folder; allowed" in capsys.readouterr().err
