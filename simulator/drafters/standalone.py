"""Standalone drafter: a small language model with its own table, cache and prefill, blind to the target.

It shares nothing with the target but the tokenizer. After a full accept its cache lacks the last draft, so
the first draft pass of the next step has one extra row (``catch_up_rows = "bonus"``).
"""

from __future__ import annotations

import math

from pydantic import PositiveInt, model_validator

from simulator.drafters.base import Part
from simulator.drafters.heads import drafter_ops
from simulator.drafters.spec import Built, Cited, DrafterSpec, cited_kinds, cited_part, weights_part
from simulator.errors import DraftscopeError
from simulator.ops import lm_head_op, target_ops
from simulator.specs import Architecture, QuantScheme, TargetSpec, load_target

_LEAST_VOCABULARY = 0.99  # a table may lack the padding and the placeholders for images and sound


class Spec(DrafterSpec):
    """A small language model as drafter.

    Attributes
    ----------
    architecture : Architecture or None
        Its dimensions; or
    model : str or None
        the name of a shipped target that serves as drafter.
    draft_vocab_size : int or None
        It scores only these rows of its table; None = all.
    prefill_variant_bytes : Cited or None
        RAM of separate prefill graphs (static-shape runtimes keep one per shape) [B].
    per_app_bytes : Cited or None
        RAM of parameters tuned for single apps or tasks [B].
    """

    architecture: Architecture | None = None
    model: str | None = None
    draft_vocab_size: PositiveInt | None = None
    prefill_variant_bytes: Cited | None = None
    per_app_bytes: Cited | None = None

    @model_validator(mode="after")
    def _one_network(self) -> Spec:
        if (self.architecture is None) == (self.model is None):
            raise ValueError("architecture: give either [architecture] or model, not both")
        return self


def build(spec: Spec, target: TargetSpec, scheme: QuantScheme) -> Built:
    """Return parts, draft ops and prefill ops of the drafter.

    Raises
    ------
    DraftscopeError
        Its vocabulary is not the target's (but for at most 1 % of padding and placeholders).
    """
    network = network_of(spec, scheme)
    least = math.ceil(_LEAST_VOCABULARY * target.vocab_size)
    if not least <= network.vocab_size <= target.vocab_size:
        raise DraftscopeError(
            f"drafter {spec.id}: vocab_size: {network.vocab_size} given; allowed for {target.id}: {least} to "
            f"{target.vocab_size} (a standalone drafter shares the target's tokenizer)."
        )
    ops = target_ops(network)
    body = [op for op in ops if op.part != "lm_head"]
    return Built(
        parts=(
            *_weight_parts(network, scheme),
            *cited_part("prefill_variants", spec.prefill_variant_bytes),
            *cited_part("per_app", spec.per_app_bytes),
            *_vocabulary_map(spec.draft_vocab_size),
        ),
        draft_ops=drafter_ops(body, lm_head_op(network, spec.draft_vocab_size)),
        prefill_ops=drafter_ops(body),
        context="own",
        catch_up_rows="bonus",
        own_kv_bytes_per_token=network.kv_bytes_per_token(),
        own_kv_window=network.sliding_window,
        own_kv_windowed_bytes_per_token=network.kv_windowed_bytes_per_token(),
        kinds=cited_kinds(spec.prefill_variant_bytes, spec.per_app_bytes),
    )


def network_of(spec: Spec, scheme: QuantScheme) -> TargetSpec:
    """Return the drafter's network as a target of its own, in the drafter's precision."""
    if spec.model is not None:
        return load_target(spec.model).model_copy(update={"quant": scheme})
    fields = {} if spec.architecture is None else spec.architecture.model_dump(exclude_none=True)
    return TargetSpec(id=spec.id, quant=scheme, **fields)


def _weight_parts(network: TargetSpec, scheme: QuantScheme) -> tuple[Part, ...]:
    counts = network.param_counts()
    tied = network.tie_word_embeddings
    parts = [
        weights_part(
            "embedding", counts["embedding"], scheme.bits("embedding"), "tied to the LM head" if tied else ""
        ),
        weights_part("layers", network.core_params(), scheme.bits("layers")),
    ]
    if not tied:
        parts.append(weights_part("lm_head", counts["lm_head"], scheme.bits("lm_head")))
    if counts["per_layer_embedding"]:
        bits = scheme.bits("per_layer_embedding")
        parts.append(weights_part("per_layer_embedding", counts["per_layer_embedding"], bits))
    return tuple(parts)


def _vocabulary_map(rows: int | None) -> tuple[Part, ...]:
    if rows is None:
        return ()
    return (Part(name="vocabulary_map", params=0, resident_bytes=8.0 * rows, note="64-bit token ids"),)
