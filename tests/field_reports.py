"""Field reports of practitioners as scenarios, read and checked; it predicts and judges nothing.

A file ``tests/validation/field_reports/NR_SLUG.toml`` says what somebody measured and which checks apply. It
predicts with shipped profiles only: nothing is fitted to a report.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from simulator.acceptance import IidAcceptance, LengthAcceptance, PositionalAcceptance

FOLDER = Path(__file__).resolve().parent / "validation" / "field_reports"
RIGHT, INSIDE, MISSED, FLAGGED = "right", "inside interval", "missed", "fault flagged"
Verdict = Literal["right", "inside interval", "missed", "fault flagged"]


class Strict(BaseModel):
    """Nothing beyond the fields named."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Case(Strict):
    """One design that was measured.

    Attributes
    ----------
    name : str
        For checks and the page.
    device, runtime, target, drafter, draft_length, prompt_tokens, output_tokens, context
        As `predict` takes them; ``models/NAME`` is a file beside the reports.
    tokens_per_pass, tokens_low, tokens_high : float or None
        Mean tokens a verify pass at this draft length, and its range where it was not counted.
    acceptance_rate, rate_low, rate_high : float or None
        The same as an i.i.d. rate.
    positions : tuple of float
        Unconditional acceptance by draft position instead.
    counted_tokens : float or None
        What the report's own counter says, where it is not what the prediction takes.
    plain_tokens_per_s, tokens_per_s, speedup : float or None
        Measured: without and with speculation, or their ratio where only that is stated.
    """

    name: str
    device: str
    runtime: str | None = None
    target: str
    drafter: str
    draft_length: int = Field(ge=1)
    prompt_tokens: int = 512
    output_tokens: int = 256
    context: int | None = None
    tokens_per_pass: float | None = None
    tokens_low: float | None = None
    tokens_high: float | None = None
    acceptance_rate: float | None = None
    rate_low: float | None = None
    rate_high: float | None = None
    positions: tuple[float, ...] = Field(default=(), strict=False)
    counted_tokens: float | None = None
    plain_tokens_per_s: float | None = None
    tokens_per_s: float | None = None
    speedup: float | None = None

    @model_validator(mode="after")
    def _one_acceptance(self) -> Case:
        given = (self.tokens_per_pass is not None, self.acceptance_rate is not None, bool(self.positions))
        if sum(given) != 1:
            raise ValueError("give one of tokens_per_pass, acceptance_rate and positions")
        return self

    @property
    def measured(self) -> float | None:
        """Measured speedup."""
        if self.speedup is not None or self.tokens_per_s is None or self.plain_tokens_per_s is None:
            return self.speedup
        return self.tokens_per_s / self.plain_tokens_per_s

    @property
    def counted(self) -> float | None:
        """Tokens a pass as the report counts them; None where they are a range of ours."""
        if self.counted_tokens is not None:
            return self.counted_tokens
        if self.positions:
            return 1.0 + sum(self.positions)
        return self.tokens_per_pass if self.tokens_low is None else None

    def arguments(self) -> dict[str, Any]:
        """What `predict` and `explain` are asked."""
        acceptance: Any
        if self.positions:
            acceptance = PositionalAcceptance.from_unconditional(self.positions)
        elif self.tokens_per_pass is not None:
            acceptance = LengthAcceptance(
                length=self.tokens_per_pass, at_draft_length=self.draft_length, length_low=self.tokens_low,
                length_high=self.tokens_high,
            )  # fmt: skip
        else:
            acceptance = IidAcceptance(
                acceptance_rate=self.acceptance_rate, low=self.rate_low, high=self.rate_high
            )
        return {
            "device": self.device, "runtime": self.runtime, "target": _model(self.target),
            "drafter": _model(self.drafter), "draft_length": self.draft_length, "acceptance": acceptance,
            "prompt_tokens": self.prompt_tokens, "output_tokens": self.output_tokens,
            "axes": None if self.context is None else {"context": float(self.context)},
        }  # fmt: skip


class Check(Strict):
    """One thing that a prediction of the report must get right.

    Attributes
    ----------
    what : str
        ``sign``: above or below 1, case by case. ``optimum``: fastest of the cases. ``falls``: speedups in
        the order of the cases. ``cliff``: the second case's verify pass costs ``at_least`` times the first's.
        ``needs_rate``: no i.i.d. rate below ``at_least`` pays. ``ram``: fits the memory, or not. ``cause``:
        ``cause`` is the likeliest cause of the gap (a fault is flagged) or among the first three. ``below``:
        slower than plain decoding; the prediction is an upper bound. ``rate``: token/s below all that is
        predicted. ``prefill``: share of the prompt's speed that the drafter takes, ``at_least`` to
        ``at_most`` where nothing is wrong.
    cases : tuple of str
        Names; all where empty.
    at_least, at_most : float or None
        Thresholds.
    fits : bool or None
        For ``ram``.
    cause : str
        For ``cause``.
    """

    what: Literal[
        "sign", "optimum", "falls", "cliff", "needs_rate", "ram", "cause", "below", "rate", "prefill"
    ]  # fmt: skip
    cases: tuple[str, ...] = Field(default=(), strict=False)
    at_least: float | None = None
    at_most: float | None = None
    fits: bool | None = None
    cause: str = ""


class Report(Strict):
    """One field report.

    Attributes
    ----------
    nr : int
        Number in the list of reports.
    title, source, happened : str
        What it is about, its address, and what was reported, in our own words.
    assumed : str
        What the report does not say and the scenario takes instead.
    verdict : str
        What the checks give; the test compares.
    why : str
        Needed where a point misses: the reason.
    known : bool
        Whether a profile that is used knows the report, beyond those whose values cite it.
    case, check : tuple
        Designs and checks.
    """

    nr: int
    title: str
    source: str
    happened: str
    assumed: str
    verdict: Verdict
    why: str = ""
    known: bool = False
    case: tuple[Case, ...] = Field(strict=False, min_length=1)
    check: tuple[Check, ...] = Field(strict=False, min_length=1)

    @model_validator(mode="after")
    def _consistent(self) -> Report:
        names = [case.name for case in self.case]
        unknown = [name for check in self.check for name in check.cases if name not in names]
        if unknown or len(set(names)) < len(names):
            raise ValueError(f"check.cases: {unknown} given; allowed: different names, {names}")
        if self.verdict in (INSIDE, MISSED) and not self.why:
            raise ValueError("why: missing, and required for this verdict")
        return self


class Excluded(Strict):
    """A report that the model cannot express, and why."""

    nr: int
    title: str
    source: str
    why: str


def _model(name: str) -> str:
    """Path of a file beside the reports, or a shipped name as it is; ``@scheme`` stays."""
    if not name.startswith("models/"):
        return name
    plain, sign, scheme = name.partition("@")
    return f"{FOLDER / plain}.toml{sign}{scheme}"


def read_report(path: Path) -> Report:
    """Read and check one file."""
    return Report.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))


def read_reports() -> Mapping[str, Report]:
    """All scenario files by stem, in the order of their numbers."""
    found = {path.stem: read_report(path) for path in FOLDER.glob("[0-9]*.toml")}
    return dict(sorted(found.items(), key=lambda each: each[1].nr))


def read_excluded() -> tuple[Excluded, ...]:
    """Reports that are left out."""
    data = tomllib.loads((FOLDER / "left_out.toml").read_text(encoding="utf-8"))
    return tuple(Excluded.model_validate(each) for each in data["report"])
