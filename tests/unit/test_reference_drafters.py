"""Pitfalls of drafters that read a target's cache, each as a test; the text stays right in all of them."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from reference_impl.anchors import head_drafts, read_response  # noqa: E402
from reference_impl.backbone import rms_norm  # noqa: E402
from reference_impl.checkpoint import load_drafter, save_drafter  # noqa: E402
from reference_impl.decode import decode, prefill  # noqa: E402
from reference_impl.drafters.mtp_head import MTPHead  # noqa: E402
from reference_impl.drafters.vocabulary import RequestHead, request_vocabulary  # noqa: E402
from reference_impl.errors import ReferenceImplError  # noqa: E402
from reference_impl.linear import PackedLinear, can_pack, linear, pack  # noqa: E402
from reference_impl.live import LiveHead, LiveStandalone, for_inference  # noqa: E402
from tests.reference_samples import (  # noqa: E402
    KV_LAYERS,
    Scripted,
    tiny_backbone,
    tiny_head,
    tiny_prompts,
    tiny_standalone,
)

pytestmark = pytest.mark.reference

BACKBONE = tiny_backbone()
PROMPT = tiny_prompts(1, 5)[0]


@pytest.fixture
def head_calls(monkeypatch):
    """Arguments and results of every step of the head."""
    calls = []
    original = MTPHead.step

    def step(self, token_embedding, state, keys, values, mask, rotary):
        following = original(self, token_embedding, state, keys, values, mask, rotary)
        calls.append(
            {
                "embedding": token_embedding,
                "state": state,
                "keys": keys,
                "values": values,
                "mask": mask,
                "rotary": rotary,
                "next_state": following,
            }
        )
        return following

    monkeypatch.setattr(MTPHead, "step", step)
    return calls


class Spy:
    """Passes calls on to a drafter and remembers what was asked."""

    def __init__(self, inner):
        self.inner, self.drafted = inner, []

    def prefill(self, prompt, cache):
        self.target_cache = cache
        self.inner.prefill(prompt, cache)

    def draft(self, tokens, state, k):
        self.drafted.append((list(tokens), state.clone(), self.target_cache.length))
        return self.inner.draft(tokens, state, k)

    def commit(self, length):
        self.inner.commit(length)


# ------------------------------------------------------------------------------------------- MTP head


def test_head_reads_the_targets_own_storage(head_calls):
    """Same memory, no copy, no cache of its own, nothing read before the first draft."""
    live = LiveHead(tiny_head(BACKBONE), BACKBONE)
    spy = Spy(live)
    decode(BACKBONE, PROMPT, spy, draft_length=3, max_new_tokens=10)
    cache = spy.target_cache
    for call in head_calls:
        for layer, key, value in zip(KV_LAYERS, call["keys"], call["values"], strict=True):
            assert key.data_ptr() == cache.keys[layer].data_ptr()
            assert value.data_ptr() == cache.values[layer].data_ptr()
    own = [t for t in vars(live).values() if isinstance(t, torch.Tensor)]
    assert own == []
    assert len(head_calls) == 3 * len(spy.drafted)  # k passes a step and no pass over the prompt


def test_head_sees_exactly_the_committed_slots_at_one_position(head_calls):
    """KV strictly [0, n), query at position n, both constant within a step; they move by accepted + 1."""
    head = tiny_head(BACKBONE)
    spy = Spy(LiveHead(head, BACKBONE))
    steps = decode(BACKBONE, PROMPT, spy, draft_length=4, max_new_tokens=16).steps
    assert {s.accepted for s in steps} > {0}
    for i, (step, (tokens, _, cached)) in enumerate(zip(steps, spy.drafted, strict=True)):
        n = step.context
        assert cached == n == len(tokens) - 1
        for call in head_calls[4 * i : 4 * i + 4]:
            assert call["mask"] is None
            assert all(t.shape[2] == n for t in (*call["keys"], *call["values"]))
            cos, sin = head.rotary(torch.tensor([[n]]))
            assert torch.equal(call["rotary"][0], cos) and torch.equal(call["rotary"][1], sin)


def test_stale_slots_are_never_read():
    """After a rejection the slots behind the committed length hold rejected rows: poison changes nothing."""

    class Poison(Spy):
        def draft(self, tokens, state, k):
            n = len(tokens) - 1
            for tensor in (*self.target_cache.keys, *self.target_cache.values):
                tensor[:, :, n:] = float("nan")
            return super().draft(tokens, state, k)

    clean = decode(
        BACKBONE, PROMPT, Spy(LiveHead(tiny_head(BACKBONE), BACKBONE)), draft_length=4, max_new_tokens=16
    )
    cache_filled = Poison(LiveHead(tiny_head(BACKBONE), BACKBONE))
    poisoned = decode(BACKBONE, PROMPT, cache_filled, draft_length=4, max_new_tokens=16)
    assert [s.drafts for s in poisoned.steps] == [s.drafts for s in clean.steps]


def test_pairing_and_post_norm_state(head_calls):
    """The first draft pairs (x[n], h[n-1]): the pending token with the post-norm state that chose it."""
    spy = Spy(LiveHead(tiny_head(BACKBONE), BACKBONE))
    decode(BACKBONE, PROMPT, spy, draft_length=2, max_new_tokens=12)
    for i, (tokens, state, n) in enumerate(spy.drafted):
        first, second = head_calls[2 * i : 2 * i + 2]
        assert torch.equal(first["embedding"], BACKBONE.embed(torch.tensor([[tokens[n]]])))
        assert torch.equal(first["state"], state)
        assert int(BACKBONE.lm_head(state).argmax(-1)) == tokens[n]
        assert torch.equal(second["state"], first["next_state"])  # its own projected state is fed back
        alone = BACKBONE.forward(torch.tensor([tokens[:n]]), BACKBONE.new_cache(capacity=n), 0)[:, -1:]
        torch.testing.assert_close(state, alone, rtol=1e-4, atol=1e-5)
        twice = rms_norm(state, BACKBONE.weights.final_norm, 1e-5)
        assert not torch.allclose(
            twice, state, rtol=1e-2
        )  # the norm is not idempotent here: it was applied once


def test_collected_anchors_use_the_same_inputs_as_the_live_head(head_calls):
    """Pairing, position and visible slots of the batched anchors are those of the live step."""
    head = tiny_head(BACKBONE)
    spy = Spy(LiveHead(head, BACKBONE))
    made = decode(BACKBONE, PROMPT, spy, draft_length=1, max_new_tokens=12)
    live_calls = list(head_calls)
    head_calls.clear()
    read = read_response(BACKBONE, PROMPT, made.tokens)
    head_drafts(head, BACKBONE, read, 1)
    (batched,) = head_calls
    for step, live in zip(made.steps, live_calls, strict=True):
        t, n = step.position, step.context
        assert torch.equal(batched["embedding"][0, t], live["embedding"][0, 0])
        torch.testing.assert_close(batched["state"][0, t], live["state"][0, 0], rtol=1e-4, atol=1e-5)
        assert torch.equal(batched["rotary"][0][0, 0, t], live["rotary"][0][0, 0, 0])
        assert torch.equal(batched["mask"][0, 0, t] == 0, torch.arange(read.cache.capacity) < n)


def test_an_anchor_sees_no_key_of_its_future():
    """Disturb every key and value from one position on: anchors before it draft the same (no mask leak)."""
    head = tiny_head(BACKBONE)
    tokens = decode(BACKBONE, PROMPT, max_new_tokens=16).tokens
    read = read_response(BACKBONE, PROMPT, tokens)
    before = head_drafts(head, BACKBONE, read, 4)
    at = 6
    with torch.inference_mode():
        for tensor in (*read.cache.keys, *read.cache.values):
            tensor[:, :, len(PROMPT) + at :] = 50.0
    after = head_drafts(head, BACKBONE, read, 4)
    assert (before.draft_token[: at + 1] == after.draft_token[: at + 1]).all()
    assert (before.rank[: at + 1] == after.rank[: at + 1]).all()
    assert not (before.draft_top1_prob[at + 1 :] == after.draft_top1_prob[at + 1 :]).all()


def test_head_of_another_width():
    head = tiny_head(BACKBONE)
    object.__setattr__(head.config, "target_hidden_size", 64)
    with pytest.raises(ReferenceImplError, match="target_hidden_size: given 64, allowed 32"):
        LiveHead(head, BACKBONE)


# ----------------------------------------------------------------------------------------- standalone


class CountingStandalone(LiveStandalone):
    """Remembers how wide each of its passes was."""

    def __init__(self, model):
        self.widths = []
        super().__init__(model)

    def _read(self, tokens):
        self.widths.append((self.length, len(tokens)))
        return super()._read(tokens)


def test_standalone_prefills_once_and_catches_up_after_a_full_accept():
    model = tiny_standalone(BACKBONE)
    live = CountingStandalone(model)
    k = 3
    steps = decode(BACKBONE, PROMPT, live, draft_length=k, max_new_tokens=24).steps
    assert {s.accepted == k for s in steps} == {True, False}
    assert live.widths[0] == (0, len(PROMPT))
    passes = iter(live.widths[1:])
    full = False
    for step in steps:
        first = next(passes)
        assert first == ((step.context - 1, 2) if full else (step.context, 1))
        rest = [next(passes) for _ in range(k - 1)]
        assert rest == [(step.context + 1 + i, 1) for i in range(k - 1)]
        full = step.accepted == k
    assert next(passes, None) is None


def test_standalone_drafts_do_not_depend_on_rejected_keys():
    """Its drafts at an anchor equal those of a fresh drafter that reads the true text only."""
    model = tiny_standalone(BACKBONE)
    plain = decode(BACKBONE, PROMPT, max_new_tokens=20).tokens
    live = LiveStandalone(model)
    spy = Spy(live)
    steps = decode(BACKBONE, PROMPT, spy, draft_length=4, max_new_tokens=20).steps
    assert any(s.accepted < 4 for s in steps[:-1])
    state = torch.zeros(1, 1, 32)
    for step in steps:
        fresh = LiveStandalone(model)
        text = [*PROMPT, *plain[: step.position + 1]]
        fresh.prefill(text[:-1], BACKBONE.new_cache(capacity=64))
        assert tuple(fresh.draft(text, state, 4)[0]) == step.drafts


def test_standalone_sees_text_only():
    """Another hidden state, or none that makes sense, changes no draft."""
    live = LiveStandalone(tiny_standalone(BACKBONE))
    results = []
    for state in (torch.zeros(1, 1, 32), torch.full((1, 1, 32), float("nan"))):
        live.prefill(PROMPT[:-1], BACKBONE.new_cache(capacity=64))
        results.append(live.draft(PROMPT, state, 4))
    assert results[0] == results[1]


@pytest.mark.parametrize("own", [[], [2, 5]])
def test_drafters_propose_their_vocabulary_and_the_prompts_tokens(own):
    head, standalone = tiny_head(BACKBONE), tiny_standalone(BACKBONE)
    prompt = [*own, *(token for token in PROMPT if token >= 7)]
    for drafter in (LiveHead(head, BACKBONE), LiveStandalone(standalone)):
        made = decode(BACKBONE, prompt, drafter, draft_length=4, max_new_tokens=20)
        assert all(d >= 7 or d in own for s in made.steps for d in s.drafts)
        assert drafter.lm_head.ids.tolist() == [*range(7, 97), *own]


def test_request_vocabulary_keeps_the_order_and_drops_what_it_has():
    fixed = torch.tensor([4, 9, 11])
    assert request_vocabulary(fixed, [11, 3, 20, 3, 9]).tolist() == [4, 9, 11, 3, 20]
    assert request_vocabulary(fixed, []).tolist() == [4, 9, 11]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_request_head_reads_the_rows_of_its_table(dtype):
    table = torch.randn(30, 16, generator=torch.Generator().manual_seed(0)).to(dtype)
    states = torch.randn(1, 1, 16, generator=torch.Generator().manual_seed(1)).to(dtype)
    head = RequestHead(table, torch.tensor([2, 3, 8]))
    for prompt in ([1, 2, 29], [5]):  # a second request forgets the first one's tokens
        head.start(prompt)
        expected = (states.float() @ table[head.ids].float().T)[0, 0]
        assert torch.allclose(head.logits(states)[0, 0].float(), expected, rtol=2e-2, atol=5e-2)
        token, probability = head.choose(states)
        assert int(token) == int(head.ids[head.logits(states)[0, 0].argmax()])
        assert float(probability) == pytest.approx(
            float(head.logits(states)[0, 0].float().softmax(-1).max()), rel=2e-2
        )


def test_probabilities_are_those_of_the_chosen_tokens():
    live = LiveHead(tiny_head(BACKBONE), BACKBONE)
    cache = BACKBONE.new_cache(capacity=40)
    state = prefill(BACKBONE, PROMPT, cache)
    live.prefill(PROMPT, cache)
    tokens = [*PROMPT, int(BACKBONE.lm_head(state).argmax(-1))]
    drafts, probabilities = live.draft(tokens, state, 3)
    n = len(tokens) - 1
    keys, values = live.visible(n)
    state = live.head.step(
        BACKBONE.embed(torch.tensor([[tokens[n]]])),
        state,
        keys,
        values,
        None,
        live.head.rotary(torch.tensor([[n]])),
    )
    distribution = live.lm_head.logits(state)[0, 0].softmax(-1)
    assert drafts[0] == int(live.lm_head.ids[distribution.argmax()])
    assert probabilities[0] == pytest.approx(float(distribution.max()), rel=1e-5)


# ------------------------------------------------------------------------------- files, packed matrices


@pytest.mark.parametrize("make", [tiny_head, tiny_standalone])
def test_checkpoint_round_trip_and_foreign_target(tmp_path, make):
    model = make(BACKBONE)
    path = tmp_path / "drafter.safetensors"
    save_drafter(path, model, drafter_id="toy", target_id="tiny", target_sha256="aa", dtype=torch.float32)
    loaded, metadata = load_drafter(path, target_sha256="aa")
    assert metadata["id"] == "toy"
    for (name, given), read in zip(model.named_parameters(), loaded.parameters(), strict=True):
        if name == "embedding.weight":  # stored in 8 bits with one scale a row
            row = given.abs().amax(-1, keepdim=True)
            assert ((read - given).abs() <= row / 127 * 0.51 + 1e-3 * row).all()
        else:
            assert torch.equal(given, read)
    with pytest.raises(ReferenceImplError, match="trained for the target with sha256 aa, given bb"):
        load_drafter(path, target_sha256="bb")


def test_damaged_checkpoint(tmp_path):
    path = tmp_path / "drafter.safetensors"
    save_drafter(path, tiny_head(BACKBONE), drafter_id="toy", target_id="tiny", target_sha256="aa")
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ReferenceImplError, match="not a readable safetensors file"):
        load_drafter(path)
    with pytest.raises(ReferenceImplError, match="not a readable safetensors file"):
        load_drafter(tmp_path / "none.safetensors")


def test_packed_matrices_give_the_same_bits():
    random = torch.Generator().manual_seed(0)
    weight = torch.randn(192, 576, generator=random).bfloat16()
    for rows in (1, 2, 5, 9, 33):
        x = torch.randn(1, rows, 576, generator=random).bfloat16()
        assert torch.equal(linear(x, pack(weight)), torch.nn.functional.linear(x, weight))
    assert pack(weight.float()).is_mkldnn is False
    assert pack(weight).is_mkldnn is can_pack(torch.bfloat16)


def test_packing_for_inference_leaves_the_given_model_alone():
    backbone = tiny_backbone(dtype=torch.bfloat16)
    head = tiny_head(backbone)
    packed = for_inference(head)
    assert not any(isinstance(m, PackedLinear) for m in head.modules())
    assert any(isinstance(m, PackedLinear) for m in packed.modules())
    assert for_inference(tiny_head(BACKBONE)).state_dict().keys() == head.state_dict().keys()


def test_bfloat16_speculation_keeps_the_text_of_shape_locked_decoding():
    backbone = tiny_backbone(dtype=torch.bfloat16)
    shape = {"locked_width": 8, "capacity": 64, "keep_logits": True, "max_new_tokens": 16}
    plain = decode(backbone, PROMPT, **shape)
    fast = decode(backbone, PROMPT, LiveHead(tiny_head(backbone), backbone), draft_length=4, **shape)
    scripted = decode(
        backbone, PROMPT, Scripted(len(PROMPT), plain.tokens, [False, False, True]), draft_length=4, **shape
    )
    for other in (fast, scripted):
        assert other.tokens == plain.tokens
        assert torch.equal(torch.stack(other.logits), torch.stack(plain.logits))
