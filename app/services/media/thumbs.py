"""Small pictures of new entries, fetched before the lists of their readers show them.

Only for feeds that someone reads as cards. A poll without new pictures costs nothing.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Final

from app import clock
from app.config import Settings
from app.errors import StoreError
from app.gateways.media.card_readers import CardReaderGateway
from app.models.jobs.jobs import Job, Queue, Task
from app.ports import JobPort
from app.services.media.pictures import PictureService, WantedPicture

#: Readers who were away for longer have nothing fetched ahead.
ACTIVE: Final = dt.timedelta(days=7)
#: Most new entries of one feed whose pictures are fetched ahead: more don't fit on the first page.
ENTRIES_MAX: Final = 50


class ThumbService:
    """Has no actor: pictures count within the hourly limit of one of the feed's readers."""

    def __init__(
        self,
        *,
        readers: CardReaderGateway,
        pictures: PictureService,
        jobs: JobPort,
        settings: Settings,
    ) -> None:
        self._readers, self._pictures, self._jobs = readers, pictures, jobs
        self._is_on = settings.media_prefetch and settings.images == "proxy"
        self._own = f"{settings.own_origin}/"

    def request_thumbs(self, counts: Mapping[int, int]) -> None:
        """Let a job look for readers of feeds that have new entries with pictures.

        Args:
            counts: feed → number of its new entries.
        """
        if not self._is_on or not counts:
            return
        feeds = sorted(counts)
        args = {"feed_ids": feeds, "counts": [min(counts[feed], ENTRIES_MAX) for feed in feeds]}
        with contextlib.suppress(StoreError):
            self._jobs.enqueue(Job(Task.MEDIA_THUMBS, args, Queue.PICTURES_SYSTEM))

    def fetch_thumbs(self, feed_ids: Sequence[int], counts: Sequence[int]) -> int:
        """Let the pictures of the newest entries be fetched for readers of cards; return how many these are.

        Nobody waits for them: their jobs are those of the system. Safe to run twice: pictures that are known
        aren't fetched again.

        Raises:
            StoreError: MongoDB isn't responding.
        """
        readers = self._readers.find_readers(feed_ids, clock.now() - ACTIVE)
        new = {feed: count for feed, count in zip(feed_ids, counts, strict=True) if feed in readers}
        wanted: dict[int, dict[str, WantedPicture]] = {}
        for one in self._readers.find_newest(new):
            if one.url.startswith(("https://", "http://")) and not one.url.startswith(self._own):
                picture = WantedPicture(one.url, one.page, one.feed, one.entry)
                wanted.setdefault(readers[one.feed_id], {})[one.url] = picture
        return sum(
            len(self._pictures.prepare(list(each.values()), user_id, Queue.PICTURES_SYSTEM))
            for user_id, each in wanted.items()
        )
