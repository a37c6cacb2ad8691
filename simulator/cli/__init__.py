"""The command `draftscope`: thin commands over studies, analytic, engine and figures; it computes nothing."""

from __future__ import annotations

__all__ = ["main"]


def main() -> int:
    """Run the command line with the arguments of the process; returns the exit status."""
    from simulator.cli.app import run

    return run()
