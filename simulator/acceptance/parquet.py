"""Parquet in and out: checked reading, atomic writing; it does not know what the columns mean."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from simulator.acceptance.schema import TraceError
from simulator.files import whole_file

METADATA_KEY = b"draftscope"


def read_table(path: str | os.PathLike[str]) -> tuple[pa.Table, bytes]:
    """Read a Parquet file of ours; return the table and its JSON metadata, or raise one clear TraceError."""
    path = Path(path)
    if path.is_dir():
        raise TraceError(f"{path}: is a folder; allowed: a file.")
    if not path.is_file():
        raise TraceError(f"{path}: no such file.")
    if path.stat().st_size == 0:
        raise TraceError(f"{path}: the file is empty.")
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise TraceError(f"{path}: not a readable Parquet file (truncated or damaged): {reason}") from None
    metadata = (table.schema.metadata or {}).get(METADATA_KEY)
    if metadata is None:
        raise TraceError(f"{path}: no metadata key 'draftscope': not a file of draftscope.")
    return table, metadata


def write_table(path: str | os.PathLike[str], table: pa.Table) -> None:
    """Write a Parquet file whole or not at all; its folder is made."""
    try:
        with whole_file(path, error=TraceError, make_folder=True) as partial:
            pq.write_table(table, partial, compression="zstd", compression_level=12)
    except pa.ArrowException as error:
        raise TraceError(f"{path}: could not be written, nothing was changed: {error}") from error


def to_numpy(column: pa.ChunkedArray, where: str) -> NDArray[Any]:
    """Arrow to numpy: fixed-size lists become (rows, D), strings an array of str; nulls are refused."""
    array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if array.null_count:
        row = int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
        raise TraceError(f"{where}, row {row}: missing value.")
    if pa.types.is_fixed_size_list(array.type):
        return to_numpy(pa.chunked_array([array.flatten()]), where).reshape(len(array), array.type.list_size)
    if pa.types.is_dictionary(array.type):
        names = to_numpy(pa.chunked_array([array.dictionary]), where)
        return np.asarray(names[array.indices.to_numpy()])
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        return np.asarray(array.to_pylist(), dtype=np.str_)
    result: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return result
