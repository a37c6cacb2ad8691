"""The phone as SimPy resources: engines, host and memory bus, with what each has done; it knows no model.

A resource answers one call by one generator that a process yields from, and that returns the time it took,
waiting included. The service time is returned as it was asked for, not as a difference of clock readings, so
that a quiet machine adds no rounding of a large clock to a short pass. A grant that comes at once is not
waited for, which saves the event loop a turn.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

import simpy

Process = Generator[simpy.Event, Any, float]


class Unit:
    """An engine or the host: one holder at a time, first come first served.

    Parameters
    ----------
    env : simpy.Environment
        The clock.
    name : str
        For the timeline.

    Attributes
    ----------
    resource : simpy.Resource
        For whoever holds the unit while waiting for others.
    busy_s : float
        Time served by :meth:`hold` [s].
    grants : int
        Times that it was taken.
    """

    def __init__(self, env: simpy.Environment, name: str) -> None:
        self.env, self.name = env, name
        self.resource = simpy.Resource(env, capacity=1)
        self.busy_s = 0.0
        self.grants = 0

    def hold(self, duration_s: float) -> Process:
        """Take the unit, keep it for a while, give it back.

        Parameters
        ----------
        duration_s : float
            Service time [s].

        Returns
        -------
        float
            Waiting and service time [s].
        """
        env = self.env
        asked_s = env.now
        with self.resource.request() as grant:
            if not grant.triggered:
                yield grant
            waited_s = float(env.now - asked_s)
            yield env.timeout(duration_s)
        self.grants += 1
        self.busy_s += duration_s
        return waited_s + duration_s


class MemoryBus(Unit):
    """The memory bus: one transfer at a time, at the rate that its client reaches alone.

    Clients that share the bus at the same time will each be slowed down instead of queued; that is another
    bus with the same :meth:`transfer`.

    Parameters
    ----------
    env : simpy.Environment
        The clock.
    capacity_bytes_per_s : float
        Peak bandwidth, for the utilisation [B/s].

    Attributes
    ----------
    bytes_by_client, busy_s_by_client : dict of str to float
        What each client moved [B], and how long it held the bus [s].
    """

    def __init__(self, env: simpy.Environment, capacity_bytes_per_s: float) -> None:
        super().__init__(env, "bus")
        self.capacity_bytes_per_s = capacity_bytes_per_s
        self.bytes_by_client: dict[str, float] = {}
        self.busy_s_by_client: dict[str, float] = {}

    def transfer(self, client: str, bytes_moved: float, duration_s: float) -> Process:
        """Move bytes for a client.

        Parameters
        ----------
        client : str
            Engine that moves them.
        bytes_moved : float
            Bytes [B].
        duration_s : float
            Time that it takes this client alone [s].

        Returns
        -------
        float
            Waiting and transfer time [s].
        """
        elapsed_s = yield from self.hold(duration_s)
        self.bytes_by_client[client] = self.bytes_by_client.get(client, 0.0) + bytes_moved
        self.busy_s_by_client[client] = self.busy_s_by_client.get(client, 0.0) + duration_s
        return elapsed_s

    def utilisation(self, client: str) -> float:
        """Share of the capacity that a client used over all the time so far.

        Parameters
        ----------
        client : str
            Engine.
        """
        moved = self.bytes_by_client.get(client, 0.0)
        return moved / (self.capacity_bytes_per_s * self.env.now) if self.env.now else 0.0


class Machine:
    """Clock, engines, host and bus of one phone.

    Parameters
    ----------
    engines : iterable of str
        Names of the engines in use.
    capacity_bytes_per_s : float
        Peak bandwidth of the bus [B/s].

    Attributes
    ----------
    env : simpy.Environment
        The clock.
    engines : dict of str to Unit
        By name.
    host : Unit
        The CPU while it orchestrates.
    bus : MemoryBus
        Memory bus.
    """

    def __init__(self, *, engines: Iterable[str], capacity_bytes_per_s: float) -> None:
        self.env = simpy.Environment(initial_time=0.0)
        self.engines = {name: Unit(self.env, name) for name in engines}
        self.host = Unit(self.env, "host")
        self.bus = MemoryBus(self.env, capacity_bytes_per_s)

    @property
    def grants(self) -> int:
        """Times that any resource was taken."""
        return self.bus.grants + self.host.grants + sum(unit.grants for unit in self.engines.values())

    @property
    def timeouts(self) -> int:
        """Times that the clock was waited for: once in every hold of the host and of the bus."""
        return self.bus.grants + self.host.grants
