"""Suffix lookup over the training responses: a control that shows how much text is merely memorised.

The longest suffix of the response (8 down to 3 tokens) that stands in the training responses is continued by
its most frequent continuation there, token by token. What it gets right, a trained drafter may have learned
by heart. It sees the response only, not the prompt, and knows no model. Source: suffix decoding (Oliaro et
al. 2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from simulator.files import whole_file

from ..errors import ReferenceImplError

_WINDOW = 16  # tokens compared when suffixes are sorted: 8 of the suffix and 8 proposed


class SuffixLookup:
    """Sorted suffixes of a token stream.

    Parameters
    ----------
    responses : sequence of token id arrays
        Training responses; a proposal never runs over the end of one.
    longest, shortest : int
        Suffix lengths tried, longest first.

    Raises
    ------
    ReferenceImplError
        For no responses, or token ids of 65,535 or more.
    """

    def __init__(
        self, responses: Sequence[Sequence[int] | NDArray[np.integer]], *, longest: int = 8, shortest: int = 3
    ) -> None:
        if not len(responses):
            raise ReferenceImplError("suffix lookup: given no training responses, allowed: one or more")
        if max(int(np.max(r, initial=0)) for r in responses) >= 0xFFFF:
            raise ReferenceImplError("suffix lookup: token ids must be below 65535")
        self._sizes = range(longest, shortest - 1, -1)
        end = np.full(_WINDOW, 0xFFFF)  # ends a response; sorts behind every token
        stream = np.concatenate([part for r in responses for part in (np.asarray(r), end)])
        self.stream = stream.astype(">u2")
        windows = np.lib.stride_tricks.sliding_window_view(self.stream, _WINDOW)
        starts = np.flatnonzero(self.stream[: len(windows)] != 0xFFFF)
        keys = np.ascontiguousarray(windows[starts]).view(f"S{2 * _WINDOW}").reshape(-1)
        self._sorted: NDArray[np.bytes_] = keys[np.argsort(keys, kind="stable")]

    def responses(self) -> list[NDArray[np.int64]]:
        """The training responses it was built from."""
        ends = self.stream == 0xFFFF
        parts = np.split(self.stream, np.flatnonzero(ends[:-1] & ~ends[1:]) + 1)
        return [part[part != 0xFFFF].astype(np.int64) for part in parts]

    def save(self, path: Path) -> None:
        """Write the token stream (2 bytes a token); the sorted suffixes are rebuilt on loading."""
        responses = self.responses()
        tensors = {
            "tokens": np.concatenate(responses).astype(np.uint16),
            "lengths": np.array([len(r) for r in responses], dtype=np.int32),
        }
        with whole_file(path, error=ReferenceImplError, make_folder=True) as temporary:
            save_file(tensors, temporary, metadata={"family": "suffix"})

    @classmethod
    def load(cls, path: Path) -> SuffixLookup:
        """Read what :meth:`save` wrote."""
        try:
            tensors = load_file(path)
            tokens, lengths = tensors["tokens"], tensors["lengths"]
        except (SafetensorError, OSError, KeyError) as error:
            raise ReferenceImplError(f"{path}: not a readable suffix file ({error!r})") from error
        return cls(np.split(tokens, np.cumsum(lengths)[:-1]))

    def _range(self, tokens: Sequence[int]) -> tuple[int, int]:
        """Sorted suffixes that start with ``tokens``."""
        low = np.array(tokens, dtype=">u2").tobytes()
        high = low + b"\xff" * (2 * _WINDOW - len(low))
        first = int(np.searchsorted(self._sorted, np.bytes_(low), side="left"))
        return first, int(np.searchsorted(self._sorted, np.bytes_(high), side="right"))

    def propose(self, tokens: Sequence[int], k: int) -> tuple[list[int], list[float]]:
        """Up to ``k`` (at most 8) tokens behind the response ``tokens``.

        Returns
        -------
        tokens : list of int
        probabilities : list of float
            Share of the occurrences that continue that way.
        """
        for size in self._sizes:
            if size > len(tokens):
                continue
            first, last = self._range(tokens[-size:])
            if last > first:
                return self._continue(first, last, size, k)
        return [], []

    def _continue(self, first: int, last: int, depth: int, k: int) -> tuple[list[int], list[float]]:
        found: list[int] = []
        shares: list[float] = []
        while len(found) < k and depth < _WINDOW:
            column = self._sorted[first:last].view(">u2").reshape(-1, _WINDOW)[:, depth]
            values, begins, counts = np.unique(column, return_index=True, return_counts=True)
            best = int(np.argmax(counts))  # ties: the lowest id
            if values[best] == 0xFFFF:
                break
            found.append(int(values[best]))
            shares.append(float(counts[best] / (last - first)))
            first, last = first + int(begins[best]), first + int(begins[best] + counts[best])
            depth += 1
        return found, shares
