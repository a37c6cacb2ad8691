"""Exact greedy verification as pure functions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")  # the package imports it elsewhere

from reference_impl.verify import greedy_chain, until_end

small = st.lists(st.integers(0, 2), max_size=6)


@pytest.mark.parametrize(
    ("drafts", "choices", "expected"),
    [
        ([], [7], (0, 7)),
        ([1], [1, 9], (1, 9)),
        ([1], [2, 9], (0, 2)),
        ([1, 2, 3], [1, 2, 3, 4], (3, 4)),
        ([1, 2, 3], [1, 5, 3, 4], (1, 5)),  # a later match does not count
        ([1, 2], [1, 2, 8, 0, 0, 0], (2, 8)),  # padding rows behind are ignored
    ],
)
def test_greedy_chain(drafts, choices, expected):
    assert greedy_chain(drafts, choices) == expected


@given(drafts=small, data=st.data())
def test_greedy_chain_accepts_the_longest_common_prefix(drafts, data):
    choices = data.draw(st.lists(st.integers(0, 2), min_size=len(drafts) + 1, max_size=len(drafts) + 3))
    accepted, bonus = greedy_chain(drafts, choices)
    assert 0 <= accepted <= len(drafts)
    assert list(drafts[:accepted]) == choices[:accepted]
    assert bonus == choices[accepted]
    assert accepted == len(drafts) or drafts[accepted] != bonus


@given(tokens=small, room=st.integers(0, 8))
def test_until_end_keeps_a_prefix_up_to_the_stop_token(tokens, room):
    kept = until_end(tokens, room=room, stop=0)
    assert kept == tokens[: len(kept)]
    assert len(kept) <= room
    assert 0 not in kept[:-1]
    if len(kept) < min(room, len(tokens)):
        assert kept[-1] == 0
