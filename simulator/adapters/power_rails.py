"""Power rails of a Perfetto trace; it does not know what ran while it was recorded.

Messages: `Trace.packet` (1), `TracePacket.power_rails` (40), and `power_rails.proto` of Perfetto.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise

from simulator.adapters import protobuf
from simulator.adapters.fields import Source
from simulator.adapters.observations import MeasurementError

PACKET, POWER_RAILS, DESCRIPTOR, ENERGY = 1, 40, 1, 2
INDEX, NAME = 1, 2
TIME_MS, MICROJOULES = 2, 3


@dataclass(frozen=True, kw_only=True)
class Rail:
    """One rail over the trace.

    Attributes
    ----------
    name : str
        As the device names it.
    seconds, energy_j : float
        From the first to the last reading.
    highest_w : float
        Highest mean power between two readings.
    """

    name: str
    seconds: float
    energy_j: float
    highest_w: float

    @property
    def mean_w(self) -> float:
        """Mean power [W]."""
        return self.energy_j / self.seconds


def read_power_rails(path: str | os.PathLike[str]) -> tuple[Rail, ...]:
    """Rails of a trace, by energy, largest first.

    Parameters
    ----------
    path : path
        Trace of Perfetto, uncompressed.

    Raises
    ------
    MeasurementError
        If it is no trace, or holds no power rails; with the byte where there is one.
    """
    source = Source.read(path)
    names: dict[int, str] = {}
    readings: dict[int, list[tuple[int, int]]] = {}
    for packet in _messages(source, source.data, 0, PACKET):
        for rails in _messages(source, *packet, POWER_RAILS):
            for descriptor in _messages(source, *rails, DESCRIPTOR):
                each = _values(source, *descriptor)
                name = each.get(NAME, b"")
                names[_whole(each, INDEX)] = (
                    name.decode("utf-8", "replace") if isinstance(name, bytes) else ""
                )
            for energy in _messages(source, *rails, ENERGY):
                each = _values(source, *energy)
                reading = (_whole(each, TIME_MS), _whole(each, MICROJOULES))
                readings.setdefault(_whole(each, INDEX), []).append(reading)
    found = [
        rail for index, each in readings.items()
        if (rail := _rail(source, names.get(index) or f"rail {index}", each)) is not None
    ]  # fmt: skip
    if not found:
        raise MeasurementError(
            f"{source.path}: no power rail with two readings; this device has none, or the trace was "
            "recorded without collect_power_rails."
        )
    return tuple(sorted(found, key=lambda rail: -rail.energy_j))


def _rail(source: Source, name: str, readings: list[tuple[int, int]]) -> Rail | None:
    ordered = sorted(set(readings))
    powers = []
    for (before, low), (after, high) in pairwise(ordered):
        if high < low:
            raise MeasurementError(f"{source.path}: rail {name!r}: its energy falls at {after} ms: damaged.")
        if after > before:
            powers.append((high - low) * 1e-6 / ((after - before) * 1e-3))
    if not powers:
        return None
    return Rail(
        name=name, seconds=(ordered[-1][0] - ordered[0][0]) * 1e-3,
        energy_j=(ordered[-1][1] - ordered[0][1]) * 1e-6, highest_w=max(powers),
    )  # fmt: skip


def _messages(source: Source, data: bytes, base: int, number: int) -> list[tuple[bytes, int]]:
    return [
        (each.value, each.start)
        for each in protobuf.fields(data, source.path, base)
        if each.number == number and isinstance(each.value, bytes)
    ]


def _values(source: Source, data: bytes, base: int) -> dict[int, int | bytes]:
    return {each.number: each.value for each in protobuf.fields(data, source.path, base)}


def _whole(values: dict[int, int | bytes], number: int) -> int:
    value = values.get(number, 0)
    return value if isinstance(value, int) else 0
