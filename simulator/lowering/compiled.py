"""Ops of one forward pass folded into a few coefficients; it does not know bandwidths, rates or energies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from simulator.lowering.affine import Affine, Quantity
from simulator.ops import Op


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Weight bytes of a pass: dense ones, and routed experts of which wider passes touch more.

    Attributes
    ----------
    dense_bytes : float
        Read once whatever the width [B].
    routed : tuple of Op
        Ops with experts.
    """

    dense_bytes: float = 0.0
    routed: tuple[Op, ...] = ()

    def at(self, rows: Quantity) -> Quantity:
        """Bytes of a pass of ``rows`` rows: dense weights, and the union of the experts of its rows [B]."""
        return self.dense_bytes + self.routed_at(rows)

    def routed_at(self, rows: Quantity) -> Quantity:
        """Bytes of the experts that ``rows`` rows touch [B]."""
        total: Quantity = 0.0
        for op in self.routed:
            total = total + op.weight_bytes_at(rows)
        return total

    def __add__(self, other: Weights) -> Weights:
        """Both."""
        return Weights(dense_bytes=self.dense_bytes + other.dense_bytes, routed=self.routed + other.routed)


NO_WEIGHTS = Weights()


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One roofline term: bytes against MACs of one dtype.

    An op is up to two kernels: its rows (weights, gathers, projections) and its context (attention).

    Attributes
    ----------
    weights : Weights
        Read once per pass; none for a context kernel.
    bytes_per_row : float
        Gathered and written [B].
    macs, macs_per_pass : float
        MACs per row (and per context token for a context kernel), and MACs that do not grow with the rows.
    kv_bytes : float
        Bytes per context token; zero for a row kernel.
    dtype : str
        MAC type.
    context : bool
        True: bytes and MACs are per context token seen.
    window : int or None
        Sliding window of a context kernel.
    """

    weights: Weights = NO_WEIGHTS
    bytes_per_row: float = 0.0
    macs: float = 0.0
    macs_per_pass: float = 0.0
    kv_bytes: float = 0.0
    dtype: str = "int8"
    context: bool = False
    window: int | None = None


@dataclass(frozen=True, kw_only=True)
class PartBytes:
    """Bytes of one part of the byte ledger: per pass, per row and per context token by window."""

    weights: Weights = NO_WEIGHTS
    bytes_per_row: float = 0.0
    kv_bytes: tuple[tuple[int | None, float], ...] = ()

    def affine(self, *, rows: Quantity, kv_reads: Quantity, weight_scale: Quantity = 1.0) -> Affine:
        """Bytes of a pass of ``rows`` rows that reads the cache ``kv_reads`` times."""
        return Affine.from_terms(
            self.weights.at(rows) * weight_scale + rows * self.bytes_per_row,
            {window: kv * kv_reads for window, kv in self.kv_bytes},
        )


@dataclass(frozen=True, kw_only=True)
class CompiledPass:
    """One forward pass as coefficients.

    Attributes
    ----------
    kernels : tuple of Kernel
        Roofline terms, those of one shape merged.
    parts : dict of str to PartBytes
        Byte ledger.
    weights : Weights
        All weights [B].
    bytes_per_row : float
        All gathered and written rows [B].
    kv_bytes : dict of int or None to float
        Bytes per context token by window, None for the whole context.
    macs_per_row, macs_per_pass : dict of str to float
        By dtype.
    macs_per_row_per_context : dict of (str, int or None) to float
        By dtype and window.
    windows : tuple of int
        Distinct sliding windows.
    dispatches : int
        Kernels launched.
    layers : int
        Layers with attention.
    """

    kernels: tuple[Kernel, ...]
    parts: dict[str, PartBytes]
    weights: Weights
    bytes_per_row: float
    kv_bytes: dict[int | None, float]
    macs_per_row: dict[str, float]
    macs_per_pass: dict[str, float]
    macs_per_row_per_context: dict[tuple[str, int | None], float]
    windows: tuple[int, ...]
    dispatches: int
    layers: int

    @property
    def empty(self) -> bool:
        """True if there is nothing to run."""
        return not self.kernels

    @property
    def weight_bytes(self) -> float:
        """Weight bytes of a pass of one row [B]."""
        return float(self.weights.at(1.0))


def compile_ops(ops: Iterable[Op]) -> CompiledPass:
    """Fold the ops of a pass.

    Parameters
    ----------
    ops : iterable of Op
        Ops of one forward pass.
    """
    kernels: list[Kernel] = []
    parts: dict[str, PartBytes] = {}
    kv_bytes: dict[int | None, float] = {}
    macs_row: dict[str, float] = {}
    macs_pass: dict[str, float] = {}
    macs_context: dict[tuple[str, int | None], float] = {}
    dispatches = layers = 0
    for op in ops:
        dispatches += op.dispatches
        weights = _weights(op)
        if op.weight_bytes or op.bytes_per_row or op.macs_per_row or op.macs_per_pass:
            macs_row[op.dtype] = macs_row.get(op.dtype, 0.0) + op.macs_per_row
            macs_pass[op.dtype] = macs_pass.get(op.dtype, 0.0) + op.macs_per_pass
            kernels.append(Kernel(weights=weights, bytes_per_row=op.bytes_per_row, macs=op.macs_per_row,
                                  macs_per_pass=op.macs_per_pass, dtype=op.dtype))  # fmt: skip
        if op.kv_bytes_per_context or op.macs_per_row_per_context:
            layers += op.dispatches
            key = (op.dtype, op.window)
            kv_bytes[op.window] = kv_bytes.get(op.window, 0.0) + op.kv_bytes_per_context
            macs_context[key] = macs_context.get(key, 0.0) + op.macs_per_row_per_context
            kernels.append(Kernel(kv_bytes=op.kv_bytes_per_context, macs=op.macs_per_row_per_context,
                                  dtype=op.dtype, context=True, window=op.window))  # fmt: skip
        parts[op.part] = _with(parts.get(op.part, PartBytes()), op, weights)
    return CompiledPass(
        kernels=_merged(kernels),
        parts=parts,
        weights=sum((part.weights for part in parts.values()), NO_WEIGHTS),
        bytes_per_row=sum(part.bytes_per_row for part in parts.values()),
        kv_bytes=kv_bytes,
        macs_per_row=macs_row,
        macs_per_pass={dtype: macs for dtype, macs in macs_pass.items() if macs},
        macs_per_row_per_context=macs_context,
        windows=tuple(sorted(window for window in kv_bytes if window is not None)),
        dispatches=dispatches,
        layers=layers,
    )


def _weights(op: Op) -> Weights:
    return Weights(routed=(op,)) if op.experts else Weights(dense_bytes=op.weight_bytes)


def _with(part: PartBytes, op: Op, weights: Weights) -> PartBytes:
    kv = dict(part.kv_bytes)
    if op.kv_bytes_per_context:
        kv[op.window] = kv.get(op.window, 0.0) + op.kv_bytes_per_context
    return PartBytes(
        weights=part.weights + weights,
        bytes_per_row=part.bytes_per_row + op.bytes_per_row,
        kv_bytes=tuple(kv.items()),
    )


def _merged(kernels: list[Kernel]) -> tuple[Kernel, ...]:
    """Merge kernels that differ by one factor: the sum of their rooflines is the roofline of their sum."""
    groups: dict[tuple[object, ...], Kernel] = {}
    for i, kernel in enumerate(kernels):
        amounts = (kernel.weights.dense_bytes, kernel.bytes_per_row, kernel.macs, kernel.macs_per_pass,
                   kernel.kv_bytes)  # fmt: skip
        ratios = tuple(f"{amount / (sum(amounts) or 1.0):.12g}" for amount in amounts)
        shape = i if kernel.weights.routed else ratios
        key = (kernel.dtype, kernel.context, kernel.window, shape)
        same = groups.get(key)
        groups[key] = kernel if same is None else replace(
            same,
            weights=same.weights + kernel.weights,
            bytes_per_row=same.bytes_per_row + kernel.bytes_per_row,
            macs=same.macs + kernel.macs,
            macs_per_pass=same.macs_per_pass + kernel.macs_per_pass,
            kv_bytes=same.kv_bytes + kernel.kv_bytes,
        )  # fmt: skip
    return tuple(groups.values())
