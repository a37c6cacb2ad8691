"""Every metric once: name, unit, label, definition; it does not compute any of them."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.errors import UnknownNameError


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric of a Result.

    Attributes
    ----------
    name : str
        Key in ``Result.metrics``; ends in its unit where it has one.
    unit : str
        Unit, ``""`` for ratios and counts.
    label : str
        For tables and axes.
    description : str
        Definition.
    better : str
        ``higher``, ``lower`` or ``""`` where neither is better.
    engine_only : bool
        True: only a simulation has it.
    """

    name: str
    unit: str
    label: str
    description: str
    better: str = ""
    engine_only: bool = False


# name, unit, label, better, definition
_ROWS = (
    ("ttft_s", "s", "time to first token", "lower",
     "Prefill of the target, and of the drafter where it has its own."),
    ("tpot_s", "s", "time per output token", "lower",
     "Decode time / tokens after the first, for one stream."),
    ("itl_s", "s", "inter-token latency", "lower",
     "Mean time between deliveries; a step delivers all its tokens at once."),
    ("request_time_s", "s", "request time", "lower",
     "ttft_s + decode time of one response (mean over requests)."),
    ("prefill_tokens_per_s", "tok/s", "prefill speed", "higher",
     "Prompt tokens / ttft_s."),
    ("decode_tokens_per_s", "tok/s", "decode speed", "higher",
     "Tokens after the first / decode time, all streams together."),
    ("baseline_decode_tokens_per_s", "tok/s", "plain decode speed", "higher",
     "The same target, runtime and batch without speculation."),
    ("speedup", "x", "speedup", "higher",
     "decode_tokens_per_s / baseline_decode_tokens_per_s."),
    ("request_speedup", "x", "request speedup", "higher",
     "Request time of plain decoding / request_time_s, prefill included."),
    ("mean_acceptance_length", "tokens", "mean acceptance length", "higher",
     "1 + accepted drafts per step; the bonus token counts."),
    ("tokens_per_step", "tokens", "emitted tokens per step", "higher",
     "Tokens after the first / steps; below mean_acceptance_length because the last step may be partial."),
    ("draft_acceptance_rate", "", "draft acceptance rate", "higher",
     "Accepted / proposed drafts; 0 where none are proposed."),
    ("steps", "", "steps", "lower",
     "Steps of one response (mean over requests)."),
    ("step_time_s", "s", "step time", "lower",
     "Decode time / steps: draft_time_s + verify_time_s + host_time_s."),
    ("draft_time_s", "s", "draft time per step", "lower",
     "All draft passes of a step."),
    ("verify_time_s", "s", "verify time per step", "lower",
     "The target's pass of a step."),
    ("host_time_s", "s", "host time per step", "lower",
     "Step floor and host search of the drafter."),
    ("verify_cost_ratio", "x", "verify cost ratio", "lower",
     "v(w): verify pass / plain pass over the same contexts."),
    ("draft_cost_ratio", "x", "draft cost ratio", "lower",
     "c: one draft pass / one plain pass."),
    ("break_even_acceptance_length", "tokens", "break-even length", "lower",
     "Plain passes that a step costs: speedup = tokens_per_step / this."),
    ("energy_per_token_j", "J/token", "energy per token", "lower",
     "Decode energy / tokens after the first."),
    ("energy_saving", "", "energy saving", "higher",
     "1 - energy_per_token_j / that of plain decoding."),
    ("request_energy_j", "J", "request energy", "lower",
     "Prefill and decode of one response (mean over requests)."),
    ("average_power_w", "W", "average power", "lower",
     "request_energy_j * batch / request_time_s."),
    ("peak_power_w", "W", "peak phase power", "lower",
     "Highest average power of any phase."),
    ("weight_bytes", "B", "weights resident", "lower",
     "Weights of the target and parts of the drafter that stay in RAM."),
    ("mapped_bytes", "B", "weights mapped", "lower",
     "Tables that stay in a memory-mapped file; touched pages count as RAM."),
    ("kv_cache_bytes", "B", "KV caches", "lower",
     "Target and drafter caches at the last context, all streams."),
    ("peak_ram_bytes", "B", "peak RAM", "lower",
     "Sum of the RAM ledger."),
    ("bytes_per_token", "B/token", "bytes per token", "lower",
     "Memory traffic of decode / tokens after the first."),
    ("macs_per_token", "MAC/token", "MACs per token", "lower",
     "Multiply-accumulates of decode / tokens after the first."),
)  # fmt: skip

PERCENTILES = (50, 90, 99)

# name without its unit, label, over what
_DISTRIBUTIONS = (
    ("ttft", "time to first token", "the requests of a simulation"),
    ("itl", "time between deliveries", "all deliveries of a simulation"),
    ("request_time", "request time", "the requests of a simulation"),
)

METRICS: dict[str, Metric] = {
    name: Metric(name=name, unit=unit, label=label, better=better, description=description)
    for name, unit, label, better, description in _ROWS
} | {
    f"{name}_p{each}_s": Metric(
        name=f"{name}_p{each}_s", unit="s", label=f"{label}, p{each}", better="lower", engine_only=True,
        description=f"{each}th percentile of the {label} over {over}.",
    )
    for name, label, over in _DISTRIBUTIONS
    for each in PERCENTILES
}  # fmt: skip


def metric(name: str) -> Metric:
    """Look a metric up.

    Parameters
    ----------
    name : str
        Registry name.

    Raises
    ------
    UnknownNameError
        With the nearest name.
    """
    if name not in METRICS:
        raise UnknownNameError("metric", name, METRICS)
    return METRICS[name]
