"""One self-contained HTML file from the records of `simulator.studies.report_data`; it computes nothing.

The file holds one copy of plotly.js and asks nobody for anything: its content policy forbids every request.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from simulator.figures import sections
from simulator.figures.legend import color_variables
from simulator.figures.theme import dark_map, escape, template
from simulator.files import check_target, whole_file

Data = Mapping[str, Any]


def build_report(data: Data, *, out_path: str | os.PathLike[str]) -> Path:
    """Write the report.

    Parameters
    ----------
    data : mapping
        What ``simulator.studies.report_data.report_data`` returns.
    out_path : path
        HTML file; its folder is made, and an older file is replaced at once or not at all.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    DraftscopeError
        If the file cannot be written.
    """
    check_target(out_path, where="out_path: ")
    text = report_html(data)
    with whole_file(out_path, where="out_path: ", make_folder=True) as partial:
        partial.write_text(text, encoding="utf-8")
    return Path(out_path)


def report_html(data: Data) -> str:
    """The whole page as text."""
    page = sections.Page()
    body = sections.body(page, data)
    parts = {
        "TITLE": escape(data["title"]),
        "CSS": _asset("report.css")
        .replace("@@LIGHT@@", color_variables(dark=False))
        .replace("@@DARK@@", color_variables(dark=True)),
        "ANSWERS": sections.answers(data),
        "DEVICES": sections.device_switch(data),
        "NAV": sections.navigation(page),
        "VERSION": escape(data["version"]),
        "FIGURES": embedded({
            "figures": {name: _light(figure) for name, figure in page.figures.items()},
            "template": template().to_plotly_json(), "dark": dark_map(),
        }),
        "SCRIPT": _asset("report.js"),
        "PLOTLY": get_plotlyjs(),
        "BODY": body,
    }  # fmt: skip
    text = _asset("report.html")
    for name, value in parts.items():
        before, mark, after = text.partition(f"@@{name}@@")
        while mark:
            text = before + value + after
            before, mark, after = text.partition(f"@@{name}@@") if name == "TITLE" else (text, "", "")
    return text


def embedded(value: Any) -> str:
    """JSON that may stand inside a script element."""
    text = json.dumps(_rounded(value), separators=(",", ":"), allow_nan=False, default=str)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _rounded(value: Any) -> Any:
    """Six significant digits are more than a screen shows."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, (list, tuple)) else value


def _light(figure: go.Figure) -> dict[str, Any]:
    """A figure without title, legend and template: the page has its own."""
    plain = json.loads(figure.to_json())
    layout = plain["layout"]
    height = layout["meta"]["height"]
    for name in ("template", "title", "meta"):
        layout.pop(name, None)
    layout |= {"height": height, "showlegend": False,
               "margin": {"l": 8, "r": layout.get("margin", {}).get("r", 16), "t": 26, "b": 8}}  # fmt: skip
    return {"data": plain["data"], "layout": layout}


def _asset(name: str) -> str:
    return (resources.files("simulator.figures") / "assets" / name).read_text(encoding="utf-8")
