"""What every drafter file may say, and how it becomes a model; it knows no family's arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveInt, model_validator

from simulator.drafters.base import DrafterModel, Part
from simulator.errors import DraftscopeError, UnknownNameError
from simulator.ops import Op
from simulator.specs import NAMED_SCHEMES, QuantScheme, TargetSpec
from simulator.specs.quant import Kind

_WEAKEST_LAST = ("measured", "published", "derived", "assumed")


class Cited(BaseModel):
    """A number of a drafter file with its evidence; an assumed one carries its range.

    Attributes
    ----------
    value, low, high : float
        SI value and range.
    kind, source, note : str
        Evidence, bibliography key, and what is not known.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    value: NonNegativeFloat = Field(allow_inf_nan=False)
    kind: Kind
    source: str = Field(min_length=1)
    low: NonNegativeFloat | None = Field(default=None, allow_inf_nan=False)
    high: NonNegativeFloat | None = Field(default=None, allow_inf_nan=False)
    note: str = ""

    @model_validator(mode="after")
    def _range(self) -> Cited:
        if self.kind == "assumed" and (self.low is None or self.high is None):
            raise ValueError("an assumed value needs low and high")
        low = self.value if self.low is None else self.low
        high = self.value if self.high is None else self.high
        if not low <= self.value <= high:
            raise ValueError(f"low <= value <= high is wanted, given {low:g}, {self.value:g}, {high:g}")
        return self


class PartRange(BaseModel):
    """Range of the resident bytes of a part that the file's dimensions and precision give.

    Attributes
    ----------
    low, high : float
        Range [B].
    source, note : str
        Bibliography key, and what the ends stand for.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    low: NonNegativeFloat = Field(allow_inf_nan=False)
    high: NonNegativeFloat = Field(allow_inf_nan=False)
    source: str = Field(min_length=1)
    note: str = Field(min_length=1)


class DrafterSpec(BaseModel):
    """Fields that all families share.

    Attributes
    ----------
    id, family, label : str
        Instance, family and name for people.
    targets : tuple of str
        Targets that it was made for; ``"*"`` = any.
    trace_id : str
        Name of its acceptance traces, where it differs from ``id``.
    published_as : str
        Name by which its publisher calls it, as published acceptance does; that of another drafter counts as
        assumed.
    control : bool
        A check, such as a look-up in the training text, that is never announced as the best choice.
    quant : str or QuantScheme
        Precision of its weights and cache: a named scheme or a table. It is never taken from the target.
    expected_params : int or None
        If given, the arithmetic must give exactly this many parameters.
    part_ranges : dict of str to PartRange
        Ranges of parts whose dimensions or precision are assumed, by name of the part.
    kind, sources, note : str
        Weakest evidence, bibliography keys, and what is assumed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: str = Field(min_length=1)
    family: str
    label: str = ""
    targets: tuple[str, ...] = Field(default=("*",), strict=False, min_length=1)
    trace_id: str = ""
    published_as: str = ""
    control: bool = False
    quant: str | QuantScheme = "int8"
    expected_params: PositiveInt | None = None
    part_ranges: dict[str, PartRange] = Field(default_factory=dict)
    kind: Kind
    sources: tuple[str, ...] = Field(default=(), strict=False)
    note: str = ""

    def scheme(self, override: str | None = None) -> QuantScheme:
        """Precision to use: ``override`` by name, else the file's.

        Raises
        ------
        UnknownNameError
            No such named scheme.
        """
        chosen = override or self.quant
        if isinstance(chosen, QuantScheme):
            return chosen
        if chosen not in NAMED_SCHEMES:
            raise UnknownNameError(f"drafter {self.id}: quantisation", chosen, NAMED_SCHEMES)
        return NAMED_SCHEMES[chosen]


@dataclass(frozen=True, kw_only=True)
class Built:
    """What a family computes; :func:`assemble` adds identity and evidence."""

    parts: tuple[Part, ...] = ()
    draft_ops: tuple[Op, ...] = ()
    prefill_ops: tuple[Op, ...] = ()
    passes_per_step: Literal["none", "per_draft", "one"] = "per_draft"
    context: Literal["target", "own", "none"] = "target"
    catch_up_rows: Literal["none", "bonus"] = "none"
    own_kv_bytes_per_token: float = 0.0
    own_kv_window: int | None = None
    own_kv_windowed_bytes_per_token: float = 0.0
    host_s: Cited | None = None
    kinds: tuple[str, ...] = ()


def assemble(
    spec: DrafterSpec, target: TargetSpec, built: Built, *, own_precision: bool = True
) -> DrafterModel:
    """Join what a family computed with the identity and the evidence of its file.

    Parameters
    ----------
    spec : DrafterSpec
        The file.
    target : TargetSpec
        The target.
    built : Built
        What the family computed.
    own_precision : bool
        False: the precision is the caller's, so a part may lie outside its range, which then reaches to it.

    Raises
    ------
    DraftscopeError
        The parameters do not add up to ``expected_params``, or a part lies outside its range.
    UnknownNameError
        A range of a part that the drafter lacks.
    """
    params = sum(part.params for part in built.parts)
    if spec.expected_params is not None and params != spec.expected_params:
        raise DraftscopeError(
            f"drafter {spec.id}: expected_params: {spec.expected_params} given, its dimensions give {params}."
        )
    host = built.host_s
    kinds = [spec.kind, *built.kinds, *([host.kind] if host else [])]
    sources = [*spec.sources, *([host.source] if host else [])]
    sources += [stated.source for stated in spec.part_ranges.values()]
    return DrafterModel(
        id=spec.id,
        family=spec.family,
        label=spec.label or spec.id,
        parts=_with_ranges(spec, built.parts, own_precision),
        draft_ops=built.draft_ops,
        prefill_ops=built.prefill_ops,
        passes_per_step=built.passes_per_step,
        context=built.context,
        catch_up_rows=built.catch_up_rows,
        own_kv_bytes_per_token=built.own_kv_bytes_per_token,
        own_kv_window=built.own_kv_window,
        own_kv_windowed_bytes_per_token=built.own_kv_windowed_bytes_per_token,
        host_s_per_step=host.value if host else 0.0,
        host_s_low=host.low if host else None,
        host_s_high=host.high if host else None,
        trace_id=spec.trace_id or spec.id,
        published_as=spec.published_as,
        control=spec.control,
        sources=tuple(dict.fromkeys(sources)),
        kind=max(kinds, key=_WEAKEST_LAST.index),
        target_id=target.id,
        note=spec.note,
    )


def _with_ranges(spec: DrafterSpec, parts: tuple[Part, ...], own_precision: bool) -> tuple[Part, ...]:
    where, names = f"drafter {spec.id}: part_ranges", [part.name for part in parts]
    for name in spec.part_ranges:
        if name not in names:
            raise UnknownNameError(where, name, names)
    ranged = []
    for part in parts:
        stated = spec.part_ranges.get(part.name)
        if stated is not None:
            low, high = min(stated.low, part.resident_bytes), max(stated.high, part.resident_bytes)
            if own_precision and (low, high) != (stated.low, stated.high):
                raise DraftscopeError(
                    f"{where}.{part.name}: {stated.low:g} to {stated.high:g} given; allowed: a range that "
                    f"holds the {part.resident_bytes:g} B of the part."
                )
            part = replace(part, resident_low_bytes=low, resident_high_bytes=high, note=stated.note)
        ranged.append(part)
    return tuple(ranged)


def weights_part(name: str, params: int, bits: float, note: str = "") -> Part:
    """Return the RAM of ``params`` weights at ``bits`` bits."""
    return Part(name=name, params=params, resident_bytes=params * bits / 8, note=note)


def cited_part(name: str, amount: Cited | None, params: int = 0) -> tuple[Part, ...]:
    """Return a part whose bytes are stated in the file; nothing where it says nothing."""
    if amount is None:
        return ()
    part = Part(name=name, params=params, resident_bytes=amount.value, note=amount.note,
                resident_low_bytes=amount.low, resident_high_bytes=amount.high)  # fmt: skip
    return (part,)


def cited_kinds(*amounts: Cited | None) -> tuple[str, ...]:
    """Return the evidence kinds of the numbers that are there."""
    return tuple(amount.kind for amount in amounts if amount is not None)
