"""One measured verify curve: what one target pass costs by width. Keeps what was measured and converts it.

Does not know what a good curve looks like, nor how it is used.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, model_validator

from hw_profiles.cited import Frozen, NonNegative, Positive
from hw_profiles.schema import Reference

CurveUnit = Literal["s", "ms", "us", "relative", "tokens/s", "amortization"]
"""What a point of a curve holds, T(w) being the time of a pass of w rows:

``s``, ``ms``, ``us``: T(w); ``relative``: T(w) / T(1); ``tokens/s``: w / T(w), as batch benchmarks print it;
``amortization``: w T(1) / T(w), how many of the w rows one pass saves up to.
"""

_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
CLIFF_FACTOR, CLIFF_ROW = 2.0, 0.1
"""A cliff: a row costs at least this many times what rows below cost, and at least this share of a pass."""
BRIDGE = 2.0
"""Largest ratio of neighbouring widths between which a curve is read; a cliff may hide in a wider gap."""


class CurvePoint(NamedTuple):
    """``verify_cost_ratio`` v(w) at one width, with the range that the source states (else the value)."""

    width: float
    value: float
    low: float
    high: float


class VerifyCurve(Frozen):
    """One file of ``hw_profiles/verify_curves``: a device, a kernel, and the cost of its passes by width.

    Attributes
    ----------
    id : str
        The file's name.
    device : str
        What it ran on, in words, as far as the source says.
    device_id : str, optional
        The profile of that device, where one exists.
    engine : {"cpu", "gpu", "tpu", "npu"}
        Which engine of it.
    kernel_family : str
        The kernels, as lower_snake: curves of one family are averaged (`family_curve`).
    framework, model, quant : str
        Software, what the pass computed (a whole model, a layer, one matrix), and the weights' format.
    weight_bytes : float, optional
        Weights that one pass of width 1 reads.
    context : float, optional
        Tokens in the cache.
    cadence : str, optional
        What bears on clocks: pauses, boost, heat.
    unit : str
        See `CurveUnit`.
    points : tuple of (width, value) or (width, value, low, high)
        As measured, widths rising from 1.
    kind : {"measured", "published"}
        Timed by the source, or only stated by it.
    source : str
        Keys of references.bib or of the file's own ``[references.KEY]`` tables, separated by commas.
    date : str
        Of the measurement or the source: "2026", "2026-08" or "2026-08-16".
    note : str
        What a reader should know before trusting it.
    """

    id: str
    device: str
    device_id: str | None = None
    engine: Literal["cpu", "gpu", "tpu", "npu"]
    kernel_family: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    framework: str
    model: str
    quant: str
    weight_bytes: Positive | None = None
    context: NonNegative | None = None
    cadence: str | None = None
    unit: CurveUnit
    points: tuple[tuple[Positive, ...], ...]
    kind: Literal["measured", "published"]
    source: Annotated[str, Field(min_length=1)]
    date: Annotated[str, Field(pattern=r"^\d{4}(-\d{2}){0,2}$")]
    note: str = ""
    references: dict[str, Reference] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _is_a_curve(self) -> VerifyCurve:
        for point in self.points:
            if len(point) not in (2, 4):
                raise ValueError(
                    f"has the point {list(point)} in points; allowed: [width, value] or "
                    "[width, value, low, high]"
                )
            if len(point) == 4 and not point[2] <= point[1] <= point[3]:
                raise ValueError(f"has the point {list(point)} in points outside its own range")
        widths = [point[0] for point in self.points]
        if len(widths) < 2 or widths[0] != 1 or any(a >= b for a, b in pairwise(widths)):
            raise ValueError(
                f"has points at widths {widths}; allowed: two or more rising widths, the first one 1"
            )
        if self.unit in ("relative", "amortization") and any(value != 1 for value in self.points[0][1:]):
            raise ValueError(f"has unit {self.unit!r} and a first point other than [1, 1]")
        return self

    @property
    def sources(self) -> tuple[str, ...]:
        """The reference keys, in order."""
        return tuple(part.strip() for part in self.source.split(",") if part.strip())

    @property
    def times_s(self) -> dict[float, float]:
        """Seconds of a pass by width; empty where the source gives ratios only."""
        if self.unit == "tokens/s":
            return {point[0]: point[0] / point[1] for point in self.points}
        scale = _SECONDS.get(self.unit)
        return {} if scale is None else {point[0]: scale * point[1] for point in self.points}

    @property
    def verify_cost_ratio(self) -> tuple[CurvePoint, ...]:
        """v(w) = T(w) / T(1) at every measured width; ranges are taken against the middle of T(1)."""
        one = self.points[0][1]
        found = []
        for width, value, *ends in self.points:
            ratios = [self._ratio(width, each, one) for each in (value, *ends)]
            found.append(CurvePoint(width, ratios[0], min(ratios), max(ratios)))
        return tuple(found)

    def _ratio(self, width: float, value: float, one: float) -> float:
        rising = self.unit in _SECONDS or self.unit == "relative"
        return value / one if rising else width * one / value

    def at(self, width: float) -> CurvePoint | None:
        """Return v at a measured width, or straight between two that lie close (`BRIDGE`); else None."""
        points = self.verify_cost_ratio
        for point in points:
            if point.width == width:
                return point
        for below, above in pairwise(points):
            if below.width < width < above.width <= BRIDGE * below.width:
                share = (width - below.width) / (above.width - below.width)
                return CurvePoint(
                    width, *(a + share * (b - a) for a, b in zip(below[1:], above[1:], strict=True))
                )
        return None

    @property
    def cliff(self) -> tuple[float, float] | None:
        """The two measured widths between which v jumps most, or None.

        It jumps where a row costs at least `CLIFF_FACTOR` times what rows cost on average up to there and at
        least `CLIFF_ROW` of a pass; right after width 1, where it costs at least a whole pass.
        """
        points = self.verify_cost_ratio
        jumps = []
        for below, above in pairwise(points):
            row = (above.value - below.value) / (above.width - below.width)
            first = below.width == 1
            least = 1.0 if first else CLIFF_FACTOR * (below.value - 1) / (below.width - 1)
            if row >= max(least, CLIFF_ROW):
                jumps.append((row, (below.width, above.width)))
        return max(jumps)[1] if jumps else None
