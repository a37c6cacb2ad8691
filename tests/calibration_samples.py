"""Made-up measurements: the times that a runtime gives, with noise of a known size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from simulator.adapters.observations import Observations, PassTime, PrefillTime
from simulator.lowering import lower

DEVICE, RUNTIME = "pixel_9", "litert_lm_gpu_mali"
WIDTHS, CONTEXTS = (1, 2, 3, 4, 5, 8), (64, 2048)
SIZES = ("gemma_4_e2b", "gemma_4_e4b", "gemma_3_270m")


def sample(
    target: str,
    *,
    device: str = DEVICE,
    runtime: Any = RUNTIME,
    axes: Mapping[str, Any] | None = None,
    points: Iterable[tuple[float, float]] = tuple((w, n) for w in WIDTHS for n in CONTEXTS),
    prompts: Iterable[float] = (64, 1024),
    noise: float = 0.01,
    rng: np.random.Generator | None = None,
    **about: Any,
) -> Observations:
    """Passes and prefills of a target, each with a standard error of ``noise`` of its time."""
    lowered = lower(device=device, target=target, runtime=runtime)
    source = f"{target}.csv"

    def seen(time: float) -> dict[str, float]:
        drawn = time * (1 + noise * rng.standard_normal()) if rng is not None else time
        return {"seconds": drawn, "stderr_s": noise * time}

    def params(prompt: float) -> Any:
        return lowered.bind(prompt_tokens=float(prompt), output_tokens=2.0, **(axes or {}))

    return Observations(
        source=source,
        format="generic_csv",
        **{"device": device, "model": target, **about},
        passes=tuple(
            PassTime(width=w, context=n, where=f"{source}:{i}",
                     **seen(float(params(1).verify_cost(w).time_at(float(n)))))
            for i, (w, n) in enumerate(points, 2)
        ),
        prefills=tuple(
            PrefillTime(tokens=n, where=f"{source}:{i}", **seen(float(params(n).target_prefill().time_s)))
            for i, n in enumerate(prompts, 100)
        ),
    )  # fmt: skip


def plain_pass(milliseconds: float, *, width: float = 1, context: float = 0, line: int = 2,
               stderr: float | None = None) -> PassTime:  # fmt: skip
    """One pass."""
    return PassTime(width=width, context=context, seconds=milliseconds / 1e3, where=f"x.csv:{line}",
                    stderr_s=None if stderr is None else stderr / 1e3)  # fmt: skip


def a_file(*passes: PassTime, source: str = "x.csv", **about: Any) -> Observations:
    """A file with these passes."""
    given = {"device": DEVICE, "model": "gemma_4_e2b", **about}
    return Observations(source=source, format="generic_csv", passes=passes, **given)
