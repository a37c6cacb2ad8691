"""Step traces: round trip, checks, and the table that statistics read."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.acceptance.schema import TraceError
from simulator.acceptance.statistics import statistics_of
from simulator.acceptance.steps import StepTrace, read_step_trace, write_step_trace
from simulator.acceptance.trace import read_trace, write_trace
from tests.trace_samples import columns, metadata

STEPS = {
    "request_id": ["a", "a", "b", "b"],
    "task": ["chat"] * 4,
    "context": [10, 13, 20, 21],
    "proposed": [4, 4, 2, 3],
    "accepted": [2, 1, 0, 3],
    "draft_passes": [4, 4, 3, 3],
    "verify_width": [5, 5, 3, 4],
    "emitted": [3, 2, 1, 3],
}


def make(**changes):
    return StepTrace(target_id="t", drafter_id="d", origin="tool 1.0", columns={**STEPS, **changes})


def test_round_trip(tmp_path):
    path = tmp_path / "steps.parquet"
    write_step_trace(path, make())
    back = read_step_trace(path)
    assert (back.target_id, back.drafter_id, back.origin, len(back)) == ("t", "d", "tool 1.0", 4)
    for name, values in STEPS.items():
        assert back.columns[name].tolist() == values


def test_table_and_statistics():
    table = make().table()
    assert table.draft_length == 4
    assert table.position.tolist() == [0, 3, 0, 1]
    assert table.remaining.tolist() == [5, 2, 4, 3]
    assert table.partial.tolist() == [False, False, False, True]
    statistics = statistics_of(table)
    assert statistics.mean_acceptance_length == pytest.approx(1 + 6 / 4)
    assert statistics.draft_acceptance_rate == pytest.approx(6 / 13)
    np.testing.assert_allclose(statistics.per_position_acceptance_rate, [3 / 4, 2 / 4, 1 / 4, 0])
    # position 4: proposed in both steps of "a", reached in neither
    np.testing.assert_allclose(statistics.conditional_acceptance_rate[:3], [3 / 4, 2 / 3, 1 / 2])
    assert np.isnan(statistics.conditional_acceptance_rate[3])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"accepted": [2, 5, 0, 3]}, "column 'accepted', row 1: given 5, allowed: 0..proposed"),
        ({"emitted": [3, 2, 0, 3]}, "column 'emitted', row 2: given 0"),
        ({"emitted": [4, 2, 1, 3]}, "column 'emitted', row 0: given 4"),
        ({"verify_width": [0, 5, 3, 4]}, "column 'verify_width', row 0: given 0, allowed: >= 1"),
        ({"context": [-1, 13, 20, 21]}, "column 'context', row 0: given -1"),
        (
            {"context": [10, 13, 20, 10_000_001]},
            "column 'context', row 3: given 10000001, allowed: <= 10000000",
        ),
        ({"proposed": [4, 2_000_000_000, 2, 3]}, "column 'proposed', row 1: given 2000000000, .* <= 1024"),
        ({"context": [1.0, 2.0, 3.0, 4.0]}, "column 'context': float64 .* allowed: 4 integers"),
        ({"request_id": ["a", "b", "a", "b"]}, "not contiguous"),
        ({"width": [1, 1, 1, 1]}, "unknown column 'width'; nearest: 'verify_width'"),
        ({name: [] for name in STEPS}, r"empty \(no rows\)"),
    ],
)
def test_bad_steps(changes, message):
    with pytest.raises(TraceError, match=message):
        make(**changes)


def test_missing_column():
    with pytest.raises(TraceError, match="column 'emitted' is missing"):
        StepTrace(
            target_id="t",
            drafter_id="d",
            origin="",
            columns={k: v for k, v in STEPS.items() if k != "emitted"},
        )


def test_an_anchor_trace_is_not_a_step_trace(tmp_path, rng):
    path = tmp_path / "t.parquet"
    write_trace(path, columns(rng, [3]), metadata(8))
    with pytest.raises(TraceError, match="not a step trace"):
        read_step_trace(path)


def test_a_step_trace_is_not_an_anchor_trace(tmp_path):
    path = tmp_path / "steps.parquet"
    write_step_trace(path, make())
    with pytest.raises(TraceError, match=r"steps\.parquet: is a step trace, .* needed: an anchor trace"):
        read_trace(path)


def test_a_folder_is_not_a_step_trace(tmp_path):
    with pytest.raises(TraceError, match=r"is a folder; allowed: a file\."):
        read_step_trace(tmp_path)
