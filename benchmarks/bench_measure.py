"""This machine predicted: live speculative speedup against a calibration that saw no speculative run.

A ratio of times that were taken in turns, so that it survives a slow machine. One thread and its processor
time: other processes on the same cores bend it least so.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from reference_impl.fetch import load_target  # noqa: E402
from reference_impl.live import shipped_drafters  # noqa: E402
from reference_impl.measure import Journal, Settings, best_dtype, chosen, measure, software  # noqa: E402
from simulator.cli.measure import DTYPES, evaluate  # noqa: E402

pytestmark = pytest.mark.reference

DRAFTERS = ("mtp_head", "standalone_body", "ngram")
MEDIAN_ERROR = 0.10


def test_live_speedup_is_predicted(benchmark, tmp_path):
    settings = Settings(
        dtype=best_dtype(), threads=1, clock="cpu", drafters=DRAFTERS, prompts=1, new_tokens=48
    )
    target = load_target(getattr(torch, settings.dtype))
    journal = Journal(tmp_path / "journal.jsonl", settings)
    drafters = chosen(DRAFTERS, shipped_drafters(target))
    threads = torch.get_num_threads()
    try:
        benchmark.pedantic(measure, args=(target, drafters, settings, journal), rounds=1, iterations=1)
    finally:
        torch.set_num_threads(threads)
    build = DTYPES[settings.dtype]
    rows, _, extra = evaluate(
        journal.samples, out=tmp_path, target=f"{target.id}@{build}", build=build, drafters=DRAFTERS,
        about=software(settings),
    )  # fmt: skip
    benchmark.extra_info.update({f"{r.drafter} K={r.draft_length}": f"{r.error:+.1%}" for r in rows})
    benchmark.extra_info.update(median_error=extra["median_error"], **extra["median_error_by_drafter"])
    assert {(row.drafter, row.draft_length) for row in rows} == {
        (d, k) for d in DRAFTERS for k in range(1, 9)
    }
    assert extra["median_error"] <= MEDIAN_ERROR
