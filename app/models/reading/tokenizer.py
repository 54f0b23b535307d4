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

#: By character code: lower-case letters and digits, and a space for everything else.
_LETTERS = "".join(chr(code).lower() if chr(code).isalnum() else " " for code in range(128))
#: Typographic characters that separate words and fold to no letter. Without them, most texts are ASCII.
_SIGNS = re.compile("[\xa0\xab\xb7\xbb\u2010-\u2027\u2030-\u2034\u2039\u203a\u20ac\u2190-\u2193]+")
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
    return split_text(text)[0]


def find_plain_words(text: str) -> set[str]:
    """Return the different words of a text in lower case and with their accents, as stemmers expect them."""
    return split_text(text)[1]


def split_text(text: str) -> tuple[list[str], set[str]]:
    """Return :func:`split_words` and :func:`find_plain_words` of a text.

    Indexing needs both, and in ASCII they are the same words: a tenth of the time of two searches.
    """
    if not text.isascii():
        text = _SIGNS.sub(" ", text)
        if not text.isascii():
            return _split_folded(fold_text(text)), _find_accented(text)
    words = text.translate(_LETTERS).split()
    plain = set(words)
    return _shorten(words) if max(map(len, plain), default=0) > LONGEST else words, plain


def _split_folded(folded: str) -> list[str]:
    if folded.isascii():
        return _shorten(folded.translate(_LETTERS).split())
    found = _word().findall(folded)
    if _RUN.search(folded) is None:
        return _shorten(found)
    return [piece for word in found for piece in _pieces(word)]


def _find_accented(text: str) -> set[str]:
    lower = unicodedata.normalize("NFC", _POINTS_OF_SCRIPTS.sub("", text)).lower()
    return set(lower.translate(_LETTERS).split() if lower.isascii() else _word().findall(lower))


def _shorten(words: list[str]) -> list[str]:
    return [word[:LONGEST] for word in words]


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
