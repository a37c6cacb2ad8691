"""The PyTorch reference on this machine: ratios measured in one run, so that they survive a slow machine.

Run alone: a second process on the same cores bends every ratio that depends on memory bandwidth.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from reference_impl.live import shipped_drafters  # noqa: E402
from reference_impl.measure_live import (  # noqa: E402
    collection_rates,
    live_rate,
    transformers_rates,
    verify_curve,
)
from reference_impl.responses import from_responses  # noqa: E402
from reference_impl.tasks import TASKS, prompts  # noqa: E402
from simulator.acceptance.trace import load_shipped_responses  # noqa: E402
from tests.reference_samples import real_target  # noqa: E402

pytestmark = pytest.mark.reference

PROMPTS = 3
WIDTHS = (1, 2, 3, 4, 5, 6, 8, 9, 12, 16)
COLLECTION_SHARE = 0.5
TRANSFORMERS_RATIO = 1.8


def the_head(target):
    found = [d for d in shipped_drafters(target) if d.id == "mtp_head"]
    if not found:
        pytest.skip("no trained head is shipped")
    return found[0]


def once(benchmark, function, *arguments, **options):
    return benchmark.pedantic(function, args=arguments, kwargs=options, rounds=1, iterations=1)


def test_trace_collection_runs_at_half_the_prefill_rate(benchmark):
    target = real_target(torch.float32)
    by_task = {}
    for request in from_responses(target, load_shipped_responses(target.id)):
        by_task.setdefault(request.task, []).append(request)
    requests = [request for some in by_task.values() for request in some[:2]]
    drafter = the_head(target)
    collection_rates(target, drafter, requests[:2])
    prefill_rate, collect_rate = once(benchmark, collection_rates, target, drafter, requests)
    benchmark.extra_info.update(prefill_tokens_per_s=prefill_rate, collected_tokens_per_s=collect_rate)
    assert collect_rate >= COLLECTION_SHARE * prefill_rate


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("drafter_id", ["mtp_head", "ngram"])
def test_live_decoding_against_plain(benchmark, task, drafter_id):
    """A record, not a gate: how often the drafter is right decides it. Target for the head: 1.5x."""
    target = real_target(torch.bfloat16)
    drafter = {d.id: d for d in [the_head(target), *shipped_drafters(target)]}[drafter_id]
    encoded = [target.encode_chat(p.messages) for p in prompts(task, "test", PROMPTS, 0)]
    rate = once(
        benchmark,
        live_rate,
        target,
        drafter,
        encoded,
        draft_length=4,
        max_new_tokens=TASKS[task].max_new_tokens,
        repeats=2,
    )
    benchmark.extra_info.update(
        speedup=rate.speedup,
        plain_tokens_per_s=rate.plain_tokens_per_s,
        mean_acceptance_length=rate.mean_acceptance_length,
        draft_share=rate.draft_share,
        identical_texts=f"{rate.identical_texts}/{rate.prompts}",
    )
    assert rate.mean_acceptance_length >= 1


@pytest.mark.filterwarnings("ignore")
def test_plain_decoding_against_transformers(benchmark):
    pytest.importorskip("transformers")
    from reference_impl.identity import transformers_model

    target = real_target(torch.bfloat16)
    model = transformers_model(torch.bfloat16)
    encoded = [target.encode_chat(p.messages) for p in prompts("chat", "test", 2, 0)]
    transformers_rates(target, model, encoded[:1], new_tokens=8, repeats=1)
    theirs, ours = once(benchmark, transformers_rates, target, model, encoded, new_tokens=48)
    benchmark.extra_info.update(ratio=ours / theirs, transformers_tokens_per_s=theirs, tokens_per_s=ours)
    assert ours >= TRANSFORMERS_RATIO * theirs


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_verify_curve(benchmark, dtype):
    """v(w): in float32 it need not be monotone, in bfloat16 it is nearly flat."""
    curve = once(benchmark, verify_curve, real_target(dtype).backbone, WIDTHS)
    benchmark.extra_info.update({f"v({w})": round(s / curve[1], 3) for w, s in curve.items()})
    benchmark.extra_info.update(width_1_ms=1e3 * curve[1])
    assert all(seconds > 0 for seconds in curve.values())
