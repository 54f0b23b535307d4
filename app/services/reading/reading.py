"""Reading: unread counts, pages of streams, articles and marks of a user."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence

from app import clock, logs
from app.errors import InvalidError, NotFoundError, StoreError
from app.gateways.accounts.accounts import AccountGateway
from app.gateways.feeds.feeds import FeedGateway
from app.gateways.reading.changes import ChangeGateway
from app.gateways.reading.entries import EntryGateway
from app.gateways.reading.full_texts import FullTextGateway
from app.gateways.reading.grouping import GroupingGateway, is_shown
from app.gateways.reading.hiding import HidingGateway
from app.gateways.reading.notes import NoteGateway
from app.gateways.reading.ranking import RankingGateway
from app.gateways.reading.read_marks import ReadMarkGateway
from app.gateways.reading.recent_reads import RecentReadGateway
from app.gateways.reading.statistics import StatisticsGateway
from app.gateways.reading.streams import Sources, StreamGateway
from app.gateways.reading.tags import TagGateway
from app.gateways.subscriptions.folders import FolderGateway
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.models.accounts.actor import Actor, Permission
from app.models.reading.entry import Entry, EntryKey
from app.models.reading.statistics import Counted, FeedReads
from app.models.reading.story import Copy
from app.models.reading.stream import (
    SORTED,
    Article,
    Cursor,
    MarkResult,
    MassMarkResult,
    Page,
    Show,
    Snapshot,
    Sort,
    SourceFeed,
    StreamKind,
    StreamQuery,
    StreamRef,
    Tree,
)
from app.models.reading.targets import Occasion
from app.models.reading.today import list_sections
from app.models.subscriptions.muting import exclude_muted, is_followed_person, is_in_mixed_lists
from app.models.subscriptions.subscription import Subscription
from app.models.subscriptions.text_choice import is_always_full
from app.models.subscriptions.tree_order import TreeOrder
from app.ports import EventPort
from app.services.access import require_permission
from app.services.reading.mass_marks import MassMarks
from app.services.reading.pages import PageMaker
from app.services.reading.search import EntrySearch
from app.services.reading.sending import SendingService
from app.services.reading.stories import StoryService
from app.services.subscriptions.tree import TreeBuilder
from app.services.validation import check_id, check_ids, check_text

log = logs.get(__name__)

MARKS_MAX = 1000
#: Entries of a search or tag that one mass mark covers.
FOUND_MAX = 5000
PAGE_MAX = 1000
#: Pages with full texts that are loaded together when a scroll position is restored.
WHOLE_PAGES = 10
TOKEN_MAX = 64
#: Streams without muted people; all subscriptions are read once for both list and tree.
_TOGETHER = (StreamKind.TODAY, StreamKind.ALL, StreamKind.FOLLOWING)


class ReadingService:
    """Counts, streams, articles and marks of the actor.

    Args:
        page_size, whole_size: default rows per page, without and with full texts.
        whole_max: longest full text in a list, in characters.
        snapshot_ttl: seconds for which a snapshot is kept.
        tree_cache: number of feeds in kept trees.
    """

    def __init__(
        self,
        *,
        accounts: AccountGateway,
        subscriptions: SubscriptionGateway,
        read_marks: ReadMarkGateway,
        feeds: FeedGateway,
        folders: FolderGateway,
        entries: EntryGateway,
        streams: StreamGateway,
        tags: TagGateway,
        entry_search: EntrySearch,
        grouping: GroupingGateway,
        full_texts: FullTextGateway,
        stories: StoryService,
        mass_marks: MassMarks,
        changes: ChangeGateway,
        recent_reads: RecentReadGateway,
        statistics: StatisticsGateway,
        ranking: RankingGateway,
        notes: NoteGateway,
        sending: SendingService,
        hiding: HidingGateway,
        events: EventPort,
        page_size: int,
        whole_size: int,
        whole_max: int,
        snapshot_ttl: float,
        tree_cache: int,
    ) -> None:
        self._accounts, self._sending = accounts, sending
        self._subscriptions = subscriptions
        self._reads = read_marks
        self._feeds = feeds
        self._folders = folders
        self._entries = entries
        self._streams = streams
        self._tags = tags
        self._finder = entry_search
        self._gathering = grouping
        self._pages = PageMaker(
            subscriptions=subscriptions,
            entries=entries,
            streams=streams,
            tags=tags,
            entry_search=entry_search,
            grouping=grouping,
            full_texts=full_texts,
            whole_max=whole_max,
        )
        self._mass_marks, self._stories = mass_marks, stories
        self._changes = changes
        self._recent_reads = recent_reads
        self._statistics = statistics
        self._ranking, self._notes, self._hiding = ranking, notes, hiding
        self._events = events
        self._page_size = page_size
        self._whole_size = whole_size
        self._snapshot_ttl = dt.timedelta(seconds=snapshot_ttl)
        self._trees = TreeBuilder(tree_cache)

    def get_tree(self, actor: Actor) -> Tree:
        """Return the actor's folders and feeds with their unread counts."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self._tree(actor, self._load_all(actor))

    def _load_all(self, actor: Actor) -> Sources:
        mine = self._subscriptions.find_by_user(actor.user_id)
        return self._streams.load_all_sources(actor.user_id, mine)

    def _tree(self, actor: Actor, sources: Sources) -> Tree:
        following = self._gathering.count_unread_rows(sources, sources.unread)
        user = self._accounts.find_user(actor.user_id)
        order = TreeOrder(user.preferences.tree_order) if user else TreeOrder.OWN
        folders = self._folders.find_by_user(actor.user_id)
        return self._trees.build(actor.user_id, folders, sources, following, order)

    def load_page(self, actor: Actor, query: StreamQuery) -> Page:
        """Return a page of a stream.

        Raises:
            NotFoundError: the actor has no such stream, or its snapshot has expired.
            InvalidError: the cursor or limit is invalid.
        """
        require_permission(actor, Permission.ENTRY_READ)
        query = _settle(query)
        limit = self._limit(query)
        if query.cursor is not None or query.snapshot is not None:
            return self._next_page(actor, query, limit)
        sources = self._streams.load_sources(self._of_stream(actor, query.ref, muted=True))
        feeds = _heard(query.ref, sources, sources.feeds)
        return self._first_page(actor, query, limit, sources, feeds)

    def _limit(self, query: StreamQuery) -> int:
        most = self._whole_size * WHOLE_PAGES if query.with_bodies else PAGE_MAX
        usual = self._whole_size if query.with_bodies else self._page_size
        limit = usual if query.limit is None else query.limit
        if not isinstance(limit, int) or not 1 <= limit <= PAGE_MAX:
            raise InvalidError("A page can have 1 to %(most)s rows.", field="limit", most=PAGE_MAX)
        return min(limit, most)

    def load_tree_and_page(self, actor: Actor, query: StreamQuery) -> tuple[Tree, Page]:
        """Return the tree and a page together, as a full web page needs them.

        For the streams of all feeds, of all people and of one feed, everything is read once for both.

        Raises:
            As :meth:`load_page`.
        """
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        query = _settle(query)
        once = query.ref.kind in _TOGETHER or query.ref.kind is StreamKind.FEED
        if not once or query.cursor or query.snapshot or query.limit:
            # Page before tree: entries that arrive in between are then counted in the tree, and the list
            # reloads. In the other order the list would show rows that the tree doesn't count.
            page = self.load_page(actor, query)
            return self.get_tree(actor), page
        require_permission(actor, Permission.ENTRY_READ)
        everything = self._load_all(actor)
        sources = everything
        if query.ref.kind is StreamKind.FEED:
            sources = everything.select_feed(check_id(query.ref.id, "stream"))
        feeds = _heard(query.ref, sources, sources.feeds)
        page = self._first_page(actor, query, self._limit(query), sources, feeds)
        return self._tree(actor, self._load_all(actor) if page.late or page.late_hidden else everything), page

    def _first_page(
        self, actor: Actor, query: StreamQuery, limit: int, sources: Sources, feeds: Mapping[int, SourceFeed]
    ) -> Page:
        now = clock.now()
        ranking = self._rank(actor, query, sources, feeds, now)
        if query.ref.kind is StreamKind.TODAY and query.limit is None:
            limit = max(limit, len(ranking or ()))
        snapshot = self._streams.open_snapshot(
            actor.user_id,
            query.ref,
            query.sort,
            feeds,
            expires=now + self._snapshot_ttl,
            now=now,
            show=query.show,
            ranking=ranking,
            is_stored=not query.once,
        )
        page = self._pages.make(
            snapshot,
            None,
            limit,
            sources,
            choice=self._stories.get_choice(actor.user_id),
            with_bodies=query.with_bodies,
            for_others=query.for_others,
        )
        newly = self._mark_late(actor, page)
        if query.ref.kind in (StreamKind.SEARCH, StreamKind.NOTES):
            return self._add_passages(actor, query.ref, page)
        if query.ref.kind is StreamKind.TODAY:
            return dataclasses.replace(page, unread=snapshot.total)
        return dataclasses.replace(page, unread=max(0, sum(f.unread for f in feeds.values()) - newly))

    def _mark_late(self, actor: Actor, page: Page) -> int:
        """Mark the copies on a page that arrived after their story was read; return how many became read.

        Hide those that arrived after their story was hidden.
        """
        # A token that may only read writes nothing. Its pages show these copies as read and leave them out.
        if not (page.late or page.late_hidden) or not actor.has_permission(Permission.ENTRY_MARK):
            return 0
        by_feed: dict[int, list[int]] = {}
        for key in page.late:
            by_feed.setdefault(key.feed_id, []).append(key.seq)
        try:
            hidden = self._hide_late(actor, page)
            if actor.synced:
                self._changes.record_changes(actor.user_id, hidden)
            cards = self._feeds.find_cards(list(by_feed)) if by_feed else {}
            deltas = (
                self._reads.mark(actor.user_id, by_feed, cards, read=True, synced=actor.synced)
                if by_feed
                else {}
            )
        except StoreError as e:  # the page shows them as read; the next one tries again
            log.info("late_copies_left", user_id=actor.user_id, error=type(e).__name__)
            return 0
        self._events.notify_counts(actor.user_id)
        return sum(map(len, hidden.values())) - sum(deltas.values())

    def _hide_late(self, actor: Actor, page: Page) -> Mapping[int, Sequence[int]]:
        """Hide the late copies of hidden stories; return the numbers, by feed, that were unread."""
        if not page.late_hidden:
            return {}
        # An undo may have come meanwhile.
        still = self._stories.find_hidden(actor.user_id)
        return self._hiding.hide_late(actor.user_id, [key for i, key in page.late_hidden if i in still])

    def _rank(
        self,
        actor: Actor,
        query: StreamQuery,
        sources: Sources,
        feeds: Mapping[int, SourceFeed],
        now: dt.datetime,
    ) -> tuple[EntryKey, ...] | None:
        """Return the first keys of a list in an order that is made with its first page."""
        if query.ref.kind is StreamKind.TODAY:
            return self._ranking.rank_today(feeds, list_sections(self._tree(actor, sources)), now)
        if query.ref.kind not in SORTED:
            return None
        people = [f for f in feeds if sources.subscriptions[f].person]
        return self._ranking.rank(query.sort, query.show, feeds, people, now)

    def _next_page(self, actor: Actor, query: StreamQuery, limit: int) -> Page:
        cursor = None if query.cursor is None else Cursor.parse(query.cursor)
        snapshot = self._streams.get_snapshot(
            actor.user_id, check_text(query.snapshot, "snapshot"), clock.now()
        )
        if (snapshot.ref, snapshot.sort, snapshot.show) != (query.ref, query.sort, query.show):
            raise InvalidError("Can't load more of this list. Reload it.", field="snapshot")
        if query.ref.kind is StreamKind.TODAY and query.limit is None:
            limit = max(limit, snapshot.total or 0)
        choice = self._stories.get_choice(actor.user_id)
        page = self._pages.make(
            *(snapshot, cursor, limit, None),
            choice=choice,
            with_bodies=query.with_bodies,
            for_others=query.for_others,
        )
        self._mark_late(actor, page)
        return self._add_passages(actor, query.ref, page)

    def _add_passages(self, actor: Actor, ref: StreamRef, page: Page) -> Page:
        """Return a page whose rows show what a search found, or the user's notes."""
        if ref.kind is StreamKind.SEARCH:
            return self._finder.add_snippets(page, ref)
        if ref.kind is not StreamKind.NOTES:
            return page
        notes = self._notes.marks.find_previews(actor.user_id, [row.id for row in page.rows])
        rows = (
            dataclasses.replace(row, excerpt=notes[row.id].excerpt, noted=notes[row.id])
            if row.id in notes
            else row
            for row in page.rows
        )
        return dataclasses.replace(page, rows=tuple(rows))

    def _of_stream(self, actor: Actor, ref: StreamRef, *, muted: bool = False) -> Sequence[Subscription]:
        """Return the subscriptions of a stream; ``muted``: include muted people."""
        user_id = actor.user_id
        match ref.kind:
            case StreamKind.ALL | StreamKind.TODAY:
                found = self._subscriptions.find_by_user(user_id)
                return found if muted else exclude_muted(found)
            case StreamKind.FOLLOWING:
                found = self._gathering.find_people(user_id)
                return found if muted else exclude_muted(found)
            case StreamKind.SHARES:
                return self._gathering.make_own_subscriptions(user_id)
            case StreamKind.FEED:
                return [self._subscriptions.get(user_id, check_id(ref.id, "stream"))]
            case StreamKind.FOLDER:
                folders = self._folders.find_with_descendants(user_id, check_id(ref.id, "stream"))
                return self._subscriptions.find_in_folders(user_id, folders)
            case StreamKind.SEARCH:
                return self._finder.find_subscriptions(user_id, ref.query)
            case StreamKind.TAG:
                self._tags.get(user_id, check_id(ref.id, "stream"))
                return []
            case _:
                return []

    def count_newer(self, actor: Actor, snapshot: str) -> int:
        """Return how many entries a stream has received since a snapshot ("12 new").

        Raises:
            NotFoundError: the snapshot has expired, or isn't the actor's.
        """
        require_permission(actor, Permission.ENTRY_READ)
        ref, lasts = self._streams.get_last_seqs(
            actor.user_id, check_text(snapshot, "snapshot", limit=TOKEN_MAX), clock.now()
        )
        if ref.kind is StreamKind.SEARCH:
            return 0  # new entries of the feeds need not match the query
        return self._streams.count_newer(lasts, self._subscriptions.find_by_user(actor.user_id))

    def get_stream(self, actor: Actor, entry_id: int) -> StreamRef:
        """Return the stream that shows an entry: its feed's, or the stream of all feeds.

        The stream of all feeds is the answer for any other entry, too, whether it exists or not: only opening
        the entry there checks who may see it.
        """
        require_permission(actor, Permission.ENTRY_READ)
        feed_id = self._entries.find_feed(actor.user_id, check_id(entry_id, "entry_id"))
        return StreamRef(StreamKind.ALL) if feed_id is None else StreamRef(StreamKind.FEED, feed_id)

    def get_article(self, actor: Actor, entry_id: int) -> Article:
        """Return an entry with its body, without marking it.

        Raises:
            NotFoundError: there is no such entry, or the actor may not see it.
        """
        require_permission(actor, Permission.ENTRY_READ)
        entry = self._entries.get(actor.user_id, check_id(entry_id, "entry_id"), with_sharers=actor.social)
        source = entry.source_id
        root = entry.of.entry_id if entry.of else entry.id
        choice = self._stories.get_choice(actor.user_id)
        story = self._stories.find_story(root, choice)
        feeds = list({entry.feed_id, source, *(m.feed_id for m in (story.members if story else ()))})
        mine = self._subscriptions.find_by_user(actor.user_id, feeds)
        sources = self._streams.load_sources(mine, extra_feed_ids=feeds)
        card = sources.cards.get(source)
        copies = tuple(
            Copy(m.id, m.feed_id, sources.get_title(m.feed_id))
            for m in (story.members if story else ())
            if m.id != root and m.feed_id in sources.subscriptions
        )
        is_apart = story is not None and story.id in choice.apart
        marks = self._tags.find_marks(actor.user_id, [root])
        sharers, shares = self._gathering.find_sharers(
            actor.user_id, entry.id, entry.of, None if is_apart else story
        )
        return Article(
            entry=entry,
            feed_title=sources.get_title(source, entry.url),
            language=sources.get_language(source),
            site_url=card.site_url if card else None,
            read=sources.is_read(entry),
            starred=any(mark.starred for mark in marks.values()),
            subscribed=source in sources.subscriptions,
            source_id=source,
            person=card is not None and card.owner is not None,
            tags=self._tags.find_by_marks(actor.user_id, marks).get(root, ()),
            sharers=sharers,
            shares=shares,
            markable=sources.can_mark(entry.feed_id),
            icon=card.picture if card else None,
            feed_url=card.url if card else None,
            note=self._notes.marks.find_note(actor.user_id, root)
            if any(m.noted for m in marks.values())
            else None,
            saved=card is not None and card.saved and source in sources.subscriptions,
            always_full=is_always_full(entry, sources.subscriptions),
            copies=copies,
            is_apart=is_apart,
            is_hidden=(mine_here := sources.subscriptions.get(entry.feed_id)) is not None
            and not is_shown(EntryKey(entry.id, entry.feed_id, entry.seq, 0), mine_here),
            highlighted=mine_here is not None and mine_here.highlighted.has_seq(entry.seq),
            highlighter=mine_here.find_highlighter(entry.seq) if mine_here is not None else 0,
        )

    def pin_row(self, actor: Actor, page: Page, article: Article, *, with_bodies: bool) -> Page:
        """Return a page with the row of an open entry on top if no other row is of it or of its story.

        A link may lead to an entry that is far down its list, or not in it anymore: it is shown all the same.
        An empty list stays empty and says why.
        """
        require_permission(actor, Permission.ENTRY_READ)
        shown = {row.id for row in page.rows} | {copy.entry_id for row in page.rows for copy in row.copies}
        if not page.rows or article.entry.id in shown:
            return page
        row = self._pages.make_row(actor.user_id, article, with_bodies=with_bodies)
        return dataclasses.replace(page, pinned=row)

    def record_opened(self, actor: Actor, article: Article, ref: StreamRef) -> None:
        """Record that an entry was opened in a stream, unless it will be recorded with its mark.

        Within the stream of recently read entries nothing is recorded: going through it would turn it over.
        """
        require_permission(actor, Permission.ENTRY_READ)
        if ref.kind is not StreamKind.RECENT and article.read and article.markable:
            self._recent_reads.record(actor.user_id, [article.entry.id], clock.now())

    def find_following(
        self, actor: Actor, query: StreamQuery, entry_id: int, limit: int, *, was_read: bool
    ) -> list[tuple[Entry, str | None]]:
        """Return the entries after one in a stream, with their bodies and the addresses of their feeds.

        Args:
            was_read: whether the entry was read when it was opened.

        Raises:
            NotFoundError: there is no such stream or entry, or the actor may not see it.
        """
        require_permission(actor, Permission.ENTRY_READ)
        entry = self._entries.get(actor.user_id, check_id(entry_id, "entry_id"))
        sources = self._streams.load_sources(self._of_stream(actor, query.ref, muted=True))
        feeds = _heard(query.ref, sources, sources.feeds)
        snapshot = Snapshot("", actor.user_id, query.ref, query.sort, clock.now(), feeds, query.show)
        keys = self._streams.find_following(snapshot, entry, limit, was_read=was_read)
        found = self._entries.find_with_bodies(actor.user_id, keys)
        origins = {e.id: e.of.feed_id if e.of and not e.lost else e.feed_id for e in found.values()}
        cards = self._feeds.find_cards(list(set(origins.values())))
        shown = (found[key.id] for key in keys if key.id in found)
        return [(e, cards[origins[e.id]].url if origins[e.id] in cards else None) for e in shown]

    def mark(self, actor: Actor, entry_ids: Sequence[int], read: bool) -> MarkResult:
        """Mark entries as read, or keep them unread; twice is the same as once.

        A few entries at once count as read one by one, and are listed as recently read.

        Ids that are gone or that the actor may not see are ignored, because a share may be unshared while it
        is on a screen. The answer doesn't reveal which of the two it was.

        Raises:
            NotFoundError: none of the entries to keep unread is in the actor's feeds.
        """
        require_permission(actor, Permission.ENTRY_MARK)
        wanted = check_ids(entry_ids, "entry_ids", MARKS_MAX)
        by_feed = self._places(actor, wanted)
        cards = self._feeds.find_cards(list(by_feed))
        if read and by_feed:
            self._recent_reads.record(actor.user_id, wanted, clock.now())
        deltas = self._reads.mark(actor.user_id, by_feed, cards, read=bool(read), synced=actor.synced)
        if not (deltas or read):
            raise NotFoundError(entry_ids=wanted[:10])
        if read:
            self._feeds.touch([cards[f] for f in deltas], clock.now())
            # An article that others shared, too, is unread several times.
            newly = min(len(wanted), -sum(deltas.values()))
            self._statistics.count(actor.user_id, Counted.READ, newly, clock.now())
        self._events.notify_counts(actor.user_id)
        # Counts must not reveal what a closed stream contains.
        return MarkResult({f: delta for f, delta in deltas.items() if not cards[f].hidden})

    def list_most_read(self, actor: Actor, limit: int) -> tuple[int, list[FeedReads]]:
        """Return how many entries the actor's list of recently read ones has, and the feeds with the most.

        Args:
            limit: the number of feeds to return.
        """
        require_permission(actor, Permission.ENTRY_READ)
        keys = self._recent_reads.find_visible_keys(actor.user_id)
        counts = Counter(key.feed_id for key in keys).most_common(limit)
        sources = self._streams.load_sources(
            self._subscriptions.find_by_user(actor.user_id, [feed for feed, _ in counts]) if counts else ()
        )
        found = [(sources.cards[feed], count) for feed, count in counts if feed in sources.cards]
        return len(keys), [
            FeedReads(c.id, sources.get_title(c.id), c.picture, c.url if c.owner else None, count)
            for c, count in found
        ]

    def find_read_states(self, actor: Actor, entry_ids: Sequence[int]) -> dict[int, bool]:
        """Return by id whether the actor has read these entries; omit those not in the actor's feeds."""
        require_permission(actor, Permission.ENTRY_READ)
        wanted = check_ids(entry_ids, "entry_ids", MARKS_MAX)
        return self._reads.find_read_states(actor.user_id, self._entries.find_keys(actor.user_id, wanted))

    def check_marks(self, actor: Actor, entry_id: int, *, unread: bool) -> None:
        """Refuse an entry that cannot be starred, liked or (``unread``) kept unread, before any change.

        Raises:
            NotFoundError: the actor may not see such an entry; with ``unread``: it isn't in the actor's
                feeds.
        """
        require_permission(actor, Permission.ENTRY_MARK)
        self._entries.get_key(actor.user_id, check_id(entry_id, "entry_id"))
        if unread and not self._subscriptions.find_by_user(
            actor.user_id, list(self._places(actor, [entry_id]))
        ):
            raise NotFoundError(entry_id=entry_id)

    def _places(self, actor: Actor, entry_ids: Sequence[int]) -> dict[int, list[int]]:
        """Return the numbers of the entries by feed, with those of their siblings."""
        by_feed: dict[int, list[int]] = {}
        keys = self._entries.find_keys(actor.user_id, entry_ids)
        # Copies of the article, shared by followed people or in other feeds of the user, are marked too.
        choice = self._stories.get_choice(actor.user_id)
        same = self._gathering.find_siblings(actor.user_id, keys, choice, is_social=actor.social)
        for key in [*keys, *same]:
            by_feed.setdefault(key.feed_id, []).append(key.seq)
        return by_feed

    def mark_all(self, actor: Actor, ref: StreamRef, *, snapshot: str | None = None) -> MassMarkResult:
        """Mark a whole stream as read, up to the state of the snapshot; without a snapshot, up to now.

        Raises:
            NotFoundError: the actor has no such stream, or the snapshot has expired.
            InvalidError: the stream holds starred or recently read entries or own shares, or the
                snapshot is of another stream.
        """
        require_permission(actor, Permission.ENTRY_MARK)
        if ref.kind in (StreamKind.STARRED, StreamKind.NOTES, StreamKind.SHARES, StreamKind.RECENT):
            raise InvalidError(
                "You can't mark this whole list as read. Mark its entries one at a time.", field="stream"
            )
        if ref.kind in (StreamKind.SEARCH, StreamKind.TAG, StreamKind.TODAY):
            return self._mark_found(actor, ref, check_text(snapshot, "snapshot", limit=TOKEN_MAX))
        now, seen = clock.now(), None
        # The list of all leaves out muted people and hidden sites.
        feed_ids = [s.feed_id for s in self._of_stream(actor, ref)]
        if snapshot is not None:
            then, seen = self._streams.get_last_seqs(
                actor.user_id, check_text(snapshot, "snapshot", limit=TOKEN_MAX), now
            )
            if then != ref:
                raise InvalidError("This list has changed in the meantime. Reload it.", field="snapshot")
        return self._mass_marks.mark_feeds(actor, feed_ids, ref, last_seqs=seen)

    def _mark_found(self, actor: Actor, ref: StreamRef, token: str) -> MassMarkResult:
        """Mark the entries of a search, a tag or Today one by one: their feeds hold other entries too."""
        now = clock.now()
        snapshot = self._streams.get_snapshot(actor.user_id, token, now)
        if snapshot.ref != ref:
            raise InvalidError("This list has changed in the meantime. Reload it.", field="snapshot")
        keys: Sequence[EntryKey] = self._pages.load_key_page(snapshot, None, FOUND_MAX).keys
        if ref.kind is StreamKind.TAG:
            keys = self._entries.find_keys(actor.user_id, [key.id for key in keys])
        return self._mass_marks.mark_entries(actor, keys, ref)

    def undo_mass_mark(self, actor: Actor, token: str) -> None:
        """Undo a ``mark_all``; entries that were marked one by one since then stay read.

        After marking search results or a tag, all entries that this marked become unread again.

        Raises:
            NotFoundError: the token has expired, was used, or isn't the actor's.
        """
        require_permission(actor, Permission.ENTRY_MARK)
        self._mass_marks.undo(actor, check_text(token, "token", limit=TOKEN_MAX))

    def set_starred(self, actor: Actor, entry_id: int, on: bool) -> bool:
        """Star or unstar an entry; return whether that changed anything.

        Raises:
            NotFoundError: there is no such entry, or the actor may not see it.
        """
        require_permission(actor, Permission.ENTRY_MARK)
        changed, root = self._entries.set_starred(
            actor.user_id, check_id(entry_id, "entry_id"), bool(on), clock.now()
        )
        copies = self._stories.find_copy_ids(actor, [root])
        if copies:
            self._entries.set_many_starred(actor.user_id, copies, bool(on), clock.now())
        # After the change: an app that syncs in between would miss it otherwise.
        if actor.synced:
            self._changes.record_changes(actor.user_id, {}, [entry_id, *copies])
        if on and changed:
            self._statistics.count(actor.user_id, Counted.STARRED, 1, clock.now())
            self._sending.request_automatic(actor.user_id, [entry_id], Occasion.STAR)
        self._events.notify_counts(actor.user_id)
        return changed

    def set_many_starred(self, actor: Actor, entry_ids: Sequence[int], on: bool) -> None:
        """Star or unstar many entries; skip those that are gone or that the actor may not see.

        Raises:
            InvalidError: more than :data:`MARKS_MAX` entries.
        """
        require_permission(actor, Permission.ENTRY_MARK)
        wanted = check_ids(entry_ids, "entry_ids", MARKS_MAX)
        wanted = [*wanted, *self._stories.find_copy_ids(actor, wanted)]
        starred, roots = self._entries.set_many_starred(actor.user_id, wanted, bool(on), clock.now())
        # Stars of shares are at the shared entries, which may have copies.
        if copies := [i for i in self._stories.find_copy_ids(actor, roots) if i not in set(wanted)]:
            starred += self._entries.set_many_starred(actor.user_id, copies, bool(on), clock.now()).starred
            wanted += copies
        self._statistics.count(actor.user_id, Counted.STARRED, len(starred), clock.now())
        if new := sorted(set(starred).intersection(entry_ids)):
            self._sending.request_automatic(actor.user_id, new, Occasion.STAR)
        if actor.synced:  # after the change, as in set_starred
            self._changes.record_changes(actor.user_id, {}, wanted)
        self._events.notify_counts(actor.user_id)


def _settle(query: StreamQuery) -> StreamQuery:
    """Return a query with the order and filter that its stream has whatever was chosen."""
    if query.ref.kind is not StreamKind.TODAY:
        return query
    return dataclasses.replace(query, sort=Sort.NEWEST, show=Show.UNREAD)


def _heard(ref: StreamRef, sources: Sources, feeds: Mapping[int, SourceFeed]) -> Mapping[int, SourceFeed]:
    """Return the feeds that a stream shows."""
    if ref.kind not in _TOGETHER:
        return feeds
    people = ref.kind is StreamKind.FOLLOWING
    mine = sources.subscriptions
    shows = is_followed_person if people else is_in_mixed_lists
    return {f: feed for f, feed in feeds.items() if shows(mine[f])}
