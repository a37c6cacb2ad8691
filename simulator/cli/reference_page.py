"""The options of every command as Markdown, for ``docs/reference/cli.md``; it does not explain them.

``python -m simulator.cli.reference_page docs/reference/cli.md`` writes them below the page's marker.
"""

from __future__ import annotations

import sys
from pathlib import Path

from simulator.cli.app import COMMANDS, build_app
from simulator.cli.output import write_file
from simulator.errors import DraftscopeError

MARKER = "<!-- generated below this line: python -m simulator.cli.reference_page docs/reference/cli.md -->\n"


def reference_page(page: str) -> str:
    """The page with a fresh list of commands and options below its marker.

    Parameters
    ----------
    page : str
        Text of the page.

    Raises
    ------
    DraftscopeError
        If the page has no marker.
    """
    top, marker, _ = page.partition(MARKER)
    if not marker:
        raise DraftscopeError(f"page: no line {MARKER.strip()!r}; needed: that line where the options begin.")
    names = [name for group in COMMANDS.values() for _, name, _ in group]
    text = build_app(names).generate_docs(output_format="markdown")
    _, heading, options = text.partition("\n## draftscope compare\n")
    lines = [line.rstrip() for line in (heading + options).splitlines()]
    return top + marker + "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    target = Path(sys.argv[1])
    write_file(target, reference_page(target.read_text(encoding="utf-8")))
