"""What `draftscope validate` says of all rows together: aggregates by mode, and naive rules beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.studies.validation.modes import GROUP_ROWS, Verdict
from simulator.studies.validation.scores import Scored, Summary, by, rules, summarise
from simulator.studies.validation.table import Measured

Vector = NDArray[np.float64]

SPLITS = ("source", "device_class", "family", "drafter")


def report(rows: Sequence[Measured], verdicts: Sequence[Verdict], mode: str) -> dict[str, Any]:
    """Summary of one run.

    Parameters
    ----------
    rows : sequence of Measured
        The table.
    verdicts : sequence of Verdict
        Of the same rows, in the same order.
    mode : str
        One of `MODES`.

    Returns
    -------
    dict
        ``n`` and the aggregates of the judged rows; ``judged`` says which these are; ``subsets``, ``by`` and
        ``rules`` hold the same for parts of them; ``status`` counts all rows; ``scored_share`` is the share
        of rows with a usable answer that are scored.
    """
    pairs = [(row, each) for row, each in zip(rows, verdicts, strict=True) if each.status == "scored"]
    stated = [(row, each) for row, each in pairs if row.mean_tokens_per_pass and row.draft_length]
    subsets: dict[str, list[Scored]] = {}
    if mode == "calibrated":
        judged_text = (
            f"groups of {GROUP_ROWS} rows or more, tokens per pass and draft length stated (step cost is "
            "known)"
        )
        judged = _grouped(stated)
        subsets["all groups of three or more"] = _grouped(pairs)
        subsets["all scored rows"] = [each.scored for _, each in pairs]
    else:
        judged_text = "all scored rows"
        judged = [each.scored for _, each in pairs]
        subsets["tokens per pass and draft length stated"] = [each.scored for _, each in stated]
        subsets["the same, clean pairs (A) only"] = [
            each.scored for row, each in stated if row.clean_pair == "A"
        ]
        phones = [each.scored for row, each in pairs if row.device_class.startswith("phone")]
        subsets["phones and tablets"] = phones
    usable = [each for each in verdicts if each.status == "scored" or _unusable(each)]
    found: dict[str, Any] = {
        "judged": judged_text,
        **_record(summarise(judged)),
        "status": dict(Counter(each.status for each in verdicts)),
        "scored_share": round(len(pairs) / len(usable), 4) if usable else None,
        "subsets": {name: _record(summarise(some)) for name, some in subsets.items() if some},
        "by": {split: {name: _record(s) for name, s in by(judged, split).items()} for split in SPLITS},
        "rules": rules(judged),
    }
    if mode == "calibrated":
        found["rules"]["straight line of the step cost in K, from the other rows"] = _line(stated)
    return found


def _unusable(verdict: Verdict) -> bool:
    """Rows with an answer that may be judged and still is not."""
    return verdict.status == "skipped" and not verdict.reason.startswith("clean_pair C")


def _grouped(pairs: Sequence[tuple[Measured, Verdict]]) -> list[Scored]:
    counts = Counter(row.group for row, _ in pairs)
    return [each.scored for row, each in pairs if counts[row.group] >= GROUP_ROWS]


def _record(summary: Summary | None) -> dict[str, Any]:
    return {"n": 0} if summary is None else summary.record()


def _line(pairs: Sequence[tuple[Measured, Verdict]]) -> dict[str, float]:
    """Least-squares line of tokens / speedup over K, leaving the row itself out."""
    groups: dict[tuple[str, ...], list[tuple[Measured, Verdict]]] = {}
    for row, each in pairs:
        groups.setdefault(row.group, []).append((row, each))
    scored: list[Scored] = []
    for members in groups.values():
        if len(members) < GROUP_ROWS:
            continue
        length = np.array([row.draft_length for row, _ in members], dtype=float)
        cost = np.array([each.tokens_per_pass / (row.speedup or np.nan) for row, each in members])
        for i, (_, each) in enumerate(members):
            others = np.arange(len(members)) != i
            terms = np.stack([np.ones(others.sum()), length[others]], axis=1)
            level, slope = np.linalg.lstsq(terms, cost[others], rcond=None)[0]
            value = each.tokens_per_pass / (level + slope * length[i])
            fields = {**each.scored.__dict__, "predicted": float(value), "low": 0.0, "high": 0.0}
            scored.append(Scored(**fields))
    summary = summarise(scored)
    if summary is None:
        return {}
    keep = ("median_absolute_error", "mean_absolute_error", "mean_capped_error", "sign_accuracy")
    return {name: round(getattr(summary, name), 4) for name in keep}
