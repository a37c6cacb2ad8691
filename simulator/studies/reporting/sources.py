"""References and assumptions behind a report, spelled out; it does not know whether an address answers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Any

import hw_profiles
from hw_profiles import CitedValue

Record = dict[str, Any]
_ENTRY = re.compile(r"^@\w+\s*\{\s*([^,\s]+)\s*,(.*?)^\}", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"^\s*(\w+)\s*=\s*\{(.*?)\}\s*,?\s*$", re.DOTALL | re.MULTILINE)
_FILES = ("models/references.bib", "acceptance/data/references.bib")


def source_records(keys: Iterable[str]) -> list[Record]:
    """References by key: title, author, year, address, note; keys without an entry come with their name."""
    entries = _entries()
    return [
        {"key": key, **{name: entries.get(key, {}).get(name, "") for name in
                        ("title", "author", "year", "url", "note")}}
        for key in dict.fromkeys(keys)
    ]  # fmt: skip


@cache
def _entries() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for name in _FILES:
        text = (resources.files("simulator") / name).read_text(encoding="utf-8")
        for key, body in _ENTRY.findall(text):
            found[key] = {field.lower(): " ".join(re.sub(r"[{}\\]", "", value).split())
                          for field, value in _FIELD.findall(body)}  # fmt: skip
    for key, entry in hw_profiles.references().items():
        ours = found.setdefault(key, {})
        for field in ("title", "author", "year", "url", "note"):
            ours.setdefault(field, getattr(entry, field) or "")
    return found


def assumption_records(*, device: str, runtime: str, engine: str) -> list[Record]:
    """Assumed numbers that a prediction on a device rests on, with range and reason.

    Parameters
    ----------
    device, runtime, engine : str
        Place of the prediction.
    """
    profile, stack = hw_profiles.load_device(device), hw_profiles.load_runtime(runtime)
    used = ("dram.", f"engines.{engine}.", "host_power_w", "base_power_w", "os_reserved", "ai_reserved")
    skipped = ("governor", "freq", "wake", "delay", "timeout", "response", "contention", "current",
               "power_by", "relative_power", "hz", "cache", "planned", "utilization", "combined")  # fmt: skip
    records = [
        _assumption(profile.name, key, cited)
        for key, cited in hw_profiles.cited_values(profile)
        if cited.kind == "assumed" and key.startswith(used) and not any(word in key for word in skipped)
    ]
    records += [
        _assumption(stack.name, key, cited)
        for key, cited in hw_profiles.cited_values(stack)
        if cited.kind == "assumed" and not any(word in key for word in ("init", "cancel", "cadence"))
    ]
    return records


def _assumption(where: str, key: str, cited: CitedValue[Any]) -> Record:
    return {"where": where, "key": key, "value": _shown(cited.value), "unit": cited.unit,
            "low": _shown(cited.low), "high": _shown(cited.high), "note": cited.note or "",
            "source": cited.source}  # fmt: skip


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (tuple, list)):
        if value and isinstance(value[0], (tuple, list)):
            return ", ".join(f"{width:g}: {cost:g}" for width, cost in value)
        return ", ".join(_shown(item) for item in value)
    return str(value)
