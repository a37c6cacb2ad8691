"""Arrays of designs at speed: lower once, bind in chunks that fit the cache; no intervals and no ledgers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.errors import DraftscopeError
from simulator.lowering import CostParams, Lowered
from simulator.lowering.affine import Quantity
from simulator.lowering.outcome import PassTotals, decode_totals, metrics_of, plain_totals
from simulator.lowering.workload import closed_form_workload
from simulator.physics.speedup import survival_iid

CHUNK = 8192
"""Designs bound at once: a temporary of 64 KiB, so that a handful of them stay in a core's own cache."""


def evaluate(params: CostParams, survival: list[Quantity]) -> dict[str, Quantity]:
    """Metrics of bound designs in closed form.

    Parameters
    ----------
    params : CostParams
        Designs.
    survival : list of float or array
        ``S_1 .. S_Kmax``, zero beyond each design's own draft length.

    Returns
    -------
    dict of str to float or array
        Every metric that needs no ledger, by registry name.
    """
    work = closed_form_workload(params, survival)
    metrics, _ = metrics_of(
        params,
        decode_totals(params, work, ledger=False),
        plain_totals(params, work),
        prefill=PassTotals.of_prefill(params.target_prefill()),
        draft_prefill=PassTotals.of_prefill(params.draft_prefill()),
        prompt_tokens=params.prompt_tokens,
    )
    return metrics


def predict_designs(
    lowered: Lowered,
    axes: Mapping[str, Any],
    *,
    acceptance_rate: Any,
    metrics: tuple[str, ...] = (
        "decode_tokens_per_s", "energy_per_token_j", "peak_ram_bytes", "ttft_s", "speedup",
    ),
    chunk: int = CHUNK,
) -> dict[str, NDArray[np.float64]]:  # fmt: skip
    """Predict many independent designs with i.i.d. acceptance.

    Parameters
    ----------
    lowered : Lowered
        One device, runtime, target and drafter.
    axes : mapping of str to float or array, shape (designs,)
        Any axes of :data:`simulator.lowering.AXES`; what is missing comes from the profiles.
        ``prompt_tokens`` and ``output_tokens`` (at least 2) are needed.
    acceptance_rate : float or array, shape (designs,)
        ``alpha``, 0 to 1.
    metrics : tuple of str
        Registry names wanted.
    chunk : int
        Designs bound at once.

    Returns
    -------
    dict of str to array, shape (designs,)
        The metrics.

    Raises
    ------
    DraftscopeError
        For NaN, negative numbers, rates above 1, and arrays of unequal length.
    """
    columns = {"acceptance_rate": np.asarray(acceptance_rate, dtype=float)}
    columns |= {name: np.asarray(value) for name, value in axes.items()}
    sizes = {name: column.size for name, column in columns.items() if column.ndim}
    designs = max(sizes.values(), default=1)
    wrong = {name: size for name, size in sizes.items() if size != designs}
    if wrong or any(column.ndim > 1 for column in columns.values()):
        raise DraftscopeError(
            f"designs: axes of unequal length, {sizes}; allowed: numbers, or arrays of one length."
        )
    if np.any(columns.get("output_tokens", np.asarray(2)) < 2):
        raise DraftscopeError("output_tokens: allowed are at least 2; the first token comes from prefill.")
    out = {name: np.empty(designs) for name in metrics}
    for start in range(0, designs, chunk):
        part = slice(start, min(start + chunk, designs))
        bound = {name: column[part] if column.ndim else column.item() for name, column in columns.items()}
        alpha = bound.pop("acceptance_rate")
        params = lowered.bind(**bound)
        survival = survival_iid(acceptance_rate=alpha, draft_length=params.draft_length)
        found = evaluate(params, survival)
        for name in metrics:
            out[name][part] = found[name]
    return out
