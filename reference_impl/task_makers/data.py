"""Reads the packed data files of the task classes and splits them by source document; knows no task."""

from __future__ import annotations

import gzip
import json
import lzma
import tomllib
import zlib
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any

from reference_impl.task_makers.grammar import TEST_EVERY


def _raw(name: str) -> bytes:
    return resources.files("reference_impl").joinpath(f"task_data/{name}").read_bytes()


@cache
def templates(name: str) -> dict[str, list[str]]:
    """Return the lists of a TOML template file."""
    tables: dict[str, list[str]] = tomllib.loads(_raw(name).decode("utf-8"))
    return tables


def rows(name: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON rows of a ``.jsonl.gz`` or ``.jsonl.xz`` file."""
    raw = _raw(name)
    text = lzma.decompress(raw) if name.endswith(".xz") else gzip.decompress(raw)
    for line in text.decode("utf-8").splitlines():
        if line:
            yield json.loads(line)


def in_split(key: str, split: str) -> bool:
    """Return whether a source document belongs to a split; one rule for every file, so splits never leak."""
    return (zlib.crc32(key.encode("utf-8")) % TEST_EVERY == 0) == (split == "test")


@cache
def texts(name: str, split: str) -> tuple[str, ...]:
    """Return the texts of the source documents of a split."""
    return tuple(row["text"] for row in rows(name) if in_split(row["key"], split))
