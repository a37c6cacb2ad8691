"""Measurement files as models with pass times, checked against each other; it fits nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from hw_profiles import list_devices, list_runtimes, load_device, load_runtime
from hw_profiles.schema import DeviceProfile, RuntimeProfile
from simulator.drafters import build_drafter
from simulator.drafters.base import DrafterModel
from simulator.errors import DraftscopeError, UnknownNameError
from simulator.specs import TargetSpec, build_name, list_targets, load_target
from simulator.studies.selection import drafter_for

if TYPE_CHECKING:
    from simulator.adapters.observations import Observations, PassTime, PrefillTime

UNKNOWN_STDERR = 0.05
"""Relative error of a time whose file states none, or zero: run-to-run noise on a good rig."""

LEAST_STDERR = 1e-6
"""Smallest relative error that a time counts with: no clock is better."""

SAME_BYTES = 0.15
"""Relative difference of weight bytes beyond which file and target are said to disagree."""

FASTER_THAN_THE_BUS = 0.98
"""A pass below this share of the time that its weights need at the peak bandwidth cannot be."""

CONTRADICTION, CONTRADICTION_ERRORS = 1.5, 5.0
"""Two times of one pass contradict each other from this ratio and this many standard errors."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """One model and everything that was timed with it.

    Attributes
    ----------
    name : str
        Target with its build, or the name in the file.
    target : TargetSpec or None
        None where only the bytes of the weights are known.
    weight_bytes : float
        Streamed by one pass of one row [B].
    passes, prefills : tuple
        Times, of all files together.
    drafter : DrafterModel or None
        The drafter of the target whose passes these are; None: the target's own.
    """

    name: str
    target: TargetSpec | None
    weight_bytes: float
    passes: tuple[PassTime, ...] = ()
    prefills: tuple[PrefillTime, ...] = ()
    drafter: DrafterModel | None = None


def times_of(timed: Observations | Model) -> list[PassTime | PrefillTime]:
    """Passes, of a file those of drafters too, then prefills."""
    drafts = () if isinstance(timed, Model) else timed.draft_passes
    return [*timed.passes, *drafts, *timed.prefills]


def error_of(time: PassTime | PrefillTime) -> float:
    """Standard error of a time; a share of it where the file states none, or zero; at least a floor [s]."""
    return max(time.stderr_s or UNKNOWN_STDERR * time.seconds, LEAST_STDERR * time.seconds)


def device_of(files: Sequence[Observations], given: str | None) -> DeviceProfile:
    """The device that was measured.

    Parameters
    ----------
    files : sequence of Observations
        Measurements.
    given : str or None
        Name or file, where the caller says it.

    Raises
    ------
    DraftscopeError
        If the files name several devices, none that is known, or another one than the caller.
    """
    named = dict.fromkeys(each.device for each in files if each.device is not None)
    known = {name: _known_device(name) for name in named}
    if given is not None:
        device = load_device(given)
        for name, other in known.items():
            if other not in (None, device.id):
                raise DraftscopeError(
                    f"--device: {given!r} given, but a file was measured on {name!r}; allowed: that device."
                )
        return device
    if len(named) > 1:
        raise DraftscopeError(
            f"measurements: files of {len(named)} devices given: {', '.join(map(repr, named))}; allowed: "
            "files of one. If these are names of the same device, say which with --device."
        )
    found = next((other for other in known.values() if other is not None), None)
    if found is None:
        says = f"the files name {next(iter(named))!r}" if named else "the files name none"
        raise DraftscopeError(
            f"--device: missing, and {says}; needed: a device profile, by name or .toml file. "
            f"Allowed names: {', '.join(list_devices())}."
        )
    return load_device(found)


def _known_device(name: str) -> str | None:
    """Id of a shipped device that a name for people ends with, such as "NVIDIA GeForce RTX 4090"."""
    plain = "_" + "_".join(re.findall(r"[a-z0-9]+", name.lower()))
    return max((each for each in list_devices() if plain.endswith(f"_{each}")), key=len, default=None)


def start_of(files: Sequence[Observations], device: DeviceProfile, given: str | None) -> RuntimeProfile:
    """The runtime whose values and ranges are the prior: the caller's, the files', or the device's default.

    Raises
    ------
    DraftscopeError
        For a roofline, which has no ranges and no verify curve.
    """
    named = [each.runtime for each in files if each.runtime in list_runtimes()]
    start = load_runtime(given or (named[0] if named and named[0] else device.default_runtime))
    if start.ideal:
        raise DraftscopeError(
            f"--runtime: {start.id!r} is a roofline, without floors and ranges to start from; allowed: "
            f"{', '.join(name for name in list_runtimes() if name != start.id)}, or a .toml file."
        )
    return start


def models_of(files: Sequence[Observations], given: Sequence[str]) -> tuple[list[Model], list[str]]:
    """The models of all files, those of one target together, and notes.

    Parameters
    ----------
    files : sequence of Observations
        Measurements.
    given : sequence of str
        Targets: none, one for all files, or one for each.

    Raises
    ------
    DraftscopeError
        If a file's model is not known, or files and targets contradict each other.
    """
    targets = targets_of(files, given)
    found: dict[str, Model] = {}
    notes: list[str] = []
    for file, target in zip(files, targets, strict=True):
        if not file.passes and not file.prefills:
            continue
        model = _model_of(file, target, notes)
        other = found.get(model.name)
        if other is not None and abs(other.weight_bytes / model.weight_bytes - 1) > SAME_BYTES:
            raise DraftscopeError(
                f"{file.source}: weight_bytes: {model.weight_bytes:.4g} B of {model.name!r}, of which "
                f"another file has {other.weight_bytes:.4g} B; allowed: files of one build, or --target for "
                "each."
            )
        found[model.name] = model if other is None else replace(
            other, passes=other.passes + model.passes, prefills=other.prefills + model.prefills,
        )  # fmt: skip
    models = [*found.values(), *_drafter_models(files, targets)]
    for model in models:
        _check_agreement(model)
    return models, notes


def _drafter_models(files: Sequence[Observations], targets: Sequence[TargetSpec | None]) -> list[Model]:
    """Drafters whose own passes were timed, those of one drafter on one target together."""
    found: dict[tuple[str, str], Model] = {}
    for file, target in zip(files, targets, strict=True):
        for each in file.draft_passes:
            if target is None:
                raise DraftscopeError(
                    f"{each.where}: a pass of drafter {each.drafter!r}, but the file's target is not known; "
                    "name it with --target."
                )
            key = (build_name(target), each.drafter)
            if key not in found:
                drafter = build_drafter(drafter_for(each.drafter, target), target)
                weights = sum(op.weight_bytes for op in drafter.draft_ops)
                found[key] = Model(name=each.drafter, target=target, weight_bytes=weights, drafter=drafter)
            found[key] = replace(found[key], passes=(*found[key].passes, each))
    return list(found.values())


def targets_of(files: Sequence[Observations], given: Sequence[str]) -> list[TargetSpec | None]:
    """Target of each file: the caller's, else the one that the file names, else None."""
    if len(given) not in (0, 1, len(files)):
        raise DraftscopeError(
            f"--target: {len(given)} given for {len(files)} files; allowed: one for all, or one for each "
            "file in order."
        )
    if not given:
        return [_named_target(file.model) for file in files]
    named = dict.fromkeys(file.model for file in files if file.model is not None)
    if len(given) == 1 and len(named) > 1:
        raise DraftscopeError(
            f"--target: {given[0]!r} given for files of {len(named)} models, {', '.join(map(repr, named))}; "
            f"allowed: one target for each of the {len(files)} files, in order."
        )
    specs: list[TargetSpec | None] = [load_target(name) for name in given]
    return specs if len(specs) > 1 else specs * len(files)


def _named_target(model: str | None) -> TargetSpec | None:
    """A shipped target, or a file that is there, by the name in a measurement file."""
    if model is None:
        return None
    if model.partition("@")[0] in list_targets():
        return load_target(model)
    if model.endswith((".gguf", ".toml", "config.json")) and Path(model).is_file():
        return load_target(model)
    return None


def _model_of(file: Observations, target: TargetSpec | None, notes: list[str]) -> Model:
    prefills = tuple(each for each in file.prefills if each.context == 0)
    if len(prefills) < len(file.prefills):
        notes.append(
            f"{file.source}: {len(file.prefills) - len(prefills)} prefills behind a cached prompt are left "
            "out; the model of prefill starts from an empty cache."
        )
    if target is not None:
        stored, streamed = target.weight_bytes(), target.streamed_bytes()
        stated = file.weight_bytes
        if stated and min(abs(stated / stored - 1), abs(stated / streamed - 1)) > SAME_BYTES:
            notes.append(
                f"{file.source}: its model has {stated / 1e9:.3g} GB, but {build_name(target)} stores "
                f"{stored / 1e9:.3g} GB and streams {streamed / 1e9:.3g} GB a token. The target's bytes are "
                "used; is it the same build (NAME@scheme)?"
            )
        return Model(name=build_name(target), target=target, weight_bytes=streamed, passes=file.passes,
                     prefills=prefills)  # fmt: skip
    if file.weight_bytes is None:
        raise UnknownNameError(
            f"{file.source}: model (and the file states no weight_bytes; name the target with --target)",
            file.model, list_targets(),
        )  # fmt: skip
    name = file.model or f"{file.weight_bytes / 1e9:.3g} GB of weights"
    notes.append(
        f"{file.source}: of {name!r} only the {file.weight_bytes / 1e9:.3g} GB of weights are known: cache "
        "reads count as weight traffic"
        + (", and its prefills are left out" if prefills else "")
        + "; --target gives them."
    )
    return Model(name=name, target=None, weight_bytes=file.weight_bytes, passes=file.passes)


def _check_agreement(model: Model) -> None:
    """Refuse two times of the same pass that cannot both be right."""
    for one, two in combinations(model.passes, 2):
        if (one.width, one.context) != (two.width, two.context):
            continue
        apart = abs(one.seconds - two.seconds)
        ratio = max(one.seconds, two.seconds) / min(one.seconds, two.seconds)
        if ratio > CONTRADICTION and apart > CONTRADICTION_ERRORS * math.hypot(error_of(one), error_of(two)):
            raise DraftscopeError(
                f"{one.where} and {two.where}: {one.seconds * 1e3:.4g} ms and {two.seconds * 1e3:.4g} ms for "
                f"the same pass of {model.name} (width {one.width:g}, context {one.context:g}): they "
                "contradict each other; leave out the one from a hot, throttled or busy device."
            )


def check_enough(models: Iterable[Model], peak_bandwidth_bytes_per_s: float) -> None:
    """Refuse data without plain decoding, and passes that beat the memory bus.

    Parameters
    ----------
    models : iterable of Model
        Models.
    peak_bandwidth_bytes_per_s : float
        Of the device [B/s].

    Raises
    ------
    DraftscopeError
        With the line of the pass.
    """
    passes = [(model, each) for model in models if model.drafter is None for each in model.passes]
    if not passes:
        raise DraftscopeError(
            "measurements: no time of a target pass in any file; needed: at least plain decoding (width 1)."
        )
    if not any(each.width == 1 for _, each in passes):
        widths = ", ".join(f"{width:g}" for width in sorted({each.width for _, each in passes}))
        raise DraftscopeError(
            f"measurements: passes of width {widths} only; needed: one of width 1 (plain decoding), to which "
            "the curve is relative."
        )
    for model, each in passes:
        least = model.weight_bytes / peak_bandwidth_bytes_per_s
        if each.seconds < FASTER_THAN_THE_BUS * least:
            raise DraftscopeError(
                f"{each.where}: a pass of {each.seconds * 1e3:.4g} ms, but the "
                f"{model.weight_bytes / 1e9:.3g} GB of {model.name} take at least {least * 1e3:.4g} ms at "
                f"the device's peak of {peak_bandwidth_bytes_per_s / 1e9:.4g} GB/s; is it the build "
                "(--target NAME@scheme) and the device that was measured?"
            )


def notes_on(files: Sequence[Observations], device: DeviceProfile) -> list[str]:
    """What a reader must know about the files themselves."""
    notes = [text if text.startswith(file.source) else f"{file.source}: {text}"
             for file in files for text in file.ignored]  # fmt: skip
    runtimes = dict.fromkeys(file.runtime for file in files if file.runtime is not None)
    if len(runtimes) > 1:
        notes.append(
            f"The files name {len(runtimes)} runtimes, {', '.join(map(repr, runtimes))}; they are fitted as "
            "one."
        )
    peak = device.dram.peak_bandwidth_bytes_per_s.value
    for file in files:
        stated = file.peak_bandwidth_bytes_per_s
        if stated is not None and abs(stated / peak - 1) > 0.01:
            notes.append(
                f"{file.source}: states a peak bandwidth of {stated / 1e9:.4g} GB/s, {device.id} has "
                f"{peak / 1e9:.4g} GB/s; utilisations are relative to the latter, as in predictions."
            )
    times = [each for file in files for each in times_of(file)]
    if any(not each.stderr_s for each in times):
        notes.append(
            f"Times without a standard error (or with zero) count with {UNKNOWN_STDERR:.0%} of their value."
        )
    return notes
