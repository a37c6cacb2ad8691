"""The atlas of verify curves: one file a curve. Finds, loads and averages them; no physics, no printing."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from hw_profiles.curve_schema import CurvePoint, VerifyCurve
from hw_profiles.errors import ProfileError, unknown
from hw_profiles.explain import explain
from hw_profiles.loader import list_devices
from hw_profiles.references import references
from hw_profiles.toml_files import parse_toml, read_user_file, to_tuples


class FamilyCurve(NamedTuple):
    """v(w) averaged over a kernel family; all four of one length."""

    widths: tuple[float, ...]
    value: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@cache
def list_curves() -> tuple[str, ...]:
    """Return the ids of the packaged curves, sorted."""
    names = (item.name for item in (files("hw_profiles") / "verify_curves").iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


def load_curve(curve: str) -> VerifyCurve:
    """Load a curve by id, or from a file if `curve` ends in ``.toml``.

    Parameters
    ----------
    curve : str
        Id (see `list_curves`) or path; a file's id is its stem, its own sources stand in
        ``[references.KEY]`` tables.

    Raises
    ------
    UnknownProfileError
        If no such curve exists; the message offers the nearest.
    ProfileError
        If the file is wrong; the message names file, key, what was given and what is allowed.
    """
    if curve.endswith(".toml"):
        where, text = read_user_file(Path(curve))
        return _build(Path(curve).stem, where, parse_toml(where, text))
    if curve not in list_curves():
        raise unknown("curve", "curve", curve, list_curves())
    return _packaged(curve)


@cache
def curve_families() -> Mapping[str, tuple[str, ...]]:
    """Return the curve ids of every kernel family, both sorted."""
    found: dict[str, list[str]] = {}
    for name in list_curves():
        found.setdefault(load_curve(name).kernel_family, []).append(name)
    return {family: tuple(found[family]) for family in sorted(found)}


def family_curve(kernel_family: str, *, without_sources: Collection[str] = ()) -> FamilyCurve:
    """Average the curves of a kernel family, with the spread between them.

    The widths are all those at which some curve of the family was measured. At each, every curve that knows
    the width takes part (`VerifyCurve.at`: measured there, or at two widths close by); none is extrapolated,
    so curves come and go along the widths, and the average need not rise. The value is the geometric mean,
    first over the curves of a device, then over devices, so that a device with many curves counts once. `low`
    and `high` are the least and the largest value (or stated range) of any curve. A family of one curve has
    no spread but its own: widen it yourself.

    Parameters
    ----------
    kernel_family : str
        One of `curve_families`.
    without_sources : collection of str
        Reference keys whose curves are left out (a source must not help to predict itself).

    Returns
    -------
    FamilyCurve
        ``widths, value, low, high``.

    Raises
    ------
    UnknownProfileError
        If there is no such family; the message offers the nearest.
    ProfileError
        If no curve is left.
    """
    families = curve_families()
    if kernel_family not in families:
        raise unknown("kernel_family", "kernel family", kernel_family, families)
    curves = [load_curve(name) for name in families[kernel_family]]
    curves = [curve for curve in curves if not set(curve.sources) & set(without_sources)]
    if not curves:
        raise ProfileError(
            f"kernel_family: {kernel_family!r} has no curve without {', '.join(sorted(without_sources))}."
        )
    widths = sorted({point[0] for curve in curves for point in curve.points})
    return FamilyCurve(tuple(widths), *zip(*(_average(curves, width) for width in widths), strict=True))


def row_cost_table() -> Mapping[str, Mapping[str, float]]:
    """Return the curves measured in time, as formulas of profiles name them.

    By curve id: ``m1``, ``m2``, ... seconds of a pass of that many rows, and ``weight_bytes`` where known.
    """
    table: dict[str, dict[str, float]] = {}
    for name in list_curves():
        curve = load_curve(name)
        if curve.times_s:
            table[name] = {f"m{width:g}": seconds for width, seconds in curve.times_s.items()}
            if curve.weight_bytes is not None:
                table[name]["weight_bytes"] = curve.weight_bytes
    return table


def curve_records(curves: Iterable[VerifyCurve]) -> list[dict[str, Any]]:
    """Return one row a curve and width, as tables and figures want them."""
    return [
        {
            "curve": curve.id, "kernel_family": curve.kernel_family, "device": curve.device,
            "engine": curve.engine, "framework": curve.framework, "model": curve.model, "quant": curve.quant,
            "width": point.width, "verify_cost_ratio": point.value,
            "verify_cost_ratio_low": point.low, "verify_cost_ratio_high": point.high,
        }
        for curve in curves
        for point in curve.verify_cost_ratio
    ]  # fmt: skip


def _average(curves: Iterable[VerifyCurve], width: float) -> tuple[float, float, float]:
    by_device: dict[str, list[CurvePoint]] = {}
    for curve in curves:
        point = curve.at(width)
        if point is not None:
            by_device.setdefault(curve.device, []).append(point)
    means = [_geometric(point.value for point in points) for points in by_device.values()]
    every = [point for points in by_device.values() for point in points]
    return _geometric(means), min(point.low for point in every), max(point.high for point in every)


def _geometric(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs))


@cache
def _packaged(name: str) -> VerifyCurve:
    where = f"verify_curves/{name}.toml"
    text = (files("hw_profiles") / "verify_curves" / f"{name}.toml").read_text("utf-8")
    return _build(name, where, parse_toml(where, text))


def _build(name: str, where: str, raw: dict[str, Any]) -> VerifyCurve:
    if "id" in raw:
        raise ProfileError(
            f"{where}:id: must not stand in the file; the id is the file's name without .toml ({name!r})."
        )
    try:
        curve = VerifyCurve.model_validate({**to_tuples(raw), "id": name})
    except ValidationError as error:
        raise ProfileError(explain(error, VerifyCurve, where, raw, where)) from error
    known = references().keys() | curve.references.keys()
    for key in curve.sources:
        if key not in known:
            message = str(unknown(f"{where}:source", "reference", key, known)).split(" Allowed:")[0]
            raise ProfileError(
                f"{message} Allowed: the keys of references.bib or a [references.{key}] table in the file."
            )
    if curve.device_id is not None and curve.device_id not in list_devices():
        raise unknown(f"{where}:device_id", "device", curve.device_id, list_devices())
    return curve
