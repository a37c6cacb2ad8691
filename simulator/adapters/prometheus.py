"""Prometheus text, checked: samples by name and labels, histograms; it does not know any metric."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from simulator.adapters.fields import Source
from simulator.adapters.observations import MeasurementError

_SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?$")
_LABEL = re.compile(r'\s*([A-Za-z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')


@dataclass(frozen=True)
class Sample:
    """One line: name, labels, value, line number."""

    name: str
    labels: Mapping[str, str]
    value: float
    line: int


@dataclass(frozen=True)
class Histogram:
    """Sum and count over all label sets, and the line of the first sum."""

    sum: float
    count: float
    line: int

    @property
    def mean(self) -> float:
        """Mean of the observations."""
        return self.sum / self.count


def samples(source: Source, prefix: str) -> list[Sample]:
    """Samples whose name starts with a prefix; every line must be a sample or a comment.

    A value that is not a finite number >= 0 is refused where the name starts with the prefix.
    """
    found = []
    for at, line in enumerate(source.lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        match = _SAMPLE.match(text)
        if match is None:
            raise MeasurementError(
                f"{source.path}:{at}: given {text[:60]!r}, allowed: name{{labels}} value: truncated?"
            )
        if not match[1].startswith(prefix):
            continue
        where = f"{source.path}:{at}: field {match[1]!r}"
        try:
            value = float(match[3])
        except ValueError:
            value = float("nan")
        if not 0 <= value < float("inf"):
            raise MeasurementError(f"{where}: given {match[3]!r}, allowed: a number >= 0.")
        found.append(Sample(match[1], _labels(match[2] or "", where), value, at))
    return found


def _labels(text: str, where: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _LABEL.match(text, position)
        if match is None:
            raise MeasurementError(f'{where}: given labels {text[:60]!r}, allowed: name="value", ...')
        labels[match[1]] = match[2]
        position = match.end()
    return labels


def total(found: list[Sample], name: str) -> float | None:
    """Sum of a counter over its label sets; None where it is absent."""
    values = [sample.value for sample in found if sample.name == name]
    return sum(values) if values else None


def histogram(found: list[Sample], name: str, path: str) -> Histogram | None:
    """A histogram, or None where it is absent or empty; its buckets must rise to its count."""
    sums = [sample for sample in found if sample.name == f"{name}_sum"]
    counts = [sample for sample in found if sample.name == f"{name}_count"]
    if not sums and not counts:
        return None
    if not sums or not counts:
        raise MeasurementError(f"{path}: field {name!r}: '_sum' and '_count' are needed, one is missing.")
    _check_buckets(found, name, counts, path)
    count = sum(sample.value for sample in counts)
    return Histogram(sum(sample.value for sample in sums), count, sums[0].line) if count else None


def _check_buckets(found: list[Sample], name: str, counts: list[Sample], path: str) -> None:
    series: dict[tuple[tuple[str, str], ...], list[tuple[float, Sample]]] = {}
    for sample in found:
        if sample.name != f"{name}_bucket":
            continue
        try:
            edge = float(sample.labels["le"])
        except (KeyError, ValueError):
            raise MeasurementError(
                f"{path}:{sample.line}: field {sample.name!r}: label 'le' is not a number."
            ) from None
        key = tuple(sorted(pair for pair in sample.labels.items() if pair[0] != "le"))
        series.setdefault(key, []).append((edge, sample))
    of_labels = {tuple(sorted(sample.labels.items())): sample for sample in counts}
    for key, buckets in series.items():
        below = 0.0
        for _, sample in sorted(buckets, key=lambda pair: pair[0]):
            if sample.value < below:
                raise MeasurementError(
                    f"{path}:{sample.line}: field {sample.name!r}: given {sample.value:g}, allowed: at least "
                    f"{below:g}, the bucket before."
                )
            below = sample.value
        whole = of_labels.get(key)
        if whole is not None and below != whole.value:
            raise MeasurementError(
                f"{path}:{whole.line}: field {whole.name!r}: given {whole.value:g}, but the last bucket "
                f"holds {below:g}: truncated?"
            )
