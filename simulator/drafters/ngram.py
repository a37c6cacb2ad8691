"""Look-up drafters (prompt n-gram, suffix of a stored text); they do not know what the text says.

No draft pass: the host searches the history once per step, and proposes what followed the same n-gram there.
Prompt lookup: Saxena 2023; suffix decoding: Oliaro et al. 2024 (arXiv 2411.04975).
"""

from __future__ import annotations

from pydantic import Field, PositiveInt

from simulator.drafters.base import Part
from simulator.drafters.spec import Built, Cited, DrafterSpec, cited_kinds, cited_part
from simulator.specs import QuantScheme, TargetSpec


class Spec(DrafterSpec):
    """A look-up drafter.

    Attributes
    ----------
    host_s_per_step : Cited
        Search time on the host per step [s].
    history_tokens : int
        Tokens of this request that are kept (4 bytes each).
    index_bytes : Cited or None
        Stored text with its index, for look-ups beyond the request [B].
    """

    host_s_per_step: Cited
    history_tokens: PositiveInt = Field(default=4096)
    index_bytes: Cited | None = None


def build(spec: Spec, target: TargetSpec, scheme: QuantScheme) -> Built:
    """Return the look-up drafter: RAM for the history and the index, host time per step, no ops."""
    history = Part(
        name="history", params=0, resident_bytes=4.0 * spec.history_tokens, note="32-bit token ids"
    )
    return Built(
        parts=(history, *cited_part("index", spec.index_bytes)),
        passes_per_step="none",
        context="none",
        host_s=spec.host_s_per_step,
        kinds=cited_kinds(spec.index_bytes),
    )
