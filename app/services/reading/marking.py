"""Marking the entries above or below a row as read, and the history of mass marks."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence

from app import clock, logs
from app.errors import InvalidError, NotFoundError
from app.gateways.reading.entries import EntryGateway
from app.gateways.reading.streams import StreamGateway
from app.gateways.reading.undo_history import UndoHistoryGateway
from app.models.accounts.actor import Actor, Permission
from app.models.reading.entry import EntryKey
from app.models.reading.history import ActionKind, HistoryCursor, HistoryPage
from app.models.reading.stream import MARKED, MassMarkResult, Snapshot, StreamKind, StreamRef
from app.services.access import require_permission
from app.services.reading.mass_marks import MassMarks
from app.services.reading.search import EntrySearch
from app.services.validation import check_id, check_ids, check_text

log = logs.get(__name__)

TOKEN_MAX = 64
#: Feeds that one action marks.
FEEDS_MAX = 20_000
#: Keys of a list that are read per batch.
STRIDE = 500
#: Lists that hold all entries of their feeds: below a row is everything not above it.
WHOLE_FEEDS = (StreamKind.ALL, StreamKind.FEED, StreamKind.FOLDER)


class MarkingService:
    """Marks the entries above or below a row of a list as read, and lists the history of mass marks.

    Args:
        limit: rows that are considered, from the top of the list.
        history_rows: rows per page of the history.
        undo_ttl: seconds for which actions stay in the history.
    """

    def __init__(
        self,
        mass_marks: MassMarks,
        streams: StreamGateway,
        entry_search: EntrySearch,
        entries: EntryGateway,
        undos: UndoHistoryGateway,
        *,
        limit: int,
        history_rows: int,
        undo_ttl: float,
    ) -> None:
        self._mass_marks = mass_marks
        self._streams = streams
        self._finder = entry_search
        self._entries = entries
        self._undos = undos
        self._most = limit
        self._history_rows = history_rows
        self._undo_ttl = dt.timedelta(seconds=undo_ttl)

    def mark_above(self, actor: Actor, ref: StreamRef, snapshot: str, entry_id: int) -> MassMarkResult:
        """Mark all rows above an entry as read, in the order of this list.

        Raises:
            NotFoundError: the list has expired, or the entry isn't among its first ``limit`` rows.
            InvalidError: the list belongs to another stream.
        """
        above, _, _ = self._split(self._list(actor, ref, snapshot), check_id(entry_id, "entry"))
        return self._mass_marks.mark_entries(actor, self._placed(actor, ref, above), ref, ActionKind.ABOVE)

    def mark_below(self, actor: Actor, ref: StreamRef, snapshot: str, entry_id: int) -> MassMarkResult:
        """Mark all rows below an entry as read, to the end of the list.

        In search results and lists of marked entries only the first ``limit`` rows are considered.

        Raises:
            As :meth:`mark_above`.
        """
        found = self._list(actor, ref, snapshot)
        above, key, rest = self._split(found, check_id(entry_id, "entry"))
        if ref.kind in WHOLE_FEEDS:
            seen = {feed.feed_id: feed.last_seq for feed in found.feeds.values()}
            return self._mass_marks.mark_feeds(
                actor, list(seen), ref, ActionKind.BELOW, last_seqs=seen, keep=_numbers([*above, key])
            )
        below = self._placed(actor, ref, list(rest))
        return self._mass_marks.mark_entries(actor, below, ref, ActionKind.BELOW)

    def mark_feeds(self, actor: Actor, feed_ids: Sequence[int]) -> MassMarkResult:
        """Mark all entries of these feeds as read.

        Raises:
            InvalidError: there are too many ids, or something is not an id.
        """
        require_permission(actor, Permission.ENTRY_MARK)
        feeds = check_ids(feed_ids, "feed", FEEDS_MAX)
        if len(feeds) == 1:
            return self._mass_marks.mark_feeds(actor, feeds, StreamRef(StreamKind.FEED, feeds[0]))
        return self._mass_marks.mark_feeds(actor, feeds, None, ActionKind.SELECTED)

    def list_history(self, actor: Actor, after: HistoryCursor | None = None) -> HistoryPage:
        """Return a page of the actions that the actor can still undo, newest first."""
        require_permission(actor, Permission.ENTRY_MARK)
        if after is not None:
            check_text(after.token, "after", limit=TOKEN_MAX)
        return self._undos.list_history(actor.user_id, clock.now(), self._undo_ttl, self._history_rows, after)

    def _list(self, actor: Actor, ref: StreamRef, snapshot: str) -> Snapshot:
        require_permission(actor, Permission.ENTRY_MARK)
        token = check_text(snapshot, "snapshot", limit=TOKEN_MAX)
        found = self._streams.get_snapshot(actor.user_id, token, clock.now())
        if found.ref != ref:
            raise InvalidError("This list has changed in the meantime. Reload it.", field="snapshot")
        return found

    def _split(self, found: Snapshot, entry_id: int) -> tuple[list[EntryKey], EntryKey, Iterator[EntryKey]]:
        """Return the rows above an entry, the entry's key, and the rows below."""
        rows, above = self._rows(found), list[EntryKey]()
        for key in rows:
            if key.id == entry_id:
                return above, key, rows
            above.append(key)
        raise NotFoundError(
            "This entry isn't among the first %(most)s in the list. Choose one closer to the top.",
            most=self._most,
            entry_id=entry_id,
        )

    def _rows(self, found: Snapshot) -> Iterator[EntryKey]:
        pages = self._finder if found.ref.kind is StreamKind.SEARCH else self._streams
        left, cursor = self._most, None
        while left > 0:
            page = pages.load_key_page(found, cursor, min(STRIDE, left))
            yield from page.keys
            left, cursor = left - len(page.keys), page.cursor
            if cursor is None:
                return

    def _placed(self, actor: Actor, ref: StreamRef, keys: Sequence[EntryKey]) -> Sequence[EntryKey]:
        """Return rows with their numbers in their feeds; keys from marks lack them."""
        if ref.kind not in MARKED:
            return keys
        return self._entries.find_keys(actor.user_id, [key.id for key in keys])


def _numbers(rows: Sequence[EntryKey]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for key in rows:
        found.setdefault(key.feed_id, []).append(key.seq)
    return found
