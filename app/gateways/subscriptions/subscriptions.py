"""Subscriptions: made, left, and brought back."""

from __future__ import annotations

import contextlib
import datetime as dt
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from app.errors import ExistsError, ForbiddenError, NotFoundError, TooLargeError
from app.gateways.feeds.feed_merge import FeedMerger
from app.gateways.sharing.visibility import VisibilityGateway
from app.mappers.feeds.entries import EntryMapper
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.mongo.store import Session, Store
from app.mappers.sharing.profiles import RelationshipMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.mappers.subscriptions.undo import RemovalMapper
from app.models.feeds.feed import Feed, Position
from app.models.sharing.sharing import STRANGER, Profile, Relationship, RelationshipKind
from app.models.subscriptions.read_state import ReadState
from app.models.subscriptions.subscription import StartRule, Subscription
from app.models.subscriptions.undo import Removal, RestoreResult

#: A feed that was not polled for so long is polled at once for a new reader.
RESTED = dt.timedelta(hours=1)
#: Subscriptions that end in one transaction.
TOGETHER = 100


class SubscriptionGateway:
    """Everything about what a user reads; what he has read of it is in
    :mod:`app.gateways.reading.read_marks`.

    Args:
        start: where reading begins in a new subscription.
        most: subscriptions of one user.
    """

    def __init__(
        self,
        store: Store,
        feeds: FeedMapper,
        entries: EntryMapper,
        subscriptions: SubscriptionMapper,
        removals: RemovalMapper,
        relationships: RelationshipMapper,
        visibility: VisibilityGateway,
        merger: FeedMerger,
        *,
        start: StartRule,
        limit: int,
    ) -> None:
        self._store = store
        self._feeds = feeds
        self._entries = entries
        self._subscriptions = subscriptions
        self._removals = removals
        self._ties = relationships
        self._sight = visibility
        self._merger = merger
        self._start = start
        self._most = limit

    def add(self, wanted: Subscription, feed: Feed, now: dt.datetime) -> Subscription:
        """Subscribe; reading begins with what is young.

        Raises:
            ExistsError: the user has this feed already.
            TooLargeError: the user has as many as he may.
            NotFoundError: the feed is gone.
        """
        self._check_count(wanted.user_id, [feed.id])
        # What nobody read was polled once a day, or not at all. What fails waits on: who wants can try it.
        rested = not feed.errors and feed.checked_at is not None and feed.checked_at <= now - RESTED

        def add_subscription(session: Session) -> Subscription:
            position = self._feeds.change_subscriber_count(feed.id, 1, session, now=now, due=rested)
            if position is None:
                raise NotFoundError(feed_id=feed.id)
            # Numbers as the transaction sees them: a first pull that ends now knows nothing of this one.
            state = ReadState(self._start_of(position, now))
            return self._subscriptions.add(
                wanted._replace(state=state), pending=not position.last_seq, session=session
            )

        return self._store.run_in_transaction(add_subscription)

    def _check_count(self, user_id: int, feed_ids: Sequence[int]) -> None:
        """Raise TooLargeError if these feeds are too many; those that he has already are none more."""
        if self._subscriptions.count(user_id) + len(feed_ids) <= self._most:
            return
        mine = self._subscriptions.find_feed_ids(user_id)
        new = set(feed_ids).difference(mine)
        if new and len(mine) + len(new) > self._most:
            raise TooLargeError("You can have at most %(limit)s subscriptions.", limit=self._most)

    def _start_of(self, position: Position, now: dt.datetime) -> int:
        first, last = position.first_seq, position.last_seq
        if not last:
            return 0  # the first pull says where reading begins
        newest = self._entries.find_times(
            position.feed_id, max(first, last - self._start.max_unread + 1), last
        )
        return self._start.calculate_upto(newest, last, now)

    def get(self, user_id: int, feed_id: int) -> Subscription:
        """Return a user's subscription.

        Raises:
            NotFoundError: he is not subscribed, or there is no such feed.
        """
        subscription = self._subscriptions.find(user_id, feed_id)
        if subscription is None:
            raise NotFoundError(feed_id=feed_id)
        return subscription

    def find_by_user(self, user_id: int, feed_ids: Sequence[int] | None = None) -> list[Subscription]:
        """Return a user's subscriptions, all or those to these feeds."""
        return self._subscriptions.find_by_user(user_id, feed_ids)

    def find_in_folders(self, user_id: int, folder_ids: Sequence[int]) -> list[Subscription]:
        """Return a user's subscriptions in these folders."""
        return self._subscriptions.find_in_folders(user_id, folder_ids)

    def find_feed_ids(self, user_id: int) -> list[int]:
        """Return the feeds a user is subscribed to."""
        return self._subscriptions.find_feed_ids(user_id)

    def find_web_feed_ids(self, user_id: int) -> list[int]:
        """Return the feeds of the web that a user is subscribed to: all but those of people."""
        people = {s.feed_id for s in self._subscriptions.find_people(user_id)}
        return [f for f in self._subscriptions.find_feed_ids(user_id) if f not in people]

    def update(self, user_id: int, feed_id: int, changes: Mapping[str, Any]) -> Subscription:
        """Change title or folders, and return the subscription as it is then.

        Raises:
            NotFoundError: he is not subscribed.
        """
        if changes:
            self._subscriptions.update(user_id, feed_id, changes)
        return self.get(user_id, feed_id)

    def update_folders(
        self, user_id: int, feed_id: int, add: Sequence[int], remove: Sequence[int] = ()
    ) -> None:
        """Put a subscription into folders and take it out of others, whatever else it lies in by then."""
        self._subscriptions.update_folders(user_id, [feed_id], add, remove)

    def clear_title(self, user_id: int, feed_id: int, title: str) -> None:
        """Let a subscription go by the feed's own name, if it goes by this one."""
        self._subscriptions.clear_title(user_id, feed_id, title)

    def remove(self, user_id: int, feed_id: int, expires: dt.datetime) -> str:
        """Unsubscribe; stars stay.

        Returns:
            A token for :meth:`restore`, good until ``expires``.

        Raises:
            NotFoundError: he is not subscribed.
        """
        token = secrets.token_urlsafe(16)

        def remove_subscription(session: Session) -> bool:
            removed = self._leave(user_id, feed_id, session)
            if removed:
                self._removals.add(Removal(token, user_id, removed), expires, session)
            return removed is not None

        if not self._store.run_in_transaction(remove_subscription):
            raise NotFoundError(feed_id=feed_id)
        return token

    def _leave(self, user_id: int, feed_id: int, session: Session) -> Subscription | None:
        removed = self._subscriptions.remove(user_id, feed_id, session)
        if removed:
            self._feeds.change_subscriber_count(feed_id, 0 if removed.paused else -1, session)
        return removed

    def restore(
        self, user_id: int, token: str, folder_ids: Collection[int], now: dt.datetime
    ) -> RestoreResult:
        """Bring back a subscription that was removed, with its name, folders and read state.

        What was read in its place since :meth:`exchange` goes. In the place of a feed that was merged the
        other one is read. A person is followed as by who follows him for the first time: who wants to be
        asked by now, is.

        Args:
            folder_ids: the folders he has; others it was in are left out.

        Raises:
            NotFoundError: the token expired, was used, or was never his; or the feed is gone, or the person
                can no longer be followed.
            ForbiddenError: he blocks this person.
            ExistsError: he has subscribed again.
            TooLargeError: he has as many as he may.
        """
        removal = self._removals.find(user_id, token, now)
        was = removal.subscription if removal else None
        if removal is None or was is None:
            raise NotFoundError("This can no longer be undone.", undo=token)
        instead = (
            self._subscriptions.find(user_id, removal.replacement_id) if removal.replacement_id else None
        )
        if instead is None:
            self._check_count(user_id, [was.feed_id])
        whom = self._to_ask(was, token, self._people(user_id, [was]))
        if whom is not None:
            return RestoreResult(requested_user_ids=self._ask(user_id, whom, token, now))
        wanted = was._replace(folder_ids=tuple(f for f in was.folder_ids if f in folder_ids))

        def restore_subscription(session: Session) -> Subscription:
            if instead is not None:
                self._leave(user_id, instead.feed_id, session)
            return self._return(wanted, token, now, session)

        mine = self._store.run_in_transaction(restore_subscription)
        if not (back := self._settled(user_id, [mine], now)):
            raise NotFoundError("This can no longer be undone.", undo=token)
        return RestoreResult(back, left_feed_ids=(instead.feed_id,) if instead else ())

    def _people(self, user_id: int, gone: Iterable[Subscription]) -> dict[int, tuple[Profile, Relationship]]:
        """Return whose streams these are and what the user is to them, by feed."""
        found = self._sight.find_streamers([s.feed_id for s in gone if s.person])
        ties = self._sight.find_relationships(user_id, found.values()) if found else {}
        return {f: (whom, ties[whom.user_id]) for f, whom in found.items()}

    def _to_ask(
        self, was: Subscription, token: str, people: Mapping[int, tuple[Profile, Relationship]]
    ) -> Profile | None:
        """Return who has to be asked before this comes back, None: nobody."""
        if not was.person:
            return None
        try:
            if was.feed_id not in people:
                raise NotFoundError(feed_id=was.feed_id)
            whom, tie = people[was.feed_id]
            return None if self._sight.can_follow_directly(whom, tie) else whom
        except NotFoundError as e:
            raise NotFoundError("This can no longer be undone.", undo=token) from e

    def _ask(self, user_id: int, recipient: Profile, token: str, now: dt.datetime) -> tuple[int, ...]:
        """Ask instead of coming back."""
        self._ties.add(user_id, RelationshipKind.REQUEST, recipient.user_id, now)
        self._removals.remove(user_id, token)
        return (recipient.user_id,)

    def _settled(
        self, user_id: int, back: Sequence[Subscription], now: dt.datetime
    ) -> tuple[Subscription, ...]:
        """Return what has come back as ties are by now: they may have changed meanwhile.

        Without those whom a block that came in between has not found to end; muted who is muted now. Who
        follows asks no more.
        """
        people, kept = self._people(user_id, back), list[Subscription]()
        laid = self._ties.find_between(user_id, [p.user_id for p, _ in people.values()]) if people else set()
        for mine in back:
            whom, tie = people.get(mine.feed_id, (None, STRANGER))
            if whom is not None and (user_id, RelationshipKind.REQUEST, whom.user_id) in laid:
                self._ties.remove(user_id, RelationshipKind.REQUEST, whom.user_id)
            if tie.blocked:
                with contextlib.suppress(NotFoundError):
                    self.remove(user_id, mine.feed_id, now)
                self.prevent_restore(user_id, mine.feed_id)
                continue
            if tie.muted is not mine.muted:
                self._subscriptions.set_muted(user_id, mine.feed_id, tie.muted)
            kept.append(mine._replace(muted=tie.muted))
        return tuple(kept)

    def prevent_restore(self, user_id: int, feed_id: int) -> None:
        """Let no token bring a user back to a feed that he has left or lost."""
        self._removals.remove_by_feed(user_id, feed_id)

    def _return(self, wanted: Subscription, token: str, now: dt.datetime, session: Session) -> Subscription:
        readers = 0 if wanted.paused else 1
        position = self._feeds.change_subscriber_count(wanted.feed_id, readers, session, now=now)
        if position is None:
            return self._return(self._moved(wanted, token, now), token, now, session)
        # Without a state it may have been removed before the feed's first pull, which has come since.
        fresh = wanted.state == ReadState()
        state = ReadState(self._start_of(position, now)) if fresh else wanted.state
        # Used just now, or barred.
        if not self._removals.remove(wanted.user_id, token, session):
            raise NotFoundError("This can no longer be undone.", undo=token)
        pending = not position.last_seq
        return self._subscriptions.add(wanted._replace(state=state), pending=pending, session=session)

    def _moved(self, was: Subscription, token: str, now: dt.datetime) -> Subscription:
        """Return a subscription to the feed into which its own was merged since it ended."""
        source = self._feeds.find(was.feed_id)
        target = self._feeds.find(source.merged_into) if source and source.merged_into else None
        if source is None or target is None:
            raise NotFoundError("This can no longer be undone.", undo=token)
        state = self._merger.carry_state(was.state, source, target, self.calculate_start(target, now))
        return was._replace(feed_id=target.id, state=state)

    def remove_many(
        self, user_id: int, feed_ids: Sequence[int], expires: dt.datetime
    ) -> tuple[str, list[int]]:
        """Unsubscribe from many feeds; stars stay.

        Returns:
            A token for :meth:`restore_many`, good until ``expires``, and the feeds that he was subscribed to.
        """
        token, gone = secrets.token_urlsafe(16), list[int]()
        for start in range(0, len(feed_ids), TOGETHER):
            chunk = feed_ids[start : start + TOGETHER]
            gone += self._store.run_in_transaction(partial(self._remove_some, user_id, chunk, token, expires))
        return token, gone

    def remove_all(self, user_id: int, now: dt.datetime) -> list[int]:
        """Unsubscribe from everything for good; return the feeds."""
        gone = list[int]()
        while feed_ids := self.find_feed_ids(user_id):  # an import may add some at this moment
            gone += self.remove_many(user_id, feed_ids, now)[1]
        return gone

    def _remove_some(
        self, user_id: int, feed_ids: Sequence[int], token: str, expires: dt.datetime, session: Session
    ) -> list[int]:
        removed = self._subscriptions.remove_many(user_id, feed_ids, session)
        if removed:
            self._feeds.decrement_subscriber_counts([s.feed_id for s in removed if not s.paused], session)
            self._removals.add_many(token, removed, expires, session)
        return [s.feed_id for s in removed]

    def restore_many(
        self, user_id: int, token: str, folder_ids: Collection[int], now: dt.datetime
    ) -> RestoreResult:
        """Bring back what :meth:`remove_many` took; feeds he has subscribed to again stay as they are.

        People as by :meth:`restore`; those who can no longer be followed are left out.

        Raises:
            NotFoundError: the token expired, was used, or was never his.
            TooLargeError: he has as many as he may.
        """
        removals = self._removals.find_many(user_id, token, now)
        if not removals:
            raise NotFoundError("This can no longer be undone.", undo=token)
        self._check_count(user_id, [r.subscription.feed_id for r in removals if r.subscription])
        mine = set(self._subscriptions.find_feed_ids(user_id))
        back, wanted, asked, lost = list[Subscription](), [], list[int](), 0
        people = self._people(user_id, [r.subscription for r in removals if r.subscription])
        for removal in removals:
            was = removal.subscription
            if was is None or was.feed_id in mine:
                self._removals.remove(user_id, removal.token)
                continue
            try:
                whom = self._to_ask(was, removal.token, people)
            except (NotFoundError, ForbiddenError):
                lost += 1
                continue
            if whom is not None:
                asked += self._ask(user_id, whom, removal.token, now)
            else:
                kept = tuple(f for f in was.folder_ids if f in folder_ids)
                wanted.append((was._replace(folder_ids=kept), removal.token))
        for start in range(0, len(wanted), TOGETHER):
            back += self._return_some(wanted[start : start + TOGETHER], now)
        return RestoreResult(self._settled(user_id, back, now), tuple(asked), lost)

    def _return_some(
        self, wanted: Sequence[tuple[Subscription, str]], now: dt.datetime
    ) -> list[Subscription]:
        def restore_all(session: Session) -> list[Subscription]:
            return [self._return(mine, token, now, session) for mine, token in wanted]

        try:
            return self._store.run_in_transaction(restore_all)
        except (ExistsError, NotFoundError):  # one came back just now, or its feed is gone
            if len(wanted) == 1:
                return []
            half = len(wanted) // 2
            return self._return_some(wanted[:half], now) + self._return_some(wanted[half:], now)

    def set_paused(self, user_id: int, feed_id: int, paused: bool, now: dt.datetime) -> bool:
        """Count a reader out of a feed's polls, or in again; return whether that changed anything."""

        def write_pause(session: Session) -> bool:
            changed = self._subscriptions.set_paused(user_id, feed_id, paused, session)
            if changed:
                due = None if paused else now
                self._feeds.change_subscriber_count(
                    feed_id, -1 if paused else 1, session, now=due, due=not paused
                )
            return changed

        return self._store.run_in_transaction(write_pause)

    def replace_feed(
        self,
        subscription: Subscription,
        target: Feed,
        state: ReadState,
        expires: dt.datetime,
        now: dt.datetime,
    ) -> str:
        """Read another feed in the place of one, under the same name and in the same folders.

        Returns:
            A token for :meth:`restore` of the old one, in the place of the new one.

        Raises:
            ExistsError: the user reads that one too.
            NotFoundError: he has unsubscribed, or the feed is gone.
        """
        token = secrets.token_urlsafe(16)

        def write_replacement(session: Session) -> None:
            was = self._subscriptions.remove(subscription.user_id, subscription.feed_id, session)
            readers = 0 if was is None or was.paused else 1
            position = self._feeds.change_subscriber_count(
                target.id, readers, session, now=now, due=not target.errors
            )
            if was is None or position is None:
                raise NotFoundError(feed_id=subscription.feed_id)
            self._feeds.change_subscriber_count(subscription.feed_id, -readers, session)
            self._removals.add(Removal(token, subscription.user_id, was, target.id), expires, session)
            new = was._replace(feed_id=target.id, state=state)
            self._subscriptions.add(new, pending=not position.last_seq, session=session)

        self._store.run_in_transaction(write_replacement)
        return token

    def calculate_start(self, feed: Feed, now: dt.datetime) -> int:
        """Return up to which number a feed counts as read for who begins with it now."""
        return self._start_of(Position(feed.id, feed.first_seq, feed.last_seq, feed.last_entry_at), now)
