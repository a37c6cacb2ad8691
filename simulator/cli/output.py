"""Records as md, csv, json or jsonl, to stdout or atomically to a file; it does not know what they mean."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from simulator.errors import UnknownNameError
from simulator.files import check_target, whole_file

FORMATS = ("md", "csv", "json", "jsonl")
Record = Mapping[str, Any]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Output:
    """Where the data go, and in which format."""

    output: Annotated[str, Parameter(name=["--output", "-o"], show_default=False)] = ""
    """Format: md, csv, json or jsonl; where omitted, that of the ending of --out, or md."""
    out: str | None = None
    """File instead of stdout; written whole or not at all."""

    def __post_init__(self) -> None:
        ending = Path(self.out or "").suffix.removeprefix(".")
        if not self.output:
            object.__setattr__(self, "output", ending if ending in FORMATS else "md")

    def check(self) -> None:
        """Refuse an unknown format, and a target that is no file, before anything is computed."""
        if self.output not in FORMATS:
            raise UnknownNameError("--output", self.output, FORMATS)
        if self.out is not None:
            check_target(self.out, where="--out ")

    def emit(
        self,
        records: Sequence[Record],
        *,
        command: str,
        markdown: Callable[[], str],
        notes: Iterable[str] = (),
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Write records.

        Parameters
        ----------
        records : sequence of mapping
            Rows, keys in order.
        command : str
            For the JSON document.
        markdown : callable
            The text for people.
        notes : iterable of str
            What a reader must know; in JSON beside the rows.
        extra : mapping, optional
            Further members of the JSON document.
        """
        self.check()
        if self.output == "json":
            from simulator.results.version import version

            document = {"command": command, "version": version(), **(extra or {}),
                        "rows": [_plain(record) for record in records], "notes": list(notes)}  # fmt: skip
            text = json.dumps(document, indent=2, allow_nan=False) + "\n"
        elif self.output == "jsonl":
            text = "".join(json.dumps(_plain(record), allow_nan=False) + "\n" for record in records)
        elif self.output == "csv":
            text = _csv(records)
        else:
            text = markdown()
            text += "" if text.endswith("\n") else "\n"
        self.write(text)

    def write(self, text: str) -> None:
        """Write text to the file, or to stdout."""
        if self.out is None:
            if sys.stdout is not None:  # None where the caller closed it: nobody reads
                sys.stdout.write(text)
            return
        write_file(Path(self.out), text)
        say(f"wrote {self.out}")


DEFAULT = Output()
"""Markdown to stdout."""


def write_file(path: Path, text: str) -> None:
    """Write a text file through a temporary file in the same folder."""
    with whole_file(path, where="--out ") as partial:
        partial.write_text(text, encoding="utf-8")


def say(message: str) -> None:
    """Progress and warnings: one line on stderr."""
    print(message, file=sys.stderr, flush=True)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _csv(records: Sequence[Record]) -> str:
    keys = list(dict.fromkeys(key for record in records for key in record))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(keys)
    for record in records:
        writer.writerow([_cell(_plain(record.get(key))) for key in keys])
    return text.getvalue()


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    return json.dumps(value) if isinstance(value, (list, dict)) else value


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> str:
    """A Markdown table with padded columns, readable as plain text too.

    Parameters
    ----------
    head : sequence of str
        Column titles.
    rows : iterable of sequence of str
        Cells.
    left : int
        Columns aligned to the left; the others are numbers.
    """
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in (head, *rows)]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(head))]

    def line(row: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "| " + " | ".join(padded) + " |"

    rule = ["-" * width if i < left else "-" * (width - 1) + ":" for i, width in enumerate(widths)]
    return "\n".join([line(cells[0]), line(rule), *(line(row) for row in cells[1:])]) + "\n"


def interval(value: float | None, low: float | None, high: float | None, digits: int = 2) -> str:
    """``1.43 [1.20..1.61]``, without brackets where no range is known."""
    if value is None:
        return "-"
    if low is None or high is None:
        return f"{value:.{digits}f}"
    return f"{value:.{digits}f} [{low:.{digits}f}..{high:.{digits}f}]"
