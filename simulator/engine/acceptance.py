"""What a caller may give as acceptance, turned into a model that the engine can replay or draw from.

The same rules as the closed form's: engine and closed form are siblings and do not import each other.
"""

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
from simulator.drafters.base import DrafterModel
from simulator.errors import DraftscopeError, UnknownNameError

HOW = (
    "give a trace, the name of a published set, an i.i.d. rate from 0 to 1, or a model of "
    "simulator.acceptance"
)


def as_acceptance(
    given: Any, *, target_id: str, drafter: DrafterModel, draft_length: int, transfer: bool
) -> Acceptance | None:
    """Turn what the caller gave into a model, and refuse one for another target or drafter.

    Parameters
    ----------
    given : Acceptance, float, str, Path, Trace or None
        A model; an i.i.d. rate; the name of a published set; a trace or its ``.parquet`` file. None is
        allowed for plain decoding only.
    target_id : str
        Target of the simulation.
    drafter : DrafterModel
        Drafter of the simulation.
    draft_length : int
        Drafts per step.
    transfer : bool
        Allow acceptance of another target or drafter; its kind is then ``assumed``.

    Raises
    ------
    DraftscopeError
        If nothing or nonsense was given, or (without ``transfer``) acceptance of something else.
    """
    if given is None:
        if draft_length > 0:
            raise DraftscopeError(f"acceptance: nothing given for drafter {drafter.id!r}, and it is never "
                                  f"defaulted; {HOW}.")  # fmt: skip
        return None
    model: Acceptance
    if isinstance(given, (str, Path)):
        model = _named(str(given), target_id, drafter, transfer)
    elif isinstance(given, (int, float, np.number)) and not isinstance(given, bool):
        model = IidAcceptance(acceptance_rate=float(given))
    elif isinstance(given, Trace):
        model = _traced(given, target_id, drafter, transfer)
    elif hasattr(given, "per_position_acceptance_rate") and hasattr(given, "steps"):
        model = given
    else:
        raise DraftscopeError(f"acceptance: {given!r} given; {HOW}.")
    kind_of(model, target_id=target_id, drafter=drafter, draft_length=None, transfer=transfer)
    return model


def kind_of(
    model: Acceptance, *, target_id: str, drafter: DrafterModel, draft_length: int | None, transfer: bool
) -> str:
    """Kind of a model for this target and drafter, ``assumed`` where carried over.

    Parameters
    ----------
    model : Acceptance
        Model.
    target_id : str
        Target of the simulation.
    drafter : DrafterModel
        Drafter of the simulation; its traces may carry a name of their own.
    draft_length : int or None
        Drafts per step; None asks for the kind at the lengths that the model was obtained for.
    transfer : bool
        Allow another target or drafter.
    """
    own = model.drafter_id if model.drafter_id in (drafter.id, drafter.trace_id) else drafter.id
    return resolve_kind(
        model.kind if draft_length is None else model.kind_at(draft_length),
        where=f"acceptance {model.id}",
        known=(model.target_id, model.drafter_id),
        asked=(target_id, own),
        transfer=transfer,
    )


def _named(name: str, target_id: str, drafter: DrafterModel, transfer: bool) -> Acceptance:
    if name.endswith(".parquet"):
        from simulator.acceptance.trace import read_trace

        return _traced(read_trace(name), target_id, drafter, transfer)
    if name not in list_published():
        raise UnknownNameError("acceptance", name, list_published())
    return load_published(name, target_id=target_id, drafter_id=drafter.id, drafter_family=drafter.family,
                          transfer=transfer)  # fmt: skip


def _traced(trace: Trace, target_id: str, drafter: DrafterModel, transfer: bool) -> Acceptance:
    own = trace.metadata.drafter_id
    asked = own if own in (drafter.id, drafter.trace_id) else drafter.id
    return TraceAcceptance(trace=trace, target_id=target_id, drafter_id=asked, transfer=transfer)
