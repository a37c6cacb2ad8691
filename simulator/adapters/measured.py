"""Samples that `reference_impl.measure` took, joined into one `Observations`; it times and fits nothing."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from simulator.adapters.observations import (
    DraftPassTime,
    MeasurementError,
    Observations,
    PassTime,
    PrefillTime,
    SpeculativeRun,
)

Sample = Mapping[str, Any]
PLAIN = "none"
MEDIAN_ERROR = 1.2533 * 1.4826
"""Standard error of a median in median absolute deviations, times the root of the count."""


def observations_of(
    samples: Sequence[Sample],
    *,
    source: str,
    device: str,
    runtime: str,
    model: str,
    drafters: Mapping[str, str],
    weight_bytes: float,
    notes: Iterable[str] = (),
) -> Observations:
    """Medians of repeated samples, plain decoding as passes of width 1, and every speculative run.

    Parameters
    ----------
    samples : sequence of mapping
        In the order they were taken.
    source, device, runtime, model : str
        As in `Observations`.
    drafters : mapping of str to str
        Name in the samples -> name of the drafter for predictions.
    weight_bytes : float
        Streamed by a pass of the target.
    notes : iterable of str
        What a reader must know.
    """
    times: dict[str, dict[tuple[Any, ...], list[float]]] = defaultdict(lambda: defaultdict(list))
    for each in samples:
        if each["kind"] == "pass":
            times["pass"][each["width"], each["context"]].append(each["seconds"])
        elif each["kind"] == "draft_pass":
            times["draft_pass"][each["drafter"], each["width"], each["context"]].append(each["seconds"])
        elif each["kind"] == "prefill":
            times["prefill"][(each["tokens"],)].append(each["seconds"])
    return Observations(
        source=source,
        format="measure",
        device=device,
        runtime=runtime,
        model=model,
        weight_bytes=weight_bytes,
        peak_bandwidth_bytes_per_s=peak_bandwidth(samples),
        passes=(
            *(PassTime(width=width, context=context, **_median(values),
                       where=f"passes of width {width} at context {context}")
              for (width, context), values in times["pass"].items()),
            *_plain_passes(samples),
        ),
        draft_passes=tuple(
            DraftPassTime(drafter=drafters[name], width=width, context=context, **_median(values),
                          where=f"passes of {name}, width {width}, at context {context}")
            for (name, width, context), values in times["draft_pass"].items()
        ),
        prefills=tuple(
            PrefillTime(tokens=tokens, seconds=median(values), stderr_s=_stderr(values),
                        where=f"prefill of {tokens} tokens")
            for (tokens,), values in times["prefill"].items()
        ),
        runs=tuple(_run(samples, each, drafters) for each in samples
                   if each["kind"] == "run" and each["drafter"] != PLAIN and each["output_tokens"]),
        ignored=tuple(notes),
    )  # fmt: skip


def peak_bandwidth(samples: Sequence[Sample]) -> float:
    """Bandwidth of memory: the best method's, in its median round [B/s].

    Raises
    ------
    MeasurementError
        Where it was not measured.
    """
    return max(bandwidths(samples).values())


def bandwidths(samples: Sequence[Sample]) -> dict[str, float]:
    """Median over the rounds of every method [B/s]."""
    found: dict[str, list[float]] = defaultdict(list)
    for each in samples:
        if each["kind"] == "bandwidth":
            found[each["method"]].append(each["bytes_per_s"])
    if not found:
        raise MeasurementError("measurement: the memory bandwidth was not measured.")
    return {method: median(values) for method, values in found.items()}


def plain_seconds_per_token(samples: Sequence[Sample]) -> dict[str, float]:
    """Plain decoding of each request, the median of its runs [s/token]."""
    found: dict[str, list[float]] = defaultdict(list)
    for each in samples:
        if each["kind"] == "run" and each["drafter"] == PLAIN and each["output_tokens"]:
            found[each["request"]].append(each["seconds"] / each["output_tokens"])
    return {request: median(values) for request, values in found.items()}


def _plain_passes(samples: Sequence[Sample]) -> list[PassTime]:
    found: dict[tuple[str, float], list[float]] = defaultdict(list)
    tokens: dict[tuple[str, float], int] = {}
    for each in samples:
        if each["kind"] == "run" and each["drafter"] == PLAIN and each["output_tokens"]:
            key = (each["request"], each["prompt_tokens"] + (each["output_tokens"] - 1) / 2)
            found[key].append(each["seconds"] / each["output_tokens"])
            tokens[key] = tokens.get(key, 0) + each["output_tokens"]
    return [
        PassTime(width=1, context=context, seconds=median(values), stderr_s=_stderr(values),
                 passes=tokens[request, context], where=f"plain decoding of {request}")
        for (request, context), values in found.items()
    ]  # fmt: skip


def _run(samples: Sequence[Sample], run: Sample, drafters: Mapping[str, str]) -> SpeculativeRun:
    plain = plain_seconds_per_token(samples)
    energies = [each["energy_j"] / each["output_tokens"] for each in samples
                if each["kind"] == "run" and each["drafter"] == PLAIN and each["request"] == run["request"]
                and each["energy_j"] is not None and each["output_tokens"]]  # fmt: skip
    _, proposed, accepted, _ = (sum(column) for column in zip(*run["steps"], strict=True))
    return SpeculativeRun(
        drafter=drafters[run["drafter"]], draft_length=run["draft_length"], steps=len(run["steps"]),
        drafted_tokens=proposed, accepted_tokens=accepted, output_tokens=run["output_tokens"],
        decode_s=run["seconds"], draft_s=run["draft_s"], verify_s=max(run["seconds"] - run["draft_s"], 0.0),
        baseline_tokens_per_s=1 / plain[run["request"]], task=run["task"], energy_j=run["energy_j"],
        baseline_energy_per_token_j=median(energies) if energies else None,
        where=f"{run['drafter']} at K = {run['draft_length']} on {run['request']}",
    )  # fmt: skip


def _median(values: Sequence[float]) -> dict[str, Any]:
    return {"seconds": median(values), "stderr_s": _stderr(values), "passes": len(values)}


def _stderr(values: Sequence[float]) -> float | None:
    """Standard error of the median; None where there are too few values to say."""
    if len(values) < 3:
        return None
    middle = median(values)
    spread = median(abs(value - middle) for value in values)
    return MEDIAN_ERROR * spread / math.sqrt(len(values)) or None
