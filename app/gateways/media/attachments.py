"""Attachments of posts, notes and comments: what a file is, and which files are used where."""

from __future__ import annotations

from collections.abc import Sequence

from app.errors import NotFoundError
from app.gateways.media.blobs import BlobGateway
from app.gateways.media.files import FileGateway
from app.mappers.mongo.store import Session
from app.models.media.attachment import SIZE_NAMES, Attachment, NewAttachment
from app.models.media.blob import ORIGINAL, Blob, Purpose
from app.models.media.user_file import UserFile


class AttachmentGateway:
    """Describes and attaches files. Their viewers are decided where posts and comments are read (U12)."""

    def __init__(self, files: FileGateway, blobs: BlobGateway) -> None:
        self._files, self._blobs = files, blobs

    def describe(self, user_id: int, wanted: Sequence[NewAttachment]) -> tuple[Attachment, ...]:
        """Return a user's files as attachments.

        Raises:
            NotFoundError: the user doesn't have one of these files (anymore).
        """
        if not wanted:
            return ()
        files = self._files.find(user_id, [one.file_id for one in wanted])
        blobs = self._blobs.find([file.blob for file in files.values()])
        described = []
        for one in wanted:
            file = files.get(one.file_id)
            blob = blobs.get(file.blob) if file else None
            if file is None or blob is None:
                raise NotFoundError("This file doesn't exist anymore. Upload it again.")
            described.append(_describe(file, blob, one.alt))
        return tuple(described)

    def attach(self, session: Session, user_id: int, attachments: Sequence[Attachment], owner: str) -> None:
        """Let an owner use files, in the transaction that stores the owner.

        Raises:
            NotFoundError: the user doesn't have one of these files (anymore).
            InvalidError: a file has too many owners.
        """
        if attachments:
            self._files.attach(session, user_id, [one.file_id for one in attachments], owner)

    def detach(self, session: Session | None, attachments: Sequence[Attachment], owner: str) -> None:
        """End the use of files by an owner; without attachments, there is nothing to end."""
        if attachments:
            self._files.detach(session, owner)

    def detach_all(self, owners: Sequence[str]) -> None:
        """End the use of files by owners that are deleted with much else; safe to repeat."""
        self._files.detach(None, *owners)


def _describe(file: UserFile, blob: Blob, alt: str) -> Attachment:
    is_picture = file.purpose is Purpose.PICTURE
    needed = SIZE_NAMES if is_picture else (ORIGINAL,)
    if not file.list_names(blob).issuperset(needed):
        raise NotFoundError("This file doesn't exist anymore. Upload it again.")
    return Attachment(
        file_id=file.id,
        name=file.name,
        size=file.size,
        type=file.get_type(blob),
        alt=alt,
        width=(blob.width or 0) if is_picture else 0,
        height=(blob.height or 0) if is_picture else 0,
        color=(blob.color or "") if is_picture else "",
    )
