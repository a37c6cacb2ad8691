"""Anchor traces and responses as files; it does not know how a trace is replayed (columns: see `schema`).

A trace is one Parquet file for each (target, drafter): ``traces/<target_id>/<drafter_id>.parquet``, with the
texts beside it in ``responses.parquet``. This module and what it imports need numpy, pyarrow and the standard
library only, so that the reference can write traces.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from simulator.acceptance.parquet import METADATA_KEY, read_table, to_numpy, write_table
from simulator.acceptance.schema import (
    COLUMNS,
    SCHEMA_VERSION,
    Trace,
    TraceError,
    TraceMetadata,
    parse_metadata,
    trace_from_columns,
)
from simulator.errors import UnknownNameError

__all__ = [
    "COLUMNS",
    "SCHEMA_VERSION",
    "Responses",
    "Trace",
    "TraceError",
    "TraceMetadata",
    "load_shipped",
    "load_shipped_responses",
    "read_responses",
    "read_trace",
    "shipped_targets",
    "shipped_traces",
    "trace_from_columns",
    "write_responses",
    "write_trace",
]

RESPONSES_FILE = "responses.parquet"
HALF_FLOATS = ("draft_prob", "target_prob_of_draft")


def read_trace(path: str | os.PathLike[str]) -> Trace:
    """Read and check an anchor trace.

    Raises
    ------
    TraceError
        Missing, empty, truncated or foreign file; other schema version; missing, unknown or wrongly typed
        columns; depth that differs from the metadata; rows out of order; values that are not allowed.
    """
    table, text = read_table(path)
    metadata = TraceMetadata.from_json(text, str(path))
    columns = {name: to_numpy(table[name], f"{path}: column {name!r}") for name in table.column_names}
    return trace_from_columns(columns, metadata, str(path))


def write_trace(path: str | os.PathLike[str], columns: Mapping[str, Any], metadata: TraceMetadata) -> None:
    """Check and write an anchor trace atomically.

    Probabilities by depth are stored as float16, ``draft_top1_prob`` as float32: a confidence stop is then
    replayed exactly.

    Parameters
    ----------
    path : path
        Usually ``<target_id>/<drafter_id>.parquet``; its folder is made.
    columns : mapping of str to array
        As for `trace_from_columns`.
    metadata : TraceMetadata
        Stored under the Parquet key ``draftscope``.

    Raises
    ------
    TraceError
        A value the schema does not allow, or a file that could not be written (full disk); an older file
        stays as it was.
    """
    trace = trace_from_columns(columns, metadata, str(path))
    names = {"request_id": np.array(trace.request_ids), "task": np.array(trace.request_tasks)}
    arrays: list[pa.Array] = []
    for name in COLUMNS:
        if name in names:
            codes = np.repeat(np.unique(names[name], return_inverse=True)[1].astype(np.int32), trace.lengths)
            arrays.append(pa.DictionaryArray.from_arrays(codes, np.unique(names[name])))
        elif name == "train_overlap":
            arrays.append(pa.array(np.repeat(trace.train_overlap, trace.lengths)))
        else:
            values = trace[name].astype(np.float16) if name in HALF_FLOATS else trace[name]
            flat = pa.array(values.reshape(-1))
            arrays.append(
                flat if values.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
            )
    table = pa.table(arrays, names=list(COLUMNS)).replace_schema_metadata({METADATA_KEY: metadata.to_json()})
    write_table(path, table)


@dataclass(frozen=True, kw_only=True, eq=False)
class Responses:
    """The texts behind the traces of one target, R requests.

    Attributes
    ----------
    target_id : str
        The target that wrote them.
    request_ids, tasks, prompts : tuple of str
        Name, task class and prompt text of each request.
    tokens : tuple of ndarray of int32
        Response tokens y_0..y_{N-1} of each request.
    token_texts : tuple of tuple of str
        The text of each token, so that a token strip needs no tokenizer.
    train_overlap : ndarray of float32, (R,)
        Share of the 8-grams of the response that stand in training responses.
    """

    target_id: str
    request_ids: tuple[str, ...]
    tasks: tuple[str, ...]
    prompts: tuple[str, ...]
    tokens: tuple[NDArray[np.int32], ...]
    token_texts: tuple[tuple[str, ...], ...]
    train_overlap: NDArray[np.float32]


_RESPONSE_SCHEMA = pa.schema(
    [
        ("request_id", pa.string()),
        ("task", pa.string()),
        ("prompt", pa.string()),
        ("token", pa.list_(pa.int32())),
        ("token_text", pa.list_(pa.string())),
        ("train_overlap", pa.float32()),
    ]
)


def _check_responses(responses: Responses, where: str) -> Responses:
    """Raise TraceError where the lists of a request do not fit together."""
    given = {
        len(value)
        for value in (
            responses.request_ids,
            responses.tasks,
            responses.prompts,
            responses.tokens,
            responses.token_texts,
            responses.train_overlap,
        )
    }
    if len(given) != 1:
        raise TraceError(f"{where}: columns of different lengths: {sorted(given)}.")
    if len(set(responses.request_ids)) != len(responses.request_ids):
        raise TraceError(f"{where}: column 'request_id': a request stands there twice.")
    for row, (name, tokens, texts) in enumerate(
        zip(responses.request_ids, responses.tokens, responses.token_texts, strict=True)
    ):
        if len(tokens) != len(texts):
            raise TraceError(
                f"{where}: column 'token_text', row {row} (request {name!r}): "
                f"{len(texts)} texts for {len(tokens)} tokens."
            )
        if len(tokens) == 0 or np.min(tokens) < 0:
            raise TraceError(
                f"{where}: column 'token', row {row} (request {name!r}): "
                f"given {list(tokens)[:5]}, allowed: one or more tokens >= 0."
            )
    return responses


def write_responses(path: str | os.PathLike[str], responses: Responses) -> None:
    """Check and write the responses of one target atomically."""
    _check_responses(responses, str(path))
    table = pa.table(
        [
            list(responses.request_ids),
            list(responses.tasks),
            list(responses.prompts),
            [np.asarray(tokens, dtype=np.int32) for tokens in responses.tokens],
            [list(texts) for texts in responses.token_texts],
            np.asarray(responses.train_overlap, dtype=np.float32),
        ],
        schema=_RESPONSE_SCHEMA,
    )
    text = json.dumps({"schema_version": SCHEMA_VERSION, "target": {"id": responses.target_id}})
    write_table(path, table.replace_schema_metadata({METADATA_KEY: text}))


def read_responses(path: str | os.PathLike[str]) -> Responses:
    """Read and check the responses of one target."""
    table, text = read_table(path)
    data = parse_metadata(text, str(path), SCHEMA_VERSION)
    if table.schema.remove_metadata() != _RESPONSE_SCHEMA:
        raise TraceError(
            f"{path}: columns {str(table.schema.remove_metadata()).splitlines()}, "
            f"allowed: {str(_RESPONSE_SCHEMA).splitlines()}."
        )
    columns = {name: table[name].to_pylist() for name in table.column_names}
    return _check_responses(
        Responses(
            target_id=str(data.get("target", {}).get("id", "")),
            request_ids=tuple(columns["request_id"]),
            tasks=tuple(columns["task"]),
            prompts=tuple(columns["prompt"]),
            tokens=tuple(np.array(tokens, dtype=np.int32) for tokens in columns["token"]),
            token_texts=tuple(tuple(texts) for texts in columns["token_text"]),
            train_overlap=to_numpy(table["train_overlap"], f"{path}: column 'train_overlap'").astype(
                np.float32
            ),
        ),
        str(path),
    )


def _shipped_folder() -> Path:
    return Path(str(resources.files("simulator.acceptance") / "traces"))


def shipped_targets() -> list[str]:
    """Targets with traces in this package."""
    folder = _shipped_folder()
    return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def shipped_traces(target_id: str) -> dict[str, Path]:
    """Drafter id -> trace file of a traced target; an unknown target raises UnknownNameError."""
    if target_id not in shipped_targets():
        raise UnknownNameError("target with shipped traces", target_id, shipped_targets())
    files = sorted((_shipped_folder() / target_id).glob("*.parquet"))
    return {path.stem: path for path in files if path.name != RESPONSES_FILE}


@lru_cache(maxsize=16)
def load_shipped(target_id: str, drafter_id: str) -> Trace:
    """The shipped trace of a drafter on a target; unknown names raise UnknownNameError."""
    traces = shipped_traces(target_id)
    if drafter_id not in traces:
        raise UnknownNameError(f"shipped trace of target {target_id}", drafter_id, traces)
    return read_trace(traces[drafter_id])


@lru_cache(maxsize=4)
def load_shipped_responses(target_id: str) -> Responses:
    """The responses behind the shipped traces of a target."""
    shipped_traces(target_id)
    return read_responses(_shipped_folder() / target_id / RESPONSES_FILE)
