"""Device x runtime x target x drafter x scenario become numbers here; acceptance is unknown to them."""

from __future__ import annotations

from simulator.lowering.affine import Affine, ContextSums
from simulator.lowering.compiled import CompiledPass, compile_ops
from simulator.lowering.params import CostParams, PassCost, PrefillCost, Side

__all__ = [
    "Affine", "CompiledPass", "ContextSums", "CostParams", "PassCost", "PrefillCost", "Side", "compile_ops",
]  # fmt: skip
