"""Replay of a trace is the live loop, token for token, for every drafter and draft length."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from reference_impl.collect import collect  # noqa: E402
from reference_impl.decode import decode  # noqa: E402
from reference_impl.identity import replay_record, walk  # noqa: E402
from reference_impl.live import live_drafter  # noqa: E402
from simulator.acceptance import replay  # noqa: E402
from simulator.acceptance.schema import TraceMetadata, trace_from_columns  # noqa: E402
from tests.reference_samples import tiny_drafters, tiny_requests, tiny_target  # noqa: E402

pytestmark = pytest.mark.reference

TARGET = tiny_target(2)
REQUESTS = tiny_requests(TARGET.backbone, 6, 4, new_tokens=24)
DRAFTERS = {d.id: d for d in tiny_drafters(TARGET.backbone)}


@pytest.fixture(scope="module")
def collected():
    return collect(TARGET, list(DRAFTERS.values()), REQUESTS)


def as_trace(collected, drafter_id):
    metadata = TraceMetadata(
        target_id=TARGET.id,
        target_sha256=TARGET.sha256,
        drafter_id=drafter_id,
        drafter_family="toy",
        dtype="float32",
        max_depth=8,
        task_set="toy",
        date="2026-01-01",
    )
    return trace_from_columns(collected[drafter_id].columns, metadata)


@pytest.mark.parametrize("drafter_id", DRAFTERS)
@pytest.mark.parametrize("k", [1, 2, 3, 4, 8])
def test_replay_is_the_live_loop(collected, drafter_id, k):
    trace = as_trace(collected, drafter_id)
    table = replay(trace, k)
    replayed = list(
        zip(
            *(
                getattr(table, name).tolist()
                for name in ("request", "position", "context", "proposed", "accepted", "emitted")
            ),
            strict=True,
        )
    )
    live, texts = [], []
    for index, request in enumerate(REQUESTS):
        drafter = live_drafter(DRAFTERS[drafter_id], TARGET.backbone)
        made = decode(TARGET.backbone, request.prompt_tokens, drafter, draft_length=k, max_new_tokens=24)
        texts.append(tuple(made.tokens))
        live += [(index, s.position, s.context, s.proposed, s.accepted, s.emitted) for s in made.steps]
        for step in made.steps:
            row = trace.start[index] + step.position
            assert tuple(trace["draft_token"][row, : step.proposed]) == step.drafts
    assert texts == [r.response for r in REQUESTS]
    assert live == replayed


@pytest.mark.parametrize("drafter_id", DRAFTERS)
def test_the_walk_of_the_parity_run_is_the_simulators_replay(collected, drafter_id):
    trace = as_trace(collected, drafter_id)
    for k in (1, 3, 8):
        table = replay(trace, k)
        mine = []
        for first, length in zip(trace.start[:-1], trace.lengths, strict=True):
            mine += walk(collected[drafter_id], int(first), int(length), k)
        columns = (table.position, table.proposed, table.accepted, table.emitted)
        assert mine == list(zip(*(c.tolist() for c in columns), strict=True))


@pytest.mark.parametrize("drafter_id", DRAFTERS)
def test_parity_record(collected, drafter_id):
    record = replay_record(TARGET.backbone, DRAFTERS[drafter_id], REQUESTS[0], collected[drafter_id], 0, 4)
    assert record["steps_equal"] and record["text_equal"] and not record["unexplained"]
    assert record["draft_mismatches"] == record["draft_near_ties"] == 0


def test_parity_record_notices_a_wrong_trace(collected):
    """One draft changed: the live loop proposes another token, and no near tie explains it."""
    broken = collect(TARGET, [DRAFTERS["mtp_head"]], REQUESTS[:1])["mtp_head"]
    broken.columns["draft_token"][0, 0] = (broken.columns["draft_token"][0, 0] + 1) % 90
    record = replay_record(TARGET.backbone, DRAFTERS["mtp_head"], REQUESTS[0], broken, 0, 2)
    assert record["draft_mismatches"] == 1
    broken.gap[0, 0] = 5e-5
    record = replay_record(TARGET.backbone, DRAFTERS["mtp_head"], REQUESTS[0], broken, 0, 2)
    assert (record["draft_mismatches"], record["draft_near_ties"]) == (0, 1)
