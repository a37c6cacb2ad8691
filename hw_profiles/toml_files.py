"""Reads TOML text and files. Knows no schema."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from hw_profiles.errors import ProfileError


def read_user_file(path: Path) -> tuple[str, str]:
    """Return name and text of a caller's file.

    Raises
    ------
    ProfileError
        If there is no such file, or it is no UTF-8 text.
    """
    if path.is_dir():
        raise ProfileError(f"{path}: is a folder; needed: a readable .toml profile.")
    if not path.is_file():
        raise ProfileError(f"{path}: no such file; needed: a readable .toml profile.")
    try:
        return str(path), path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(f"{path}: cannot be read as UTF-8 text ({error}).") from error


def parse_toml(where: str, text: str) -> dict[str, Any]:
    """Parse a profile's text; an error names the file, `where`."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(f"{where}: is not valid TOML: {error}.") from error


def to_tuples(item: Any) -> Any:
    """Turn TOML's lists into tuples, so that profiles cannot be changed."""
    if isinstance(item, dict):
        return {key: to_tuples(value) for key, value in item.items()}
    if isinstance(item, list):
        return tuple(to_tuples(value) for value in item)
    return item
