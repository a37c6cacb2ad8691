"""The documentation keeps its promises: links resolve, tables agree with the code, targets exist."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from simulator.cli import main

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
PAGES = (
    "index.md",
    "tutorial/ten_minutes.md",
    "guides/own_model.md",
    "guides/own_device.md",
    "guides/own_measurements.md",
    "guides/explain.md",
    "reference/glossary.md",
    "reference/metrics.md",
    "reference/profiles.md",
    "reference/verify_curves.md",
    "reference/file_formats.md",
    "reference/cli.md",
    "background/model.md",
    "background/engine.md",
    "background/limits.md",
    "background/field_reports.md",
)


def markdown_files(root: Path) -> list[Path]:
    return sorted([*root.glob("*.md"), *root.glob("docs/**/*.md")])


def anchor(heading: str) -> str:
    """Anchor that a forge makes of a heading."""
    plain = re.sub(r"[`*$\\]", "", heading.strip().lower())
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def anchors_of(path: Path) -> set[str]:
    return {anchor(line.lstrip("#")) for line in path.read_text().splitlines() if line.startswith("#")}


@pytest.mark.parametrize("page", PAGES)
def test_page_exists_and_has_a_title(page, repo_root):
    assert (repo_root / "docs" / page).read_text().startswith("# ")


def test_relative_links_resolve(repo_root):
    broken = []
    for path in markdown_files(repo_root):
        prose = re.sub(r"```.*?```", "", path.read_text(), flags=re.S)
        for match in LINK.finditer(prose):
            link = match.group(1) or match.group(2)
            if re.match(r"[a-z]+:", link):
                continue
            name, _, fragment = link.partition("#")
            goal = (path.parent / name).resolve() if name else path
            if not goal.exists() or (fragment and fragment not in anchors_of(goal)):
                broken.append(f"{path.relative_to(repo_root)}: {link}")
    assert not broken, "\n".join(broken)


def test_every_metric_is_documented_as_the_registry_has_it(repo_root):
    registry = pytest.importorskip("simulator.results.registry")
    page = (repo_root / "docs/reference/metrics.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+?) \| ([^|]+?) \|", page, re.M)
    assert {(name, unit, meaning) for name, unit, meaning in rows} == {
        (metric.name, metric.unit or "–", metric.description) for metric in registry.METRICS.values()
    }


def test_code_blocks_with_make_name_real_targets(repo_root):
    targets = set(re.findall(r"^([a-z]+):", (repo_root / "Makefile").read_text(), re.M))
    for path in markdown_files(repo_root):
        named = set(re.findall(r"^make ([a-z]+)", path.read_text(), re.M))
        assert named <= targets, path.name


def documented_commands(root: Path) -> list[list[str]]:
    """Command lines of the documentation that need no file of the reader's and no torch."""
    commands = []
    for path in markdown_files(root):
        for block in re.findall(r"```\n(.*?)```", path.read_text(), flags=re.S):
            for line in block.replace("\\\n", " ").splitlines():
                if re.match(r"(\.venv/bin/)?draftscope ", line):
                    commands.append(shlex.split(line, comments=True)[1:])
    own = re.compile(r"(^|[/,])(my_|path/)")
    slow = {"train", "report", "collect"}
    return [words for words in commands if not slow & set(words[:2]) and not any(map(own.search, words))]


def test_documented_commands_run(repo_root, monkeypatch, capsys):
    commands = documented_commands(repo_root)
    assert len(commands) >= 8
    if not (repo_root / "simulator/acceptance/traces").exists():
        pytest.skip("no traces are shipped yet")
    monkeypatch.chdir(repo_root)
    failed = []
    for words in dict.fromkeys(map(tuple, commands)):
        monkeypatch.setattr("sys.argv", ["draftscope", *words])
        try:
            code = main() or 0
        except SystemExit as stop:
            code = stop.code or 0
        printed = capsys.readouterr()
        if code or not printed.out.strip():
            failed.append(f"draftscope {shlex.join(words)}\n  exit {code}: {printed.err.strip()}")
    assert not failed, "\n".join(failed)


def test_every_command_is_documented(repo_root):
    page = (repo_root / "docs/reference/cli.md").read_text()
    for name in ("compare", "predict", "simulate", "explain", "train", "claims", "report"):
        assert f"| `{name}` |" in page
    for name in ("trace summary", "trace diff", "trace collect", "profiles list"):
        assert f"`{name}`" in page


def test_claims_table_of_the_readme_is_what_the_command_prints(repo_root):
    spec = importlib.util.spec_from_file_location("docs_build", repo_root / "docs" / "build.py")
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    assert build.claims_table() in (repo_root / "README.md").read_text(encoding="utf-8")
