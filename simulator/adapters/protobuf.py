"""Protocol buffers, as far as a metrics file needs them; it does not know any message.

Wire format: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from simulator.adapters.observations import MeasurementError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_TYPES = {VARINT: "varint", FIXED64: "64-bit", BYTES: "length-delimited", FIXED32: "32-bit"}


@dataclass(frozen=True)
class Field:
    """One field of a message.

    Attributes
    ----------
    number, type : int
        Field number, wire type.
    value : int or bytes
        Integer of a varint, else the bytes.
    offset : int
        Where the field starts in the file.
    start : int
        Where its value starts.
    """

    number: int
    type: int
    value: int | bytes
    offset: int
    start: int


def fields(data: bytes, path: str, base: int = 0) -> list[Field]:
    """Split a message into its fields, or raise one MeasurementError with the byte offset."""
    found, position = [], 0
    while position < len(data):
        offset = base + position
        key, position = _varint(data, position, path, base)
        number, kind = key >> 3, key & 7
        if number == 0 or kind not in _TYPES:
            raise MeasurementError(f"{path}:byte {offset}: wire type {kind}, field {number}: not a message.")
        start = base + position
        if kind == VARINT:
            value, position = _varint(data, position, path, base)
            found.append(Field(number, kind, value, offset, start))
            continue
        if kind == BYTES:
            length, position = _varint(data, position, path, base)
            start = base + position
        else:
            length = 8 if kind == FIXED64 else 4
        if position + length > len(data):
            raise MeasurementError(
                f"{path}:byte {offset}: field {number} needs {length} bytes, {len(data) - position} are "
                "left: truncated?"
            )
        found.append(Field(number, kind, data[position : position + length], offset, start))
        position += length
    return found


def _varint(data: bytes, position: int, path: str, base: int) -> tuple[int, int]:
    value = 0
    for count in range(10):
        if position + count >= len(data):
            raise MeasurementError(f"{path}:byte {base + position}: the number does not end: truncated?")
        byte = data[position + count]
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return value & (2**64 - 1), position + count + 1
    raise MeasurementError(f"{path}:byte {base + position}: a number of more than ten bytes.")


def integer(field: Field, path: str, name: str) -> int:
    """Value of an int32 or int64."""
    if not isinstance(field.value, int):
        raise _wrong_type(field, path, name, VARINT)
    return field.value - 2**64 if field.value >= 2**63 else field.value


def real(field: Field, path: str, name: str) -> float:
    """Value of a double or a float."""
    if isinstance(field.value, int) or field.type == BYTES:
        raise _wrong_type(field, path, name, FIXED64)
    return float(struct.unpack("<f" if field.type == FIXED32 else "<d", field.value)[0])


def message(field: Field, path: str, name: str) -> list[Field]:
    """Fields of a message within a message."""
    if isinstance(field.value, int) or field.type != BYTES:
        raise _wrong_type(field, path, name, BYTES)
    return fields(field.value, path, field.start)


def _wrong_type(field: Field, path: str, name: str, kind: int) -> MeasurementError:
    return MeasurementError(
        f"{path}:byte {field.offset}: field {name!r}: {_TYPES[field.type]} given, allowed: {_TYPES[kind]}."
    )


@dataclass(frozen=True)
class Entry:
    """One field of the text form: name, a scalar as text or the entries of a message, and its line."""

    name: str
    value: str | list[Entry]
    line: int


def text_entries(text: str, path: str) -> list[Entry]:
    """Parse the text form (``protoc --decode``), or raise one MeasurementError with the line."""
    stack: list[list[Entry]] = [[]]
    opened: list[tuple[str, int]] = []
    for line_number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        if stripped == "}":
            if not opened:
                raise MeasurementError(f"{path}:{line_number}: '}}' without '{{'.")
            name, at = opened.pop()
            entries = stack.pop()
            stack[-1].append(Entry(name, entries, at))
        elif found := re.fullmatch(r"(\w+)\s*:?\s*\{", stripped):
            opened.append((found[1], line_number))
            stack.append([])
        elif found := re.fullmatch(r'(\w+)\s*:\s*("(?:[^"\\]|\\.)*"|[-+.\w]+)', stripped):
            stack[-1].append(Entry(found[1], found[2].strip('"'), line_number))
        else:
            raise MeasurementError(f"{path}:{line_number}: given {stripped[:60]!r}, allowed: name: value.")
        if len(opened) > 50:
            raise MeasurementError(f"{path}:{line_number}: nested too deeply.")
    if opened:
        raise MeasurementError(f"{path}:{opened[-1][1]}: {opened[-1][0]!r} is not closed: truncated?")
    return stack[0]
