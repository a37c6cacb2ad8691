"""A tiny random Llama and drafters made for it: they test mechanics and say nothing about quality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from reference_impl.backbone import Backbone, BackboneConfig, BackboneWeights, LayerWeights
from reference_impl.decode import decode
from reference_impl.drafters.mtp_head import MTPHead, MTPHeadConfig
from reference_impl.drafters.ngram import NGramLookup
from reference_impl.drafters.standalone import Standalone, StandaloneConfig
from reference_impl.drafters.suffix import SuffixLookup
from reference_impl.features import write_shard
from reference_impl.fetch import load_target
from reference_impl.generate import generate_batch
from reference_impl.gguf_target import Target
from reference_impl.live import NamedDrafter
from reference_impl.responses import Request

VOCAB = 97
EOS = 96
KV_LAYERS = (0, 1)


def tiny_backbone(seed: int = 0, *, dtype: torch.dtype = torch.float32, gain: float = 0.25) -> Backbone:
    """Two layers, hidden 32, vocabulary 97, grouped queries.

    The signs of the final norm make the next token mostly a function of the last one; the layers, the more
    the larger ``gain``, let the context have a say. So simple drafters are right often, but not always.
    """
    random = torch.Generator().manual_seed(seed)
    config = BackboneConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        intermediate_size=64,
        vocab_size=VOCAB,
        rope_theta=10000.0,
        rms_norm_eps=1e-5,
        eos_token_id=EOS,
    )

    def matrix(rows: int, columns: int, gain: float = 1.0) -> Tensor:
        return (torch.randn(rows, columns, generator=random) * gain * columns**-0.5).to(dtype)

    def norm() -> Tensor:
        return (1 + 0.1 * torch.randn(32, generator=random)).to(dtype)

    layers = tuple(
        LayerWeights(
            input_norm=norm(),
            qkv=matrix((4 + 2 * 2) * 8, 32, 2.0),
            attention_output=matrix(32, 32, gain),
            post_attention_norm=norm(),
            gate_up=matrix(128, 32, 2.0),
            down=matrix(32, 64, gain),
        )
        for _ in range(2)
    )
    signs = torch.randint(0, 2, (32,), generator=random) * 2 - 1
    weights = BackboneWeights(matrix(VOCAB, 32, 6.0), layers, norm() * signs)
    return Backbone(config, weights, max_positions=512)


def tiny_prompts(count: int, seed: int = 0, *, longest: int = 12) -> list[list[int]]:
    """Random prompts of 3 to ``longest`` tokens."""
    random = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, longest + 1, (count,), generator=random).tolist()
    return [torch.randint(0, EOS, (n,), generator=random).tolist() for n in lengths]


def tiny_head(backbone: Backbone, *, seed: int = 0, noise: float = 0.25, draft_vocab: int = 90) -> MTPHead:
    """A two-layer head that knows the target's habit; its draft vocabulary lacks a few tokens."""
    torch.manual_seed(seed)
    config = MTPHeadConfig(
        target_hidden_size=32,
        width=32,
        kv_layers=KV_LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        intermediate_size=48,
        draft_vocab_size=draft_vocab,
        rope_theta=10000.0,
    )
    head = MTPHead(config, torch.arange(VOCAB - draft_vocab, VOCAB), max_positions=512)
    with torch.no_grad():
        head.pre_projection.weight.mul_(noise)
        head.pre_projection.weight[:, :32] += torch.diag(backbone.weights.final_norm.float())
        head.post_projection.weight.mul_(noise).add_(torch.eye(32))
        for layer in head.layers:
            layer.attention_output.weight.mul_(noise)
            layer.down.weight.mul_(noise)
    return head.to(backbone.dtype).eval().requires_grad_(False)


def tiny_standalone(
    backbone: Backbone, *, seed: int = 0, noise: float = 0.1, draft_vocab: int = 90
) -> Standalone:
    """A disturbed copy of the target as a language model of its own."""
    torch.manual_seed(seed)
    source = backbone.weights
    config = StandaloneConfig(
        vocab_size=VOCAB,
        width=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        intermediate_size=64,
        draft_vocab_size=draft_vocab,
    )
    model = Standalone(config, torch.arange(VOCAB - draft_vocab, VOCAB), max_positions=512)
    with torch.no_grad():
        model.embedding.weight.copy_(source.embedding)
        model.final_norm.weight.copy_(source.final_norm)
        for layer, original in zip(model.layers, source.layers, strict=True):
            layer.attention_norm.weight.copy_(original.input_norm)
            layer.mlp_norm.weight.copy_(original.post_attention_norm)
            for module, weight in (
                (layer.qkv, original.qkv),
                (layer.attention_output, original.attention_output),
                (layer.gate_up, original.gate_up),
                (layer.down, original.down),
            ):
                module.weight.copy_(weight * (1 + noise * torch.randn(weight.shape)))
    return model.to(backbone.dtype).eval().requires_grad_(False)


def write_features(backbone: Backbone, folder: Path, *, count: int = 24, new_tokens: int = 20) -> None:
    """Shards of the target's own answers to random prompts."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in range(2):
        prompts = tiny_prompts(count // 2, 100 + part)
        made = generate_batch(backbone, prompts, max_new_tokens=new_tokens, kv_layers=KV_LAYERS)
        write_shard(folder / f"{part}.safetensors", made, KV_LAYERS, task="toy")


class Scripted:
    """A drafter that knows the text and is wrong where told: drives every accept count through the loop."""

    def __init__(self, prompt_length: int, response: Sequence[int], wrong: Sequence[bool]) -> None:
        self._first, self._response, self._wrong = prompt_length, list(response), list(wrong)
        self.seen: list[int] = []

    def prefill(self, prompt: Sequence[int], cache: object) -> None:
        pass

    def draft(self, tokens: Sequence[int], state: Tensor, k: int) -> tuple[list[int], list[float]]:
        t = len(tokens) - self._first
        right = [*self._response[t : t + k], *[0] * k][:k]
        wrong = [self._wrong[(t + i) % len(self._wrong)] for i in range(k)]
        return [(d + 1) % VOCAB if bad else d for d, bad in zip(right, wrong, strict=True)], [1.0] * k

    def commit(self, length: int) -> None:
        self.seen.append(length)


@lru_cache(maxsize=2)
def real_target(dtype: torch.dtype = torch.float32) -> Target:
    """The real frozen target, loaded once."""
    return load_target(dtype)


class TinyTokenizer:
    """Words are token ids, so that prompts survive the way through a file."""

    def decode(self, tokens: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        return " ".join(str(t) for t in tokens)


@dataclass(frozen=True)
class TinyTarget:
    """A target around the tiny backbone."""

    id: str
    sha256: str
    backbone: Backbone
    tokenizer: TinyTokenizer

    def encode(self, text: str) -> list[int]:
        return [int(word) for word in text.split()]


def tiny_target(seed: int = 0) -> TinyTarget:
    """The tiny backbone as a target with a name and a hash."""
    return TinyTarget("tiny", f"{seed:064d}", tiny_backbone(seed), TinyTokenizer())


def tiny_requests(backbone: Backbone, count: int, seed: int, *, new_tokens: int = 20) -> list[Request]:
    """Requests of two tasks with the backbone's own greedy responses."""
    requests = []
    for i, prompt in enumerate(tiny_prompts(count, seed)):
        response = decode(backbone, prompt, max_new_tokens=new_tokens).tokens
        task = ("code", "chat")[2 * i // count]
        text = " ".join(str(t) for t in prompt)
        requests.append(Request(f"{task}/test/{i}", task, text, tuple(prompt), tuple(response), 0.125))
    return requests


def tiny_drafters(backbone: Backbone) -> list[NamedDrafter]:
    """One of each family; the suffix lookup knows some of the backbone's texts."""
    memory = [decode(backbone, p, max_new_tokens=30).tokens for p in tiny_prompts(12, 77)]
    return [
        NamedDrafter("mtp_head", "frozen_mtp", tiny_head(backbone)),
        NamedDrafter("standalone_body", "standalone", tiny_standalone(backbone)),
        NamedDrafter("ngram", "ngram", NGramLookup()),
        NamedDrafter("suffix", "ngram", SuffixLookup(memory)),
    ]
