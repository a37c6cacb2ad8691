"""Everything a report shows, as plain records; it computes what `simulator.figures` draws, and draws nothing.

``report_data`` asks `simulator.studies.compare` once, at every draft length and for every task, and derives
records for each figure, the sentences beside them, sources and assumptions.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hw_profiles import DeviceProfile, load_device, load_runtime, runtimes_for
from simulator.acceptance.schema import Trace, TraceError
from simulator.acceptance.summary import ALL_TASKS, summarise
from simulator.acceptance.trace import (
    RESPONSES_FILE,
    Responses,
    load_shipped_responses,
    read_responses,
    read_trace,
    shipped_targets,
    shipped_traces,
)
from simulator.drafters import build_drafter, list_drafters
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
from simulator.studies.reporting.strips import strip_records

TRACED_TARGET = "smollm2_135m"
STRIP_DRAFT_LENGTH = 4
FEWEST_STEPS = 20
"""Shares of fewer steps are noise: left out of the acceptance by depth."""
_FIRST = ("none", "frozen_mtp", "gemma4_assistant", "mtp_own_kv", "standalone", "ngram")


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
    found = compare(devices=list(devices), targets=targets, runtimes=runtime, tasks=tasks,
                    draft_lengths=lengths, traces=given, max_overlap=max_overlap, every_length=True, every_task=True)  # fmt: skip
    designs = sorted(designs_of(found), key=_order)
    loaded = _traces(given)
    places = {device: _place(device, designs) for device in devices}
    served = list(dict.fromkeys(design.first.target for design in designs))
    blocks = {design.first.target: design.first.block for design in designs}
    sections = [
        _section(device, target, blocks[target], primary(_some(designs, device, target)), places[device])
        for device in devices
        for target in served
    ]
    return {
        "title": "draftscope: which drafter, and what it costs",
        "version": version(),
        "answers": _answers(designs, devices, served, places, blocks),
        "devices": [{**places[device], "default": at == 0} for at, device in enumerate(devices)],
        "targets": [_target(name, blocks[name]) for name in served],
        "comparison": _comparison(designs, devices, served),
        "sections": sections,
        "fewest_steps": FEWEST_STEPS,
        "acceptance": _acceptance(loaded, tasks, lengths, max_overlap),
        "strips": _strips(loaded, given, responses, tasks, max_overlap),
        "verify": _verify(devices, served, sections, np.random.default_rng(seed)),
        "sources": source_records(_keys(designs)),
        "assumptions": [record for place in places.values() for record in _assumed(place)],
        "notes": _notes(found),
    }


def _order(design: Design) -> tuple[int, int, bool]:
    family = design.first.family
    rank = _FIRST.index(family) if family in _FIRST else len(_FIRST)
    return (0 if design.first.block == TRACED else 1, rank, "body" in design.first.drafter)


def _some(designs: Iterable[Design], device: str, target: str) -> list[Design]:
    return [design for design in designs if (design.first.device, design.first.target) == (device, target)]


def _place(device: str, designs: Iterable[Design]) -> Record:
    """A device with the runtime used on it and what RAM it has free."""
    profile: DeviceProfile = load_device(device)
    row = next(design.first for design in designs if design.first.device == device)
    stack = load_runtime(row.runtime)
    return {
        "id": device, "name": profile.name, "runtime": row.runtime, "runtime_name": stack.name,
        "engine": row.engine, "free_ram_bytes": profile.free_ram_bytes, "ram_bytes": profile.ram_bytes.value,
        "runtime_measured_here": not stack.is_transfer(profile),
    }  # fmt: skip


def _target(name: str, block: str) -> Record:
    spec = load_target(name)
    words = {"smollm2_135m": "SmolLM2-135M", "gemma_3n_e2b": "Gemma 3n E2B (stand-in for Gemini Nano v3)",
             "gemma_3n_e4b": "Gemma 3n E4B (stand-in for Gemini Nano v3)"}  # fmt: skip
    plain = name.replace("_", " ").title().replace("E2B", "E2B").replace("E4B", "E4B")
    return {"id": name, "block": block, "name": words.get(name, plain), "note": spec.note}


def _answers(
    designs: Sequence[Design], devices: Sequence[str], targets: Sequence[str], places: dict[str, Record],
    blocks: dict[str, str],
) -> list[Record]:  # fmt: skip
    found = []
    for device in devices:
        for target in targets:
            some = _some(designs, device, target)
            if any(design.known and not design.plain for design in some):
                text = readings.answer(
                    some, device=places[device]["name"], target=_target(target, "")["name"]
                )
                found.append({"device": device, "target": target, "block": blocks[target], "text": text})
    return found


def _comparison(designs: Sequence[Design], devices: Sequence[str], targets: Sequence[str]) -> list[Record]:
    """One line for each target, drafter and evidence, with a record of its best row for each device."""
    lines: dict[tuple[Any, ...], Record] = {}
    for target in targets:
        for device in devices:
            for design in _some(designs, device, target):
                row = design.best
                line = lines.setdefault((target, row.drafter, design.first.acceptance), {
                    "block": row.block, "target": target, "drafter": row.drafter, "label": row.label,
                    "acceptance": row.acceptance, "acceptance_kind": row.acceptance_kind, "devices": {},
                    "drafter_ram_bytes": row.drafter_ram_bytes, "note": row.note,
                })  # fmt: skip
                line["devices"][device] = row.record()
    return list(lines.values())


def _section(device: str, target: str, block: str, designs: list[Design], place: Record) -> Record:
    """Records and sentences of one target on one device."""
    known = [design for design in designs if design.known and not design.plain]
    speedups: list[Record] = []
    if block == TRACED:
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
    passes, roof = _roofline(designs, place)
    free = place["free_ram_bytes"]
    tops = [record["speedup_high"] or record["speedup"] for part in speedups for record in part["records"]]
    return {
        "device": device, "target": target, "block": block, "has_acceptance": bool(known),
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
    names = [name for name in (ALL_TASKS, best.fastest_task, best.slowest_task) if name]
    records = [record for name in names for record in speedup_records(design, name)]
    return {"task": ALL_TASKS, "records": records, "drafter": best.drafter,
            "label": best.label, "reading": readings.published_reading(records)}  # fmt: skip


def _winner(records: Sequence[Record]) -> str | None:
    """Drafter with the highest speedup."""
    return max(records, key=lambda record: record["speedup"])["drafter"] if records else None


def _roofline(designs: Sequence[Design], place: Record) -> tuple[list[Record], Record]:
    plain = next(design.first for design in designs if design.plain)
    return roofline_records(
        device=plain.device, runtime=plain.runtime, engine=place["engine"], target=plain.target,
        drafters=[(design.first.drafter, design.first.label) for design in designs if not design.plain],
        prompt_tokens=plain.prompt_tokens, output_tokens=plain.output_tokens,
    )  # fmt: skip


def _traces(given: Sequence[TraceLike]) -> list[Trace]:
    """Traces of the traced target, the frozen head first."""
    if not given:
        given = list(shipped_traces(TRACED_TARGET).values()) if TRACED_TARGET in shipped_targets() else []
    loaded = [trace if isinstance(trace, Trace) else read_trace(trace) for trace in given]
    order = ("frozen_mtp", "mtp_head", "standalone", "ngram", "suffix")
    return sorted(loaded, key=lambda trace: (
        order.index(trace.metadata.drafter_family) if trace.metadata.drafter_family in order else len(order),
        trace.metadata.drafter_id != "ngram", trace.metadata.drafter_id != "standalone_total",
    ))  # fmt: skip


def _labels() -> dict[str, str]:
    """Trace id of a drafter -> its label."""
    target = load_target(TRACED_TARGET)
    built = [build_drafter(name, target) for name in list_drafters(target.id)]
    return {drafter.trace_id or drafter.id: drafter.label for drafter in built}


def _acceptance(
    traces: Sequence[Trace], tasks: Sequence[str] | None, lengths: Iterable[int], max_overlap: float | None
) -> list[Record]:
    """Acceptance by depth, task by task, over the steps of the longest chain asked for."""
    labels = _labels()
    groups: dict[str, list[Record]] = {}
    for trace in traces:
        depth = min(max(lengths), trace.metadata.max_depth)
        for record in summarise(trace, draft_lengths=[depth], tasks=tasks, max_overlap=max_overlap):
            name = record["drafter"]
            whole, given = record["per_position_acceptance_rate"], record["conditional_acceptance_rate"]
            reached = [record["steps"], *(record["steps"] * (share or 0.0) for share in whole)]
            groups.setdefault(record["task"], []).extend(
                {"drafter": name, "label": labels.get(name, name), "task": record["task"], "depth": k + 1,
                 "requests": record["requests"], "draft_length": depth,
                 "per_position_acceptance_rate": whole[k],
                 "conditional_acceptance_rate": given[k] if reached[k] >= FEWEST_STEPS else None}
                for k in range(depth)
            )  # fmt: skip
    return [{"task": task, "records": records, "reading": readings.acceptance_reading(records)}
            for task, records in groups.items() if task != ALL_TASKS]  # fmt: skip


def _strips(
    traces: Sequence[Trace], given: Sequence[TraceLike],
    responses: Responses | str | os.PathLike[str] | None, tasks: Sequence[str] | None,
    max_overlap: float | None,
) -> list[Record]:  # fmt: skip
    texts = _responses(given, responses)
    if texts is None or not traces:
        return []
    wanted = list(tasks or dict.fromkeys(texts.tasks))
    return strip_records(traces, texts, tasks=wanted, draft_length=STRIP_DRAFT_LENGTH,
                         max_overlap=max_overlap)  # fmt: skip


def _responses(
    given: Sequence[TraceLike], responses: Responses | str | os.PathLike[str] | None
) -> Responses | None:
    if isinstance(responses, Responses):
        return responses
    if responses is not None:
        return read_responses(responses)
    if given:
        beside = [Path(trace).with_name(RESPONSES_FILE) for trace in given if not isinstance(trace, Trace)]
        return next((read_responses(path) for path in beside if path.is_file()), None)
    try:
        return load_shipped_responses(TRACED_TARGET) if TRACED_TARGET in shipped_targets() else None
    except TraceError:
        return None


def _verify(
    devices: Sequence[str], targets: Sequence[str], sections: Sequence[Record], rng: np.random.Generator
) -> list[Record]:
    """Verify curves of the targets whose acceptance is known, under every runtime of a device."""
    known = {section["target"] for section in sections if section["has_acceptance"]}
    shown = [target for target in targets if target in known]
    found = []
    for device in devices:
        for target in shown or list(targets[:1]):
            records = verify_records(device=device, runtimes=runtimes_for(device), target=target,
                                     context=1024.0, rng=rng)  # fmt: skip
            found.append({"device": device, "target": target, "records": records, "context": 1024,
                          "reading": readings.verify_reading(records)})  # fmt: skip
    return found


def _keys(designs: Iterable[Design]) -> list[str]:
    return [key for design in designs for row in design.by_length.values() for result in row.results
            for key in result.references]  # fmt: skip


def _assumed(place: Record) -> list[Record]:
    records = assumption_records(device=place["id"], runtime=place["runtime"], engine=place["engine"])
    return [{**record, "device": place["id"]} for record in records]


def _notes(found: Comparison) -> list[str]:
    published = any(row.block == PUBLISHED for row in found.rows)
    block = (
        "Two blocks are never mixed: acceptance measured here holds for the small target only; Gemma-class "
        "targets use their own published acceptance."
    )
    return [block, *found.notes] if published else list(found.notes)
