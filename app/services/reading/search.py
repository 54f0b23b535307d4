"""Search: resolves the names in a query to feeds and entries, and gets pages from the search engine."""

from __future__ import annotations

import dataclasses
import datetime as dt
import time
from collections.abc import Iterable, Sequence

from app import logs
from app.errors import SearchUnavailableError
from app.gateways.reading.streams import KeyPage, StreamGateway, cut_page
from app.gateways.reading.tags import TagGateway
from app.gateways.subscriptions.folders import FolderGateway
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.models.reading.entry import EntryKey
from app.models.reading.search import (
    RANKED_MAX,
    NameFilter,
    SearchQuery,
    SearchRequest,
    SearchResult,
    Term,
    contains_term,
    find_language,
    parse_query,
)
from app.models.reading.stream import (
    Cursor,
    EntryRow,
    Page,
    SearchSummary,
    Segment,
    Snapshot,
    Sort,
    SourceFeed,
    StreamRef,
)
from app.models.reading.tokenizer import fold_text
from app.models.subscriptions.folder import find_descendants
from app.models.subscriptions.subscription import Subscription
from app.ports import SearchPort

log = logs.get(__name__)

#: Characters of an excerpt that every row shows, also in the single line of a suggestion.
EXCERPT = 60
#: Starred or tagged entries that a search considers, most recently marked first.
MARKED_MOST = 20_000
#: Entries that are read at once if some are filtered afterwards.
FILTERED = 200
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MS = dt.timedelta(milliseconds=1)


class EntrySearch:
    """Searches in the subscriptions of one user.

    Args:
        time_limit: seconds after which a page is returned even if it is short.
    """

    def __init__(
        self,
        engine: SearchPort,
        subscriptions: SubscriptionGateway,
        streams: StreamGateway,
        folders: FolderGateway,
        tags: TagGateway,
        *,
        time_limit: float,
    ) -> None:
        self._patience = time_limit
        self._search = engine
        self._subscriptions = subscriptions
        self._streams = streams
        self._folders = folders
        self._tags = tags

    def find_subscriptions(self, user_id: int, text: str) -> Sequence[Subscription]:
        """Return the subscriptions that a query covers."""
        query = parse_query(text)
        mine = self._subscriptions.find_by_user(user_id)
        if query.shared is not None:
            mine = [s for s in mine if s.person is query.shared]
        if query.folders:
            mine = self._in_folders(user_id, mine, query.folders)
        if query.feeds:
            titles = self._streams.load_sources(mine)
            mine = [s for s in mine if _named(titles.get_title(s.feed_id), query.feeds)]
        return mine

    def _in_folders(
        self, user_id: int, subscriptions: Sequence[Subscription], names: Iterable[NameFilter]
    ) -> list[Subscription]:
        folders = self._folders.find_by_user(user_id)
        found: dict[bool, set[int]] = {True: set(), False: set()}
        for name in names:
            meant = [folder.id for folder in folders if name.text in fold_text(folder.name)]
            found[name.wanted] |= find_descendants(folders, meant)
        wanted = any(name.wanted for name in names)
        return [
            s
            for s in subscriptions
            if (not wanted or found[True].intersection(s.folder_ids))
            and not found[False].intersection(s.folder_ids)
        ]

    def load_key_page(self, snapshot: Snapshot, cursor: Cursor | None, limit: int) -> KeyPage:
        """Return the page after ``cursor``.

        If the search takes long and finds little, a page may be short or empty although there is more; it
        then has a cursor.
        """
        query = parse_query(snapshot.ref.query)
        if query.is_empty:
            return KeyPage([], None, None)
        wanted = self._wanted(snapshot, query)
        if _is_ranked(snapshot, query):
            return self._load_ranked(snapshot, query, wanted, cursor, limit)
        found = SearchResult([], (cursor.at, cursor.id) if cursor else None)
        keys: list[EntryKey] = []
        end = time.monotonic() + self._patience
        # What the engine doesn't know is tested here, so more must be read for a page.
        most = max(limit + 1, FILTERED) if query.has_filters else limit + 1
        while True:
            found = self._search.find(dataclasses.replace(wanted, after=found.after), most)
            keys += self._filtered(snapshot, query, found)
            if len(keys) > limit or found.after is None:
                return dataclasses.replace(cut_page(keys[: limit + 1], limit, cursor), notes=found.notes)
            if time.monotonic() >= end:
                after = Cursor(Segment.FIRST, *found.after, seen=len(keys))
                return KeyPage(keys, after, None, notes=found.notes)

    def _load_ranked(
        self, snapshot: Snapshot, query: SearchQuery, wanted: SearchRequest, cursor: Cursor | None, limit: int
    ) -> KeyPage:
        """Return the best matches after ``cursor``; a page with filtered entries may be shorter."""
        if cursor and not 0 <= cursor.at < RANKED_MAX:
            return KeyPage([], None, None)
        after: tuple[int, int] | None = (cursor.at, 0) if cursor else None
        end = time.monotonic() + self._patience
        while True:
            ranked = dataclasses.replace(wanted, after=after, by_relevance=True)
            found = self._search.find(ranked, limit)
            keys, after = self._filtered(snapshot, query, found), found.after
            if after is None:
                return KeyPage(keys, None, None, notes=found.notes)
            if keys or time.monotonic() >= end:
                cursor = Cursor(Segment.FIRST, *after, seen=after[0])
                return KeyPage(keys, cursor, None, notes=found.notes)

    def find_matching(self, snapshot: Snapshot, keys: Sequence[EntryKey]) -> list[EntryKey]:
        """Return those of these entries that the search finds, in the order of its results.

        Limited to entries, the engine reads only these. If it doesn't answer, this returns nothing: the
        page is shown with each entry on its own.
        """
        query = parse_query(snapshot.ref.query)
        wanted = self._wanted(snapshot, query)
        ids = frozenset(key.id for key in keys)
        ids = ids if wanted.ids is None else ids & wanted.ids
        if query.is_empty or not ids:
            return []
        among = dataclasses.replace(wanted, ids=ids, by_relevance=_is_ranked(snapshot, query))
        try:
            found = self._search.find(among, len(ids) + 1)
        except SearchUnavailableError:
            log.warning("matches_unknown", user_id=snapshot.user_id)
            return []
        return self._filtered(snapshot, query, found)

    def add_snippets(self, page: Page, ref: StreamRef) -> Page:
        """Replace the excerpts of rows whose beginning has no search term by a snippet with the term."""
        query = parse_query(ref.query)
        unseen = [row for row in page.rows if not _begins_with_any(row, query.terms)]
        keys = [EntryKey(r.id, r.feed_id, 0, 0) for r in unseen]
        passages = self._streams.find_snippets(keys, query.terms, {r.id: r.language for r in unseen})
        rows = tuple(dataclasses.replace(r, excerpt=passages.get(r.id, r.excerpt)) for r in page.rows)
        return dataclasses.replace(
            page, rows=rows, looked=SearchSummary(query.terms, (*query.notes, *page.notes))
        )

    def _wanted(self, snapshot: Snapshot, query: SearchQuery) -> SearchRequest:
        feeds, ids = snapshot.feeds, self._ids(snapshot.user_id, query)
        return SearchRequest(
            # Entries kept only for their marks have numbers below the feed's first.
            feeds={
                f.feed_id: (f.first_seq if ids is None else 1, f.last_seq)
                for f in feeds.values()
                if f.total and _may(f, query)
            },
            newest=max((f.newest for f in feeds.values()), default=0),
            terms=query.terms,
            without=query.without,
            since=None if query.since is None else _millis(query.since),
            until=None if query.until is None else _millis(query.until) - 1,
            ids=ids,
            newest_first=snapshot.sort is not Sort.OLDEST,
        )

    def _ids(self, user_id: int, query: SearchQuery) -> frozenset[int] | None:
        """Return the ids that a search for stars, notes or tags is limited to, or None for all entries."""
        found: set[int] | None = None
        if query.starred:
            found = self._streams.find_marked_ids(user_id, None, MARKED_MOST)
        if query.noted:
            noted = self._streams.find_marked_ids(user_id, None, MARKED_MOST, noted=True)
            found = noted if found is None else found & noted
        for tagged in self._tagged(user_id, [n for n in query.tags if n.wanted]):
            found = tagged if found is None else found & tagged
        return None if found is None else frozenset(found)

    def _tagged(self, user_id: int, names: Sequence[NameFilter]) -> Iterable[set[int]]:
        mine = self._tags.find_by_user(user_id) if names else []
        for name in names:
            ids: set[int] = set()
            for tag in mine:
                if fold_text(tag.name) == name.text:
                    ids |= self._streams.find_marked_ids(user_id, tag.id, MARKED_MOST)
            yield ids

    def _filtered(self, snapshot: Snapshot, query: SearchQuery, found: SearchResult) -> list[EntryKey]:
        """Filter by what the engine doesn't know: read states, and stars or tags to exclude."""
        keys, feeds = found.keys, snapshot.feeds
        if query.read is not None:
            keys = [k for k in keys if _is_read(feeds[k.feed_id], k.seq) is query.read]
        unwanted = [n.text for n in query.tags if not n.wanted]
        if query.starred is False or query.noted is False or unwanted:
            marks = self._streams.find_marks(snapshot.user_id, keys)
            tags = self._tags.find_by_marks(snapshot.user_id, marks)
            bad = {i for i, found in tags.items() if any(fold_text(t.name) in unwanted for t in found)}
            if query.starred is False:
                bad |= {i for i, mark in marks.items() if mark.starred}
            if query.noted is False:
                bad |= {i for i, mark in marks.items() if mark.noted}
            keys = [k for k in keys if k.id not in bad]
        return keys


def _is_ranked(snapshot: Snapshot, query: SearchQuery) -> bool:
    return snapshot.sort is Sort.RELEVANCE and bool(query.terms)


def _may(feed: SourceFeed, query: SearchQuery) -> bool:
    """Return whether a feed can have entries of the wanted read state."""
    return query.read is not False or feed.unread > 0


def _is_read(feed: SourceFeed, seq: int) -> bool:
    return seq < feed.first_seq or feed.state.is_read(seq)


def _begins_with_any(row: EntryRow, terms: Sequence[Term]) -> bool:
    language = find_language(row.title, row.excerpt, row.language)
    return any(contains_term(row.excerpt[:EXCERPT], term, language) for term in terms)


def _named(title: str, names: Iterable[NameFilter]) -> bool:
    folded = fold_text(title)
    wanted = [n for n in names if n.wanted]
    return (not wanted or any(n.text in folded for n in wanted)) and not any(
        n.text in folded for n in names if not n.wanted
    )


def _millis(at: dt.datetime) -> int:
    return (at - _EPOCH) // _MS
