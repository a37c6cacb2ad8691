"""Cost of a step on the machines that have a profile of their own, from the simulator itself.

Where device, stack, target and drafter of a row are all known here, the general cost model steps aside.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from simulator.analytic import predict
from simulator.studies.validation.cases import Case

DRAFT_LENGTH = 3
"""Compiled into the published graphs, and not published; assumed."""

PROMPT_TOKENS, OUTPUT_TOKENS = 1024, 256
KNOWN = (
    (r"s26 ultra.*gpu", "galaxy_s26_ultra", "litert_lm_gpu_adreno"),
    (r"s26 ultra.*cpu", "galaxy_s26_ultra", "litert_lm_cpu_oryon"),
)
TARGETS = {"gemma4e2b": "gemma_4_e2b", "gemma4e4b": "gemma_4_e4b"}


@dataclass(frozen=True)
class ProfiledCost:
    """A step in plain passes, and the standard deviation of its logarithm over the cited ranges."""

    cost: float
    log_sd: float


def profiled_cost(case: Case) -> ProfiledCost | None:
    """The simulator's answer for a row, or None where a part of it has no profile."""
    target = TARGETS.get(case.target)
    if target is None or case.drafter != "gemma4_assistant" or "litert" not in case.row.framework.lower():
        return None
    for pattern, device, runtime in KNOWN:
        if re.search(pattern, case.row.device.lower()):
            return _cost(device, runtime, target, int(case.draft_length or DRAFT_LENGTH))
    return None


@lru_cache(maxsize=32)
def _cost(device: str, runtime: str, target: str, length: int) -> ProfiledCost:
    result = predict(
        device=device, runtime=runtime, target=target, drafter=f"{target}_assistant", acceptance=0.6,
        draft_length=length, prompt_tokens=PROMPT_TOKENS, output_tokens=OUTPUT_TOKENS,
    )  # fmt: skip
    low, high = result.intervals["break_even_acceptance_length"]
    return ProfiledCost(
        cost=float(result["break_even_acceptance_length"]),
        log_sd=float(np.log(high / low) / (2 * 1.645)),
    )
