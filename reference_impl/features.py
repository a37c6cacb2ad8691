"""Training features on disk: what the frozen target computed once, so that a step costs only the head.

A shard is one safetensors file of whole sequences laid end to end: tokens, post-norm hidden states, and the
keys and values of the layers that heads may read. A ``FeatureStore`` serves micro-batches of sequences of
similar length from all the shards of a folder. It does not know what is trained on them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from simulator.files import whole_file

from .errors import ReferenceImplError
from .generate import Generation


@dataclass(frozen=True)
class FeatureBatch:
    """A padded micro-batch.

    Attributes
    ----------
    tokens : Tensor of int64, shape (batch, length + 1)
    hidden : Tensor, shape (batch, length, hidden_size)
        Row ``t`` is the target's state after reading ``tokens[t]``.
    keys, values : dict layer -> Tensor, shape (batch, kv_heads, length, head_dim)
    prompt_lengths : Tensor of int64, shape (batch,)
    first, last : Tensor of int64, shape (batch,)
        First and last usable anchor ``t``: the pending token is ``tokens[t + 1]``, the first label
        ``tokens[t + 2]``.
    """

    tokens: Tensor
    hidden: Tensor
    keys: dict[int, Tensor]
    values: dict[int, Tensor]
    prompt_lengths: Tensor
    first: Tensor
    last: Tensor


def write_shard(
    path: Path, generations: Sequence[Generation], kv_layers: Sequence[int], *, task: str
) -> None:
    """Write sequences with features to one file (temporary file, then rename)."""
    usable = [g for g in generations if len(g.tokens) - g.prompt_length >= 2]
    if not usable:
        return
    tensors: dict[str, Tensor] = {
        "tokens": torch.cat([torch.tensor(g.tokens, dtype=torch.int32) for g in usable]),
        "lengths": torch.tensor([len(g.tokens) for g in usable], dtype=torch.int32),
        "prompt_lengths": torch.tensor([g.prompt_length for g in usable], dtype=torch.int32),
        "hidden": torch.cat([g.hidden for g in usable if g.hidden is not None]),
    }
    for row, layer in enumerate(kv_layers):
        tensors[f"keys.{layer}"] = torch.cat(
            [g.keys[row].transpose(0, 1) for g in usable if g.keys is not None]
        )
        tensors[f"values.{layer}"] = torch.cat(
            [g.values[row].transpose(0, 1) for g in usable if g.values is not None]
        )
    with whole_file(path, error=ReferenceImplError) as temporary:
        save_file({k: v.contiguous() for k, v in tensors.items()}, temporary, metadata={"task": task})


class FeatureStore:
    """All shards of a folder, read lazily.

    Parameters
    ----------
    folder : Path
    kv_layers : sequence of int
        Layers whose keys and values to serve.
    prompt_anchors : int
        How many of the prompt's last tokens serve as anchors too (labelled by the target's distribution).
    share : float
        Serve only this leading share of every shard's sequences.

    Raises
    ------
    ReferenceImplError
        When the folder holds no shard, a shard is damaged, or a layer was not stored.
    """

    def __init__(
        self, folder: Path, kv_layers: Sequence[int], *, prompt_anchors: int = 0, share: float = 1.0
    ) -> None:
        self.kv_layers = tuple(kv_layers)
        self.prompt_anchors = prompt_anchors
        self.paths = sorted(folder.glob("*.safetensors"))
        if not self.paths:
            raise ReferenceImplError(f"{folder}: no feature shards (*.safetensors); collect them first")
        self._lengths: list[Tensor] = []
        self._prompts: list[Tensor] = []
        self.tasks: list[str] = []
        self._open: dict[int, object] = {}
        for path in self.paths:
            try:
                with safe_open(path, framework="pt") as shard:
                    missing = [n for n in self.kv_layers if f"keys.{n}" not in set(shard.keys())]
                    lengths = shard.get_tensor("lengths").long()
                    kept = max(1, round(share * len(lengths)))
                    self._lengths.append(lengths[:kept])
                    self._prompts.append(shard.get_tensor("prompt_lengths").long()[:kept])
                    self.tasks.append((shard.metadata() or {}).get("task", ""))
            except (SafetensorError, OSError, json.JSONDecodeError) as error:
                raise ReferenceImplError(f"{path}: not a readable feature shard ({error})") from error
            if missing:
                raise ReferenceImplError(f"{path}: keys and values of layers {missing} were not stored")

    def anchor_count(self) -> int:
        """Anchors of one pass over the store."""
        return sum(int(self._counts(shard).sum()) for shard in range(len(self.paths)))

    def sequence_count(self, shard: int) -> int:
        """Sequences served from one shard."""
        return len(self._lengths[shard])

    def _first(self, shard: int) -> Tensor:
        return (self._prompts[shard] - 1 - self.prompt_anchors).clamp(min=0)

    def _counts(self, shard: int) -> Tensor:
        return self._lengths[shard] - 2 - self._first(shard)

    def sequences(self) -> Iterator[tuple[Tensor, int]]:
        """Every sequence's token ids (prompt and response) and its prompt length."""
        for path, lengths, prompt_lengths in zip(self.paths, self._lengths, self._prompts, strict=True):
            with safe_open(path, framework="pt") as shard:
                tokens = shard.get_tensor("tokens").long()
            parts = tokens[: int(lengths.sum())].split(lengths.tolist())
            yield from zip(parts, prompt_lengths.tolist(), strict=True)

    def batches(self, *, anchors: int, generator: torch.Generator) -> Iterator[FeatureBatch]:
        """One shuffled pass of micro-batches with about ``anchors`` anchors each (padding included)."""
        plan: list[tuple[int, list[int]]] = []
        for shard in range(len(self.paths)):
            counts = self._counts(shard)
            jitter = torch.rand(len(counts), generator=generator) * 8
            rows: list[int] = []
            widest = 0
            for row in torch.argsort(counts + jitter).tolist():
                widest = max(widest, int(counts[row]))
                rows.append(row)
                if len(rows) * widest >= anchors:
                    plan.append((shard, rows))
                    rows, widest = [], 0
            if rows:
                plan.append((shard, rows))
        for index in torch.randperm(len(plan), generator=generator).tolist():
            yield self.load(*plan[index])

    def load(self, shard: int, rows: Sequence[int]) -> FeatureBatch:
        """The padded micro-batch of some sequences of one shard."""
        if shard not in self._open:
            self._open[shard] = safe_open(self.paths[shard], framework="pt").__enter__()
        handle = self._open[shard]
        lengths, prompts = self._lengths[shard], self._prompts[shard]
        ends = lengths.cumsum(0)
        feature_ends = (lengths - 1).cumsum(0)
        width = int(lengths[list(rows)].max())

        def padded(name: str, extra: int) -> Tensor:
            view = handle.get_slice(name)  # type: ignore[attr-defined]
            stop = ends if extra else feature_ends
            shape = view.get_shape()[1:]
            out = None
            for i, row in enumerate(rows):
                size = int(lengths[row]) - 1 + extra
                part = view[int(stop[row]) - size : int(stop[row])]
                if out is None:
                    out = torch.zeros(len(rows), width - 1 + extra, *shape, dtype=part.dtype)
                out[i, :size] = part
            return out  # type: ignore[return-value]

        return FeatureBatch(
            tokens=padded("tokens", 1).long(),
            hidden=padded("hidden", 0),
            keys={n: padded(f"keys.{n}", 0).transpose(1, 2) for n in self.kv_layers},
            values={n: padded(f"values.{n}", 0).transpose(1, 2) for n in self.kv_layers},
            prompt_lengths=prompts[list(rows)],
            first=self._first(shard)[list(rows)],
            last=lengths[list(rows)] - 3,
        )
