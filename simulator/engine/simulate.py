"""simulate(): one case through the event engine to a Result; queues and heat of other work are unknown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from simulator.engine.machine import Machine
from simulator.engine.outcome import case_of, decode_of, distributions_of, intervals_of
from simulator.engine.session import Served, Session
from simulator.engine.timeline import Timeline
from simulator.engine.work import Request, drawn, replayed, undrafted
from simulator.errors import DraftscopeError
from simulator.lowering import CostParams, Lowered
from simulator.lowering.finish import finish
from simulator.lowering.question import Question, ask
from simulator.results import Result, digest_of
from simulator.specs import Scenario

REPLICATIONS = 100


def simulate(
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
    prompt_tokens: float | None = None,
    output_tokens: float | None = None,
    draft_length: int | None = None,
    batch: float | None = None,
    task: str | None = None,
    axes: dict[str, Any] | None = None,
    transfer: bool = False,
    replications: int = REPLICATIONS,
    seed: int = 0,
    rng: np.random.Generator | None = None,
    steps: bool = False,
    timeline: Timeline | None = None,
) -> Result:
    """Simulate one design on one device, request by request and pass by pass.

    A trace is replayed: its requests are served once, each as soon as the one before is done; its own prompts
    are used unless ``prompt_tokens`` (or a scenario) is given. Of any other acceptance the steps are drawn,
    for ``replications`` equal requests. Plain decoding draws nothing and serves one request.

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
    prompt_tokens, output_tokens, draft_length, batch : float, optional
        Numbers of the scenario; ``output_tokens`` is whole, because every step emits whole tokens.
    task : str, optional
        Task class of a trace.
    axes : dict of str to float, optional
        Overrides of cited inputs (see :data:`simulator.lowering.AXES`).
    transfer : bool
        Allow acceptance of another target or drafter (its kind is then ``assumed``).
    replications : int
        Requests to serve where steps are drawn.
    seed : int
        Seed of the run's generator.
    rng : numpy.random.Generator, optional
        Generator to use instead; the Result then carries no seed.
    steps : bool
        Keep every step as a :class:`~simulator.results.StepRecord` in ``Result.steps``.
    timeline : Timeline, optional
        Collects what ran when.

    Returns
    -------
    Result
        ``method`` is ``engine``. ``intervals`` are 95 % confidence intervals over the replications, not the
        ranges of the inputs; there are none where nothing was drawn. Percentiles of ``ttft``, ``itl`` and
        ``request_time`` are metrics too.

    Raises
    ------
    DraftscopeError, hw_profiles.errors.ProfileError
        For unknown names (with the nearest), missing acceptance, arrays, NaN and impossible numbers.
    """
    question = ask(
        device=device, target=target, drafter=drafter, acceptance=acceptance, runtime=runtime, engine=engine,
        draft_runtime=draft_runtime, draft_engine=draft_engine, scenario=scenario,
        prompt_tokens=prompt_tokens, output_tokens=output_tokens, draft_length=draft_length, batch=batch,
        task=task, axes=axes, transfer=transfer,
    )  # fmt: skip
    _check_one_design(question, replications, seed)
    model, length, lowered = question.acceptance, question.longest, question.lowered
    params = question.bind()
    table = None if model is None else model.steps(length, task=task)
    drawing = model is not None and table is None and length > 0
    listed: list[Request] = []
    requests: Iterable[Request]
    if table is not None:
        prompt = float(question.scenario.prompt_tokens) if question.has_prompt else None
        requests = listed = replayed(table, prompt_tokens=prompt)
    else:
        requests = _asked_for(question, replications, rng or np.random.default_rng(seed))
    served = run(lowered, params, requests, timeline=timeline, energies=steps)
    seen = {
        "steps": [each.steps for each in listed],
        "survival": model.per_position_acceptance_rate(length) if drawing and model is not None else None,
        "draws": [replications, seed if rng is None else None] if drawing else None,
    }
    case = case_of(params, served)
    shown = question.shown()
    shown["inputs"]["requests"] = len(served)
    result = finish(
        lowered, case, **shown, digest=digest_of({**question.identity(), **seen}), method="engine",
        decode=decode_of(case), seed=seed if drawing and rng is None else None,
    )  # fmt: skip
    notes = result.notes
    if drawing:
        notes = (*notes, f"Intervals are 95 % confidence intervals over {len(served)} simulated requests; "
                         "the ranges of the inputs are not in them.")  # fmt: skip
    return replace(
        result,
        metrics={**result.metrics, **distributions_of(served)},
        intervals=intervals_of(case, result.metrics) if drawing else {},
        notes=notes,
        steps=tuple(step for each in served for step in each.steps) if steps else (),
    )


def run(
    lowered: Lowered, params: CostParams, requests: Iterable[Request], *, timeline: Timeline | None = None,
    energies: bool = False, machine: Machine | None = None,
) -> list[Served]:  # fmt: skip
    """Serve requests on a quiet phone, one after the other.

    Parameters
    ----------
    lowered : Lowered
        Names of the engines.
    params : CostParams
        One design, plain numbers.
    requests : iterable of Request
        What is asked.
    timeline : Timeline, optional
        Where spans go.
    energies : bool
        Also compute the energy of each step.
    machine : Machine, optional
        Resources; a phone at time 0 where omitted.
    """
    names = [lowered.ids["engine"], lowered.ids["draft_engine"]]
    phone = machine or machine_of(lowered, params)
    session = Session(phone, params, engine=names[0], draft_engine=names[1], timeline=timeline,
                      energies=energies)  # fmt: skip
    served: list[Served] = []
    phone.env.run(until=phone.env.process(session.serve(requests, served)))
    return served


def machine_of(lowered: Lowered, params: CostParams) -> Machine:
    """Resources of a phone at time 0.

    Parameters
    ----------
    lowered : Lowered
        Names of the engines.
    params : CostParams
        Peak bandwidth.
    """
    return Machine(engines=dict.fromkeys((lowered.ids["engine"], lowered.ids["draft_engine"])),
                   capacity_bytes_per_s=float(params.peak_bandwidth_bytes_per_s))  # fmt: skip


def _asked_for(question: Question, replications: int, rng: np.random.Generator) -> Iterable[Request]:
    question.check_tokens()
    prompt, output = float(question.scenario.prompt_tokens), float(question.scenario.output_tokens)
    if not output.is_integer():
        raise DraftscopeError(
            f"output_tokens: {output!r} given; allowed: whole numbers (predict also takes fractions)."
        )
    decoded, length = int(output) - 1, question.longest
    if question.acceptance is None or length == 0:
        return [undrafted(prompt_tokens=prompt, decoded_tokens=decoded)]
    return drawn(question.acceptance, draft_length=length, prompt_tokens=prompt, decoded_tokens=decoded,
                 replications=replications, rng=rng)  # fmt: skip


def _check_one_design(question: Question, replications: int, seed: int) -> None:
    """Refuse arrays, and what must be a whole number and is not."""
    asked = question.scenario
    numbers = {field.name: getattr(asked, field.name) for field in fields(asked)} | question.axes
    for name, value in numbers.items():
        table = value.values() if isinstance(value, dict) else [value]
        if any(np.ndim(part) for each in table for part in (each if isinstance(each, tuple) else (each,))):
            raise DraftscopeError(f"{name}: an array given; allowed: one number (the engine simulates one "
                                  "design; predict takes arrays).")  # fmt: skip
    for name, whole, least in (("replications", replications, 1), ("seed", seed, 0)):
        number = isinstance(whole, (int, float, np.number)) and not isinstance(whole, bool)
        if not (number and whole >= least and whole == np.floor(whole)):
            raise DraftscopeError(f"{name}: {whole!r} given; allowed: whole numbers >= {least}.")
