"""``draftscope profiles``: devices, runtimes, verify curves; every number with its source (`hw_profiles`)."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from hw_profiles import (
    list_curves,
    list_devices,
    list_runtimes,
    load_curve,
    load_device,
    load_runtime,
    runtimes_for,
)
from hw_profiles.errors import unknown
from hw_profiles.views import check as find_problems
from hw_profiles.views import diff as find_differences
from hw_profiles.views import load_any
from hw_profiles.views import show as values_of
from simulator.cli.catalogue import CATALOGUES
from simulator.cli.output import DEFAULT, Output, table
from simulator.errors import DraftscopeError

NO_TERMINAL_COLUMNS = 100
"""Width of text where stdout is no terminal."""


SORTS = ("devices", "runtimes", "curves")
"""What is listed where nothing is named."""


def list_(sort: str = "all", /, *, output: Output = DEFAULT) -> int:
    """List devices, runtimes and measured verify curves, or targets, drafters or published acceptances.

    Parameters
    ----------
    sort
        devices, runtimes or curves (all three where omitted), targets, drafters or acceptances.
    """
    output.check()
    if sort in CATALOGUES:
        catalogue = CATALOGUES[sort]
        found = catalogue.records()
        output.emit(found, command="profiles list", markdown=lambda: catalogue.table(found))
        return 0
    if sort not in ("all", *SORTS):
        raise unknown("profiles list", "sort", sort, ("all", *SORTS, *CATALOGUES))
    records = [record for each in SORTS if sort in ("all", each) for record in _RECORDS[each]()]
    output.emit(records, command="profiles list", markdown=lambda: _list(records))
    return 0


def _devices() -> list[dict[str, Any]]:
    records = []
    for name in list_devices():
        device = load_device(name)
        records.append({
            "id": name, "sort": "device", "name": device.name, "engines": list(device.engines),
            "soc": device.soc_id, "default_runtime": device.default_runtime, "runtimes": runtimes_for(name),
            "kernel_family": None, "verify_cost_ratio": None,
        })  # fmt: skip
    return records


def _runtimes() -> list[dict[str, Any]]:
    records = []
    for name in list_runtimes():
        runtime = load_runtime(name)
        records.append({
            "id": name, "sort": "runtime", "name": runtime.name, "engines": [runtime.engine],
            "soc": ", ".join(runtime.measured_socs) or None, "default_runtime": None, "runtimes": [],
            "kernel_family": runtime.kernel_family,
            "verify_cost_ratio": runtime.verify_curve and [list(p) for p in runtime.verify_curve.value],
        })  # fmt: skip
    return records


def _curves() -> list[dict[str, Any]]:
    records = []
    for name in list_curves():
        curve = load_curve(name)
        records.append({
            "id": name, "sort": "curve", "name": f"{curve.device}: {curve.model}, {curve.quant}",
            "engines": [curve.engine], "soc": None, "default_runtime": None, "runtimes": [],
            "kernel_family": curve.kernel_family,
            "verify_cost_ratio": [[point.width, point.value] for point in curve.verify_cost_ratio],
        })  # fmt: skip
    return records


_RECORDS = {"devices": _devices, "runtimes": _runtimes, "curves": _curves}


def _list(records: Iterable[dict[str, Any]]) -> str:
    rows = list(records)
    devices = [(row["id"], row["name"], row["soc"], ", ".join(row["engines"]), row["default_runtime"])
               for row in rows if row["sort"] == "device"]  # fmt: skip
    runtimes = [(row["id"], row["name"], row["engines"][0], row["soc"] or "-")
                for row in rows if row["sort"] == "runtime"]  # fmt: skip
    curves = [(row["id"], row["kernel_family"], row["name"],
               ", ".join(f"{width:g}: {value:.3g}" for width, value in row["verify_cost_ratio"]))
              for row in rows if row["sort"] == "curve"]  # fmt: skip
    parts = (
        (devices, table(("device", "name", "SoC", "engines", "default runtime"), devices, left=5)),
        (runtimes, table(("runtime", "name", "engine", "measured on"), runtimes, left=4)),
        (curves, table(("curve", "kernel family", "measured", "v(w)"), curves, left=4)),
    )
    return "\n".join(text for some, text in parts if some)


def show(profile: str, /, *, sources: Annotated[bool, Parameter(negative="")] = False,
         output: Output = DEFAULT) -> int:  # fmt: skip
    """Show every number of a device, runtime or verify curve: value, range, kind, source.

    Parameters
    ----------
    profile
        Device, runtime or curve: name or .toml file.
    sources
        Spell out title and address of the sources.
    """
    output.check()
    _check_sort(profile)
    records = [asdict(value) for value in values_of(profile, sources=sources)]
    output.emit(records, command="profiles show", markdown=lambda: _show(records, sources))
    return 0


def _show(records: Iterable[dict[str, Any]], sources: bool) -> str:
    """One paragraph a value, and where asked for one a source, as wide as the terminal."""
    rows = list(records)
    parts = []
    for row in rows:
        text = f"{row['key']} = {_short(row['value'])}"
        text += "" if row["unit"] in ("", "text", "bool") else f" {row['unit']}"
        if (row["low"], row["high"]) not in ((None, None), (row["value"], row["value"])):
            text += f" [{_range(row['low'], row['high'])}]"
        text += f" ({row['kind']}: {row['source']})"
        parts.append(_wrapped(text, row["note"] or row["formula"]))
    if sources:
        titles = dict.fromkeys(title for row in rows for title in row["titles"])
        parts.append("\nSources\n")
        for title in titles:
            text, sign, address = title.rpartition(" <")
            parts.append("\n" + _wrapped(text if sign else title, f"<{address}" if sign else ""))
    return "".join(parts)


def _wrapped(text: str, more: str) -> str:
    """A list item with what follows on lines of its own; a longer word, such as an address, is kept."""
    width = max(60, shutil.get_terminal_size(fallback=(NO_TERMINAL_COLUMNS, 24)).columns)
    lines = [
        line
        for indent, part in (("- ", text), ("  ", more))
        for line in textwrap.wrap(
            part, width=width, initial_indent=indent, subsequent_indent="  ", break_long_words=False,
            break_on_hyphens=False,
        )
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def diff(a: str, b: str, /, *, output: Output = DEFAULT) -> int:
    """Show what differs between two devices or two runtimes.

    Parameters
    ----------
    a
        Name or .toml file.
    b
        Name or .toml file of the same sort.
    """
    output.check()
    _check_sort(a)
    _check_sort(b)
    records = [asdict(each) for each in find_differences(a, b)]
    output.emit(records, command="profiles diff", markdown=lambda: _diff(records, a, b))
    return 0


def _diff(records: Iterable[dict[str, Any]], a: str, b: str) -> str:
    """One paragraph a difference, as wide as the terminal."""
    parts = []
    for row in records:
        unit = "" if row["unit"] in ("", "1", "text", "bool") else f" {row['unit']}"
        ratio = "" if row["ratio"] is None else f"; ratio {row['ratio']:.3g}"
        sides = [
            f"{_short(row[side])}{'' if row[side] is None else unit} ({row[f'kind_{side}'] or 'missing'})"
            for side in ("a", "b")
        ]
        parts.append(_wrapped(f"{row['key']}: {sides[0]} -> {sides[1]}{ratio}", ""))
    if not parts:
        return f"No difference between {a} and {b}.\n"
    return f"{a} -> {b}\n\n" + "".join(parts)


def check(profile: str = "all", /, *, output: Output = DEFAULT) -> int:
    """Check profiles: schema, sources, formulas of derived values. Exit status 1 where something is wrong.

    Parameters
    ----------
    profile
        Device, runtime, curve or .toml file; everything that is shipped where omitted.
    """
    output.check()
    if Path(profile).is_dir():
        raise DraftscopeError(f"{profile}: is a folder; needed: the name of a profile, or a .toml file.")
    if profile.endswith(".toml") and not Path(profile).is_file():
        raise DraftscopeError(f"{profile}: no such file.")
    _check_sort(profile)
    shipped = ("all", *list_devices(), *list_runtimes(), *list_curves())
    if profile not in shipped and not profile.endswith(".toml"):
        load_any(profile)  # a name of nothing is wrong usage, a faulty profile is a finding
    records = [asdict(problem) for problem in find_problems(profile)]
    output.emit(records, command="profiles check", markdown=lambda: _problems(records),
                extra={"problems": len(records)})  # fmt: skip
    return 1 if records else 0


def _check_sort(name: str) -> None:
    """Refuse a target, drafter or acceptance, and say where it is listed."""
    if name in (*list_devices(), *list_runtimes(), *list_curves()):
        return
    for sort, catalogue in CATALOGUES.items():
        if any(name == record["id"] for record in catalogue.records()):
            raise DraftscopeError(
                f"{name}: is one of the {sort}, see draftscope profiles list {sort}; allowed: a device, "
                "runtime or verify curve."
            )


def _problems(records: list[dict[str, Any]]) -> str:
    if not records:
        return "No problem found.\n"
    return "".join(f"- {row['where']}: {row['message']}\n" for row in records)


def _short(value: Any) -> str:
    """A value of a profile on one line."""
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        if isinstance(value, dict):
            return ", ".join(f"{key} {_short(item)}" for key, item in value.items())
        if isinstance(value, (list, tuple)):
            return ", ".join(f"({_short(item)})" if isinstance(item, (list, tuple)) else _short(item)
                             for item in value)  # fmt: skip
        return str(value)
    return f"{value:.4g}"


def _range(low: Any, high: Any) -> str:
    return "-" if low is None and high is None else f"{_short(low)} .. {_short(high)}"
