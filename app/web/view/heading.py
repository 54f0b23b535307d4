"""The line above an article's title: its author and how long reading it takes."""

from __future__ import annotations

import math
import re

#: An email address, also in angle brackets or parentheses. ``@ann@social.example`` isn't one.
_ADDRESS = re.compile(
    r"[<(\[]?(?<![\w.%+@-])(?:mailto:)?[\w.%+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}[>)\]]?"
)
_EDGES = " \t,;:<>()[]-–—|/"
_TAG = re.compile(r"<[^>]*>")
#: Words, and characters of scripts that write none apart.
_CHARACTER = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
#: Read in a minute, as most measure it.
WORDS, CHARACTERS = 230, 500


def format_author(author: str, feed_title: str = "") -> str:
    """Return an author without email addresses, empty if nothing else remains.

    Args:
        author: as the feed names the author.
        feed_title: shown beside it; an author of this name is left out.
    """
    named = author.strip()
    if "@" in author:
        named = " ".join(_ADDRESS.sub(" ", author).split())
        # "ann@site.example (Ann)" leaves a name in parentheses.
        named = named.strip(_EDGES) if named != author else named
    return "" if feed_title and is_same_name(named, feed_title) else named


def is_same_name(one: str, other: str) -> bool:
    """Return whether two names have the same words, or one of them has more: "Ann" and "Ann Media"."""
    first, second = (set(_WORD.findall(name.casefold())) for name in (one, other))
    return one == other or bool(first and second and (first <= second or second <= first))


def count_minutes(markup: str) -> int:
    """Return how many minutes it takes to read clean HTML, at least 1."""
    text = _TAG.sub(" ", markup)
    text, characters = _CHARACTER.subn(" ", text)
    words = sum(1 for _word in _WORD.finditer(text))
    return max(1, math.ceil(words / WORDS + characters / CHARACTERS))
