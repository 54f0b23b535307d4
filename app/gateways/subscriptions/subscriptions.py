"""Subscriptions: adding, changing, ending and restoring them."""

from __future__ import annotations

import contextlib
import datetime as dt
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from app.errors import ExistsError, ForbiddenError, NotFoundError, StaleSaveError, TooLargeError
from app.gateways.feeds.feed_merge import FeedMerger
from app.gateways.sharing.visibility import VisibilityGateway
from app.mappers.feeds.entries import EntryMapper
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.mongo.cells import Cells
from app.mappers.mongo.store import Session
from app.mappers.sharing.profiles import RelationshipMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.mappers.subscriptions.undo import RemovalMapper
from app.models.accounts.page_save import PageSave
from app.models.feeds.feed import Feed, Position
from app.models.sharing.sharing import STRANGER, FollowDecision, Profile, Relationship, RelationshipKind
from app.models.subscriptions.read_state import ReadState
from app.models.subscriptions.subscription import StartRule, Subscription
from app.models.subscriptions.undo import Removal, RestoreResult
from app.runtime import identity_map

#: A feed that was not polled for this long is polled now for a new reader.
RESTED = dt.timedelta(hours=1)
#: Subscriptions that are ended or restored in one transaction.
TOGETHER = 100


class SubscriptionGateway:
    """Manages subscriptions; for read states see :mod:`app.gateways.reading.read_marks`.

    Args:
        start: where reading starts in a new subscription.
        limit: the most subscriptions of one user.
    """

    def __init__(
        self,
        *,
        cells: Cells,
        feeds: FeedMapper,
        entries: EntryMapper,
        subscriptions: SubscriptionMapper,
        removals: RemovalMapper,
        relationships: RelationshipMapper,
        visibility: VisibilityGateway,
        merger: FeedMerger,
        start: StartRule,
        limit: int,
    ) -> None:
        self._cells = cells
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
        """Subscribe to a feed; only recent entries start as unread.

        Raises:
            ExistsError: the user already subscribes to this feed.
            TooLargeError: the user has the maximum number of subscriptions.
            NotFoundError: the feed is gone.
        """
        self._check_count(wanted.user_id, [feed.id])

        def add_subscription(session: Session) -> Subscription:
            due = _has_rested(feed, now)
            position = self._feeds.change_subscriber_count(feed.id, 1, session, now=now, due=due)
            if position is None:
                raise NotFoundError(feed_id=feed.id)
            # Use the numbers in the transaction: a first pull that ends now doesn't know this subscription.
            state = ReadState(self._start_of(position, now))
            return self._subscriptions.add(
                wanted._replace(state=state), pending=not position.last_seq, session=session
            )

        return self._cells.run_in_transaction(wanted.user_id, add_subscription)

    def add_many(
        self, user_id: int, wanted: Sequence[tuple[Subscription, Feed]], now: dt.datetime
    ) -> list[Subscription]:
        """Subscribe a user to different feeds in one transaction, or to none of them.

        Args:
            user_id: The subscriber.
            wanted: The subscriptions with their feeds.
            now: The current time.

        Raises:
            ExistsError: the user already subscribes to one of the feeds.
            TooLargeError: the user would have too many subscriptions.
            NotFoundError: one of the feeds is gone.
        """
        feeds = [feed for _, feed in wanted]
        self._check_count(user_id, [feed.id for feed in feeds])
        rested = [feed.id for feed in feeds if _has_rested(feed, now)]

        def add_subscriptions(session: Session) -> list[Subscription]:
            positions = self._feeds.add_subscriber_to_many([f.id for f in feeds], rested, now, session)
            if gone := [feed.id for feed in feeds if feed.id not in positions]:
                raise NotFoundError(feed_id=gone[0])
            # Use the numbers in the transaction, as :meth:`add` does.
            new = [
                one._replace(state=ReadState(self._start_of(positions[one.feed_id], now)))
                for one, _ in wanted
            ]
            pending = frozenset(f for f, position in positions.items() if not position.last_seq)
            return self._subscriptions.add_many(new, pending, session)

        return self._cells.run_in_transaction(user_id, add_subscriptions) if wanted else []

    def _check_count(self, user_id: int, feed_ids: Sequence[int]) -> None:
        """Raise TooLargeError if adding these feeds exceeds the limit; existing subscriptions don't count."""
        if self._subscriptions.count(user_id) + len(feed_ids) <= self._most:
            return
        mine = self._subscriptions.find_feed_ids(user_id)
        new = set(feed_ids).difference(mine)
        if new and len(mine) + len(new) > self._most:
            raise TooLargeError("You can have at most %(limit)s subscriptions.", limit=self._most)

    def _start_of(self, position: Position, now: dt.datetime) -> int:
        first, last = position.first_seq, position.last_seq
        if not last:
            return 0  # the first pull sets where reading starts
        newest = self._entries.find_times(
            position.feed_id, max(first, last - self._start.max_unread + 1), last
        )
        return self._start.calculate_upto(newest, last, now)

    def get(self, user_id: int, feed_id: int) -> Subscription:
        """Return a user's subscription.

        Raises:
            NotFoundError: the user isn't subscribed, or there is no such feed.
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
        """Return the web feeds that a user is subscribed to: all except those of people."""
        people = {s.feed_id for s in self._subscriptions.find_people(user_id)}
        return [f for f in self._subscriptions.find_feed_ids(user_id) if f not in people]

    def update(
        self,
        user_id: int,
        feed_id: int,
        changes: Mapping[str, Any],
        *,
        add: Sequence[int] = (),
        remove: Sequence[int] = (),
        save: PageSave | None = None,
    ) -> Subscription:
        """Change the title or the folders, and return the changed subscription.

        Args:
            add, remove: folders; those in neither don't change.

        Raises:
            NotFoundError: the user isn't subscribed.
            StaleSaveError: a later save of the same page came first.
        """
        is_done = True
        if changes or add or remove or save:
            is_done = self._subscriptions.update(user_id, feed_id, changes, add=add, remove=remove, save=save)
        mine = self.get(user_id, feed_id)
        if save and not is_done:
            raise StaleSaveError
        return mine

    def update_folders(
        self, user_id: int, feed_id: int, add: Sequence[int], remove: Sequence[int] = ()
    ) -> None:
        """Add a subscription to folders and remove it from others; further folders don't change."""
        self._subscriptions.update_folders(user_id, [feed_id], add, remove)

    def clear_titles(self, user_id: int, titles: Mapping[int, str]) -> None:
        """Clear the user's titles of subscriptions, given by feed, where they are still the same."""
        self._subscriptions.clear_titles(user_id, titles)

    def remove(self, user_id: int, feed_id: int, expires: dt.datetime) -> str:
        """Unsubscribe; stars stay.

        Returns:
            A token for :meth:`restore`, valid until ``expires``.

        Raises:
            NotFoundError: the user isn't subscribed.
        """
        token = secrets.token_urlsafe(16)

        def remove_subscription(session: Session) -> bool:
            removed = self._leave(user_id, feed_id, session)
            if removed:
                self._removals.add(Removal(token, user_id, removed), expires, session)
            return removed is not None

        if not self._cells.run_in_transaction(user_id, remove_subscription):
            raise NotFoundError(feed_id=feed_id)
        return token

    def _leave(
        self, user_id: int, feed_id: int, session: Session, only_id: int | None = None
    ) -> Subscription | None:
        removed = self._subscriptions.remove(user_id, feed_id, session, only_id)
        if removed:
            self._feeds.change_subscriber_count(feed_id, 0 if removed.paused else -1, session)
        return removed

    def restore(
        self, user_id: int, token: str, folder_ids: Collection[int], now: dt.datetime
    ) -> RestoreResult:
        """Restore a removed subscription, with its title, folders and read state.

        After :meth:`replace_feed`, the new subscription ends, with its read state. If the feed was merged,
        the target feed is subscribed instead. A person is followed like by a new follower: if they approve
        followers now, they get a request.

        Args:
            folder_ids: the user's folders; others that the subscription was in are left out.

        Raises:
            NotFoundError: the token has expired, was used, or isn't the user's; or the feed is gone, or the
                person can no longer be followed.
            ForbiddenError: the user blocks this person.
            ExistsError: the user has subscribed again.
            TooLargeError: the user has the maximum number of subscriptions.
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
        whom = self._to_ask(was, token, self._people(user_id, [was], now))
        if whom is not None:
            return RestoreResult(requested_user_ids=self._ask(user_id, whom, token, now))
        wanted = was._replace(folder_ids=tuple(f for f in was.folder_ids if f in folder_ids))

        def restore_subscription(session: Session) -> Subscription:
            if instead is not None:
                self._leave(user_id, instead.feed_id, session)
                self._subscriptions.restore_rules(
                    user_id, wanted.feed_id, instead.feed_id, removal.rules, session
                )
            return self._return(wanted, token, now, session)

        mine = self._cells.run_in_transaction(user_id, restore_subscription)
        if not (back := self._settled(user_id, [mine], now)):
            raise NotFoundError("This can no longer be undone.", undo=token)
        return RestoreResult(back, left_feed_ids=(instead.feed_id,) if instead else ())

    def _people(
        self, user_id: int, gone: Iterable[Subscription], now: dt.datetime
    ) -> dict[int, tuple[Profile, Relationship]]:
        """Return the people whose streams these are, and the user's relationships to them, by feed."""
        found = self._sight.find_streamers([s.feed_id for s in gone if s.person])
        ties = self._sight.find_relationships(user_id, found.values()) if found else {}
        by_id = {whom.user_id: whom for whom in found.values()}
        for ended in self._ties.find_ended(user_id, list(by_id)) if by_id else ():
            self.finish_ended(user_id, by_id[ended], now)  # it must not end what is restored
        return {f: (whom, ties[whom.user_id]) for f, whom in found.items()}

    def _to_ask(
        self, was: Subscription, token: str, people: Mapping[int, tuple[Profile, Relationship]]
    ) -> Profile | None:
        """Return the person who must approve a restored subscription, or None."""
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
        """Send a follow request instead of restoring the subscription."""
        self._ties.add(user_id, RelationshipKind.REQUEST, recipient.user_id, now)
        self._removals.remove(user_id, token)
        return (recipient.user_id,)

    def _settled(
        self, user_id: int, back: Sequence[Subscription], now: dt.datetime
    ) -> tuple[Subscription, ...]:
        """Adapt restored subscriptions to the current relationships, which may have changed meanwhile.

        Subscriptions to people blocked in between end, mutes are copied, and pending follow requests are
        deleted.
        """
        people, kept = self._sight.find_streamers([s.feed_id for s in back if s.person]), list[Subscription]()
        ties = self._sight.reread_relationships(user_id, people.values())
        for mine in back:
            whom = people.get(mine.feed_id)
            tie = ties[whom.user_id] if whom else STRANGER
            if whom is not None:
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

    def finish_ended(self, user_id: int, recipient: Profile, now: dt.datetime) -> bool:
        """Delete a user's subscription to a person who has ended it; return whether there was one.

        Safe to repeat, also by a process that was frozen meanwhile: a later subscription stays. The decision
        stays until it settles, and ends what a slower process may still subscribe.

        Raises:
            MovingError: the user is being moved.
            CellError: the user's cell isn't responding.
        """
        decision = self._ties.find_decision(user_id, RelationshipKind.ENDED, recipient.user_id)
        if decision is None:
            return False
        has_ended = self._end(decision, recipient)
        if decision.settles is not None and now < decision.settles:
            self._ties.postpone_decision(decision, decision.settles)
        else:
            self._ties.remove_decision(decision)
        return has_ended

    def supersede_ended(self, user_id: int, recipient: Profile, is_allowed: Callable[[], bool]) -> bool:
        """Prepare a new subscription to a person who may have ended an earlier one.

        Args:
            is_allowed: returns whether the user may follow the person, as it is now. It is called only after
                reading the decision that has ended the earlier subscription.

        Returns:
            False: they may not, and nothing has changed.

        Raises: as for :meth:`finish_ended`.
        """
        decision = self._ties.find_decision(user_id, RelationshipKind.ENDED, recipient.user_id)
        if decision is None:
            return True
        if not is_allowed():
            return False
        self._end(decision, recipient)
        # If it was decided once more, that decision stays, and ends the new subscription, too.
        self._ties.remove_decision(decision)
        return True

    def _end(self, decision: FollowDecision, recipient: Profile) -> bool:
        user_id = decision.user_id
        with identity_map.bypass():
            mine = self._subscriptions.find(user_id, recipient.feed_id)
        # While the decision is open, a subscription is one that it ends. So what was read before has ended.
        if not self._ties.is_open(decision):
            return False

        def end_subscription(session: Session) -> bool:
            return mine is not None and bool(
                self._leave(user_id, recipient.feed_id, session, only_id=mine.id)
            )

        has_ended = self._cells.run_in_transaction(user_id, end_subscription)
        self.prevent_restore(user_id, recipient.feed_id)
        return has_ended

    def prevent_restore(self, user_id: int, feed_id: int) -> None:
        """Delete the undos that could restore a user's ended subscription to a feed."""
        self._removals.remove_by_feed(user_id, feed_id)

    def _return(
        self,
        wanted: Subscription,
        token: str,
        now: dt.datetime,
        session: Session,
        has_rules: bool | None = None,
    ) -> Subscription:
        readers = 0 if wanted.paused else 1
        position = self._feeds.change_subscriber_count(wanted.feed_id, readers, session, now=now)
        if position is None:
            moved = self._moved(wanted, token, now)
            self._subscriptions.move_rules(moved.user_id, wanted.feed_id, moved.feed_id, session)
            return self._return(moved, token, now, session, has_rules)
        # An empty state may be from before the feed's first pull, which may have happened since.
        fresh = wanted.state == ReadState()
        state = ReadState(self._start_of(position, now)) if fresh else wanted.state
        # Just used, or deleted by prevent_restore.
        if not self._removals.remove(wanted.user_id, token, session):
            raise NotFoundError("This can no longer be undone.", undo=token)
        pending = not position.last_seq
        return self._subscriptions.add(
            wanted._replace(state=state), pending=pending, session=session, has_rules=has_rules
        )

    def _moved(self, was: Subscription, token: str, now: dt.datetime) -> Subscription:
        """Return a subscription to the feed that the original feed was merged into."""
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
            A token for :meth:`restore_many`, valid until ``expires``, and the feeds that were subscribed.
        """
        token, gone = secrets.token_urlsafe(16), list[int]()
        for start in range(0, len(feed_ids), TOGETHER):
            chunk = feed_ids[start : start + TOGETHER]
            gone += self._cells.run_in_transaction(
                user_id, partial(self._remove_some, user_id, chunk, token, expires)
            )
        return token, gone

    def remove_all(self, user_id: int, now: dt.datetime) -> list[int]:
        """Permanently unsubscribe from all feeds; return their ids."""
        gone = list[int]()
        while feed_ids := self.find_feed_ids(user_id):  # an import may be adding some
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
        """Undo :meth:`remove_many`; feeds subscribed to again stay as they are.

        People are handled as in :meth:`restore`; those who can no longer be followed are left out.

        Raises:
            NotFoundError: the token has expired, was used, or isn't the user's.
            TooLargeError: the user would have too many subscriptions.
        """
        removals = self._removals.find_many(user_id, token, now)
        if not removals:
            raise NotFoundError("This can no longer be undone.", undo=token)
        self._check_count(user_id, [r.subscription.feed_id for r in removals if r.subscription])
        mine = set(self._subscriptions.find_feed_ids(user_id))
        back, wanted, asked, lost = list[Subscription](), [], list[int](), 0
        people = self._people(user_id, [r.subscription for r in removals if r.subscription], now)
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
            has_rules = self._subscriptions.has_rules(wanted[0][0].user_id, session)
            return [self._return(mine, token, now, session, has_rules) for mine, token in wanted]

        try:
            return self._cells.run_in_transaction(wanted[0][0].user_id, restore_all)
        except (ExistsError, NotFoundError):  # one was just restored, or its feed is gone
            if len(wanted) == 1:
                return []
            half = len(wanted) // 2
            return self._return_some(wanted[:half], now) + self._return_some(wanted[half:], now)

    def set_paused(self, user_id: int, feed_id: int, paused: bool, now: dt.datetime) -> bool:
        """Pause or resume a subscription, and correct the feed's readers; return whether it changed.

        A feed keeps the time of its next check. If that passed while nobody read the feed, it is due now.
        Making it due sooner would be a refresh without limits.
        """

        def write_pause(session: Session) -> bool:
            changed = self._subscriptions.set_paused(user_id, feed_id, paused, session)
            if changed:
                begun = None if paused else now
                self._feeds.change_subscriber_count(feed_id, -1 if paused else 1, session, now=begun)
            return changed

        return self._cells.run_in_transaction(user_id, write_pause)

    def set_many_paused(
        self, user_id: int, feed_ids: Sequence[int], paused: bool, now: dt.datetime
    ) -> list[int]:
        """Pause or resume subscriptions as :meth:`set_paused`; return the feeds that changed."""
        changed = list[int]()
        for start in range(0, len(feed_ids), TOGETHER):
            chunk = feed_ids[start : start + TOGETHER]
            changed += self._cells.run_in_transaction(
                user_id, partial(self._pause_some, user_id, chunk, paused, now)
            )
        return changed

    def _pause_some(
        self, user_id: int, feed_ids: Sequence[int], paused: bool, now: dt.datetime, session: Session
    ) -> list[int]:
        changed = self._subscriptions.set_many_paused(user_id, feed_ids, paused, session)
        if changed and paused:
            self._feeds.decrement_subscriber_counts(changed, session)
        elif changed:
            self._feeds.add_subscriber_to_many(changed, (), now, session)
        return changed

    def replace_feed(
        self,
        subscription: Subscription,
        target: Feed,
        state: ReadState,
        expires: dt.datetime,
        now: dt.datetime,
    ) -> str:
        """Replace a subscription by one to another feed, with the same title and folders.

        Returns:
            A token for :meth:`restore`, which replaces the new subscription by the old one.

        Raises:
            ExistsError: the user already subscribes to the other feed.
            NotFoundError: the user has unsubscribed, or the feed is gone.
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
            new = was.move_to(target.id, state)
            rules = self._subscriptions.move_rules(new.user_id, was.feed_id, target.id, session)
            removal = Removal(token, subscription.user_id, was, target.id, rules=rules)
            self._removals.add(removal, expires, session)
            self._subscriptions.add(new, pending=not position.last_seq, session=session)

        self._cells.run_in_transaction(subscription.user_id, write_replacement)
        return token

    def calculate_start(self, feed: Feed, now: dt.datetime) -> int:
        """Return up to which number a feed counts as read for a new subscriber."""
        return self._start_of(Position(feed.id, feed.first_seq, feed.last_seq, feed.last_entry_at), now)


def _has_rested(feed: Feed, now: dt.datetime) -> bool:
    """Return whether a feed is polled now for a new reader.

    A feed without readers was polled rarely or never. A failing feed keeps its back-off: users can retry it.
    """
    return not feed.errors and feed.checked_at is not None and feed.checked_at <= now - RESTED
