"""Figures: they show exactly what the records say, look the same everywhere, and stay text."""

from __future__ import annotations

import itertools
import json
from functools import cache
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from simulator import figures
from simulator.drafters import list_drafters
from simulator.figures import theme

SPEEDUPS = [
    {"drafter": drafter, "label": drafter, "task": task, "draft_length": k, "speedup": 1 + 0.1 * k * sign,
     "speedup_low": 0.9, "speedup_high": 1.8, "best": k == 2}
    for task in ("code", "chat")
    for drafter, sign in (("smollm2_mtp_head", 1), ("smollm2_standalone_total", -1))
    for k in (1, 2, 3)
]  # fmt: skip
SPEEDS = [
    {"drafter": drafter, "task": task, "draft_length": k, "decode_tokens_per_s": speed,
     "decode_tokens_per_s_low": speed - 5 if k else None,
     "decode_tokens_per_s_high": speed + 9 if k else None}
    for drafter, k, speed in (("none", 0, 50.0), ("smollm2_mtp_head", 3, 80.0))
    for task in ("code", "chat")
]  # fmt: skip
ENERGY = [
    {"drafter": drafter, "draft_length": k, "phase": phase, "energy_per_token_j": value, "decode_j": 0.02,
     "rejected_j": 0.001 * k, "rejected_share": 0.05 * k}
    for drafter, k in (("none", 0), ("smollm2_mtp_head", 2))
    for phase, value in (("prefill", 0.004), ("draft", 0.005), ("verify", 0.014), ("commit", 0.001))
]  # fmt: skip
RAM = [
    {"drafter": drafter, "draft_length": k, "part": part, "ram_bytes": value, "total_bytes": 150e6}
    for drafter, k in (("none", 0), ("smollm2_mtp_head", 2))
    for part, value in (
        ("target_weights", 100e6),
        ("drafter_layers", 40e6),
        ("a_new_part", 10e6),
        ("tiny", 9.0),
    )
]
BYTES = [
    {"drafter": "none", "draft_length": 0, "part": "layers", "bytes_per_token": 60e6, "total_bytes": 90e6},
    {"drafter": "none", "draft_length": 0, "part": "lm_head", "bytes_per_token": 30e6, "total_bytes": 90e6},
]
DEPTHS = [
    {"drafter": "mtp_head", "depth": k, "per_position_acceptance_rate": 0.8**k,
     "conditional_acceptance_rate": None if k == 3 else 0.8}
    for k in (1, 2, 3)
]  # fmt: skip
ROOF = {
    "dtype": "int8", "macs_per_byte": [0.1, 100.0, 1000.0], "macs_per_s": [6e9, 6e12, 6e12],
    "achieved_macs_per_s": [1e9, 1e12, 6e12], "ridge_macs_per_byte": 100.0, "peak_macs_per_s": 6e12,
}  # fmt: skip
PASSES = [
    {
        "drafter": "none",
        "pass": "plain",
        "label": "plain",
        "width": 1,
        "macs_per_byte": 1.5,
        "macs_per_s": 8e9,
    },
    {
        "drafter": "none",
        "pass": "verify",
        "label": "verify",
        "width": 2,
        "macs_per_byte": 3.0,
        "macs_per_s": 2e10,
    },
    {
        "drafter": "mtp_head",
        "pass": "draft",
        "label": "draft",
        "width": 1,
        "macs_per_byte": 1.0,
        "macs_per_s": 4e9,
    },
]
CURVES = [
    {"runtime": name, "label": name, "width": w, "verify_cost_ratio": 1 + slope * (w - 1),
     "verify_cost_ratio_low": 1.0, "verify_cost_ratio_high": 1 + 2 * slope * (w - 1)}
    for name, slope in (("slow", 0.5), ("fast", 0.02))
    for w in (1, 2, 5)
]  # fmt: skip


NAMES = (
    "speedup",
    "grid",
    "speed",
    "energy",
    "ram",
    "drafter_ram",
    "bytes",
    "acceptance",
    "roofline",
    "verify",
)


@cache
def every_figure(**words: str) -> dict[str, go.Figure]:
    return {
        "speedup": figures.speedup_by_draft_length(SPEEDUPS[:6], **words),
        "grid": figures.speedup_grid(SPEEDUPS, **words),
        "speed": figures.decode_speed(SPEEDS, **words),
        "energy": figures.energy_by_phase(ENERGY, **words),
        "ram": figures.ram_by_part(RAM, free_bytes=7e9, free_label="free on a phone", **words),
        "drafter_ram": figures.drafter_ram_by_part(RAM, **words),
        "bytes": figures.byte_ledger(BYTES, **words),
        "acceptance": figures.acceptance_by_depth(DEPTHS, **words),
        "roofline": figures.roofline(PASSES, ROOF, **words),
        "verify": figures.verify_curves(CURVES, bands=["slow"], **words),
    }


def traces_of(figure: go.Figure, name: str) -> list[Any]:
    return [trace for trace in figure.data if trace.name == name]


def test_names_are_complete() -> None:
    assert set(every_figure()) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_has_title_reading_and_axes(name: str) -> None:
    figure = every_figure(title="A title", reading="What to conclude.")[name]
    assert figure.layout.title.text == "A title"
    assert figure.layout.title.subtitle.text == "What to conclude."
    assert figure.layout.meta["title"] == "A title" and figure.layout.meta["columns"]
    titles = [axis.title.text for axis in figure.select_xaxes()] + [
        a.title.text for a in figure.select_yaxes()
    ]
    assert any(titles), "an axis needs a title"
    assert figure.layout.height > 150
    json.loads(figure.to_json())


@pytest.mark.parametrize("name", ["speedup", "speed", "energy", "ram", "bytes", "roofline", "verify"])
def test_quantitative_axes_carry_their_unit(name: str) -> None:
    figure = every_figure()[name]
    text = f"{figure.layout.xaxis.title.text} {figure.layout.yaxis.title.text}"
    units = ("×", "tokens/s", "mJ", "MiB", "MB", "MAC")
    assert any(unit in text for unit in units), text


def test_speedups_are_shown_as_given() -> None:
    figure = figures.speedup_by_draft_length(SPEEDUPS[:6])
    (line,) = traces_of(figure, "frozen MTP head")
    assert list(line.x) == [1, 2, 3] and list(line.y) == pytest.approx([1.1, 1.2, 1.3])
    sizes = list(line.marker.size)
    assert sizes[1] > sizes[0] == sizes[2], "the best K stands out"
    (level,) = traces_of(figure, "break-even (plain decoding)")
    assert set(level.y) == {1}


def test_bands_where_asked_and_bars_elsewhere() -> None:
    banded = figures.speedup_by_draft_length(SPEEDUPS[:6], bands=["smollm2_mtp_head"])
    areas = [trace for trace in banded.data if trace.fill == "toself"]
    assert len(areas) == 1 and max(areas[0].y) == 1.8 and min(areas[0].y) == 0.9
    bars = [trace for trace in banded.data if trace.error_y.array is not None]
    assert len(bars) == 1 and list(bars[0].error_y.array) == pytest.approx([1.8 - 0.8])
    assert len([t for t in figures.speedup_by_draft_length(SPEEDUPS[:6]).data if t.fill == "toself"]) == 2


def test_grid_has_a_panel_for_each_task_and_one_legend() -> None:
    figure = figures.speedup_grid(SPEEDUPS)
    assert [note.text for note in figure.layout.annotations] == ["Code", "Open chat"]
    shown = [trace.name for trace in figure.data if trace.showlegend]
    assert sorted(shown) == sorted(set(shown)) and len(shown) == 3


def test_unknown_speeds_are_left_out() -> None:
    rows = [*SPEEDS, {**SPEEDS[0], "drafter": "ngram", "decode_tokens_per_s": None}]
    assert {trace.name for trace in figures.decode_speed(rows).data} == {"plain decoding", "frozen MTP head"}


def test_energy_stacks_the_phases_and_shows_the_rejected_share() -> None:
    figure = figures.energy_by_phase(ENERGY)
    stacked = [
        sum(values) for values in zip(*(t.x for t in figure.data if t.offsetgroup == "phases"), strict=True)
    ]
    assert stacked == pytest.approx([24.0, 24.0])  # mJ
    (rejected,) = traces_of(figure, "of which for rejected drafts")
    assert list(rejected.x) == pytest.approx([2.0]), "plain decoding rejects nothing"
    assert rejected.marker.pattern.shape


def test_ram_in_mib_with_the_line_only_where_it_fits() -> None:
    figure = figures.ram_by_part(RAM, free_bytes=200 * 2.0**20, free_label="free on a phone")
    (weights,) = traces_of(figure, "target weights")
    assert list(weights.x) == pytest.approx([100e6 / 2**20] * 2)
    assert figure.layout.shapes and figure.layout.annotations[0].text == "free on a phone: 200 MiB"
    far = figures.ram_by_part(RAM, free_bytes=7e9, free_label="free on a phone")
    assert not far.layout.shapes and far.layout.annotations[0].text.endswith("→")
    assert not traces_of(figure, "tiny"), "too thin to draw"
    assert traces_of(figure, "a new part"), "a part without a style still shows"


def test_acceptance_leaves_a_gap_where_nothing_is_known() -> None:
    left, right = figures.acceptance_by_depth(DEPTHS).data
    assert list(left.y) == pytest.approx([0.8, 0.64, 0.512])
    assert right.y[2] is None and right.showlegend is False


def test_roofline_and_verify_curves_show_their_points() -> None:
    roof = figures.roofline(PASSES, ROOF)
    (ridge,) = traces_of(roof, "ridge point")
    assert (ridge.x[0], ridge.y[0]) == (100.0, 6e12)
    assert roof.layout.xaxis.type == roof.layout.yaxis.type == "log"
    curves = figures.verify_curves(CURVES, bands=["slow"])
    (slow,) = traces_of(curves, "slow")
    assert list(slow.y) == [1.0, 1.5, 3.0]
    assert len([trace for trace in curves.data if trace.fill == "toself"]) == 1


def test_a_drafter_looks_the_same_in_every_figure_and_by_trace_id() -> None:
    for name in ("mtp_head", "standalone_total", "standalone_body"):
        assert theme.style_of(name) == theme.style_of(f"smollm2_{name}") == theme.style_of(f"{name}@bf16")
    blue = theme.style_of("mtp_head").color
    assert traces_of(figures.speedup_by_draft_length(SPEEDUPS[:6]), "frozen MTP head")[0].line.color == blue
    assert figures.acceptance_by_depth(DEPTHS).data[0].line.color == blue
    assert traces_of(figures.decode_speed(SPEEDS), "frozen MTP head")[0].marker.color == blue


def test_unknown_drafters_keep_one_look() -> None:
    assert theme.style_of("my_own_drafter") == theme.style_of("my_own_drafter")
    assert theme.style_of("my_own_drafter").short == "my own drafter"


@pytest.mark.parametrize("target", ["smollm2_135m", "gemma_4_e4b", "gemma_3n_e2b"])
def test_drafters_of_a_target_differ_in_marker_or_dash_too(target: str) -> None:
    looks = [theme.style_of(name) for name in list_drafters(target)]
    assert len({(look.dash, look.symbol) for look in looks}) == len(looks)
    assert len({look.color for look in looks}) == len(looks)


def rgb(color: str) -> np.ndarray:
    return np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])


def luminance(color: str) -> float:
    linear = np.where(rgb(color) <= 0.04045, rgb(color) / 12.92, ((rgb(color) + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(
    "drafter", ["none", "mtp_head", "standalone_total", "standalone_body", "ngram", "suffix"]
)
def test_lines_stand_out_on_light_and_dark_pages(drafter: str) -> None:
    color = theme.style_of(drafter).color
    assert contrast(color, theme.PAPER) >= 3.0  # WCAG 2.1, 1.4.11: graphical objects
    assert contrast(theme.DARK[color], theme.DARK[theme.PAPER]) >= 3.0


def test_text_is_readable_on_light_and_dark_pages() -> None:
    for ink in (theme.INK, theme.MUTED):
        assert contrast(ink, theme.PAPER) >= 4.5  # WCAG 2.1, 1.4.3
        assert contrast(theme.DARK[ink], theme.DARK[theme.PAPER]) >= 4.5


# Machado, Oliveira, Fernandes 2009, severity 1: what people without one cone type see (linear RGB)
BLINDNESS = {
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
}


@pytest.mark.parametrize("kind", BLINDNESS)
@pytest.mark.parametrize("dark", [False, True])
def test_drafters_stay_apart_for_the_colour_blind(kind: str, dark: bool) -> None:
    ids = ("mtp_head", "standalone_total", "standalone_body", "ngram")
    colors = [theme.DARK[theme.style_of(name).color] if dark else theme.style_of(name).color for name in ids]
    seen = [np.clip(np.array(BLINDNESS[kind]) @ rgb(color) ** 2.2, 0, 1) ** (1 / 2.2) for color in colors]
    for one, other in itertools.combinations(seen, 2):
        assert np.linalg.norm(one - other) > 0.12


def test_dark_colours_replace_every_light_one() -> None:
    text = every_figure()["speedup"].to_json()
    assert theme.BLUE in text and "rgba(0,114,178," in text
    dark = theme.darkened(text)
    assert theme.BLUE not in dark and "rgba(0,114,178," not in dark
    assert theme.DARK[theme.BLUE] in dark and "rgba(88,180,238," in dark


def test_names_never_become_markup() -> None:
    hostile = "<script>alert(1)</script>"
    rows = [{**row, "runtime": hostile, "label": hostile} for row in CURVES[:3]]
    for figure in (figures.verify_curves(rows, title=hostile, reading=hostile),
                   figures.speedup_by_draft_length([{**SPEEDUPS[0], "drafter": hostile}])):  # fmt: skip
        plain = json.loads(figure.to_json())
        plain["layout"].pop("meta")
        assert "<script" not in json.dumps(plain)


def test_long_readings_are_broken_into_lines() -> None:
    text = theme.wrapped("word " * 60, 40)
    assert all(len(line) <= 40 for line in text.split("<br>")) and text.count("word") == 60


def test_task_labels() -> None:
    assert theme.task_label("passage_summary") == "Passage summary"
    assert theme.task_label("speed_bench_rag") == "RAG"
    assert theme.task_label("speed_bench_roleplay") == "Roleplay"
