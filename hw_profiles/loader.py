"""Finds profile files, reads TOML into the schema and explains what is wrong. Does not compute."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from hw_profiles.cited import CitedValue
from hw_profiles.errors import ProfileError, unknown
from hw_profiles.explain import explain
from hw_profiles.references import references
from hw_profiles.schema import DeviceProfile, PowerRail, Reference, RuntimeProfile
from hw_profiles.toml_files import parse_toml, read_user_file, to_tuples

Profile = DeviceProfile | RuntimeProfile
P = TypeVar("P", DeviceProfile, RuntimeProfile)
GENERIC = "generic"
"""A device of which only the memory bandwidth is known: ``generic:120`` has 120 GB/s."""
GENERIC_GB_PER_S = (1.0, 100_000.0)
"""Least and largest bandwidth of such a device [GB/s]."""


def list_devices() -> list[str]:
    """Return the ids of the packaged devices, sorted."""
    return list(_stems("devices"))


def list_runtimes() -> list[str]:
    """Return the ids of the packaged runtimes, sorted."""
    return list(_stems("runtimes"))


def load_device(device: str) -> DeviceProfile:
    """Load a device by id, or from a file if `device` ends in ``.toml``.

    Parameters
    ----------
    device : str
        Id (see `list_devices`), path, or ``generic:N`` for a peak bandwidth of N GB/s.

    Returns
    -------
    DeviceProfile
        Frozen; the same object on repeated calls with an id.

    Raises
    ------
    UnknownProfileError
        If no such device exists; the message offers the nearest.
    ProfileError
        If the file is wrong; the message names file, dotted key, what was given and what is allowed.
    """
    if device.endswith(".toml"):
        return load_device_file(device)
    if device.startswith(f"{GENERIC}:"):
        return _generic_device(device)
    if device not in list_devices():
        raise unknown("device", "device", device, list_devices())
    return _packaged_device(device)


def load_runtime(runtime: str) -> RuntimeProfile:
    """Load a runtime by id, or from a file if `runtime` ends in ``.toml``; errors as for `load_device`."""
    if runtime.endswith(".toml"):
        return load_runtime_file(runtime)
    if runtime not in list_runtimes():
        raise unknown("runtime", "runtime", runtime, list_runtimes())
    return _packaged_runtime(runtime)


def load_device_file(path: str | Path) -> DeviceProfile:
    """Load a device from a TOML file; its id is the file's stem.

    Own sources go into ``[references.KEY]`` tables of the file.
    """
    where, text = read_user_file(Path(path))
    return _build(DeviceProfile, Path(path).stem, where, parse_toml(where, text))


def load_runtime_file(path: str | Path) -> RuntimeProfile:
    """Load a runtime from a TOML file; its id is the file's stem.

    Own sources go into ``[references.KEY]`` tables of the file.
    """
    where, text = read_user_file(Path(path))
    return _build(RuntimeProfile, Path(path).stem, where, parse_toml(where, text))


def runtimes_for(device: str | DeviceProfile) -> list[str]:
    """Return the ids of the packaged runtimes that apply to a device and whose engine it has.

    Parameters
    ----------
    device : str or DeviceProfile
        Id, path or loaded profile.
    """
    profile = load_device(device) if isinstance(device, str) else device
    fitting = []
    for name in list_runtimes():
        runtime = load_runtime(name)
        if runtime.applies_to(profile) and (runtime.engine == "any" or runtime.engine in profile.engines):
            fitting.append(name)
    return fitting


def cited_values(profile: BaseModel) -> Iterator[tuple[str, CitedValue[Any]]]:
    """Yield every cited value of a profile with its dotted key, in schema order."""
    yield from _walk(profile, "")


def _walk(part: object, key: str) -> Iterator[tuple[str, CitedValue[Any]]]:
    if isinstance(part, CitedValue):
        yield key, part
    elif isinstance(part, Reference | PowerRail):
        return
    elif isinstance(part, BaseModel):
        for name in type(part).model_fields:
            yield from _walk(getattr(part, name), f"{key}.{name}" if key else name)
    elif isinstance(part, Mapping):
        for name, item in part.items():
            yield from _walk(item, f"{key}.{name}")
    elif isinstance(part, tuple):
        for index, item in enumerate(part):
            yield from _walk(item, f"{key}[{index}]")


def unresolved_sources(profile: Profile) -> list[tuple[str, str]]:
    """Return (dotted key, source key) of each source that neither references.bib nor the profile explains."""
    known = references().keys() | profile.references.keys()
    missing = [
        (key, name) for key, cited in cited_values(profile) for name in cited.sources if name not in known
    ]
    if isinstance(profile, DeviceProfile):
        missing += [
            (f"power_rails[{i}]", rail.source)
            for i, rail in enumerate(profile.power_rails)
            if rail.source not in known
        ]
    return missing


@cache
def _stems(folder: str) -> tuple[str, ...]:
    names = (item.name for item in (files("hw_profiles") / folder).iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


@cache
def _packaged_device(name: str) -> DeviceProfile:
    item = _packaged("devices", name)
    return _build(
        DeviceProfile,
        name,
        f"devices/{name}.toml",
        parse_toml(f"devices/{name}.toml", item.read_text("utf-8")),
    )


@cache
def _generic_device(name: str) -> DeviceProfile:
    """Put a stated bandwidth into devices/generic.toml; what is derived there is proportional to it."""
    stated = name.removeprefix(f"{GENERIC}:")
    try:
        peak = 1e9 * float(stated)
    except ValueError:
        peak = math.nan
    low, high = GENERIC_GB_PER_S
    if not 1e9 * low <= peak <= 1e9 * high:
        raise ProfileError(
            f"device: given {name!r}; allowed: {GENERIC}:N with the peak memory bandwidth N in GB/s, a "
            f"number from {low:g} to {high:g}, such as {GENERIC}:120."
        )
    where = f"devices/{GENERIC}.toml"
    raw = parse_toml(where, _packaged("devices", GENERIC).read_text("utf-8"))
    known = raw["dram"]["peak_bandwidth_bytes_per_s"]
    factor = peak / known["value"]
    known |= {"value": peak, "low": peak, "high": peak, "note": "Stated by the caller."}
    _scale_derived(raw, factor)
    raw["name"] = f"{raw['name']}, {peak / 1e9:g} GB/s"
    return _build(DeviceProfile, name, where, raw)


def _scale_derived(table: dict[str, Any], factor: float) -> None:
    for item in table.values():
        if isinstance(item, dict) and item.get("kind") == "derived":
            item |= {end: item[end] * factor for end in ("value", "low", "high") if end in item}
        elif isinstance(item, dict):
            _scale_derived(item, factor)


@cache
def _packaged_runtime(name: str) -> RuntimeProfile:
    item = _packaged("runtimes", name)
    return _build(
        RuntimeProfile,
        name,
        f"runtimes/{name}.toml",
        parse_toml(f"runtimes/{name}.toml", item.read_text("utf-8")),
    )


def _packaged(folder: str, name: str) -> Traversable:
    return files("hw_profiles") / folder / f"{name}.toml"


def _build(model: type[P], name: str, where: str, raw: dict[str, Any]) -> P:
    if "id" in raw:
        raise ProfileError(
            f"{where}:id: must not stand in the file; the id is the file's name without .toml ({name!r})."
        )
    base_where, base = where, dict[str, Any]()
    if "base" in raw:
        base_where, base = _load_base(model, where, raw.pop("base"))
    merged = _merge(base, raw)
    merged["id"] = name
    try:
        profile = model.model_validate(to_tuples(merged))
    except ValidationError as error:
        raise ProfileError(explain(error, model, where, raw, base_where)) from error
    for key, source in unresolved_sources(profile):
        known = references().keys() | profile.references.keys()
        message = str(unknown(f"{where}:{key}.source", "reference", source, known)).split(" Allowed:")[0]
        raise ProfileError(
            f"{message} Allowed: the keys of references.bib or a [references.{source}] table in the file."
        )
    return profile


def _load_base(model: type[P], where: str, base: object) -> tuple[str, dict[str, Any]]:
    """Read what a profile builds on, which may itself build on another: a packaged SoC or runtime by name."""
    folder, what = ("socs", "SoC") if model is DeviceProfile else ("runtimes", "runtime")
    names = _stems(folder)
    if not isinstance(base, str) or base not in names:
        raise unknown(f"{where}:base", what, str(base), names)
    base_where = f"{folder}/{base}.toml"
    table = parse_toml(base_where, _packaged(folder, base).read_text("utf-8"))
    if "base" in table:
        below = _load_base(model, base_where, table.pop("base"))[1]
        table = _merge(below, table)
    return base_where, table


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Lay `over` on `base`, table by table; a cited value replaces the base's as a whole."""
    merged = dict(base)
    for key, item in over.items():
        below = merged.get(key)
        if isinstance(item, dict) and isinstance(below, dict) and "value" not in (item | below):
            merged[key] = _merge(below, item)
        else:
            merged[key] = item
    return merged
