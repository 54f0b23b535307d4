"""The end of an account: everything of a user goes, and what others count of him is counted down (G02).

It is begun in the account's document: from then on nobody logs in to it, a crash leaves something to go on
from, and whoever works for that user at that moment, an import above all, finds out and clears up.
"""

from __future__ import annotations

import datetime as dt

from app.gateways.accounts.admin_accounts import AdminAccountGateway
from app.gateways.discussion.comments import DiscussionGateway
from app.gateways.feeds.websubs import WebsubGateway
from app.gateways.sharing.shares import SharingGateway
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.mappers.feeds.entries import EntryMapper
from app.mappers.mongo.store import Session, Store
from app.mappers.privacy.erasure import ErasureMapper
from app.mappers.reading.marks import MarkMapper

#: Marks that go in one transaction.
TOGETHER = 100
#: A request that began before the end of an account may write as long after it; no request takes as long.
STRAGGLERS = dt.timedelta(minutes=2)


class ErasureGateway:
    """Deletes accounts; each step can be done again."""

    def __init__(
        self,
        store: Store,
        people: AdminAccountGateway,
        subscriptions: SubscriptionGateway,
        websubs: WebsubGateway,
        marks: MarkMapper,
        entries: EntryMapper,
        erasure: ErasureMapper,
        sharing: SharingGateway,
        talk: DiscussionGateway,
    ) -> None:
        self._store, self._people = store, people
        self._subscriptions, self._websubs = subscriptions, websubs
        self._marks, self._entries = marks, entries
        self._erasure, self._sharing = erasure, sharing
        self._talk = talk

    def begin(self, user_id: int, now: dt.datetime) -> None:
        """Note that an account goes.

        Raises:
            NotFoundError: there is no such account.
            ConflictError: nobody would be left who may change anything.
        """
        self._people.mark_leaving(user_id, now)

    def find_leaving(self, limit: int, now: dt.datetime) -> list[int]:
        """Return accounts that go, are not gone, and may be by now."""
        return self._people.find_leaving(limit, now - STRAGGLERS)

    def is_begun(self, user_id: int) -> bool:
        """Return whether an account goes or is gone."""
        return not self._people.is_active(user_id)

    def finish(self, user_id: int, now: dt.datetime) -> bool:
        """Delete a user and all that is his.

        Returns:
            Whether all is done. As long as requests of his may still be under way his account stays, for
            another run that deletes what they have written.
        """
        # First what others work on for him, so that they stop; then what counts him as a reader.
        self._erasure.stop(user_id)
        self._websubs.leave_unsubscribed(self._subscriptions.remove_all(user_id, now), now)
        self._stop_sharing(user_id, now)
        while self._store.run_in_transaction(lambda session: self._unmark(user_id, session)):
            pass
        return self._erasure.erase(user_id, now - STRAGGLERS)

    def _stop_sharing(self, user_id: int, now: dt.datetime) -> None:
        """Take back what he shared, and end who follows; chains of others keep his place, not his name."""
        self._talk.erase(user_id, now)
        self._sharing.erase(user_id, now)
        self._erasure.forget(user_id)
        # What a request of his wrote meanwhile counts on its root; without a feed no more can come.
        self._sharing.erase(user_id, now)

    def _unmark(self, user_id: int, session: Session) -> int:
        """Take some of his marks from entries, which count them: retention keeps what has one."""
        marks = self._marks.find_batch(user_id, TOGETHER, session)
        for mark in marks:
            self._entries.change_star_count(mark.feed_id, mark.entry_id, -1, session)
        self._marks.remove(user_id, [mark.entry_id for mark in marks], session)
        return len(marks)
