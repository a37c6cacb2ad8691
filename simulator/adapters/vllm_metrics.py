"""vLLM's ``/metrics``: counters of speculative decoding, latency histograms; it does not know other servers.

Counters run from the start of the server, so one scrape is everything that it served. ``num_drafts`` counts
steps with drafts. Decode time starts at a request's first token, which prefill gives.
"""

from __future__ import annotations

import re

from simulator.adapters.fields import Source, mixed
from simulator.adapters.observations import (
    MeasurementError,
    Observations,
    PassTime,
    PrefillTime,
    SpeculativeRun,
)
from simulator.adapters.prometheus import Sample, histogram, samples, total

_PREFIX = "vllm:"
_SPEC = "vllm:spec_decode_num_"
_BATCH = "requests at once are not counted: the times are of one request among those that ran together"


def recognised(source: Source) -> bool:
    """Whether the text has samples of vLLM."""
    text = source.decoded
    return text is not None and bool(re.search(r"^vllm:\w+(\{|\s)", text, re.MULTILINE))


def read(source: Source) -> Observations:
    """Read one scrape."""
    path = source.path
    found = samples(source, _PREFIX)
    model = _model(found, path)
    ignored = [f"{path}: {_BATCH}"]
    decode = histogram(found, "vllm:request_decode_time_seconds", path)
    prefill = histogram(found, "vllm:request_prefill_time_seconds", path)
    generated = _total(found, "vllm:generation_tokens")
    prompts = _total(found, "vllm:prompt_tokens")
    hits = _total(found, "vllm:prefix_cache_hits") or 0.0
    emitted = generated - decode.count if generated is not None and decode else None
    runs = []
    passes = []
    prefills = []
    if _total(found, f"{_SPEC}drafts"):
        runs.append(_run(found, path, emitted, decode.sum if decode else None))
    elif decode and emitted and emitted > 0 and prompts is not None:
        requests = decode.count
        passes.append(
            PassTime(
                width=1,
                context=prompts / requests + max(0.0, emitted / requests - 1) / 2,
                seconds=decode.sum / emitted,
                passes=int(emitted),
                where=f"{path}:{decode.line}",
            )
        )
    if prefill and prompts:
        if hits:
            ignored.append(f"{path}:{prefill.line}: prefill time: {hits:g} tokens came from the prefix cache")
        elif prefill.sum > 0:
            prefills.append(
                PrefillTime(
                    tokens=prompts / prefill.count, seconds=prefill.mean, where=f"{path}:{prefill.line}"
                )
            )
    for name in (
        "inter_token_latency_seconds",
        "time_per_output_token_seconds",
        "time_to_first_token_seconds",
    ):
        if latency := histogram(found, f"vllm:{name}", path):
            ignored.append(
                f"{path}:{latency.line}: {name}, mean {latency.mean:.6g} s: of many requests at once"
            )
    return Observations(
        source=path,
        format="vllm_metrics",
        runtime="vLLM",
        model=model,
        passes=tuple(passes),
        prefills=tuple(prefills),
        runs=tuple(runs),
        ignored=tuple(ignored),
    )


def _total(found: list[Sample], name: str) -> float | None:
    """A counter, with or without the suffix that newer clients add."""
    value = total(found, f"{name}_total")
    return total(found, name) if value is None else value


def _model(found: list[Sample], path: str) -> str | None:
    model: str | None = None
    for sample in found:
        name = sample.labels.get("model_name")
        if name and model and name != model:
            raise mixed(f"{path}:{sample.line}: label 'model_name'", name, model, "model")
        model = name or model
    return model


def _run(found: list[Sample], path: str, emitted: float | None, decode_s: float | None) -> SpeculativeRun:
    line = next(sample.line for sample in found if sample.name.startswith(f"{_SPEC}drafts"))
    counts: dict[str, float] = {}
    for name in ("drafts", "draft_tokens", "accepted_tokens"):
        value = _total(found, f"{_SPEC}{name}")
        if value is None:
            raise MeasurementError(f"{path}:{line}: field '{_SPEC}{name}_total' is missing.")
        counts[name] = value
    drafts, accepted = counts["drafts"], counts["accepted_tokens"]
    positions = _positions(found, path)
    if positions and sum(positions) != accepted:
        raise MeasurementError(
            f"{path}:{line}: field '{_SPEC}accepted_tokens_per_pos_total': adds up to {sum(positions):g}, "
            f"but accepted_tokens is {accepted:g}: truncated?"
        )
    for name, limit, what in (
        ("accepted_tokens", counts["draft_tokens"], "draft_tokens"),
        ("draft_tokens", drafts * len(positions) if positions else float("inf"), "drafts x positions"),
    ):
        if counts[name] > limit:
            raise MeasurementError(
                f"{path}:{line}: field '{_SPEC}{name}_total': given {counts[name]:g}, allowed: at most "
                f"{what}, {limit:g}."
            )
    known = emitted is not None and emitted >= max(1.0, accepted)
    return SpeculativeRun(
        drafter="unknown",
        draft_length=len(positions) or None,
        steps=drafts,
        drafted_tokens=counts["draft_tokens"],
        accepted_tokens=accepted,
        output_tokens=emitted if known else None,
        decode_s=decode_s if known and decode_s else None,
        where=f"{path}:{line}",
        per_position_acceptance_rate=tuple(value / drafts for value in positions),
    )


def _positions(found: list[Sample], path: str) -> list[float]:
    """Accepted tokens by position, 0 first, no gap."""
    by_position: dict[int, float] = {}
    for sample in found:
        if sample.name not in (f"{_SPEC}accepted_tokens_per_pos_total", f"{_SPEC}accepted_tokens_per_pos"):
            continue
        text = sample.labels.get("position", "")
        if not re.fullmatch(r"\d{1,4}", text):
            raise MeasurementError(
                f"{path}:{sample.line}: label 'position': given {text!r}, allowed: 0, 1, 2 ..."
            )
        by_position[int(text)] = by_position.get(int(text), 0.0) + sample.value
    for expected in range(len(by_position)):
        if expected not in by_position:
            raise MeasurementError(f"{path}: label 'position': {expected} is missing: truncated?")
    return [by_position[position] for position in range(len(by_position))]
