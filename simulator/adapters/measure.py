"""The file of ``draftscope measure``: one `Observations` as JSON; it does not know how to measure."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

from simulator.adapters.fields import Record, Source, json_records, number
from simulator.adapters.observations import (
    FORMATS,
    DraftPassTime,
    MeasurementError,
    Observations,
    PassTime,
    PrefillTime,
    SpeculativeRun,
)
from simulator.errors import UnknownNameError, nearest
from simulator.files import whole_file

SCHEMA_VERSION = 1
_CONTENT = "draftscope measurement"
_PARTS: dict[str, type[PassTime] | type[PrefillTime] | type[SpeculativeRun]] = {
    "passes": PassTime,
    "draft_passes": DraftPassTime,
    "prefills": PrefillTime,
    "runs": SpeculativeRun,
}
_TEXT = frozenset({"source", "format", "device", "runtime", "model", "where", "drafter", "task"})
_WHOLE = frozenset({"passes", "draft_length"})
_HEAD = ("schema_version", "content")


def recognised(source: Source) -> bool:
    """Whether `write_observations` wrote the file."""
    text = source.decoded
    return text is not None and text.lstrip().startswith("{") and f'"{_CONTENT}"' in text


def write_observations(path: str | os.PathLike[str], observations: Observations) -> Path:
    """Write observations so that `read_observations` gives back the same.

    Parameters
    ----------
    path : path
        File; written whole or not at all.
    observations : Observations
        What was measured.

    Returns
    -------
    Path
        The file.
    """
    data = {"schema_version": SCHEMA_VERSION, "content": _CONTENT, **dataclasses.asdict(observations)}
    with whole_file(path, error=MeasurementError, make_folder=True) as partial:
        partial.write_text(json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False) + "\n", "utf-8")
    return Path(path)


def read(source: Source) -> Observations:
    """Read the file back."""
    records = json_records(source)
    if len(records) != 1:
        raise MeasurementError(f"{source.path}:{records[1].place}: a second object, allowed: one.")
    record = records[0]
    version = record.values.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise MeasurementError(
            f"{record.at('schema_version')}: given {version!r}, allowed: {SCHEMA_VERSION}."
        )
    if record.values.get("content") != _CONTENT:
        raise MeasurementError(f"{record.at('content')}: allowed: {_CONTENT!r}.")
    known = [field.name for field in dataclasses.fields(Observations)]
    _only(record, [*_HEAD, *known])
    values: dict[str, Any] = {
        name: _value(record, name)
        for name in known
        if name not in _PARTS and name != "ignored" and name in record.values
    }
    for name in ("source", "format"):
        if values.get(name) is None:
            raise MeasurementError(f"{record.at(name)} is missing.")
    if values["format"] not in FORMATS:
        raise UnknownNameError(record.at("format"), values["format"], FORMATS)
    ignored = record.values.get("ignored", [])
    if not isinstance(ignored, list) or not all(isinstance(reason, str) for reason in ignored):
        raise MeasurementError(f"{record.at('ignored')}: allowed: a list of texts.")
    values |= {name: _part(record, name) for name in _PARTS}
    return Observations(**values, ignored=tuple(ignored))


def _part(record: Record, name: str) -> tuple[Any, ...]:
    given = record.values.get(name, [])
    if not isinstance(given, list):
        raise MeasurementError(f"{record.at(name)}: allowed: a list of objects.")
    kind = _PARTS[name]
    found = []
    for position, entry in enumerate(given):
        place = f"{record.places.get(name, record.place)}: {name}[{position}]"
        if not isinstance(entry, dict):
            raise MeasurementError(f"{record.path}:{place}: allowed: an object.")
        row = Record(entry, record.path, place)
        fields = dataclasses.fields(kind)
        _only(row, [field.name for field in fields])
        for field in fields:
            if field.default is dataclasses.MISSING and entry.get(field.name) is None:
                raise MeasurementError(f"{row.at(field.name)} is missing.")
        try:
            found.append(kind(**{field: _value(row, field) for field in entry}))
        except MeasurementError as error:
            text = str(error)
            raise MeasurementError(text if text.startswith(record.path) else f"{row.where}: {text}") from None
    return tuple(found)


def _only(record: Record, known: list[str]) -> None:
    for name in record.values:
        if name not in known:
            close = nearest(name, known)
            hint = f"; nearest: {close!r}" if close else ""
            raise MeasurementError(f"{record.at(name)} is not known{hint}. Allowed: {', '.join(known)}.")


def _value(record: Record, name: str) -> Any:
    given = record.values[name]
    if given is None:
        return None
    if name in _TEXT:
        if not isinstance(given, str):
            raise MeasurementError(f"{record.at(name)}: given {given!r}, allowed: text.")
        return given
    if name == "per_position_acceptance_rate":
        if not isinstance(given, list):
            raise MeasurementError(f"{record.at(name)}: allowed: a list of numbers.")
        return tuple(number(value, record.at(name)) for value in given)
    if isinstance(given, str):
        raise MeasurementError(f"{record.at(name)}: given {given!r}, allowed: a number.")
    value = number(given, record.at(name), whole=name in _WHOLE)
    return int(value) if name in _WHOLE else value
