"""predict(): one case, or arrays of them, to a Result with ledgers, intervals, sources; nothing queues."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from simulator.analytic.intervals import intervals_of
from simulator.lowering import CostParams
from simulator.lowering.acceptance import survival_of
from simulator.lowering.affine import Quantity
from simulator.lowering.finish import Case, case_of_steps, finish
from simulator.lowering.question import ask
from simulator.lowering.workload import closed_form_workload, expected_workload
from simulator.results import Result, digest_of
from simulator.specs import Scenario


def predict(
    *,
    device: Any,
    target: Any,
    drafter: Any = "none",
    acceptance: Any = None,
    runtime: Any = None,
    engine: str | None = None,
    draft_runtime: Any = None,
    draft_engine: str | None = None,
    scenario: Scenario | None = None,
    prompt_tokens: Quantity | None = None,
    output_tokens: Quantity | None = None,
    draft_length: Quantity | None = None,
    batch: Quantity | None = None,
    task: str | None = None,
    axes: dict[str, Any] | None = None,
    transfer: bool = False,
    intervals: bool = True,
    draws: int = 256,
    rng: np.random.Generator | None = None,
) -> Result:
    """Predict speed, energy and memory of a drafter on a device.

    A trace is summed exactly over its steps, context growing; its own prompts are used unless
    ``prompt_tokens`` (or a scenario) is given, its responses always. Any other acceptance gives the exact
    expectation over the response, and for arrays of designs the closed form of it.

    Parameters
    ----------
    device, target, drafter, runtime, draft_runtime : str, path or loaded object
        As in :func:`simulator.lowering.lower`.
    acceptance : float, str, Path, Trace or Acceptance
        i.i.d. rate, name of a published set, trace, or model. Never defaulted; not needed for
        ``draft_length`` 0.
    engine, draft_engine : str, optional
        Engines, for runtimes that work with any.
    scenario : Scenario, optional
        Tokens, draft length, batch, context, engines. The next four arguments override it.
    prompt_tokens, output_tokens, draft_length, batch : float or array, optional
        Numbers of the scenario. Tokens may be fractions, as means are.
    task : str, optional
        Task class of a trace.
    axes : dict, optional
        Overrides of cited inputs, floats or arrays (see :data:`simulator.lowering.AXES`).
    transfer : bool
        Allow acceptance of another target or drafter (its kind is then ``assumed``).
    intervals : bool
        Also propagate the ranges of the cited inputs.
    draws : int
        Draws for the intervals.
    rng : numpy.random.Generator, optional
        For the intervals; a generator with seed 0 where omitted.

    Returns
    -------
    Result
        ``method`` is ``analytic``.

    Raises
    ------
    DraftscopeError, hw_profiles.errors.ProfileError
        For unknown names (with the nearest), missing acceptance, NaN, negative and impossible numbers.
    """
    question = ask(
        device=device, target=target, drafter=drafter, acceptance=acceptance, runtime=runtime, engine=engine,
        draft_runtime=draft_runtime, draft_engine=draft_engine, scenario=scenario,
        prompt_tokens=prompt_tokens, output_tokens=output_tokens, draft_length=draft_length, batch=batch,
        task=task, axes=axes, transfer=transfer,
    )  # fmt: skip
    asked, model, length = question.scenario, question.acceptance, question.scenario.draft_length
    params = question.bind()
    steps = None if model is None or np.ndim(length) else model.steps(int(length), task=task)
    survival = None
    if steps is not None:
        prompt = asked.prompt_tokens if question.has_prompt else None
        case = case_of_steps(params, steps, prompt_tokens=prompt)
    else:
        question.check_tokens()
        survival = survival_of(model, length)
        case = _expected(params, survival)
    seen = {"survival": survival, "work": case.work if survival is None else None}
    digest = digest_of({**question.identity(), **seen})
    result = finish(question.lowered, case, **question.shown(), digest=digest, method="analytic")
    if not intervals or any(np.ndim(value) for value in result.metrics.values()):
        return result
    generator = rng or np.random.default_rng(0)
    spread = None
    if model is not None and question.longest:
        spread = model.interval(question.longest, rng=generator, task=question.task)
    found = intervals_of(question, case, result.metrics, length_range=spread, rng=generator, draws=draws)
    return replace(result, intervals=found, seed=None if rng else 0)


def _expected(params: CostParams, survival: list[Quantity]) -> Case:
    """Exact expectation for one design, the closed form for arrays of them and for fractional tokens."""
    numbers = (
        params.prompt_tokens, params.output_tokens, params.draft_length, params.fixed_context, *survival,
    )  # fmt: skip
    single = all(number is None or np.ndim(number) == 0 for number in numbers)
    single = single and float(params.output_tokens).is_integer()
    work = expected_workload(params, survival) if single else closed_form_workload(params, survival)
    return Case(params=params, work=work, prompt_tokens=params.prompt_tokens)
