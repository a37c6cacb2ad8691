"""Power rails of a Perfetto trace, written here byte by byte, and dates of results."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest

from simulator.adapters.dates import measured_at
from simulator.adapters.observations import MeasurementError
from simulator.adapters.power_rails import read_power_rails


def varint(value):
    groups = []
    while True:
        groups.append(value & 0x7F | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(groups)


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def trace(readings, names=((1, b"S2S_VDD_G3D"), (2, b"S4M_VDD_CPUCL0"))):
    described = b"".join(field(1, field(1, index) + field(2, name)) for index, name in names)
    packets = [field(8, 77) + field(40, described)]
    for index, milliseconds, microjoules in readings:
        energy = field(1, index) + field(2, milliseconds) + field(3, microjoules)
        packets.append(field(40, field(2, energy)))
    return b"".join(field(1, packet) for packet in packets)


READINGS = [
    (1, 1000, 5_000_000), (2, 1000, 100), (1, 2000, 5_500_000), (1, 3000, 8_000_000), (2, 3000, 400_100),
]  # fmt: skip


def test_energy_and_power(tmp_path):
    path = tmp_path / "a.perfetto-trace"
    path.write_bytes(trace(READINGS))
    gpu, little = read_power_rails(path)
    assert (gpu.name, gpu.seconds, gpu.energy_j) == ("S2S_VDD_G3D", 2.0, pytest.approx(3.0))
    assert (gpu.mean_w, gpu.highest_w) == (pytest.approx(1.5), pytest.approx(2.5))
    assert (little.name, little.mean_w) == ("S4M_VDD_CPUCL0", pytest.approx(0.2))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (trace(READINGS)[:-3], "truncated"),
        (trace(READINGS[:2]), "no power rail with two readings"),
        (trace([(1, 1000, 500), (1, 2000, 400)]), "its energy falls at 2000 ms"),
        (b"no trace at all", "a.perfetto-trace"),
        (b"", "empty"),
    ],
)
def test_what_is_no_trace_of_rails_is_refused(tmp_path, data, words):
    path = tmp_path / "a.perfetto-trace"
    path.write_bytes(data)
    with pytest.raises(MeasurementError, match=words):
        read_power_rails(path)


def test_the_first_test_counts(tmp_path):
    path = tmp_path / "bench.jsonl"
    path.write_text('{"test_time": "2026-03-02T10:00:05Z"}\n{"test_time": "2026-03-02T10:00:01Z"}\n')
    assert measured_at(path) == (datetime(2026, 3, 2, 10, 0, 1, tzinfo=UTC), "its test_time")


def test_else_the_date_of_the_file(tmp_path):
    path = tmp_path / "a.log"
    path.write_text('test_time: "2026-99-02T10:00:05Z"')
    os.utime(path, (1e9, 1e9))
    assert measured_at(path) == (datetime.fromtimestamp(1e9, UTC), "the date of the file")
