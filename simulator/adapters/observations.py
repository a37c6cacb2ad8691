"""What a measurement file says, whatever tool wrote it; it does not know any format.

Every number is checked when it enters one of these classes, so whoever reads them needs no checks of their
own: times are positive and finite, counts are not negative, nothing is NaN.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from simulator.errors import DraftscopeError

LEAST_SECONDS = 1e-9
"""Shortest time of a pass or prefill that is believed."""

MOST: Mapping[str, float] = MappingProxyType(
    {"width": 1024, "context": 1e7, "tokens": 1e7, "seconds": 1e4, "stderr_s": 1e4, "passes": 1e9}
)
"""Field of a timed pass or prefill -> largest value that is believed; what is above is another unit."""


class MeasurementError(DraftscopeError):
    """A measurement file that cannot be read: the message says file, line, field, given and allowed."""


@dataclass(frozen=True, kw_only=True)
class PassTime:
    """Mean time of one pass of the target.

    Attributes
    ----------
    width : float
        Rows of the pass; 1 is plain decoding.
    context : float
        Tokens in the cache before the pass; the mean where one number covers many passes.
    seconds : float
        Time of one pass.
    stderr_s : float or None
        Standard error of it; None where the file does not say.
    passes : int
        Passes behind the mean, at least.
    where : str
        Place in the file, as ``"file:line"`` or ``"file:row 3"``.
    """

    width: float
    context: float
    seconds: float
    stderr_s: float | None = None
    passes: int = 1
    where: str

    def __post_init__(self) -> None:
        _positive(self, "seconds")
        _within(self, width=1, context=0, seconds=LEAST_SECONDS, stderr_s=0, passes=1)
        _believed(self, "width", "context", "seconds", "stderr_s", "passes")


@dataclass(frozen=True, kw_only=True)
class DraftPassTime(PassTime):
    """Mean time of one pass of a drafter, timed without any speculation.

    Attributes
    ----------
    drafter : str
        Whose pass; ``width`` 2 is the one that catches up after a full accept.
    """

    drafter: str


@dataclass(frozen=True, kw_only=True)
class PrefillTime:
    """Mean time to process a prompt.

    Attributes
    ----------
    tokens : float
        Tokens of the prompt.
    seconds : float
        Time for all of them.
    stderr_s : float or None
        Standard error of it; None where the file does not say.
    context : float
        Tokens in the cache before the prompt.
    where : str
        Place in the file.
    """

    tokens: float
    seconds: float
    stderr_s: float | None = None
    context: float = 0.0
    where: str

    def __post_init__(self) -> None:
        _positive(self, "seconds")
        _within(self, tokens=1, context=0, seconds=LEAST_SECONDS, stderr_s=0)
        _believed(self, "tokens", "context", "seconds", "stderr_s")


@dataclass(frozen=True, kw_only=True)
class SpeculativeRun:
    """One measured run with a drafter; what the file does not say is None.

    Attributes
    ----------
    drafter : str
        As the file names it; ``"unknown"`` where it does not.
    draft_length : int or None
        Drafts proposed per step at most.
    steps, drafted_tokens, accepted_tokens, output_tokens : float or None
        Totals of the run. ``output_tokens`` were emitted by the steps: the first token of a response comes
        from prefill and is not among them, so ``output_tokens / steps`` is the mean acceptance length.
    decode_s : float or None
        Time of all steps, that is, to emit ``output_tokens``.
    draft_s, verify_s : float or None
        Parts of ``decode_s``: all draft passes, all passes of the target.
    baseline_tokens_per_s : float or None
        Plain decoding of the same target in the same file.
    task : str or None
        What was written.
    where : str
        Place in the file.
    per_position_acceptance_rate : tuple of float
        P(draft k and all before it accepted), k = 1 ...; empty where the file does not say.
    energy_j, baseline_energy_per_token_j : float or None
        Energy of all steps, and of plain decoding per token.
    """

    drafter: str
    draft_length: int | None = None
    steps: float | None = None
    drafted_tokens: float | None = None
    accepted_tokens: float | None = None
    output_tokens: float | None = None
    decode_s: float | None = None
    draft_s: float | None = None
    verify_s: float | None = None
    baseline_tokens_per_s: float | None = None
    task: str | None = None
    where: str
    per_position_acceptance_rate: tuple[float, ...] = ()
    energy_j: float | None = None
    baseline_energy_per_token_j: float | None = None

    def __post_init__(self) -> None:
        _within(self, draft_length=0, steps=0, drafted_tokens=0, accepted_tokens=0, output_tokens=0,
                draft_s=0, verify_s=0, energy_j=0, baseline_energy_per_token_j=0)  # fmt: skip
        _positive(self, "decode_s", "baseline_tokens_per_s")
        _at_most(self, "accepted_tokens", "drafted_tokens")
        _at_most(self, "accepted_tokens", "output_tokens")
        rates = self.per_position_acceptance_rate
        for rate, before in zip(rates, (1.0, *rates), strict=False):
            if not 0 <= rate <= before:
                raise MeasurementError(
                    f"{self.where}: per_position_acceptance_rate: given {rate:g}, allowed: 0..{before:g} "
                    "(a position is accepted only after all before it)."
                )


@dataclass(frozen=True, kw_only=True)
class Observations:
    """Everything that one file says about one model on one device.

    Attributes
    ----------
    source : str
        Path of the file.
    format : str
        One of :data:`FORMATS`.
    device, runtime, model : str or None
        As the file names them.
    weight_bytes, peak_bandwidth_bytes_per_s : float or None
        Size of the weights, peak of the memory bus.
    passes, draft_passes, prefills, runs
        What was measured.
    ignored : tuple of str
        What was understood and left out, with the reason.
    """

    source: str
    format: str
    device: str | None = None
    runtime: str | None = None
    model: str | None = None
    weight_bytes: float | None = None
    peak_bandwidth_bytes_per_s: float | None = None
    passes: tuple[PassTime, ...] = ()
    draft_passes: tuple[DraftPassTime, ...] = ()
    prefills: tuple[PrefillTime, ...] = ()
    runs: tuple[SpeculativeRun, ...] = ()
    ignored: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _positive(self, "weight_bytes", "peak_bandwidth_bytes_per_s")


FORMATS: Mapping[str, str] = MappingProxyType(
    {
        "measure": "file of draftscope measure",
        "llama_bench": "llama-bench -o json, jsonl, csv or md",
        "llama_server": "llama.cpp server timings (JSON) and logs, llama-batched-bench tables",
        "litert_lm": "LiteRT-LM benchmark text, or its metrics proto",
        "vllm_metrics": "vLLM /metrics (Prometheus text)",
        "mlx": "output of mlx_lm.generate or mlx_lm.benchmark",
        "generic_csv": "CSV with documented columns and units",
    }
)
"""Format -> what it is; the order in which a file is tried."""


def _where(owner: object) -> str:
    return str(getattr(owner, "where", None) or getattr(owner, "source", ""))


def _within(owner: object, **minimum: float) -> None:
    for name, least in minimum.items():
        value = getattr(owner, name)
        if value is not None and not (math.isfinite(value) and value >= least):
            raise MeasurementError(f"{_where(owner)}: {name}: given {value}, allowed: a number >= {least}.")


def _positive(owner: object, *names: str) -> None:
    for name in names:
        value = getattr(owner, name)
        if value is not None and not (math.isfinite(value) and value > 0):
            raise MeasurementError(f"{_where(owner)}: {name}: given {value}, allowed: a number > 0.")


def _believed(owner: object, *names: str) -> None:
    for name in names:
        value = getattr(owner, name)
        if value is not None and value > MOST[name]:
            raise MeasurementError(
                f"{_where(owner)}: {name}: given {value:g}, allowed: at most {MOST[name]:g}."
            )


def _at_most(owner: object, name: str, limit: str) -> None:
    value, most = getattr(owner, name), getattr(owner, limit)
    if value is not None and most is not None and value > most:
        raise MeasurementError(
            f"{_where(owner)}: {name}: given {value:g}, allowed: at most {limit}, which is {most:g}."
        )


def read_observations(path: str | os.PathLike[str], format: str | None = None) -> Observations:
    """Read a measurement file of any known tool.

    Parameters
    ----------
    path : path
        The file.
    format : str, optional
        One of :data:`FORMATS`; found out from the content where omitted.

    Raises
    ------
    MeasurementError
        If no known tool writes such a file, or the file is damaged; says where.
    """
    from simulator.adapters.detect import read

    return read(path, format)
