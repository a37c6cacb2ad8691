"""The columns of an anchor trace and their checks, in memory; it does not know files or replay.

One trace holds the acceptance of one drafter on one target: for each request all response positions
``t = 0..N-1`` in order, requests contiguous. Row ``t`` is the anchor "``y_t`` is the last emitted token and
its KV is not yet cached"; the last row of a request carries ``y_{N-1}`` and no drafts. List columns have one
entry for each depth ``k = 1..D``:

- free-running, the drafter on its own chain: ``draft_token`` (-1 = no draft), ``draft_top1_prob`` (NaN = no
  draft; drafters without probabilities write 1.0);
- teacher-forced, the drafter along the true text: ``rank`` of ``y_{t+k}`` (0 = top; -1 = outside the
  drafter's vocabulary or beyond the response) and ``draft_prob`` of it (0 where the rank is -1);
- ``target_prob_of_draft``: the target's probability of ``draft_token`` given the true text before it. Beyond
  the response it is unknown (NaN or anything in [0, 1]), as are ``target_top1_prob`` and ``target_entropy``
  in a last row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.errors import DraftscopeError, UnknownNameError, nearest

SCHEMA_VERSION = 1
_ROW_INTS: dict[str, type[np.generic]] = {
    "position": np.int32,
    "context_length": np.int32,
    "token": np.int32,
    "proposed": np.int8,
}
_ROW_FLOATS = ("target_top1_prob", "target_entropy", "train_overlap")
_LIST_INTS = ("draft_token", "rank")
_LIST_FLOATS = ("draft_top1_prob", "draft_prob", "target_prob_of_draft")
_NAMES = ("request_id", "task")
COLUMNS = (*_NAMES, *_ROW_INTS, *_LIST_INTS, *_LIST_FLOATS, *_ROW_FLOATS)
_PROBABILITY_SLACK = 1e-3  # float16 rounding of a probability just below 1

Column = NDArray[Any]


class TraceError(DraftscopeError):
    """A trace, step-trace or responses file that is missing, damaged or of another schema."""


@dataclass(frozen=True, kw_only=True)
class TraceMetadata:
    """What a trace was recorded on; stored as JSON under the Parquet key ``draftscope``.

    Attributes
    ----------
    target_id, target_sha256 : str
        The frozen target and the hash of its weights.
    drafter_id, drafter_family, drafter_sha256 : str
        The drafter; the hash is empty for drafters without weights.
    drafter_params : int
        Parameters of the drafter.
    dtype : str
        Arithmetic of the target, for example ``float32``.
    max_depth : int
        Drafts recorded at each anchor, D.
    task_set, date : str
        Name of the prompt set; ISO date.
    note : str
        Free text.
    schema_version : int
        Version of the column layout.
    """

    target_id: str
    target_sha256: str
    drafter_id: str
    drafter_family: str
    drafter_sha256: str = ""
    drafter_params: int = 0
    dtype: str
    max_depth: int
    task_set: str
    date: str
    note: str = ""
    schema_version: int = SCHEMA_VERSION

    def to_json(self) -> str:
        """JSON text with the keys of the file format."""
        drafter = {
            "id": self.drafter_id,
            "family": self.drafter_family,
            "sha256": self.drafter_sha256,
            "params": self.drafter_params,
        }
        return json.dumps(
            {
                "schema_version": self.schema_version,
                "target": {"id": self.target_id, "sha256": self.target_sha256},
                "drafter": drafter,
                "dtype": self.dtype,
                "max_depth": self.max_depth,
                "task_set": self.task_set,
                "date": self.date,
                "note": self.note,
            }
        )

    @classmethod
    def from_json(cls, text: str | bytes, where: str) -> TraceMetadata:
        """Parse the JSON of a file; ``where`` names the file in errors."""
        data = parse_metadata(text, where, SCHEMA_VERSION)
        if data.get("content") == "steps":
            raise TraceError(
                f"{where}: is a step trace, as trace import writes it: steps at one setting, which cannot be "
                "replayed; needed: an anchor trace, as trace collect records it."
            )
        try:
            target, drafter = data["target"], data["drafter"]
            return cls(
                target_id=str(target["id"]),
                target_sha256=str(target["sha256"]),
                drafter_id=str(drafter["id"]),
                drafter_family=str(drafter["family"]),
                drafter_sha256=str(drafter["sha256"]),
                drafter_params=int(drafter["params"]),
                dtype=str(data["dtype"]),
                max_depth=int(data["max_depth"]),
                task_set=str(data["task_set"]),
                date=str(data["date"]),
                note=str(data.get("note", "")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise TraceError(f"{where}: metadata key 'draftscope' is incomplete: {error}") from None


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace:
    """A checked anchor trace in memory; arrays are read-only.

    Attributes
    ----------
    metadata : TraceMetadata
        Target, drafter, dtype and depth.
    source : str
        File it came from, for messages.
    request_ids, request_tasks : tuple of str
        Name and task class of each request, R entries.
    start : ndarray of int64, (R + 1,)
        First row of each request, and the number of rows.
    train_overlap : ndarray of float32, (R,)
        Share of the 8-grams of the response that stand in training responses.
    columns : mapping of str to ndarray
        The numeric row columns by name: (rows,) or (rows, D).
    """

    metadata: TraceMetadata
    source: str
    request_ids: tuple[str, ...]
    request_tasks: tuple[str, ...]
    start: NDArray[np.int64]
    train_overlap: NDArray[np.float32]
    columns: Mapping[str, Column] = field(repr=False)

    def __getitem__(self, name: str) -> Column:
        if name not in self.columns:
            raise UnknownNameError(f"{self.source}: column", name, self.columns)
        return self.columns[name]

    @property
    def n_rows(self) -> int:
        """Anchors, last rows of requests included."""
        return int(self.start[-1])

    @property
    def n_requests(self) -> int:
        """Requests."""
        return len(self.request_ids)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Response tokens of each request, (R,)."""
        return np.diff(self.start)

    @property
    def remaining(self) -> NDArray[np.int64]:
        """Response tokens after each anchor, N - 1 - t, (rows,)."""
        return np.repeat(self.start[1:], self.lengths) - 1 - np.arange(self.n_rows)

    @property
    def tasks(self) -> tuple[str, ...]:
        """Task classes in order of first appearance."""
        return tuple(dict.fromkeys(self.request_tasks))

    def filtered(self, *, max_overlap: float | None = 0.2, tasks: Iterable[str] | None = None) -> Trace:
        """Keep the requests of ``tasks`` whose response overlaps training text by at most ``max_overlap``.

        Parameters
        ----------
        max_overlap : float or None
            Share of 8-grams, 0..1; None keeps every request.
        tasks : iterable of str or None
            Task classes; None keeps all. An unknown task raises UnknownNameError.
        """
        keep = np.ones(self.n_requests, dtype=bool)
        if max_overlap is not None:
            if not 0 <= max_overlap <= 1:
                raise TraceError(f"max_overlap: given {max_overlap}, allowed: 0..1 or None.")
            keep &= self.train_overlap <= np.float32(max_overlap)
        if tasks is not None:
            wanted = set(tasks)
            for task in sorted(wanted - set(self.tasks)):
                raise UnknownNameError(f"{self.source}: task", task, self.tasks)
            keep &= np.array([task in wanted for task in self.request_tasks], dtype=bool)
        return self if keep.all() else self.take(np.flatnonzero(keep))

    def take(self, requests: NDArray[np.int64]) -> Trace:
        """The requests with these indices, in that order."""
        lengths = self.lengths[requests]
        start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        rows = np.arange(start[-1]) + np.repeat(self.start[requests] - start[:-1], lengths)
        return Trace(
            metadata=self.metadata,
            source=self.source,
            request_ids=tuple(self.request_ids[i] for i in requests),
            request_tasks=tuple(self.request_tasks[i] for i in requests),
            start=start,
            train_overlap=self.train_overlap[requests],
            columns={name: _frozen(column[rows]) for name, column in self.columns.items()},
        )


def _names(values: Any, where: str) -> NDArray[np.str_]:
    """A column of text."""
    try:
        found = np.asarray(values, dtype=np.str_)
    except ValueError:  # bytes that are no text, lists
        found = np.empty((0, 0), dtype=np.str_)
    if found.ndim != 1:
        raise TraceError(f"{where}: is no column of text; allowed: one string a row.")
    return found


def trace_from_columns(
    columns: Mapping[str, Any], metadata: TraceMetadata, source: str = "<memory>"
) -> Trace:
    """Check columns against the schema and build a trace.

    Parameters
    ----------
    columns : mapping of str to array
        One array for each name in ``COLUMNS``; list columns have shape (rows, D).
    metadata : TraceMetadata
        Its ``max_depth`` is D.
    source : str
        Named in errors.

    Raises
    ------
    TraceError
        With file, column and row of the first value that is not allowed.
    """
    for name in columns:
        if name not in COLUMNS:
            raise TraceError(f"{source}: unknown column {name!r}; nearest: {nearest(name, COLUMNS)!r}.")
    for name in COLUMNS:
        if name not in columns:
            raise TraceError(f"{source}: column {name!r} is missing; given: {', '.join(columns)}.")
    ids, tasks = (_names(columns[name], f"{source}: column {name!r}") for name in _NAMES)
    rows, depth = len(ids), metadata.max_depth
    if rows == 0:
        raise TraceError(f"{source}: the trace is empty (no rows).")
    arrays: dict[str, Column] = {}
    for name in COLUMNS[2:]:
        is_list, is_int = name in _LIST_INTS + _LIST_FLOATS, name in _LIST_INTS or name in _ROW_INTS
        array = np.asarray(columns[name])
        shape = (rows, depth) if is_list else (rows,)
        if array.shape != shape:
            detail = f" (max_depth {depth} in the metadata)" if is_list else ""
            raise TraceError(f"{source}: column {name!r}: shape {array.shape}, allowed: {shape}{detail}.")
        if array.dtype.kind not in ("iu" if is_int else "f"):
            allowed = "integers" if is_int else "floats"
            raise TraceError(f"{source}: column {name!r}: type {array.dtype}, allowed: {allowed}.")
        with np.errstate(over="ignore"):  # an infinity is refused with the other values
            arrays[name] = array.astype(_ROW_INTS.get(name, np.int32) if is_int else np.float32)
        if is_int and not np.array_equal(arrays[name], array):
            raise TraceError(f"{source}: column {name!r}: a value does not fit {arrays[name].dtype}.")
    start = np.concatenate([[0], np.flatnonzero(ids[1:] != ids[:-1]) + 1, [rows]]).astype(np.int64)
    request_ids, seen = tuple(str(name) for name in ids[start[:-1]]), set[str]()
    for index, name in enumerate(request_ids):
        if name in seen:
            raise TraceError(
                f"{source}: column 'request_id', row {start[index]}: "
                f"rows of request {name!r} are not contiguous."
            )
        seen.add(name)
    _check_values(arrays, ids, tasks, start, source)
    overlap = arrays.pop("train_overlap")[start[:-1]]
    return Trace(
        metadata=metadata,
        source=source,
        request_ids=request_ids,
        request_tasks=tuple(str(name) for name in tasks[start[:-1]]),
        start=start,
        train_overlap=_frozen(overlap),
        columns={name: _frozen(array) for name, array in arrays.items()},
    )


def _check_values(
    arrays: dict[str, Column], ids: Column, tasks: Column, start: NDArray[np.int64], source: str
) -> None:
    """Raise TraceError at the first row whose value the schema does not allow."""
    first = np.repeat(start[:-1], np.diff(start))
    expected = np.arange(start[-1]) - first
    remaining = (np.repeat(start[1:], np.diff(start)) - 1 - np.arange(start[-1]))[:, None]
    depth = np.arange(1, arrays["draft_token"].shape[1] + 1)
    drafted = depth <= arrays["proposed"][:, None]
    last = remaining[:, 0] == 0

    def check(bad: Column, column: str, allowed: str) -> None:
        if not bad.any():
            return
        row = int(np.argmax(bad.any(axis=1) if bad.ndim == 2 else bad))
        values: Column = tasks if column == "task" else arrays[column]
        at = f" depth {int(np.argmax(bad[row])) + 1}," if bad.ndim == 2 else ""
        given = values[row, np.argmax(bad[row])] if bad.ndim == 2 else values[row]
        raise TraceError(
            f"{source}: column {column!r}, row {row},{at} request {str(ids[row])!r}: "
            f"given {given}, allowed: {allowed}."
        )

    def outside(values: Column) -> Column:
        return ~((values >= 0) & (values <= 1 + _PROBABILITY_SLACK))

    check(arrays["position"] != expected, "position", "0, 1, 2 ... in order within a request")
    check(tasks != tasks[first], "task", "one task for all rows of a request")
    context = arrays["context_length"]
    check(context < 0, "context_length", ">= 0")
    check(context != context[first] + expected, "context_length", "context of the first row + position")
    check(arrays["token"] < 0, "token", ">= 0")
    check((arrays["proposed"] < 0) | (arrays["proposed"] > len(depth)), "proposed", f"0..{len(depth)}")
    check(last & (arrays["proposed"] != 0), "proposed", "0 in the last row of a request")
    draft = arrays["draft_token"]
    check(drafted & (draft < 0), "draft_token", ">= 0 where a draft is proposed")
    check(~drafted & (draft != -1), "draft_token", "-1 beyond the proposed drafts")
    check(drafted & outside(arrays["draft_top1_prob"]), "draft_top1_prob", "0..1 where a draft is proposed")
    check(
        ~drafted & ~np.isnan(arrays["draft_top1_prob"]), "draft_top1_prob", "NaN beyond the proposed drafts"
    )
    check(arrays["rank"] < -1, "rank", ">= -1")
    check((depth > remaining) & (arrays["rank"] != -1), "rank", "-1 beyond the end of the response")
    check(outside(arrays["draft_prob"]), "draft_prob", "0..1")
    check((arrays["rank"] == -1) & (arrays["draft_prob"] != 0), "draft_prob", "0 where rank is -1")
    of_draft = arrays["target_prob_of_draft"]
    known = drafted & (depth <= remaining)
    check(
        outside(of_draft) & (known | ~np.isnan(of_draft)),
        "target_prob_of_draft",
        "0..1 where a draft is proposed",
    )
    for name, bad in (
        ("target_top1_prob", outside(arrays["target_top1_prob"])),
        ("target_entropy", ~(arrays["target_entropy"] >= 0)),
    ):
        check(bad & ~(last & np.isnan(arrays[name])), name, "finite and not negative; NaN only in a last row")
    check(np.isinf(arrays["target_entropy"]), "target_entropy", "finite")
    overlap = arrays["train_overlap"]
    check(outside(overlap), "train_overlap", "0..1")
    check(overlap != overlap[first], "train_overlap", "one value for all rows of a request")


def _frozen(array: Column) -> Column:
    array.setflags(write=False)
    return array


def parse_metadata(text: str | bytes, where: str, version: int) -> dict[str, Any]:
    """Parse the JSON metadata of a file and check its ``schema_version``."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise TraceError(f"{where}: metadata key 'draftscope' is not JSON: {error}") from None
    given = data.get("schema_version") if isinstance(data, dict) else None
    if given != version:
        raise TraceError(f"{where}: schema_version {given!r}, allowed: {version}.")
    result: dict[str, Any] = data
    return result
