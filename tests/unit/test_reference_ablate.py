"""Ablations: variants are run once, a killed run goes on, the table composes conditional acceptance."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")

from reference_impl import ablate as module  # noqa: E402
from reference_impl.drafters.mtp_head import MTPHead  # noqa: E402
from reference_impl.warm_start import warm_start  # noqa: E402
from tests.reference_samples import KV_LAYERS, tiny_head, tiny_target, write_features  # noqa: E402

TARGET = tiny_target()


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Two folders of shards of the tiny target, and heads that fit it."""

    def build(name, target, ids, store, *, changes=None):
        torch.manual_seed(0)
        head = MTPHead(tiny_head(target.backbone, draft_vocab=40).config, ids, max_positions=512)
        if store is not None:
            warm_start(head, target.backbone, store, sequences=10)
        return head

    monkeypatch.setattr(module, "build_drafter", build)
    monkeypatch.setattr(module, "draft_vocabulary", lambda *_: torch.arange(57, 97))
    monkeypatch.setitem(module.HEAD_DIMS, "kv_layers", KV_LAYERS)
    variants = {"base": {}, "from_noise": {"warm": False}, "half": {"positions": 0.5}}
    monkeypatch.setattr(module, "VARIANTS", variants)
    for name in ("train", "test"):
        write_features(TARGET.backbone, tmp_path / name)
    return tmp_path / "train", tmp_path / "test"


def test_variants_are_scored_and_a_killed_run_goes_on(folders, tmp_path):
    out = tmp_path / "results" / "ablations.json"
    seen = []

    def stop(line):
        seen.append(line)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        module.ablate(TARGET, *folders, out, positions=200, report=stop)
    first = json.loads(out.read_text())
    assert list(first) == ["base", "from_noise"]
    results = module.ablate(TARGET, *folders, out, positions=200)
    assert {name: results[name] for name in first} == first
    assert results["half"]["positions"] == 100
    assert all(0 <= rate <= 1 for rate in results["half"]["tasks"]["toy"])
    assert module.table(results).count("\n") == 4


def test_table_composes_conditional_acceptance():
    results = {"base": {"parameters": 7000, "positions": 30, "tasks": {"code": [0.5, 0.5, 0.0, 0.9]}}}
    assert module.table(results).splitlines()[-1] == "| base | 7,000 | 30 | 1.75 |"  # 1 + 1/2 + 1/4


def test_missing_results_and_half_of_the_folders(tmp_path, capsys):
    for arguments in (["--out", str(tmp_path / "none.json")], ["--train", str(tmp_path)]):
        with pytest.raises(SystemExit) as left:
            module.main(arguments)
        assert left.value.code == 2
    assert "give --train and --test" in capsys.readouterr().err


def test_the_shipped_results_are_printed(capsys):
    module.main([])
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("| base | 7,156,224 | 30,000 |")
    shipped = json.loads(module.RESULTS.read_text())
    assert set(shipped) <= set(module.VARIANTS)
    assert len(lines) == 2 + len(shipped)
