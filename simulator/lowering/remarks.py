"""What a reader must know of one question: precision, context limit, whose acceptance; it costs nothing."""

from __future__ import annotations

import re

import numpy as np

from hw_profiles.schema import RuntimeProfile
from simulator.acceptance import Acceptance, PublishedAcceptance, TraceAcceptance, load_published
from simulator.drafters.base import DrafterModel
from simulator.specs import Scenario, TargetSpec

WEIGHTS_OF_KERNELS = {r"\bf16\b|half precision": ("f16", 9.0, 64.0), r"\bQ4_K\b": ("4-bit", 0.0, 6.0),
                      r"\bint8\b": ("8-bit", 6.0, 9.0)}  # fmt: skip
"""What a kernel family is called -> the weights that it takes, in words and as a range of bits."""
SHORT = {"bfloat16": "bf16", "float16": "f16", "float32": "f32"}


def context_remark(
    spec: TargetSpec, asked: Scenario, acceptance: Acceptance | None, task: str | None, *, has_prompt: bool
) -> str:
    """Say that a request is longer than what the target was made for; empty where it is not.

    Parameters
    ----------
    spec : TargetSpec
        With its limit, where one is known.
    asked : Scenario
        Prompt, response and context asked for.
    acceptance : Acceptance or None
        A trace has requests of its own.
    task : str or None
        Task class of the trace.
    has_prompt : bool
        True where the prompt asked for replaces those of a trace.
    """
    limit = spec.max_position_embeddings
    if limit is None:
        return ""
    needed = np.max(asked.prompt_tokens) + np.max(asked.output_tokens)
    if isinstance(acceptance, TraceAcceptance):
        table = acceptance.steps(0, task=task)
        responses = np.bincount(table.request, weights=table.emitted) + 1
        needed = np.max(asked.prompt_tokens) + np.max(responses) if has_prompt else np.max(table.context) + 1
    if asked.context is not None:
        needed = np.max(asked.context)
    if needed <= limit:
        return ""
    return (
        f"{needed:,.0f} tokens of context are asked for, but {spec.id} is made for {limit:,} at most "
        "(max_position_embeddings): it would not run like this."
    )


def kernel_remark(spec: TargetSpec, runtime: RuntimeProfile) -> str:
    """Say that a runtime was measured with kernels for other weights than the target has; else empty.

    Parameters
    ----------
    spec : TargetSpec
        The target.
    runtime : RuntimeProfile
        Runtime of its passes.
    """
    bits = spec.quant.bits("layers")
    for pattern, (words, low, high) in WEIGHTS_OF_KERNELS.items():
        if re.search(pattern, runtime.kernel_family) and not low <= bits <= high:
            return (
                f"Runtime {runtime.id} was measured with kernels for {words} weights; {spec.id} has "
                f"{bits:.3g} bits a weight in its layers: its bytes are right, the cost of further rows is "
                "that of other kernels."
            )
    return ""


def dtype_remark(spec: TargetSpec, *, shipped: bool) -> str:
    """What a reader must know of a caller's file whose own precision is costed; empty otherwise.

    Parameters
    ----------
    spec : TargetSpec
        The target.
    shipped : bool
        True for a target of this package.
    """
    says = spec.quant.note.rpartition(" dtype ")
    if shipped or spec.quant.name != "file" or not says[1]:
        return ""
    dtype = says[2].removeprefix("torch.")
    return (
        f"{spec.id} is costed in {SHORT.get(dtype, dtype)} as the file says; add @int4 to the file's path "
        "(PATH@int4) for a 4-bit phone build (4.5 bits a weight, 8.5 in the LM head)."
    )


def acceptance_remark(
    model: Acceptance | None, drafter: DrafterModel, target_id: str, *, longest: float, transfer: bool
) -> str:
    """Which target and drafter an acceptance comes from, where it is carried over to others; else empty.

    Parameters
    ----------
    model : Acceptance or None
        What is used.
    drafter : DrafterModel
        The drafter asked for.
    target_id : str
        The target asked for.
    longest : float
        Drafts per step; 0 uses no acceptance.
    transfer : bool
        Whether the caller allowed acceptance of another target or drafter.
    """
    if model is None or longest == 0:
        return ""
    ours: set[str | None] = {drafter.id, drafter.trace_id, None}
    role = "drafter"
    own: str | None
    by: str | None
    if isinstance(model, TraceAcceptance):
        own, by = model.trace.metadata.target_id, model.trace.metadata.drafter_id
    elif isinstance(model, PublishedAcceptance):
        published = load_published(model.name)
        own, by, ours = published.target_id, published.drafter_family, {drafter.family, None}
        role = "drafter family"
        if own == target_id and by in ours and published.drafter != drafter.published_as:
            return (
                f"The acceptance was published for {published.drafter}, another drafter of the family: for "
                f"{drafter.id} it counts as assumed."
            )
    else:
        own, by = model.target_id, model.drafter_id
    if not transfer or (own in (target_id, None) and by in ours):
        return ""
    origin = [f"{what} {name!r}" for what, name in (("target", own), (role, by)) if name is not None]
    return (
        f"The acceptance comes from {' and '.join(origin)} and is carried over (--transfer): the result is "
        "therefore assumed."
    )
