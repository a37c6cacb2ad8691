"""Lossless speculative decoding of one sequence: draft, verify, commit or roll back.

Natural mode runs passes as wide as they need to be. Shape-locked mode runs *every* decoding pass, those of
plain decoding included, at one fixed width over the whole static cache: every kernel then has one shape, and
plain and speculative decoding give equal logits bit for bit (where :func:`probe_width` finds that rows do
not depend on each other). Prefill is the same code on the same prompt in every arm.

It does not know how drafts are made (``live.py``) or why they are accepted (``verify.py``).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from .backbone import Backbone, KVCache, greedy
from .errors import ReferenceImplError
from .verify import greedy_chain, until_end

PREFILL_CHUNK = 512
MAX_LOCKED_WIDTH = 32


class Drafter(Protocol):
    """What the loop asks of a drafter."""

    def prefill(self, prompt: Sequence[int], cache: KVCache) -> None:
        """Start a request; ``cache`` is the target's, holding the prompt, and stays the target's."""

    def draft(self, tokens: Sequence[int], state: Tensor, k: int) -> tuple[list[int], list[float]]:
        """Propose up to ``k`` tokens behind ``tokens`` and the drafter's probability of each.

        ``tokens`` are prompt and emitted text; the last one is pending (its keys are not cached). ``state``
        ``(1, 1, hidden_size)`` is the target's post-norm hidden state at the position before it.
        """

    def commit(self, length: int) -> None:
        """The first ``length`` tokens are final and cached by the target; forget everything behind them."""


@dataclass(frozen=True)
class Step:
    """One draft-verify-commit round; ``position`` and the counts are those of an anchor trace's walk."""

    position: int
    context: int
    proposed: int
    accepted: int
    emitted: int
    drafts: tuple[int, ...]


@dataclass
class Decoded:
    """A response, the steps that made it, and where the seconds went.

    Attributes
    ----------
    tokens : list of int
        The response; its first token comes from prefill.
    logits : list of Tensor, each (vocab_size,)
        The target's logits behind each token, where asked for.
    """

    tokens: list[int] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    logits: list[Tensor] = field(default_factory=list)
    prefill_s: float = 0.0
    draft_s: float = 0.0
    verify_s: float = 0.0
    decode_s: float = 0.0


@torch.inference_mode()
def prefill(backbone: Backbone, prompt: Sequence[int], cache: KVCache) -> Tensor:
    """Fill the cache with the prompt; the post-norm state ``(1, 1, hidden_size)`` of its last token."""
    tokens = torch.tensor([list(prompt)])
    for start in range(0, len(prompt), PREFILL_CHUNK):
        hidden = backbone.forward(tokens[:, start : start + PREFILL_CHUNK], cache, start)
    cache.rollback(len(prompt))
    return hidden[:, -1:]


@torch.inference_mode()
def decode(
    backbone: Backbone,
    prompt: Sequence[int],
    drafter: Drafter | None = None,
    *,
    draft_length: int = 0,
    max_new_tokens: int,
    locked_width: int | None = None,
    capacity: int | None = None,
    keep_logits: bool = False,
) -> Decoded:
    """Greedy response to one prompt; with or without a drafter, the text is the same.

    Parameters
    ----------
    prompt : sequence of int
        Token ids, not empty.
    drafter : Drafter, optional
        None is plain decoding.
    draft_length : int
        Drafts asked for in each step, K.
    max_new_tokens : int
        Length limit of the response, stop token included.
    locked_width : int, optional
        Shape-locked mode with this width (see :func:`probe_width`).
    capacity : int, optional
        Slots of the cache. By default as many as needed; in locked mode it is part of the shape, so the arms
        that are compared must agree on it (the default does not depend on K).
    keep_logits : bool
        Keep the target's logits of every emitted token.

    Raises
    ------
    ReferenceImplError
        Empty prompt, a draft length below 0 or above the locked width, or a cache that is too small.
    """
    draft_length = 0 if drafter is None else draft_length
    widest = locked_width or draft_length + 1
    needed = len(prompt) + max_new_tokens - 2 + widest  # the last step starts with one token to go
    capacity = needed if capacity is None else capacity
    _check(prompt, draft_length, max_new_tokens, widest, needed, capacity)
    stop = backbone.config.eos_token_id
    result = Decoded()
    started = time.perf_counter()
    cache = backbone.new_cache(capacity=capacity)
    state = prefill(backbone, prompt, cache)
    logits = backbone.lm_head(state)[0]
    tokens = [*prompt, int(greedy(logits))]
    if keep_logits:
        result.logits.extend(logits)
    if drafter is not None:
        drafter.prefill(prompt, cache)
    result.prefill_s = time.perf_counter() - started
    while tokens[-1] != stop and len(tokens) < len(prompt) + max_new_tokens:
        n = cache.length  # position of the pending token
        before = time.perf_counter()
        drafts = drafter.draft(tokens, state, draft_length)[0] if drafter is not None and draft_length else []
        between = time.perf_counter()
        rows = [tokens[-1], *drafts]
        padding = [0] * (locked_width - len(rows)) if locked_width else []
        hidden = backbone.forward(
            torch.tensor([rows + padding]), cache, n, span=capacity if locked_width else None
        )
        logits = backbone.lm_head(hidden)[0]
        accepted, bonus = greedy_chain(drafts, greedy(logits).tolist())
        emitted = until_end(
            [*drafts[:accepted], bonus], room=len(prompt) + max_new_tokens - len(tokens), stop=stop
        )
        state = hidden[:, accepted : accepted + 1]
        cache.rollback(n + accepted + 1)
        if drafter is not None:
            drafter.commit(cache.length)
        result.draft_s += between - before
        result.verify_s += time.perf_counter() - between
        if keep_logits:
            result.logits.extend(logits[: len(emitted)])
        tokens += emitted
        step = (n - len(prompt), n, len(drafts), min(accepted, len(emitted)), len(emitted))
        result.steps.append(Step(*step, drafts=tuple(drafts)))
    result.tokens = tokens[len(prompt) :]
    result.decode_s = time.perf_counter() - started - result.prefill_s
    return result


def _check(
    prompt: Sequence[int], draft_length: int, max_new_tokens: int, widest: int, needed: int, capacity: int
) -> None:
    if not prompt:
        raise ReferenceImplError("prompt: given no tokens, allowed: one or more")
    if max_new_tokens < 1:
        raise ReferenceImplError(f"max_new_tokens: given {max_new_tokens}, allowed: 1 or more")
    if not 0 <= draft_length < widest:
        raise ReferenceImplError(f"draft_length: given {draft_length}, allowed: 0..{widest - 1}")
    if capacity < needed:
        room = capacity - len(prompt) - max_new_tokens + 1
        allowed = f"0..{room}" if room >= 0 else "none"
        raise ReferenceImplError(
            f"draft_length: given {draft_length} (passes {widest} wide), allowed: {allowed}, because a "
            f"cache of {capacity} slots holds a prompt of {len(prompt)} tokens and {max_new_tokens} new ones"
        )


def probe_width(backbone: Backbone, k_max: int, *, capacity: int, seed: int = 0) -> int:
    """Smallest width for shape-locked decoding with up to ``k_max`` drafts on this machine.

    A width passes when a token's state, logits, keys and values are bit for bit the same in whichever row of
    a pass it stands, whatever the other rows hold, and whatever garbage lies in masked slots.

    Raises
    ------
    ReferenceImplError
        When no width up to 32 passes.
    """
    for width in range(k_max + 1, MAX_LOCKED_WIDTH + 1):
        if all(_rows_are_independent(backbone, width, capacity, seed + trial) for trial in range(2)):
            return width
    raise ReferenceImplError(
        f"shape-locked decoding: no width {k_max + 1}..{MAX_LOCKED_WIDTH} gives rows that are independent of "
        f"each other in {backbone.dtype} on {torch.get_num_threads()} threads; try another number of threads"
    )


@torch.inference_mode()
def _rows_are_independent(backbone: Backbone, width: int, capacity: int, seed: int) -> bool:
    random = torch.Generator().manual_seed(seed)

    def tokens(count: int) -> Tensor:
        return torch.randint(backbone.config.vocab_size, (1, count), generator=random)

    start = min(24, capacity - 2 * width) if seed % 2 == 0 else capacity - 2 * width
    if start < 1:
        raise ReferenceImplError(
            f"capacity: given {capacity}, allowed: more than {2 * width} for width {width}"
        )
    cache = backbone.new_cache(capacity=capacity)
    backbone.forward(tokens(start), cache, 0)
    block = tokens(width)
    states = backbone.forward(block, cache, start, span=capacity)
    logits = backbone.lm_head(states)
    written = [t[:, :, start : start + width].clone() for t in (*cache.keys, *cache.values)]
    for row in range(width):
        at = start + row
        for tensor in (*cache.keys, *cache.values):
            tensor[:, :, at:] = 30 * torch.randn(tensor[:, :, at:].shape, generator=random)
        alone = torch.cat([block[:, row : row + 1], tokens(width - 1)], dim=1)
        state = backbone.forward(alone, cache, at, span=capacity)
        same = torch.equal(state[:, 0], states[:, row])
        same = same and torch.equal(backbone.lm_head(state)[:, 0], logits[:, row])
        both = zip((*cache.keys, *cache.values), written, strict=True)
        if not same or not all(torch.equal(t[:, :, at], w[:, :, row]) for t, w in both):
            return False
    return True
