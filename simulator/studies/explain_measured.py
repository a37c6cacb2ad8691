"""A measured speedup beside the predicted one: the gap, and its causes in order; it does not phrase them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from hw_profiles.schema import DeviceProfile
from simulator.errors import DraftscopeError
from simulator.studies.explain_case import Asked
from simulator.studies.explain_causes import (
    ACCEPTANCE,
    COUNTER,
    FAULT,
    HEAT,
    NOISE,
    Cause,
    Floats,
    Place,
    causes_of,
)  # fmt: skip
from simulator.studies.explain_fits import FITS, STRETCH, fits, misfit, one_cliff, penalty, together

Status = Literal["inconsistent", "agrees", "inside", "explained", "stretched", "unexplained"]
ANCHOR_SPAN = 100.0
"""Bandwidths further from the profile than this factor are not tried."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One measured draft length.

    Attributes
    ----------
    draft_length : int
        K.
    speedup : float
        Against plain decoding.
    tokens_per_pass : float or None
        Mean tokens a verify pass, bonus included, where it was counted.
    """

    draft_length: int
    speedup: float
    tokens_per_pass: float | None = None


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What was measured on one machine.

    Attributes
    ----------
    points : tuple of Point
        Draft lengths, rising.
    baseline_tokens_per_s : float or None
        Plain decoding, where it is known in absolute terms.
    busy_s : float or None
        Time under load when the measurement ended [s]; one response where None.
    """

    points: tuple[Point, ...]
    baseline_tokens_per_s: float | None = None
    busy_s: float | None = None

    def __post_init__(self) -> None:
        lengths = [point.draft_length for point in self.points]
        if not lengths or lengths != sorted(set(lengths)) or lengths[0] < 1:
            raise DraftscopeError(
                f"measured: draft lengths {lengths} given; allowed: different, rising, >= 1."
            )
        wrong = [point.speedup for point in self.points if not 0 < point.speedup < math.inf]
        if wrong:
            raise DraftscopeError(f"measured: speedup {wrong[0]!r} given; allowed: a number > 0.")


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """A cause with the number that supports it.

    Attributes
    ----------
    cause : str
        Key of :data:`simulator.studies.explain_causes.TITLES`.
    predicted, needed : float or None
        Value in the prediction, and the one that explains the gap at ``Residual.at`` alone; None where no
        value does.
    low, high : float or None
        Cited range of the value, or what is possible at all where ``cited`` is False.
    unit : str
        Of all of them.
    cited : bool
        Whether the range is cited.
    fits : bool
        Whether some size of the cause fits all measured points.
    allowed : bool
        Whether such a size lies in the cited range.
    covers : float
        Share of the gap that the range covers, 0 to 1.
    score : float or None
        The smaller the likelier; None for what is certain or a fault.
    from_width : int or None
        For a cliff: first width of the verify pass that it applies to.
    """

    cause: str
    predicted: float | None = None
    needed: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str = ""
    cited: bool = True
    fits: bool = True
    allowed: bool = False
    covers: float = 0.0
    score: float | None = None
    from_width: int | None = None


@dataclass(frozen=True, kw_only=True)
class Residual:
    """Gap between measurement and prediction.

    Attributes
    ----------
    status : str
        ``inconsistent`` (counts that cannot be), ``agrees`` (within noise), ``inside`` (every point inside
        the predicted interval), ``explained`` (some cause inside its cited range), ``stretched`` (several
        together, or one beyond its range), ``unexplained`` (not by bytes, compute and dispatch).
    points : tuple of dict
        draft_length, measured and predicted speedup, low, high, tokens_per_pass of both, gap (measured /
        predicted), step_time_s of both (that of counts that cannot be is None).
    at : int
        Draft length that the numbers of the causes are for: the one with the largest gap.
    causes : tuple of Suspect
        Likeliest first.
    plain_measured, plain_predicted, plain_low, plain_high : float or None
        Plain decoding [tok/s]; prediction before it was anchored.
    anchor : float or None
        Factor on bandwidth and arithmetic rate that makes plain decoding agree; None where it is not known,
        or where floors alone take longer.
    reach : float or None
        Speedup at ``at`` with every cited input at the end that helps most.
    busy_s : float
        Time under load that was assumed for heat [s].
    """

    status: Status
    points: tuple[dict[str, Any], ...]
    at: int
    causes: tuple[Suspect, ...]
    plain_measured: float | None
    plain_predicted: float
    plain_low: float | None
    plain_high: float | None
    anchor: float | None
    reach: float | None
    busy_s: float

    def record(self) -> dict[str, Any]:
        """All of it, plain."""
        return asdict(self)


def residual_of(
    asked: Asked,
    measured: Measured,
    device: DeviceProfile,
    *,
    intervals: Mapping[int, tuple[float, float] | None],
    plain_interval: tuple[float, float] | None,
) -> Residual:
    """Compare and rank.

    Parameters
    ----------
    asked : Asked
        The case.
    measured : Measured
        What came out.
    device : DeviceProfile
        For its heat.
    intervals : mapping of int to (low, high)
        Interval of the predicted speedup at each measured draft length.
    plain_interval : (low, high), optional
        Interval of predicted plain decoding [tok/s].
    """
    points = measured.points
    lengths = tuple(point.draft_length for point in points)
    plain = float(asked.metrics(lengths[0])["baseline_decode_tokens_per_s"])
    anchor, axes = _anchored(asked, lengths[0], measured.baseline_tokens_per_s, plain)
    first = asked.metrics(lengths[0], axes)
    busy_s = float(first["request_time_s"]) if measured.busy_s is None else measured.busy_s
    possible = [point for point in points if _possible(point)]
    place = Place(
        asked=asked, lengths=lengths, axes=axes, busy_s=busy_s,
        tokens=tuple(point.tokens_per_pass if _possible(point) else None for point in points),
    )  # fmt: skip
    as_predicted = Place(asked=asked, lengths=lengths, tokens=(None,) * len(points), axes=axes, busy_s=busy_s)
    y, model_y = place.y(), as_predicted.y()
    wanted = np.array([1.0 / point.speedup for point in points])
    at = int(np.argmax(np.abs(np.log(wanted / model_y))))
    status: Status
    reach = None
    if len(possible) < len(points):
        status, causes = "inconsistent", _impossible(points)
    else:
        known = causes_of(place, device, baseline_known=anchor is not None)
        ranked = sorted((_suspect(each, y, wanted, at) for each in one_cliff(known, y, wanted)),
                        key=lambda suspect: suspect.score or 0.0)  # fmt: skip
        ranked = _with_counts(ranked, y, model_y, wanted, at, place, as_predicted)
        rest, reach = together(known, y, wanted, at)
        inside = all(_inside(point, intervals.get(point.draft_length)) for point in points)
        best_score = ranked[0].score or 0.0
        if np.all(np.abs(np.log(wanted / model_y)) <= NOISE):
            status = "agrees"
        elif inside:
            status = "inside"
        elif rest > 2.0 or best_score > len(y) + float(penalty(STRETCH)):
            status = "unexplained"
            ranked = [_fault(wanted, reach, at), *ranked]
        else:
            status = "explained" if any(suspect.allowed for suspect in ranked) else "stretched"
        causes = ranked
    return Residual(
        status=status, at=lengths[at], causes=tuple(causes), anchor=anchor, reach=reach, busy_s=busy_s,
        plain_measured=measured.baseline_tokens_per_s, plain_predicted=plain,
        plain_low=None if plain_interval is None else plain_interval[0],
        plain_high=None if plain_interval is None else plain_interval[1],
        points=tuple(
            _point(point, as_predicted.metrics(i), intervals.get(point.draft_length))
            for i, point in enumerate(points)
        ),
    )  # fmt: skip


def _possible(point: Point) -> bool:
    """Whether the counts of a point can be: 1 to K + 1 tokens a pass, and no more speedup than that."""
    most = point.draft_length + 1.0
    tokens = most if point.tokens_per_pass is None else point.tokens_per_pass
    return 1.0 <= tokens <= most and point.speedup <= tokens


def _impossible(points: Sequence[Point]) -> list[Suspect]:
    """The counter of the point whose speedup is furthest above its tokens."""
    wrong = [point for point in points if not _possible(point)]
    worst = max(wrong, key=lambda point: point.speedup / (point.tokens_per_pass or point.draft_length + 1.0))
    return [
        Suspect(
            cause=COUNTER,
            predicted=worst.tokens_per_pass,
            needed=worst.speedup,
            low=1.0,
            high=worst.draft_length + 1.0,
            unit="tokens a step",
            covers=1.0,
        )
    ]


def _inside(point: Point, interval: tuple[float, float] | None) -> bool:
    return interval is not None and interval[0] <= point.speedup <= interval[1]


def _anchored(
    asked: Asked, length: int, baseline: float | None, plain: float
) -> tuple[float | None, dict[str, Any]]:
    """Factor on all bandwidth and arithmetic that makes plain decoding take its measured time."""
    if baseline is None:
        return None, {}
    question = asked.question
    peak = question.axes.get("peak_bandwidth_bytes_per_s")
    if peak is None:
        peak = question.lowered.inputs["peak_bandwidth_bytes_per_s"].value

    def axes(factor: float) -> dict[str, Any]:
        rate = factor * float(question.axes.get("macs_per_s_scale", 1.0))
        return {"peak_bandwidth_bytes_per_s": peak * factor, "macs_per_s_scale": rate,
                "draft_macs_per_s_scale": rate}  # fmt: skip

    def above(factor: float) -> bool:
        return float(asked.metrics(length, axes(factor))["baseline_decode_tokens_per_s"]) >= baseline

    low, high = 1.0 / ANCHOR_SPAN, ANCHOR_SPAN
    if above(low) or not above(high):
        return None, {}
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if above(middle) else (middle, high)
    return high, axes(high)


def _suspect(cause: Cause, y: Floats, wanted: Floats, at: int) -> Suspect:
    score, size = fits(cause, y, wanted)
    reached = cause.at(y, np.array(size))
    gap = math.log(wanted[at] / y[at])
    fitting = bool(misfit(reached, wanted) <= FITS * len(y))
    ends = sorted(
        cause.number(at, float(np.clip(y[at] + change[at], cause.least[at], cause.most[at])))
        for change in cause.cited_ends or (cause.slow, cause.fast)
    )
    if cause.name == HEAT:  # both ends are the hot one of the two runs
        ends[1] = 1.0
    toward = cause.slow[at] if wanted[at] > y[at] else cause.fast[at]
    moved = bool(toward != 0.0 and cause.least[at] <= wanted[at] <= cause.most[at])
    needed = cause.number(at, float(wanted[at])) if moved else None
    inside = cause.at(y, np.array(np.clip(size, -1.0, 1.0)))
    covers = math.log(max(inside[at], 1e-9) / y[at]) / gap if abs(gap) > 1e-12 else 0.0
    return Suspect(
        cause=cause.name, predicted=_finite(cause.number(at, float(y[at]))), needed=_finite(needed),
        low=_finite(ends[0]), high=_finite(ends[1]), unit=cause.unit, cited=cause.cited,
        fits=fitting, allowed=fitting and moved and abs(size) <= 1.0 + 1e-6 and cause.cited,
        covers=min(max(covers, 0.0), 1.0), score=score, from_width=cause.from_width,
    )  # fmt: skip


def _with_counts(
    ranked: list[Suspect], y: Floats, model_y: Floats, wanted: Floats, at: int, place: Place,
    as_predicted: Place,
) -> list[Suspect]:  # fmt: skip
    """Acceptance and its counter, where tokens a pass were counted and differ from the prediction.

    Counted acceptance is a fact: it comes first if it closes most of the gap, last if not. If the speed fits
    the predicted acceptance better than the counted one, the counter itself is a suspect, as likely as an
    input at the end of its range.
    """
    if all(tokens is None for tokens in place.tokens):
        return ranked
    total, rest = float(misfit(model_y, wanted)), float(misfit(y, wanted))
    if abs(math.log(y[at] / model_y[at])) < 1e-9:
        return ranked
    counted = place.tokens[at]
    predicted = float(as_predicted.metrics(at)["mean_acceptance_length"])
    needed = float(predicted * model_y[at] / wanted[at])
    share = min(max(1.0 - rest / total, 0.0), 1.0) if total > 0 else 0.0
    spread = place.asked.acceptance_range(place.lengths[at])
    low, high = spread or (1.0, place.lengths[at] + 1.0)
    known = Suspect(cause=ACCEPTANCE, predicted=predicted, needed=counted, low=low, high=high,
                    unit="tokens a step", cited=spread is not None, allowed=share >= 0.5, covers=share,
                    score=rest)  # fmt: skip
    doubt = total + float(penalty(1.0))
    found = sorted(
        [*ranked, Suspect(cause=COUNTER, predicted=counted, needed=needed, low=low, high=high,
                          unit="tokens a step", cited=spread is not None, allowed=total <= 4.0 * len(y),
                          covers=min(max(1.0 - total / rest, 0.0), 1.0) if rest > 0 else 0.0, score=doubt)]
        if total < rest else ranked,
        key=lambda suspect: suspect.score or 0.0,
    )  # fmt: skip
    return [known, *found] if share >= 0.5 else [*found, known]


def _fault(wanted: Floats, reach: float, at: int) -> Suspect:
    """What is left once everything cited has done its worst, as a share of the time of a token."""
    share = 1.0 / (reach * float(wanted[at]))
    left = max(1.0 - min(share, 1.0 / share), 0.0)
    return Suspect(cause=FAULT, predicted=reach, needed=float(1.0 / wanted[at]), unit="x", covers=left)


def _point(point: Point, metrics: Mapping[str, Any], interval: tuple[float, float] | None) -> dict[str, Any]:
    predicted, step_s = float(metrics["speedup"]), float(metrics["step_time_s"])
    expected = float(metrics["mean_acceptance_length"])
    tokens = expected if point.tokens_per_pass is None else point.tokens_per_pass
    plain_s = step_s / float(metrics["break_even_acceptance_length"])
    return {
        "draft_length": point.draft_length, "measured": point.speedup, "predicted": predicted,
        "low": None if interval is None else interval[0], "high": None if interval is None else interval[1],
        "gap": point.speedup / predicted, "tokens_per_pass": point.tokens_per_pass,
        "predicted_tokens_per_pass": expected,
        "step_time_s": tokens / point.speedup * plain_s if _possible(point) else None,
        "predicted_step_time_s": step_s,
    }  # fmt: skip


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
