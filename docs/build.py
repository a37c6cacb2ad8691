"""Build what the documents show: the picture of the README, and executed notebooks with still images.

``python docs/build.py picture`` draws docs/assets: speedup and verify-curves, for light and for dark pages.
``python docs/build.py claims`` writes the claims table of the README, one or two rows a claim.
``python docs/build.py curves`` writes docs/reference/verify_curves.md from hw_profiles/verify_curves.
``python docs/build.py validation`` writes docs/background/validation.md and its aggregates (make validation).
``python docs/build.py field_reports`` writes docs/background/field_reports.md from the tests.
``python docs/build.py notebooks`` executes notebooks/*.py into .ipynb, each figure as an image too.

Pictures are drawn with a headless Chromium (Debian: apt-get install chromium); without one, notebooks keep
interactive figures only. It knows no numbers: those come from the package.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PAGE = """<!doctype html><html><head><meta charset="utf-8"><script>@@PLOTLY@@</script></head><body>
<script type="application/json" id="in">@@FIGURES@@</script><script>
(async function () {
  var figures = JSON.parse(document.getElementById("in").textContent), found = [];
  for (var at = 0; at < figures.length; at += 1) {
    var one = figures[at], node = document.createElement("div");
    document.body.append(node);
    await Plotly.newPlot(node, one.data, one.layout);
    found.push(await Plotly.toImage(node, @@OPTIONS@@.format === "svg"
      ? {format: "svg", width: @@OPTIONS@@.width, height: one.layout.height}
      : {format: "png", width: @@OPTIONS@@.width, height: one.layout.height, scale: 1.5}));
    node.remove();
  }
  document.getElementById("in").remove();
  var out = document.createElement("pre");
  out.id = "out"; out.textContent = JSON.stringify(found); document.body.append(out);
}());
</script></body></html>"""


def browser() -> str | None:
    """Path of a headless-capable browser."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def rendered(figures: Sequence[dict[str, Any]], *, kind: str, width: int) -> list[bytes]:
    """Draw figures (plotly JSON) in a browser.

    Parameters
    ----------
    figures : sequence of dict
        ``data`` and ``layout`` with a height.
    kind : {"svg", "png"}
        Format.
    width : int
        Pixels.
    """
    from plotly.offline import get_plotlyjs

    from simulator.figures.report import embedded

    program = browser()
    if program is None:
        raise SystemExit("docs/build.py: no browser found; install the Debian package chromium.")
    options = json.dumps({"format": kind, "width": width})
    page = PAGE.replace("@@OPTIONS@@", options).replace("@@FIGURES@@", embedded(list(figures)))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text(page.replace("@@PLOTLY@@", get_plotlyjs()), encoding="utf-8")
        done = subprocess.run(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             f"--user-data-dir={folder}/profile", f"--window-size={width + 100},2000",
             "--virtual-time-budget=120000", "--dump-dom", file.as_uri()],
            capture_output=True, text=True, check=True, timeout=600,
        )  # fmt: skip
    found = re.search(r'<pre id="out">(.*?)</pre>', done.stdout, flags=re.DOTALL)
    if found is None:
        raise SystemExit("docs/build.py: the browser drew nothing.")
    texts = json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    return [_decoded(text) for text in texts]


def _decoded(url: str) -> bytes:
    from urllib.parse import unquote

    head, _, body = url.partition(",")
    return base64.b64decode(body) if head.endswith("base64") else unquote(body).encode()


def picture(folder: Path) -> None:
    """The README's picture: speedup against draft length, task by task, on a Pixel 9."""
    from simulator.figures import speedup_grid
    from simulator.studies.report_data import report_data

    data = report_data(devices=["pixel_9"], targets=["smollm2_135m"])
    section = data["sections"][0]
    rows = [row for part in section["speedup"] for row in part["records"]]
    device = data["devices"][0]
    figure = speedup_grid(
        rows, bands=["smollm2_mtp_head"],
        title=f"Speedup over plain decoding: SmolLM2-135M on {device['name']}",
        reading="Measured acceptance, predicted cost. Above the dashed line drafting pays; the large marker "
        "is the best draft length. Band and bars: ranges of the hardware numbers, shared by all drafters.",
    )  # fmt: skip
    _draw(figure.to_json(), folder, "speedup")


def _draw(text: str, folder: Path, stem: str) -> None:
    """Draw a figure for light and for dark pages."""
    from simulator.figures.theme import DARK, PAPER, darkened

    folder.mkdir(parents=True, exist_ok=True)
    for name, page, drawn in (("light", PAPER, text), ("dark", DARK[PAPER], darkened(text))):
        plain = json.loads(drawn)
        plain["layout"]["paper_bgcolor"] = page
        (image,) = rendered([plain], kind="svg", width=1000)
        _write(folder / f"{stem}-{name}.svg", image)


def atlas_picture(folder: Path) -> None:
    """The picture of the verify curves: v(w) of every curve, by kernel family."""
    from hw_profiles.verify_curves import curve_families, curve_records, load_curve
    from simulator.figures import curve_atlas

    curves = [load_curve(name) for names in curve_families().values() for name in names]
    figure = curve_atlas(
        curve_records(curves),
        title="Cost of a pass by its width, by kernel family",
        reading="Measured time of a pass of w rows over a pass of one. Flat: verifying drafts is free. On "
        "the dotted line it costs as much as decoding them one by one, above it more.",
    )
    _draw(figure.to_json(), folder, "verify-curves")


#: Rows of the README's claims table: id in ``draftscope claims -o json``, and what is compared, in short.
CLAIMS = {
    "1.standalone_total.all": "Pixel 9, SmolLM2-135M: head against a standalone drafter of its total size",
    "1.standalone_body.all": "the same, against one of its non-embedding size",
    "1.nano.55": "Pixel 9, Nano stand-in, acceptance 55 % better, the published maximum",
    "1.nano.0": "the same with equal acceptance",
    "2.total": "RAM saved an instance, Nano stand-in",
    "3.standalone_total": "smart replies: accepted drafts of the head over the standalone's",
    "4.notification_summary.4": "extra tokens a pass, notification summaries, K = 4",
    "4.proofread.4": "extra tokens a pass, proofreading, K = 4",
    "5.frozen_mtp_nano": "what the head adds to the time to the first token",
    "6.locked": "output of 5 drafters bit for bit that of the target, fixed pass width, float32",
    "7.plain": "energy a token saved against plain decoding, SmolLM2-135M",
    "8.read.gemma_4_e2b": "Gemma 4 E2B assistant: read by a draft pass",
    "9.cpu.summarize": "Galaxy S26 Ultra, CPU speedup on summaries, from the GPU's",
    "9.cpu.code": "the same on code",
}


def claims_table() -> str:
    """The claims table of the README, in Markdown; every cell comes from ``draftscope claims``."""
    from simulator.studies.claims import claims

    found = {claim.id: claim for claim in claims()}
    lines = ["| what | published | here [low..high] | how | verdict |", "|---|---|---:|---|---|"]
    for name, what in CLAIMS.items():
        claim = found[name]
        numbers = "-" if claim.value is None else f"{claim.value:.3g}"
        if claim.value is not None and claim.low is not None and claim.high is not None:
            numbers += f" [{claim.low:.3g}..{claim.high:.3g}]"
        cells = (what, claim.published, f"{numbers} {claim.unit}", claim.how, claim.verdict)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def write_claims(readme: Path) -> None:
    """Replace what stands between the markers of the README."""
    text = readme.read_text(encoding="utf-8")
    before, opened, rest = text.partition("<!-- claims -->\n")
    _, closed, after = rest.partition("<!-- /claims -->")
    if not opened or not closed:
        raise SystemExit(f"{readme}: the markers <!-- claims --> and <!-- /claims --> are missing")
    _write(readme, f"{before}{opened}{claims_table()}\n{closed}{after}".encode())


def notebooks(folder: Path) -> None:
    """Execute every notebook, and put a still image beside each interactive figure."""
    import jupytext
    import nbformat
    from nbclient import NotebookClient

    for source in sorted(folder.glob("*.py")):
        notebook = jupytext.read(source)
        NotebookClient(notebook, timeout=600, kernel_name="python3",
                       resources={"metadata": {"path": str(ROOT)}}).execute()  # fmt: skip
        for cell in notebook.cells:
            cell.metadata.pop("execution", None)
        bundles = [
            output["data"]
            for cell in notebook.cells
            for output in cell.get("outputs", ())
            if "application/vnd.plotly.v1+json" in output.get("data", {})
        ]
        if browser() is not None:
            figures = [bundle["application/vnd.plotly.v1+json"] for bundle in bundles]
            figures = [{**one, "layout": {**one["layout"], "paper_bgcolor": "#ffffff"}} for one in figures]
            for bundle, image in zip(bundles, rendered(figures, kind="png", width=900), strict=True):
                bundle["image/png"] = base64.b64encode(image).decode()
        _write(source.with_suffix(".ipynb"), nbformat.writes(notebook).encode())


def _write(path: Path, content: bytes) -> None:
    from simulator.files import whole_file

    with whole_file(path) as temporary:
        temporary.write_bytes(content)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = ("picture", "claims", "curves", "validation", "field_reports", "notebooks")
    parser.add_argument("what", choices=parts)
    what = parser.parse_args().what
    sys.path.insert(0, str(ROOT))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    if what == "picture":
        picture(ROOT / "docs" / "assets")
        atlas_picture(ROOT / "docs" / "assets")
    elif what == "claims":
        write_claims(ROOT / "README.md")
    elif what == "curves":
        from hw_profiles.curve_page import curve_page

        _write(ROOT / "docs" / "reference" / "verify_curves.md", curve_page().encode())
    elif what == "field_reports":
        from tests.field_report_checks import Asked
        from tests.field_report_page import page
        from tests.field_reports import read_excluded, read_reports

        asked = {stem: Asked(report) for stem, report in read_reports().items()}
        text = page(asked, read_excluded())
        _write(ROOT / "docs" / "background" / "field_reports.md", text.encode())
    elif what == "validation":
        from simulator.studies.validation.page import validation_page

        page, aggregates = validation_page()
        _write(ROOT / "docs" / "background" / "validation.md", page.encode())
        _write(
            ROOT / "docs" / "background" / "validation.json", f"{json.dumps(aggregates, indent=1)}\n".encode()
        )
    else:
        notebooks(ROOT / "notebooks")


if __name__ == "__main__":
    main()
