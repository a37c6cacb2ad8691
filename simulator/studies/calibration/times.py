"""Predicted times of measured passes and prefills for given runtime numbers; the lowering computes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hw_profiles.cited import CitedValue
from hw_profiles.schema import DeviceProfile, RuntimeProfile
from simulator.lowering import Lowered, compile_ops, lower
from simulator.ops import Op
from simulator.specs import TargetSpec
from simulator.studies.calibration.data import Model, error_of, times_of

Floats = NDArray[np.float64]
CARRIER = "smollm2_135m"
"""Target that stands in where only the weight bytes of a model are known; its own ops are replaced."""


def measured_widths(models: Sequence[Model]) -> tuple[float, ...]:
    """Widths above 1 at which some pass of a target was timed, rising."""
    targets = [model for model in models if model.drafter is None]
    return tuple(sorted({each.width for model in targets for each in model.passes if each.width > 1}))


def prepared(
    start: RuntimeProfile, widths: Sequence[float], kv_reads: Literal["once", "per_row"]
) -> RuntimeProfile:
    """The start runtime with a curve at the measured widths, to be filled; its own where none was measured.

    Parameters
    ----------
    start : RuntimeProfile
        Prior.
    widths : sequence of float
        Measured widths above 1.
    kv_reads : {"once", "per_row"}
        How a pass reads the cache.
    """
    if not widths or start.verify_curve is None:
        return start.model_copy(update={"kv_reads": kv_reads})
    points = tuple((float(width), 1.0) for width in (1.0, *widths))
    curve: CitedValue[Any] = start.verify_curve.model_copy(
        update={"value": points, "low": None, "high": None}
    )
    return start.model_copy(update={"verify_curve": curve, "tile": None, "kv_reads": kv_reads})


@dataclass(frozen=True, kw_only=True)
class Timed:
    """One model's measured times, and what predicts them.

    Attributes
    ----------
    model : Model
        Its passes, then its prefills, are the times.
    lowered : Lowered
        Compiled case; with a drafter where its passes were timed.
    widths, contexts, tokens : ndarray
        Of the passes, and of the prefills.
    """

    model: Model
    lowered: Lowered
    widths: Floats
    contexts: Floats
    tokens: Floats

    @property
    def measured_s(self) -> Floats:
        """Measured times [s]."""
        return np.array([each.seconds for each in times_of(self.model)])

    @property
    def error_s(self) -> Floats:
        """Their standard errors [s]."""
        return np.array([error_of(each) for each in times_of(self.model)])

    def predicted_s(self, axes: Mapping[str, Any]) -> Floats:
        """Times for other runtime numbers, in the same order [s].

        Parameters
        ----------
        axes : mapping
            Axes of :meth:`simulator.lowering.Lowered.bind`, each of shape (..., 1).

        Returns
        -------
        ndarray, shape (..., data)
            Passes, then prefills.
        """
        tokens = self.tokens if len(self.tokens) else np.ones(1)
        params = self.lowered.bind(prompt_tokens=tokens, output_tokens=2.0, **axes)
        cost = params.verify_cost if self.model.drafter is None else params.draft_cost
        times = [cost(self.widths).time_at(self.contexts)] if len(self.widths) else []
        if len(self.tokens):
            times.append(params.target_prefill().time_s)
        return np.concatenate(times, axis=-1)


def timed(model: Model, device: DeviceProfile, runtime: RuntimeProfile) -> Timed:
    """Compile a model on a device with a runtime.

    Parameters
    ----------
    model : Model
        Model and times.
    device : DeviceProfile
        Device.
    runtime : RuntimeProfile
        From :func:`prepared`.
    """
    target: str | TargetSpec = CARRIER if model.target is None else model.target
    lowered = lower(device=device, target=target, runtime=runtime, drafter=model.drafter or "none")
    if model.target is None:
        weights = Op(name="weights", part="layers", weight_bytes=model.weight_bytes)
        lowered = replace(lowered, target_pass=compile_ops([weights]))
    return Timed(
        model=model,
        lowered=lowered,
        widths=np.array([float(each.width) for each in model.passes]),
        contexts=np.array([float(each.context) for each in model.passes]),
        tokens=np.array([float(each.tokens) for each in model.prefills]),
    )
