"""Stems: what the forms of a word have in common, by language. The only module with PyStemmer.

A stem is folded like a word and marked with its language: ``de:haus``. So a stem of one language never meets
another language's.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable
from typing import Any

from app.models.reading.languages import LANGUAGES, find_script, guess_language
from app.models.reading.tokenizer import LONGEST, fold_text

#: Language → Snowball's name of it.
_ALGORITHMS = {
    "ar": "arabic",
    "ca": "catalan",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "eo": "esperanto",
    "es": "spanish",
    "et": "estonian",
    "eu": "basque",
    "fa": "persian",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "ne": "nepali",
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
    "yi": "yiddish",
}
#: Words whose stems a process remembers, per language; then it starts anew.
_REMEMBERED = 50_000
#: Letters at the beginning that forms of a word have in common; and without knowing the language.
_ALIKE, _SURELY_ALIKE = 2, 4
#: Arabic conjunctions, prepositions and articles, which are written as part of the word.
_ARABIC_PREFIX = re.compile("(?:[وف]?(?:[بك]?ال|لل)|و)(?=.{3})")


def make_stems(text: str, words: Collection[str], stated: str = "") -> set[str]:
    """Return the different stems of words, marked with the language; empty: unknown language.

    Args:
        text: the text, or at least its beginning.
        words: its different words, from :func:`app.models.reading.tokenizer.find_plain_words`.
        stated: the language that the feed names.
    """
    language = guess_language(text, words, stated)
    return {*_stem_all(language, words)} if language else set()


def find_possible_stems(word: str) -> set[str]:
    """Return the stems that a typed word may have, in all languages of its script."""
    forms = {word, fold_text(word)[:LONGEST]}
    return {stem for name in LANGUAGES.get(find_script(word), ()) for stem in _stem_all(name, forms)}


def share_stem(typed: str, word: str, language: str = "") -> bool:
    """Return whether a word of a text is a form of a typed word.

    Args:
        typed: the word as typed.
        word: the word of the text, folded.
        language: of the text, as two letters; empty: unknown. Then a form must begin like the typed word:
            "are" is a form of "art" in Hungarian only.
    """
    folded = fold_text(typed)
    # Forms begin alike, but Arabic ones may have an article.
    if word[:_ALIKE] != folded[:_ALIKE] and find_script(word) != "arabic":
        return False
    shared = find_possible_stems(typed) & find_possible_stems(word)
    if any(stem.startswith(f"{language}:") for stem in shared):
        return True
    begins = word.startswith(folded) or folded.startswith(word)
    is_alike = not language and word[:_SURELY_ALIKE] == folded[:_SURELY_ALIKE] and len(word) >= _SURELY_ALIKE
    return bool(shared) and (begins or is_alike)


def _stem_all(language: str, words: Iterable[str]) -> Iterable[str]:
    known = _find_known(language)
    return map(known.__getitem__, words) if known is not None else ()


class _Stems(dict[str, str]):
    """The stems of a language's words; a missing one is computed, and kept while there is room.

    Several threads may use it: at worst, one of them computes a stem again.
    """

    def __init__(self, language: str, stemmer: Any) -> None:
        super().__init__()
        self._language, self._stemmer = language, stemmer

    def __missing__(self, word: str) -> str:
        if len(self) > _REMEMBERED:
            self.clear()
        stem = fold_text(self._stemmer.stemWord(_bare(self._language, word)))[:LONGEST]
        self[word] = found = f"{self._language}:{stem}"
        return found


def _bare(language: str, word: str) -> str:
    return _ARABIC_PREFIX.sub("", word, count=1) if language == "ar" and _ARABIC_PREFIX.match(word) else word


@functools.cache
def _find_known(language: str) -> _Stems | None:
    algorithm = _ALGORITHMS.get(language)
    stemmer = _find_stemmer(algorithm) if algorithm else None
    return None if stemmer is None else _Stems(language, stemmer)


@functools.cache
def _find_stemmer(algorithm: str) -> Any:
    try:
        import Stemmer  # 1 MB, which most processes don't need
    except ImportError:  # no wheel for this platform
        return None
    if algorithm not in Stemmer.algorithms():
        return None
    stemmer = Stemmer.Stemmer(algorithm)
    stemmer.maxCacheSize = 0  # ours is faster
    return stemmer
