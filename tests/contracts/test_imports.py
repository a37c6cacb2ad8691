"""Who imports whom: the layers hold, `import simulator` is fast and light, files stay readable."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "transformers", "plotly", "dash", "simpy", "pyarrow", "scipy", "reference_impl")
LINE_LIMIT = 400
IMPORT_LIMIT_CPU_S = 0.8

PROBE = """
import json, sys, time
start = time.process_time()
import simulator
cpu_s = time.process_time() - start
print(json.dumps({"cpu_s": cpu_s, "modules": sorted({name.split(".")[0] for name in sys.modules})}))
"""

COMMAND_PROBE = """
import contextlib, io, json, sys
from simulator.cli import main
sys.argv = ["draftscope", *json.loads(sys.argv[1])]
code = 0
with contextlib.redirect_stdout(io.StringIO()):
    try:
        code = main() or 0
    except SystemExit as stop:
        code = stop.code or 0
print(json.dumps({"code": code, "modules": sorted({name.split(".")[0] for name in sys.modules})}))
"""


def run_python(code: str, *arguments: str, root: Path) -> dict:
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_import_simulator_is_light_and_fast(repo_root):
    seen = [run_python(PROBE, root=repo_root) for _ in range(3)]
    assert not set(HEAVY) & set(seen[0]["modules"])
    assert min(run["cpu_s"] for run in seen) < IMPORT_LIMIT_CPU_S


def test_import_hw_profiles_needs_no_numpy(repo_root):
    seen = run_python(PROBE.replace("import simulator", "import hw_profiles"), root=repo_root)
    assert not {"numpy", "simulator", "reference_impl"} & set(seen["modules"])


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["profiles", "list"], ["compare", "--device", "pixel_9"], ["trace", "summary"], ["claims"]],
    ids=lambda arguments: " ".join(arguments),
)
def test_commands_that_need_no_torch_do_not_import_it(arguments, repo_root):
    seen = run_python(COMMAND_PROBE, json.dumps(arguments), root=repo_root)
    assert seen["code"] == 0
    assert not {"torch", "transformers", "dash"} & set(seen["modules"])


def test_layers_hold(repo_root):
    pytest.importorskip("importlinter")
    lint = "from importlinter.cli import lint_imports_command as main; main()"
    done = subprocess.run(
        [sys.executable, "-c", lint, "--no-cache"],
        cwd=repo_root,
        env={**os.environ, "PYTHONPATH": str(repo_root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_long_files_say_why(tracked_files, repo_root):
    unexplained = []
    for path in (path for path in tracked_files if path.suffix == ".py"):
        text = (repo_root / path).read_text()
        lines = len(text.splitlines())
        if lines > LINE_LIMIT and f"{LINE_LIMIT} lines" not in (ast.get_docstring(ast.parse(text)) or ""):
            unexplained.append(f"{path}: {lines}")
    assert not unexplained, "say in the module docstring why it is above 400 lines: " + ", ".join(unexplained)


def test_every_module_says_what_it_is_for(tracked_files, repo_root):
    packages = ("simulator", "hw_profiles", "reference_impl")
    silent = [
        str(path)
        for path in tracked_files
        if path.suffix == ".py"
        and path.parts[0] in packages
        and not ast.get_docstring(ast.parse((repo_root / path).read_text()))
    ]
    assert not silent


def test_nothing_unpickles(tracked_files, repo_root):
    """Weights come from GGUF and safetensors only."""
    banned = ("import pickle", "from pickle", "torch.load(", "allow_pickle=True", "import joblib")
    hits = [
        f"{path}: {word}"
        for path in tracked_files
        if path.suffix == ".py" and path.parts[0] in ("simulator", "hw_profiles", "reference_impl")
        for word in banned
        if word in (repo_root / path).read_text()
    ]
    assert not hits
