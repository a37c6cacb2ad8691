"""Cost of a speculative step in plain passes, from bytes, arithmetic and floors; vectorised over rows.

``R = v(w) + n_draft (c share + floor / T_1) + (floor_step + host w) / T_1`` and speedup = tokens per pass /
R, where ``T_1`` is the plain pass and ``v`` the verify curve of the kernel family: ``row_cost`` a row up to
a tile of eight, less beyond, plus the experts that more rows touch and what spills out of the device's
memory. Every parameter has its prior in ``hw_profiles/kernel_families.toml`` and is tuned in logarithms
(`tune`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from hw_profiles.kernel_families import kernel_priors
from simulator.studies.validation.cases import DRAFTERS, Case
from simulator.studies.validation.tokens import Tokens

Vector = NDArray[np.float64]

TILE = 8.0
PLAIN_MBU, PLAIN_FLOOR_S = 0.65, 0.002
"""Bandwidth a plain pass reaches and its floor, where a row does not say how fast plain decoding is."""

PARALLEL_SPEEDUP = 1.7
"""What a second device adds to the bandwidth of tensor-parallel passes, synchronisation included."""

UNKNOWN_STREAM, OFFLOAD_STREAM, SLOW_STREAM, SLOW_PASS_S = 0.7, 0.9, 0.45, 0.02
"""Share of a plain pass that streams weights: where the bandwidth is unknown, where weights are offloaded,
and below which a pass of at least that many seconds counts as bound by arithmetic."""

RESIDUAL_SD = 0.15
"""Scatter of good measurements around a perfect model of their machine."""

FAMILIES = tuple(kernel_priors().families)
KINDS = (*(name for name, _ in DRAFTERS), "other")
SHARED = (
    "low_bit_exponent", "compute_exponent", "eight_bit_factor", "half_precision_factor", "beyond_tile",
    "expert_union", "host_per_row_s", "tensor_parallel_factor", "compute_bound_share",
    "spill_bandwidth_bytes_per_s",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Design:
    """Rows as arrays; see `Case`. ``plain_s`` is the plain pass."""

    family: NDArray[np.int64]
    drafter: NDArray[np.int64]
    width: Vector
    passes: Vector
    proposed: Vector
    plain_s: Vector
    bits: Vector
    flop_per_byte: Vector
    share: Vector
    union: Vector
    stream: Vector
    slow: Vector
    tensor_parallel: Vector
    spill_bytes: Vector
    batch: Vector


def design_of(cases: Sequence[Case], tokens: Sequence[Tokens]) -> Design:
    """Arrays of some rows."""

    def column(values: Any) -> Vector:
        return np.array(list(values), dtype=float)

    batch = column(case.row.batch or 1.0 for case in cases)
    proposed = column(each.proposed for each in tokens)
    trees = column(case.tree_nodes or 0.0 for case in cases)
    chain = 1 + proposed * column(case.width_factor for case in cases)
    width = np.where(trees > 0, trees, chain)
    drafter = np.array([KINDS.index(case.drafter) for case in cases], dtype=np.int64)
    parallel = column(case.tensor_parallel for case in cases)
    read = column(case.active_params * case.bits / 8 for case in cases)
    bandwidth = column(case.bandwidth_bytes_per_s for case in cases) * (1 + (PARALLEL_SPEEDUP - 1) * parallel)
    assumed = read / (PLAIN_MBU * bandwidth) + PLAIN_FLOOR_S
    plain = np.array(
        [
            1 / case.row.baseline_tps if case.row.baseline_tps else float(guess)
            for case, guess in zip(cases, assumed, strict=True)
        ]
    )
    known = np.array([case.known_bandwidth for case in cases])
    offload = np.array([case.family == "offload" for case in cases])
    streamed = np.where(known, np.clip(read / bandwidth / plain, 0.1, 1.0), UNKNOWN_STREAM)
    stream = np.where(offload, OFFLOAD_STREAM, streamed)
    part = np.clip(column(case.active_params / case.params for case in cases), 0.02, 1.0)
    experts = column(case.experts for case in cases)
    union = experts * ((1 - (1 - part) ** np.minimum(width, TILE + 1)) / part - 1)
    return Design(
        family=np.array([FAMILIES.index(case.family) for case in cases], dtype=np.int64),
        drafter=drafter,
        width=width,
        passes=_passes(drafter, trees > 0, proposed),
        proposed=proposed,
        plain_s=plain,
        bits=column(case.bits for case in cases),
        flop_per_byte=column(case.flop_per_byte for case in cases),
        share=column(case.drafter_share for case in cases),
        union=union,
        stream=stream,
        slow=np.where(plain > SLOW_PASS_S, np.clip(SLOW_STREAM - stream, 0, None) / SLOW_STREAM, 0.0) * known,
        tensor_parallel=parallel,
        spill_bytes=column(case.spill_bytes for case in cases),
        batch=batch,
    )


def _passes(drafter: NDArray[np.int64], tree: NDArray[np.bool_], proposed: Vector) -> Vector:
    """Passes of the drafter in a step: one a draft, one a block, none for a lookup, a tree's depth."""
    kind = np.array(KINDS)[drafter]
    passes = np.where(kind == "block", 1.0, np.where(kind == "ngram", 0.0, proposed))
    return np.where(tree & (kind == "eagle"), 6.0, np.where(tree & (kind == "medusa"), 1.0, passes))


@cache
def priors() -> tuple[Vector, Vector]:
    """Means and standard deviations of all parameters' logarithms: families, floors, drafters, shared."""
    data = kernel_priors()
    cited = [data.families[name].row_cost for name in FAMILIES]
    cited += [data.shared.step_floor_s] * len(FAMILIES) + [data.shared.draft_floor_s] * len(FAMILIES)
    cited += [data.shared.drafter_cost] * len(KINDS)
    cited += [getattr(data.shared, name) for name in SHARED]
    mean = np.log([each.value for each in cited])
    high = np.array([each.high for each in cited], dtype=float)
    low = np.array([each.low for each in cited], dtype=float)
    spread = np.log(high / low) / (2 * 1.645)
    return mean, spread


def step_cost(parameters: Vector, design: Design) -> Vector:
    """Cost of a step in plain passes, for the logarithms of the parameters."""
    families = len(FAMILIES)
    values = np.exp(parameters)
    row_cost = values[:families][design.family]
    step_floor = values[families : 2 * families][design.family]
    draft_floor = values[2 * families : 3 * families][design.family]
    drafter = values[3 * families : 3 * families + len(KINDS)][design.drafter]
    shared = dict(zip(SHARED, values[3 * families + len(KINDS) :], strict=True))
    by_bits = np.where(
        design.bits > 12,
        shared["half_precision_factor"],
        np.where(
            design.bits > 7.5, shared["eight_bit_factor"], (design.bits / 4.8) ** -shared["low_bit_exponent"]
        ),
    )
    row = row_cost * by_bits * (design.flop_per_byte / 45.0) ** -shared["compute_exponent"]
    row = row * np.where(design.union > 0, design.stream, 1.0)  # a mixture's pass mostly waits, not streams
    row = row + shared["compute_bound_share"] * design.slow

    def verify(width: Vector) -> Vector:
        inside = np.minimum(width - 1, TILE - 1)
        cost: Vector = 1 + row * (inside + shared["beyond_tile"] * np.maximum(width - TILE, 0))
        return cost

    wide = verify(design.width * design.batch) / verify(design.batch)
    wide = wide + shared["expert_union"] * design.union * design.stream
    spilled = design.spill_bytes / shared["spill_bandwidth_bytes_per_s"] / design.plain_s
    crossing = 1 + design.tensor_parallel * shared["tensor_parallel_factor"]
    draft = design.passes * (drafter * design.share + draft_floor * crossing / design.plain_s)
    host = (step_floor + shared["host_per_row_s"] * design.width) / design.plain_s
    total: Vector = wide + spilled + draft + host
    return total


def tune(design: Design, log_cost: Vector, noise: Vector, weight: Vector) -> Vector:
    """Most likely parameters given measured step costs: least squares, robust, pulled to the priors.

    Parameters
    ----------
    design : Design
    log_cost : ndarray
        Logarithm of tokens per pass over measured speedup.
    noise : ndarray
        Variance of it that comes from the tokens.
    weight : ndarray
        At most 1; a source with many rows counts less a row.
    """
    mean, spread = priors()
    scale = np.sqrt(weight / (noise + RESIDUAL_SD**2))

    def residuals(parameters: Vector) -> Vector:
        error = (log_cost - np.log(step_cost(parameters, design))) * scale
        return np.concatenate([error, (parameters - mean) / spread])

    found = least_squares(residuals, mean, loss="soft_l1", max_nfev=60)
    return np.asarray(found.x, dtype=float)
