"""The page of the field reports, from the scenario files and what they predict; it judges nothing itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tests.field_report_checks import Asked
from tests.field_reports import FLAGGED, INSIDE, MISSED, RIGHT, Excluded

HEAD = """# Field reports

What people who run speculative decoding reported, and what draftscope says for their case. Written by
`python docs/build.py field_reports` from the scenario files in `tests/validation/field_reports`, and run by a
test. Shipped profiles only, nothing fitted to a report, plain decoding predicted too. Numbers are speedups
with their 90 % interval where nothing else is said.

- **right**: sign, best draft length, cliff, bound or cause as reported. A measured speedup on the right
  side of 1 but beyond the interval says so: (outside).
- **inside interval**: the point is on the wrong side, but what was measured lies in the predicted interval.
- **missed**: neither. The reason stands below the table.
- **fault flagged**: the report was a fault of software or of counting, and that is the cause that
  draftscope names first.

A star marks reports that a profile used here knows: they check consistency, not prediction.
"""


def page(asked: Mapping[str, Asked], excluded: tuple[Excluded, ...]) -> str:
    """The page in Markdown.

    Parameters
    ----------
    asked : mapping of str to Asked
        Reports by stem.
    excluded : tuple of Excluded
        Reports that are left out.
    """
    reports = list(asked.values())
    counts = Counter(each.verdict for each in reports)
    shown = ", ".join(f"{counts[verdict]} {verdict}" for verdict in (RIGHT, FLAGGED, INSIDE, MISSED))
    lines = [HEAD, f"{len(reports)} reports: {shown}; {len(excluded)} more cannot be expressed.", ""]
    lines += ["| report | what happened | what draftscope says | verdict |", "|---|---|---|---|"]
    for each in reports:
        star = " *" if each.sources_used else ""
        report = each.report
        says = "<br>".join(finding.text for finding in each.findings)
        lines.append(f"| [{report.nr}: {report.title}]({report.source}){star} | {report.happened} | {says} "
                     f"| {each.verdict} |")  # fmt: skip
    for title, verdicts in (("Missed", (MISSED,)), ("Inside the interval only", (INSIDE,))):
        those = [each for each in reports if each.verdict in verdicts]
        if those:
            lines += ["", f"## {title}", ""]
            lines += [f"- **{each.report.nr}: {each.report.title}.** {each.report.why}" for each in those]
    lines += ["", "## What the scenarios assume", ""]
    lines += [f"- **{each.report.nr}.** {each.report.assumed}" for each in reports]
    lines += ["", "## Not expressible", ""]
    lines += [f"- [{each.nr}: {each.title}]({each.source}). {each.why}" for each in excluded]
    return "\n".join(lines) + "\n"
