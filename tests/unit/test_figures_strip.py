"""Token strip: every token of the text once, accepted and rejected told apart without colour."""

from __future__ import annotations

import re

from simulator.figures import token_strip
from simulator.figures.legend import numbers_table
from simulator.figures.strip import LEGEND, legend

STRIP = {
    "task": "code",
    "prompt": "write <b>\nsomething",
    "draft_length": 2,
    "drafters": [
        {
            "drafter": "mtp_head",
            "summary": "4 tokens in 2 steps, 2.00 tokens per step; 2 of 4 drafts accepted.",
            "cut": True,
            "steps": [
                {"accepted": [], "bonus": "def", "rejected": []},
                {"accepted": [" f", "("], "bonus": "x", "rejected": []},
                {"accepted": [], "bonus": ")", "rejected": [" <i>", "\n"]},
                {"accepted": [":"], "bonus": None, "rejected": []},
            ],
        }
    ],
}


def kept_text(html: str) -> str:
    """What a reader sees of the response: the boxes without rejected drafts."""
    inside = html.split('class="strip-text">')[1].split("</p>")[0]
    return re.sub(r"<[^>]+>", "", re.sub(r"<del>.*?</del>", "", inside))


def test_text_is_whole_and_in_order() -> None:
    assert kept_text(token_strip(STRIP)) == "def f(x):…"


def test_accepted_and_rejected_have_elements_of_their_own() -> None:
    html = token_strip(STRIP)
    assert re.findall(r"<ins>(.*?)</ins>", html) == ["f", "(", ":"]
    assert re.findall(r"<del>(.*?)</del>", html) == [" &lt;i&gt;", "⏎"]
    assert html.count('class="step"') == 4
    assert "2 of 4 drafts accepted." in html
    for tag in ("ins", "del", "b"):
        assert f"<{tag}>" in LEGEND


def test_markup_in_texts_stays_text() -> None:
    html = token_strip(STRIP)
    assert "write &lt;b&gt;⏎something" in html and "<i>" not in html


def test_control_characters_are_replaced() -> None:
    strip = {**STRIP, "prompt": "a\x07b"}
    assert "a�b" in token_strip(strip)


def test_strip_can_start_closed() -> None:
    assert '<details class="strip" open>' in token_strip(STRIP)
    assert '<details class="strip">' in token_strip(STRIP, opened=False)


def test_table_of_numbers_scales_like_the_figure() -> None:
    rows = [{"drafter": "mtp_head", "part": "drafter_layers", "ram_bytes": 2.0**20, "total_bytes": None}]
    html = numbers_table(rows, ("drafter", "part", "ram_bytes", "total_bytes"), caption="RAM <x>")
    cells = re.findall(r"<td>(.*?)</td>", html)
    assert cells == ["frozen MTP head", "drafter layers", "1", "–"]
    assert "RAM &lt;x&gt;" in html and 'scope="col"' in html and 'tabindex="0"' in html


def test_drafts_without_a_text_show_their_id_and_are_explained() -> None:
    step = {"accepted": [], "bonus": "a", "rejected": [1234, "b"]}
    strip = {**STRIP, "drafters": [{**STRIP["drafters"][0], "steps": [step]}]}
    html = token_strip(strip)
    assert '<del class="id" title="text not at hand">id 1234</del><del>b</del>' in html
    assert "id 1234" in legend([strip]) and "not at hand" in legend([strip])
    assert legend([STRIP]) == LEGEND
