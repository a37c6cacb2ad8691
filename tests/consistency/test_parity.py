"""The parity run on six prompts of the real target, and its bookkeeping on a tiny one."""

from __future__ import annotations

import dataclasses
import json

import pytest

torch = pytest.importorskip("torch")

from reference_impl import parity  # noqa: E402
from reference_impl.collect import collect  # noqa: E402
from reference_impl.decode import decode, probe_width  # noqa: E402
from reference_impl.identity import (  # noqa: E402
    NEAR_TIE,
    locked_record,
    natural_record,
    next_token_gap,
    replay_record,
)
from reference_impl.live import shipped_drafters  # noqa: E402
from reference_impl.parity import DRAFT_LENGTHS, Plan, Records, run  # noqa: E402
from reference_impl.responses import from_responses  # noqa: E402
from simulator.acceptance.trace import load_shipped, load_shipped_responses  # noqa: E402
from tests.reference_samples import (  # noqa: E402
    real_target,
    tiny_backbone,
    tiny_drafters,
    tiny_prompts,
    tiny_requests,
    tiny_target,
)

pytestmark = pytest.mark.reference

NEW_TOKENS = 10
CAPACITY = 256


@pytest.fixture(scope="module")
def six():
    """The shortest prompt of each task with the first tokens of its response."""
    target = real_target(torch.float32)
    stored = from_responses(target, load_shipped_responses(target.id))
    shortest = {}
    for request in sorted(stored, key=lambda r: len(r.prompt_tokens)):
        if len(request.response) >= NEW_TOKENS:
            shortest.setdefault(request.task, request)
    return [dataclasses.replace(r, response=r.response[:NEW_TOKENS]) for r in shortest.values()]


@pytest.fixture(scope="module")
def drafters():
    return shipped_drafters(real_target(torch.float32))


@pytest.mark.slow
def test_replay_is_the_live_loop_on_six_prompts(six, drafters):
    """Every drafter; the draft lengths take turns over the prompts."""
    target = real_target(torch.float32)
    traces = collect(target, drafters, six)
    first = 0
    for i, request in enumerate(six):
        k = DRAFT_LENGTHS[i % len(DRAFT_LENGTHS)]
        for drafter in drafters:
            record = replay_record(target.backbone, drafter, request, traces[drafter.id], first, k)
            assert record["draft_mismatches"] == 0, (drafter.id, k, request.request_id)
            assert not record["unexplained"], (drafter.id, k, request.request_id)
            assert record["text_equal"] or record["text_gap"] < NEAR_TIE
        first += len(request.response)


def test_shipped_traces_are_those_of_the_shipped_drafters(six, drafters):
    """Recording again gives the shipped rows (near ties aside)."""
    target = real_target(torch.float32)
    fresh = collect(target, drafters, six[:2])
    for drafter in drafters:
        shipped = load_shipped(target.id, drafter.id)
        assert shipped.metadata.target_sha256 == target.sha256
        assert shipped.metadata.drafter_sha256 == drafter.sha256
        first = 0
        for request in six[:2]:
            at = shipped.start[shipped.request_ids.index(request.request_id)]
            rows = len(request.response) - 1
            old = shipped["draft_token"][at : at + rows]
            new = fresh[drafter.id].columns["draft_token"][first : first + rows]
            gap = fresh[drafter.id].gap[first : first + rows]
            first += rows + 1
            for a, b, g in zip(old, new, gap, strict=True):
                other = (a != b).nonzero()[0]
                assert not len(other) or g[other[0]] < NEAR_TIE, drafter.id


@pytest.mark.slow
def test_shape_locked_identity_on_six_prompts(six, drafters):
    backbone = real_target(torch.float32).backbone
    width = probe_width(backbone, 4, capacity=CAPACITY)
    for request in six:
        record = locked_record(
            backbone,
            drafters,
            request.prompt_tokens,
            draft_length=4,
            max_new_tokens=NEW_TOKENS,
            width=width,
            capacity=CAPACITY,
        )
        assert record["equal"] == {d.id: True for d in drafters}


# ------------------------------------------------------------------------------- a tiny target, quickly


def test_natural_record_reports_the_gap_at_a_divergence():
    """A drafter cannot change the text, so the other text is forced here by another target."""
    backbone, other = tiny_backbone(), tiny_backbone(gain=0.26)
    prompt = tiny_prompts(1, 5)[0]
    drafters = tiny_drafters(backbone)
    record = natural_record(backbone, drafters, prompt, draft_length=4, max_new_tokens=12)
    assert record["divergences"] == {}
    plain = decode(backbone, prompt, max_new_tokens=12).tokens
    for at in range(3):
        text = [*prompt, *plain[:at]]
        logits = backbone.lm_head(
            backbone.forward(torch.tensor([text]), backbone.new_cache(capacity=len(text)), 0)
        )[0, -1]
        best = logits.sort(descending=True).values
        assert next_token_gap(backbone, text) == pytest.approx(float(best[0] - best[1]), abs=1e-5)
    assert next_token_gap(other, prompt) != next_token_gap(backbone, prompt)


def test_records_survive_a_kill(tmp_path):
    path = tmp_path / "records.jsonl"
    calls = []

    def make():
        calls.append(1)
        return {"n": len(calls)}

    records = Records(path, {"plan": 1})
    assert records.get("a", make) == records.get("a", make) == {"n": 1}
    with path.open("a") as handle:
        handle.write('{"key": "b", "record": {"n"')  # killed in the middle of a line
    again = Records(path, {"plan": 1})
    assert again.get("a", make) == {"n": 1}
    assert again.get("b", make) == {"n": 2}
    assert Records(path, {"plan": 1}).get("b", make) == {"n": 2}
    assert Records(path, {"plan": 2}).get("a", make) == {"n": 3}  # another run: start over


def test_the_whole_run_on_a_tiny_target(tmp_path, monkeypatch):
    target = tiny_target()
    requests = tiny_requests(target.backbone, 4, 21, new_tokens=10)
    monkeypatch.setattr(parity, "make_responses", lambda *_, **__: requests)
    monkeypatch.setattr(parity, "transformers_model", lambda: None)
    monkeypatch.setattr(
        parity, "oracle_record", lambda *_: {"tokens": 1, "relative": 0.0, "same_choice": 1.0}
    )
    drafters = tiny_drafters(target.backbone)
    plan = Plan(
        replay_prompts=2,
        locked_prompts=2,
        oracle_prompts=1,
        draft_lengths=(1, 4),
        max_new_tokens=10,
        capacity=64,
    )
    lines = []
    summary = run(target, drafters, plan, scratch=tmp_path, report=lines.append, bfloat16=(target, drafters))
    for drafter in drafters:
        for k in ("1", "4"):
            found = summary["replay"][drafter.id][k]
            assert found["requests_with_equal_steps"] == summary["replay"]["prompts"] == 4
            assert found["draft_mismatches"] == found["unexplained_requests"] == 0
    assert summary["locked"]["prompts_with_equal_tokens_and_logits"] == {d.id: 4 for d in drafters}
    assert summary["natural_float32"]["identical_texts"] == {d.id: 4 for d in drafters}
    assert summary["oracle"]["least_same_choice"] == 1.0
    again = run(target, drafters, plan, scratch=tmp_path, report=lines.append, bfloat16=(target, drafters))
    assert again == summary == json.loads(json.dumps(summary))
