"""Which drafts the target accepts: pure functions over token ids.

Exact greedy verification of a chain: a draft stands when it is the target's own choice there. It does not
know logits, caches or drafters.
"""

from __future__ import annotations

from collections.abc import Sequence


def greedy_chain(drafts: Sequence[int], choices: Sequence[int]) -> tuple[int, int]:
    """Accept the longest prefix of ``drafts`` that the target would have chosen itself.

    Parameters
    ----------
    drafts : sequence of int
        ``d_1 .. d_K``.
    choices : sequence of int
        The target's choice after each of ``[pending token, d_1 .. d_K]``, so ``K + 1`` of them (padding rows
        behind them are ignored).

    Returns
    -------
    accepted : int
        Length of the accepted prefix, 0..K.
    bonus : int
        The target's own next token after it.
    """
    accepted = 0
    while accepted < len(drafts) and drafts[accepted] == choices[accepted]:
        accepted += 1
    return accepted, choices[accepted]


def until_end(tokens: Sequence[int], *, room: int, stop: int) -> list[int]:
    """The tokens that are really emitted: at most ``room``, and none behind the stop token."""
    kept = list(tokens[:room])
    return kept[: kept.index(stop) + 1] if stop in kept else kept
