"""An actor's files and storage: lists, deletes and reads files, and adds known ones without an upload."""

from __future__ import annotations

from app import clock, logs
from app.config import Settings
from app.errors import NotFoundError
from app.gateways.media.avatars import AvatarGateway
from app.gateways.media.blobs import BlobGateway
from app.gateways.media.files import FileGateway
from app.gateways.media.quota import QuotaGateway
from app.models.accounts.actor import Actor, Permission
from app.models.media.blob import Blob
from app.models.media.store import Piece
from app.models.media.upload import NAME_MAX, Usage
from app.models.media.user_file import UserFile
from app.models.names import to_one_line
from app.services.access import Limiter, require_permission, throttle
from app.services.validation import check_id

log = logs.get(__name__)

#: Files per page.
PAGE = 100


class FileService:
    """Files of an actor, and how much of their quota they take."""

    def __init__(
        self,
        *,
        files: FileGateway,
        blobs: BlobGateway,
        avatars: AvatarGateway,
        quota: QuotaGateway,
        limiter: Limiter,
        settings: Settings,
    ) -> None:
        self._files, self._blobs, self._avatars, self._quota = files, blobs, avatars, quota
        self._limiter, self._settings = limiter, settings

    def list_files(self, actor: Actor, before: int | None = None) -> list[UserFile]:
        """Return a page of the actor's files, newest first; ``before``: the last id of the previous page."""
        require_permission(actor, Permission.FILE_SEE)
        return self._files.list_files(actor.user_id, PAGE, before)

    def get(self, actor: Actor, file_id: int) -> UserFile:
        """Return a file.

        Raises:
            NotFoundError: the actor has no such file.
        """
        require_permission(actor, Permission.FILE_SEE)
        return self._files.get(actor.user_id, check_id(file_id, "file_id"))

    def find_content(self, actor: Actor, file: UserFile) -> tuple[Blob, str]:
        """Return what is stored of a file, and the name of its best copy: the original, or the largest size.

        Raises:
            NotFoundError: nothing is; the server has lost it.
        """
        require_permission(actor, Permission.FILE_SEE)
        blob = self._blobs.find([file.blob]).get(file.blob)
        name = file.find_best(blob) if blob else None
        if blob is None or name is None:
            raise NotFoundError
        return blob, name

    def open(self, actor: Actor, file: UserFile, name: str, first: int = 0, last: int | None = None) -> Piece:
        """Return a copy of a file by its name, or its bytes from ``first`` to ``last`` inclusive.

        Raises:
            NotFoundError: there is no such copy.
            MediaStoreError: no store that has it is responding.
        """
        require_permission(actor, Permission.FILE_SEE)
        return self._blobs.open(file.blob, name, first, last)

    def delete(self, actor: Actor, file_id: int) -> None:
        """Delete a file, whatever uses it; its room is free at once.

        Raises:
            NotFoundError: the actor has no such file.
        """
        require_permission(actor, Permission.FILE_EDIT)
        file = self._files.delete(actor.user_id, check_id(file_id, "file_id"), self._avatars.forget)
        log.info("file_deleted", user_id=actor.user_id, size=file.size)

    def add_known(self, actor: Actor, digest: bytes, size: int, name: str) -> UserFile:
        """Add a file that the actor has already, without sending it again.

        Only the actor's own files count: the answer must not tell that someone else has a file.

        Args:
            digest: SHA-256 of the file.

        Raises:
            NotFoundError: the actor has no such file, or the server wants it sent.
            QuotaError: it doesn't fit into the actor's quota.
            RateLimitedError: too many attempts within the hour.
        """
        require_permission(actor, Permission.FILE_EDIT)
        settings = self._settings
        if settings.instant == "off" or not settings.uploads or size < settings.instant_min:
            raise NotFoundError
        throttle(
            self._limiter,
            f"known_file:{actor.user_id}",
            limit=settings.instant_per_hour,
            window=clock.HOUR,
        )
        known = self._files.find_by_blob(actor.user_id, digest)
        if known is None or known.size != size:
            raise NotFoundError
        file = self._quota.add_file(known, to_one_line(name)[:NAME_MAX] or known.name)
        log.info("file_known", user_id=actor.user_id, size=size)
        return file

    def get_usage(self, actor: Actor) -> Usage:
        """Return the actor's storage, with the quota that applies to it."""
        require_permission(actor, Permission.FILE_SEE)
        return self._quota.find(actor.user_id)
