"""Sourced hardware and runtime profiles: data and schema. No physics, no printing."""

from __future__ import annotations

from hw_profiles.cited import KINDS, CitedValue
from hw_profiles.errors import ProfileError, UnknownProfileError
from hw_profiles.loader import (
    cited_values,
    list_devices,
    list_runtimes,
    load_device,
    load_device_file,
    load_runtime,
    load_runtime_file,
    runtimes_for,
)
from hw_profiles.references import references
from hw_profiles.schema import DeviceProfile, Dram, Engine, Reference, RuntimeProfile, engine_for
from hw_profiles.views import check, diff, load_any, show

__all__ = [
    "KINDS",
    "CitedValue",
    "DeviceProfile",
    "Dram",
    "Engine",
    "ProfileError",
    "Reference",
    "RuntimeProfile",
    "UnknownProfileError",
    "check",
    "cited_values",
    "diff",
    "engine_for",
    "list_devices",
    "list_runtimes",
    "load_any",
    "load_device",
    "load_device_file",
    "load_runtime",
    "load_runtime_file",
    "references",
    "runtimes_for",
    "show",
]
