"""Spec-sheet numbers of accelerators that have no profile of their own: compute, bandwidth, memory.

A device profile says far more; this table only lets a measurement from any machine be put on the roofline by
the name that its author gave.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """One row of ``measurements/accelerators.csv``.

    Attributes
    ----------
    name : str
    fp32_flops_per_s, bandwidth_bytes_per_s : float
        Vector (not tensor) rate and peak memory bandwidth.
    memory_bytes : float or None
        Own memory; None where it is shared with the system.
    kind, source : str
        As for every number: ``published`` or ``assumed``, and a key of references.bib.
    """

    name: str
    fp32_flops_per_s: float
    bandwidth_bytes_per_s: float
    memory_bytes: float | None
    kind: str
    source: str


@cache
def accelerators() -> tuple[tuple[Accelerator, tuple[str, ...]], ...]:
    """All rows in file order, each with the phrases that name it."""
    text = (files("hw_profiles") / "measurements" / "accelerators.csv").read_text(encoding="utf-8")
    return tuple(
        (
            Accelerator(
                name=row["name"],
                fp32_flops_per_s=float(row["fp32_tflops"]) * 1e12,
                bandwidth_bytes_per_s=float(row["bandwidth_gb_per_s"]) * 1e9,
                memory_bytes=float(row["memory_gb"]) * 2**30 if row["memory_gb"] else None,
                kind=row["kind"],
                source=row["source"],
            ),
            tuple(row["match"].split("|")),
        )
        for row in csv.DictReader(io.StringIO(text))
    )


@cache
def find_accelerator(device: str) -> Accelerator | None:
    """The accelerator that a device text names (``"2x RTX 3090 (TP)"``), or None.

    Where several are named the first row of the table counts; rows run from the special to the general.
    """
    words = f" {' '.join(re.findall(r'[a-z0-9]+', device.lower()))} "
    for accelerator, phrases in accelerators():
        if any(f" {phrase} " in words for phrase in phrases):
            return accelerator
    return None
