"""Everything a report shows, as plain records; it computes what `simulator.figures` draws, and draws nothing.

``report_data`` asks `simulator.studies.compare` once, at every draft length and for every task, and derives
records for each figure, the sentences beside them, sources and assumptions.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hw_profiles import load_device, load_runtime, runtimes_for
from simulator.acceptance.schema import Trace
from simulator.acceptance.summary import ALL_TASKS
from simulator.acceptance.trace import Responses
from simulator.results.version import version
from simulator.specs import load_target
from simulator.studies.compare import DRAFT_LENGTHS, Comparison, compare
from simulator.studies.evidence import TraceLike
from simulator.studies.reporting import readings
from simulator.studies.reporting.designs import (
    PUBLISHED,
    TRACED,
    Design,
    Record,
    byte_records,
    designs_of,
    energy_records,
    primary,
    ram_records,
    speed_records,
    speedup_records,
)
from simulator.studies.reporting.passes import roofline_records, verify_records
from simulator.studies.reporting.sources import assumption_records, source_records
from simulator.studies.reporting.traces import FEWEST_STEPS, acceptance_records, chosen_traces, strips_of

_NAMES = {
    "smollm2_135m": "SmolLM2-135M",
    "gemma_3n_e2b": "Gemma 3n E2B (stand-in for Gemini Nano v3)",
    "gemma_3n_e4b": "Gemma 3n E4B (stand-in for Gemini Nano v3)",
}
ALIKE = 0.05
"""Speedups closer than this are drawn as one line."""
VERIFY_CONTEXT = 1024
"""Cached tokens behind the verify curves."""
_FIRST = ("frozen_mtp", "gemma4_assistant", "mtp_own_kv", "standalone", "ngram")
"""The head, then its rivals; plain decoding comes last."""


def report_data(
    *,
    devices: Sequence[str] = ("pixel_9", "pixel_10"),
    targets: Sequence[str] | None = None,
    runtime: str | None = None,
    tasks: Sequence[str] | None = None,
    draft_lengths: Iterable[int] = DRAFT_LENGTHS,
    traces: TraceLike | Sequence[TraceLike] = (),
    responses: Responses | str | os.PathLike[str] | None = None,
    max_overlap: float | None = 0.2,
    seed: int = 0,
) -> dict[str, Any]:
    """Compare, and collect what the report's figures and tables show.

    Parameters
    ----------
    devices : sequence of str
        Devices, the one to show first in front.
    targets : sequence of str, optional
        The traced target and Gemma-class targets where omitted.
    runtime : str, optional
        One runtime for all devices; each device's default where omitted.
    tasks : sequence of str, optional
        Task classes of the traces; all where omitted.
    draft_lengths : iterable of int
        K to compare.
    traces : Trace, path or sequence of them
        Instead of the shipped ones.
    responses : Responses or path, optional
        Texts behind the traces; beside the traces' files where omitted. Without them there is no token strip.
    max_overlap : float or None
        Leave out responses that share more of their 8-grams with training responses.
    seed : int
        For the ranges of the verify curves.

    Returns
    -------
    dict
        ``title, version, answers, devices, targets, comparison, sections, fewest_steps, acceptance, strips,
        verify, sources, assumptions, notes``: plain records throughout, with the keys that the functions of
        `simulator.figures` name.
    """
    given = (traces,) if isinstance(traces, (str, os.PathLike, Trace)) else tuple(traces)
    lengths = tuple(draft_lengths)
    found = compare(
        devices=list(devices), targets=targets, runtimes=runtime, tasks=tasks, draft_lengths=lengths,
        traces=given, max_overlap=max_overlap, every_length=True, every_task=True,
    )  # fmt: skip
    given_order = designs_of(found)
    designs = sorted(given_order, key=_order)
    places = [_place(device, runtime, designs) for device in dict.fromkeys(devices)]
    served = _served(targets, sorted(given_order, key=lambda design: _order(design)[0]))
    sections = [
        _section(place, target, primary(_some(designs, place, target)))
        for place in places
        for target in served
    ]
    loaded = chosen_traces(given)
    return {
        "title": "draftscope: the frozen MTP head, its rivals and plain decoding",
        "version": version(),
        "answers": _answers(designs, places, served),
        "devices": [{**place, "default": at == 0} for at, place in enumerate(places)],
        "targets": served,
        "comparison": _comparison(designs, places, served),
        "sections": sections,
        "fewest_steps": FEWEST_STEPS,
        "acceptance": acceptance_records(loaded, tasks=tasks, draft_lengths=lengths, max_overlap=max_overlap),
        "strips": strips_of(loaded, given, responses, tasks=tasks, max_overlap=max_overlap),
        "verify": _verify(places, served, sections, np.random.default_rng(seed)),
        "sources": source_records(_keys(designs)),
        "assumptions": [record for place in places for record in _assumed(place)],
        "notes": _notes(found),
    }


def _order(design: Design) -> tuple[int, int, bool]:
    family = design.first.family
    rank = _FIRST.index(family) if family in _FIRST else len(_FIRST) + (family == "none")
    return (0 if design.first.block == TRACED else 1, rank, "body" in design.first.drafter)


def _some(designs: Iterable[Design], place: Record, target: Record) -> list[Design]:
    wanted = (place["id"], target["id"])
    return [design for design in designs if (design.first.device, design.first.target) == wanted]


def _place(device: str, runtime: str | None, designs: Iterable[Design]) -> Record:
    """A device with the runtime used on it and what RAM it has free; ``given`` are names or files to load."""
    profile = load_device(device)
    row = next(design.first for design in designs if design.first.device == profile.id)
    stack = load_runtime(runtime or row.runtime)
    return {
        "id": profile.id, "given": device, "name": profile.name, "runtime": stack.id,
        "runtime_given": runtime or row.runtime, "runtime_name": stack.name, "engine": row.engine,
        "free_ram_bytes": profile.free_ram_bytes, "ram_bytes": profile.ram_bytes.value,
        "runtime_measured_here": not stack.is_transfer(profile),
    }  # fmt: skip


def _served(targets: Sequence[str] | None, designs: Iterable[Design]) -> list[Record]:
    """Targets with their block and name, in the order of the blocks."""
    given = {load_target(name).id: name for name in targets or ()}
    found: dict[str, Record] = {}
    for design in designs:
        name = design.first.target
        spec = load_target(given.get(name, name))
        plain = name.replace("_", " ").title()
        found[name] = {"id": name, "given": given.get(name, name), "block": design.first.block,
                       "name": _NAMES.get(name, plain), "note": spec.note}  # fmt: skip
    return list(found.values())


def _answers(designs: Sequence[Design], places: Sequence[Record], targets: Sequence[Record]) -> list[Record]:
    found = []
    for place in places:
        for target in targets:
            some = _some(designs, place, target)
            if any(design.known and not design.plain for design in some):
                text = readings.answer(some, device=place["name"], target=target["name"])
                found.append(
                    {"device": place["id"], "target": target["id"], "block": target["block"], "text": text}
                )
    return found


def _comparison(
    designs: Sequence[Design], places: Sequence[Record], targets: Sequence[Record]
) -> list[Record]:
    """One line for each target, drafter and evidence, with a record of its best row for each device."""
    lines: dict[tuple[Any, ...], Record] = {}
    for target in targets:
        for place in places:
            for design in _some(designs, place, target):
                row = design.best
                line = lines.setdefault((row.target, row.drafter, design.first.acceptance), {
                    "block": row.block, "target": row.target, "drafter": row.drafter, "label": row.label,
                    "acceptance": row.acceptance, "acceptance_kind": row.acceptance_kind, "devices": {},
                    "drafter_ram_bytes": row.drafter_ram_bytes, "note": row.note,
                })  # fmt: skip
                line["devices"][place["id"]] = row.record()
    return list(lines.values())


def _section(place: Record, target: Record, designs: list[Design]) -> Record:
    """Records and sentences of one target on one device."""
    known = [design for design in designs if design.known and not design.plain]
    speedups: list[Record] = []
    if target["block"] == TRACED:
        tasks = list(dict.fromkeys(task for design in known for task in design.tasks))
        for task in tasks:
            records = [record for design in known for record in speedup_records(design, task)]
            speedups.append({"task": task, "records": records, "winner": _winner(records),
                             "reading": readings.speedup_reading(records)})  # fmt: skip
    else:
        tasks = [ALL_TASKS]
        speedups = [_published_speedups(design) for design in known if len(design.by_length) > 2]
        tasks = list(dict.fromkeys(task for design in known for task in design.tasks)) or tasks
    speed, energy = speed_records(designs, tasks), energy_records(designs)
    ram, own = ram_records(designs), ram_records(designs, drafter_only=True)
    moved = byte_records(designs)
    passes, roof = _roofline(designs, place, target)
    free = place["free_ram_bytes"]
    tops = [record["speedup_high"] or record["speedup"] for part in speedups for record in part["records"]]
    return {
        "device": place["id"], "target": target["id"], "block": target["block"],
        "has_acceptance": bool(known),
        "speedup": speedups, "speedup_ceiling": max(tops, default=1.0) * 1.05, "speed": speed,
        "energy": energy if known else [], "ram": ram,
        "drafter_ram": own, "bytes": moved if known else [], "passes": passes, "roof": roof,
        "readings": {
            "speed": readings.speed_reading(speed),
            "energy": readings.energy_reading(energy),
            "ram": readings.ram_reading(ram, free_bytes=free, device=place["name"]),
            "drafter_ram": readings.drafter_ram_reading(own),
            "bytes": readings.byte_reading(moved),
            "roofline": readings.roofline_reading(passes, roof),
        },
    }  # fmt: skip


def _published_speedups(design: Design) -> Record:
    """Mean over the benchmarks, the easiest and the hardest of them."""
    best = design.best
    fast, slow = best.fastest_task_speedup or 0.0, best.slowest_task_speedup or 0.0
    alike = fast - slow < ALIKE
    names = [ALL_TASKS] if alike else [ALL_TASKS, best.fastest_task or "", best.slowest_task or ""]
    records = [record for name in names for record in speedup_records(design, name)]
    return {"task": ALL_TASKS, "records": records, "drafter": best.drafter,
            "label": best.label, "reading": readings.published_reading(records)}  # fmt: skip


def _winner(records: Sequence[Record]) -> str | None:
    """Drafter with the highest speedup."""
    best = max(readings.candidates(records), key=lambda record: record["speedup"], default=None)
    return None if best is None else str(best["drafter"])


def _roofline(designs: Sequence[Design], place: Record, target: Record) -> tuple[list[Record], Record]:
    plain = next(design.first for design in designs if design.plain)
    return roofline_records(
        device=place["given"], runtime=place["runtime_given"], engine=place["engine"], target=target["given"],
        drafters=[(design.first.drafter, design.first.label) for design in designs if not design.plain],
        prompt_tokens=plain.prompt_tokens, output_tokens=plain.output_tokens,
    )  # fmt: skip


def _verify(
    places: Sequence[Record], targets: Sequence[Record], sections: Sequence[Record], rng: np.random.Generator
) -> list[Record]:
    """Verify curves of the targets whose acceptance is known, under every runtime of a device."""
    known = {section["target"] for section in sections if section["has_acceptance"]}
    shown = [target for target in targets if target["id"] in known] or targets[:1]
    found = []
    for place in places:
        runtimes = list(dict.fromkeys([*runtimes_for(place["given"]), place["runtime_given"]]))
        for target in shown:
            records = verify_records(device=place["given"], runtimes=runtimes, target=target["given"],
                                     context=VERIFY_CONTEXT, rng=rng)  # fmt: skip
            found.append({
                "device": place["id"], "target": target["id"], "context": VERIFY_CONTEXT, "records": records,
                "reading": readings.verify_reading(records),
            })  # fmt: skip
    return found


def _keys(designs: Iterable[Design]) -> list[str]:
    return [key for design in designs for row in design.by_length.values() for result in row.results
            for key in result.references]  # fmt: skip


def _assumed(place: Record) -> list[Record]:
    records = assumption_records(
        device=place["given"], runtime=place["runtime_given"], engine=place["engine"]
    )
    return [{**record, "device": place["id"]} for record in records]


def _notes(found: Comparison) -> list[str]:
    published = any(row.block == PUBLISHED for row in found.rows)
    block = (
        "Two blocks are never mixed: acceptance measured here holds for the small target only; Gemma-class "
        "targets use their own published acceptance."
    )
    return [block, *found.notes] if published else list(found.notes)
