"""Finds out which tool wrote a file and hands it to that tool's importer; it does not look at numbers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType

from simulator.adapters import generic_csv, litert_lm, llama_bench, llama_server, measure, mlx, vllm_metrics
from simulator.adapters.fields import Source
from simulator.adapters.observations import FORMATS, MeasurementError, Observations
from simulator.errors import UnknownNameError

_Importer = tuple[Callable[[Source], bool], Callable[[Source], Observations]]
_IMPORTERS: Mapping[str, _Importer] = MappingProxyType(
    {
        "measure": (measure.recognised, measure.read),
        "llama_bench": (llama_bench.recognised, llama_bench.read),
        "llama_server": (llama_server.recognised, llama_server.read),
        "litert_lm": (litert_lm.recognised, litert_lm.read),
        "vllm_metrics": (vllm_metrics.recognised, vllm_metrics.read),
        "mlx": (mlx.recognised, mlx.read),
        "generic_csv": (generic_csv.recognised, generic_csv.read),
    }
)


def recognised(source: Source) -> str | None:
    """Name of the format, or None where no known tool writes such a file."""
    return next((name for name in FORMATS if _IMPORTERS[name][0](source)), None)


def read(path: str | os.PathLike[str], format: str | None = None) -> Observations:
    """What `read_observations` does."""
    if format is not None and format not in FORMATS:
        raise UnknownNameError("format", format, FORMATS)
    source = Source.read(path)
    name = format or recognised(source)
    if name is None:
        known = "; ".join(f"{key}: {text}" for key, text in FORMATS.items())
        raise MeasurementError(f"{path}: no known tool writes such a file. Known formats: {known}.")
    result = _IMPORTERS[name][1](source)
    if not (result.passes or result.prefills or result.runs):
        left = f" Left out: {'; '.join(result.ignored)}." if result.ignored else ""
        raise MeasurementError(
            f"{path}: read as {name} ({FORMATS[name]}), but it holds no measurement.{left}"
        )
    return result
