"""Tokenizer of the search: split texts and queries into words in the same way.

Case, accents and vowel points are ignored. Chinese, Japanese and Korean are written without spaces
between words, so a run of their characters is split into overlapping pairs.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterator

#: Most characters of a word; a longer one is an address or a key, and only its beginning is searchable.
LONGEST = 40

_ASCII = re.compile(r"[a-z0-9]+")
#: Accents, Hebrew points, Arabic vowels and the tatweel, which only lengthens a word.
_POINTS = re.compile("[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u0640\u064b-\u065f\u0670]")
#: Hebrew points, Arabic vowels and the tatweel alone.
_POINTS_OF_SCRIPTS = re.compile("[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u0640\u064b-\u065f\u0670]")
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
_RUN = re.compile(f"[{_CJK}]+")


def fold_text(text: str) -> str:
    """Return a text for comparison: no case, no accents."""
    if text.isascii():
        return text.lower()
    # Twice: some capitals fold to a letter with an accent, and some accents only go after decomposition.
    bare = _POINTS.sub("", unicodedata.normalize("NFKD", text.casefold()))
    return unicodedata.normalize("NFKC", bare.casefold())


def split_words(text: str) -> list[str]:
    """Return the words of a text in order, as stored and compared."""
    folded = fold_text(text)
    if folded.isascii():
        return [word[:LONGEST] for word in _ASCII.findall(folded)]
    found = _word().findall(folded)
    if _RUN.search(folded) is None:
        return [word[:LONGEST] for word in found]
    return [piece for word in found for piece in _pieces(word)]


def find_plain_words(text: str) -> set[str]:
    """Return the different words of a text in lower case and with their accents, as stemmers expect them."""
    lower = (
        text.lower()
        if text.isascii()
        else unicodedata.normalize("NFC", _POINTS_OF_SCRIPTS.sub("", text)).lower()
    )
    return set(_ASCII.findall(lower) if lower.isascii() else _word().findall(lower))


def find_word_spans(text: str) -> Iterator[tuple[int, int, list[str]]]:
    """Yield start, end and the folded words of each word of a text to be shown."""
    for match in _word().finditer(text):
        if found := split_words(match[0]):
            yield match.start(), match.end(), found


@functools.cache
def _word() -> re.Pattern[str]:
    r"""Return the pattern of a word; ``\w`` alone would split Hindi and Thai at their vowel signs."""
    signs = "".join(c for c in map(chr, range(0x300, 0x10000)) if unicodedata.category(c) in ("Mn", "Mc"))
    return re.compile(f"[^\\W_](?:[^\\W_]|[{signs}])*")


def _pieces(word: str) -> Iterator[str]:
    at = 0
    for run in _RUN.finditer(word):
        yield from _cut(word[at : run.start()])
        pair = run[0]
        yield from (pair[i : i + 2] for i in range(max(1, len(pair) - 1)))
        at = run.end()
    yield from _cut(word[at:])


def _cut(word: str) -> Iterator[str]:
    if word:
        yield word[:LONGEST]
