"""Published acceptance of large models, by name (data/published.toml); it does not know unpublished lengths.

An entry holds unconditional rates by position, or mean acceptance lengths at one or more draft lengths.
Lengths are turned into conditional rates that are constant between the published draft lengths, so that
every published length is met exactly; between them the answer is derived, beyond the last one it is assumed
and must be asked for.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np

from simulator.acceptance.base import AcceptanceError, resolve_kind
from simulator.acceptance.iid import equivalent_rate
from simulator.acceptance.positional import PositionalAcceptance, conditional_from_unconditional
from simulator.errors import UnknownNameError


@dataclass(frozen=True, kw_only=True, eq=False)
class PublishedAcceptance(PositionalAcceptance):
    """One published set, see `load_published`.

    Attributes
    ----------
    name, drafter, drafter_family, task, task_class, note : str
        Entry; drafter as its publisher calls it; family and task class in our words; benchmark; caveats.
    published_draft_lengths : tuple of int
        K at which a number was printed.
    low, high : float or None
        Range of the mean acceptance length at the largest of them.
    """

    name: str
    drafter: str = ""
    drafter_family: str | None = None
    task: str = ""
    task_class: str = ""
    note: str = ""
    published_draft_lengths: tuple[int, ...] = field(default=())
    low: float | None = None
    high: float | None = None

    def kind_at(self, draft_length: int) -> str:
        """`kind` at a published K (and at 0), "derived" between them, "assumed" beyond the last."""
        if draft_length > len(self.conditional_rates):
            return "assumed"
        exact = draft_length == 0 or draft_length in self.published_draft_lengths
        return self.kind if exact or self.kind == "assumed" else "derived"

    def interval(
        self, draft_length: int, *, rng: np.random.Generator | None = None, task: str | None = None
    ) -> tuple[float, float] | None:
        """The published range, the accepted drafts scaled alike at other K; None where none is known."""
        if self.low is None or self.high is None:
            return None
        value = self.mean_acceptance_length(draft_length)
        extra = self.mean_acceptance_length(len(self.conditional_rates)) - 1
        low, high = (
            float(np.clip(1 + (value - 1) * (bound - 1) / extra, 1, draft_length + 1))
            for bound in (self.low, self.high)
        )
        return low, high


@lru_cache(maxsize=1)
def _entries() -> dict[str, dict[str, Any]]:
    text = (resources.files("simulator.acceptance") / "data" / "published.toml").read_text(encoding="utf-8")
    return {entry["name"]: entry for entry in tomllib.loads(text)["acceptance"]}


def list_published(target_id: str | None = None, *, task_class: str | None = None) -> list[str]:
    """Names of the published sets, of one target or nearest task class where given."""
    return sorted(
        name
        for name, entry in _entries().items()
        if target_id in (None, entry["target_id"]) and task_class in (None, entry.get("task_class", ""))
    )


def sets_of(name: str, *, target_id: str, drafter_family: str) -> list[str]:
    """Sets that a name stands for: itself, or those of a publication that hold for a target and drafter.

    All of them where none does.

    Parameters
    ----------
    name : str
        Name of a set, or key of its source; an unknown name raises UnknownNameError.
    target_id, drafter_family : str
        What acceptance is asked for.
    """
    if name in _entries():
        return [name]
    whole = [each for each, entry in _entries().items() if entry["source"] == name]
    if not whole:
        sources = {str(entry["source"]) for entry in _entries().values()}
        raise UnknownNameError("published acceptance", name, [*_entries(), *sources])
    asked = (target_id, drafter_family)
    return [
        each for each in whole if (_entries()[each]["target_id"], _entries()[each]["drafter_family"]) == asked
    ] or whole


def load_published(
    name: str,
    *,
    target_id: str | None = None,
    drafter_id: str | None = None,
    drafter_family: str | None = None,
    drafter: str | None = None,
    at_draft_length: int | None = None,
    extrapolate: bool = False,
    transfer: bool = False,
) -> PublishedAcceptance:
    """Published acceptance by name.

    Parameters
    ----------
    name : str
        One of `list_published`; an unknown name raises UnknownNameError with the nearest.
    target_id, drafter_id, drafter_family : str or None
        What it is asked for; another target or family than the published one raises TransferError, unless
        `transfer`.
    drafter : str or None
        What the publisher of the drafter asked for calls it. Another drafter of the family than the published
        one needs no `transfer`, but the kind is then "assumed".
    at_draft_length : int or None
        For entries whose publisher did not print K: the K to assume, within the entry's range.
    extrapolate : bool
        Answer beyond the largest published K with the last conditional rate ("assumed").
    transfer : bool
        Allow another target or drafter family; the kind is then "assumed".
    """
    if name not in _entries():
        raise UnknownNameError("published acceptance", name, _entries())
    entry = _entries()[name]
    where = f"published acceptance {name}"
    kind = resolve_kind(
        str(entry["kind"]),
        where=where,
        known=(entry["target_id"] or None, entry["drafter_family"] or None),
        asked=(target_id, drafter_family),
        transfer=transfer,
    )
    if drafter is not None and drafter != entry["drafter"]:
        kind = "assumed"
    if "per_position_acceptance_rate" in entry:
        conditional = conditional_from_unconditional(entry["per_position_acceptance_rate"], where=where)
        published: tuple[int, ...] = (len(conditional),)
    else:
        points = _points(entry, at_draft_length, where)
        conditional, published = _constant_between(points, where), tuple(k for k, _ in points)
    if at_draft_length is not None and "assumed_draft_lengths" not in entry:
        raise AcceptanceError(
            f"{where}: at_draft_length: given {at_draft_length}, but K was published: {published}."
        )
    return PublishedAcceptance(
        name=name,
        conditional_rates=conditional,
        published_draft_lengths=published,
        extrapolate=extrapolate,
        target_id=target_id or entry["target_id"] or None,
        drafter_id=drafter_id,
        drafter_family=drafter_family or entry["drafter_family"] or None,
        kind=kind,
        sources=(str(entry["source"]),),
        label=name,
        drafter=entry["drafter"],
        task=entry["task"],
        task_class=entry.get("task_class", ""),
        note=entry.get("note", ""),
        low=entry.get("low"),
        high=entry.get("high"),
    )


def _points(entry: dict[str, Any], at_draft_length: int | None, where: str) -> list[tuple[int, float]]:
    """(K, mean acceptance length), K rising; with an assumed K the caller's, within the entry's range."""
    points = [
        (int(point["draft_length"]), float(point["value"])) for point in entry["mean_acceptance_length"]
    ]
    if at_draft_length is None or "assumed_draft_lengths" not in entry:
        return points
    low, high = entry["assumed_draft_lengths"]
    if not low <= at_draft_length <= high:
        raise AcceptanceError(
            f"{where}: at_draft_length: given {at_draft_length}, allowed: {low}..{high} (assumed)."
        )
    return [(at_draft_length, points[0][1])]


def _constant_between(points: list[tuple[int, float]], where: str) -> tuple[float, ...]:
    """Conditional rates, constant between the given K, that meet every mean acceptance length exactly."""
    rates: list[float] = []
    reached, survival = 1.0, 1.0
    for k, length in points:
        positions = k - len(rates)
        one = (
            equivalent_rate(1 + (length - reached) / survival, positions, where=where)
            if survival > 0
            else 0.0
        )
        rates += [one] * positions
        reached, survival = length, survival * one**positions
    return tuple(rates)
