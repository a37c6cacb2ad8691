"""Priors of kernel families for machines that have no runtime profile; data only."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Annotated

from pydantic import ValidationError, field_validator

from hw_profiles.cited import BytesPerSecond, CitedValue, Efficiency, Frozen, Positive, unit
from hw_profiles.errors import ProfileError

PositiveOne = Annotated[CitedValue[Positive], unit("1")]
PositiveSeconds = Annotated[CitedValue[Positive], unit("s")]


class KernelFamily(Frozen):
    """One family.

    Attributes
    ----------
    row_cost : CitedValue
        Cost of one more row, relative to a pass of one row.
    curves : tuple of str
        Families of the atlas of verify curves that belong to it; the range must hold their median.
    """

    row_cost: PositiveOne
    curves: tuple[str, ...] = ()

    @field_validator("curves", mode="before")
    @classmethod
    def _from_list(cls, names: object) -> object:
        return tuple(names) if isinstance(names, list) else names


class SharedPriors(Frozen):
    """What all families share; see the notes in the file."""

    step_floor_s: PositiveSeconds
    draft_floor_s: PositiveSeconds
    host_per_row_s: PositiveSeconds
    drafter_cost: PositiveOne
    low_bit_exponent: Efficiency
    compute_exponent: Efficiency
    eight_bit_factor: PositiveOne
    half_precision_factor: PositiveOne
    beyond_tile: PositiveOne
    expert_union: PositiveOne
    tensor_parallel_factor: PositiveOne
    compute_bound_share: PositiveOne
    spill_bandwidth_bytes_per_s: BytesPerSecond


class KernelPriors(Frozen):
    """All of the file."""

    families: dict[str, KernelFamily]
    shared: SharedPriors


@cache
def kernel_priors() -> KernelPriors:
    """The packaged priors."""
    text = (files("hw_profiles") / "kernel_families.toml").read_text(encoding="utf-8")
    try:
        return KernelPriors.model_validate(tomllib.loads(text))
    except ValidationError as problem:
        raise ProfileError(f"kernel_families.toml: {problem}") from None
