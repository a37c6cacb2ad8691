"""The task classes: splits that share nothing, the same prompts for the same seed, noise that is noise."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference_impl.errors import ReferenceImplError
from reference_impl.task_makers import chat, composed_code, data, grammar, noise, proofread
from reference_impl.tasks import SPLITS, TASKS, corpus_texts, prompts

TEMPLATES = {
    "notifications.toml": ("threads", "singles"),
    "replies.toml": ("threads", "talk"),
    "sentences.toml": ("sentences",),
    "chat.toml": ("templates",),
}
WANTED_TRAIN = {"notification_summary": 4000, "proofread": 4000, "smart_reply": 4000}


def _grams(text: str, size: int = 8) -> set[tuple[str, ...]]:
    words = text.split()
    return {tuple(words[at : at + size]) for at in range(len(words) - size + 1)}


def test_classes() -> None:
    assert list(TASKS) == [
        "notification_summary",
        "proofread",
        "smart_reply",
        "passage_summary",
        "code",
        "chat",
    ]
    assert {task.id: task.max_new_tokens for task in TASKS.values()} == {
        "notification_summary": 48,
        "proofread": 64,
        "smart_reply": 32,
        "passage_summary": 80,
        "code": 128,
        "chat": 128,
    }
    assert all(
        len(task.sources) == len(task.licences) > 0 and task.label and task.description
        for task in TASKS.values()
    )


@pytest.mark.parametrize("task", TASKS)
def test_enough_distinct_prompts(task: str) -> None:
    for split, count in (("test", 120), ("train", WANTED_TRAIN.get(task, 2000))):
        found = prompts(task, split, count, 0)
        assert len({prompt.request_id for prompt in found}) == count
        assert len({repr(prompt.messages) for prompt in found}) == count


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("split", SPLITS)
def test_messages_are_chat_messages(task: str, split: str) -> None:
    for prompt in prompts(task, split, 40, 3):
        assert (prompt.task, prompt.split) == (task, split)
        roles = [message["role"] for message in prompt.messages]
        assert roles[-1] == "user"
        assert set(roles) <= {"system", "user", "assistant"}
        text = "\n".join(message["content"] for message in prompt.messages)
        assert "  " not in text or task == "code"
        assert task == "code" or not re.search(r"[{}]|<\w+(#\w+)?>", text)
        assert all(message["content"].strip() == message["content"] != "" for message in prompt.messages)


@pytest.mark.parametrize("task", TASKS)
def test_deterministic_and_prefix(task: str) -> None:
    assert prompts(task, "train", 12, 5) == prompts(task, "train", 30, 5)[:12]
    assert prompts(task, "train", 12, 5) != prompts(task, "train", 12, 6)


def test_slot_words_are_disjoint() -> None:
    train, test = grammar.words("train"), grammar.words("test")
    for slot in train.keys() - {"day", "time"}:
        assert train[slot] and test[slot] and not set(train[slot]) & set(test[slot]), slot


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_are_distinct_and_disjoint(name: str) -> None:
    for key in TEMPLATES[name]:
        items = data.templates(name)[key]
        assert len(set(items)) == len(items), key
        train, test = grammar.part(items, "train"), grammar.part(items, "test")
        assert not set(train) & set(test) and sorted(train + test) == sorted(items)


@pytest.mark.parametrize("name", ["passages.jsonl.gz", "sentences.jsonl.gz"])
def test_documents_are_disjoint(name: str) -> None:
    keys = {row["key"] for row in data.rows(name)}
    held = {key for key in keys if data.in_split(key, "test")}
    assert 20 < len(held) < len(keys) / 2
    assert not set(data.texts(name, "train")) & set(data.texts(name, "test"))


def test_passages_have_the_promised_length() -> None:
    assert all(80 <= len(row["text"].split()) <= 150 for row in data.rows("passages.jsonl.gz"))


@pytest.mark.parametrize("task", TASKS)
def test_train_and_test_prompts_share_little_text(task: str) -> None:
    def body(split: str, count: int) -> list[str]:
        return ["\n".join(m["content"] for m in prompt.messages) for prompt in prompts(task, split, count, 1)]

    known: set[tuple[str, ...]] = set()
    for text in body("train", 1500):
        known |= _grams(text)
    for text in body("test", 100):
        grams = _grams(text)
        shared = [
            gram for gram in grams if gram in known and not set(gram) <= set(" ".join(_fixed(task)).split())
        ]
        assert len(shared) <= 0.2 * len(grams) + 4, (text, shared)


def _fixed(task: str) -> list[str]:
    """Words of the instructions, which are the same in both splits on purpose."""
    prompt = prompts(task, "train", 1, 0)[0]
    return [
        proofread.INSTRUCTION,
        *(message["content"] for message in prompt.messages if message["role"] == "system"),
    ]


def test_humaneval_is_only_in_the_test_split() -> None:
    names = {re.findall(r"def (\w+)", row["prompt"])[-1] for row in data.rows("HumanEval.jsonl.gz")}
    docs = {
        re.sub(r"\W+", " ", row["prompt"].split('"""')[1])[:60]
        for row in data.rows("HumanEval.jsonl.gz")
        if '"""' in row["prompt"]
    }
    assert len(names) > 150
    for prompt in prompts("code", "train", 2000, 0):
        text = re.sub(r"\W+", " ", prompt.messages[-1]["content"])
        assert not any(doc in text for doc in docs if len(doc) > 40)


def test_corpus() -> None:
    train = list(corpus_texts("train"))
    assert len(train) > 10_000
    assert sum(len(text.split()) for text in train) > 1_500_000
    assert all(100 < len(text) <= 2600 for text in train)


def test_no_text_behind_a_test_prompt_stands_in_a_training_text() -> None:
    """The first 200 characters of every held-out passage, and every held-out sentence of 12 words or more."""
    passages, sentences = (data.texts(name, "test") for name in ("passages.jsonl.gz", "sentences.jsonl.gz"))
    assert len(passages) == 478 and len(sentences) > 1_000
    heads = [passage[:200] for passage in passages] + [s for s in sentences if len(s.split()) >= 12]
    by_start: dict[tuple[str, ...], list[str]] = {}
    for head in heads:
        by_start.setdefault(tuple(head.split()[:6]), []).append(" ".join(head.split()))
    files = ("corpus.jsonl.xz", "passages.jsonl.gz", "sentences.jsonl.gz", "questions.jsonl.gz")
    words = " ".join("\n".join(data.texts(name, "train")) for name in files).split()
    joined = " ".join(words)
    starts = zip(*(words[at:] for at in range(6)), strict=False)
    met = sorted({start for start in starts if start in by_start})
    leaked = [head for start in met for head in by_start[start] if head in joined]
    assert leaked == []


def test_composed_heads_are_python() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        compile(composed_code.compose(rng) + "\n    pass\n", "head", "exec")


def test_chat_questions_of_packages_stay_in_train() -> None:
    found = {row["text"] for row in data.rows("questions.jsonl.gz")}
    rng = np.random.default_rng(2)
    assert not any(chat.make(rng, "test")[0] in found for _ in range(400))


@given(seed=st.integers(0, 10_000), errors=st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_noise_changes_the_text_but_not_much(seed: int, errors: int) -> None:
    clean = proofread.clean_text(np.random.default_rng(seed), "train")
    noisy = noise.corrupt(np.random.default_rng(seed), clean, errors)
    assert noisy != clean
    assert noisy == noise.corrupt(np.random.default_rng(seed), clean, errors)
    assert abs(len(noisy.split()) - len(clean.split())) <= errors
    kept = sum(word in noisy for word in clean.split())
    assert kept >= len(clean.split()) - 2 * errors


def test_noise_makes_every_kind_of_error() -> None:
    rng = np.random.default_rng(0)
    clean = "I don't know whether their friend is coming to the restaurant, because he is in Boston."
    seen = [noise.corrupt(rng, clean, 1) for _ in range(600)]
    for pattern in (
        r"\bdont\b",
        r"weather",
        r"\bthere\b",
        r"freind|freinds",
        r"resturant",
        r"boston\b",
        r"restaurant because",
        r"\b(\w+) \1\b",
        r"\bare\b",
        r"coming to restaurant",
    ):
        assert any(re.search(pattern, text) for text in seen), pattern
    assert len(set(seen)) > 100


def test_noise_needs_a_little_text_only() -> None:
    assert noise.corrupt(np.random.default_rng(0), "Thanks", 1) != "Thanks"


def test_slots_keep_their_word_within_a_scene() -> None:
    rng = np.random.default_rng(0)
    text = grammar.expand(rng, "<name#a> met <name#a> {and|and} <place#p>, <place#p>", "train")
    first, second = re.findall(r"^(\w+) met (\w+)", text)[0]
    assert first == second
    assert grammar.expand(rng, "we meet on on the 3rd", "train") == "We meet on the 3rd"
    assert grammar.expand(rng, "we meet on tomorrow", "train") == "We meet tomorrow"
    assert grammar.expand(rng, "until on the 3rd", "train") == "Until the 3rd"


@pytest.mark.parametrize(
    ("task", "split", "count", "words"),
    [
        ("proofreed", "test", 1, "'proofread'"),
        ("chat", "tset", 1, "'test'"),
        ("chat", "test", -1, "0 or more"),
        ("code", "test", 500, "164 distinct"),
    ],
)
def test_errors_say_what_is_allowed(task: str, split: str, count: int, words: str) -> None:
    with pytest.raises(ReferenceImplError, match=words):
        prompts(task, split, count, 0)
    if task == "chat" and count > 0:
        with pytest.raises(ReferenceImplError, match=words):
            next(corpus_texts(split))
