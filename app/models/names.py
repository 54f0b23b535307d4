"""Names and titles as one line, as they are kept, and what two spellings of a name have in common. Pure."""

from __future__ import annotations

import unicodedata

#: Not printable and yet part of a text: they keep letters of Persian apart, and join emoji to one.
JOINERS = "\u200c\u200d"
_ENDS = f" {JOINERS}"
_APART = dict.fromkeys(map(ord, JOINERS), " ")


def to_one_line(text: str, limit: int | None = None) -> str:
    """Return a text with one blank between words and without what nobody sees; may be empty.

    At its ends nothing is joined: of a text that is nothing but such signs nothing is left.
    """
    kept = "".join(c if c.isprintable() or c in JOINERS else " " for c in text)
    return " ".join(kept.split()).strip(_ENDS)[:limit].strip(_ENDS)


def normalise_name(name: str) -> str:
    """Return the name that a folder or tag gets which is called so: composed, in one line."""
    return to_one_line(unicodedata.normalize("NFC", name))


def fold_name(name: str) -> str:
    """Return what two spellings of a name have in common: case and forms of letters do not count.

    Nor does what joins them, or keeps them apart: names were once kept with blanks in its place.
    """
    kept = normalise_name(name.translate(_APART))
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKD", kept).casefold())
