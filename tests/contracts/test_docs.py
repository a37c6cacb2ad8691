"""The documentation keeps its promises: links resolve, tables agree with the code, targets exist."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import shutil
from collections import Counter
from pathlib import Path

import pytest

from simulator.acceptance.summary import summarise
from simulator.acceptance.trace import load_shipped
from simulator.cli import main
from simulator.studies.compare import compare

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
PAGES = (
    "index.md",
    "tutorial/ten_minutes.md",
    "guides/own_model.md",
    "guides/own_device.md",
    "guides/own_measurements.md",
    "guides/explain.md",
    "guides/phone_kit.md",
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


def all_commands(text: str) -> list[list[str]]:
    """Command lines in the fenced blocks of a page."""
    return [
        shlex.split(line, comments=True)[1:]
        for language, block in re.findall(r"^```(\w*)\n(.*?)^```", text, flags=re.S | re.M)
        if not language
        for line in block.replace("\\\n", " ").splitlines()
        if re.match(r"(\.venv/bin/)?draftscope ", line)
    ]


def documented_commands(root: Path) -> list[list[str]]:
    """Command lines of the documentation that need no file of the reader's and no torch."""
    commands = [words for path in markdown_files(root) for words in all_commands(path.read_text())]
    own = re.compile(r"(^|[/,])(my_|path/)")
    slow = {"train", "report", "collect"}
    return [words for words in commands if not slow & set(words[:2]) and not any(map(own.search, words))]


def test_documented_commands_run(repo_root, monkeypatch, capsys):
    commands = documented_commands(repo_root)
    assert len(commands) >= 8
    if not (repo_root / "simulator/acceptance/traces").exists():
        pytest.skip("no traces are shipped yet")
    monkeypatch.chdir(repo_root)
    (repo_root / "build").mkdir(exist_ok=True)  # the guide has this line too
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


LLAMA = {"model_type": "llama", "vocab_size": 49152, "hidden_size": 1024, "intermediate_size": 4096,
         "num_hidden_layers": 12, "num_attention_heads": 16, "num_key_value_heads": 4,
         "tie_word_embeddings": True, "torch_dtype": "bfloat16"}  # fmt: skip
FOLLOWED = ("docs/guides/own_model.md", "docs/guides/own_device.md", "README.md")


@pytest.fixture
def reader(repo_root, tmp_path, monkeypatch):
    """A folder of a reader of the documentation: the project's files, and models to ask about."""
    for name in ("hw_profiles", "simulator", "tests", "docs"):
        (tmp_path / name).symlink_to(repo_root / name)
    for folder, changes in (
        ("path/to", {}), ("my_model", {}), ("path/to/small", {"hidden_size": 256, "num_hidden_layers": 4}),
    ):  # fmt: skip
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "config.json").write_text(json.dumps({**LLAMA, **changes}))
    shutil.copy(repo_root / "simulator/models/gemma_3_1b.toml", tmp_path / "my_target.toml")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_toml_blocks(root: Path, folder: Path) -> set[str]:
    """Write every TOML block whose first line is a comment with a file name under that name."""
    names = set()
    for page in FOLLOWED:
        for name, text in re.findall(r"```toml\n# (my_\w+\.toml)\n(.*?)```", (root / page).read_text(), re.S):
            (folder / name).write_text(text)
            names.add(name)
    return names


def python_blocks(root: Path) -> list[tuple[str, str]]:
    return [
        (f"{path.relative_to(root)}, block {number}", text)
        for path in markdown_files(root)
        for number, text in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(), re.S), start=1)
    ]


def test_python_in_the_documentation_runs(repo_root, reader):
    blocks = python_blocks(repo_root)
    assert len(blocks) >= 4
    for where, text in blocks:
        exec(compile(text, where, "exec"), {"__name__": "documentation"})


def test_a_reader_who_follows_the_guides_gets_answers(repo_root, reader, monkeypatch, capsys):
    """The files are those that the guides show, the commands those that stand beside them."""
    names = write_toml_blocks(repo_root, reader)
    assert names >= {"my_drafter.toml", "my_small_model.toml", "my_phone.toml", "my_runtime.toml"}
    (trace,) = (text for _, text in python_blocks(repo_root) if "write_trace" in text)
    exec(compile(trace, "own_model.md", "exec"), {"__name__": "documentation"})
    used = set()
    for page in FOLLOWED:
        for words in all_commands((repo_root / page).read_text()):
            own = {each for word in words for each in re.findall(r"my_\w+\.toml", word)}
            if not own and not any("path/to" in word or "my_traces" in word for word in words):
                continue
            used |= own
            monkeypatch.setattr("sys.argv", ["draftscope", *words])
            with pytest.raises(SystemExit) as stop:
                raise SystemExit(main())
            printed = capsys.readouterr()
            assert not stop.value.code and printed.out.strip(), f"{shlex.join(words)}\n{printed.err}"
    assert used >= names


def test_the_tutorial_asks_at_the_draft_lengths_of_its_table(repo_root):
    asked = {
        words[words.index("--drafter") + 1]: int(words[words.index("--draft-length") + 1])
        for words in all_commands((repo_root / "docs/tutorial/ten_minutes.md").read_text())
        if words[0] == "predict"
    }
    found = compare(devices=["pixel_9"], targets=["smollm2_135m"], drafters=list(asked), intervals=False)
    assert {row.drafter: row.draft_length for row in found.rows if row.draft_length} == asked


def test_what_the_tutorial_says_of_tasks_is_what_the_traces_say():
    head, lookup = (load_shipped("smollm2_135m", name) for name in ("mtp_head", "ngram"))
    removed = Counter(head.request_tasks) - Counter(head.filtered(max_overlap=0.2).request_tasks)
    assert removed["smart_reply"] + removed["code"] > 0.8 * removed.total()
    options = {"draft_lengths": [4], "max_overlap": 0.2}
    of_head, of_lookup = (
        {row["task"]: row["mean_acceptance_length"] for row in summarise(trace, **options)}
        for trace in (head, lookup)
    )
    for lengths in (of_head, of_lookup):
        assert max(lengths, key=lengths.__getitem__) == "proofread"
    for task in ("smart_reply", "chat"):
        assert of_head[task] - 1 > 1.5 * (of_lookup[task] - 1)


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
