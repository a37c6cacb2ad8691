"""Predictions written down before a run on a phone, with a digest and a date; it measures and reads nothing.

The file holds times of passes and prefills, and for every draft length what a step costs, each with the range
that `draftscope predict` gives. What a run then says is judged by `simulator.studies.kit_verdicts`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from hw_profiles import load_device, load_runtime, runtimes_for
from hw_profiles.schema import DeviceProfile, RuntimeProfile
from simulator.acceptance.base import Acceptance
from simulator.analytic import predict
from simulator.analytic.intervals import LEVEL
from simulator.errors import DraftscopeError
from simulator.files import whole_file
from simulator.lowering import lower
from simulator.results import Result, digest_of
from simulator.results.version import version

FILE, RESULTS, POWER, CALIBRATED = "prediction.json", "results", "power", "calibrated"
SCHEMA_VERSION = 1
CONTENT = "draftscope kit prediction"
WIDTHS = tuple(range(1, 17))
CONTEXTS = (0.0, 512.0, 1024.0, 2048.0)
PROMPTS = (32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0)
DRAWS = 256
PRIOR = "prior_cpu"
"""For llama.cpp on a phone for which no runtime of it is described: any CPU kernel, with a wide range."""

Tool = Literal["llama_bench", "litert_lm"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Span(_Frozen):
    """A number and the range that holds 90 % of the draws from the ranges of the inputs."""

    value: float
    low: float
    high: float


class PassPrediction(_Frozen):
    """Time of one pass of the target: rows, tokens in the cache before it, seconds."""

    width: float
    context: float
    seconds: Span


class PrefillPrediction(_Frozen):
    """Time of a prompt: its tokens, seconds."""

    tokens: float
    seconds: Span


class StepPrediction(_Frozen):
    """One draft length.

    Attributes
    ----------
    draft_length : int
    step_cost : Span
        Plain passes that a step costs, which are the tokens per step that it needs to break even.
    tokens_per_step, speedup, decode_tokens_per_s : Span or None
        With the acceptance that the caller gave; None without one.
    """

    draft_length: int
    step_cost: Span
    tokens_per_step: Span | None = None
    speedup: Span | None = None
    decode_tokens_per_s: Span | None = None


class RuntimePrediction(_Frozen):
    """What is predicted of one software stack.

    Attributes
    ----------
    id, runtime : str
        Name of its folder below ``results``, and the runtime as the caller named it.
    tool, engine : str
        What runs it, and where.
    inputs_digest : str
        Of every number that the prediction comes from.
    confidence : str
        Weakest kind of them.
    plain_tokens_per_s : Span
        Plain decoding behind the prompt.
    passes, prefills, steps
        The predictions.
    notes : tuple of str
        What a reader must know.
    """

    id: str
    runtime: str
    tool: Tool
    engine: str
    inputs_digest: str
    confidence: str
    plain_tokens_per_s: Span
    passes: tuple[PassPrediction, ...]
    prefills: tuple[PrefillPrediction, ...]
    steps: tuple[StepPrediction, ...]
    notes: tuple[str, ...] = ()


class Prediction(_Frozen):
    """A prediction with its date; `sha256` is the digest of everything else in it."""

    schema_version: int = SCHEMA_VERSION
    content: str = CONTENT
    version: str
    written_at: AwareDatetime
    device: str
    target: str
    drafter: str
    acceptance: str | None
    prompt_tokens: float
    output_tokens: float
    level: float
    runtimes: tuple[RuntimePrediction, ...]
    sha256: str = ""


def predicted(
    *,
    device: str,
    target: str,
    drafter: str,
    runtimes: Sequence[str],
    lengths: Sequence[int],
    acceptance: Callable[[int], Acceptance | None],
    prompt_tokens: float,
    output_tokens: float,
    now: datetime | None = None,
) -> Prediction:
    """Predict what the commands of the kit will measure.

    Parameters
    ----------
    device, target, drafter : str
        Names or files.
    runtimes : sequence of str
        Names or files; :func:`default_runtimes` where empty.
    lengths : sequence of int
        Draft lengths.
    acceptance : callable
        Acceptance at a draft length; None where none was given or none is known at that length.
    prompt_tokens, output_tokens : float
        Of the response that speeds and step costs hold for.
    now : datetime, optional
        Date of the prediction.

    Raises
    ------
    DraftscopeError, hw_profiles.errors.ProfileError
        For unknown names and impossible numbers.
    """
    profile = load_device(device)
    found: list[RuntimePrediction] = []
    for name in runtimes or default_runtimes(profile):
        runtime = load_runtime(name)
        if runtime.id in {each.id for each in found}:
            raise DraftscopeError(f"--runtime: {runtime.id!r} given twice; allowed: each runtime once.")
        steps, results = _steps(
            profile, target, drafter, runtime, lengths, acceptance, prompt_tokens, output_tokens
        )
        plain = results[0]
        passes, prefills = times_of(profile, target, runtime)
        found.append(RuntimePrediction(
            id=runtime.id, runtime=name, tool=tool_of(runtime), engine=str(plain.inputs["engine"]),
            inputs_digest=digest_of([each.inputs_digest for each in results]), confidence=plain.confidence,
            plain_tokens_per_s=_span(plain, "decode_tokens_per_s"), passes=passes, prefills=prefills,
            steps=steps, notes=tuple(dict.fromkeys(note for each in results for note in each.notes)),
        ))  # fmt: skip
    known = next((given for length in lengths if (given := acceptance(length)) is not None), None)
    unsigned = Prediction(
        version=version(), written_at=(now or datetime.now(UTC)).replace(microsecond=0), device=device,
        target=target, drafter=drafter, acceptance=None if known is None else known.id,
        prompt_tokens=prompt_tokens, output_tokens=output_tokens, level=LEVEL, runtimes=tuple(found),
    )  # fmt: skip
    return unsigned.model_copy(update={"sha256": _digest(unsigned.model_dump(mode="json"))})


def default_runtimes(device: DeviceProfile) -> list[str]:
    """LiteRT-LM and llama.cpp on the engines of a phone; elsewhere the device's default runtime."""
    if device.device_class != "phone":
        return [device.default_runtime]
    fitting = [name for name in runtimes_for(device) if name.startswith(("litert_lm", "llama_cpp"))]
    others = [] if any(name.startswith("llama_cpp") for name in fitting) else [PRIOR]
    return [*others, *fitting]


def tool_of(runtime: RuntimeProfile) -> Tool:
    """What measures a stack: LiteRT-LM its own, llama-bench all others."""
    return "litert_lm" if runtime.id.startswith("litert_lm") else "llama_bench"


def times_of(
    device: DeviceProfile, target: str, runtime: RuntimeProfile
) -> tuple[tuple[PassPrediction, ...], tuple[PrefillPrediction, ...]]:
    """Times of passes and prefills, as `calibrate` reads them from a file.

    Parameters
    ----------
    device, target, runtime
        Case.
    """
    lowered = lower(device=device, target=target, runtime=runtime, drafter="none")
    drawn = lowered.draw(np.random.default_rng(0), DRAWS)
    tokens = {"prompt_tokens": PROMPTS[0], "output_tokens": 2.0}
    middle, spread = lowered.bind(**tokens), lowered.bind(**tokens, **drawn)
    passes = [
        PassPrediction(width=width, context=context, seconds=_ends(
            middle.verify_cost(float(width)).time_at(context),
            spread.verify_cost(float(width)).time_at(context)))
        for width in WIDTHS for context in CONTEXTS
    ]  # fmt: skip
    prefills = []
    for prompt in PROMPTS:
        tokens["prompt_tokens"] = prompt
        prefills.append(PrefillPrediction(tokens=prompt, seconds=_ends(
            lowered.bind(**tokens).target_prefill().time_s,
            lowered.bind(**tokens, **drawn).target_prefill().time_s)))  # fmt: skip
    return tuple(passes), tuple(prefills)


def step_costs(
    prediction: Prediction, each: RuntimePrediction, runtime: RuntimeProfile | None = None
) -> tuple[StepPrediction, ...]:
    """Costs of steps with today's profiles, or with a calibrated runtime; no acceptance is asked.

    Parameters
    ----------
    prediction : Prediction
        Case.
    each : RuntimePrediction
        Its stack and draft lengths.
    runtime : RuntimeProfile, optional
        Another runtime in its place.
    """
    return _steps(
        load_device(prediction.device), prediction.target, prediction.drafter,
        runtime or load_runtime(each.runtime), [step.draft_length for step in each.steps],
        lambda length: None, prediction.prompt_tokens, prediction.output_tokens,
    )[0]  # fmt: skip


def _steps(
    device: DeviceProfile,
    target: str,
    drafter: str,
    runtime: RuntimeProfile,
    lengths: Sequence[int],
    acceptance: Callable[[int], Acceptance | None],
    prompt_tokens: float,
    output_tokens: float,
) -> tuple[tuple[StepPrediction, ...], list[Result]]:
    """Steps of every draft length, and the results behind them, plain decoding first."""
    case: dict[str, Any] = {"device": device, "target": target, "runtime": runtime, "transfer": True,
                            "prompt_tokens": prompt_tokens, "output_tokens": output_tokens}  # fmt: skip
    results = [predict(**case, draft_length=0)]
    steps = []
    for length in lengths:
        given = acceptance(length)
        # What a step costs hardly depends on how many of its drafts are accepted (catch-up passes).
        found = predict(**case, drafter=drafter, draft_length=length, acceptance=given or 0.0)
        results.append(found)
        names = ("tokens_per_step", "speedup", "decode_tokens_per_s") if given is not None else ()
        steps.append(StepPrediction(
            draft_length=length, step_cost=_span(found, "break_even_acceptance_length"),
            **{name: _span(found, name) for name in names},
        ))  # fmt: skip
    return tuple(steps), results


def _span(result: Result, name: str) -> Span:
    value = float(result[name])
    low, high = result.intervals.get(name, (value, value))
    return Span(value=value, low=low, high=high)


def _ends(middle: Any, spread: Any) -> Span:
    value, drawn = float(middle), np.broadcast_to(spread, (DRAWS,))
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Span(value=value, low=min(float(low), value), high=max(float(high), value))


# ------------------------------------------------------------------------------------------------- file
def write_prediction(folder: Path, prediction: Prediction) -> Path:
    """Write the file of a prediction; one that is there is never replaced.

    Parameters
    ----------
    folder : Path
        Of the kit.
    prediction : Prediction
        From :func:`predicted`.
    """
    file = folder / FILE
    if file.exists():
        raise DraftscopeError(
            f"--out: {file} is there already, and a prediction is never replaced; allowed: a folder without "
            f"one. To compare it with results: draftscope kit --results {folder}"
        )
    with whole_file(file, where="--out ", make_folder=True) as partial:
        partial.write_text(json.dumps(prediction.model_dump(mode="json"), indent=1) + "\n", "utf-8")
    return file


def read_prediction(folder: Path) -> Prediction:
    """Read the file back.

    Parameters
    ----------
    folder : Path
        Of the kit.

    Raises
    ------
    DraftscopeError
        If there is none, or it is not what :func:`write_prediction` wrote.
    """
    file = folder / FILE
    if not file.is_file():
        raise DraftscopeError(
            f"--results: there is no {file}; needed: the folder that draftscope kit --out wrote, results in "
            f"its {RESULTS}/."
        )
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise DraftscopeError(f"{file}:{error.lineno}: not JSON: {error.msg}.") from None
    except (UnicodeDecodeError, RecursionError):
        raise DraftscopeError(f"{file}: is not a prediction: no UTF-8 text of JSON.") from None
    if not isinstance(data, dict) or data.get("content") != CONTENT:
        raise DraftscopeError(f"{file}: content: allowed: {CONTENT!r}; this is not a prediction.")
    if data.get("schema_version") != SCHEMA_VERSION:
        given = data.get("schema_version")
        raise DraftscopeError(f"{file}: schema_version: given {given!r}, allowed: {SCHEMA_VERSION}.")
    stated, is_ = data.get("sha256"), _digest(data)
    if stated != is_:
        raise DraftscopeError(
            f"{file}: was changed after it was written: its content has the digest {is_[:16]}..., but it "
            f"states {str(stated)[:16]}...; allowed: the file as draftscope kit --out wrote it."
        )
    try:
        return Prediction.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise DraftscopeError(f"{file}: {where}: {first['msg']}.") from None


def _digest(data: dict[str, Any]) -> str:
    return digest_of({key: value for key, value in data.items() if key != "sha256"})
