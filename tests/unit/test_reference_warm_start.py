"""The warm start: fits on the target's own states, queries and keys, tested on a tiny random target."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from reference_impl.ablate import score  # noqa: E402
from reference_impl.backbone import rotate  # noqa: E402
from reference_impl.drafters.mtp_head import MTPHead  # noqa: E402
from reference_impl.features import FeatureStore  # noqa: E402
from reference_impl.warm_start import warm_start  # noqa: E402
from tests.reference_samples import KV_LAYERS, tiny_backbone, tiny_head, write_features  # noqa: E402

BACKBONE = tiny_backbone(3)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("features")
    write_features(BACKBONE, folder, count=120, new_tokens=30)
    return FeatureStore(folder, KV_LAYERS)


def blank(seed: int = 0) -> MTPHead:
    torch.manual_seed(seed)
    return MTPHead(tiny_head(BACKBONE).config, torch.arange(7, 97), max_positions=512)


def test_queries_of_a_pass_are_those_that_its_keys_met():
    """Rotated, they give the attention of the layer above an untouched pass."""
    tokens = torch.randint(0, 96, (1, 12), generator=torch.Generator().manual_seed(0))
    cache = BACKBONE.new_cache(capacity=12)
    queries = {1: tokens}
    seen = BACKBONE.forward(tokens, cache, 0, queries=queries)
    assert torch.equal(seen, BACKBONE.forward(tokens, BACKBONE.new_cache(capacity=12), 0))
    assert queries[1].shape == (1, 4, 12, 8) and list(queries) == [1]
    # the same matrix made the keys: with it, layer 0's queries follow from its input alone
    first = {0: tokens}
    BACKBONE.forward(tokens, BACKBONE.new_cache(capacity=12), 0, queries=first)
    layer = BACKBONE.weights.layers[0]
    x = BACKBONE.embed(tokens)
    normed = torch.nn.functional.rms_norm(x, (32,), layer.input_norm, 1e-5)
    expected = (normed @ layer.qkv[:32].T).view(1, 12, 4, 8).transpose(1, 2)
    torch.testing.assert_close(first[0], expected, rtol=1e-4, atol=1e-5)
    assert rotate(first[0], BACKBONE._cos[:12], BACKBONE._sin[:12]).shape == first[0].shape


def test_a_warm_head_proposes_before_any_training(store):
    cold, warm = blank(), blank()
    warm_start(warm, BACKBONE, store, sequences=100)
    before, after = (score(h, store, BACKBONE.weights.embedding, depths=3)["toy"] for h in (cold, warm))
    assert before[0] < 0.1
    assert after[0] > 0.4 and after[0] > 5 * before[0]
    assert after[1] > before[1] and after[2] > before[2]


def test_a_warm_start_is_the_same_twice_and_keeps_the_target(store):
    first, second = blank(), blank()
    before = [w.qkv.clone() for w in BACKBONE.weights.layers]
    for head in (first, second):
        torch.manual_seed(5)
        warm_start(head, BACKBONE, store, sequences=20)
    for (name, a), b in zip(first.named_parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b), name
        assert torch.isfinite(a).all(), name
    assert all(torch.equal(a, w.qkv) for a, w in zip(before, BACKBONE.weights.layers, strict=True))
