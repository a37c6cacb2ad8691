"""Reads references.bib. Knows titles and addresses, not whether an address still answers."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from hw_profiles.errors import ProfileError
from hw_profiles.schema import Reference

_ENTRY = re.compile(r"@(\w+)\s*\{\s*([^,\s]+)\s*,(.*?)\n\}", re.DOTALL)
_FIELD = re.compile(r"^\s*(\w+)\s*=\s*\{(.*)\},?\s*$", re.MULTILINE)
_FIELDS = ("title", "author", "year", "howpublished", "url", "note")


def parse_bibtex(text: str, where: str = "references.bib") -> dict[str, Reference]:
    """Read entries ``@kind{key,`` with one ``name = {value},`` a line and a closing ``}`` of its own.

    Parameters
    ----------
    text : str
        The file's text.
    where : str
        Its name, for messages.

    Returns
    -------
    dict of str to Reference
        In file order.

    Raises
    ------
    ProfileError
        On a repeated key, an entry without a title, an unknown field, or text that is no entry.
    """
    found: dict[str, Reference] = {}
    for match in _ENTRY.finditer(text):
        key, body = match.group(2), match.group(3)
        fields = {name: value.strip() for name, value in _FIELD.findall(body)}
        if key in found:
            raise ProfileError(f"{where}:{key}: this key stands twice; allowed: each key once.")
        if not fields.get("title"):
            raise ProfileError(f"{where}:{key}: has no title; needed: title = {{...}}.")
        for name in fields:
            if name not in _FIELDS:
                raise ProfileError(f"{where}:{key}: unknown field {name!r}; allowed: {', '.join(_FIELDS)}.")
        found[key] = Reference(**fields)
    begun = len(re.findall(r"^@\w+\s*\{", text, re.MULTILINE))
    if begun != len(found):
        raise ProfileError(
            f"{where}: {begun} entries begin but {len(found)} could be read; "
            "close each with '}' on a line of its own."
        )
    return found


@cache
def references() -> dict[str, Reference]:
    """Return the packaged reference list, key to entry."""
    return parse_bibtex((files("hw_profiles") / "references.bib").read_text(encoding="utf-8"))
