"""The one shape that every drafter family returns: RAM parts and ops; it knows no device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from simulator.ops import Op
from simulator.units import at_most


@dataclass(frozen=True, kw_only=True)
class Part:
    """One line of a drafter's RAM ledger.

    Attributes
    ----------
    name : str
        ``embedding``, ``lm_head``, ``layers``, ``projections``, ``prefill_variants``, ``per_app`` ...
    params : int
        Parameters.
    resident_bytes : float
        RAM that it holds while the drafter is loaded.
    mapped_bytes : float
        Bytes that stay in a memory-mapped file and are paged in by rows.
    note : str
        What the number, or its range, stands for.
    resident_low_bytes, resident_high_bytes : float or None
        Range of ``resident_bytes``; both None where it is known.
    """

    name: str
    params: int
    resident_bytes: float
    mapped_bytes: float = 0.0
    note: str = ""
    resident_low_bytes: float | None = None
    resident_high_bytes: float | None = None


@dataclass(frozen=True, kw_only=True)
class DrafterModel:
    """What a drafter costs on one target, before any device.

    Attributes
    ----------
    id, family, label : str
        Instance, family and name for people.
    parts : tuple of Part
        RAM ledger.
    draft_ops : tuple of Op
        One draft pass at width 1 (empty for none and n-gram).
    passes_per_step : {"none", "per_draft", "one"}
        Draft passes for K drafts: 0, K or 1.
    context : {"target", "own", "none"}
        Whose KV the ops read.
    prefill_ops : tuple of Op
        Own prefill over the prompt (empty for a frozen head).
    catch_up_rows : {"none", "bonus"}
        ``bonus``: the first draft pass of a step has one extra row after a full accept.
    own_kv_bytes_per_token : float
        Own KV growth per cached token (global layers).
    own_kv_window : int or None
        Window of the own local layers.
    own_kv_windowed_bytes_per_token : float
        Own KV per token of the local layers, up to the window.
    host_s_per_step : float
        Host search time per step (n-gram).
    host_s_low, host_s_high : float or None
        Its range; both None where none is stated.
    sources : tuple of str
        Where the numbers come from.
    kind : str
        The weakest kind of its numbers.
    target_id : str
        The target that it was built for.
    trace_id : str
        Name of its acceptance traces.
    published_as : str
        Name by which its publisher calls it, and its published acceptance; empty where none did.
    control : bool
        True for a check that is never announced as the best choice.
    note : str
        What is assumed or left out.
    """

    id: str
    family: str
    label: str
    parts: tuple[Part, ...] = ()
    draft_ops: tuple[Op, ...] = ()
    passes_per_step: Literal["none", "per_draft", "one"]
    context: Literal["target", "own", "none"]
    prefill_ops: tuple[Op, ...] = ()
    catch_up_rows: Literal["none", "bonus"] = "none"
    own_kv_bytes_per_token: float = 0.0
    own_kv_window: int | None = None
    own_kv_windowed_bytes_per_token: float = 0.0
    host_s_per_step: float = 0.0
    host_s_low: float | None = None
    host_s_high: float | None = None
    sources: tuple[str, ...] = ()
    kind: str = "derived"
    target_id: str = ""
    trace_id: str = ""
    published_as: str = ""
    control: bool = False
    note: str = ""

    @property
    def params(self) -> int:
        """Parameters of all parts."""
        return sum(part.params for part in self.parts)

    @property
    def resident_bytes(self) -> float:
        """RAM of all parts, without the own KV cache."""
        return sum(part.resident_bytes for part in self.parts)

    @property
    def mapped_bytes(self) -> float:
        """Memory-mapped bytes of all parts."""
        return sum(part.mapped_bytes for part in self.parts)

    @property
    def draft_weight_bytes(self) -> float:
        """Weight bytes read by one draft pass."""
        return sum(op.weight_bytes for op in self.draft_ops)

    def own_kv_bytes(self, context: Any) -> Any:
        """Own KV cache at ``context`` cached tokens (float or array)."""
        windowed = at_most(context, self.own_kv_window)
        return self.own_kv_bytes_per_token * context + self.own_kv_windowed_bytes_per_token * windowed
