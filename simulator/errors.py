"""Errors that a user can cause and correct; it does not know who raises them or who prints them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class DraftscopeError(ValueError):
    """Any mistake in an input of the user: the message says where, what was given and what is allowed."""


class UnknownNameError(DraftscopeError):
    """A name that is not in the list of allowed names.

    Parameters
    ----------
    kind : str
        What the name stands for, for example ``"drafter"``; may carry the place (``"file.toml: drafter"``).
    name : str
        The name that was given.
    allowed : iterable of str
        The names that exist.
    """

    def __init__(self, kind: str, name: object, allowed: Iterable[str]) -> None:
        names = sorted(set(allowed))
        guess = nearest(str(name), names)
        hint = f" Did you mean {guess!r}?" if guess else ""
        super().__init__(f"{kind}: unknown name {name!r}.{hint} Allowed: {', '.join(names) or '(none)'}.")
        self.kind, self.name, self.allowed, self.nearest = kind, name, tuple(names), guess


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Return the allowed name that is closest to ``name``, or ``""`` when nothing comes close.

    Parameters
    ----------
    name : str
        The misspelt name; case and the difference of ``-`` and ``_`` are ignored.
    allowed : iterable of str
        Candidates.
    """
    by_key = {candidate.lower().replace("-", "_"): candidate for candidate in allowed}
    found = difflib.get_close_matches(name.lower().replace("-", "_"), by_key, n=1, cutoff=0.4)
    return by_key[found[0]] if found else ""


def missing_package(package: str, extra: str) -> str:
    """Say in one line that an optional package is missing, and how a checkout gets it.

    Parameters
    ----------
    package : str
        Module that could not be imported.
    extra : str
        Extra of this project that installs it; the project is on no package index.
    """
    return (
        f"this needs the package {package!r}, which this Python does not have. In the checkout, install it "
        f"with: .venv/bin/pip install -e '.[{extra}]' and run with .venv/bin/python or .venv/bin/draftscope."
    )
