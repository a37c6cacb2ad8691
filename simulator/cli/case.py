"""The options that say what is predicted or simulated, and the cases they stand for; it computes nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from simulator.cli.parsing import assignments, names, number, share, whole_numbers
from simulator.errors import DraftscopeError

if TYPE_CHECKING:
    from simulator.acceptance.base import Acceptance
    from simulator.drafters.base import DrafterModel
    from simulator.specs import TargetSpec
    from simulator.studies.replays import ReplayedTrace

BEST, BEST_OF = "best", range(1, 9)
HOW = "--acceptance-trace FILE, --acceptance NAME, --acceptance-rate A or --acceptance-length T"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Case:
    """What is predicted; lists give every combination."""

    device: Annotated[str, Parameter(show_default=False)] = ""
    """Devices, comma-separated (draftscope profiles list devices); generic:N has N GB/s. Required."""
    target: Annotated[str, Parameter(show_default=False)] = ""
    """Targets, comma-separated: names (draftscope profiles list targets), config.json, GGUF or safetensors;
    NAME@int4 or PATH@int4 picks a build. Required."""
    drafter: str = "none"
    """Drafters, comma-separated: names (draftscope profiles list drafters), trace names, .toml files;
    NAME@bf16 picks a precision."""
    runtime: str | None = None
    """Runtimes, comma-separated; each device's default where omitted."""
    engine: str | None = None
    """cpu, gpu or tpu, for runtimes that work on any."""
    draft_runtime: str | None = None
    """Runtime of the drafter, where it differs."""
    draft_engine: str | None = None
    """Engine of the drafter, where it differs."""
    draft_length: str = BEST
    """Drafts per step: 4, 1-8, 1,2,4, or "best" of 1-8."""
    acceptance_trace: str | None = None
    """Acceptance from a trace file (.parquet), replayed exactly."""
    acceptance: str | None = None
    """Published acceptance, comma-separated (see: draftscope profiles list acceptances); a publication names
    all its sets."""
    acceptance_rate: str | None = None
    """Acceptance of each draft given that those before it were accepted, 0..1."""
    acceptance_length: str | None = None
    """Mean acceptance length, bonus token included; T@K says for which draft length it holds."""
    transfer: Annotated[bool, Parameter(negative="")] = False
    """Allow acceptance of another target or drafter; the result is labelled assumed."""
    tasks: Annotated[str, Parameter(name=["--tasks", "--task"])] = "all"
    """Task classes of a trace, one result each; "all" pools them."""
    max_overlap: str = "0.2"
    """Leave out responses that share more of their 8-grams with training text; "none" keeps all."""
    min_prob: str | None = None
    """Confidence stop: drafts below this top-1 probability are not proposed."""
    prompt_tokens: str | None = None
    """Prompt; needed unless a trace has its own."""
    output_tokens: str | None = None
    """Response; needed without a trace, which has its own."""
    batch: str = "1"
    """Streams decoded together: 1, or 1,8,64."""
    context: str | None = None
    """Cost every step at this many cached tokens instead of a growing context."""
    set_: Annotated[list[str] | None, Parameter(name="--set", negative="")] = None
    """Override a cited input, name=number in SI units; repeatable."""

    def expand(self) -> tuple[list[Question], list[str]]:
        """Every combination of the lists, in the order of the options, and notes on what is left out.

        Raises
        ------
        DraftscopeError
            If a list is empty, a name unknown, or nothing is left.
        """
        from simulator.drafters import build_drafter
        from simulator.specs import load_target
        from simulator.studies.selection import by_name, drafter_for

        lists = {"--device": names(self.device), "--target": names(self.target),
                 "--drafter": names(self.drafter), "--tasks": names(self.tasks)}  # fmt: skip
        for option, values in lists.items():
            if not values:
                raise DraftscopeError(f"{option}: nothing given; needed: one or more names, comma-separated.")
        self._check_unused()
        batches = whole_numbers(self.batch, where="--batch", minimum=1)
        axes = assignments(self.set_) or {}
        if self.context is not None:
            axes["context"] = number(self.context, where="--context")
        common = {
            "engine": self.engine,
            "draft_runtime": self.draft_runtime,
            "draft_engine": self.draft_engine,
            "prompt_tokens": number(self.prompt_tokens, where="--prompt-tokens", minimum=1.0),
            "output_tokens": number(self.output_tokens, where="--output-tokens", minimum=2.0),
            "axes": axes or None,
            "transfer": self.transfer,
        }
        runtimes: list[str | None] = [*names(self.runtime)] or [None]
        questions: list[Question] = []
        notes: dict[str, None] = {}
        for device, runtime, name, wanted in product(
            lists["--device"], runtimes, lists["--target"], lists["--drafter"]
        ):
            target = load_target(name)
            drafter = drafter_for(wanted, target)
            model = build_drafter(drafter, target)
            for acceptance in self._acceptances(model, target):
                case = replace(self, acceptance=acceptance)
                lengths, note = case._lengths(model, target, alone=len(lists["--drafter"]) == 1)
                if note:
                    notes[note] = None
                for length, task, batch in product(lengths, lists["--tasks"], batches):
                    questions.append(Question(
                        case=case, length=length, target=target, drafter=drafter,
                        arguments={**common, "device": device, "runtime": runtime, "target": by_name(target),
                                   "batch": batch, "task": None if task == "all" else task},
                    ))  # fmt: skip
        if not questions:
            raise DraftscopeError("--draft-length: " + " ".join(notes))
        return questions, list(notes)

    def _check_unused(self) -> None:
        """Refuse options that only a trace can answer, and those that a trace answers itself."""
        default = Case()
        if self.acceptance_trace is not None:
            if self.output_tokens is not None:
                raise DraftscopeError(
                    "--output-tokens: given with --acceptance-trace, which has responses of its own."
                )
            return
        for option, given, usual in (("--min-prob", self.min_prob, default.min_prob),
                                     ("--max-overlap", self.max_overlap, default.max_overlap)):  # fmt: skip
            if given != usual:
                raise DraftscopeError(
                    f"{option}: {given!r} given without --acceptance-trace; only a trace knows the drafter's "
                    "probabilities and the overlap with its training text."
                )

    def _acceptances(self, drafter: DrafterModel, target: TargetSpec) -> list[str | None]:
        """Names of published sets, a publication spelt out; [None] where acceptance is given otherwise."""
        from simulator.acceptance.published import sets_of

        found: list[str | None] = []
        for name in names(self.acceptance) if drafter.family != "none" else []:
            found += sets_of(name, target_id=target.id, drafter_family=drafter.family)
        return list(dict.fromkeys(found)) or [None]

    def _lengths(
        self, drafter: DrafterModel, target: TargetSpec, *, alone: bool
    ) -> tuple[list[int | None], str]:
        """Draft lengths, None for the best one, and a note on those of a range that nothing is known for.

        One length is taken as it is; plain decoding has 0, whatever the drafters beside it are asked.
        """
        from simulator.studies.notes import within

        best = self.draft_length == BEST
        if drafter.family == "none":
            if alone and self.draft_length not in (BEST, "0"):
                raise DraftscopeError(
                    f"--draft-length: {self.draft_length!r} given for drafter {drafter.id!r}; allowed: 0."
                )
            return [0], ""
        wanted = list(BEST_OF) if best else whole_numbers(self.draft_length, where="--draft-length")
        if len(wanted) == 1:
            return [*wanted], ""
        acceptance = self.acceptance_of(target, drafter, None if best else max(wanted), None)
        if acceptance is None:
            return [*wanted], ""
        kept, note = within(
            wanted, acceptance.max_draft_length, drafter=drafter.id, target=target.id,
            acceptance=acceptance.id,
        )  # fmt: skip
        return [None] if best and kept else [*kept], note

    def acceptance_of(
        self, target: TargetSpec, drafter: DrafterModel, length: int | None, task: str | None
    ) -> Acceptance | None:
        """The one acceptance that was given.

        Raises
        ------
        DraftscopeError
            If none or several were given, or one of another target or drafter without ``--transfer``.
        """
        given = {"--acceptance-trace": self.acceptance_trace, "--acceptance": self.acceptance,
                 "--acceptance-rate": self.acceptance_rate,
                 "--acceptance-length": self.acceptance_length}  # fmt: skip
        used = [name for name, value in given.items() if value is not None]
        if len(used) > 1:
            raise DraftscopeError(f"acceptance: {' and '.join(used)} given; allowed: exactly one of {HOW}.")
        if self.acceptance_trace is not None:
            traced = self._traced(self.acceptance_trace, target, drafter)
            return traced if task is None else traced.of_task(task)
        if task is not None:
            raise DraftscopeError(
                f"--tasks: {task!r} given without --acceptance-trace; only a trace has tasks."
            )
        if drafter.family == "none" or length == 0:
            return None
        if not used:
            raise DraftscopeError(
                f"acceptance: nothing given for drafter {drafter.id!r}, and it is never defaulted; give one "
                f"of {HOW}."
            )
        if self.acceptance is not None:
            return self._published(self.acceptance, target, drafter)
        from simulator.acceptance.iid import IidAcceptance, LengthAcceptance

        if self.acceptance_rate is not None:
            rate = number(self.acceptance_rate, where="--acceptance-rate", maximum=1.0)
            return IidAcceptance(acceptance_rate=rate if rate is not None else 0.0)
        text, sign, at = (self.acceptance_length or "").partition("@")
        if sign:
            (length,) = whole_numbers(at, where="--acceptance-length (the K of T@K)", minimum=1)[:1]
        if length is None or (not sign and self.draft_length != str(length)):
            raise DraftscopeError(
                f"--acceptance-length: {text!r} given with draft lengths {self.draft_length!r}; say for "
                f"which one it holds, for example {text}@3."
            )
        value = number(text, where="--acceptance-length", minimum=1.0)
        return LengthAcceptance(length=value or 1.0, at_draft_length=length)

    def _traced(self, file: str, target: TargetSpec, drafter: DrafterModel) -> ReplayedTrace:
        from simulator.studies.replays import loaded, replayed

        own = loaded(Path(file)).metadata.drafter_id
        plain = drafter.family == "none"
        return replayed(
            Path(file), target_id=target.id, any_drafter=plain,
            drafter_id=own if plain or own in (drafter.id, drafter.trace_id) else drafter.id,
            transfer=self.transfer, max_overlap=share(self.max_overlap, where="--max-overlap"),
            min_prob=number(self.min_prob, where="--min-prob", maximum=1.0),
        )  # fmt: skip

    def _published(self, name: str, target: TargetSpec, drafter: DrafterModel) -> Acceptance:
        from simulator.acceptance.published import load_published

        return load_published(
            name, target_id=target.id, drafter_id=drafter.id, drafter_family=drafter.family,
            drafter=drafter.published_as, transfer=self.transfer,
        )  # fmt: skip


NOTHING = Case()
"""No option given."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """One combination: the arguments of `predict` and `simulate`, acceptance still to be looked up.

    Attributes
    ----------
    case : Case
        Options.
    length : int or None
        Draft length; None for the best one.
    target : TargetSpec
        Target.
    drafter : str
        Drafter instance or file.
    arguments : dict
        Everything else.
    """

    case: Case
    length: int | None
    target: TargetSpec
    drafter: str
    arguments: dict[str, Any]

    def settled(self) -> dict[str, Any]:
        """Keyword arguments with acceptance and draft length; the best length is searched where asked for."""
        from simulator.drafters import build_drafter

        drafter = build_drafter(self.drafter, self.target)
        acceptance = self.case.acceptance_of(self.target, drafter, self.length, self.arguments["task"])
        shipped = self.drafter if not self.drafter.endswith(".toml") else drafter
        arguments = {**self.arguments, "drafter": shipped, "acceptance": acceptance}
        if self.length is not None:
            return {**arguments, "draft_length": self.length}
        from simulator.analytic import predict

        known = None if acceptance is None else acceptance.max_draft_length
        speeds = {
            length: predict(**arguments, draft_length=length, intervals=False)["decode_tokens_per_s"]
            for length in BEST_OF
            if known is None or length <= known
        }
        return {**arguments, "draft_length": max(speeds, key=lambda length: speeds[length])}

    def end_note(self, settled: dict[str, Any]) -> str:
        """Say that the best length is the last one searched; empty where it is not, or none was searched.

        Parameters
        ----------
        settled : dict
            What :meth:`settled` gave.
        """
        if self.length is not None or settled["acceptance"] is None:
            return ""
        known = settled["acceptance"].max_draft_length
        last = BEST_OF[-1] if known is None else min(BEST_OF[-1], known)
        if settled["draft_length"] < last:
            return ""
        why = "known" if known == last else "searched"
        return f"{self.drafter}: K = {last} is the longest draft length {why}; a longer one may be faster."
