"""Reads the published measurements that the profiles rest on. Does not judge them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from hw_profiles.errors import ProfileError

CSV_FILES = ("decode.csv", "s26_ultra_mtp.csv")
"""Tables whose rows name a key of references.bib."""
JSON_FILES = (
    "energy.json",
    "latencies.json",
    "contention.json",
    "power_rails.json",
    "reference_devices.json",
)
"""Lists of mixed facts; each row names a key of references.bib."""
COLLECTED_FILES = ("speedups.csv",)
"""Collections whose rows carry the address of their source themselves."""


@cache
def rows(name: str) -> tuple[Mapping[str, str], ...]:
    """Return the rows of a packaged CSV file, all values as text (empty where the source does not say).

    Parameters
    ----------
    name : str
        One of `CSV_FILES` or `COLLECTED_FILES`.

    Returns
    -------
    tuple of mapping of str to str
        In file order.
    """
    if name not in CSV_FILES + COLLECTED_FILES:
        raise ProfileError(
            f"measurements: no table {name!r}; allowed: {', '.join(CSV_FILES + COLLECTED_FILES)}."
        )
    text = (files("hw_profiles") / "measurements" / name).read_text(encoding="utf-8")
    return tuple(MappingProxyType(row) for row in csv.DictReader(io.StringIO(text)))


@cache
def facts(name: str) -> tuple[Mapping[str, Any], ...]:
    """Return the rows of a packaged JSON list (one of `JSON_FILES`): id, what, value, unit, kind, source."""
    if name not in JSON_FILES:
        raise ProfileError(f"measurements: no list {name!r}; allowed: {', '.join(JSON_FILES)}.")
    text = (files("hw_profiles") / "measurements" / name).read_text(encoding="utf-8")
    return tuple(MappingProxyType(row) for row in json.loads(text)["rows"])


@cache
def decode_table() -> Mapping[str, Mapping[str, float]]:
    """Return the numeric columns of decode.csv by row id; a column that the source leaves out is absent."""
    columns = (
        "weight_bytes",
        "context",
        "prefill_tokens_per_s",
        "decode_tokens_per_s",
        "ttft_s",
        "ttft_full_context_s",
        "peak_ram_mb",
        "power_w",
        "energy_per_token_j",
    )
    return {row["id"]: {c: float(row[c]) for c in columns if row[c]} for row in rows("decode.csv")}
