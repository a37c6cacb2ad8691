"""Commands of a page of the documentation with what they print below them; it chooses none of them.

``python -m simulator.cli.worked_examples docs/guides/explain.md`` runs them again and rewrites the page.
There an example is a code block with one command, a line ``<!-- prints -->`` and a quote;
``<!-- prints up to "## X" -->`` keeps what stands above that line.
"""

from __future__ import annotations

import io
import re
import shlex
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from simulator.cli.app import run
from simulator.cli.output import write_file
from simulator.errors import DraftscopeError

EXAMPLE = re.compile(
    r"(?P<block>```\n(?P<command>draftscope (?:[^`\n]|\\\n)+)\n```\n\n)"
    r'(?P<marker><!-- prints(?: up to "(?P<end>[^"\n]+)")? -->\n\n)(?P<printed>(?:>[^\n]*\n)*)'
)


def refreshed(page: str) -> str:
    """The page with what its commands print now.

    Parameters
    ----------
    page : str
        Text of the page.

    Raises
    ------
    DraftscopeError
        If it has no example, or a command fails.
    """
    if not EXAMPLE.search(page):
        raise DraftscopeError(
            "page: no example found; needed: a command, a marker <!-- prints --> and a quote."
        )
    return EXAMPLE.sub(_example, page)


def printed(command: str) -> str:
    """What a command line prints on stdout.

    Parameters
    ----------
    command : str
        ``draftscope ...``, perhaps over several lines.
    """
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(shlex.split(command.replace("\\\n", " "))[1:])
    if code:
        raise DraftscopeError(f"{command}: exit status {code}: {err.getvalue().strip()}")
    return out.getvalue()


def _example(match: re.Match[str]) -> str:
    text = printed(match["command"])
    if match["end"]:
        text = text.partition(f"\n{match['end']}")[0].rstrip() + "\n"
    quote = "".join(f"> {line}".rstrip() + "\n" for line in _lowered(text).splitlines())
    return f"{match['block']}{match['marker']}{quote}"


def _lowered(text: str) -> str:
    """Headings in bold, so that they are none of the page."""
    return re.sub(r"^#+ (.*)$", r"**\1**", text, flags=re.M)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    write_file(target, refreshed(target.read_text(encoding="utf-8")))
