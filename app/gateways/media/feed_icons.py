"""Icons that administrators upload for feeds: files of the server with the owner ``icon:FEED``.

Until the administrator wants the site's icon again, looks for icons leave such a feed alone.
"""

from __future__ import annotations

import datetime as dt
from functools import partial

from app.errors import NotFoundError
from app.gateways.media.drawing import Body, DrawingGateway
from app.gateways.media.files import FileGateway
from app.mappers.media.icons import IconMapper
from app.mappers.mongo.store import Session, Store
from app.models.media.blob import Purpose
from app.models.media.icon import name_owner
from app.models.media.user_file import SYSTEM

#: The name of the file in the server's list of files.
FILE_NAME = "icon"


class FeedIconGateway:
    """Sets and removes uploaded icons. An icon that is replaced loses its owner, and is deleted later."""

    def __init__(self, store: Store, icons: IconMapper, files: FileGateway, drawing: DrawingGateway) -> None:
        self._store, self._icons, self._files, self._drawing = store, icons, files, drawing

    def draw(self, feed_id: int, body: Body) -> None:
        """Draw a picture, and make it a feed's icon.

        Raises:
            NotFoundError: there is no such feed of the web.
            PictureError: as for :meth:`DrawingGateway.keep`; the same for other errors.
        """
        self._drawing.keep(body, Purpose.ICON, partial(self._set, feed_id, body.size))

    def _set(self, feed_id: int, size: int, session: Session, blob_id: bytes) -> None:
        owner = name_owner(feed_id)
        self._files.detach(session, owner)
        self._files.add(session, SYSTEM, blob_id, FILE_NAME, size, purpose=Purpose.ICON, owners=[owner])
        if not self._icons.set_uploaded(feed_id, blob_id, session):
            raise NotFoundError(feed_id=feed_id)

    def remove(self, feed_id: int, now: dt.datetime) -> bool:
        """Let the site's icon be looked for again at once; return whether the feed had an uploaded one."""
        return self._store.run_in_transaction(partial(self._remove, feed_id, now))

    def _remove(self, feed_id: int, now: dt.datetime, session: Session) -> bool:
        self._files.detach(session, name_owner(feed_id))
        return self._icons.remove_uploaded(feed_id, now, session)
