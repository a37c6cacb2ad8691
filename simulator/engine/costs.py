"""Passes as the engine runs them: their price at a context, and a meter of what ran; it knows no clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from simulator.engine.machine import Unit
from simulator.lowering import Affine, ContextSums, CostParams, PassCost, Side
from simulator.lowering.affine import Quantity
from simulator.lowering.outcome import PassTotals

Price = tuple[float, float, float]
"""Time on engine and bus [s], bytes moved [B], energy of the MACs [J]."""


class Prices(dict[float, Price]):
    """Price of a pass by context, computed on first use: contexts come back, with drafts and with requests.

    Parameters
    ----------
    price : callable
        Context [tokens] to price.
    """

    def __init__(self, price: Callable[[float], Price]) -> None:
        super().__init__()
        self._price = price

    def __missing__(self, context: float) -> Price:
        price = self[context] = self._price(context)
        return price


class PassKind:
    """One kind of pass: what it costs, and what ran since it was last read.

    Parameters
    ----------
    name, phase : str
        As in :class:`simulator.engine.timeline.Span`.
    rows : float
        Rows of a pass, all streams together; 0 for a prefill, whose rows are its prompt.
    engine : Unit
        Where it runs.
    side : Side
        Powers of that engine.
    host_s : float
        Floor of the pass and host time of its rows [s].
    prices : Prices
        By context; of a prefill by prompt.
    """

    __slots__ = (
        "bytes_moved", "contexts", "engine", "host_s", "mac_energy_j", "name", "phase", "prices", "rows",
        "side", "time_s",
    )  # fmt: skip

    def __init__(
        self, *, name: str, phase: str, rows: float, engine: Unit, side: Side, host_s: Quantity,
        prices: Prices,
    ) -> None:  # fmt: skip
        self.name, self.phase, self.rows, self.engine, self.side = name, phase, rows, engine, side
        self.host_s, self.prices = float(host_s), prices
        self._reset()

    def _reset(self) -> None:
        self.time_s = self.bytes_moved = self.mac_energy_j = 0.0
        self.contexts: list[float] = []

    def add(self, context: float, time_s: float, bytes_moved: float, mac_energy_j: float) -> None:
        """Count one pass: its time with all waiting, its traffic and the energy of its MACs."""
        self.contexts.append(context)
        self.time_s += time_s
        self.bytes_moved += bytes_moved
        self.mac_energy_j += mac_energy_j

    @property
    def totals(self) -> PassTotals:
        """What ran since the last :meth:`take`."""
        return PassTotals(time_s=self.time_s, host_s=self.host_s * len(self.contexts),
                          bytes_moved=self.bytes_moved, mac_energy_j=self.mac_energy_j)  # fmt: skip

    def take(self, windows: tuple[int, ...]) -> tuple[PassTotals, ContextSums]:
        """Read the meter and set it back.

        Parameters
        ----------
        windows : tuple of int
            Sliding windows that the sums are wanted for.
        """
        totals, sums = self.totals, ContextSums.of(self.contexts, windows)
        self._reset()
        return totals, sums


def pass_prices(cost: PassCost) -> Prices:
    """Prices of a decoding pass.

    Parameters
    ----------
    cost : PassCost
        Of one design.
    """
    busy_s, moved, mac_j = _plain(cost.busy_s), _plain(cost.bytes_moved), _plain(cost.mac_energy_j)
    return Prices(lambda context: (busy_s(context), moved(context), mac_j(context)))


def prefill_prices(params: CostParams, *, drafter: bool) -> Prices:
    """Prices of a prefill, by prompt [tokens].

    Parameters
    ----------
    params : CostParams
        One design.
    drafter : bool
        Prefill of the drafter's own cache instead of the target's.
    """

    def price(prompt_tokens: float) -> Price:
        bound = replace(params, prompt_tokens=prompt_tokens)
        cost = bound.draft_prefill() if drafter else bound.target_prefill()
        return float(cost.busy_s), float(cost.bytes_moved), float(cost.mac_energy_j)

    return Prices(price)


def _plain(affine: Affine) -> Callable[[float], float]:
    """Return the same function on plain floats: NumPy's scalars are slow and would spread into the clock."""
    constant, per_token = float(affine.constant), float(affine.per_token)
    windowed = tuple((window, float(slope)) for window, slope in affine.per_windowed)
    if not windowed:
        return lambda context: constant + per_token * context

    def at(context: float) -> float:
        cost = constant + per_token * context
        for window, slope in windowed:
            cost += slope * (context if context < window else window)
        return cost

    return at
