"""Ops of one forward pass folded into a few coefficients; it does not know bandwidths, rates or energies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from simulator.lowering.affine import Affine, Quantity
from simulator.ops import Op

HEAD_PARTS = ("lm_head", "drafter_lm_head")  # needed for the last row of a prefill only


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One roofline term: bytes against MACs of one dtype.

    An op is two kernels: its rows (weights, gathers, projections) and its context (attention over the cache).

    Attributes
    ----------
    weight_bytes, bytes_per_row : float
        Read once per pass, and per row; zero for a context kernel.
    macs : float
        MACs per row, and per context token for a context kernel.
    kv_bytes : float
        Bytes per context token; zero for a row kernel.
    dtype : str
        MAC type.
    context : bool
        True: bytes and MACs are per context token seen.
    window : int or None
        Sliding window of a context kernel.
    head : bool
        Runs for the last row of a prefill only.
    """

    weight_bytes: float = 0.0
    bytes_per_row: float = 0.0
    macs: float = 0.0
    kv_bytes: float = 0.0
    dtype: str = "int8"
    context: bool = False
    window: int | None = None
    head: bool = False


@dataclass(frozen=True, kw_only=True)
class PartBytes:
    """Bytes of one part of the byte ledger: per pass, per row and per context token by window."""

    weight_bytes: float = 0.0
    bytes_per_row: float = 0.0
    kv_bytes: tuple[tuple[int | None, float], ...] = ()

    def affine(self, *, rows: Quantity, kv_reads: Quantity, weight_scale: Quantity = 1.0) -> Affine:
        """Bytes of a pass of ``rows`` rows that reads the cache ``kv_reads`` times."""
        return Affine.from_terms(
            self.weight_bytes * weight_scale + rows * self.bytes_per_row,
            {window: kv * kv_reads for window, kv in self.kv_bytes},
        )


@dataclass(frozen=True, kw_only=True)
class CompiledPass:
    """One forward pass as coefficients.

    Attributes
    ----------
    kernels : tuple of Kernel
        Roofline terms, equal ones merged.
    parts : dict of str to PartBytes
        Byte ledger.
    weight_bytes, bytes_per_row : float
        Totals [B].
    kv_bytes : dict of int or None to float
        Bytes per context token by window, None for the whole context.
    macs_per_row : dict of str to float
        By dtype.
    macs_per_row_per_context : dict of (str, int or None) to float
        By dtype and window.
    windows : tuple of int
        Distinct sliding windows.
    dispatches : int
        Kernels launched.
    """

    kernels: tuple[Kernel, ...]
    parts: dict[str, PartBytes]
    weight_bytes: float
    bytes_per_row: float
    kv_bytes: dict[int | None, float]
    macs_per_row: dict[str, float]
    macs_per_row_per_context: dict[tuple[str, int | None], float]
    windows: tuple[int, ...]
    dispatches: int

    @property
    def empty(self) -> bool:
        """True if there is nothing to run."""
        return not self.kernels


def compile_ops(ops: Iterable[Op]) -> CompiledPass:
    """Fold the ops of a pass.

    Parameters
    ----------
    ops : iterable of Op
        Ops of one forward pass.
    """
    rows: dict[tuple[str, bool], list[Op]] = {}
    context: dict[tuple[str, int | None], list[Op]] = {}
    parts: dict[str, PartBytes] = {}
    dispatches = 0
    row_kernels: list[Kernel] = []
    for op in ops:
        dispatches += op.dispatches
        head = op.part in HEAD_PARTS
        if op.weight_bytes or op.bytes_per_row or op.macs_per_row:
            rows.setdefault((op.dtype, head), []).append(op)
            row_kernels.append(Kernel(weight_bytes=op.weight_bytes, bytes_per_row=op.bytes_per_row,
                                      macs=op.macs_per_row, dtype=op.dtype, head=head))  # fmt: skip
        if op.kv_bytes_per_context or op.macs_per_row_per_context:
            context.setdefault((op.dtype, op.window), []).append(op)
        parts[op.part] = _with(parts.get(op.part, PartBytes()), op)
    context_kernels = [
        Kernel(kv_bytes=op.kv_bytes_per_context, macs=op.macs_per_row_per_context, dtype=op.dtype,
               context=True, window=op.window)
        for group in context.values() for op in group
    ]  # fmt: skip
    kernels = _merged(row_kernels + context_kernels)
    kv_bytes: dict[int | None, float] = {}
    macs_context: dict[tuple[str, int | None], float] = {}
    for (dtype, window), group in context.items():
        kv_bytes[window] = kv_bytes.get(window, 0.0) + sum(op.kv_bytes_per_context for op in group)
        macs_context[dtype, window] = sum(op.macs_per_row_per_context for op in group)
    macs_row: dict[str, float] = {}
    for (dtype, _), group in rows.items():
        macs_row[dtype] = macs_row.get(dtype, 0.0) + sum(op.macs_per_row for op in group)
    return CompiledPass(
        kernels=kernels,
        parts=parts,
        weight_bytes=sum(part.weight_bytes for part in parts.values()),
        bytes_per_row=sum(part.bytes_per_row for part in parts.values()),
        kv_bytes=kv_bytes,
        macs_per_row=macs_row,
        macs_per_row_per_context=macs_context,
        windows=tuple(sorted({window for _, window in context if window is not None})),
        dispatches=dispatches,
    )


def _with(part: PartBytes, op: Op) -> PartBytes:
    kv = dict(part.kv_bytes)
    if op.kv_bytes_per_context:
        kv[op.window] = kv.get(op.window, 0.0) + op.kv_bytes_per_context
    return PartBytes(
        weight_bytes=part.weight_bytes + op.weight_bytes,
        bytes_per_row=part.bytes_per_row + op.bytes_per_row,
        kv_bytes=tuple(kv.items()),
    )


def _merged(kernels: list[Kernel]) -> tuple[Kernel, ...]:
    """Merge kernels that differ by one factor: the sum of their rooflines is the roofline of their sum."""
    groups: dict[tuple[Any, ...], list[Kernel]] = {}
    for kernel in kernels:
        size = kernel.weight_bytes + kernel.bytes_per_row + kernel.macs + kernel.kv_bytes
        ratio = tuple(
            float(f"{value / size:.12g}")
            for value in (kernel.weight_bytes, kernel.bytes_per_row, kernel.macs, kernel.kv_bytes)
        )
        key = (kernel.dtype, kernel.context, kernel.window, kernel.head, ratio)
        groups.setdefault(key, []).append(kernel)
    return tuple(
        Kernel(
            weight_bytes=sum(each.weight_bytes for each in group),
            bytes_per_row=sum(each.bytes_per_row for each in group),
            macs=sum(each.macs for each in group),
            kv_bytes=sum(each.kv_bytes for each in group),
            dtype=group[0].dtype, context=group[0].context, window=group[0].window, head=group[0].head,
        )
        for group in groups.values()
    )  # fmt: skip
