"""Cited numbers of a device and a runtime as named inputs with ranges; it does not know how they combine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hw_profiles.cited import CitedValue
from hw_profiles.schema import DeviceProfile, Engine, RuntimeProfile
from simulator.drafters.base import DrafterModel
from simulator.results import weakest_kind

Group = Literal["time", "prefill", "energy", "memory"]


@dataclass(frozen=True, kw_only=True)
class Input:
    """One cited number, or one table of them.

    Attributes
    ----------
    value, low, high : float, tuple of float or dict of str to float
        Value and range; low and high are None where no range is known.
    kind : str
        published | measured | derived | assumed.
    sources : tuple of str
        Reference keys.
    group : {"time", "prefill", "energy", "memory"}
        What it moves: decode times, prefill times only, energies only, or RAM only.
    """

    value: Any
    low: Any = None
    high: Any = None
    kind: str = "assumed"
    sources: tuple[str, ...] = ()
    group: Group = "time"

    def drawn(self, position: Any) -> Any:
        """Value at a position in the range: 0 is low, 0.5 the value, 1 high (float or array)."""
        if self.low is None or self.high is None:
            return self.value
        if isinstance(self.value, Mapping):
            return {key: _between(self.low[key], value, self.high[key], position)
                    for key, value in self.value.items()}  # fmt: skip
        if isinstance(self.value, tuple):
            points = zip(self.low, self.value, self.high, strict=True)
            return tuple(_between(*point, position) for point in points)
        return _between(self.low, self.value, self.high, position)

    @property
    def uncertain(self) -> bool:
        """True if there is a range and it is not empty."""
        return self.low is not None and (self.low != self.value or self.high != self.value)


def _between(low: float, value: float, high: float, position: Any) -> Any:
    below, above = np.minimum(position, 0.5) * 2.0, np.maximum(position - 0.5, 0.0) * 2.0
    return low + (value - low) * below + (high - value) * above


def device_inputs(device: DeviceProfile) -> dict[str, Input]:
    """Inputs of the hardware outside its engines.

    Parameters
    ----------
    device : DeviceProfile
        Profile.
    """
    dram = device.dram
    return {
        **_cited("time", peak_bandwidth_bytes_per_s=dram.peak_bandwidth_bytes_per_s),
        **_cited("energy", dram_energy_per_byte_j=dram.energy_per_byte_j,
                 phy_energy_per_byte_j=dram.phy_energy_per_byte_j, host_power_w=device.host_power_w,
                 base_power_w=device.base_power_w),
    }  # fmt: skip


def side_inputs(runtime: RuntimeProfile, engine: Engine) -> dict[str, Input]:
    """Inputs of a runtime on an engine.

    Parameters
    ----------
    runtime : RuntimeProfile
        Profile.
    engine : Engine
        The engine that it uses.
    """
    optional = ("floor_per_layer_s", "expert_bandwidth_bytes_per_s")
    time = ("mbu_large", "mbu_small", "mbu_kv", "floor_per_pass_s", "floor_per_draft_pass_s",
            "floor_per_step_s", "host_per_row_s")  # fmt: skip
    prefill = ("prefill_macs_per_s_fraction", "prefill_floor_s", "prefill_skips_shared_kv_layers")
    inputs = {
        **_cited("time", **{name: getattr(runtime, name) for name in time}),
        **_cited("time", **{name: found for name in optional if (found := getattr(runtime, name))}),
        **_cited("prefill", **{name: getattr(runtime, name) for name in prefill}),
        **_cited("energy", active_power_w=engine.active_power_w, idle_power_w=engine.idle_power_w),
    }
    inputs["macs_per_s"] = _table(engine.peak_macs_per_s, "time" if runtime.ideal else "prefill")
    inputs["energy_per_mac_j"] = _table(engine.energy_per_mac_j, "energy")
    curve = runtime.verify_curve
    if curve is not None:
        low, high = (None if points is None else tuple(cost for _, cost in points)
                     for points in (curve.low, curve.high))  # fmt: skip
        inputs["verify_curve"] = Input(value=tuple(cost for _, cost in curve.value), low=low, high=high,
                                       kind=curve.kind, sources=curve.sources)  # fmt: skip
    return inputs


def drafter_inputs(drafter: DrafterModel) -> dict[str, Input]:
    """Inputs of a drafter: its host search, and the RAM of its parts, which are drawn together.

    Parameters
    ----------
    drafter : DrafterModel
        The drafter.
    """
    parts = drafter.parts
    return {
        "host_s_per_step": Input(
            value=drafter.host_s_per_step, low=drafter.host_s_low, high=drafter.host_s_high, kind=drafter.kind
        ),
        "drafter_resident_bytes": Input(
            value={part.name: part.resident_bytes for part in parts},
            low={part.name: _or(part.resident_low_bytes, part.resident_bytes) for part in parts},
            high={part.name: _or(part.resident_high_bytes, part.resident_bytes) for part in parts},
            kind=drafter.kind,
            group="memory",
        ),
    }


def _or(end: float | None, value: float) -> float:
    return value if end is None else end


def _cited(group: Group, **values: CitedValue[Any]) -> dict[str, Input]:
    return {
        name: Input(value=cited.value, low=cited.low, high=cited.high, kind=cited.kind, sources=cited.sources,
                    group=group)
        for name, cited in values.items()
    }  # fmt: skip


def _table(table: Mapping[Any, Any], group: Group) -> Input:
    return Input(
        value={key: cited.value for key, cited in table.items()},
        low={key: _or(cited.low, cited.value) for key, cited in table.items()},
        high={key: _or(cited.high, cited.value) for key, cited in table.items()},
        kind=weakest_kind(cited.kind for cited in table.values()),
        sources=tuple(dict.fromkeys(source for cited in table.values() for source in cited.sources)),
        group=group,
    )
