"""Notifications: stored for the people they concern, with visibility checked when they are read.

What a person may see can change at any time: a share is unshared, a person suspended or blocked. So a row
holds only ids, and its visibility is checked when it is written and each time it is read. Failing feeds are
not stored as rows: such a feed may have a hundred thousand readers, so each reader finds it through their
subscriptions.

While a person's data can't be written, because they are being moved or their cell is down, their
notifications wait in the home store's outbox.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
from collections.abc import Mapping, Sequence

from app import clock
from app.errors import CellError, MovingError, NotFoundError
from app.gateways.reading.entries import EntryGateway
from app.gateways.sharing.visibility import VisibilityGateway
from app.mappers.accounts.users import UserMapper
from app.mappers.discussion.comments import CommentMapper
from app.mappers.discussion.reactions import ReactionMapper
from app.mappers.feeds.crawls import CrawlMapper
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.imports.imports import ImportMapper
from app.mappers.notifications.notifications import KEPT, NotificationMapper
from app.mappers.operations.feed_lists import FeedListMapper
from app.mappers.operations.outbox import OutboxMapper
from app.mappers.reading.entry_keys import to_millis
from app.mappers.reading.tags import SavedSearchMapper
from app.mappers.sharing.profiles import RelationshipMapper
from app.mappers.sharing.shares import ShareMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.discussion.comments import (
    Comment,
    NotificationKind,
    NotificationRow,
    NotificationRows,
    PersonSummary,
)
from app.models.notifications.waiting import WaitingNotification
from app.models.reading.entry import EntryKey
from app.models.sharing.sharing import RelationshipKind, Share

#: Highest number that the badge of unread notifications shows.
BADGE = 99
#: Most reads for one page, when many rows are not visible anymore.
LOOKS = 5
#: Failing feeds listed at once; others follow when these are marked as read.
BROKEN_MOST = 100
#: Waiting notifications that are delivered at a time.
DELIVERED = 500
#: Time until the next attempt to deliver a notification.
WAIT = dt.timedelta(seconds=1)
#: Longest excerpt of an entry without a title, in characters.
EXCERPT = 80
_SAID = (NotificationKind.COMMENT, NotificationKind.REPLY, NotificationKind.MENTION)
#: Kinds with one event per subject.
_COUNTED = (NotificationKind.ENTRIES, NotificationKind.SEARCH)
_ONCE = (NotificationKind.MENTION, NotificationKind.IMPORT, NotificationKind.FOUND)


@dataclasses.dataclass(frozen=True, slots=True)
class _Known:
    """The visible subjects and people of rows; ``likers`` and ``asking`` newest first.

    ``feeds``, ``searches``: those for which the reader asked for notifications. ``crawls``: sites by crawl.
    """

    seen: Mapping[int, Share]
    comments: Mapping[int, Comment]
    likers: Mapping[int, Sequence[int]]
    asking: Sequence[int]
    faces: Mapping[int, PersonSummary]
    feeds: frozenset[int]
    searches: frozenset[int]
    crawls: Mapping[int, str]


class NotificationGateway:
    """Writes and reads notifications.

    Args:
        keep_for: time for which a row is kept after its last change.
        limit: rows per user.
        rows: rows per page.
        failing_after: time without success after which a feed is reported.
        likes_limit: the highest number of likes that is counted.
    """

    def __init__(
        self,
        *,
        notes: NotificationMapper,
        reactions: ReactionMapper,
        comments: CommentMapper,
        shares: ShareMapper,
        relationships: RelationshipMapper,
        users: UserMapper,
        subscriptions: SubscriptionMapper,
        feeds: FeedMapper,
        lists: FeedListMapper,
        imports: ImportMapper,
        searches: SavedSearchMapper,
        crawls: CrawlMapper,
        entries: EntryGateway,
        visibility: VisibilityGateway,
        outbox: OutboxMapper,
        keep_for: dt.timedelta,
        limit: int,
        rows: int,
        failing_after: dt.timedelta,
        likes_limit: int,
    ) -> None:
        self._notes, self._reactions, self._comments = notes, reactions, comments
        self._shares, self._ties, self._users = shares, relationships, users
        self._subscriptions, self._feeds, self._lists = subscriptions, feeds, lists
        self._imports, self._entries, self._sight, self._outbox = imports, entries, visibility, outbox
        self._searches, self._crawls = searches, crawls
        self._keep, self._most, self._rows = keep_for, limit, rows
        self._broken, self._likes_most = failing_after, likes_limit

    # -- writing
    def notify(
        self,
        user_id: int,
        kind: NotificationKind,
        subject: int,
        by: int,
        now: dt.datetime,
        *,
        share: Share | None = None,
        target_id: int = 0,
        also_about: Share | None = None,
    ) -> bool:
        """Notify a user, unless they did it themselves, don't want to know, or may not see it.

        Args:
            by: the user who did it; 0: nobody.
            share: the share that it is about.
            target_id: the comment or share that was made.
            also_about: another share that the user must be able to see.

        Returns:
            Whether the user is notified; false while the notification waits.
        """
        event = WaitingNotification(
            self._outbox.make_event_id(),
            now,
            user_id,
            kind,
            subject,
            by,
            share_id=share.id if share else 0,
            target_id=target_id,
            also_id=also_about.id if also_about else 0,
        )
        return self._store_or_wait(event, now, [s for s in (share, also_about) if s is not None])

    def _store_or_wait(self, event: WaitingNotification, now: dt.datetime, shares: Sequence[Share]) -> bool:
        try:
            return self._store(event, now, shares)
        except (MovingError, CellError):
            self._outbox.add_waiting(event, now + WAIT)
            return False

    def _store(self, event: WaitingNotification, now: dt.datetime, shares: Sequence[Share]) -> bool:
        """Notify a user, unless they did it themselves, don't want to know, or may not see these shares."""
        user_id, kind, by = event.user_id, event.kind, event.by
        if by == user_id or not self._wants(user_id, kind):
            return False
        if by and by not in self._sight.find_unmuted_people(user_id, [by]):
            return False
        if len(self._sight.find_visible_profiles(user_id, shares)) < len({s.id for s in shares}):
            return False
        note = NotificationRow(
            user_id=user_id,
            kind=kind,
            subject=event.subject,
            at=now,
            share_id=event.share_id,
            count=event.count,
        )
        expires, target, told = now + self._keep, event.target_id, True
        event_id = event.id if self._outbox.is_spread else None
        if kind in _ONCE:
            new = told = self._notes.add_once(note, by, target, expires)
        elif kind in _COUNTED:
            # A job that notifies many readers may run twice.
            new = self._notes.add_count(note, expires, event.id)
        else:
            people, once = kind not in _SAID, kind is NotificationKind.LIKE
            new = self._notes.add_event(
                note, by, target, expires, count_people=people, once=once, event_id=event_id
            )
        if new:
            self._notes.prune(user_id, self._most)
        return told

    # -- notifications that wait
    def list_waiting(self, now: dt.datetime) -> list[WaitingNotification]:
        """Return the oldest notifications that wait for their recipients' data; none without cells."""
        return self._outbox.list_waiting(DELIVERED, now) if self._outbox.is_spread else []

    def deliver_event(self, event: WaitingNotification, now: dt.datetime) -> bool:
        """Notify a user of an event that had to wait; a repeated call changes nothing.

        Returns:
            Whether the user is notified, as :meth:`notify`.

        Raises:
            StoreError: their data still can't be written.
        """
        ids = {i for i in (event.share_id, event.also_id) if i}
        shares = self._shares.find_many(list(ids)) if ids else {}
        # Nobody can see a share that was removed meanwhile.
        return (
            event.at > now - self._keep
            and len(shares) == len(ids)
            and self._store(event, now, list(shares.values()))
        )

    def end_waiting(self, events: Sequence[WaitingNotification]) -> None:
        """Forget events that were delivered."""
        self._outbox.remove_waiting([event.id for event in events])

    def postpone(self, events: Sequence[WaitingNotification], now: dt.datetime) -> None:
        """Let events wait for the next attempt."""
        self._outbox.postpone_waiting([event.id for event in events], now + WAIT)

    def find_notified(
        self, feed_ids: Sequence[int], after: int, limit: int
    ) -> tuple[list[tuple[int, int]], int | None]:
        """Return (feed, user) of the next readers who turned on notifications of these feeds, by user id.

        Args:
            after: the user id at which the previous batch ended, or 0.
            limit: the size of a batch.

        Returns:
            The readers, and the user id after which the next batch begins; None: this batch is the last one.
        """
        found = self._subscriptions.find_notified(feed_ids, after, limit)
        return found, found[-1][1] if len(found) == limit else None

    def notify_entries(
        self, user_id: int, feed_id: int, count: int, now: dt.datetime, begin: int | None = None
    ) -> bool:
        """Notify a user of new entries of a feed; a row that is still unread counts them all.

        Safe to repeat with the same ``begin``, or without it with the same time.

        Args:
            begin: the number after which these entries begin; a repeat may have more of them.

        Returns:
            Whether the user is notified; false while the notification waits.
        """
        event = WaitingNotification(
            _make_event_id(f"{feed_id}.{user_id}", now, begin),
            now,
            user_id,
            NotificationKind.ENTRIES,
            feed_id,
            count=count,
        )
        return self._store_or_wait(event, now, ())

    def notify_search(
        self, user_id: int, search_id: int, feed_id: int, count: int, now: dt.datetime, *, begin: int
    ) -> bool:
        """Notify a user of new entries of a feed that a saved search finds, as :meth:`notify_entries`.

        All feeds share the row of the search.
        """
        event = WaitingNotification(
            _make_event_id(f"{search_id}.{feed_id}.{user_id}", now, begin),
            now,
            user_id,
            NotificationKind.SEARCH,
            search_id,
            count=count,
        )
        return self._store_or_wait(event, now, ())

    def _wants(self, user_id: int, kind: NotificationKind) -> bool:
        user = self._users.find(user_id)
        return user is not None and bool(getattr(user.preferences, kind.setting))

    def find_mentioned(self, share: Share, names: Sequence[str]) -> list[int]:
        """Return the people with these names who may see a share."""
        return [face.user_id for face in self._sight.find_mentioned(names, share).values()]

    def find_author(self, comment_id: int | None) -> int:
        """Return the author of a comment; 0: there is no such comment, or no author anymore."""
        found = None if comment_id is None else self._comments.find(comment_id)
        return (found.user_id or 0) if found else 0

    def can_see(self, user_id: int, share: Share) -> bool:
        """Return whether a user may see a share; False if their cell isn't responding."""
        try:
            return self._sight.can_see(user_id, share)
        except CellError:
            return False

    def find_share(self, share_id: int) -> Share | None:
        """Return a share, regardless of its audience."""
        return self._shares.find(share_id)

    # -- reading
    def list_notifications(self, user_id: int, cursor: str) -> NotificationRows:
        """Return a page of the rows that the user may see, newest first."""
        shown: list[NotificationRow] = []
        after = cursor
        for _ in range(LOOKS):
            limit = self._rows + 1 - len(shown)
            found = self._notes.list_notifications(user_id, after, limit)
            shown += self._visible(user_id, found, self._likes_most)
            if len(shown) > self._rows:
                return NotificationRows(self._titled(user_id, shown[:-1]), shown[-2].place)
            if len(found) < limit:
                return NotificationRows(self._titled(user_id, shown))
            after = found[-1].place
        return NotificationRows(self._titled(user_id, shown), after)

    def count_unread(self, user_id: int) -> int:
        """Return how many unread rows a user would see, without failing feeds, up to :data:`BADGE`."""
        found = self._notes.find_unread(user_id, BADGE)
        shown = self._visible(user_id, found, KEPT) if found else []
        # If the user sees none of the latest likers, check earlier ones, as the page does.
        seen = {note.ref for note in shown}
        rest = [note for note in found if note.kind is NotificationKind.LIKE and note.ref not in seen]
        return len(shown) + (len(self._visible(user_id, rest, self._likes_most)) if rest else 0)

    def _visible(self, user_id: int, notes: Sequence[NotificationRow], likes: int) -> list[NotificationRow]:
        known = self._known(user_id, notes, likes)
        return [shown for note in notes if (shown := _seen(note, known)) is not None]

    def _known(self, user_id: int, notes: Sequence[NotificationRow], likes: int) -> _Known:
        about = {n.share_id for n in notes if n.share_id}
        about |= {what for n in notes if n.kind is NotificationKind.RESHARE for _, what in n.last}
        shares = self._shares.find_many(list(about))
        said = {what for n in notes if n.kind in _SAID for _, what in n.last if what}
        liked = {n.subject for n in notes if n.kind is NotificationKind.LIKE}
        found, comments = self._reactions.find_told(list(liked), likes, list(said))
        likers = {s: [i for i in people if i != user_id] for s, people in found.items()}
        asks = any(n.kind is NotificationKind.REQUEST for n in notes)
        asking = self._ties.find_initiators(user_id, RelationshipKind.REQUEST, BADGE) if asks else []
        # Likers come from the likes: the row only remembers which of them were notified.
        rows = [n for n in notes if n.kind is not NotificationKind.LIKE]
        people = {by for n in rows for by, _ in n.last} | {i for some in likers.values() for i in some}
        people |= set(asking)
        # Before the visibility checks, so that the people in the rows and all sharers are read in one query.
        self._sight.prefetch_people([*people, *(s.user_id for s in shares.values())])
        allowed = self._sight.find_visible_profiles(user_id, list(shares.values()))
        seen = {i: share for i, share in shares.items() if i in allowed}
        faces = self._sight.find_unmuted_people(user_id, people)
        feeds = [n.subject for n in notes if n.kind is NotificationKind.ENTRIES]
        mine = self._subscriptions.find_by_user(user_id, feeds) if feeds else []
        # Rules notify of entries of any feed.
        notified = frozenset(one.feed_id for one in mine if one.notify or one.ruled is not None)
        alerts = any(n.kind is NotificationKind.SEARCH for n in notes)
        searches = self._searches.find_by_user(user_id) if alerts else []
        alerting = frozenset(one.id for one in searches if one.notify)
        crawls = self._find_crawled(notes)
        return _Known(seen, comments, likers, asking, faces, notified, alerting, crawls)

    def _find_crawled(self, notes: Sequence[NotificationRow]) -> dict[int, str]:
        """Return the sites in which feeds were found, by the id of the crawl; the older ones have expired."""
        crawls = [n.subject for n in notes if n.kind is NotificationKind.FOUND]
        return self._crawls.find_hosts(crawls) if crawls else {}

    def _titled(self, user_id: int, notes: Sequence[NotificationRow]) -> tuple[NotificationRow, ...]:
        shares = self._shares.find_many(list({n.share_id for n in notes if n.share_id}))
        keys = [EntryKey(s.id, s.feed_id, s.seq, to_millis(s.at)) for s in shares.values()]
        rows = self._entries.find_rows(user_id, keys)
        titles = {i: e.title or e.excerpt[:EXCERPT] for i, e in rows.items()}
        names = self._name_feeds(user_id, [n.subject for n in notes if n.kind is NotificationKind.ENTRIES])
        if any(n.kind is NotificationKind.IMPORT for n in notes):
            names |= {i.id: i.name or i.title for i in self._imports.find_by_user(user_id, self._rows)}
        named = (NotificationKind.ENTRIES, NotificationKind.IMPORT)
        alerts = any(n.kind is NotificationKind.SEARCH for n in notes)
        searches = {one.id: one for one in self._searches.find_by_user(user_id)} if alerts else {}
        notes = [
            dataclasses.replace(n, title=searches[n.subject].name, detail=searches[n.subject].query)
            if n.kind is NotificationKind.SEARCH and n.subject in searches
            else n
            for n in notes
        ]
        return tuple(
            dataclasses.replace(
                n, title=names.get(n.subject, "") if n.kind in named else titles.get(n.share_id, "")
            )
            if n.kind not in (NotificationKind.SEARCH, NotificationKind.FOUND)
            else n
            for n in notes
        )

    def _name_feeds(self, user_id: int, feed_ids: Sequence[int]) -> dict[int, str]:
        if not feed_ids:
            return {}
        own = {one.feed_id: one.title for one in self._subscriptions.find_by_user(user_id, feed_ids)}
        cards = self._feeds.find_cards(feed_ids)
        return {feed_id: own.get(feed_id) or card.title or card.url for feed_id, card in cards.items()}

    def find_notification(self, user_id: int, kind: NotificationKind, subject: int) -> NotificationRow | None:
        """Return a row as the user sees it; None: it doesn't exist, or the user may not see it."""
        found = self._notes.find_by_kind(user_id, kind, [subject])
        shown = self._visible(user_id, list(found.values()), self._likes_most)
        return self._titled(user_id, shown)[0] if shown else None

    def mark_pushed(self, note: NotificationRow, now: dt.datetime, pause: dt.timedelta) -> bool:
        """Return whether to push a row that changed ``now``: not twice within ``pause``."""
        return self._notes.mark_pushed(note, now, now - pause)

    def list_failing_feeds(self, user_id: int, now: dt.datetime) -> list[NotificationRow]:
        """Return rows for the user's long-failing feeds that are not marked as read."""
        if not self._wants(user_id, NotificationKind.FEED):
            return []
        every = {s.feed_id: s for s in self._subscriptions.find_by_user(user_id)}
        mine = {i: s for i, s in every.items() if not (s.paused or s.person)}
        cards = self._feeds.find_cards(list(every))  # all of them: the page's counters need the rest
        failed = [i for i in mine if i in cards and cards[i].error]
        feeds = self._lists.find_many(failed) if failed else {}
        known = self._notes.find_by_kind(user_id, NotificationKind.FEED, failed) if failed else {}
        notes = [
            NotificationRow(
                user_id=user_id,
                kind=NotificationKind.FEED,
                subject=feed.id,
                at=feed.error_since,
                title=mine[feed.id].title or feed.title or feed.url,
                detail=feed.error,
            )
            for feed in feeds.values()
            if feed.error and feed.error_since and feed.error_since < now - self._broken
            if feed.id not in known or known[feed.id].at < feed.error_since
        ]
        return sorted(notes, key=lambda note: note.at, reverse=True)[:BROKEN_MOST]

    # -- marking
    def mark_read(
        self,
        user_id: int,
        kind: NotificationKind,
        subject: int,
        now: dt.datetime,
        until: dt.datetime | None = None,
    ) -> None:
        """Mark a row as read; a missing row, or one already read, changes nothing.

        Args:
            until: events after this time stay unread.

        Raises:
            NotFoundError: the row is about a feed that the user doesn't follow.
        """
        if kind is not NotificationKind.FEED:
            self._notes.mark_read(user_id, kind, subject, until=until)
            return
        if self._subscriptions.find(user_id, subject) is None:
            raise NotFoundError(feed_id=subject)
        note = NotificationRow(user_id=user_id, kind=kind, subject=subject, at=now, read=True)
        if not self._notes.add_once(note, 0, 0, now + self._keep):
            self._notes.mark_read(user_id, kind, subject, now)

    def mark_all_read(self, user_id: int, now: dt.datetime, until: dt.datetime | None = None) -> None:
        """Mark all rows as read, up to the time ``until`` if given."""
        self._notes.mark_all_read(user_id, until)
        for note in self.list_failing_feeds(user_id, now):
            self.mark_read(user_id, NotificationKind.FEED, note.subject, now)

    def remove_like(self, by: int, share: Share) -> None:
        """Remove a person from a notification of likes.

        The row stays, hidden if nobody else is in it. It remembers pushes and what was read, in case the
        person likes the share again.
        """
        self._notes.remove_actor(share.user_id, NotificationKind.LIKE, share.id, by)


def _seen(note: NotificationRow, known: _Known) -> NotificationRow | None:
    """Return a row with the people whom its reader sees; None: the reader may not see the row."""
    match note.kind:
        case NotificationKind.FEED:
            return None  # the row only records that it was read
        case NotificationKind.IMPORT | NotificationKind.EXPORT:
            return note
        case NotificationKind.ENTRIES:
            return note if note.subject in known.feeds else None
        case NotificationKind.FOUND:
            site = known.crawls.get(note.subject)
            return dataclasses.replace(note, title=site) if site else None
        case NotificationKind.SEARCH:
            return note if note.subject in known.searches else None
        case kind if kind.is_about_share and note.share_id not in known.seen:
            return None
        case NotificationKind.LIKE:
            people = [i for i in known.likers.get(note.subject, ()) if i in known.faces]
            return _with(note, people, len(people), known)
        case NotificationKind.REQUEST:
            people = [i for i in known.asking if i in known.faces]
            return _with(note, people, len(people), known)
    last = [(by, what) for by, what in note.last if by in known.faces and _is_there(note.kind, what, known)]
    if note.kind in _SAID:
        last.sort(key=lambda one: one[1])  # stored by person, and the newest may be gone
    shown = dataclasses.replace(note, last=tuple(last))
    people = list(dict.fromkeys(by for by, _ in reversed(last)))
    return _with(shown, people, note.count - len(note.last) + len(last), known)


def _is_there(kind: NotificationKind, what: int, known: _Known) -> bool:
    if kind is NotificationKind.RESHARE:
        return what in known.seen
    if kind in _SAID and what:
        return what in known.comments and known.comments[what].removed is None
    return True


def _with(note: NotificationRow, people: Sequence[int], count: int, known: _Known) -> NotificationRow | None:
    if not people:
        return None
    faces = tuple(known.faces[i] for i in people[:KEPT])
    return dataclasses.replace(note, faces=faces, count=max(count, len(faces)))


def _make_event_id(about: str, now: dt.datetime, begin: int | None) -> str:
    """Return the same id for the same event, in the form and order of other ids: seconds first.

    Args:
        begin: what tells the event instead of its time; then its id is before others.
    """
    if begin is not None:
        return f"{0:08x}{hashlib.sha256(f'{about}.after.{begin}'.encode()).hexdigest()[:16]}"
    digest = hashlib.sha256(f"{about}.{clock.to_millis(now)}".encode()).hexdigest()
    return f"{int(now.timestamp()):08x}{digest[:16]}"
