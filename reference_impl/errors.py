"""The one error type of the reference: bad input, said clearly; and what is said where torch is missing."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from simulator.errors import missing_package


class ReferenceImplError(ValueError):
    """Bad input to the reference: the message says where, what was given and what is allowed."""


def need_torch() -> None:
    """End a ``python -m`` run in one line where torch is missing; called before anything imports it.

    Raises
    ------
    SystemExit
        With status 2.
    """
    if find_spec("torch") is None:
        sys.stderr.write(f"error: {missing_package('torch', 'reference')}\n")
        raise SystemExit(2)
