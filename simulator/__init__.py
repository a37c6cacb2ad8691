"""draftscope: what a drafter costs and gains on a phone; this module only points to where things are."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.analytic.prediction import predict
    from simulator.engine.simulate import simulate
    from simulator.results import Result
    from simulator.studies.compare import compare

__all__ = ["Result", "compare", "predict", "simulate"]

_HOMES = {
    "Result": "simulator.results",
    "compare": "simulator.studies.compare",
    "predict": "simulator.analytic",
    "simulate": "simulator.engine",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that ``import simulator`` stays fast."""
    if name == "__version__":
        return import_module("simulator.results.version").version()
    if name not in _HOMES:
        raise AttributeError(f"module 'simulator' has no attribute {name!r}; public: {', '.join(__all__)}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
