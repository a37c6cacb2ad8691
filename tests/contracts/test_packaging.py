"""What is shipped: the wheel holds every data file, metadata agree, no path of one machine, bounded size."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

PACKAGES = ("simulator", "hw_profiles", "reference_impl")
REPOSITORY_LIMIT_BYTES = 150_000_000
CHECKPOINT_LIMIT_BYTES = 30_000_000
BINARY_SUFFIXES = {".parquet", ".safetensors", ".gguf", ".png", ".jpg", ".gz", ".xz", ".npz", ".npy"}
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:root|home|work|Users)/[\w.]|[A-Z]:\\\\?Users\\")


@pytest.fixture(scope="module")
def project(repo_root):
    return tomllib.loads((repo_root / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def wheel_files(repo_root):
    builder = pytest.importorskip("hatchling.builders.wheel").WheelBuilder(str(repo_root))
    return {Path(file.distribution_path).as_posix() for file in builder.recurse_included_files()}


def test_every_tracked_package_file_is_in_the_wheel(tracked_files, wheel_files):
    wanted = {path.as_posix() for path in tracked_files if path.parts[0] in PACKAGES}
    assert wanted
    assert not wanted - wheel_files


def test_wheel_holds_the_three_packages_and_nothing_else(wheel_files):
    assert {name.split("/")[0] for name in wheel_files} == set(PACKAGES)
    for package in PACKAGES:
        assert f"{package}/__init__.py" in wheel_files
        assert f"{package}/py.typed" in wheel_files


def test_no_caches_in_the_wheel(wheel_files):
    assert not [name for name in wheel_files if "__pycache__" in name or name.endswith((".pyc", ".partial"))]


def test_core_is_light_and_torch_is_pinned_exactly(project):
    core = {re.split(r"[<>=~!\[ ]", requirement)[0] for requirement in project["dependencies"]}
    assert core == {
        "numpy",
        "scipy",
        "simpy",
        "pydantic",
        "tomlkit",
        "cyclopts",
        "rich",
        "pyarrow",
        "plotly",
    }
    extras = project["optional-dependencies"]
    assert set(extras) == {"reference", "explorer", "notebooks", "distributed", "dev"}
    assert "torch==2.13.0" in extras["reference"]
    assert project["scripts"] == {"draftscope": "simulator.cli:main"}


def test_version_agrees_everywhere(project, repo_root):
    simulator = pytest.importorskip("simulator")
    assert simulator.__version__ == project["version"]
    citation = (repo_root / "CITATION.cff").read_text()
    assert f"\nversion: {project['version']}\n" in citation
    assert f"## [{project['version']}]" in (repo_root / "CHANGELOG.md").read_text()


def test_licence_is_apache_2(project, repo_root):
    assert project["license"] == "Apache-2.0"
    assert "Apache License" in (repo_root / "LICENSE").read_text()[:200]


def test_no_absolute_machine_path_in_tracked_files(tracked_files, repo_root):
    hits = [
        f"{path}:{number}: {line.strip()[:120]}"
        for path in tracked_files
        if path.suffix not in BINARY_SUFFIXES
        for number, line in enumerate(
            (repo_root / path).read_text(encoding="utf-8", errors="replace").splitlines(), start=1
        )
        if MACHINE_PATH.search(line)
    ]
    assert not hits, "\n".join(hits)


@pytest.mark.parametrize("before", ["open('", "see ", "path=", "", '"'])
@pytest.mark.parametrize("top", ["home", "root", "Users"])
def test_machine_path_pattern_finds_paths(before, top):
    assert MACHINE_PATH.search(before + "/" + top + "/ann")


@pytest.mark.parametrize("before", ["GET docs", "a", "https://example.org", "~", "."])
def test_machine_path_pattern_ignores_relative_paths(before):
    assert not MACHINE_PATH.search(before + "/" + "home" + "/ann")


def test_repository_stays_small(tracked_files, repo_root):
    total = sum((repo_root / path).stat().st_size for path in tracked_files)
    assert total < REPOSITORY_LIMIT_BYTES, f"{total / 1e6:.1f} MB tracked"


def test_checkpoints_stay_small(tracked_files, repo_root):
    heads = [path for path in tracked_files if path.suffix == ".safetensors"]
    too_big = [path for path in heads if (repo_root / path).stat().st_size > CHECKPOINT_LIMIT_BYTES]
    assert not too_big


def test_make_refuses_an_old_or_missing_python(repo_root, tmp_path):
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    shutil.copy(repo_root / "Makefile", tmp_path)
    shutil.copy(repo_root / "pyproject.toml", tmp_path)
    done = subprocess.run(
        ["make", "PYTHON=no-such-python", "demo"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "needs Python >= 3.11" in done.stderr
    assert "no-such-python" in done.stderr
    assert not (tmp_path / ".venv").exists()


@pytest.mark.parametrize(
    "target", ["demo", "test", "lint", "bench", "parity", "report", "notebooks", "clean"]
)
def test_make_knows_its_targets(target, repo_root):
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    done = subprocess.run(
        ["make", "--dry-run", target], cwd=repo_root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
