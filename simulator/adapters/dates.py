"""When a result was measured; it does not know what was."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path

from simulator.adapters.fields import Source

_TEST_TIME = re.compile(r'"?test_time"?\s*:\s*"?(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)')


def measured_at(path: str | os.PathLike[str]) -> tuple[datetime, str]:
    """Date of a measurement, and how it is known.

    Parameters
    ----------
    path : path
        File; the first ``test_time`` of llama-bench counts, else the date of the file.
    """
    text = Source.read(path).decoded or ""
    stated = []
    for each in _TEST_TIME.findall(text):
        try:
            stated.append(datetime.strptime(each, "%Y-%m-%dT%H:%M:%S%z"))
        except ValueError:
            continue
    if stated:
        return min(stated), "its test_time"
    return datetime.fromtimestamp(Path(path).stat().st_mtime, UTC), "the date of the file"
