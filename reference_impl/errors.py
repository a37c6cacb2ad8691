"""The one error type of the reference implementation: bad input, said clearly."""

from __future__ import annotations


class ReferenceImplError(ValueError):
    """Bad input to the reference: the message says where, what was given and what is allowed."""
