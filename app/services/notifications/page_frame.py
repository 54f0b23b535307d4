"""Reads ahead what a whole page shows around its content."""

from __future__ import annotations

from app.gateways.notifications.page_frame import PageFrameGateway
from app.models.accounts.actor import Actor, Permission
from app.models.reading.stream import StreamRef
from app.services.access import require_permission


class PageFrameService:
    """Saves commands: the services called afterwards in the same request need none for these lists."""

    def __init__(self, frame: PageFrameGateway) -> None:
        self._frame = frame

    def prefetch_counts(self, actor: Actor, *, with_folders: bool = False) -> None:
        """Read the actor's running import and unread notifications."""
        require_permission(actor, Permission.ENTRY_READ)
        self._frame.prefetch_counts(actor.user_id, with_folders=with_folders)

    def prefetch_stream(self, actor: Actor, ref: StreamRef | None = None, *, whole: bool = True) -> None:
        """Read the actor's folders and tags, and the display settings of a stream.

        Args:
            whole: with the rest of the page: saved searches, and what :meth:`prefetch_counts` reads.
        """
        require_permission(actor, Permission.ENTRY_READ)
        self._frame.prefetch_stream(actor.user_id, ref, whole=whole)
