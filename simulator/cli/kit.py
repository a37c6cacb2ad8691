"""``draftscope kit``: a prediction before a run on a phone, a verdict after it (`simulator.studies.kit`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from simulator.cli.calibrate import LOSSES
from simulator.cli.case import Case
from simulator.cli.kit_text import as_rows, prediction_page, verdict_page
from simulator.cli.output import Output, say
from simulator.cli.parsing import names, number, whole_numbers
from simulator.errors import DraftscopeError, UnknownNameError
from simulator.files import whole_file

if TYPE_CHECKING:
    from simulator.acceptance.base import Acceptance
    from simulator.adapters.observations import Observations
    from simulator.adapters.power_rails import Rail
    from simulator.studies.kit import Prediction
    from simulator.studies.kit_verdicts import Verdicts

TOKENS = 256.0
"""Of prompt and response where none are given: about those of prompt.txt."""


def kit(
    *,
    out: Path | None = None,
    results: Path | None = None,
    device: str | None = None,
    target: str | None = None,
    drafter: str | None = None,
    runtime: str | None = None,
    draft_length: str | None = None,
    acceptance: str | None = None,
    acceptance_rate: str | None = None,
    acceptance_length: str | None = None,
    transfer: Annotated[bool, Parameter(negative="")] = False,
    prompt_tokens: str | None = None,
    output_tokens: str | None = None,
    loss: str | None = None,
    output: Annotated[str, Parameter(name=["--output", "-o"])] = "md",
) -> int:
    """Predict a run on a phone before it happens, and judge the prediction by its results.

    With --out: writes OUT/run.sh, prompt.txt, power.textproto (Perfetto) and prediction.json, which is dated,
    carries a digest, and is never replaced. run.sh puts the output of llama-bench and LiteRT-LM into
    OUT/results/RUNTIME. With --results: reads them, calibrates, and shows prediction beside measurement row
    by row; refuses a changed prediction, one that is younger than the results, and files that it does not
    understand. Writes RESULTS/calibrated/RUNTIME.toml.

    Parameters
    ----------
    out
        Folder to write; needs --device and --target.
    results
        Folder that --out wrote, results in it; all of the prediction's options are known from it.
    device
        Device: name, .toml file or generic:N (N GB/s).
    target
        Target: name, config.json, GGUF or safetensors; NAME@int4 picks a build.
    drafter
        Drafter, for the cost of a step at every draft length; plain decoding where omitted.
    runtime
        Software stacks, comma-separated; LiteRT-LM and llama.cpp on a phone, elsewhere the device's default.
    draft_length
        Draft lengths: 4, 1-8 or 1,2,4; 1-8 where omitted.
    acceptance
        Published acceptance; without any, cost of a step and break-even are predicted, no speedup.
    acceptance_rate
        Acceptance of each draft given that those before it were accepted, 0..1.
    acceptance_length
        Mean acceptance length, bonus token included; T@K says for which draft length it holds.
    transfer
        Allow acceptance of another target or drafter.
    prompt_tokens
        Prompt; 256 where omitted, about what prompt.txt has.
    output_tokens
        Response; 256 where omitted.
    loss
        Of the calibration: linear, or soft_l1: outliers count less.
    output
        Format of what is printed: md, csv, json or jsonl.
    """
    page = Output(output=output)
    page.check()
    given = {
        "--device": device, "--target": target, "--drafter": drafter, "--runtime": runtime,
        "--draft-length": draft_length, "--acceptance": acceptance, "--acceptance-rate": acceptance_rate,
        "--acceptance-length": acceptance_length, "--transfer": transfer or None,
        "--prompt-tokens": prompt_tokens, "--output-tokens": output_tokens,
    }  # fmt: skip
    if (out is None) == (results is None):
        raise DraftscopeError(
            "kit: needed: one of --out FOLDER (before the run) and --results FOLDER (after it)."
        )
    if results is not None:
        for option, value in given.items():
            if value is not None:
                raise DraftscopeError(f"{option}: given with --results; allowed: what the prediction states.")
        if loss is not None and loss not in LOSSES:
            raise UnknownNameError("--loss", loss, LOSSES)
        return _judge(results, loss or "linear", page)
    if loss is not None:
        raise DraftscopeError("--loss: given with --out; allowed: with --results.")
    for option in ("--device", "--target"):
        if given[option] is None:
            raise DraftscopeError(f"{option}: missing; needed with --out.")
    case = Case(
        device=device or "", target=target or "", drafter=drafter or "none", acceptance=acceptance,
        acceptance_rate=acceptance_rate, acceptance_length=acceptance_length, transfer=transfer,
        draft_length=draft_length or "1-8",
    )  # fmt: skip
    tokens = (
        number(prompt_tokens, where="--prompt-tokens", minimum=1.0) or TOKENS,
        number(output_tokens, where="--output-tokens", minimum=2.0) or TOKENS,
    )
    return _predict(out or Path(), case, names(runtime), tokens, page)


# --------------------------------------------------------------------------------------------- before
def _predict(
    out: Path, case: Case, runtimes: Sequence[str], tokens: tuple[float, float], page: Output
) -> int:
    from simulator.drafters import build_drafter
    from simulator.specs import load_target
    from simulator.studies import kit as study
    from simulator.studies import kit_commands as texts
    from simulator.studies.selection import drafter_for

    if out.exists() and not out.is_dir():
        raise DraftscopeError(f"--out: {str(out)!r} is a file; allowed: a folder, or a path that is free.")
    if (out / study.FILE).exists():
        raise DraftscopeError(
            f"--out: {out / study.FILE} is there already, and a prediction is never replaced; allowed: a "
            f"folder without one. To compare it with results: draftscope kit --results {out}"
        )
    target = load_target(case.target)
    drafter = drafter_for(case.drafter, target)
    model = build_drafter(drafter, target)
    plain = model.family == "none"
    lengths = [] if plain else whole_numbers(case.draft_length, where="--draft-length", minimum=1)
    if plain and case.draft_length not in ("1-8", "0"):
        raise DraftscopeError(f"--draft-length: {case.draft_length!r} given without --drafter; allowed: 0.")
    found = study.predicted(
        device=case.device, target=case.target, drafter=drafter, runtimes=runtimes, lengths=lengths,
        acceptance=_acceptance(case, target, model), prompt_tokens=tokens[0], output_tokens=tokens[1],
    )  # fmt: skip
    files = {
        texts.SCRIPT: texts.script(found),
        texts.PROMPT_FILE: texts.PROMPT,
        texts.CONFIG: texts.power_config(),
    }
    for each in found.runtimes:
        (out / study.RESULTS / each.id).mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        with whole_file(out / name, where="--out ", make_folder=True) as partial:
            partial.write_text(text, encoding="utf-8")
        say(f"wrote {out / name}")
    say(f"wrote {study.write_prediction(out, found)}")
    records = as_rows(found)
    notes = list(dict.fromkeys(note for each in found.runtimes for note in each.notes))
    page.emit(
        records, command="kit", notes=notes,
        extra={"folder": str(out), "prediction": found.model_dump(mode="json")},
        markdown=lambda: prediction_page(found, out, records, files[texts.SCRIPT], notes),
    )  # fmt: skip
    return 0


def _acceptance(case: Case, target: Any, model: Any) -> Callable[[int], Acceptance | None]:
    """Acceptance at a draft length; None where none was given, or none is known for drafts that long."""
    stated = (case.acceptance, case.acceptance_rate, case.acceptance_length)
    if model.family == "none":
        if any(value is not None for value in stated):
            raise DraftscopeError("acceptance: given without --drafter; allowed: with a drafter.")
        return lambda length: None

    def at(length: int) -> Acceptance | None:
        if not any(value is not None for value in stated):
            return None
        found = case.acceptance_of(target, model, length, None)
        known = None if found is None else found.max_draft_length
        return None if known is not None and length > known else found

    return at


# ---------------------------------------------------------------------------------------------- after
def _judge(folder: Path, loss: str, page: Output) -> int:
    from simulator.adapters.dates import measured_at
    from simulator.adapters.observations import read_observations
    from simulator.adapters.power_rails import read_power_rails
    from simulator.studies import kit as study
    from simulator.studies.calibration.profile import as_toml
    from simulator.studies.kit_verdicts import check_dates, compared

    prediction = study.read_prediction(folder)
    found = _results(folder / study.RESULTS, [each.id for each in prediction.runtimes])
    traces = sorted(path for path in (folder / study.POWER).glob("[!.]*") if path.is_file())
    everything = [*(path for paths in found.values() for path in paths), *traces]
    check_dates(prediction, {str(path): measured_at(path) for path in everything})
    files: dict[str, list[Observations]] = {
        name: [read_observations(path) for path in paths] for name, paths in found.items()
    }
    rails = {path.name: read_power_rails(path) for path in traces}
    verdicts = compared(prediction, files, loss=LOSSES[loss])
    failed = [name for name, each in verdicts.calibrations.items() if not each.converged]
    records = [row.record() for row in verdicts.rows]
    page.emit(
        records, command="kit", notes=verdicts.notes, extra=_extra(prediction, verdicts, rails),
        markdown=lambda: verdict_page(prediction, verdicts, rails, folder / study.CALIBRATED),
    )  # fmt: skip
    for name, each in verdicts.calibrations.items():
        if name in failed:
            say(f"{name}: the fit did not converge; its runtime was not written. Try --loss soft_l1.")
            continue
        path = folder / study.CALIBRATED / f"{name}.toml"
        with whole_file(path, where="--results ", make_folder=True) as partial:
            partial.write_text(as_toml(each.runtime), encoding="utf-8")
        say(f"wrote {path}")
    return 1 if failed else 0


def _results(folder: Path, known: Sequence[str]) -> dict[str, list[Path]]:
    """Files of every stack, by name; anything that stands elsewhere is refused."""
    found: dict[str, list[Path]] = {name: [] for name in known}
    for place in sorted(folder.glob("[!.]*")):
        if not place.is_dir():
            raise DraftscopeError(f"{place}: is no folder; allowed: files in {folder}/RUNTIME, one of "
                                  f"{', '.join(known)}.")  # fmt: skip
        if place.name not in found:
            raise UnknownNameError(f"{place}: runtime of the prediction", place.name, known)
        found[place.name] = sorted(place.glob("[!.]*"))
    if not any(found.values()):
        raise DraftscopeError(f"{folder}: no results yet; needed: what run.sh writes there.")
    return found


def _extra(prediction: Prediction, verdicts: Verdicts, rails: dict[str, tuple[Rail, ...]]) -> dict[str, Any]:
    return {
        "written_at": prediction.written_at.isoformat(), "sha256": prediction.sha256,
        "summary": verdicts.summary,
        "changes": [{**vars(each), "before": each.before.model_dump(), "after": each.after.model_dump()}
                    for each in verdicts.changes],
        "calibrations": {
            name: {"start": each.start_id, "residual": each.residual, "converged": each.converged,
                   "fields": [row.record() for row in each.fields]}
            for name, each in verdicts.calibrations.items()
        },
        "power": {name: [{**vars(rail), "mean_w": rail.mean_w} for rail in each]
                  for name, each in rails.items()},
    }  # fmt: skip
