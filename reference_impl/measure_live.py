"""Time this machine: how fast the target reads, decodes and speculates, and what wide passes cost.

Every comparison interleaves its arms, so that both meet the same load. Wall-clock seconds. It does not know
phones; a curve measured here can become a runtime profile elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch

from .anchors import drafts_at_anchors, read_response
from .backbone import Backbone
from .collect import DEPTH
from .decode import decode, prefill
from .gguf_target import Target
from .live import NamedDrafter, live_drafter
from .responses import Request


@dataclass(frozen=True)
class LiveRate:
    """Plain and speculative decoding of the same prompts, prefill left out.

    Attributes
    ----------
    plain_tokens_per_s, drafted_tokens_per_s : float
    mean_acceptance_length : float
        Tokens emitted a step.
    draft_share : float
        Share of the speculative arm's decoding time spent drafting.
    identical_texts, prompts : int
        Texts that the two arms share (at natural widths a near tie may fall the other way).
    """

    plain_tokens_per_s: float
    drafted_tokens_per_s: float
    mean_acceptance_length: float
    draft_share: float
    identical_texts: int
    prompts: int

    @property
    def speedup(self) -> float:
        """Speculative over plain rate."""
        return self.drafted_tokens_per_s / self.plain_tokens_per_s


def live_rate(
    target: Target,
    drafter: NamedDrafter,
    prompts: Sequence[Sequence[int]],
    *,
    draft_length: int,
    max_new_tokens: int,
    repeats: int = 1,
) -> LiveRate:
    """Decode each prompt plainly and with the drafter, one after the other, at natural widths.

    Parameters
    ----------
    repeats : int
        Runs of each arm of a prompt; the fastest counts, so that a disturbance does not.
    """
    live = live_drafter(drafter, target.backbone)
    plain_s = drafted_s = draft_s = 0.0
    plain_tokens = drafted_tokens = steps = identical = 0
    for prompt in prompts:
        plain, drafted = [], []
        for _ in range(repeats):
            plain.append(decode(target.backbone, prompt, max_new_tokens=max_new_tokens))
            drafted.append(
                decode(
                    target.backbone, prompt, live, draft_length=draft_length, max_new_tokens=max_new_tokens
                )
            )
        slow = min(plain, key=lambda d: d.decode_s)
        fast = min(drafted, key=lambda d: d.decode_s)
        plain_s, drafted_s, draft_s = (
            plain_s + slow.decode_s,
            drafted_s + fast.decode_s,
            draft_s + fast.draft_s,
        )
        plain_tokens += len(slow.tokens) - 1
        drafted_tokens += len(fast.tokens) - 1
        steps += len(fast.steps)
        identical += slow.tokens == fast.tokens
    return LiveRate(
        plain_tokens_per_s=plain_tokens / plain_s,
        drafted_tokens_per_s=drafted_tokens / drafted_s,
        mean_acceptance_length=drafted_tokens / max(steps, 1),
        draft_share=draft_s / drafted_s,
        identical_texts=identical,
        prompts=len(prompts),
    )


def verify_curve(
    backbone: Backbone, widths: Sequence[int], *, context: int = 128, repeats: int = 7
) -> dict[int, float]:
    """Seconds of one target pass (LM head included) by width, at one context; widths take turns.

    ``curve[w] / curve[1]`` is the verify cost ratio v(w).
    """
    cache = backbone.new_cache(capacity=context + max(widths))
    random = torch.Generator().manual_seed(0)
    tokens = torch.randint(backbone.config.vocab_size, (1, context + max(widths)), generator=random)
    prefill(backbone, tokens[0, :context].tolist(), cache)
    seconds: dict[int, list[float]] = {width: [] for width in widths}
    with torch.inference_mode():
        for turn in range(repeats + 1):
            for width in widths:
                began = time.perf_counter()
                backbone.lm_head(backbone.forward(tokens[:, context : context + width], cache, context))
                if turn:  # the first round warms up
                    seconds[width].append(time.perf_counter() - began)
    return {width: median(values) for width, values in seconds.items()}


def collection_rates(
    target: Target, drafter: NamedDrafter, requests: Sequence[Request], *, depth: int = DEPTH
) -> tuple[float, float]:
    """Tokens a second (prompt and response) of plain prefill, and of recording an anchor trace."""
    tokens, prefill_s, collect_s = 0, 0.0, 0.0
    for request in requests:
        text = [*request.prompt_tokens, *request.response]
        began = time.perf_counter()
        prefill(target.backbone, text, target.backbone.new_cache(capacity=len(text)))
        between = time.perf_counter()
        read = read_response(target.backbone, request.prompt_tokens, request.response)
        drafts_at_anchors(drafter.model, target.backbone, read, depth)
        collect_s += time.perf_counter() - between
        prefill_s += between - began
        tokens += len(text)
    return tokens / prefill_s, tokens / collect_s


def transformers_rates(
    target: Target, model: Any, prompts: Sequence[Sequence[int]], *, new_tokens: int, repeats: int = 2
) -> tuple[float, float]:
    """Tokens a second of transformers' greedy ``generate`` and of our plain decoding, prefill included.

    Parameters
    ----------
    model : transformers model
        Of the same file and dtype (``identity.transformers_model``).
    """
    seconds = {"theirs": 0.0, "ours": 0.0}
    tokens = {"theirs": 0, "ours": 0}
    for prompt in prompts:
        ids = torch.tensor([list(prompt)])
        theirs, ours = [], []
        for _ in range(repeats):
            began = time.perf_counter()
            with torch.inference_mode():
                made = model.generate(
                    ids, attention_mask=torch.ones_like(ids), max_new_tokens=new_tokens, do_sample=False
                )
            between = time.perf_counter()
            own = decode(target.backbone, prompt, max_new_tokens=new_tokens)
            theirs.append(between - began)
            ours.append(time.perf_counter() - between)
        seconds["theirs"] += min(theirs)
        seconds["ours"] += min(ours)
        tokens["theirs"] += made.shape[1] - len(prompt)
        tokens["ours"] += len(own.tokens)
    return tokens["theirs"] / seconds["theirs"], tokens["ours"] / seconds["ours"]
