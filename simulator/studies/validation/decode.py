"""Speed of plain decoding: each row of ``measurements/decode.csv`` from all the others; no drafter involved.

A pass takes ``bytes / (efficiency x bandwidth) + floor``. What a stack makes of that on an engine is a
Gaussian process over stack, engine, machine, quantisation and size: the table is small and its rows differ in
many ways at once, so nothing is fitted to a row. Outliers are weighed down.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw_profiles.accelerators import find_accelerator
from hw_profiles.measurements import rows as packaged_rows

Vector = NDArray[np.float64]

EFFICIENCY = {"cpu": 0.6, "gpu": 0.65, "npu": 0.6, "tpu": 0.2, "ane": 0.2}
FLOOR_S, UNKNOWN_BANDWIDTH, SECOND_DEVICE = 0.002, 60e9, 0.7
STACKS = ("litert", "genie", "qnn", "mlx", "lm studio", "llama.cpp", "ollama", "vllm", "t-mac", "executorch",
          "onnx", "mnn", "cactus", "mlc", "llm_rs2", "core ai", "aicore")  # fmt: skip
SAME_STACK = {"lm studio": "mlx", "ollama": "llama.cpp", "qnn": "genie"}
BITS = (
    (r"w2\b", 2.3),
    (r"w4|int4|4-bit|q4|gptq", 4.6),
    (r"int8|8-bit|q8|w8", 8.5),
    (r"q6", 6.6),
    (r"f16|bf16", 16.0),
)
BYTES = {"E2B": 0.79e9, "E4B": 2.24e9}
"""Text weights of the mobile builds of Gemma 4 (rows of the same table)."""

EFFECTS: tuple[tuple[Callable[[Plain], Any], float, float | None], ...]
NOISE, OUTLIER = 0.005, 0.2


@dataclass(frozen=True, kw_only=True)
class Plain:
    """One row as numbers and names."""

    id: str
    stack: str
    engine: str
    device: str
    machine: str
    quant: str
    source: str
    log_bytes: float
    log_bandwidth: float
    log_time: float

    @property
    def prior(self) -> float:
        """Logarithm of the time that bytes and bandwidth alone give."""
        streamed = np.exp(self.log_bytes - self.log_bandwidth) / EFFICIENCY[self.engine]
        return float(np.log(streamed + FLOOR_S))

    @property
    def group(self) -> tuple[str, str, str]:
        """Same machine, stack and engine."""
        return self.stack, self.engine, self.device


EFFECTS = (
    (lambda row: row.engine, 0.02, None),
    (lambda row: (row.stack, row.engine), 0.1, None),
    (lambda row: (row.stack, row.engine, "size"), 0.1, 1.0),
    (lambda row: (row.engine, row.machine), 0.03, None),
    (lambda row: (row.stack, row.engine, row.quant), 0.05, None),
    (lambda row: (row.stack, row.engine, row.source), 0.08, None),
    (lambda row: row.group, 0.06, None),
    (lambda row: (row.group, "size"), 0.05, 0.7),
    (lambda row: (row.group, row.quant), 0.03, None),
)
"""What rows share, the variance of its effect, and the scale of log bytes over which it holds (None: any)."""


@dataclass(frozen=True, kw_only=True)
class DecodeVerdict:
    """Measured and predicted rate of one row.

    Attributes
    ----------
    id, group : str, tuple of str
        The row; its stack, engine and device.
    measured_tokens_per_s : float
        The answer.
    unseen_machine_tokens_per_s : float
        Predicted without any row of its group.
    tokens_per_s : float
        Predicted from all rows but itself.
    calibrated : bool
        Whether another row of its group is known.
    """

    id: str
    group: tuple[str, str, str]
    measured_tokens_per_s: float
    unseen_machine_tokens_per_s: float
    tokens_per_s: float
    calibrated: bool


def decode_rows() -> list[Plain]:
    """The rows of the shipped table that measured plain decoding and state a size."""
    found = []
    for row in packaged_rows("decode.csv"):
        if row["speculative"] == "true" or not row["decode_tokens_per_s"]:
            continue
        size = _bytes(row)
        if size is None:
            continue
        machine = find_accelerator(row["device"])
        bandwidth = machine.bandwidth_bytes_per_s if machine else UNKNOWN_BANDWIDTH
        several = 1 + SECOND_DEVICE if row["device"].startswith("2x") else 1.0
        accelerator = row["accelerator"].lower()
        stack = next((name for name in STACKS if name in row["framework"].lower()), row["framework"].lower())
        found.append(
            Plain(
                id=row["id"],
                stack=SAME_STACK.get(stack, stack),
                engine=next((name for name in EFFICIENCY if name in accelerator), "gpu"),
                device=row["device"],
                machine=machine.name if machine else row["device"],
                quant=row["quant"][:5].lower(),
                source=row["source"],
                log_bytes=float(np.log(size)),
                log_bandwidth=float(np.log(bandwidth * several)),
                log_time=float(-np.log(float(row["decode_tokens_per_s"]))),
            )
        )
    return found


def validate_decode() -> tuple[DecodeVerdict, ...]:
    """Predict each row without itself, and without any row of its machine, stack and engine."""
    rows = decode_rows()
    covariance = _covariance(rows)
    error = np.array([row.log_time - row.prior for row in rows])

    def predicted(i: int, known: Vector) -> float:
        weights = _solved(covariance[np.ix_(known, known)], error[known])
        return float(np.exp(-(rows[i].prior + covariance[i, known] @ weights)))

    found = []
    for i, row in enumerate(rows):
        others = np.array([j for j in range(len(rows)) if j != i])
        elsewhere = np.array([j for j in others if rows[j].group != row.group])
        found.append(
            DecodeVerdict(
                id=row.id,
                group=row.group,
                measured_tokens_per_s=float(np.exp(-row.log_time)),
                unseen_machine_tokens_per_s=predicted(i, elsewhere),
                tokens_per_s=predicted(i, others),
                calibrated=len(elsewhere) < len(others),
            )
        )
    return tuple(found)


def decode_report(verdicts: Sequence[DecodeVerdict]) -> dict[str, Any]:
    """Median absolute errors of the rate."""

    def median(name: str, rows: Sequence[DecodeVerdict]) -> float:
        errors = [abs(getattr(row, name) / row.measured_tokens_per_s - 1) for row in rows]
        return round(float(np.median(errors)), 4)

    calibrated = [row for row in verdicts if row.calibrated]
    return {
        "n": len(verdicts),
        "median_absolute_error": median("tokens_per_s", verdicts),
        "unseen_machine_median_absolute_error": median("unseen_machine_tokens_per_s", verdicts),
        "calibrated_n": len(calibrated),
        "calibrated_median_absolute_error": median("tokens_per_s", calibrated),
    }


def _solved(among: Vector, error: Vector) -> Vector:
    trust, weights = np.ones(len(error)), np.zeros(len(error))
    for _ in range(3):
        weights = np.asarray(np.linalg.solve(among + np.diag(NOISE / trust), error), dtype=float)
        missed = np.abs(error - among @ weights)
        trust = np.clip(OUTLIER / np.maximum(missed, 1e-9), 0.02, 1.0)
    return weights


def _covariance(rows: Sequence[Plain]) -> Vector:
    size = np.array([row.log_bytes for row in rows])
    total = np.zeros((len(rows), len(rows)))
    for of, variance, scale in EFFECTS:
        codes: dict[Any, int] = {}
        code = np.array([codes.setdefault(of(row), len(codes)) for row in rows])
        shared = variance * (code[:, None] == code[None])
        total += (
            shared if scale is None else shared * np.exp(-0.5 * (np.subtract.outer(size, size) / scale) ** 2)
        )
    return total


def _bytes(row: Mapping[str, str]) -> float | None:
    """Weights that a pass reads, stated or from the parameters in the name."""
    if row["weight_bytes"]:
        return float(row["weight_bytes"])
    for name, size in BYTES.items():
        if name in row["model"]:
            return size
    text = re.sub(r"(\d)[p_](\d)", r"\1.\2", f"{row['model']} {row['params']}".lower()).replace("_", " ")
    found = re.search(r"(\d+(?:\.\d+)?) ?([bm])\b", text)
    if found is None:
        return None
    bits = next((bits for pattern, bits in BITS if re.search(pattern, row["quant"].lower())), 4.6)
    return float(found[1]) * (1e9 if found[2] == "b" else 1e6) * bits / 8
