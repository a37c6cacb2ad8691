"""Whether another runtime of a device decodes a target faster than its default; it compares no drafters."""

from __future__ import annotations

from hw_profiles import list_runtimes, load_runtime, runtimes_for
from simulator.analytic import predict
from simulator.studies.places import Place
from simulator.studies.rows import Row
from simulator.units import rounded


def elsewhere(plain: Row, place: Place) -> str:
    """Plain decoding with the same stack on other engines of a device, where that is faster; else empty.

    Parameters
    ----------
    plain : Row
        Plain decoding at the place.
    place : Place
        With the device's default runtime.
    """
    if plain.runtime not in list_runtimes():
        return ""
    found = []
    stack = _stack(plain.runtime)
    for name in runtimes_for(place.device):
        if name == plain.runtime or _stack(name) != stack:
            continue
        result = predict(
            device=place.device, runtime=name, target=place.target, batch=place.batch,
            prompt_tokens=plain.prompt_tokens, output_tokens=round(plain.output_tokens), intervals=False,
        )  # fmt: skip
        found.append((result["decode_tokens_per_s"], name, result["ttft_s"]))
    faster = sorted((each for each in found if each[0] > (plain.decode_tokens_per_s or 0.0)), reverse=True)
    if not faster:
        return ""
    others = " and ".join(_words(speed, name, ttft_s) for speed, name, ttft_s in faster)
    here = _words(plain.decode_tokens_per_s, plain.runtime, plain.ttft_s)
    return f"Plain decoding of {plain.target} on {plain.device} is faster with {others} than with {here}."


def _stack(runtime: str) -> str:
    """``LiteRT-LM`` of ``LiteRT-LM on the Edge TPU``."""
    return load_runtime(runtime).name.split()[0]


def _words(speed: float | None, name: str, ttft_s: float) -> str:
    return f"{name} ({rounded(speed)} tok/s, first token {rounded(ttft_s * 1e3)} ms)"
