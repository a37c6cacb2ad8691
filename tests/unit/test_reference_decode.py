"""The decoding loop on a tiny random target: nothing is lost, the books are right, errors are clear."""

from __future__ import annotations

from functools import cache

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from reference_impl.backbone import greedy  # noqa: E402
from reference_impl.decode import decode, prefill, probe_width  # noqa: E402
from reference_impl.drafters.ngram import NGramLookup  # noqa: E402
from reference_impl.errors import ReferenceImplError  # noqa: E402
from reference_impl.generate import generate_batch  # noqa: E402
from reference_impl.live import LiveHead, LiveLookup, LiveStandalone  # noqa: E402
from tests.reference_samples import (  # noqa: E402
    EOS,
    Scripted,
    tiny_backbone,
    tiny_head,
    tiny_prompts,
    tiny_standalone,
)

pytestmark = pytest.mark.reference

BACKBONE = tiny_backbone(2)  # its texts sometimes end with the stop token
PROMPTS = tiny_prompts(6, 3)


@cache
def locked_width():
    """Which widths have independent rows depends on the number of threads."""
    return probe_width(BACKBONE, 8, capacity=64)


def drafters(backbone=BACKBONE):
    return {
        "head": LiveHead(tiny_head(backbone), backbone),
        "standalone": LiveStandalone(tiny_standalone(backbone)),
        "ngram": LiveLookup(NGramLookup(), response_only=False),
    }


@pytest.mark.parametrize("kind", ["head", "standalone", "ngram"])
@pytest.mark.parametrize("k", [1, 2, 4, 8])
def test_speculation_changes_no_token(kind, k):
    for prompt in PROMPTS:
        plain = decode(BACKBONE, prompt, max_new_tokens=24)
        fast = decode(BACKBONE, prompt, drafters()[kind], draft_length=k, max_new_tokens=24)
        assert fast.tokens == plain.tokens
        assert len(fast.steps) <= len(plain.steps)


@pytest.mark.parametrize("kind", ["head", "standalone", "ngram"])
def test_shape_locked_logits_are_bit_equal(kind):
    width = probe_width(BACKBONE, 4, capacity=64)
    for prompt in PROMPTS[:3]:
        arms = [
            decode(
                BACKBONE,
                prompt,
                drafter,
                draft_length=k,
                max_new_tokens=20,
                locked_width=width,
                capacity=64,
                keep_logits=True,
            )
            for drafter, k in ((None, 0), (drafters()[kind], 2), (drafters()[kind], 4))
        ]
        for other in arms[1:]:
            assert other.tokens == arms[0].tokens
            assert torch.equal(torch.stack(other.logits), torch.stack(arms[0].logits))


def test_drafters_get_something_accepted():
    """Otherwise the tests of this file would not reach the interesting branches."""
    for kind, drafter in drafters().items():
        steps = [
            s for p in PROMPTS for s in decode(BACKBONE, p, drafter, draft_length=4, max_new_tokens=32).steps
        ]
        assert sum(s.accepted for s in steps) > 0.05 * sum(s.proposed for s in steps), kind
        assert any(s.accepted < s.proposed for s in steps), kind


@settings(deadline=None, max_examples=25)
@given(wrong=st.lists(st.booleans(), min_size=1, max_size=7), k=st.integers(1, 8), limit=st.integers(1, 20))
def test_every_accept_count_keeps_text_and_logits(wrong, k, limit):
    """A drafter that is right and wrong in any pattern: same text, same shape-locked logits, right books."""
    prompt = PROMPTS[1]
    shape = {"locked_width": locked_width(), "capacity": 64, "keep_logits": True, "max_new_tokens": limit}
    plain = decode(BACKBONE, prompt, **shape)
    scripted = Scripted(len(prompt), plain.tokens, wrong)
    fast = decode(BACKBONE, prompt, scripted, draft_length=k, **shape)
    assert fast.tokens == plain.tokens
    assert torch.equal(torch.stack(fast.logits), torch.stack(plain.logits))
    t, end = 0, len(plain.tokens) - 1
    for step, committed in zip(fast.steps, scripted.seen, strict=True):
        assert (step.position, step.context, step.proposed) == (t, len(prompt) + t, k)
        first_wrong = next((i for i in range(k) if wrong[(t + 1 + i) % len(wrong)]), k)
        first_wrong = min(first_wrong, end - t) if t + first_wrong <= end else end - t
        assert step.accepted == min(first_wrong, end - t)
        assert step.emitted == min(step.accepted + 1, end - t)
        assert committed >= len(prompt) + t + step.emitted
        t += step.emitted
    assert t == end


def test_the_cache_drops_rejected_tokens():
    """The committed length counts accepted tokens only (a drafter that keeps it would read stale rows)."""
    prompt = PROMPTS[0]
    plain = decode(BACKBONE, prompt, max_new_tokens=12).tokens
    drafter = Scripted(len(prompt), plain, [False, True, False])
    steps = decode(BACKBONE, prompt, drafter, draft_length=3, max_new_tokens=12).steps
    whole = [(s, c) for s, c in zip(steps, drafter.seen, strict=True) if s.emitted == s.accepted + 1]
    assert [c for _, c in whole] == [s.context + s.accepted + 1 for s, _ in whole]


def test_stop_token_ends_the_response_inside_a_step():
    ended = [p for p in tiny_prompts(60, 9) if decode(BACKBONE, p, max_new_tokens=30).tokens[-1] == EOS]
    assert ended
    for prompt in ended[:3]:
        plain = decode(BACKBONE, prompt, max_new_tokens=30).tokens
        fast = decode(
            BACKBONE, prompt, Scripted(len(prompt), plain, [False]), draft_length=8, max_new_tokens=30
        )
        assert fast.tokens == plain
        assert fast.tokens.count(EOS) == 1


def test_partial_last_step():
    """Three tokens to go, eight drafts right: three accepted, three emitted, no bonus token."""
    prompt = PROMPTS[0]
    plain = decode(BACKBONE, prompt, max_new_tokens=4).tokens
    fast = decode(BACKBONE, prompt, Scripted(len(prompt), plain, [False]), draft_length=8, max_new_tokens=4)
    assert len(plain) == 4
    assert [(s.proposed, s.accepted, s.emitted) for s in fast.steps] == [(8, 3, 3)]


def test_one_token_response_has_no_steps():
    assert decode(BACKBONE, PROMPTS[0], max_new_tokens=1).steps == []


def test_batched_generation_equals_one_at_a_time():
    """Right padding, compaction and rows of different lengths change no token and no state."""
    made = generate_batch(BACKBONE, PROMPTS, max_new_tokens=20, kv_layers=(0, 1))
    for prompt, generation in zip(PROMPTS, made, strict=True):
        alone = decode(BACKBONE, prompt, max_new_tokens=20).tokens
        assert generation.tokens == [*prompt, *alone]
        cache = BACKBONE.new_cache(capacity=len(generation.tokens))
        hidden = BACKBONE.forward(torch.tensor([generation.tokens[:-1]]), cache, 0)[0]
        torch.testing.assert_close(generation.hidden, hidden, rtol=1e-4, atol=1e-5)
        for layer in (0, 1):
            length = len(generation.tokens) - 1
            torch.testing.assert_close(
                generation.keys[layer], cache.keys[layer][0, :, :length], rtol=1e-4, atol=1e-5
            )


def test_state_of_the_first_step_is_that_of_the_last_prompt_token():
    cache = BACKBONE.new_cache(capacity=20)
    state = prefill(BACKBONE, PROMPTS[2], cache)
    whole = BACKBONE.forward(torch.tensor([PROMPTS[2]]), BACKBONE.new_cache(capacity=20), 0)
    torch.testing.assert_close(state, whole[:, -1:])
    assert not torch.allclose(state, whole[:, :1])
    assert cache.length == len(PROMPTS[2])


def test_prefill_in_chunks_equals_one_pass(monkeypatch):
    whole = prefill(BACKBONE, PROMPTS[2], BACKBONE.new_cache(capacity=20))
    monkeypatch.setattr("reference_impl.decode.PREFILL_CHUNK", 2)
    torch.testing.assert_close(prefill(BACKBONE, PROMPTS[2], BACKBONE.new_cache(capacity=20)), whole)


def test_ties_go_to_the_lowest_id():
    logits = torch.tensor([[0.0, 5.0, 5.0, 1.0], [2.0, 2.0, 2.0, 2.0]])
    for dtype in (torch.float32, torch.bfloat16):
        assert greedy(logits.to(dtype)).tolist() == [1, 0]
        assert greedy(logits.to(dtype)).tolist() == [1, 0]
        wide = torch.zeros(3, 50_000, dtype=dtype)
        wide[:, 40_000] = wide[:, 123] = wide[:, 45_000] = 1.0
        assert greedy(wide).tolist() == [123] * 3
    for seed in range(20):
        coarse = torch.randn(4, 5000, generator=torch.Generator().manual_seed(seed)).bfloat16()
        assert torch.equal(greedy(coarse), torch.from_numpy(coarse.float().numpy().argmax(-1)))


# ------------------------------------------------------------------------------------------ bad input


def test_empty_prompt():
    with pytest.raises(ReferenceImplError, match="prompt: given no tokens"):
        decode(BACKBONE, [], max_new_tokens=4)


def test_draft_length_that_does_not_fit_the_cache():
    with pytest.raises(ReferenceImplError, match=r"draft_length: given 8 .* allowed: 0\.\.3"):
        decode(BACKBONE, [1] * 10, drafters()["head"], draft_length=8, max_new_tokens=6, capacity=18)
    decode(BACKBONE, [1] * 10, drafters()["head"], draft_length=3, max_new_tokens=6, capacity=18)
    with pytest.raises(ReferenceImplError, match="allowed: none"):
        decode(BACKBONE, [1] * 10, max_new_tokens=60, capacity=18)


def test_draft_length_above_the_locked_width():
    with pytest.raises(ReferenceImplError, match=r"draft_length: given 4, allowed: 0\.\.3"):
        decode(BACKBONE, [1], drafters()["head"], draft_length=4, max_new_tokens=6, locked_width=4)


def test_no_new_tokens():
    with pytest.raises(ReferenceImplError, match="max_new_tokens: given 0"):
        decode(BACKBONE, [1], max_new_tokens=0)


def test_cache_of_wrong_size():
    cache = BACKBONE.new_cache(capacity=4)
    with pytest.raises(ValueError, match="span"):
        BACKBONE.forward(torch.tensor([[1, 2, 3]]), cache, 2)
    with pytest.raises(ValueError, match=r"rollback length: given 5, allowed 0\.\.4"):
        cache.rollback(5)


# --------------------------------------------------------------------------------------- start-up probe


class Leaky:
    """A backbone whose rows depend on each other at some widths."""

    def __init__(self, bad_widths):
        self._inner, self._bad = BACKBONE, bad_widths
        self.config, self.dtype = BACKBONE.config, BACKBONE.dtype
        self.new_cache, self.lm_head = BACKBONE.new_cache, BACKBONE.lm_head

    def forward(self, tokens, cache, start, *, span=None):
        hidden = self._inner.forward(tokens, cache, start, span=span)
        if tokens.shape[1] in self._bad:
            hidden = hidden + 1e-7 * hidden.roll(1, dims=1)
        return hidden


def test_probe_takes_the_smallest_width_that_passes():
    assert probe_width(BACKBONE, 4, capacity=64) >= 5
    assert probe_width(Leaky({5, 6, 7}), 4, capacity=64) == 8
    assert probe_width(Leaky(set()), 7, capacity=64) == 8


def test_probe_says_when_no_width_passes():
    with pytest.raises(ReferenceImplError, match=r"no width 5\.\.32"):
        probe_width(Leaky(set(range(40))), 4, capacity=96)


def test_probe_needs_room():
    with pytest.raises(ReferenceImplError, match="capacity: given 10"):
        probe_width(BACKBONE, 7, capacity=10)
