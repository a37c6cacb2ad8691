"""Arithmetic that heads on the target's states share; it does not know any single family.

A head takes [target embedding of the last token ; state] (2B wide), projects it to its width d, and feeds a
state of width B back for the next draft. B is the hidden size of the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from simulator.drafters.base import Part
from simulator.drafters.spec import weights_part
from simulator.errors import DraftscopeError, UnknownNameError
from simulator.ops import Op, attention_op, embedding_op, lm_head_op, matrix_op, renamed
from simulator.specs import LayerShape, QuantScheme, TargetSpec

PREFIX = "drafter_"
NAMED_LAYERS = ("last_local", "last_global")


def kv_layers(where: str, target: TargetSpec, names: Sequence[int | str]) -> list[LayerShape]:
    """Layers of the target whose cache a frozen head reads, one for each head layer.

    Parameters
    ----------
    where : str
        For the message.
    target : TargetSpec
        The target.
    names : sequence of int or str
        Layer numbers, or ``last_local`` / ``last_global``: the last layer of that type that stores KV.

    Raises
    ------
    DraftscopeError
        No such layer in this target.
    """
    found = []
    for name in names:
        if isinstance(name, str):
            if name not in NAMED_LAYERS:
                raise UnknownNameError(f"{where}: kv_layers", name, NAMED_LAYERS)
            layer = target.last_kv_layer(is_local=name == "last_local")
            if layer is None:
                other = next(each for each in NAMED_LAYERS if each != name)
                raise DraftscopeError(
                    f"{where}: kv_layers: {name!r} given; {target.id} has no such layer. Allowed for it: "
                    f"{other!r}, or numbers from 0 to {target.num_hidden_layers - 1}."
                )
            found.append(layer)
        elif not 0 <= name < target.num_hidden_layers:
            allowed = f"0 to {target.num_hidden_layers - 1}"
            raise DraftscopeError(f"{where}: kv_layers: {name} given; allowed for {target.id}: {allowed}.")
        else:
            found.append(target.layers[target.layers[name].kv_source])
    return found


def target_kv_ops(target: TargetSpec, layers: Sequence[LayerShape], heads: int) -> list[Op]:
    """Queries of ``heads`` heads in each layer over the target's own cache, local and global apart."""
    ops = []
    for label, is_local in (("local", True), ("global", False)):
        read = [layer for layer in layers if layer.is_local == is_local]
        if read:
            q_dims = sum(heads * layer.head_dim for layer in read)
            ops.append(
                attention_op(f"{label} attention over the target's KV", "kv_cache", target, read, q_dims)
            )
    return ops


def shared_embedding(target: TargetSpec) -> tuple[Op, Part]:
    """Row of the target's embedding table: read by every draft pass, stored by the target."""
    note = f"rows of {target.id}'s table; nothing of its own"
    return embedding_op(target), Part(name="embedding", params=0, resident_bytes=0.0, note=note)


def head_of(
    target: TargetSpec,
    scheme: QuantScheme,
    *,
    kind: Literal["own", "target"],
    width: int,
    vocab: int | None,
    rank: int | None,
) -> tuple[Op, tuple[Part, ...]]:
    """LM head of a drafter.

    Parameters
    ----------
    target : TargetSpec
        The target.
    scheme : QuantScheme
        Precision of the drafter.
    kind : {"own", "target"}
        An own matrix, or rows of the target's head on the fed-back state.
    width : int
        Width of its input.
    vocab : int or None
        Reduced draft vocabulary; None = the target's.
    rank : int or None
        Low-rank factor r: ``width r + r vocab`` parameters instead of ``width vocab``.

    Returns
    -------
    Op, tuple of Part
        What a draft pass reads, and what is stored (with the 8-byte identifiers of a reduced vocabulary).
    """
    rows = target.vocab_size if vocab is None else vocab
    if kind == "target":
        note = f"{rows} rows of the LM head of {target.id}"
        parts = [Part(name="lm_head", params=0, resident_bytes=0.0, note=note)]
        if vocab is not None:
            parts.append(_vocabulary_map(rows))
        return lm_head_op(target, rows), tuple(parts)
    params = width * rows if rank is None else width * rank + rank * rows
    op = matrix_op("LM head", "lm_head", params, scheme.bits("lm_head"), scheme.mac("lm_head"),
                   dispatches=1 if rank is None else 2)  # fmt: skip
    note = f"{rows} tokens" + ("" if rank is None else f", rank {rank}")
    parts = [weights_part("lm_head", params, scheme.bits("lm_head"), note)]
    if vocab is not None:
        parts.append(_vocabulary_map(rows))
    return op, tuple(parts)


def _vocabulary_map(rows: int) -> Part:
    return Part(name="vocabulary_map", params=0, resident_bytes=8.0 * rows, note="64-bit token ids")


def projections(
    target: TargetSpec, scheme: QuantScheme, *, width: int, norms: int, feedback: bool = True
) -> tuple[list[Op], Part]:
    """Input projection 2B -> d (with input norms) and feedback projection d -> B."""
    size, bits, mac = target.hidden_size, scheme.bits("layers"), scheme.mac()
    inward, outward = 2 * size * width + norms, width * size if feedback else 0
    ops = [matrix_op("input projection", "projection", inward, bits, mac)]
    if feedback:
        ops.append(matrix_op("feedback projection", "projection", outward, bits, mac))
    return ops, weights_part("projections", inward + outward, bits)


def drafter_ops(*groups: Op | Sequence[Op]) -> tuple[Op, ...]:
    """Join ops and put ``drafter_`` in front of their parts."""
    flat = [op for group in groups for op in ([group] if isinstance(group, Op) else group)]
    return renamed(flat, PREFIX)
