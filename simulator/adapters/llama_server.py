"""llama.cpp's server: timings (JSON), its log, and llama-batched-bench; it knows no other tool."""

from __future__ import annotations

from simulator.adapters import llama_batched, llama_log
from simulator.adapters.fields import Record, Source, agree, json_records, mixed
from simulator.adapters.llama_timings import Response, observations
from simulator.adapters.observations import MeasurementError, Observations


def recognised(source: Source) -> bool:
    """Whether the server or llama-batched-bench wrote the file."""
    text = source.decoded
    if text is None:
        return False
    timings = '"predicted_n"' in text or '"predicted_ms"' in text
    return timings or llama_batched.recognised(source) or llama_log.recognised(source)


def read(source: Source) -> Observations:
    """Read responses, a log, or a table."""
    if llama_batched.recognised(source):
        return llama_batched.read(source)
    if '"predicted_ms"' not in source.text and '"predicted_n"' not in source.text:
        log = llama_log.read(source)
        return observations(source.path, log.responses, log.model, log.ignored, log.weight_bytes)
    records = _responses(source)
    names = {name for record in records if (name := record.text("model"))}
    if len(names) > 1:
        record = next(record for record in records if record.text("model") != records[0].text("model"))
        raise mixed(record.at("model"), record.text("model"), records[0].text("model"), "model")
    responses = [_of_timings(record) for record in records if record.has("timings") or _is_timings(record)]
    if not responses:
        raise MeasurementError(f"{source.path}: no object with the field 'timings'.")
    return observations(source.path, responses, next(iter(names), None), ())


def _responses(source: Source) -> list[Record]:
    """Objects of the file; of a stream, those behind ``data:``."""
    lines = source.lines
    if any(line.startswith("data: {") for line in lines):
        kept = [line[6:] if line.startswith("data: {") else "" for line in lines]
        return json_records(Source(source.path, "\n".join(kept).encode()))
    return json_records(source)


def _is_timings(record: Record) -> bool:
    return record.has("predicted_ms") or record.has("predicted_n")


def _of_timings(record: Record) -> Response:
    timings = record
    if record.has("timings"):
        inner = record.values["timings"]
        if not isinstance(inner, dict):
            raise MeasurementError(f"{record.at('timings')}: given {inner!r}, allowed: an object.")
        timings = Record(inner, record.path, record.places.get("timings", record.place), record.places)
    predicted = int(timings.number("predicted_n", least=1, whole=True))
    milliseconds = timings.number("predicted_ms")
    if timings.has("predicted_per_second") and milliseconds:
        rate = timings.number("predicted_per_second", above=True)
        agree(rate, 1e3 * predicted / milliseconds, timings.at("predicted_per_second"),
              "predicted_n by predicted_ms")  # fmt: skip
    prompt = timings.optional("prompt_n", whole=True)
    prompt_ms = timings.optional("prompt_ms")
    if prompt and prompt_ms and timings.has("prompt_per_second"):
        rate = timings.number("prompt_per_second", above=True)
        agree(rate, 1e3 * prompt / prompt_ms, timings.at("prompt_per_second"), "prompt_n by prompt_ms")
    drafted = timings.optional("draft_n", whole=True)
    accepted = timings.number("draft_n_accepted", whole=True) if drafted else None
    if drafted and accepted is not None and accepted > drafted:
        raise MeasurementError(
            f"{timings.at('draft_n_accepted')}: given {accepted:g}, allowed: at most draft_n, {drafted:g}."
        )
    settings = record.values.get("generation_settings")
    longest = (
        Record(settings, record.path, record.place, record.places) if isinstance(settings, dict) else None
    )
    limit = longest.optional("speculative.n_max", whole=True) if longest and drafted else None
    return Response(
        draft_length=None if limit is None else int(limit),
        prompt=prompt,
        cached=timings.optional("cache_n", whole=True) or 0.0,
        prompt_s=None if prompt_ms is None else prompt_ms / 1e3,
        predicted=predicted,
        predicted_s=milliseconds / 1e3,
        drafted=drafted,
        accepted=accepted,
        where=timings.at("predicted_n").partition(": field")[0],
    )
