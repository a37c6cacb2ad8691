"""Shape of device and runtime profiles. Data only: no physics, no defaults for anything not cited."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from hw_profiles.cited import (
    AmperesTable,
    Bytes,
    BytesPerSecond,
    Celsius,
    CelsiusOne,
    CitedValue,
    Curve,
    Efficiency,
    Flag,
    Fraction,
    Frozen,
    Hertz,
    HertzLevels,
    HertzTable,
    Joules,
    JoulesPerByte,
    JoulesPerMac,
    JoulesPerToken,
    MacsPerSecond,
    NonNegative,
    Number,
    Positive,
    Seconds,
    SecondsTable,
    Text,
    TokensPerSecond,
    Watts,
    WattsTable,
    unit,
)
from hw_profiles.errors import ProfileError, unknown

Dtype = Literal["int8", "f16", "f32"]
EngineName = Literal["cpu", "gpu", "tpu"]
DeviceClass = Literal["phone", "tablet", "board", "laptop", "desktop", "server"]
ENGINE_ORDER: tuple[EngineName, ...] = ("tpu", "gpu", "cpu")
"""Which engine a runtime for any engine takes when the caller names none."""


class Reference(Frozen):
    """Where a value comes from: one entry of references.bib, or a `[references.KEY]` table of a profile."""

    title: str
    url: str | None = None
    year: str | None = None
    author: str | None = None
    howpublished: str | None = None
    note: str | None = None


class Governor(Frozen):
    """How the memory clock is chosen; only a time-resolved simulation reads it."""

    name: Text | None = None
    target_load: Annotated[CitedValue[tuple[NonNegative, ...]], unit("1")] | None = None
    sample_s: Seconds | None = None
    hold_s: Seconds | None = None
    step_up_limit: Number | None = None
    step_down_limit: Number | None = None
    hispeed_hz: Hertz | None = None
    latency_vote_poll_s: Seconds | None = None
    hint_levels_hz: HertzLevels | None = None
    boot_floor_hz: Hertz | None = None
    suspend_hz: Hertz | None = None
    gpu_floor_hz: HertzTable | None = None
    codec_floor_hz: (
        Annotated[CitedValue[tuple[tuple[NonNegative, NonNegative], ...]], unit("macroblock/s, Hz")] | None
    ) = None
    fabric_hz: HertzTable | None = None
    nodes: Annotated[CitedValue[tuple[str, ...]], unit("text")] | None = None


class Dram(Frozen):
    """Main memory. Peak is what the wires allow, sustained what software was seen to draw; never folded."""

    type: Text | None = None
    peak_bandwidth_bytes_per_s: BytesPerSecond
    sustained_bandwidth_bytes_per_s: BytesPerSecond
    energy_per_byte_j: JoulesPerByte
    phy_energy_per_byte_j: JoulesPerByte
    clock_hz: Hertz | None = None
    bytes_per_cycle: Annotated[CitedValue[Positive], unit("B")] | None = None
    data_rate_per_s: Annotated[CitedValue[Positive], unit("transfer/s")] | None = None
    bus_width_bytes: Annotated[CitedValue[Positive], unit("B")] | None = None
    levels_hz: HertzLevels | None = None
    planning_utilization: Fraction | None = None
    realtime_utilization_cap: Fraction | None = None
    planned_bandwidth_bytes_per_s: BytesPerSecond | None = None
    combined_cpu_gpu_bandwidth_bytes_per_s: BytesPerSecond | None = None
    system_cache_bytes: Bytes | None = None
    governor: Governor | None = None


class Engine(Frozen):
    """One compute engine.

    Energy of a pass on it = `active_power_w` x busy time + MACs x `energy_per_mac_j`. `active_power_w` is
    the engine's own rail while a pass runs, without the MAC energy (a small part of it at batch 1); memory
    is charged by the byte.
    """

    name: str
    description: Text
    peak_macs_per_s: dict[Dtype, MacsPerSecond]
    energy_per_mac_j: dict[Dtype, JoulesPerMac]
    active_power_w: Watts
    idle_power_w: Watts
    sustained_bandwidth_bytes_per_s: BytesPerSecond | None = None
    freq_levels_hz: HertzLevels | None = None
    max_freq_hz: Hertz | None = None
    freq_under_load_hz: HertzLevels | None = None
    wake_latency_s: Seconds | None = None
    wake_latency_by_part_s: SecondsTable | None = None
    shutdown_delay_s: Seconds | None = None
    low_power_timeout_s: Seconds | None = None
    power_by_freq_w: WattsTable | None = None
    relative_power_by_freq: Annotated[CitedValue[dict[str, NonNegative]], unit("1")] | None = None
    core_current_a: AmperesTable | None = None
    governor_response_s: SecondsTable | None = None
    contention_slowdown: Annotated[CitedValue[tuple[NonNegative, ...]], unit("1")] | None = None

    @model_validator(mode="after")
    def _rates_given(self) -> Engine:
        for name, table in (
            ("peak_macs_per_s", self.peak_macs_per_s),
            ("energy_per_mac_j", self.energy_per_mac_j),
        ):
            missing = [dtype for dtype in ("int8", "f16", "f32") if dtype not in table]
            if missing:
                raise ValueError(f"has {name} without {', '.join(missing)}; needed: int8, f16, f32")
        return self


class PowerRail(Frozen):
    """A rail of the on-device power monitor and the part it feeds."""

    name: str
    part: str
    source: str


class PidBudget(Frozen):
    """One power budget of the thermal governor."""

    name: str
    at_skin_c: CelsiusOne
    max_power_w: Watts
    setpoint_power_w: Watts | None = None
    min_power_w: Watts | None = None
    proportional_w_per_c: Annotated[CitedValue[NonNegative], unit("W/degC")] | None = None
    integral: Number | None = None


class Thermal(Frozen):
    """Skin thresholds and power budgets; only a time-resolved simulation reads them."""

    skin_thresholds_c: Celsius
    skin_time_constant_s: Seconds
    sustained_fraction: Fraction
    passive_poll_s: Seconds | None = None
    normal_poll_s: Seconds | None = None
    hard_limit_c: CelsiusOne | None = None
    budgets: tuple[PidBudget, ...] = ()
    tpu_cooling: Text | None = None


class Battery(Frozen):
    """The battery."""

    capacity_mah: Annotated[CitedValue[Positive], unit("mAh")]
    nominal_voltage_v: Annotated[CitedValue[Positive], unit("V")]
    energy_j: Joules


class Display(Frozen):
    """The main display; its scan-out shares the memory bus."""

    width_px: Annotated[CitedValue[Positive], unit("px")]
    height_px: Annotated[CitedValue[Positive], unit("px")]
    refresh_hz: Hertz
    scanout_bytes_per_s: BytesPerSecond
    on_power_w: Watts | None = None
    full_power_w: Watts | None = None


class Storage(Frozen):
    """Flash, from which mapped weights are paged in."""

    type: Text
    read_bandwidth_bytes_per_s: BytesPerSecond


class GeminiNano(Frozen):
    """What is public about the system model on this device."""

    version: Text
    prefix_tokens_per_s: TokensPerSecond | None = None
    drafter: Text | None = None


class DeviceProfile(Frozen):
    """One device: what the hardware could do. What software gets out of it is a RuntimeProfile."""

    id: str
    name: str
    device_class: DeviceClass
    soc_id: str
    soc: Text
    default_runtime: str
    default_runtime_note: str
    codename: Text | None = None
    process_node: Text | None = None
    ram_bytes: Bytes
    os_reserved_ram_bytes: Bytes
    ai_reserved_ram_bytes: Bytes
    dram: Dram
    engines: dict[EngineName, Engine]
    host_power_w: Watts
    base_power_w: Watts
    on_chip_energy_per_byte_j: JoulesPerByte | None = None
    base_current_a: AmperesTable | None = None
    power_rails: tuple[PowerRail, ...] = ()
    thermal: Thermal
    battery: Battery | None = None
    display: Display | None = None
    storage: Storage | None = None
    gemini_nano: GeminiNano | None = None
    claims: Text | None = None
    references: dict[str, Reference] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> DeviceProfile:
        if not self.engines:
            raise ValueError("has no engine; give at least engines.cpu")
        if self.dram.sustained_bandwidth_bytes_per_s.value > self.dram.peak_bandwidth_bytes_per_s.value:
            raise ValueError("has dram.sustained_bandwidth_bytes_per_s above dram.peak_bandwidth_bytes_per_s")
        return self

    @property
    def free_ram_bytes(self) -> float:
        """RAM that neither the system nor the AI reservation holds, in bytes (middle values)."""
        return self.ram_bytes.value - self.os_reserved_ram_bytes.value - self.ai_reserved_ram_bytes.value


class RuntimeProfile(Frozen):
    """One software stack on one engine: what it gets out of the hardware.

    A pass of width w over `weight_bytes` takes ``floor + weight_bytes / (mbu * peak bandwidth) * g(w) + KV
    bytes / (mbu_kv * peak bandwidth) + w * host_per_row`` where g is `verify_curve` (g(1) = 1). `ideal` has
    no curve: there the middle is the roofline. mbu runs log-linearly in bytes from `mbu_small` (at or below
    `small_model_bytes`) to `mbu_large` (at or above `large_model_bytes`). Prefill computes every row of every
    layer, or of the layers that store KV only (`prefill_skips_shared_kv_layers`). `floor_per_layer_s` is
    added to either floor for every attention layer of a pass: launches of kernels, or sums that cards
    exchange. A mixture of experts reads the union of the experts of its rows, which g does not stretch; with
    `expert_bandwidth_bytes_per_s` they stay in host memory and are read at that rate.
    """

    id: str
    name: str
    engine: Literal["cpu", "gpu", "tpu", "any"]
    kernel_family: str
    devices: tuple[str, ...]
    measured_socs: tuple[str, ...]
    ideal: bool
    mbu_large: Efficiency
    mbu_small: Efficiency
    large_model_bytes: Bytes
    small_model_bytes: Bytes
    mbu_kv: Efficiency
    kv_reads: Literal["once", "per_row"]
    floor_per_pass_s: Seconds
    floor_per_draft_pass_s: Seconds
    floor_per_step_s: Seconds
    host_per_row_s: Seconds
    floor_per_layer_s: Seconds | None = None
    expert_bandwidth_bytes_per_s: BytesPerSecond | None = None
    prefill_macs_per_s_fraction: Efficiency
    prefill_floor_s: Seconds
    prefill_skips_shared_kv_layers: Flag
    verify_curve: Curve | None = None
    verify_extrapolation: Literal["linear", "flat"] = "linear"
    tile: Annotated[CitedValue[Positive], unit("1")] | None = None
    engine_init_s: SecondsTable | None = None
    cancel_latency_s: Seconds | None = None
    idle_cadence_slowdown: Annotated[CitedValue[tuple[tuple[Positive, Positive], ...]], unit("1")] | None = (
        None
    )
    energy_per_token_j: JoulesPerToken | None = None
    notes: str = ""
    references: dict[str, Reference] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> RuntimeProfile:
        if self.ideal and self.verify_curve is not None:
            raise ValueError(
                "is ideal and has a verify_curve; the roofline already holds the compute, never both"
            )
        if not self.ideal and self.verify_curve is None:
            raise ValueError("is not ideal and has no verify_curve; needed: [[1, 1], [width, cost], ...]")
        if not self.ideal and self.engine == "any":
            raise ValueError("has engine 'any'; only an ideal runtime may leave the engine open")
        if self.small_model_bytes.value > self.large_model_bytes.value:
            raise ValueError("has small_model_bytes above large_model_bytes")
        return self

    def applies_to(self, device: DeviceProfile) -> bool:
        """Say whether this stack is meant for the device: named by id, by SoC, or for any device ("*")."""
        return "*" in self.devices or device.id in self.devices or device.soc_id in self.devices

    def is_transfer(self, device: DeviceProfile) -> bool:
        """Say whether the numbers were observed on another SoC only; results are then at best assumed."""
        return not self.ideal and device.soc_id not in self.measured_socs


def engine_for(device: DeviceProfile, runtime: RuntimeProfile, engine: str | None = None) -> EngineName:
    """Return the engine that a runtime uses on a device.

    Parameters
    ----------
    device : DeviceProfile
        Where it runs.
    runtime : RuntimeProfile
        The stack; one with engine "any" takes `engine`, or else the first of tpu, gpu, cpu on the device.
    engine : str, optional
        The caller's wish.

    Returns
    -------
    {"cpu", "gpu", "tpu"}
        The engine.

    Raises
    ------
    ProfileError
        If the device lacks the engine, or the runtime is for another one.
    """
    wanted = engine if engine is not None else (runtime.engine if runtime.engine != "any" else None)
    if wanted is not None and runtime.engine != "any" and wanted != runtime.engine:
        raise ProfileError(
            f"engine: given {wanted!r}, but runtime {runtime.id!r} runs on {runtime.engine!r} only."
        )
    for name in ENGINE_ORDER:
        if name in device.engines and wanted in (None, name):
            return name
    raise unknown(
        f"engine of runtime {runtime.id}", f"engine of {device.id}", str(wanted), device.engines
    )  # fmt: skip
