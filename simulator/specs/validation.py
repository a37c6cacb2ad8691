"""TOML and dictionaries into pydantic models with one clear error; it does not know what the models mean."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from simulator.errors import DraftscopeError, nearest

Model = TypeVar("Model", bound=BaseModel)


def validated(model: type[Model], data: Mapping[str, Any], *, where: str) -> Model:
    """Build ``model`` from ``data``; errors name file, dotted key, what was given, what is allowed.

    Raises
    ------
    DraftscopeError
        On the first thing that is wrong.
    """
    try:
        return model.model_validate(dict(data))
    except ValidationError as error:
        found = error.errors(include_url=False)
        first = next((each for each in found if each["type"] == "extra_forbidden"), found[0])
        key = ".".join(str(part) for part in first["loc"])
        place = f"{where}: {key}" if key else where
        if first["type"] == "extra_forbidden":
            names = allowed_keys(model, first["loc"][:-1])
            guess = nearest(str(first["loc"][-1]), names)
            hint = f" Did you mean {guess!r}?" if guess else ""
            raise DraftscopeError(
                f"{place}: unknown key.{hint} Allowed: {', '.join(sorted(names))}."
            ) from None
        if first["type"] == "missing":
            raise DraftscopeError(f"{place}: missing, and required.") from None
        message = first["msg"].removeprefix("Value error, ")
        if not key:
            raise DraftscopeError(f"{place}: {message}") from None
        raise DraftscopeError(f"{place}: {first['input']!r} given; {message}.".replace("..", ".")) from None


def allowed_keys(model: type[BaseModel], path: Iterable[int | str]) -> list[str]:
    """Keys of the model that ``path`` of a validation error points into."""
    current: Any = model
    for part in path:
        field = current.model_fields.get(part) if hasattr(current, "model_fields") else None
        if field is None:
            continue
        candidates = [field.annotation, *getattr(field.annotation, "__args__", ())]
        current = next((c for c in candidates if hasattr(c, "model_fields")), current)
    return list(current.model_fields)


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Read one TOML file.

    Raises
    ------
    DraftscopeError
        Missing, unreadable or malformed file.
    """
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except (OSError, UnicodeDecodeError) as error:
        raise DraftscopeError(f"{path}: {what} cannot be read ({error}).") from None
    except tomllib.TOMLDecodeError as error:
        raise DraftscopeError(f"{path}: {what} is not valid TOML ({error}).") from None
