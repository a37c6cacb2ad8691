"""llama-bench: JSON, JSONL, CSV and markdown; it does not know llama.cpp's server.

``pp w`` is one pass of w rows (of which only the last needs the LM head), ``tg n`` the mean of n passes of
one row over a growing context, ``@ d`` a prefilled context.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from simulator.adapters.fields import Record, Source, agree, json_records, mixed, number
from simulator.adapters.fields import row as table_row
from simulator.adapters.observations import MeasurementError, Observations, PassTime, PrefillTime

LARGEST_WIDTH = 16
"""Prompts of up to so many tokens are one pass of that width; longer ones are prefill."""

_OF_A_TEST = frozenset(
    {"n_prompt", "n_gen", "n_depth", "test_time", "avg_ns", "stddev_ns", "avg_ts", "stddev_ts", "samples_ns",
     "samples_ts", "test", "t/s"}
)  # fmt: skip
_TELLING = ("avg_ns", "avg_ts", "n_prompt", "n_gen", "model_type")
_HEADER = re.compile(r"^\s*\|\s*model\s*\|.*\|\s*t/s\s*\|\s*$", re.MULTILINE)
_TEST = re.compile(r"(?:(pp|tg)\s?(\d{1,9})|pp\s?\d+\s?\+\s?tg\s?\d+)(?: @ d(\d{1,9}))?")
_RATE = re.compile(r"(\S+)\s*(?:±|\+/-)\s*(\S+)")
_SIZE = re.compile(r"(\S+)\s*(B|KiB|MiB|GiB|TiB)")
_BYTES = {"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}
_BUILD = re.compile(r"^\s*build: (\S+)", re.MULTILINE)


def recognised(source: Source) -> bool:
    """Whether llama-bench wrote the file."""
    text = source.decoded
    return text is not None and (bool(_HEADER.search(text)) or sum(name in text for name in _TELLING) >= 3)


@dataclass(frozen=True)
class _Test:
    """One row: so many tokens at once or one by one, and the time of all of them."""

    record: Record
    prompt: int
    generated: int
    depth: int
    seconds: float
    deviation_s: float | None
    repetitions: int | None
    batch: float = math.inf


def read(source: Source) -> Observations:
    """Read any of the four formats."""
    if _HEADER.search(source.text):
        tests = _markdown(source)
    elif source.text.lstrip().startswith(("[", "{")):
        tests = [_machine_row(record) for record in json_records(source)]
    else:
        tests = [_machine_row(record) for record in _csv(source)]
    if not tests:
        raise MeasurementError(f"{source.path}: no row of a test: truncated?")
    _same_setting([test.record for test in tests])
    passes, prefills, ignored = [], [], []
    for test in tests:
        if test.prompt and test.generated:
            ignored.append(f"{test.record.where}: prompt and generation share one time")
        elif test.generated:
            passes.append(_plain(test))
        elif test.prompt > LARGEST_WIDTH:
            prefills.append(
                PrefillTime(tokens=test.prompt, seconds=test.seconds, stderr_s=_stderr(test),
                            context=test.depth, where=test.record.where)
            )  # fmt: skip
        elif test.prompt > test.batch:
            ignored.append(f"{test.record.where}: {test.prompt} tokens in batches of {test.batch:g}")
        else:
            passes.append(
                PassTime(width=test.prompt, context=test.depth, seconds=test.seconds, stderr_s=_stderr(test),
                         passes=test.repetitions or 1, where=test.record.where)
            )  # fmt: skip
    first = tests[0].record
    size = first.values.get("size")
    return Observations(
        source=source.path,
        format="llama_bench",
        device=first.text("gpu_info") or first.text("cpu_info"),
        runtime=_runtime(source, first),
        model=first.text("model_type") or first.text("model"),
        weight_bytes=_bytes(str(size), first) if size else first.optional("model_size", above=True),
        passes=tuple(passes),
        prefills=tuple(prefills),
        ignored=tuple(ignored),
    )


def _plain(test: _Test) -> PassTime:
    error = _stderr(test)
    return PassTime(
        width=1,
        context=test.depth + (test.generated - 1) / 2,
        seconds=test.seconds / test.generated,
        stderr_s=None if error is None else error / test.generated,
        passes=test.generated * (test.repetitions or 1),
        where=test.record.where,
    )


def _stderr(test: _Test) -> float | None:
    """Standard error; where repetitions are not given, the deviation of one, which is at least as large."""
    if not test.deviation_s or test.repetitions == 1:
        return None
    return test.deviation_s / math.sqrt(test.repetitions or 1)


def _runtime(source: Source, record: Record) -> str:
    build = record.text("build_commit")
    if build is None and (found := _BUILD.search(source.text)):
        build = found[1]
    parts = ("llama.cpp", build, record.text("backends") or record.text("backend"))
    return " ".join(part for part in parts if part)


def _same_setting(records: Sequence[Record]) -> None:
    """Refuse rows of two models or two settings: one file is one v(w) curve."""
    first = records[0]
    for record in records[1:]:
        for name in sorted(first.values.keys() | record.values.keys()):
            if name not in _OF_A_TEST and record.values.get(name) != first.values.get(name):
                given, before = record.values.get(name), first.values.get(name)
                raise mixed(record.at(name), given, before, "model and one setting")


# ------------------------------------------------------------------------------------- JSON, JSONL, CSV
def _machine_row(record: Record) -> _Test:
    nanoseconds = record.number("avg_ns", above=True)
    deviation = record.number("stddev_ns")
    prompt, generated = (int(record.number(name, whole=True)) for name in ("n_prompt", "n_gen"))
    if not prompt and not generated:
        raise MeasurementError(f"{record.at('n_prompt')}: given 0, and n_gen is 0: nothing was measured.")
    repetitions = None
    if record.has("samples_ns"):
        samples = record.numbers("samples_ns")
        repetitions = len(samples)
        agree(nanoseconds, sum(samples) / len(samples), record.at("avg_ns"), "the mean of samples_ns", 1e-3)
    spread = deviation / nanoseconds
    agree(
        record.number("avg_ts", above=True),
        (prompt + generated) / (nanoseconds * 1e-9),
        record.at("avg_ts"),
        "tokens by avg_ns",
        0.02 + 3 * spread**2,
    )
    batch = min(record.optional(name, least=1, whole=True) or math.inf for name in ("n_batch", "n_ubatch"))
    depth = int(record.optional("n_depth", whole=True) or 0)
    return _Test(record, prompt, generated, depth, nanoseconds * 1e-9, deviation * 1e-9, repetitions, batch)


def _csv(source: Source) -> list[Record]:
    reader = csv.reader(source.lines, strict=True)
    records: list[Record] = []
    header: list[str] | None = None
    try:
        for cells in reader:
            if header is None:
                header = cells or None
            elif cells:
                records.append(table_row(header, cells, source.path, reader.line_num))
    except csv.Error as error:
        raise MeasurementError(f"{source.path}:{reader.line_num}: not CSV: {error}.") from None
    return records


# --------------------------------------------------------------------------------------------- markdown
def _markdown(source: Source) -> list[_Test]:
    header: list[str] | None = None
    tests = []
    for line_number, line in enumerate(source.lines, 1):
        text = line.strip()
        if not text.startswith("|"):
            continue
        cells = [cell.strip() for cell in text.strip("|").split("|")]
        if cells[-1] == "t/s":
            header = cells
        elif header is not None and set(text) - set("|-: "):
            record = table_row(header, cells if text.endswith("|") else cells[:-1], source.path, line_number)
            tests.append(_markdown_row(record))
    return tests


def _markdown_row(record: Record) -> _Test:
    what = _TEST.fullmatch(record.text("test") or "")
    if what is None:
        given = record.text("test")
        raise MeasurementError(
            f"{record.at('test')}: given {given!r}, allowed: pp512, tg128 or pp512+tg128, '@ d512' behind."
        )
    rate = _RATE.fullmatch(record.text("t/s") or "")
    if rate is None:
        given = record.text("t/s")
        raise MeasurementError(f"{record.at('t/s')}: given {given!r}, allowed: tokens/s ± deviation.")
    mean = number(rate[1], record.at("t/s"), above=True)
    deviation = number(rate[2], record.at("t/s"))
    tokens = int(what[2] or 0)
    prompt, generated = (tokens, 0) if what[1] == "pp" else (0, tokens)
    if what[1] is None:
        prompt = generated = 1
    elif tokens == 0:
        raise MeasurementError(f"{record.at('test')}: given {what[0]!r}, allowed: at least one token.")
    seconds = max(tokens, 1) / mean
    batch = min(record.optional(name, least=1, whole=True) or math.inf for name in ("n_batch", "n_ubatch"))
    return _Test(
        record, prompt, generated, int(what[3] or 0), seconds, seconds * deviation / mean, None, batch
    )


def _bytes(text: str, record: Record) -> float:
    found = _SIZE.fullmatch(text)
    if found is None:
        raise MeasurementError(f"{record.at('size')}: given {text!r}, allowed: a size such as 4.36 GiB.")
    return number(found[1], record.at("size"), above=True) * _BYTES[found[2]]
