"""Chapters of an episode."""

from __future__ import annotations

from typing import Final, NamedTuple

#: Most bytes of a file of chapters.
CHAPTERS_BYTES: Final = 256 << 10


class Chapter(NamedTuple):
    """A chapter of a recording: the second at which it begins, and its title."""

    second: int
    title: str
