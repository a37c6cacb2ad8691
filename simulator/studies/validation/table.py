"""Reads tables of measured speedups, one row a measurement; it predicts nothing.

The columns are those of ``hw_profiles/measurements/speedups.csv`` (docs/reference/file_formats.md). Whatever
a table leaves out is unknown, never assumed here.
"""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path

from hw_profiles.measurements import rows as packaged_rows
from simulator.errors import DraftscopeError, UnknownNameError, nearest

NEEDED = ("id", "device", "framework", "target_model", "drafter_family")
"""Columns without which a row cannot be told from another."""

NUMBERS = {
    "mem_bw_GBps": (0.1, 1e6),
    "target_params_B": (1e-6, 1e5),
    "target_active_params_B": (1e-6, 1e5),
    "target_weight_bytes": (1.0, 1e15),
    "drafter_params_M": (1e-6, 1e8),
    "K": (1.0, 1024.0),
    "p_min": (0.0, 1.0),
    "acceptance_value": (0.0, 1.0),
    "accepted_tokens": (0.0, 1e15),
    "drafted_tokens": (0.0, 1e15),
    "mean_tokens_per_pass": (1.0, 1025.0),
    "baseline_tps": (1e-4, 1e7),
    "spec_tps": (1e-4, 1e7),
    "speedup": (1e-3, 1e4),
    "batch": (1.0, 1e6),
}
"""Numeric columns and their least and largest value."""

MOST_ROWS = 2000


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One row: what was measured, and with what. Units as in the column names; None where not stated.

    Attributes
    ----------
    id, source, device, device_class, framework, target_model, target_quant : str
        Who measured what where; empty where not stated.
    drafter_kind, drafter_family, acceptance_convention, task, context_len, clean_pair : str
        See the column table.
    bandwidth_bytes_per_s, target_params, target_active_params, weight_bytes, drafter_params : float or None
        SI units.
    draft_length : float or None
        Column K.
    p_min, acceptance_value, mean_tokens_per_pass, batch : float or None
        See the column table.
    baseline_tps : float or None
        Plain decoding [token/s]; an answer in zero-shot mode.
    speedup : float or None
        The answer; from ``spec_tps / baseline_tps`` where the column itself is empty.
    """

    id: str
    source: str = ""
    device: str
    device_class: str = ""
    framework: str
    target_model: str
    target_quant: str = ""
    drafter_kind: str = ""
    drafter_family: str
    acceptance_convention: str = ""
    task: str = ""
    context_len: str = ""
    clean_pair: str = ""
    bandwidth_bytes_per_s: float | None = None
    target_params: float | None = None
    target_active_params: float | None = None
    weight_bytes: float | None = None
    drafter_params: float | None = None
    draft_length: float | None = None
    p_min: float | None = None
    acceptance_value: float | None = None
    mean_tokens_per_pass: float | None = None
    batch: float | None = None
    baseline_tps: float | None = None
    speedup: float | None = None

    @property
    def group(self) -> tuple[str, ...]:
        """What ``calibrated`` mode holds equal."""
        return (self.device, self.framework, self.target_model, self.target_quant, self.drafter_kind)

    @property
    def inconsistent(self) -> bool:
        """Whether more is gained than tokens are emitted a pass, which no machine can do."""
        if self.speedup is None or self.mean_tokens_per_pass is None:
            return False
        return self.speedup > self.mean_tokens_per_pass * 1.005

    def without_answers(self, *, keep_baseline: bool) -> Measured:
        """The row as its predictor may see it."""
        return replace(self, speedup=None, baseline_tps=self.baseline_tps if keep_baseline else None)


_TEXT = {f.name for f in fields(Measured) if f.type == "str"}


def read_measurements(path: str | os.PathLike[str]) -> tuple[Measured, ...]:
    """Read a CSV file.

    Parameters
    ----------
    path : path
        UTF-8, with a header; needed: `NEEDED`.

    Returns
    -------
    tuple of Measured
        In file order.

    Raises
    ------
    DraftscopeError
        For a file that cannot be read, has no rows, lacks a column, repeats an id, or holds a number that is
        none, is not finite or is out of range; the message says the line and the column.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DraftscopeError(f"--measurements {file}: no such file.") from None
    except UnicodeDecodeError as problem:
        raise DraftscopeError(
            f"--measurements {file}: is no UTF-8 ({problem.reason}, byte {problem.start}); needed: UTF-8."
        ) from None
    except OSError as problem:
        raise DraftscopeError(f"--measurements {file}: cannot be read ({problem.strerror}).") from None
    return _parsed(_lines(text, str(file)), str(file))


@cache
def shipped_measurements() -> tuple[Measured, ...]:
    """The table that comes with draftscope."""
    rows = packaged_rows("speedups.csv")
    return _parsed(enumerate(rows, start=2), "hw_profiles/measurements/speedups.csv")


def _lines(text: str, where: str) -> Iterable[tuple[int, Mapping[str, str]]]:
    if "\0" in text:
        raise DraftscopeError(f"{where}: holds NUL bytes; allowed: CSV text.")
    reader = csv.DictReader(io.StringIO(text, newline=""))
    try:
        header = reader.fieldnames or ()
        if repeated := [name for name, count in Counter(header).items() if count > 1 and name]:
            raise DraftscopeError(f"{where}:1: column {repeated[0]!r} stands twice; allowed: once.")
        if missing := [name for name in NEEDED if name not in header]:
            guess = nearest(missing[0], [name for name in header if name])
            hint = f" Nearest column there: {guess!r}." if guess else ""
            if len(header) == 1 and any(mark in header[0] for mark in ";\t"):
                hint = " The header is one cell: columns are separated by commas."
            raise DraftscopeError(
                f"{where}:1: column {missing[0]!r} is missing; needed: {', '.join(NEEDED)}.{hint}"
            )
        for row in reader:
            line = reader.line_num
            if row.get(None) or any(value is None for value in row.values()):
                raise DraftscopeError(
                    f"{where}:{line}: the row has another number of cells than the header ({len(header)})."
                )
            yield line, row
    except csv.Error as problem:
        raise DraftscopeError(f"{where}:{reader.line_num}: not CSV ({problem}).") from None


def _parsed(lines: Iterable[tuple[int, Mapping[str, str]]], where: str) -> tuple[Measured, ...]:
    found: list[Measured] = []
    seen: dict[str, int] = {}
    for line, row in lines:
        place = f"{where}:{line}"
        cells = {key: (value or "").strip() for key, value in row.items() if key}
        name = cells.get("id", "")
        if not name:
            raise DraftscopeError(f"{place}: id: is empty; needed: one name a row.")
        if name in seen:
            raise DraftscopeError(f"{place}: id: {name!r} stands in line {seen[name]} too; allowed: once.")
        seen[name] = line
        found.append(_row(cells, place))
    if len(found) > MOST_ROWS:
        raise DraftscopeError(f"{where}: {len(found)} rows; allowed: {MOST_ROWS} at once. Split the table.")
    if not found:
        raise DraftscopeError(f"{where}: no rows; needed: a header and one row or more.")
    return tuple(found)


def _row(cells: Mapping[str, str], place: str) -> Measured:
    numbers = {column: _number(cells.get(column, ""), column, place) for column in NUMBERS}

    def scaled(column: str, factor: float) -> float | None:
        value = numbers[column]
        return None if value is None else value * factor

    length = numbers["K"]
    if length is not None and length != int(length):
        raise DraftscopeError(f"{place}: K: {length:g} given; allowed: a whole number of drafts.")
    clean = cells.get("clean_pair", "")
    if clean not in ("", "A", "B", "C"):
        raise UnknownNameError(f"{place}: clean_pair", clean, ("A", "B", "C"))
    speedup = numbers["speedup"]
    if speedup is None and numbers["spec_tps"] and numbers["baseline_tps"]:
        speedup = numbers["spec_tps"] / numbers["baseline_tps"]
    return Measured(
        **{name: cells.get(name, "") for name in _TEXT},
        bandwidth_bytes_per_s=scaled("mem_bw_GBps", 1e9),
        target_params=scaled("target_params_B", 1e9),
        target_active_params=scaled("target_active_params_B", 1e9),
        weight_bytes=numbers["target_weight_bytes"],
        drafter_params=scaled("drafter_params_M", 1e6),
        draft_length=length,
        p_min=numbers["p_min"],
        acceptance_value=numbers["acceptance_value"],
        mean_tokens_per_pass=numbers["mean_tokens_per_pass"],
        batch=numbers["batch"],
        baseline_tps=numbers["baseline_tps"],
        speedup=speedup,
    )


def _number(text: str, column: str, place: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        raise DraftscopeError(f"{place}: {column}: {text!r} is not a number.") from None
    low, high = NUMBERS[column]
    if not low <= value <= high:  # false for NaN too
        raise DraftscopeError(
            f"{place}: {column}: {text} given; allowed: a number from {low:g} to {high:g}, or nothing."
        )
    return value
