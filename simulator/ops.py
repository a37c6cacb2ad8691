"""One forward pass as a short list of Ops (bytes and MACs by part); it knows no device, time or energy.

Left out, and small at batch 1: activations that stay in caches, soft-max and activation functions, and
attention of the new rows among themselves (``w**2 / 2`` against ``w * n``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from simulator.errors import UnknownNameError
from simulator.specs import LayerShape, TargetSpec
from simulator.units import at_most


@dataclass(frozen=True, kw_only=True)
class Op:
    """A group of operations of one pass, affine in width ``w`` (rows) and context ``n`` (cached tokens).

    Bytes: ``weight_bytes_at(w) + w * bytes_per_row + kv_bytes_per_context * min(n, window)`` (times ``w``
    when the kernel reads the cache once per row). MACs: ``macs_per_pass + w * (macs_per_row +
    macs_per_row_per_context * min(n, window))``.

    Attributes
    ----------
    name : str
        What it does, for people.
    part : str
        Key of the byte ledger: ``layers``, ``lm_head``, ``embedding``, ``per_layer_embedding``, ``kv_cache``,
        ``projection``, and the same with ``drafter_`` in front.
    weight_bytes : float
        Bytes of weights (and scales), read once per pass; with experts, what one row reads.
    bytes_per_row : float
        Bytes read or written per row: gathered embedding rows, KV written.
    kv_bytes_per_context : float
        KV bytes read per context token, for all rows together when the kernel reads the cache once.
    macs_per_row, macs_per_row_per_context : float
        Multiply-accumulates.
    macs_per_pass : float
        Multiply-accumulates that do not grow with the width: the LM head of a prefill, which has one row.
    window : int or None
        The op sees ``min(n, window)`` context tokens.
    dtype : str
        MAC type for the rate and energy look-ups: ``int8``, ``f16`` or ``f32``.
    dispatches : int
        Kernels launched, without fusion.
    experts, experts_per_row : int
        Mixture of experts: number of experts, and how many a row is routed to (0 = dense).
    """

    name: str
    part: str
    weight_bytes: float = 0.0
    bytes_per_row: float = 0.0
    kv_bytes_per_context: float = 0.0
    macs_per_row: float = 0.0
    macs_per_row_per_context: float = 0.0
    macs_per_pass: float = 0.0
    window: int | None = None
    dtype: str = "int8"
    dispatches: int = 1
    experts: int = 0
    experts_per_row: int = 0

    def weight_bytes_at(self, width: Any) -> Any:
        """Weight bytes of a pass of ``width`` rows: the union of experts under independent routing.

        ``E (1 - (1 - k / E) ** w)`` distinct experts for ``w`` rows that pick ``k`` of ``E`` each. Real
        routing is correlated between neighbouring tokens, so this is an upper estimate for text.
        """
        if not self.experts:
            return self.weight_bytes
        share = self.experts_per_row / self.experts
        return self.weight_bytes * (1 - (1 - share) ** width) / share


@dataclass(frozen=True, kw_only=True)
class ByteLedger:
    """Bytes moved by part and MACs by type in one pass (floats or arrays).

    Attributes
    ----------
    bytes_by_part : dict
        Part -> bytes.
    macs_by_dtype : dict
        MAC type -> multiply-accumulates.
    weight_bytes, row_bytes, kv_bytes : float or array
        The same bytes split by kind: weights, gathered or written rows, KV reads.
    dispatches : int
        Kernels launched.
    """

    bytes_by_part: dict[str, Any]
    macs_by_dtype: dict[str, Any]
    weight_bytes: Any = 0.0
    row_bytes: Any = 0.0
    kv_bytes: Any = 0.0
    dispatches: int = 0

    @property
    def total_bytes(self) -> Any:
        """All bytes moved."""
        return sum(self.bytes_by_part.values())

    @property
    def total_macs(self) -> Any:
        """All multiply-accumulates."""
        return sum(self.macs_by_dtype.values())


def ledger(
    ops: Iterable[Op], width: Any, context: Any, kv_reads: Literal["once", "per_row"] = "once"
) -> ByteLedger:
    """Add up the bytes and MACs of one pass.

    Parameters
    ----------
    ops : iterable of Op
        One forward pass.
    width : float or array
        Rows of the pass.
    context : float or array
        Tokens cached before it.
    kv_reads : {"once", "per_row"}
        Whether the kernel reads the cache once for all rows or again for each.

    Raises
    ------
    UnknownNameError
        Another word for ``kv_reads``.
    """
    if kv_reads not in ("once", "per_row"):
        raise UnknownNameError("kv_reads", kv_reads, ("once", "per_row"))
    parts: dict[str, Any] = {}
    macs: dict[str, Any] = {}
    weights: Any = 0.0
    rows: Any = 0.0
    kv: Any = 0.0
    dispatches = 0
    for op in ops:
        seen = at_most(context, op.window)
        op_weights = op.weight_bytes_at(width)
        op_rows = width * op.bytes_per_row
        op_kv = op.kv_bytes_per_context * seen * (width if kv_reads == "per_row" else 1)
        op_macs = op.macs_per_pass + width * (op.macs_per_row + op.macs_per_row_per_context * seen)
        parts[op.part] = parts.get(op.part, 0.0) + op_weights + op_rows + op_kv
        macs[op.dtype] = macs.get(op.dtype, 0.0) + op_macs
        weights, rows, kv = weights + op_weights, rows + op_rows, kv + op_kv
        dispatches += op.dispatches
    return ByteLedger(
        bytes_by_part=parts,
        macs_by_dtype=macs,
        weight_bytes=weights,
        row_bytes=rows,
        kv_bytes=kv,
        dispatches=dispatches,
    )


def target_ops(target: TargetSpec) -> tuple[Op, ...]:
    """One forward pass of the target: every row goes through all layers and the LM head.

    Parameters
    ----------
    target : TargetSpec
        Architecture and quantisation.

    Returns
    -------
    tuple of Op
        At most 15 groups, merged across identical layers. Layers that share KV read it again and write none.
    """
    return (*_input_ops(target), *layer_ops(target), *kv_ops(target), lm_head_op(target))


def prefill_ops(target: TargetSpec, *, skip_shared_kv: bool = False) -> tuple[Op, ...]:
    """One prefill of the target: as :func:`target_ops`, but the LM head sees the last row only.

    Parameters
    ----------
    target : TargetSpec
        Architecture and quantisation.
    skip_shared_kv : bool
        The last layers, which store no KV of their own, see the last row only too: nothing ever reads what
        they make of the other rows. The published modelling code computes them for every row.

    References
    ----------
    Sun et al., "You only cache once: decoder-decoder architectures for language models", arXiv:2405.05254.
    """
    storing = [layer for layer in target.layers if layer.stores_kv]
    shared = [layer for layer in target.layers if not layer.stores_kv]
    last = lm_head_op(target)
    if not (skip_shared_kv and shared):
        return (*_input_ops(target), *layer_ops(target), *kv_ops(target), last_row_only(last))
    late = (*layer_ops(target, shared), *kv_ops(target, shared), last)
    early = (*_input_ops(target), *layer_ops(target, storing), *kv_ops(target, storing))
    return (*early, *(last_row_only(op) for op in late))


def last_row_only(op: Op) -> Op:
    """Return the op computed for one row, whatever the width of the pass; its attention MACs are left out."""
    return replace(
        op, macs_per_row=0.0, macs_per_pass=op.macs_per_pass + op.macs_per_row, macs_per_row_per_context=0.0,
        experts=0, experts_per_row=0,
    )  # fmt: skip


def renamed(ops: Sequence[Op], prefix: str) -> tuple[Op, ...]:
    """Return the ops with ``prefix`` in front of every part: a drafter's own layers, table and cache."""
    return tuple(replace(op, part=prefix + op.part) for op in ops)


def gather_op(name: str, part: str, row_bytes: float) -> Op:
    """Return the gathering of one embedding row per input row."""
    return Op(name=name, part=part, bytes_per_row=row_bytes)


def matrix_op(
    name: str,
    part: str,
    params: float,
    bits: float,
    dtype: str,
    *,
    dispatches: int = 1,
    extra_macs: float = 0.0,
) -> Op:
    """Return matrices (and norms) of ``params`` weights: read once per pass, multiplied once per row."""
    return Op(
        name=name,
        part=part,
        weight_bytes=params * bits / 8,
        macs_per_row=params + extra_macs,
        dtype=dtype,
        dispatches=dispatches,
    )


def attention_op(name: str, part: str, target: TargetSpec, layers: Sequence[LayerShape], q_dims: int) -> Op:
    """Return attention over the cache of ``layers`` by ``q_dims`` query elements (QK and PV products)."""
    windows = {target.sliding_window if layer.is_local else None for layer in layers}
    return Op(
        name=name,
        part=part,
        kv_bytes_per_context=sum(target.layer_kv_bytes(layer) for layer in layers),
        macs_per_row_per_context=2 * q_dims,
        window=windows.pop() if len(windows) == 1 else None,
        dtype=target.quant.kv_mac,
        dispatches=len(layers),
    )


def lm_head_op(target: TargetSpec, rows: int | None = None) -> Op:
    """Return the LM head, one logit per token of the vocabulary (or of ``rows`` of them) and row."""
    quant, params = target.quant, (target.vocab_size if rows is None else rows) * target.hidden_size
    return matrix_op("LM head", "lm_head", params, quant.bits("lm_head"), quant.mac("lm_head"))


def embedding_op(target: TargetSpec, part: str = "embedding") -> Op:
    """Return the gathering of a token's row of the embedding table."""
    return gather_op("token embedding", part, target.hidden_size * target.quant.bits("embedding") / 8)


def _input_ops(target: TargetSpec) -> list[Op]:
    """Embedding rows, per-layer embedding rows with their projection, and AltUp's stacking (Gemma 3n)."""
    quant, counts = target.quant, target.param_counts()
    bits, mac = quant.bits("layers"), quant.mac()
    ops = [embedding_op(target)]
    if target.hidden_size_per_layer_input:
        width = target.num_hidden_layers * target.hidden_size_per_layer_input
        row = width * quant.bits("per_layer_embedding") / 8
        ops.append(gather_op("per-layer embedding", "per_layer_embedding", row))
        ops.append(matrix_op("per-layer projection", "projection", counts["per_layer_projection"], bits, mac))
    if counts["altup_projection"]:
        n = 2 * (target.altup_num_inputs - 1)
        ops.append(
            matrix_op("AltUp projections", "projection", counts["altup_projection"], bits, mac, dispatches=n)
        )
    return ops


def layer_ops(target: TargetSpec, layers: Sequence[LayerShape] | None = None) -> list[Op]:
    """Matrices and norms of some layers (all where omitted); they have one precision, so they merge."""
    layers = target.layers if layers is None else layers
    quant, counts, n = target.quant, target.layer_params(layers), len(layers)
    bits, mac = quant.bits("layers"), quant.mac()
    stored = sum(layer.stores_kv for layer in layers)
    joined = sum(layer.stores_kv and layer.shared_kv_projection for layer in layers)

    def matrices(name: str, key: str, dispatches: int, extra_macs: float = 0.0) -> Op:
        return matrix_op(name, "layers", counts[key], bits, mac, dispatches=dispatches, extra_macs=extra_macs)

    ops = [matrices("attention projections", "attention", 2 * n + 2 * stored - joined)]
    if counts["mlp"]:
        ops.append(matrices("MLP", "mlp", 3 * n))
    if counts["experts"]:
        ops += [matrices("expert router", "router", n), _experts_op(target, counts["experts"], 3 * n)]
    if counts["per_layer_input"]:
        ops.append(matrices("per-layer input gates", "per_layer_input", 2 * n))
    if counts["laurel"]:
        ops.append(matrices("LAuReL", "laurel", 2 * n))
    if counts["altup"]:
        inputs = target.altup_num_inputs
        mixing = n * target.hidden_size * (inputs**2 + inputs)  # predict n x n, correct n
        ops.append(matrices("AltUp", "altup", 4 * n, mixing))
    ops.append(matrices("norms and scalars", "norms", target.traits.norms_per_layer * n))
    return ops


def _experts_op(target: TargetSpec, params: int, dispatches: int) -> Op:
    quant = target.quant
    active = params * target.top_k_experts / target.num_experts
    return Op(
        name="routed experts",
        part="layers",
        weight_bytes=active * quant.bits("experts") / 8,
        macs_per_row=active,
        dtype=quant.mac("experts"),
        dispatches=dispatches,
        experts=target.num_experts,
        experts_per_row=target.top_k_experts,
    )


def kv_ops(target: TargetSpec, layers: Sequence[LayerShape] | None = None) -> list[Op]:
    """KV of the new rows written by those layers that store it; the cache read again by every layer."""
    layers = target.layers if layers is None else layers
    storing = [layer for layer in layers if layer.stores_kv]
    written = sum(target.layer_kv_bytes(layer) for layer in storing)
    ops = [Op(name="KV write", part="kv_cache", bytes_per_row=written, dispatches=len(storing))]
    for label, is_local in (("local attention", True), ("global attention", False)):
        read = [layer for layer in layers if layer.is_local == is_local]
        if read:
            ops.append(attention_op(label, "kv_cache", target, read, sum(layer.q_dim for layer in read)))
    return ops
