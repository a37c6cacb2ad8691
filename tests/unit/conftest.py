"""Fixtures of the studies and of the command line: traces as if shipped, and a runner of commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def sample_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of sample traces."""
    from tests.study_samples import DRAFTERS, write_sample

    folder = tmp_path_factory.mktemp("traces")
    for drafter in DRAFTERS:
        write_sample(folder, drafter)
    return folder


@pytest.fixture
def shipped(sample_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The samples stand in for the shipped traces; gives the folder of their target."""
    from simulator.acceptance import trace as trace_files
    from tests.study_samples import TARGET

    trace_files.load_shipped.cache_clear()
    monkeypatch.setattr(trace_files, "_shipped_folder", lambda: sample_folder)
    yield sample_folder / TARGET
    trace_files.load_shipped.cache_clear()


@pytest.fixture
def nothing_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installation without traces."""
    from simulator.acceptance import trace as trace_files

    trace_files.load_shipped.cache_clear()
    monkeypatch.setattr(trace_files, "_shipped_folder", lambda: tmp_path / "none")
    yield
    trace_files.load_shipped.cache_clear()


@pytest.fixture
def draftscope(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run a command in this process."""
    from simulator.cli.app import run

    def call(*arguments: object) -> Ran:
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ran(code=code, out=captured.out, err=captured.err)

    return call
