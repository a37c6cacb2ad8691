"""Tables of llama-batched-bench, markdown or JSONL; it does not know the server.

``B`` sequences take one token each in a pass of B rows. The weights are read once, as in a verify pass of
width B, but every row reads a KV cache of its own.
"""

from __future__ import annotations

import re

from simulator.adapters.fields import Record, Source, json_records, row
from simulator.adapters.observations import MeasurementError, Observations, PassTime, PrefillTime

_HEADER = re.compile(r"^\s*\|\s*PP\s*\|\s*TG\s*\|\s*B\s*\|\s*N_KV\s*\|", re.MULTILINE)
_NAMES = {
    "PP": "pp", "TG": "tg", "B": "pl", "N_KV": "n_kv", "T_PP s": "t_pp", "S_PP t/s": "speed_pp",
    "T_TG s": "t_tg", "S_TG t/s": "speed_tg", "T s": "t", "S t/s": "speed",
}  # fmt: skip
_SHARED = re.compile(r"is_pp_shared = (\d)")


def recognised(source: Source) -> bool:
    """Whether llama-batched-bench wrote the file."""
    text = source.decoded
    return text is not None and (
        bool(_HEADER.search(text)) or ('"pl"' in text and ('"t_tg"' in text or '"speed_tg"' in text))
    )


def read(source: Source) -> Observations:
    """Read one table."""
    table = _HEADER.search(source.text) is not None
    records = _rows(source) if table else _objects(source)
    if not records:
        raise MeasurementError(f"{source.path}: no row under the header of the table: truncated?")
    found = _SHARED.search(source.text)
    passes, prefills, ignored = [], [], []
    for record in records:
        prompt, generated, width = (
            int(record.number(name, least=least, whole=True))
            for name, least in (("pp", 0), ("tg", 0), ("pl", 1))
        )
        shared = (found is not None and found[1] == "1") or bool(record.optional("is_pp_shared"))
        if generated:
            seconds = record.number("t_tg", above=True)
            _check(record, "speed_tg", width * generated, seconds, rounded=table)
            passes.append(
                PassTime(width=width, context=prompt + (generated - 1) / 2, seconds=seconds / generated,
                         passes=generated, where=record.where)
            )  # fmt: skip
        if prompt:
            seconds = record.number("t_pp", above=True)
            _check(record, "speed_pp", prompt * (1 if shared else width), seconds, rounded=table)
            if width == 1 or shared:
                prefills.append(PrefillTime(tokens=prompt, seconds=seconds, where=record.where))
            else:
                ignored.append(f"{record.where}: prefill of {width} prompts at once")
    return Observations(
        source=source.path,
        format="llama_server",
        runtime="llama.cpp",
        passes=tuple(passes),
        prefills=tuple(prefills),
        ignored=tuple(ignored),
    )


def _check(record: Record, name: str, tokens: int, seconds: float, *, rounded: bool) -> None:
    """Refuse a rate that contradicts tokens and time; a table rounds to 1 ms and 0.01 t/s."""
    rate = record.number(name, above=True)
    tolerance = 1e-3 * rate + (0.01 + rate * 0.001 / seconds if rounded else 0.0)
    if abs(rate - tokens / seconds) > tolerance:
        raise MeasurementError(
            f"{record.at(name)}: given {rate:g}, but {tokens} tokens in {seconds:g} s are "
            f"{tokens / seconds:g}: a damaged value, or another unit."
        )


def _objects(source: Source) -> list[Record]:
    lines = "\n".join(line if line.lstrip().startswith("{") else "" for line in source.lines)
    return json_records(Source(source.path, lines.encode()))


def _rows(source: Source) -> list[Record]:
    header: list[str] | None = None
    records = []
    for line_number, line in enumerate(source.lines, 1):
        text = line.strip()
        if not text.startswith("|"):
            continue
        cells = [cell.strip() for cell in text.strip("|").split("|")]
        if cells[0] == "PP":
            header = [_NAMES.get(name, name) for name in cells]
            for name in _NAMES:
                if name not in cells:
                    raise MeasurementError(f"{source.path}:{line_number}: column {name!r} is missing.")
        elif header is not None and set(text) - set("|-: "):
            records.append(row(header, cells if text.endswith("|") else cells[:-1], source.path, line_number))
    return records
