"""Bits per weight by tensor group, KV precision, what stays memory-mapped; it does not know tensor shapes."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Kind = Literal["published", "measured", "derived", "assumed"]
Group = Literal["layers", "experts", "lm_head", "embedding", "per_layer_embedding"]


class QuantScheme(BaseModel):
    """How the tensors of one build are stored. Bits per weight include scales and zero points.

    Attributes
    ----------
    layers, lm_head : float
        Bits per weight of all layers with their norms and projections, and of the LM head.
    experts : float or None
        Bits of routed experts; None = as ``layers``.
    embedding : float or None
        Bits of the token embedding table; None = as ``lm_head``. A tied table is stored once unless they
        differ.
    per_layer_embedding : float or None
        Bits of the per-layer embedding table; None = as ``layers``.
    kv_bits : float
        Bits per cached key or value element.
    mac_dtype : {"int8", "f16", "f32"} or None
        Multiply-accumulate type of the layers; None = f32 above 16 bits, f16 above 8, else int8.
    mapped : tuple of group names
        Groups that stay in a memory-mapped file; only the gathered rows are read.
    kind, source, note : str
        Where the numbers come from: kind of evidence, key of the bibliography, and what is not known.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str = "custom"
    layers: float = Field(gt=0, le=64, allow_inf_nan=False)
    lm_head: float = Field(gt=0, le=64, allow_inf_nan=False)
    experts: float | None = Field(default=None, gt=0, le=64, allow_inf_nan=False)
    embedding: float | None = Field(default=None, gt=0, le=64, allow_inf_nan=False)
    per_layer_embedding: float | None = Field(default=None, gt=0, le=64, allow_inf_nan=False)
    kv_bits: float = Field(default=16.0, gt=0, le=64, allow_inf_nan=False)
    mac_dtype: Literal["int8", "f16", "f32"] | None = None
    mapped: tuple[Literal["embedding", "per_layer_embedding"], ...] = Field(default=(), strict=False)
    kind: Kind
    source: str = Field(min_length=1)
    note: str = ""

    @model_validator(mode="after")
    def _mapped_table_is_its_own(self) -> QuantScheme:
        if "embedding" in self.mapped and self.embedding is None:
            raise ValueError(
                "mapped: a mapped embedding table is a second copy and needs its own 'embedding' bits"
            )
        return self

    def bits(self, group: Group) -> float:
        """Bits per weight of a group."""
        if group == "experts":
            return self.layers if self.experts is None else self.experts
        if group == "embedding":
            return self.lm_head if self.embedding is None else self.embedding
        if group == "per_layer_embedding":
            return self.layers if self.per_layer_embedding is None else self.per_layer_embedding
        return self.layers if group == "layers" else self.lm_head

    def mac(self, group: Group = "layers") -> str:
        """Multiply-accumulate type of a group: ``mac_dtype``, or what its bits need."""
        return self.mac_dtype or mac_type(self.bits(group))

    @property
    def kv_mac(self) -> str:
        """Multiply-accumulate type of attention over the cache."""
        return mac_type(self.kv_bits)


def mac_type(bits: float) -> str:
    """Return the type that weights of so many bits are multiplied in: int2 and int4 compute as int8."""
    return "f32" if bits > 16 else "f16" if bits > 9 else "int8"


def _named(name: str, bits: float, note: str) -> QuantScheme:
    source = "draftscope_arithmetic"
    return QuantScheme(name=name, layers=bits, lm_head=bits, kind="assumed", source=source, note=note)


NAMED_SCHEMES: dict[str, QuantScheme] = {
    scheme.name: scheme
    for scheme in (
        _named("f32", 32.0, "32 bits per weight"),
        _named("bf16", 16.0, "16 bits per weight"),
        _named("int8", 8.0, "8 bits per weight, one scale per channel (under 0.1 %, not counted)"),
        _named("int4", 4.0, "4 bits per weight, one scale per channel (under 0.4 %, not counted)"),
        _named("q8_0", 8.5, "8 bits and one 16-bit scale per 32 weights"),
        _named("q4_0", 4.5, "4 bits and one 16-bit scale per 32 weights"),
        _named("q4_1", 5.0, "4 bits, one 16-bit scale and one 16-bit minimum per 32 weights"),
    )
}
"""Uniform schemes that every target and drafter accepts by name; the KV cache is 16 bits."""

TARGET_SCHEMES: dict[str, QuantScheme] = {
    **NAMED_SCHEMES,
    "int4": QuantScheme(
        name="int4", layers=4.5, lm_head=8.5, kind="assumed", source="draftscope_arithmetic",
        note="A phone build: 4 bits and one 16-bit scale per 32 weights in the layers, 8 bits and one "
        "scale per 32 weights in the table, as smollm2_135m has it.",
    ),
}  # fmt: skip
"""The same for targets, whose 4-bit builds on phones keep the table of tokens in 8 bits."""
