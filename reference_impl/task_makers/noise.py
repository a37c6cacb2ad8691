"""Typing and grammar errors as made on a phone; knows English spelling only through small word tables."""

from __future__ import annotations

import re

import numpy as np

from reference_impl.task_makers.grammar import pick

_NEIGHBOURS = {
    "q": "wa", "w": "qes", "e": "wrd", "r": "etf", "t": "ryg", "y": "tuh", "u": "yij", "i": "uok",
    "o": "ipl", "p": "ol", "a": "qsz", "s": "adw", "d": "sfe", "f": "dgr", "g": "fht", "h": "gjy",
    "j": "hku", "k": "jli", "l": "kop", "z": "xa", "x": "zcs", "c": "xvd", "v": "cbf", "b": "vng",
    "n": "bmh", "m": "nj",
}  # fmt: skip
_CONFUSED = {
    "their": "there", "there": "their", "they're": "their", "your": "you're", "you're": "your",
    "its": "it's", "it's": "its", "to": "too", "too": "to", "than": "then", "then": "than",
    "hear": "here", "here": "hear", "know": "no", "buy": "by", "by": "buy", "week": "weak",
    "meet": "meat", "where": "were", "were": "where", "whether": "weather", "weather": "whether",
    "new": "knew", "write": "right", "right": "write", "through": "threw", "piece": "peace",
    "lose": "loose", "quite": "quiet", "whole": "hole", "accept": "except", "affect": "effect",
    "break": "brake", "wait": "weight", "wear": "where", "see": "sea", "a": "an", "an": "a",
    "who": "whom", "of": "off", "off": "of", "one": "won", "two": "to", "our": "are",
}  # fmt: skip
_MISSPELT = {
    "definitely": "definately", "receive": "recieve", "received": "recieved", "tomorrow": "tommorow",
    "separate": "seperate", "because": "becuase", "believe": "beleive", "friend": "freind",
    "friends": "freinds", "until": "untill", "really": "realy", "beautiful": "beutiful",
    "restaurant": "resturant", "weird": "wierd", "necessary": "neccessary", "which": "wich",
    "their": "thier", "appointment": "apointment", "meeting": "meting", "different": "diffrent",
    "probably": "probly", "government": "goverment", "business": "buisness", "tonight": "tonite",
    "address": "adress", "beginning": "begining", "occurred": "occured", "always": "allways",
    "calendar": "calender", "people": "peple", "important": "importent", "interesting": "intresting",
    "library": "libary", "finally": "finaly", "available": "availible", "together": "togehter",
    "would": "woud", "should": "shoud", "every": "evry", "environment": "enviroment",
    "immediately": "immediatly",
}  # fmt: skip
_AGREEMENT = {
    "is": "are", "are": "is", "was": "were", "has": "have", "have": "has", "does": "do",
    "doesn't": "don't", "don't": "doesn't", "went": "goed", "bought": "buyed", "came": "come",
    "saw": "seen", "did": "done", "made": "maked", "gave": "give", "took": "take", "isn't": "aren't",
    "goes": "go", "wants": "want", "needs": "need", "says": "say", "makes": "make", "starts": "start",
}  # fmt: skip
_TABLES = (_CONFUSED, _MISSPELT, _AGREEMENT)


def _swap_letters(rng: np.random.Generator, word: str) -> str:
    """Swap two inner letters."""
    at = int(rng.integers(1, len(word) - 2))
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :]


def _typo(rng: np.random.Generator, word: str) -> str:
    """Drop, double, replace or swap one letter of a word of at least four letters."""
    kind = int(rng.integers(4))
    at = int(rng.integers(1, len(word) - 1))
    if kind == 0:
        return word[:at] + word[at + 1 :]
    if kind == 1:
        return word[:at] + word[at] + word[at:]
    if kind == 2:
        return word[:at] + pick(rng, list(_NEIGHBOURS.get(word[at].lower(), word[at]))) + word[at + 1 :]
    return _swap_letters(rng, word)


def _match_case(word: str, model: str) -> str:
    return word[:1].upper() + word[1:] if model[:1].isupper() else word


def _one_error(rng: np.random.Generator, tokens: list[str]) -> bool:
    """Put one error into a list of words in place; return whether the words changed."""
    at = int(rng.integers(len(tokens)))
    word = tokens[at]
    core = word.strip('.,!?;:"()')
    kind = rng.random()
    if kind < 0.35:
        options = [table[core.lower()] for table in _TABLES if core.lower() in table]
        if not options:
            return False
        tokens[at] = word.replace(core, _match_case(pick(rng, options), core))
    elif kind < 0.65:
        if len(core) < 4 or not core.isalpha():
            return False
        tokens[at] = word.replace(core, _typo(rng, core))
    elif kind < 0.73:
        if (
            core.lower() not in {"a", "an", "the", "to", "of", "is", "are", "at", "in", "for"}
            or len(tokens) < 5
        ):
            return False
        if at == 0 and len(tokens) > 1:
            tokens[1] = _match_case(tokens[1], word)
        del tokens[at]
    elif kind < 0.80:
        if "'" not in core:
            return False
        tokens[at] = word.replace("'", "")
    elif kind < 0.87:
        changed = word.lower() if word != word.lower() else word
        if changed == word:
            return False
        tokens[at] = changed
    elif kind < 0.94:
        if not re.search(r"[.,!?]$", word):
            return False
        tokens[at] = word[:-1]
    else:
        if not core.isalpha() or len(core) > 5 or word != core:
            return False
        tokens.insert(at, word if at else word.lower())
    return tokens[at : at + 1] != [word] or kind >= 0.94


def corrupt(rng: np.random.Generator, text: str, errors: int) -> str:
    """Return the text with about ``errors`` errors put into it; never returns the text unchanged.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of chance.
    text : str
        One to three correct sentences with at least one word of four letters.
    errors : int
        Wanted number of errors, at least 1.
    """
    tokens = text.split()
    done = 0
    for _ in range(60 * errors):
        done += _one_error(rng, tokens)
        if done >= errors and " ".join(tokens) != text:
            break
    result = " ".join(tokens)
    if result != text:
        return result
    at = max(range(len(tokens)), key=lambda index: len(tokens[index]))
    tokens[at] = tokens[at][:1] + tokens[at][2:]
    return " ".join(tokens)
