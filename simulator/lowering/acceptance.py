"""What a caller may give as acceptance, turned into a model or a sequence of steps; nothing is defaulted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from simulator.acceptance import (
    Acceptance,
    IidAcceptance,
    Trace,
    TraceAcceptance,
    list_published,
    load_published,
)
from simulator.acceptance.base import resolve_kind
from simulator.acceptance.published import sets_of
from simulator.drafters.base import DrafterModel
from simulator.errors import DraftscopeError
from simulator.lowering.affine import Quantity

HOW = (
    "give a trace, the name of a published set, an i.i.d. rate from 0 to 1, or a model of "
    "simulator.acceptance"
)


def as_acceptance(
    given: Any, *, target_id: str, drafter: DrafterModel, draft_length: Quantity, transfer: bool
) -> Acceptance | None:
    """Turn what the caller gave into a model, and refuse one for another target or drafter.

    Parameters
    ----------
    given : Acceptance, float, array, str, Path, Trace or None
        A model; an i.i.d. rate; the name of a published set; a trace or its ``.parquet`` file. None is
        allowed for plain decoding only.
    target_id : str
        Target of the case.
    drafter : DrafterModel
        Drafter of the case.
    draft_length : int or array of int
        Drafts per step.
    transfer : bool
        Allow acceptance of another target or drafter; its kind is then ``assumed``.

    Raises
    ------
    DraftscopeError
        If nothing or nonsense was given, or (without ``transfer``) acceptance of something else.
    """
    model: Acceptance
    if given is None:
        if np.any(np.asarray(draft_length) > 0):
            raise DraftscopeError(f"acceptance: nothing given for drafter {drafter.id!r}, and it is never "
                                  f"defaulted; {HOW}.")  # fmt: skip
        return None
    if isinstance(given, (str, Path)):
        model = _named(str(given), target_id, drafter, transfer)
    elif isinstance(given, (int, float, np.ndarray, np.number)) and not isinstance(given, bool):
        model = IidAcceptance(acceptance_rate=given)
    elif isinstance(given, Trace):
        model = _traced(given, target_id, drafter, transfer)
    elif hasattr(given, "per_position_acceptance_rate") and hasattr(given, "steps"):
        model = given
    else:
        raise DraftscopeError(f"acceptance: {given!r} given; {HOW}.")
    _kind(model, model.kind, target_id, drafter, transfer)
    return model


def kind_of(
    model: Acceptance | None, *, target_id: str, drafter: DrafterModel, draft_length: int
) -> str | None:
    """Kind of the acceptance at this draft length, ``assumed`` where carried over; None without one.

    Parameters
    ----------
    model : Acceptance or None
        What :func:`as_acceptance` gave.
    target_id : str
        Target of the case.
    drafter : DrafterModel
        Drafter of the case.
    draft_length : int
        Drafts per step; 0 needs no acceptance.
    """
    if model is None or draft_length == 0:
        return None
    return _kind(model, model.kind_at(draft_length), target_id, drafter, True)


def survival_of(model: Acceptance | None, draft_length: Quantity) -> list[Quantity]:
    """``S_1 .. S_Kmax`` of a model, zero beyond each design's own draft length.

    Parameters
    ----------
    model : Acceptance or None
        Not a trace: the steps of a trace differ at every length.
    draft_length : int or array of int
        Drafts per step, whole numbers.

    Raises
    ------
    DraftscopeError
        For a trace.
    """
    lengths = np.asarray(draft_length)
    longest = int(lengths.max(initial=0))
    if model is None or longest == 0:
        return []
    if model.steps(longest) is not None:
        raise DraftscopeError(
            f"draft_length: an array given with the trace {model.id}, whose steps differ at every length; "
            "allowed: one draft length at a time."
        )
    survival = model.per_position_acceptance_rate(longest)
    columns = [survival[..., k] for k in range(longest)]
    if lengths.ndim == 0 and survival.ndim == 1:
        return [float(column) for column in columns]
    return [column * (lengths > k) for k, column in enumerate(columns)]


def _kind(model: Acceptance, kind: str, target_id: str, drafter: DrafterModel, transfer: bool) -> str:
    """Kind of the model for this target and drafter; a drafter's traces may carry a name of their own."""
    return resolve_kind(
        kind,
        where=f"acceptance {model.id}",
        known=(model.target_id, model.drafter_id),
        asked=(target_id, _known_as(drafter, model.drafter_id)),
        transfer=transfer,
    )


def _known_as(drafter: DrafterModel, name: str | None) -> str:
    """``name`` where it is one of the drafter's two names, its id otherwise."""
    return name if name is not None and name in (drafter.id, drafter.trace_id) else drafter.id


def _traced(trace: Trace, target_id: str, drafter: DrafterModel, transfer: bool) -> Acceptance:
    asked = _known_as(drafter, trace.metadata.drafter_id)
    return TraceAcceptance(trace=trace, target_id=target_id, drafter_id=asked, transfer=transfer)


def _named(name: str, target_id: str, drafter: DrafterModel, transfer: bool) -> Acceptance:
    if name.endswith(".parquet"):
        from simulator.acceptance.trace import read_trace

        return _traced(read_trace(name), target_id, drafter, transfer)
    if name not in list_published():
        sets = sets_of(name, target_id=target_id, drafter_family=drafter.family)
        raise DraftscopeError(
            f"acceptance: {name!r} is a publication of several sets; give one: {', '.join(sets)}."
        )
    return load_published(name, target_id=target_id, drafter_id=drafter.id, drafter_family=drafter.family,
                          drafter=drafter.published_as, transfer=transfer)  # fmt: skip
