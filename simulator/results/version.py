"""Version of the installed distribution; it does not know the state of a working tree."""

from __future__ import annotations

from functools import cache


@cache
def version() -> str:
    """Version of draftscope, ``"unknown"`` where it runs without being installed."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("draftscope")
    except PackageNotFoundError:
        return "unknown"
