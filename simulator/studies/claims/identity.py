"""Claim 6, identical output: reads what the long identity runs wrote; it runs no model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from simulator.studies.claims.base import MISSING, UNKNOWN, Claim, claim

IDENTICAL = "The output is bit for bit that of the target alone"
SOURCES = ("google_frozen_mtp",)


def parity_file() -> Path:
    """Dated result of ``make parity`` in a checkout."""
    return Path(__file__).resolve().parents[3] / "tests" / "artifacts" / "parity.json"


def identical(path: Path | None = None) -> Iterator[Claim]:
    """Claim 6 from the dated artifact, or one row that says that there is none."""
    file = path or parity_file()
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    rows = list(_rows(found)) if isinstance(found, dict) else []
    if not rows:
        yield claim(
            id="6.missing", claim=IDENTICAL, case="greedy decoding with each drafter", value=None,
            unit="share", published="bit for bit", how=MISSING, verdict=UNKNOWN, sources=SOURCES,
            explanation="No result of the identity runs is at hand: run make parity in a checkout.",
        )  # fmt: skip
    yield from rows


def _rows(found: dict[str, Any]) -> Iterator[Claim]:
    yield from ()
