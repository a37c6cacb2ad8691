"""Stacked bars of the ledgers: energy by phase, RAM and bytes by part; amounts come summed, none is added."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import plotly.graph_objects as go

from simulator.figures.theme import (
    INK,
    MUTED,
    ORANGE,
    PAPER,
    PARTS,
    PHASES,
    by,
    escape,
    finished,
    part_style,
    style_of,
    wrapped,
)

Row = Mapping[str, Any]
INVISIBLE = 1e-3
"""Parts below this share of the longest bar are thinner than a line: not drawn, but in the table."""


def energy_by_phase(rows: Iterable[Row], *, title: str = "", reading: str = "") -> go.Figure:
    """Energy per token by phase, and beside it what rejected drafts cost.

    Parameters
    ----------
    rows : iterable of mapping
        ``drafter, phase, energy_per_token_j, decode_j, rejected_j, rejected_share``, one a phase; the last
        three are the same in all rows of a drafter.
    title, reading : str
        Title and reading aid.
    """
    rows = list(rows)
    figure = go.Figure()
    drafters = by(rows, "drafter")
    for phase, (label, color, pattern) in PHASES.items():
        _stack(figure, [row for row in rows if row["phase"] == phase], "energy_per_token_j", label, color,
               pattern, scale=1e3, unit="mJ", group="phases")  # fmt: skip
    rejecting = [some[0] for some in drafters.values() if some[0]["rejected_j"]]
    figure.add_bar(
        y=[_tick(row) for row in rejecting],
        x=[row["rejected_j"] * 1e3 for row in rejecting],
        orientation="h", offsetgroup="rejected", name="of which for rejected drafts",
        marker={"color": PAPER, "line": {"color": ORANGE, "width": 1.5},
                "pattern": {"shape": "x", "fgcolor": ORANGE, "bgcolor": PAPER, "size": 6}},
        customdata=[row["rejected_share"] for row in rejecting],
        hovertemplate="%{x:.2f} mJ/token, %{customdata:.0%} of decode<extra>rejected drafts</extra>",
    )  # fmt: skip
    _totals(figure, [(some[0], f"{some[0]['decode_j'] * 1e3:.3g} mJ")
                     for some in drafters.values()], group="phases")  # fmt: skip
    return _bars(figure, title, reading, len(drafters), 52, "energy (mJ per emitted token)",
                 ("drafter", "phase", "energy_per_token_j", "decode_j", "rejected_share"))  # fmt: skip


def ram_by_part(
    rows: Iterable[Row], *, free_bytes: float, free_label: str, title: str = "", reading: str = ""
) -> go.Figure:
    """Peak RAM by part, against what the device has free.

    Parameters
    ----------
    rows : iterable of mapping
        ``drafter, part, ram_bytes, total_bytes``.
    free_bytes : float
        RAM that neither system nor other reservations hold [B]; a line where it fits the axis.
    free_label : str
        What the line is, for example "free on Pixel 9".
    title, reading : str
        Title and reading aid.
    """
    rows = list(rows)
    figure = go.Figure()
    drafters = by(rows, "drafter")
    _parts(figure, rows, "ram_bytes", scale=1 / 2**20, unit="MiB")
    largest = max((some[0]["total_bytes"] for some in drafters.values()), default=0.0)
    _totals(figure, [(some[0], f"{some[0]['total_bytes'] / 2**20:,.0f} MiB")
                     for some in drafters.values()])  # fmt: skip
    text = f"{escape(free_label)}: {free_bytes / 2**20:,.0f} MiB"
    fits = free_bytes < 4 * largest
    if fits:
        figure.add_vline(x=free_bytes / 2**20, line={"color": INK, "width": 2, "dash": "dash"})
    figure.add_annotation(
        x=free_bytes / 2**20 if fits else 1, xref="x" if fits else "x domain", y=1, yref="y domain",
        text=text if fits else f"{text} →", showarrow=False, xanchor="right", yanchor="bottom",
        font={"color": MUTED, "size": 12},
    )  # fmt: skip
    return _bars(figure, title, reading, len(drafters), 44, "peak RAM (MiB)",
                 ("drafter", "part", "ram_bytes", "total_bytes"))  # fmt: skip


def drafter_ram_by_part(rows: Iterable[Row], *, title: str = "", reading: str = "") -> go.Figure:
    """RAM that a drafter adds, by part: tables, LM head, layers, KV cache, prefill variants.

    Parameters
    ----------
    rows : iterable of mapping
        ``drafter, part, ram_bytes, total_bytes``, drafter parts only.
    title, reading : str
        Title and reading aid.
    """
    rows = list(rows)
    figure = go.Figure()
    drafters = by(rows, "drafter")
    _parts(figure, rows, "ram_bytes", scale=1 / 2**20, unit="MiB")
    _totals(figure, [(some[0], f"{some[0]['total_bytes'] / 2**20:,.1f} MiB")
                     for some in drafters.values()])  # fmt: skip
    return _bars(figure, title, reading, len(drafters), 44, "RAM added by the drafter (MiB)",
                 ("drafter", "part", "ram_bytes", "total_bytes"))  # fmt: skip


def byte_ledger(rows: Iterable[Row], *, title: str = "", reading: str = "") -> go.Figure:
    """Bytes read and written per emitted token, by part.

    Parameters
    ----------
    rows : iterable of mapping
        ``drafter, part, bytes_per_token, total_bytes``.
    title, reading : str
        Title and reading aid.
    """
    rows = list(rows)
    figure = go.Figure()
    drafters = by(rows, "drafter")
    _parts(figure, rows, "bytes_per_token", scale=1e-6, unit="MB")
    _totals(figure, [(some[0], f"{some[0]['total_bytes'] / 1e6:,.0f} MB")
                     for some in drafters.values()])  # fmt: skip
    return _bars(figure, title, reading, len(drafters), 44, "memory traffic (MB per emitted token)",
                 ("drafter", "part", "bytes_per_token", "total_bytes"))  # fmt: skip


def _parts(figure: go.Figure, rows: list[Row], value: str, *, scale: float, unit: str) -> None:
    known = list(PARTS)
    seen = max((row["total_bytes"] for row in rows), default=0.0) * INVISIBLE
    parts = sorted({row["part"] for row in rows if row[value] > seen},
                   key=lambda part: (known.index(part) if part in known else len(known), part))  # fmt: skip
    for part in parts:
        label, color, pattern = part_style(part)
        _stack(figure, [row for row in rows if row["part"] == part], value, label, color, pattern,
               scale=scale, unit=unit)  # fmt: skip


def _stack(
    figure: go.Figure, rows: list[Row], value: str, label: str, color: str, pattern: str, *, scale: float,
    unit: str, group: str = "parts",
) -> None:  # fmt: skip
    if not any(row[value] for row in rows):
        return
    figure.add_bar(
        y=[_tick(row) for row in rows], x=[row[value] * scale for row in rows], orientation="h",
        name=escape(label), offsetgroup=group,
        marker={"color": color, "line": {"width": 1, "color": PAPER},
                "pattern": {"shape": pattern, "fgcolor": INK, "bgcolor": color, "size": 7, "solidity": 0.15}},
        hovertemplate=f"%{{x:,.4~g}} {unit}<extra>{escape(label)}</extra>",
    )  # fmt: skip


def _totals(figure: go.Figure, totals: list[tuple[Row, str]], *, group: str = "parts") -> None:
    """The total, as text at the end of each bar."""
    figure.add_bar(
        y=[_tick(row) for row, _ in totals], x=[0.0 for _ in totals], orientation="h", offsetgroup=group,
        text=[escape(text) for _, text in totals], textposition="outside", cliponaxis=False,
        textfont={"color": INK, "size": 12}, showlegend=False, hoverinfo="skip",
        marker={"color": "rgba(0,0,0,0)"},
    )  # fmt: skip


def _tick(row: Row) -> str:
    """Name of a drafter on an axis, with its draft length."""
    name = style_of(row["drafter"]).short or str(row.get("label") or row["drafter"])
    length = row.get("draft_length")
    return wrapped(f"{name}, K = {length}".replace("K = ", "K\u00a0=\u00a0") if length else name, 17)


def _bars(
    figure: go.Figure, title: str, reading: str, count: int, each: int, x: str, columns: tuple[str, ...]
) -> go.Figure:
    legend = sum(1 for trace in figure.data if trace.showlegend is not False)
    finished(figure, title=title, reading=reading, height=count * each + 90, x=x, y="", columns=columns,
             legend_px=24 * -(-legend // 3) + 8)  # fmt: skip
    figure.update_layout(barmode="stack", margin={"r": 66}, legend={"traceorder": "normal"})
    figure.update_yaxes(autorange="reversed", ticks="", showgrid=False)
    figure.update_xaxes(rangemode="tozero")
    return figure
