"""Closed-form predictions: one case with its Result, or arrays of designs; queues are unknown here."""

from __future__ import annotations

from simulator.analytic.designs import predict_designs
from simulator.analytic.prediction import predict

__all__ = ["predict", "predict_designs"]
