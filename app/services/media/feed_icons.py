"""Icons that administrators upload for feeds, for all of a feed's readers."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any, BinaryIO

from app import clock, logs
from app.errors import StoreError
from app.gateways.media.feed_icons import FeedIconGateway
from app.models.accounts.actor import Actor, Permission
from app.models.jobs.jobs import Job, Queue, Task
from app.ports import JobPort
from app.services.access import Limiter, require_permission, throttle
from app.services.media.picture_uploads import PictureUploads
from app.services.validation import check_id

log = logs.get(__name__)


class FeedIconService:
    """Replaces the icons of feeds by hand.

    Args:
        per_hour: icons that one administrator may upload per hour.
    """

    def __init__(
        self, icons: FeedIconGateway, uploads: PictureUploads, jobs: JobPort, limiter: Limiter, per_hour: int
    ) -> None:
        self._icons, self._uploads, self._jobs = icons, uploads, jobs
        self._limiter, self._per_hour = limiter, per_hour

    @property
    def is_supported(self) -> bool:
        """Whether icons can be drawn at all."""
        return self._uploads.is_supported

    def upload(self, actor: Actor, feed_id: int, picture: BinaryIO) -> bool:
        """Let a worker draw a picture as a feed's icon; looks for icons leave the feed alone from then on.

        Returns:
            Whether that's done; otherwise it happens soon.

        Raises:
            ForbiddenError: the actor isn't an administrator.
            PictureError: the file can't be drawn.
            PicturesUnsupportedError: this server can't draw pictures.
            RateLimitedError: too many icons within the hour.
            NoSpaceError: a disk is almost full.
            StoreError: the stores aren't responding.
        """
        require_permission(actor, Permission.FEED_MANAGE)
        self._uploads.require_support()
        throttle(self._limiter, f"icons:{actor.user_id}", limit=self._per_hour, window=clock.HOUR)
        return self._uploads.send("icon", check_id(feed_id, "feed_id"), picture)

    def remove(self, actor: Actor, feed_id: int) -> None:
        """Use the icon of the feed's site again.

        Raises:
            ForbiddenError: the actor isn't an administrator.
        """
        require_permission(actor, Permission.FEED_MANAGE)
        self._uploads.cancel("icon", check_id(feed_id, "feed_id"))
        if not self._icons.remove(feed_id, clock.now()):
            return
        log.info("icon_removed", feed_id=feed_id)
        with contextlib.suppress(StoreError):
            self._jobs.enqueue(Job(Task.MEDIA_ICONS, {"feed_ids": [feed_id]}, Queue.PICTURES))

    # -- for workers
    def draw(
        self, feed_id: int, body: str, attempts: int, home: str | None = None, waited: float = 0.0
    ) -> dict[str, Any]:
        """Draw an uploaded icon in the worker; return {"error": word or None}.

        Args:
            attempts: earlier attempts that ended with the worker, or took too long.
            home: id of the EVENTR_HOME that has the picture; None: not known.
            waited: seconds since the job was queued.

        Raises:
            LaterError: the stores aren't responding, or another server has the picture; the job runs again.
        """
        error = self._uploads.draw(body, attempts, home, waited, partial(self._icons.draw, feed_id))
        log.info("icon_uploaded", feed_id=feed_id, error=error)
        return {"error": error}
