"""Lookup drafters and the overlap with training responses."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from reference_impl.drafters.ngram import NGramLookup  # noqa: E402
from reference_impl.drafters.suffix import SuffixLookup  # noqa: E402
from reference_impl.errors import ReferenceImplError  # noqa: E402
from reference_impl.live import LiveLookup, lookup_drafters  # noqa: E402
from reference_impl.responses import TrainingText, training_responses  # noqa: E402
from tests.reference_samples import tiny_backbone, write_features  # noqa: E402

pytestmark = pytest.mark.reference

text = st.lists(st.integers(0, 3), min_size=1, max_size=24)


def brute_ngram(tokens: list[int], k: int) -> list[int]:
    for size in (3, 2, 1):
        if size < len(tokens):
            for start in range(len(tokens) - size - 1, -1, -1):
                if tokens[start : start + size] == tokens[-size:]:
                    return tokens[start + size : start + size + k]
    return []


# ---------------------------------------------------------------------------------------------- n-gram


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([1, 2, 3, 9, 1, 2, 3], [9, 1, 2, 3]),  # the longest suffix, then what follows it
        ([1, 2, 3, 7, 8, 2, 3, 5, 2, 3], [5, 2, 3]),  # two tokens match at two places: the latest counts
        ([1, 2, 3, 7, 9, 2, 3, 5, 1, 2, 3], [7, 9, 2, 3, 5, 1, 2, 3]),  # three tokens beat a later two
        ([4, 4], [4]),  # copying stops where the text stands now
        ([1, 2, 3], []),
        ([1], []),
    ],
)
def test_ngram(tokens, expected):
    found, probabilities = NGramLookup().propose(tokens, 8)
    assert found == expected
    assert probabilities == [1.0] * len(expected)


@given(tokens=text, k=st.integers(0, 8))
def test_ngram_on_growing_text_equals_a_search_from_scratch(tokens, k):
    lookup = NGramLookup()
    for end in range(1, len(tokens) + 1):
        assert lookup.propose(tokens[:end], k)[0] == brute_ngram(tokens[:end], k)


@given(tokens=text, k=st.integers(1, 7))
def test_a_longer_proposal_starts_with_the_shorter_one(tokens, k):
    """So one trace at the full depth replays every draft length."""
    assert NGramLookup().propose(tokens, 8)[0][:k] == NGramLookup().propose(tokens, k)[0]


def test_ngram_forgets_the_last_request():
    live = LiveLookup(NGramLookup(), response_only=False)
    live.prefill([5, 6, 7, 5, 6], None)
    assert live.draft([5, 6, 7, 5, 6], None, 2)[0] == [7, 5]
    live.prefill([5, 6], None)
    assert live.draft([5, 6], None, 2)[0] == []


# ---------------------------------------------------------------------------------------------- suffix


def brute_suffix(responses: list[list[int]], tokens: list[int], k: int) -> list[int]:
    for size in range(8, 2, -1):
        if size > len(tokens):
            continue
        found: list[int] = []
        while len(found) < k:
            want = [*tokens[-size:], *found]
            following = [
                r[i + len(want)] if i + len(want) < len(r) else 99
                for r in responses
                for i in range(len(r) - len(want) + 1)
                if r[i : i + len(want)] == want
            ]
            if not following:
                break
            best = min(set(following), key=lambda t: (-following.count(t), t))
            if best == 99:
                return found
            found.append(best)
        if found:
            return found
        if any(r[i : i + size] == tokens[-size:] for r in responses for i in range(len(r) - size + 1)):
            return found
    return []


@given(responses=st.lists(text, min_size=1, max_size=5), tokens=text, k=st.integers(1, 8))
def test_suffix_equals_a_search_from_scratch(responses, tokens, k):
    assert SuffixLookup(responses).propose(tokens, k)[0] == brute_suffix(responses, tokens, k)


def test_suffix_takes_the_most_frequent_continuation():
    lookup = SuffixLookup([[1, 2, 3, 4, 8], [1, 2, 3, 4, 9], [1, 2, 3, 5]])
    found, shares = lookup.propose([0, 1, 2, 3], 8)
    assert found == [4, 8]  # 8 before 9: ties go to the lowest id
    assert shares == [pytest.approx(2 / 3), 0.5]


def test_suffix_needs_three_tokens_and_stays_inside_a_response():
    lookup = SuffixLookup([[1, 2, 3], [4, 5, 6, 7]])
    assert lookup.propose([4, 5], 8) == ([], [])
    assert lookup.propose([1, 2, 3], 8) == ([], [])  # the next response is another text
    assert lookup.propose([4, 5, 6], 8) == ([7], [1.0])


def test_suffix_file_round_trip(tmp_path):
    lookup = SuffixLookup([[1, 2, 3, 0, 0, 0, 5], [0], [0, 0, 0, 0, 9]])
    lookup.save(tmp_path / "suffix.safetensors")
    again = SuffixLookup.load(tmp_path / "suffix.safetensors")
    assert [r.tolist() for r in again.responses()] == [[1, 2, 3, 0, 0, 0, 5], [0], [0, 0, 0, 0, 9]]
    assert again.propose([3, 0, 0], 8) == lookup.propose([3, 0, 0], 8) == ([0, 5], [1.0, 1.0])
    assert [d.id for d in lookup_drafters(tmp_path / "suffix.safetensors")] == ["ngram", "suffix"]


def test_suffix_bad_input(tmp_path):
    with pytest.raises(ReferenceImplError, match="no training responses"):
        SuffixLookup([])
    with pytest.raises(ReferenceImplError, match="below 65535"):
        SuffixLookup([[1, 70_000]])
    (tmp_path / "bad.safetensors").write_bytes(b"not a file")
    with pytest.raises(ReferenceImplError, match="not a readable suffix file"):
        SuffixLookup.load(tmp_path / "bad.safetensors")


# --------------------------------------------------------------------------------------------- overlap


def test_overlap_is_the_share_of_known_eight_grams():
    training = TrainingText([list(range(20)), [7, 7, 7]])
    assert training.share(list(range(20))) == 1.0
    assert training.share(list(range(12))) == 1.0
    assert training.share([*range(8), 50, 51]) == pytest.approx(1 / 3)
    assert training.share(list(range(30, 45))) == 0.0
    assert training.share([7, 7, 7]) == 1.0  # a short response counts as a whole
    assert training.share([7, 7]) == 0.0
    assert training.share([0, 1, 2]) == 0.0
    assert TrainingText([]).share([1, 2]) == 0.0


@given(responses=st.lists(text, max_size=4), response=text)
def test_overlap_equals_a_count_with_sets(responses, response):
    def grams(r):
        return [tuple(r[i : i + 8]) for i in range(len(r) - 7)] if len(r) >= 8 else [tuple(r)]

    known = {g for r in responses for g in grams(r)}
    expected = np.mean([g in known for g in grams(response)])
    assert TrainingText(responses).share(response) == pytest.approx(expected)


def test_training_responses_come_from_feature_shards(tmp_path):
    write_features(tiny_backbone(), tmp_path, count=8, new_tokens=10)
    found = training_responses(tmp_path)
    assert len(found) == 8
    assert all(1 <= len(r) <= 10 for r in found)
    assert TrainingText(found).share(found[3]) == 1.0
    with pytest.raises(ReferenceImplError, match="no feature shards"):
        training_responses(tmp_path / "none")


def test_overlap_bad_tokens():
    with pytest.raises(ReferenceImplError, match="token ids"):
        TrainingText([]).share([70_000])
