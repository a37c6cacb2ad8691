"""``draftscope trace collect``: record acceptance on the reference target (`reference_impl.collect`)."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from simulator.cli.output import say
from simulator.cli.parsing import names, whole_numbers
from simulator.errors import DraftscopeError, UnknownNameError


def collect(
    *,
    out: Path,
    drafters: Annotated[str, Parameter(name=["--drafters", "--drafter"])] = "all",
    tasks: Annotated[str, Parameter(name=["--tasks", "--task"])] = "all",
    prompts: str = "80",
    responses: Path | None = None,
    training: str | None = None,
    depth: str = "8",
    seed: str = "0",
    scratch: Path | None = None,
    note: str = "",
) -> int:
    """Record acceptance traces of drafters on the reference target.

    The target answers test prompts once; every drafter is then asked at every position. Writes
    OUT/TARGET/DRAFTER.parquet and the texts beside them. Needs the extra "reference".

    Parameters
    ----------
    out
        Folder of the traces.
    drafters
        Checkpoints (.safetensors) or names of shipped drafters, comma-separated, or "all" that are shipped.
    tasks
        Task classes, comma-separated, or "all".
    prompts
        Test prompts of each task.
    responses
        Use the texts of this file (responses.parquet) instead of answering prompts: another drafter on the
        same text.
    training
        Feature folders of the training, comma-separated, to measure how much of each response the training
        text holds; the shipped training responses where omitted.
    depth
        Drafts recorded at each position.
    seed
        Seed of the prompts.
    scratch
        Keep finished tasks here, so that a killed run goes on where it was.
    note
        Free text for the metadata.
    """
    (n_test,), (drafts,), (start,) = (
        whole_numbers(prompts, where="--prompts", minimum=1)[:1],
        whole_numbers(depth, where="--depth", minimum=1)[:1],
        whole_numbers(seed, where="--seed")[:1],
    )
    from reference_impl import collect as recorder
    from reference_impl.fetch import load_target

    target = load_target()
    chosen = _drafters(drafters, target)
    requests, task_set = _requests(target, tasks, n_test, start, responses, training, scratch)
    say(f"recording {len(chosen)} drafters on {len(requests)} responses of {target.id}")
    found = recorder.collect(target, chosen, requests, depth=drafts, scratch=scratch, report=say)
    paths = recorder.write_traces(
        out, target, chosen, requests, found, task_set=task_set, note=note,
        date=datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
    )  # fmt: skip
    for path in paths:
        say(f"wrote {path}")
    return 0


def _drafters(given: str, target: Any) -> Sequence[Any]:
    from reference_impl.live import load_named, shipped_drafters

    files = [Path(name) for name in names(given) if name.endswith(".safetensors")]
    chosen = [load_named(path, target) for path in files]
    rest = [name for name in names(given) if not name.endswith(".safetensors")]
    if not rest and not files:
        raise DraftscopeError("--drafters: nothing given; allowed: names, .safetensors files, or all.")
    shipped = {named.id: named for named in shipped_drafters(target)} if rest else {}
    for name in rest:
        if name != "all" and name not in shipped:
            raise UnknownNameError("--drafters", name, [*shipped, "all"])
    chosen += [named for name, named in shipped.items() if "all" in rest or name in rest]
    return chosen


def _requests(
    target: Any,
    tasks: str,
    n_test: int,
    seed: int,
    responses: Path | None,
    training: str | None,
    scratch: Path | None,
) -> tuple[Sequence[Any], str]:
    """Test responses with their overlap, new or read, and the name of the prompt set."""
    from reference_impl.responses import from_responses, make_responses, with_overlap
    from reference_impl.tasks import TASKS

    wanted = list(TASKS) if tasks == "all" else names(tasks)
    for task in wanted:
        if task not in TASKS:
            raise UnknownNameError("--tasks", task, TASKS)
    if responses is not None:
        from simulator.acceptance.trace import read_responses

        known = from_responses(target, read_responses(responses))
        return [request for request in known if request.task in wanted], f"texts of {responses.name}"
    text = _training_text(training)
    made = make_responses(target, wanted, n_test, seed=seed, scratch=scratch, report=say)
    return with_overlap(made, text), f"draftscope_tasks, {n_test} test prompts each, seed {seed}"


def _training_text(training: str | None) -> Any:
    from reference_impl.responses import TrainingText, training_responses

    if training is not None:
        return TrainingText(training_responses(*(Path(name) for name in names(training))))
    from reference_impl.drafters.suffix import SuffixLookup
    from reference_impl.live import CHECKPOINTS

    shipped = CHECKPOINTS / "suffix.safetensors"
    if not shipped.exists():
        raise DraftscopeError(
            "--training: nothing given, and no training responses are shipped; give the feature folders of "
            "the training, else the overlap of test and training text is unknown."
        )
    return TrainingText(SuffixLookup.load(shipped).responses())
