"""Evidence that nothing is lost: replay is the live loop, speculation is plain, ours is transformers.

``python -m reference_impl.parity`` runs every shipped drafter over many prompts and writes a dated JSON; it
takes an hour or two on two cores and resumes where it was killed. The test suite runs the same functions on
six prompts. It does not know speed or acceptance.
"""

from __future__ import annotations

if __name__ == "__main__":
    from .errors import need_torch

    need_torch()

import argparse
import datetime
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from simulator.errors import DraftscopeError
from simulator.files import check_target, whole_file

from .collect import collect
from .decode import probe_width
from .fetch import cache_dir, load_target
from .gguf_target import Target
from .identity import (
    NEAR_TIE,
    Record,
    locked_record,
    natural_record,
    oracle_record,
    replay_record,
    transformers_model,
)
from .live import NamedDrafter, shipped_drafters
from .responses import Request, make_responses
from .tasks import TASKS

DRAFT_LENGTHS = (1, 2, 3, 4, 8)

Report = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """How much to run: prompts a task, draft lengths, longest response, cache of the shape-locked arms."""

    replay_prompts: int = 10
    locked_prompts: int = 17
    oracle_prompts: int = 2
    draft_lengths: tuple[int, ...] = DRAFT_LENGTHS
    max_new_tokens: int = 48
    capacity: int = 512


class Records:
    """Finished pieces of a run, one JSON object a line, so that a killed run goes on."""

    def __init__(self, path: Path, header: Record) -> None:
        self._path = path
        self._done: dict[str, Record] = {}
        lines = path.read_text().splitlines() if path.exists() else []
        complete = [line for line in lines if line.endswith("}")]
        if complete and json.loads(complete[0]) == header:
            for line in complete[1:]:
                entry = json.loads(line)
                self._done[entry["key"]] = entry["record"]
            complete_text = "\n".join(complete) + "\n"
        else:
            complete_text = json.dumps(header) + "\n"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(complete_text)

    def get(self, key: str, make: Callable[[], Record]) -> Record:
        """The stored record of ``key``, or a new one."""
        if key not in self._done:
            self._done[key] = make()
            with self._path.open("a") as handle:
                handle.write(json.dumps({"key": key, "record": self._done[key]}) + "\n")
        return self._done[key]


def run(
    target: Target,
    drafters: Sequence[NamedDrafter],
    plan: Plan,
    *,
    scratch: Path,
    report: Report,
    bfloat16: tuple[Target, Sequence[NamedDrafter]] | None = None,
) -> Record:
    """The whole comparison in float32, and identity at natural widths in bfloat16 as well."""
    header = {
        "target_sha256": target.sha256,
        "drafters": {d.id: d.digest for d in drafters},
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "plan": json.loads(json.dumps(asdict(plan))),
    }
    records = Records(scratch / "records.jsonl", header)
    requests = make_responses(
        target,
        list(TASKS),
        max(plan.replay_prompts, plan.locked_prompts),
        max_new_tokens=plan.max_new_tokens,
        scratch=scratch,
        report=report,
    )
    replayed = _first(requests, plan.replay_prompts)
    locked = _first(requests, plan.locked_prompts)
    summary: Record = {**header, "near_tie": NEAR_TIE}
    summary["oracle"] = _oracle(target, _first(requests, plan.oracle_prompts), records, report)
    summary["replay"] = _replay(target, drafters, replayed, plan, records, scratch, report)
    summary["locked"] = _locked(target, drafters, locked, plan, records, report)
    summary["natural_float32"] = _natural("float32", target, drafters, replayed, plan, records, report)
    if bfloat16 is not None:
        summary["natural_bfloat16"] = _natural("bfloat16", *bfloat16, replayed, plan, records, report)
    return summary


def _first(requests: Sequence[Request], count: int) -> list[Request]:
    """The first ``count`` requests of each task."""
    seen: dict[str, int] = {}
    chosen = []
    for request in requests:
        seen[request.task] = seen.get(request.task, 0) + 1
        if seen[request.task] <= count:
            chosen.append(request)
    return chosen


def _oracle(target: Target, requests: Sequence[Request], records: Records, report: Report) -> Record:
    model: list[Any] = []

    def make(request: Request) -> Record:
        if not model:
            model.append(transformers_model())
        return oracle_record(target, model[0], [*request.prompt_tokens, *request.response])

    made = [records.get(f"oracle/{r.request_id}", partial(make, r)) for r in requests]
    report(f"oracle: {len(made)} texts")
    return {
        "texts": len(made),
        "largest_relative_difference": max(m["relative"] for m in made),
        "least_same_choice": min(m["same_choice"] for m in made),
    }


def _replay(
    target: Target,
    drafters: Sequence[NamedDrafter],
    requests: Sequence[Request],
    plan: Plan,
    records: Records,
    scratch: Path,
    report: Report,
) -> Record:
    traces = collect(target, drafters, requests, scratch=scratch, report=report)
    starts = [sum(len(r.response) for r in requests[:i]) for i in range(len(requests))]
    result: Record = {"prompts": len(requests)}
    for drafter in drafters:
        result[drafter.id] = {}
        for k in plan.draft_lengths:
            made = [
                records.get(
                    f"replay/{drafter.id}/{k}/{request.request_id}",
                    partial(replay_record, target.backbone, drafter, request, traces[drafter.id], start, k),
                )
                for request, start in zip(requests, starts, strict=True)
            ]
            result[drafter.id][str(k)] = {
                "steps": sum(m["steps"] for m in made),
                "requests_with_equal_steps": sum(m["steps_equal"] for m in made),
                "draft_near_ties": sum(m["draft_near_ties"] for m in made),
                "draft_mismatches": sum(m["draft_mismatches"] for m in made),
                "unexplained_requests": sum(m["unexplained"] for m in made),
                "texts_that_differ": sum(not m["text_equal"] for m in made),
                "largest_text_gap": max((m["text_gap"] for m in made if not m["text_equal"]), default=None),
            }
            report(f"replay: {drafter.id} K={k}: {result[drafter.id][str(k)]}")
    return result


def _locked(
    target: Target,
    drafters: Sequence[NamedDrafter],
    requests: Sequence[Request],
    plan: Plan,
    records: Records,
    report: Report,
) -> Record:
    found = records.get(
        "locked/width",
        lambda: {"width": probe_width(target.backbone, max(plan.draft_lengths), capacity=plan.capacity)},
    )
    made = []
    for i, request in enumerate(requests):
        made.append(
            records.get(
                f"locked/{request.request_id}",
                partial(
                    locked_record,
                    target.backbone,
                    drafters,
                    request.prompt_tokens,
                    draft_length=plan.draft_lengths[i % len(plan.draft_lengths)],
                    max_new_tokens=plan.max_new_tokens,
                    width=found["width"],
                    capacity=plan.capacity,
                ),
            )
        )
        if (i + 1) % 10 == 0:
            report(f"locked: {i + 1}/{len(requests)} prompts")
    return {
        "width": found["width"],
        "prompts": len(made),
        "tokens": sum(m["tokens"] for m in made),
        "prompts_with_equal_tokens_and_logits": {d.id: sum(m["equal"][d.id] for m in made) for d in drafters},
    }


def _natural(
    name: str,
    target: Target,
    drafters: Sequence[NamedDrafter],
    requests: Sequence[Request],
    plan: Plan,
    records: Records,
    report: Report,
) -> Record:
    made = []
    for i, request in enumerate(requests):
        made.append(
            records.get(
                f"natural/{name}/{request.request_id}",
                partial(
                    natural_record,
                    target.backbone,
                    drafters,
                    request.prompt_tokens,
                    draft_length=4,
                    max_new_tokens=plan.max_new_tokens,
                ),
            )
        )
        if (i + 1) % 10 == 0:
            report(f"natural {name}: {i + 1}/{len(requests)} prompts")

    def gaps(drafter: NamedDrafter) -> Iterable[float]:
        return (m["divergences"][drafter.id][1] for m in made if drafter.id in m["divergences"])

    return {
        "prompts": len(made),
        "draft_length": 4,
        "identical_texts": {d.id: len(made) - len(list(gaps(d))) for d in drafters},
        "largest_gap_at_first_divergence": {d.id: max(gaps(d), default=None) for d in drafters},
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Command line of ``make parity``."""
    parser = argparse.ArgumentParser(prog="python -m reference_impl.parity", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/background/parity.json"))
    parser.add_argument(
        "--scratch", type=Path, default=cache_dir() / "parity", help="where a killed run goes on"
    )
    arguments = parser.parse_args(argv)
    try:
        check_target(arguments.out, where="--out ")
    except DraftscopeError as error:
        parser.error(str(error))

    def report(line: str) -> None:
        sys.stderr.write(f"[parity] {line}\n")
        sys.stderr.flush()

    target, wide = load_target(torch.float32), load_target(torch.bfloat16)
    drafters = shipped_drafters(target)
    summary = run(
        target,
        drafters,
        Plan(),
        scratch=arguments.scratch,
        report=report,
        bfloat16=(wide, shipped_drafters(wide)),
    )
    summary["date"] = datetime.date.today().isoformat()
    summary["machine"] = f"{platform.machine()}, {os.cpu_count()} logical cores"
    with whole_file(arguments.out, where="--out ", make_folder=True) as temporary:
        temporary.write_text(json.dumps(summary, indent=1) + "\n")
    report(f"written: {arguments.out}")


if __name__ == "__main__":
    main()
