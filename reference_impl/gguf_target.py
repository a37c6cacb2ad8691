"""Read a Llama-family target (weights, tokenizer, chat template) from one GGUF file.

GGUF holds tensors and metadata only, so nothing is unpickled. It does not know where the file comes from
(see ``fetch.py``) and handles only ``general.architecture = llama`` with a GPT-2 style BPE vocabulary.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import torch
from gguf import GGUFReader, dequantize
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from .backbone import Backbone, BackboneConfig, BackboneWeights, LayerWeights
from .errors import ReferenceImplError


@dataclass(frozen=True)
class Target:
    """A frozen target ready to decode: decoder, tokenizer, chat template and the hash of its file."""

    id: str
    sha256: str
    backbone: Backbone
    tokenizer: Tokenizer
    chat_template: jinja2.Template

    def render_chat(self, messages: list[dict[str, str]]) -> str:
        """Text of a conversation with the assistant's turn opened, as the model reads it."""
        return self.chat_template.render(messages=messages, add_generation_prompt=True)

    def encode(self, text: str) -> list[int]:
        """Token ids of a text; control tokens in it are recognised, none are added."""
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def encode_chat(self, messages: list[dict[str, str]]) -> list[int]:
        """Token ids of a conversation with the assistant's turn opened."""
        return self.encode(self.render_chat(messages))


def file_sha256(path: Path) -> str:
    """Hexadecimal SHA-256 of a file."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def load_gguf_target(path: Path, *, target_id: str, dtype: torch.dtype = torch.float32) -> Target:
    """Load decoder, tokenizer and chat template from a GGUF file.

    Parameters
    ----------
    path : Path
    target_id : str
        Name written into traces and cards, e.g. ``smollm2_135m``.
    dtype : torch.dtype
        Dtype of the dequantised weights and of the cache.

    Raises
    ------
    ReferenceImplError
        When the file is missing, damaged, or of another architecture.
    """
    if not path.is_file():
        raise ReferenceImplError(f"{path}: no such GGUF file")
    try:
        reader = GGUFReader(path)
        fields = {key: field.contents() for key, field in reader.fields.items()}
        tensors = {t.name: t for t in reader.tensors}
    except Exception as error:  # the gguf package raises bare errors of many kinds on damaged files
        reason = f"{type(error).__name__}: {error}"
        raise ReferenceImplError(f"{path}: not a readable GGUF file ({reason})") from error
    architecture = fields.get("general.architecture")
    if architecture != "llama":
        raise ReferenceImplError(f"{path}: general.architecture: given {architecture!r}, allowed 'llama'")
    config = _config(fields)
    try:
        weights = _weights(tensors, config, dtype)
    except KeyError as error:
        raise ReferenceImplError(f"{path}: tensor {error} is missing") from error
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(fields["tokenizer.chat_template"])
    return Target(target_id, file_sha256(path), Backbone(config, weights), _tokenizer(fields), template)


def _config(fields: dict[str, Any]) -> BackboneConfig:
    heads = int(fields["llama.attention.head_count"])
    hidden = int(fields["llama.embedding_length"])
    return BackboneConfig(
        hidden_size=hidden,
        num_hidden_layers=int(fields["llama.block_count"]),
        num_attention_heads=heads,
        num_key_value_heads=int(fields["llama.attention.head_count_kv"]),
        head_dim=int(fields.get("llama.rope.dimension_count", hidden // heads)),
        intermediate_size=int(fields["llama.feed_forward_length"]),
        vocab_size=len(fields["tokenizer.ggml.tokens"]),
        rope_theta=float(fields["llama.rope.freq_base"]),
        rms_norm_eps=float(fields["llama.attention.layer_norm_rms_epsilon"]),
        eos_token_id=int(fields["tokenizer.ggml.eos_token_id"]),
    )


def _weights(tensors: dict[str, Any], config: BackboneConfig, dtype: torch.dtype) -> BackboneWeights:
    def get(name: str) -> torch.Tensor:
        tensor = tensors[name]
        array = dequantize(tensor.data, tensor.tensor_type)
        return torch.from_numpy(np.array(array, dtype=np.float32))

    def halves(weight: torch.Tensor, heads: int) -> torch.Tensor:
        # GGUF stores rotary pairs interleaved (2i, 2i+1); our rotation splits the head in halves.
        return weight.view(heads, config.head_dim // 2, 2, -1).transpose(1, 2).reshape(weight.shape)

    def layer(i: int) -> LayerWeights:
        prefix = f"blk.{i}."
        query = halves(get(prefix + "attn_q.weight"), config.num_attention_heads)
        key = halves(get(prefix + "attn_k.weight"), config.num_key_value_heads)
        return LayerWeights(
            input_norm=get(prefix + "attn_norm.weight").to(dtype),
            qkv=torch.cat([query, key, get(prefix + "attn_v.weight")]).to(dtype),
            attention_output=get(prefix + "attn_output.weight").to(dtype),
            post_attention_norm=get(prefix + "ffn_norm.weight").to(dtype),
            gate_up=torch.cat([get(prefix + "ffn_gate.weight"), get(prefix + "ffn_up.weight")]).to(dtype),
            down=get(prefix + "ffn_down.weight").to(dtype),
        )

    return BackboneWeights(
        embedding=get("token_embd.weight").to(dtype),
        layers=tuple(layer(i) for i in range(config.num_hidden_layers)),
        final_norm=get("output_norm.weight").to(dtype),
    )


def _tokenizer(fields: dict[str, Any]) -> Tokenizer:
    if fields["tokenizer.ggml.model"] != "gpt2" or fields["tokenizer.ggml.pre"] != "smollm":
        raise ReferenceImplError(
            f"tokenizer.ggml.pre: given {fields['tokenizer.ggml.model']!r}/{fields['tokenizer.ggml.pre']!r}, "
            "allowed 'gpt2'/'smollm'"
        )
    tokens: list[str] = fields["tokenizer.ggml.tokens"]
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = 3
    kinds = fields["tokenizer.ggml.token_type"]
    special = [t for t, kind in zip(tokens, kinds, strict=True) if kind == control]
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special])
    return tokenizer
