"""The event engine: the same costs as the closed form, lived through event by event; SimPy stays in here."""

from __future__ import annotations

from simulator.engine.simulate import simulate
from simulator.engine.timeline import Span, Timeline

__all__ = ["Span", "Timeline", "simulate"]
