"""Figures from records, one figure one function; they compute nothing.

Rows are those of `simulator.studies.compare` and of `simulator.studies.report_data`; every function takes a
title and a reading aid and returns a plotly Figure, the token strip HTML.
"""

from __future__ import annotations

from simulator.figures.acceptance import acceptance_by_depth
from simulator.figures.atlas import curve_atlas
from simulator.figures.hardware import roofline, verify_curves
from simulator.figures.ledgers import byte_ledger, drafter_ram_by_part, energy_by_phase, ram_by_part
from simulator.figures.speed import decode_speed, speedup_by_draft_length, speedup_grid
from simulator.figures.strip import token_strip
from simulator.figures.theme import task_label

__all__ = [
    "acceptance_by_depth",
    "byte_ledger",
    "curve_atlas",
    "decode_speed",
    "drafter_ram_by_part",
    "energy_by_phase",
    "ram_by_part",
    "roofline",
    "speedup_by_draft_length",
    "speedup_grid",
    "task_label",
    "token_strip",
    "verify_curves",
]
