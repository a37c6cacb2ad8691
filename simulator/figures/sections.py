"""Sections of the report as HTML: tables, cards around figures, strips, sources; it decides nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import plotly.graph_objects as go

from simulator.figures import acceptance, comparison, hardware, ledgers, speed, strip
from simulator.figures.legend import drafter_legend, legend_html, numbers_table
from simulator.figures.theme import escape, task_label

Data = Mapping[str, Any]
Row = Mapping[str, Any]


@dataclass
class Page:
    """Figures and headings as they are placed.

    Attributes
    ----------
    figures : dict of str to plotly Figure
        By the name of their element.
    headings : list of (str, str)
        Anchor and text, for the navigation.
    """

    figures: dict[str, go.Figure] = field(default_factory=dict)
    headings: list[tuple[str, str]] = field(default_factory=list)

    def heading(self, anchor: str, text: str, nav: str = "") -> str:
        """A second-level heading with its entry in the navigation."""
        self.headings.append((anchor, nav or text))
        return f'<h2 id="{anchor}">{escape(text)}</h2>'

    def card(self, figure: go.Figure, rows: Sequence[Row], *, level: int = 3, legend: bool = True) -> str:
        """A figure with title, reading aid, legend and its numbers as a table."""
        name = f"f{len(self.figures)}"
        self.figures[name] = figure
        meta = figure.layout.meta
        title, reading = meta["title"], meta["reading"]
        keys = legend_html(figure) if legend else ""
        table = numbers_table(rows, meta["columns"], caption=f"Numbers of: {title}")
        return (
            f'<figure aria-labelledby="{name}t"><h{level} id="{name}t">{escape(title)}</h{level}>'
            f"<p>{escape(reading)}</p>{keys}"
            f'<div class="plot" id="{name}" data-figure="{name}" style="height:{meta["height"]}px" '
            f'role="img" aria-label="{escape(title)}. {escape(reading)}"></div>'
            f'<details><summary>Numbers<span class="sr"> of {escape(title)}</span></summary>{table}'
            "</details></figure>"
        )


def body(page: Page, data: Data) -> str:
    """Everything below the answer."""
    parts = [comparison.table(page, data)]
    traced = [target for target in data["targets"] if target["block"] == "traced"]
    others = [target for target in data["targets"] if target["block"] != "traced"]
    for target in traced:
        parts.append(_traced(page, data, target))
    for target in others:
        parts.append(_published(page, data, target))
    parts += [_verify(page, data), _sources(page, data)]
    return "".join(parts)


def answers(data: Data) -> str:
    """The answer in a sentence, and what holds for other targets."""
    html = ""
    for device in data["devices"]:
        mine = [answer for answer in data["answers"] if answer["device"] == device["id"]]
        if not mine:
            continue
        names = {target["id"]: target["name"] for target in data["targets"]}
        first, end, rest = mine[0]["text"].partition(". ")
        more = "".join(f"<li><strong>{escape(names[one['target']])}</strong>{escape(one['text'])}</li>"
                       for one in mine[1:])  # fmt: skip
        html += (
            f'<div {_of(device["id"])}><p class="answer">{escape(first + end)}</p><p>{escape(rest)}</p>'
            f'<ul class="more">{more}</ul></div>'
        )
    return html


def device_switch(data: Data) -> str:
    """Radio buttons that choose the device of the figures."""
    buttons = "".join(
        f'<label><input type="radio" name="device" value="{escape(device["id"])}"'
        f"{' checked' if device['default'] else ''}>{escape(device['name'])}</label>"
        for device in data["devices"]
    )
    return f"<fieldset><legend>Device</legend>{buttons}</fieldset>"


def navigation(page: Page) -> str:
    """Links to the sections."""
    return "".join(f'<a href="#{anchor}">{escape(text)}</a>' for anchor, text in page.headings)


def _traced(page: Page, data: Data, target: Row) -> str:
    name = target["name"]
    html = page.heading("measured", f"Measured: {name}", "Measured target")
    if any(section["has_acceptance"] for section in _of_target(data, target)):
        html += (
            f"<p>Acceptance was recorded on {escape(name)} with drafters trained on it, at every position of "
            "every response, and replayed step by step. It holds for this target only.</p>"
        )
    else:
        html += f"<p>No acceptance trace on {escape(name)} is at hand: only costs are shown.</p>"
    for section in _of_target(data, target):
        html += f"<div {_of(section['device'])}>"
        if section["speedup"]:
            drafters = [row["drafter"] for part in section["speedup"] for row in part["records"]]
            html += "<h3>Speedup against draft length, task by task</h3>"
            html += (
                "<p>Above the dashed line drafting pays. The large marker is the best K. The band is what "
                "the ranges of all inputs give for the drafter that wins; the bar at the best K is the same "
                "for the others. Inputs are shared, so drafters move together inside their ranges.</p>"
            )
            if any("standalone" in name for name in drafters):
                html += (
                    "<p>The two standalone drafters are sized by the head: one has as many parameters in all "
                    "(same total), the other as many outside its embedding table (same body).</p>"
                )
            html += drafter_legend(drafters, break_even=True) + '<div class="grid">'
            for part in section["speedup"]:
                figure = speed.speedup_by_draft_length(
                    part["records"], title=task_label(part["task"]), reading=part["reading"],
                    bands=[part["winner"]] if part["winner"] else [], ceiling=section["speedup_ceiling"],
                )  # fmt: skip
                html += page.card(figure, part["records"], level=4, legend=False)
            html += "</div>"
        html += _costs(page, data, section, name) + "</div>"
    html += _acceptance(page, data) + _strips(page, data)
    return html


def _published(page: Page, data: Data, target: Row) -> str:
    name, short = target["name"], _short(target)
    known = any(section["has_acceptance"] for section in _of_target(data, target))
    about = "Published acceptance" if known else "Cost only"
    html = page.heading(f"t-{target['id']}", f"{about}: {name}", short)
    if target["note"]:
        html += f'<p class="note">{escape(target["note"])}</p>'
    for section in _of_target(data, target):
        html += f"<div {_of(section['device'])}>"
        if not section["has_acceptance"]:
            html += (
                f"<p>No acceptance of a drafter on {escape(name)} is published, so no speed is predicted; "
                "RAM needs none.</p>"
            )
        cards = ""
        for part in section["speedup"]:
            figure = speed.speedup_by_draft_length(
                part["records"], title=f"Speedup against draft length: {part['label']}",
                reading=part["reading"], series="task", bands=["all"], height=320,
                ceiling=section["speedup_ceiling"],
            )  # fmt: skip
            cards += page.card(figure, part["records"])
        html += f'<div class="pair">{cards}</div>' if cards else ""
        html += _costs(page, data, section, short) + "</div>"
    return html


def _short(target: Row) -> str:
    """Name of a target without what it stands for."""
    return str(target["name"].split(" (")[0])


def _costs(page: Page, data: Data, section: Row, target: str) -> str:
    """Speed, energy, bytes, RAM and roofline of one target on one device."""
    device = _device(data, section["device"])
    where = f"{target} on {device['name']}"
    readings = section["readings"]
    cards: list[str] = []
    if section["speed"]:
        figure = speed.decode_speed(section["speed"], title=f"Tokens per second: {where}",
                                    reading=readings["speed"])  # fmt: skip
        cards.append(page.card(figure, section["speed"]))
    if section["energy"]:
        figure = ledgers.energy_by_phase(section["energy"], title=f"Energy per token by phase: {where}",
                                         reading=readings["energy"])  # fmt: skip
        cards.append(page.card(figure, section["energy"]))
    if section["bytes"]:
        figure = ledgers.byte_ledger(section["bytes"], title=f"Byte ledger: {where}",
                                     reading=readings["bytes"])  # fmt: skip
        cards.append(page.card(figure, section["bytes"]))
    figure = ledgers.ram_by_part(
        section["ram"], free_bytes=device["free_ram_bytes"], free_label=f"free on {device['name']}",
        title=f"RAM: {where}", reading=readings["ram"],
    )  # fmt: skip
    cards.append(page.card(figure, section["ram"]))
    if section["drafter_ram"]:
        figure = ledgers.drafter_ram_by_part(
            section["drafter_ram"], title=f"RAM that the drafter adds: {target}",
            reading=readings["drafter_ram"],
        )  # fmt: skip
        cards.append(page.card(figure, section["drafter_ram"]))
    if section["has_acceptance"]:
        figure = hardware.roofline(
            section["passes"], section["roof"], title=f"Roofline: {where}, {device['runtime_name']}",
            reading=readings["roofline"],
        )  # fmt: skip
        cards.append(page.card(figure, section["passes"]))
    return f'<div class="{"columns" if len(cards) > 2 else "pair"}">{"".join(cards)}</div>'


def _acceptance(page: Page, data: Data) -> str:
    if not data["acceptance"]:
        return ""
    html = page.heading("acceptance", "Acceptance by depth, task by task", "Acceptance")
    html += (
        "<p>Shares over the steps that a decode really takes. Left: this draft and all before it are "
        "accepted. Right: this draft is accepted, given that all before it were; shares of fewer than "
        f"{data['fewest_steps']} steps are left out.</p>"
    )
    html += drafter_legend(row["drafter"] for part in data["acceptance"] for row in part["records"])
    html += '<div class="grid">'
    for part in data["acceptance"]:
        figure = acceptance.acceptance_by_depth(part["records"], title=task_label(part["task"]),
                                                reading=part["reading"])  # fmt: skip
        html += page.card(figure, part["records"], level=4, legend=False)
    return html + "</div>"


def _strips(page: Page, data: Data) -> str:
    if not data["strips"]:
        return ""
    html = page.heading("strips", "The same text under every drafter", "Token strip")
    length = data["strips"][0]["draft_length"]
    html += (
        f"<p>One typical response of each task at draft length {length}. Verification keeps the target’s "
        "text whatever the drafter says, so all rows read alike; fewer boxes mean fewer passes.</p>"
    )
    strips = (strip.token_strip(one, opened=at == 0) for at, one in enumerate(data["strips"]))
    return html + strip.legend(data["strips"]) + "".join(strips)


def _verify(page: Page, data: Data) -> str:
    html = page.heading("verify", "What verifying costs: v(w) by runtime", "Verify cost")
    for device in data["devices"]:
        names = {target["id"]: _short(target) for target in data["targets"]}
        cards = ""
        for part in data["verify"]:
            if part["device"] == device["id"]:
                figure = hardware.verify_curves(
                    part["records"], title=f"{names[part['target']]} on {device['name']}",
                    reading=part["reading"], bands=[device["runtime"]],
                )  # fmt: skip
                cards += page.card(figure, part["records"])
        html += f'<div class="pair" {_of(device["id"])}>{cards}</div>'
    return html


def _sources(page: Page, data: Data) -> str:
    html = page.heading("assumptions", "What is assumed", "Assumptions")
    html += "".join(f'<p class="note">{escape(note)}</p>' for note in data["notes"])
    for device in data["devices"]:
        used = [row for row in data["assumptions"] if row["device"] == device["id"]]
        rows = "".join(
            f'<tr><th scope="row">{escape(row["where"])}<br><code>{escape(row["key"])}</code></th>'
            f"<td>{escape(row['value'])} {escape('' if row['unit'] == '1' else row['unit'])}</td>"
            f"<td>{escape(row['low'])}{' to ' if row['low'] else '–'}{escape(row['high'])}</td>"
            f'<td>{escape(row["note"])} <span class="tag">{escape(row["source"])}</span></td></tr>'
            for row in used
        )
        html += (
            f"<details {_of(device['id'])}><summary>{len(used)} assumed numbers behind "
            f"{escape(device['name'])} with {escape(device['runtime_name'])}, with range and reason</summary>"
            '<div class="scroll" role="region" aria-label="Assumed numbers" tabindex="0">'
            '<table class="assumed"><thead><tr><th scope="col">Number</th><th scope="col">Value</th>'
            f'<th scope="col">Range</th><th scope="col">Why</th></tr></thead><tbody>{rows}</tbody></table>'
            "</div></details>"
        )
    html += page.heading("sources", "Sources", "Sources") + '<ol class="refs">'
    for row in data["sources"]:
        linked = escape(row["title"] or row["key"])
        if row["url"].startswith(("https://", "http://")):
            linked = f'<a href="{escape(row["url"])}" rel="noreferrer">{linked}</a>'
        more = ". ".join(escape(row[name]) for name in ("author", "year", "note") if row[name])
        html += f"<li><code>{escape(row['key'])}</code> {linked}{'. ' + more if more else ''}</li>"
    return html + "</ol>"


def _of(device: str) -> str:
    return f'data-device="{escape(device)}"'


def _of_target(data: Data, target: Row) -> list[Row]:
    return [section for section in data["sections"] if section["target"] == target["id"]]


def _device(data: Data, name: str) -> Row:
    return next(device for device in data["devices"] if device["id"] == name)
