"""Training on cached features: which inputs meet which labels, what an anchor may see, Ctrl-C and resume."""

from __future__ import annotations

import dataclasses
import hashlib

import pytest

torch = pytest.importorskip("torch")

from reference_impl import train as module  # noqa: E402
from reference_impl.drafters.mtp_head import MTPHead  # noqa: E402
from reference_impl.errors import ReferenceImplError  # noqa: E402
from reference_impl.features import FeatureStore  # noqa: E402
from reference_impl.train import TrainConfig, head_loss, make_labels, standalone_loss, train  # noqa: E402
from tests.reference_samples import (  # noqa: E402
    KV_LAYERS,
    VOCAB,
    tiny_backbone,
    tiny_head,
    tiny_standalone,
    write_features,
)

pytestmark = [
    pytest.mark.reference,
    # autocast runs the norms of a tiny model on a slower path and says so
    pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight:UserWarning"),
]

BACKBONE = tiny_backbone()
EMBEDDING = BACKBONE.weights.embedding
CONFIG = TrainConfig(positions=400, anchors_per_batch=120, unroll=2, warmup_batches=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("features")
    write_features(BACKBONE, path)
    return path


@pytest.fixture
def batch(folder):
    return FeatureStore(folder, KV_LAYERS).load(0, [0, 3, 5, 7])


@pytest.fixture
def steps(monkeypatch):
    """Inputs and results of every step of the head."""
    seen = []
    original = MTPHead.step

    def step(self, embedding, state, keys, values, mask, rotary):
        result = original(self, embedding, state, keys, values, mask, rotary)
        seen.append({"embedding": embedding, "state": state, "mask": mask, "rotary": rotary, "out": result})
        return result

    monkeypatch.setattr(MTPHead, "step", step)
    return seen


def loss_of(head, batch, config=CONFIG):
    columns = int((batch.last - batch.first).max()) + 1 + config.unroll
    labels = make_labels(batch, EMBEDDING, head.draft_ids, columns, config.hard_weight)
    return head_loss(head, batch, EMBEDDING, labels, config, torch.Generator().manual_seed(0)), labels


def test_pairing_position_and_visible_slots(batch, steps):
    """Anchor t: state h[t], token x[t+1], position t+1, KV [0, t]; the label of the first draft is x[t+2]."""
    head = tiny_head(BACKBONE)
    _, labels = loss_of(head, batch)
    first, second = steps
    for row in range(len(batch.tokens)):
        for t in range(int(batch.first[row]), int(batch.last[row]) + 1):
            column = t - int(batch.first[row])
            assert torch.equal(first["state"][row, column], batch.hidden[row, t])
            assert torch.equal(first["embedding"][row, column], EMBEDDING[batch.tokens[row, t + 1]])
            assert int(BACKBONE.lm_head(batch.hidden[row, t]).argmax()) == batch.tokens[row, t + 1]
            cos, _ = head.rotary(torch.tensor([[t + 1]]))
            assert torch.equal(first["rotary"][0][row, 0, column], cos[0, 0, 0])
            visible = first["mask"][row, 0, column] == 0
            assert torch.equal(visible, torch.arange(len(visible)) <= t)
            label = int(labels.argmax[row, column])
            truth = int(batch.tokens[row, t + 2])
            assert int(labels.ids[label]) == truth  # every token of the batch has a row
    assert second["state"].shape[1] < first["state"].shape[1]  # a subset of anchors goes deeper
    fed_back = first["out"].flatten(0, 1)
    for state in second["state"].flatten(0, 1):
        assert (fed_back == state).all(-1).any()


def test_an_anchor_sees_no_key_of_its_future(batch):
    """No mask leak in training: garbage behind an anchor's own slots changes nothing."""
    at = int(batch.first.max())
    single = dataclasses.replace(
        batch, first=torch.full_like(batch.first, at), last=torch.full_like(batch.last, at)
    )
    head = tiny_head(BACKBONE)
    (clean, _), _ = loss_of(head, single)
    for store in (single.keys, single.values):
        for tensor in store.values():
            tensor[:, :, at + 1 :] = 1e3
    (dirty, _), _ = loss_of(head, single)
    assert torch.equal(clean, dirty)
    for store in (single.keys, single.values):
        for tensor in store.values():
            tensor[:, :, at] = 1e3
    (changed, _), _ = loss_of(head, single)
    assert not torch.equal(clean, changed)


def test_a_padded_batch_equals_its_sequences_one_by_one(folder, steps):
    """Sequences of different lengths side by side do not touch each other."""
    store, head = FeatureStore(folder, KV_LAYERS), tiny_head(BACKBONE)
    rows = [0, 3, 5, 7]
    config = dataclasses.replace(CONFIG, unroll=1)
    together = store.load(0, rows)
    loss_of(head, together, config)
    batched = steps.pop()["out"]
    for i, row in enumerate(rows):
        alone = store.load(0, [row])
        loss_of(head, alone, config)
        features = steps.pop()["out"][0]
        count = int(alone.last[0] - alone.first[0]) + 1
        assert torch.equal(together.first[i], alone.first[0])
        torch.testing.assert_close(batched[i, :count], features[:count], rtol=1e-4, atol=1e-5)


def test_standalone_reads_the_pending_token_before_it_drafts(batch):
    """Its features at x[t+1] meet the label x[t+2], the same as the head's first draft."""
    model = tiny_standalone(BACKBONE, noise=0.0, draft_vocab=VOCAB)  # a copy of the target is always right
    index = torch.arange(VOCAB)
    columns = int((batch.last - batch.first).max()) + 1
    labels = make_labels(batch, EMBEDDING, index, columns + CONFIG.unroll, 0.5)
    _, ((correct, counted),) = standalone_loss(model, batch, labels)
    assert correct == counted == int((batch.last - batch.first + 1).sum())


@pytest.mark.parametrize("make", [tiny_head, tiny_standalone])
def test_only_the_drafter_is_trained(folder, make):
    def digest():
        total = hashlib.sha256()
        for tensor in (
            EMBEDDING,
            BACKBONE.weights.final_norm,
            *(t for w in BACKBONE.weights.layers for t in vars(w).values()),
        ):
            total.update(tensor.numpy().tobytes())
        return total.hexdigest()

    before = digest()
    model = make(BACKBONE, noise=0.5).train().requires_grad_(True)
    start = [p.detach().clone() for p in model.parameters()]
    result = train(model, FeatureStore(folder, KV_LAYERS), EMBEDDING, CONFIG)
    assert result["positions"] >= 400
    assert digest() == before
    assert not EMBEDDING.requires_grad
    assert all(torch.isfinite(p).all() for p in model.parameters())
    assert any(not torch.equal(a, p) for a, p in zip(start, model.parameters(), strict=True))


def test_ctrl_c_and_resume(folder, tmp_path, monkeypatch):
    """Interrupted in the third batch: the state is on disk, and the run goes on from there."""
    state = tmp_path / "run" / "state.safetensors"
    store = FeatureStore(folder, KV_LAYERS)
    head = tiny_head(BACKBONE, noise=0.5).train().requires_grad_(True)
    original, calls = module.head_loss, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(module, "head_loss", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(head, store, EMBEDDING, CONFIG, state_path=state)
    assert [p.name for p in state.parent.iterdir()] == ["state.safetensors"]
    kept = [p.detach().clone() for p in head.parameters()]

    fresh = tiny_head(BACKBONE, seed=5).train().requires_grad_(True)
    at_start = []

    def watching(model, *arguments):
        if not at_start:
            at_start.extend(p.detach().clone() for p in model.parameters())
        calls.append(1)
        return original(model, *arguments)

    monkeypatch.setattr(module, "head_loss", watching)
    calls.clear()
    result = train(fresh, store, EMBEDDING, CONFIG, state_path=state)
    assert all(torch.equal(a, b) for a, b in zip(kept, at_start, strict=True))
    whole = 400 / 120
    assert 1 <= len(calls) < whole + 1  # two batches were done before
    assert result["positions"] >= CONFIG.positions
    calls.clear()
    train(fresh, store, EMBEDDING, CONFIG, state_path=state)
    assert not calls  # a finished run has nothing left to do


def test_damaged_state(folder, tmp_path):
    state = tmp_path / "state.safetensors"
    state.write_bytes(b"cut")
    with pytest.raises(ReferenceImplError, match=r"state\.safetensors: not a readable safetensors file"):
        train(tiny_head(BACKBONE), FeatureStore(folder, KV_LAYERS), EMBEDDING, CONFIG, state_path=state)


def test_damaged_or_missing_features(tmp_path):
    with pytest.raises(ReferenceImplError, match="no feature shards"):
        FeatureStore(tmp_path, KV_LAYERS)
    write_features(BACKBONE, tmp_path, count=4, new_tokens=6)
    with pytest.raises(ReferenceImplError, match=r"layers \[5\] were not stored"):
        FeatureStore(tmp_path, (0, 5))
    shard = tmp_path / "0.safetensors"
    shard.write_bytes(shard.read_bytes()[:100])
    with pytest.raises(ReferenceImplError, match=r"0\.safetensors: not a readable feature shard"):
        FeatureStore(tmp_path, KV_LAYERS)
