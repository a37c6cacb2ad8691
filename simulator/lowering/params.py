"""CostParams: all that a design costs, as numbers or arrays of designs; it does not know acceptance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from simulator.lowering.affine import Affine, Quantity
from simulator.lowering.compiled import CompiledPass, Kernel, Weights
from simulator.lowering.memory import Memory
from simulator.physics.renewal import sum_of_contexts, sum_of_windowed_contexts
from simulator.physics.roofline import mbu_of_model, roofline_time_s
from simulator.physics.verify import relative_cost


@dataclass(frozen=True, kw_only=True)
class PassCost:
    """One forward pass of fixed width: what it takes of time, memory bus and energy, affine in the context.

    Attributes
    ----------
    rows : float or array
        Rows of the pass, all streams together.
    host_s : float or array
        Floor of the pass and host time of its rows: neither bus nor engine is busy [s].
    busy_s : Affine
        Time on the engine and on the memory bus [s]; the pass takes ``host_s + busy_s``.
    bytes_moved : Affine
        Memory traffic [B].
    mac_energy_j : Affine
        Energy of its multiply-accumulates [J].
    """

    rows: Quantity
    host_s: Quantity
    busy_s: Affine
    bytes_moved: Affine
    mac_energy_j: Affine

    def time_at(self, context: Quantity) -> Quantity:
        """Time of one pass at a context [s]."""
        return self.host_s + self.busy_s.at(context)


@dataclass(frozen=True, kw_only=True)
class PrefillCost:
    """One prefill, of the target or of a drafter with its own cache.

    Attributes
    ----------
    host_s, busy_s : float or array
        Floor, and time on engine and bus [s]; the prefill takes the sum.
    bytes_moved : float or array
        Memory traffic [B].
    mac_energy_j : float or array
        Energy of its MACs [J].
    """

    host_s: Quantity
    busy_s: Quantity
    bytes_moved: Quantity
    mac_energy_j: Quantity

    @property
    def time_s(self) -> Quantity:
        """Time of the prefill [s]."""
        return self.host_s + self.busy_s


@dataclass(frozen=True, kw_only=True)
class Side:
    """A runtime on an engine, as seen by the passes of the target or of the drafter.

    Attributes
    ----------
    ideal : bool
        True: time is the roofline, kernel by kernel. False: the measured form with a verify curve.
    mbu_large, mbu_small, mbu_kv : float or array
        Achieved / peak bandwidth on weights of large and small models and on KV [1].
    small_model_bytes, large_model_bytes : float
        Where ``mbu_small`` ends and ``mbu_large`` begins [B].
    kv_reads : {"once", "per_row"}
        Whether the rows of a pass share one read of the cache.
    floor_s : float or array
        Floor of a pass, that of its layers included [s]; on the drafter's side that of a draft pass.
    host_per_row_s : float or array
        Host time per row [s].
    curve_widths, curve_costs : tuple
        Points of ``g(w)``; empty for ideal.
    curve_extrapolation : {"linear", "flat"}
        Beyond the last point.
    tile : int or None
        Padding step of the width.
    macs_per_s, energy_per_mac_j : mapping of str to float or array
        Peak rate [MAC/s] and energy [J/MAC] by dtype.
    prefill_macs_per_s_fraction : float or array
        Share of the peak rate that prefill reaches [1].
    prefill_floor_s : float or array
        Floor of a prefill [s].
    active_power_w, idle_power_w : float or array
        Engine rail while a pass runs, without MACs, and between passes [W].
    expert_bytes_per_s : float, array or None
        Bandwidth on routed experts that stay in host memory [B/s]; None where they lie beside the rest.
    """

    ideal: bool
    mbu_large: Quantity
    mbu_small: Quantity
    mbu_kv: Quantity
    small_model_bytes: float
    large_model_bytes: float
    kv_reads: Literal["once", "per_row"]
    floor_s: Quantity
    host_per_row_s: Quantity
    curve_widths: tuple[float, ...]
    curve_costs: tuple[Quantity, ...]
    curve_extrapolation: str
    tile: int | None
    macs_per_s: Mapping[str, Quantity]
    energy_per_mac_j: Mapping[str, Quantity]
    prefill_macs_per_s_fraction: Quantity
    prefill_floor_s: Quantity
    active_power_w: Quantity
    idle_power_w: Quantity
    expert_bytes_per_s: Quantity | None = None

    def weight_times(
        self, weights: Weights, *, rows: Quantity, scale: Quantity, bandwidth: Quantity
    ) -> tuple[Quantity, Quantity]:
        """Time of reading weights: dense ones, which ``g(w)`` stretches, and routed experts [s].

        Of the experts a wider pass reads the union, at few rows each: more bytes, but no dearer kernel.
        """
        experts = bandwidth if self.expert_bytes_per_s is None else self.expert_bytes_per_s
        return weights.dense_bytes * scale / bandwidth, weights.routed_at(rows) * scale / experts


@dataclass(frozen=True, kw_only=True)
class CostParams:
    """Costs of one design, or of many: every number is a float or an array of designs that broadcasts.

    Attributes
    ----------
    target_pass, draft_pass, target_prefill_pass, drafter_prefill_pass : CompiledPass
        Ops as coefficients.
    target_side, draft_side : Side
        Runtime and engine of the target's and of the drafter's passes.
    passes_per_step : {"none", "per_draft", "one"}
        Draft passes for K drafts: 0, K or 1.
    draft_context : {"target", "own", "none"}
        ``own``: the context of draft pass i is ``n + i``; otherwise every pass of a step sees ``n``.
    catch_up : bool
        The first draft pass after a full accept has one row more.
    peak_bandwidth_bytes_per_s : float or array
        DRAM peak [B/s].
    energy_per_byte_j : float or array
        DRAM device and PHY together [J/B].
    host_power_w, base_power_w : float or array
        CPU rail while it orchestrates, and the rest of the SoC all the time [W].
    floor_per_step_s, host_s_per_step : float or array
        Floor of a speculative step (comparing drafts, moving cache positions) and the drafter's host
        search [s]; plain decoding has neither.
    prompt_tokens, output_tokens : float or array
        Of one stream; the first output token comes from prefill.
    draft_length, batch : float or array
        Drafts per step and streams decoded together.
    memory : Memory
        What else stays in RAM.
    drafter_resident_bytes : mapping of str to float or array
        RAM of the drafter by part [B].
    fixed_context : float, array or None
        Context of every step where the caller fixed it; None lets it grow.
    target_weight_scale, drafter_weight_scale : float or array
        Factor on weight bytes and row MACs: a model of the same shape with that many times the parameters.
    """

    target_pass: CompiledPass
    draft_pass: CompiledPass
    target_prefill_pass: CompiledPass
    drafter_prefill_pass: CompiledPass
    target_side: Side
    draft_side: Side
    passes_per_step: Literal["none", "per_draft", "one"]
    draft_context: Literal["target", "own", "none"]
    catch_up: bool
    peak_bandwidth_bytes_per_s: Quantity
    energy_per_byte_j: Quantity
    host_power_w: Quantity
    base_power_w: Quantity
    floor_per_step_s: Quantity
    host_s_per_step: Quantity
    prompt_tokens: Quantity
    output_tokens: Quantity
    draft_length: Quantity
    batch: Quantity
    memory: Memory
    drafter_resident_bytes: Mapping[str, Quantity]
    fixed_context: Quantity | None = None
    target_weight_scale: Quantity = 1.0
    drafter_weight_scale: Quantity = 1.0

    @property
    def windows(self) -> tuple[int, ...]:
        """Distinct sliding windows of target and drafter."""
        return tuple(sorted({*self.target_pass.windows, *self.draft_pass.windows}))

    def draft_passes(self, proposed: Quantity) -> Quantity:
        """Draft passes of a step that proposes this many drafts."""
        if self.passes_per_step == "per_draft":
            return proposed
        return 0.0 * proposed if self.passes_per_step == "none" else 1.0 * (np.asarray(proposed) > 0)

    def verify_cost(self, width: Quantity) -> PassCost:
        """One target pass of ``width`` rows per stream; width 1 is a plain decoding pass."""
        return self._cost(*self._of(True), width)

    def draft_cost(self, width: Quantity = 1) -> PassCost:
        """One draft pass; ``width`` 2 is the one that catches up after a full accept."""
        return self._cost(*self._of(False), width)

    @property
    def step_host_s(self) -> Quantity:
        """Host time of a step outside its passes [s]; 0 where K = 0, which is plain decoding."""
        return (self.floor_per_step_s + self.host_s_per_step) * (self.draft_length > 0)

    def target_prefill(self) -> PrefillCost:
        """Prefill of the prompt by the target."""
        return self._prefill(self.target_prefill_pass, self.target_side, self.target_side.prefill_floor_s,
                             self.target_weight_scale)  # fmt: skip

    def draft_prefill(self) -> PrefillCost:
        """Prefill of the prompt by a drafter with its own cache; zero for a frozen head and where K = 0."""
        if self.drafter_prefill_pass.empty:
            return PrefillCost(host_s=0.0, busy_s=0.0, bytes_moved=0.0, mac_energy_j=0.0)
        drafting = 1.0 * (np.asarray(self.draft_length) > 0)
        cost = self._prefill(self.drafter_prefill_pass, self.draft_side, self.draft_side.floor_s,
                             self.drafter_weight_scale)  # fmt: skip
        return PrefillCost(host_s=cost.host_s * drafting, busy_s=cost.busy_s * drafting,
                           bytes_moved=cost.bytes_moved * drafting,
                           mac_energy_j=cost.mac_energy_j * drafting)  # fmt: skip

    def bytes_by_part(self, *, verify: bool, width: Quantity) -> dict[str, Affine]:
        """Byte ledger of one pass of ``width`` rows per stream, by part."""
        compiled, side, scale = self._of(verify)
        rows = self.batch * width
        reads = self._kv_reads(side, rows)
        return {
            name: part.affine(rows=rows, kv_reads=reads, weight_scale=scale)
            for name, part in compiled.parts.items()
        }

    def macs(self, *, verify: bool, width: Quantity) -> Affine:
        """Multiply-accumulates of one pass of ``width`` rows per stream, all dtypes together."""
        compiled, _, scale = self._of(verify)
        return _macs(compiled, self.batch * width, scale, None)

    def _of(self, verify: bool) -> tuple[CompiledPass, Side, Quantity]:
        """Pass, side and weight scale of the target or of the drafter."""
        if verify:
            return self.target_pass, self.target_side, self.target_weight_scale
        return self.draft_pass, self.draft_side, self.drafter_weight_scale

    def _kv_reads(self, side: Side, rows: Quantity) -> Quantity:
        """Times that a pass reads the cache: once a stream, or once a row."""
        return rows if side.kv_reads == "per_row" else self.batch

    def _bandwidths(self, side: Side, weight_bytes: Quantity) -> tuple[Quantity, Quantity]:
        mbu = mbu_of_model(
            model_bytes=weight_bytes, mbu_small=side.mbu_small, mbu_large=side.mbu_large,
            small_model_bytes=side.small_model_bytes, large_model_bytes=side.large_model_bytes,
        )  # fmt: skip
        return mbu * self.peak_bandwidth_bytes_per_s, side.mbu_kv * self.peak_bandwidth_bytes_per_s

    def _cost(self, compiled: CompiledPass, side: Side, scale: Quantity, width: Quantity) -> PassCost:
        rows = self.batch * width
        reads = self._kv_reads(side, rows)
        weight_bytes = compiled.weights.at(rows) * scale
        bandwidth, kv_bandwidth = self._bandwidths(side, compiled.weight_bytes * scale)
        bytes_moved = Affine.from_terms(
            weight_bytes + rows * compiled.bytes_per_row,
            {window: kv * reads for window, kv in compiled.kv_bytes.items()},
        )
        if side.ideal:
            busy = _roofline(compiled.kernels, side, rows, reads, scale, bandwidth, kv_bandwidth)
        else:
            curve = relative_cost(width=rows, widths=side.curve_widths, costs=side.curve_costs,
                                  tile=side.tile, extrapolation=side.curve_extrapolation)  # fmt: skip
            dense_s, experts_s = side.weight_times(compiled.weights, rows=rows, scale=scale,
                                                   bandwidth=bandwidth)  # fmt: skip
            busy = Affine.from_terms(
                dense_s * curve + experts_s + rows * (compiled.bytes_per_row / kv_bandwidth),
                {window: kv / kv_bandwidth * reads for window, kv in compiled.kv_bytes.items()},
            )
        return PassCost(
            rows=rows, host_s=side.floor_s + rows * side.host_per_row_s, busy_s=busy,
            bytes_moved=bytes_moved,
            mac_energy_j=_macs(compiled, rows, scale, side.energy_per_mac_j),
        )  # fmt: skip

    def _prefill(self, compiled: CompiledPass, side: Side, floor_s: Quantity, scale: Quantity) -> PrefillCost:
        """Sum over kernels of max(bytes / achieved bandwidth, MACs / (fraction x rate)); causal attention."""
        bandwidth, kv_bandwidth = self._bandwidths(side, compiled.weight_bytes * scale)
        seen = {
            window: sum_of_contexts(first=0.0, count=self.prompt_tokens) if window is None
            else sum_of_windowed_contexts(first=0.0, count=self.prompt_tokens, window=float(window))
            for window in {kernel.window for kernel in compiled.kernels if kernel.context}
        }  # fmt: skip
        busy: Quantity = 0.0
        moved: Quantity = 0.0
        energy: Quantity = 0.0
        for kernel in compiled.kernels:
            if kernel.context:
                streams_bytes = self.batch * kernel.kv_bytes * self.prompt_tokens
                macs = self.batch * kernel.macs * seen[kernel.window]
                memory_s = streams_bytes / kv_bandwidth
                kernel_bytes = streams_bytes
            else:
                rows = self.batch * self.prompt_tokens
                weights, gathered = kernel.weights.at(rows) * scale, rows * kernel.bytes_per_row
                macs = (rows * kernel.macs + self.batch * kernel.macs_per_pass) * scale
                read_s = sum(side.weight_times(kernel.weights, rows=rows, scale=scale, bandwidth=bandwidth))
                memory_s = read_s + gathered / kv_bandwidth
                kernel_bytes = weights + gathered
            rate = side.prefill_macs_per_s_fraction * side.macs_per_s[kernel.dtype]
            busy = busy + roofline_time_s(memory_s=memory_s, macs=macs, macs_per_s=rate)
            moved = moved + kernel_bytes
            energy = energy + macs * side.energy_per_mac_j[kernel.dtype]
        return PrefillCost(host_s=floor_s, busy_s=busy, bytes_moved=moved, mac_energy_j=energy)


def _roofline(
    kernels: tuple[Kernel, ...], side: Side, rows: Quantity, reads: Quantity, scale: Quantity,
    bandwidth: Quantity, kv_bandwidth: Quantity,
) -> Affine:  # fmt: skip
    constant: Quantity = 0.0
    slopes: dict[int | None, Quantity] = {}
    for kernel in kernels:
        rate = side.macs_per_s[kernel.dtype]
        if kernel.context:
            slope = roofline_time_s(memory_s=kernel.kv_bytes * reads / kv_bandwidth,
                                    macs=kernel.macs * rows, macs_per_s=rate)  # fmt: skip
            slopes[kernel.window] = slopes.get(kernel.window, 0.0) + slope
        else:
            gathered_s = rows * (kernel.bytes_per_row / kv_bandwidth)
            read_s = sum(side.weight_times(kernel.weights, rows=rows, scale=scale, bandwidth=bandwidth))
            memory_s = read_s + gathered_s
            macs = (rows * kernel.macs + kernel.macs_per_pass) * scale
            constant = constant + roofline_time_s(memory_s=memory_s, macs=macs, macs_per_s=rate)
    return Affine.from_terms(constant, slopes)


def _macs(
    compiled: CompiledPass, rows: Quantity, scale: Quantity, weights: Mapping[str, Any] | None
) -> Affine:
    """MACs of a pass, or their energy where ``weights`` gives the energy of one MAC by dtype."""
    per_row: Quantity = 0.0
    per_pass: Quantity = 0.0
    for dtype, macs in compiled.macs_per_row.items():
        per_row = per_row + (macs if weights is None else macs * weights[dtype])
    for dtype, macs in compiled.macs_per_pass.items():
        per_pass = per_pass + (macs if weights is None else macs * weights[dtype])
    slopes: dict[int | None, Quantity] = {}
    for (dtype, window), macs in compiled.macs_per_row_per_context.items():
        slopes[window] = slopes.get(window, 0.0) + (macs if weights is None else macs * weights[dtype])
    terms = {window: rows * each for window, each in slopes.items()}
    return Affine.from_terms((rows * per_row + per_pass) * scale, terms)
