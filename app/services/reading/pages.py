"""Pages of a stream: from keys to rows with names, texts and marks, with one row per article."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Iterable, Mapping, Sequence

from app.gateways.reading.entries import EntryGateway
from app.gateways.reading.full_texts import FullTextGateway
from app.gateways.reading.grouping import GroupingGateway, Matcher, ShareGroups, is_shown
from app.gateways.reading.streams import KeyPage, Sources, StreamGateway
from app.gateways.reading.tags import TagGateway
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.models.reading.entry import Entry, EntryKey
from app.models.reading.story import Copy, StoryChoice
from app.models.reading.stream import (
    MARKED,
    SINGLE,
    Article,
    Cursor,
    EntryRow,
    Page,
    RowSource,
    Snapshot,
    Sort,
    StreamKind,
)
from app.models.reading.tag import Tag
from app.models.sharing.sharing import Sharer
from app.models.subscriptions.subscription import Subscription
from app.services.reading.search import EntrySearch

#: How often a page is refilled when one row groups several entries.
FILLS = 4
#: The same for a page on which nothing is left so far: the user's rules or late copies leave it empty.
EMPTY_FILLS = 1000
#: One spare key is read per so many rows, for rows that group several entries.
SPARE = 6
#: Streams that may list an article more than once, as an entry and as shares.
_MIXED = (StreamKind.TODAY, StreamKind.ALL, StreamKind.FOLLOWING)

#: Streams that show what rules hide, because their entries were searched for, marked or opened.
_WITH_HIDDEN = (*SINGLE, StreamKind.SEARCH)


@dataclasses.dataclass(frozen=True, slots=True)
class Rows:
    """A page of keys, their entries, and the groups of shares on it."""

    page: KeyPage
    found: Mapping[int, Entry]
    gathered: ShareGroups

    @property
    def count(self) -> int:
        """The number of visible rows."""
        return len(self.page.keys) - len(self.gathered.grouped_ids)

    def get_root(self, key: EntryKey) -> int:
        """Return the id of the entry that holds the user's marks for this key."""
        of = self.gathered.origins.get(key.id)
        return of.entry_id if of else key.id

    def list_roots(self) -> list[int]:
        """Return the ids of the entries that hold the marks of all rows and their copies."""
        copies = (copy.id for some in self.gathered.copies.values() for copy in some)
        return list(dict.fromkeys((*map(self.get_root, self.page.keys), *copies)))

    def count_missing(self, limit: int) -> int:
        """Return how many rows to read besides these."""
        missing = limit - self.count
        return missing if 2 * self.count < limit else missing - self.gathered.folded

    def take_first(self, count: int) -> Rows:
        """Return the first ``count`` rows, as a page that ends with the last of them."""
        left = self.gathered.grouped_ids
        for end, key in enumerate(self.page.keys, 1):
            count -= key.id not in left
            if count == 0:
                return dataclasses.replace(self, page=self.page.take_first(end))
        return self

    def join(self, more: Rows) -> Rows:
        """Return these rows and those of the next page as one page."""
        found = {**self.found, **more.found}
        return Rows(self.page.join(more.page), found, self.gathered.join(more.gathered))


class PageMaker:
    """Makes pages of streams; callers have checked who may see the stream.

    Args:
        whole_max: longest full text in a list, in characters.
    """

    def __init__(
        self,
        *,
        subscriptions: SubscriptionGateway,
        entries: EntryGateway,
        streams: StreamGateway,
        tags: TagGateway,
        entry_search: EntrySearch,
        grouping: GroupingGateway,
        full_texts: FullTextGateway,
        whole_max: int,
    ) -> None:
        self._subscriptions, self._entries, self._streams = subscriptions, entries, streams
        self._tags, self._finder, self._gathering = tags, entry_search, grouping
        self._full_texts, self._whole_max = full_texts, whole_max

    def make(
        self,
        snapshot: Snapshot,
        cursor: Cursor | None,
        limit: int,
        sources: Sources | None,
        *,
        choice: StoryChoice,
        with_bodies: bool,
        for_others: bool = False,
    ) -> Page:
        """Return the page after ``cursor``, without its count of unread entries.

        Args:
            choice: whether copies of an article share a row.
            sources: the sources of the stream if they were just read. The stream of all needs all of the
                user's subscriptions, the stream of people all followed people.
            with_bodies: include the full texts in the rows.
            for_others: leave out texts that are only for the user.
        """
        rows = self._rows(snapshot, cursor, limit, sources, choice=choice, with_bodies=with_bodies)
        return self._present(snapshot, rows, sources, with_bodies=with_bodies, for_others=for_others)

    def load_key_page(self, snapshot: Snapshot, cursor: Cursor | None, limit: int) -> KeyPage:
        """Return the keys of a page, without grouping shares."""
        found = snapshot.ref.kind is StreamKind.SEARCH
        return (self._finder if found else self._streams).load_key_page(snapshot, cursor, limit)

    def _rows(
        self,
        snapshot: Snapshot,
        cursor: Cursor | None,
        limit: int,
        sources: Sources | None,
        *,
        choice: StoryChoice,
        with_bodies: bool,
    ) -> Rows:
        """Return the rows of a page, reading more keys where one row groups several shares.

        Rows of copies leave the page shorter, unless it would be less than half full: reading on costs more
        commands than the page itself.
        """
        people = self._people(snapshot, sources)
        # Articles may occur more than once; a few extra keys save a second round of reads.
        several = bool(people) and snapshot.ref.kind in _MIXED
        wanted = limit + limit // SPARE if several else limit
        page = self._load_visible(snapshot, cursor, wanted, sources, choice)
        rows = self._read(snapshot, page, people, sources, choice=choice, with_bodies=with_bodies)
        for count in range(EMPTY_FILLS):
            if (
                not rows.gathered.grouped_ids
                or rows.page.cursor is None
                or (missing := rows.count_missing(limit)) < 1
                # As above, only an empty page would look like the end of the list.
                or (rows.count and count >= FILLS)
            ):
                break
            more = self._load_visible(snapshot, rows.page.cursor, missing, sources, choice)
            some = self._read(snapshot, more, people, sources, choice=choice, with_bodies=with_bodies)
            rows = rows.join(some)
        return rows.take_first(limit) if several else rows

    def _load_visible(
        self,
        snapshot: Snapshot,
        cursor: Cursor | None,
        limit: int,
        sources: Sources | None,
        choice: StoryChoice,
    ) -> KeyPage:
        """Return a page without the entries that the user's rules hide, read further for those."""
        page = self.load_key_page(snapshot, cursor, limit)
        if snapshot.ref.kind in _WITH_HIDDEN:
            return page
        found = self._drop_hidden(snapshot, page, sources, choice)
        for count in range(EMPTY_FILLS):
            if len(found.keys) == len(page.keys) or found.cursor is None:
                break
            if found.keys and count >= FILLS:
                break  # a short page is fine; an empty one would look like the end of the list
            more = self.load_key_page(snapshot, found.cursor, limit - len(found.keys))
            page, found = page.join(more), found.join(self._drop_hidden(snapshot, more, sources, choice))
            if len(found.keys) >= limit:
                break
        return found

    def _drop_hidden(
        self, snapshot: Snapshot, page: KeyPage, sources: Sources | None, choice: StoryChoice
    ) -> KeyPage:
        if sources:
            mine: Iterable[Subscription] = sources.subscriptions.values()
        else:
            # Those of copies are needed soon, and one command reads them all.
            feed_ids = {key.feed_id for key in page.keys}
            feed_ids |= self._gathering.find_copy_feeds(snapshot, page.keys, choice)
            mine = self._subscriptions.find_by_user(snapshot.user_id, list(feed_ids))
        hiding = {s.feed_id: s for s in mine if s.hidden.bits}
        if not hiding:
            return page

        return page.select_keys(lambda key: key.feed_id not in hiding or is_shown(key, hiding[key.feed_id]))

    def _people(self, snapshot: Snapshot, sources: Sources | None) -> list[Subscription]:
        """Return the user's subscriptions to people, from ``sources`` if it holds all of them."""
        if sources is None or snapshot.ref.kind not in _MIXED:
            return self._gathering.find_people(snapshot.user_id)
        return [s for s in sources.subscriptions.values() if s.person]

    def _read(
        self,
        snapshot: Snapshot,
        page: KeyPage,
        people: Sequence[Subscription],
        sources: Sources | None,
        *,
        choice: StoryChoice,
        with_bodies: bool,
    ) -> Rows:
        stored = self._entries.find_stored(page.keys, with_bodies=with_bodies)
        mine = sources.subscriptions if sources else None
        stories = self._gathering.find_stories(snapshot, stored, choice, mine)
        shares = self._gathering.find_shares(snapshot, stored, people, stories)
        found = self._entries.join_shares(snapshot.user_id, stored, with_bodies=with_bodies)
        matcher: Matcher | None = None
        if snapshot.ref.kind is StreamKind.SEARCH:
            matcher = functools.partial(self._finder.find_matching, snapshot)
        groups = self._gathering.group_shares(
            snapshot, page.keys, found, shares, stories=stories, matcher=matcher
        )
        return Rows(page, found, groups)

    def _present(
        self,
        snapshot: Snapshot,
        rows: Rows,
        sources: Sources | None,
        *,
        with_bodies: bool,
        for_others: bool,
    ) -> Page:
        """Turn keys into rows with names, excerpts and the current marks.

        Args:
            sources: those of the whole stream, if they were just read.
        """
        user_id, kept_ones, page = snapshot.user_id, snapshot.ref.kind in MARKED, rows.page
        if sources is None or snapshot.ref.kind in SINGLE:
            others = (copy for some in rows.gathered.copies.values() for copy in some)
            feed_ids = list({k.feed_id for k in (*page.keys, *others)})
            own = self._gathering.make_own_subscriptions(user_id) if snapshot.ref.is_own else []
            sources = self._streams.load_sources(
                own or self._subscriptions.find_by_user(user_id, feed_ids), extra_feed_ids=feed_ids
            )
        if not (kept_ones or snapshot.ref.is_own):
            # Keys of shares aren't remembered: a restored or reopened share gets another place.
            lasting = [k for k in page.keys if k.id in rows.found and rows.found[k.id].of is None]
            self._entries.remember_keys(lasting)
        marks = self._tags.find_marks(user_id, rows.list_roots())
        tags = self._tags.find_by_marks(user_id, marks)
        origins = self._find_origins(user_id, rows) if snapshot.ref.is_own else {}
        # Other orders have a border too, but no heading at it.
        late = {key.id for key in rows.gathered.late.unread}
        has_full = with_bodies and not for_others
        full = self._find_full(user_id, rows.found.values(), sources) if has_full else {}
        shown, split = [], page.split if snapshot.sort is Sort.UNREAD_ON_TOP else None
        for place, key in enumerate(page.keys):
            known = kept_ones or key.feed_id in sources.subscriptions
            if key.id in rows.found and known and key.id not in rows.gathered.grouped_ids:
                entry, root = rows.found[key.id], rows.get_root(key)
                copies = rows.gathered.copies.get(key.id, ())
                starred = any(i in marks and marks[i].starred for i in (root, *(one.id for one in copies)))
                sharers = rows.gathered.sharers.get(key.id, ())
                row = build_row(entry, sources, starred, tags.get(root, ()), sharers)
                if key.id in late:
                    row = dataclasses.replace(row, read=True)
                if copies:
                    row = _with_copies(row, copies, sources, late)
                if origin := origins.get(key.id):
                    row = dataclasses.replace(row, source=origin)
                if snapshot.ref.kind is StreamKind.RECENT:
                    row = dataclasses.replace(row, read_at=key.time)
                shown.append(self._with_text(row, entry, full.get(entry.id, "")) if with_bodies else row)
            elif split is not None and page.split is not None and place < page.split:
                split -= 1
        cursor = str(page.cursor) if page.cursor else None
        return Page(
            *(tuple(shown), cursor, snapshot.token, split, None),
            total=snapshot.total,
            notes=page.notes,
            late=rows.gathered.late.unread,
            late_hidden=rows.gathered.late.hidden,
        )

    def _find_origins(self, user_id: int, rows: Rows) -> dict[int, RowSource]:
        """Return where the entries of the user's own shares came from, by share id; their posts have none."""
        wanted = {
            e.id: (e.of.feed_id, e.url)
            for e in rows.found.values()
            if e.of and not e.lost and e.of.entry_id != e.id
        }
        ids = list({feed_id for feed_id, _ in wanted.values()})
        if not ids:
            return {}
        sources = self._streams.load_sources(
            self._subscriptions.find_by_user(user_id, ids), extra_feed_ids=ids
        )
        return {
            share: RowSource(
                card.url if card.owner else card.id,
                sources.get_title(card.id, page),
                card.picture,
                card.owner is not None,
            )
            for share, (feed_id, page) in wanted.items()
            if (card := sources.cards.get(feed_id)) is not None
        }

    def make_row(self, user_id: int, article: Article, *, with_bodies: bool) -> EntryRow:
        """Return an open entry as the row of a list that may not hold it; arguments as for :meth:`make`."""
        entry = article.entry
        mine = self._subscriptions.find_by_user(user_id, [entry.feed_id])
        sources = self._streams.load_sources(mine, extra_feed_ids=[entry.feed_id])
        row = build_row(entry, sources, article.starred, tuple(article.tags), tuple(article.sharers))
        if not with_bodies:
            return row
        full = self._find_full(user_id, [entry], sources)
        return self._with_text(row, entry, full.get(entry.id, ""))

    def _find_full(self, user_id: int, entries: Iterable[Entry], sources: Sources) -> dict[int, str]:
        return self._full_texts.find_always(user_id, entries, sources.subscriptions)

    def _with_text(self, row: EntryRow, entry: Entry, full: str) -> EntryRow:
        """Return a row with its feed's text and the full text for its reader, unless they are too long.

        In the place of a full text that is too long, the reader gets the feed's, as far as there is one.
        """
        html = entry.content or entry.summary
        is_short, is_full_short = (len(text) <= self._whole_max for text in (html, full))
        if not is_full_short and html and is_short:
            full, is_full_short = "", True
        return dataclasses.replace(
            row,
            html=html if is_short else None,
            full=full if is_full_short else None,
            pictures=entry.list_pictures(full or html),
            enclosures=entry.enclosures,
        )


def _with_copies(
    row: EntryRow, copies: Sequence[EntryKey], sources: Sources, late: Collection[int]
) -> EntryRow:
    """Return a row that stands for copies of its entry, too; ``late`` ones count as read."""
    mine = [one for one in copies if one.seq and one.feed_id in sources.subscriptions]
    return dataclasses.replace(
        row,
        copies=tuple(Copy(one.id, one.feed_id, sources.get_title(one.feed_id)) for one in copies),
        read=row.read and all(one.id in late or sources.is_key_read(one) for one in mine),
    )


def build_row(
    entry: Entry, sources: Sources, starred: bool, tags: tuple[Tag, ...], sharers: tuple[Sharer, ...]
) -> EntryRow:
    """Return the row of an entry."""
    return EntryRow(
        id=entry.id,
        feed_id=entry.feed_id,
        feed_title=sources.get_title(entry.feed_id, entry.url),
        language=sources.get_language(entry.feed_id),
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
        original=(mine := sources.subscriptions.get(entry.feed_id)) is not None and mine.original,
        highlighted=mine is not None and mine.highlighted.has_seq(entry.seq),
        highlighter=mine.find_highlighter(entry.seq) if mine is not None else 0,
        markable=sources.can_mark(entry.feed_id),
        icon=card.icon if (card := sources.cards.get(entry.feed_id)) else None,
        feed_url=card.url if card else None,
    )
