"""What both ways to ask share: numbers joined with the scenario, and answers to what cannot be asked."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.analytic import predict
from simulator.engine import simulate
from simulator.errors import DraftscopeError
from simulator.lowering.question import ask
from simulator.specs import Scenario
from tests.trace_samples import random_trace

NOTHING = dict.fromkeys((
    "acceptance", "runtime", "engine", "draft_runtime", "draft_engine", "scenario", "prompt_tokens",
    "output_tokens", "draft_length", "batch", "task", "axes",
))  # fmt: skip
CASE = {**NOTHING, "device": "pixel_9", "target": "gemma_4_e2b", "drafter": "ngram", "transfer": False}


def test_arguments_replace_the_scenario_and_axes_replace_both():
    scenario = Scenario(prompt_tokens=10, output_tokens=20, draft_length=3, engine="gpu")
    question = ask(**{
        **CASE, "runtime": "ideal", "scenario": scenario, "output_tokens": 30, "acceptance": 0.5, "batch": 2,
        "axes": {"batch": 4, "context": 100.0, "floor_per_step_s": 1e-3},
    })  # fmt: skip
    asked = question.scenario
    assert (asked.prompt_tokens, asked.output_tokens, asked.draft_length) == (10, 30, 3)
    assert (asked.batch, asked.context) == (4, 100.0)
    assert question.axes == {"floor_per_step_s": 1e-3}
    assert question.lowered.ids["engine"] == "gpu"
    params = question.bind()
    assert (params.batch, params.fixed_context, params.floor_per_step_s) == (4, 100.0, 1e-3)
    assert question.has_prompt and question.has_tokens


def test_a_draft_length_among_the_axes_is_the_draft_length():
    case = {"device": "pixel_9", "target": "gemma_4_e2b", "drafter": "ngram", "acceptance": 0.5,
            "prompt_tokens": 10, "output_tokens": 20}  # fmt: skip
    plain, axis = predict(**case, draft_length=4), predict(**case, axes={"draft_length": 4})
    assert axis.metrics == plain.metrics
    assert simulate(**case, axes={"draft_length": 4}).metrics == simulate(**case, draft_length=4).metrics


@pytest.mark.parametrize("way", [predict, simulate])
def test_none_proposes_nothing_and_the_message_says_what_to_do(way):
    case = {"device": "pixel_9", "target": "gemma_4_e2b", "prompt_tokens": 10, "output_tokens": 20}
    assert way(**case).metrics == way(**case, drafter="none", draft_length=0).metrics
    with pytest.raises(DraftscopeError) as caught:
        way(**case, drafter="none", draft_length=4, acceptance=0.5)
    message = str(caught.value)
    assert message.startswith("draft_length: 4 given for drafter 'none', which proposes nothing; allowed: 0")
    assert "leave it out" in message
    assert "for gemma_4_e2b: gemma_4_e2b_assistant," in message
    assert " ngram" in message
    assert "smollm2" not in message


@pytest.mark.parametrize("way", [predict, simulate])
@pytest.mark.parametrize("length", [1.5, float("nan"), -1])
def test_fractions_of_drafts_are_refused_for_traces_too(way, length, rng):
    trace = random_trace(rng, [20], metadata={"target_id": "gemma_4_e2b", "drafter_id": "ngram"})
    with pytest.raises(DraftscopeError, match="draft_length"):
        way(device="pixel_9", target="gemma_4_e2b", drafter="ngram", acceptance=trace, draft_length=length)


def test_fractions_of_tokens_are_for_the_closed_form():
    case = {"device": "pixel_9", "target": "gemma_4_e2b", "drafter": "ngram", "acceptance": 0.5,
            "draft_length": 2, "prompt_tokens": 10.5, "output_tokens": 90.5}  # fmt: skip
    low, high = (predict(**{**case, "output_tokens": n})["request_time_s"] for n in (90, 91))
    assert low < predict(**case)["request_time_s"] < high
    with pytest.raises(DraftscopeError, match=r"output_tokens: 90\.5 given; allowed: whole numbers"):
        simulate(**case)


def test_many_designs_ask_for_their_longest_drafts():
    question = ask(**{**CASE, "acceptance": 0.5, "draft_length": np.array([1, 4, 2])})
    assert question.longest == 4
    with pytest.raises(DraftscopeError, match="scenario: none given"):
        question.check_tokens()


@pytest.mark.parametrize("axes", [5, "mbu_large=1", {5: 1.0}, {"verify_curve": 5}])
def test_axes_that_are_no_table_of_numbers_are_refused(axes):
    with pytest.raises(DraftscopeError, match=r"ax[ie]s.*given; allowed"):
        predict(device="pixel_9", target="smollm2_135m", draft_length=0, prompt_tokens=10, output_tokens=20,
                axes=axes)  # fmt: skip
