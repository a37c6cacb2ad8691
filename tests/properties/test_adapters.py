"""Whatever the bytes: a file of a tool is read, or refused with one clear error, and nothing else happens."""

from __future__ import annotations

import math
import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simulator.adapters.measure import write_observations
from simulator.adapters.observations import (
    FORMATS,
    Observations,
    PassTime,
    PrefillTime,
    SpeculativeRun,
    read_observations,
)
from simulator.adapters.step_logs import read_step_log
from simulator.errors import DraftscopeError
from tests.adapter_samples import SAMPLES

NAMES = sorted(
    path.name for path in SAMPLES.iterdir() if path.suffix != ".parquet" and path.name != "README.md"
)
COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture]}
PARTS = [
    "\n", " ", ",", "|", "{", "}", "[", "]", '"', ":", "=", "NaN", "-1", "1e999", "9" * 400, "0", "inf",
    "\x00", "±",
    "eval time = 1 ms / 1 tokens", "accepted 1/1 draft tokens, new n_tokens = 3", "id 1 | task 1 |",
]  # fmt: skip


def read_or_refuse(path, format):
    """Observations that hold numbers, or an error of one line."""
    try:
        found = read_observations(path, format)
    except DraftscopeError as error:
        assert str(path) in str(error)
        assert "\n" not in str(error)
        return
    for one in (*found.passes, *found.prefills):
        assert one.seconds > 0
        assert math.isfinite(one.seconds)
    assert found.passes or found.prefills or found.runs


def import_or_refuse(path):
    try:
        trace = read_step_log(path, target_id="t", drafter_id="d")
    except DraftscopeError as error:
        assert str(path) in str(error)
        assert "\n" not in str(error)
        return
    assert len(trace) > 0


@settings(max_examples=150, **COMMON)
@given(data=st.binary(max_size=300), format=st.sampled_from([None, *FORMATS]))
def test_random_bytes(tmp_path, data, format):
    path = tmp_path / "file"
    path.write_bytes(data)
    read_or_refuse(path, format)
    import_or_refuse(path)


@settings(max_examples=100, **COMMON)
@given(data=st.lists(st.sampled_from(PARTS) | st.text(string.printable, max_size=8), max_size=30),
       format=st.sampled_from([None, *FORMATS]))  # fmt: skip
def test_random_text(tmp_path, data, format):
    path = tmp_path / "file"
    path.write_text("".join(data), encoding="utf-8")
    read_or_refuse(path, format)
    import_or_refuse(path)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, **COMMON)
@given(data=st.data())
def test_damaged_samples(tmp_path, name, data):
    content = (SAMPLES / name).read_bytes()
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, min(len(content), start + 12)))
    put = data.draw(st.binary(max_size=4) | st.sampled_from(PARTS).map(str.encode))
    end = data.draw(st.sampled_from([end, len(content)]))
    path = tmp_path / name
    path.write_bytes(content[:start] + put + content[end:])
    read_or_refuse(path, None)
    read_or_refuse(path, data.draw(st.sampled_from(list(FORMATS))))
    import_or_refuse(path)


POSITIVE = st.floats(1e-12, 1e12)
TIMES = st.floats(1e-9, 1e4)
COUNT = st.integers(1, 10**9)
SOME = st.none() | POSITIVE
TEXT = st.text(max_size=20)
PASSES = st.builds(PassTime, width=st.floats(1, 64), context=st.floats(0, 1e6), seconds=TIMES,
                   stderr_s=st.none() | TIMES, passes=COUNT, where=TEXT)  # fmt: skip
PREFILLS = st.builds(
    PrefillTime, tokens=st.floats(1, 1e6), seconds=TIMES, stderr_s=st.none() | TIMES, where=TEXT
)
RATES = st.lists(st.floats(0, 1), max_size=4).map(lambda rates: tuple(sorted(rates, reverse=True)))
RUNS = st.builds(
    SpeculativeRun, drafter=TEXT, draft_length=st.none() | st.integers(0, 64), steps=SOME,
    drafted_tokens=SOME, decode_s=SOME, draft_s=SOME, verify_s=SOME, baseline_tokens_per_s=SOME,
    task=st.none() | TEXT, where=TEXT, per_position_acceptance_rate=RATES,
)  # fmt: skip


@settings(max_examples=60, **COMMON)
@given(
    observations=st.builds(
        Observations, source=TEXT, format=st.sampled_from(list(FORMATS)), device=st.none() | TEXT,
        weight_bytes=SOME, passes=st.lists(PASSES, min_size=1, max_size=3).map(tuple),
        prefills=st.lists(PREFILLS, max_size=2).map(tuple), runs=st.lists(RUNS, max_size=2).map(tuple),
        ignored=st.lists(TEXT, max_size=2).map(tuple),
    )
)  # fmt: skip
def test_our_own_file_gives_back_what_was_written(tmp_path, observations):
    path = write_observations(tmp_path / "measurement.json", observations)
    assert read_observations(path) == observations
