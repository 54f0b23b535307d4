"""Avatars: a person uploads a picture, a worker draws it, everyone sees it."""

from __future__ import annotations

from functools import partial
from typing import Any, BinaryIO

from app import clock, logs
from app.errors import NotFoundError
from app.gateways.media.avatars import AvatarGateway
from app.gateways.media.blobs import BlobGateway
from app.models.accounts.actor import Actor, Permission
from app.models.media.sizes import AVATAR_SIZES
from app.models.media.store import Piece
from app.services.access import Limiter, require_permission, throttle
from app.services.media.picture_uploads import PictureUploads
from app.services.validation import check_id

log = logs.get(__name__)

SIZE_NAMES = frozenset(size.name for size in AVATAR_SIZES)


class AvatarService:
    """Sets, removes and serves people's avatars.

    Args:
        per_hour: avatars that one person may upload per hour.
    """

    def __init__(
        self,
        avatars: AvatarGateway,
        blobs: BlobGateway,
        uploads: PictureUploads,
        *,
        limiter: Limiter,
        per_hour: int,
    ) -> None:
        self._avatars, self._blobs, self._uploads = avatars, blobs, uploads
        self._limiter, self._per_hour = limiter, per_hour

    @property
    def is_supported(self) -> bool:
        """Whether pictures can be drawn at all."""
        return self._uploads.is_supported

    def upload(self, actor: Actor, picture: BinaryIO) -> bool:
        """Let a worker draw a picture as the actor's avatar.

        Returns:
            Whether that's done; otherwise it happens soon.

        Raises:
            PictureError: the file can't be drawn.
            PicturesUnsupportedError: this server can't draw pictures.
            RateLimitedError: too many avatars within the hour.
            NoSpaceError: a disk is almost full.
            StoreError: the stores aren't responding.
        """
        require_permission(actor, Permission.SHARE_EDIT)
        self._uploads.require_support()
        throttle(self._limiter, f"avatar:{actor.user_id}", limit=self._per_hour, window=clock.HOUR)
        return self._uploads.send("avatar", actor.user_id, picture)

    def adopt(self, actor: Actor, file_id: int) -> None:
        """Make a file that the actor has uploaded for this purpose their avatar.

        Raises:
            NotFoundError: the actor has no such file, or it isn't a drawn avatar.
        """
        require_permission(actor, Permission.SHARE_EDIT)
        self._avatars.adopt(actor.user_id, check_id(file_id, "file"))
        self._uploads.cancel("avatar", actor.user_id)
        log.info("avatar_set", user_id=actor.user_id)

    def remove(self, actor: Actor) -> None:
        """Let a letter stand for the actor again."""
        require_permission(actor, Permission.SHARE_EDIT)
        self._uploads.cancel("avatar", actor.user_id)
        self._avatars.remove(actor.user_id)
        log.info("avatar_removed", user_id=actor.user_id)

    def find_blob(self, handle: str) -> bytes:
        """Return the blob of a person's avatar; everyone may see it.

        Raises:
            NotFoundError: there is no such person, they are suspended, or they have no avatar.
        """
        return self._avatars.find_blob(handle)

    def open(self, blob_id: bytes, size: str) -> Piece:
        """Return an avatar, as from :meth:`find_blob`, in one of its sizes.

        Raises:
            NotFoundError: there is no such size.
        """
        if size not in SIZE_NAMES:
            raise NotFoundError
        return self._blobs.open(blob_id, size)

    # -- for workers
    def draw(
        self, user_id: int, body: str, attempts: int, home: str | None = None, waited: float = 0.0
    ) -> dict[str, Any]:
        """Draw an uploaded picture in the worker; return {"error": word or None}.

        Args:
            attempts: earlier attempts that ended with the worker, or took too long.
            home: id of the EVENTR_HOME that has the picture; None: not known.
            waited: seconds since the job was queued.

        Raises:
            LaterError: the stores aren't responding, or another server has the picture; the job runs again.
        """
        error = self._uploads.draw(body, attempts, home, waited, partial(self._avatars.draw, user_id))
        log.info("avatar_refused" if error else "avatar_set", user_id=user_id, error=error)
        return {"error": error}
