"""Parameter counts, exact.

The integers are those of the modelling code of transformers 5.24.0, instantiated without memory
(``torch.device ("meta")``) and counted with ``sum(p.numel() for p in model.parameters())``; Gemma 4 adds
its layer scalars, which are buffers there. ``test_transformers_agrees`` repeats this where transformers is
installed. Rounded totals: own arithmetic from the published configurations; published are "2.3B effective",
4.65 B (llama-bench) and 25.2 B with 3.8 B active.
"""

import pytest

from simulator.specs import load_target

EXACT = {  # total, table, per-layer table, core
    "gemma_4_e2b": (4628569344 + 35, 402653184, 2348810240, 1877105920 + 35),
    "gemma_4_e4b": (7463013376 + 42, 671088640, 2818572288, 3973352448 + 42),
    "gemma_4_31b": (30697345280 + 60, 1409286144, 0, 29288059136 + 60),
    "gemma_4_26b_a4b": (25233141760 + 30, 738197504, 0, 24494944256 + 30),
    "gemma_3n_e2b": (4435182688, 537395200, 2013265920, 1884521568),
    "gemma_3n_e4b": (6835235568, 537395200, 2348810240, 3949030128),
    "gemma_3_270m": (268098176, 167772160, 0, 100326016),
    "gemma_3_1b": (999885952, 301989888, 0, 697896064),
    "smollm2_135m": (134515008, 28311552, 0, 106203456),
}


@pytest.mark.parametrize("name", EXACT)
def test_exact(name):
    target = load_target(name)
    counts = target.param_counts()
    assert (
        target.total_params(),
        counts["embedding"],
        counts["per_layer_embedding"],
        target.core_params(),
    ) == EXACT[name]


@pytest.mark.parametrize(
    ("name", "core", "total", "streamed"),
    [  # in 1e9, matrices only: without the 0.3 to 1.3 million norm parameters
        ("gemma_4_e2b", 1.877, 4.628, 2.279),
        ("gemma_4_e4b", 3.973, 7.462, 4.644),
        ("gemma_4_31b", 29.287, 30.696, 30.696),
        ("gemma_4_26b_a4b", 1.645 + 22.849, 25.232, 3.822),
    ],
)
def test_gemma_4_totals(name, core, total, streamed):
    target = load_target(name)
    norms = target.param_counts()["norms"]
    assert (target.core_params() - norms) / 1e9 == pytest.approx(core, abs=1e-3)
    assert (target.total_params() - norms) / 1e9 == pytest.approx(total, abs=6e-4)
    assert (target.streamed_params() - norms) / 1e9 == pytest.approx(streamed, abs=1.2e-3)
    assert target.streamed_params() / 1e9 == pytest.approx(streamed, abs=1.5e-3)


def test_double_wide_mlp_only_where_kv_is_shared():
    layers = load_target("gemma_4_e2b").layers
    assert [layer.intermediate_size for layer in layers] == [6144] * 15 + [12288] * 20
    assert [layer.stores_kv for layer in layers] == [True] * 15 + [False] * 20


@pytest.mark.parametrize(
    ("name", "local", "global_"),
    [  # KV producers that shared layers and assistants read
        ("gemma_4_e2b", 13, 14),
        ("gemma_4_e4b", 22, 23),
        ("gemma_4_26b_a4b", 28, 29),
        ("gemma_4_31b", 58, 59),
        ("gemma_3n_e2b", 18, 19),
        ("gemma_3n_e4b", 18, 19),
    ],
)
def test_kv_producers(name, local, global_):
    target = load_target(name)
    assert target.last_kv_layer(is_local=True).index == local
    assert target.last_kv_layer(is_local=False).index == global_
    assert not target.layers[-1].is_local
    assert {layer.kv_source for layer in target.layers if not layer.stores_kv} <= {local, global_}


def test_one_projection_for_k_and_v():
    """K = V halves the projection weights of global layers, not the cache."""
    target = load_target("gemma_4_31b")
    local, far = target.layers[0], target.layers[5]
    assert target.attention_params(local) == 5376 * (2 * 32 * 256 + 2 * 16 * 256)
    assert target.attention_params(far) == 5376 * (2 * 32 * 512 + 1 * 4 * 512)
    assert target.layer_kv_bytes(far) == 2 * 4 * 512 * 2


@pytest.mark.parametrize(
    ("name", "streamed_gb", "mapped_gb"),
    [  # LiteRT-LM model card: text weights in memory, memory-mapped embeddings
        ("gemma_4_e2b", 0.79, 1.12),
        ("gemma_4_e4b", 2.24, 0.67),
        ("gemma_3_270m", 0.289, 0.0),
        ("gemma_3_1b", 0.557, 0.0),
    ],
)
def test_default_builds(name, streamed_gb, mapped_gb):
    target = load_target(name)
    assert target.streamed_bytes() / 1e9 == pytest.approx(streamed_gb, rel=1e-3)
    assert target.mapped_bytes() / 1e9 == pytest.approx(mapped_gb, rel=1e-3)
    assert target.resident_bytes() == pytest.approx(target.streamed_bytes())


def test_smollm2_gguf_build_is_its_file():
    """The tensors of SmolLM2-135M-Instruct.Q4_1.gguf: 106168320 at 5 bits, 28311552 at 8.5, 35136 at 32."""
    expected = (106168320 * 5 + 28311552 * 8.5 + 35136 * 32) / 8
    assert load_target("smollm2_135m@gguf_q4_1").weight_bytes() == pytest.approx(expected, rel=1e-5)


@pytest.mark.reference
def test_transformers_agrees():
    """The same counts from the modelling code itself (two families that exercise every rule)."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from transformers.models.gemma3n.modeling_gemma3n import Gemma3nForCausalLM
    from transformers.models.gemma4.modeling_gemma4 import Gemma4ForCausalLM

    pattern = ["full_attention" if (i + 1) % 5 == 0 else "sliding_attention" for i in range(35)]
    e2b = transformers.Gemma4TextConfig(
        hidden_size=1536, intermediate_size=6144, num_hidden_layers=35, num_attention_heads=8,
        num_key_value_heads=1,
        num_kv_shared_layers=20, use_double_wide_mlp=True, layer_types=pattern,
    )  # fmt: skip
    nano = transformers.Gemma3nTextConfig(
        num_hidden_layers=30, intermediate_size=8192, num_kv_shared_layers=10
    )
    for name, build, config in (
        ("gemma_4_e2b", Gemma4ForCausalLM, e2b),
        ("gemma_3n_e2b", Gemma3nForCausalLM, nano),
    ):
        with torch.device("meta"):
            model = build(config)
        scalars = 35 if name == "gemma_4_e2b" else 0
        assert sum(p.numel() for p in model.parameters()) + scalars == load_target(name).total_params()
