"""Single measurements of this machine: memory, floors, passes of target and drafters, prefill, decoding.

Each gives samples: dictionaries of one time each, which say what was timed. It does not know in which order
they are taken (``measure.py``), or what they are for.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import torch

from .backbone import Backbone, BackboneConfig, BackboneWeights, LayerWeights, greedy
from .decode import Drafter, decode, prefill
from .live import LiveStandalone
from .measure_meter import Rapl, Watched
from .verify import greedy_chain, until_end

Clock = Callable[[], float]
Sample = dict[str, Any]

BANDWIDTH_BYTES = 2**28
TINY_LAYERS = (2, 32)
DRAFTS = 4
"""Draft passes timed in one go."""


def timed(work: Callable[[], object], clock: Clock) -> float:
    """Seconds of one call."""
    began = clock()
    work()
    return clock() - began


def bandwidth(clock: Clock, *, size: int = BANDWIDTH_BYTES, repeats: int = 3) -> list[Sample]:
    """Bytes a second of a copy, a sum and a matrix-vector product over arrays beyond any cache.

    The fastest run counts. A copy counts its bytes twice, once read and once written.
    """
    source = torch.ones(size // 4, dtype=torch.float32)
    target = torch.empty_like(source)
    matrix = source.view(-1, 4096)
    vector = torch.ones(4096)
    methods: dict[str, tuple[Callable[[], object], int]] = {
        "copy": (lambda: target.copy_(source), 2),
        "sum": (source.sum, 1),
        "matrix times vector": (lambda: torch.mv(matrix, vector), 1),
    }
    return [
        {"kind": "bandwidth", "method": name,
         "bytes_per_s": touched * size / min(timed(work, clock) for _ in range(repeats))}
        for name, (work, touched) in methods.items()
    ]  # fmt: skip


def tiny_model(config: BackboneConfig, layers: int, dtype: torch.dtype) -> Backbone:
    """As many heads as the target and hardly any weights: what its pass takes is launches, not bytes."""
    heads, kv_heads, width, size = config.num_attention_heads, config.num_key_value_heads, 32, 8

    def zeros(rows: int, columns: int) -> torch.Tensor:
        return torch.zeros(rows, columns, dtype=dtype)

    layer = LayerWeights(
        input_norm=torch.ones(width, dtype=dtype),
        qkv=zeros((heads + 2 * kv_heads) * size, width),
        attention_output=zeros(width, heads * size),
        post_attention_norm=torch.ones(width, dtype=dtype),
        gate_up=zeros(2 * width, width),
        down=zeros(width, width),
    )
    shape = BackboneConfig(
        hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv_heads,
        head_dim=size, intermediate_size=width, vocab_size=64, rope_theta=config.rope_theta,
        rms_norm_eps=config.rms_norm_eps, eos_token_id=0,
    )  # fmt: skip
    weights = BackboneWeights(zeros(64, width), (layer,) * layers, torch.ones(width, dtype=dtype))
    return Backbone(shape, weights, max_positions=64)


def floors(target: Backbone, clock: Clock, *, repeats: int = 10) -> list[Sample]:
    """Passes of tiny models of few and of many layers, and the bookkeeping of a speculative step."""
    models = {layers: tiny_model(target.config, layers, target.dtype) for layers in TINY_LAYERS}
    samples: list[Sample] = []
    for layers, model in models.items():
        cache = model.new_cache(capacity=32)
        times = [timed(lambda: one_pass(model, [1], cache, 16), clock) for _ in range(repeats)]  # noqa: B023
        samples.append({"kind": "floor", "layers": layers, "seconds": median(times)})
    drafts = list(range(DRAFTS))

    def bookkeeping() -> None:
        accepted, bonus = greedy_chain(drafts, [*drafts, 0])
        until_end([*drafts[:accepted], bonus], room=9, stop=-1)

    times = [timed(bookkeeping, clock) for _ in range(repeats)]
    return [*samples, {"kind": "step_host", "seconds": median(times)}]


@torch.inference_mode()
def one_pass(backbone: Backbone, tokens: Sequence[int], cache: Any, start: int) -> list[int]:
    """One pass of the target as ``decode`` runs it: tokens in, the next token of every row out."""
    hidden = backbone.forward(torch.tensor([list(tokens)]), cache, start)
    chosen: list[int] = greedy(backbone.lm_head(hidden)[0]).tolist()
    return chosen


def passes(
    backbone: Backbone,
    drafters: dict[str, Drafter],
    clock: Clock,
    *,
    contexts: Sequence[int],
    widths: Sequence[int],
    repeats: int,
    seed: int,
) -> list[Sample]:
    """Passes of the target at every width and context, and of drafters, taking turns; prefill on the way."""
    longest = max(contexts)
    random = torch.Generator().manual_seed(seed)
    text = torch.randint(backbone.config.vocab_size, (longest + max(widths),), generator=random).tolist()
    cache = backbone.new_cache(capacity=longest + max(*widths, DRAFTS + 2))
    samples: list[Sample] = []
    for length in sorted(contexts):  # the longest last: it fills the cache for what follows
        began = clock()
        state = prefill(backbone, text[:length], cache)
        samples.append({"kind": "prefill", "tokens": length, "seconds": clock() - began})
    for drafter in drafters.values():
        drafter.prefill(text[:longest], cache)
    for context in sorted(contexts, reverse=True):
        for _ in range(repeats):
            for width in widths:
                rows = text[context : context + width]
                seconds = timed(lambda: one_pass(backbone, rows, cache, context), clock)  # noqa: B023
                samples.append({"kind": "pass", "width": width, "context": context, "seconds": seconds})
            for name, drafter in drafters.items():
                samples += _draft_passes(name, drafter, text[: context + 1], state, clock)
    return samples


def _draft_passes(
    name: str, drafter: Drafter, tokens: Sequence[int], state: torch.Tensor, clock: Clock
) -> list[Sample]:
    """Time of a draft pass, and of one that has a row to catch up where the drafter keeps a cache."""
    context = len(tokens) - 1
    drafter.commit(context)
    seconds = timed(lambda: drafter.draft(tokens, state, DRAFTS), clock) / DRAFTS
    about = {"kind": "draft_pass", "drafter": name, "context": context}
    samples: list[Sample] = [{**about, "width": 1, "seconds": seconds}]
    drafter.commit(context)
    if isinstance(drafter, LiveStandalone):
        drafter.commit(context - 1)
        seconds = timed(lambda: drafter.draft(tokens, state, 1), clock)
        samples.append({**about, "width": 2, "seconds": seconds})
        drafter.commit(context)
    return samples


def decoding(
    backbone: Backbone,
    prompt: Sequence[int],
    drafter: Drafter | None,
    clock: Clock,
    rapl: Rapl,
    *,
    draft_length: int,
    max_new_tokens: int,
) -> Sample:
    """One response: tokens after the first, their seconds and joules, and what every step did."""
    watched = Watched(drafter, clock, rapl)
    found = decode(backbone, prompt, watched, draft_length=draft_length, max_new_tokens=max_new_tokens)
    seconds, joules = watched.taken()
    sample: Sample = {
        "kind": "run", "draft_length": draft_length, "prompt_tokens": len(prompt),
        "output_tokens": len(found.tokens) - 1, "seconds": seconds, "draft_s": watched.draft_s,
        "energy_j": joules, "text": zlib.crc32(repr(found.tokens).encode()),
    }  # fmt: skip
    if drafter is not None:
        sample["steps"] = [[s.context, s.proposed, s.accepted, s.emitted] for s in found.steps]
    return sample
