"""Result of a prediction or a simulation and its metric registry; it does not know how either is computed."""

from __future__ import annotations

from simulator.results.registry import METRICS, Metric, metric
from simulator.results.result import KINDS, Result, StepRecord, digest_of, weakest_kind

__all__ = ["KINDS", "METRICS", "Metric", "Result", "StepRecord", "digest_of", "metric", "weakest_kind"]
