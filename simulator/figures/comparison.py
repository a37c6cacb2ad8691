"""The comparison as one compact table in two labelled blocks; it orders and decides nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from simulator.figures.legend import number
from simulator.figures.theme import escape, style_of

if TYPE_CHECKING:
    from simulator.figures.sections import Page

Row = Mapping[str, Any]
_BLOCKS = {
    "traced": ("Measured here", "acceptance recorded on this small target and replayed"),
    "published": (
        "Gemma-class targets",
        "each with its own published acceptance, never with the measured one",
    ),
}


def table(page: Page, data: Row) -> str:
    """Heading and table."""
    devices = data["devices"]
    first = "".join(
        f'<th scope="colgroup" colspan="4" class="group wide">{escape(device["name"])}<small>'
        f"{escape(device['runtime_name'])}</small></th>"
        for device in devices
    )
    second = "".join(
        '<th scope="col" class="group">speedup<small>range</small></th><th scope="col">tokens/s</th>'
        '<th scope="col">mJ/token</th><th scope="col">first<br>token (s)</th>'
        for _ in devices
    )
    rows, block, target = "", "", ""
    width = 5 + 4 * len(devices)
    names = {one["id"]: one["name"] for one in data["targets"]}
    for line in data["comparison"]:
        if line["block"] != block:
            block = line["block"]
            title, text = _BLOCKS[block]
            rows += _heading("block", width, f"{title} <span>{text}</span>")
        if line["target"] != target:
            target = line["target"]
            rows += _heading("target", width, escape(names[target]))
        rows += _row(line, devices)
    html = page.heading("comparison", "The comparison", "Comparison")
    return (
        f"{html}<p>Each drafter at its best draft length K. Tokens per step count the bonus token. The range "
        "comes from the ranges of all inputs. Where no acceptance is known, only costs are shown: at that K "
        "the drafter pays if a step yields more tokens than stated.</p>"
        '<div class="scroll" role="region" aria-label="Comparison of drafters" tabindex="0">'
        '<table id="compare"><thead><tr><th scope="col" rowspan="2">drafter</th>'
        f'<th scope="col" rowspan="2">K</th>{first}'
        '<th scope="col" rowspan="2" class="group">tokens<br>per step</th>'
        '<th scope="col" rowspan="2">drafter<br>RAM (MiB)</th>'
        '<th scope="col" rowspan="2">acceptance</th></tr>'
        f"<tr>{second}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _heading(kind: str, width: int, html: str) -> str:
    return f'<tr class="{kind}"><th colspan="{width}" scope="rowgroup">{html}</th></tr>'


def _row(line: Row, devices: Sequence[Row]) -> str:
    style = style_of(line["drafter"])
    some = next(iter(line["devices"].values()))
    plain = some["draft_length"] == 0
    kind = line["acceptance_kind"]
    tag = "" if plain else "not known"
    if kind:
        tag = f'<span class="tag {escape(kind)}">{escape(kind)}</span>'
    source = "" if plain or not line["acceptance"] else f"<small>{escape(_source(line))}</small>"
    lengths = list(dict.fromkeys(row["draft_length"] for row in line["devices"].values()))
    k = "" if plain else " / ".join(str(length) for length in lengths)
    tau = "1" if plain else _number(some["mean_acceptance_length"])
    cells = "".join(_cells(line["devices"].get(device["id"]), plain) for device in devices)
    ram = "" if plain else f"{line['drafter_ram_bytes'] / 2**20:,.0f}"
    return (
        f'<tr><th scope="row">{escape(style.short or line["label"])}{source}</th><td>{k}</td>{cells}'
        f'<td class="group">{tau}</td><td>{ram}</td><td>{tag}</td></tr>'
    )


def _cells(row: Row | None, plain: bool) -> str:
    if row is None or row["decode_tokens_per_s"] is None:
        if row is None:
            return '<td class="group">–</td><td>–</td><td>–</td><td>–</td>'
        need = f"pays above {row['break_even_acceptance_length']:.2f} tokens emitted a step"
        return f'<td class="group need" colspan="3">{need}</td><td>{number(row["ttft_s"])}</td>'
    low, high = row["speedup_low"], row["speedup_high"]
    span = "" if plain or low is None else f"<small>{low:.2f} to {high:.2f}</small>"
    gain = "1" if plain else f"{row['speedup']:.2f}×"
    loss = " loss" if round(row["speedup"], 2) < 1 and not plain else ""
    return (
        f'<td class="group gain{loss}">{gain}{span}</td><td>{number(row["decode_tokens_per_s"])}</td>'
        f"<td>{number(row['energy_per_token_j'] * 1e3)}</td><td>{number(row['ttft_s'])}</td>"
    )


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _source(line: Row) -> str:
    words = {"vllm_gemma4_acceptance_test": "vLLM test, K ≤ 2", "google_frozen_mtp": "Google, Nano v3",
             "modelopt_speed_bench_e4b_k7": "Speed-Bench, K ≤ 7"}  # fmt: skip
    return words.get(line["acceptance"], "" if "/" in line["acceptance"] else line["acceptance"])
