"""Frozen multi-token prediction head: queries only, over the target's own KV; it knows no acceptance.

``2 B d`` input projection, ``n`` layers of ``2 d q + 3 d ff`` (query and output projections, gated MLP; no K,
no V), ``d B`` feedback projection, and an LM head over all tokens, a reduced draft vocabulary or in two
low-rank factors. No cache and no prefill of its own; position and visible KV are those of the step's start.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from simulator.drafters.heads import (
    drafter_ops,
    head_of,
    kv_layers,
    projections,
    shared_embedding,
    target_kv_ops,
)
from simulator.drafters.spec import Built, DrafterSpec, weights_part
from simulator.ops import matrix_op
from simulator.specs import QuantScheme, TargetSpec


class Spec(DrafterSpec):
    """A frozen head.

    Attributes
    ----------
    hidden_size, intermediate_size, num_attention_heads : int
        Width d, MLP width, query heads of the target's head size.
    kv_layers : tuple of int or str
        One entry per layer: the target layer whose cache it reads, or ``last_local`` / ``last_global``.
    norms_per_layer : int
        Norms of width d in a layer.
    q_norm, layer_scalar, input_norms : bool
        Query norm per layer; one scalar per layer; norms of the embedding and of the state (2B).
    head : {"own", "target"}
        An own LM head, or the target's on the fed-back state.
    draft_vocab_size, head_rank : int or None
        Reduced vocabulary; rank of an own head.
    """

    hidden_size: PositiveInt
    intermediate_size: PositiveInt
    num_attention_heads: PositiveInt
    kv_layers: tuple[NonNegativeInt | str, ...] = Field(strict=False, min_length=1)
    norms_per_layer: NonNegativeInt = 2
    q_norm: bool = False
    layer_scalar: bool = False
    input_norms: bool = True
    head: Literal["own", "target"] = "own"
    draft_vocab_size: PositiveInt | None = None
    head_rank: PositiveInt | None = None


def layer_params(
    *,
    width: int,
    q_dim: int,
    intermediate_size: int,
    norms: int,
    head_dim: int,
    q_norm: bool,
    layer_scalar: bool,
) -> int:
    """Parameters of one layer without keys and values: ``2 d q + 3 d ff`` + norms + query norm + scalar."""
    matrices = 2 * width * q_dim + 3 * width * intermediate_size
    return matrices + norms * width + (head_dim if q_norm else 0) + int(layer_scalar)


def build(spec: Spec, target: TargetSpec, scheme: QuantScheme) -> Built:
    """Return parts and ops of the head on this target.

    Raises
    ------
    DraftscopeError
        ``kv_layers`` names a layer that the target lacks.
    """
    read = kv_layers(f"drafter {spec.id}", target, spec.kv_layers)
    d, bits, mac = spec.hidden_size, scheme.bits("layers"), scheme.mac()
    layers = d + sum(  # the first term is the final norm
        layer_params(width=d, q_dim=spec.num_attention_heads * layer.head_dim, head_dim=layer.head_dim,
                     intermediate_size=spec.intermediate_size, norms=spec.norms_per_layer, q_norm=spec.q_norm,
                     layer_scalar=spec.layer_scalar)
        for layer in read
    )  # fmt: skip
    gather, embedding = shared_embedding(target)
    project, projected = projections(
        target, scheme, width=d, norms=2 * target.hidden_size if spec.input_norms else 0
    )
    head, head_parts = head_of(
        target, scheme, kind=spec.head, width=d, vocab=spec.draft_vocab_size, rank=spec.head_rank
    )
    stack = matrix_op("head layers", "layers", layers, bits, mac, dispatches=5 * len(read))
    attention = target_kv_ops(target, read, spec.num_attention_heads)
    return Built(
        parts=(embedding, projected, weights_part("layers", layers, bits), *head_parts),
        draft_ops=drafter_ops(gather, project, stack, attention, head),
    )
