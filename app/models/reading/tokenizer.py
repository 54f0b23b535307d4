"""Tokenizer of the search: split texts and queries into words in the same way.

Case, accents and vowel points are ignored. Chinese, Japanese, Korean, Thai, Lao, Khmer and Burmese are
written without spaces between words, so a run of their characters is split into overlapping pairs. In the
last four, a character has its vowel signs and tone marks with it.
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
#: Thai and Lao, Burmese, Khmer.
_SIGNED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
#: A vowel of Thai and of Lao that is taken apart when text is folded.
_VOWELS = (("\u0e4d\u0e32", "\u0e33"), ("\u0ecd\u0eb2", "\u0eb3"))
_RUN = re.compile(f"[{_CJK}]+|[{_SIGNED}]+")
_IS_SIGNED = re.compile(f"[{_SIGNED}]")


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
    for parts, whole in _VOWELS:
        folded = folded.replace(parts, whole)
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
            yield from _find_pair_spans(match, found) if _RUN.search(match[0]) else ((*match.span(), found),)


def _find_pair_spans(match: re.Match[str], found: list[str]) -> Iterator[tuple[int, int, list[str]]]:
    """Yield each of the pairs of a word with its place, if folding leaves them apart."""
    spans = list(_find_pieces(match[0]))
    words = [split_words(match[0][begin:end]) for begin, end in spans]
    if [piece for pieces in words for piece in pieces] != found:
        yield *match.span(), found
        return
    for (begin, end), pieces in zip(spans, words, strict=True):
        yield match.start() + begin, match.start() + end, pieces


@functools.cache
def _word() -> re.Pattern[str]:
    r"""Return the pattern of a word; ``\w`` alone would split Hindi and Thai at their vowel signs."""
    signs = "".join(c for c in map(chr, range(0x300, 0x10000)) if unicodedata.category(c) in ("Mn", "Mc"))
    return re.compile(f"[^\\W_](?:[^\\W_]|[{signs}])*")


@functools.cache
def _character() -> re.Pattern[str]:
    """Return the pattern of a character with the signs that follow it."""
    signs = "".join(c for c in map(chr, range(0xE00, 0x1800)) if unicodedata.category(c) in ("Mn", "Mc"))
    return re.compile(f".[{signs}]*")


def _pieces(word: str) -> Iterator[str]:
    return (word[begin:end][:LONGEST] for begin, end in _find_pieces(word))


def _find_pieces(word: str) -> Iterator[tuple[int, int]]:
    """Yield begin and end of the pairs of runs, and of what is between them."""
    at = 0
    for run in _RUN.finditer(word):
        if at < run.start():
            yield at, run.start()
        at = run.end()
        if _IS_SIGNED.match(run[0]):
            ends = [run.start() + one.end() for one in _character().finditer(run[0])]
        else:
            ends = list(range(run.start() + 1, at + 1))
        begins = [run.start(), *ends]
        for number in range(max(1, len(ends) - 1)):
            yield begins[number], ends[min(number + 1, len(ends) - 1)]
    if at < len(word):
        yield at, len(word)
