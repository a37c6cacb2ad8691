"""Reading text, numbers and records so that every mistake names file, line and field; it knows no tool."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from simulator.adapters.observations import MeasurementError
from simulator.errors import nearest

LARGEST_FILE = 256 * 2**20
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?")


@dataclass(frozen=True)
class Source:
    """One file, read once.

    Attributes
    ----------
    path : str
        For messages.
    data : bytes
        Content.
    """

    path: str
    data: bytes

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Source:
        """Read a file, or raise one MeasurementError."""
        file = Path(path)
        if file.is_dir():
            raise MeasurementError(f"{path}: is a folder; allowed: a file.")
        if not file.is_file():
            raise MeasurementError(f"{path}: no such file.")
        try:
            size = file.stat().st_size
            if size > LARGEST_FILE:
                raise MeasurementError(f"{path}: {size} bytes given, allowed: at most {LARGEST_FILE}.")
            data = file.read_bytes()
        except OSError as error:
            raise MeasurementError(f"{path}: cannot be read: {error.strerror or error}.") from None
        if not data.strip():
            raise MeasurementError(f"{path}: the file is empty.")
        return cls(str(path), data)

    @cached_property
    def decoded(self) -> str | None:
        """The content as text; None where it is not text."""
        try:
            text = self.data.decode("utf-8-sig")
        except UnicodeDecodeError:
            return None
        return None if "\0" in text else text.replace("\r\n", "\n").replace("\r", "\n")

    @property
    def text(self) -> str:
        """The content as text, or a MeasurementError."""
        if self.decoded is None:
            bad = next((n for n, line in enumerate(self.data.split(b"\n"), 1) if not _is_text(line)), 1)
            raise MeasurementError(f"{self.path}:{bad}: is not UTF-8 text.")
        return self.decoded

    @cached_property
    def lines(self) -> list[str]:
        """Lines of the text; line n of the file is entry n - 1."""
        return self.text.split("\n")

    def line_of(self, offset: int) -> int:
        """Number of the line that a character of the text stands in."""
        return self.text.count("\n", 0, offset) + 1


def _is_text(line: bytes) -> bool:
    try:
        return "\0" not in line.decode()
    except UnicodeDecodeError:
        return False


def number(
    given: Any,
    where: str,
    *,
    least: float | None = 0.0,
    most: float | None = None,
    above: bool = False,
    whole: bool = False,
) -> float:
    """A finite number, or a MeasurementError.

    Parameters
    ----------
    given : object
        A number, or text.
    where : str
        Place and field, for the message.
    least : float, optional
        Smallest allowed value.
    most : float, optional
        Largest allowed value.
    above : bool
        The value must be larger than ``least``.
    whole : bool
        Only integers.
    """
    allowed = f"a{' whole' if whole else ''} number"
    if least is not None:
        allowed += f" {'>' if above else '>='} {least:g}"
    if most is not None:
        allowed += f"{'' if least is None else ' and'} <= {most:.12g}"
    problem = MeasurementError(f"{where}: given {_short(given)}, allowed: {allowed}.")
    if isinstance(given, str):
        if not _NUMBER.fullmatch(given.strip()):
            raise problem
        given = given.strip()
    elif isinstance(given, bool) or not isinstance(given, int | float):
        raise problem
    try:
        value = float(given)
    except OverflowError:
        raise problem from None
    if value != value or abs(value) == float("inf"):
        raise problem
    if (whole and value != int(value)) or (
        least is not None and (value < least or (above and value == least))
    ):
        raise problem
    if most is not None and value > most:
        raise problem
    return value


def _short(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= 60 else text[:57] + "..."


def agree(
    given: float, expected: float, where: str, meaning: str, tolerance: float = 0.02, rounding: float = 0.0
) -> None:
    """Refuse a number that contradicts others of the same record: damaged, or in another unit."""
    if abs(given - expected) > tolerance * max(abs(given), abs(expected)) + rounding:
        raise MeasurementError(
            f"{where}: given {given:g}, but {meaning} is {expected:g}: a damaged value, or another unit."
        )


@dataclass(frozen=True)
class Record:
    """Fields of one object, row or message.

    Attributes
    ----------
    values : mapping
        Field -> value.
    path : str
        File.
    place : str
        Where the record is: ``"12"`` (line), ``"row 3"``.
    places : mapping of str to str
        Field -> where it is, when that differs from the record.
    """

    values: Mapping[str, Any]
    path: str
    place: str
    places: Mapping[str, str] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """File and place."""
        return f"{self.path}:{self.place}"

    def at(self, name: str) -> str:
        """File, place and field."""
        return f"{self.path}:{self.places.get(name, self.place)}: field {name!r}"

    def has(self, name: str) -> bool:
        """Whether the field is given and not empty."""
        return self.values.get(name) not in (None, "")

    def number(
        self,
        name: str,
        *,
        least: float | None = 0.0,
        most: float | None = None,
        above: bool = False,
        whole: bool = False,
    ) -> float:
        """A required number, checked as in `number`."""
        return number(self._required(name), self.at(name), least=least, most=most, above=above, whole=whole)

    def numbers(self, name: str) -> list[float]:
        """A required list of positive numbers."""
        given = self._required(name)
        if not isinstance(given, list) or not given:
            raise MeasurementError(f"{self.at(name)}: given {_short(given)}, allowed: a list of numbers.")
        return [number(value, self.at(name), above=True) for value in given]

    def optional(
        self,
        name: str,
        *,
        least: float | None = 0.0,
        most: float | None = None,
        above: bool = False,
        whole: bool = False,
    ) -> float | None:
        """A number that may be absent."""
        if not self.has(name):
            return None
        return self.number(name, least=least, most=most, above=above, whole=whole)

    def text(self, name: str) -> str | None:
        """Text that may be absent."""
        if not self.has(name):
            return None
        given = self.values[name]
        if isinstance(given, dict | list):
            raise MeasurementError(f"{self.at(name)}: given {_short(given)}, allowed: text.")
        return str(given)

    def _required(self, name: str) -> Any:
        if not self.has(name):
            close = nearest(name, [key for key in self.values if key != name])
            raise MeasurementError(
                f"{self.at(name)} is missing" + (f"; nearest given: {close!r}." if close else ".")
            )
        return self.values[name]


def json_records(source: Source) -> list[Record]:
    """Objects of a JSON array, a single JSON object, or one object after another (JSONL)."""
    text = source.text
    position, array, records = 0, False, []
    decoder = json.JSONDecoder(parse_constant=_no_constant)
    position = _skip(text, position)
    if text[position : position + 1] == "[":
        array, position = True, _skip(text, position + 1)
    while position < len(text):
        start = position
        try:
            value, position = decoder.raw_decode(text, position)
        except _ConstantError as error:
            line = source.line_of(text.index(str(error), start))
            raise MeasurementError(f"{source.path}:{line}: {error} given, allowed: finite numbers.") from None
        except RecursionError:
            raise MeasurementError(f"{source.path}:{source.line_of(start)}: nested too deeply.") from None
        except json.JSONDecodeError as error:
            raise MeasurementError(f"{source.path}:{error.lineno}: not JSON: {error.msg}.") from None
        except ValueError as error:
            raise MeasurementError(f"{source.path}:{source.line_of(start)}: not JSON: {error}.") from None
        if not isinstance(value, dict):
            raise MeasurementError(
                f"{source.path}:{source.line_of(start)}: given {_short(value)}, allowed: an object {{...}}."
            )
        records.append(_record(source, value, start, position))
        position = _skip(text, position)
        if array:
            separator = text[position : position + 1]
            position = _skip(text, position + 1)
            if separator == "]":
                array = False
                if position < len(text):
                    line = source.line_of(position)
                    raise MeasurementError(f"{source.path}:{line}: text after the end of the JSON array.")
            elif separator != ",":
                line = source.line_of(min(position, len(text)))
                raise MeasurementError(f"{source.path}:{line}: the JSON array does not end: truncated?")
    if array:
        raise MeasurementError(f"{source.path}:{source.line_of(len(text))}: the JSON array does not end.")
    return records


class _ConstantError(Exception):
    pass


def _no_constant(name: str) -> float:
    raise _ConstantError(name)


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\n\r":
        position += 1
    return position


def _record(source: Source, value: dict[str, Any], start: int, end: int) -> Record:
    """Record with the line of each field, which is the first line that names it."""
    first = source.line_of(start)
    places: dict[str, str] = {}
    for offset, line in enumerate(source.text[start:end].split("\n")):
        for name in re.findall(r'"([^"\\]+)"\s*:', line):
            places.setdefault(name, str(first + offset))
    return Record(value, source.path, str(first), places)


def matches(lines: list[str], pattern: re.Pattern[str]) -> Iterator[tuple[int, re.Match[str]]]:
    """Line number and match of every line in which a pattern is found."""
    for index, line in enumerate(lines, 1):
        if found := pattern.search(line):
            yield index, found


def row(header: list[str], cells: list[str], path: str, line: int) -> Record:
    """A row of a table as a record; a row of another length is refused."""
    if len(cells) != len(header):
        raise MeasurementError(
            f"{path}:{line}: {len(cells)} fields given, the header has {len(header)}: truncated?"
        )
    return Record(dict(zip(header, cells, strict=True)), path, str(line))


def mixed(where: str, given: object, before: object, what: str) -> MeasurementError:
    """The error for a file that holds two of what it may hold one of."""
    return MeasurementError(
        f"{where}: given {given!r}, but {before!r} before; allowed: one {what} a file: split it."
    )
