"""Pictures that a person will probably see next are fetched ahead.

A page enqueues one job with ids. All other work is the job's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Final

from app.config import Settings
from app.errors import InvalidError, NotFoundError, StoreError
from app.gateways.accounts.accounts import AccountGateway
from app.models.accounts.user import User
from app.models.jobs.jobs import Job, Queue, Task
from app.models.reading.stream import Article, Show, Sort, StreamKind, StreamQuery, StreamRef
from app.ports import JobPort
from app.services.media.pictures import PictureService, list_wanted
from app.services.reading.reading import ReadingService
from app.services.reading.stream_views import StreamViewService

#: Entries after the open one whose pictures are fetched.
FOLLOWING: Final = 3
#: How people who see pictures through this server have chosen.
_THROUGH_HERE: Final = "eventr"


class AheadService:
    """Fetches pictures ahead, within the hourly limit of the person who reads."""

    def __init__(
        self,
        *,
        accounts: AccountGateway,
        reading: ReadingService,
        stream_views: StreamViewService,
        pictures: PictureService,
        jobs: JobPort,
        settings: Settings,
    ) -> None:
        self._accounts, self._reading, self._views = accounts, reading, stream_views
        self._pictures, self._jobs = pictures, jobs
        self._is_on = settings.media_prefetch and settings.images == "proxy"
        self._own = f"{settings.own_origin}/"

    def request_following(
        self, user: User, ref: StreamRef, article: Article, overrides: Mapping[str, str]
    ) -> None:
        """Let a job fetch the pictures of the entries after one that was just opened.

        Args:
            overrides: display settings of this request only.
        """
        # A search is what a person wrote, which no job may contain (J06).
        if not self._is_on or not _sees_pictures(user) or ref.kind is StreamKind.SEARCH:
            return
        ids = {"user_id": user.id, "stream": str(ref), "entry_id": article.entry.id}
        view = {name: overrides.get(name, "") for name in ("sort", "show")}
        job = Job(Task.MEDIA_AHEAD, {**ids, "was_read": article.read, **view}, Queue.PICTURES)
        with contextlib.suppress(StoreError):
            self._jobs.enqueue(job)

    def fetch_following(
        self, user_id: int, stream: str, entry_id: int, *, was_read: bool, sort: str, show: str
    ) -> int:
        """Let the pictures of the next entries be fetched; return how many pictures these entries have.

        Safe to run twice: pictures that are known aren't fetched again.

        Raises:
            StoreError: MongoDB isn't responding.
        """
        user = self._accounts.find_user(user_id)
        if user is None or not _sees_pictures(user):
            return 0
        actor = user.actor
        try:
            ref = StreamRef.parse(stream)
            view = self._views.get(actor, ref, user.preferences, {"sort": sort, "show": show})
            query = StreamQuery(ref, Sort(view.sort), show=Show(view.show))
            found = self._reading.find_following(actor, query, entry_id, FOLLOWING, was_read=was_read)
        except (NotFoundError, InvalidError):
            return 0  # unsubscribed or deleted meanwhile
        every = [one for entry, feed in found for one in list_wanted(entry, feed)]
        wanted = {one.url: one for one in every if not one.url.startswith(self._own)}
        return len(self._pictures.prepare(list(wanted.values()), user_id))


def _sees_pictures(user: User) -> bool:
    return user.preferences.images == _THROUGH_HERE
