"""Names and titles: normalize them to one line, and compare spellings. Pure."""

from __future__ import annotations

import unicodedata

#: Not printable but part of a text: they separate letters in Persian, and join emoji.
JOINERS = "\u200c\u200d"
_ENDS = f" {JOINERS}"
_APART = dict.fromkeys(map(ord, JOINERS), " ")


def to_one_line(text: str, limit: int | None = None) -> str:
    """Return a text with one space between words and without invisible characters; may be empty.

    Joiners at its ends are removed: a text of joiners alone becomes empty.
    """
    kept = "".join(c if c.isprintable() or c in JOINERS else " " for c in text)
    return " ".join(kept.split()).strip(_ENDS)[:limit].strip(_ENDS)


def normalise_name(name: str) -> str:
    """Return the name of a folder or tag as stored: NFC, on one line."""
    return to_one_line(unicodedata.normalize("NFC", name))


def fold_name(name: str) -> str:
    """Return a key that is equal for spellings of a name: case and letter forms are ignored.

    Joiners are ignored too: names were once stored with spaces instead of them.
    """
    kept = normalise_name(name.translate(_APART))
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKD", kept).casefold())
