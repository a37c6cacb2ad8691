"""Errors of the hardware profiles. Does not know where a message is printed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ProfileError(ValueError):
    """A profile, reference list or measurement file is wrong: where, what was given, what is allowed."""


class UnknownProfileError(ProfileError):
    """A device, runtime or key name that does not exist."""


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Return the allowed name that looks most like `name`, or an empty string where none does.

    Parameters
    ----------
    name : str
        What was given.
    allowed : iterable of str
        The valid names.

    Returns
    -------
    str
        The closest valid name (similarity of at least 0.5), else "".
    """
    found = difflib.get_close_matches(name, list(allowed), n=1, cutoff=0.5)
    return found[0] if found else ""


def unknown(where: str, what: str, given: str, allowed: Iterable[str]) -> UnknownProfileError:
    """Build the error for a name that does not exist.

    Parameters
    ----------
    where : str
        File and dotted key, or the parameter.
    what : str
        What kind of name it is, such as "device".
    given : str
        The name that was given.
    allowed : iterable of str
        The valid names.

    Returns
    -------
    UnknownProfileError
        With the nearest name and the whole list in its message.
    """
    names = sorted(allowed)
    close = nearest(given, names)
    hint = f" Did you mean {close!r}?" if close else ""
    listed = ", ".join(names) if names else "none"
    return UnknownProfileError(f"{where}: unknown {what} {given!r}.{hint} Allowed: {listed}.")
