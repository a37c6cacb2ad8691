"""Targets, quantisation and scenarios: what a user may say, and every message."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.errors import DraftscopeError, UnknownNameError, nearest
from simulator.specs import NAMED_SCHEMES, Scenario, TargetSpec, list_targets, load_target
from simulator.specs.quant import mac_type

TINY = {
    "id": "tiny", "family": "llama", "vocab_size": 100, "hidden_size": 8, "intermediate_size": 16,
    "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4,
    "quant": NAMED_SCHEMES["bf16"],
}  # fmt: skip
TOML = """
family = "llama"
vocab_size = 100
hidden_size = 8
intermediate_size = 16
num_hidden_layers = 2
num_attention_heads = 2
num_key_value_heads = 1
head_dim = 4
default_quant = "mine"
[quant_schemes.mine]
layers = 4.5
lm_head = 8.0
kind = "assumed"
source = "me"
"""


def tiny(**changes):
    return TargetSpec(**{**TINY, **changes})


def test_shipped_targets():
    assert {
        "gemma_4_e2b", "gemma_4_e4b", "gemma_3n_e2b", "gemma_3n_e4b", "gemma_3_270m", "smollm2_135m",
    } <= set(list_targets())  # fmt: skip
    for name in list_targets():
        target = load_target(name)
        assert target.id == name
        assert target.sources
        assert target.quant.kind in ("published", "measured", "derived", "assumed")
    assert "stand-in for Gemini Nano v3" in load_target("gemma_3n_e2b").name


@given(st.sampled_from(list_targets()), st.sampled_from([*NAMED_SCHEMES, None]), st.integers(0, 20000))
def test_bytes_add_up(name, scheme, context):
    target = load_target(f"{name}@{scheme}" if scheme else name)
    assert target.weight_bytes() == pytest.approx(target.resident_bytes() + target.mapped_bytes())
    assert target.weight_bytes() == pytest.approx(sum(target.group_bytes().values()))
    assert sum(target.group_params().values()) == target.total_params()
    assert target.kv_bytes(context) <= target.kv_read_bytes(context)
    assert target.kv_bytes(context) <= target.kv_bytes(context + 1)
    if scheme and scheme != "int4":
        assert target.weight_bytes() == pytest.approx(
            target.total_params() * NAMED_SCHEMES[scheme].layers / 8
        )


@given(
    st.integers(1, 40),
    st.integers(1, 64),
    st.integers(1, 5),
    st.sampled_from([None, 2, 3]),
    st.integers(0, 2),
)
def test_dimensions_are_monotone(hidden, ffn, layers, pattern, shared):
    fields = {
        "hidden_size": hidden, "intermediate_size": ffn, "num_hidden_layers": layers + 6,
        "num_kv_shared_layers": shared, "sliding_window": 16 if pattern else None,
        "sliding_window_pattern": pattern,
    }  # fmt: skip
    base = tiny(**fields)
    assert tiny(**{**fields, "hidden_size": hidden + 1}).total_params() > base.total_params()
    assert tiny(**{**fields, "intermediate_size": ffn + 1}).total_params() > base.total_params()
    assert base.kv_bytes(64) <= tiny(**{**fields, "num_kv_shared_layers": 0}).kv_bytes(64)
    assert base.kv_read_bytes(64) == tiny(**{**fields, "num_kv_shared_layers": 0}).kv_read_bytes(64)
    assert base.core_params() + base.param_counts()["embedding"] == base.total_params()


def test_tied_table_counts_once_unless_it_is_stored_twice():
    scheme = NAMED_SCHEMES["bf16"]
    tied = tiny()
    twice = tiny(quant=scheme.model_copy(update={"embedding": 8.0}))
    untied = tiny(tie_word_embeddings=False)
    assert tied.weight_bytes() == 2 * tied.total_params()
    assert twice.weight_bytes() == tied.weight_bytes() + 800
    assert untied.total_params() == tied.total_params() + 800
    assert untied.weight_bytes() == 2 * untied.total_params()


def test_mapped_tables_leave_ram():
    target = load_target("gemma_4_e2b")
    assert target.mapped_bytes() == target.group_bytes()["per_layer_embedding"] > 1e9
    assert load_target("gemma_4_e2b@bf16").mapped_bytes() == 2 * 2348810240  # a named scheme keeps it mapped
    scheme = NAMED_SCHEMES["int8"].model_copy(update={"embedding": 8.0, "mapped": ("embedding",)})
    assert tiny(quant=scheme).mapped_bytes() == 800


def test_builds_by_name():
    target = load_target("smollm2_135m")
    assert target.quant.name == "phone_int4"
    assert target.with_quant("gguf_q4_1").with_quant("phone_int4") == target.with_quant("phone_int4")
    with pytest.raises(UnknownNameError, match="Did you mean 'gguf_q4_1'"):
        load_target("smollm2_135m@gguf_q41")


def test_mac_types():
    assert [mac_type(bits) for bits in (2, 4.5, 8.5, 16, 32)] == ["int8", "int8", "int8", "f16", "f32"]


def test_nearest():
    assert nearest("Gemma-4-E2B", list_targets()) == "gemma_4_e2b"
    assert nearest("zzz", list_targets()) == ""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"family": "lama"}, "family: 'lama' given; allowed: gemma"),
        ({"num_key_value_heads": 3}, "does not divide"),
        ({"layer_types": ["full_attention"]}, "1 entries for 2 layers"),
        ({"layer_types": ["sliding_attention", "full_attention"]}, "sliding_window: missing"),
        ({"intermediate_size": (1, 2, 3)}, "3 entries for 2 layers"),
        ({"num_kv_shared_layers": 2}, "one must store KV"),
        (
            {"num_kv_shared_layers": 1, "sliding_window": 4, "sliding_window_pattern": 2},
            "no earlier layer of its type",
        ),
        ({"num_experts": 4}, "needs top_k_experts"),
        ({"id": "a@b"}, "kept for the quantisation"),
    ],
)
def test_inconsistent_architectures(changes, message):
    with pytest.raises(ValueError, match=message):
        tiny(**changes)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("head_dim = 4", "", r"mine\.toml: head_dim: missing, and required"),
        ("head_dim = 4", "head_dimm = 4", "head_dimm: unknown key. Did you mean 'head_dim'"),
        ("head_dim = 4", "head_dim = -4", r"head_dim: -4 given; .* greater than 0"),
        ("head_dim = 4", 'head_dim = "4"', "head_dim: '4' given"),
        ("layers = 4.5", "layers = nan", r"quant\.layers: nan given|quant_schemes\.mine\.layers: nan given"),
        ("layers = 4.5", "layers = -1.0", "-1.0 given"),
        ("layers = 4.5", "layer = 4.5", "unknown key. Did you mean 'layers'"),
        ('default_quant = "mine"', 'default_quant = "min"', "Did you mean 'mine'"),
        ('default_quant = "mine"', "", "default_quant: missing"),
        ('kind = "assumed"', 'kind = "guessed"', "'guessed' given"),
        ("family =", "family", "not valid TOML"),
        ('source = "me"', 'source = "me"\nmapped = ["embedding"]', "needs its own 'embedding' bits"),
        ('family = "llama"', "quant_schemes = 3\n#", "tables .* are wanted|not valid TOML"),
    ],
)
def test_toml_messages(tmp_path, old, new, message):
    path = tmp_path / "mine.toml"
    path.write_text(TOML)
    assert load_target(path).quant.layers == 4.5
    path.write_text(TOML.replace(old, new, 1))
    with pytest.raises(DraftscopeError, match=message):
        load_target(path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gemma_4_e3b", r"target: unknown name 'gemma_4_e3b'. Did you mean 'gemma_4_e.b'"),
        ("nowhere.gguf", "no such file"),
        ("nowhere/config.json", "no such file"),
    ],
)
def test_unknown_targets(name, message):
    with pytest.raises(DraftscopeError, match=message):
        load_target(name)


def test_empty_folder_and_strange_file(tmp_path):
    with pytest.raises(DraftscopeError, match=r"no config\.json"):
        load_target(tmp_path)
    (tmp_path / "weights.bin").write_bytes(b"\x80\x04pickle")
    with pytest.raises(DraftscopeError, match="unknown kind of file"):
        load_target(tmp_path / "weights.bin")


def test_scenario_accepts_numbers_and_arrays():
    np = pytest.importorskip("numpy")
    scenario = Scenario(prompt_tokens=512, output_tokens=128.0, draft_length=np.array([0, 1, 4]))
    assert scenario.batch == 1
    assert scenario.draft_length.sum() == 5


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("prompt_tokens", 0),
        ("output_tokens", math.nan),
        ("draft_length", -1),
        ("batch", math.inf),
        ("batch", "two"),
        ("temperature", -0.1),
        ("context", -5),
        ("prompt_tokens", True),
    ],
)
def test_scenario_refuses(field, value):
    with pytest.raises(DraftscopeError, match=rf"scenario\.{field}: .* given; allowed: a finite number >="):
        Scenario(**{"prompt_tokens": 10, "output_tokens": 10, field: value})


def test_scenario_refuses_one_bad_element():
    np = pytest.importorskip("numpy")
    with pytest.raises(DraftscopeError, match="draft_length"):
        Scenario(prompt_tokens=10, output_tokens=10, draft_length=np.array([1.0, math.nan]))
