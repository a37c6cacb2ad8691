"""Ranges of cited inputs carried to the metrics by sampling; how inputs hang together is unknown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from simulator.lowering.finish import Case, metrics_of_case
from simulator.lowering.inputs import Input
from simulator.lowering.question import Question
from simulator.lowering.workload import Workload

LEVEL = 0.9
"""Share of the draws inside an interval."""


def intervals_of(
    question: Question,
    case: Case,
    point: dict[str, Any],
    *,
    length_range: tuple[float, float] | None,
    rng: np.random.Generator,
    draws: int,
) -> dict[str, tuple[float, float]]:
    """Low and high of every metric: the middle 90 % of the draws, widened to hold the point itself.

    Every uncertain input is drawn independently, half of the draws below its value and half above, uniform
    in each half; the mean acceptance length likewise in its own range. Time, energy and speedup come from
    the same draws, so that what cancels in a ratio cancels here.

    Parameters
    ----------
    question : Question
        Inputs with ranges; the caller's overrides are not drawn.
    case : Case
        What was predicted.
    point : dict of str to float
        Metrics at the values.
    length_range : (float, float) or None
        Range of the mean acceptance length.
    rng : numpy.random.Generator
        The run's generator.
    draws : int
        Number of draws.
    """
    lowered, axes = question.lowered, question.axes
    drawn = {name: value for name, value in lowered.draw(rng, draws).items() if name not in axes}
    work = case.work
    if length_range is not None:
        middle = float(work.mean_acceptance_length)
        length = Input(value=middle, low=min(length_range[0], middle), high=max(length_range[1], middle))
        work = stretched(work, length.drawn(rng.random(draws)))
    if not drawn and work is case.work:
        return {}
    params = lowered.bind(question.scenario, **{**drawn, **axes})
    params = replace(params, prompt_tokens=case.params.prompt_tokens, output_tokens=case.params.output_tokens)
    values, _ = metrics_of_case(replace(case, params=params, work=work), ledger=False)
    names = [name for name, value in values.items() if np.ndim(value) > 0]
    if not names:
        return {}
    table = np.stack([np.broadcast_to(values[name], (draws,)) for name in names])
    tail = (1.0 - LEVEL) / 2.0
    low_row, high_row = np.quantile(table, [tail, 1.0 - tail], axis=1)
    return {
        name: (min(float(low_row[i]), float(point[name])), max(float(high_row[i]), float(point[name])))
        for i, name in enumerate(names)
    }


def stretched(work: Workload, mean_acceptance_length: Any) -> Workload:
    """The same response with another mean acceptance length: steps in inverse proportion, contexts alike.

    Parameters
    ----------
    work : Workload
        Steps of the response.
    mean_acceptance_length : float or array
        1 + accepted per step instead.
    """
    factor = work.mean_acceptance_length / mean_acceptance_length
    extra = work.mean_acceptance_length - 1.0
    accepted = (mean_acceptance_length - 1.0) / extra if extra > 0 else 0.0
    return replace(
        work,
        verify=tuple(
            replace(group, accepted=group.accepted * factor * accepted, sums=group.sums * factor)
            for group in work.verify
        ),
        drafts=work.drafts * factor,
        catch_ups=work.catch_ups * factor,
        draft_passes=work.draft_passes * factor,
        wasted_draft_share=np.clip(1.0 - (1.0 - work.wasted_draft_share) * accepted, 0.0, 1.0),
        mean_acceptance_length=mean_acceptance_length,
    )
