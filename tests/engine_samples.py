"""Fixed sequences of steps as an acceptance, so that closed form and engine can be given exactly the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from simulator.acceptance.replay import StepTable
from simulator.drafters import build_drafter, list_drafters, load_drafter_spec
from simulator.results import Result
from simulator.specs import load_target

PIXEL_CASES = (
    ("pixel_9", None, None),
    ("pixel_9", "ideal", "tpu"),
    ("pixel_9", "ideal", "cpu"),
    ("pixel_9", "litert_lm_gpu_mali", None),
    ("pixel_10", "tuned_cpu", None),
    ("pixel_10_pro", "litert_lm_gpu_powervr", None),
    ("pixel_8_pro", "litert_lm_cpu", None),
    ("galaxy_s26_ultra", "litert_lm_gpu_adreno", None),
)
"""Devices, runtimes and engines: measured curves and the roofline."""


def first_target(drafter: str) -> str:
    targets = load_drafter_spec(drafter).targets
    return "gemma_3n_e2b" if "*" in targets else targets[0]


DRAFTERS = tuple(name for name in list_drafters() if name != "none")


@dataclass(frozen=True, kw_only=True)
class FixedSteps:
    """One table of steps, whatever is asked."""

    table: StepTable
    id: str = "fixed"
    target_id: None = None
    drafter_id: None = None
    kind: str = "assumed"
    sources: tuple[str, ...] = ()
    max_draft_length: None = None

    def kind_at(self, draft_length: int) -> str:
        return self.kind

    def mean_acceptance_length(self, draft_length: Any) -> float:
        return 1.0 + float(self.table.accepted.mean())

    def per_position_acceptance_rate(self, draft_length: int) -> np.ndarray:
        return np.array([(self.table.accepted >= k).mean() for k in range(1, draft_length + 1)])

    def interval(self, draft_length: int, *, rng: Any = None, task: str | None = None) -> None:
        return None

    def steps(self, draft_length: int, *, task: str | None = None) -> StepTable:
        return self.table


def random_steps(
    rng: np.random.Generator, draft_length: int, decoded: list[int], *, prompt_tokens: int = 60,
    short: bool = False, confidence_stop: bool = False,
) -> FixedSteps:  # fmt: skip
    """Random accepted counts; ``short``: fewer drafts than asked for, as an n-gram drafter proposes."""
    rows = []
    for request, wanted in enumerate(decoded):
        position = 0
        while position < wanted:
            remaining = wanted - position
            proposed = int(rng.integers(0, draft_length + 1)) if short else draft_length
            computed = min(proposed + 1, draft_length) if confidence_stop else proposed
            full = rng.random() < 0.4
            accepted = min(proposed if full else int(rng.integers(0, proposed + 1)), remaining)
            emitted = min(accepted + 1, remaining)
            context = prompt_tokens + 7 * request + position
            rows.append((request, position, context, proposed, accepted, emitted, computed, remaining))
            position += emitted
    names = ("request", "position", "context", "proposed", "accepted", "emitted", "draft_passes", "remaining")
    columns = dict(zip(names, np.array(rows, dtype=np.int64).T, strict=True))
    return FixedSteps(table=StepTable(draft_length=draft_length, n_requests=len(decoded), **columns))


def assert_equal(simulated: Result, predicted: Result, rtol: float = 1e-9) -> None:
    """Every metric, ledger and shown input of the closed form is the same in the engine."""
    ledgers = ("byte_ledger", "ram_ledger")
    pairs = [(getattr(simulated, name), getattr(predicted, name)) for name in ledgers]
    pairs += [(simulated.energy_ledger[name], predicted.energy_ledger[name]) for name in ("rail", "phase")]
    pairs.append(({name: simulated.metrics[name] for name in predicted.metrics}, predicted.metrics))
    for mine, other in pairs:
        assert mine == pytest.approx(other, rel=rtol, abs=1e-15)
    share = predicted.energy_ledger["rejected_share"]
    assert simulated.energy_ledger["rejected_share"] == pytest.approx(share, rel=rtol, abs=1e-12)
    assert {**simulated.inputs, **predicted.inputs} == pytest.approx(simulated.inputs)
    assert simulated.references == predicted.references
    assert simulated.confidence_by_group == predicted.confidence_by_group


def drafter_model(name: str, target: str):
    return build_drafter(name, load_target(target))
