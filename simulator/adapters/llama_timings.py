"""What llama.cpp says about responses, as observations; it does not know how it was written down.

``predicted`` counts the first token, which prefill gives; ``predicted_s`` starts when that token is there. So
``predicted - 1`` tokens were emitted by passes in that time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from simulator.adapters.observations import Observations, PassTime, PrefillTime, SpeculativeRun


@dataclass(kw_only=True)
class Response:
    """Timings of one response.

    Attributes
    ----------
    prompt, cached : float or None
        Prompt tokens processed, and taken from the cache.
    prompt_s : float or None
        Time for the processed ones.
    prompt_where : str
        Place of it.
    predicted : int
        Tokens of the response, the first one included.
    predicted_s : float
        Time from the first token to the last.
    drafted, accepted : float or None
        Draft tokens.
    drafter : str
        Name of the drafter.
    draft_length : int or None
        Drafts proposed per step at most.
    steps, draft_s : float or None
        Steps with drafts, and the time spent drafting.
    where : str
        Place.
    statistics : dict
        Counters of the drafters after this response, by drafter.
    """

    prompt: float | None = None
    cached: float = 0.0
    prompt_s: float | None = None
    prompt_where: str = ""
    predicted: int = 0
    predicted_s: float = 0.0
    drafted: float | None = None
    accepted: float | None = None
    drafter: str = "unknown"
    draft_length: int | None = None
    steps: float | None = None
    draft_s: float | None = None
    where: str
    statistics: dict[str, tuple[float, ...]] = field(default_factory=dict)


def observations(
    path: str,
    responses: Sequence[Response],
    model: str | None,
    ignored: Sequence[str],
    weight_bytes: float | None = None,
) -> Observations:
    """Passes of plain responses, runs of speculative ones, prefill of all."""
    plain = [response for response in responses if not response.drafted]
    passes_s = sum(response.predicted_s for response in plain)
    emitted = sum(response.predicted - 1 for response in plain)
    baseline = emitted / passes_s if emitted and passes_s else None
    left_out = list(ignored)
    passes, prefills, runs = [], [], []
    for response in responses:
        if response.prompt and response.prompt_s:
            prefills.append(
                PrefillTime(tokens=response.prompt, seconds=response.prompt_s, context=response.cached,
                            where=response.prompt_where or response.where)
            )  # fmt: skip
        output = response.predicted - 1
        if output < 1 or response.predicted_s <= 0:
            left_out.append(f"{response.where}: one token: no pass after prefill")
        elif response.drafted:
            accepted = response.accepted or 0.0
            steps = output - accepted if response.steps is None else response.steps
            if accepted > output or steps < 1:
                left_out.append(f"{response.where}: most accepted drafts lie beyond the stop")
                continue
            runs.append(
                SpeculativeRun(drafter=response.drafter, draft_length=response.draft_length, steps=steps,
                               drafted_tokens=response.drafted, accepted_tokens=accepted,
                               output_tokens=output, decode_s=response.predicted_s, draft_s=response.draft_s,
                               baseline_tokens_per_s=baseline, where=response.where)
            )  # fmt: skip
        elif response.prompt is None:
            left_out.append(f"{response.where}: no prompt tokens: the context is not known")
        else:
            context = response.cached + response.prompt + (output - 1) / 2
            passes.append(
                PassTime(width=1, context=context, seconds=response.predicted_s / output, passes=output,
                         where=response.where)
            )  # fmt: skip
    return Observations(
        source=path,
        format="llama_server",
        runtime="llama.cpp",
        model=model,
        weight_bytes=weight_bytes,
        passes=tuple(passes),
        prefills=tuple(prefills),
        runs=tuple(runs),
        ignored=tuple(left_out),
    )
