"""Which targets and drafters are compared, by name; it does not know how they do."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from simulator.drafters import build_drafter, list_drafters, load_drafter_spec
from simulator.drafters.base import DrafterModel
from simulator.errors import DraftscopeError, UnknownNameError
from simulator.specs import TargetSpec, list_targets, load_target

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
) -> dict[str, tuple[DrafterModel, ...]]:
    """Drafters of each target, plain decoding left out.

    Parameters
    ----------
    given : str or sequence of str, optional
        Instances, trace ids or ``.toml`` files; all that fit where omitted or ``all``. A name that fits none
        of the targets raises UnknownNameError.
    targets : sequence of TargetSpec
        Targets.
    """
    names = several(given)
    chosen: dict[str, tuple[DrafterModel, ...]] = {}
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
        for name in (name for name in names if name.endswith(".toml") and _fits(name, target)):
            models.append(build_drafter(name, target))
            used.add(name)
        chosen[target.id] = tuple(models)
    for name in names:
        if name not in used:
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
    """A shipped target as its name, so that its lowering is remembered."""
    return spec.id if spec.id in list_targets() else spec


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
