"""One line of a comparison, from one Result or the mean of several; it predicts and formats nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from simulator.results import Result, weakest_kind

ALL_TASKS = "all"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A design on a device at one draft length, over one task or the mean of several. None: not known.

    Attributes
    ----------
    block : str
        ``traced`` or ``published``.
    device, runtime, engine, target, drafter, label, family : str
        The design.
    task : str
        Task class, published benchmark, or ``all``.
    tasks : int
        Tasks behind it.
    is_part : bool
        True for one task of a row of several, which stands above it.
    acceptance, acceptance_kind : str or None
        Where the acceptance is from and how it is known; None where no acceptance is published.
    benchmark : str
        Prompts behind the acceptance: only rows of one benchmark can be ranked.
    control : bool
        True for a drafter that is shown as a check, and is no candidate.
    draft_length, batch : int
        Drafts per step, streams decoded together.
    at_longest : bool
        The draft length was searched for and is the largest that is known or asked for.
    prompt_tokens, output_tokens : float
        Mean over the requests.
    requests : int or None
        Responses replayed.
    mean_acceptance_length, break_even_acceptance_length : float or None
        1 + accepted per step, and what would be needed to draw level with plain decoding.
    decode_tokens_per_s, speedup, energy_per_token_j, bytes_per_token : float or None
        Total over total where there are several tasks; speedup over plain decoding of the same target.
    decode_tokens_per_s_low, decode_tokens_per_s_high, speedup_low, speedup_high : float or None
        From the ranges of the inputs.
    slowest_task, fastest_task : str or None
        Tasks with the lowest and the highest speedup, and these speedups.
    slowest_task_speedup, fastest_task_speedup : float or None
        See above.
    peak_ram_bytes, drafter_ram_bytes, ttft_s : float
        Whole RAM, the drafter's share of it (own cache included), time to first token.
    step_time_s, draft_time_s, verify_time_s : float
        What a step costs.
    confidence, time_kind : str
        Weakest kind of all inputs, and of those that move decode time.
    settings : str
        What the caller overrides: cited inputs, prompts of a trace, confidence stop, overlap filter.
    note : str
        What a reader must know.
    """

    block: str
    device: str
    runtime: str
    engine: str
    target: str
    drafter: str
    label: str
    family: str
    task: str
    tasks: int = 1
    is_part: bool = False
    acceptance: str | None
    acceptance_kind: str | None
    benchmark: str = ""
    control: bool = False
    draft_length: int
    at_longest: bool = False
    batch: int
    prompt_tokens: float
    output_tokens: float
    requests: int | None = None
    mean_acceptance_length: float | None
    break_even_acceptance_length: float | None
    decode_tokens_per_s: float | None
    decode_tokens_per_s_low: float | None = None
    decode_tokens_per_s_high: float | None = None
    speedup: float | None
    speedup_low: float | None = None
    speedup_high: float | None = None
    slowest_task: str | None = None
    slowest_task_speedup: float | None = None
    fastest_task: str | None = None
    fastest_task_speedup: float | None = None
    energy_per_token_j: float | None
    bytes_per_token: float | None
    peak_ram_bytes: float
    drafter_ram_bytes: float
    ttft_s: float
    step_time_s: float
    draft_time_s: float
    verify_time_s: float
    confidence: str
    time_kind: str
    settings: str = ""
    note: str = ""
    results: tuple[Result, ...] = field(default=(), repr=False, compare=False)

    @property
    def place(self) -> tuple[Any, ...]:
        """Device, runtime, engine, batch and target: rows of one place stand in one table."""
        return self.device, self.runtime, self.engine, self.batch, self.target

    def record(self) -> dict[str, Any]:
        """Everything but the results, in a fixed order."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "results"}

    def spread_over(self, speedups: Sequence[tuple[str, float]]) -> Row:
        """The same row with its slowest and fastest task, of the speedups by task."""
        if len(speedups) < 2:
            return self
        slow, *_, fast = sorted(speedups, key=lambda pair: pair[1])
        return replace(
            self,
            slowest_task=slow[0],
            slowest_task_speedup=slow[1],
            fastest_task=fast[0],
            fastest_task_speedup=fast[1],
        )

    def without_acceptance(self, note: str) -> Row:
        """The same row, cost only: what depends on acceptance becomes None."""
        return replace(
            self,
            acceptance=None,
            acceptance_kind=None,
            mean_acceptance_length=None,
            decode_tokens_per_s=None,
            decode_tokens_per_s_low=None,
            decode_tokens_per_s_high=None,
            speedup=None,
            speedup_low=None,
            speedup_high=None,
            energy_per_token_j=None,
            bytes_per_token=None,
            note=note,
        )


COLUMNS = tuple(each.name for each in fields(Row) if each.name != "results")
"""Keys of `Row.record`, in order."""


def row_of(
    results: Sequence[Result],
    *,
    block: str,
    label: str,
    family: str,
    task: str,
    requests: int | None = None,
    note: str = "",
) -> Row:
    """Sum up one Result, or several tasks with the same number of tokens each.

    Speeds and acceptance lengths are totals over totals (harmonic means), energies and bytes plain means,
    RAM the largest. Ends of intervals are combined alike, task by task: their common inputs move together.

    Parameters
    ----------
    results : sequence of Result
        One design at one draft length.
    block, label, family, task : str
        See `Row`.
    requests : int, optional
        Responses behind the results.
    note : str
        See `Row`.
    """
    first = results[0]
    plain = first.inputs["draft_length"] == 0
    kinds = [result.confidence_by_group["acceptance"] for result in results
             if "acceptance" in result.confidence_by_group]  # fmt: skip
    names = list(dict.fromkeys(result.inputs["acceptance"] for result in results))

    def harmonic(name: str, end: int | None = None) -> float | None:
        values = [
            result[name] if end is None else result.intervals.get(name, (None, None))[end]
            for result in results
        ]
        return None if None in values else len(values) / sum(1.0 / value for value in values)

    def mean(name: str) -> float:
        return float(sum(result[name] for result in results) / len(results))

    def largest(values: list[float]) -> float:
        return float(max(values))

    return Row(
        block=block,
        **{name: first.inputs[name] for name in ("device", "runtime", "engine", "target", "drafter")},
        label=label,
        family=family,
        task=task,
        tasks=len(results),
        acceptance=None if plain else ", ".join(str(name) for name in names),
        acceptance_kind=weakest_kind(kinds) if kinds else None,
        draft_length=int(first.inputs["draft_length"]),
        batch=int(first.inputs["batch"]),
        prompt_tokens=float(sum(result.inputs["prompt_tokens"] for result in results) / len(results)),
        output_tokens=float(sum(result.inputs["output_tokens"] for result in results) / len(results)),
        requests=requests,
        mean_acceptance_length=harmonic("mean_acceptance_length"),
        break_even_acceptance_length=mean("break_even_acceptance_length"),
        decode_tokens_per_s=harmonic("decode_tokens_per_s"),
        decode_tokens_per_s_low=harmonic("decode_tokens_per_s", 0),
        decode_tokens_per_s_high=harmonic("decode_tokens_per_s", 1),
        speedup=harmonic("speedup"),
        speedup_low=None if plain else harmonic("speedup", 0),
        speedup_high=None if plain else harmonic("speedup", 1),
        energy_per_token_j=mean("energy_per_token_j"),
        bytes_per_token=mean("bytes_per_token"),
        peak_ram_bytes=largest([result["peak_ram_bytes"] for result in results]),
        drafter_ram_bytes=largest([drafter_ram_bytes(result) for result in results]),
        ttft_s=mean("ttft_s"),
        step_time_s=mean("step_time_s"),
        draft_time_s=mean("draft_time_s"),
        verify_time_s=mean("verify_time_s"),
        confidence=weakest_kind(result.confidence for result in results),
        time_kind=weakest_kind(result.confidence_by_group["time"] for result in results),
        note=note,
        results=tuple(results),
    )  # fmt: skip


def drafter_ram_bytes(result: Result) -> float:
    """RAM that the drafter adds, its own cache included [B]."""
    return float(sum(value for part, value in result.ram_ledger.items() if part.startswith("drafter_")))
