"""Lowered: device, runtime, target and drafter compiled once, then bound to numbers; without acceptance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from simulator.drafters.base import DrafterModel
from simulator.errors import DraftscopeError, UnknownNameError
from simulator.lowering.affine import Quantity
from simulator.lowering.compiled import CompiledPass
from simulator.lowering.inputs import Input
from simulator.lowering.memory import Memory
from simulator.lowering.params import CostParams, Side
from simulator.results import digest_of, weakest_kind
from simulator.specs.scenario import Scenario

SIDE_AXES = {
    "mbu_large": "achieved / peak bandwidth on weights of large models [1]",
    "mbu_small": "the same on small models, such as drafters [1]",
    "mbu_kv": "the same on KV and gathered rows [1]",
    "floor_per_pass_s": "floor of a target pass [s]",
    "floor_per_draft_pass_s": "floor of a draft pass [s]",
    "host_per_row_s": "host time per row of a pass [s]",
    "floor_per_layer_s": "floor of each attention layer of a pass [s]",
    "expert_bandwidth_bytes_per_s": "bandwidth on routed experts kept in host memory [B/s]",
    "prefill_macs_per_s_fraction": "share of the peak MAC rate in prefill [1]",
    "prefill_floor_s": "floor of a prefill [s]",
    "active_power_w": "engine rail while a pass runs, without MACs [W]",
    "idle_power_w": "engine rail between passes [W]",
    "macs_per_s": "peak MAC rates: a mapping of dtype to rate [MAC/s]",
    "energy_per_mac_j": "a mapping of dtype to energy [J/MAC]",
    "verify_curve": "relative costs at the curve's widths, one entry a width [1]",
    "macs_per_s_scale": "factor on all MAC rates [1]",
    "energy_per_mac_scale": "factor on all MAC energies [1]",
    "verify_cost_scale": "factor on g(w) - 1 [1]",
}
"""Axes of the runtime and its engine. ``draft_`` in front moves the drafter's side alone."""

AXES = {
    "peak_bandwidth_bytes_per_s": "DRAM peak bandwidth [B/s]",
    "dram_energy_per_byte_j": "energy of the DRAM device [J/B]",
    "phy_energy_per_byte_j": "energy of PHY, controller and fabric [J/B]",
    "host_power_w": "CPU rail while it orchestrates [W]",
    "base_power_w": "rest of the SoC [W]",
    "floor_per_step_s": "floor of a speculative step [s]",
    "host_s_per_step": "host search of the drafter [s]",
    "drafter_resident_bytes": "RAM of the drafter: a mapping of part to bytes [B]",
    "target_weight_scale": "factor on the target's parameters [1]",
    "drafter_weight_scale": "factor on the drafter's parameters [1]",
    "prompt_tokens": "prompt [tokens]",
    "output_tokens": "response [tokens]",
    "draft_length": "drafts per step",
    "batch": "streams decoded together",
    "context": "fixed context of every step [tokens]",
    **SIDE_AXES,
}
"""Every numeric axis that :meth:`Lowered.bind` takes, with its unit."""


@dataclass(frozen=True, kw_only=True)
class Lowered:
    """A compiled case. ``bind`` turns it into numbers as often as wanted.

    Attributes
    ----------
    ids : dict of str to str
        device, runtime, engine, draft_runtime, draft_engine, target, drafter.
    target_pass, draft_pass, target_prefill_pass, drafter_prefill_pass : CompiledPass
        Ops as coefficients.
    drafter : DrafterModel
        The drafter.
    memory : Memory
        What stays in RAM.
    inputs : dict of str to Input
        Cited inputs by axis; those of a separate drafter's runtime carry ``draft_`` in front.
    statics, draft_statics : dict
        What cannot be swept of a runtime: ideal, kv_reads, sizes, curve widths, tile.
    spec_kinds : tuple of str
        Kinds of the target's and the drafter's own numbers.
    references : tuple of str
        Sources of everything used.
    notes : tuple of str
        What a reader must know.
    """

    ids: dict[str, str]
    target_pass: CompiledPass
    draft_pass: CompiledPass
    target_prefill_pass: CompiledPass
    drafter_prefill_pass: CompiledPass
    drafter: DrafterModel
    memory: Memory
    inputs: dict[str, Input]
    statics: dict[str, Any]
    draft_statics: dict[str, Any]
    spec_kinds: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def own_draft_runtime(self) -> bool:
        """True if the drafter runs on another runtime or engine than the target."""
        return "draft_mbu_large" in self.inputs

    @cached_property
    def digest(self) -> str:
        """sha256 of ids, inputs and coefficients."""
        return digest_of([self.ids, self.inputs, self.memory, self.statics, self.draft_statics, self.drafter,
                          self.target_pass.kernels])  # fmt: skip

    def kind_of(self, *groups: str) -> str:
        """Weakest kind of the inputs of some groups, and of the specs."""
        kinds = [each.kind for each in self.inputs.values() if each.group in groups]
        return weakest_kind([*kinds, *self.spec_kinds])

    def draw(self, rng: np.random.Generator, draws: int) -> dict[str, Any]:
        """Draw every uncertain input: half of the draws below its value and half above, uniform in each half.

        Parameters
        ----------
        rng : numpy.random.Generator
            The run's generator.
        draws : int
            Number of draws.

        Returns
        -------
        dict of str to array or table of arrays
            Axes for :meth:`bind`; inputs are drawn independently.
        """
        return {name: each.drawn(rng.random(draws)) for name, each in self.inputs.items() if each.uncertain}

    def bind(self, scenario: Scenario | None = None, /, **axes: Any) -> CostParams:
        """Numbers for one design, or arrays for many.

        Parameters
        ----------
        scenario : Scenario, optional
            Tokens, draft length, batch and context.
        **axes : float or array
            Any of :data:`AXES`, also with ``draft_`` in front of those in :data:`SIDE_AXES`; they override
            the profiles and the scenario. Arrays must broadcast together.

        Raises
        ------
        UnknownNameError
            For an axis that does not exist.
        DraftscopeError
            For negative numbers and NaN.
        """
        for name, value in axes.items():
            self._check_axis(name, value)
        asked = {} if scenario is None else {
            name: getattr(scenario, name)
            for name in ("prompt_tokens", "output_tokens", "draft_length", "batch", "context")
        }  # fmt: skip
        asked |= {name: axes[name] for name in axes if name in AXES}
        missing = [name for name in ("prompt_tokens", "output_tokens") if name not in asked]
        if missing:
            raise DraftscopeError(f"bind: {', '.join(missing)} missing; give a scenario or the numbers.")
        value = lambda name: asked[name] if name in asked else self.inputs[name].value  # noqa: E731
        return CostParams(
            target_pass=self.target_pass,
            draft_pass=self.draft_pass,
            target_prefill_pass=self.target_prefill_pass,
            drafter_prefill_pass=self.drafter_prefill_pass,
            target_side=self._side(axes, draft=False),
            draft_side=self._side(axes, draft=True),
            passes_per_step=self.drafter.passes_per_step,
            draft_context=self.drafter.context,
            catch_up=self.drafter.catch_up_rows == "bonus",
            peak_bandwidth_bytes_per_s=value("peak_bandwidth_bytes_per_s"),
            energy_per_byte_j=value("dram_energy_per_byte_j") + value("phy_energy_per_byte_j"),
            host_power_w=value("host_power_w"),
            base_power_w=value("base_power_w"),
            floor_per_step_s=value("floor_per_step_s"),
            host_s_per_step=value("host_s_per_step"),
            prompt_tokens=asked["prompt_tokens"],
            output_tokens=asked["output_tokens"],
            draft_length=asked.get("draft_length", 0),
            batch=asked.get("batch", 1),
            memory=self.memory,
            drafter_resident_bytes=value("drafter_resident_bytes"),
            fixed_context=asked.get("context"),
            target_weight_scale=asked.get("target_weight_scale", 1.0),
            drafter_weight_scale=asked.get("drafter_weight_scale", 1.0),
        )

    def _check_axis(self, name: str, value: Any) -> None:
        plain = name.removeprefix("draft_")
        if name not in AXES and not (plain != name and plain in SIDE_AXES):
            raise UnknownNameError("axis", name, AXES)
        known = self.inputs.get(plain if plain in self.inputs else name)
        if known is not None and isinstance(known.value, Mapping):
            given = set(value) if isinstance(value, Mapping) else None
            if given != set(known.value):
                raise DraftscopeError(
                    f"axis {name}: {value!r} given; allowed: a number for each of {', '.join(known.value)}."
                )
        numbers = value.values() if isinstance(value, Mapping) else [value]
        for number in numbers:
            for part in number if isinstance(number, tuple) else (number,):
                _check_number(name, part)

    def _side(self, axes: Mapping[str, Any], *, draft: bool) -> Side:
        """One side: its ``draft_`` axis, else the plain axis where both share a runtime, else the profile."""
        own = draft and self.own_draft_runtime

        def value(name: str, default: Any = None) -> Any:
            if draft and f"draft_{name}" in axes:
                return axes[f"draft_{name}"]
            if name in axes and not own:
                return axes[name]
            found = self.inputs.get(f"draft_{name}" if own else name)
            return default if found is None else found.value

        rate, energy = value("macs_per_s_scale", 1.0), value("energy_per_mac_scale", 1.0)
        stretch = value("verify_cost_scale", 1.0)
        layers = (self.draft_pass if draft else self.target_pass).layers
        floor_s = value("floor_per_draft_pass_s" if draft else "floor_per_pass_s")
        costs = value("verify_curve", ())
        if not (np.ndim(stretch) == 0 and stretch == 1.0):
            costs = tuple(1.0 + (cost - 1.0) * stretch for cost in costs)
        return Side(
            **(self.draft_statics if draft else self.statics),
            mbu_large=value("mbu_large"),
            mbu_small=value("mbu_small"),
            mbu_kv=value("mbu_kv"),
            floor_s=floor_s + layers * value("floor_per_layer_s", 0.0),
            host_per_row_s=value("host_per_row_s"),
            curve_costs=costs,
            macs_per_s=_scaled(value("macs_per_s"), rate),
            energy_per_mac_j=_scaled(value("energy_per_mac_j"), energy),
            prefill_macs_per_s_fraction=value("prefill_macs_per_s_fraction"),
            prefill_floor_s=value("prefill_floor_s"),
            active_power_w=value("active_power_w"),
            idle_power_w=value("idle_power_w"),
            expert_bytes_per_s=value("expert_bandwidth_bytes_per_s"),
        )


def _scaled(table: Mapping[str, Quantity], factor: Quantity) -> Mapping[str, Quantity]:
    if np.ndim(factor) == 0 and factor == 1.0:
        return table
    return {key: value * factor for key, value in table.items()}


def _check_number(name: str, value: Any) -> None:
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise DraftscopeError(f"axis {name}: {value!r} given; allowed: finite numbers >= 0.") from None
    low, high = (array.min(), array.max()) if array.size else (0.0, 0.0)
    if not (low >= 0.0 and high < math.inf):
        raise DraftscopeError(
            f"axis {name}: {float(low)!r} to {float(high)!r} given; allowed: finite numbers >= 0."
        )
