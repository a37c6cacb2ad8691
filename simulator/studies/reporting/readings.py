"""The sentences of a report, written from its records: the answer, and what each figure shows; no markup."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from simulator.studies.reporting.designs import Design
from simulator.studies.rows import Row

Record = Mapping[str, Any]
MIB = 2.0**20


_HEADS = ("frozen_mtp", "gemma4_assistant", "mtp_own_kv")
"""Families of the subject of a report, the first that a target has."""
_RIVALS = (
    ("conventional MTP", ("mtp_own_kv",)),
    ("the best standalone drafter", ("standalone",)),
    ("", ("ngram",)),
)


def answer(designs: Sequence[Design], *, device: str, target: str) -> str:
    """The verdict for one device and target: the head first, then its rivals, then plain decoding.

    Parameters
    ----------
    designs : sequence of Design
        All drafters of the target on the device, plain decoding among them.
    device, target : str
        Names for people.
    """
    known = _drafted(designs)
    if not known:
        return f"On {device} no drafter of {target} has known acceptance; only costs are shown."
    design = _subject(known)
    row = design.best
    name = f"On {device}, {_lower(row.label)}"
    said = f"{name} makes {target} {row.speedup:.2f}× as fast as plain decoding"
    if (row.speedup or 0.0) <= 1.0:
        said = f"{name} does not pay for {target}: {row.speedup:.2f}× plain decoding"
    speed = (row.decode_tokens_per_s or 0.0) / (row.speedup or 1.0)
    return (
        f"{said}{_span(row)}: {row.decode_tokens_per_s:.3g} tokens/s with {_count(row)} a step, which then "
        f"yields about {row.mean_acceptance_length:.2f} tokens for the time of "
        f"{row.break_even_acceptance_length:.2f} plain passes.{_rivals(known, design)} Plain decoding: "
        f"{speed:.3g} tokens/s{_plainly(known)}. Acceptance is {row.acceptance_kind or 'assumed'}"
        f"{_doubt(row)}."
    )


def _subject(known: Sequence[Design]) -> Design:
    """The best head of the first family of heads that is there; the best drafter where none is."""
    for family in _HEADS:
        heads = [design for design in known if design.first.family == family]
        if heads:
            return max(heads, key=_speed)
    return max([design for design in known if not design.first.control] or known, key=_speed)


def _speed(design: Design) -> float:
    return design.best.decode_tokens_per_s or 0.0


def _plainly(known: Sequence[Design]) -> str:
    return "" if any((design.best.speedup or 0.0) > 1.0 for design in known) else ", the fastest"


def _count(row: Row) -> str:
    """Drafts of a step: a look-up may find fewer."""
    number = f"{row.draft_length} draft{'s' if row.draft_length > 1 else ''}"
    return f"up to {number}" if row.family == "ngram" else number


def _doubt(row: Row) -> str:
    if row.speedup_low is None or row.speedup_low >= 1.0:
        return ""
    return "; the ranges of the hardware numbers do not exclude a loss"


def _rivals(known: Sequence[Design], subject: Design) -> str:
    """The best rival of each kind: those that are faster than the subject, then the others."""
    faster: list[str] = []
    slower: list[str] = []
    for name, families in _RIVALS:
        rows = [design for design in known if design.first.family in families and not design.first.control]
        if not rows or subject.first.family in families:
            continue
        top = max(rows, key=_speed)
        text = f"{name or _lower(top.best.label)} {top.best.speedup:.2f}×"
        (faster if _speed(top) > _speed(subject) else slower).append(text)
    return "".join(
        f" {head}: {', '.join(texts)}." for head, texts in (("Faster", faster), ("Slower", slower)) if texts
    )


def speedup_reading(records: Sequence[Record]) -> str:
    """What the speedup curves of one task say."""
    tops = [record for record in records if record["best"]]
    if not tops:
        return ""
    top = max(candidates(tops), key=lambda record: record["speedup"])
    losing = [record for record in tops if record["speedup"] < 1.0]
    if top["speedup"] <= 1.0:
        return "No drafter pays here: decode plainly."
    text = f"Best: {_lower(top['label'])}, {top['speedup']:.2f}× at K = {top['draft_length']}"
    heads = [record for record in tops if _is_head(record["drafter"])]
    if heads and not _is_head(top["drafter"]):
        head = max(heads, key=lambda record: record["speedup"])
        text = f"{_upper(head['label'])}: {head['speedup']:.2f}× at K = {head['draft_length']}. {text}"
    low, high = top.get("speedup_low"), top.get("speedup_high")
    if low is not None and high is not None:
        text += f" ({low:.2f}× to {high:.2f}× over the ranges of the inputs"
        text += ", so it may also be slower than plain decoding)" if round(low, 2) < 1.0 else ")"
    if losing:
        text += f"; {len(losing)} of {len(tops)} drafters never pay"
    return text + "."


def candidates(records: Sequence[Record]) -> Sequence[Record]:
    """Records without those of controls, never announced as the best; all where no other is there."""
    return [record for record in records if not record.get("control")] or records


def published_reading(records: Sequence[Record]) -> str:
    """What speedup curves of several benchmarks say."""
    tops = [record for record in records if record["best"]]
    if len(tops) < 2:
        return speedup_reading(records)
    fast = max(tops, key=lambda record: record["speedup"])
    slow = min(tops, key=lambda record: record["speedup"])
    if fast["speedup"] - slow["speedup"] < 0.05:
        return f"{fast['speedup']:.2f}× at K = {fast['draft_length']}, alike on all tasks."
    return (
        f"From {slow['speedup']:.2f}× at K = {slow['draft_length']} on the hardest benchmark shown to "
        f"{fast['speedup']:.2f}× at K = {fast['draft_length']} on the easiest: one K does not fit all text."
    )


def speed_reading(records: Sequence[Record]) -> str:
    """What the decode speeds say."""
    drafted = [record for record in records if record["drafter"] != "none"]
    plain = [record for record in records if record["drafter"] == "none"]
    if not drafted or not plain:
        return ""
    best = max(drafted, key=lambda record: record["decode_tokens_per_s"])
    low = min(record["decode_tokens_per_s"] for record in plain)
    high = max(record["decode_tokens_per_s"] for record in plain)
    base = f"{low:.3g}" if f"{low:.3g}" == f"{high:.3g}" else f"{low:.3g} to {high:.3g}"
    return (
        f"Plain decoding runs at {base} tokens/s; the fastest case is {_lower(best['label'])} at "
        f"{best['decode_tokens_per_s']:.3g}. Whiskers are the ranges of the inputs, shared by all drafters: "
        "they move together."
    )


def energy_reading(records: Sequence[Record]) -> str:
    """What the energies say."""
    drafters = {record["drafter"]: record for record in records}
    plain = drafters.get("none")
    others = [record for name, record in drafters.items() if name != "none"]
    if plain is None or not others:
        return ""
    best = min(others, key=lambda record: record["decode_j"])
    change = 1.0 - best["decode_j"] / plain["decode_j"]
    worst = max(others, key=lambda record: record["rejected_share"])
    verb = f"saves {change:.0%} of" if change > 0 else f"adds {-change:.0%} to"
    return (
        f"{_upper(best['label'])} {verb} the decode energy of plain decoding; rejected drafts cost up to "
        f"{worst['rejected_share']:.0%} of it ({_lower(worst['label'])}). "
        "The number at a bar is decoding alone."
    )


def ram_reading(records: Sequence[Record], *, free_bytes: float, device: str) -> str:
    """What the RAM bars say."""
    totals = {record["drafter"]: record for record in records}
    if not totals:
        return ""
    most = max(totals.values(), key=lambda record: record["total_bytes"])
    share = most["total_bytes"] / free_bytes
    if share > 1.0:
        return (
            f"{_upper(most['label'])} with its target needs {most['total_bytes'] / MIB:,.0f} MiB, more than "
            f"the {free_bytes / MIB:,.0f} MiB that {device} has left."
        )
    return (
        f"All fit: the largest ({_lower(most['label'])}) takes {share:.0%} of the "
        f"{free_bytes / MIB:,.0f} MiB that {device} has left after system and reservations."
    )


def drafter_ram_reading(records: Sequence[Record]) -> str:
    """What the drafters' own RAM says."""
    totals = {record["drafter"]: record for record in records}
    heads = [record for name, record in totals.items() if _is_head(name)]
    alone = [record for name, record in totals.items() if "standalone" in name]
    if not heads or not alone:
        return "RAM that speculation adds to plain decoding, part by part."
    head = min(heads, key=lambda record: record["total_bytes"])
    other = max(alone, key=lambda record: record["total_bytes"])
    parts = [record for record in records if record["drafter"] == other["drafter"]]
    top = sorted(parts, key=lambda record: -record["ram_bytes"])[:2]
    named = " and ".join(
        f"{record['ram_bytes'] / MIB:,.0f} MiB {record['part'].removeprefix('drafter_')}" for record in top
    )
    named = named.replace("_", " ").replace("kv", "KV")
    saved = (other["total_bytes"] - head["total_bytes"]) / MIB
    return (
        f"{_upper(head['label'])} takes {saved:,.0f} MiB less than {_lower(other['label'])}, whose largest "
        f"parts are {named}."
    )


def byte_reading(records: Sequence[Record]) -> str:
    """What the byte ledger says."""
    totals = {record["drafter"]: record for record in records}
    plain = totals.pop("none", None)
    if plain is None or not totals:
        return ""
    best = min(totals.values(), key=lambda record: record["total_bytes"])
    own = sum(record["bytes_per_token"] for record in records
              if record["drafter"] == best["drafter"] and record["part"].startswith("drafter_"))  # fmt: skip
    return (
        f"{_upper(best['label'])} moves {best['total_bytes'] / 1e6:,.0f} MB per token instead of "
        f"{plain['total_bytes'] / 1e6:,.0f} MB, {own / 1e6:,.0f} MB of it for drafting: fewer reads of the "
        "target are the whole gain."
    )


def roofline_reading(passes: Sequence[Record], roof: Record) -> str:
    """What the roofline says."""
    plain = next(record for record in passes if record["pass"] == "plain")
    wide = max(
        (record for record in passes if record["pass"] == "verify"), key=lambda record: record["width"]
    )
    reached = roof["achieved_bandwidth_bytes_per_s"] / roof["peak_bandwidth_bytes_per_s"]
    if wide["macs_per_byte"] < roof["ridge_macs_per_byte"]:
        said = "stay left of it, so the hardware could verify them almost free"
    else:
        said = "reach it, so arithmetic limits them"
    return (
        f"A plain pass does {plain['macs_per_byte']:.2g} MACs a byte, the ridge is at "
        f"{roof['ridge_macs_per_byte']:.0f}: {wide['width']} rows {said}. This runtime reaches "
        f"{reached:.0%} of the bandwidth."
    )


def verify_reading(records: Sequence[Record]) -> str:
    """What the verify curves say, at width 5."""
    at = [record for record in records if record["width"] == 5 and record["runtime"] != "ideal"]
    if not at:
        return ""
    cheap = min(at, key=lambda record: record["verify_cost_ratio"])
    dear = max(at, key=lambda record: record["verify_cost_ratio"])
    return (
        f"Verifying 4 drafts costs {cheap['verify_cost_ratio']:.2f} plain passes under {cheap['label']} and "
        f"{dear['verify_cost_ratio']:.2f} under {dear['label']}: the runtime decides whether drafts pay."
    )


def acceptance_reading(records: Sequence[Record]) -> str:
    """What acceptance by depth says for one task: who gets furthest, and who is best at the first draft."""
    shares: dict[str, list[float]] = {}
    for record in records:
        shares.setdefault(record["drafter"], []).append(record["per_position_acceptance_rate"] or 0.0)
    if not any(map(sum, shares.values())):
        return ""
    labels = {record["drafter"]: record["label"] for record in records}
    deepest = max(shares, key=lambda name: sum(shares[name]))
    first = max(shares, key=lambda name: shares[name][0])
    said = [
        f"{_lower(labels[name])} gets {shares[name][0]:.0%} of first drafts right"
        + (f" and all of the first four {shares[name][3]:.0%} of the time" if len(shares[name]) > 3 else "")
        for name in dict.fromkeys((deepest, first))
    ]
    text = "; ".join(said)
    return f"{text[:1].upper()}{text[1:]} ({records[0]['requests']} responses)."


def _is_head(drafter: str) -> bool:
    return "mtp" in drafter or "assistant" in drafter


def _drafted(designs: Iterable[Design]) -> list[Design]:
    return [design for design in designs if design.known and not design.plain]


def _span(row: Row) -> str:
    if row.speedup_low is None or row.speedup_high is None:
        return ""
    return f" ({row.speedup_low:.2f} to {row.speedup_high:.2f})"


_SPOKEN = {
    "Frozen MTP head": "the frozen MTP head",
    "Frozen MTP head (Nano stand-in)": "the frozen MTP head",
    "Conventional MTP with its own KV (Nano stand-in)": "conventional MTP",
    "Standalone drafter, the head's total parameters": "the standalone drafter of the same total size",
    "Standalone drafter, the head's non-embedding parameters": "the standalone drafter of the same body size",
    "Standalone drafter, 128M": "the 128M standalone drafter",
    "Prompt look-up (n-gram)": "n-gram look-up",
    "Suffix look-up in the training responses": "suffix look-up in training responses",
}


def _lower(label: str) -> str:
    """A drafter's label inside a sentence."""
    if label in _SPOKEN:
        return _SPOKEN[label]
    return f"the {label}" if "assistant" in label else label[:1].lower() + label[1:]


def _upper(label: str) -> str:
    text = _lower(label)
    return text[:1].upper() + text[1:]
