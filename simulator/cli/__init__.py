"""The command `draftscope`: thin commands over studies, analytic, engine and figures; it computes nothing."""

from __future__ import annotations

import os

__all__ = ["main"]


def main() -> int:
    """Run the command line with the arguments of the process; returns the exit status."""
    # The arrays are small: threads of the linear algebra below numpy cost more than they bring.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from simulator.cli.app import run

    return run()
