"""Plain decoding: no drafter, no bytes; it does not know anything."""

from __future__ import annotations

from simulator.drafters.spec import Built, DrafterSpec
from simulator.specs import QuantScheme, TargetSpec


class Spec(DrafterSpec):
    """No further fields."""


def build(spec: Spec, target: TargetSpec, scheme: QuantScheme) -> Built:
    """Return a drafter that proposes nothing."""
    return Built(passes_per_step="none", context="none")
