"""``draftscope report``: one HTML file that works offline (`simulator.figures.report`)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from simulator.cli.compare import needed, trace_files
from simulator.cli.output import say
from simulator.cli.parsing import names, share, whole_numbers
from simulator.files import check_target


def report(
    *,
    device: str = "pixel_9,pixel_10",
    runtime: str | None = None,
    tasks: Annotated[str, Parameter(name=["--tasks", "--task"])] = "all",
    draft_length: str = "1-8",
    acceptance_trace: str | None = None,
    responses: Path | None = None,
    max_overlap: str = "0.2",
    out: Path = Path("report.html"),
) -> int:
    """Write one self-contained HTML report that works offline.

    Parameters
    ----------
    device
        Devices, comma-separated; the first is shown first.
    runtime
        One runtime for all devices; each device's default where omitted.
    tasks
        Task classes of the traces, comma-separated, or "all".
    draft_length
        Draft lengths K.
    acceptance_trace
        Trace files (.parquet) or folders, comma-separated, instead of the shipped ones.
    responses
        Texts behind the traces (responses.parquet) for the token strip; beside the traces where omitted.
    max_overlap
        Leave out responses that share more than this part of their 8-grams with training text; "none" keeps
        all.
    out
        File to write.
    """
    lengths = whole_numbers(draft_length, where="--draft-length", minimum=1)
    limit = share(max_overlap, where="--max-overlap")
    check_target(out, where="--out ")
    from simulator.figures.report import build_report
    from simulator.studies.report_data import report_data

    data = report_data(
        devices=needed(device, "--device"),
        runtime=runtime,
        tasks=None if tasks == "all" else names(tasks),
        draft_lengths=lengths,
        traces=trace_files(acceptance_trace),
        responses=responses,
        max_overlap=limit,
    )
    path = build_report(data, out_path=out)
    say(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB; its {len(data['notes'])} notes are in it)")
    return 0
