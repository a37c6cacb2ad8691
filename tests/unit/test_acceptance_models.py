"""Closed-form acceptance: golden values, inversion, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.acceptance import (
    AcceptanceError,
    IidAcceptance,
    LengthAcceptance,
    PositionalAcceptance,
    TraceAcceptance,
    TransferError,
    replay,
    sample_accepted,
    statistics_of,
)
from simulator.acceptance.schema import trace_from_columns
from simulator.analytic import predict
from simulator.errors import DraftscopeError, UnknownNameError
from simulator.studies.replays import ReplayedTrace
from tests.trace_samples import columns, metadata, random_trace

# (1 - a^(K+1)) / (1 - a) by hand for a = 0.8, K = 4: (1 - 0.32768) / 0.2 = 3.3616
GOLDEN_IID = {
    0.6: [1.60, 1.96, 2.18, 2.31, 2.38, 2.43, 2.46, 2.47],
    0.7: [1.70, 2.19, 2.53, 2.77, 2.94, 3.06, 3.14, 3.20],
    0.8: [1.80, 2.44, 2.95, 3.36, 3.69, 3.95, 4.16, 4.33],
    0.9: [1.90, 2.71, 3.44, 4.10, 4.69, 5.22, 5.70, 6.13],
}


def test_iid_hand_check():
    assert IidAcceptance(acceptance_rate=0.8).mean_acceptance_length(4) == pytest.approx(3.3616, rel=1e-12)


@pytest.mark.parametrize("rate", GOLDEN_IID)
def test_iid_table(rate):
    lengths = IidAcceptance(acceptance_rate=rate).mean_acceptance_length(np.arange(1, 9))
    np.testing.assert_allclose(lengths, GOLDEN_IID[rate], atol=0.006)


def test_iid_limits():
    assert IidAcceptance(acceptance_rate=0.0).mean_acceptance_length(5) == 1.0
    assert IidAcceptance(acceptance_rate=1.0).mean_acceptance_length(5) == 6.0
    assert IidAcceptance(acceptance_rate=1 - 1e-13).mean_acceptance_length(5) == pytest.approx(6.0, rel=1e-9)
    for rate in (0.0, 0.3, 1.0):
        assert IidAcceptance(acceptance_rate=rate).mean_acceptance_length(0) == 1.0


def test_iid_broadcasts_rates_against_draft_lengths():
    model = IidAcceptance(acceptance_rate=np.array([[0.5], [0.8]]))
    lengths = model.mean_acceptance_length(np.array([0, 1, 4]))
    assert lengths.shape == (2, 3)
    assert lengths[1, 2] == pytest.approx(3.3616)
    assert model.per_position_acceptance_rate(3).shape == (2, 1, 3)


def test_iid_interval():
    assert IidAcceptance(acceptance_rate=0.7).interval(4) is None
    low, high = IidAcceptance(acceptance_rate=0.7, low=0.6, high=0.8).interval(4)
    assert (low, high) == pytest.approx((2.30, 3.3616), abs=0.01)
    with pytest.raises(AcceptanceError, match="are not a range"):
        IidAcceptance(acceptance_rate=0.7, low=0.8, high=0.6)
    with pytest.raises(AcceptanceError, match="are not a range"):
        IidAcceptance(acceptance_rate=0.7, low=0.8)


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan"), float("inf")])
def test_rates_that_are_none(rate):
    with pytest.raises(AcceptanceError, match=r"acceptance_rate: given .*, allowed: 0..1"):
        IidAcceptance(acceptance_rate=rate)


@pytest.mark.parametrize("length", [-1, 1.5, float("nan")])
def test_draft_lengths_that_are_none(length):
    with pytest.raises(AcceptanceError, match=r"draft_length: given .*, allowed: whole numbers >= 0"):
        IidAcceptance(acceptance_rate=0.5).mean_acceptance_length(length)


def test_a_number_of_the_callers_is_assumed():
    assert IidAcceptance(acceptance_rate=0.5).kind == "assumed"
    assert LengthAcceptance(length=2.0, at_draft_length=3).kind == "assumed"


@pytest.mark.parametrize(
    ("length", "at", "rate"), [(3.3616, 4, 0.8), (2.95, 3, 0.80), (1.0, 4, 0.0), (5.0, 4, 1.0)]
)
def test_length_is_inverted(length, at, rate):
    model = LengthAcceptance(length=length, at_draft_length=at)
    assert model.mean_acceptance_length(at) == pytest.approx(length, rel=1e-12)
    assert float(model.acceptance_rate) == pytest.approx(rate, abs=0.005)


def test_length_known_at_one_draft_length_is_weaker_elsewhere():
    model = LengthAcceptance(
        length=2.28, at_draft_length=2, length_low=2.2, length_high=2.4, kind="published"
    )
    assert [model.kind_at(k) for k in (1, 2, 3)] == ["derived", "published", "assumed"]
    assert model.interval(2) == pytest.approx((2.2, 2.4))
    assert model.id == "length(2.28 at 2)"


@pytest.mark.parametrize(("length", "at"), [(0.9, 4), (5.1, 4), (float("nan"), 4), (1.0, 0)])
def test_impossible_lengths(length, at):
    with pytest.raises(AcceptanceError, match=r"acceptance_length: mean acceptance length .*allowed: 1.."):
        LengthAcceptance(length=length, at_draft_length=at)


def test_positional():
    model = PositionalAcceptance(conditional_rates=(0.8, 0.5, 0.25))
    np.testing.assert_allclose(model.per_position_acceptance_rate(3), [0.8, 0.4, 0.1])
    assert model.mean_acceptance_length(3) == pytest.approx(2.3)
    np.testing.assert_allclose(model.mean_acceptance_length([0, 1, 2]), [1, 1.8, 2.2])
    assert model.max_draft_length == 3


def test_positional_does_not_extrapolate_unasked():
    model = PositionalAcceptance(conditional_rates=(0.8, 0.5), kind="published")
    with pytest.raises(AcceptanceError, match=r"draft_length: given 3, allowed: 0..2"):
        model.mean_acceptance_length(3)
    with pytest.raises(AcceptanceError, match=r"allowed: 0..2"):
        model.per_position_acceptance_rate(3)
    asked = PositionalAcceptance(conditional_rates=(0.8, 0.5), kind="published", extrapolate=True)
    assert asked.mean_acceptance_length(4) == pytest.approx(1 + 0.8 + 0.4 + 0.2 + 0.1)
    np.testing.assert_allclose(asked.per_position_acceptance_rate(4), [0.8, 0.4, 0.2, 0.1])
    assert [asked.kind_at(k) for k in (2, 3)] == ["published", "assumed"]
    assert asked.max_draft_length is None


def test_positional_from_the_rates_that_vllm_prints():
    model = PositionalAcceptance.from_unconditional([0.844, 0.599, 0.385, 0.271], label="x")
    np.testing.assert_allclose(model.conditional_rates, [0.844, 0.710, 0.643, 0.704], atol=5e-4)
    assert model.mean_acceptance_length(4) == pytest.approx(3.099)
    with pytest.raises(AcceptanceError, match=r"position 2: given 0.6 after 0.5"):
        PositionalAcceptance.from_unconditional([0.5, 0.6])
    assert PositionalAcceptance.from_unconditional([0.5, 0.0, 0.0]).conditional_rates == (0.5, 0.0, 0.0)


def test_positional_needs_rates():
    with pytest.raises(AcceptanceError, match="conditional_rates: given none"):
        PositionalAcceptance(conditional_rates=())
    with pytest.raises(AcceptanceError, match=r"conditional_rates: given .*, allowed: 0..1"):
        PositionalAcceptance(conditional_rates=(0.5, float("nan")))


def test_samples_have_the_rates_of_the_model(rng):
    model = PositionalAcceptance(conditional_rates=(0.8, 0.5, 0.25))
    accepted = sample_accepted(model, 3, size=200_000, rng=rng)
    observed = [(accepted >= k).mean() for k in (1, 2, 3)]
    np.testing.assert_allclose(observed, [0.8, 0.4, 0.1], atol=0.004)
    assert sample_accepted(model, 0, size=5, rng=rng).tolist() == [0] * 5


# --------------------------------------------------------------------------------------------- traces
@pytest.fixture
def trace(rng):
    return random_trace(rng, [30, 25, 20, 35, 1])  # overlaps 0, .1, .2, .3, 0


def test_trace_acceptance_is_its_replay(trace):
    model = TraceAcceptance(trace=trace)
    kept = trace.filtered()
    assert (model.target_id, model.drafter_id, model.kind) == ("toy_target", "toy_head", "measured")
    assert model.id == "toy_target/toy_head"
    expected = [statistics_of(replay(kept, k)).mean_acceptance_length for k in (0, 1, 4)]
    np.testing.assert_array_equal(model.mean_acceptance_length(np.array([0, 1, 4])), expected)
    assert model.mean_acceptance_length(4) == expected[2]
    assert model.per_position_acceptance_rate(4).shape == (4,)
    assert np.array_equal(model.steps(4).accepted, replay(kept, 4).accepted)
    assert model.steps(4) is model.steps(4)
    assert model.kind_at(8) == "measured"


def test_trace_acceptance_by_task_and_overlap(trace):
    assert TraceAcceptance(trace=trace, max_overlap=None).steps(0).n_requests == 5
    code = TraceAcceptance(trace=trace, task="code")
    assert code.id.endswith("[code]")
    assert code.steps(2).n_requests == 3
    assert len(TraceAcceptance(trace=trace).steps(2, task="chat")) == len(
        TraceAcceptance(trace=trace, task="chat").steps(2)
    )
    with pytest.raises(UnknownNameError, match="Did you mean 'chat'"):
        TraceAcceptance(trace=trace, task="chats")
    with pytest.raises(AcceptanceError, match="no response with a step is left for task all and max_overlap"):
        TraceAcceptance(trace=trace.take(np.array([3])))


def test_trace_of_another_target_is_refused(trace):
    with pytest.raises(TransferError, match=r"target 'toy_target', not 'gemma_4_e2b'.*--transfer.*assumed"):
        TraceAcceptance(trace=trace, target_id="gemma_4_e2b")
    with pytest.raises(TransferError, match="drafter 'toy_head', not 'ngram'"):
        TraceAcceptance(trace=trace, drafter_id="ngram")
    moved = TraceAcceptance(trace=trace, target_id="gemma_4_e2b", transfer=True)
    assert (moved.kind, moved.target_id, moved.id) == ("assumed", "gemma_4_e2b", "toy_target/toy_head")
    assert TraceAcceptance(trace=trace, target_id="toy_target", transfer=True).kind == "measured"
    assert issubclass(TransferError, DraftscopeError)


def test_trace_acceptance_ends_at_its_depth(trace):
    model = TraceAcceptance(trace=trace)
    assert model.max_draft_length == 8
    with pytest.raises(AcceptanceError, match=r"given 9, allowed: 0..8"):
        model.mean_acceptance_length(9)


def test_trace_acceptance_interval(trace, rng):
    model = TraceAcceptance(trace=trace)
    assert model.interval(4) is None
    low, high = model.interval(4, rng=rng)
    assert low <= model.mean_acceptance_length(4) <= high


def tasks_apart():
    """A trace with two tasks: in ``easy`` seven of eight drafts are right, in ``hard`` one of five."""
    data = columns(np.random.default_rng(3), [40] * 12, depth=4, vocabulary=50, tasks=("easy", "hard"))
    token, rng = data["token"], np.random.default_rng(4)
    truth = np.stack([np.concatenate([token[k:], np.zeros(k, token.dtype)]) for k in range(1, 5)], 1)
    right = np.where(data["task"] == "easy", 7 / 8, 1 / 5)[:, None]
    drafted = np.arange(1, 5) <= data["proposed"][:, None]
    drafts = np.where(rng.random(truth.shape) < right, truth, 99)
    data["draft_token"] = np.where(drafted, drafts, -1).astype(np.int32)
    return trace_from_columns(data, metadata(4))


@pytest.mark.parametrize("kind", [TraceAcceptance, ReplayedTrace])
def test_an_interval_of_a_task_is_of_its_own_requests(kind):
    model = kind(trace=tasks_apart())
    ranges = {}
    for task in ("easy", "hard"):
        mean = statistics_of(model.steps(3, task=task)).mean_acceptance_length
        low, high = model.interval(3, rng=np.random.default_rng(0), task=task)
        assert low < mean < high
        ranges[task] = low, high
    assert ranges["hard"][1] < ranges["easy"][0]
    low, high = model.interval(3, rng=np.random.default_rng(0))
    assert low < model.mean_acceptance_length(3) < high
    assert (low, high) not in ranges.values()


def test_a_prediction_of_a_task_carries_the_interval_of_the_task():
    asked = {"device": "pixel_9", "target": "smollm2_135m", "drafter": "ngram", "draft_length": 3,
             "acceptance": tasks_apart(), "transfer": True, "draws": 16}  # fmt: skip
    spans = [predict(**asked, task=task).intervals["mean_acceptance_length"] for task in ("easy", "hard")]
    assert spans[1][1] < spans[0][0]


def test_one_request_has_no_interval(rng):
    assert TraceAcceptance(trace=random_trace(rng, [30], depth=4)).interval(2, rng=rng) is None
