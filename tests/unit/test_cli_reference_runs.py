"""``draftscope trace collect`` and ``train`` on a tiny target: files written, interrupted, resumed."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from reference_impl import fetch, live, pipeline  # noqa: E402
from reference_impl import train as training_loop  # noqa: E402
from reference_impl.checkpoint import load_drafter, save_drafter  # noqa: E402
from reference_impl.responses import to_responses  # noqa: E402
from simulator.acceptance.trace import read_trace, write_responses  # noqa: E402
from tests.reference_samples import (  # noqa: E402
    KV_LAYERS,
    tiny_head,
    tiny_requests,
    tiny_target,
    write_features,
)

pytestmark = pytest.mark.reference

TARGET = tiny_target()


@pytest.fixture
def tiny(monkeypatch):
    """The tiny target in place of the real one, with lookups only."""
    monkeypatch.setattr(fetch, "load_target", lambda *_: TARGET)
    monkeypatch.setattr(live, "shipped_drafters", lambda *_: live.lookup_drafters())


@pytest.fixture
def texts(tmp_path):
    """Responses of the tiny target on disk."""
    path = tmp_path / "responses.parquet"
    write_responses(path, to_responses(TARGET, tiny_requests(TARGET.backbone, 4, 21)))
    return path


def test_collect_on_given_texts(draftscope, tiny, texts, tmp_path):
    ran = draftscope("trace", "collect", "--responses", texts, "--drafters", "ngram", "--out", tmp_path / "t")
    assert ran.code == 0, ran.err
    assert ran.out == ""
    trace = read_trace(tmp_path / "t" / "tiny" / "ngram.parquet")
    assert set(trace.tasks) == {"code", "chat"}
    assert trace.metadata.max_depth == 8
    ran = draftscope("trace", "summary", tmp_path / "t" / "tiny", "--no-bootstrap")
    assert ran.code == 0, ran.err
    assert "ngram on tiny" in ran.out


def test_collect_refuses_unknown_names_and_files(draftscope, tiny, texts, tmp_path):
    common = ("trace", "collect", "--responses", texts, "--out", tmp_path / "t")
    assert "'ngram'" in draftscope(*common, "--drafters", "ngramm").err
    ran = draftscope(*common, "--drafters", tmp_path / "none.safetensors")
    assert ran.code == 2
    assert "none.safetensors" in ran.err
    assert "'code'" in draftscope(*common, "--tasks", "codes").err


@pytest.fixture
def training(tiny, monkeypatch, tmp_path):
    """Arguments of a short run on the tiny target."""

    def build(*_, **__):
        return tiny_head(TARGET.backbone).requires_grad_(True).train()

    monkeypatch.setattr(pipeline, "build_drafter", build)
    monkeypatch.setitem(pipeline.HEAD_DIMS, "kv_layers", KV_LAYERS)
    monkeypatch.setattr(pipeline, "draft_vocabulary", lambda *_: torch.arange(90))
    write_features(TARGET.backbone, tmp_path / "features")
    return (
        "train", "--drafter", "mtp_head", "--features", tmp_path / "features", "--out",
        tmp_path / "head.safetensors",
    )  # fmt: skip


def test_training_writes_a_checkpoint_and_no_state(draftscope, training, tmp_path):
    ran = draftscope(*training, "--positions", "500")
    assert ran.code == 0, ran.err
    _, metadata = load_drafter(tmp_path / "head.safetensors", target_sha256=TARGET.sha256)
    assert metadata["id"] == "mtp_head"
    assert [path.name for path in tmp_path.glob("*.safetensors")] == ["head.safetensors"]


def test_ctrl_c_keeps_the_state_and_resume_goes_on(draftscope, training, tmp_path, monkeypatch):
    batches = iter(range(3))
    labels = training_loop.make_labels

    def stop(*arguments):
        if next(batches, None) is None:
            raise KeyboardInterrupt
        return labels(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(training_loop, "make_labels", stop)
        ran = draftscope(*training, "--positions", "1000000")
    assert ran.code == 130
    assert ran.err.splitlines()[-1].startswith("interrupted: ")
    assert "--resume" in ran.err
    state = tmp_path / "head.state.safetensors"
    assert state.exists()
    assert draftscope(*training, "--positions", "500").code == 2
    ran = draftscope(*training, "--positions", "500", "--resume")
    assert ran.code == 0, ran.err
    assert not state.exists()


def test_training_goes_on_from_a_checkpoint(draftscope, training, tmp_path):
    assert draftscope(*training, "--positions", "300").code == 0
    first = tmp_path / "head.safetensors"
    arguments = [*training[:-1], tmp_path / "second.safetensors", "--positions", "1"]
    assert draftscope(*arguments, "--start", first).code == 0
    near, _ = load_drafter(tmp_path / "second.safetensors")
    before, _ = load_drafter(first)
    fresh = tiny_head(TARGET.backbone)
    for name, weight in before.named_parameters():
        if name.endswith("query.weight"):
            moved = (near.get_parameter(name) - weight).norm()
            assert moved < 0.2 * (fresh.get_parameter(name) - weight).norm()


def test_a_start_of_other_dimensions_or_target_is_refused(draftscope, training, tmp_path):
    other = tiny_head(TARGET.backbone, draft_vocab=80)
    path = tmp_path / "other.safetensors"
    save_drafter(path, other, drafter_id="x", target_id="tiny", target_sha256=TARGET.sha256)
    ran = draftscope(*training, "--positions", "10", "--start", path)
    assert ran.code == 2
    assert "other.safetensors: given MTPHeadConfig" in ran.err
    save_drafter(path, other, drafter_id="x", target_id="tiny", target_sha256="aa")
    assert "trained for the target" in draftscope(*training, "--positions", "10", "--start", path).err
    assert draftscope(*training, "--positions", "10", "--start", tmp_path / "none.safetensors").code == 2
