"""Foreign files: configurations, GGUF and safetensors headers, and what a broken one is told."""

import json
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simulator.errors import DraftscopeError
from simulator.specs import load_target
from simulator.specs.headers import GGML_TYPES, read_gguf_header, read_safetensors_header

LLAMA = {
    "model_type": "llama", "vocab_size": 100, "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": True, "torch_dtype": "float16",
}  # fmt: skip
LAYER = {
    "attn_q": (64, 64), "attn_k": (32, 64), "attn_v": (32, 64), "attn_output": (64, 64), "ffn_gate": (96, 64),
    "ffn_up": (96, 64), "ffn_down": (64, 96),
}  # fmt: skip
HF = {
    "self_attn.q_proj": (64, 64), "self_attn.k_proj": (32, 64), "self_attn.v_proj": (32, 64),
    "self_attn.o_proj": (64, 64), "mlp.gate_proj": (96, 64), "mlp.up_proj": (96, 64),
    "mlp.down_proj": (64, 96),
    "input_layernorm": (64,), "post_attention_layernorm": (64,),
}  # fmt: skip
Q4_1, F32, Q8_0 = 3, 0, 8


def gguf_string(text):
    return struct.pack("<Q", len(text)) + text.encode()


def gguf_value(value):
    if isinstance(value, str):
        return struct.pack("<I", 8) + gguf_string(value)
    if isinstance(value, list) and isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(gguf_string, value))
    if isinstance(value, list):
        kind, code = (7, "?") if isinstance(value[0], bool) else (4, "I")
        return struct.pack("<IIQ", 9, kind, len(value)) + struct.pack(f"<{len(value)}{code}", *value)
    return struct.pack("<II", 4, value)


def write_gguf(path, meta, tensors, *, version=3):
    """``tensors``: name -> (shape with the output first, GGML type)."""
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(meta))
    out += b"".join(gguf_string(key) + gguf_value(value) for key, value in meta.items())
    offset = 0
    for name, (shape, kind) in tensors.items():
        _, block, size = GGML_TYPES[kind]
        count = 1
        for n in shape:
            count *= n
        out += (
            gguf_string(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape[::-1])
        )
        out += struct.pack("<IQ", kind, offset)
        offset += -(-count // block * size // 32) * 32
    out += b"\0" * (-len(out) % 32)
    path.write_bytes(out + b"\0" * offset)
    return path


def llama_gguf(path, **changes):
    meta = {
        "general.architecture": "llama", "general.name": "Tiny", "llama.block_count": 2,
        "llama.embedding_length": 64, "llama.attention.head_count": 4, "llama.attention.head_count_kv": 2,
        "tokenizer.ggml.tokens": ["a", "b", "ccc"],
    }  # fmt: skip
    tensors = {"token_embd.weight": ((100, 64), Q8_0), "output_norm.weight": ((64,), F32)}
    for i in range(2):
        tensors |= {f"blk.{i}.{name}.weight": (shape, Q4_1) for name, shape in LAYER.items()}
        tensors |= {f"blk.{i}.{name}.weight": ((64,), F32) for name in ("attn_norm", "ffn_norm")}
    return write_gguf(path, {**meta, **changes}, tensors)


def write_safetensors(path, tensors, dtype="BF16", bits=16):
    entries, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in tensors.items():
        size = bits // 8
        for n in shape:
            size *= n
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    raw = json.dumps(entries).encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + b"\0" * offset)
    return path


def hf_tensors():
    tensors = {"model.embed_tokens.weight": (100, 64), "model.norm.weight": (64,)}
    for i in range(2):
        tensors |= {f"model.layers.{i}.{name}.weight": shape for name, shape in HF.items()}
    return tensors


def write_config(path, **changes):
    path.write_text(json.dumps({**LLAMA, **changes}))
    return path


def test_gguf(tmp_path):
    target = load_target(llama_gguf(tmp_path / "tiny.gguf"))
    assert (target.id, target.name, target.family) == ("tiny", "Tiny", "llama")
    assert target.total_params() == 100 * 64 + 64 + 2 * (64 * 64 * 2 + 32 * 64 * 2 + 3 * 96 * 64 + 128)
    matrices, norms = 2 * (64 * 64 * 2 + 32 * 64 * 2 + 3 * 96 * 64), 5 * 64
    assert target.quant.layers == pytest.approx((matrices * 5 + norms * 32) / (matrices + norms))
    assert target.quant.lm_head == 8.5
    assert target.tie_word_embeddings


def test_gguf_without_a_suffix_is_recognised(tmp_path):
    path = llama_gguf(tmp_path / "blob")
    assert load_target(path).family == "llama"


def test_gemma_4_gguf(tmp_path):
    """Sliding pattern, two head sizes, key heads by layer, shared KV and K = V come from the header."""
    pattern = [True, False, True, False]
    meta = {
        "general.architecture": "gemma4", "gemma4.block_count": 4, "gemma4.embedding_length": 64,
        "gemma4.attention.head_count": 2, "gemma4.attention.head_count_kv": [2, 1, 2, 1],
        "gemma4.attention.key_length": 64, "gemma4.attention.key_length_swa": 32,
        "gemma4.attention.sliding_window": 512, "gemma4.attention.sliding_window_pattern": pattern,
        "gemma4.attention.shared_kv_layers": 2, "gemma4.embedding_length_per_layer_input": 16,
    }  # fmt: skip
    tensors = {"token_embd.weight": ((100, 64), Q8_0), "per_layer_token_embd.weight": ((100, 64), Q4_1)}
    for i in range(4):
        tensors[f"blk.{i}.ffn_up.weight"] = ((96 if i < 2 else 192, 64), Q4_1)
        tensors[f"blk.{i}.attn_k.weight"] = ((64, 64), Q4_1)
    tensors["blk.0.attn_v.weight"] = ((64, 64), Q4_1)
    target = load_target(write_gguf(tmp_path / "g.gguf", meta, tensors))
    assert [layer.is_local for layer in target.layers] == pattern
    assert [layer.intermediate_size for layer in target.layers] == [96, 96, 192, 192]
    assert [(layer.head_dim, layer.kv_dim) for layer in target.layers[:2]] == [(32, 64), (64, 64)]
    assert target.layers[3].kv_source == 1
    assert target.attention_k_eq_v
    assert target.quant.per_layer_embedding == 5.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"GGML" + data[4:], r"not a GGUF file: it starts with b'GGML'"),
        (lambda data: data[:4] + struct.pack("<I", 9) + data[8:], "GGUF version 9; allowed: 2 or 3"),
        (lambda data: data[:8] + struct.pack("<Q", 1 << 60) + data[16:], "corrupt: .* tensors"),
        (lambda data: data[:24] + struct.pack("<Q", 1 << 40) + data[32:], "corrupt: .* bytes in a string"),
        (lambda data: data[:-64], "truncated: its tensors end at byte"),
        (lambda data: data[:200], "truncated: the header wants"),
        (lambda data: b"", "truncated"),
    ],
)
def test_broken_gguf(tmp_path, change, message):
    path = llama_gguf(tmp_path / "tiny.gguf")
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(DraftscopeError, match=message):
        load_target(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80)
@given(st.data())
def test_any_damage_gives_one_clear_error_or_a_target(tmp_path, data):
    path = llama_gguf(tmp_path / "tiny.gguf")
    raw = bytearray(path.read_bytes())
    header = 1400
    if data.draw(st.booleans()):
        del raw[data.draw(st.integers(0, len(raw) - 1)) :]
    else:
        raw[data.draw(st.integers(0, header))] = data.draw(st.integers(0, 255))
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(raw)
    try:
        assert load_target(broken).total_params() > 0
    except DraftscopeError as error:
        assert "broken.gguf" in str(error)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"general.architecture": "lama"}, "general.architecture: unknown name 'lama'. Did you mean 'llama'"),
        ({"llama.block_count": 3}, "3 layers announced, but 2 tensors"),
        ({"llama.attention.head_count_kv": 3}, "does not divide"),
    ],
)
def test_gguf_of_another_kind(tmp_path, changes, message):
    with pytest.raises(DraftscopeError, match=message):
        load_target(llama_gguf(tmp_path / "tiny.gguf", **changes))


def test_gguf_without_a_needed_key(tmp_path):
    path = write_gguf(
        tmp_path / "x.gguf", {"general.architecture": "llama"}, {"token_embd.weight": ((9, 32), F32)}
    )
    with pytest.raises(DraftscopeError, match=r"llama\.block_count: missing"):
        load_target(path)
    path = write_gguf(tmp_path / "x.gguf", {"general.architecture": "llama"}, {})
    with pytest.raises(DraftscopeError, match="not a text decoder"):
        load_target(path)


def test_hf_config(tmp_path):
    target = load_target(write_config(tmp_path / "config.json"))
    assert target.id == tmp_path.name
    assert (target.head_dim, target.quant.layers) == (16, 16.0)
    assert load_target(tmp_path).total_params() == target.total_params()


def test_hf_multimodal_config_uses_its_text_part(tmp_path):
    text = {
        "model_type": "gemma3_text", "hidden_size": 640, "intermediate_size": 2048, "num_hidden_layers": 18,
        "num_attention_heads": 4, "num_key_value_heads": 1, "sliding_window": 512, "vocab_size": 262144,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gemma3", "text_config": text}))
    target = load_target(tmp_path)
    shipped = load_target("gemma_3_270m")
    assert target.param_counts() == shipped.param_counts()
    assert target.layers == shipped.layers


def test_qwen_windows_are_off_unless_switched_on(tmp_path):
    off = write_config(tmp_path / "config.json", model_type="qwen2", sliding_window=32)
    assert load_target(off).kv_window_cap_bytes() == 0
    on = write_config(
        tmp_path / "config.json", model_type="qwen2", sliding_window=32, use_sliding_window=True
    )
    assert load_target(on).kv_window_cap_bytes() > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "lama"}, "Did you mean 'llama'"),
        ({"model_type": None}, "model_type: unknown name None"),
        ({"hidden_size": -4}, "hidden_size: -4 given"),
        ({"num_hidden_layers": None}, "num_hidden_layers: missing"),
        ({"text_config": 3}, "not a model configuration"),
    ],
)
def test_broken_config(tmp_path, changes, message):
    with pytest.raises(DraftscopeError, match=message):
        load_target(write_config(tmp_path / "config.json", **changes))


def test_config_that_is_no_json(tmp_path):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(DraftscopeError, match="not a readable JSON file"):
        load_target(tmp_path)


def test_safetensors_alone_and_with_a_config(tmp_path):
    path = write_safetensors(tmp_path / "model.safetensors", hf_tensors())
    alone = load_target(path)
    assert "no sliding windows are known" in alone.note
    write_config(tmp_path / "config.json", torch_dtype="float32")
    folder = load_target(tmp_path)
    assert alone.total_params() == folder.total_params()
    assert alone.quant.layers == folder.quant.layers == 16.0  # stored bits win over the configuration's dtype
    assert alone.kv_bytes(100) == folder.kv_bytes(100)


def test_safetensors_shards_and_mixed_precision(tmp_path):
    tensors = hf_tensors()
    table = {"model.embed_tokens.weight": tensors.pop("model.embed_tokens.weight")}
    write_safetensors(tmp_path / "a.safetensors", tensors, dtype="F8_E4M3", bits=8)
    write_safetensors(tmp_path / "b.safetensors", {**table, "vision_tower.x.weight": (9, 9)})
    write_config(tmp_path / "config.json")
    target = load_target(tmp_path)
    assert (target.quant.layers, target.quant.lm_head) == (8.0, 16.0)


def test_safetensors_of_an_unknown_stack_asks_for_the_config(tmp_path):
    tensors = {**hf_tensors(), "model.layers.0.pre_feedforward_layernorm.weight": (64,)}
    with pytest.raises(DraftscopeError, match=r"put the model's config\.json into the same folder"):
        load_target(write_safetensors(tmp_path / "m.safetensors", tensors))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-10], "truncated: tensor"),
        (lambda data: data[:30], "truncated: the header wants"),
        (lambda data: struct.pack("<Q", 1 << 50) + data[8:], "corrupt: .* bytes of JSON"),
        (lambda data: data[:8] + b"x" + data[9:], "not a safetensors file, or a corrupt one"),
        (lambda data: data.replace(b'"BF16"', b'"BF17"', 1), "unknown type 'BF17'"),
        (lambda data: data.replace(b'"BF16"', b'"F32" ', 1), "cannot have"),
    ],
)
def test_broken_safetensors(tmp_path, change, message):
    path = write_safetensors(tmp_path / "model.safetensors", hf_tensors())
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(DraftscopeError, match=message):
        load_target(path)


def test_type_table_is_ggmls():
    constants = pytest.importorskip("gguf.constants")
    theirs = {int(t): (t.name, *size) for t, size in constants.GGML_QUANT_SIZES.items()}
    assert {kind: theirs.get(kind) for kind in GGML_TYPES} == GGML_TYPES


def test_header_equals_the_reference_readers(tmp_path):
    gguf = pytest.importorskip("gguf")
    path = llama_gguf(tmp_path / "tiny.gguf")
    theirs = {t.name: int(t.n_bytes) for t in gguf.GGUFReader(path).tensors}
    assert {name: info.n_bytes for name, info in read_gguf_header(path).tensors.items()} == theirs
    safetensors = pytest.importorskip("safetensors")
    path = write_safetensors(tmp_path / "model.safetensors", hf_tensors())
    with safetensors.safe_open(path, framework="numpy") as file:
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    assert {name: info.shape for name, info in read_safetensors_header(path).tensors.items()} == shapes


@pytest.mark.reference
@pytest.mark.parametrize(
    "name", ["gemma4", "gemma3n", "gemma3", "gemma2", "llama", "qwen2", "qwen3", "mistral"]
)
def test_configurations_of_transformers(tmp_path, name):
    """A configuration written by transformers gives the parameter count of its own modelling code."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    small = {
        "hidden_size": 64,
        "num_hidden_layers": 6,
        "vocab_size": 500,
        "num_attention_heads": 4,
        "head_dim": 16,
    }
    text = {**small, "intermediate_size": 96, "num_key_value_heads": 2}
    config = {
        "gemma4": lambda: transformers.Gemma4TextConfig(
            **text, global_head_dim=32, num_global_key_value_heads=1, attention_k_eq_v=True,
            num_kv_shared_layers=0, vocab_size_per_layer_input=500, hidden_size_per_layer_input=8,
            enable_moe_block=True, num_experts=4, top_k_experts=2, moe_intermediate_size=16),
        "gemma3n": lambda: transformers.Gemma3nTextConfig(
            **{**text, "num_hidden_layers": 10}, vocab_size_per_layer_input=400,
            hidden_size_per_layer_input=8, num_kv_shared_layers=5, laurel_rank=4),
        "gemma3": lambda: transformers.Gemma3TextConfig(**text),
        "gemma2": lambda: transformers.Gemma2Config(**text),
        "llama": lambda: transformers.LlamaConfig(**text, tie_word_embeddings=False),
        "qwen2": lambda: transformers.Qwen2Config(**{k: v for k, v in text.items() if k != "head_dim"}),
        "qwen3": lambda: transformers.Qwen3Config(**text),
        "mistral": lambda: transformers.MistralConfig(**text),
    }[name]()  # fmt: skip
    config.save_pretrained(tmp_path)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    target = load_target(tmp_path)
    scalars = target.num_hidden_layers if name == "gemma4" else 0
    assert target.total_params() == sum(p.numel() for p in model.parameters()) + scalars
