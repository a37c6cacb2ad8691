"""Token strip: one response, drafter by drafter, accepted and rejected drafts marked; HTML, no script.

Accepted and rejected differ by colour, by line (under or through) and by element (``ins``, ``del``); the
sentence at the end of a row says the same in words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simulator.figures.theme import escape, style_of, task_label

Row = Mapping[str, Any]

LEGEND = (
    '<p class="strip-legend" aria-label="How to read the strip">'
    '<span class="step"><ins>accepted draft</ins></span> '
    '<span class="step"><b>token of the target itself</b></span> '
    '<span class="step"><del>rejected draft</del></span> '
    "<span>One box is one step: one pass of the target.</span></p>"
)
_UNNAMED = (
    '<p class="strip-legend"><span class="step"><del class="id">id 1234</del></span> is a rejected draft '
    "whose text is not at hand: the token stands in no response.</p>"
)


def legend(strips: Sequence[Row]) -> str:
    """How to read the strips; tokens without text are explained where there are some."""
    steps = (step for strip in strips for row in strip["drafters"] for step in row["steps"])
    unnamed = any(isinstance(text, int) for step in steps for text in step["rejected"])
    return LEGEND + (_UNNAMED if unnamed else "")


def token_strip(strip: Row, *, opened: bool = True) -> str:
    """One task: the response under every drafter.

    Parameters
    ----------
    strip : mapping
        ``task``, ``prompt`` (text), ``draft_length``, ``drafters``: list of ``drafter``, ``steps``,
        ``summary``, ``cut``; a step has ``accepted`` and ``rejected`` (texts; token ids where a rejected
        draft has no known text) and ``bonus`` (text, or None where the response ends before it).
    opened : bool
        Show the rows, or only the task until it is opened.

    Returns
    -------
    str
        HTML.
    """
    rows = "".join(_row(row) for row in strip["drafters"])
    prompt = escape(_visible(strip["prompt"]))
    return (
        f'<details class="strip"{" open" if opened else ""}>'
        f"<summary><h4>{escape(task_label(strip['task']))}</h4></summary>"
        f"<details><summary>Prompt</summary><pre>{prompt}</pre></details>{rows}</details>"
    )


def _row(row: Row) -> str:
    style = style_of(row["drafter"])
    steps = "".join(_step(step) for step in row["steps"])
    more = '<span class="cut" title="the response goes on">…</span>' if row["cut"] else ""
    return (
        f'<div class="strip-row" style="--drafter:{style.color}" data-drafter="{escape(row["drafter"])}">'
        f'<p class="strip-name">{escape(style.short or row["drafter"])}</p>'
        f'<p class="strip-text">{steps}{more}</p><p class="strip-sum">{escape(row["summary"])}</p></div>'
    )


def _step(step: Row) -> str:
    """One box; a space at its beginning stands before it, where a line may break."""
    parts: list[tuple[str, str | int]] = [("ins", text) for text in step["accepted"]]
    parts += [("b", step["bonus"])] if step["bonus"] is not None else []
    parts += [("del", text) for text in step["rejected"]]
    before = ""
    if parts and isinstance(parts[0][1], str) and parts[0][1][:1] == " ":
        before, parts[0] = " ", (parts[0][0], parts[0][1][1:])
    inside = "".join(_token(tag, text) for tag, text in parts)
    return f'{before}<span class="step">{inside}</span>'


def _token(tag: str, text: str | int) -> str:
    if isinstance(text, int):
        return f'<{tag} class="id" title="text not at hand">id {text}</{tag}>'
    return f"<{tag}>{escape(_visible(text))}</{tag}>"


def _visible(text: str) -> str:
    """Line breaks and control characters made visible."""
    shown = text.replace("\r", "").replace("\t", "⇥").replace("\n", "⏎")
    return "".join(sign if sign.isprintable() else "�" for sign in shown)
