"""The gap between measurement and prediction in words; every number comes from the study."""

from __future__ import annotations

from typing import Any

from simulator.cli.explain_words import ms, number, times
from simulator.cli.output import table
from simulator.studies.explain_causes import (
    ACCEPTANCE,
    BANDWIDTH,
    CLIFF,
    COUNTER,
    DISPATCH,
    FAULT,
    HEAT,
    HOST_TIME,
    PLAIN_PASS,
    SAMPLING,
    TITLES,
)  # fmt: skip
from simulator.studies.explain_fits import STRETCH
from simulator.studies.explain_measured import Residual, Suspect

SUBJECTS = {
    CLIFF: "The verify pass of {width} rows would have to cost {needed} plain passes; predicted {predicted}",
    BANDWIDTH: "The drafter would have to read at {needed} GB/s; predicted {predicted}",
    DISPATCH: "Launching a draft pass would have to take {needed} ms; predicted {predicted}",
    HOST_TIME: "The host would have to take {needed} ms a step between the passes; predicted {predicted}",
    SAMPLING: "Choosing tokens on the host would have to take {needed} ms a step; predicted {predicted}",
    PLAIN_PASS: "Plain decoding would have to run at {needed} tok/s; predicted {predicted}",
    HEAT: "The hot one of the two runs would have to run at {needed} of the cool speed",
    ACCEPTANCE: "A step would have to emit {needed} tokens; predicted {predicted}",
}
"""Cause -> the number that explains the gap alone."""

IMPOSSIBLE = {
    CLIFF: "Even a verify pass as cheap as a plain one is not enough",
    BANDWIDTH: "Even a drafter that reads its weights in no time is not enough",
    DISPATCH: "Even draft passes that launch in no time are not enough",
    HOST_TIME: "Even a host that takes no time is not enough",
    SAMPLING: "Even tokens chosen in no time are not enough",
    PLAIN_PASS: "No speed of plain decoding is enough",
    ACCEPTANCE: "No acceptance from 1 to K + 1 tokens a step is enough",
}
"""Cause -> what to say where no size of it explains the gap."""


def gap_sentence(found: Residual) -> str:
    """The gap, and what it is, in two sentences at most."""
    point = _at(found)
    where = f" at K = {found.at}" if len(found.points) > 1 else ""
    start = (
        f"Measured{where}: {times(point['measured'])}; predicted: {times(point['predicted'])}"
        + ("" if point["low"] is None else f" ({times(point['low'])} to {times(point['high'])})")
        + "."
    )
    first = TITLES[found.causes[0].cause]
    inside = next((TITLES[each.cause] for each in found.causes if each.allowed), None)
    ends = {
        "inconsistent": "The counts contradict each other: find the mistake before reading more into them.",
        "agrees": "They agree within run-to-run noise: there is nothing to explain.",
        "inside": "The measurement lies inside the predicted range.",
        "explained": f"Likeliest cause inside its cited range: {inside}.",
        "stretched": f"No cause explains the gap alone inside its cited range; first suspect: {first}.",
        "unexplained": "The gap is not explained by bytes, compute and dispatch: look for a fault.",
    }
    uncounted = any(each.cause == ACCEPTANCE and not each.cited for each in found.causes) and not _counted(
        found
    )
    count = " Acceptance was not counted in this run: count it first." if uncounted else ""
    return f"{start} {ends[found.status]}{count if found.status != 'agrees' else ''}"


def gap_lines(found: Residual) -> list[str]:
    """A table of the measured points, then the causes, likeliest first."""
    rows = [
        (
            str(point["draft_length"]), times(point["measured"]), times(point["predicted"]),
            "-" if point["tokens_per_pass"] is None else f"{point['tokens_per_pass']:.2f}",
            f"{point['predicted_tokens_per_pass']:.2f}", "-" if point["step_time_s"] is None
            else number(point["step_time_s"] * 1e3), number(point["predicted_step_time_s"] * 1e3),
        )
        for point in found.points
    ]  # fmt: skip
    head = ("K", "measured", "predicted", "tokens a step, counted", "predicted", "step ms",
            "predicted")  # fmt: skip
    lines = [table(head, rows, left=0).rstrip("\n"), "", *_plain(found)]
    least = min(int(point["draft_length"]) for point in found.points) + 1
    lines += [
        f"{rank}. **{_title(each, least)}.** {_support(each, found)}"
        for rank, each in enumerate(found.causes, 1)
    ]
    return lines


def _plain(found: Residual) -> list[str]:
    if found.plain_measured is None:
        return [
            "Plain decoding was not given in tokens per second: times in ms are those of the prediction.",
            "",
        ]
    text = (
        f"Plain decoding: measured {number(found.plain_measured)} tok/s, predicted "
        f"{number(found.plain_predicted)}"
    )
    if found.plain_low is not None and found.plain_high is not None:
        text += f" ({number(found.plain_low)} to {number(found.plain_high)})"
        if not found.plain_low <= found.plain_measured <= found.plain_high:
            text += ", outside its range: check device, runtime and quantisation first"
    if found.anchor is None:
        return [
            f"{text}. Floors alone take longer than the measured pass, so the prediction is not anchored.",
            "",
        ]
    return [
        f"{text}. Below, bandwidth and arithmetic are scaled by {number(found.anchor)} so that it agrees.",
        "",
    ]


def _title(each: Suspect, least: int) -> str:
    title = TITLES[each.cause]
    if each.from_width is not None and each.from_width > least:
        title += f", a cliff from width {each.from_width} on"
    return title[0].upper() + title[1:]


def _support(each: Suspect, found: Residual) -> str:
    if each.cause == COUNTER:
        return _counter(each)
    if each.cause == FAULT:
        return _fault(each, found)
    if each.needed is None:
        if each.low == each.high:
            return "It has no range in this case, so it cannot move."
        covers = f"; its range covers {each.covers:.0%} of the gap"
        return f"{IMPOSSIBLE.get(each.cause, 'No size of it is enough')}{covers}."
    width = (each.from_width or 0) if len(found.points) == 1 else found.at + 1
    shown = {name: "-" if value is None else number(value)
             for name, value in (("needed", each.needed), ("predicted", each.predicted))}  # fmt: skip
    text = SUBJECTS[each.cause].format(width=width, **shown)
    if each.cause == ACCEPTANCE and _counted(found):
        return (
            f"Counted {shown['needed']} tokens a step; predicted {shown['predicted']}{_range(each)}. That "
            f"closes {each.covers:.0%} of the gap."
        )
    if each.cause == HEAT:
        text += f" after {ms(found.busy_s)} of load"
    if len(found.points) > 1:
        text = text.replace("; predicted", f" at K = {found.at}; predicted")
    return f"{text}{_range(each)}. {_judgement(each)}"


def _counted(found: Residual) -> bool:
    return any(point["tokens_per_pass"] is not None for point in found.points)


def _range(each: Suspect) -> str:
    if each.low is None and each.high is None:
        return ""
    ends = " to ".join("any" if end is None else number(end) for end in (each.low, each.high))
    if each.cited:
        return f", cited {ends}"
    return f", no range cited, possible {ends}" if each.cause == ACCEPTANCE else ", no range cited"


def _judgement(each: Suspect) -> str:
    covers = f"{each.covers:.0%} of the gap"
    if not each.fits:
        return f"One size of it does not fit all draft lengths; its range covers {covers}."
    if each.allowed:
        return f"Inside its range; explains {covers}."
    if not each.cited:
        known = f"; it can explain {covers}" if each.cause == ACCEPTANCE else ""
        return f"Nothing cited speaks for or against it{known}."
    return f"Outside its range, which covers {covers}."


def _fault(each: Suspect, found: Residual) -> str:
    reached = (
        f"With every cited input at the end that helps, the prediction at K = {found.at} is "
        f"{times(each.predicted or 0.0)}; measured {times(each.needed or 0.0)}."
    )
    if (
        each.covers > 0.05
        and found.reach is not None
        and (found.reach > (each.needed or 0.0)) == _slower(found)
    ):
        return (
            f"{reached} {each.covers:.0%} of the time of a token stays unexplained by bytes, compute and "
            f"dispatch, {ms(_missing_s(each, found))} a step."
        )
    return f"{reached} But no cause fits the measurements within {STRETCH:g} times its cited range."


def _slower(found: Residual) -> bool:
    return float(_at(found)["gap"]) < 1.0


def _at(found: Residual) -> dict[str, Any]:
    return next(each for each in found.points if each["draft_length"] == found.at)


def _missing_s(each: Suspect, found: Residual) -> float:
    return each.covers * float(_at(found)["step_time_s"])


def _counter(each: Suspect) -> str:
    counted, speedup, most = each.predicted, each.needed or 0.0, each.high or 0.0
    if each.score is None:
        if counted is not None and not 1.0 <= counted <= most:
            return f"The counter says {number(counted)} tokens a step; 1 to {number(most)} can be."
        limit = f"at most {number(most)} can be" if counted is None else f"the counter says {number(counted)}"
        return (
            f"A speedup of {times(speedup)} needs {number(speedup)} tokens a step or more; {limit}. Look at "
            "how baseline and counter were taken."
        )
    return (
        f"The counter says {number(counted or 0.0)} tokens a step; the speed fits {number(speedup)}. Check "
        "whether it counts only steps that were accepted whole, tokens of a budget instead of those "
        "delivered, or the bonus token twice."
    )
