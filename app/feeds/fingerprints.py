"""Fingerprints of entries: the page they link to, and MinHash of their text, to find copies in other feeds.

A MinHash signature estimates how many of the three-word sequences two texts share: the share of equal values.
Signatures of near-same texts agree in at least one band of four values, so an index finds them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import xxhash

from app.feeds.urls import hash_page
from app.models.reading.story import LEAD_VALUES, VALUES, TextPrint

#: Words per sequence, and the fewest words of a text that is compared.
SHINGLE, WORDS_MIN = 3, 80
#: Most words that are compared: the beginning of a text tells it well enough.
WORDS_MAX = 3000
#: Values per band.
BAND = 4
_SEED = 42
#: Languages without blanks have a word per character.
_NO_BLANKS = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff"
_WORD = re.compile(f"[{_NO_BLANKS}]|[^\\W{_NO_BLANKS}]+")


def hash_linked_page(url: str | None) -> int | None:
    """Return the address key of the page that an entry is about, or None.

    A site's home page tells nothing of an entry, nor does a page of which the entry is only a part, such as a
    comment.
    """
    if not url:
        return None
    page, _, fragment = url.partition("#")
    _, _, rest = page.partition("://")
    _, _, path = rest.partition("/")
    if not path.strip("/") and not fragment.startswith("!"):
        return None
    if fragment and not fragment.startswith("!") and _names_part(fragment.partition(":~:")[0]):
        return None
    return hash_page(url)


def _names_part(fragment: str) -> bool:
    """Whether a fragment names a part of a page, such as a comment; one with a parameter names none."""
    return "=" not in fragment and not frozenset("0123456789").isdisjoint(fragment)


def hash_text(text: str) -> TextPrint | None:
    """Return what is compared of a plain text; None for texts of less than :data:`WORDS_MIN` words."""
    words = _WORD.findall(text.casefold())[:WORDS_MAX]
    if len(words) < WORDS_MIN:
        return None
    sequences = [" ".join(words[at : at + SHINGLE]) for at in range(len(words) - SHINGLE + 1)]
    if len(set(sequences)) < WORDS_MIN // 2:  # the same words again and again
        return None
    signature = _compute_signature(sequences, VALUES)
    lead = _compute_signature(sequences[:WORDS_MIN], LEAD_VALUES)
    return TextPrint(len(words), signature, lead, _hash_bands(signature))


def _compute_signature(sequences: list[str], values: int) -> tuple[int, ...]:
    found: Any = _load_rensa().RMinHash(num_perm=values, seed=_SEED)
    found.update(sequences)
    return tuple(found.digest())


@functools.cache
def _load_rensa() -> Any:
    # Only the worker that compares texts needs it.
    return import_module("rensa")


def _hash_bands(signature: Sequence[int]) -> tuple[int, ...]:
    """Return a signed hash per band; the place of the band counts."""
    return tuple(
        int.from_bytes(
            xxhash.xxh3_64_digest(repr((at, *signature[at : at + BAND])).encode()), "big", signed=True
        )
        for at in range(0, len(signature), BAND)
    )
