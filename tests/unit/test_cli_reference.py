"""Commands that need the reference: what they refuse before torch is needed, and what they say without it."""

from __future__ import annotations

import sys

import pytest


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
        assert "pip install 'draftscope[reference]'" in ran.err
        assert len(ran.err.splitlines()) == 1


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
