"""A target = architecture + quantisation: weight and KV bytes; it does not know time, energy or devices."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from simulator.errors import UnknownNameError
from simulator.specs.architecture import Architecture, LayerShape
from simulator.specs.quant import TARGET_SCHEMES, Group, QuantScheme
from simulator.units import at_most


class TargetSpec(Architecture):
    """The model being served, frozen.

    Attributes
    ----------
    id, name : str
        File stem and name for people.
    quant : QuantScheme
        The build whose bytes are counted.
    quant_schemes : dict of QuantScheme
        Further builds by name; :data:`TARGET_SCHEMES` are always there.
    sources : tuple of str
        Bibliography keys of the architecture.
    note : str
        What a reader must know, for example that it stands in for another model.
    """

    id: str = Field(min_length=1)
    name: str = ""
    quant: QuantScheme
    quant_schemes: dict[str, QuantScheme] = Field(default_factory=dict)
    sources: tuple[str, ...] = Field(default=(), strict=False)
    note: str = ""

    @model_validator(mode="after")
    def _names(self) -> TargetSpec:
        if "@" in self.id:
            raise ValueError(
                f"id: {self.id!r} given; '@' is kept for the quantisation, as in 'gemma_4_e2b@int4'"
            )
        return self

    def with_quant(self, name: str) -> TargetSpec:
        """Return the same target in another build; a named scheme keeps the per-layer table mapped.

        Raises
        ------
        UnknownNameError
            No such build.
        """
        schemes = {**TARGET_SCHEMES, **self.quant_schemes, self.quant.name: self.quant}
        if name not in schemes:
            raise UnknownNameError(f"{self.id}: quantisation", name, schemes)
        kept = {**self.quant_schemes, self.quant.name: self.quant}
        scheme = schemes[name]
        if name in TARGET_SCHEMES and "per_layer_embedding" in self.quant.mapped:
            scheme = scheme.model_copy(update={"mapped": ("per_layer_embedding",)})
        return self.model_copy(update={"quant": scheme, "quant_schemes": kept})

    def group_params(self) -> dict[Group, int]:
        """Stored parameters by tensor group; a tied table counts as the LM head unless it is stored twice."""
        counts = self.param_counts()
        table = counts["embedding"]
        groups: dict[Group, int] = {
            "layers": self.core_params() - counts["experts"],
            "lm_head": table,
            "embedding": table if self.separate_embedding else 0,
            "per_layer_embedding": counts["per_layer_embedding"],
        }
        if counts["experts"]:
            groups["experts"] = counts["experts"]
        return groups

    @property
    def separate_embedding(self) -> bool:
        """True when the embedding table has its own storage: untied, or tied but in another precision."""
        own_bits = self.quant.embedding is not None and self.quant.embedding != self.quant.lm_head
        return not self.tie_word_embeddings or own_bits or "embedding" in self.quant.mapped

    def group_bytes(self) -> dict[Group, float]:
        """Stored bytes by tensor group."""
        return {group: n * self.quant.bits(group) / 8 for group, n in self.group_params().items()}

    def weight_bytes(self) -> float:
        """All stored weights of the text model, memory-mapped ones included."""
        return sum(self.group_bytes().values())

    def mapped_bytes(self) -> float:
        """Weights that stay in a memory-mapped file and are gathered by row."""
        groups = self.group_bytes()
        return sum(groups.get(group, 0.0) for group in self.quant.mapped)

    def resident_bytes(self) -> float:
        """Weights held in RAM (without the KV cache)."""
        return self.weight_bytes() - self.mapped_bytes()

    def streamed_bytes(self) -> float:
        """Weight bytes read for one decoded token: core with the active experts, and the LM head."""
        groups = self.group_bytes()
        active = groups.get("experts", 0.0) * self.top_k_experts / max(1, self.num_experts)
        return groups["layers"] + active + groups["lm_head"]

    def layer_kv_bytes(self, layer: LayerShape) -> float:
        """Bytes of K and V of one token in one layer's cache."""
        return 2 * layer.kv_dim * self.quant.kv_bits / 8

    def kv_bytes_per_token(self) -> float:
        """Growth of the stored KV cache per token beyond every window (global layers that store KV)."""
        return sum(
            self.layer_kv_bytes(layer) for layer in self.layers if layer.stores_kv and not layer.is_local
        )

    def kv_windowed_bytes_per_token(self) -> float:
        """Stored KV bytes per token of the sliding-window layers, up to the window."""
        return sum(self.layer_kv_bytes(layer) for layer in self.layers if layer.stores_kv and layer.is_local)

    def kv_window_cap_bytes(self) -> float:
        """Size at which the sliding-window caches stop growing."""
        return self.kv_windowed_bytes_per_token() * (self.sliding_window or 0)

    def kv_bytes(self, context: Any) -> Any:
        """Stored KV cache at ``context`` cached tokens (float or array)."""
        windowed = at_most(context, self.sliding_window)
        return self.kv_bytes_per_token() * context + self.kv_windowed_bytes_per_token() * windowed

    def kv_read_bytes(self, context: Any) -> Any:
        """KV bytes that one decoding pass reads: every layer re-reads, shared ones too (float or array)."""
        near = sum(self.layer_kv_bytes(layer) for layer in self.layers if layer.is_local)
        far = sum(self.layer_kv_bytes(layer) for layer in self.layers if not layer.is_local)
        return near * at_most(context, self.sliding_window) + far * context
