"""Conventional MTP module: it shares the target's embedding table but keeps its own KV and prefill.

Static sharing alone saves neither: its layers have keys and values, so it stores a cache that grows with
the context, and it must run over the prompt before the first draft. It does not know its acceptance.
Structure as in DeepSeek-V3 (arXiv 2412.19437, section 2.2): norms, projection 2B -> d, full decoder layers,
a head that is the target's or its own. Accepted positions rebuilt from the target's states are costed as
one extra row per step after a full accept, not as a second pass.
"""

from __future__ import annotations

from typing import Literal

from pydantic import NonNegativeInt, PositiveInt

from simulator.drafters.heads import drafter_ops, head_of, projections, shared_embedding
from simulator.drafters.spec import Built, DrafterSpec, weights_part
from simulator.ops import kv_ops, layer_ops
from simulator.specs import QuantScheme, TargetSpec


class Spec(DrafterSpec):
    """A module with its own cache.

    Attributes
    ----------
    hidden_size, intermediate_size, num_hidden_layers : int
        Width d, MLP width, layers.
    num_attention_heads, num_key_value_heads, head_dim : int
        Attention of its layers.
    norms : int
        Norms of the embedding and of the state (each B wide), 0 to 2.
    head : {"target", "own"}
        The target's LM head on the fed-back state, or an own one.
    draft_vocab_size, head_rank : int or None
        Reduced vocabulary and rank of an own head.
    """

    hidden_size: PositiveInt
    intermediate_size: PositiveInt
    num_hidden_layers: PositiveInt
    num_attention_heads: PositiveInt
    num_key_value_heads: PositiveInt
    head_dim: PositiveInt
    norms: NonNegativeInt = 2
    head: Literal["own", "target"] = "target"
    draft_vocab_size: PositiveInt | None = None
    head_rank: PositiveInt | None = None


def build(spec: Spec, target: TargetSpec, scheme: QuantScheme) -> Built:
    """Return parts, draft ops and prefill ops of the module."""
    stack = TargetSpec(
        id=spec.id, family="llama", quant=scheme, vocab_size=1, hidden_size=spec.hidden_size,
        intermediate_size=spec.intermediate_size, num_hidden_layers=spec.num_hidden_layers,
        num_attention_heads=spec.num_attention_heads, num_key_value_heads=spec.num_key_value_heads,
        head_dim=spec.head_dim,
    )  # fmt: skip
    feedback = spec.hidden_size != target.hidden_size
    gather, embedding = shared_embedding(target)
    project, projected = projections(
        target, scheme, width=spec.hidden_size, norms=spec.norms * target.hidden_size, feedback=feedback
    )
    head, head_parts = head_of(
        target,
        scheme,
        kind=spec.head,
        width=spec.hidden_size,
        vocab=spec.draft_vocab_size,
        rank=spec.head_rank,
    )
    body = [*layer_ops(stack), *kv_ops(stack)]
    layers = weights_part("layers", stack.core_params(), scheme.bits("layers"))
    return Built(
        parts=(embedding, projected, layers, *head_parts),
        draft_ops=drafter_ops(gather, project, body, head),
        prefill_ops=drafter_ops(gather, project[:1], body),
        context="own",
        catch_up_rows="bonus",
        own_kv_bytes_per_token=stack.kv_bytes_per_token(),
    )
