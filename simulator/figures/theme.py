"""Looks shared by all figures: colours, drafter styles, template, helpers; it knows no numbers.

Colours are chosen for people with any colour vision, and never carry a meaning alone: drafters also differ by
marker and dash, parts by pattern. Each colour has a counterpart for dark pages (`DARK`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

INK, MUTED, GRID, AXIS, PAPER = "#1f2933", "#52606d", "#e4e7eb", "#9aa5b1", "#ffffff"
BLUE, ORANGE, PURPLE, GREEN, GOLD, CYAN, GRAY, BROWN = (
    "#0072b2", "#c94f00", "#a8508f", "#00805c", "#8a6a00", "#2d8fb8", "#6b7280", "#7a4a1e",
)  # fmt: skip
NAVY, STEEL, MIST, PALE = "#30475e", "#5b7a99", "#8fa9c4", "#c3d2e0"
RUST, AMBER, SAND, CREAM, CLAY = "#a63c00", "#e08214", "#f2b263", "#fbdcae", "#7a4a1e"

DARK: dict[str, str] = {
    INK: "#e6e9ed", MUTED: "#aab4bf", GRID: "#2d3742", AXIS: "#6b7785", PAPER: "#12171d",
    BLUE: "#58b4ee", ORANGE: "#ff8b47", PURPLE: "#e08fcb", GREEN: "#35c79b", GOLD: "#e0b93c",
    CYAN: "#8ed6f2", GRAY: "#a3adb8", BROWN: "#c9935c",
    NAVY: "#4f7399", STEEL: "#7fa3c7", MIST: "#aac6e2", PALE: "#dbe8f4",
    RUST: "#c9571a", AMBER: "#f09a3a", SAND: "#f7c37f", CREAM: "#fde6c4",
}  # fmt: skip
"""Colour on a light page -> colour on a dark page."""

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


@dataclass(frozen=True, kw_only=True)
class Style:
    """How one drafter looks, everywhere.

    Attributes
    ----------
    color, dash, symbol : str
        Line colour, dash and marker.
    short : str
        Name that fits an axis.
    """

    color: str
    dash: str = "solid"
    symbol: str = "circle"
    short: str = ""


_STYLES = {
    "none": Style(color=GRAY, dash="dot", symbol="line-ns-open", short="plain decoding"),
    "mtp_head": Style(color=BLUE, symbol="circle", short="frozen MTP head"),
    "standalone_total": Style(color=ORANGE, dash="dash", symbol="square", short="standalone (same total)"),
    "standalone_body": Style(color=PURPLE, dash="longdash", symbol="diamond", short="standalone (same body)"),
    "ngram": Style(color=GREEN, dash="dashdot", symbol="triangle-up", short="n-gram look-up"),
    "suffix": Style(color=GOLD, dash="dot", symbol="x", short="suffix look-up (control)"),
    "frozen_mtp_nano": Style(color=BLUE, symbol="circle", short="frozen MTP head"),
    "mtp_own_kv_nano": Style(color=BROWN, dash="dash", symbol="pentagon", short="conventional MTP"),
    "standalone_128m": Style(color=ORANGE, dash="dash", symbol="square", short="standalone, 128M"),
    "assistant": Style(color=BLUE, symbol="circle", short="Gemma assistant, centroid head"),
    "assistant_dense": Style(color=CYAN, dash="dash", symbol="circle-open",
                             short="Gemma assistant, dense head"),
}  # fmt: skip
_ALIASES = ("smollm2_", "gemma_4_e2b_", "gemma_4_e4b_", "gemma_4_26b_a4b_", "gemma_4_31b_")
_SPARE = (BROWN, CYAN, PURPLE, GOLD)
_SPARE_SYMBOLS = ("star", "hexagon", "cross", "bowtie")

TASKS = {
    "notification_summary": "Notification summary",
    "proofread": "Proofread",
    "smart_reply": "Smart reply",
    "passage_summary": "Passage summary",
    "code": "Code",
    "chat": "Open chat",
    "all": "All tasks",
    "speed_bench_qa": "QA",
    "speed_bench_rag": "RAG",
    "speed_bench_stem": "STEM",
    "gsm8k": "GSM8K",
    "humaneval": "HumanEval",
    "mt_bench": "MT-Bench",
}

# part of a ledger -> (label, colour, pattern); the target is cool, the drafter warm
PARTS: dict[str, tuple[str, str, str]] = {
    "target_weights": ("target weights", NAVY, ""),
    "layers": ("target layers", NAVY, ""),
    "experts": ("target experts", NAVY, "/"),
    "lm_head": ("target LM head", STEEL, ""),
    "target_mapped": ("target mapped tables, touched", MIST, "/"),
    "embedding": ("target embedding rows", MIST, "/"),
    "per_layer_embedding": ("target per-layer embedding rows", PALE, "\\"),
    "projection": ("target projections", PALE, ""),
    "target_kv_cache": ("target KV cache", MIST, ""),
    "kv_cache": ("target KV cache", MIST, ""),
    "activations": ("activations", PALE, "."),
    "drafter_layers": ("drafter layers", RUST, ""),
    "drafter_lm_head": ("drafter LM head", AMBER, ""),
    "drafter_embedding": ("drafter embedding table", SAND, ""),
    "drafter_projection": ("drafter projections", CREAM, "/"),
    "drafter_projections": ("drafter projections", CREAM, "/"),
    "drafter_kv_cache": ("drafter KV cache (own, or the target's read again)", CLAY, "."),
    "drafter_centroids": ("drafter centroids", CREAM, "x"),
    "drafter_vocabulary_map": ("drafter vocabulary map", CREAM, "."),
    "drafter_token_ordering": ("drafter token ordering", CREAM, "."),
    "drafter_history": ("look-up history", GOLD, "/"),
    "drafter_prefill_variants": ("drafter prefill variants", SAND, "x"),
    "drafter_per_app": ("drafter per-app parameters", SAND, "\\"),
    "drafter_index": ("look-up index", GOLD, "/"),
    "drafter_mapped": ("drafter mapped tables, touched", CREAM, "\\"),
}
PHASES: dict[str, tuple[str, str, str]] = {
    "verify": ("verify (target)", NAVY, ""),
    "draft": ("draft (drafter)", AMBER, ""),
    "commit": ("commit (host)", GRAY, ""),
    "prefill": ("prefill, spread over the response", PALE, "/"),
}


def style_of(drafter_id: str) -> Style:
    """Style of a drafter, the same in every figure; one that is not listed gets a spare colour by its name.

    Parameters
    ----------
    drafter_id : str
        Drafter instance or trace id; a precision after ``@`` is ignored.
    """
    name = drafter_id.split("@")[0]
    for prefix in _ALIASES:
        name = name.removeprefix(prefix)
    if name in _STYLES:
        return _STYLES[name]
    at = sum(map(ord, name))
    return Style(color=_SPARE[at % len(_SPARE)], dash="dashdot",
                 symbol=_SPARE_SYMBOLS[at // len(_SPARE) % len(_SPARE_SYMBOLS)],
                 short=drafter_id.replace("_", " "))  # fmt: skip


def task_label(task: str) -> str:
    """Name of a task for people; published benchmarks lose their underscores."""
    words = task.removeprefix("speed_bench_").replace("_", " ")
    return TASKS.get(task, words[:1].upper() + words[1:])


def part_style(part: str) -> tuple[str, str, str]:
    """Label, colour and pattern of a part of a byte or RAM ledger."""
    if part in PARTS:
        return PARTS[part]
    color = SAND if part.startswith("drafter_") else PALE
    return part.replace("_", " "), color, "+"


def rgba(color: str, alpha: float) -> str:
    """``#rrggbb`` with transparency."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha:g})"


def dark_map() -> dict[str, str]:
    """Every spelling of a light colour in a figure -> the same spelling of its dark counterpart."""

    def triple(color: str) -> str:
        return rgba(color, 0.0).removesuffix("0)")

    return {**DARK, **{triple(light): triple(dark) for light, dark in DARK.items()}}


def darkened(text: str) -> str:
    """JSON of a figure with every light colour replaced by its dark counterpart."""
    mapping = dark_map()
    pattern = re.compile("|".join(re.escape(key) for key in mapping), re.IGNORECASE)
    return pattern.sub(lambda match: mapping[match[0].lower()], text)


def template() -> go.layout.Template:
    """Template of all figures: transparent, thin grid, no zoom by dragging (a page must scroll)."""
    axis = {
        "gridcolor": GRID, "linecolor": AXIS, "zeroline": False, "ticks": "outside", "tickcolor": AXIS,
        "ticklen": 4, "title": {"font": {"size": 13, "color": MUTED}, "standoff": 8}, "automargin": True,
        "tickfont": {"size": 12},
    }  # fmt: skip
    return go.layout.Template(
        layout={
            "font": {"family": FONT, "size": 13, "color": INK},
            "title": {"font": {"size": 17}, "x": 0, "xref": "container", "pad": {"l": 12, "t": 10},
                      "y": 1, "yref": "container", "yanchor": "top",
                      "subtitle": {"font": {"size": 13, "color": MUTED}}},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "colorway": [BLUE, ORANGE, PURPLE, GREEN, GOLD, CYAN, GRAY, BROWN],
            "xaxis": axis,
            "yaxis": {**axis, "ticklabelstandoff": 4},
            "margin": {"l": 8, "r": 16, "t": 20, "b": 8},
            "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": -0.2, "yanchor": "top",
                       "font": {"size": 12}, "itemclick": "toggle", "bgcolor": "rgba(0,0,0,0)"},
            "hoverlabel": {"font": {"family": FONT, "size": 13}, "align": "left"},
            "hovermode": "closest",
            "dragmode": False,
            "bargap": 0.35,
        }
    )  # fmt: skip


def finished(
    figure: go.Figure,
    *,
    title: str,
    reading: str,
    height: int,
    x: str,
    y: str,
    columns: Sequence[str] = (),
    legend_px: int = 40,
) -> go.Figure:
    """Put title, reading aid, axis titles and height on a figure.

    Parameters
    ----------
    figure : plotly Figure
        What was drawn.
    title, reading : str
        Title, and one line that says what to conclude.
    height : int
        Pixels of the plot without title and legend.
    x, y : str
        Axis titles with units.
    columns : sequence of str
        Columns of the rows that a table beside the figure should show, in order.
    legend_px : int
        Pixels for the legend below; 0 hides it.
    """
    top = 28 + 18 * (1 + len(reading) // 110) if title else 0
    figure.update_layout(
        template=template(),
        height=height + legend_px + top,
        margin={"b": 60 + legend_px, "t": 24 + top},
        showlegend=legend_px > 0,
        legend={"y": 0, "yref": "container", "yanchor": "bottom"},
        meta={"title": title, "reading": reading, "columns": list(columns), "height": height},
        title={"text": escape(title), "subtitle": {"text": wrapped(reading)}} if title else None,
    )
    figure.update_xaxes(title_text=x)
    figure.update_yaxes(title_text=y)
    return figure


def escape(text: object) -> str:
    """Text that stays text where plotly or a browser would read markup."""
    return str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def wrapped(text: str, width: int = 110) -> str:
    """Escaped text broken into lines of at most ``width`` characters."""
    lines: list[str] = []
    for word in text.split(" "):  # a no-break space stays
        if lines and len(lines[-1]) + len(word) < width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return "<br>".join(escape(line) for line in lines)


def by(rows: Iterable[Mapping[str, Any]], *names: str) -> dict[tuple[Any, ...], list[Mapping[str, Any]]]:
    """Rows grouped by the values of some columns, in order of appearance."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(name) for name in names), []).append(row)
    return groups
