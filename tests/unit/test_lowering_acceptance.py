"""What may be given as acceptance: numbers, names, files, traces, models; one module for both ways to ask."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.acceptance import (
    IidAcceptance,
    PositionalAcceptance,
    PublishedAcceptance,
    TraceAcceptance,
    TransferError,
    trace_from_columns,
)
from simulator.acceptance.trace import write_trace
from simulator.drafters import build_drafter
from simulator.errors import DraftscopeError
from simulator.lowering.acceptance import as_acceptance, kind_of, survival_of
from simulator.specs import load_target
from tests.trace_samples import columns, metadata, random_trace

TARGET = "gemma_4_e4b"
DRAFTER = build_drafter("gemma_4_e4b_assistant", load_target(TARGET))


def read(given, *, draft_length=2, transfer=False, drafter=DRAFTER, target=TARGET):
    return as_acceptance(given, target_id=target, drafter=drafter, draft_length=draft_length,
                         transfer=transfer)  # fmt: skip


@pytest.mark.parametrize("rate", [0.5, 1, np.float64(0.25), np.array([0.1, 0.9])])
def test_numbers_are_independent_rates(rate):
    model = read(rate)
    assert isinstance(model, IidAcceptance)
    assert np.array_equal(model.acceptance_rate, rate)


def test_names_files_traces_and_models(rng, tmp_path):
    assert isinstance(read("gemma_4_e4b_mt_bench"), PublishedAcceptance)
    about, sample = metadata(8, target_id=TARGET, drafter_id=DRAFTER.id), columns(rng, [20, 20])
    write_trace(tmp_path / "mine.parquet", sample, about)
    trace = trace_from_columns(sample, about)
    found = [read(each) for each in (trace, tmp_path / "mine.parquet", str(tmp_path / "mine.parquet"))]
    assert {type(model) for model in found} == {TraceAcceptance}
    assert len({model.mean_acceptance_length(2) for model in found}) == 1
    model = PositionalAcceptance(conditional_rates=(0.9, 0.5))
    assert read(model) is model


def test_a_trace_may_carry_the_name_that_the_drafter_gives_its_traces(rng):
    target = load_target("smollm2_135m")
    drafter = build_drafter("smollm2_mtp_head", target)
    assert drafter.trace_id != drafter.id
    for name in (drafter.id, drafter.trace_id):
        trace = random_trace(rng, [9], metadata={"target_id": target.id, "drafter_id": name})
        model = read(trace, drafter=drafter, target=target.id)
        assert kind_of(model, target_id=target.id, drafter=drafter, draft_length=2) == "measured"


def test_acceptance_of_something_else_is_refused_or_assumed(rng):
    trace = random_trace(rng, [20, 20], metadata={"target_id": TARGET, "drafter_id": "mine"})
    with pytest.raises(TransferError, match="mine"):
        read(trace)
    model = read(trace, transfer=True)
    assert kind_of(model, target_id=TARGET, drafter=DRAFTER, draft_length=2) == "assumed"


def test_nothing_is_needed_for_plain_decoding_and_never_defaulted():
    assert read(None, draft_length=0) is None
    assert kind_of(None, target_id=TARGET, drafter=DRAFTER, draft_length=0) is None
    assert kind_of(read(0.5), target_id=TARGET, drafter=DRAFTER, draft_length=0) is None
    assert survival_of(None, 0) == []
    for length in (1, np.array([0, 2])):
        with pytest.raises(DraftscopeError, match="never defaulted"):
            read(None, draft_length=length)


@pytest.mark.parametrize("given", [True, [0.5], {"rate": 0.5}, object()])
def test_nonsense_is_answered_with_what_is_allowed(given):
    with pytest.raises(DraftscopeError, match=r"give a trace, .* i\.i\.d\. rate"):
        read(given)


def test_survival_is_zero_beyond_each_designs_own_length():
    assert survival_of(read(0.5), 3) == [0.5, 0.25, 0.125]
    first, second = survival_of(read(0.5), np.array([1, 2]))
    assert first.tolist() == [0.5, 0.5]
    assert second.tolist() == [0.0, 0.25]
