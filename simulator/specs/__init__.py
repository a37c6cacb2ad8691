"""What is served and asked for: targets, quantisation, scenarios; it knows no devices and no drafters."""

from simulator.specs.architecture import FAMILIES, Architecture, LayerShape
from simulator.specs.load import build_name, list_targets, load_target
from simulator.specs.quant import NAMED_SCHEMES, TARGET_SCHEMES, QuantScheme
from simulator.specs.scenario import Quantity, Scenario
from simulator.specs.target import TargetSpec

__all__ = [
    "FAMILIES",
    "NAMED_SCHEMES",
    "TARGET_SCHEMES",
    "Architecture",
    "LayerShape",
    "QuantScheme",
    "Quantity",
    "Scenario",
    "TargetSpec",
    "build_name",
    "list_targets",
    "load_target",
]
