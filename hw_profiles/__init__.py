"""Sourced hardware and runtime profiles: data and schema. No physics, no printing."""

from __future__ import annotations

from hw_profiles.cited import KINDS, CitedValue
from hw_profiles.curve_schema import VerifyCurve
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
from hw_profiles.verify_curves import FamilyCurve, curve_families, family_curve, list_curves, load_curve
from hw_profiles.views import check, diff, load_any, show

__all__ = [
    "KINDS",
    "CitedValue",
    "DeviceProfile",
    "Dram",
    "Engine",
    "FamilyCurve",
    "ProfileError",
    "Reference",
    "RuntimeProfile",
    "UnknownProfileError",
    "VerifyCurve",
    "check",
    "cited_values",
    "curve_families",
    "diff",
    "engine_for",
    "family_curve",
    "list_curves",
    "list_devices",
    "list_runtimes",
    "load_any",
    "load_curve",
    "load_device",
    "load_device_file",
    "load_runtime",
    "load_runtime_file",
    "references",
    "runtimes_for",
    "show",
]
