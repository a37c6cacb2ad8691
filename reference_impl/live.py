"""Drafters at work in the decoding loop: each of the families as a ``decode.Drafter``, batch 1.

What is drafted is the same whether or not a request is shape-locked; only the target's passes are. It does
not know verification (``decode.py``), training, or how the same drafts are collected for a trace
(``collect.py``).
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from .backbone import Backbone, KVCache
from .checkpoint import load_drafter
from .decode import Drafter
from .drafters.mtp_head import MTPHead
from .drafters.ngram import NGramLookup
from .drafters.standalone import Standalone
from .drafters.suffix import SuffixLookup
from .drafters.vocabulary import RequestHead
from .errors import ReferenceImplError
from .gguf_target import Target, file_sha256
from .linear import pack_module

CHECKPOINTS = Path(__file__).parent / "checkpoints"
Model = TypeVar("Model", bound=torch.nn.Module)


@dataclass(frozen=True)
class NamedDrafter:
    """A drafter with the name, family and hash that go into a trace.

    Attributes
    ----------
    model : MTPHead, Standalone, NGramLookup or SuffixLookup
    """

    id: str
    family: str
    model: MTPHead | Standalone | NGramLookup | SuffixLookup
    sha256: str = ""

    @property
    def params(self) -> int:
        """Trained parameters (0 for a lookup)."""
        return (
            sum(p.numel() for p in self.model.parameters()) if isinstance(self.model, torch.nn.Module) else 0
        )

    @property
    def digest(self) -> str:
        """What tells two drafters apart: the hash of the file, or of what is in memory."""
        if self.sha256 or isinstance(self.model, NGramLookup):
            return self.sha256
        total = hashlib.sha256()
        if isinstance(self.model, SuffixLookup):
            total.update(self.model.stream)
        else:
            for tensor in self.model.state_dict().values():
                total.update(tensor.contiguous().view(torch.uint8).numpy())
        return total.hexdigest()


def load_named(path: Path, target: Target) -> NamedDrafter:
    """A trained drafter from its checkpoint (``.safetensors``), in the target's dtype.

    Raises
    ------
    ReferenceImplError
        Damaged file, or a drafter that was trained for another target.
    """
    model, metadata = load_drafter(path, target_sha256=target.sha256, dtype=target.backbone.dtype)
    family = "frozen_mtp" if isinstance(model, MTPHead) else "standalone"
    return NamedDrafter(metadata.get("id") or path.stem, family, model, file_sha256(path))


def lookup_drafters(suffix_path: Path | None = None) -> list[NamedDrafter]:
    """The drafters without weights: prompt lookup, and suffix lookup where its token stream is given."""
    found = [NamedDrafter("ngram", "ngram", NGramLookup())]
    if suffix_path is not None:
        found.append(
            NamedDrafter("suffix", "ngram", SuffixLookup.load(suffix_path), file_sha256(suffix_path))
        )
    return found


def shipped_drafters(target: Target, folder: Path = CHECKPOINTS) -> list[NamedDrafter]:
    """Every drafter of a folder of checkpoints (``suffix.safetensors`` is the lookup), and prompt lookup."""
    suffix = folder / "suffix.safetensors"
    trained = [load_named(path, target) for path in sorted(folder.glob("*.safetensors")) if path != suffix]
    return [*trained, *lookup_drafters(suffix if suffix.exists() else None)]


def live_drafter(named: NamedDrafter, backbone: Backbone) -> Drafter:
    """The drafter as the decoding loop wants it."""
    if isinstance(named.model, MTPHead):
        return LiveHead(named.model, backbone)
    if isinstance(named.model, Standalone):
        return LiveStandalone(named.model)
    return LiveLookup(named.model, response_only=isinstance(named.model, SuffixLookup))


class LiveHead:
    """MTP head: reads the target's cache in place, owns none, has nothing to prefill or roll back.

    Every draft of a step sees the slots ``[0, n)`` and stands at position ``n``, that of the pending token.
    """

    def __init__(self, head: MTPHead, backbone: Backbone) -> None:
        if head.config.target_hidden_size != backbone.config.hidden_size:
            raise ReferenceImplError(
                f"head: target_hidden_size: given {head.config.target_hidden_size}, "
                f"allowed {backbone.config.hidden_size} (the target's)"
            )
        self.head = for_inference(head)
        self.lm_head = RequestHead(backbone.weights.embedding, head.draft_ids)
        self._backbone = backbone

    def prefill(self, prompt: Sequence[int], cache: KVCache) -> None:
        """Remember whose cache to read and which tokens the prompt brings."""
        self._cache = cache
        self.lm_head.start(prompt)

    def visible(self, n: int) -> tuple[list[Tensor], list[Tensor]]:
        """Keys and values ``[0, n)`` of the layers the head reads: views of the target's own storage."""
        layers = self.head.config.kv_layers
        return [self._cache.keys[i][:, :, :n] for i in layers], [
            self._cache.values[i][:, :, :n] for i in layers
        ]

    @torch.inference_mode()
    def draft(self, tokens: Sequence[int], state: Tensor, k: int) -> tuple[list[int], list[float]]:
        """See ``decode.Drafter``."""
        n = len(tokens) - 1
        keys, values = self.visible(n)
        rotary = self.head.rotary(torch.tensor([[n]]))
        token = torch.tensor([[tokens[n]]])
        drafts: list[Tensor] = []
        probabilities: list[Tensor] = []
        for _ in range(k):
            state = self.head.step(self._backbone.embed(token), state, keys, values, None, rotary)
            token, probability = self.lm_head.choose(state)
            drafts.append(token)
            probabilities.append(probability)
        return _lists(drafts, probabilities)

    def commit(self, length: int) -> None:
        """Nothing to do: the target's rollback is the head's."""


class LiveStandalone:
    """Standalone drafter: own cache, own prefill, own rollback, and a catch-up row after a full accept."""

    def __init__(self, model: Standalone) -> None:
        self.model = for_inference(model)
        self.lm_head = RequestHead(self.model.embedding.weight, self.model.draft_ids)

    def prefill(self, prompt: Sequence[int], cache: KVCache) -> None:
        """Read the prompt into its own cache."""
        self.lm_head.start(prompt)
        self.cache = self.model.new_cache(cache.capacity, self.model.embedding.weight.dtype)
        self.length = 0
        self._read(prompt)

    def _read(self, tokens: Sequence[int]) -> Tensor:
        """Cache ``tokens`` behind what is cached; features of the last one, ``(1, 1, width)``."""
        with torch.inference_mode():
            features = self.model(torch.tensor([list(tokens)]), cache=self.cache, start=self.length)
        self.length += len(tokens)
        return features[:, -1:]

    @torch.inference_mode()
    def draft(self, tokens: Sequence[int], state: Tensor, k: int) -> tuple[list[int], list[float]]:
        """See ``decode.Drafter``; the first pass reads every token that is not cached yet (one, or two)."""
        unread = tokens[self.length :]
        drafts: list[Tensor] = []
        probabilities: list[Tensor] = []
        for _ in range(k):
            token, probability = self.lm_head.choose(self._read(unread))
            unread = [int(token)]
            drafts.append(token)
            probabilities.append(probability)
        return _lists(drafts, probabilities)

    def commit(self, length: int) -> None:
        """Forget the keys of rejected drafts."""
        self.length = min(self.length, length)


class _Lookup(Protocol):
    def propose(self, tokens: Sequence[int], k: int) -> tuple[list[int], list[float]]: ...


class LiveLookup:
    """Prompt or suffix lookup: no passes, no cache."""

    def __init__(self, lookup: _Lookup, *, response_only: bool) -> None:
        self._lookup = lookup
        self._response_only = response_only

    def prefill(self, prompt: Sequence[int], cache: KVCache) -> None:
        """Start over: only this request's text counts."""
        self._first = len(prompt) if self._response_only else 0
        if isinstance(self._lookup, NGramLookup):
            self._lookup.restart()

    def draft(self, tokens: Sequence[int], state: Tensor, k: int) -> tuple[list[int], list[float]]:
        """See ``decode.Drafter``."""
        return self._lookup.propose(tokens[self._first :], k)

    def commit(self, length: int) -> None:
        """Nothing to do: proposals are never indexed before they are emitted."""


def for_inference(model: Model) -> Model:
    """The model with its matrices packed where that is faster; the given one is left as it is."""
    if next(model.parameters()).dtype == torch.bfloat16:
        model = copy.deepcopy(model)
        pack_module(model)
    return model


def _lists(drafts: list[Tensor], probabilities: list[Tensor]) -> tuple[list[int], list[float]]:
    if not drafts:
        return [], []
    return torch.cat(drafts).flatten().tolist(), torch.cat(probabilities).flatten().tolist()
