"""predict(): one case, or arrays of them, to a Result with ledgers, intervals, sources; nothing queues."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from simulator.analytic.intervals import intervals_of
from simulator.errors import DraftscopeError
from simulator.lowering import CostParams, lower_cached
from simulator.lowering.acceptance import as_acceptance, kind_of, survival_of
from simulator.lowering.affine import Quantity
from simulator.lowering.finish import Case, case_of_steps, finish
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
        Numbers of the scenario.
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
    asked = scenario or Scenario(prompt_tokens=1, output_tokens=2)
    lowered = lower_cached(
        device=device,
        target=target,
        drafter=drafter,
        runtime=runtime,
        engine=engine or asked.engine,
        draft_runtime=draft_runtime,
        draft_engine=draft_engine or asked.draft_engine,
    )
    given = {
        "prompt_tokens": prompt_tokens,
        "output_tokens": output_tokens,
        "draft_length": draft_length,
        "batch": batch,
    }
    asked = replace(asked, **{name: value for name, value in given.items() if value is not None})
    length = asked.draft_length
    if lowered.drafter.family == "none" and np.any(np.asarray(length) > 0):
        raise DraftscopeError(f"draft_length: {length!r} given for drafter 'none'; allowed: 0.")
    model = as_acceptance(
        acceptance,
        target_id=lowered.ids["target"],
        drafter=lowered.drafter,
        draft_length=length,
        transfer=transfer,
    )
    params = lowered.bind(asked, **(axes or {}))
    steps = None if model is None or np.ndim(length) else model.steps(int(length), task=task)
    survival = None
    if steps is not None:
        own = scenario is None and prompt_tokens is None
        case = case_of_steps(params, steps, prompt_tokens=None if own else asked.prompt_tokens)
    else:
        _check_tokens(asked, given=scenario is not None or None not in (prompt_tokens, output_tokens))
        survival = survival_of(model, length)
        case = _expected(params, survival)
    largest = int(np.max(length))
    identity = {
        "case": lowered.digest,
        "scenario": asked,
        "axes": axes,
        "acceptance": None if model is None else model.id,
        "survival": survival,
        "work": case.work if survival is None else None,
        "task": task,
    }
    result = finish(
        lowered,
        case,
        inputs={"acceptance": None if model is None else model.id, "task": task},
        acceptance_kind=kind_of(
            model, target_id=lowered.ids["target"], drafter=lowered.drafter, draft_length=largest
        ),
        acceptance_sources=() if model is None else model.sources,
        digest=digest_of(identity),
        method="analytic",
    )
    if not intervals or any(np.ndim(value) for value in result.metrics.values()):
        return result
    generator = rng or np.random.default_rng(0)
    spread = model.interval(largest, rng=generator) if model is not None and largest else None
    found = intervals_of(
        lowered, case, asked, axes or {}, result.metrics, length_range=spread, rng=generator, draws=draws
    )
    return replace(result, intervals=found, seed=None if rng else 0)


def _check_tokens(asked: Scenario, *, given: bool) -> None:
    if not given:
        raise DraftscopeError(
            "scenario: none given; give one, or prompt_tokens and output_tokens (only a trace has its own)."
        )
    if not np.all(np.asarray(asked.output_tokens) >= 2):
        raise DraftscopeError(
            f"output_tokens: {asked.output_tokens!r} given; allowed: at least 2, the first is from prefill."
        )


def _expected(params: CostParams, survival: list[Quantity]) -> Case:
    """Exact expectation for one design, the closed form for arrays of them and for fractional tokens."""
    numbers = (
        params.prompt_tokens, params.output_tokens, params.draft_length, params.fixed_context, *survival,
    )  # fmt: skip
    single = all(number is None or np.ndim(number) == 0 for number in numbers)
    single = single and float(params.output_tokens).is_integer()
    work = expected_workload(params, survival) if single else closed_form_workload(params, survival)
    return Case(params=params, work=work, prompt_tokens=params.prompt_tokens)
