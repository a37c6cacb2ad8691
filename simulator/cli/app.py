"""Commands by name, and what becomes of errors: one line on stderr and an exit status; it knows no option."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from hw_profiles import ProfileError
from simulator.errors import DraftscopeError, missing_package
from simulator.results.version import version

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130

COMMANDS = {
    "app": (
        (
            "simulator.cli.compare:compare",
            "compare",
            "Compare drafters side by side on devices, each at its best draft length.",
        ),
        (
            "simulator.cli.predict:predict",
            "predict",
            "Predict speed, energy and memory of one design, or of a table of them.",
        ),
        (
            "simulator.cli.simulate:simulate",
            "simulate",
            "Run designs through the event engine, step by step.",
        ),
        (
            "simulator.cli.measure:measure",
            "measure",
            "Measure this machine: passes, plain and speculative decoding; calibrate and predict them.",
        ),
        (
            "simulator.cli.calibrate:calibrate",
            "calibrate",
            "Fit a runtime profile to measured pass and prefill times.",
        ),
        (
            "simulator.cli.kit:kit",
            "kit",
            "Say what to run on a phone, predict it before, and judge the prediction by the results.",
        ),
        (
            "simulator.cli.explain:explain",
            "explain",
            "Explain one case: where every millisecond and byte goes, and what the answer hangs on.",
        ),
        (
            "simulator.cli.validate:validate",
            "validate",
            "Predict measured speedups, and say how often that is right.",
        ),
        ("simulator.cli.claims:claims", "claims", "Published claims beside what is reproduced here."),
        ("simulator.cli.train:train", "train", "Train a drafter on the frozen reference target."),
        ("simulator.cli.report:report", "report", "Write one self-contained HTML report."),
    ),
    "trace": (
        (
            "simulator.cli.collect:collect",
            "collect",
            "Record acceptance traces of drafters on the reference target.",
        ),
        (
            "simulator.cli.trace:summary",
            "summary",
            "Acceptance per task and drafter, over the replayed steps.",
        ),
        (
            "simulator.cli.trace_import:import_",
            "import",
            "Turn another tool's log of steps into a step trace.",
        ),
        ("simulator.cli.trace:diff", "diff", "Compare two heads: the gate for shipping a head update."),
    ),
    "profiles": (
        ("simulator.cli.profiles:list_", "list", "List devices and runtimes."),
        ("simulator.cli.profiles:show", "show", "Show every number of a device or runtime."),
        ("simulator.cli.profiles:diff", "diff", "Show what differs between two devices or runtimes."),
        ("simulator.cli.profiles:check", "check", "Check profiles: schema, sources, formulas."),
    ),
}
"""Group -> where each command is, its name, and a line about it."""

INSTALL = {
    "torch": "reference", "transformers": "reference", "safetensors": "reference", "tokenizers": "reference",
    "gguf": "reference", "jinja2": "reference", "accelerate": "reference", "dash": "explorer",
    "distributed": "distributed",
}  # fmt: skip
"""Module -> extra that installs it."""


def build_app(given: Sequence[str] = ()) -> App:
    """The application; a command's module is imported when the command runs.

    Parameters
    ----------
    given : sequence of str
        Arguments: a command among them shows its whole help, the others one line.
    """
    app = App(
        name="draftscope",
        help="What drafter should a phone run, and what will it cost?",
        version=version,
        result_action="return_value",
        suppress_keyboard_interrupt=False,
    )
    trace = App(name="trace", help="Record, summarise and compare acceptance traces.")
    profiles = App(name="profiles", help="Devices and runtimes, every number with its source.")
    for path, name, text in COMMANDS["app"]:
        app.command(path, name=name, help=None if name in given else text)
    for path, name, text in COMMANDS["trace"]:
        trace.command(path, name=name, help=None if name in given else text)
    for path, name, text in COMMANDS["profiles"]:
        profiles.command(path, name=name, help=None if name in given else text)
    app.command(trace)
    app.command(profiles)
    return app


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    arguments : sequence of str, optional
        The process's own where omitted.

    Returns
    -------
    int
        0 fine; 1 the model or a check failed; 2 wrong usage or input; 130 interrupted.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        code = build_app(given)(given, exit_on_error=False, print_error=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except CycloptsError as error:
        return _complain(_in_one_line(str(error)) + " See draftscope --help.")
    except (DraftscopeError, ProfileError) as error:
        return _complain(_first_of(str(error)))
    except ModuleNotFoundError as error:
        extra = INSTALL.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        return _complain(missing_package(str(error.name), extra))
    except KeyboardInterrupt as stop:
        print(f"interrupted{f': {stop}' if str(stop) else ''}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has seen enough. Python would complain when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except (RecursionError, MemoryError, OverflowError) as error:
        return _complain(
            f"the input is nested too deeply or holds a number too large to compute with "
            f"({type(error).__name__}); allowed: sizes of real models, devices and requests."
        )
    except OSError as error:
        return _complain(f"{error.filename or 'file'}: {error.strerror or error}.")
    except ValueError as error:
        if type(error).__module__.partition(".")[0] != "reference_impl":
            raise
        return _complain(str(error))
    return code if isinstance(code, int) else OK


def _complain(message: str) -> int:
    for number, line in enumerate(message.splitlines()):
        print(f"error: {line}" if number == 0 else f"       {line}", file=sys.stderr)
    return USAGE


def _first_of(message: str) -> str:
    """The first of several faults of a profile, and the command that lists them all."""
    first, *others = message.splitlines() or [message]
    if not others:
        return first
    file = first.partition(":")[0]
    return f"{first} {len(others)} more: draftscope profiles check {file}"


def _in_one_line(message: str) -> str:
    return " ".join(message.split())
