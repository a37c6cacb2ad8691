"""``draftscope trace import``: another tool's log as a step trace (`simulator.adapters.step_logs`)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from simulator.cli.output import Output, say, table
from simulator.cli.parsing import check_name
from simulator.errors import DraftscopeError
from simulator.files import check_target
from simulator.units import rounded


def import_(
    log: Path,
    /,
    *,
    target: str,
    drafter: str,
    out: Path,
    task: str = "unknown",
    draft_passes: str = "chain",
    output: Annotated[str, Parameter(name=["--output", "-o"])] = "md",
) -> int:
    """Turn a log with the accepted and proposed drafts of every step into a step trace.

    Refuses a log that has only totals or averages.

    Parameters
    ----------
    log
        Log of llama-server --verbose, or CSV or JSONL with request_id, context, proposed, accepted.
    target
        Model that was served.
    drafter
        Drafter that ran.
    out
        File of the step trace (.parquet); written whole or not at all.
    task
        Task class, where the log names none.
    draft_passes
        Passes of the drafter, where the log does not count them: chain (one a draft), one (one a step), none.
    output
        Format of the summary: md, csv, json or jsonl.
    """
    shown = Output(output=output)
    shown.check()
    for option, given in (("--target", target), ("--drafter", drafter), ("--task", task)):
        check_name(given, where=option)
    _check_out(out)
    from simulator.acceptance.statistics import statistics_of
    from simulator.acceptance.steps import write_step_trace
    from simulator.adapters.step_logs import read_step_log

    trace = read_step_log(log, target_id=target, drafter_id=drafter, task=task, draft_passes=draft_passes)
    steps = trace.table()
    found = statistics_of(steps)
    record: dict[str, Any] = {
        "target": target, "drafter": drafter, "origin": trace.origin, "requests": steps.n_requests,
        "steps": found.steps, "proposed": found.proposed, "accepted": found.accepted,
        "emitted": found.emitted, "mean_acceptance_length": found.mean_acceptance_length,
        "tokens_per_step": found.tokens_per_step,
        "draft_acceptance_rate": found.draft_acceptance_rate,
        "per_position_acceptance_rate": [float(rate) for rate in found.per_position_acceptance_rate],
    }  # fmt: skip
    write_step_trace(out, trace)
    say(f"wrote {out}")
    shown.emit([record], command="trace import", markdown=lambda: _summary(record))
    return 0


def _check_out(out: Path) -> None:
    """Refuse what must not be replaced, another ending, and a folder that is not there."""
    check_target(out, where="--out ")
    if out.suffix != ".parquet":
        raise DraftscopeError(f"--out: {str(out)!r} given; allowed: a file ending in .parquet.")
    if not out.parent.is_dir():
        raise DraftscopeError(f"--out: {str(out)!r} given, but there is no folder {out.parent}.")


def _summary(record: dict[str, Any]) -> str:
    rows = [
        (name, ", ".join(rounded(each) for each in value) if isinstance(value, list) else _cell(value))
        for name, value in record.items()
    ]
    return table(("step trace", "value"), rows)


def _cell(value: object) -> str:
    return rounded(value) if isinstance(value, float) else str(value)
