"""Acceptance by depth, as the replayed steps give it; no computation, and no cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from simulator.figures.theme import by, escape, finished, style_of

Row = Mapping[str, Any]
_PANELS = (
    ("per_position_acceptance_rate", "this draft and all before"),
    ("conditional_acceptance_rate", "given all before"),
)


def acceptance_by_depth(
    rows: Iterable[Row], *, title: str = "", reading: str = "", height: int = 300
) -> go.Figure:
    """Probability that draft k is accepted: unconditional on the left, given all before it on the right.

    Parameters
    ----------
    rows : iterable of mapping
        ``drafter, depth, per_position_acceptance_rate, conditional_acceptance_rate``; None where no draft
        got that far.
    title, reading : str
        Title and reading aid.
    height : int
        Pixels.
    """
    figure = make_subplots(
        rows=1, cols=2, shared_yaxes=True, horizontal_spacing=0.05,
        subplot_titles=[escape(text) for _, text in _PANELS],
    )  # fmt: skip
    for (drafter,), some in by(rows, "drafter").items():
        style = style_of(str(drafter))
        for column, (name, _) in enumerate(_PANELS, start=1):
            figure.add_scatter(
                x=[row["depth"] for row in some],
                y=[row[name] for row in some],
                mode="lines+markers",
                name=escape(style.short or drafter),
                legendgroup=escape(drafter),
                showlegend=column == 1,
                line={"color": style.color, "dash": style.dash, "width": 2},
                marker={"symbol": style.symbol, "size": 7, "color": style.color},
                hovertemplate="draft %{x}: %{y:.0%}<extra>%{fullData.name}</extra>",
                row=1,
                col=column,
            )
    finished(figure, title=title, reading=reading, height=height, x="draft position k", y="",
             columns=("drafter", "depth", "per_position_acceptance_rate", "conditional_acceptance_rate"),
             )  # fmt: skip
    figure.update_xaxes(dtick=1, tickfont={"size": 11})
    figure.update_yaxes(range=[0, 1.02], tickformat=".0%")
    figure.update_yaxes(title_text="share accepted", col=1)
    figure.update_annotations(font={"size": 12})
    figure.layout.margin.t += 14  # names of the panels
    return figure
