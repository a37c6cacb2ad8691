"""The first notebook runs from the shipped traces; its executed copy is up to date and visible anywhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import pytest
from nbclient import NotebookClient

NAME = "01_from_frozen_head_to_pixel"
PLOTLY = "application/vnd.plotly.v1+json"


def outputs(notebook: Any) -> list[dict[str, Any]]:
    return [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", ())]


def figures(notebook: Any) -> list[dict[str, Any]]:
    return [data for data in outputs(notebook) if PLOTLY in data]


@pytest.fixture(scope="module")
def source(repo_root: Path) -> Any:
    return jupytext.read(repo_root / "notebooks" / f"{NAME}.py")


@pytest.fixture(scope="module")
def executed(source: Any, repo_root: Path) -> Any:
    paths = [str(repo_root), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    client = NotebookClient(source, timeout=300, kernel_name="python3")
    client.execute(env=environment, cwd=str(repo_root))
    return source


@pytest.fixture(scope="module")
def kept(repo_root: Path) -> Any:
    return nbformat.read(repo_root / "notebooks" / f"{NAME}.ipynb", as_version=4)


def test_runs_from_the_shipped_traces(executed: Any) -> None:
    assert len(figures(executed)) >= 8
    text = "".join(data.get("text/markdown", "") for data in outputs(executed))
    assert "speedup by hand" in text and "On Pixel 9" in text


def test_every_figure_has_a_title_and_says_what_to_conclude(executed: Any) -> None:
    for data in figures(executed):
        title = data[PLOTLY]["layout"]["title"]
        assert title["text"] and len(title["subtitle"]["text"]) > 20


def test_needs_no_torch_and_only_public_names(source: Any) -> None:
    code = "\n".join(cell.source for cell in source.cells if cell.cell_type == "code")
    assert "torch" not in code and "reference_impl" not in code
    assert "._" not in code


def test_executed_copy_is_of_this_source(source: Any, kept: Any) -> None:
    assert [cell.source for cell in kept.cells] == [cell.source for cell in source.cells]


def test_executed_copy_shows_its_figures_without_scripts(kept: Any) -> None:
    assert len(figures(kept)) >= 8
    for data in figures(kept):
        assert data["image/png"], "an image for pages that run no script"
    for data in outputs(kept):
        assert "<script" not in data.get("text/html", "")
    assert not [
        output for cell in kept.cells for output in cell.get("outputs", ()) if output.output_type == "error"
    ]
