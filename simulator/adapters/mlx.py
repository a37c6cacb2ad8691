"""mlx_lm: what ``mlx_lm.benchmark`` and ``mlx_lm.generate`` print; it does not know other uses of MLX.

``generation_tps`` is all tokens by the time since the first: n tokens, n - 1 passes. A draft model is not
mentioned in the output unless it prints ``Draft acceptance``.
"""

from __future__ import annotations

import math
import re
import statistics

from simulator.adapters.fields import Source, agree, number
from simulator.adapters.observations import (
    MeasurementError,
    Observations,
    PassTime,
    PrefillTime,
    SpeculativeRun,
)

_TIMING = re.compile(r"Timing with prompt_tokens=(\S+?), generation_tokens=(\S+?), batch_size=(\S+?)\.?\s*$")
_TRIAL = re.compile(r"(Trial (\d+)|Averages):\s+prompt_tps=([^\s,]+), generation_tps=([^\s,]+)")
_PROMPT = re.compile(r"^Prompt: (\S+) tokens, (\S+) (\S+)\s*$")
_GENERATION = re.compile(r"^Generation: (\S+) tokens, (\S+) (\S+)\s*$")
_DRAFT = re.compile(r"^Draft acceptance: (\S+)/(\S+)")
_MODEL = re.compile(r"--model[= ](\S+)")


def recognised(source: Source) -> bool:
    """Whether mlx_lm printed the text."""
    text = source.decoded
    return text is not None and ("prompt_tps=" in text or "tokens-per-sec" in text)


def read(source: Source) -> Observations:
    """Read either output."""
    models = {found[1] for line in source.lines if (found := _MODEL.search(line))}
    if len(models) > 1:
        raise MeasurementError(f"{source.path}: models {', '.join(sorted(models))}: split the file.")
    result = _benchmark(source) if "prompt_tps=" in source.text else _generate(source)
    passes, prefills, runs = result
    return Observations(
        source=source.path,
        format="mlx",
        runtime="mlx_lm",
        model=models.pop() if models else None,
        passes=tuple(passes),
        prefills=tuple(prefills),
        runs=tuple(runs),
    )


_Found = tuple[list[PassTime], list[PrefillTime], list[SpeculativeRun]]


def _benchmark(source: Source) -> _Found:
    passes: list[PassTime] = []
    prefills: list[PrefillTime] = []
    sizes: tuple[int, int, int] | None = None
    trials: list[tuple[float, float]] = []
    first, ended = 0, True
    for at, line in enumerate(source.lines, 1):
        where = f"{source.path}:{at}"
        if found := _TIMING.search(line):
            if not ended:
                raise MeasurementError(f"{where}: 'Averages' of the run before are missing: truncated?")
            names = ("prompt_tokens", "generation_tokens", "batch_size")
            prompt, generated, batch = (
                int(number(found[group], f"{where}: field {name!r}", least=1, whole=True))
                for group, name in enumerate(names, 1)
            )
            sizes, trials, ended = (prompt, generated, batch), [], False
        elif found := _TRIAL.search(line):
            if sizes is None or (ended and found[1] != "Averages"):
                raise MeasurementError(f"{where}: 'Timing with prompt_tokens=...' is missing before it.")
            rates = tuple(
                number(found[group], f"{where}: field {name!r}", above=True)
                for group, name in ((3, "prompt_tps"), (4, "generation_tps"))
            )
            if found[2]:
                first = first if trials else at
                trials.append((rates[0], rates[1]))
                continue
            if not trials:
                raise MeasurementError(f"{where}: 'Trial 1' is missing before 'Averages'.")
            for rate, values, name in zip(
                rates, zip(*trials, strict=True), ("prompt_tps", "generation_tps"), strict=True
            ):
                agree(
                    rate, statistics.fmean(values), f"{where}: field {name!r}", "the mean of the trials", 1e-3
                )
            _add(passes, prefills, sizes, trials, f"{source.path}:{first}")
            ended = True
    if not ended:
        raise MeasurementError(f"{source.path}: 'Averages' are missing: truncated?")
    if not passes:
        raise MeasurementError(f"{source.path}: no 'Trial' with 'prompt_tps=..., generation_tps=...'.")
    return passes, prefills, []


def _add(
    passes: list[PassTime],
    prefills: list[PrefillTime],
    sizes: tuple[int, int, int],
    trials: list[tuple[float, float]],
    where: str,
) -> None:
    prompt, generated, batch = sizes
    prompt_s, prompt_e = _mean([prompt * batch / rate for rate, _ in trials])
    if batch == 1:
        prefills.append(PrefillTime(tokens=prompt, seconds=prompt_s, stderr_s=prompt_e, where=where))
    steps = generated - 1 if batch == 1 else generated
    if steps < 1:
        return
    seconds, error = _mean([generated * batch / rate / steps for _, rate in trials])
    passes.append(
        PassTime(width=batch, context=prompt + (steps - 1) / 2, seconds=seconds, stderr_s=error,
                 passes=steps * len(trials), where=where)
    )  # fmt: skip


def _mean(values: list[float]) -> tuple[float, float | None]:
    mean = statistics.fmean(values)
    return mean, statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


def _generate(source: Source) -> _Found:
    passes: list[PassTime] = []
    prefills: list[PrefillTime] = []
    runs: list[SpeculativeRun] = []
    prompt: tuple[int, float, str] | None = None
    last: tuple[int, float, str] | None = None
    for at, line in enumerate(source.lines, 1):
        where = f"{source.path}:{at}"
        if found := _PROMPT.search(line):
            tokens, rate = _rate(found, f"{where}: field 'Prompt'")
            prompt = (tokens, tokens / rate, where)
        elif found := _GENERATION.search(line):
            tokens, rate = _rate(found, f"{where}: field 'Generation'")
            if prompt is None:
                raise MeasurementError(f"{where}: 'Prompt: N tokens, ...' is missing before 'Generation'.")
            prefills.append(PrefillTime(tokens=prompt[0], seconds=prompt[1], where=prompt[2]))
            last = (tokens - 1, tokens / rate, where)
            if tokens > 1:
                passes.append(
                    PassTime(width=1, context=prompt[0] + (tokens - 2) / 2, seconds=last[1] / last[0],
                             passes=last[0], where=where)
                )  # fmt: skip
            prompt = None
        elif found := _DRAFT.search(line):
            if last is None or not passes or passes[-1].where != last[2]:
                raise MeasurementError(f"{where}: 'Generation' is missing before 'Draft acceptance'.")
            accepted, drafted = (
                number(found[group], f"{where}: field 'Draft acceptance'", whole=True) for group in (1, 2)
            )
            passes.pop()
            runs.append(
                SpeculativeRun(drafter="unknown", accepted_tokens=accepted, drafted_tokens=drafted,
                               output_tokens=last[0], decode_s=last[1], where=where)
            )  # fmt: skip
    if prompt is not None:
        raise MeasurementError(f"{prompt[2]}: 'Generation' is missing after 'Prompt': truncated?")
    return passes, prefills, runs


def _rate(found: re.Match[str], name: str) -> tuple[int, float]:
    if found[3] != "tokens-per-sec":
        raise MeasurementError(f"{name}: given {found[3]!r}, allowed: 'tokens-per-sec'.")
    return int(number(found[1], name, least=1, whole=True)), number(found[2], name, above=True)
