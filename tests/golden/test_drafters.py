"""Drafter arithmetic against the published Gemma 4 assistant configurations.

P = 2Bd + dB + sum_l [2 d H h_l + 3 d ff + 4 d + h_l + 1] + d + V d (+ C d); published totals: 78 M and 78.8
M with the 262,144-entry ordering buffer, 839 MB and 939 MB in bf16, 422.86 M.
"""

import pytest

from simulator.drafters import build_drafter, list_drafters
from simulator.ops import ledger
from simulator.specs import load_target


def e2b(name="gemma_4_e2b_assistant"):
    return build_drafter(name, load_target("gemma_4_e2b@bf16"))


@pytest.mark.parametrize(
    ("name", "target", "total", "read"),
    [  # millions of parameters: total, read per draft step
        ("gemma_4_e2b_assistant", "gemma_4_e2b", 77.73, 11.67),
        ("gemma_4_e2b_assistant_dense", "gemma_4_e2b", 77.21, 77.2),
        ("gemma_4_e4b_assistant", "gemma_4_e4b", 78.52, 12.46),
        ("gemma_4_e4b_assistant_dense", "gemma_4_e4b", 77.99, 78.0),
        ("gemma_4_26b_a4b_assistant", "gemma_4_26b_a4b", 419.7, 419.7),
        ("gemma_4_31b_assistant", "gemma_4_31b", 469.5, 469.5),
    ],
)
def test_totals_and_reads(name, target, total, read):
    model = build_drafter(f"{name}@int8", load_target(target))
    assert model.params / 1e6 == pytest.approx(total, abs=0.02)
    assert model.draft_weight_bytes / 1e6 == pytest.approx(read, rel=5e-4)


def test_12b_assistant():
    """422.86 M; of the 12B target, whose rest is not published, hidden size and key heads enter."""
    base = load_target("gemma_4_31b")
    target = base.model_copy(
        update={"id": "gemma_4_12b", "hidden_size": 3840, "num_attention_heads": 16, "num_key_value_heads": 8}
    )
    spec = {
        "id": "gemma_4_12b_assistant", "family": "gemma4_assistant", "kind": "published",
        "targets": ["gemma_4_12b"],
        "hidden_size": 1024, "intermediate_size": 8192, "num_attention_heads": 16,
        "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
    }  # fmt: skip
    model = build_drafter(spec, target)
    assert model.params / 1e6 == pytest.approx(422.86, abs=0.01)


def test_e2b_parts():
    """Layers 8.918 M, table 67.109 M, projections 0.786 + 0.393 M, centroids 0.524 M, ordering 2.1 MB."""
    parts = {part.name: part for part in e2b().parts}
    assert parts["layers"].params / 1e6 == pytest.approx(8.918, abs=1e-3)
    assert parts["lm_head"].params == 262144 * 256
    assert parts["projections"].params == 2 * 1536 * 256 + 256 * 1536
    assert parts["centroids"].params == 2048 * 256
    assert parts["token_ordering"].resident_bytes == 8 * 262144
    assert parts["embedding"].resident_bytes == 0  # the target's


@pytest.mark.parametrize(
    ("precision", "mb", "dense_mb"), [("int4", 5.8, 38.6), ("int8", 11.7, 77.2), ("bf16", 23.3, 154)]
)
def test_e2b_bytes_per_draft_step(precision, mb, dense_mb):
    assert e2b(f"gemma_4_e2b_assistant@{precision}").draft_weight_bytes / 1e6 == pytest.approx(mb, abs=0.06)
    dense = e2b(f"gemma_4_e2b_assistant_dense@{precision}").draft_weight_bytes
    assert dense / 1e6 == pytest.approx(dense_mb, rel=3e-3)


@pytest.mark.parametrize(("context", "mb"), [(512, 2.6), (2048, 5.8), (4096, 10.0), (8192, 18.4)])
def test_e2b_kv_read_per_draft_step(context, mb):
    """Three local and one global layer read the target's bf16 cache: 3 x 1024 x 512 + 2048 n bytes."""
    pass_ = ledger(e2b().draft_ops, 1, context)
    assert pass_.kv_bytes / 1e6 == pytest.approx(mb, abs=0.06)
    assert pass_.kv_bytes == 3 * 1024 * 512 + 2048 * context


def test_kv_passes_the_int4_weights_near_2k():
    model = e2b("gemma_4_e2b_assistant@int4")
    assert ledger(model.draft_ops, 1, 1900).kv_bytes < model.draft_weight_bytes
    assert ledger(model.draft_ops, 1, 2100).kv_bytes > model.draft_weight_bytes


def test_draft_step_is_under_two_percent_of_the_target():
    """5.8 MB in int4 against 0.8 GB: 0.7 %."""
    share = e2b("gemma_4_e2b_assistant@int4").draft_weight_bytes / load_target("gemma_4_e2b").streamed_bytes()
    assert share == pytest.approx(0.0073, abs=2e-4)


def test_frozen_heads_have_no_cache_and_no_prefill():
    for name in list_drafters():
        model = build_for_first_target(name)
        if model.family in ("frozen_mtp", "gemma4_assistant"):
            assert model.context == "target"
            assert not model.prefill_ops
            assert model.own_kv_bytes(4096) == 0
            assert model.catch_up_rows == "none"


def test_standalone_128m():
    """262144 x 384 + 12 x (384 x (2 x 384 + 2 x 128) + 3 x 384 x 1632 + 2 x 384) + 384 = 127,952,256."""
    model = build_drafter("standalone_128m", load_target("gemma_3n_e2b"))
    assert model.params == 127_952_256
    assert model.own_kv_bytes_per_token == 12 * 2 * 128 * 2
    assert model.draft_weight_bytes == 127_952_256  # int8: table as LM head, and layers


def test_nano_head_has_the_standalones_non_embedding_parameters():
    nano = load_target("gemma_3n_e2b")
    head = {part.name: part.params for part in build_drafter("frozen_mtp_nano", nano).parts}
    standalone = {part.name: part.params for part in build_drafter("standalone_128m", nano).parts}
    assert head["projections"] + head["layers"] == pytest.approx(standalone["layers"], rel=2e-3)


def test_smollm2_head_by_hand():
    """2 x 576 x 384 + 384 x 576 + 2 x 576; 4 x (2 x 384^2 + 3 x 384 x 1024 + 2 x 384) + 384; 8192 x 384."""
    head = {
        "id": "hand", "family": "frozen_mtp", "kind": "assumed", "hidden_size": 384,
        "intermediate_size": 1024,
        "num_attention_heads": 6, "kv_layers": [26, 27, 28, 29], "draft_vocab_size": 8192,
    }  # fmt: skip
    model = build_drafter(head, load_target("smollm2_135m"))
    assert model.params == 664_704 + 5_901_696 + 3_145_728
    assert ledger(model.draft_ops, 1, 1000).kv_bytes == 4 * 2 * 192 * 2 * 1000


def build_for_first_target(name):
    from simulator.drafters import load_drafter_spec

    first = load_drafter_spec(name).targets[0]
    return build_drafter(name, load_target("smollm2_135m" if first == "*" else first))


@pytest.mark.reference
def test_transformers_agrees():
    """The E2B assistant in transformers' own modelling code (layer scalars are buffers there)."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    text = transformers.Gemma4TextConfig(
        hidden_size=256,
        intermediate_size=2048,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=256,
        hidden_size_per_layer_input=0,
        vocab_size_per_layer_input=0,
        num_kv_shared_layers=4,
        layer_types=["sliding_attention"] * 3 + ["full_attention"],
    )
    config = transformers.Gemma4AssistantConfig(
        text_config=text, backbone_hidden_size=1536, use_ordered_embeddings=True
    )
    with torch.device("meta"):
        model = transformers.Gemma4AssistantForCausalLM(config)
    assert sum(p.numel() for p in model.parameters()) + 4 == e2b().params == 77_731_332
