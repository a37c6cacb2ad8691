"""Turns a schema error into one sentence: file, dotted key, what was given, what is allowed, nearest name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from hw_profiles.errors import nearest

_WORDS = {
    "float_type": "a number",
    "int_type": "a whole number",
    "string_type": "text in quotes",
    "bool_type": "true or false",
    "dict_type": "a table",
    "model_type": "a table with value, unit, kind and source",
    "tuple_type": "a list",
    "finite_number": "a finite number",
}


def explain(
    error: ValidationError, model: type[BaseModel], where: str, own: Mapping[str, Any], base_where: str
) -> str:
    """Describe every fault that pydantic found, one line each.

    Parameters
    ----------
    error : ValidationError
        What pydantic raised.
    model : type of BaseModel
        The schema that was read.
    where : str
        The profile's file.
    own : mapping
        What the profile's own file holds; faults elsewhere come from the file it builds on.
    base_where : str
        That file.

    Returns
    -------
    str
        The message.
    """
    lines = []
    for detail in error.errors(include_url=False):
        loc = tuple(part for part in detail["loc"] if part != "[key]")
        file = where if not loc or _stands_in(own, loc) else base_where
        lines.append(f"{file}:{dotted(loc) or '(whole file)'}: {_sentence(detail, model, loc)}")
    return "\n".join(lines)


def dotted(loc: tuple[int | str, ...]) -> str:
    """Write a location as a dotted key with list positions in brackets."""
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else part)
    return text


def _sentence(detail: ErrorDetails, model: type[BaseModel], loc: tuple[int | str, ...]) -> str:
    kind, given = detail["type"], detail["input"]
    context = detail.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_key(str(loc[-1]), _keys_at(model, loc[:-1]))
    if kind == "missing":
        return f"is missing; needed: {loc[-1]}."
    if kind == "literal_error":
        allowed = [
            word.strip().strip("'")
            for word in str(context.get("expected", "")).replace(" or ", ", ").split(",")
        ]
        close = nearest(str(given), allowed)
        hint = f" Did you mean {close!r}?" if close else ""
        return f"given {given!r}; allowed: {', '.join(allowed)}.{hint}"
    if kind in ("greater_than", "greater_than_equal", "less_than", "less_than_equal"):
        sign = {"greater_than": ">", "greater_than_equal": ">=", "less_than": "<", "less_than_equal": "<="}[
            kind
        ]
        limit = context.get("gt", context.get("ge", context.get("lt", context.get("le"))))
        what = (
            "a negative number" if isinstance(given, (int, float)) and given < 0 else "a number out of range"
        )
        return f"given {given!r}, {what}; allowed: a number {sign} {limit:g}."
    if kind == "value_error":
        return f"{detail['msg'].removeprefix('Value error, ')}."
    shown = "a table" if isinstance(given, dict) else repr(given)
    if isinstance(given, float) and not math.isfinite(given):
        return f"given {given!r}; allowed: a finite number."
    return f"given {shown}; allowed: {_WORDS.get(kind, detail['msg'])}."


def _unknown_key(given: str, allowed: list[str]) -> str:
    close = nearest(given, allowed)
    hint = f" Did you mean {close!r}?" if close else ""
    return f"unknown key {given!r}.{hint} Allowed: {', '.join(sorted(allowed))}."


def _keys_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> list[str]:
    here: Any = model
    for part in loc:
        here = _step(here, part)
    found = _model_in(here)
    if found is None:
        return []
    names = [name for name in found.model_fields if name != "id"]
    return names if loc else [*names, "base"]


def _step(annotation: Any, part: int | str) -> Any:
    found = _model_in(annotation)
    if found is not None and isinstance(part, str) and part in found.model_fields:
        return found.model_fields[part].annotation
    for inner in _spread(annotation):
        if get_origin(inner) is dict:
            return get_args(inner)[1]
        if get_origin(inner) is tuple:
            return get_args(inner)[0]
    return None


def _model_in(annotation: Any) -> type[BaseModel] | None:
    for inner in _spread(annotation):
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            return inner
    return None


def _spread(annotation: Any) -> list[Any]:
    """Return the annotation's alternatives, looking through Optional and Annotated."""
    if isinstance(annotation, type) or get_origin(annotation) in (dict, tuple):
        return [annotation]
    return [deeper for inner in get_args(annotation) for deeper in _spread(inner)]


def _stands_in(own: Mapping[str, Any], loc: tuple[int | str, ...]) -> bool:
    """Say whether the table that holds the faulty key was written in the profile's own file."""
    here: Any = own
    for depth, part in enumerate(loc):
        in_table = isinstance(here, Mapping) and part in here
        in_list = isinstance(here, list) and isinstance(part, int) and part < len(here)
        if in_table or in_list:
            here = here[part]
        else:
            return depth == len(loc) - 1
    return True
