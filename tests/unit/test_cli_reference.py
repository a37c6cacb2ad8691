"""Commands that need the reference: what they refuse before torch is needed, and what they say without it."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

import reference_impl

RUNNABLE = sorted(
    path.stem
    for path in Path(reference_impl.__file__).parent.glob("*.py")
    if re.search(r"^if __name__ == .__main__.:\n    main\(", path.read_text(), re.M)
)


@pytest.fixture
def without_torch(monkeypatch):
    """An installation without the extra."""
    for name in list(sys.modules):
        if name.partition(".")[0] == "reference_impl":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)


def test_a_missing_extra_says_the_command_that_helps(draftscope, without_torch, tmp_path, monkeypatch):
    features = tmp_path / "features"
    features.mkdir()
    for arguments in (
        ("trace", "collect", "--out", tmp_path / "traces"),
        (
            "train",
            "--drafter",
            "mtp_head",
            "--features",
            features,
            "--out",
            tmp_path / "x.safetensors",
            "--positions",
            "1",
        ),
    ):
        ran = draftscope(*arguments)
        assert ran.code == 2
        assert ".venv/bin/pip install -e '.[reference]'" in ran.err
        assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize("module", RUNNABLE)
def test_a_module_run_without_torch_says_the_remedy_in_one_line(module, without_torch, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [f"{module}.py"])
    with pytest.raises(SystemExit) as stop:
        runpy.run_module(f"reference_impl.{module}", run_name="__main__", alter_sys=True)
    printed = capsys.readouterr()
    assert stop.value.code == 2
    assert printed.out == ""
    assert printed.err.startswith("error: this needs the package 'torch'")
    assert ".venv/bin/pip install -e '.[reference]'" in printed.err
    assert len(printed.err.splitlines()) == 1


def test_the_modules_that_run_are_found():
    assert {"ablate", "parity", "pipeline"} <= set(RUNNABLE)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"--drafter": "mtp"}, ("--drafter", "'mtp_head'")),
        ({"--positions": "x"}, ("--positions", "whole numbers >= 1")),
        ({"--out": "x.pt"}, ("--out", ".safetensors")),
        ({"--features": "nowhere"}, ("--features", "nowhere")),
    ],
    ids=lambda value: " ".join(value),
)
def test_train_refuses_bad_input_at_once(draftscope, tmp_path, changes, words):
    options = {
        "--drafter": "mtp_head",
        "--features": str(tmp_path),
        "--positions": "10",
        "--out": str(tmp_path / "x.safetensors"),
        **changes,
    }
    ran = draftscope("train", *(part for option in options.items() for part in option))
    assert ran.code == 2
    for word in words:
        assert word in ran.err


def test_train_never_restarts_a_run_by_accident(draftscope, tmp_path):
    out = tmp_path / "x.safetensors"
    common = ("train", "--drafter", "mtp_head", "--features", tmp_path, "--positions", "10", "--out", out)
    assert "start the run without --resume" in draftscope(*common, "--resume").err
    out.with_suffix(".state.safetensors").write_bytes(b"x")
    assert "add --resume, or delete it" in draftscope(*common).err


def test_collect_refuses_bad_numbers_at_once(draftscope, tmp_path):
    ran = draftscope("trace", "collect", "--out", tmp_path, "--prompts", "0")
    assert ran.code == 2
    assert "--prompts" in ran.err
