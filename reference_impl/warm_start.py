"""Start a head from linear fits instead of from noise: each part does the best it could if it were linear.

The target's own queries at the layers that the head reads, and its next hidden state, are both largely linear
in what the head is given (embedding of the pending token, state before it). Ridge regressions on a few
hundred sequences therefore give a head that attends where the target attends, copying included, and proposes
well before its first training step; training from noise spends most of its time finding that.
It does not know losses or optimisers (``train.py``).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .backbone import Backbone, rotate
from .drafters.mtp_head import MTPHead
from .features import FeatureStore

#: Positions left out at the start of each sequence.
SKIPPED = 8

_RIDGE = 1e-2


@dataclass(frozen=True)
class _Sequence:
    """One sequence from position ``SKIPPED`` on; keys and values from its start, one a layer of the head."""

    embedding: Tensor
    state: Tensor
    following: Tensor
    queries: list[Tensor]
    keys: list[Tensor]
    values: list[Tensor]

    @property
    def positions(self) -> Tensor:
        return SKIPPED + torch.arange(len(self.state))


@torch.no_grad()
def warm_start(head: MTPHead, backbone: Backbone, store: FeatureStore, *, sequences: int = 320) -> None:
    """Replace the projections, queries and attention outputs of ``head`` by linear fits.

    1. The input projection becomes the directions of (embedding, state) from which the target's queries and
       next state follow best (reduced-rank ridge regression), scaled to unit variance.
    2. Layer by layer: queries that fit the target's own; attention runs with them; its output is written
       where the present fit of the next state reads it.
    3. The output projection is the final fit of the next state.

    Errors of the state are weighed by the target's LM head rows: what moves logits counts.

    Parameters
    ----------
    head : MTPHead
        In float32.
    backbone : Backbone
        The target, for its queries.
    store : FeatureStore
        Serving the layers that the head reads.
    sequences : int
        About how many to fit on, spread over all shards.
    """
    data = _sequences(head, backbone, store, sequences)
    rows = backbone.weights.embedding[head.draft_ids].float()
    size, width = rows.shape[1], head.config.width
    metric = torch.linalg.cholesky(rows.T @ rows / len(rows) + 1e-4 * torch.eye(size))
    inputs = torch.cat([torch.cat([_unit(s.embedding), _unit(s.state)], dim=1) for s in data])
    aim = torch.cat([s.following for s in data]) @ metric
    queries = [torch.cat(column) for column in zip(*(s.queries for s in data), strict=True)]

    wanted = torch.cat([2 * _scaled(aim), *(_scaled(q) for q in queries)], dim=1)
    fit = _ridge(inputs, wanted)
    _, directions = torch.linalg.eigh(fit.T @ (inputs.T @ inputs) @ fit)
    projection = fit @ directions[:, -width:]
    projection /= (inputs @ projection).square().mean(0).sqrt().clamp(min=1e-3)
    head.pre_projection.weight.copy_(projection.T)

    x = inputs @ projection
    for number, (layer, wanted) in enumerate(zip(head.layers, queries, strict=True)):
        seen = _unit(x)
        query = _ridge(seen, wanted)
        attended = _attend(head, data, number, (seen @ query).split([len(s.state) for s in data]))
        reading = _ridge(seen, aim)
        adds = _ridge(torch.cat([seen, attended], dim=1), aim)[width:]
        written = adds @ torch.linalg.pinv(reading, rtol=1e-2) * x.square().mean().sqrt()
        layer.query.weight.copy_(query.T)
        layer.attention_output.weight.copy_(written.T)
        nn.init.normal_(layer.down.weight, std=1e-3)
        x = x + attended @ written
    head.post_projection.weight.copy_((_ridge(_unit(x), aim) @ torch.linalg.inv(metric)).T)


def _sequences(head: MTPHead, backbone: Backbone, store: FeatureStore, count: int) -> list[_Sequence]:
    layers = head.config.kv_layers
    found = []
    each = max(1, count // len(store.paths))
    for shard in range(len(store.paths)):
        some = torch.linspace(0, store.sequence_count(shard) - 1, each).long().unique()
        for row in some.tolist():
            batch = store.load(shard, [row])
            length = batch.hidden.shape[1]
            if length <= SKIPPED:
                continue
            tokens = batch.tokens[:, :length]
            queries: dict[int, Tensor] = dict.fromkeys(layers, tokens)
            backbone.forward(tokens, backbone.new_cache(capacity=length), 0, queries=queries)
            found.append(
                _Sequence(
                    embedding=backbone.embed(tokens)[0, SKIPPED:].float(),
                    state=batch.hidden[0, SKIPPED - 1 : -1].float(),
                    following=batch.hidden[0, SKIPPED:].float(),
                    queries=[queries[n][0].transpose(0, 1).flatten(1)[SKIPPED:].float() for n in layers],
                    keys=[batch.keys[n].float() for n in layers],
                    values=[batch.values[n].float() for n in layers],
                )
            )
    return found


def _attend(head: MTPHead, data: list[_Sequence], number: int, queries: tuple[Tensor, ...]) -> Tensor:
    """What head layer ``number`` reads with these queries: the slots before each position."""
    config = head.config
    read = []
    for sequence, query in zip(data, queries, strict=True):
        position = sequence.positions
        q = query.view(1, -1, config.num_attention_heads, config.head_dim).transpose(1, 2)
        visible = torch.arange(sequence.keys[number].shape[2]) < position[:, None]
        out = F.scaled_dot_product_attention(
            rotate(q, *head.rotary(position[None])),
            sequence.keys[number],
            sequence.values[number],
            attn_mask=visible,
            enable_gqa=config.num_attention_heads != config.num_key_value_heads,
        )
        read.append(out[0].transpose(0, 1).flatten(1))
    return torch.cat(read)


def _unit(x: Tensor) -> Tensor:
    """As the head's norms start: unit root mean square a row."""
    return F.rms_norm(x, x.shape[-1:], eps=1e-5)


def _scaled(x: Tensor) -> Tensor:
    """Unit mean square of the rows' lengths."""
    return x / x.square().sum(-1).mean().sqrt()


def _ridge(x: Tensor, y: Tensor) -> Tensor:
    """``(in, out)`` matrix that minimises the squared error of ``x @ matrix``, lightly shrunk."""
    gram = x.T @ x
    shrink = _RIDGE * gram.diagonal().mean() * torch.eye(len(gram))
    return torch.linalg.solve(gram + shrink, x.T @ y)
