"""Causes that can move a measured speedup away from the predicted one, and how far each may reach.

A cause is a set of inputs moved together to the ends of their cited ranges. Everything is counted in
``y = 1 / speedup``: the time of a token relative to plain decoding. It does not know what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw_profiles.schema import DeviceProfile
from simulator.studies.explain_case import Asked

Floats = NDArray[np.float64]

NOISE = 0.05
"""Run-to-run noise of a speedup on a good rig, one standard deviation, relative."""

WORST_ROW = 1.5
"""Plain passes that a row of a verify pass costs at most, in the worst kernel published: f16 on PowerVR."""

CLIFF, BANDWIDTH, DISPATCH = "verify_curve", "drafter_bandwidth", "draft_dispatch"
HOST_TIME, SAMPLING = "host_overhead", "sampling"
PLAIN_PASS, HEAT, ACCEPTANCE = "plain_pass", "heat", "acceptance"
COUNTER, FAULT = "counter_artefact", "fault"

TITLES = {
    CLIFF: "cost of the verify rows, v(w)",
    BANDWIDTH: "bandwidth of the drafter",
    DISPATCH: "dispatch of the draft passes",
    HOST_TIME: "host overhead between the passes",
    SAMPLING: "sampling on the host",
    PLAIN_PASS: "plain decoding is not what was predicted",
    HEAT: "heat",
    ACCEPTANCE: "acceptance",
    COUNTER: "counter artefact",
    FAULT: "fault, not economics",
}
"""Cause -> words for people."""

DRAFT_BANDWIDTHS = ("mbu_small", "mbu_large", "mbu_kv")


@dataclass(frozen=True, kw_only=True)
class Cause:
    """One cause at the measured points.

    Attributes
    ----------
    name : str
        Key of :data:`TITLES`.
    slow, fast : array, shape (points,)
        Change of ``y`` at the slow and at the fast end of the cited range.
    least, most : array, shape (points,)
        Smallest and largest ``y`` that the cause can reach: no part takes less than no time.
    unit : str
        Of the number below.
    number : callable
        ``(point, y) -> float``: value that the cause must have for ``y`` at a point, all else as predicted.
    cited : bool
        False where no range is cited; the ends are then those that are possible at all.
    from_width : int or None
        For a cliff: first width that it applies to.
    choices : int
        Causes of this kind that it was chosen among; 1 for the one that comes first to mind.
    cited_ends : (array, array) or None
        For a cliff: slow and fast as cited, whatever its shape.
    one_by_one : array or None
        For a cliff: ``y`` with every row of the verify pass at the worst price published.
    """

    name: str
    slow: Floats
    fast: Floats
    least: Floats
    most: Floats
    unit: str
    number: Callable[[int, float], float]
    cited: bool = True
    from_width: int | None = None
    choices: int = 1
    cited_ends: tuple[Floats, Floats] | None = None
    one_by_one: Floats | None = None

    def at(self, y: Floats, z: Any) -> Floats:
        """``y`` with the cause at ``z`` times its cited range, positive towards slow.

        Parameters
        ----------
        y : array, shape (points,)
            As predicted.
        z : float or array, shape (sizes, 1)
            Size.
        """
        moved = y + np.where(np.asarray(z) >= 0, self.slow, -self.fast) * z
        clipped: Floats = np.clip(moved, self.least, self.most)
        return clipped


@dataclass(frozen=True, kw_only=True)
class Place:
    """The measured points as predicted.

    Attributes
    ----------
    asked : Asked
        The case.
    lengths : tuple of int
        Draft lengths.
    tokens : tuple of float or None
        Mean acceptance lengths that were measured.
    axes : dict
        Inputs that were anchored to the measured plain decoding.
    busy_s : float
        Time that the device was under load [s].
    """

    asked: Asked
    lengths: tuple[int, ...]
    tokens: tuple[float | None, ...]
    axes: Mapping[str, Any]
    busy_s: float

    def metrics(self, point: int, axes: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Metrics at a point."""
        return self.asked.metrics(
            self.lengths[point], {**self.axes, **(axes or {})}, length=self.tokens[point]
        )

    def y(self, axes: Mapping[str, Any] | None = None) -> Floats:
        """Time of a token relative to plain decoding, at all points."""
        return np.array([1.0 / float(self.metrics(i, axes)["speedup"]) for i in range(len(self.lengths))])

    def end(self, names: Sequence[str], position: float) -> dict[str, Any]:
        """Inputs at one end of their ranges; those without a range are left out."""
        inputs = self.asked.uncertain
        found = {}
        for name in names:
            own = name if name in inputs else name.removeprefix("draft_")
            if own in inputs and name not in self.axes:
                found[name] = inputs[own].drawn(position)
        return found


def causes_of(place: Place, device: DeviceProfile, *, baseline_known: bool) -> list[Cause]:
    """Every cause that applies to a case, those of one number before those that need a range.

    Parameters
    ----------
    place : Place
        The measured points.
    device : DeviceProfile
        For its heat.
    baseline_known : bool
        Whether plain decoding was measured too, and the prediction anchored to it.
    """
    y = place.y()
    each = [place.metrics(i) for i in range(len(y))]
    per = np.array([float(one["step_time_s"]) for one in each]) / y  # seconds of a step for a y of 1
    found = [*_cliffs(place, y, each, per), *_drafter(place, y, each, per)]
    found += _host(place, y, each, per)
    if not baseline_known:
        found.append(_plain_pass(place, y, each))
    found.append(_heat(place, y, device))
    if any(tokens is None for tokens in place.tokens):
        found.append(_acceptance(place, y))
    return found


def _ends(place: Place, y: Floats, names: Sequence[str]) -> tuple[Floats, Floats]:
    """Change of ``y`` with all inputs at whichever end slows, and speeds, each of them."""
    slow: dict[str, Any] = {}
    fast: dict[str, Any] = {}
    for name in names:
        ends = [place.end([name], position) for position in (0.0, 1.0)]
        if not ends[0]:
            continue
        at = [float(place.y(axes).sum()) for axes in ends]
        slow |= ends[int(np.argmax(at))]
        fast |= ends[int(np.argmin(at))]
    if not slow:
        return np.zeros_like(y), np.zeros_like(y)
    return np.maximum(place.y(slow) - y, 0.0), np.minimum(place.y(fast) - y, 0.0)


def _cliffs(place: Place, y: Floats, each: list[dict[str, Any]], per: Floats) -> list[Cause]:
    """The verify curve from some width on, as its range bends it and by one factor; the whole curve first."""
    slow, fast = _ends(place, y, ("verify_curve", "macs_per_s"))
    cited = bool(slow.any() or fast.any())
    verify = np.array([float(one["verify_time_s"]) for one in each])
    ratio = np.array([float(one["verify_cost_ratio"]) for one in each])
    alone = verify / ratio
    noise = NOISE * verify / per
    slow, fast = np.maximum(slow, noise), np.minimum(fast, -noise)
    widths = [length + 1 for length in place.lengths]

    def number(point: int, value: float) -> float:
        return float((verify[point] + (value - y[point]) * per[point]) / alone[point])

    spent = verify / per
    found: list[Cause] = []
    for start in sorted(set(widths)):
        reached = np.array([width >= start for width in widths])
        steeper = float(np.min((slow / spent)[reached]))
        flatter = float(np.max((fast / spent)[reached]))
        for up, down in ((slow, fast), (steeper * spent, flatter * spent)):
            whole = not found
            found.append(Cause(
                name=CLIFF, slow=up * reached, fast=down * reached,
                least=np.where(reached, y - (verify - alone) / per, y), most=np.full_like(y, np.inf),
                unit="x", number=number, cited=cited, from_width=start, cited_ends=(slow, fast),
                choices=1 if whole else 2 * len(set(widths)),
                one_by_one=y + (WORST_ROW * np.array(widths) * alone - verify) / per,
            ))  # fmt: skip
    return found


def _drafter(place: Place, y: Floats, each: list[dict[str, Any]], per: Floats) -> list[Cause]:
    """Bandwidth on the drafter's weights, and dispatch of its passes."""
    time_s = np.array([float(one["draft_time_s"]) for one in each])
    if not time_s.any():
        return []
    work = [_draft_work(place, i) for i in range(len(y))]
    moved, floor, rows, passes = (np.array([getattr(one, name) for one in work])
                                  for name in ("bytes_moved", "floor_s", "rows_s", "passes"))  # fmt: skip
    host = floor + rows
    slow, fast = _ends(place, y, [f"draft_{name}" for name in DRAFT_BANDWIDTHS])
    endless = np.full_like(y, np.inf)

    def bandwidth(point: int, value: float) -> float:
        left = time_s[point] - host[point] + (value - y[point]) * per[point]
        return float(moved[point] / left / 1e9) if left > 0 else math.inf

    found = [Cause(name=BANDWIDTH, slow=slow, fast=fast, least=y - (time_s - host) / per, most=endless,
                   unit="GB/s", number=bandwidth)]  # fmt: skip
    slow, fast = _ends(place, y, ("draft_floor_per_draft_pass_s",))

    def dispatch(point: int, value: float) -> float:
        return float((floor[point] + (value - y[point]) * per[point]) / passes[point] * 1e3)

    found.append(Cause(name=DISPATCH, slow=slow, fast=fast, least=y - floor / per, most=endless,
                       unit="ms a draft pass", number=dispatch))  # fmt: skip
    return found


@dataclass(frozen=True, kw_only=True)
class _Drafting:
    """Draft passes of a step: bytes, floors, host time of their rows, and how many they are."""

    bytes_moved: float = 0.0
    floor_s: float = 0.0
    rows_s: float = 0.0
    passes: float = 0.0


def _draft_work(place: Place, point: int) -> _Drafting:
    case = place.asked.at(place.lengths[point])
    params, work = case.params, case.work
    if params.passes_per_step == "none" or params.draft_pass.empty:
        return _Drafting()
    steps = float(work.steps)
    runs = [(params.draft_cost(1), work.drafts)]
    if params.catch_up:
        runs.append((params.draft_cost(2), work.catch_ups))
    passes = sum(float(sums.count) for _, sums in runs)
    floor = float(params.draft_side.floor_s) * passes
    host = sum(float(cost.host_s) * float(sums.count) for cost, sums in runs)
    moved = sum(float(cost.bytes_moved.total(sums)) for cost, sums in runs)
    return _Drafting(bytes_moved=moved / steps, floor_s=floor / steps, rows_s=(host - floor) / steps,
                     passes=passes / steps)  # fmt: skip


def _host(place: Place, y: Floats, each: list[dict[str, Any]], per: Floats) -> list[Cause]:
    """Host time between the passes, and host time of the rows beyond those of a plain pass."""
    between = np.array([float(one["host_time_s"]) for one in each])
    rows = np.array([_draft_work(place, i).rows_s + _extra_rows_s(place, i) for i in range(len(y))])
    return [
        _host_cause(place, y, per, HOST_TIME, ("floor_per_step_s", "host_s_per_step"), between),
        _host_cause(place, y, per, SAMPLING, ("host_per_row_s", "draft_host_per_row_s"), rows),
    ]


def _host_cause(
    place: Place, y: Floats, per: Floats, name: str, inputs: Sequence[str], time_s: Floats
) -> Cause:
    slow, fast = _ends(place, y, inputs)

    def number(point: int, value: float) -> float:
        return float((time_s[point] + (value - y[point]) * per[point]) * 1e3)

    return Cause(name=name, slow=slow, fast=fast, least=y - time_s / per, most=np.full_like(y, np.inf),
                 unit="ms a step", number=number)  # fmt: skip


def _extra_rows_s(place: Place, point: int) -> float:
    """Host time of the rows of a verify pass beyond the first."""
    case = place.asked.at(place.lengths[point])
    one = float(case.params.verify_cost(1).host_s)
    total = sum(
        (float(case.params.verify_cost(group.proposed + 1).host_s) - one) * float(group.sums.count)
        for group in case.work.verify
    )
    return total / float(case.work.steps)


def _plain_pass(place: Place, y: Floats, each: list[dict[str, Any]]) -> Cause:
    """The target's own bandwidth and floor: they move the pass that everything is compared with."""
    own = ("mbu_large", "mbu_small", "mbu_kv", "floor_per_pass_s")
    inputs = place.asked.question.lowered.inputs
    fixed = {f"draft_{name}": inputs[name].value for name in DRAFT_BANDWIDTHS
             if f"draft_{name}" not in inputs}  # fmt: skip
    held = Place(asked=place.asked, lengths=place.lengths, tokens=place.tokens,
                 axes={**place.axes, **fixed}, busy_s=place.busy_s)  # fmt: skip
    slow, fast = _ends(held, y, own)
    rates = np.array([float(one["baseline_decode_tokens_per_s"]) for one in each])
    others = np.array([1.0 - float(one["verify_time_s"]) / float(one["step_time_s"]) for one in each])

    def number(point: int, value: float) -> float:
        """Faster plain decoding leaves the share of everything else as it is in seconds."""
        gain = 1.0 + (value - y[point]) / (y[point] * max(others[point], 1e-9))
        return float(rates[point] * gain) if gain > 0 else 0.0

    return Cause(name=PLAIN_PASS, slow=slow, fast=fast, least=y * (1.0 - others),
                 most=np.full_like(y, np.inf), unit="tok/s", number=number)  # fmt: skip


def _heat(place: Place, y: Floats, device: DeviceProfile) -> Cause:
    """One of the two runs on a device that has already heated up, the other on a cool one."""
    share = sustained_share(device, place.busy_s)

    def number(point: int, value: float) -> float:
        return float(min(y[point] / value, value / y[point]))

    return Cause(name=HEAT, slow=y / share - y, fast=y * share - y, least=np.zeros_like(y),
                 most=np.full_like(y, np.inf), unit="of the cool speed", number=number)  # fmt: skip


def sustained_share(device: DeviceProfile, busy_s: float) -> float:
    """Speed after some time of load relative to a cool device, at the worst end of the cited range.

    ``1 - (1 - f) (1 - exp(-t / tau))`` with the sustained fraction ``f`` and the time constant ``tau`` of the
    device.

    Parameters
    ----------
    device : DeviceProfile
        Its ``thermal``.
    busy_s : float
        Time under load [s].
    """
    fraction, constant = device.thermal.sustained_fraction, device.thermal.skin_time_constant_s
    worst = fraction.value if fraction.low is None else fraction.low
    quickest = constant.value if constant.low is None else constant.low
    return 1.0 - (1.0 - float(worst)) * -math.expm1(-busy_s / float(quickest))


def _acceptance(place: Place, y: Floats) -> Cause:
    """Another mean acceptance length: its cited range, or all that is possible."""
    lengths = np.array(place.lengths, dtype=float)
    middle = np.array([float(place.asked.at(length).work.mean_acceptance_length) for length in place.lengths])
    ranges = [place.asked.acceptance_range(length) for length in place.lengths]
    free = np.array([tokens is None for tokens in place.tokens])
    cited = all(one is not None for one in ranges)
    low = np.array([1.0 if one is None else min(one[0], m) for one, m in zip(ranges, middle, strict=True)])
    high = np.array([
        length + 1.0 if one is None else max(one[1], m)
        for one, m, length in zip(ranges, middle, lengths, strict=True)
    ])  # fmt: skip

    def number(point: int, value: float) -> float:
        return float(middle[point] * y[point] / value)

    return Cause(
        name=ACCEPTANCE, slow=np.where(free, y * middle / low - y, 0.0),
        fast=np.where(free, y * middle / high - y, 0.0),
        least=np.where(free, y * middle / (lengths + 1.0), y), most=np.where(free, y * middle, y),
        unit="tokens a step", number=number, cited=cited,
    )  # fmt: skip
