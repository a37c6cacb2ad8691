"""What ran when and on what, for people and for trace viewers; it does not know why it took its time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Span(NamedTuple):
    """One piece of work on one track.

    Attributes
    ----------
    track : str
        ``engine:NAME``, ``host`` or ``bus``.
    name : str
        ``prefill``, ``drafter prefill``, ``lookup``, ``draft``, ``verify``, ``commit`` or ``rollback``.
    phase : str
        Phase that the time counts to: ``prefill``, ``draft``, ``verify`` or ``commit``.
    request, step : int
        Request, and step in it; step -1 is the prefill.
    start_s, end_s : float
        Simulated time [s]; equal for an instant (``rollback``).
    detail : dict
        Rows and context of a pass, bytes of a transfer, drafts proposed and accepted of a verify pass.
    """

    track: str
    name: str
    phase: str
    request: int
    step: int
    start_s: float
    end_s: float
    detail: dict[str, Any]

    @property
    def duration_s(self) -> float:
        """Length of the span [s]."""
        return self.end_s - self.start_s


@dataclass
class Timeline:
    """Collects spans while the engine runs; hand an empty one to :func:`simulator.engine.simulate`.

    Attributes
    ----------
    spans : list of Span
        In order of their ends.
    """

    spans: list[Span] = field(default_factory=list)

    def add(
        self, track: str, name: str, phase: str, at: tuple[int, int], start_s: float, end_s: float,
        **detail: Any,
    ) -> None:  # fmt: skip
        """Append a span; ``at`` is request and step."""
        self.spans.append(Span(track, name, phase, *at, start_s, end_s, detail))

    def __len__(self) -> int:
        return len(self.spans)

    def __iter__(self) -> Iterator[Span]:
        return iter(self.spans)

    def of(self, track: str) -> list[Span]:
        """Spans of one track.

        Parameters
        ----------
        track : str
            As in :class:`Span`.
        """
        return [span for span in self.spans if span.track == track]
