"""Exact parameter and cache shapes of decoder families; it does not know precision, devices or drafters.

Field names are those of Hugging Face configurations. Families differ in a few traits (:data:`FAMILIES`):
norms per layer, query and key norms, biases, and the extras of Gemma 3n (AltUp, LAuReL, per-layer
embeddings) and Gemma 4 (double-wide MLP in KV-shared layers, K = V projection, layer scalars, mixture of
experts). Counts equal those of the modelling code in transformers 5.24 (tests), plus Gemma 4's layer scalars.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, Strict, model_validator

LayerType = Literal["sliding_attention", "full_attention"]
Widths = Annotated[tuple[PositiveInt, ...], Strict(False)]
LayerTypes = Annotated[tuple[LayerType, ...], Strict(False)]


@dataclass(frozen=True, kw_only=True)
class FamilyTraits:
    """What the fields of a configuration do not say."""

    norms_per_layer: int = 2
    qk_norm: bool = False
    qkv_bias: bool = False
    layer_scalar: bool = False
    altup: bool = False


FAMILIES: dict[str, FamilyTraits] = {
    "llama": FamilyTraits(),
    "mistral": FamilyTraits(),
    "smollm3": FamilyTraits(),
    "qwen2": FamilyTraits(qkv_bias=True),
    "qwen3": FamilyTraits(qk_norm=True),
    "gemma": FamilyTraits(),
    "gemma2": FamilyTraits(norms_per_layer=4),
    "gemma3": FamilyTraits(norms_per_layer=4, qk_norm=True),
    "gemma3n": FamilyTraits(norms_per_layer=4, qk_norm=True, altup=True),
    "gemma4": FamilyTraits(norms_per_layer=4, qk_norm=True, layer_scalar=True),
}


@dataclass(frozen=True, kw_only=True)
class LayerShape:
    """One decoder layer.

    Attributes
    ----------
    index : int
        Position, from 0.
    is_local : bool
        Sliding-window attention.
    stores_kv : bool
        False in layers that reuse the cache of ``kv_source``.
    kv_source : int
        Layer whose cache it reads (itself if it stores one).
    head_dim, q_dim, kv_dim : int
        Head size, all query heads together, all key heads together.
    intermediate_size : int
        MLP width.
    shared_kv_projection : bool
        One projection makes K and V (both are still cached).
    """

    index: int
    is_local: bool
    stores_kv: bool
    kv_source: int
    head_dim: int
    q_dim: int
    kv_dim: int
    intermediate_size: int
    shared_kv_projection: bool


class Architecture(BaseModel):
    """Dimensions of a decoder-only text model (towers for images and sound are left out)."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    family: str
    vocab_size: PositiveInt
    hidden_size: PositiveInt
    intermediate_size: PositiveInt | Widths
    num_hidden_layers: PositiveInt
    num_attention_heads: PositiveInt
    num_key_value_heads: PositiveInt
    head_dim: PositiveInt
    global_head_dim: PositiveInt | None = None
    num_global_key_value_heads: PositiveInt | None = None
    attention_k_eq_v: bool = False
    sliding_window: PositiveInt | None = None
    sliding_window_pattern: PositiveInt | None = None
    layer_types: LayerTypes | None = None
    num_kv_shared_layers: int = Field(default=0, ge=0)
    use_double_wide_mlp: bool = False
    tie_word_embeddings: bool = True
    hidden_size_per_layer_input: int = Field(default=0, ge=0)
    vocab_size_per_layer_input: PositiveInt | None = None
    altup_num_inputs: int = Field(default=0, ge=0)
    laurel_rank: int = Field(default=0, ge=0)
    num_experts: int = Field(default=0, ge=0)
    top_k_experts: int = Field(default=0, ge=0)
    moe_intermediate_size: int = Field(default=0, ge=0)
    max_position_embeddings: PositiveInt | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Architecture:
        n = self.num_hidden_layers
        if self.family not in FAMILIES:
            raise ValueError(f"family: {self.family!r} given; allowed: {', '.join(sorted(FAMILIES))}")
        if self.layer_types is not None and len(self.layer_types) != n:
            raise ValueError(f"layer_types: {len(self.layer_types)} entries for {n} layers")
        if isinstance(self.intermediate_size, tuple) and len(self.intermediate_size) != n:
            raise ValueError(f"intermediate_size: {len(self.intermediate_size)} entries for {n} layers")
        if self.num_attention_heads % self.num_key_value_heads:
            raise ValueError(
                f"num_key_value_heads: {self.num_key_value_heads} does not divide "
                f"num_attention_heads = {self.num_attention_heads}"
            )
        if any(self._local) and self.sliding_window is None:
            raise ValueError("sliding_window: missing, but there are sliding_attention layers")
        if self.num_kv_shared_layers >= n:
            raise ValueError(
                f"num_kv_shared_layers: {self.num_kv_shared_layers} of {n} layers; one must store KV"
            )
        if not set(self._local[n - self.num_kv_shared_layers :]) <= set(
            self._local[: n - self.num_kv_shared_layers]
        ):
            raise ValueError("num_kv_shared_layers: a shared layer has no earlier layer of its type to read")
        if self.num_experts and not (
            0 < self.top_k_experts <= self.num_experts and self.moe_intermediate_size
        ):
            raise ValueError(
                "num_experts: needs top_k_experts (at most num_experts) and moe_intermediate_size"
            )
        return self

    @property
    def traits(self) -> FamilyTraits:
        """Traits of the family."""
        return FAMILIES[self.family]

    @cached_property
    def _local(self) -> tuple[bool, ...]:
        n = self.num_hidden_layers
        if self.layer_types is not None:
            return tuple(kind == "sliding_attention" for kind in self.layer_types)
        if self.sliding_window_pattern is not None:
            return tuple(bool((i + 1) % self.sliding_window_pattern) for i in range(n))
        return (self.sliding_window is not None,) * n

    @cached_property
    def layers(self) -> tuple[LayerShape, ...]:
        """Shape of every layer, in order."""
        first_shared = self.num_hidden_layers - self.num_kv_shared_layers
        last_of_type: dict[bool, int] = {}
        shapes = []
        for i, local in enumerate(self._local):
            stores = i < first_shared
            if stores:
                last_of_type[local] = i
            head_dim = self.head_dim if local or self.global_head_dim is None else self.global_head_dim
            own_heads = local or self.num_global_key_value_heads is None
            kv_heads = self.num_key_value_heads if own_heads else self.num_global_key_value_heads or 0
            ffn = (
                self.intermediate_size[i]
                if isinstance(self.intermediate_size, tuple)
                else self.intermediate_size
            )
            shapes.append(
                LayerShape(
                    index=i,
                    is_local=local,
                    stores_kv=stores,
                    kv_source=i if stores else last_of_type[local],
                    head_dim=head_dim,
                    q_dim=self.num_attention_heads * head_dim,
                    kv_dim=kv_heads * head_dim,
                    intermediate_size=ffn * (2 if self.use_double_wide_mlp and not stores else 1),
                    shared_kv_projection=self.attention_k_eq_v and not local,
                )
            )
        return tuple(shapes)

    def last_kv_layer(self, *, is_local: bool) -> LayerShape | None:
        """Last layer of the type that stores a cache (the one that shared layers and frozen heads read)."""
        found = [shape for shape in self.layers if shape.stores_kv and shape.is_local == is_local]
        return found[-1] if found else None

    def attention_params(self, layer: LayerShape) -> int:
        """Query, key, value and output projections (with biases) of a layer."""
        kv_matrices = 0 if not layer.stores_kv else 1 if layer.shared_kv_projection else 2
        weights = self.hidden_size * (2 * layer.q_dim + kv_matrices * layer.kv_dim)
        return weights + (layer.q_dim + 2 * layer.kv_dim if self.traits.qkv_bias else 0)

    def norm_params(self, layer: LayerShape) -> int:
        """Norm weights, layer scalars and expert scales of a layer."""
        hidden, traits = self.hidden_size, self.traits
        norms = traits.norms_per_layer + bool(self.hidden_size_per_layer_input) + bool(self.laurel_rank)
        norms += 3 * bool(self.num_experts) + 1 * traits.altup
        qk = layer.head_dim * (1 + layer.stores_kv) if traits.qk_norm else 0
        router_scales = hidden + self.num_experts if self.num_experts else 0
        return norms * hidden + qk + int(traits.layer_scalar) + router_scales

    def altup_layer_params(self) -> int:
        """AltUp in one layer: output scale, correction, prediction and router matrices (Gemma 3n)."""
        n = self.altup_num_inputs
        return self.hidden_size * (1 + n) + n**2 + n**3 if n else 0

    def layer_params(self, layers: Sequence[LayerShape]) -> dict[str, int]:
        """Parameters of some layers by kind of tensor; the norms of the end come with the last layer."""
        hidden, n, ple = self.hidden_size, len(layers), self.hidden_size_per_layer_input
        final_norms = hidden + ple if self.layers[-1] in layers else 0
        return {
            "attention": sum(self.attention_params(layer) for layer in layers),
            "mlp": sum(3 * hidden * layer.intermediate_size for layer in layers),
            "router": n * hidden * self.num_experts,
            "experts": n * self.num_experts * 3 * hidden * self.moe_intermediate_size,
            "per_layer_input": n * 2 * hidden * ple,
            "laurel": n * 2 * hidden * self.laurel_rank,
            "altup": n * self.altup_layer_params(),
            "norms": sum(self.norm_params(layer) for layer in layers) + final_norms,
        }

    def param_counts(self) -> dict[str, int]:
        """Parameters by kind of tensor; they add up to the text model, tied tables counted once."""
        hidden, n, ple = self.hidden_size, self.num_hidden_layers, self.hidden_size_per_layer_input
        table = self.vocab_size * hidden
        return {
            **self.layer_params(self.layers),
            "per_layer_projection": hidden * n * ple,
            "altup_projection": 2 * max(0, self.altup_num_inputs - 1) * hidden**2,
            "embedding": table,
            "lm_head": 0 if self.tie_word_embeddings else table,
            "per_layer_embedding": (self.vocab_size_per_layer_input or self.vocab_size) * n * ple,
        }

    def total_params(self) -> int:
        """All parameters of the text model."""
        return sum(self.param_counts().values())

    def core_params(self) -> int:
        """All parameters but the embedding tables and the LM head."""
        counts = self.param_counts()
        return sum(counts.values()) - counts["embedding"] - counts["lm_head"] - counts["per_layer_embedding"]

    def streamed_params(self) -> int:
        """Parameters read for one decoded token: core with the active experts, and the LM head."""
        experts = self.param_counts()["experts"]
        active = experts * self.top_k_experts // self.num_experts if self.num_experts else 0
        return self.core_params() - experts + active + self.vocab_size * self.hidden_size
