"""lower(): profiles and specs, by name or loaded, compiled into a Lowered; it computes no time."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import simulator.drafters as drafters
import simulator.ops as model_ops
from hw_profiles import load_device, load_runtime
from hw_profiles.schema import DeviceProfile, RuntimeProfile, engine_for
from simulator.drafters.base import DrafterModel
from simulator.errors import DraftscopeError
from simulator.lowering.compiled import compile_ops
from simulator.lowering.inputs import Input, device_inputs, drafter_inputs, side_inputs
from simulator.lowering.lowered import SIDE_AXES, Lowered
from simulator.lowering.memory import KvShape, Memory
from simulator.lowering.remarks import kernel_remark
from simulator.results import KINDS
from simulator.specs import TargetSpec, load_target

GATHERED = {f"{whose}{part}" for whose in ("", "drafter_") for part in ("embedding", "per_layer_embedding")}
NAME = re.compile(r"[\w@]+|generic:[\d.]+")
"""A shipped file and perhaps a precision, or a stated bandwidth; anything else is a path."""


def lower(
    *,
    device: str | Path | DeviceProfile,
    target: str | Path | TargetSpec,
    drafter: Any = "none",
    runtime: str | Path | RuntimeProfile | None = None,
    engine: str | None = None,
    draft_runtime: str | Path | RuntimeProfile | None = None,
    draft_engine: str | None = None,
) -> Lowered:
    """Compile one case: everything that does not change when numbers do.

    Parameters
    ----------
    device, target : str, path or loaded object
        Name of a shipped profile or spec, a file, or the object.
    drafter : str, path, dict or DrafterModel
        Drafter instance; ``"none"`` for plain decoding.
    runtime : str, path or RuntimeProfile, optional
        The device's default runtime where omitted.
    engine : str, optional
        For a runtime that works with any engine.
    draft_runtime, draft_engine : optional
        Runtime and engine of the draft passes where they differ from the target's.

    Returns
    -------
    Lowered
        Ready to :meth:`~simulator.lowering.Lowered.bind`.

    Raises
    ------
    DraftscopeError, hw_profiles.errors.ProfileError
        For unknown names (with the nearest), and for a drafter that was built for another target.
    """
    where = device if isinstance(device, DeviceProfile) else load_device(str(device))
    stack = _runtime(runtime, where.default_runtime)
    served = target if isinstance(target, TargetSpec) else load_target(target)
    drafting = drafter if isinstance(drafter, DrafterModel) else drafters.build_drafter(drafter, served)
    if drafting.target_id and drafting.target_id != served.id:
        raise DraftscopeError(
            f"drafter: {drafting.id!r} was built for target {drafting.target_id!r}; given {served.id!r}."
        )
    on = engine_for(where, stack, engine)
    draft_stack = _runtime(draft_runtime, stack)
    draft_on = engine_for(where, draft_stack, draft_engine or (on if draft_runtime is None else None))
    stacks = [stack] if draft_stack is stack else [stack, draft_stack]

    inputs = device_inputs(where) | _transferred(side_inputs(stack, where.engines[on]), stack, where)
    if draft_stack is not stack or draft_on != on:
        own = _transferred(side_inputs(draft_stack, where.engines[draft_on]), draft_stack, where)
        inputs |= {f"draft_{name}": own[name] for name in own if name in SIDE_AXES}
    inputs |= drafter_inputs(drafting)
    ops = model_ops.target_ops(served)
    notes = [
        *(_note(each, where) for each in stacks),
        kernel_remark(served, stack),
        served.note,
        drafting.note,
    ]
    if served.num_experts and stack.expert_bandwidth_bytes_per_s is not None:
        notes.append(
            "Routed experts are read from host memory; RAM and memory energy count them as the device's."
        )
    references = [*served.sources, served.quant.source, *drafting.sources]
    references += [source for each in inputs.values() for source in each.sources]
    return Lowered(
        ids={
            "device": where.id, "runtime": stack.id, "engine": on, "draft_runtime": draft_stack.id,
            "draft_engine": draft_on, "target": served.id, "drafter": drafting.id,
        },
        target_pass=compile_ops(ops),
        draft_pass=compile_ops(drafting.draft_ops),
        target_prefill_pass=compile_ops(
            model_ops.prefill_ops(served, skip_shared_kv=stack.prefill_skips_shared_kv_layers.value)
        ),
        drafter_prefill_pass=compile_ops(drafting.prefill_ops),
        drafter=drafting,
        memory=_memory(served, ops, drafting),
        inputs=inputs,
        statics=_statics(stack),
        draft_statics=_statics(draft_stack),
        spec_kinds=tuple(each for each in (served.quant.kind, drafting.kind) if each in KINDS),
        references=tuple(dict.fromkeys(references)),
        notes=tuple(note for note in notes if note),
    )  # fmt: skip


def lower_cached(**case: Any) -> Lowered:
    """:func:`lower`, remembered for names of shipped files and for loaded (frozen) objects.

    What a path names may change between two calls, so a path is always read again.

    Parameters
    ----------
    **case
        As in :func:`lower`.
    """
    values = list(case.values())
    if all(value is None or (isinstance(value, str) and NAME.fullmatch(value)) for value in values):
        return _lowered_by_name(tuple(sorted(case.items())))
    if any(isinstance(v, Path) or (isinstance(v, str) and not NAME.fullmatch(v)) for v in values):
        return lower(**case)
    key = tuple((name, v if v is None or isinstance(v, str) else id(v)) for name, v in sorted(case.items()))
    if key not in _RECENT:
        if len(_RECENT) >= MOST_RECENT:
            _RECENT.pop(next(iter(_RECENT)))
        _RECENT[key] = (values, lower(**case))  # the values stay alive, so that no id is used twice
    return _RECENT[key][1]


MOST_RECENT = 256
_RECENT: dict[tuple[tuple[str, Any], ...], tuple[list[Any], Lowered]] = {}


@lru_cache(maxsize=512)
def _lowered_by_name(names: tuple[tuple[str, Any], ...]) -> Lowered:
    return lower(**dict(names))


def _runtime(given: str | Path | RuntimeProfile | None, default: str | RuntimeProfile) -> RuntimeProfile:
    chosen = default if given is None else given
    return chosen if isinstance(chosen, RuntimeProfile) else load_runtime(str(chosen))


def _statics(runtime: RuntimeProfile) -> dict[str, Any]:
    curve = runtime.verify_curve
    return {
        "ideal": runtime.ideal,
        "kv_reads": runtime.kv_reads,
        "small_model_bytes": runtime.small_model_bytes.value,
        "large_model_bytes": runtime.large_model_bytes.value,
        "curve_widths": () if curve is None else tuple(width for width, _ in curve.value),
        "curve_extrapolation": runtime.verify_extrapolation,
        "tile": None if runtime.tile is None else round(runtime.tile.value),
    }


def _transferred(
    inputs: dict[str, Input], runtime: RuntimeProfile, device: DeviceProfile
) -> dict[str, Input]:
    """A runtime that was measured on another SoC says ``assumed`` of its own numbers."""
    if not runtime.is_transfer(device):
        return inputs
    engine = ("active_power_w", "idle_power_w", "macs_per_s", "energy_per_mac_j")
    return {name: each if name in engine else replace(each, kind="assumed") for name, each in inputs.items()}


def _note(runtime: RuntimeProfile, device: DeviceProfile) -> str:
    if not runtime.applies_to(device):
        return (
            f"Runtime {runtime.id} is not stated to run on {device.id}: its numbers are carried over and "
            "count as assumed."
        )
    if runtime.is_transfer(device) and not runtime.measured_socs:
        return f"Runtime {runtime.id} was measured on no device: its numbers count as assumed."
    if runtime.is_transfer(device):
        return (
            f"Runtime {runtime.id} was measured on {', '.join(runtime.measured_socs)}, not on "
            f"{device.soc_id}: its numbers count as assumed."
        )
    return ""


def _memory(target: TargetSpec, ops: tuple[model_ops.Op, ...], drafter: DrafterModel) -> Memory:
    def gathered(some: tuple[model_ops.Op, ...]) -> float:
        return sum(op.bytes_per_row for op in some if op.part in GATHERED)

    wide = target.intermediate_size
    return Memory(
        target_resident_bytes=target.resident_bytes(),
        target_mapped_bytes=target.mapped_bytes(),
        target_gather_bytes_per_token=gathered(ops),
        target_kv=KvShape(
            bytes_per_token=target.kv_bytes_per_token(),
            windowed_bytes_per_token=target.kv_windowed_bytes_per_token(),
            window=float(target.sliding_window or math.inf),
        ),
        drafter_mapped_bytes=drafter.mapped_bytes,
        drafter_gather_bytes_per_token=gathered(drafter.draft_ops),
        drafter_kv=KvShape(
            bytes_per_token=drafter.own_kv_bytes_per_token,
            windowed_bytes_per_token=drafter.own_kv_windowed_bytes_per_token,
            window=float(drafter.own_kv_window or math.inf),
        ),
        vocab_size=target.vocab_size,
        hidden_size=target.hidden_size,
        intermediate_size=max(wide) if isinstance(wide, tuple) else wide,
    )
