"""LiteRT-LM's metrics proto, binary or as ``protoc --decode`` prints it; it does not know what a pass is.

``LitertLmMetricsList`` of LiteRT-LM's ``runtime/proto/litert_lm_metrics.proto``::

    LitertLmMetricsList: repeated LitertLmMetrics metrics = 1
    LitertLmMetrics: BenchmarkParams benchmark_params = 1; repeated BenchmarkTurnData prefill_turns = 4,
        decode_turns = 5, text_to_token_ids_turns = 6; double time_to_first_token_seconds = 7
    BenchmarkTurnData: int64 duration_us = 1, num_tokens = 2; double tokens_per_second = 3
    BenchmarkParams: int32 num_prefill_tokens = 1, num_decode_tokens = 2

Init phases and memory (2, 3, 8, 9) are not times of passes and are skipped, as are fields added later.
"""

from __future__ import annotations

from dataclasses import dataclass

from simulator.adapters import protobuf
from simulator.adapters.fields import Record, Source, agree, number
from simulator.adapters.observations import MeasurementError

_TURN = {1: "duration_us", 2: "num_tokens", 3: "tokens_per_second"}
_PARAMS = {1: "num_prefill_tokens", 2: "num_decode_tokens"}
_TURNS = {4: "prefill_turns", 5: "decode_turns"}
_SKIPPED = {
    "init_phase_durations_us", "mark_durations_us", "text_to_token_ids_turns", "time_to_first_token_seconds",
    "peak_mem_mb", "peak_private_mb",
}  # fmt: skip


@dataclass(frozen=True)
class Turn:
    """Tokens of one turn and the time for all of them."""

    tokens: int
    seconds: float
    where: str


@dataclass(frozen=True)
class Session:
    """Turns of one engine run, in the order in which they are kept: all prefills, all decodes."""

    prefills: list[Turn]
    decodes: list[Turn]


def is_binary(source: Source) -> bool:
    """Whether the bytes may be a list of metrics: field 1 first, and no text or named ``.pb``."""
    return source.data[:1] == b"\x0a" and (source.decoded is None or source.path.endswith(".pb"))


def is_text(source: Source) -> bool:
    """Whether the text may be one."""
    text = source.decoded
    return text is not None and "metrics {" in text and ("_turns {" in text or "benchmark_params {" in text)


def read(source: Source) -> list[Session]:
    """Sessions of the file."""
    sessions = _binary(source) if is_binary(source) else _text(source)
    if not sessions:
        raise MeasurementError(f"{source.path}: field 'metrics' is missing: no session.")
    return sessions


def _binary(source: Source) -> list[Session]:
    path = source.path
    sessions = []
    for field in protobuf.fields(source.data, path):
        if field.number != 1:
            raise MeasurementError(
                f"{path}:byte {field.offset}: field {field.number} given, allowed: 1 ('metrics')."
            )
        params: dict[str, float] = {}
        turns: dict[str, list[Record]] = {name: [] for name in _TURNS.values()}
        for inner in protobuf.message(field, path, "metrics"):
            if inner.number == 1:
                for entry in protobuf.message(inner, path, "benchmark_params"):
                    if name := _PARAMS.get(entry.number):
                        params[name] = protobuf.integer(entry, path, name)
            elif name := _TURNS.get(inner.number):
                values: dict[str, float] = {}
                for entry in protobuf.message(inner, path, name):
                    if entry.number == 3:
                        values[_TURN[3]] = protobuf.real(entry, path, _TURN[3])
                    elif entry.number in _TURN:
                        values[_TURN[entry.number]] = protobuf.integer(entry, path, _TURN[entry.number])
                turns[name].append(Record(values, path, f"byte {inner.offset}"))
        sessions.append(_session(turns, params))
    return sessions


def _text(source: Source) -> list[Session]:
    path = source.path
    sessions = []
    for entry in protobuf.text_entries(source.text, path):
        if entry.name != "metrics" or isinstance(entry.value, str):
            raise MeasurementError(f"{path}:{entry.line}: field {entry.name!r} given, allowed: 'metrics'.")
        params: dict[str, float] = {}
        turns: dict[str, list[Record]] = {name: [] for name in _TURNS.values()}
        for inner in entry.value:
            if inner.name == "benchmark_params" and not isinstance(inner.value, str):
                record = _record(inner.value, path, inner.line, list(_PARAMS.values()))
                params = {name: record.number(name, whole=True) for name in record.values}
            elif inner.name in turns and not isinstance(inner.value, str):
                turns[inner.name].append(_record(inner.value, path, inner.line, list(_TURN.values())))
            elif inner.name not in _SKIPPED:
                known = ", ".join([*turns, "benchmark_params", *sorted(_SKIPPED)])
                raise MeasurementError(f"{path}:{inner.line}: field {inner.name!r}; allowed: {known}.")
        sessions.append(_session(turns, params))
    return sessions


def _record(entries: list[protobuf.Entry], path: str, line: int, known: list[str]) -> Record:
    for entry in entries:
        if entry.name not in known or not isinstance(entry.value, str):
            raise MeasurementError(f"{path}:{entry.line}: field {entry.name!r}; allowed: {', '.join(known)}.")
    values = {entry.name: entry.value for entry in entries}
    return Record(values, path, str(line), {entry.name: str(entry.line) for entry in entries})


def _session(turns: dict[str, list[Record]], params: dict[str, float]) -> Session:
    prefills = [_turn(record, params.get("num_prefill_tokens")) for record in turns["prefill_turns"]]
    decodes = [_turn(record, params.get("num_decode_tokens")) for record in turns["decode_turns"]]
    return Session(prefills, decodes)


def _turn(record: Record, configured: float | None) -> Turn:
    """Tokens and time of a turn; zeros are not written, so what is missing comes from the other fields."""
    tokens = record.optional("num_tokens", least=1, whole=True) or configured
    if not tokens:
        raise MeasurementError(f"{record.at('num_tokens')} is missing, and so is benchmark_params.")
    tokens = number(tokens, record.at("num_tokens"), least=1, whole=True)
    rate = record.optional("tokens_per_second", above=True)
    if not record.has("duration_us"):
        if rate is None:
            raise MeasurementError(f"{record.at('duration_us')} is missing, and so is 'tokens_per_second'.")
        return Turn(int(tokens), tokens / rate, record.where)
    seconds = record.number("duration_us", above=True, whole=True) / 1e6
    if rate is not None:
        agree(rate, tokens / seconds, record.at("tokens_per_second"), "num_tokens by duration_us")
    return Turn(int(tokens), seconds, record.where)
