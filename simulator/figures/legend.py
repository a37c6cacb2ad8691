"""Legends and tables of figures as HTML, which wrap on a phone and can be read aloud; no number is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from simulator.figures.theme import DARK, INK, escape, style_of, task_label

_DASHES = {"solid": "", "dash": "6 3", "longdash": "9 3", "dot": "2 3", "dashdot": "6 3 2 3",
           "longdashdot": "9 3 2 3"}  # fmt: skip
_SYMBOLS = {
    "circle": '<circle cx="15" cy="8" r="4"/>',
    "circle-open": '<circle cx="15" cy="8" r="4" fill="none" stroke-width="2"/>',
    "square": '<rect x="11" y="4" width="8" height="8"/>',
    "diamond": '<path d="M15 3l5 5-5 5-5-5z"/>',
    "triangle-up": '<path d="M15 3l5 9H10z"/>',
    "x": '<path d="M11 4l8 8M19 4l-8 8" stroke-width="2.5"/>',
    "cross": '<path d="M15 3v10M10 8h10" stroke-width="2.5"/>',
    "star": '<path d="M15 2l1.7 4h4.3l-3.4 2.7 1.3 4.3L15 10.5l-3.9 2.5 1.3-4.3L9 6h4.3z"/>',
    "pentagon": '<path d="M15 3l5 3.7-1.9 5.800h-6.200L10 6.7z"/>',
    "hexagon": '<path d="M12.5 3.5h5l2.5 4.5-2.5 4.5h-5L10 8z"/>',
    "bowtie": '<path d="M10 4l10 8V4L10 12z"/>',
    "line-ns-open": '<path d="M15 2v12" stroke-width="2.5"/>',
}
_PATTERNS = {
    "": "",
    "/": "M6 13l8-10M14 13l8-10",
    "\\": "M6 3l8 10M14 3l8 10",
    "x": "M6 13l8-10M14 13l8-10M6 3l8 10M14 3l8 10",
    ".": "M8 6h1M14 6h1M20 6h1M11 10h1M17 10h1",
    "+": "M4 8h22M10 3v10M18 3v10",
}
_HEADS = {
    "drafter": "Drafter", "task": "Task", "draft_length": "K", "speedup": "Speedup (×)",
    "speedup_low": "low", "speedup_high": "high", "decode_tokens_per_s": "tokens/s",
    "decode_tokens_per_s_low": "low", "decode_tokens_per_s_high": "high", "phase": "Phase",
    "energy_per_token_j": "mJ/token", "decode_j": "decode (mJ/token)",
    "rejected_share": "rejected share of decode", "part": "Part", "ram_bytes": "MiB",
    "total_bytes": "Sum", "bytes_per_token": "MB/token", "label": "Name", "width": "Width",
    "macs_per_byte": "MAC/B", "macs_per_s": "GMAC/s", "verify_cost_ratio": "v(w)",
    "verify_cost_ratio_low": "low", "verify_cost_ratio_high": "high", "depth": "Draft",
    "per_position_acceptance_rate": "with all before", "conditional_acceptance_rate": "given all before",
}  # fmt: skip
_SCALES = {"energy_per_token_j": 1e3, "decode_j": 1e3, "ram_bytes": 2.0**-20, "bytes_per_token": 1e-6,
           "macs_per_s": 1e-9}  # fmt: skip


def css_color(color: str) -> str:
    """A colour as a variable that follows light and dark pages, where it has a dark counterpart."""
    name = color.lower()
    return f"var(--c-{name[1:]})" if name in DARK else color


def color_variables(*, dark: bool) -> str:
    """CSS declarations of all colours."""
    return "".join(f"--c-{light[1:]}:{shade if dark else light};" for light, shade in DARK.items())


def legend_html(figure: go.Figure) -> str:
    """Legend of a figure: a list of swatches and names; empty for a single series."""
    traces = [trace for trace in figure.data if trace.showlegend is not False and trace.name]
    if len(traces) < 2:
        return ""
    items = "".join(f"<li>{_swatch(trace)}{trace.name}</li>" for trace in traces)
    return f'<ul class="legend">{items}</ul>'


def drafter_legend(drafter_ids: Iterable[str], *, break_even: bool = False) -> str:
    """Legend of drafters, and of the break-even line, for figures that stand together."""
    items = ""
    for name in dict.fromkeys(drafter_ids):
        style = style_of(name)
        swatch = _line(style.color, style.dash, style.symbol)
        items += f"<li>{swatch}{escape(style.short or name)}</li>"
    if break_even and items:
        items += f"<li>{_line(INK, 'dash', None)}break-even (plain decoding)</li>"
    return f'<ul class="legend">{items}</ul>' if items else ""


def _swatch(trace: Any) -> str:
    if trace.type == "bar":
        shape = trace.marker.pattern.shape or ""
        line = trace.marker.line.color if shape == "x" and trace.marker.line.width > 1 else None
        return _box(str(trace.marker.color), str(shape), line)
    color = trace.line.color or trace.marker.color
    dash = str(trace.line.dash or "solid") if "lines" in (trace.mode or "") else None
    symbol = str(trace.marker.symbol or "circle") if "markers" in (trace.mode or "") else None
    return _line(str(color), dash, symbol)


def _line(color: str, dash: str | None, symbol: str | None) -> str:
    shade = css_color(color)
    line = "" if dash is None else (
        f'<path d="M1 8h28" fill="none" stroke-width="2" stroke-dasharray="{_DASHES.get(dash, "")}"/>'
    )  # fmt: skip
    mark = "" if symbol is None else _SYMBOLS.get(symbol, _SYMBOLS["circle"])
    return (
        f'<svg class="key" viewBox="0 0 30 16" style="fill:{shade};stroke:{shade}" aria-hidden="true">'
        f"{line}{mark}</svg>"
    )


def _box(color: str, pattern: str, line: str | None) -> str:
    ink = css_color(line or INK)
    marks = _PATTERNS.get(pattern, "")
    frame = f'stroke="{ink}"' if line else ""
    return (
        '<svg class="key" viewBox="0 0 30 16" aria-hidden="true">'
        f'<rect x="4" y="2" width="22" height="12" style="fill:{css_color(color)}" {frame}/>'
        f'<path d="{marks}" style="stroke:{ink}" fill="none" stroke-width="1.2"/></svg>'
    )


def numbers_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], *, caption: str) -> str:
    """The numbers of a figure as a table."""
    heads = "".join(f'<th scope="col">{escape(_HEADS.get(name, name))}</th>' for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell(name, row.get(name))}</td>" for name in columns) + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll" role="region" aria-label="{escape(caption)}" tabindex="0"><table>'
        f'<caption class="sr">{escape(caption)}</caption><thead><tr>{heads}</tr></thead><tbody>{body}</tbody>'
        "</table></div>"
    )


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if name == "drafter":
        return escape(style_of(str(value)).short or value)
    if name == "task":
        return escape(task_label(str(value)))
    if name in ("part", "phase"):
        return escape(str(value).replace("_", " "))
    if isinstance(value, float):
        if name.endswith("_share") or name.endswith("acceptance_rate"):
            return f"{value:.0%}"
        if name == "total_bytes":
            return f"{value / 1e6:,.4g} MB"
        return number(value * _SCALES.get(name, 1.0))
    return escape(value)


def number(value: float, digits: int = 3) -> str:
    """A number with some significant digits and no exponent where it is readable without."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = f"{value:,.{digits}g}"
        return f"{value:,.0f}" if "e" in text else text
    return f"{value:.{digits}g}"
