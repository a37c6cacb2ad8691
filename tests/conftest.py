"""Shared fixtures (repository root, tracked files, seeded generator, browser) and hypothesis profiles."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # two threads that wait for a busy core are far slower

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")

settings.register_profile(
    "default", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("ci", parent=settings.get_profile("default"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """The checkout the tests run in."""
    return ROOT


@pytest.fixture(scope="session")
def tracked_files() -> tuple[Path, ...]:
    """Files under version control, relative to the root; skips where there is no checkout."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listing = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True
    ).stdout.decode()
    return tuple(Path(name) for name in listing.split("\0") if name and (ROOT / name).is_file())


@pytest.fixture
def rng() -> np.random.Generator:
    """One seeded generator for a test."""
    return np.random.default_rng(20250101)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of a headless-capable browser; fails where continuous integration lacks one, else skips."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        message = "no browser found: install the Debian package chromium"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return found
