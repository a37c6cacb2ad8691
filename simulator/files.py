"""Writes a file whole or not at all; it does not know what stands in it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from simulator.errors import DraftscopeError

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def check_target(
    path: str | os.PathLike[str], *, where: str = "", error: type[ValueError] = DraftscopeError
) -> Path:
    """Refuse what must not be replaced by a file, before anything is computed or written.

    Parameters
    ----------
    path : path
        File to write; it need not exist.
    where : str
        Put before the path in messages, for example ``"--out "``.
    error : type of ValueError
        Raised on refusal.

    Returns
    -------
    Path
        The file itself: symbolic links are followed, so a link stays a link.

    Raises
    ------
    DraftscopeError
        If a folder, pipe, device or socket stands there, or the path cannot be looked at.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return Path(os.path.realpath(path))
    except OSError as problem:
        raise error(_failed(where, path, problem)) from None
    if not stat.S_ISREG(mode):
        kind = next((name for test, name in _KINDS if test(mode)), "no regular file")
        raise error(f"{where}{path}: is {kind}; allowed: a regular file, or a path that does not exist yet.")
    return Path(os.path.realpath(path))


@contextmanager
def whole_file(
    path: str | os.PathLike[str],
    *,
    where: str = "",
    error: type[ValueError] = DraftscopeError,
    make_folder: bool = False,
) -> Iterator[Path]:
    """Give a path beside the file to write to; it takes the file's place once the block ends well.

    Parameters
    ----------
    path, where, error
        As in `check_target`.
    make_folder : bool
        Make the folder where there is none.

    Yields
    ------
    Path
        Where to write. Whatever happens, it is gone afterwards.

    Raises
    ------
    DraftscopeError
        If the target is refused, or the system refuses to write; the old file is then as it was.
    """
    target = check_target(path, where=where, error=error)
    temporary = target.with_name(f".{target.name[:40]}.{os.getpid()}.tmp")
    try:
        if make_folder:
            target.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as problem:
        raise error(_failed(where, path, problem, target.parent)) from None


def _failed(where: str, path: str | os.PathLike[str], problem: OSError, folder: Path | None = None) -> str:
    reason = problem.strerror or str(problem)
    if folder is not None and isinstance(problem, FileNotFoundError) and not folder.exists():
        reason = f"there is no folder {folder}"
    return f"{where}{path}: could not be written, nothing was changed: {reason}."
