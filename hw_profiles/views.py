"""Profiles as rows, differences and lists of problems. Returns data; the caller prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hw_profiles.accelerators import accelerators
from hw_profiles.cited import CitedValue, flat_numbers
from hw_profiles.curve_schema import VerifyCurve
from hw_profiles.errors import ProfileError, unknown
from hw_profiles.formula import evaluate
from hw_profiles.kernel_families import kernel_priors
from hw_profiles.loader import (
    GENERIC,
    Profile,
    cited_values,
    list_devices,
    list_runtimes,
    load_device,
    load_device_file,
    load_runtime,
    load_runtime_file,
)
from hw_profiles.measurements import CSV_FILES, JSON_FILES, decode_table, facts, rows
from hw_profiles.references import references
from hw_profiles.schema import DeviceProfile, Reference, RuntimeProfile
from hw_profiles.toml_files import read_user_file
from hw_profiles.verify_curves import list_curves, load_curve, row_cost_table

FORMULA_TOLERANCE = 1e-3
"""Largest relative difference between a stored derived value and its formula; stored values are rounded."""

_CURVE_UNITS = {"device": "text", "device_id": "text", "engine": "text", "kernel_family": "text",
                "framework": "text", "model": "text", "quant": "text", "weight_bytes": "B",
                "context": "token", "cadence": "text", "date": "text"}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ShownValue:
    """One line of `show`: a dotted key, its cited value, and in `titles` the sources spelled out if asked."""

    key: str
    value: Any
    unit: str
    kind: str
    low: Any
    high: Any
    source: str
    formula: str
    note: str
    titles: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One line of `diff`: a key whose value, range or evidence differs; None where one side lacks it."""

    key: str
    unit: str
    a: Any
    b: Any
    ratio: float | None
    kind_a: str
    kind_b: str


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One finding of `check`: file and key, and what is wrong."""

    where: str
    message: str


def load_any(name: str) -> Profile | VerifyCurve:
    """Load a device, runtime or verify curve by id or path; a path is what its file's keys say.

    Raises
    ------
    UnknownProfileError
        If nothing has that id; the message offers the nearest of all lists.
    """
    if name.endswith(".toml"):
        _, text = read_user_file(Path(name))
        pairs = (line.partition("#")[0].partition("=") for line in text.splitlines())
        said = {key.strip(): value.strip().strip("\"'") for key, _, value in pairs}
        if "points" in said:
            return load_curve(name)
        is_runtime = "kernel_family" in said or said.get("base") in list_runtimes()
        return load_runtime_file(name) if is_runtime else load_device_file(name)
    if name in list_devices() or name.startswith(f"{GENERIC}:"):
        return load_device(name)
    if name in list_runtimes():
        return load_runtime(name)
    if name in list_curves():
        return load_curve(name)
    if Path(name).is_dir():
        raise ProfileError(f"{name}: is a folder; needed: the name of a profile, or a .toml file.")
    known = [*list_devices(), *list_runtimes(), *list_curves()]
    raise unknown("profile", "device, runtime or curve", name, known)


def show(profile: str | Profile | VerifyCurve, *, sources: bool = False) -> list[ShownValue]:
    """Return every cited value of a profile, in schema order, or every field of a curve and its v(w).

    Parameters
    ----------
    profile : str or DeviceProfile or RuntimeProfile or VerifyCurve
        Id, path or loaded profile.
    sources : bool
        Spell out the title and address of each source in `titles`.

    Returns
    -------
    list of ShownValue
        One for each stored value.
    """
    loaded = load_any(profile) if isinstance(profile, str) else profile
    known = {**references(), **loaded.references}
    shown = []
    cited_of = _curve_values(loaded) if isinstance(loaded, VerifyCurve) else cited_values(loaded)
    for key, cited in cited_of:
        titles: tuple[str, ...] = ()
        if sources:
            titles = tuple(_spelled(name, known[name]) for name in cited.sources)
        shown.append(
            ShownValue(
                key=key,
                value=cited.value,
                unit=cited.unit,
                kind=cited.kind,
                low=cited.low,
                high=cited.high,
                source=cited.source,
                formula=cited.formula or "",
                note=cited.note or "",
                titles=titles,
            )
        )
    return shown


def diff(a: str | Profile, b: str | Profile) -> list[Difference]:
    """Return what differs between two devices or two runtimes.

    Parameters
    ----------
    a, b : str or DeviceProfile or RuntimeProfile
        Ids, paths or loaded profiles, both of the same sort.

    Returns
    -------
    list of Difference
        Keys whose value, range or kind differs; `ratio` is b / a where both are single numbers.

    Raises
    ------
    ProfileError
        If one is a device and the other a runtime, or one is a verify curve.
    """
    first = load_any(a) if isinstance(a, str) else a
    second = load_any(b) if isinstance(b, str) else b
    if isinstance(first, VerifyCurve) or isinstance(second, VerifyCurve):
        raise ProfileError(
            f"diff: given {first.id} and {second.id}; allowed: two devices or two runtimes, no verify curve."
        )
    if type(first) is not type(second):
        raise ProfileError(
            f"diff: {first.id} and {second.id} are a device and a runtime; allowed: two of one sort."
        )
    left, right = dict(cited_values(first)), dict(cited_values(second))
    keys = [*left, *(key for key in right if key not in left)]
    found = []
    for key in keys:
        one, two = left.get(key), right.get(key)
        if one is not None and two is not None and _same(one, two):
            continue
        some = one or two
        found.append(
            Difference(
                key=key,
                unit=some.unit if some else "",
                a=one.value if one else None,
                b=two.value if two else None,
                ratio=_ratio(one, two),
                kind_a=one.kind if one else "",
                kind_b=two.kind if two else "",
            )
        )
    return found


def check(name: str = "all") -> list[Problem]:
    """Look for everything that can be wrong in a profile, or in all packaged data.

    Parameters
    ----------
    name : str
        Id, path, or "all": every device, runtime, verify curve and measurement file, and unused references.

    Returns
    -------
    list of Problem
        Empty if all is well.
    """
    if name != "all":
        return list(_check_one(name))
    names = (*list_devices(), *list_runtimes(), *list_curves())
    problems = [p for each in names for p in _check_one(each)]
    problems += _check_measurements()
    used = set(_used_sources())
    problems += [
        Problem(where=f"references.bib:{key}", message="is not used by any profile or measurement")
        for key in references()
        if key not in used
    ]
    return problems


def formula_names(profile: Profile) -> dict[str, Any]:
    """Return what a formula may name: own fields, `devices`, `measurements` (decode.csv) and `row_cost`.

    ``row_cost.CURVE.m4`` is the time of a pass of 4 rows in a file of verify_curves.
    """
    own = {key: getattr(profile, key) for key in type(profile).model_fields}
    devices = (
        {} if isinstance(profile, DeviceProfile) else {each: load_device(each) for each in list_devices()}
    )
    return {**own, "devices": devices, "measurements": decode_table(), "row_cost": row_cost_table()}


def formula_error(cited: CitedValue[Any], names: Mapping[str, Any]) -> float:
    """Return the largest relative difference between a derived value and its formula."""
    computed, stored = (
        list(flat_numbers(evaluate(cited.formula or "", names))),
        list(flat_numbers(cited.value)),
    )
    if len(computed) != len(stored):
        raise ProfileError(f"formula {cited.formula!r}: gives another shape than the stored value.")
    return max(abs(c - s) / max(abs(c), abs(s), 1e-300) for c, s in zip(computed, stored, strict=True))


def _check_one(name: str) -> Iterator[Problem]:
    try:
        profile = load_any(name)
    except ProfileError as error:
        for line in str(error).splitlines():
            where, _, message = line.partition(": ")
            yield Problem(where=where, message=message)
        return
    if isinstance(profile, VerifyCurve):
        return
    names = formula_names(profile)
    for key, cited in cited_values(profile):
        if cited.kind != "derived":
            continue
        try:
            off = formula_error(cited, names)
        except ProfileError as error:
            yield Problem(where=f"{profile.id}:{key}.formula", message=str(error))
            continue
        if off > FORMULA_TOLERANCE:
            yield Problem(where=f"{profile.id}:{key}", message=f"differs from its formula by {off:.2%}")
    yield from _check_links(profile)


def _check_links(profile: Profile) -> Iterator[Problem]:
    if isinstance(profile, DeviceProfile):
        where = f"{profile.id}:default_runtime"
        if profile.default_runtime.endswith(".toml"):
            return
        if profile.default_runtime not in list_runtimes():
            error = unknown(where, "runtime", profile.default_runtime, list_runtimes())
            yield Problem(where=where, message=str(error))
        elif not load_runtime(profile.default_runtime).applies_to(profile):
            yield Problem(
                where=where, message=f"{profile.default_runtime} is not stated to run on this device"
            )
        return
    socs = {load_device(each).soc_id for each in list_devices()}
    for each in profile.devices:
        if each != "*" and each not in list_devices() and each not in socs:
            error = unknown(f"{profile.id}:devices", "device or SoC", each, [*list_devices(), *socs])
            yield Problem(where=f"{profile.id}:devices", message=str(error))


def _check_measurements() -> list[Problem]:
    problems = []
    for file, row, names in _measurement_sources():
        missing = [each for each in names if each not in references()]
        if not names or missing:
            text = f"source {missing[0]!r} is not in references.bib" if missing else "has no source"
            problems.append(Problem(where=f"measurements/{file}:{row}", message=text))
    return problems


def _measurement_sources() -> Iterator[tuple[str, str, list[str]]]:
    for file in CSV_FILES:
        for row in rows(file):
            yield file, row["id"], _keys(row["source"])
    for file in JSON_FILES:
        for fact in facts(file):
            yield file, str(fact["id"]), _keys(str(fact["source"]))
    for accelerator, _ in accelerators():
        yield "accelerators.csv", accelerator.name, _keys(accelerator.source)
    for name, cited in cited_values(kernel_priors()):
        yield "../kernel_families.toml", name, list(cited.sources)


def _used_sources() -> Iterator[str]:
    yield "speedups_collection"  # stands for the collection whose rows carry their own addresses
    for name in list_curves():
        yield from load_curve(name).sources
    profiles: list[Profile] = [*map(load_device, list_devices()), *map(load_runtime, list_runtimes())]
    for profile in profiles:
        for _, cited in cited_values(profile):
            yield from cited.sources
        if isinstance(profile, DeviceProfile):
            yield from (rail.source for rail in profile.power_rails)
    for _, _, names in _measurement_sources():
        yield from names


def _keys(source: str) -> list[str]:
    return [part.strip() for part in source.split(",") if part.strip()]


def _curve_values(curve: VerifyCurve) -> Iterator[tuple[str, CitedValue[Any]]]:
    """Yield the fields of a curve as cited values, and v(w) as derived from its points."""
    for key, unit in _CURVE_UNITS.items():
        value = getattr(curve, key)
        if value is not None:
            yield key, CitedValue[Any](value=value, unit=unit, kind=curve.kind, source=curve.source)
    yield "points", CitedValue[Any](value=curve.points, unit=curve.unit, kind=curve.kind, source=curve.source,
                                    note=curve.note or None)  # fmt: skip
    points = curve.verify_cost_ratio
    low, high = (tuple((point[0], point[at]) for point in points) for at in (2, 3))
    yield "verify_cost_ratio", CitedValue[Any](
        value=tuple((point.width, point.value) for point in points), unit="1", kind="derived",
        low=low if low != high else None, high=high if low != high else None,
        source=curve.source, formula="T(w) / T(1) of points",
    )  # fmt: skip


def _spelled(key: str, entry: Reference) -> str:
    """``key: title (note) <url>``; a source without an address says where it is from, if that is known."""
    note = f" ({entry.note})" if entry.note else ""
    address = f"<{entry.url}>" if entry.url else f"[{entry.howpublished or 'no address known'}]"
    return f"{key}: {entry.title}{note} {address}"


def _same(one: CitedValue[Any], two: CitedValue[Any]) -> bool:
    return (one.value, one.low, one.high, one.kind) == (two.value, two.low, two.high, two.kind)


def _ratio(one: CitedValue[Any] | None, two: CitedValue[Any] | None) -> float | None:
    if one is None or two is None:
        return None
    if not isinstance(one.value, (int, float)) or not isinstance(two.value, (int, float)) or not one.value:
        return None
    return float(two.value) / float(one.value)


__all__ = [
    "FORMULA_TOLERANCE",
    "Difference",
    "Problem",
    "RuntimeProfile",
    "ShownValue",
    "check",
    "diff",
    "formula_error",
    "formula_names",
    "load_any",
    "show",
]
