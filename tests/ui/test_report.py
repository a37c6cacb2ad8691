"""The report as a file and in a browser: complete, offline, readable, the same in light and dark."""

from __future__ import annotations

import json
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from simulator.errors import DraftscopeError
from simulator.figures.report import build_report, embedded, report_html
from simulator.studies.report_data import report_data
from tests.report_samples import CHANCES, DRAFTERS, write_sample_traces

VOID = {"meta", "link", "br", "input", "img", "hr", "path", "rect", "circle"}
PROBE = """
<script>
(function () {
  function report() {
    if (document.documentElement.dataset.drawn !== "yes") { return window.setTimeout(report, 50); }
    var wide = Array.prototype.filter.call(document.querySelectorAll("body *"), function (node) {
      return node.getBoundingClientRect().right > window.innerWidth + 1 &&
        !node.closest(".scroll, svg, .sr, pre");
    });
    var plots = Array.prototype.filter.call(document.querySelectorAll(".plot"), function (node) {
      return node.offsetParent !== null;
    });
    var empty = function (node) { return !node.querySelector(".main-svg .trace, .main-svg .bars"); };
    var height = document.documentElement.scrollHeight, undrawn = plots.filter(empty).length;
    var nav = document.querySelector("nav"), first = !empty(plots[0]);
    window.dispatchEvent(new Event("beforeprint"));
    var text = JSON.stringify({
      errors: window.errors, width: window.innerWidth, page: getComputedStyle(document.body).backgroundColor,
      wide: wide.slice(0, 5).map(function (node) { return node.tagName + "." + node.className; }),
      plots: plots.length,
      empty: plots.filter(empty).length, undrawn: undrawn, first: first,
      growth: document.documentElement.scrollHeight - height,
      hidden: nav.scrollWidth - nav.clientWidth,
      ink: getComputedStyle(document.querySelector(".plot .xtitle")).fill,
      requests: performance.getEntriesByType("resource").map(function (entry) { return entry.name; })
    });
    if (window.parent !== window) { window.parent.postMessage(text, "*"); }
    var out = document.createElement("pre");
    out.id = "probe"; out.textContent = text; document.body.append(out);
  }
  STEPS
  report();
}());
</script></body>"""
CATCH = (
    "<script>window.errors = [];"
    "window.onerror = function (message) { window.errors.push(String(message)); };</script></head>"
)


class Outline(HTMLParser):
    """Elements of a page, and whether they are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self.open or self.open[-1] != tag:
            self.wrong.append(f"</{tag}> after {self.open[-3:]}")
        if tag in self.open:
            while self.open.pop() != tag:
                pass


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = write_sample_traces(tmp_path_factory.mktemp("traces"), requests_per_task=4)
    return report_data(
        devices=["pixel_9", "pixel_10"], targets=["smollm2_135m", "gemma_4_e4b", "gemma_4_e2b"],
        draft_lengths=[1, 2, 4],
        traces=[folder / f"{name}.parquet" for name in DRAFTERS],
    )  # fmt: skip


@pytest.fixture(scope="module")
def page(data: dict[str, Any]) -> str:
    return report_html(data)


@pytest.fixture(scope="module")
def outline(page: str) -> Outline:
    parser = Outline()
    parser.feed(re.sub(r"<script\b[^>]*>.*?</script>", "<script></script>", page, flags=re.DOTALL))
    return parser


def test_file_is_small_and_whole(data: dict[str, Any], tmp_path: Path) -> None:
    path = build_report(data, out_path=tmp_path / "new" / "report.html")
    text = path.read_text(encoding="utf-8")
    assert path.stat().st_size < 6e6
    assert text.startswith("<!doctype html>") and text.rstrip().endswith("</html>")
    assert "@@" not in re.sub(r"<script\b.*?</script>", "", text, flags=re.DOTALL)
    assert [file.name for file in path.parent.iterdir()] == ["report.html"], "no partial file stays"


def test_markup_is_well_formed_and_ids_are_unique(outline: Outline) -> None:
    assert outline.wrong == [] and outline.open == []
    ids = [attrs["id"] for _, attrs in outline.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    targets = {
        attrs["href"] for tag, attrs in outline.tags if tag == "a" and (attrs["href"] or "").startswith("#")
    }
    assert {f"#{name}" for name in ids} >= targets


def test_nothing_is_loaded_from_anywhere(page: str, outline: Outline) -> None:
    assert page.count("plotly.js v") == 1, "one copy of plotly.js"
    for tag, attrs in outline.tags:
        assert tag not in {"link", "iframe", "object", "embed", "base"}
        assert not attrs.get("src"), (tag, attrs)
    css = page[page.index("<style>") : page.index("</style>")]
    assert "@import" not in css and "url(" not in css
    policy = next(attrs["content"] for tag, attrs in outline.tags if attrs.get("http-equiv"))
    assert policy and policy.startswith("default-src 'none'") and "http" not in policy


def test_every_figure_has_a_title_a_reading_and_its_numbers(page: str, outline: Outline) -> None:
    plots = [attrs for _, attrs in outline.tags if attrs.get("class") == "plot"]
    assert len(plots) > 30
    for attrs in plots:
        assert attrs["role"] == "img" and ". " in (attrs["aria-label"] or "")
    figures = re.findall(r"<figure\b.*?</figure>", page, flags=re.DOTALL)
    assert len(figures) == len(plots)
    for figure in figures:
        assert re.search(r"<p>[^<]{20,}</p>", figure), "a reading aid"
        assert "<table>" in figure and "Numbers" in figure


def test_both_blocks_and_all_parts_are_there(page: str) -> None:
    for words in (
        "Measured here", "Gemma-class targets", "Speedup against draft length", "Tokens per second",
        "Energy per token by phase", "Byte ledger", "RAM:", "RAM that the drafter adds", "Roofline",
        "Acceptance by depth", "The same text under every drafter", "What verifying costs", "Sources",
        "What is assumed", "free on Pixel 9", "pays above",
    ):  # fmt: skip
        assert words in page, words


def test_height_is_kept_before_a_figure_is_drawn(outline: Outline) -> None:
    for _, attrs in outline.tags:
        if attrs.get("class") == "plot":
            assert re.fullmatch(r"height:\d{3}px", attrs["style"] or ""), attrs["id"]


def test_plotly_is_data_until_a_figure_needs_it(page: str) -> None:
    assert page.count('<script type="text/plain" id="plotly">') == 1
    assert page.index('id="plotly"') > page.index("</main>")


def test_the_head_is_named_first(page: str, data: dict[str, Any]) -> None:
    assert "<h1>draftscope: the frozen MTP head" in page
    assert re.search(r'<p class="answer">On Pixel 9, the frozen MTP head ', page)
    table = page[page.index('<table id="compare">') : page.index("</table>")]
    names = re.findall(r'<tr><th scope="row">([^<]+)', table)
    measured = names[: names.index("plain decoding") + 1]
    assert measured[0] == "frozen MTP head" and measured[-1] == "plain decoding"
    assert any(name.startswith("standalone") for name in measured[1:-1])


def test_controls_work_from_the_keyboard(outline: Outline) -> None:
    radios = [attrs for tag, attrs in outline.tags if tag == "input"]
    assert [attrs["type"] for attrs in radios] == ["radio", "radio"]
    assert sum("checked" in attrs for attrs in radios) == 1
    assert any(tag == "a" and attrs.get("class") == "skip" for tag, attrs in outline.tags)
    regions = [attrs for _, attrs in outline.tags if "scroll" in (attrs.get("class") or "")]
    assert regions and all(attrs.get("tabindex") == "0" and attrs.get("aria-label") for attrs in regions)


def test_hostile_names_stay_text(data: dict[str, Any]) -> None:
    hostile = "</script><img src=x onerror=alert(1)>"
    devices = [{**device, "name": hostile, "runtime_name": hostile} for device in data["devices"]]
    answers = [{**answer, "text": hostile} for answer in data["answers"]]
    text = report_html({**data, "devices": devices, "answers": answers, "title": hostile, "notes": [hostile]})
    assert "<img src=x" not in text
    assert "\\u003c/script" in embedded({"a": hostile})


def test_a_report_is_replaced_whole_or_not_at_all(
    data: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    path.write_text("old", encoding="utf-8")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("simulator.files.os.replace", full)
    with pytest.raises(DraftscopeError, match=r"report\.html.*No space left"):
        build_report(data, out_path=path)
    assert path.read_text(encoding="utf-8") == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_a_folder_that_is_a_file_is_refused(data: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(DraftscopeError, match="out_path"):
        build_report(data, out_path=tmp_path / "file" / "report.html")


def browse(
    chromium: str, page: str, folder: Path, *flags: str, steps: str = "", phone: bool = False
) -> dict[str, Any]:
    """Open the page, wait until it is drawn, and return what the probe saw."""
    probed = page.replace("</head>", CATCH, 1)
    before, _, after = probed.rpartition("</body>")
    (folder / "page.html").write_text(before + PROBE.replace("STEPS", steps) + after, encoding="utf-8")
    opened = "page.html"
    if phone:
        opened = "phone.html"
        (folder / opened).write_text(
            '<!doctype html><body><iframe src="page.html" style="width:390px;height:6000px;border:0">'
            "</iframe>"
            "<pre id='probe'></pre><script>onmessage=function(e){"
            "document.getElementById('probe').textContent=e.data}</script></body>",
            encoding="utf-8",
        )
    done = subprocess.run(
        [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder / 'profile'}",
         "--virtual-time-budget=60000", "--window-size=1280,2400", *flags, "--dump-dom",
         (folder / opened).as_uri()],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    found = re.search(r"<pre id=[\"']probe[\"']>(.*?)</pre>", done.stdout, flags=re.DOTALL)
    assert found and found[1], "the page never finished drawing"
    text = found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    result: dict[str, Any] = json.loads(text)
    return result


@pytest.mark.browser
def test_draws_everything_without_errors_or_requests(chromium: str, page: str, tmp_path: Path) -> None:
    seen = browse(chromium, page, tmp_path)
    assert seen["errors"] == [] and seen["requests"] == []
    assert seen["plots"] > 15 and seen["empty"] == 0
    assert seen["wide"] == []
    assert seen["page"] == "rgb(255, 255, 255)" and seen["ink"] == "rgb(82, 96, 109)"


@pytest.mark.browser
def test_far_figures_wait_and_keep_their_place(chromium: str, page: str, tmp_path: Path) -> None:
    seen = browse(chromium, page, tmp_path, "--window-size=1200,1500")
    assert seen["errors"] == []
    assert seen["first"], "the first figure is drawn at once"
    assert 0 < seen["undrawn"] < seen["plots"], "those far below are not"
    assert seen["growth"] == 0, "drawing moves nothing"
    assert seen["wide"] == [] and seen["hidden"] <= 0, "the navigation is whole"


@pytest.mark.browser
def test_dark_pages_have_dark_figures(chromium: str, page: str, tmp_path: Path) -> None:
    clicks = "var button = document.getElementById('theme'); button.click(); button.click();"
    seen = browse(chromium, page, tmp_path, steps=clicks)
    assert seen["errors"] == [] and seen["empty"] == 0
    assert seen["page"] == "rgb(18, 23, 29)" and seen["ink"] == "rgb(170, 180, 191)"


@pytest.mark.browser
def test_other_device_shows_its_own_figures(chromium: str, page: str, tmp_path: Path) -> None:
    choose = "document.querySelector(\"input[value='pixel_10']\").click();"
    seen = browse(chromium, page, tmp_path, steps=choose)
    assert seen["errors"] == [] and seen["plots"] > 15 and seen["empty"] == 0


@pytest.mark.browser
def test_nothing_sticks_out_at_phone_width(chromium: str, page: str, tmp_path: Path) -> None:
    seen = browse(chromium, page, tmp_path, phone=True)
    assert seen["width"] <= 390 and seen["wide"] == []
    assert seen["errors"] == [] and seen["plots"] > 15


def test_samples_cover_all_tasks_and_drafters(data: dict[str, Any]) -> None:
    assert {strip["task"] for strip in data["strips"]} == set(CHANCES)
