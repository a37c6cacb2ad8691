"""Is anything lost? The comparisons behind ``parity.py``, for one request each.

Replay of a trace beside the live loop, speculation beside plain decoding in one shape and at natural widths,
our logits beside those of transformers. It does not know how many are run or where the results go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .backbone import Backbone
from .collect import Collected
from .decode import decode
from .fetch import target_path
from .gguf_target import Target
from .live import NamedDrafter, live_drafter
from .responses import Request

#: Below this logit gap another order of rounding may choose another token.
NEAR_TIE = 1e-4

Record = dict[str, Any]


def walk(trace: Collected, first: int, length: int, draft_length: int) -> list[tuple[int, int, int, int]]:
    """Replay of one request of a trace: ``(position, proposed, accepted, emitted)`` of each step.

    Parameters
    ----------
    trace : Collected
    first, length : int
        First row and number of rows of the request.
    """
    rows = slice(first, first + length)
    text = trace.columns["token"][rows].tolist()
    drafts = trace.columns["draft_token"][rows].tolist()
    proposed = trace.columns["proposed"][rows].tolist()
    steps, t = [], 0
    while t < length - 1:
        offered = min(draft_length, proposed[t])
        accepted = 0
        while accepted < min(offered, length - 1 - t) and drafts[t][accepted] == text[t + 1 + accepted]:
            accepted += 1
        emitted = min(accepted + 1, length - 1 - t)
        steps.append((t, offered, accepted, emitted))
        t += emitted
    return steps


def replay_record(
    backbone: Backbone, named: NamedDrafter, request: Request, trace: Collected, first: int, draft_length: int
) -> Record:
    """Live decoding of one request beside the replay of its trace.

    Returns
    -------
    dict
        ``steps``; ``draft_near_ties`` and ``draft_mismatches`` (drafts that differ, by whether the drafter's
        gap explains it); ``steps_equal`` (the sequence of steps is that of the replay); ``text_equal``, and
        where not ``text_gap``, the target's gap at the first other token; ``unexplained``: other steps
        without a near tie.
    """
    length = len(request.response)
    live = decode(
        backbone,
        request.prompt_tokens,
        live_drafter(named, backbone),
        draft_length=draft_length,
        max_new_tokens=length,
    )
    same = _common(live.tokens, request.response)
    drafts, gaps = trace.columns["draft_token"], trace.gap
    near = wrong = 0
    for step in live.steps:
        row = first + step.position
        if step.position >= same:
            break
        offered = min(draft_length, int(trace.columns["proposed"][row]))
        kept = drafts[row, :offered].tolist()
        if list(step.drafts) != kept:
            depth = _common(step.drafts, kept)
            explained = depth < min(len(kept), len(step.drafts)) and gaps[row, depth] < NEAR_TIE
            near, wrong = near + explained, wrong + (not explained)
    steps = [(s.position, s.proposed, s.accepted, s.emitted) for s in live.steps]
    equal = same == length
    same_steps = steps == walk(trace, first, length, draft_length)
    return {
        "steps": len(steps),
        "draft_near_ties": near,
        "draft_mismatches": wrong,
        "steps_equal": same_steps,
        "unexplained": not same_steps
        and not near
        and (equal or trace.target_gap[first + same - 1] >= NEAR_TIE),
        "text_equal": equal,
        "text_gap": None if equal else float(trace.target_gap[first + same - 1]),
    }


def locked_record(
    backbone: Backbone,
    drafters: Sequence[NamedDrafter],
    prompt: Sequence[int],
    *,
    draft_length: int,
    max_new_tokens: int,
    width: int,
    capacity: int,
) -> Record:
    """Plain and speculative decoding in one shape: tokens and logits must be equal bit for bit.

    Returns
    -------
    dict
        ``tokens``, and ``equal``: drafter id -> whether tokens and logits are the same.
    """

    def run(drafter: NamedDrafter | None) -> tuple[list[int], torch.Tensor]:
        live = None if drafter is None else live_drafter(drafter, backbone)
        made = decode(
            backbone,
            prompt,
            live,
            draft_length=draft_length,
            max_new_tokens=max_new_tokens,
            locked_width=width,
            capacity=capacity,
            keep_logits=True,
        )
        return made.tokens, torch.stack(made.logits)

    tokens, logits = run(None)
    equal = {}
    for drafter in drafters:
        other_tokens, other_logits = run(drafter)
        equal[drafter.id] = other_tokens == tokens and torch.equal(other_logits, logits)
    return {"tokens": len(tokens), "draft_length": draft_length, "equal": equal}


def natural_record(
    backbone: Backbone,
    drafters: Sequence[NamedDrafter],
    prompt: Sequence[int],
    *,
    draft_length: int,
    max_new_tokens: int,
) -> Record:
    """Plain and speculative decoding at their natural widths.

    Returns
    -------
    dict
        ``tokens``, and ``divergences``: drafter id -> ``[position, gap]`` of the first other token, where
        ``gap`` is the target's logit gap there.
    """
    plain = decode(backbone, prompt, max_new_tokens=max_new_tokens).tokens
    found = {}
    for drafter in drafters:
        live = live_drafter(drafter, backbone)
        made = decode(backbone, prompt, live, draft_length=draft_length, max_new_tokens=max_new_tokens).tokens
        if made != plain:
            at = _common(made, plain)
            found[drafter.id] = [at, next_token_gap(backbone, [*prompt, *plain[:at]])]
    return {"tokens": len(plain), "draft_length": draft_length, "divergences": found}


@torch.inference_mode()
def next_token_gap(backbone: Backbone, tokens: Sequence[int]) -> float:
    """The target's largest logit minus the second largest behind ``tokens``."""
    cache = backbone.new_cache(capacity=len(tokens))
    hidden = backbone.forward(torch.tensor([list(tokens)]), cache, 0)
    best = backbone.lm_head(hidden[0, -1]).float().topk(2).values
    return float(best[0] - best[1])


def oracle_record(target: Target, model: Any, tokens: Sequence[int]) -> Record:
    """Our logits beside those of a transformers model of the same file.

    Returns
    -------
    dict
        ``relative``: largest difference over the largest logit; ``same_choice``: share of positions with the
        same most likely token.
    """
    ids = torch.tensor([list(tokens)])
    backbone = target.backbone
    with torch.inference_mode():
        ours = backbone.lm_head(backbone.forward(ids, backbone.new_cache(capacity=len(tokens)), 0))[0]
        theirs = model(ids).logits[0]
    return {
        "tokens": len(tokens),
        "relative": float((ours - theirs).abs().max() / theirs.abs().max()),
        "same_choice": float((ours.argmax(-1) == theirs.argmax(-1)).float().mean()),
    }


def transformers_model(dtype: torch.dtype = torch.float32) -> Any:
    """The same GGUF file as transformers reads it (needs transformers)."""
    from transformers import AutoModelForCausalLM

    path = target_path()
    return AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=dtype).eval()


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the common prefix."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
