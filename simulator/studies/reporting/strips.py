"""Token strips: what each drafter proposed for one response of each task; it does not know any cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from simulator.acceptance.replay import replay
from simulator.acceptance.schema import Trace
from simulator.acceptance.trace import Responses

Record = dict[str, Any]
TOKENS = 48
PROMPT_CHARACTERS = 600


def strip_records(
    traces: Sequence[Trace],
    responses: Responses,
    *,
    tasks: Iterable[str],
    draft_length: int = 4,
    max_overlap: float | None = 0.2,
    tokens: int = TOKENS,
    texts: Mapping[int, str] | None = None,
) -> list[Record]:
    """One typical response of each task under every drafter.

    Parameters
    ----------
    traces : sequence of Trace
        Traces of one target, the drafter that the response should be typical of first.
    responses : Responses
        The texts behind them.
    tasks : iterable of str
        Task classes.
    draft_length : int
        Drafts per step.
    max_overlap : float or None
        Leave out responses that share more of their 8-grams with training responses.
    tokens : int
        Show this many tokens of a response.
    texts : mapping of int to str, optional
        Texts of tokens that stand in no response, for rejected drafts.

    Returns
    -------
    list of dict
        As `simulator.figures.strip.token_strip` wants them; a rejected draft whose text is not known is its
        token id.
    """
    known = {**(texts or {}), **_texts(responses)}
    kept = [trace.filtered(max_overlap=max_overlap) for trace in traces]
    records = []
    for task in tasks:
        name = _typical(kept[0], task, draft_length, tokens) if kept else None
        if name is None or name not in responses.request_ids:
            continue
        at = responses.request_ids.index(name)
        records.append({
            "task": task, "request_id": name, "prompt": _shortened(responses.prompts[at]),
            "draft_length": draft_length,
            "drafters": [
                _drafter(trace, name, responses.token_texts[at], known, min(draft_length,
                         trace.metadata.max_depth), tokens)
                for trace in kept if name in trace.request_ids
            ],
        })  # fmt: skip
    return records


def _typical(trace: Trace, task: str, draft_length: int, tokens: int) -> str | None:
    """Request whose tokens per step are the median of those of its task; long enough ones first."""
    chosen = [i for i, name in enumerate(trace.request_tasks) if name == task and trace.lengths[i] > 1]
    long = [i for i in chosen if trace.lengths[i] >= min(tokens, 24)] or chosen
    if not long:
        return None
    part = replay(trace.take(np.array(long)), min(draft_length, trace.metadata.max_depth))
    emitted = np.bincount(part.request, weights=part.emitted, minlength=len(long))
    steps = np.bincount(part.request, minlength=len(long))
    order = np.argsort(emitted / np.maximum(steps, 1), kind="stable")
    return trace.request_ids[long[int(order[(len(order) - 1) // 2])]]


def _drafter(
    trace: Trace, name: str, texts: Sequence[str], known: dict[int, str], draft_length: int, tokens: int
) -> Record:
    one = trace.take(np.array([trace.request_ids.index(name)]))
    table = replay(one, draft_length)
    steps: list[Record] = [{"accepted": [], "bonus": texts[0], "rejected": []}]  # the first is from prefill
    shown = 1
    for at, accepted, proposed, emitted in zip(
        table.position, table.accepted, table.proposed, table.emitted, strict=True
    ):
        if shown >= tokens:
            break
        drafts = one["draft_token"][at, accepted:proposed]
        wide = emitted > accepted
        steps.append({
            "accepted": list(texts[at + 1 : at + 1 + accepted]),
            "bonus": texts[at + accepted + 1] if wide else None,
            "rejected": [known.get(int(token), int(token)) for token in drafts] if wide else [],
        })  # fmt: skip
        shown += int(emitted)
    total, right = int(table.proposed.sum()), int(table.accepted.sum())
    decoded = int(table.emitted.sum())
    return {
        "drafter": trace.metadata.drafter_id,
        "steps": steps,
        "cut": shown < len(texts),
        "summary": f"{decoded} tokens in {len(table)} steps, {decoded / max(len(table), 1):.2f} tokens per "
        f"step; {right} of {total} drafts accepted.",
    }


def _texts(responses: Responses) -> dict[int, str]:
    """Token -> text, as far as the responses use it: rejected drafts are mostly common tokens."""
    known: dict[int, str] = {}
    for tokens, texts in zip(responses.tokens, responses.token_texts, strict=True):
        known.update(zip((int(token) for token in tokens), texts, strict=True))
    return known


def _shortened(text: str) -> str:
    return text if len(text) <= PROMPT_CHARACTERS else text[: PROMPT_CHARACTERS - 1].rstrip() + "…"
