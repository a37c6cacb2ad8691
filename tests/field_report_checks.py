"""Field reports asked through `predict` and `explain`, and judged; it reads no files."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

from hw_profiles import load_device
from hw_profiles.references import references
from simulator.analytic import predict
from simulator.results import Result
from simulator.studies.explain import Explanation, explain
from simulator.studies.explain_causes import TITLES
from simulator.studies.explain_measured import Measured, Point
from tests.field_reports import FLAGGED, INSIDE, MISSED, RIGHT, Case, Check, Report, Verdict

NOISE = 0.05
"""Run-to-run noise of a speedup, relative: nearer to 1 a report says "no difference"."""
LEVEL = 0.1
"""A prediction so near to 1 says "no difference" too."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one check gave, with the numbers that it rests on."""

    verdict: Verdict
    text: str


class Asked:
    """A report with its predictions, each computed once."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self._results: dict[str, Result] = {}

    def result(self, case: Case) -> Result:
        """Prediction of a case."""
        if case.name not in self._results:
            self._results[case.name] = predict(**case.arguments())
        return self._results[case.name]

    def explained(self, case: Case) -> Explanation:
        """Explanation of a case beside its measurement."""
        measured = None
        if case.measured is not None:
            point = Point(draft_length=case.draft_length, speedup=case.measured,
                          tokens_per_pass=case.counted)  # fmt: skip
            measured = Measured(points=(point,), baseline_tokens_per_s=case.plain_tokens_per_s)
        return explain(**case.arguments(), lengths=(case.draft_length,), measured=measured)

    def cases(self, check: Check) -> tuple[Case, ...]:
        """Cases of a check, in its order."""
        named = {case.name: case for case in self.report.case}
        return tuple(named[name] for name in check.cases) if check.cases else self.report.case

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """One for each check, ``sign`` one for each case."""
        return tuple(finding for check in self.report.check for finding in CHECKS[check.what](self, check))

    @property
    def verdict(self) -> Verdict:
        """The worst of the findings; a fault that is named counts as flagged."""
        found = [finding.verdict for finding in self.findings]
        for worst in (MISSED, INSIDE, FLAGGED):
            if worst in found:
                return worst
        return RIGHT

    @property
    def sources_used(self) -> bool:
        """Whether a profile that was used cites this very report: then it is no independent prediction."""
        known = references()
        own = self.report.source.rstrip("/")
        used = {name for case in self.report.case for name in self.result(case).references}
        return self.report.known or any(known[name].url == own for name in used if name in known)


def _span(result: Result, name: str = "speedup", digits: int = 2) -> tuple[float, float, float, str]:
    value = float(result[name])
    low, high = result.intervals.get(name, (value, value))
    return value, low, high, f"{value:.{digits}f} [{low:.{digits}f}..{high:.{digits}f}]"


def sign(asked: Asked, check: Check) -> list[Finding]:
    """Whether speculation pays, case by case; a report near 1 wants a prediction near 1."""
    found = []
    for case in asked.cases(check):
        measured = case.measured
        if measured is None:
            raise ValueError(f"{case.name}: sign needs a measured speedup")
        value, low, high, text = _span(asked.result(case))
        near = abs(math.log(measured)) <= NOISE
        right = (value > 1) == (measured > 1) or (near and abs(math.log(value)) <= LEVEL)
        inside = low <= measured <= high
        verdict: Verdict = RIGHT if right else INSIDE if inside else MISSED
        place = "" if inside else " (outside)"
        found.append(Finding(verdict=verdict, text=f"{case.name}: {text}, measured {measured:.2f}{place}"))
    return found


def optimum(asked: Asked, check: Check) -> list[Finding]:
    """Which case is the fastest."""
    cases = asked.cases(check)
    measured = max(cases, key=lambda case: case.measured or 0.0)
    spans = {case.name: _span(asked.result(case)) for case in cases}
    best = max(cases, key=lambda case: spans[case.name][0])
    inside = spans[measured.name][2] >= spans[best.name][1]
    verdict: Verdict = RIGHT if best is measured else INSIDE if inside else MISSED
    return [Finding(verdict=verdict, text=f"fastest: {best.name}, measured {measured.name}")]


def falls(asked: Asked, check: Check) -> list[Finding]:
    """Speedups in falling order."""
    values = [float(asked.result(case)["speedup"]) for case in asked.cases(check)]
    right = all(a > b for a, b in itertools.pairwise(values))
    shown = " > ".join(f"{value:.2f}" for value in values)
    names = ", ".join(case.name for case in asked.cases(check))
    return [Finding(verdict=RIGHT if right else MISSED, text=f"in the order {names}: {shown}")]


def cliff(asked: Asked, check: Check) -> list[Finding]:
    """Cost of the verify pass before and after a width."""
    before, after = (_span(asked.result(case), "verify_time_s", 4) for case in asked.cases(check))
    names = [f"width {case.draft_length + 1}" for case in asked.cases(check)]
    jump, wanted = after[0] / before[0], check.at_least or 1.0
    inside = after[2] / before[1] >= wanted
    text = f"a pass of {names[1]} costs {jump:.2f} times one of {names[0]}, measured {wanted:.2f}"
    right = abs(math.log(jump / wanted)) <= LEVEL
    return [Finding(verdict=RIGHT if right else INSIDE if inside else MISSED, text=text)]


def needs_rate(asked: Asked, check: Check) -> list[Finding]:
    """Break-even acceptance."""
    found = []
    for case in asked.cases(check):
        rate = asked.explained(case).break_even.acceptance_rate
        right = rate is None or rate >= (check.at_least or 0.0)
        text = (
            f"{case.name}: no rate pays" if rate is None else f"{case.name}: pays from a rate of {rate:.2f}"
        )
        found.append(Finding(verdict=RIGHT if right else MISSED, text=text))
    return found


def ram(asked: Asked, check: Check) -> list[Finding]:
    """Whether target, cache and drafter fit the memory."""
    found = []
    for case in asked.cases(check):
        value, low, high, _ = _span(asked.result(case), "peak_ram_bytes")
        room = load_device(case.device).free_ram_bytes
        right = (value <= room) == check.fits
        inside = low <= room <= high
        verb = "fits" if value <= room else "does not fit"
        text = f"{case.name}: {value / 2**20:,.0f} of {room / 2**20:,.0f} MiB, {verb}"
        found.append(Finding(verdict=RIGHT if right else INSIDE if inside else MISSED, text=text))
    return found


def cause(asked: Asked, check: Check) -> list[Finding]:
    """Whether `explain` names a cause first (a fault is flagged) or among its first three."""
    found = []
    for case in asked.cases(check):
        residual = asked.explained(case).residual
        if residual is None:
            raise ValueError(f"{case.name}: a cause needs a measured speedup")
        first = [suspect.cause for suspect in residual.causes[:3]]
        verdict: Verdict = FLAGGED if first[0] == check.cause else RIGHT if check.cause in first else MISSED
        likeliest = "; ".join(TITLES[name] for name in first)
        found.append(Finding(verdict=verdict, text=f"{case.name}: likeliest causes of the gap: {likeliest}"))
    return found


def below(asked: Asked, check: Check) -> list[Finding]:
    """A slowdown even at the fast end of the interval; the prediction is an upper bound."""
    found = []
    for case in asked.cases(check):
        value, low, _, text = _span(asked.result(case))
        verdict: Verdict = RIGHT if value < 1 else INSIDE if low < 1 else MISSED
        found.append(Finding(verdict=verdict, text=f"{case.name}: at most {text}"))
    return found


def rate(asked: Asked, check: Check) -> list[Finding]:
    """Measured tokens a second below all that is predicted: a fault; inside: economics."""
    found = []
    for case in asked.cases(check):
        _, low, _, text = _span(asked.result(case), "decode_tokens_per_s", 0)
        flagged = case.tokens_per_s is not None and case.tokens_per_s < low
        text = f"{case.name}: {text} tok/s, measured {case.tokens_per_s:.0f}"
        found.append(Finding(verdict=FLAGGED if flagged else MISSED, text=text))
    return found


def prefill(asked: Asked, check: Check) -> list[Finding]:
    """Share of the prompt's speed that the drafter's own prefill takes, where nothing is wrong."""
    found = []
    for case in asked.cases(check):
        plain = predict(**{**case.arguments(), "drafter": "none", "acceptance": None, "draft_length": 0})
        share = 1.0 - float(plain["ttft_s"]) / float(asked.result(case)["ttft_s"])
        right = (check.at_least or 0.0) <= share <= (check.at_most or 1.0)
        text = f"{case.name}: the drafter takes {share:.1%} of the prompt's speed"
        found.append(Finding(verdict=FLAGGED if right else MISSED, text=text))
    return found


CHECKS = {
    "sign": sign, "optimum": optimum, "falls": falls, "cliff": cliff, "needs_rate": needs_rate, "ram": ram,
    "cause": cause, "below": below, "rate": rate, "prefill": prefill,
}  # fmt: skip
