"""Foreign descriptions of a model -> fields of a TargetSpec; it reads headers only and does not know devices.

Known: Hugging Face ``config.json`` (text part of a multimodal model), GGUF metadata, safetensors headers.
Precision is taken from the tensor table where there is one: bits per weight by group are 8 x stored bytes /
parameters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from simulator.errors import DraftscopeError, UnknownNameError
from simulator.specs.architecture import FAMILIES, Architecture
from simulator.specs.headers import Header, TensorInfo, read_gguf_header, read_safetensors_header
from simulator.specs.validation import validated

_MODEL_TYPES = {
    **{name: name for name in FAMILIES},
    **{f"{name}_text": name for name in ("gemma3", "gemma3n", "gemma4")},
    "gemma4_unified": "gemma4", "gemma4_unified_text": "gemma4", "mistral3": "mistral",
}  # fmt: skip
_GEMMA: dict[str, Any] = {
    "head_dim": 256,
    "tie_word_embeddings": True,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
}
_DEFAULTS: dict[str, dict[str, Any]] = {  # what configurations leave out: defaults of transformers
    "gemma": {**_GEMMA, "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 256000},
    "gemma2": {**_GEMMA, "sliding_window": 4096, "sliding_window_pattern": 2, "vocab_size": 256000},
    "gemma3": {**_GEMMA, "sliding_window": 4096, "sliding_window_pattern": 6, "vocab_size": 262208},
    "gemma3n": {**_GEMMA, "num_key_value_heads": 2, "sliding_window": 512, "sliding_window_pattern": 5,
                "vocab_size": 262400, "vocab_size_per_layer_input": 262144,
                "hidden_size_per_layer_input": 256, "altup_num_inputs": 4, "laurel_rank": 64,
                "num_kv_shared_layers": 15},
    "gemma4": {**_GEMMA, "global_head_dim": 512, "sliding_window": 512, "sliding_window_pattern": 6,
               "vocab_size": 262144, "vocab_size_per_layer_input": 262144,
               "hidden_size_per_layer_input": 256},
    "qwen2": {"sliding_window": None}, "qwen3": {"sliding_window": None}, "smollm3": {"sliding_window": None},
}  # fmt: skip
_MAX_LAYERS = 10_000
_DTYPE_BITS = {"float32": 32.0, "float16": 16.0, "bfloat16": 16.0}
_SKIPPED = re.compile(
    r"vision|audio|image|mm_|multi_modal|rotary|rope_freqs|^v\.|^a\.|^mm\.|embed_vision|embed_audio"
)


def from_hf_config(path: Path, tensors: Iterable[TensorInfo] = ()) -> dict[str, Any]:
    """Fields of a :class:`TargetSpec` from a Hugging Face ``config.json`` (and its tensors, if given).

    Raises
    ------
    DraftscopeError
        Unreadable file, not a configuration, an unknown model type or a missing field.
    """
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DraftscopeError(f"{path}: not a readable JSON file ({error}).") from None
    if not isinstance(config, dict) or not isinstance(config.get("text_config", {}), dict):
        raise DraftscopeError(f"{path}: not a model configuration: a JSON object is wanted.")
    text = {**{k: v for k, v in config.items() if k != "text_config"}, **config.get("text_config", {})}
    model_type = text.get("model_type")
    if model_type not in _MODEL_TYPES:
        raise UnknownNameError(f"{path}: model_type", model_type, _MODEL_TYPES)
    family = _MODEL_TYPES[str(model_type)]
    fields = {**_DEFAULTS.get(family, {}), **_architecture_keys(text)}
    if family in ("qwen2", "qwen3", "smollm3") and not text.get("use_sliding_window"):
        fields["sliding_window"] = fields["layer_types"] = None
    if "head_dim" not in fields and {"hidden_size", "num_attention_heads"} <= fields.keys():
        fields["head_dim"] = int(fields["hidden_size"]) // int(fields["num_attention_heads"])
    fields.setdefault("num_key_value_heads", fields.get("num_attention_heads"))
    fields.setdefault("tie_word_embeddings", family.startswith("gemma"))
    if fields.get("layer_types"):
        fields.pop("sliding_window_pattern", None)
    if text.get("enable_moe_block") is False:
        fields.update(num_experts=0, top_k_experts=0, moe_intermediate_size=0)
    fields = {key: value for key, value in fields.items() if value is not None}
    fields["family"] = family
    architecture = validated(Architecture, fields, where=str(path))
    dtype = str(text.get("dtype") or text.get("torch_dtype") or config.get("dtype") or "bfloat16")
    bits = _DTYPE_BITS.get(dtype.removeprefix("torch."), 16.0)
    fields["quant"] = _quant(
        architecture, list(tensors), bits, note=f"from the configuration's dtype {dtype}"
    )
    return fields


def _architecture_keys(text: Mapping[str, Any]) -> dict[str, Any]:
    """Keys that a configuration shares with :class:`Architecture`, global-layer overrides unfolded."""
    known = set(Architecture.model_fields)
    fields = {key: value for key, value in text.items() if key in known and value is not None}
    for key in ("layer_types", "intermediate_size"):
        if isinstance(fields.get(key), list):
            values = tuple(fields[key])
            fields[key] = values[0] if key == "intermediate_size" and len(set(values)) == 1 else values
    overrides = text.get("per_layer_config")
    if isinstance(overrides, dict) and overrides:
        first = next(iter(overrides.values()))
        if isinstance(first, dict):
            fields.setdefault("global_head_dim", first.get("head_dim"))
            fields.setdefault("num_global_key_value_heads", first.get("num_key_value_heads"))
    if "_sliding_window_pattern" in text:
        fields.setdefault("sliding_window_pattern", text["_sliding_window_pattern"])
    if not text.get("attention_k_eq_v"):
        fields.pop("num_global_key_value_heads", None)
    return fields


def from_gguf(path: Path) -> dict[str, Any]:
    """Fields of a :class:`TargetSpec` from a GGUF header: shapes and, from the tensor types, bits."""
    header = read_gguf_header(path)
    meta, tensors = header.metadata, header.tensors
    arch = str(meta.get("general.architecture"))
    if arch not in _MODEL_TYPES:
        raise UnknownNameError(f"{path}: general.architecture", arch, _MODEL_TYPES)
    family = _MODEL_TYPES[arch]

    def get(key: str, default: Any = None) -> Any:
        return meta.get(f"{arch}.{key}", default)

    def need(key: str) -> Any:
        if f"{arch}.{key}" not in meta:
            raise DraftscopeError(f"{path}: {arch}.{key}: missing from the metadata, and required.")
        return meta[f"{arch}.{key}"]

    table = tensors.get("token_embd.weight")
    if table is None or len(table.shape) != 2:
        raise DraftscopeError(f"{path}: tensor 'token_embd.weight' is missing: not a text decoder.")
    n = int(need("block_count"))
    if not 0 < n <= _MAX_LAYERS:
        raise DraftscopeError(f"{path}: {arch}.block_count: {n} given; allowed: 1 to {_MAX_LAYERS}.")
    heads, kv = need("attention.head_count"), get("attention.head_count_kv", need("attention.head_count"))
    pattern = get("attention.sliding_window_pattern", {"gemma2": 2, "gemma3": 6, "gemma3n": 5}.get(family))
    window = get("attention.sliding_window")
    head_dim = get("attention.key_length", table.shape[1] // _first(heads))
    local_dim = get("attention.key_length_swa", head_dim)
    fields: dict[str, Any] = {
        "family": family,
        "vocab_size": table.shape[0],
        "hidden_size": int(need("embedding_length")),
        "intermediate_size": _widths(path, tensors, n),
        "num_hidden_layers": n,
        "num_attention_heads": _first(heads),
        "num_key_value_heads": max(kv) if isinstance(kv, tuple) else kv,
        "head_dim": local_dim if window else head_dim,
        "tie_word_embeddings": "output.weight" not in tensors,
        "num_kv_shared_layers": get("attention.shared_kv_layers", 0),
        "max_position_embeddings": get("context_length"),
    }
    if window and isinstance(pattern, tuple):
        fields["layer_types"] = tuple("sliding_attention" if local else "full_attention" for local in pattern)
        global_kv = (
            {heads_ for heads_, local in zip(kv, pattern, strict=True) if not local}
            if isinstance(kv, tuple)
            else set()
        )
        fields["num_global_key_value_heads"] = next(iter(global_kv)) if len(global_kv) == 1 else None
    elif window and pattern:
        fields["sliding_window_pattern"] = pattern
    if window:
        fields["sliding_window"] = window
        fields["global_head_dim"] = head_dim if head_dim != local_dim else None
    if get("embedding_length_per_layer_input"):
        fields["hidden_size_per_layer_input"] = get("embedding_length_per_layer_input")
    if family == "gemma3n":
        laurel = tensors.get("blk.0.laurel_l.weight")
        fields.update(
            altup_num_inputs=get("altup.num_inputs", 4), laurel_rank=laurel.shape[0] if laurel else 64
        )
    if get("expert_count"):
        fields.update(
            num_experts=get("expert_count"),
            top_k_experts=get("expert_used_count"),
            moe_intermediate_size=get("expert_feed_forward_length"),
        )
    fields["attention_k_eq_v"] = family == "gemma4" and any(
        f"blk.{i}.attn_k.weight" in tensors and f"blk.{i}.attn_v.weight" not in tensors for i in range(n)
    )
    fields = {key: value for key, value in fields.items() if value is not None}
    architecture = validated(Architecture, fields, where=str(path))
    fields["quant"] = _quant(
        architecture, list(tensors.values()), 16.0, note="from the tensor types of the file"
    )
    fields["name"] = str(meta.get("general.name") or path.stem)
    return fields


def from_safetensors(path: Path) -> dict[str, Any]:
    """Fields from a safetensors file or a folder of them, and from a ``config.json`` beside it."""
    folder = path if path.is_dir() else path.parent
    files = sorted(folder.glob("*.safetensors")) if path.is_dir() else [path]
    tensors: dict[str, TensorInfo] = {}
    for file in files:
        tensors.update(read_safetensors_header(file).tensors)
    config = folder / "config.json"
    if config.is_file():
        return from_hf_config(config, tensors.values())
    return _llama_like(path, Header(metadata={}, tensors=tensors))


def _llama_like(path: Path, header: Header) -> dict[str, Any]:
    """Shapes of a plain Llama-like stack from its tensors; the head size is a guess that changes no cost."""
    shapes = {re.sub(r"^(language_)?model\.", "", name): info.shape for name, info in header.tensors.items()}
    layer, missing = (
        "layers.0.",
        f"{path}: no config.json beside it, and its tensors are no plain decoder stack",
    )
    needed = (
        "embed_tokens.weight",
        f"{layer}self_attn.q_proj.weight",
        f"{layer}self_attn.k_proj.weight",
        f"{layer}mlp.gate_proj.weight",
    )
    if (
        any(len(shapes.get(name, ())) != 2 for name in needed)
        or f"{layer}pre_feedforward_layernorm.weight" in shapes
    ):
        raise DraftscopeError(f"{missing}; put the model's config.json into the same folder.")
    (vocab, hidden), q, kv = shapes[needed[0]], shapes[needed[1]][0], shapes[needed[2]][0]
    qk_norm = shapes.get(f"{layer}self_attn.q_norm.weight")
    head_dim = (
        qk_norm[0] if qk_norm else next(h for h in (128, 64, 32, 16, 8, 4, 2, 1) if not (q % h or kv % h))
    )
    numbers = [int(match[1]) for name in shapes if (match := re.match(r"layers\.(\d+)\.", name))]
    fields: dict[str, Any] = {
        "family": "qwen3" if qk_norm else "qwen2" if f"{layer}self_attn.q_proj.bias" in shapes else "llama",
        "vocab_size": vocab, "hidden_size": hidden, "intermediate_size": shapes[needed[3]][0],
        "num_hidden_layers": 1 + max(numbers),
        "num_attention_heads": q // head_dim, "num_key_value_heads": kv // head_dim, "head_dim": head_dim,
        "tie_word_embeddings": "lm_head.weight" not in shapes,
    }  # fmt: skip
    architecture = validated(Architecture, fields, where=str(path))
    fields["quant"] = _quant(architecture, list(header.tensors.values()), 16.0, note="from the tensor types")
    fields["note"] = "Shapes were read from the tensors; no sliding windows are known without a config.json."
    return fields


def _quant(
    arch: Architecture, tensors: list[TensorInfo], default_bits: float, *, note: str
) -> dict[str, Any]:
    """Bits per weight by group from the tensor table; ``default_bits`` where a group has no tensors."""
    stored: dict[str, list[int]] = {}
    for info in tensors:
        if group := _group(info.name):
            totals = stored.setdefault(group, [0, 0])
            totals[0] += 8 * info.n_bytes
            totals[1] += info.elements
    counts = arch.param_counts()
    arithmetic = {
        "layers": arch.core_params() - counts["experts"],
        "experts": counts["experts"],
        "embedding": counts["embedding"],
        "lm_head": counts["embedding"],
        "per_layer_embedding": counts["per_layer_embedding"],
    }
    packed = any(info.dtype in ("I32", "U32", "U8", "I8") and len(info.shape) > 1 for info in tensors)
    bits = {group: b / (arithmetic[group] if packed else n) for group, (b, n) in stored.items() if n}
    if arch.tie_word_embeddings and "embedding" in bits:
        table = bits.pop("embedding")
        bits["lm_head"] = table
    quant: dict[str, Any] = {
        "name": "file",
        "layers": bits.get("layers", default_bits),
        "lm_head": bits.get("lm_head", default_bits),
    }
    quant.update(
        {group: bits[group] for group in ("experts", "embedding", "per_layer_embedding") if group in bits}
    )
    return {**quant, "kind": "derived", "source": "user_file", "note": note}


def _group(name: str) -> str | None:
    """Tensor group of a GGUF or Hugging Face tensor name; None for towers and position tables."""
    if _SKIPPED.search(name):
        return None
    if "per_layer_token_embd" in name or "embed_tokens_per_layer" in name:
        return "per_layer_embedding"
    if name.startswith("token_embd") or "embed_tokens." in name:
        return "embedding"
    if name.startswith("output.") or "lm_head" in name:
        return "lm_head"
    return "experts" if "exps" in name or ".experts." in name else "layers"


def _first(value: Any) -> int:
    return int(value[0] if isinstance(value, tuple) else value)


def _widths(path: Path, tensors: Mapping[str, TensorInfo], n: int) -> int | tuple[int, ...]:
    found = [tensors.get(f"blk.{i}.ffn_up.weight") for i in range(n)]
    widths = tuple(info.shape[0] for info in found if info is not None and len(info.shape) == 2)
    if len(widths) != n:
        raise DraftscopeError(
            f"{path}: {n} layers announced, but {len(widths)} tensors 'blk.*.ffn_up.weight' found."
        )
    return widths[0] if len(set(widths)) == 1 else widths
