"""Erasure of an account: deletes all data of a user, and corrects the counts that include them (G02).

The beginning is recorded in the account's document. From then on nobody can log in to the account, and a
later run can continue after a crash. Any job that works for the user at that time, above all an import,
notices and cleans up.
"""

from __future__ import annotations

import datetime as dt

from app.gateways.accounts.admin_accounts import AdminAccountGateway
from app.gateways.discussion.comments import DiscussionGateway
from app.gateways.feeds.websubs import WebsubGateway
from app.gateways.media.files import FileGateway
from app.gateways.sharing.shares import SharingGateway
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.mappers.feeds.entries import EntryMapper
from app.mappers.mongo.cells import Cells
from app.mappers.mongo.store import Session
from app.mappers.privacy.erasure import ErasureMapper
from app.mappers.reading.marks import MarkMapper

#: Marks that are deleted in one transaction.
TOGETHER = 100
#: A request that began before the erasure may still write during this time; no request takes longer.
STRAGGLERS = dt.timedelta(minutes=2)


class ErasureGateway:
    """Deletes accounts; each step can be repeated."""

    def __init__(
        self,
        *,
        cells: Cells,
        people: AdminAccountGateway,
        subscriptions: SubscriptionGateway,
        websubs: WebsubGateway,
        marks: MarkMapper,
        entries: EntryMapper,
        erasure: ErasureMapper,
        sharing: SharingGateway,
        talk: DiscussionGateway,
        files: FileGateway,
    ) -> None:
        self._cells, self._people = cells, people
        self._subscriptions, self._websubs = subscriptions, websubs
        self._marks, self._entries = marks, entries
        self._erasure, self._sharing = erasure, sharing
        self._talk, self._files = talk, files

    def begin(self, user_id: int, now: dt.datetime) -> None:
        """Record that an account is being deleted.

        Raises:
            NotFoundError: there is no such account.
            ConflictError: the server would have no admin left.
        """
        self._people.mark_leaving(user_id, now)

    def find_leaving(self, limit: int, now: dt.datetime) -> list[int]:
        """Return accounts whose deletion has begun and can be finished now."""
        return self._people.find_leaving(limit, now - STRAGGLERS)

    def is_begun(self, user_id: int) -> bool:
        """Return whether an account is being deleted or is gone."""
        return not self._people.is_active(user_id)

    def finish(self, user_id: int, now: dt.datetime) -> bool:
        """Delete a user and all their data.

        Returns:
            Whether everything is deleted. While requests of the user may still be running, the account's
            document stays, and another run deletes what they have written.
        """
        # First stop jobs that work for the user; then end the subscriptions, which count readers.
        self._erasure.stop(user_id)
        self._websubs.leave_unsubscribed(self._subscriptions.remove_all(user_id, now), now)
        self._stop_sharing(user_id, now)
        while self._cells.run_in_transaction(user_id, lambda session: self._unmark(user_id, session)):
            pass
        # One by one with what they count: other users may have the same content.
        self._files.delete_all(user_id)
        return self._erasure.erase(user_id, now - STRAGGLERS)

    def _stop_sharing(self, user_id: int, now: dt.datetime) -> None:
        """Remove the user's shares and followers; other people's chains keep the place, without the name."""
        self._talk.erase(user_id, now)
        self._sharing.erase(user_id, now)
        self._erasure.forget(user_id)
        # A request may have shared again meanwhile, which counts on a root; without a feed it can't anymore.
        self._sharing.erase(user_id, now)

    def _unmark(self, user_id: int, session: Session) -> int:
        """Delete some of the user's marks, and correct the entries' counts that retention uses."""
        marks = self._marks.find_batch(user_id, TOGETHER, session)
        for mark in marks:
            self._entries.change_star_count(mark.feed_id, mark.entry_id, -1, session)
        self._marks.remove(user_id, [mark.entry_id for mark in marks], session)
        return len(marks)
