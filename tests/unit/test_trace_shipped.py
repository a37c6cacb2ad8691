"""Responses beside the traces, and what the package ships."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simulator.acceptance import trace as trace_module
from simulator.acceptance.schema import TraceError
from simulator.acceptance.trace import (
    Responses,
    load_shipped,
    load_shipped_responses,
    read_responses,
    shipped_targets,
    shipped_traces,
    write_responses,
    write_trace,
)
from simulator.errors import DraftscopeError, UnknownNameError
from tests.trace_samples import columns, metadata


@pytest.fixture
def sample(rng):
    return columns(rng, [5, 1, 7], depth=8, short_proposals=True)


@pytest.fixture
def written(sample, tmp_path):
    path = tmp_path / "toy_target" / "toy_head.parquet"
    write_trace(path, sample, metadata(8))
    return path


# ------------------------------------------------------------------------------------------ responses
@pytest.fixture
def responses():
    return Responses(
        target_id="toy_target",
        request_ids=("r0", "r1"),
        tasks=("code", "chat"),
        prompts=("def f():", "hällo"),
        tokens=(np.array([4, 5], dtype=np.int32), np.array([6], dtype=np.int32)),
        token_texts=((" a", "\n"), ("ü",)),
        train_overlap=np.array([0, 0.5], dtype=np.float32),
    )


def test_responses_round_trip(responses, tmp_path):
    path = tmp_path / "responses.parquet"
    write_responses(path, responses)
    back = read_responses(path)
    for name in ("target_id", "request_ids", "tasks", "prompts", "token_texts"):
        assert getattr(back, name) == getattr(responses, name)
    assert [tokens.tolist() for tokens in back.tokens] == [[4, 5], [6]]
    np.testing.assert_array_equal(back.train_overlap, responses.train_overlap)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"token_texts": ((" a",), ("ü",))}, "column 'token_text', row 0 .*: 1 texts for 2 tokens"),
        ({"request_ids": ("r0", "r0")}, "a request stands there twice"),
        ({"tokens": ([4, -5], [6])}, "column 'token', row 0 .* allowed: one or more tokens >= 0"),
        ({"prompts": ("x",)}, "columns of different lengths"),
    ],
)
def test_responses_that_do_not_fit(responses, tmp_path, changes, message):
    with pytest.raises(TraceError, match=message):
        write_responses(tmp_path / "responses.parquet", replace(responses, **changes))
    assert list(tmp_path.iterdir()) == []


def test_a_trace_is_not_a_responses_file(written):
    with pytest.raises(TraceError, match=r"allowed: .*prompt: string"):
        read_responses(written)


# ------------------------------------------------------------------------------------------- shipped
@pytest.fixture
def shipped(tmp_path, rng, responses, monkeypatch):
    for name in ("head", "ngram"):
        write_trace(tmp_path / "toy" / f"{name}.parquet", columns(rng, [3, 2]), metadata(8))
    write_responses(tmp_path / "toy" / "responses.parquet", responses)
    monkeypatch.setattr(trace_module, "_shipped_folder", lambda: tmp_path)
    load_shipped.cache_clear()
    load_shipped_responses.cache_clear()
    yield
    load_shipped.cache_clear()
    load_shipped_responses.cache_clear()


def test_shipped_traces_by_target(shipped):
    assert shipped_targets() == ["toy"]
    assert list(shipped_traces("toy")) == ["head", "ngram"]
    assert load_shipped("toy", "head") is load_shipped("toy", "head")
    assert load_shipped_responses("toy").request_ids == ("r0", "r1")


def test_unknown_shipped_names_offer_the_nearest(shipped):
    with pytest.raises(UnknownNameError, match="Did you mean 'toy'"):
        shipped_traces("tay")
    with pytest.raises(UnknownNameError, match="Did you mean 'ngram'"):
        load_shipped("toy", "n-gram")


def test_errors_are_the_users():
    assert issubclass(TraceError, DraftscopeError)


def test_every_trace_in_the_package_is_valid():
    for target in shipped_targets():
        texts = load_shipped_responses(target)
        tokens = dict(zip(texts.request_ids, texts.tokens, strict=True))
        for drafter in shipped_traces(target):
            trace = load_shipped(target, drafter)
            assert (trace.metadata.target_id, trace.metadata.drafter_id) == (target, drafter)
            assert trace.metadata.max_depth >= 8
            for index, name in enumerate(trace.request_ids):
                np.testing.assert_array_equal(
                    trace["token"][trace.start[index] : trace.start[index + 1]], tokens[name]
                )
