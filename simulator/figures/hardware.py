"""Roofline and verify curves: what an engine and a runtime allow; passes come costed, none is costed here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import plotly.graph_objects as go

from simulator.figures.theme import (
    BLUE,
    BROWN,
    CYAN,
    GOLD,
    GRAY,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    PURPLE,
    by,
    escape,
    finished,
    rgba,
    style_of,
)

Row = Mapping[str, Any]
_RUNTIME_LOOKS = (
    (BLUE, "solid", "circle"), (ORANGE, "dash", "square"), (GREEN, "dashdot", "diamond"),
    (PURPLE, "longdash", "triangle-up"), (GOLD, "dot", "x"), (CYAN, "dash", "star"),
    (BROWN, "solid", "pentagon"), (INK, "dot", "hexagon"), (GREEN, "solid", "cross"),
    (ORANGE, "longdashdot", "bowtie"),
)  # fmt: skip


def roofline(
    passes: Iterable[Row], roof: Row, *, title: str = "", reading: str = "", height: int = 400
) -> go.Figure:
    """Roofline with its ridge point, and where plain, verify and draft passes sit.

    Parameters
    ----------
    passes : iterable of mapping
        ``drafter, pass, label, width, macs_per_byte, macs_per_s``; ``pass`` is plain, verify or draft.
    roof : mapping
        ``macs_per_byte`` and ``macs_per_s`` (points of the roof), ``achieved_macs_per_s`` (the same with the
        bandwidth that the runtime reaches), ``ridge_macs_per_byte``, ``peak_macs_per_s``, ``dtype``.
    title, reading : str
        Title and reading aid.
    height : int
        Pixels.
    """
    figure = go.Figure()
    figure.add_scatter(
        x=roof["macs_per_byte"], y=roof["macs_per_s"], mode="lines", line={"color": INK, "width": 2.5},
        name=f"roof: peak bandwidth and peak {escape(roof['dtype'])} rate",
        hovertemplate="%{x:.3~g} MAC/B: at most %{y:.3~s}MAC/s<extra>roof</extra>",
    )  # fmt: skip
    figure.add_scatter(
        x=roof["macs_per_byte"], y=roof["achieved_macs_per_s"], mode="lines",
        line={"color": GRAY, "width": 1.5, "dash": "dash"}, name="bandwidth that this runtime reaches",
        hoverinfo="skip",
    )  # fmt: skip
    figure.add_scatter(
        x=[roof["ridge_macs_per_byte"]], y=[roof["peak_macs_per_s"]], mode="markers+text",
        marker={"color": INK, "size": 9}, text=[f"ridge: {roof['ridge_macs_per_byte']:.0f} MAC/B"],
        textposition="top left", textfont={"size": 12}, name="ridge point", showlegend=False,
        hovertemplate="ridge point: %{x:.3~g} MAC/B<extra></extra>", cliponaxis=False,
    )  # fmt: skip
    for (kind, drafter), some in by(passes, "pass", "drafter").items():
        style = style_of(str(drafter))
        path = kind == "verify"
        figure.add_scatter(
            x=[row["macs_per_byte"] for row in some],
            y=[row["macs_per_s"] for row in some],
            mode="lines+markers" if path else "markers",
            name=escape(f"draft pass: {style.short}" if kind == "draft" else some[0]["label"]),
            line={"color": style.color, "width": 1.5},
            marker={"color": style.color, "size": 7 if path else 12,
                    "symbol": {"plain": "star", "verify": "circle"}.get(str(kind), style.symbol),
                    "line": {"width": 1.5, "color": style.color}},
            customdata=[[row["width"]] for row in some],
            hovertemplate="width %{customdata[0]}: %{x:.3~g} MAC/B, %{y:.3~s}MAC/s<extra>%{fullData.name}"
            "</extra>",
        )  # fmt: skip
    finished(figure, title=title, reading=reading, height=height,
             x="arithmetic intensity (MAC per byte moved)", y="arithmetic rate (MAC/s)",
             columns=("label", "width", "macs_per_byte", "macs_per_s"), legend_px=110)  # fmt: skip
    decades = (0.1, 1, 10, 100, 1000)
    figure.update_xaxes(type="log", tickvals=decades, ticktext=[f"{value:g}" for value in decades])
    figure.update_yaxes(type="log", exponentformat="SI", dtick=1)
    return figure


def verify_curves(
    rows: Iterable[Row], *, title: str = "", reading: str = "", bands: Iterable[str] = (), height: int = 380
) -> go.Figure:
    """Verify cost ratio v(w): time of a pass of w rows over a pass of one, runtime by runtime.

    Parameters
    ----------
    rows : iterable of mapping
        ``runtime, label, width, verify_cost_ratio, verify_cost_ratio_low, verify_cost_ratio_high``.
    title, reading : str
        Title and reading aid.
    bands : iterable of str
        Runtimes whose range is a band.
    height : int
        Pixels.
    """
    rows, banded = list(rows), set(bands)
    figure = go.Figure()
    for at, ((runtime,), some) in enumerate(by(rows, "runtime").items()):
        color, dash, symbol = _RUNTIME_LOOKS[at % len(_RUNTIME_LOOKS)]
        widths = [row["width"] for row in some]
        if runtime in banded and some[0].get("verify_cost_ratio_low") is not None:
            figure.add_scatter(
                x=widths + widths[::-1],
                y=[row["verify_cost_ratio_high"] for row in some]
                + [row["verify_cost_ratio_low"] for row in some][::-1],
                fill="toself", fillcolor=rgba(color, 0.13), line={"width": 0}, mode="lines",
                hoverinfo="skip", showlegend=False, legendgroup=escape(runtime),
            )  # fmt: skip
        figure.add_scatter(
            x=widths, y=[row["verify_cost_ratio"] for row in some], mode="lines+markers",
            name=escape(some[0]["label"]), legendgroup=escape(runtime),
            line={"color": color, "dash": dash, "width": 2},
            marker={"color": color, "symbol": symbol, "size": 7},
            hovertemplate="width %{x}: %{y:.2f}×<extra>%{fullData.name}</extra>",
        )  # fmt: skip
    limit = max((row["width"] for row in rows), default=9)
    figure.add_scatter(
        x=[1, limit], y=[1, limit], mode="lines", line={"color": MUTED, "width": 1, "dash": "dot"},
        name="w rows cost w passes", hoverinfo="skip",
    )  # fmt: skip
    finished(figure, title=title, reading=reading, height=height,
             x="width w (rows verified in one pass, K + 1)", y="v(w): cost of the pass (×)",
             columns=("label", "width", "verify_cost_ratio", "verify_cost_ratio_low",
                      "verify_cost_ratio_high"), legend_px=110)  # fmt: skip
    figure.update_xaxes(dtick=1)
    top = max((row["verify_cost_ratio"] for row in rows), default=1.0)
    figure.update_yaxes(range=[0, 1.1 * top])
    return figure
