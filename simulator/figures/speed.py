"""Speedup and tokens per second; rows as `simulator.studies.compare` gives them, no computation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from simulator.figures.theme import AXIS, INK, by, escape, finished, rgba, style_of, task_label

Row = Mapping[str, Any]
_K = "draft length K (drafts per step)"
_COLUMNS = ("drafter", "task", "draft_length", "speedup", "speedup_low", "speedup_high")


def speedup_by_draft_length(
    rows: Iterable[Row],
    *,
    title: str = "",
    reading: str = "",
    bands: Iterable[str] | None = None,
    series: str = "drafter",
    ceiling: float | None = None,
    height: int = 300,
) -> go.Figure:
    """Speedup over plain decoding against draft length, with intervals, break-even line and best K.

    Parameters
    ----------
    rows : iterable of mapping
        ``drafter, draft_length, speedup, speedup_low, speedup_high, best`` (true at the best K), and
        ``task`` where ``series`` is ``"task"``.
    title, reading : str
        Title and reading aid.
    bands : iterable of str, optional
        Drafters (or tasks) whose interval is a band; all where omitted. The others show it at their best K.
    series : {"drafter", "task"}
        What a line is.
    ceiling : float, optional
        Top of the axis, for figures that are compared with each other.
    height : int
        Pixels.
    """
    rows = list(rows)
    figure = go.Figure()
    _draw_speedups(figure, rows, None if bands is None else set(bands), series, first=True)
    last = max((row["draft_length"] for row in rows), default=8)
    _break_even(figure, last)
    figure.update_xaxes(dtick=1, range=[0.5, last + 0.5])
    figure.update_yaxes(range=[0, ceiling] if ceiling else None, rangemode="tozero", dtick=0.5)
    if ceiling is None or ceiling > 3:
        figure.update_yaxes(dtick=1)
    return finished(figure, title=title, reading=reading, height=height, x=_K,
                    y="speedup over plain decoding (×)", columns=_COLUMNS)  # fmt: skip


def speedup_grid(
    rows: Iterable[Row],
    *,
    title: str = "",
    reading: str = "",
    bands: Iterable[str] | None = None,
    columns: int = 3,
    height: int = 620,
) -> go.Figure:
    """One small figure for each task, all on the same axes: for wide pages, pictures and notebooks.

    Parameters
    ----------
    rows : iterable of mapping
        As for `speedup_by_draft_length`, with ``task``.
    title, reading : str
        Title and reading aid.
    bands : iterable of str, optional
        Drafters whose interval is a band; all where omitted.
    columns : int
        Figures side by side.
    height : int
        Pixels.
    """
    tasks = by(rows, "task")
    names = [task for (task,) in tasks]
    lines = -(-len(names) // columns)
    figure = make_subplots(
        rows=lines, cols=columns, shared_xaxes=True, shared_yaxes="all", horizontal_spacing=0.03,
        vertical_spacing=0.12, subplot_titles=[escape(task_label(name)) for name in names],
    )  # fmt: skip
    for at, (_, some) in enumerate(tasks.items()):
        place = {"row": at // columns + 1, "col": at % columns + 1}
        _draw_speedups(figure, some, None if bands is None else set(bands), "drafter", first=at == 0, **place)
        last = max((row["draft_length"] for row in some), default=8)
        _break_even(figure, last, named=at == 0, **place)
    finished(figure, title=title, reading=reading, height=height, x="", y="", columns=_COLUMNS)
    figure.update_annotations(font={"size": 13})
    figure.layout.margin.t += 10  # names of the panels
    figure.update_xaxes(dtick=1)
    figure.update_xaxes(title_text=_K, row=lines)
    figure.update_yaxes(title_text="speedup (×)", col=1)
    figure.update_yaxes(rangemode="tozero")
    return figure


def decode_speed(
    rows: Iterable[Row],
    *,
    title: str = "",
    reading: str = "",
    series: str = "drafter",
    height: int | None = None,
) -> go.Figure:
    """Tokens per second of each drafter, task by task, with intervals; plain decoding beside it.

    Parameters
    ----------
    rows : iterable of mapping
        ``drafter, task, draft_length, decode_tokens_per_s, decode_tokens_per_s_low,
        decode_tokens_per_s_high``; drafter ``none`` is plain decoding.
    title, reading : str
        Title and reading aid.
    series : str
        Column that tells drafters apart.
    height : int, optional
        Pixels.
    """
    rows = [row for row in rows if row["decode_tokens_per_s"] is not None]
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    figure = go.Figure()
    groups = by(rows, series)
    for at, ((name,), some) in enumerate(groups.items()):
        style = style_of(str(name))
        figure.add_scatter(
            x=[row["decode_tokens_per_s"] for row in some],
            y=[tasks.index(row["task"]) + _shift(at, len(groups)) for row in some],
            error_x=_whiskers(some, "decode_tokens_per_s", style.color),
            mode="markers",
            name=escape(_name(some[0], style.short)),
            marker={"color": style.color, "symbol": style.symbol, "size": 11,
                    "line": {"width": 2, "color": style.color}},
            customdata=[[escape(task_label(row["task"])), row["draft_length"]] for row in some],
            hovertemplate="%{customdata[0]}, K = %{customdata[1]}: %{x:.1f} tok/s<extra>%{fullData.name}"
            "</extra>",
        )  # fmt: skip
    finished(
        figure, title=title, reading=reading, x="decode speed (tokens/s)", y="",
        height=height or 90 + max(1, len(tasks)) * (18 + 13 * len(groups)),
        columns=("drafter", "task", "draft_length", "decode_tokens_per_s", "decode_tokens_per_s_low",
                 "decode_tokens_per_s_high"),
    )  # fmt: skip
    figure.update_yaxes(tickvals=list(range(len(tasks))), ticktext=[escape(task_label(t)) for t in tasks],
                        range=[len(tasks) - 0.5, -0.5], ticks="", showgrid=False)  # fmt: skip
    figure.update_xaxes(rangemode="tozero")
    for edge in range(1, len(tasks)):
        figure.add_hline(y=edge - 0.5, line={"color": AXIS, "width": 0.5})
    return figure


def _draw_speedups(
    figure: go.Figure, rows: list[Row], bands: set[str] | None, series: str, *, first: bool, **place: int
) -> None:
    for at, ((name,), some) in enumerate(by(rows, series).items()):
        style = style_of(str(some[0]["drafter"]))
        dash = style.dash if series == "drafter" else ("solid", "dash", "dot", "dashdot")[at % 4]
        label = style.short if series == "drafter" else task_label(str(name))
        lengths = [row["draft_length"] for row in some]
        known = all(row.get("speedup_low") is not None for row in some)
        if known and (bands is None or name in bands):
            figure.add_scatter(
                x=lengths + lengths[::-1],
                y=[row["speedup_high"] for row in some] + [row["speedup_low"] for row in some][::-1],
                fill="toself", fillcolor=rgba(style.color, 0.13), line={"width": 0}, mode="lines",
                hoverinfo="skip", showlegend=False, legendgroup=escape(name), **place,
            )  # fmt: skip
        figure.add_scatter(
            x=lengths,
            y=[row["speedup"] for row in some],
            mode="lines+markers",
            name=escape(label),
            legendgroup=escape(name),
            showlegend=first,
            line={"color": style.color, "dash": dash, "width": 2},
            marker={"symbol": style.symbol, "size": [12 if row.get("best") else 5 for row in some],
                    "opacity": 1, "color": style.color, "line": {"width": 1, "color": style.color}},
            customdata=[[row.get("speedup_low"), row.get("speedup_high")] for row in some],
            hovertemplate="K = %{x}: %{y:.2f}× (%{customdata[0]:.2f} to %{customdata[1]:.2f})<extra>"
            "%{fullData.name}</extra>",
            **place,
        )  # fmt: skip
        best = [row for row in some if row.get("best")]
        if known and bands is not None and name not in bands and best:
            figure.add_scatter(
                x=[row["draft_length"] for row in best], y=[row["speedup"] for row in best],
                error_y=_whiskers(best, "speedup", rgba(style.color, 0.6)), mode="markers",
                marker={"size": 1, "color": style.color}, hoverinfo="skip", showlegend=False,
                legendgroup=escape(name), **place,
            )  # fmt: skip


def _break_even(figure: go.Figure, last: int, *, named: bool = True, **place: int) -> None:
    figure.add_scatter(
        x=[0.5, last + 0.5], y=[1, 1], mode="lines", line={"color": INK, "width": 1.3, "dash": "dash"},
        name="break-even (plain decoding)", showlegend=named, legendgroup="break-even", hoverinfo="skip",
        **place,
    )  # fmt: skip


def _shift(at: int, of: int) -> float:
    return (at - (of - 1) / 2) * 0.7 / max(of, 1)


def _whiskers(rows: list[Row], name: str, color: str) -> dict[str, Any]:
    """Asymmetric error bars from ``<name>_low`` and ``<name>_high``; none where they are not known."""
    ends = [(row.get(f"{name}_low"), row[name], row.get(f"{name}_high")) for row in rows]
    return {
        "type": "data", "symmetric": False, "color": color, "thickness": 1.5, "width": 3,
        "array": [0 if high is None else high - value for _, value, high in ends],
        "arrayminus": [0 if low is None else value - low for low, value, _ in ends],
    }  # fmt: skip


def _name(row: Row, short: str) -> str:
    return short or str(row.get("label") or row["drafter"])
