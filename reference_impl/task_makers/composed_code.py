"""Composes function heads like programming exercises, with computed examples; knows no HumanEval problem."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from reference_impl.task_makers.grammar import pick


@dataclass(frozen=True)
class Step:
    """One named operation: the words for it, a word for the function's name, and what it does."""

    words: str
    name: str
    apply: Callable[[Any], Any]


def _is_prime(value: int) -> bool:
    return value > 1 and all(value % factor for factor in range(2, int(value**0.5) + 1))


def _keep(test: Callable[[Any], bool]) -> Callable[[list[Any]], list[Any]]:
    return lambda items: [item for item in items if test(item)]


NUMBER_FILTERS = (
    Step("the even numbers", "even", _keep(lambda x: x % 2 == 0)),
    Step("the odd numbers", "odd", _keep(lambda x: x % 2 == 1)),
    Step("the positive numbers", "positive", _keep(lambda x: x > 0)),
    Step("the negative numbers", "negative", _keep(lambda x: x < 0)),
    Step("the prime numbers", "prime", _keep(_is_prime)),
    Step("the numbers divisible by three", "multiples_of_three", _keep(lambda x: x % 3 == 0)),
    Step("the numbers greater than ten", "large", _keep(lambda x: x > 10)),
    Step("the numbers with two digits", "two_digit", _keep(lambda x: 10 <= abs(x) < 100)),
    Step("the numbers that appear only once", "unique", lambda xs: [x for x in xs if xs.count(x) == 1]),
    Step("the numbers that appear more than once", "repeated", lambda xs: [x for x in xs if xs.count(x) > 1]),
    Step("the numbers at even positions", "every_second", lambda xs: xs[::2]),
    Step(
        "the numbers that are larger than their left neighbour",
        "rising",
        lambda xs: [b for a, b in pairwise(xs) if b > a],
    ),
    Step("all numbers", "all", list),
)
NUMBER_RESULTS = (
    Step("the sum of", "sum_of", sum),
    Step("the number of", "count", len),
    Step("the largest of", "max_of", lambda xs: max(xs, default=None)),
    Step("the smallest of", "min_of", lambda xs: min(xs, default=None)),
    Step("the sum of the squares of", "sum_squares_of", lambda xs: sum(x * x for x in xs)),
    Step("a list of the squares of", "squares_of", lambda xs: [x * x for x in xs]),
    Step("a sorted list of", "sorted", sorted),
    Step("a list, in reverse order, of", "reversed", lambda xs: xs[::-1]),
    Step("the average of", "mean_of", lambda xs: round(sum(xs) / len(xs), 2) if xs else 0.0),
    Step(
        "a list of the running totals of",
        "running_sum_of",
        lambda xs: [sum(xs[: i + 1]) for i in range(len(xs))],
    ),
    Step("a list of the absolute values of", "absolute", lambda xs: [abs(x) for x in xs]),
    Step(
        "the difference between the largest and the smallest of",
        "range_of",
        lambda xs: max(xs) - min(xs) if xs else 0,
    ),
    Step("True if there are at least two of", "has_two", lambda xs: len(xs) >= 2),
)
WORD_FILTERS = (
    Step("the words that start with a vowel", "vowel_words", _keep(lambda w: w[0].lower() in "aeiou")),
    Step("the words with more than four letters", "long_words", _keep(lambda w: len(w) > 4)),
    Step("the words with an even number of letters", "even_words", _keep(lambda w: len(w) % 2 == 0)),
    Step("the words that contain the letter 'e'", "words_with_e", _keep(lambda w: "e" in w)),
    Step("the words that read the same backwards", "palindromes", _keep(lambda w: w == w[::-1])),
    Step(
        "the words that start and end with the same letter", "matching_ends", _keep(lambda w: w[0] == w[-1])
    ),
    Step("the words without repeated letters", "isograms", _keep(lambda w: len(set(w)) == len(w))),
    Step("all words", "words", list),
)
WORD_RESULTS = (
    Step("a list of", "list", list),
    Step("the number of", "count", len),
    Step("the longest of", "longest", lambda ws: max(ws, key=len, default=None)),
    Step("an alphabetically sorted list of", "sorted", sorted),
    Step("a list, in upper case, of", "upper", lambda ws: [w.upper() for w in ws]),
    Step("a string that joins, with hyphens,", "join", "-".join),
    Step("a list of the lengths of", "lengths_of", lambda ws: [len(w) for w in ws]),
    Step("the total number of letters in", "letters_in", lambda ws: sum(len(w) for w in ws)),
    Step(
        "a dictionary from each word to its number of vowels for",
        "vowel_counts",
        lambda ws: {w: sum(c in "aeiou" for c in w) for w in ws},
    ),
    Step("a string of the first letters of", "initials_of", lambda ws: "".join(w[0] for w in ws)),
)
TEXT_RESULTS = (
    Step("the number of vowels in the string", "count_vowels", lambda s: sum(c in "aeiou" for c in s)),
    Step("the string with its words in reverse order", "reverse_words", lambda s: " ".join(s.split()[::-1])),
    Step(
        "the string without its vowels", "remove_vowels", lambda s: "".join(c for c in s if c not in "aeiou")
    ),
    Step(
        "a dictionary with the count of each letter, without blanks",
        "letter_counts",
        lambda s: {c: s.count(c) for c in sorted(set(s)) if c != " "},
    ),
    Step("the string with the first letter of every word in upper case", "title_words", str.title),
    Step(
        "the most frequent letter; of several, the first in the alphabet",
        "most_common",
        lambda s: max(sorted(set(s) - {" "}), key=s.count),
    ),
    Step(
        "the string with every letter moved one place ahead in the alphabet",
        "shift_letters",
        lambda s: "".join(chr((ord(c) - 96) % 26 + 97) if c.isalpha() else c for c in s),
    ),
    Step("the length of the last word", "last_word_length", lambda s: len(s.split()[-1])),
    Step(
        "the list of distinct letters in the order in which they appear",
        "distinct_letters",
        lambda s: list(dict.fromkeys(s.replace(" ", ""))),
    ),
    Step(
        "True if every word has a different length",
        "lengths_differ",
        lambda s: len({len(w) for w in s.split()}) == len(s.split()),
    ),
    Step(
        "the string with each word reversed in place",
        "flip_words",
        lambda s: " ".join(w[::-1] for w in s.split()),
    ),
)
INTEGER_RESULTS = (
    Step("the sum of the digits of n", "digit_sum", lambda n: sum(map(int, str(n)))),
    Step("the list of the divisors of n", "divisors", lambda n: [d for d in range(1, n + 1) if n % d == 0]),
    Step("the binary representation of n as a string", "to_binary", lambda n: bin(n)[2:]),
    Step("True if n is a prime number", "is_prime", _is_prime),
    Step("the list of the prime factors of n", "prime_factors", lambda n: _factors(n)),
    Step("the number with its digits in reverse order", "reverse_number", lambda n: int(str(n)[::-1])),
    Step(
        "the sum of all numbers from 1 to n that are divisible by 3 or 5",
        "sum_multiples",
        lambda n: sum(k for k in range(1, n + 1) if k % 3 == 0 or k % 5 == 0),
    ),
    Step("the number of steps of the Collatz sequence from n to 1", "collatz_steps", lambda n: _collatz(n)),
    Step("the largest digit of n", "largest_digit", lambda n: max(map(int, str(n)))),
    Step("True if n reads the same backwards", "is_palindrome", lambda n: str(n) == str(n)[::-1]),
    Step(
        "the list of the squares below n",
        "squares_below",
        lambda n: [k * k for k in range(1, n) if k * k < n],
    ),
)
NOUNS = (
    "apple", "river", "stone", "window", "level", "orange", "music", "eagle", "civic",
    "garden", "lamp", "noon", "tree", "island", "cloud", "radar", "mirror", "piano",
    "edge", "sugar", "winter", "fox", "open", "idea", "market",
)  # fmt: skip
OPENERS = (
    "Return",
    "Given {what}, return",
    "You are given {what}. Return",
    "Write a function that takes {what} and returns",
    "For {what}, compute and return",
    "Take {what} and return",
)
ENDINGS = (
    "",
    "",
    "",
    "\nReturn {empty!r} for an empty input.",
    "\nDo not change the input.",
    "\nThe input is never empty.",
)


def _factors(number: int) -> list[int]:
    found, factor = [], 2
    while number > 1:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    return found


def _collatz(number: int) -> int:
    steps = 0
    while number != 1:
        number = number // 2 if number % 2 == 0 else 3 * number + 1
        steps += 1
    return steps


def _type_name(value: Any) -> str:
    if isinstance(value, list):
        return f"List[{_type_name(value[0])}]" if value else "List[int]"
    if isinstance(value, dict):
        return "Dict[str, int]"
    return "Optional[int]" if value is None else type(value).__name__


def _head(
    rng: np.random.Generator,
    name: str,
    argument: str,
    what: str,
    words: str,
    apply: Callable[[Any], Any],
    inputs: list[Any],
) -> str:
    """Put one function head together."""
    results = [apply(value) for value in inputs]
    kind = {list: f"List[{type(inputs[0][0]).__name__}]" if isinstance(inputs[0], list) else ""}.get(
        type(inputs[0])
    ) or type(inputs[0]).__name__
    opener = pick(rng, OPENERS).format(what=what)
    ending = pick(rng, ENDINGS) if isinstance(inputs[0], list) else ""
    text = f"{opener} {words}.{ending.format(empty=apply([])) if '{empty' in ending else ending}"
    body = "\n".join(textwrap.fill(line, 76) for line in text.split("\n"))
    shown = list(zip(inputs, results, strict=True))[: int(rng.integers(1, 4))]
    if rng.random() < 0.7:
        examples = "\n".join(f">>> {name}({value!r})\n{result!r}" for value, result in shown)
    else:
        examples = (
            pick(rng, ["Examples:", "For example:", "Example:"])
            + "\n"
            + "\n".join(
                f"{name}({value!r}) {pick(rng, ['==', '=>', '➞'])} {result!r}" for value, result in shown
            )
        )
    typed = rng.random() < 0.6
    returns = _type_name(next((result for result in results if result), results[0]))
    signature = f"def {name}({argument}: {kind}) -> {returns}:" if typed else f"def {name}({argument}):"
    imports = sorted({word for word in ("Dict", "List", "Optional") if word in signature})
    prefix = f"from typing import {', '.join(imports)}\n\n\n" if imports else ""
    quotes = '"""'
    gap = pick(rng, ["\n", "\n\n"])
    docstring = textwrap.indent(f"{body}{gap}{examples}", "    ").lstrip()
    return f"{prefix}{signature}\n    {quotes} {docstring}\n    {quotes}"


def compose(rng: np.random.Generator) -> str:
    """Return one function head with docstring and examples."""
    family = int(rng.integers(10))
    if family < 5:
        source, result = pick(rng, NUMBER_FILTERS), pick(rng, NUMBER_RESULTS)
        inputs: list[Any] = [
            [int(x) for x in rng.integers(-5, 25, size=int(rng.integers(4, 8)))] for _ in range(3)
        ]
        argument = pick(rng, ["numbers", "nums", "values", "lst", "arr", "items"])
        what = pick(
            rng,
            [
                f"a list of integers {argument}",
                "a list of integers",
                "a list of numbers",
                f"the integers in {argument}",
            ],
        )
    elif family < 8:
        source, result = pick(rng, WORD_FILTERS), pick(rng, WORD_RESULTS)
        inputs = [
            [NOUNS[int(k)] for k in rng.choice(len(NOUNS), size=int(rng.integers(3, 6)), replace=False)]
            for _ in range(3)
        ]
        argument = pick(rng, ["words", "strings", "names", "tokens", "lst"])
        what = pick(rng, ["a list of words", f"a list of strings {argument}", "a list of lower-case words"])
    elif family < 9:
        result = pick(rng, TEXT_RESULTS)
        inputs = [
            " ".join(
                NOUNS[int(k)] for k in rng.choice(len(NOUNS), size=int(rng.integers(2, 5)), replace=False)
            )
            for _ in range(3)
        ]
        argument = pick(rng, ["text", "s", "string", "sentence", "message"])
        what = pick(
            rng, ["a string of words separated by spaces", f"a sentence {argument}", f"a string {argument}"]
        )
        return _head(rng, _named(rng, result.name), argument, what, result.words, result.apply, inputs)
    else:
        result = pick(rng, INTEGER_RESULTS)
        inputs = [int(value) for value in rng.choice(np.arange(4, 300), size=3, replace=False)]
        what = pick(rng, ["a positive integer n", "a whole number n greater than 1", "an integer n"])
        return _head(rng, _named(rng, result.name), "n", what, result.words, result.apply, inputs)
    name = _named(rng, f"{result.name}_{source.name}")
    return _head(
        rng,
        name,
        argument,
        what,
        f"{result.words} {source.words}",
        lambda items: result.apply(source.apply(items)),
        inputs,
    )


def _named(rng: np.random.Generator, name: str) -> str:
    return pick(rng, [name, name, f"get_{name}", f"find_{name}", f"compute_{name}"])
