"""Gemma 4 assistant: a frozen head with sandwich norms and a dense or centroid LM head; it knows no device.

Parameters: ``2Bd + dB + sum_l [2 d H h_l + 3 d ff + 4 d + h_l + 1] + d + V d (+ C d)``, from the published
configurations. With centroids a draft step scores C centroids, keeps the best k, and reads the ``k V / C``
rows of their tokens: ``(C + k V / C) d`` instead of ``V d``. All rows stay in RAM, and so does the
``token_ordering`` buffer (int64). Structure: transformers ``modeling_gemma4_assistant.py``.
"""

from __future__ import annotations

from pydantic import Field, PositiveInt, model_validator

from simulator.drafters.base import Part
from simulator.drafters.frozen_mtp import layer_params
from simulator.drafters.heads import drafter_ops, kv_layers, projections, shared_embedding, target_kv_ops
from simulator.drafters.spec import Built, DrafterSpec, weights_part
from simulator.ops import Op, matrix_op
from simulator.specs import QuantScheme, TargetSpec
from simulator.specs.architecture import LayerType

_ORDER_BYTES = 8  # int64


class Spec(DrafterSpec):
    """An assistant checkpoint; names as in its ``config.json``.

    Attributes
    ----------
    hidden_size, intermediate_size, num_attention_heads : int
        Width d, MLP width, query heads.
    layer_types : tuple of str
        ``sliding_attention`` reads the target's last local layer that stores KV, ``full_attention`` the
        last global.
    use_ordered_embeddings : bool
        True: centroid head.
    num_centroids, centroid_intermediate_top_k : int
        Centroids and how many are kept.
    """

    hidden_size: PositiveInt
    intermediate_size: PositiveInt
    num_attention_heads: PositiveInt
    layer_types: tuple[LayerType, ...] = Field(strict=False, min_length=1)
    use_ordered_embeddings: bool = False
    num_centroids: PositiveInt = 2048
    centroid_intermediate_top_k: PositiveInt = 32

    @model_validator(mode="after")
    def _centroids(self) -> Spec:
        if self.use_ordered_embeddings and self.centroid_intermediate_top_k > self.num_centroids:
            raise ValueError("centroid_intermediate_top_k: more than num_centroids")
        return self


def build(spec: Spec, target: TargetSpec, scheme: QuantScheme) -> Built:
    """Return parts and ops of the assistant on this target."""
    names = ["last_local" if kind == "sliding_attention" else "last_global" for kind in spec.layer_types]
    read = kv_layers(f"drafter {spec.id}", target, names)
    d, bits, mac = spec.hidden_size, scheme.bits("layers"), scheme.mac()
    layers = d + sum(
        layer_params(width=d, q_dim=spec.num_attention_heads * layer.head_dim, head_dim=layer.head_dim,
                     intermediate_size=spec.intermediate_size, norms=4, q_norm=True, layer_scalar=True)
        for layer in read
    )  # fmt: skip
    gather, embedding = shared_embedding(target)
    project, projected = projections(target, scheme, width=d, norms=0)
    stack = matrix_op("assistant layers", "layers", layers, bits, mac, dispatches=5 * len(read))
    head, head_parts = _head(spec, target, scheme)
    attention = target_kv_ops(target, read, spec.num_attention_heads)
    return Built(
        parts=(embedding, projected, weights_part("layers", layers, bits), *head_parts),
        draft_ops=drafter_ops(gather, project, stack, attention, head),
    )


def _head(spec: Spec, target: TargetSpec, scheme: QuantScheme) -> tuple[list[Op], tuple[Part, ...]]:
    """Dense head, or centroids and the rows of the tokens under the best of them."""
    d, vocab, bits, mac = spec.hidden_size, target.vocab_size, scheme.bits("lm_head"), scheme.mac("lm_head")
    table = weights_part("lm_head", vocab * d, bits, "its own d-wide table, tied")
    if not spec.use_ordered_embeddings:
        return [matrix_op("dense LM head", "lm_head", vocab * d, bits, mac)], (table,)
    scored = spec.centroid_intermediate_top_k * vocab // spec.num_centroids
    ops = [
        matrix_op("centroids", "lm_head", spec.num_centroids * d, bits, mac),
        matrix_op("rows of the best centroids", "lm_head", scored * d, bits, mac),
        Op(name="token ordering", part="lm_head", bytes_per_row=_ORDER_BYTES * scored),
    ]
    ordering = Part(name="token_ordering", params=0, resident_bytes=_ORDER_BYTES * vocab, note="int64 buffer")
    return ops, (table, weights_part("centroids", spec.num_centroids * d, bits), ordering)
