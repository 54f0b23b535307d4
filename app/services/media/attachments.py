"""Attachments of posts, notes and comments: what may be attached, and who gets to see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from app.errors import InvalidError
from app.models.media.attachment import NewAttachment
from app.services.validation import check_id, check_words


class AttachmentLimits(NamedTuple):
    """Most files of one post or comment, and the longest description of one, in characters."""

    files: int
    alt: int


def check_attachments(files: Sequence[NewAttachment], limits: AttachmentLimits) -> list[NewAttachment]:
    """Return valid attachments, each file once.

    Raises:
        InvalidError: there are too many, a description is too long, or an id isn't valid.
    """
    found = {
        check_id(one.file_id, "file"): check_words(one.alt, "alt", limit=limits.alt).replace("\n", " ")
        for one in files
    }
    if len(found) > limits.files:
        raise InvalidError("You can add at most %(most)s files.", field="file", most=limits.files)
    return [NewAttachment(file_id, alt) for file_id, alt in found.items()]
