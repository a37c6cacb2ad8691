"""Read the headers of GGUF and safetensors files and nothing else; it does not know what the tensors are for.

No tensor is loaded and nothing is unpickled. Layouts: the GGUF specification (github.com/ggml-org/ggml,
docs/gguf.md, versions 2 and 3) and the safetensors format (8-byte length, JSON, data).
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from simulator.errors import DraftscopeError

_MAX_ITEMS, _MAX_STRING, _MAX_JSON = 10_000_000, 1 << 27, 1 << 27
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9

GGML_TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 40), 10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17), 40: ("NVFP4", 64, 36), 41: ("Q1_0", 128, 18),
}  # fmt: skip
"""GGML type number -> name, weights per block, bytes per block (github.com/ggml-org/ggml, ggml-common.h)."""

SAFETENSORS_BITS = {
    "F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32, "F16": 16, "BF16": 16,
    "I16": 16, "U16": 16,
    "I8": 8, "U8": 8, "BOOL": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F4": 4, "C64": 64,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TensorInfo:
    """Name, shape (output dimension first), type and stored bytes of one tensor."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    n_bytes: int

    @property
    def elements(self) -> int:
        """Stored elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, kw_only=True)
class Header:
    """Key-value metadata (arrays of strings are skipped) and tensors of one file."""

    metadata: dict[str, Any]
    tensors: dict[str, TensorInfo]


class _Reader:
    """Little-endian reader that reports the end of the file as one clear error."""

    def __init__(self, file: BinaryIO, path: Path, size: int) -> None:
        self.file, self.path, self.size = file, path, size

    def take(self, count: int) -> bytes:
        if count > self.size - self.file.tell():
            raise DraftscopeError(
                f"{self.path}: truncated: the header wants {count} bytes at offset "
                f"{self.file.tell()}, the file has {self.size}."
            )
        return self.file.read(count)

    def unpack(self, code: str) -> Any:
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def count(self, what: str, limit: int) -> int:
        value: int = self.unpack("Q")
        if value > limit:
            raise DraftscopeError(f"{self.path}: corrupt: {value} {what}; allowed: at most {limit}.")
        return value

    def string(self) -> str:
        return self.take(self.count("bytes in a string", _MAX_STRING)).decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        if kind in _SCALARS:
            return self.unpack(_SCALARS[kind])
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY:
            raise DraftscopeError(f"{self.path}: corrupt: metadata type {kind}; allowed: 0 to 12.")
        item, length = self.unpack("I"), self.count("items in an array", _MAX_ITEMS)
        if item in _SCALARS:
            code = f"<{length}{_SCALARS[item]}"
            return struct.unpack(code, self.take(struct.calcsize(code)))
        for _ in range(length):
            if item == _STRING:
                self.take(self.count("bytes in a string", _MAX_STRING))
            else:
                self.value(item)
        return None


def read_gguf_header(path: Path) -> Header:
    """Read metadata and tensor table of a GGUF file.

    Raises
    ------
    DraftscopeError
        Not a GGUF file, an unknown version or type, a corrupt or a truncated file.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            return _gguf(_Reader(file, path, size))
    except OSError as error:
        raise DraftscopeError(f"{path}: cannot be read ({error}).") from None


def _gguf(reader: _Reader) -> Header:
    path = reader.path
    magic = reader.take(4)
    if magic != b"GGUF":
        raise DraftscopeError(f"{path}: not a GGUF file: it starts with {magic!r}; allowed: b'GGUF'.")
    version = reader.unpack("I")
    if version not in (2, 3):
        raise DraftscopeError(f"{path}: GGUF version {version}; allowed: 2 or 3 (little-endian).")
    n_tensors, n_values = reader.count("tensors", _MAX_ITEMS), reader.count("metadata entries", _MAX_ITEMS)
    metadata: dict[str, Any] = {}
    for _ in range(n_values):
        key = reader.string()
        metadata[key] = reader.value(reader.unpack("I"))
    tensors: dict[str, TensorInfo] = {}
    data_end = 0
    for _ in range(n_tensors):
        name, n_dims = reader.string(), reader.unpack("I")
        if n_dims > 8:
            raise DraftscopeError(
                f"{path}: corrupt: tensor {name!r} has {n_dims} dimensions; allowed: at most 8."
            )
        shape = tuple(reader.unpack("Q") for _ in range(n_dims))[::-1]
        kind, offset = reader.unpack("I"), reader.unpack("Q")
        if kind not in GGML_TYPES:
            known = ", ".join(label for label, _, _ in GGML_TYPES.values())
            raise DraftscopeError(
                f"{path}: tensor {name!r} has the unknown GGML type {kind}; allowed: {known}."
            )
        dtype, block, block_bytes = GGML_TYPES[kind]
        n_bytes = math.prod(shape) // block * block_bytes
        data_end = max(data_end, offset + n_bytes)
        tensors[name] = TensorInfo(name=name, shape=shape, dtype=dtype, n_bytes=n_bytes)
    alignment = metadata.get("general.alignment", 32)
    alignment = alignment if isinstance(alignment, int) and alignment > 0 else 32
    data_start = -(-reader.file.tell() // alignment) * alignment
    if tensors and data_start + data_end > reader.size:
        raise DraftscopeError(
            f"{path}: truncated: its tensors end at byte {data_start + data_end}, the file has {reader.size}."
        )
    return Header(metadata=metadata, tensors=tensors)


def read_safetensors_header(path: Path) -> Header:
    """Read the JSON header of a safetensors file.

    Raises
    ------
    DraftscopeError
        Not a safetensors file, an unknown type, a corrupt or a truncated file.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            reader = _Reader(file, path, size)
            raw = reader.take(reader.count("bytes of JSON", _MAX_JSON))
            start = file.tell()
    except OSError as error:
        raise DraftscopeError(f"{path}: cannot be read ({error}).") from None
    try:
        entries = json.loads(raw)
        metadata = entries.pop("__metadata__", {})
        tensors = {}
        for name, entry in entries.items():
            begin, end = entry["data_offsets"]
            shape, dtype = tuple(int(n) for n in entry["shape"]), str(entry["dtype"])
            if dtype not in SAFETENSORS_BITS:
                raise DraftscopeError(
                    f"{path}: tensor {name!r} has the unknown type {dtype!r}; "
                    f"allowed: {', '.join(SAFETENSORS_BITS)}."
                )
            if end - begin != math.prod(shape) * SAFETENSORS_BITS[dtype] // 8:
                raise DraftscopeError(
                    f"{path}: corrupt: tensor {name!r} of shape {shape} and type {dtype} "
                    f"cannot have {end - begin} bytes."
                )
            tensors[name] = TensorInfo(name=name, shape=shape, dtype=dtype, n_bytes=end - begin)
            if start + end > size:
                raise DraftscopeError(
                    f"{path}: truncated: tensor {name!r} ends at byte {start + end}, the file has {size}."
                )
    except DraftscopeError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DraftscopeError(f"{path}: not a safetensors file, or a corrupt one ({error}).") from None
    return Header(metadata=metadata, tensors=tensors)
