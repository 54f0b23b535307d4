"""Attachments: pictures and files that people add to posts, notes and comments."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

#: Sizes in which an attached picture is served.
SIZE_NAMES = ("t208", "t416", "w640", "w1280")


class NewAttachment(NamedTuple):
    """A file of the author to attach, and its description for those who can't see it."""

    file_id: int
    alt: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """An attached file, as its post or comment stores it, so that showing it needs no further query.

    Attributes:
        file_id: of the author's file.
        name: the file's name, as its author called it.
        size: bytes of the original.
        type: media type by its content.
        alt: description for those who can't see the picture.
        width, height: of a picture, in pixels; 0: it isn't a picture.
        color: mean color of a picture, as ``#rrggbb``.
    """

    file_id: int
    name: str
    size: int
    type: str
    alt: str = ""
    width: int = 0
    height: int = 0
    color: str = ""

    @property
    def is_picture(self) -> bool:
        """Whether Eventr has drawn it; other files can only be downloaded."""
        return self.width > 0


def name_share(share_id: int) -> str:
    """Return the owner of a share's attachments, as files name it."""
    return f"share:{share_id}"


def name_comment(comment_id: int) -> str:
    """Return the owner of a comment's attachments, as files name it."""
    return f"comment:{comment_id}"


def parse_owner(owner: str) -> tuple[str, int]:
    """Return the kind and the id of an owner; the id is 0 if it has none."""
    kind, _, number = owner.partition(":")
    return kind, int(number) if number.isascii() and number.isdigit() else 0
