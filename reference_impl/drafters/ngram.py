"""Prompt lookup: propose what followed the last occurrence of the current suffix in this request's own text.

The longest suffix of 3, 2 or 1 tokens that occurred before is used, at its latest occurrence, and the
proposal copies the text behind it as it stands at the anchor: it may be shorter than asked for and never
grows while drafts are proposed, so an anchor trace replays it exactly. Source: prompt lookup decoding
(Saxena 2023). It does not know other requests, probabilities or the model.
"""

from __future__ import annotations

from collections.abc import Sequence


class NGramLookup:
    """Prompt-lookup drafter over one growing text.

    Parameters
    ----------
    longest, shortest : int
        Suffix lengths tried, longest first.
    """

    def __init__(self, *, longest: int = 3, shortest: int = 1) -> None:
        self._sizes = range(longest, shortest - 1, -1)
        self.restart()

    def restart(self) -> None:
        """Forget the text: a new request begins."""
        self._behind: dict[
            tuple[int, ...], int
        ] = {}  # n-gram -> index of the token behind its latest occurrence
        self._indexed = 0

    def propose(self, tokens: Sequence[int], k: int) -> tuple[list[int], list[float]]:
        """Up to ``k`` tokens behind ``tokens`` (prompt and emitted text so far, which only ever grows).

        Returns
        -------
        tokens : list of int
        probabilities : list of float
            All 1.0: a lookup has no distribution.
        """
        for end in range(self._indexed + 1, len(tokens)):
            for size in self._sizes:
                if size <= end:
                    self._behind[tuple(tokens[end - size : end])] = end
        self._indexed = max(self._indexed, len(tokens) - 1)
        for size in self._sizes:
            behind = self._behind.get(tuple(tokens[-size:])) if size < len(tokens) else None
            if behind is not None:
                found = list(tokens[behind : behind + k])
                return found, [1.0] * len(found)
        return [], []
