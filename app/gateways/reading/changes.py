"""The record of users' changes to their entries, for apps that sync incrementally."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence

from app import clock
from app.config import Settings
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.reading.changes import ChangeMapper
from app.mappers.reading.snapshots import UndoMapper

#: Most changes that one query reads.
LOOKED = 20_000


class ChangeGateway:
    """Writes and reads the collection ``changes``; callers skip users who don't sync."""

    def __init__(
        self, changes: ChangeMapper, undos: UndoMapper, feeds: FeedMapper, settings: Settings
    ) -> None:
        self._changes, self._undos, self._feeds = changes, undos, feeds
        self._keep = dt.timedelta(days=settings.changes_days)
        self._most = settings.changes_max

    def record_changes(
        self,
        user_id: int,
        seqs: Mapping[int, Collection[int]],
        entry_ids: Collection[int] = (),
        *,
        awaited: bool = True,
    ) -> None:
        """Record changes of entries, by feed and number and by id.

        Args:
            awaited: wait until the record survives a crash; False: the caller waits for a later write.
        """
        if seqs or entry_ids:
            now = clock.now()
            self._changes.add(user_id, seqs, entry_ids, now, now + self._keep, awaited=awaited)

    @property
    def limit(self) -> int:
        """The most entries of one action that are recorded."""
        return self._most

    def record_feed(self, user_id: int, feed_id: int) -> None:
        """Record a change of all entries of a feed, or of the newest ones if there are too many."""
        if card := self._feeds.find_cards([feed_id]).get(feed_id):
            self.record_changes(user_id, self._few({feed_id: range(card.first_seq, card.last_seq + 1)}))

    def record_mass_mark(self, user_id: int, token: str) -> None:
        """Record the entries that a mass mark changed, or that its undo is about to change.

        If there are too many, record the newest of each feed. An app that missed that much reloads all unread
        entries anyway.
        """
        now = clock.now()
        seqs = dict[int, list[int]]()
        for one in self._undos.find_entries(user_id, token, now):
            seqs.setdefault(one.feed_id, []).extend(one.seqs)
        undo = self._undos.find(user_id, token, now)
        before = undo.before if undo else {}
        for f, card in self._feeds.find_cards(list(before)).items():
            found = before[f][0].find_seqs(card.first_seq, card.last_seq)
            seqs[f] = [*seqs.get(f, ()), *found]
        self.record_changes(user_id, self._few({f: s for f, s in seqs.items() if s}))

    def _few(self, seqs: Mapping[int, Sequence[int]]) -> Mapping[int, Sequence[int]]:
        if sum(map(len, seqs.values())) <= self._most:
            return seqs
        each = max(1, self._most // len(seqs))
        return {f: sorted(numbers)[-each:] for f, numbers in list(seqs.items())[: self._most]}

    def find_since(self, user_id: int, since: dt.datetime) -> tuple[dict[int, set[int]], set[int]]:
        """Return the numbers (by feed) and the ids of entries that a user has changed since a time."""
        return self._changes.find_since(user_id, since, LOOKED)

    def find_last_id(self, user_id: int) -> int:
        """Return the id of the user's last change; 0: none is known."""
        return self._changes.find_last_id(user_id)
