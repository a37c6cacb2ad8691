"""One case asked again with other draft lengths, inputs and acceptance; it does not say what that means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.acceptance.iid import IidAcceptance
from simulator.analytic.intervals import LEVEL, stretched
from simulator.lowering.acceptance import survival_of
from simulator.lowering.finish import Case, case_of_steps, metrics_of_case
from simulator.lowering.inputs import Input
from simulator.lowering.question import Question, ask
from simulator.lowering.workload import closed_form_workload, expected_workload
from simulator.physics.verify import relative_cost

ACCEPTANCE = "mean_acceptance_length"
ASKED = {
    "drafter": "none", "acceptance": None, "runtime": None, "engine": None, "draft_runtime": None,
    "draft_engine": None, "scenario": None, "prompt_tokens": None, "output_tokens": None,
    "draft_length": None, "batch": None, "task": None, "axes": None, "transfer": False,
}  # fmt: skip
"""Arguments of :func:`simulator.lowering.question.ask` and what they are where left out."""


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """What one uncertain input, moved alone over its range, does to the speedup.

    Attributes
    ----------
    input : str
        Axis, or ``mean_acceptance_length``.
    value, low, high : float
        The input and its range; of the verify curve its cost at the width of the verify pass, of a table its
        first entry.
    kind : str
        published | measured | derived | assumed.
    sources : tuple of str
        Reference keys.
    speedup_low, speedup_high : float
        Speedup with the input at ``low`` and at ``high``.
    swing : float
        Largest minus smallest speedup over low, value and high.
    """

    input: str
    value: float
    low: float
    high: float
    kind: str
    sources: tuple[str, ...]
    speedup_low: float
    speedup_high: float
    swing: float


@dataclass(frozen=True, kw_only=True)
class Best:
    """The draft length that decodes fastest, over the ranges of the inputs.

    Attributes
    ----------
    draft_length : int
        At the values of all inputs; 0 where plain decoding is fastest.
    low, high : int
        The middle 90 % of the draws.
    share : float
        Part of the draws in which ``draft_length`` is the best.
    pays : float
        Part of the draws in which some draft length beats plain decoding.
    """

    draft_length: int
    low: int
    high: int
    share: float
    pays: float


def case_of(question: Question) -> Case:
    """Costs and expected (or replayed) steps of a question, as :func:`simulator.analytic.predict` sees them.

    Parameters
    ----------
    question : Question
        One design.
    """
    model, length = question.acceptance, int(question.scenario.draft_length)
    params = question.bind()
    steps = None if model is None or length == 0 else model.steps(length, task=question.task)
    if steps is not None:
        prompt = question.scenario.prompt_tokens if question.has_prompt else None
        return case_of_steps(params, steps, prompt_tokens=prompt)
    question.check_tokens()
    survival = survival_of(model, length)
    whole = float(params.output_tokens).is_integer()
    work = expected_workload(params, survival) if whole else closed_form_workload(params, survival)
    return Case(params=params, work=work, prompt_tokens=params.prompt_tokens)


class Asked:
    """A question that can be asked at any draft length.

    Parameters
    ----------
    **case
        As :func:`simulator.analytic.predict` takes it.
    """

    def __init__(self, **case: Any) -> None:
        self.question: Question = ask(**{**ASKED, **case})
        self._cases: dict[int, Case] = {}

    @property
    def draft_length(self) -> int:
        """Draft length of the case."""
        return int(self.question.scenario.draft_length)

    def at(self, draft_length: int) -> Case:
        """The case with another draft length."""
        if draft_length not in self._cases:
            self._cases[draft_length] = case_of(self.with_length(draft_length))
        return self._cases[draft_length]

    def with_length(self, draft_length: int) -> Question:
        """The question at another draft length."""
        return replace(self.question, scenario=replace(self.question.scenario, draft_length=draft_length))

    def metrics(
        self, draft_length: int, axes: dict[str, Any] | None = None, *, length: Any = None
    ) -> dict[str, Any]:
        """Metrics with other inputs (floats or arrays), and with another mean acceptance length.

        Parameters
        ----------
        draft_length : int
            Drafts per step.
        axes : dict, optional
            Inputs to replace.
        length : float or array, optional
            Mean acceptance length.
        """
        case, question = self.at(draft_length), self.with_length(draft_length)
        if axes:
            params = question.lowered.bind(question.scenario, **{**question.axes, **axes})
            params = replace(params, prompt_tokens=case.params.prompt_tokens,
                             output_tokens=case.params.output_tokens)  # fmt: skip
            case = replace(case, params=params)
        if length is not None:
            case = replace(case, work=stretched(case.work, length))
        return metrics_of_case(case, ledger=False)[0]

    def speedup(self, draft_length: int, axes: dict[str, Any] | None = None, *, length: Any = None) -> Any:
        """Speedup alone; see :meth:`metrics`."""
        return self.metrics(draft_length, axes, length=length)["speedup"]

    def acceptance_range(self, draft_length: int) -> tuple[float, float] | None:
        """Range of the mean acceptance length, None where none is known."""
        model = self.question.acceptance
        if model is None or draft_length == 0:
            return None
        return model.interval(draft_length, rng=np.random.default_rng(0), task=self.question.task)

    @property
    def uncertain(self) -> dict[str, Input]:
        """Inputs of decode time that have a range and were not set by the caller."""
        question = self.question
        return {
            name: each
            for name, each in question.lowered.inputs.items()
            if each.uncertain and each.group == "time" and name not in question.axes
        }

    def sensitivities(self) -> list[Sensitivity]:
        """Every uncertain input moved alone over its range, largest swing of the speedup first."""
        at = self.draft_length
        value = float(self.speedup(at))
        found = []
        for name, each in self.uncertain.items():
            ends = [float(self.speedup(at, {name: each.drawn(end)})) for end in (0.0, 1.0)]
            found.append(Sensitivity(
                input=name, **self._shown(name, each, at), kind=each.kind, sources=each.sources,
                speedup_low=ends[0], speedup_high=ends[1],
                swing=max(*ends, value) - min(*ends, value),
            ))  # fmt: skip
        length, model = self.acceptance_range(at), self.question.acceptance
        if length is not None and model is not None:
            middle = float(self.at(at).work.mean_acceptance_length)
            low, high = min(length[0], middle), max(length[1], middle)
            ends = [float(self.speedup(at, length=end)) for end in (low, high)]
            found.append(Sensitivity(
                input=ACCEPTANCE, value=middle, low=low, high=high, kind=model.kind_at(at),
                sources=model.sources, speedup_low=ends[0], speedup_high=ends[1],
                swing=max(ends) - min(ends),
            ))  # fmt: skip
        return sorted(found, key=lambda each: -each.swing)

    def _shown(self, name: str, each: Input, draft_length: int) -> dict[str, float]:
        """Value and range of an input as one number each."""
        draft = name.startswith("draft_")
        lowered, batch = self.question.lowered, float(self.question.scenario.batch)
        statics = lowered.draft_statics if draft else lowered.statics

        def one(value: Any) -> float:
            if isinstance(value, Mapping):
                return float(next(iter(value.values())))
            if not isinstance(value, tuple):
                return float(value)
            width = batch if draft else batch * (draft_length + 1)
            cost = relative_cost(
                width=width,
                widths=statics["curve_widths"],
                costs=value,
                tile=statics["tile"],
                extrapolation=statics["curve_extrapolation"],
            )
            return float(cost)

        return {"value": one(each.value), "low": one(each.low), "high": one(each.high)}

    def best(self, lengths: Sequence[int], *, draws: int) -> Best:
        """The best draft length, plain decoding among them, over common draws of all uncertain inputs.

        Parameters
        ----------
        lengths : sequence of int
            Draft lengths to choose from.
        draws : int
            Number of draws.
        """
        rng = np.random.default_rng(0)
        axes = {name: each.drawn(rng.random(draws)) for name, each in self.uncertain.items()}
        place = rng.random(draws)
        points = {length: float(self.speedup(length)) for length in lengths}
        table: list[NDArray[np.float64]] = [np.ones(draws)]
        for length in lengths:
            spread = self.acceptance_range(length)
            drawn = None
            if spread is not None:
                middle = float(self.at(length).work.mean_acceptance_length)
                ends = Input(value=middle, low=min(spread[0], middle), high=max(spread[1], middle))
                drawn = ends.drawn(place)
            found = self.speedup(length, axes, length=drawn)
            table.append(np.broadcast_to(np.asarray(found, dtype=float), (draws,)))
        options = np.array([0, *lengths])
        chosen = options[np.argmax(np.stack(table), axis=0)]
        value = max({0: 1.0, **points}.items(), key=lambda item: item[1])[0]
        tail = (1.0 - LEVEL) / 2.0
        low, high = np.quantile(chosen, [tail, 1.0 - tail], method="nearest")
        return Best(
            draft_length=int(value), low=min(int(low), int(value)), high=max(int(high), int(value)),
            share=float(np.mean(chosen == value)), pays=float(np.mean(chosen > 0)),
        )  # fmt: skip

    def break_even_rate(self, draft_length: int) -> float | None:
        """The i.i.d. acceptance rate at which the speedup is 1, None where full acceptance is too little.

        Found by bisection; 0 where speculation pays without a single accepted draft.
        """
        case = self.at(draft_length)
        scenario = replace(
            self.question.scenario, draft_length=draft_length, prompt_tokens=round(float(case.prompt_tokens)),
            output_tokens=max(2, round(float(case.work.decoded_tokens)) + 1),
        )  # fmt: skip
        question = replace(self.question, scenario=scenario, has_tokens=True)

        def pays(rate: float) -> bool:
            asked = replace(question, acceptance=IidAcceptance(acceptance_rate=rate))
            return float(metrics_of_case(case_of(asked), ledger=False)[0]["speedup"]) >= 1.0

        if not pays(1.0):
            return None
        if pays(0.0):
            return 0.0
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (low, middle) if pays(middle) else (middle, high)
        return high
