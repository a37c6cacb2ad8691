"""LiteRT-LM: ``BenchmarkInfo`` of its binaries, output of ``litert-lm benchmark``, metrics proto.

A turn of prefill or decode with its tokens and time; whether a drafter ran is said by other lines of the log,
and by the proto not at all.
"""

from __future__ import annotations

import re

from simulator.adapters import litert_proto
from simulator.adapters.fields import Source, agree, matches, mixed, number
from simulator.adapters.litert_proto import Session, Turn
from simulator.adapters.observations import (
    MeasurementError,
    Observations,
    PassTime,
    PrefillTime,
    SpeculativeRun,
)

_BLOCK = re.compile(r"BenchmarkInfo:\s*$")
_TURN = re.compile(r"(Prefill|Decode) Turn (\d+): Processed (\S+) tokens in (\S+) duration")
_SPEED = re.compile(r"(Prefill|Decode) Speed: (\S+) (\S+?)\.?\s*$")
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:([\d.]+)(s|ms|us|ns))?")
_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_RESULT = re.compile(r"^(Prefill|Decode) speed:\s+(\S+)\s+(\S+)\s*$")
_TOKENS = re.compile(r"^Number of tokens in (prefill|decode)\s*:\s*(\S+)\s*$")
_MODEL = re.compile(r"^Benchmarking model:\s*(\S+)|--model_path=(\S+)")
_BACKEND = re.compile(r"^Backend\s*:\s*(\S+)|--backend=(\w+)")
_SPECULATIVE = re.compile(
    r"(?:^Speculative decoding\s*:\s*|enable_speculative_decoding[= ]+)(true|false|auto)"
)
_COUNT = re.compile(r"Num (drafted|verified) tokens: (\S+)")
_RATE = re.compile(r"(?:MTP Drafter - )?Success rate: (\S+)\s*$")


def recognised(source: Source) -> bool:
    """Whether LiteRT-LM wrote the file."""
    if litert_proto.is_binary(source) or litert_proto.is_text(source):
        return True
    text = source.decoded
    return text is not None and (
        "BenchmarkInfo:" in text or "----- Results -----" in text or bool(_TURN.search(text))
    )


def read(source: Source) -> Observations:
    """Read any of the forms."""
    if litert_proto.is_binary(source) or litert_proto.is_text(source):
        return _observations(source, litert_proto.read(source))
    if "----- Results -----" in source.text:
        sessions = _command(source)
    else:
        sessions = _blocks(source)
    return _observations(
        source, sessions, model=_one(source, _MODEL, "model"), backend=_one(source, _BACKEND, "backend")
    )


def _one(source: Source, pattern: re.Pattern[str], name: str) -> str | None:
    found: str | None = None
    for line, match in matches(source.lines, pattern):
        value = next(group for group in match.groups() if group)
        value = value.rsplit("/", 1)[-1] if name == "model" else value
        if found is not None and value != found:
            raise mixed(f"{source.path}:{line}: field {name!r}", value, found, name)
        found = value
    return found


def _observations(
    source: Source, sessions: list[Session], model: str | None = None, backend: str | None = None
) -> Observations:
    prefills, passes, ignored, decoded = [], [], [], []
    drafting = _drafting(source)
    for session in sessions:
        context = 0.0
        for prefill, decode in _in_order(session):
            if prefill is not None:
                prefills.append(
                    PrefillTime(tokens=prefill.tokens, seconds=prefill.seconds, context=context,
                                where=prefill.where)
                )  # fmt: skip
                context += prefill.tokens
            if decode is None:
                continue
            decoded.append(decode)
            if drafting == "auto":
                ignored.append(
                    f"{decode.where}: 'Speculative decoding: auto' does not say whether a drafter ran"
                )
            elif drafting == "false":
                passes.append(
                    PassTime(width=1, context=context + (decode.tokens - 1) / 2, passes=decode.tokens,
                             seconds=decode.seconds / decode.tokens, where=decode.where)
                )  # fmt: skip
            context += decode.tokens
    runs = [_run(source, decoded, ignored)] if drafting == "true" and decoded else []
    return Observations(
        source=source.path,
        format="litert_lm",
        runtime="LiteRT-LM" if backend is None else f"LiteRT-LM {backend}",
        model=model,
        passes=tuple(passes),
        prefills=tuple(prefills),
        runs=tuple(runs),
        ignored=tuple(ignored),
    )


def _in_order(session: Session) -> list[tuple[Turn | None, Turn | None]]:
    """Prefill and decode of each turn."""
    length = max(len(session.prefills), len(session.decodes))
    return [
        (
            session.prefills[at] if at < len(session.prefills) else None,
            session.decodes[at] if at < len(session.decodes) else None,
        )
        for at in range(length)
    ]


def _drafting(source: Source) -> str:
    """``"true"``, ``"false"`` or ``"auto"``; a drafter's own lines settle it, and silence means none."""
    if litert_proto.is_binary(source):
        return "false"
    if any(_RATE.search(line) or _COUNT.search(line) for line in source.lines):
        return "true"
    said = [match[1] for _, match in matches(source.lines, _SPECULATIVE)]
    if len(set(said)) > 1:
        line = next(at for at, match in matches(source.lines, _SPECULATIVE) if match[1] != said[0])
        raise MeasurementError(
            f"{source.path}:{line}: with and without speculative decoding: split the file."
        )
    return said[0] if said else "false"


def _run(source: Source, decoded: list[Turn], ignored: list[str]) -> SpeculativeRun:
    """All decode turns as one run: the drafter counts over its whole life."""
    counts: dict[str, float] = {}
    for line, match in matches(source.lines, _COUNT):
        counts[match[1]] = number(
            match[2], f"{source.path}:{line}: field 'Num {match[1]} tokens'", whole=True
        )
    for line, match in matches(source.lines, _RATE):
        rate = number(match[1], f"{source.path}:{line}: field 'Success rate'")
        if rate > 1:
            raise MeasurementError(
                f"{source.path}:{line}: field 'Success rate': given {rate:g}, allowed: 0..1."
            )
        if not counts:
            ignored.append(f"{source.path}:{line}: success rate {rate:g}: a ratio without counts")
    output = sum(turn.tokens for turn in decoded)
    steps = None
    if "verified" in counts and counts["verified"] < output:
        steps = output - counts["verified"]
    return SpeculativeRun(
        drafter="mtp",
        steps=steps,
        drafted_tokens=counts.get("drafted"),
        accepted_tokens=counts.get("verified"),
        output_tokens=output,
        decode_s=sum(turn.seconds for turn in decoded),
        where=decoded[0].where,
    )


def _blocks(source: Source) -> list[Session]:
    """Turns of every ``BenchmarkInfo`` block."""
    sessions: list[Session] = []
    turns: dict[str, list[Turn]] = {}
    last: tuple[str, Turn] | None = None
    for at, line in enumerate(source.lines, 1):
        if _BLOCK.search(line) or not sessions:
            turns = {"Prefill": [], "Decode": []}
            sessions.append(Session(turns["Prefill"], turns["Decode"]))
        where = f"{source.path}:{at}"
        if found := _TURN.search(line):
            tokens = number(found[3], f"{where}: field '{found[1]} Turn'", least=1, whole=True)
            turn = Turn(int(tokens), _duration(found[4], f"{where}: field 'duration'"), where)
            turns[found[1]].append(turn)
            last = (found[1], turn)
        elif found := _SPEED.search(line):
            if found[3] not in ("tokens/sec", "tokens/s"):
                raise MeasurementError(
                    f"{where}: field '{found[1]} Speed': given {found[3]!r}, allowed: 'tokens/sec'."
                )
            if last is None or last[0] != found[1]:
                raise MeasurementError(f"{where}: '{found[1]} Turn' is missing before '{found[1]} Speed'.")
            name = f"{where}: field '{found[1]} Speed'"
            rate = last[1].tokens / last[1].seconds
            agree(number(found[2], name), rate, name, "tokens by duration", rounding=0.005)
            last = None
    if last is not None:
        raise MeasurementError(f"{last[1].where}: '{last[0]} Speed' is missing behind the turn: truncated?")
    sessions = [session for session in sessions if session.prefills or session.decodes]
    if not sessions:
        raise MeasurementError(f"{source.path}: no line 'Prefill Turn 1: Processed N tokens in T duration'.")
    return sessions


def _duration(text: str, where: str) -> float:
    """Seconds of an absl duration such as ``764.48ms`` or ``1m2.5s``."""
    found = _DURATION.fullmatch(text)
    if found is None or not text:
        raise MeasurementError(f"{where}: given {text!r}, allowed: a duration such as 764.48ms or 1m2.5s.")
    seconds = 3600.0 * int(found[1] or 0) + 60.0 * int(found[2] or 0)
    if found[3]:
        seconds += number(found[3], where) * _UNITS[found[4]]
    return number(seconds, where, above=True)


def _command(source: Source) -> list[Session]:
    """Output of ``litert-lm benchmark``: speeds, and the tokens that they stand for."""
    tokens: dict[str, float] = {}
    speeds: dict[str, tuple[float, str]] = {}
    for at, line in enumerate(source.lines, 1):
        where = f"{source.path}:{at}"
        if found := _TOKENS.search(line):
            name = f"{where}: field 'Number of tokens in {found[1]}'"
            tokens[found[1]] = number(found[2], name, least=1, whole=True)
        elif found := _RESULT.search(line):
            name = f"{where}: field '{found[1]} speed'"
            if found[3] not in ("tokens/s", "tokens/sec"):
                raise MeasurementError(f"{name}: given {found[3]!r}, allowed: 'tokens/s'.")
            if found[1].lower() in speeds:
                raise MeasurementError(f"{name}: a second result; allowed: one run a file.")
            speeds[found[1].lower()] = (number(found[2], name, above=True), where)
    turns: dict[str, list[Turn]] = {}
    for name in ("prefill", "decode"):
        if name not in speeds:
            raise MeasurementError(f"{source.path}: '{name.capitalize()} speed' is missing: truncated?")
        if name not in tokens:
            raise MeasurementError(f"{source.path}: 'Number of tokens in {name}' is missing.")
        speed, where = speeds[name]
        turns[name] = [Turn(int(tokens[name]), tokens[name] / speed, where)]
    return [Session(turns["prefill"], turns["decode"])]
