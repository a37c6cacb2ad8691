"""``draftscope measure``: time this machine, calibrate a runtime on it, predict the live runs it left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from simulator.cli.output import Output, interval, say, table, write_file
from simulator.cli.parsing import names, whole_numbers
from simulator.errors import DraftscopeError, UnknownNameError

if TYPE_CHECKING:
    from simulator.studies.live import Live

DTYPES = {"bfloat16": "bf16", "float32": "f32"}
"""Of torch -> build of target and drafters."""
CLOCKS = ("wall", "cpu")
QUICK: dict[str, Any] = {"draft_lengths": (1, 2, 4, 8), "prompts": 1, "new_tokens": 32, "contexts": (64, 256)}
HEAD = (
    "drafter", "K", "tokens per step", "measured [quartiles]", "predicted [low..high]", "error %",
    "from tokens per step alone", "draft ms: measured", "predicted", "rest ms: measured", "predicted",
)  # fmt: skip


def measure(
    *,
    out: Path,
    drafters: Annotated[str, Parameter(name=["--drafters", "--drafter"])] = "mtp_head,standalone_body,ngram",
    draft_length: str | None = None,
    tasks: Annotated[str, Parameter(name=["--tasks", "--task"])] = "all",
    prompts: str | None = None,
    dtype: str | None = None,
    threads: str | None = None,
    clock: str = "wall",
    quick: Annotated[bool, Parameter(negative="")] = False,
    seed: str = "0",
    output: Annotated[str, Parameter(name=["--output", "-o"])] = "md",
) -> int:
    """Measure this machine, calibrate a runtime on it, and compare its predictions with live speculation.

    Times memory, floors, passes of the small target and of drafters, prefill and plain decoding; from these
    alone it calibrates. Then the same prompts with every drafter at every draft length, in the same rounds:
    the prediction gets their counts of drafted and accepted tokens, not their times. Writes OUT/runtime.toml,
    measurement.json, start.toml and journal.jsonl. The same command goes on where it was stopped. Needs the
    extra "reference".

    Parameters
    ----------
    out
        Folder.
    drafters
        Shipped drafters, comma-separated.
    draft_length
        K of the live runs: 4, 1-8 or 1,2,4; 1-8 where omitted, 1,2,4,8 with --quick.
    tasks
        Task classes, comma-separated, or "all".
    prompts
        Prompts of each task; 2 where omitted, 1 with --quick.
    dtype
        bfloat16 or float32; bfloat16 where this processor multiplies it, else float32.
    threads
        Threads of torch; its own choice where omitted.
    clock
        wall, or cpu: processor time of one thread, for a machine that has other work to do.
    quick
        Fewer prompts, draft lengths and contexts, and shorter responses.
    seed
        Seed of prompts and order.
    output
        Format of what is printed: md, csv, json or jsonl.
    """
    page = Output(output=output)
    page.check()
    given = _numbers(draft_length=draft_length, prompts=prompts, threads=threads, seed=seed)
    if clock not in CLOCKS:
        raise UnknownNameError("--clock", clock, CLOCKS)
    if dtype is not None and dtype not in DTYPES:
        raise UnknownNameError("--dtype", dtype, DTYPES)
    if not names(drafters):
        raise DraftscopeError("--drafters: nothing given; needed: one or more names, comma-separated.")
    if out.exists() and not out.is_dir():
        raise DraftscopeError(f"--out: {str(out)!r} is a file; allowed: a folder, or a path that is free.")
    from reference_impl import measure as meter
    from reference_impl.tasks import TASKS

    wanted = list(TASKS) if tasks == "all" else names(tasks)
    for task in wanted:
        if task not in TASKS:
            raise UnknownNameError("--tasks", task, TASKS)
    count = given["threads"] or meter.default_threads()
    if clock == "cpu" and count > 1:
        raise DraftscopeError(
            f"--clock: 'cpu' given with {count} threads; allowed: with --threads 1, as it is the time of one "
            "thread."
        )
    settings = meter.Settings(
        dtype=dtype or meter.best_dtype(), threads=count, clock=clock, drafters=tuple(names(drafters)),
        tasks=tuple(wanted), seed=given["seed"] or 0,
        **{**(QUICK if quick else {}), **{name: given[name] for name in ("draft_lengths", "prompts")
                                          if given[name] is not None}},
    )  # fmt: skip
    target, loaded = meter.load(settings)
    journal = meter.Journal(out / "journal.jsonl", settings)
    meter.measure(target, loaded, settings, journal, report=say)
    build = DTYPES[settings.dtype]
    rows, notes, extra = evaluate(
        journal.samples, out=out, target=f"{target.id}@{build}", build=build, drafters=settings.drafters,
        about=meter.software(settings),
    )  # fmt: skip
    page.emit([row.record() for row in rows], command="measure", notes=notes, extra=extra,
              markdown=lambda: as_markdown(rows, notes, extra))  # fmt: skip
    return 0


def _numbers(
    *, draft_length: str | None, prompts: str | None, threads: str | None, seed: str
) -> dict[str, Any]:
    def one(text: str | None, option: str, minimum: int = 1) -> int | None:
        return None if text is None else whole_numbers(text, where=option, minimum=minimum)[0]

    lengths = None if draft_length is None else whole_numbers(draft_length, where="--draft-length", minimum=1)
    return {
        "draft_lengths": None if lengths is None else tuple(lengths), "prompts": one(prompts, "--prompts"),
        "threads": one(threads, "--threads"), "seed": one(seed, "--seed", 0),
    }  # fmt: skip


def evaluate(
    samples: Sequence[Mapping[str, Any]],
    *,
    out: Path,
    target: str,
    build: str,
    drafters: Sequence[str],
    about: str,
) -> tuple[list[Live], list[str], dict[str, Any]]:
    """Measurement file and runtime profile from samples, and the live runs beside their prediction.

    Parameters
    ----------
    samples : sequence of mapping
        Of :func:`reference_impl.measure.measure`.
    out : Path
        Folder for the files.
    target, build : str
        Target as predictions name it, and the precision of it and the drafters.
    drafters : sequence of str
        Names in the samples.
    about : str
        Software, for the files.

    Returns
    -------
    rows, notes, extra
        Live runs; what a reader must know; device, files and bandwidths.
    """
    from simulator.adapters.measure import write_observations
    from simulator.adapters.measured import bandwidths, observations_of, peak_bandwidth
    from simulator.adapters.observations import read_observations
    from simulator.drafters import build_drafter
    from simulator.specs import load_target
    from simulator.studies.calibrate import calibrate
    from simulator.studies.calibration.profile import as_toml
    from simulator.studies.live import live_runs, start_runtime
    from simulator.studies.selection import drafter_for

    spec = load_target(target)
    ids = {name: drafter_for(name, spec) for name in drafters}
    models = {name: build_drafter(each, spec, quant=build) for name, each in ids.items()}
    called = {name: f"{each}@{build}" if models[name].draft_ops else each for name, each in ids.items()}
    device = f"generic:{peak_bandwidth(samples) / 1e9:.4g}"
    notes = [
        f"The device is {device}: a generic one with the largest memory bandwidth that was reached here. Its "
        "energies are assumed.",
        _energy_note(samples),
    ]
    out.mkdir(parents=True, exist_ok=True)
    start = out / "start.toml"
    write_file(
        start, as_toml(start_runtime(samples, target=spec, drafters=list(models.values()), about=about))
    )
    file = write_observations(out / "measurement.json", observations_of(
        samples, source=str(out / "measurement.json"), device=device, runtime=about, model=target,
        drafters=called, weight_bytes=spec.streamed_bytes(), notes=notes,
    ))  # fmt: skip
    found = calibrate([without_runs(read_observations(file))], device=device, runtime=str(start),
                      name=f"This machine: {about}", id_="runtime")  # fmt: skip
    if not found.converged:
        raise DraftscopeError(f"{file}: the fit did not converge; measure on a quieter machine.")
    runtime = out / "runtime.toml"
    write_file(runtime, as_toml(found.runtime))
    for path in (file, start, runtime):
        say(f"wrote {path}")
    rows = live_runs(samples, device=device, target=target, runtime=str(runtime), drafters=called)
    extra = {
        "device": device, "target": target, "runtime": str(runtime), "measurement": str(file), "about": about,
        "bandwidths_bytes_per_s": bandwidths(samples), "calibration_residual": found.residual,
        "median_error": median(abs(row.error) for row in rows),
        "median_error_by_drafter": {
            name: median(abs(row.error) for row in rows if row.drafter == name) for name in drafters
        },
    }  # fmt: skip
    return rows, [*notes, *(note for note in found.notes if not note.startswith(str(file)))], extra


def without_runs(file: Any) -> Any:
    """The same measurements without a speculative run: all that a calibration here may see."""
    from dataclasses import replace

    return replace(file, runs=())


def _energy_note(samples: Sequence[Mapping[str, Any]]) -> str:
    runs = [each for each in samples if each["kind"] == "run" and each["output_tokens"]]
    counted = [each for each in runs if each["energy_j"] is not None]
    if not counted:
        return "Energy is not available: this machine shows no RAPL counter that may be read."
    groups: dict[str, list[float]] = {}
    for each in counted:
        name = "plain decoding" if not each["draft_length"] else f"{each['drafter']}"
        groups.setdefault(name, []).append(each["energy_j"] / each["output_tokens"])
    text = ", ".join(f"{name} {1e3 * median(values):.3g} mJ" for name, values in groups.items())
    return f"Energy per token, processor packages by RAPL, all processes: {text} (medians over the runs)."


def as_markdown(rows: Sequence[Live], notes: Sequence[str], extra: Mapping[str, Any]) -> str:
    """Bandwidth, table of live runs, errors, notes, and the command that uses the profile."""
    memory = ", ".join(f"{name} {value / 1e9:.3g} GB/s"
                       for name, value in extra["bandwidths_bytes_per_s"].items())  # fmt: skip
    cells = [
        (row.drafter, str(row.draft_length), f"{row.tokens_per_step:.2f}",
         interval(row.measured_speedup, row.measured_low, row.measured_high),
         interval(row.predicted_speedup, row.low, row.high), f"{100 * row.error:+.1f}",
         f"{row.predicted_from_length:.2f}", *(f"{1e3 * seconds:.2f}" for seconds in (
             row.draft_s, row.predicted_draft_s, row.verify_s, row.predicted_verify_s)))
        for row in rows
    ]  # fmt: skip
    each = ", ".join(f"{name} {value:.1%}" for name, value in extra["median_error_by_drafter"].items())
    return (
        f"{extra['about']}. Memory: {memory}. Calibration: residual "
        f"{extra['calibration_residual']:.2%} (root mean square), no speculative run seen.\n\n"
        f"{table(HEAD, cells)}\n"
        f"Median error of the predicted speedup: {extra['median_error']:.1%} ({each}).\n\n"
        + "".join(f"- {note}\n" for note in notes)
        + f"\nUse it: draftscope predict --device {extra['device']} --target {extra['target']} --runtime "
        f"{extra['runtime']}\n"
    )
