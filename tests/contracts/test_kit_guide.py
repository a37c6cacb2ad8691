"""The commands of docs/guides/phone_kit.md, in order, with programs that stand in for those of a phone."""

from __future__ import annotations

import re
import shlex

import pytest

from simulator.cli.app import run
from tests.kit_samples import LLAMA_BENCH, programs, run_script


@pytest.fixture(scope="module")
def blocks(repo_root):
    """Commands of the page, and the names of the kits that its scripts run in."""
    text = (repo_root / "docs/guides/phone_kit.md").read_text()
    found = []
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", text, flags=re.S | re.M):
        lines = block.splitlines()
        if not language:
            found += [shlex.split(line)[1:] for line in lines if line.startswith("draftscope ")]
        found += [[name] for line in lines for name in re.findall(r"bash (my_\w+)/run\.sh", line)]
    return found


def test_the_guide_runs_from_prediction_to_verdict(blocks, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    phone = programs(tmp_path / "bin")
    fast = programs(tmp_path / "fast", llama_bench=LLAMA_BENCH.replace("40e6", "45e6"))
    assert [words[0] for words in blocks] == ["kit", "kit", "my_kit", "kit", "kit", "my_local_kit", "kit"]
    for words in blocks:
        if words[0] != "kit":
            done = run_script(tmp_path / words[0], fast if "local" in words[0] else phone)
            assert done.returncode == 0, done.stderr
            continue
        assert run(words) == 0, shlex.join(words)
        assert capsys.readouterr().out.startswith("# ")
    for name in ("my_kit", "my_local_kit"):
        assert list((tmp_path / name / "calibrated").glob("*.toml"))
