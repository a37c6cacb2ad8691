"""An explanation in words and tables; every number comes from `simulator.studies.explain`."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.cli.explain_gap import gap_lines, gap_sentence
from simulator.cli.explain_words import many, ms, number, times
from simulator.cli.output import table as padded
from simulator.studies.explain import EITHER, LOSES, PAYS, Explanation
from simulator.studies.explain_case import ACCEPTANCE, Sensitivity
from simulator.studies.explain_parts import DRAFT, HOST, LABELS, PLAIN, VERIFY

INPUTS = {
    "verify_curve": ("kernel cost of {width} rows / 1 row", "x", 1.0,
                     "Time one pass of the target at 1 to {width} rows on a warm cache."),
    "mbu_small": ("bandwidth reached on small matrices / peak", "", 1.0,
                  "Time the drafter alone, many passes in a row, and divide its bytes by a pass."),
    "mbu_large": ("bandwidth reached on large matrices / peak", "", 1.0,
                  "Time plain decoding at a short context, and divide the target's bytes by a pass."),
    "mbu_kv": ("bandwidth reached on KV and gathered rows / peak", "", 1.0,
               "Time plain decoding at a short and at a long context."),
    "floor_per_pass_s": ("floor of a target pass", "ms", 1e3,
                         "Time plain decoding of two targets of different size, and go to no bytes."),
    "floor_per_draft_pass_s": ("floor of a draft pass", "ms", 1e3,
                               "Time one draft pass, and take the time of its bytes away."),
    "floor_per_step_s": ("floor of a step", "ms", 1e3,
                         "Time a step, and take its draft passes and its verify pass away."),
    "host_per_row_s": ("host time of a row", "ms", 1e3,
                       "Time the choice of a token on the host."),
    "host_s_per_step": ("search of the drafter", "ms", 1e3, "Time the drafter's search on the host."),
    "peak_bandwidth_bytes_per_s": ("peak bandwidth", "GB/s", 1e-9, "Look it up, then copy a large buffer."),
    "macs_per_s": ("arithmetic rate", "TMAC/s", 1e-12, "Time prefill of a long prompt."),
    ACCEPTANCE: ("tokens a step", "", 1.0, "Count accepted drafts on your own prompts."),
}  # fmt: skip
"""Input -> words, unit, factor on the SI value, how to measure it."""


def markdown(found: Explanation) -> str:
    """The whole explanation: verdict first.

    Parameters
    ----------
    found : Explanation
        What to print.
    """
    inputs = found.result.inputs
    lines = [
        f"# {found.drafter.label} on {found.device.name}",
        "",
        verdict(found),
        "",
        f"Case: {inputs['target']}, {inputs['runtime']}, K = {inputs['draft_length']}, acceptance "
        f"{inputs['acceptance']}, prompt {inputs['prompt_tokens']:.0f}, response "
        f"{inputs['output_tokens']:.0f} tokens.",
        "",
    ]
    if found.residual is not None:
        lines += ["## Measured", "", *gap_lines(found.residual), ""]
    lines += ["## Where a step goes", "", *_time_lines(found), ""]
    lines += ["## What it reads", "", *_byte_lines(found), ""]
    lines += ["## What it takes to pay", "", *_break_even_lines(found), ""]
    lines += ["## Best draft length", "", *_curve_lines(found), ""]
    lines += ["## What the answer hangs on", "", *_sensitivity_lines(found), ""]
    result = found.result
    lines += [f"Confidence: {result.confidence}. Sources: {', '.join(result.references) or 'none'}.", ""]
    lines += [f"- {note}" for note in result.notes]
    return "\n".join(lines).rstrip() + "\n"


def verdict(found: Explanation) -> str:
    """The answer in one paragraph: how fast, how sure, and why."""
    result = found.result
    speedup = float(result["speedup"])
    low, high = result.intervals.get("speedup", (None, None))
    span = "" if low is None or high is None else f" ({times(low)} to {times(high)})"
    rates = (
        f"{number(result['decode_tokens_per_s'])} instead of "
        f"{number(result['baseline_decode_tokens_per_s'])} tok/s"
    )
    cost, emitted = float(result["break_even_acceptance_length"]), float(result["tokens_per_step"])
    name = f"On {found.device.name}, {found.drafter.label}"
    opening = {
        PAYS: f"{name} decodes {times(speedup)}{span} as fast as plain decoding: {rates}.",
        LOSES: f"{name} makes decoding slower, {times(speedup)}{span} of plain decoding: {rates}.",
        EITHER: f"{name} could go either way: {times(speedup)}{span} of plain decoding, {rates}.",
    }[found.stance]
    relation = "only " if cost > emitted else ""
    return (
        f"{opening} A step costs {number(cost)} plain passes and emits {relation}{number(emitted)} tokens. "
        f"{_because(found)}" + ("" if found.residual is None else f" {gap_sentence(found.residual)}")
    )


def _because(found: Explanation) -> str:
    """What the step costs beyond a plain pass, the largest item first."""
    result = found.result
    plain = _plain_s(found)
    extra = sum(part.seconds for part in found.time if part.part.startswith("extra_"))
    length = int(result.inputs["draft_length"])
    items = [
        (float(result["draft_time_s"]), _passes(found, length)),
        (extra, many(length, "extra row") + " of the verify pass"),
        (float(result["host_time_s"]), "the host between passes"),
    ]
    items = sorted((item for item in items if abs(item[0]) > 0.005 * plain), key=lambda item: -item[0])
    if not items:
        return "Beyond a plain pass it costs next to nothing."
    named = ", ".join(f"{what} {ms(seconds)} ({seconds / plain:.2f})" for seconds, what in items)
    return f"Beyond one plain pass of {ms(plain)}: {named}."


def _passes(found: Explanation, length: int) -> str:
    return "one draft pass" if length == 1 else f"{length} drafts"


def _plain_s(found: Explanation) -> float:
    return sum(part.seconds for part in found.time if part.phase == PLAIN)


def _time_lines(found: Explanation) -> list[str]:
    phases = (DRAFT, VERIFY, HOST, PLAIN)
    cells = {(part.phase, part.part): part.seconds for part in found.time}
    rows = [
        (label, *("" if (phase, part) not in cells else number(cells[phase, part] * 1e3) for phase in phases))
        for part, label in LABELS.items()
        if any((phase, part) in cells for phase in phases)
    ]
    sums = [sum(seconds for (each, _), seconds in cells.items() if each == phase) for phase in phases]
    rows.append(("together", *(number(total * 1e3) for total in sums)))
    step = sum(sums[:3])
    shares = ", ".join(
        f"{name} {share / step:.0%}"
        for name, share in zip(("draft", "verify", "host"), sums[:3], strict=True)
    )
    return [
        *table(("ms a step", "draft", "verify", "host", "plain pass"), rows),
        "",
        f"A step takes {ms(step)}: {shares}.",
    ]


def _byte_lines(found: Explanation) -> list[str]:
    least = 1e-3 * sum(row.plain for row in found.bytes)
    large = [row for row in found.bytes if max(row.draft, row.verify, row.plain) >= least]
    cells: list[tuple[str, ...]] = [
        (row.part.replace("_", " "), _mb(row.draft), _mb(row.verify), _mb(row.plain)) for row in large
    ]
    small = [row for row in found.bytes if row not in large]
    if small:
        names = ("draft", "verify", "plain")
        cells.append(("other", *(_mb(sum(getattr(row, name) for row in small)) for name in names)))
    totals = [sum(getattr(row, name) for row in found.bytes) for name in ("draft", "verify", "plain")]
    cells.append(("together", *(_mb(total) for total in totals)))
    seconds = [sum(part.seconds for part in found.time if part.phase == phase)
               for phase in (DRAFT, VERIFY, PLAIN)]  # fmt: skip
    peak = found.peak_bandwidth_bytes_per_s
    reached = [
        f"{name} {number(moved / taken / 1e9)} GB/s ({moved / taken / peak:.0%})"
        for name, moved, taken in zip(("draft", "verify", "plain"), totals, seconds, strict=True)
        if moved and taken
    ]
    emitted = found.break_even.tokens_per_step
    return [
        *table(("MB a step", "draft", "verify", "plain pass"), cells),
        "",
        f"A token costs {_mb((totals[0] + totals[1]) / emitted)} MB with the drafter and {_mb(totals[2])} MB "
        f"without. Reached of the {number(peak / 1e9)} GB/s peak, floors included: {', '.join(reached)}.",
    ]


def _mb(value: float) -> str:
    return "" if value == 0 else number(value / 1e6)


def _break_even_lines(found: Explanation) -> list[str]:
    even, length = found.break_even, int(found.result.inputs["draft_length"])
    lead = even.tokens_per_step / even.step_cost - 1.0
    first = (
        f"A step of {many(length, 'draft')} must emit {number(even.step_cost)} tokens to break even; it "
        f"emits {number(even.tokens_per_step)}, {abs(lead):.0%} {'more' if lead >= 0 else 'less'}."
    )
    if even.acceptance_rate is None:
        return [f"{first} No acceptance is enough: all {length} accepted would still be a loss."]
    if even.acceptance_rate == 0:
        return [f"{first} It would pay without a single accepted draft."]
    return [
        f"{first} Break-even is an acceptance of {even.acceptance_rate:.2f} a draft (independent drafts); "
        f"this case is worth {even.equivalent_rate:.2f}."
    ]


def _curve_lines(found: Explanation) -> list[str]:
    best = found.best
    rows = []
    for point in found.curve:
        span = "" if point.low is None or point.high is None else f" [{point.low:.2f}..{point.high:.2f}]"
        rows.append((
            str(point.draft_length), f"{point.mean_acceptance_length:.2f}", number(point.step_time_s * 1e3),
            number(point.draft_time_s * 1e3), number(point.verify_time_s * 1e3),
            number(point.host_time_s * 1e3), f"{point.speedup:.2f}{span}",
        ))  # fmt: skip
    if best.draft_length == 0:
        text = "Do not speculate: plain decoding is fastest at the values of the inputs."
    else:
        text = f"Draft {best.draft_length}."
    span = f"K = {best.low}" if best.low == best.high else f"K = {best.low} to {best.high}"
    text += (
        f" Over the ranges of the inputs the best is {span} (0 is plain decoding); in {best.pays:.0%} of the "
        "draws some draft length pays."
    )
    head = ("K", "tokens a step", "step ms", "draft ms", "verify ms", "host ms", "speedup")
    return [text, "", *table(head, rows, left=0)]


def _sensitivity_lines(found: Explanation) -> list[str]:
    width = int(found.result.inputs["draft_length"]) + 1
    if not found.sensitivity:
        return ["No input of this case has a range: give the measured ones a low and a high."]
    rows = []
    for each in found.sensitivity:
        name, unit, factor, _ = _input(each, width)
        rows.append((
            f"{name} [{unit}]" if unit else name, number(each.low * factor), number(each.value * factor),
            number(each.high * factor), f"{each.speedup_low:.2f}", f"{each.speedup_high:.2f}", each.kind,
        ))  # fmt: skip
    first = found.sensitivity[0]
    name, _, _, how = _input(first, width)
    head = ("input, moved alone", "low", "value", "high", "speedup at low", "at high", "kind")
    lines = [
        f"Measure this first: {name}. It moves the speedup between "
        f"{times(min(first.speedup_low, first.speedup_high))} and "
        f"{times(max(first.speedup_low, first.speedup_high))}. {how}",
        "",
        *table(head, rows),
    ]
    if found.acceptance_range is None:
        worth = found.break_even.step_cost
        lines += [
            "",
            "The acceptance was given as one number, without a range: 0.1 tokens a step more or less move "
            f"the speedup by {number(0.1 / worth)}.",
        ]
    return lines


def _input(each: Sensitivity, width: int) -> tuple[str, str, float, str]:
    """Words, unit, factor and advice for an input; of one without an entry its own name."""
    plain = each.input.removeprefix("draft_")
    words = INPUTS.get(each.input) or INPUTS.get(plain) or (each.input, "SI", 1.0, "Measure it.")
    name, unit, factor, how = words
    side = "drafter's " if each.input.startswith("draft_") and each.input not in INPUTS else ""
    return side + name.format(width=width), unit, factor, how.format(width=width)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> list[str]:
    """Lines of a table."""
    return padded(head, rows, left=left).splitlines()
