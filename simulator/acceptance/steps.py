"""Step traces: one row per live step of a design that cannot be replayed, or of another tool's log.

They know the steps that were taken at one setting, and nothing about other draft lengths.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from simulator.acceptance.parquet import METADATA_KEY, read_table, to_numpy, write_table
from simulator.acceptance.replay import StepTable
from simulator.acceptance.schema import TraceError, parse_metadata
from simulator.errors import nearest

STEP_SCHEMA_VERSION = 1
_INTS = ("context", "proposed", "accepted", "draft_passes", "verify_width", "emitted")
STEP_TRACE_COLUMNS = ("request_id", "task", *_INTS)
LONGEST_DRAFT = 1024
LARGEST: Mapping[str, int] = MappingProxyType(
    {
        "context": 10_000_000, "proposed": LONGEST_DRAFT, "accepted": LONGEST_DRAFT,
        "draft_passes": LONGEST_DRAFT, "verify_width": 4 * LONGEST_DRAFT, "emitted": LONGEST_DRAFT + 1,
    }
)  # fmt: skip
"""Column -> largest value; more is damage, or another quantity."""


@dataclass(frozen=True, kw_only=True, eq=False)
class StepTrace:
    """Live steps in order, requests contiguous.

    Attributes
    ----------
    target_id, drafter_id : str
        What ran.
    origin : str
        Tool and version that wrote the log.
    note : str
        Free text.
    source : str
        File, for messages.
    columns : mapping of str to ndarray
        ``request_id``, ``task`` (str); ``context`` (tokens cached at the start of the step), ``proposed``,
        ``accepted``, ``draft_passes``, ``verify_width`` (rows of the verify pass), ``emitted`` (int); all
        (steps,).
    """

    target_id: str
    drafter_id: str
    origin: str
    note: str = ""
    source: str = "<memory>"
    columns: Mapping[str, NDArray[Any]] = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", _checked(self.columns, self.source))

    def __len__(self) -> int:
        return len(self.columns["accepted"])

    def table(self) -> StepTable:
        """The steps as `statistics_of` takes them; a response is taken to end with the log of its request."""
        ids, emitted = self.columns["request_id"], self.columns["emitted"]
        new = np.concatenate([[True], ids[1:] != ids[:-1]])
        request = np.cumsum(new) - 1
        total = np.bincount(request, weights=emitted).astype(np.int64)
        before = np.cumsum(emitted) - emitted
        position = before - before[new][request]
        numbers = {
            name: self.columns[name]
            for name in ("context", "proposed", "accepted", "emitted", "draft_passes")
        }
        return StepTable(
            draft_length=int(self.columns["proposed"].max()),
            n_requests=int(request[-1]) + 1,
            request=request,
            position=position,
            remaining=total[request] - position,
            **numbers,
        )


def _checked(columns: Mapping[str, Any], source: str) -> dict[str, NDArray[Any]]:
    """The columns as arrays, or one TraceError with file, column and row."""
    for name in columns:
        if name not in STEP_TRACE_COLUMNS:
            raise TraceError(
                f"{source}: unknown column {name!r}; nearest: {nearest(name, STEP_TRACE_COLUMNS)!r}."
            )
    for name in STEP_TRACE_COLUMNS:
        if name not in columns:
            raise TraceError(f"{source}: column {name!r} is missing; given: {', '.join(columns)}.")
    arrays = {name: np.asarray(columns[name]) for name in STEP_TRACE_COLUMNS}
    rows = len(arrays["request_id"])
    if rows == 0:
        raise TraceError(f"{source}: the step trace is empty (no rows).")
    for name, array in arrays.items():
        if array.shape != (rows,) or array.dtype.kind not in ("iu" if name in _INTS else "UO"):
            allowed = "integers" if name in _INTS else "strings"
            raise TraceError(
                f"{source}: column {name!r}: {array.dtype} of shape {array.shape}, allowed: {rows} {allowed}."
            )
    arrays = {name: array.astype(np.int64 if name in _INTS else np.str_) for name, array in arrays.items()}
    rules = {
        "context": (arrays["context"] < 0, ">= 0"),
        "proposed": (arrays["proposed"] < 0, ">= 0"),
        "accepted": ((arrays["accepted"] < 0) | (arrays["accepted"] > arrays["proposed"]), "0..proposed"),
        "draft_passes": (arrays["draft_passes"] < 0, ">= 0"),
        "verify_width": (arrays["verify_width"] < 1, ">= 1"),
        "emitted": (
            (arrays["emitted"] < np.maximum(arrays["accepted"], 1))
            | (arrays["emitted"] > arrays["accepted"] + 1),
            "accepted or accepted + 1, at least 1",
        ),
    }
    for name, (bad, allowed) in rules.items():
        if bad.any():
            row = int(np.argmax(bad))
            raise TraceError(
                f"{source}: column {name!r}, row {row}: given {arrays[name][row]}, allowed: {allowed}."
            )
    for name, most in LARGEST.items():
        if (arrays[name] > most).any():
            row = int(np.argmax(arrays[name] > most))
            raise TraceError(
                f"{source}: column {name!r}, row {row}: given {arrays[name][row]}, allowed: <= {most}."
            )
    ids = arrays["request_id"]
    starts = np.concatenate([[0], np.flatnonzero(ids[1:] != ids[:-1]) + 1])
    if len(set(ids[starts].tolist())) != len(starts):
        raise TraceError(f"{source}: column 'request_id': rows of a request are not contiguous.")
    return arrays


def write_step_trace(path: str | os.PathLike[str], trace: StepTrace) -> None:
    """Write a step trace atomically."""
    text = json.dumps(
        {
            "schema_version": STEP_SCHEMA_VERSION,
            "content": "steps",
            "target": {"id": trace.target_id},
            "drafter": {"id": trace.drafter_id},
            "origin": trace.origin,
            "note": trace.note,
        }
    )
    table = pa.table({name: pa.array(trace.columns[name].tolist()) for name in STEP_TRACE_COLUMNS})
    write_table(path, table.replace_schema_metadata({METADATA_KEY: text}))


def read_step_trace(path: str | os.PathLike[str]) -> StepTrace:
    """Read and check a step trace; anchor traces and foreign files raise TraceError."""
    table, text = read_table(path)
    data = parse_metadata(text, str(path), STEP_SCHEMA_VERSION)
    if data.get("content") != "steps":
        raise TraceError(f"{path}: not a step trace (an anchor trace is read by read_trace).")
    return StepTrace(
        target_id=str(data["target"]["id"]),
        drafter_id=str(data["drafter"]["id"]),
        origin=str(data["origin"]),
        note=str(data["note"]),
        source=str(path),
        columns={name: to_numpy(table[name], f"{path}: column {name!r}") for name in table.column_names},
    )
