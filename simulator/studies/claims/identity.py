"""Claim 6, identical output: reads what the long identity runs wrote; it runs no model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from simulator.studies.claims.base import MEASURED, MISSING, UNKNOWN, Claim, claim

IDENTICAL = "The output is bit for bit that of the target alone"
SOURCES = ("google_frozen_mtp",)
PLACES = ("docs/background/parity.json", "tests/artifacts/parity.json")
"""Where ``make parity`` leaves its dated result in a checkout."""

NATURAL = {"natural_float32": "float32", "natural_bfloat16": "bfloat16"}


def parity_file() -> Path | None:
    """Result of ``make parity`` in a checkout; None where there is none."""
    root = Path(__file__).resolve().parents[3]
    return next((root / place for place in PLACES if (root / place).is_file()), None)


def identical(path: Path | None = None) -> Iterator[Claim]:
    """Claim 6 from the dated artifact, or one row that says that there is none.

    Parameters
    ----------
    path : Path, optional
        The artifact; that of the checkout where omitted.
    """
    file = path or parity_file()
    found: Any = None
    if file is not None:
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            found = None
    rows: list[Claim] = []
    if isinstance(found, dict):
        try:
            rows = list(_rows(found))
        except (KeyError, TypeError, AttributeError):  # some other JSON
            rows = []
    if not rows:
        yield claim(
            id="6.missing", claim=IDENTICAL, case="greedy decoding with each drafter", value=None,
            unit="share", published="bit for bit", how=MISSING, verdict=UNKNOWN, sources=SOURCES,
            explanation="No result of the identity runs is at hand: run make parity in a checkout.",
        )  # fmt: skip
    yield from rows


def _rows(found: dict[str, Any]) -> Iterator[Claim]:
    """One row for each way of decoding that was run."""
    where = f"{found.get('date', 'undated')}, {found.get('machine', 'unknown machine')}"
    common: dict[str, Any] = {
        "claim": IDENTICAL, "published": "bit for bit, without a numeric argument", "wanted_low": 1.0,
        "wanted_high": 1.0, "unit": "share", "how": MEASURED, "sources": SOURCES,
    }  # fmt: skip
    locked = found.get("locked")
    if locked:
        equal = locked["prompts_with_equal_tokens_and_logits"]
        yield claim(
            **common, id="6.locked", value=_share(equal, locked["prompts"]),
            case=f"every pass {locked['width']} rows wide (shape-locked), float32: {locked['prompts']} "
                 f"prompts, {len(equal)} drafters, tokens and logits",
            assumptions="plain decoding runs at the same width; speed is compared with width 1 all the same",
            explanation=f"{_count(equal)} runs with equal tokens and bit-equal logits ({where}).",
        )  # fmt: skip
    for key, dtype in NATURAL.items():
        part = found.get(key)
        if not part:
            continue
        equal = part["identical_texts"]
        gaps = [gap for gap in part["largest_gap_at_first_divergence"].values() if gap is not None]
        differ = "No text differs"
        if gaps:
            differ = f"Texts part where the two best logits were at most {max(gaps):.2g} apart"
        yield claim(
            **common, id=f"6.natural.{dtype}", value=_share(equal, part["prompts"]),
            case=f"natural widths, {dtype}: {part['prompts']} prompts, {len(equal)} drafters, texts",
            assumptions="passes of another width may round in another order",
            explanation=f"{differ} ({where}).",
        )  # fmt: skip


def _share(equal: dict[str, int], prompts: int) -> float | None:
    runs = prompts * len(equal)
    return sum(equal.values()) / runs if runs else None


def _count(equal: dict[str, int]) -> int:
    return sum(equal.values())
