"""Attached pictures and files, as their viewers get them."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence

from itsdangerous import BadData, URLSafeTimedSerializer

from app.errors import NotFoundError
from app.gateways.discussion.attachments import AttachedFileGateway
from app.gateways.media.attachments import AttachmentGateway
from app.gateways.media.blobs import BlobGateway
from app.models.accounts.actor import Actor
from app.models.media.attachment import SIZE_NAMES, Attachment, NewAttachment
from app.models.media.blob import ORIGINAL, Blob, Purpose
from app.models.media.store import Piece
from app.models.media.user_file import DRAWN_TYPE, UserFile
from app.services.validation import check_id

_SALT = "eventr.media.1"


@dataclasses.dataclass(frozen=True, slots=True)
class OpenedFile:
    """A file that a viewer may see: its record, the name and the size of what is sent, and its media type."""

    file: UserFile
    name: str
    size: int
    type: str

    @property
    def download_name(self) -> str:
        """The name under which it is saved: its own, but with the ending of a picture that Eventr drew."""
        if self.name == ORIGINAL:
            return self.file.name
        return f"{self.file.name.rpartition('.')[0] or self.file.name}.webp"

    @property
    def tag(self) -> str:
        """What changes with the content, and tells nothing about it."""
        return hashlib.sha256(self.file.blob + self.name.encode()).hexdigest()[:32]


class AttachmentService:
    """Opens attached files; whether a viewer may see one is decided each time (security.md U12).

    Args:
        ttl: seconds for which a signed address works.
    """

    def __init__(
        self, files: AttachedFileGateway, attachments: AttachmentGateway, blobs: BlobGateway, *, ttl: int
    ) -> None:
        self._files, self._attachments, self._blobs, self._ttl = files, attachments, blobs, ttl

    def find(
        self, actor: Actor | None, file_id: int, size: str | None, *, token: str = "", key: str = ""
    ) -> OpenedFile:
        """Return what a viewer may see of a file.

        Args:
            actor: the viewer; None: a stranger.
            size: name of a size of a picture; None: the file itself, to download.
            token: from :meth:`sign`, instead of the viewer.
            key: the server's secret key.

        Raises:
            NotFoundError: there is no such file or size, or the viewer may not see it.
        """
        viewer = actor.user_id if actor else None
        if token and viewer is None:
            viewer = self._read(token, file_id, key)
        if size is not None and size not in SIZE_NAMES:
            raise NotFoundError
        file = self._files.find_visible(viewer, check_id(file_id, "file"))
        if file is None:
            raise NotFoundError
        blob = self._find_blob(file)
        name = size or (SIZE_NAMES[-1] if file.purpose is Purpose.PICTURE else ORIGINAL)
        if name not in file.list_names(blob):
            raise NotFoundError
        media_type = file.get_type(blob) if name == ORIGINAL else DRAWN_TYPE
        return OpenedFile(file, name, blob.names[name], media_type)

    def open(self, found: OpenedFile, first: int = 0, last: int | None = None) -> Piece:
        """Return the bytes of a file from :meth:`find`, from ``first`` to ``last`` inclusive.

        Raises:
            NotFoundError: the file was just deleted.
            MediaStoreError: no store that has it is responding.
        """
        return self._blobs.open(found.file.blob, found.name, first, last)

    def _find_blob(self, file: UserFile) -> Blob:
        blob = self._blobs.find([file.blob]).get(file.blob)
        if blob is None:
            raise NotFoundError
        return blob

    def find_own(self, actor: Actor, wanted: Sequence[NewAttachment]) -> tuple[Attachment, ...]:
        """Return the actor's files as attachments, for a form that is shown again; none if one is gone."""
        try:
            return self._attachments.describe(actor.user_id, wanted)
        except NotFoundError:
            return ()

    def sign(self, actor: Actor, file_id: int, key: str) -> str:
        """Return a token for an address that a reader app opens without a cookie, as this actor."""
        return _serializer(key).dumps([file_id, actor.user_id])

    def _read(self, token: str, file_id: int, key: str) -> int:
        try:
            signed, viewer = _serializer(key).loads(token, max_age=self._ttl)
        except (BadData, ValueError, TypeError) as e:
            raise NotFoundError from e
        if signed != file_id:
            raise NotFoundError
        return int(viewer)


def _serializer(key: str) -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(key, salt=_SALT, signer_kwargs={"digest_method": hashlib.sha256})
