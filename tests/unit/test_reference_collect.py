"""Anchor traces of tiny drafters: every column against a slow, plain computation; files; resumption."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from reference_impl import collect as module  # noqa: E402
from reference_impl.anchors import drafts_at_anchors, read_response  # noqa: E402
from reference_impl.collect import collect, write_traces  # noqa: E402
from reference_impl.drafters.vocabulary import request_vocabulary  # noqa: E402
from reference_impl.errors import ReferenceImplError  # noqa: E402
from reference_impl.live import LiveHead, LiveStandalone, NamedDrafter, live_drafter  # noqa: E402
from reference_impl.responses import from_responses, to_responses  # noqa: E402
from simulator.acceptance.trace import TraceError, read_responses, read_trace  # noqa: E402
from tests.reference_samples import (  # noqa: E402
    tiny_drafters,
    tiny_head,
    tiny_requests,
    tiny_standalone,
    tiny_target,
)

pytestmark = pytest.mark.reference

TARGET = tiny_target()
BACKBONE = TARGET.backbone
REQUESTS = tiny_requests(BACKBONE, 4, 21)
DRAFTERS = tiny_drafters(BACKBONE)
DEPTH = 5


@pytest.fixture(scope="module")
def collected():
    return collect(TARGET, DRAFTERS, REQUESTS, depth=DEPTH)


def starts():
    return np.cumsum([0] + [len(r.response) for r in REQUESTS])


@pytest.mark.parametrize("drafter", DRAFTERS, ids=lambda d: d.id)
def test_drafts_equal_those_of_the_live_drafter_at_every_anchor(collected, drafter):
    """Also at anchors that no walk visits, and down to probabilities."""
    columns = collected[drafter.id].columns
    for request, start in zip(REQUESTS, starts(), strict=False):
        live = live_drafter(drafter, BACKBONE)
        for t in range(len(request.response) - 1):
            text = [*request.prompt_tokens, *request.response[: t + 1]]
            cache = BACKBONE.new_cache(capacity=len(text) + DEPTH)
            state = BACKBONE.forward(torch.tensor([text[:-1]]), cache, 0)[:, -1:]
            cache.rollback(len(text) - 1)
            live.prefill(request.prompt_tokens, cache)
            drafts, probabilities = live.draft(text, state, DEPTH)
            count = columns["proposed"][start + t]
            assert columns["draft_token"][start + t, :count].tolist() == drafts
            assert (columns["draft_token"][start + t, count:] == -1).all()
            np.testing.assert_allclose(
                columns["draft_top1_prob"][start + t, :count], probabilities, rtol=1e-4
            )
            assert np.isnan(columns["draft_top1_prob"][start + t, count:]).all()


@pytest.mark.parametrize("kind", ["mtp_head", "standalone_body"])
def test_teacher_forced_rank_and_probability(collected, kind):
    """Rank and probability of the true token when the drafter is fed the true text, one anchor at a time."""
    columns = collected[kind].columns
    request, rows = REQUESTS[1], starts()[1]
    end = len(request.response) - 1
    for t in range(end + 1):
        text = [*request.prompt_tokens, *request.response[: t + 1]]
        n = len(text) - 1
        ahead = list(request.response[t + 1 :])
        if kind == "mtp_head":
            live = LiveHead(tiny_head(BACKBONE), BACKBONE)
            cache = BACKBONE.new_cache(capacity=n + 1)
            state = BACKBONE.forward(torch.tensor([text[:-1]]), cache, 0)[:, -1:]
            live.prefill(text[:-1], cache)
            keys, values = live.visible(n)
            rotary = live.head.rotary(torch.tensor([[n]]))
        else:
            model = tiny_standalone(BACKBONE)
        for k in range(1, DEPTH + 1):
            row = rows + t
            if t + k > end:
                assert columns["rank"][row, k - 1] == -1
                assert columns["draft_prob"][row, k - 1] == 0
                continue
            if kind == "mtp_head":
                token = [text[-1], *ahead][k - 1]
                embedding = BACKBONE.embed(torch.tensor([[token]]))
                state = live.head.step(embedding, state, keys, values, None, rotary)
                states, table = state[0, 0], BACKBONE.weights.embedding
            else:
                states = model(torch.tensor([[*text, *ahead[: k - 1]]]))[0, -1]
                table = model.embedding.weight
            ids = request_vocabulary(torch.arange(7, 97), request.prompt_tokens)
            logits = table[ids] @ states
            true = (ids == ahead[k - 1]).nonzero().flatten()
            if not len(true):
                assert columns["rank"][row, k - 1] == -1
                assert columns["draft_prob"][row, k - 1] == 0
            else:
                probabilities = logits.softmax(-1)
                expected = int((probabilities > probabilities[true]).sum())
                assert columns["rank"][row, k - 1] == expected
                assert columns["draft_prob"][row, k - 1] == pytest.approx(
                    float(probabilities[true]), rel=1e-3
                )


def test_rank_zero_is_agreement_at_the_first_depth(collected):
    for drafter in ("mtp_head", "standalone_body"):
        columns = collected[drafter].columns
        following = np.roll(columns["token"], -1)
        inner = columns["proposed"] > 0
        right = columns["draft_token"][:, 0] == following
        assert (right[inner] == (columns["rank"][:, 0] == 0)[inner]).all()
        assert right[inner].any() and not right[inner].all()


def test_target_columns(collected):
    columns = collected["ngram"].columns
    for request, start in zip(REQUESTS, starts(), strict=False):
        tokens = [*request.prompt_tokens, *request.response]
        prompt = len(request.prompt_tokens)
        hidden = BACKBONE.forward(torch.tensor([tokens]), BACKBONE.new_cache(capacity=len(tokens)), 0)[0]
        distribution = BACKBONE.lm_head(hidden).softmax(-1)
        for t in range(len(request.response) - 1):
            row = distribution[prompt + t]
            assert int(row.argmax()) == request.response[t + 1]
            assert columns["target_top1_prob"][start + t] == pytest.approx(float(row.max()), rel=1e-4)
            entropy = float(-(row * row.log()).nan_to_num().sum())
            assert columns["target_entropy"][start + t] == pytest.approx(entropy, rel=1e-3)
            for k in range(columns["proposed"][start + t]):
                given = columns["target_prob_of_draft"][start + t, k]
                if t + k < len(request.response) - 1:
                    draft = columns["draft_token"][start + t, k]
                    expected = float(distribution[prompt + t + k, draft])
                    assert given == pytest.approx(expected, rel=1e-3, abs=1e-8)
                else:
                    assert np.isnan(given)
        last = start + len(request.response) - 1
        assert np.isnan(columns["target_top1_prob"][last])
        assert columns["proposed"][last] == 0
    assert (columns["context_length"] - columns["position"]).tolist() == [
        len(r.prompt_tokens) for r in REQUESTS for _ in r.response
    ]


def test_lookups_rank_what_they_propose(collected):
    columns = collected["suffix"].columns
    assert set(np.unique(columns["rank"])) <= {-1, 0}
    hit = columns["rank"] == 0
    assert hit.any()
    np.testing.assert_array_equal(columns["draft_prob"][hit], columns["draft_top1_prob"][hit])


def test_one_token_response():
    read = read_response(BACKBONE, [1, 2, 3], [4])
    assert read.anchors == 0
    for drafter in DRAFTERS:
        drafts = drafts_at_anchors(drafter.model, BACKBONE, read, 3)
        assert drafts.draft_token.shape == (0, 3)


# ------------------------------------------------------------------------------------------------ files


def test_files_pass_the_checks_of_the_format(tmp_path, collected):
    paths = write_traces(
        tmp_path, TARGET, DRAFTERS, REQUESTS, collected, task_set="toy", date="2026-01-01", note="a test"
    )
    for drafter, path in zip(DRAFTERS, paths, strict=True):
        trace = read_trace(path)
        assert path == tmp_path / "tiny" / f"{drafter.id}.parquet"
        assert trace.metadata.drafter_id == drafter.id
        assert trace.metadata.target_sha256 == TARGET.sha256
        assert trace.metadata.drafter_params == drafter.params
        assert trace.metadata.max_depth == DEPTH
        assert trace.request_ids == tuple(r.request_id for r in REQUESTS)
        np.testing.assert_array_equal(trace["draft_token"], collected[drafter.id].columns["draft_token"])
        np.testing.assert_allclose(trace.train_overlap, 0.125)
    responses = read_responses(tmp_path / "tiny" / "responses.parquet")
    assert from_responses(TARGET, responses) == REQUESTS


def test_responses_of_another_target():
    stored = to_responses(TARGET, REQUESTS)
    other = type(TARGET)("other", "1", BACKBONE, TARGET.tokenizer)
    with pytest.raises(ReferenceImplError, match="target: given 'tiny', allowed 'other'"):
        from_responses(other, stored)


def test_full_disk_leaves_the_old_trace(tmp_path, collected, monkeypatch):
    write_traces(tmp_path, TARGET, DRAFTERS[:1], REQUESTS, collected, task_set="toy", date="2026-01-01")
    path = tmp_path / "tiny" / "mtp_head.parquet"
    before = path.read_bytes()

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("simulator.acceptance.parquet.pq.write_table", full)
    with pytest.raises(TraceError, match=r"mtp_head\.parquet: could not be written.*No space left"):
        write_traces(tmp_path, TARGET, DRAFTERS[:1], REQUESTS, collected, task_set="toy", date="2026-01-02")
    assert path.read_bytes() == before
    assert sorted(p.name for p in path.parent.iterdir()) == [
        "mtp_head.parquet",
        "responses.parquet",
        "token_texts.json",
    ]


def test_a_killed_run_goes_on(tmp_path, collected, monkeypatch):
    """The second task fails; on the next run the first one is not computed again."""
    calls = []
    original = module.read_response

    def counting(backbone, prompt, response):
        calls.append(tuple(prompt))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(backbone, prompt, response)

    monkeypatch.setattr(module, "read_response", counting)
    with pytest.raises(KeyboardInterrupt):
        collect(TARGET, DRAFTERS, REQUESTS, depth=DEPTH, scratch=tmp_path)
    calls.append(())  # past the third call
    lines = []
    again = collect(TARGET, DRAFTERS, REQUESTS, depth=DEPTH, scratch=tmp_path, report=lines.append)
    assert calls[4:] == [r.prompt_tokens for r in REQUESTS[2:]]
    assert "kept from an earlier run" in lines[0]
    for drafter in DRAFTERS:
        for name, column in collected[drafter.id].columns.items():
            np.testing.assert_array_equal(again[drafter.id].columns[name], column)
    count = len(calls)
    collect(TARGET, DRAFTERS, REQUESTS, depth=DEPTH, scratch=tmp_path)
    assert len(calls) == count


def test_scratch_of_another_drafter_is_not_used(tmp_path):
    first = NamedDrafter("mtp_head", "frozen_mtp", tiny_head(BACKBONE))
    other = NamedDrafter("mtp_head", "frozen_mtp", tiny_head(BACKBONE, seed=9))
    a = collect(TARGET, [first], REQUESTS[:1], depth=2, scratch=tmp_path)
    b = collect(TARGET, [other], REQUESTS[:1], depth=2, scratch=tmp_path)
    assert not np.array_equal(
        a["mtp_head"].columns["draft_top1_prob"], b["mtp_head"].columns["draft_top1_prob"]
    )


def test_bad_input():
    with pytest.raises(ReferenceImplError, match="0 requests"):
        collect(TARGET, DRAFTERS, [])
    with pytest.raises(ReferenceImplError, match=r"depth: given 0, allowed 1\.\.127"):
        collect(TARGET, DRAFTERS, REQUESTS, depth=0)


def test_standalone_and_live_share_no_state():
    """Collecting leaves the models as they were."""
    model = tiny_standalone(BACKBONE)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    collect(TARGET, [NamedDrafter("standalone_body", "standalone", model)], REQUESTS[:1], depth=2)
    LiveStandalone(model)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
