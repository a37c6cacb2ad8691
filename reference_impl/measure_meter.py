"""What a stretch of work took, in seconds and, where the machine counts it, in joules.

It does not know what is measured. Energy is that of the processor packages (RAPL), all processes together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from .backbone import KVCache
from .decode import Drafter

POWERCAP = Path("/sys/class/powercap")
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.thread_time}
"""Wall-clock time, and processor time of this thread, which other processes do not stretch."""


@dataclass(frozen=True)
class Rapl:
    """Energy counters of the processor packages.

    Attributes
    ----------
    domains : tuple of Path
        Folders with ``energy_uj`` and ``max_energy_range_uj``; empty where there is none to read.
    reason : str
        Why there is none.
    """

    domains: tuple[Path, ...] = ()
    reason: str = ""

    @classmethod
    def found(cls, root: Path = POWERCAP) -> Rapl:
        """The packages of this machine (``intel-rapl:0``, ...; their parts are within them)."""
        packages = sorted(path for path in root.glob("*-rapl:*") if path.name.count(":") == 1)
        if not packages:
            return cls(reason=f"no RAPL counter under {root}")
        try:
            for path in packages:
                _microjoules(path, "energy_uj"), _microjoules(path, "max_energy_range_uj")
        except (OSError, ValueError) as error:
            return cls(reason=f"RAPL counters under {root} cannot be read: {error}")
        return cls(tuple(packages))

    def read(self) -> tuple[int, ...]:
        """Microjoules of every package, counted up to its range and then from zero."""
        return tuple(_microjoules(path, "energy_uj") for path in self.domains)

    def joules(self, before: tuple[int, ...], after: tuple[int, ...]) -> float | None:
        """Energy between two readings; None without counters."""
        if not self.domains:
            return None
        total = 0
        for path, first, last in zip(self.domains, before, after, strict=True):
            total += (
                last - first if last >= first else last - first + _microjoules(path, "max_energy_range_uj")
            )
        return total * 1e-6


def _microjoules(path: Path, name: str) -> int:
    return int((path / name).read_text())


@dataclass
class Watched:
    """A drafter, or none, with a meter on it: reads at the end of prefill and around every draft.

    ``decode`` tells a drafter when prefill ends, and nothing else does; with ``drafter`` None it is plain
    decoding (draft length 0).
    """

    drafter: Drafter | None
    clock: Callable[[], float]
    rapl: Rapl = field(default_factory=Rapl)
    began: float = 0.0
    draft_s: float = 0.0
    energy: tuple[int, ...] = ()

    def prefill(self, prompt: Sequence[int], cache: KVCache) -> None:
        """See ``decode.Drafter``."""
        if self.drafter is not None:
            self.drafter.prefill(prompt, cache)
        self.draft_s = 0.0
        self.energy = self.rapl.read()
        self.began = self.clock()

    def draft(self, tokens: Sequence[int], state: Tensor, k: int) -> tuple[list[int], list[float]]:
        """See ``decode.Drafter``."""
        began = self.clock()
        found = self.drafter.draft(tokens, state, k) if self.drafter is not None else ([], [])
        self.draft_s += self.clock() - began
        return found

    def commit(self, length: int) -> None:
        """See ``decode.Drafter``."""
        if self.drafter is not None:
            self.drafter.commit(length)

    def taken(self) -> tuple[float, float | None]:
        """Seconds and joules since the end of prefill."""
        seconds = self.clock() - self.began
        return seconds, self.rapl.joules(self.energy, self.rapl.read())
