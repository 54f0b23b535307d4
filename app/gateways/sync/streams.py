"""Streams as sync apps request them: combined, filtered, or changed since a time; keys only.

All are in the order of arrival, which is the order of the ids: apps stop at the first id that they know, or
ask for what arrived since their last request. In an order by date they would miss what arrives late.

There are two methods. Changes since a time are gathered completely, from arrivals, revisions and the user's
changes, and sorted here. Every other query walks along the arrivals
(:mod:`app.gateways.reading.arrival_order`) and skips keys that don't match. It also serves when there are too
many changes to gather.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Collection, Iterable

from app import clock
from app.config import Settings
from app.gateways.reading.arrival_order import ArrivalOrder, ArrivalRequest
from app.gateways.sharing.visibility import VisibilityGateway
from app.gateways.sync.filters import EntryFilter, FilterDataReader, SyncScope, to_micros
from app.mappers.discussion.comments import CommentMapper
from app.mappers.discussion.likes import LikeMapper
from app.mappers.feeds.entries import EntryMapper
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.reading.arrivals import ArrivalMapper
from app.mappers.reading.changes import ChangeMapper
from app.mappers.reading.entry_keys import EntryKeyMapper, TimeRange, from_millis
from app.mappers.reading.marks import MarkMapper
from app.mappers.sharing.shares import ShareMapper
from app.models.reading.entry import EntryKey
from app.models.reading.stream import MAX_ID
from app.models.sync.sync import ReadLimit, SyncQuery, SyncStream, SyncStreamKind

#: Fewest keys per step of a walk.
STRIDE = 1000
#: Most changes of a user that one query reads.
CHANGES = 20_000
#: Milliseconds between an entry's date and its arrival, from which its date isn't just its arrival.
DATED_MS = 1000
#: Age from which whole seconds stand for the date of an entry, and not for the time of an app's last sync.
#: In a busy list, every few seconds are also the date of some entry.
DATES_ALONE = dt.timedelta(days=1)
#: More stars than anyone has.
ALL = 1_000_000


class SyncStreamGateway:
    """Finds the keys of queries; the scope decides what the user may read."""

    def __init__(
        self,
        *,
        arrived: ArrivalOrder,
        keys: EntryKeyMapper,
        arrivals: ArrivalMapper,
        changes: ChangeMapper,
        feeds: FeedMapper,
        entries: EntryMapper,
        marks: MarkMapper,
        shares: ShareMapper,
        likes: LikeMapper,
        comments: CommentMapper,
        visibility: VisibilityGateway,
        settings: Settings,
    ) -> None:
        self._arrived, self._feeds = arrived, feeds
        self._keys, self._arrivals, self._changes = keys, arrivals, changes
        self._marks, self._shares, self._likes = marks, shares, likes
        self._look = FilterDataReader(entries, marks, likes, comments, visibility)
        self._most = settings.sync_gather_max

    # -- pages
    def load_page(self, scope: SyncScope, query: SyncQuery) -> tuple[list[EntryKey], int | None]:
        """Return the keys of a page in their order, and its last id if there may be a next page.

        ``at`` of a key may be the time of arrival.
        """
        sieve = EntryFilter(scope, query, self._look)
        found = self._gathered(scope, query, sieve)
        keys = self._walked(query, sieve) if found is None else found
        shown = keys[: query.limit]
        return shown, shown[-1].id if len(keys) > query.limit else None

    def load_ids(self, scope: SyncScope, query: SyncQuery) -> tuple[list[int], int | None]:
        """Return the ids of :meth:`load_page`; without a step for each, if the query is simple."""
        sieve = EntryFilter(scope, query, self._look)
        if query.since is not None or not sieve.is_simple:
            keys, end = self.load_page(scope, query)
            return [key.id for key in keys], end
        wanted = _request(query, sieve, query.limit + 1)
        found = self._arrived.find_ids(sieve.feeds.values(), wanted, scope.people)
        shown = found[: query.limit]
        return shown, shown[-1] if len(found) > query.limit else None

    def count_entries(self, scope: SyncScope, query: SyncQuery) -> tuple[int, dt.datetime | None]:
        """Return how many entries match a query, and when the newest was published or arrived."""
        sieve = EntryFilter(scope, query, self._look)
        if sieve.is_simple and query.since is None:
            wanted = ArrivalRequest(0, read=sieve.read)
            newest = max((feed.newest for feed in sieve.feeds.values()), default=0)
            return sum(map(wanted.count_entries, sieve.feeds.values())), from_millis(
                newest
            ) if newest else None
        total, last, query = 0, None, dataclasses.replace(query, limit=self._most)
        while True:
            keys, end = self.load_page(scope, query)
            last = last or (from_millis(keys[0].at) if keys else None)
            total += len(keys)
            if end is None:
                return total, last
            query = dataclasses.replace(query, after=end)

    def _walked(self, query: SyncQuery, entry_filter: EntryFilter) -> list[EntryKey]:
        """Walk along the arrivals until there is one key more than a page, or no more keys."""
        simple = entry_filter.is_simple
        wanted = _request(query, entry_filter, query.limit + 1 if simple else max(query.limit + 1, STRIDE))
        feeds, people = entry_filter.feeds.values(), entry_filter.shelf.people
        marked = self._marked(entry_filter)
        found: list[EntryKey] = []
        while True:
            taken = self._arrived.find_keys(feeds, wanted, people) if feeds else []
            more = len(taken) >= wanted.count
            rest = wanted.continue_after(taken[-1].id) if more else None
            step = taken
            if marked:
                both = {key.id: key for key in (*taken, *marked) if wanted.is_inside(key.id)}
                step = [key for key in _sorted(both.values(), query) if not (rest and rest.is_inside(key.id))]
            found += entry_filter.filter_keys(step)
            if len(found) > query.limit or rest is None:
                return found
            wanted = rest

    def _marked(self, entry_filter: EntryFilter) -> list[EntryKey]:
        """Return the keys of the entries with the marks that the query covers."""
        found: dict[int, int] = {}
        for part in entry_filter.marked:
            found.update((key.id, key.feed_id) for key in self._with_mark(entry_filter.shelf, part))
            if part.kind is not SyncStreamKind.LIKED:
                found.update(self._shares_of(entry_filter.shelf, found))
        return self._keys.find_by_ids(list(found), list(set(found.values()))) if found else []

    def _with_shares(self, scope: SyncScope, entry_ids: set[int]) -> set[int]:
        """Return these entries, the entries that they share, and their shares in scope, which have the same
        marks.
        """
        shares = self._shares.find_many(list(entry_ids)) if entry_ids else {}
        found = entry_ids | {share.of.entry_id for share in shares.values()}
        return found | self._shares_of(scope, found).keys()

    def _shares_of(self, scope: SyncScope, marked: Collection[int]) -> dict[int, int]:
        """Return share id → feed id, for the shares of marked entries in a scope.

        A mark of a share is stored on the shared entry. Apps only know the share, and consider unlisted
        entries unmarked.
        """
        people = [f for f, s in scope.sources.subscriptions.items() if s.person and s.id]
        shares = self._shares.find_among(list(marked), people) if marked and people else []
        return {s.id: s.feed_id for s in shares}

    def _with_mark(self, scope: SyncScope, stream: SyncStream) -> list[EntryKey]:
        if stream.kind is SyncStreamKind.LIKED:
            shares = self._shares.find_many(self._likes.find_by_user(scope.user_id, self._most))
            told = [EntryKey(s.id, s.feed_id, s.seq, 0) for s in shares.values() if s.live]
            return [*self._marks.find_liked_keys(scope.user_id, self._most), *told]
        tag = scope.find_tag(stream.name) if stream.kind is SyncStreamKind.LABEL else None
        return self._marks.find_marked_keys(
            scope.user_id, TimeRange(), newest_first=True, limit=self._most, tag=tag
        )

    # -- changes since a time
    def _gathered(
        self, scope: SyncScope, query: SyncQuery, entry_filter: EntryFilter
    ) -> list[EntryKey] | None:
        """Return all keys changed since a time, after the cursor; None: too many to gather."""
        if query.since is None:
            return None
        entry_filter.is_simple = False  # gathered keys have any read state
        since = to_micros(query.since)
        numbers, changed = self._changes.find_since(scope.user_id, query.since, CHANGES)
        ids = self._with_shares(scope, changed)
        marked = self._marked(entry_filter)
        feeds = list(entry_filter.feeds)
        arrived = self._arrivals.find_since(feeds, since, self._most) if feeds else []
        where = list({*feeds, *(k.feed_id for k in marked)})
        revised = self._arrivals.find_revised(where, query.since, self._most) if where else []
        # A reopened stream counts as new in full, like a new subscription.
        begins, cards = scope.sources.subscriptions, scope.sources.cards
        new = {f for f in feeds if begins[f].id >= since or cards[f].shown_ms * 1000 >= since}
        begun = self._arrived.find_keys(
            [entry_filter.feeds[f] for f in new],
            ArrivalRequest(self._most, read=entry_filter.read),
            entry_filter.shelf.people,
        )
        touched = {f: sorted(n) for f, n in numbers.items() if f in entry_filter.feeds}
        if max(len(arrived), len(revised), len(begun), sum(map(len, touched.values()))) >= self._most:
            entry_filter.require_since(since, new, numbers, ids | {k.id for k in revised})
            return None
        # Unlike a walk, this doesn't filter by read state.
        entry_filter.is_simple = entry_filter.is_simple and entry_filter.read is None
        byhand = self._keys.find_by_seqs(touched) if touched else []
        # A mark is a change too, regardless of when the entry arrived.
        named = self._keys.find_by_ids(sorted(ids), feeds) if ids and feeds else []
        changes = ids | {k.id for k in revised}
        named += [
            k for k in marked if k.id >= since or k.id in changes or k.seq in numbers.get(k.feed_id, ())
        ]
        revised = [k for k in revised if k.feed_id in entry_filter.feeds]
        found = {k.id: k for k in (*arrived, *revised, *begun, *byhand, *named)}
        wanted = _request(query, entry_filter, len(found))
        after = [key for key in found.values() if wanted.is_inside(key.id)]
        return _sorted(entry_filter.filter_keys(after), query)

    def find_arrived(
        self, scope: SyncScope, above: int, below: int, limit: int, *, newest_first: bool
    ) -> list[EntryKey]:
        """Return the first keys of a scope's feeds between two ids."""
        wanted = ArrivalRequest(limit, newest_first, None, above, below)
        return self._arrived.find_keys(scope.feeds.values(), wanted, scope.people)

    def find_unread_ids(self, scope: SyncScope) -> list[int]:
        """Return the ids of all unread entries in a scope, ascending."""
        number = sum(feed.unread for feed in scope.feeds.values())
        wanted = ArrivalRequest(number, newest_first=False, read=False)
        return self._arrived.find_ids(scope.feeds.values(), wanted, scope.people)

    def find_starred_ids(self, scope: SyncScope) -> list[int]:
        """Return the ids of all starred entries and of their shares in a scope, ascending."""
        keys = self._marks.find_marked_keys(scope.user_id, TimeRange(), newest_first=True, limit=ALL)
        found = {key.id: key.feed_id for key in keys}
        return sorted(found | self._shares_of(scope, found))

    def find_later_dated(
        self, scope: SyncScope, feed_ids: Collection[int], limit: ReadLimit
    ) -> dict[int, list[int]] | None:
        """Return the numbers of the entries that are dated after a time, by feed.

        Returns:
            None: no entry of these feeds has this date, so the app states a time of arrival. Also None for
            more than `EVENTR_SYNC_GATHER_MAX` numbers.
        """
        mine = [f for f in feed_ids if f in scope.feeds]
        dates = TimeRange(limit.first // 1000, limit.last // 1000)
        newest = max((scope.feeds[f].newest for f in mine), default=0)
        if newest < limit.first // 1000 or not (
            limit.is_exact
            or newest <= limit.last // 1000
            or limit.last < to_micros(clock.now() - DATES_ALONE)
        ):
            return None
        found = self._keys.find_window(mine, dates, self._most)
        if all(entry_id // 1000 - at < DATED_MS for _, at, entry_id, _ in found):
            return None
        later = list(self._keys.find_window(mine, TimeRange(limit.last // 1000 + 1), self._most))
        if len(later) == self._most:
            return None
        numbers: dict[int, list[int]] = {}
        for feed_id, _, _, seq in later:
            numbers.setdefault(feed_id, []).append(seq)
        return numbers

    def find_last_before(self, scope: SyncScope, feed_ids: Collection[int], entry_id: int) -> dict[int, int]:
        """Return the last number of each of these feeds that arrived by a time, given as an id."""
        mine = [f for f in feed_ids if f in scope.feeds]
        later = self._arrivals.find_first_seqs(mine, entry_id) if mine else {}
        return {f: later[f] - 1 if f in later else scope.feeds[f].last_seq for f in mine}

    def find_last_ids(self, feed_ids: Collection[int], below: int) -> dict[int, int]:
        """Return the last id below another one by feed, for the feeds with such entries."""
        return self._arrivals.find_last_ids(sorted(feed_ids), below) if feed_ids else {}

    def has_arrivals(self, feed_id: int, since: int) -> bool:
        """Return whether a feed has an entry with this id or a later one."""
        return since < MAX_ID and bool(self._arrivals.find_since([feed_id], since, 1))

    def make_stamp(self, user_id: int, feed_id: int, *, full_texts: bool) -> str:
        """Return a stamp that changes with each change of a feed's texts or of a user's marks.

        Args:
            full_texts: the user gets those of the pages, which don't revise their entries.
        """
        revised = self._arrivals.find_last_revised(feed_id)
        news = self._feeds.find_last_news(feed_id) if full_texts else None
        times = ".".join(str(at and at.timestamp()) for at in (revised, news))
        return f"{times}.{self._changes.find_last_id(user_id)}"


def _request(query: SyncQuery, entry_filter: EntryFilter, count: int) -> ArrivalRequest:
    """Return the request for the keys of a query's feeds after the previous page."""
    wanted = ArrivalRequest(count, query.newest_first, entry_filter.read, below=query.below)
    return wanted if query.after is None else wanted.continue_after(query.after)


def _sorted(keys: Iterable[EntryKey], query: SyncQuery) -> list[EntryKey]:
    return sorted(keys, key=lambda key: key.id, reverse=query.newest_first)
