"""Builds the compressed data files beside it from unpacked packages; needs no network, knows no task.

Run ``python reference_impl/task_data/build.py FOLDER``. FOLDER holds the packages of SOURCES.md: ``npm/``
(npm packages), ``deb/x/`` (Debian packages, unpacked over one another) and ``wheels/x/`` (wheels, likewise).
Output: ``passages``, ``sentences``, ``questions``, ``code_train`` (``.jsonl.gz``) and ``corpus.jsonl.xz``.
Rows carry the key of their source document, by which they are put into the train or the test split.
"""

from __future__ import annotations

import ast
import bz2
import gzip
import html
import json
import lzma
import random
import re
import struct
import sys
import sysconfig
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from reference_impl.task_makers.data import in_split

HERE = Path(__file__).parent
Keyed = tuple[str, str]
SKIPPED_FOLDERS = {
    "test",
    "tests",
    "idlelib",
    "site-packages",
    "dist-packages",
    "lib2to3",
    "testing",
    "benchmarks",
    "deprecated",
}
CODE_PACKAGES = (
    "more_itertools",
    "toolz",
    "boltons",
    "pydash",
    "funcy",
    "algorithms",
    "iteration_utilities",
    "networkx",
    "sympy",
    "inflection.py",
)
STDLIB_CORPUS_WORDS = 350_000
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'(])")
HELD_WORDS = 12  # shorter sentences are boilerplate such as "Click Keyboard in the sidebar."


def tidy(text: str) -> str:
    """Return the text without tags, entities, typographic quotes and runs of blanks."""
    text = html.unescape(re.sub(r"<[^>]+>", " ", text))
    for odd, plain in (
        ("\u2019", "'"),
        ("\u2018", "'"),
        ("\u201c", '"'),
        ("\u201d", '"'),
        ("\u2013", "-"),
        ("\u2014", " - "),
    ):
        text = text.replace(odd, plain)
    text = re.sub(r"\s+([,.;:!?)])", r"\1", re.sub(r"\s+", " ", text))
    text = re.sub(r"\(\s*[,;]*\s*\)", "", text).replace("( ", "(").replace("++ ", "")
    return re.sub(r"\s+([,.;:!?)])", r"\1", re.sub(r"\s+", " ", text)).strip()


def chunks(text: str, low: int, high: int) -> Iterator[str]:
    """Cut a text into runs of whole sentences of ``low`` to ``high`` words."""
    run: list[str] = []
    count = 0
    for sentence in SENTENCE_END.split(text):
        words = len(sentence.split())
        if count >= low and count + words > high:
            yield " ".join(run)
            run, count = [], 0
        run.append(sentence)
        count += words
    if low <= count <= high:
        yield " ".join(run)


def factbook(root: Path) -> Iterator[Keyed]:
    """Yield the descriptive paragraphs of the World Factbook; surnames in capitals are set in title case."""
    caps = re.compile(r"(?<=[a-z.] )([A-Z][A-Z'-]{3,})\b")
    for path in sorted(root.glob("npm/factbook*/package/*/*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        parts = [
            data.get("Introduction", {}).get("Background", {}),
            data.get("Economy", {}).get("Economy - overview", {}),
        ]
        for entry in parts:
            text = tidy(entry.get("text", ""))
            if text:
                yield f"fact:{path.stem}", caps.sub(lambda match: match.group(1).title(), text)


def _plain_wiki(text: str) -> str:
    text = re.sub(
        r"<!--.*?-->|<ref[^>/]*/>|<ref[^>]*>.*?</ref>|<(math|gallery|source|table)[^>]*>.*?</\1>",
        "",
        text,
        flags=re.S,
    )
    for _ in range(6):
        text = re.sub(r"\{\{[^{}]*\}\}|\{\|(?:(?!\{\|).)*?\|\}", "", text, flags=re.S)
        text = re.sub(r"\[\[(?:File|Image|Category)[^\[\]]*\]\]", "", text)
        text = re.sub(r"\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]", r"\1", text)
    text = re.sub(r"\[https?://\S+ ?([^\]]*)\]", r"\1", text)
    return text.replace("'''", "").replace("''", "")


def wikipedia(root: Path) -> Iterator[Keyed]:
    """Yield the prose paragraphs of the Wikipedia sample in gensim's test data."""
    path = next(root.glob("wheels/x/gensim/test/test_data/enwiki*.bz2"))
    dump = bz2.decompress(path.read_bytes()).decode("utf-8")
    for title, body in re.findall(r"<title>(.*?)</title>.*?<text[^>]*>(.*?)</text>", dump, flags=re.S):
        if body.lstrip().lower().startswith("#redirect"):
            continue
        for paragraph in _plain_wiki(html.unescape(body)).split("\n"):
            text = tidy(paragraph)
            if (
                len(text.split()) >= 25
                and text[:1].isalpha()
                and not re.search(r"[{}|\[\]=]|https?:| -\w", text)
            ):
                yield f"wiki:{title}", text


def gnome_help(root: Path) -> Iterator[Keyed]:
    """Yield the paragraphs of GNOME Help, one page at a time."""
    for path in sorted(root.glob("deb/x/usr/share/help/C/gnome-help/*.page")):
        text = re.sub(
            r"<info>.*?</info>|<comment>.*?</comment>|<comment .*?</comment>|<!--.*?-->",
            "",
            path.read_text(encoding="utf-8"),
            flags=re.S,
        )
        paragraphs = [tidy(match) for match in re.findall(r"<p>(.*?)</p>", text, flags=re.S)]
        yield (
            f"gnome:{path.stem}",
            " ".join(p if p.endswith((".", "!", "?", ":")) else p + "." for p in paragraphs if p),
        )


def html_docs(root: Path, folder: str, key: str) -> Iterator[Keyed]:
    """Yield the paragraphs of a folder of HTML documentation."""
    for path in sorted(root.glob(f"deb/x/usr/share/{folder}/**/*.html")):
        text = path.read_text(encoding="utf-8", errors="replace")
        paragraphs = [tidy(match) for match in re.findall(r"<p\b[^>]*>(.*?)</p>", text, flags=re.S)]
        text = " ".join(p for p in paragraphs if len(p.split()) > 6 and p[-1:] in ".!?:")
        if len(text) > 300:
            yield f"{key}:{path.stem}", text


def python_docs(root: Path) -> Iterator[Keyed]:
    """Yield the prose of the Python documentation's reStructuredText sources, code examples kept."""
    for path in sorted(root.glob("deb/x/usr/share/doc/python3.11/html/_sources/**/*.rst.txt")):
        text = path.read_text(encoding="utf-8")
        text = re.sub(r":[\w:]+:`!?~?([^`<]*?)(?: ?<[^>]*>)?`", r"\1", text).replace("``", "")
        blocks = [
            b.strip("\n")
            for b in re.split(r"\n\s*\n", text)
            if len(b.split()) > 8 and not b.lstrip().startswith((".. ", "+-", ":"))
        ]
        yield (
            f"python:{path.stem}",
            "\n\n".join(re.sub(r"(?<=\S)\n(?=\w)", " ", b) if not b.startswith(" ") else b for b in blocks),
        )


def austen(root: Path) -> Iterator[Keyed]:
    """Yield the novels of Jane Austen out of the R package's data file (compressed R serialisation)."""
    raw = (root / "deb/x/usr/lib/R/site-library/janeaustenr/data/Rdata.rdb").read_bytes()
    at = 0
    number = 0
    while at + 4 < len(raw):
        stream = zlib.decompressobj()
        try:
            data = stream.decompress(raw[at + 4 :])
        except zlib.error:
            at += 1
            continue
        at = len(raw) - len(stream.unused_data)
        lines = []
        for match in re.finditer(rb"\x00\x04\x00\x09(.{4})", data, flags=re.S):
            size = struct.unpack(">i", match.group(1))[0]
            if 0 <= size < 500:
                lines.append(data[match.end() : match.end() + size].decode("utf-8", errors="replace"))
        text = "\n".join(lines)
        if len(text) > 100_000:
            number += 1
            yield (
                f"austen:{number}",
                "\n\n".join(
                    tidy(block.replace("_", "")) for block in text.split("\n\n") if len(block.split()) > 3
                ),
            )


def wordnet(root: Path) -> Iterator[Keyed]:
    """Yield definitions with their examples, words of one file order together."""
    for part in ("noun", "verb", "adj", "adv"):
        for line in (
            (root / f"deb/x/usr/share/wordnet/data.{part}").read_text(encoding="latin-1").splitlines()
        ):
            if line.startswith("  ") or '"' not in line:
                continue
            head, _, gloss = line.partition(" | ")
            word = head.split(" ")[4].replace("_", " ").split("(")[0]
            yield f"wordnet:{part}", f"{word}: {tidy(gloss)}."


def talk(root: Path) -> Iterator[Keyed]:
    """Yield the conversations of the chatterbot corpus as lines."""
    for path in sorted(root.glob("wheels/x/chatterbot_corpus/data/english/*.yml")):
        if path.stem in ("botprofile", "gossip", "politics", "humor", "ai"):
            continue
        for entry in path.read_text(encoding="utf-8").split("\n- - ")[1:]:
            turns = [tidy(turn).strip("'\"") for turn in re.split(r"\n  - ", entry)]
            if all(turns) and len(turns) > 1:
                yield f"talk:{path.stem}", "\n".join(turns)


def functions(paths: Iterable[Path], *, short: bool) -> Iterator[Keyed]:
    """Yield (key, head) of documented functions without self; ``short`` heads only, else the whole source."""
    for path in paths:
        if SKIPPED_FOLDERS & set(path.parts):
            continue
        try:
            source = path.read_text(encoding="utf-8")
            tree = ast.parse(source)
        except (UnicodeDecodeError, SyntaxError):
            continue
        for node in tree.body:
            if not isinstance(node, ast.FunctionDef):
                continue
            doc = ast.get_docstring(node)
            if not short:
                text = ast.get_source_segment(source, node) or ""
                if 300 <= len(text) <= 2500:
                    yield f"code:{path.stem}", text
                continue
            if node.name.startswith("_") or not doc or len(node.body) < 2 or len(node.args.args) > 4:
                continue
            doc = re.split(r"\n\s*(?:Notes|References|See Also|Raises|\.\. versionadded|See also)\b", doc)[
                0
            ].strip()
            if not 30 <= len(doc) <= 600 or ":param" in doc or "deprecated" in doc.lower() or "|" in doc:
                continue
            returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
            body = "\n".join("    " + line if line else "" for line in doc.splitlines())
            yield (
                f"code:{path.stem}",
                f'def {node.name}({ast.unparse(node.args)}){returns}:\n    """ {body.strip()}\n    """',
            )


def good_sentence(text: str) -> bool:
    """Return whether a sentence is plain enough to be proofread."""
    words = text.split()
    plain = re.fullmatch(r"[A-Za-z0-9,.'\-%$ ;:]+[.!?]", text) is not None
    return (
        plain
        and 8 <= len(words) <= 24
        and text[0].isupper()
        and words[0] not in ("This", "It", "He", "She")
        and text.count(",") <= 3
    )


def rows(items: Iterable[Keyed]) -> list[dict[str, str]]:
    """Return rows in order, each text once, under the first key that has it."""
    first: dict[str, str] = {}
    for key, text in items:
        first.setdefault(text, key)
    return [{"key": key, "text": text} for text, key in first.items()]


def held_sentences(data: Iterable[dict[str, str]]) -> set[str]:
    """Return the sentences of `HELD_WORDS` words or more of the documents in the test split."""
    texts = (row["text"] for row in data if in_split(row["key"], "test"))
    return {s for text in texts for s in SENTENCE_END.split(text) if len(s.split()) >= HELD_WORDS}


def without_held(data: Iterable[dict[str, str]], held: set[str]) -> list[dict[str, str]]:
    """Return the rows, sentences in ``held`` cut out of training rows: two documents may share a sentence."""
    kept = []
    for row in data:
        text = row["text"]
        if in_split(row["key"], "train"):
            for sentence in held.intersection(SENTENCE_END.split(text)):
                text = re.sub(re.escape(sentence) + r"\s*", "", text).rstrip()
        kept.append({**row, "text": text})
    return kept


def write_jsonl(path: Path, data: list[dict[str, str]]) -> None:
    """Write one row a line, gzip or xz by the name; no time stamp, so a rebuild gives the same bytes."""
    raw = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in data).encode("utf-8")
    packed = (
        lzma.compress(raw, preset=9 | lzma.PRESET_EXTREME)
        if path.suffix == ".xz"
        else gzip.compress(raw, 9, mtime=0)
    )
    path.write_bytes(packed)
    words = sum(len(row["text"].split()) for row in data)
    sys.stdout.write(f"{path.name}: {len(data)} rows, {words} words, {len(packed)} bytes\n")


def documents(source: Iterable[Keyed]) -> Iterator[Keyed]:
    """Cut long texts at paragraph or sentence ends and join short neighbours: 400 to 2000 characters."""
    held, held_key = "", ""
    for key, text in source:
        pieces = [
            piece
            for block in text.split("\n\n")
            for piece in (chunks(block, 60, 250) if len(block) > 1800 else [block])
        ]
        for piece in pieces:
            if held and (key != held_key or len(held) + len(piece) > 1900):
                if 400 <= len(held) <= 2000:
                    yield held_key, held
                held = ""
            held, held_key = f"{held}\n{piece}" if held else piece, key


def main(root: Path) -> None:
    """Write every data file."""
    rng = random.Random(0)
    wiki, facts, help_pages = list(wikipedia(root)), list(factbook(root)), list(gnome_help(root))
    passages = [
        (key, piece)
        for key, text in wiki + facts + help_pages
        for piece in chunks(text, 80, 150)
        if 80 <= len(piece.split()) <= 150
    ]
    sentences = [
        (key, s)
        for key, text in wiki + facts + help_pages
        for s in re.split(r"(?<=[.!?])\s+(?=[A-Z])", text)
        if good_sentence(s)
    ]
    rng.shuffle(sentences)
    write_jsonl(HERE / "sentences.jsonl.gz", rows(sentences[:9000]))
    held = held_sentences(rows(passages) + rows(sentences[:9000]))
    write_jsonl(HERE / "passages.jsonl.gz", without_held(rows(passages), held))
    questions = [(key, text.split("\n")[0]) for key, text in talk(root)]
    keep = [
        (key, q)
        for key, q in questions
        if q.endswith("?") and 4 <= len(q.split()) <= 25 and "you " not in q.lower()
    ]
    write_jsonl(HERE / "questions.jsonl.gz", rows(keep))
    wheels = root / "wheels/x"
    folders = [wheels / name for name in CODE_PACKAGES]
    package_files = [
        f for folder in folders for f in (sorted(folder.rglob("*.py")) if folder.is_dir() else [folder])
    ]
    stdlib = sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py"))
    heads_from = [
        f
        for f in stdlib + package_files
        if "sympy" not in f.parts or "ntheory" in f.parts or "utilities" in f.parts
    ]
    write_jsonl(HERE / "code_train.jsonl.gz", rows(functions(heads_from, short=True)))
    code = list(functions(stdlib, short=False))
    rng.shuffle(code)
    total, end = 0, 0
    while end < len(code) and total < STDLIB_CORPUS_WORDS:
        total += len(code[end][1].split())
        end += 1
    sources = (
        wiki, facts, help_pages, python_docs(root), austen(root),
        html_docs(root, "doc/postgresql-doc-15", "postgres"), wordnet(root), talk(root),
    )  # fmt: skip
    prose = [document for source in sources for document in documents(source)] + code[:end]
    write_jsonl(HERE / "corpus.jsonl.xz", without_held(rows(prose), held))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
