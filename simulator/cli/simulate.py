"""``draftscope simulate``: the same cases through the event engine (`simulator.engine`)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from hw_profiles import ProfileError
from simulator.cli.case import NOTHING, Case
from simulator.cli.output import DEFAULT, Output, say
from simulator.cli.parsing import MOST_DIGITS, whole_numbers
from simulator.cli.predict import emit_results
from simulator.errors import DraftscopeError, UnknownNameError
from simulator.files import check_target

REPLICATIONS, SEED = "100", "0"
MOST_REPLICATIONS = 1_000_000
OWN = ("replications", "seed", "steps")
"""Options of this command alone, which a scenario may hold too."""
FLAGS = tuple(field.name for field in fields(Case) if isinstance(getattr(NOTHING, field.name), bool))
"""Options that are true or false."""


def simulate(
    scenario: Path | None = None,
    /,
    *,
    case: Case = NOTHING,
    replications: Annotated[str | None, Parameter(show_default=lambda _: REPLICATIONS)] = None,
    seed: Annotated[str | None, Parameter(show_default=lambda _: SEED)] = None,
    steps: Annotated[Path | None, Parameter(negative="")] = None,
    output: Output = DEFAULT,
) -> int:
    """Run designs through the event engine, step by step: distributions beside the means.

    A trace is replayed step by step; of any other acceptance the steps are drawn.

    Parameters
    ----------
    scenario
        TOML file with any of these options (device = "pixel_9", draft_length = 4, [set] ...); options given
        here replace its values.
    replications
        Requests to serve where steps are drawn.
    seed
        Seed of the draws.
    steps
        Also write every step to this CSV file (one design only).
    """
    output.check()
    options = {} if scenario is None else read_scenario(scenario)
    own = {name: options.pop(name, None) for name in OWN}
    steps = steps or (Path(own["steps"]) if own["steps"] else None)
    if steps is not None:
        check_target(steps, where="--steps ")
    given = merged(options, case, where=f"{scenario}") if options else case
    replications = replications or own["replications"] or REPLICATIONS
    (number,) = whole_numbers(replications, where="--replications", minimum=1, maximum=MOST_REPLICATIONS)[:1]
    (start,) = whole_numbers(seed or own["seed"] or SEED, where="--seed")[:1]
    questions, left_out = given.expand()
    if steps is not None and len(questions) > 1:
        raise DraftscopeError(f"--steps: {len(questions)} designs asked for; allowed: one.")
    from simulator.engine import simulate as engine

    results, ends = [], dict[str, None]()
    for done, question in enumerate(questions):
        if len(questions) > 1:
            where = question.arguments["device"]
            say(f"simulating {done + 1} of {len(questions)}: {question.drafter} on {where}")
        settled = question.settled()
        ends[question.end_note(settled)] = None
        results.append(engine(**settled, replications=number, seed=start, steps=steps is not None))
    emit_results(
        results, [question.arguments["device"] for question in questions], command="simulate", output=output,
        left_out=[*left_out, *filter(None, ends)],
    )  # fmt: skip
    if steps is not None:
        records = [step._asdict() for step in results[0].steps]
        Output(output="csv", out=str(steps)).emit(records, command="simulate", markdown=str)
    return 0


def read_scenario(path: Path) -> dict[str, Any]:
    """Options of a scenario file as the command line would give them.

    Raises
    ------
    DraftscopeError
        For a file that cannot be read, and values of another form.
    UnknownNameError
        For a key that is no option; names the nearest.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DraftscopeError(f"{path}: {error.strerror}.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DraftscopeError(f"{path}: is not valid TOML: {error}.") from None
    allowed = {field.name.rstrip("_"): field.name for field in fields(Case)} | {name: name for name in OWN}
    options: dict[str, Any] = {}
    for key, value in data.items():
        name = key.replace("-", "_")
        if name not in allowed:
            raise UnknownNameError(f"{path}", key, allowed)
        options[allowed[name]] = _as_option(value, f"{path}:{key}", flag=allowed[name] in FLAGS)
    return options


def merged(options: Mapping[str, Any], given: Case, *, where: str) -> Case:
    """A scenario with the options of the command line laid over it; faults of its own say the file."""
    try:
        replace(NOTHING, **options).expand()
    except (DraftscopeError, ProfileError) as error:
        if given == NOTHING:
            raise DraftscopeError(f"{where}: {error}") from None
    chosen = {
        field.name: getattr(given, field.name)
        for field in fields(Case)
        if getattr(given, field.name) != getattr(NOTHING, field.name)
    }
    return replace(NOTHING, **{**options, **chosen})


def _as_option(value: Any, where: str, *, flag: bool) -> Any:
    if isinstance(value, bool) != flag:
        allowed = "true or false" if flag else "text, a number or a list"
        raise DraftscopeError(f"{where}: {value!r} given; allowed: {allowed}.")
    if isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float)):
        if isinstance(value, int) and abs(value) >= 10**MOST_DIGITS:
            raise DraftscopeError(f"{where}: more than {MOST_DIGITS} digits given; allowed: fewer.")
        return str(value)
    if isinstance(value, list) and all(isinstance(item, (str, int, float)) for item in value):
        return ",".join(str(item) for item in value)
    if isinstance(value, dict) and where.endswith(":set"):
        return [f"{key}={item}" for key, item in value.items()]
    raise DraftscopeError(f"{where}: {value!r} given; allowed: text, a number, a list or a table.")
