"""Measure this machine, unit by unit, into a journal: what is done stays done when the run is stopped.

A round is one prompt of one task. Within a round come the memory, the floors, the passes of target and
drafters, and then the same prompt decoded plainly and with every drafter at every draft length, in a random
order with plain decoding in between: a load on the machine hits all arms alike. It does not know what the
times mean; the journal's samples are read elsewhere.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from simulator.errors import UnknownNameError

from .backbone import Backbone
from .errors import ReferenceImplError
from .fetch import load_target
from .gguf_target import Target
from .linear import can_pack
from .live import NamedDrafter, live_drafter, shipped_drafters
from .measure_meter import CLOCKS, Rapl
from .measure_parts import Sample, bandwidth, decoding, floors, passes
from .tasks import TASKS, prompts

PLAIN = "none"
PLAIN_EVERY = 4
"""Arms between two plain runs."""

SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is measured; a journal goes on only with the same.

    Attributes
    ----------
    dtype : {"bfloat16", "float32"}
        Of target and drafters.
    threads : int
        Of torch.
    clock : {"wall", "cpu"}
        ``cpu``: processor time of the main thread, for one thread on a machine with other work.
    drafters : tuple of str
        Of the shipped ones.
    draft_lengths, contexts, widths : tuple of int
        K of the live runs; tokens cached before the timed passes; rows of them.
    tasks : tuple of str
        Task classes.
    prompts, new_tokens, repeats : int
        Prompts of each task; most tokens of a response; passes of each width and context in a round.
    seed : int
        Of prompts, texts and the order of the arms.
    """

    dtype: str
    threads: int
    clock: str
    drafters: tuple[str, ...]
    draft_lengths: tuple[int, ...] = tuple(range(1, 9))
    contexts: tuple[int, ...] = (64, 256, 1024)
    widths: tuple[int, ...] = (*range(1, 10), 12, 16)
    tasks: tuple[str, ...] = tuple(TASKS)
    prompts: int = 2
    new_tokens: int = 64
    repeats: int = 1
    seed: int = 0


class Measured(Protocol):
    """What is needed of a target: a decoder, and prompts as tokens."""

    @property
    def backbone(self) -> Backbone:
        """The decoder."""

    def encode_chat(self, messages: list[dict[str, str]]) -> list[int]:
        """Tokens of a conversation."""


@dataclass(frozen=True)
class Unit:
    """One entry of the journal.

    Attributes
    ----------
    part : {"machine", "passes", "run"}
    round : int
    drafter, draft_length, turn
        Arm of a run; turn counts the plain runs of a round.
    """

    part: str
    round: int
    drafter: str = ""
    draft_length: int = 0
    turn: int = 0

    @property
    def name(self) -> str:
        """Key in the journal."""
        return "/".join(str(value) for value in asdict(self).values())


class Journal:
    """Samples of finished units in a file of JSON lines, the settings first.

    Raises
    ------
    ReferenceImplError
        If the file is no journal, or one of other settings.
    """

    def __init__(self, path: Path, settings: Settings) -> None:
        self.path, self._done = path, dict[str, list[Sample]]()
        head = {"schema_version": SCHEMA_VERSION, "settings": json.loads(json.dumps(asdict(settings)))}
        if path.exists():
            self._read(head)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._append(head)

    def _read(self, head: dict[str, Any]) -> None:
        lines = self.path.read_text("utf-8").split("\n")
        whole, rest = lines[:-1], lines[-1]
        try:
            entries = [json.loads(line) for line in whole]
            theirs, other = entries[0], dict(entries[0]["settings"])
            self._done = {entry["unit"]: entry["samples"] for entry in entries[1:]}
        except (ValueError, KeyError, IndexError, TypeError):
            raise ReferenceImplError(
                f"{self.path}: is no journal of a measurement; give another folder"
            ) from None
        if theirs != head:
            mine = head["settings"]
            differ = [f"{k} {mine.get(k)!r}, there {other.get(k)!r}" for k in mine if mine[k] != other.get(k)]
            raise ReferenceImplError(
                f"{self.path}: holds a measurement of other settings "
                f"({'; '.join(differ) or 'another version'}); allowed: the same settings, to go on, or "
                "another folder"
            )
        if rest:  # a line that a kill cut short
            os.truncate(self.path, len("\n".join([*whole, ""]).encode()))

    def _append(self, entry: dict[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry, allow_nan=False) + "\n")

    def __contains__(self, unit: Unit) -> bool:
        return unit.name in self._done

    def add(self, unit: Unit, samples: list[Sample]) -> None:
        """Keep the samples of a unit."""
        self._append({"unit": unit.name, "samples": samples})
        self._done[unit.name] = samples

    @property
    def samples(self) -> list[Sample]:
        """All samples, in the order they were taken."""
        return [sample for samples in self._done.values() for sample in samples]


def plan(settings: Settings) -> list[Unit]:
    """Units in order: every round has every arm."""
    order = random.Random(settings.seed)
    units: list[Unit] = []
    for each in range(settings.prompts * len(settings.tasks)):
        units += [Unit("machine", each), Unit("passes", each)]
        arms = [(drafter, k) for drafter in settings.drafters for k in settings.draft_lengths]
        order.shuffle(arms)
        for position, (drafter, k) in enumerate(arms):
            if position % PLAIN_EVERY == 0:
                units.append(Unit("run", each, PLAIN, 0, position // PLAIN_EVERY))
            units.append(Unit("run", each, drafter, k))
        units.append(Unit("run", each, PLAIN, 0, -(-len(arms) // PLAIN_EVERY)))
    return units


def measure(
    target: Measured,
    drafters: Iterable[NamedDrafter],
    settings: Settings,
    journal: Journal,
    *,
    report: Callable[[str], None] = lambda _: None,
    bandwidth_bytes: int | None = None,
) -> None:
    """Take every sample that the journal lacks.

    Parameters
    ----------
    target : Measured
        In the dtype of the settings.
    drafters : iterable of NamedDrafter
        Those of the settings.
    settings : Settings
    journal : Journal
    report : callable
        Called with a line of progress a round.
    bandwidth_bytes : int, optional
        Size of the arrays that memory is measured with.

    Raises
    ------
    KeyboardInterrupt
        With what is kept and how to go on.
    """
    torch.set_num_threads(settings.threads)
    units = plan(settings)
    missing = [unit for unit in units if unit not in journal]
    if not missing:
        return
    if len(missing) < len(units):
        report(f"going on: {len(units) - len(missing)} of {len(units)} units are in {journal.path}")
    runner = _Runner(target, {named.id: named for named in drafters}, settings, bandwidth_bytes)
    done = len(units) - len(missing)
    try:
        for unit in missing:
            journal.add(unit, runner.run(unit))
            done += 1
            if done == len(units) or units[done].part == "machine":
                report(f"round {unit.round + 1} of {units[-1].round + 1}: {done} of {len(units)} units")
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"{done} of {len(units)} units are kept in {journal.path}; the same command goes on"
        ) from None


class _Runner:
    """Target and drafters, warmed up."""

    def __init__(
        self, target: Measured, named: dict[str, NamedDrafter], settings: Settings, size: int | None
    ) -> None:
        self.target, self.settings, self.clock = target, settings, CLOCKS[settings.clock]
        self.live = {name: live_drafter(named[name], target.backbone) for name in settings.drafters}
        self.trained = {n: d for n, d in self.live.items() if isinstance(named[n].model, torch.nn.Module)}
        self.size = {} if size is None else {"size": size}
        self.rapl = Rapl.found()
        self.asked = [
            (task, prompt)
            for i in range(settings.prompts)
            for task in settings.tasks
            for prompt in prompts(task, "test", i + 1, settings.seed)[i:]
        ]
        self._passes(0)

    def run(self, unit: Unit) -> list[Sample]:
        if unit.part == "machine":
            return [*bandwidth(self.clock, **self.size), *floors(self.target.backbone, self.clock)]
        return self._passes(unit.round) if unit.part == "passes" else [self._decode(unit)]

    def _passes(self, seed: int) -> list[Sample]:
        s = self.settings
        return passes(self.target.backbone, self.trained, self.clock, contexts=s.contexts, widths=s.widths,
                      repeats=s.repeats, seed=s.seed + seed)  # fmt: skip

    def _decode(self, unit: Unit) -> Sample:
        task, prompt = self.asked[unit.round]
        sample = decoding(
            self.target.backbone, self.target.encode_chat(prompt.messages), self.live.get(unit.drafter),
            self.clock, self.rapl, draft_length=unit.draft_length,
            max_new_tokens=min(self.settings.new_tokens, TASKS[task].max_new_tokens),
        )  # fmt: skip
        return {**sample, "drafter": unit.drafter, "task": task, "request": prompt.request_id}


def default_threads() -> int:
    """What torch chooses on this machine."""
    return torch.get_num_threads()


def best_dtype() -> str:
    """bfloat16 where this processor multiplies it, else float32."""
    return "bfloat16" if can_pack(torch.bfloat16) else "float32"


def software(settings: Settings) -> str:
    """What ran and how it was timed, in a line."""
    threads = f"{settings.threads} thread{'s' if settings.threads > 1 else ''}"
    clock = "processor" if settings.clock == "cpu" else "wall-clock"
    return f"PyTorch {torch.__version__}, {settings.dtype}, {threads}, {clock} time"


def load(settings: Settings) -> tuple[Target, list[NamedDrafter]]:
    """The small target and its drafters, in the dtype of the settings."""
    target = load_target(getattr(torch, settings.dtype))
    return target, chosen(settings.drafters, shipped_drafters(target))


def chosen(names: Sequence[str], shipped: Iterable[NamedDrafter]) -> list[NamedDrafter]:
    """Drafters by name.

    Raises
    ------
    UnknownNameError
        With the nearest name.
    """
    known = {named.id: named for named in shipped}
    for name in names:
        if name not in known:
            raise UnknownNameError("--drafters", name, known)
    return [known[name] for name in names]
