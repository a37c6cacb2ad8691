"""The atlas of verify curves: one small panel for each kernel family; it averages nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from simulator.figures.theme import (
    BLUE,
    BROWN,
    CYAN,
    GOLD,
    GREEN,
    MUTED,
    ORANGE,
    PURPLE,
    by,
    escape,
    finished,
)

Row = Mapping[str, Any]
_LOOKS = (
    (BLUE, "circle", "●"), (ORANGE, "square", "■"), (GREEN, "diamond", "◆"), (PURPLE, "triangle-up", "▲"),
    (GOLD, "cross", "✚"), (CYAN, "star", "★"), (BROWN, "pentagon", "⬟"),
)  # fmt: skip
_WIDTHS, _COSTS = (1, 2, 4, 8, 16, 32, 64), (1, 2, 4, 8)


def curve_atlas(
    rows: Iterable[Row], *, title: str = "", reading: str = "", columns: int = 4, height: int = 1050
) -> go.Figure:
    """Measured verify cost ratio v(w), a panel for each kernel family, both axes logarithmic.

    Lines of one device share colour and marker within a panel; the dotted line is "w rows cost w passes".

    Parameters
    ----------
    rows : iterable of mapping
        ``kernel_family, curve, device, model, quant, width, verify_cost_ratio, verify_cost_ratio_low,
        verify_cost_ratio_high``, as `hw_profiles.verify_curves.curve_records` gives them.
    title, reading : str
        Title and reading aid.
    columns : int
        Panels side by side.
    height : int
        Pixels.
    """
    panels = by(rows, "kernel_family")
    figure = make_subplots(
        rows=-(-len(panels) // columns), cols=columns, shared_xaxes="all", shared_yaxes="all",
        horizontal_spacing=0.02, vertical_spacing=0.05,
        subplot_titles=[escape(family) for (family,) in panels],
    )  # fmt: skip
    for at, some in enumerate(panels.values()):
        place = {"row": at // columns + 1, "col": at % columns + 1}
        figure.add_scatter(
            x=_WIDTHS, y=_WIDTHS, mode="lines", line={"color": MUTED, "width": 1, "dash": "dot"},
            name="w rows cost w passes", showlegend=False, hoverinfo="skip", **place,
        )  # fmt: skip
        _draw_panel(figure, some, place)
    finished(figure, title=title, reading=reading, height=height, x="", y="", legend_px=0,
             columns=("kernel_family", "device", "model", "quant", "width", "verify_cost_ratio"))  # fmt: skip
    figure.layout.margin.t += 10  # names of the panels
    figure.update_xaxes(type="log", tickvals=_WIDTHS, range=[-0.05, 1.85])
    figure.update_yaxes(type="log", tickvals=_COSTS, range=[-0.12, 1.55])
    for at in range(max(0, len(panels) - columns), len(panels)):  # the lowest panel of each column
        figure.update_xaxes(
            title_text="width w (rows a pass)",
            showticklabels=True,
            row=at // columns + 1,
            col=at % columns + 1,
        )
    figure.update_annotations(font={"size": 13}, selector={"showarrow": False, "xref": "paper"})
    figure.update_yaxes(title_text="v(w) (×)", col=1)
    return figure


def _draw_panel(figure: go.Figure, rows: list[Row], place: Mapping[str, int]) -> None:
    names = []
    for index, ((device,), of_device) in enumerate(by(rows, "device").items()):
        color, symbol, sign = _LOOKS[index % len(_LOOKS)]
        names.append(f'<span style="color:{color}">{sign} {escape(str(device).split(" (")[0])}</span>')
        for (curve,), points in by(of_device, "curve").items():
            what = f"{device}: {points[0]['model']}, {points[0]['quant']}"
            low, middle, high = (
                [point[f"verify_cost_ratio{end}"] for point in points] for end in ("_low", "", "_high")
            )
            figure.add_scatter(
                x=[point["width"] for point in points], y=middle, mode="lines+markers", name=escape(curve),
                line={"color": color, "width": 1.5}, marker={"color": color, "symbol": symbol, "size": 5},
                error_y={
                    "type": "data", "symmetric": False, "color": color, "thickness": 1, "width": 3,
                    "array": [top - value for top, value in zip(high, middle, strict=True)],
                    "arrayminus": [value - bottom for value, bottom in zip(middle, low, strict=True)],
                },
                showlegend=False, hovertemplate=f"width %{{x}}: %{{y:.2f}}×<extra>{escape(what)}</extra>",
                **place,
            )  # fmt: skip
    figure.add_annotation(
        text="<br>".join(names), x=0.03, y=0.98, xref="x domain", yref="y domain", xanchor="left",
        yanchor="top", align="left", showarrow=False, font={"size": 11}, **place,
    )  # fmt: skip
