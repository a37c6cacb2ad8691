"""``draftscope compare``: options in, tables out; the comparison itself is in `simulator.studies.compare`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from simulator.cli.output import DEFAULT, Output, interval, say, table
from simulator.cli.parsing import assignments, names, number, share, whole_numbers
from simulator.errors import DraftscopeError
from simulator.units import rounded

if TYPE_CHECKING:
    from simulator.studies.compare import Comparison
    from simulator.studies.rows import Row

TITLES = {
    "traced": "small real target, acceptance measured here",
    "published": "Gemma-class targets, acceptance as published for them",
}
HEAD = (
    "drafter", "task", "K", "acceptance length", "break-even", "tok/s [low..high]", "speedup [low..high]",
    "by task", "mJ/token", "RAM MiB (drafter)", "TTFT ms", "acceptance/time",
)  # fmt: skip


def compare(
    *,
    device: str = "pixel_9",
    runtime: str | None = None,
    engine: str | None = None,
    target: Annotated[str | None, Parameter(name=["--target", "--targets"])] = None,
    drafters: Annotated[str, Parameter(name=["--drafters", "--drafter"])] = "all",
    tasks: Annotated[str, Parameter(name=["--tasks", "--task"])] = "all",
    draft_length: str = "1-8",
    batch: str = "1",
    acceptance_trace: str | None = None,
    transfer: Annotated[bool, Parameter(negative="")] = False,
    max_overlap: str = "0.2",
    min_prob: str | None = None,
    prompt_tokens: str | None = None,
    output_tokens: str | None = None,
    set_: Annotated[list[str] | None, Parameter(name="--set", negative="")] = None,
    detail: Annotated[bool, Parameter(negative="")] = False,
    every_length: Annotated[bool, Parameter(negative="")] = False,
    intervals: bool = True,
    output: Output = DEFAULT,
) -> int:
    """Compare drafters side by side on devices, each at its best draft length.

    Two blocks that are never mixed: the small real target whose acceptance was measured here, and Gemma-class
    targets with the acceptance that others published for them. Speed is compared with plain decoding of the
    same target.

    Parameters
    ----------
    device
        Devices, comma-separated (see: draftscope profiles list).
    runtime
        Runtimes, comma-separated; each device's default where omitted. "ideal" is the roofline.
    engine
        cpu, gpu or tpu, for runtimes that work on any.
    target
        Targets, comma-separated: names, config.json, GGUF or safetensors; NAME@int4 picks a build; both
        blocks' own where omitted.
    drafters
        Drafters, comma-separated: names, trace names or .toml files; "all" that fit.
    tasks
        Task classes or published benchmarks, comma-separated, or "all".
    draft_length
        Draft lengths K to choose from: 1-8, or 1,2,4, or one.
    batch
        Streams decoded together, comma-separated: 1 is a phone, 64 a server.
    acceptance_trace
        Trace files (.parquet), comma-separated, instead of the shipped ones.
    transfer
        Allow acceptance of another target or drafter; such rows are labelled assumed.
    max_overlap
        Leave out responses that share more than this part of their 8-grams with training text; "none" keeps
        all.
    min_prob
        Confidence stop: drafts below this top-1 probability are not proposed.
    prompt_tokens
        Prompt. A trace has its own prompts; published acceptance takes 1024.
    output_tokens
        Response for published acceptance, 256 where omitted.
    set_
        Override a cited input, name=number in SI units; repeatable.
    detail
        One row for each task as well.
    every_length
        One row for each draft length instead of the best.
    intervals
        Carry the ranges of the cited inputs to the results.
    """
    output.check()
    from simulator.studies.compare import compare as study

    found = study(
        devices=needed(device, "--device"),
        runtimes=names(runtime) or None,
        engine=engine,
        targets=names(target) or None,
        drafters=None if drafters == "all" else needed(drafters, "--drafters"),
        tasks=None if tasks == "all" else needed(tasks, "--tasks"),
        draft_lengths=whole_numbers(draft_length, where="--draft-length", minimum=1),
        batches=whole_numbers(batch, where="--batch", minimum=1),
        traces=trace_files(acceptance_trace),
        transfer=transfer,
        max_overlap=share(max_overlap, where="--max-overlap"),
        min_prob=number(min_prob, where="--min-prob", maximum=1.0),
        prompt_tokens=number(prompt_tokens, where="--prompt-tokens", minimum=1.0),
        output_tokens=number(output_tokens, where="--output-tokens", minimum=2.0),
        axes=assignments(set_),
        intervals=intervals,
        every_length=every_length,
        every_task=detail,
    )
    notes = [*found.elsewhere.values(), *found.notes]
    output.emit(found.records(), command="compare", notes=notes, markdown=lambda: as_markdown(found))
    if output.output != "md":
        for note in notes:
            say(f"note: {note}")
    return 0


def needed(text: str, where: str) -> list[str]:
    """Names of an option that must hold at least one."""
    found = names(text)
    if not found:
        raise DraftscopeError(f"{where}: {text!r} given; allowed: one or more names, comma-separated.")
    return found


def trace_files(text: str | None) -> list[Path]:
    """Trace files of an option: paths, comma-separated; a folder stands for the traces in it."""
    files: list[Path] = []
    for name in names(text):
        path = Path(name)
        if path.is_dir():
            found = sorted(each for each in path.glob("*.parquet") if each.name != "responses.parquet")
            if not found:
                raise DraftscopeError(f"--acceptance-trace: {path} holds no .parquet file.")
            files += found
        else:
            files.append(path)
    return files


def as_markdown(found: Comparison) -> str:
    """The tables for people: two blocks, one table for each device, runtime, batch and target."""
    parts = []
    blocks = [block for block in TITLES if found.block(block)]
    for at, block in enumerate(blocks, start=1):
        parts.append(_heading(block, found.block(block), at if len(blocks) > 1 else None))
        for place, group in groupby(found.block(block), key=lambda row: row.place):
            parts.append(_section(list(group), found.elsewhere.get(place, "")))
    if found.notes:
        parts.append("Notes\n\n" + "".join(f"- {note}\n" for note in found.notes))
    return "\n".join(parts)


def _heading(block: str, rows: Sequence[Row], number: int | None) -> str:
    """Title of a block, with its number where there is another."""
    title = TITLES[block]
    if not any(row.target.startswith("gemma") for row in rows):
        title = title.replace("Gemma-class targets", "other targets")
    title = title[0].upper() + title[1:] if number is None else f"Block {number}: {title}"
    return f"# {title}\n"


def _section(rows: Sequence[Row], elsewhere: str) -> str:
    first = rows[0]
    head = [f"{first.device}", f"{first.runtime} ({first.engine})", first.target]
    if first.batch != 1:
        head.append(f"batch {first.batch}")
    if first.requests:
        head.append(f"{first.requests} responses")
    else:
        head.append(f"prompt {first.prompt_tokens:.0f} + {first.output_tokens:.0f} tokens")
    head += [text for text in dict.fromkeys(row.settings for row in rows) if text]
    cells = [_cells(row) for row in rows]
    lines = [*_verdicts(rows), *_legend(rows), *([elsewhere] if elsewhere else [])]
    return f"## {' · '.join(head)}\n\n{table(HEAD, cells, left=2)}\n" + "\n".join(lines) + "\n"


def _cells(row: Row) -> tuple[str, ...]:
    task = row.task if row.tasks == 1 else f"{row.task} ({row.tasks})"
    if row.acceptance is None and row.draft_length:
        task = "cost only"
    return (
        row.drafter,
        task,
        f"{row.draft_length or '-'}{'+' if row.at_longest else ''}",
        interval(row.mean_acceptance_length, None, None),
        interval(row.break_even_acceptance_length, None, None),
        _rate(row),
        interval(row.speedup, row.speedup_low, row.speedup_high),
        _spread(row),
        rounded(None if row.energy_per_token_j is None else row.energy_per_token_j * 1e3),
        f"{row.peak_ram_bytes / 2**20:,.0f} ({row.drafter_ram_bytes / 2**20:.1f})",
        rounded(row.ttft_s * 1e3),
        f"{row.acceptance_kind or '-'}/{row.time_kind}",
    )


def _rate(row: Row) -> str:
    low, high = row.decode_tokens_per_s_low, row.decode_tokens_per_s_high
    span = "" if low is None or high is None else f" [{rounded(low)}..{rounded(high)}]"
    return rounded(row.decode_tokens_per_s) + span


def _spread(row: Row) -> str:
    if row.slowest_task_speedup is None or row.fastest_task_speedup is None:
        return "-"
    return f"{row.slowest_task_speedup:.2f}..{row.fastest_task_speedup:.2f}"


def _verdicts(rows: Sequence[Row]) -> list[str]:
    """One sentence a benchmark, over all its tasks: which design is fastest, if any beats plain decoding."""
    known = [row for row in rows if row.speedup is not None and row.draft_length and not row.is_part]
    if not known:
        what = next((row.note for row in rows if row.note), "no acceptance: cost only").partition(":")[0]
        return [f"No drafter can be ranked here ({what}); break-even is the length that a step must reach."]
    benchmarks = list(dict.fromkeys(row.benchmark for row in known))
    return [
        _verdict([row for row in known if row.benchmark == each], each if len(benchmarks) > 1 else "")
        for each in benchmarks
    ]


def _verdict(rows: Sequence[Row], benchmark: str) -> str:
    on = f" on {benchmark}" if benchmark else ""
    candidates = [row for row in rows if not row.control] or rows
    best = max(candidates, key=lambda row: row.speedup or 0.0)
    if (best.speedup or 0.0) <= 1.0:
        return f"No drafter is faster than plain decoding here{on}."
    unsure = best.speedup_low is not None and best.speedup_low <= 1.0
    sure = " (within the ranges of the inputs it may also lose)" if unsure else ""
    return (
        f"Fastest{on}: {best.label} at K = {best.draft_length}, "
        f"{interval(best.speedup, best.speedup_low, best.speedup_high)} times plain decoding{sure}."
    )


def _legend(rows: Sequence[Row]) -> list[str]:
    """What the signs of a table mean, of those that it has."""
    lines = []
    if any(row.at_longest for row in rows):
        lines.append("K+: the longest draft length that is known or asked for; a longer one may be faster.")
    if any(row.slowest_task_speedup is not None for row in rows):
        lines.append("by task: speedup on the slowest and on the fastest task (--detail names them).")
    cost_only = [row.draft_length for row in rows if row.acceptance is None and row.draft_length]
    if cost_only and len(cost_only) < len(rows) - 1:
        lines.append(f"cost only: no acceptance is known; break-even of a step with K = {cost_only[0]}.")
    return lines
