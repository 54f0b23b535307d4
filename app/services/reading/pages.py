"""Pages of a stream: from keys to rows with names, texts and marks, one row for one article."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from app.gateways.reading.entries import EntryGateway
from app.gateways.reading.grouping import Gathered, GatheringGateway
from app.gateways.reading.streams import KeyPage, Sources, StreamGateway
from app.gateways.reading.tags import TagGateway
from app.gateways.sharing.visibility import Known
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.models.reading.entry import Entry, EntryKey
from app.models.reading.stream import MARKED, Cursor, EntryRow, Page, Snapshot, StreamKind
from app.models.reading.tag import Tag
from app.models.sharing.sharing import Sharer
from app.models.subscriptions.subscription import Subscription
from app.services.reading.search import Finder

#: Times that a page is filled up where one row stands for several.
FILLS = 4
#: For so many rows one more key is read at once, for rows that stand for several.
SPARE = 6


@dataclasses.dataclass(frozen=True, slots=True)
class Rows:
    """A page of keys, the entries behind them, and what its shares are."""

    page: KeyPage
    found: Mapping[int, Entry]
    gathered: Gathered

    @property
    def count(self) -> int:
        """How many rows it shows."""
        return len(self.page.keys) - len(self.gathered.left)

    def root(self, key: EntryKey) -> int:
        """Return the entry that a user's marks of this one belong to."""
        of = self.gathered.origins.get(key.id)
        return of.entry_id if of else key.id

    def first(self, count: int) -> Rows:
        """Return so many of these rows, as a page that ends with the last of them."""
        left = self.gathered.left
        for end, key in enumerate(self.page.keys, 1):
            count -= key.id not in left
            if count == 0:
                return dataclasses.replace(self, page=self.page.first(end))
        return self

    def and_then(self, more: Rows) -> Rows:
        """Return these rows and those of the next page as one."""
        split = self.page.split
        if split is None and more.page.split is not None:
            split = len(self.page.keys) + more.page.split
        read_from = self.page.read_from
        if read_from is None and more.page.read_from is not None:
            read_from = len(self.page.keys) + more.page.read_from
        keys = [*self.page.keys, *more.page.keys]
        page = KeyPage(keys, more.page.cursor, split, self.page.before, read_from)
        return Rows(page, {**self.found, **more.found}, self.gathered.and_then(more.gathered))


class PageMaker:
    """Makes pages; who may see the stream was checked before.

    Args:
        whole_max: characters of a whole text in a list.
    """

    def __init__(
        self,
        subscriptions: SubscriptionGateway,
        entries: EntryGateway,
        streams: StreamGateway,
        tags: TagGateway,
        finder: Finder,
        gathering: GatheringGateway,
        *,
        whole_max: int,
    ) -> None:
        self._subscriptions, self._entries, self._streams = subscriptions, entries, streams
        self._tags, self._finder, self._gathering = tags, finder, gathering
        self._whole_max = whole_max

    def make(
        self,
        snapshot: Snapshot,
        cursor: Cursor | None,
        limit: int,
        sources: Sources | None,
        *,
        whole: bool,
    ) -> Page:
        """Return the page after ``cursor``; its count of unread entries is not known here.

        Args:
            sources: all of the user's for the stream of all, all people whom he follows for theirs, or those
                of the stream, if they were just read.
            whole: rows with their texts.
        """
        rows = self._rows(snapshot, cursor, limit, sources, whole=whole)
        return self._present(snapshot, rows, sources, whole=whole)

    def keys(self, snapshot: Snapshot, cursor: Cursor | None, limit: int) -> KeyPage:
        """Return the keys of a page, each share for itself."""
        found = snapshot.ref.kind is StreamKind.SEARCH
        return (self._finder if found else self._streams).keys(snapshot, cursor, limit)

    def _rows(
        self, snapshot: Snapshot, cursor: Cursor | None, limit: int, sources: Sources | None, *, whole: bool
    ) -> Rows:
        """Return the keys of a page, more of them where one row stands for several, and what those are."""
        people = self._people(snapshot, sources)
        known = Known({s.feed_id for s in people})
        # Where articles come more than once, a few keys more save a second round of reading.
        several = bool(people) and snapshot.ref.kind in (StreamKind.ALL, StreamKind.FOLLOWING)
        wanted = limit + limit // SPARE if several else limit
        rows = self._read(snapshot, self.keys(snapshot, cursor, wanted), people, known, whole=whole)
        for _ in range(FILLS):
            if not rows.gathered.left or rows.page.cursor is None or (missing := limit - rows.count) < 1:
                break
            more = self.keys(snapshot, rows.page.cursor, missing)
            rows = rows.and_then(self._read(snapshot, more, people, known, whole=whole))
        return rows.first(limit) if several else rows

    def _people(self, snapshot: Snapshot, sources: Sources | None) -> list[Subscription]:
        """Return the user's subscriptions to people, out of what was read already if they all are in it."""
        if sources is None or snapshot.ref.kind not in (StreamKind.ALL, StreamKind.FOLLOWING):
            return self._gathering.people(snapshot.user_id)
        return [s for s in sources.subscriptions.values() if s.person]

    def _read(
        self,
        snapshot: Snapshot,
        page: KeyPage,
        people: Sequence[Subscription],
        known: Known,
        *,
        whole: bool,
    ) -> Rows:
        stored = self._entries.stored(page.keys, whole=whole)
        shares = self._gathering.look(snapshot, stored, people, known)
        found = self._entries.joined(snapshot.user_id, stored, whole=whole, known=known)
        return Rows(page, found, self._gathering.gather(snapshot, page.keys, found, shares, known))

    def _present(self, snapshot: Snapshot, rows: Rows, sources: Sources | None, *, whole: bool) -> Page:
        """Turn keys into rows: names, bodies' excerpts, and the marks as they are now.

        Args:
            sources: of the whole stream, if they were just read.
        """
        user_id, kept_ones, page = snapshot.user_id, snapshot.ref.kind in MARKED, rows.page
        if sources is None or kept_ones:
            feed_ids = list({k.feed_id for k in page.keys})
            own = self._gathering.own(user_id) if snapshot.ref.is_own else []
            sources = self._streams.sources(
                own or self._subscriptions.of_user(user_id, feed_ids), also=feed_ids
            )
        if not (kept_ones or snapshot.ref.is_own):
            # A share is brought back, or closed and opened again, at another place.
            lasting = [k for k in page.keys if k.id in rows.found and rows.found[k.id].of is None]
            self._entries.remember(lasting)
        marks = self._tags.marks(user_id, [rows.root(key) for key in page.keys])
        tags = self._tags.names(user_id, marks)
        shown, split = [], page.split
        for place, key in enumerate(page.keys):
            known = kept_ones or key.feed_id in sources.subscriptions
            if key.id in rows.found and known and key.id not in rows.gathered.left:
                entry, root = rows.found[key.id], rows.root(key)
                starred = root in marks and marks[root].starred
                sharers = rows.gathered.sharers.get(key.id, ())
                row = _row(entry, sources, starred, tags.get(root, ()), sharers)
                shown.append(self._with_text(row, entry) if whole else row)
            elif page.split is not None and split is not None and place < page.split:
                split -= 1
        cursor = str(page.cursor) if page.cursor else None
        return Page(tuple(shown), cursor, snapshot.token, split, None, total=snapshot.total)

    def _with_text(self, row: EntryRow, entry: Entry) -> EntryRow:
        html = entry.content or entry.summary
        if len(html) > self._whole_max:
            return row
        return dataclasses.replace(row, html=html, pictures=entry.pictures)


def _row(
    entry: Entry, sources: Sources, starred: bool, tags: tuple[Tag, ...], sharers: tuple[Sharer, ...]
) -> EntryRow:
    return EntryRow(
        id=entry.id,
        feed_id=entry.feed_id,
        feed_title=sources.title(entry.feed_id),
        language=sources.language(entry.feed_id),
        title=entry.title,
        url=entry.url,
        author=entry.author,
        excerpt=entry.excerpt,
        at=entry.at,
        published=entry.published,
        read=sources.is_read(entry),
        starred=starred,
        image=entry.image,
        tags=tags,
        sharers=sharers,
        lost=entry.lost,
        markable=sources.marks(entry.feed_id),
    )
