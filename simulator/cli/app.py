"""Commands by name, and what becomes of errors: one line on stderr and an exit status; it knows no option."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from hw_profiles import ProfileError
from simulator.errors import DraftscopeError
from simulator.results.version import version

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130

INSTALL = {
    "torch": "reference", "transformers": "reference", "safetensors": "reference", "tokenizers": "reference",
    "gguf": "reference", "jinja2": "reference", "accelerate": "reference", "dash": "explorer",
    "distributed": "distributed",
}  # fmt: skip
"""Module -> extra that installs it."""


def build_app() -> App:
    """The application; a command's module is imported when the command runs."""
    app = App(
        name="draftscope",
        help="What drafter should a phone run, and what will it cost?",
        version=version,
        result_action="return_value",
    )
    trace = App(name="trace", help="Record, summarise and compare acceptance traces.")
    profiles = App(name="profiles", help="Devices and runtimes, every number with its source.")
    app.command("simulator.cli.compare:compare", name="compare")
    app.command("simulator.cli.predict:predict", name="predict")
    app.command("simulator.cli.simulate:simulate", name="simulate")
    app.command("simulator.cli.claims:claims", name="claims")
    trace.command("simulator.cli.trace:collect", name="collect")
    trace.command("simulator.cli.trace:summary", name="summary")
    trace.command("simulator.cli.trace:diff", name="diff")
    app.command(trace)
    app.command("simulator.cli.train:train", name="train")
    profiles.command("simulator.cli.profiles:list_", name="list")
    profiles.command("simulator.cli.profiles:show", name="show")
    profiles.command("simulator.cli.profiles:diff", name="diff")
    profiles.command("simulator.cli.profiles:check", name="check")
    app.command(profiles)
    app.command("simulator.cli.report:report", name="report")
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
        code = build_app()(given, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except CycloptsError as error:
        return _complain(_in_one_line(str(error)) + " See draftscope --help.")
    except (DraftscopeError, ProfileError) as error:
        return _complain(str(error))
    except ModuleNotFoundError as error:
        extra = INSTALL.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        return _complain(
            f"this command needs the package {error.name!r}, which is not installed. "
            f"Install it with: pip install 'draftscope[{extra}]'"
        )
    except KeyboardInterrupt:
        _complain("interrupted.")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has seen enough. Python would complain when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
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


def _in_one_line(message: str) -> str:
    return " ".join(message.split())
