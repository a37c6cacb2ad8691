"""Which targets and drafters are compared, by name; it does not know how they do."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from simulator.drafters import build_drafter, list_drafters, load_drafter_spec
from simulator.drafters.base import DrafterModel
from simulator.errors import DraftscopeError, UnknownNameError
from simulator.specs import TargetSpec, build_name, list_targets, load_target

TRACED, PUBLISHED = "traced", "published"
TRACED_TARGETS = ("smollm2_135m",)
PUBLISHED_TARGETS = ("gemma_4_e4b", "gemma_4_e2b", "gemma_3n_e2b")


def chosen_targets(
    given: str | Sequence[str] | None, *, with_traces: Collection[str]
) -> list[tuple[str, TargetSpec]]:
    """Targets with their block.

    Parameters
    ----------
    given : str or sequence of str, optional
        Names or files; the targets of both blocks where omitted.
    with_traces : collection of str
        Targets with acceptance traces: they are in the block ``traced``.
    """
    specs = [load_target(name) for name in several(given) or [*TRACED_TARGETS, *PUBLISHED_TARGETS]]
    traced = {*TRACED_TARGETS, *with_traces}
    return [(TRACED if spec.id in traced else PUBLISHED, spec) for spec in specs]


def chosen_drafters(
    given: str | Sequence[str] | None, targets: Sequence[TargetSpec]
) -> list[tuple[DrafterModel, ...]]:
    """Drafters of each target, in the order of the targets; plain decoding left out.

    Parameters
    ----------
    given : str or sequence of str, optional
        Instances, trace ids or ``.toml`` files, ``name@scheme`` for another precision; all that
        fit where omitted or ``all``. A name that fits none
        of the targets raises UnknownNameError.
    targets : sequence of TargetSpec
        Targets.
    """
    names = several(given)
    chosen: list[tuple[DrafterModel, ...]] = []
    known: set[str] = {"all", "none"}
    used: set[str] = {"all", "none"}
    for target in targets:
        shipped = [build_drafter(name, target) for name in list_drafters() if _fits(name, target)]
        models = []
        for model in (model for model in shipped if model.family != "none"):
            own_names = {model.id, model.trace_id}
            known |= own_names
            if not names or "all" in names or own_names & set(names):
                models.append(model)
                used |= own_names
        for name in names:
            base, _, scheme = name.rpartition("@") if "@" in name else (name, "", "")
            instance = next((model.id for model in shipped if base in (model.id, model.trace_id)), base)
            if not base.endswith(".toml") and not (scheme and instance in list_drafters()):
                continue
            if _fits(instance, target):
                model = build_drafter(instance, target, quant=scheme or None)
                named = f"{model.id}@{scheme}" if scheme else model.id
                models.append(replace(model, id=named, trace_id=model.trace_id or model.id))
                used.add(name)
        chosen.append(tuple(models))
    for name in names:
        if name not in used:
            base = name.rpartition("@")[0] if "@" in name else name
            if base.endswith(".toml") and targets:
                build_drafter(base, targets[0])  # says why it does not fit
            raise UnknownNameError("drafter", name, known)
    return chosen


def drafter_for(name: str, target: TargetSpec) -> str:
    """The instance that a name stands for on a target: a trace id such as ``mtp_head`` is allowed too."""
    if name in list_drafters() or name.endswith(".toml") or "@" in name:
        return name
    shipped = [load_drafter_spec(each) for each in list_drafters() if _fits(each, target)]
    for spec in shipped:
        if spec.trace_id == name:
            return spec.id
    known = [*list_drafters(), *(spec.trace_id for spec in shipped if spec.trace_id)]
    raise UnknownNameError("drafter", name, known)


def by_name(spec: TargetSpec) -> str | TargetSpec:
    """A shipped target as its name with its build, so that its lowering is remembered; a file's as it is."""
    if spec.id not in list_targets():
        return spec
    for name in (spec.id, build_name(spec)):
        if load_target(name) == spec:
            return name
    return spec


def drafter_by_name(drafter: DrafterModel, target: str | TargetSpec) -> str | DrafterModel:
    """A shipped drafter of a shipped target as its name; a file's, and another precision, as it is."""
    return drafter.id if isinstance(target, str) and _is_shipped(drafter, target) else drafter


@lru_cache(maxsize=512)
def _is_shipped(drafter: DrafterModel, target: str) -> bool:
    return drafter.id in list_drafters() and build_drafter(drafter.id, load_target(target)) == drafter


def several(given: str | int | Sequence[Any] | None) -> list[Any]:
    """One, several or none, as a list without repetitions."""
    if given is None:
        return []
    return list(dict.fromkeys([given] if isinstance(given, (str, int)) else given))


def _fits(name: str, target: TargetSpec) -> bool:
    """Whether a drafter was made for a target, by name or (for a caller's own target) by shape."""
    spec = load_drafter_spec(name)
    if {"*", target.id} & set(spec.targets):
        return True
    if target.id in list_targets():
        return False
    try:
        build_drafter(spec, target)
    except DraftscopeError:
        return False
    return True
