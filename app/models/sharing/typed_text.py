"""The few signs that people may type in notes, comments and posts: emphasis and quotes. Pure."""

from __future__ import annotations

import re
from typing import Final

#: Emphasis begins and ends beside a text, not within a word, and stays in one line. Each text ends at the
#: next sign of its kind and has a limit, so the time is linear. ``\0`` stands for a link:
#: bleach drops it from texts.
EMPHASIS: Final = re.compile(
    r"(?<![\w*@/])\*\*(?=[^\s*])(?P<strong>(?:[^*\n]|\*(?!\*)){1,1000})(?<!\s)\*\*(?![\w*])"
    r"|(?<![\w*@/])\*(?=\S)(?P<star>[^*\n]{1,1000})(?<!\s)\*(?![\w*])"
    r"|(?<![\w@/])_(?=\S)(?P<line>[^_\n]{1,1000})(?<!\s)_(?!\w)"
)
#: Parts with a scheme are addresses, whose stars and underscores stay.
_WORDS: Final = re.compile(r"(https?://\S+)")
_QUOTE: Final = re.compile(r"^(?:>[ ]?){1,3}", re.MULTILINE)


def remove_signs(text: str) -> str:
    """Return typed text without the signs of emphasis and quotes, for lines that show text only."""
    parts = _WORDS.split(_QUOTE.sub("", text))
    return "".join(part if number % 2 else _remove_emphasis(part) for number, part in enumerate(parts))


def _remove_emphasis(text: str) -> str:
    def keep_text(match: re.Match[str]) -> str:
        if match["strong"] is not None:
            return _remove_emphasis(match["strong"])
        return match["star"] if match["star"] is not None else match["line"]

    return EMPHASIS.sub(keep_text, text)
