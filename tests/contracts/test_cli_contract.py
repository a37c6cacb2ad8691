"""The command line as other programs see it: exit codes, streams, imports, speed, and its reference page."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from simulator.cli.app import COMMANDS, build_app
from simulator.cli.reference_page import MARKER, reference_page
from simulator.errors import DraftscopeError

COMPARE_LIMIT_CPU_S = 2.5
"""Start-up included: about 1 s on an idle core, more where other processes share the core with the tests."""

TIMED = """
import sys, time
from simulator.cli import main
code = main()
heavy = {"torch", "transformers", "plotly", "dash", "simpy", "reference_impl"} & set(sys.modules)
print(f"{code} {time.process_time()} {sorted(heavy)}", file=sys.stderr)
"""


def call(root: Path, *arguments: str, code: str | None = None, **options) -> subprocess.CompletedProcess[str]:
    head = ["-m", "simulator.cli"] if code is None else ["-c", code]
    return subprocess.run(
        [sys.executable, *head, *arguments],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(root)},
        **options,
    )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], 0),
        (["--help"], 0),
        (["--version"], 0),
        (["profiles", "list"], 0),
        (["nonsense"], 2),
        (["compare", "--nonsense"], 2),
        (["compare", "--device", "nonsense"], 2),
        (["profiles", "show"], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_exit_codes_and_streams(repo_root, arguments, code):
    done = call(repo_root, *arguments)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert bool(done.stdout) == (code == 0)
    assert bool(done.stderr) == (code != 0)


@pytest.mark.parametrize(
    ("arguments", "guess"),
    [
        (["compar"], "compare"),
        (["trace", "sumary"], "summary"),
        (["compare", "--devise", "pixel_9"], "--device"),
        (["predict", "--draft-lengths", "3"], "--draft-length"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_misspelt_commands_and_options_name_the_nearest(repo_root, arguments, guess):
    done = call(repo_root, *arguments)
    assert done.returncode == 2
    assert re.search(rf"Did you mean \W?{guess}", done.stderr), done.stderr


def test_compare_is_quick_and_light(repo_root):
    best = None
    for _ in range(3):
        done = call(repo_root, "compare", "--device", "pixel_9", code=TIMED)
        code, cpu_s, heavy = done.stderr.splitlines()[-1].split(" ", 2)
        assert (code, heavy) == ("0", "[]")
        best = min(float(cpu_s), best or float(cpu_s))
    assert best < COMPARE_LIMIT_CPU_S


def test_json_documents_have_one_shape(repo_root):
    for arguments in (["compare", "--no-intervals", "--draft-length", "2"], ["profiles", "list"], ["claims"]):
        document = json.loads(call(repo_root, *arguments, "-o", "json").stdout)
        assert {"command", "version", "rows", "notes"} <= set(document)
        assert document["command"] == " ".join(arg for arg in arguments[:2] if arg.isalpha())
        assert len({tuple(row) for row in document["rows"]}) == 1


def test_a_closed_pipe_is_no_error(repo_root):
    command = f"{sys.executable} -m simulator.cli profiles show pixel_9 | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=repo_root,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(repo_root)},
    )
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] in ("0", "141")


WAIT = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits "ignore"
import simulator.cli.output as output
import simulator.cli.profiles as profiles
from simulator.cli.app import run
def forever():
    print("ready", flush=True)
    time.sleep(60)
profiles.list_devices = forever
sys.exit(run(["profiles", "list"]))
"""


def test_ctrl_c_is_one_line_and_130(repo_root):
    process = subprocess.Popen(
        [sys.executable, "-c", WAIT],
        cwd=repo_root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(repo_root)},
    )
    with process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "interrupted\n"


def test_every_command_has_help_and_is_documented(repo_root):
    page = (repo_root / "docs/reference/cli.md").read_text()
    names = [name for group in COMMANDS.values() for _, name, _ in group]
    app = build_app(names)
    for group, commands in COMMANDS.items():
        for _, name, text in commands:
            path = [name] if group == "app" else [group, name]
            found = app
            for part in path:
                found = found[part]
            assert text.endswith(".")
            section = page.partition(f" draftscope {' '.join(path)}\n")[2].partition("\n#")[0]
            for argument in found.assemble_argument_collection():
                for option in argument.names:
                    if option.startswith("--"):
                        assert f"`{option}" in section or f", {option}" in section, (path, option)


def test_the_reference_page_is_fresh(repo_root):
    page = (repo_root / "docs/reference/cli.md").read_text()
    options = re.findall(r"--[a-z-]+", page.partition(MARKER)[2])
    fresh = re.findall(r"--[a-z-]+", reference_page(page).partition(MARKER)[2])
    assert options == fresh, "run: python -m simulator.cli.reference_page docs/reference/cli.md"
    with pytest.raises(DraftscopeError, match="no line"):
        reference_page("# a page without the marker")
