"""Writes docs/reference/profiles.md from the packaged data. Knows no numbers of its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from hw_profiles.cited import CitedValue
from hw_profiles.errors import ProfileError
from hw_profiles.loader import (
    cited_values,
    list_devices,
    list_runtimes,
    load_device,
    load_runtime,
    runtimes_for,
)
from hw_profiles.references import references
from hw_profiles.schema import DeviceProfile, RuntimeProfile
from hw_profiles.toml_files import parse_toml

_SCALES = {
    "B/s": (1e9, "GB/s"),
    "B": (2**20, "MiB"),
    "s": (1e-3, "ms"),
    "MAC/s": (1e12, "TMAC/s"),
    "J/B": (1e-12, "pJ/B"),
    "J/MAC": (1e-12, "pJ/MAC"),
    "Hz": (1e6, "MHz"),
}

_INTRO = """# Hardware and runtime profiles

Generated from `hw_profiles/` by `hw_profiles.reference_page`; `draftscope profiles` prints the same data.

- A **device** says what the hardware could do: `hw_profiles/devices/*.toml`. Devices that share a SoC or a
  family name it as their `base`; the shared values stand once, in `hw_profiles/socs/*.toml`, which may build
  on another such file, and the value nearest to the device wins.
- A **runtime** says what a software stack on one engine gets out of it: `hw_profiles/runtimes/*.toml`. Peak
  and achieved bandwidth are separate: `mbu` is achieved / peak. A runtime may name another as its `base`.
- Every value carries unit, kind and source. **published**: vendor, source tree or paper. **measured**: a
  third party's measurement. **derived**: arithmetic over cited fields; `draftscope profiles check` recomputes
  it. **assumed**: nothing public; the range and the note say how wide and why.
- A runtime used on a SoC on which it was not measured is a *transfer*: results that rest on it count as
  assumed.
- A device of which only the memory bandwidth is known: `generic:120` has 120 GB/s and wide ranges for the
  rest; with no runtime named it takes a prior over kernel families, `prior_gpu`.
- Your own device or runtime: copy a file, change it, pass its path instead of an id. Name your sources in
  `[references.KEY]` tables of the same file, each with a `title`.
- GB/s is 1e9 B/s; MiB is 2^20 B. Ranges are in brackets.
"""


def reference_page() -> str:
    """Return the whole page as Markdown."""
    parts = [_INTRO, _devices(), _runtimes()]
    parts += [_runtime(load_runtime(name)) for name in list_runtimes()]
    families: dict[str, list[DeviceProfile]] = {}
    for name in list_devices():
        families.setdefault(_family(name), []).append(load_device(name))
    parts += [_shared(family, devices) for family, devices in families.items()]
    parts.append(_references())
    return "\n".join(parts)


def write_reference_page(path: str | Path) -> None:
    """Write the page to `path`, through a temporary file in the same folder; refuse what is no file."""
    target = Path(path).resolve()
    if os.path.exists(path) and not target.is_file():
        raise ProfileError(f"{path}: is no regular file; allowed: one, or a path that does not exist yet.")
    handle, temporary = tempfile.mkstemp(dir=target.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(reference_page())
        Path(temporary).chmod(0o644)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _devices() -> str:
    head = ("id", "SoC", "RAM, MiB", "AI reserve, MiB", "peak, GB/s", "sustained, GB/s", "default runtime")
    lines = ["## Devices", "", _line(head), _line(["---"] * len(head))]
    for name in list_devices():
        device = load_device(name)
        dram = device.dram
        cells = [f"`{name}`", device.soc.value, _text(device.ram_bytes), _text(device.ai_reserved_ram_bytes)]
        cells += [_text(dram.peak_bandwidth_bytes_per_s), _text(dram.sustained_bandwidth_bytes_per_s)]
        lines.append(_line([*cells, f"`{device.default_runtime}`"]))
    return "\n".join(lines) + "\n"


def _runtimes() -> str:
    head = (
        "id",
        "engine",
        "mbu",
        "floor a pass, ms",
        "floor a draft pass, ms",
        "cost of width g(w)",
        "measured on",
    )
    lines = ["## Runtimes", "", _line(head), _line(["---"] * len(head))]
    for name in list_runtimes():
        runtime = load_runtime(name)
        floors = [_text(runtime.floor_per_pass_s), _text(runtime.floor_per_draft_pass_s)]
        curve = "roofline" if runtime.verify_curve is None else _curve(runtime.verify_curve.value)
        where = ", ".join(runtime.measured_socs) or "-"
        lines.append(_line([f"`{name}`", runtime.engine, _text(runtime.mbu_large), *floors, curve, where]))
    return "\n".join(lines) + "\n"


def _runtime(runtime: RuntimeProfile) -> str:
    head = [f"### `{runtime.id}`", "", f"{runtime.name}. Engine {runtime.engine}, {runtime.kernel_family}."]
    if runtime.notes:
        head += ["", runtime.notes]
    return "\n".join([*head, "", *_table(dict(cited_values(runtime)))]) + "\n"


def _family(name: str) -> str:
    """Return what a device's file builds on, else its SoC."""
    text = (files("hw_profiles") / "devices" / f"{name}.toml").read_text(encoding="utf-8")
    return str(parse_toml(f"devices/{name}.toml", text).get("base", load_device(name).soc_id))


def _shared(family: str, devices: list[DeviceProfile]) -> str:
    """Write what the devices of one SoC or family share, then what each has of its own."""
    values = [dict(cited_values(device)) for device in devices]
    shared = {key: item for key, item in values[0].items() if all(other.get(key) == item for other in values)}
    sort = "SoC" if all(device.soc_id == family for device in devices) else "Family"
    lines = [f"### {sort} `{family}`", "", *_table(shared)]
    for device, own in zip(devices, values, strict=True):
        lines += ["", f"### `{device.id}`", "", f"{device.name}. {device.default_runtime_note}"]
        lines += ["", "Runtimes: " + ", ".join(f"`{name}`" for name in runtimes_for(device)) + ".", ""]
        rest = {key: item for key, item in own.items() if key not in shared}
        lines += _table(rest) if rest else ["All values as above."]
    return "\n".join(lines) + "\n"


def _table(values: Mapping[str, CitedValue[Any]]) -> list[str]:
    head = ("key", "value", "unit", "kind", "source", "note")
    lines = [_line(head), _line(["---"] * len(head))]
    for key, cited in values.items():
        formula = f"`{cited.formula}`" if cited.formula else ""
        note = " ".join(part for part in (formula, cited.note or "") if part)
        unit = _SCALES.get(cited.unit, (1.0, cited.unit))[1]
        lines.append(_line([f"`{key}`", _text(cited), unit, cited.kind, cited.source, note]))
    return lines


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _references() -> str:
    lines = ["## References", ""]
    for key, entry in references().items():
        parts = (entry.author, entry.year, entry.howpublished, entry.url, entry.note)
        extra = [part for part in parts if part]
        lines.append(f"- `{key}`: {entry.title}." + (f" {'; '.join(extra)}." if extra else ""))
    return "\n".join(lines) + "\n"


def _curve(points: Any) -> str:
    return ", ".join(f"{width:g}: {cost:.3g}" for width, cost in points)


def _text(cited: CitedValue[Any]) -> str:
    scale = _SCALES.get(cited.unit, (1.0, ""))[0]
    text = _scaled(cited.value, scale)
    certain = cited.low is None or cited.low == cited.value == cited.high
    if isinstance(cited.value, (int, float)) and not certain:
        text += f" [{_scaled(cited.low, scale)}, {_scaled(cited.high, scale)}]"
    return text


def _scaled(value: Any, scale: float) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_scaled(item, scale)}" for key, item in value.items())
    if isinstance(value, tuple):
        return "[" + ", ".join(_scaled(item, scale) for item in value) + "]"
    number = value / scale
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"


__all__ = ["reference_page", "write_reference_page"]
