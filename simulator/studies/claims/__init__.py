"""Published claims beside what is reproduced here, each with how it was obtained; it does not print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simulator.studies.claims import gemma, identity, nano, traced
from simulator.studies.claims.base import COLUMNS, Claim

__all__ = ["COLUMNS", "Claim", "claims"]


def claims(
    *,
    device: str = "pixel_9",
    runtime: str | None = None,
    traces: Sequence[Any] = (),
    max_overlap: float | None = 0.2,
) -> tuple[Claim, ...]:
    """Every published claim, in the order of the project's list of them.

    Parameters
    ----------
    device, runtime : str
        Phone of claims 1, 5 and 7, and its runtime (its default where omitted).
    traces : sequence of Trace or path
        Traces of the small target instead of the shipped ones.
    max_overlap : float or None
        Overlap filter of claims 1, 3, 4 and 7.

    Returns
    -------
    tuple of Claim
        Claims 1 (speed), 2 (RAM), 3 (acceptance), 4 (extra tokens), 5 (prefill), 6 (identical output),
        7 (energy), 8 (sizes), 9 (two engines of one phone). What cannot be judged says why.

    Raises
    ------
    DraftscopeError, hw_profiles.errors.ProfileError
        For unknown names, and traces of another target.
    """
    paths = traced.given_paths(list(traces)) if traces else traced.shipped_paths()
    found = traced.recorded(paths, device=device, runtime=runtime, max_overlap=max_overlap)
    return (
        *traced.speed(found),
        *nano.speed(device, runtime),
        *nano.memory(),
        *traced.acceptance(found),
        *traced.extra_tokens(found),
        *nano.prefill(device, runtime),
        *identity.identical(),
        *traced.energy(found),
        *gemma.sizes(),
        *gemma.speedups(),
    )
