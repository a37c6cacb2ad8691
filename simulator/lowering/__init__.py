"""Device x runtime x target x drafter x scenario become numbers here; acceptance is unknown to them."""

from __future__ import annotations

from simulator.lowering.affine import Affine, ContextSums
from simulator.lowering.compiled import CompiledPass, compile_ops
from simulator.lowering.lower import lower, lower_cached
from simulator.lowering.lowered import AXES, SIDE_AXES, Lowered
from simulator.lowering.memory import Memory, ram_ledger
from simulator.lowering.params import CostParams, PassCost, PrefillCost, Side

__all__ = [
    "AXES", "SIDE_AXES", "Affine", "CompiledPass", "ContextSums", "CostParams", "Lowered", "Memory",
    "PassCost", "PrefillCost", "Side", "compile_ops", "lower", "lower_cached", "ram_ledger",
]  # fmt: skip
