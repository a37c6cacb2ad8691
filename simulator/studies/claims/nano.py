"""Claims about the large model, on its public stand-in: speed, RAM and its split, prefill of the drafter.

The shape of the published head and of its standalone rival is not public: their files in
`simulator/drafters/data` say what is assumed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.acceptance.iid import LengthAcceptance
from simulator.acceptance.published import load_published
from simulator.analytic import predict
from simulator.drafters import build_drafter
from simulator.drafters.base import Part
from simulator.results import Result
from simulator.specs import load_target
from simulator.studies.claims.base import ARITHMETIC, PREDICTED, Claim, claim
from simulator.studies.claims.draws import DRAWS, SEED, drawn, ratio, spread
from simulator.studies.claims.traced import MOST_BETTER, SOURCE, SPEED

TARGET, HEAD, STANDALONE, OWN_KV = "gemma_3n_e2b", "frozen_mtp_nano", "standalone_128m", "mtp_own_kv_nano"
PUBLISHED_SET = "gemini_nano_v3_proofread"
DRAFT_LENGTH = 3
REQUEST: dict[str, Any] = {"prompt_tokens": 1024, "output_tokens": 256}
STAND_IN = "Gemma 3n E2B stands for Gemini Nano v3"
JUDGEMENT = "draftscope_judgement"
RAM = "About 130 MB of RAM less for each instance than a standalone drafter"
PREFILL = "No prefill of the drafter, so no delay of the first token"


def speed(device: str, runtime: str | None) -> Iterator[Claim]:
    """Claim 1 on the stand-in, for two readings of the unknown acceptance of the standalone drafter."""
    published = load_published(PUBLISHED_SET, target_id=TARGET, drafter_family="frozen_mtp", transfer=True)
    length = published.mean_acceptance_length(DRAFT_LENGTH)
    head = drawn(
        device=device, runtime=runtime, target=TARGET, drafter=HEAD, acceptance=published,
        draft_length=DRAFT_LENGTH, **REQUEST,
    )  # fmt: skip
    for better in (0.0, MOST_BETTER):
        other_length = 1 + (length - 1) / (1 + better)
        other = drawn(
            device=device, runtime=runtime, target=TARGET, drafter=STANDALONE, draft_length=DRAFT_LENGTH,
            acceptance=LengthAcceptance(length=other_length, at_draft_length=DRAFT_LENGTH), **REQUEST,
        )  # fmt: skip
        value, low, high = ratio(head, other, "decode_tokens_per_s")
        why = (
            "Equal acceptance: the gain is that of cheaper draft passes alone, and too small by itself."
            if better == 0
            else "The published gain needs the better acceptance as well as the cheaper draft passes."
        )
        yield claim(
            id=f"1.nano.{round(100 * better)}", claim=SPEED,
            case=f"{device}, {TARGET}: {HEAD} against {STANDALONE}, K = {DRAFT_LENGTH}, "
                 + (f"acceptance {100 * better:.0f} % better, the published maximum" if better else
                    "equal acceptance"),
            published="50 % or more, by task", wanted_low=1.5, no_effect=1.0, value=value, low=low,
            high=high, unit="x", how=PREDICTED,
            assumptions=f"{STAND_IN}; {length:.2f} tokens a step with the head as published, "
                        f"{other_length:.2f} with the standalone drafter; shapes of both drafters assumed",
            explanation=why, sources=SOURCE,
        )  # fmt: skip


def memory() -> Iterator[Claim]:
    """Claim 2: RAM of the two drafters part by part, on any device."""
    head, other = _ram(HEAD), _ram(STANDALONE)
    head_parts, other_parts = _ranged(HEAD), _ranged(STANDALONE)
    rng = np.random.default_rng(SEED)
    total, low, high = spread(
        sum(other.values()) - sum(head.values()),
        sum(other.values())
        + _deviations(other_parts, rng)
        - sum(head.values())
        - _deviations(head_parts, rng),
    )
    yield claim(
        id="2.total", claim=RAM, case=f"{TARGET}: {STANDALONE} less {HEAD}, {_context()} tokens of context",
        published="about 130 MB", wanted_low=120.0, wanted_high=140.0, no_effect=0.0, value=total,
        low=low, high=high, unit="MB", how=ARITHMETIC,
        assumptions="int8 weights at the value; the interval is the middle 90 % of independent draws of the "
                    "parts from their ranges. Shape and precision of both drafters, prefill variants and "
                    "per-application parameters are not published, so the agreement of the sum is no proof",
        explanation=f"{sum(other.values()):.0f} MB against {sum(head.values()):.0f} MB; the table of a "
                    "vocabulary of 262,144 is the largest part.",
        sources=(*SOURCE, JUDGEMENT),
    )  # fmt: skip
    for part in dict.fromkeys([*other, *head]):
        value = other.get(part, 0.0) - head.get(part, 0.0)
        if abs(value) < 0.05:
            continue
        theirs, ours = ([parts[part]] if part in parts else [] for parts in (other_parts, head_parts))
        ranged = [(STANDALONE, each) for each in theirs] + [(HEAD, each) for each in ours]
        yield claim(
            id=f"2.{part}", claim=RAM, case=f"{part}: {STANDALONE} {other.get(part, 0.0):.1f} MB, {HEAD} "
                                            f"{head.get(part, 0.0):.1f} MB",
            published="the split is not published", value=value,
            low=value - _down(*theirs) - _up(*ours) if ranged else None,
            high=value + _up(*theirs) + _down(*ours) if ranged else None,
            unit="MB", how=ARITHMETIC,
            assumptions="; ".join(f"{name}: {each.note.rstrip('.')}" for name, each in ranged)
                        or "dimensions of both drafters",
            sources=(*SOURCE, JUDGEMENT) if ranged else SOURCE,
        )  # fmt: skip


def prefill(device: str, runtime: str | None) -> Iterator[Claim]:
    """Claim 5: what a drafter adds to the time to first token."""
    plain = _first_token(device, runtime, "none", 0)
    for drafter, label in (
        (HEAD, "frozen head"),
        (OWN_KV, "MTP with its own KV"),
        (STANDALONE, "standalone"),
    ):
        one = _first_token(device, runtime, drafter, DRAFT_LENGTH)
        added = 1e3 * (one["ttft_s"] - plain["ttft_s"])
        low, high = (1e3 * (one.intervals["ttft_s"][i] - plain.intervals["ttft_s"][i]) for i in (0, 1))
        frozen = drafter == HEAD
        yield claim(
            id=f"5.{drafter}", claim=PREFILL,
            case=f"{device}, {TARGET}, prompt of {REQUEST['prompt_tokens']} tokens: what the {label} adds to "
                 f"{1e3 * plain['ttft_s']:.0f} ms to the first token",
            published="none" if frozen else "a standalone drafter needs one, no number published",
            wanted_low=0.0 if frozen else None, wanted_high=0.0 if frozen else None,
            value=added, low=low, high=high, unit="ms", how=ARITHMETIC if frozen else PREDICTED,
            assumptions=STAND_IN + ("" if frozen else "; prefill at the runtime's share of peak arithmetic"),
            explanation="It reads the target's cache in place; it has no cache to fill." if frozen else
                        f"{100 * added / (1e3 * plain['ttft_s']):.1f} % of the target's own prefill: real, "
                        "and small beside it.",
            sources=SOURCE,
        )  # fmt: skip


def _ram(drafter: str) -> dict[str, float]:
    """The drafter's parts of the RAM ledger [MB]."""
    result = predict(
        device="pixel_9", target=TARGET, drafter=drafter, draft_length=DRAFT_LENGTH, acceptance=0.0,
        intervals=False, **REQUEST,
    )  # fmt: skip
    return {
        part.removeprefix("drafter_"): value / 1e6
        for part, value in result.ram_ledger.items()
        if part.startswith("drafter_")
    }


def _ranged(drafter: str) -> dict[str, Part]:
    """The drafter's parts whose size is known within a range only, by name."""
    parts = build_drafter(drafter, load_target(TARGET)).parts
    return {part.name: part for part in parts if part.resident_low_bytes is not None}


def _down(*parts: Part) -> float:
    """How far the parts may be smaller [MB]."""
    return sum(part.resident_bytes - (part.resident_low_bytes or 0.0) for part in parts) / 1e6


def _up(*parts: Part) -> float:
    """How far the parts may be larger [MB]."""
    return sum((part.resident_high_bytes or 0.0) - part.resident_bytes for part in parts) / 1e6


def _deviations(parts: dict[str, Part], rng: np.random.Generator) -> NDArray[np.float64]:
    """How far the sum of the parts lies from its value in each draw [MB], (draws,)."""
    total = np.zeros(DRAWS)
    for part in parts.values():
        total += np.interp(rng.random(DRAWS), [0.0, 0.5, 1.0], [-_down(part), 0.0, _up(part)])
    return total


def _first_token(device: str, runtime: str | None, drafter: str, length: int) -> Result:
    return predict(
        device=device, runtime=runtime, target=TARGET, drafter=drafter, draft_length=length,
        acceptance=0.0 if length else None, **REQUEST,
    )  # fmt: skip


def _context() -> int:
    return int(REQUEST["prompt_tokens"] + REQUEST["output_tokens"])
