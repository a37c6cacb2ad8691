"""The log of llama.cpp programs: timings by response, draft acceptance, ``statistics`` of drafters.

Counters of ``statistics`` lines run on over the life of the process. A response's share is the difference to
the line before, and is taken only where it agrees with the response's own ``draft acceptance``: a target with
recurrent state verifies a rejected draft again, and then the two count different things.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from simulator.adapters.fields import Source, agree, number
from simulator.adapters.llama_timings import Response
from simulator.adapters.observations import MeasurementError

_NUM = r"([^\s,;()/]+)"
_PROMPT = re.compile(rf"prompt eval time\s*=\s*{_NUM}\s*(\S+)\s*/\s*{_NUM}\s*tokens")
_EVAL = re.compile(rf"(?<!prompt )eval time\s*=\s*{_NUM}\s*(\S+)\s*/\s*{_NUM}\s*(tokens|runs)")
_DRAFT = re.compile(
    rf"draft acceptance(?: rate)?\s*=\s*{_NUM}\s*\(\s*{_NUM}\s*accepted\s*/\s*{_NUM}\s*generated"
)
_STATISTICS = re.compile(
    rf"statistics\s+([\w-]+):\s*#calls(?:\(b,g,a\))?\s*=\s*([\d\s]+?),\s*#gen drafts\s*=\s*{_NUM},"
    rf"\s*#acc drafts\s*=\s*{_NUM}(?:,\s*#gen tokens\s*=\s*{_NUM},\s*#acc tokens\s*=\s*{_NUM})?"
    rf"(?:,\s*dur\(b,g,a\)\s*=\s*{_NUM},\s*{_NUM},\s*{_NUM}\s*ms)?"
)
_RELEASE = re.compile(r"stop processing: n_tokens = (\d{1,12})\b")
_NAME = re.compile(r"general\.name\s*(?:str)?\s*=\s*(.+?)\s*$")
_SIZE = re.compile(r"file size\s*=\s*(\S+) (MiB|GiB)")
_SUMMARY = re.compile(rf"^\s*(n_draft|n_predict|n_drafted|n_accept)\s*=\s*{_NUM}\s*$")
_DECODED = re.compile(rf"^\s*decoded\s+{_NUM} tokens in\s+{_NUM} seconds")


@dataclass(frozen=True)
class Log:
    """Responses in order, and what the log says about the model."""

    responses: list[Response]
    model: str | None
    weight_bytes: float | None
    ignored: list[str]


def recognised(source: Source) -> bool:
    """Whether the text is such a log."""
    text = source.decoded
    if text is None:
        return False
    return bool(_EVAL.search(text) or _DRAFT.search(text) or "#gen drafts" in text or "n_drafted" in text)


def read(source: Source) -> Log:
    """Read the responses."""
    names = {found[1] for line in source.lines if (found := _NAME.search(line))}
    sizes = {found.groups() for line in source.lines if (found := _SIZE.search(line))}
    ignored = []
    if len(names) > 1:
        ignored.append(f"names of the models: {', '.join(sorted(names))}: which is the target is not said")
    weight = None
    if len(names) <= 1 and len(sizes) == 1:
        amount, unit = sizes.pop()
        weight = number(amount, f"{source.path}: field 'file size'", above=True) * (
            2.0**20 if unit == "MiB" else 2.0**30
        )
    summary = _program(source)
    responses = [summary] if summary else _server(source, ignored)
    return Log(responses, names.pop() if len(names) == 1 else None, weight, ignored)


def _server(source: Source, ignored: list[str]) -> list[Response]:
    responses: list[Response] = []
    prompt: Response | None = None
    for at, line in enumerate(source.lines, 1):
        where = f"{source.path}:{at}"
        if found := _PROMPT.search(line):
            tokens = number(found[3], f"{where}: field 'prompt eval time'", whole=True)
            name = f"{where}: field 'prompt eval time'"
            prompt = Response(
                where=where, prompt_where=where, prompt=tokens, prompt_s=_seconds(found[1], found[2], name)
            )
        elif found := _EVAL.search(line):
            if prompt is None:
                raise MeasurementError(f"{where}: 'prompt eval time' is missing before 'eval time'.")
            name = f"{where}: field 'eval time'"
            runs = found[4] == "runs"
            count = int(number(found[3], name, least=0 if runs else 1, whole=True))
            prompt.predicted = count + 1 if runs else count
            prompt.predicted_s = _seconds(found[1], found[2], name)
            prompt.where = where
            _check_rate(line, count, prompt.predicted_s, name)
            responses.append(prompt)
            prompt = None
        elif found := _DRAFT.search(line):
            response = _last(responses, f"{where}: 'draft acceptance'")
            _drafts(response, found, where)
        elif "#gen drafts" in line:
            found = _STATISTICS.search(line)
            if found is None:
                raise MeasurementError(
                    f"{where}: allowed: 'statistics NAME: #calls(b,g,a) = ..., #gen drafts = ...': truncated?"
                )
            response = _last(responses, f"{where}: 'statistics'")
            response.statistics[found[1]] = _counters(found, where)
        elif (found := _RELEASE.search(line)) and responses and responses[-1].prompt is not None:
            _cached(responses[-1], float(found[1]))
    if prompt is not None:
        raise MeasurementError(f"{prompt.where}: 'eval time' is missing after 'prompt eval time': truncated?")
    if not responses:
        raise MeasurementError(f"{source.path}: 'prompt eval time' and 'eval time' are missing.")
    _share_out(responses, ignored)
    return responses


def _last(responses: list[Response], what: str) -> Response:
    if not responses:
        raise MeasurementError(f"{what}: no 'eval time' before it: only totals without a time.")
    return responses[-1]


def _seconds(given: str, unit: str, name: str) -> float:
    if unit != "ms":
        raise MeasurementError(f"{name}: given {unit!r}, allowed: 'ms'.")
    return number(given, name) / 1e3


def _check_rate(line: str, count: int, seconds: float, name: str) -> None:
    rate = re.search(r"([\d.]+) tokens per second", line)
    if rate and seconds > 0:
        agree(number(rate[1], name), count / seconds, name, "tokens by time", rounding=0.005)


def _drafts(response: Response, found: re.Match[str], where: str) -> None:
    name = f"{where}: field 'draft acceptance'"
    accepted, drafted = (number(found[group], name, whole=True) for group in (2, 3))
    if accepted > drafted:
        raise MeasurementError(
            f"{name}: {accepted:g} accepted given, allowed: at most {drafted:g} generated."
        )
    if drafted and abs(number(found[1], name) - accepted / drafted) > 1e-4:
        raise MeasurementError(f"{name}: given {found[1]}, but {accepted:g} / {drafted:g} are not that.")
    response.drafted, response.accepted = drafted, accepted


def _counters(found: re.Match[str], where: str) -> tuple[float, ...]:
    """Calls, drafts, generated and accepted tokens, milliseconds of drafting (NaN where not printed)."""
    name = f"{where}: field 'statistics {found[1]}'"
    calls = found[2].split()
    values = [calls[1] if len(calls) == 3 else calls[0], found[3], found[5], found[6], found[8]]
    return tuple(float("nan") if value is None else number(value, name) for value in values)


def _cached(response: Response, n_tokens: float) -> None:
    """Tokens that came from the prompt cache: the last token of a response is never in the cache."""
    response.cached = max(0.0, n_tokens - (response.prompt or 0.0) - (response.predicted - 1))


def _share_out(responses: list[Response], ignored: list[str]) -> None:
    before: dict[str, tuple[float, ...]] = {}
    for response in responses:
        now = response.statistics
        if not now or not response.drafted:
            before.update(now)
            continue
        share = {
            name: tuple(b - a for a, b in zip(before.get(name, (0.0,) * 5), values, strict=True))
            for name, values in now.items()
        }
        before.update(now)
        generated, accepted = (sum(values[at] for values in share.values()) for at in (2, 3))
        response.drafter = " + ".join(name for name, values in share.items() if values[1] > 0) or "unknown"
        if (generated, accepted) != (response.drafted, response.accepted):
            ignored.append(
                f"{response.where}: statistics count {accepted:g} of {generated:g} accepted, the server "
                f"{response.accepted:g} of {response.drafted:g}"
            )
            continue
        response.steps = max(values[0] for values in share.values())
        milliseconds = sum(values[4] for values in share.values())
        response.draft_s = milliseconds / 1e3 if milliseconds == milliseconds else None


def _program(source: Source) -> Response | None:
    """Summary of llama-speculative and llama-speculative-simple: totals of one run."""
    values: dict[str, float] = {}
    seconds, where = 0.0, ""
    for at, line in enumerate(source.lines, 1):
        if found := _SUMMARY.search(line):
            values[found[1]] = number(found[2], f"{source.path}:{at}: field {found[1]!r}", whole=True)
        elif found := _DECODED.search(line):
            where = f"{source.path}:{at}"
            seconds = number(found[2], f"{where}: field 'decoded'", above=True)
    if "n_drafted" not in values:
        return None
    for name in ("n_predict", "n_accept"):
        if name not in values:
            raise MeasurementError(f"{source.path}: field {name!r} is missing; given: {', '.join(values)}.")
    if not where:
        raise MeasurementError(f"{source.path}: the line 'decoded N tokens in S seconds' is missing.")
    if values["n_accept"] > values["n_drafted"]:
        raise MeasurementError(
            f"{source.path}: field 'n_accept': given {values['n_accept']:g}, allowed: at most n_drafted, "
            f"{values['n_drafted']:g}."
        )
    longest = values.get("n_draft")
    return Response(
        where=where,
        draft_length=None if longest is None else int(longest),
        predicted=int(values["n_predict"]) + 1,  # the first token is one of a step here
        predicted_s=seconds,
        drafted=values["n_drafted"],
        accepted=values["n_accept"],
    )
