"""Streams: snapshots of a set of subscriptions, and their pages."""

from __future__ import annotations

import dataclasses
import datetime as dt
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from app.errors import NotFoundError
from app.gateways.reading import snippets
from app.gateways.reading.recent_reads import RecentReadGateway
from app.gateways.reading.stream_merge import KeyMerger, KeyRequest
from app.mappers.feeds.entries import EntryMapper
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.reading.entry_keys import TimeRange, to_millis
from app.mappers.reading.marks import MarkMapper
from app.mappers.reading.snapshots import SnapshotMapper
from app.models.feeds.feed import FeedCard
from app.models.feeds.hosts import parse_host
from app.models.reading.entry import Entry, EntryKey
from app.models.reading.search import QueryNote, Term
from app.models.reading.stream import (
    MARKED,
    SINGLE,
    Cursor,
    Segment,
    Show,
    Snapshot,
    Sort,
    SourceFeed,
    StreamKind,
    StreamRef,
)
from app.models.reading.tag import Mark
from app.models.subscriptions.subscription import Subscription
from app.runtime import identity_map
from app.runtime.lazy import lazy
from app.runtime.weighted_cache import WeightedCache

T = TypeVar("T")

#: Rows of a list of marked entries in which the one that is open is looked for.
FOLLOWING_MAX = 500
EXPIRED = "This list is more than a day old. Reload it."


@dataclasses.dataclass(frozen=True)
class Sources:
    """Subscriptions and the cards of their feeds, by feed id."""

    subscriptions: Mapping[int, Subscription]
    cards: Mapping[int, FeedCard]

    @lazy
    def feeds(self) -> Mapping[int, SourceFeed]:
        """The data of the subscriptions and feeds that a snapshot stores."""
        return self._make_feeds(None)

    @lazy
    def unread(self) -> Mapping[int, int]:
        """The number of unread entries by feed."""
        return {f: feed.unread for f, feed in self.feeds.items()}

    def select_feed(self, feed_id: int) -> Sources:
        """Return the sources of one feed.

        Raises:
            NotFoundError: the user isn't subscribed to it.
        """
        if feed_id not in self.feeds:
            raise NotFoundError(feed_id=feed_id)
        return Sources({feed_id: self.subscriptions[feed_id]}, {feed_id: self.cards[feed_id]})

    def resume(self, before: Sources | None) -> Sources:
        """Return these sources, with feeds that haven't changed since ``before`` taken from there."""
        if before is None:
            return self
        # Unchanged documents are decoded to the same objects, so this compares a thousand pairs in 20 µs.
        if _same(self.subscriptions, before.subscriptions) and _same(self.cards, before.cards):
            return before
        self.__dict__["feeds"] = self._make_feeds(before)
        return self

    def _make_feeds(self, before: Sources | None) -> Mapping[int, SourceFeed]:
        mine, found = self.subscriptions, {}
        for f, card in self.cards.items():
            if f not in mine:
                continue
            if before and before.cards.get(f) is card and before.subscriptions.get(f) is mine[f]:
                found[f] = before.feeds[f]
            else:
                first = card.find_first_seq(mine[f].keep_newest)
                found[f] = SourceFeed.create(
                    f,
                    first,
                    card.last_seq,
                    newest=card.newest,
                    state=mine[f].state,
                    missing=card.removed.count_between(first, card.last_seq),
                )
        return found

    def get_title(self, feed_id: int, page: str | None = None) -> str:
        """Return this user's title of a feed.

        The address of a feed may be a secret of its subscribers. Others see the host of its site instead.

        Args:
            page: the address of an entry, whose host is the last resort.
        """
        card, mine = self.cards.get(feed_id), self.subscriptions.get(feed_id)
        if mine is not None and mine.title:
            return mine.title
        if card is None:
            return ""
        if mine is not None or card.owner is not None:  # the address of a person's shares is public
            return card.title or card.url
        return card.title or parse_host(card.site_url or page or "")

    def is_read(self, entry: Entry) -> bool:
        """Return whether the reader has read an entry; entries older than those of the list count as read."""
        return self.is_key_read(entry)

    def is_key_read(self, entry: Entry | EntryKey) -> bool:
        """Return whether the reader has read the entry of a key, as :meth:`is_read`."""
        mine, card = self.subscriptions.get(entry.feed_id), self.cards.get(entry.feed_id)
        if mine is None or card is None or entry.seq < card.find_first_seq(mine.keep_newest):
            return True
        return mine.state.is_read(entry.seq)

    def can_mark(self, feed_id: int) -> bool:
        """Return whether a feed has a read state: not for the user's own shares, nor after unsubscribing."""
        mine = self.subscriptions.get(feed_id)
        return mine is not None and mine.id != 0

    def get_language(self, feed_id: int) -> str | None:
        """Return the language that a feed declares."""
        card = self.cards.get(feed_id)
        return card.language if card else None


def _same(some: Mapping[int, T], others: Mapping[int, T]) -> bool:
    return list(some.values()) == list(others.values())


@dataclasses.dataclass(frozen=True, slots=True)
class KeyPage:
    """One page of keys; ``split`` as in :class:`app.models.reading.stream.Page`.

    Attributes:
        before, read_from: as passed to :func:`cut_page`.
        notes: about entries that a search may have missed.
    """

    keys: list[EntryKey]
    cursor: Cursor | None
    split: int | None
    before: Cursor | None = None
    read_from: int | None = None
    notes: tuple[QueryNote, ...] = ()

    def select_keys(self, is_shown: Callable[[EntryKey], bool]) -> KeyPage:
        """Return this page without the keys that aren't shown."""
        places = [place for place, key in enumerate(self.keys) if is_shown(key)]
        if len(places) == len(self.keys):
            return self
        keys = [self.keys[place] for place in places]
        split, read_from = (_count_below(places, border) for border in (self.split, self.read_from))
        split = split if split is not None and split < len(keys) else None
        return dataclasses.replace(self, keys=keys, split=split, read_from=read_from)

    def join(self, more: KeyPage) -> KeyPage:
        """Return this page and the next one as one page."""
        split, read_from = self.split, self.read_from
        if split is None and more.split is not None:
            split = len(self.keys) + more.split
        if read_from is None and more.read_from is not None:
            read_from = len(self.keys) + more.read_from
        return KeyPage([*self.keys, *more.keys], more.cursor, split, self.before, read_from, self.notes)

    def take_first(self, count: int) -> KeyPage:
        """Return the first ``count`` keys of this page as a page."""
        if count >= len(self.keys):
            return self
        page = cut_page(self.keys, count, self.before, self.read_from)
        return dataclasses.replace(page, notes=self.notes)


def _count_below(places: Sequence[int], border: int | None) -> int | None:
    return None if border is None else sum(place < border for place in places)


class StreamGateway:
    """Opens snapshots of streams, and pages through them.

    Args:
        feeds_max: Number of feeds whose evaluated sources are kept, of all users together.
    """

    def __init__(
        self,
        feeds: FeedMapper,
        entries: EntryMapper,
        marks: MarkMapper,
        snapshots: SnapshotMapper,
        *,
        merger: KeyMerger,
        recent_reads: RecentReadGateway,
        feeds_max: int,
    ) -> None:
        self._feeds = feeds
        self._entries = entries
        self._marks = marks
        self._snapshots = snapshots
        self._merger = merger
        self._recent_reads = recent_reads
        self._kept = WeightedCache[int, Sources](feeds_max)

    def load_sources(
        self, subscriptions: Iterable[Subscription], extra_feed_ids: Iterable[int] = ()
    ) -> Sources:
        """Join subscriptions with the cards of their feeds, and of more feeds."""
        mine = {s.feed_id: s for s in subscriptions}
        cards = self._feeds.find_cards([*mine, *(f for f in extra_feed_ids if f not in mine)])
        for card in [c for c in cards.values() if c.owner is not None or c.saved]:
            _seen(card, mine, cards)
        return Sources(mine, cards)

    def load_all_sources(self, user_id: int, subscriptions: Iterable[Subscription]) -> Sources:
        """Join all of a user's subscriptions with the cards of their feeds.

        The same object is returned while nothing in it changes.
        """
        found = self.load_sources(subscriptions).resume(self._kept.get(user_id))
        self._kept.add(user_id, found, len(found.cards))
        return found

    def open_snapshot(
        self,
        user_id: int,
        ref: StreamRef,
        sort: Sort,
        feeds: Mapping[int, SourceFeed],
        *,
        expires: dt.datetime,
        now: dt.datetime,
        show: Show = Show.ALL,
        ranking: tuple[EntryKey, ...] | None = None,
        is_stored: bool = True,
    ) -> Snapshot:
        """Store the current state of a stream for paging; one of the same content may be a bit older.

        Args:
            is_stored: False: only return it, for a list without further pages.
        """
        snapshot = Snapshot(secrets.token_urlsafe(16), user_id, ref, sort, now, feeds, show, ranking)
        if not is_stored:
            return snapshot
        token = self._snapshots.add(snapshot, expires)
        return snapshot if token == snapshot.token else dataclasses.replace(snapshot, token=token)

    def get_snapshot(self, user_id: int, token: str, now: dt.datetime) -> Snapshot:
        """Return a user's snapshot.

        Raises:
            NotFoundError: the snapshot has expired, or isn't the user's.
        """
        snapshot = self._snapshots.find(user_id, token, now)
        if snapshot is None:
            raise NotFoundError(EXPIRED, snapshot=token)
        return snapshot

    def get_last_seqs(self, user_id: int, token: str, now: dt.datetime) -> tuple[StreamRef, dict[int, int]]:
        """Return the stream of a snapshot and its feeds' last numbers then.

        Raises:
            NotFoundError: the snapshot has expired, or isn't the user's.
        """
        found = self._snapshots.find_last_seqs(user_id, token, now)
        if found is None:
            raise NotFoundError(EXPIRED, snapshot=token)
        return found

    def count_newer(self, last_seqs: Mapping[int, int], subscriptions: Collection[Subscription]) -> int:
        """Return how many entries these feeds have received since a snapshot, without those rules hide."""
        mine = {one.feed_id: one for one in subscriptions if one.feed_id in last_seqs}
        cards = self._feeds.find_cards(list(mine))
        shown = [card for card in cards.values() if not card.hidden]
        return sum(_count_newer(card, mine[card.id], last_seqs[card.id]) for card in shown)

    def load_key_page(self, snapshot: Snapshot, cursor: Cursor | None, limit: int) -> KeyPage:
        """Return the page after ``cursor``."""
        if snapshot.ref.kind in MARKED:
            return self._marked(snapshot, cursor, limit)
        if snapshot.ref.kind is StreamKind.RECENT:
            return self._read_recently(snapshot, cursor, limit)
        if snapshot.ranking is not None:
            return self._ranked(snapshot, snapshot.ranking, cursor, limit)
        feeds = snapshot.feeds.values()
        wanted = KeyRequest(limit + 1, snapshot.sort is not Sort.OLDEST)
        if cursor:
            top = max((f.newest for f in feeds), default=0)
            pace = abs(top - cursor.at) / cursor.seen if cursor.seen else None
            wanted = dataclasses.replace(wanted, after=(cursor.at, cursor.id), pace=pace)
        if snapshot.show is Show.UNREAD:
            return cut_page(
                self._merger.merge_keys(feeds, dataclasses.replace(wanted, read=False)), limit, cursor
            )
        if snapshot.sort is not Sort.UNREAD_ON_TOP:
            return cut_page(self._merger.merge_keys(feeds, wanted), limit, cursor)
        if cursor and cursor.segment is Segment.READ:
            keys = self._merger.merge_keys(feeds, dataclasses.replace(wanted, read=True))
            return cut_page(keys, limit, cursor, read_from=0)
        unread = self._merger.merge_keys(feeds, dataclasses.replace(wanted, read=False))
        if len(unread) > limit:
            return cut_page(unread, limit, cursor)
        read = self._merger.merge_keys(feeds, KeyRequest(limit + 1 - len(unread), read=True))
        return cut_page(unread + read, limit, cursor, read_from=len(unread))

    def find_following(
        self, snapshot: Snapshot, entry: Entry, limit: int, *, was_read: bool
    ) -> list[EntryKey]:
        """Return the keys of the entries after one, in the order of a list that needn't be stored.

        Args:
            was_read: whether the entry was read when the list was made, which decides about its place.
        """
        if snapshot.ref.kind in SINGLE:
            # Its place depends on the time of the mark or of reading.
            keys = self.load_key_page(snapshot, None, FOLLOWING_MAX).keys
            place = next((n for n, key in enumerate(keys, 1) if key.id == entry.id), len(keys))
            return keys[place : place + limit]
        segment = Segment.READ if was_read and snapshot.sort is Sort.UNREAD_ON_TOP else Segment.FIRST
        cursor = Cursor(segment, to_millis(entry.at), entry.id, 0)
        return self.load_key_page(snapshot, cursor, limit).keys

    def _ranked(
        self, snapshot: Snapshot, ranking: Sequence[EntryKey], cursor: Cursor | None, limit: int
    ) -> KeyPage:
        """Return a page of the ranking, in which cursors count rows, and then of the rest, newest first."""
        if cursor and cursor.segment is Segment.READ:
            return cut_page(self._rest(snapshot, ranking, cursor, limit + 1), limit, cursor, read_from=0)
        start = cursor.seen if cursor else 0
        keys = list(ranking[start : start + limit + 1])
        if len(keys) > limit:
            return cut_page(keys, limit, cursor)
        rest = self._rest(snapshot, ranking, None, limit + 1 - len(keys))
        return cut_page(keys + rest, limit, cursor, read_from=len(keys))

    def _rest(
        self, snapshot: Snapshot, ranking: Sequence[EntryKey], cursor: Cursor | None, count: int
    ) -> list[EntryKey]:
        """Return keys that the ranking lacks, newest first."""
        if snapshot.ref.kind is StreamKind.TODAY:
            return []
        if cursor:
            after: tuple[int, int] | None = (cursor.at, cursor.id)
        elif snapshot.sort is Sort.SHORTEST:
            # It ranks the newest ones.
            after = min(((key.at, key.id) for key in ranking), default=None)
        else:
            after = None
        ranked = {key.id for key in ranking}
        wanted = KeyRequest(count, read=False if snapshot.show is Show.UNREAD else None)
        found: list[EntryKey] = []
        while len(found) < count:
            some = self._merger.merge_keys(snapshot.feeds.values(), dataclasses.replace(wanted, after=after))
            found += [key for key in some if key.id not in ranked]
            if len(some) < count:
                break
            after = some[-1].at, some[-1].id
        return found[:count]

    def _marked(self, snapshot: Snapshot, cursor: Cursor | None, limit: int) -> KeyPage:
        newest_first = snapshot.sort is not Sort.OLDEST
        wanted = KeyRequest(limit + 1, newest_first, None, (cursor.at, cursor.id) if cursor else None)
        size = limit + 1
        while True:
            found = self._marks.find_marked_keys(
                snapshot.user_id,
                wanted.build_time_range(None),
                newest_first=newest_first,
                limit=size,
                tag=snapshot.ref.id,
                noted=snapshot.ref.kind is StreamKind.NOTES,
            )
            keys = [k for k in found if wanted.is_after(k)]
            if len(keys) > limit or len(found) < size:
                return cut_page(keys[: limit + 1], limit, cursor)
            size *= 2  # an import: more than a page of stars in one millisecond

    def _read_recently(self, snapshot: Snapshot, cursor: Cursor | None, limit: int) -> KeyPage:
        """Return a page; an entry that is read again moves to the front, so it isn't on later pages."""
        wanted = KeyRequest(
            limit + 1, snapshot.sort is not Sort.OLDEST, after=(cursor.at, cursor.id) if cursor else None
        )
        keys = sorted(self._recent_reads.find_visible_keys(snapshot.user_id), key=wanted.make_sort_key)
        return cut_page([key for key in keys if wanted.is_after(key)][: limit + 1], limit, cursor)

    def find_snippets(
        self, keys: Sequence[EntryKey], terms: Sequence[Term], stated: Mapping[int, str | None]
    ) -> dict[int, str]:
        """Return a snippet by entry, for entries whose text or category contains one of these terms.

        ``stated``: the languages that the feeds name, by entry.
        """
        found = self._entries.find_with_bodies(keys) if keys and terms else []
        places = {
            one.id: snippets.extract_snippet(one.longest, terms, one.title, stated.get(one.id) or "")
            or snippets.name_category(one, terms)
            for one in found
        }
        return {entry_id: place for entry_id, place in places.items() if place}

    def find_marks(self, user_id: int, keys: Sequence[EntryKey]) -> dict[int, Mark]:
        """Return the user's marks of these entries, if any, by entry id."""
        return self._marks.find_marks(user_id, [k.id for k in keys]) if keys else {}

    def find_marked_ids(self, user_id: int, tag: int | None, limit: int, *, noted: bool = False) -> set[int]:
        """Return the ids of the user's starred, tagged or (``noted``) noted entries, latest marks first.

        Args:
            limit: the most ids.
        """

        def _fetch() -> Sequence[EntryKey]:
            return self._marks.find_marked_keys(
                user_id, TimeRange(), newest_first=True, limit=limit, tag=tag, noted=noted
            )

        # A search needs them twice: for its page, and for the copies of the page's entries.
        found = identity_map.find_once("marks", "latest", (user_id, tag, noted, limit), _fetch)
        return {key.id for key in found}


def _count_newer(card: FeedCard, mine: Subscription, last: int) -> int:
    first, end = last + 1, card.last_seq
    count = max(0, end - last) - card.removed.count_between(first, end)
    if mine.hidden.count_between(first, end):
        count -= sum(
            mine.hidden.has_seq(seq) and mine.state.is_read(seq) and not card.removed.has_seq(seq)
            for seq in range(first, end + 1)
        )
    return count


def _seen(card: FeedCard, mine: dict[int, Subscription], cards: dict[int, FeedCard]) -> None:
    """Hide removed shares and saved pages, or the whole stream of a person if it's closed."""
    own = card.id in mine and mine[card.id].user_id == card.owner
    if card.hidden and not own:
        cards.pop(card.id)
        mine.pop(card.id, None)
    elif card.removed.bits and card.id in mine:
        was = mine[card.id]
        mine[card.id] = was._replace(state=was.state.exclude_removed(card.removed))


def cut_page(
    keys: list[EntryKey], limit: int, cursor: Cursor | None, read_from: int | None = None
) -> KeyPage:
    """Cut a page from a list of keys, and calculate its cursor.

    Args:
        keys: one more than ``limit`` when there is a next page.
        cursor: the cursor of the previous page.
        read_from: where segment B begins in ``keys``.
    """
    shown = keys[:limit]
    before = cursor.segment if cursor else Segment.FIRST
    starts = read_from is not None and read_from < len(shown)
    split = read_from if starts and before is Segment.FIRST else None
    if len(keys) <= limit:
        return KeyPage(shown, None, split, cursor, read_from)
    segment = Segment.READ if starts else Segment.FIRST
    carried = cursor.seen if cursor and before is segment else 0
    seen = carried + len(shown) - (read_from or 0 if starts else 0)
    return KeyPage(shown, Cursor(segment, shown[-1].at, shown[-1].id, seen), split, cursor, read_from)
