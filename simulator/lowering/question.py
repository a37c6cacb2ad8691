"""What closed form and engine are both asked, read and checked: case, numbers, acceptance; not answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from simulator.acceptance import Acceptance, TraceAcceptance
from simulator.drafters import list_drafters
from simulator.errors import DraftscopeError
from simulator.lowering.acceptance import as_acceptance, kind_of
from simulator.lowering.affine import Quantity
from simulator.lowering.limits import check_range
from simulator.lowering.lower import lower_cached
from simulator.lowering.lowered import Lowered
from simulator.lowering.params import CostParams
from simulator.lowering.remarks import acceptance_remark, context_remark, dtype_remark
from simulator.specs import Scenario, TargetSpec, build_name, list_targets, load_target


@dataclass(frozen=True, kw_only=True)
class Question:
    """A checked question.

    Attributes
    ----------
    lowered : Lowered
        Device, runtime, target and drafter.
    scenario : Scenario
        Numbers asked for; prompt and output mean nothing unless ``has_tokens``.
    axes : dict
        Overrides of cited inputs; numbers of the scenario among them are in ``scenario``.
    acceptance : Acceptance or None
        Model; None for plain decoding.
    task : str or None
        Task class of a trace.
    has_prompt, has_tokens : bool
        Whether a prompt was given (a trace is otherwise replayed with its own), and prompt and output both.
    builds : dict
        Names to show of a target or drafter in another build than its id stands for.
    """

    lowered: Lowered
    scenario: Scenario
    axes: dict[str, Any]
    acceptance: Acceptance | None
    task: str | None
    has_prompt: bool
    has_tokens: bool
    builds: dict[str, str]

    @property
    def longest(self) -> int:
        """Draft length, of many designs the longest."""
        return int(np.max(self.scenario.draft_length))

    def bind(self) -> CostParams:
        """Costs."""
        return self.lowered.bind(self.scenario, **self.axes)

    def check_tokens(self) -> None:
        """Refuse a response of unknown length, and one that ends with its first token.

        Raises
        ------
        DraftscopeError
            Without a scenario or both numbers, and for an output below 2 tokens.
        """
        if not self.has_tokens:
            raise DraftscopeError(
                "scenario: none given; give one, or prompt_tokens and output_tokens (--prompt-tokens and "
                "--output-tokens; only a trace has its own)."
            )
        if not np.all(np.asarray(self.scenario.output_tokens) >= 2):
            raise DraftscopeError(
                f"output_tokens: {self.scenario.output_tokens!r} given; allowed: at least 2, the first is "
                "from prefill."
            )

    def shown(self) -> dict[str, Any]:
        """Acceptance, its kind and its sources, as :func:`simulator.lowering.finish.finish` takes them."""
        model, lowered = self.acceptance, self.lowered
        kind = kind_of(model, target_id=lowered.ids["target"], drafter=lowered.drafter,
                       draft_length=self.longest)  # fmt: skip
        return {
            "inputs": {
                **self.builds,
                "acceptance": None if model is None else model.id,
                "task": self.task,
                **self._settings(),
            },
            "acceptance_kind": kind,
            "acceptance_sources": () if model is None else model.sources,
        }

    def _settings(self) -> dict[str, Any]:
        """What the caller set beyond the case: filters of a trace, a fixed context, overrides of inputs."""
        found: dict[str, Any] = {}
        if isinstance(self.acceptance, TraceAcceptance):
            found |= {"max_overlap": self.acceptance.max_overlap, "min_prob": self.acceptance.min_prob}
        if self.scenario.context is not None:
            found["context"] = self.scenario.context
        return found | {f"set.{name}": value for name, value in self.axes.items()}

    def identity(self) -> dict[str, Any]:
        """What a digest of the inputs holds whatever the acceptance is."""
        return {
            "case": self.lowered.digest, "scenario": self.scenario, "axes": self.axes, "task": self.task,
            "acceptance": None if self.acceptance is None else self.acceptance.id,
        }  # fmt: skip


def ask(
    *,
    device: Any,
    target: Any,
    drafter: Any,
    acceptance: Any,
    runtime: Any,
    engine: str | None,
    draft_runtime: Any,
    draft_engine: str | None,
    scenario: Scenario | None,
    prompt_tokens: Quantity | None,
    output_tokens: Quantity | None,
    draft_length: Quantity | None,
    batch: Quantity | None,
    task: str | None,
    axes: dict[str, Any] | None,
    transfer: bool,
) -> Question:
    """Read and check what :func:`simulator.analytic.predict` is given; the engine takes the same.

    Returns
    -------
    Question
        Names loaded, numbers joined with the scenario, acceptance as a model.

    Raises
    ------
    DraftscopeError, hw_profiles.errors.ProfileError
        For unknown names (with the nearest), missing acceptance, NaN, negative and impossible numbers.
    """
    numbers = {
        "prompt_tokens": prompt_tokens, "output_tokens": output_tokens, "draft_length": draft_length,
        "batch": batch,
    }  # fmt: skip
    names = {field.name for field in fields(Scenario)}
    given = {name: value for name, value in numbers.items() if value is not None}
    axes = _checked_axes(axes)
    given |= {name: value for name, value in axes.items() if name in names}
    for name, value in axes.items():
        check_range(name, value)
    asked = replace(scenario or Scenario(prompt_tokens=1, output_tokens=2), **given)
    lengths = np.asarray(asked.draft_length, dtype=float)
    if not (lengths == np.floor(lengths)).all():
        raise DraftscopeError(f"draft_length: {asked.draft_length!r} given; allowed: whole numbers >= 0.")
    lowered = lower_cached(
        device=device, target=target, drafter=drafter, runtime=runtime, engine=engine or asked.engine,
        draft_runtime=draft_runtime, draft_engine=draft_engine or asked.draft_engine,
    )  # fmt: skip
    target_id = lowered.ids["target"]
    if lowered.drafter.family == "none" and (lengths > 0).any():
        others = ", ".join(name for name in list_drafters(target_id) if name != "none")
        raise DraftscopeError(
            f"draft_length: {asked.draft_length!r} given for drafter {lowered.drafter.id!r}, which proposes "
            f"nothing; allowed: 0, or leave it out. Or name a drafter; for {target_id}: {others}."
        )
    model = as_acceptance(
        acceptance, target_id=target_id, drafter=lowered.drafter, draft_length=asked.draft_length,
        transfer=transfer,
    )  # fmt: skip
    has_prompt = scenario is not None or "prompt_tokens" in given
    spec = target if isinstance(target, TargetSpec) else load_target(target)
    remarks = (
        dtype_remark(spec, shipped=isinstance(target, str) and target.partition("@")[0] in list_targets()),
        context_remark(spec, asked, model, task, has_prompt=has_prompt),
        acceptance_remark(
            model, lowered.drafter, target_id, longest=float(lengths.max(initial=0)), transfer=transfer
        ),
    )
    lowered = replace(lowered, notes=(*lowered.notes, *(remark for remark in remarks if remark)))
    return Question(
        lowered=lowered,
        scenario=asked,
        axes={name: value for name, value in axes.items() if name not in names},
        acceptance=model,
        task=task,
        has_prompt=has_prompt,
        has_tokens=scenario is not None or {"prompt_tokens", "output_tokens"} <= set(given),
        builds=_builds(target, drafter, lowered),
    )


def _builds(target: Any, drafter: Any, lowered: Lowered) -> dict[str, str]:
    """``target`` and ``drafter`` with ``@scheme``, where another build was asked for."""
    found = {}
    if isinstance(target, TargetSpec):
        found["target"] = build_name(target)
    elif "@" in str(target):
        found["target"] = build_name(load_target(target))
    if isinstance(drafter, (str, Path)) and "@" in str(drafter) and not Path(drafter).exists():
        found["drafter"] = f"{lowered.ids['drafter']}@{str(drafter).rpartition('@')[2]}"
    return found


def _checked_axes(axes: Any) -> dict[str, Any]:
    """Overrides by name; refuses what is no table of them."""
    if axes is None:
        return {}
    if not isinstance(axes, Mapping) or not all(isinstance(name, str) for name in axes):
        raise DraftscopeError(
            f"axes: {axes!r} given; allowed: a table of names and numbers such as {{'mbu_large': 0.5}}."
        )
    for name, value in axes.items():
        if name.removeprefix("draft_") == "verify_curve" and not np.iterable(value):
            raise DraftscopeError(f"axis {name}: {value!r} given; allowed: one cost a width of the curve.")
    return dict(axes)
