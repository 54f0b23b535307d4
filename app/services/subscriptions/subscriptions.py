"""What a user does with his subscriptions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from typing import Any

from app import clock, logs
from app.errors import ExistsError, InvalidError, get_feed_message
from app.gateways.feeds.feeds import FeedGateway
from app.gateways.feeds.websubs import WebsubGateway
from app.gateways.subscriptions.folders import FolderGateway
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.models.accounts.actor import Actor, Permission
from app.models.feeds.feed import Feed, FeedHealth
from app.models.feeds.hosts import parse_host
from app.models.jobs.jobs import RefreshResult
from app.models.subscriptions.read_state import ReadState
from app.models.subscriptions.subscription import AddressChangeResult, SubscribeResult, Subscription
from app.ports import EventPort, HostBudget
from app.services.access import Limiter, require_permission, throttle
from app.services.feeds.refresh_requests import RefreshRequests
from app.services.notifications.notifier import Notifier
from app.services.validation import check_id, check_ids, check_text

log = logs.get(__name__)

URL_MAX = 2048
FOLDERS_MAX = 50
#: Folders that a subscription is taken out of at once: all that one user may have.
REMOVED_MAX = 1000
FETCHES = 20
#: Fetches that a feed's page sums up: one every two minutes for a week.
LOG_MAX = 5000
TOKEN_MAX = 64


class SubscriptionService:
    """Subscribe, edit, refresh, unsubscribe and take that back, and a feed's health.

    Args:
        undo_ttl: seconds.
        addresses_per_hour: feeds to which one user may give another address.
    """

    def __init__(
        self,
        subscriptions: SubscriptionGateway,
        feeds: FeedGateway,
        folders: FolderGateway,
        refresh_requests: RefreshRequests,
        events: EventPort,
        websubs: WebsubGateway,
        notifier: Notifier,
        limiter: Limiter,
        budget: HostBudget,
        *,
        undo_ttl: float,
        addresses_per_hour: int,
    ) -> None:
        self._subscriptions = subscriptions
        self._feeds = feeds
        self._folders = folders
        self._asking = refresh_requests
        self._events = events
        self._websubs = websubs
        self._notifier = notifier
        self._limiter = limiter
        self._budget = budget
        self._addresses_per_hour = addresses_per_hour
        self._undo_ttl = dt.timedelta(seconds=undo_ttl)

    def subscribe(
        self, actor: Actor, url: str, *, title: str | None = None, folder_id: int | None = None
    ) -> SubscribeResult:
        """Subscribe to a feed's address; twice is the same as once.

        A feed without entries, or one that was not well, is pulled at once, by the job of the ticket; without
        one the updater pulls it, within seconds.

        Raises:
            InvalidError: the address is too long, empty, or none of the web.
            NotFoundError: he has no such folder.
            TooLargeError: he has as many subscriptions as he may.
            StoreError: MongoDB or Redis does not answer; a subscription that was stored is pulled by
                the updater.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        url = self._feeds.resolve_feed_address(check_text(url, "url", limit=URL_MAX))
        folder_ids = () if folder_id is None else (check_id(folder_id, "folder_id"),)
        self._folders.check_folders(actor.user_id, folder_ids)
        now = clock.now()
        feed = self._feeds.get_or_create(url, now=now)
        name = check_text(title or "", "title", empty=True)
        wanted = Subscription(0, actor.user_id, feed.id, name, folder_ids)
        try:
            subscription, existed = self._subscriptions.add(wanted, feed, now), False
        except ExistsError:
            subscription, existed = self._subscriptions.get(actor.user_id, feed.id), True
        wanting = not feed.last_seq or (not existed and _is_ill(feed))
        ticket = self._asking.request_first_pull(actor, feed.id) if wanting else None
        self._events.notify_follows(actor.user_id, added=[feed.id])
        log.info("subscribed", user_id=actor.user_id, feed_id=feed.id, existed=existed)
        return SubscribeResult(subscription, existed, ticket.id if ticket else None)

    def get(self, actor: Actor, feed_id: int) -> Subscription:
        """Return one subscription.

        Raises:
            NotFoundError: he is not subscribed to this feed.
        """
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self._subscriptions.get(actor.user_id, check_id(feed_id, "feed_id"))

    def find_successor(self, actor: Actor, feed_id: int) -> int | None:
        """Return the feed into which one was merged, where he reads it; None: it was not, or he does not."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        into = self._feeds.find_successor(check_id(feed_id, "feed_id"))
        return into if into is not None and self._subscriptions.find_by_user(actor.user_id, [into]) else None

    def unsubscribe(self, actor: Actor, feed_id: int) -> str:
        """End a subscription; starred entries stay.

        Returns:
            A token for :meth:`restore`, good for a day.

        Raises:
            NotFoundError: he is not subscribed to this feed.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        now = clock.now()
        token = self._subscriptions.remove(actor.user_id, check_id(feed_id, "feed_id"), now + self._undo_ttl)
        self._websubs.leave_if_unsubscribed(feed_id, now)
        self._events.notify_follows(actor.user_id, removed=[feed_id])
        log.info("unsubscribed", user_id=actor.user_id, feed_id=feed_id)
        return token

    def restore(self, actor: Actor, token: str) -> Subscription | None:
        """Take back an ``unsubscribe`` or ``change_address``, with name, folders and what was read.

        Returns:
            What came back; None: it is a person who wants to be asked by now, and was.

        Raises:
            NotFoundError: it was too long ago, was taken back already, or was never his; or it is a person
                who can no longer be followed.
            ForbiddenError: he blocks this person.
            ExistsError: he has subscribed again; that stays as it is.
            TooLargeError: he has as many subscriptions as he may.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        token = check_text(token, "token", limit=TOKEN_MAX)
        folders = {folder.id for folder in self._folders.find_by_user(actor.user_id)}
        now = clock.now()
        done = self._subscriptions.restore(actor.user_id, token, folders, now)
        self._notifier.notify_follow_requested(actor.user_id, done.requested_user_ids)
        if not done.restored:
            log.info("asked_again", user_id=actor.user_id, whom=done.requested_user_ids[0])
            return None
        (subscription,) = done.restored
        self._websubs.leave_unsubscribed(done.left_feed_ids, now)
        self._events.notify_follows(actor.user_id, added=[subscription.feed_id], removed=done.left_feed_ids)
        log.info("resubscribed", user_id=actor.user_id, feed_id=subscription.feed_id)
        return subscription

    def update(
        self,
        actor: Actor,
        feed_id: int,
        *,
        title: str | None = None,
        folder_ids: Sequence[int] | None = None,
        paused: bool | None = None,
    ) -> Subscription:
        """Give a subscription another name or other folders, or pause it; what is None stays.

        What can be refused is looked at first: all is done, or nothing.

        Raises:
            NotFoundError: he has no such subscription or folder.
            InvalidError: a person is to be paused.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        if paused is not None:
            self._fetched(actor, feed_id)
        changes: dict[str, Any] = {}
        if title is not None:
            changes["title"] = check_text(title, "title", empty=True)
        if folder_ids is not None:
            changes["folder_ids"] = check_ids(folder_ids, "folder_ids", FOLDERS_MAX)
            self._folders.check_folders(actor.user_id, changes["folder_ids"])
        edited = self._subscriptions.update(actor.user_id, check_id(feed_id, "feed_id"), changes)
        if changes:
            self._events.notify_counts(actor.user_id)
        return edited if paused is None else self.set_paused(actor, feed_id, paused)

    def update_folders(
        self, actor: Actor, feed_id: int, *, add: Sequence[int] = (), remove: Sequence[int] = ()
    ) -> None:
        """Put a subscription into folders and take it out of others; what is in both lists, it lies in.

        Unlike the whole list of :meth:`edit` this takes nothing back that another device does meanwhile.

        Raises:
            NotFoundError: he has no such subscription, or no such folder to put it into.
            InvalidError: too many at once.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        add = check_ids(add, "add", FOLDERS_MAX)
        remove = check_ids(remove, "remove", REMOVED_MAX)
        mine = self._subscriptions.get(actor.user_id, check_id(feed_id, "feed_id"))
        check_ids(list({*mine.folder_ids, *add}.difference(set(remove) - set(add))), "add", FOLDERS_MAX)
        self._folders.check_folders(actor.user_id, add)
        self._subscriptions.update_folders(actor.user_id, feed_id, add, remove)
        self._events.notify_counts(actor.user_id)

    def set_paused(self, actor: Actor, feed_id: int, paused: bool) -> Subscription:
        """Pause a subscription, or let it go on: a feed that nobody unpaused reads is not polled.

        Raises:
            NotFoundError: he is not subscribed to this feed.
            InvalidError: it is a person.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        subscription, now = self._fetched(actor, feed_id), clock.now()
        if self._subscriptions.set_paused(actor.user_id, feed_id, bool(paused), now):
            if paused:
                self._websubs.leave_if_unsubscribed(feed_id, now)
            log.info("subscription_paused", user_id=actor.user_id, feed_id=feed_id, paused=bool(paused))
        return subscription._replace(paused=bool(paused))

    def change_address(self, actor: Actor, feed_id: int, url: str) -> AddressChangeResult:
        """Read a feed at another address, under the same name and in the same folders.

        Where the feed at that address is known already, what was read of the old one is read there too;
        else reading begins as with a new subscription. Others who read the old address keep it.

        Raises:
            InvalidError: the address is empty, too long, or the one he has; or it is a person.
            ExistsError: he reads the feed at that address already.
            NotFoundError: he is not subscribed to this feed.
            RateLimitedError: too many of his feeds within the hour; each is fetched at once.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        url = self._feeds.resolve_address(check_text(url, "url", limit=URL_MAX))
        mine, now = self._fetched(actor, feed_id), clock.now()
        throttle(self._limiter, f"address:{actor.user_id}", limit=self._addresses_per_hour, window=clock.HOUR)
        source, target = self._feeds.get(mine.feed_id), self._feeds.get_or_create(url, now=now)
        if target.id == source.id:
            raise InvalidError("The feed already has this address. Enter a different one.", field="url")
        state = ReadState()
        if target.last_seq:
            state = self._feeds.carry_state(
                mine.state, source, target, self._subscriptions.calculate_start(target, now)
            )
        try:
            undo = self._subscriptions.replace_feed(mine, target, state, now + self._undo_ttl, now)
        except ExistsError as e:
            words = (
                "You already subscribe to the feed at this address. Unsubscribe from one of the two feeds."
            )
            raise ExistsError(words, field="url", feed_id=target.id) from e
        self._websubs.leave_if_unsubscribed(source.id, now)
        self._events.notify_follows(actor.user_id, added=[target.id], removed=[source.id])
        if not target.last_seq or _is_ill(target):
            self._asking.request_first_pull(actor, target.id)
        log.info("address_changed", user_id=actor.user_id, feed_id=source.id, into=target.id)
        return AddressChangeResult(target.id, undo, was_known=bool(target.last_seq))

    def refresh(self, actor: Actor, feed_id: int | None = None) -> RefreshResult:
        """Pull one feed now, or all.

        Raises:
            NotFoundError: he is not subscribed to this feed.
            InvalidError: it is a person.
            RateLimitedError: he asked too often.
        """
        require_permission(actor, Permission.FEED_REFRESH)
        if feed_id is None:
            feeds = self._subscriptions.find_web_feed_ids(actor.user_id)
        else:
            feeds = [self._fetched(actor, feed_id).feed_id]
        return RefreshResult(len(feeds), self._asking.request_pulls(actor, feeds))

    def list_rest_ends(self, actor: Actor, feed_ids: Collection[int] | None = None) -> list[dt.datetime]:
        """Return the ends of the rests that sites of his feeds asked for: a refresh waits for them.

        Args:
            feed_ids: feeds to look at; None: all of his.
        """
        require_permission(actor, Permission.FEED_SEE)
        mine = self._subscriptions.find_web_feed_ids(actor.user_id)
        cards = self._feeds.find_cards([f for f in mine if feed_ids is None or f in feed_ids])
        return self._rests([card.url for card in cards.values()])

    def _rests(self, urls: Sequence[str]) -> list[dt.datetime]:
        now, stops = clock.now(), self._budget.find_pauses([parse_host(url) for url in urls])
        return [now + dt.timedelta(seconds=seconds) for seconds in stops if seconds]

    def _fetched(self, actor: Actor, feed_id: int) -> Subscription:
        """Return a subscription to what is fetched."""
        found = self._subscriptions.get(actor.user_id, check_id(feed_id, "feed_id"))
        if found.person:
            raise InvalidError(
                "This is a person's feed. Their shares appear right away, so Eventr doesn't fetch it."
            )
        return found

    def get_health(self, actor: Actor, feed_id: int) -> FeedHealth:
        """Return a feed's state, its last fetches and its error in words.

        Raises:
            NotFoundError: he is not subscribed to this feed.
        """
        require_permission(actor, Permission.FEED_SEE)
        subscription = self._subscriptions.get(actor.user_id, check_id(feed_id, "feed_id"))
        feed, now = self._feeds.get(subscription.feed_id), clock.now()
        fetches = self._feeds.find_fetches(feed.id, LOG_MAX)
        return FeedHealth(
            feed=feed,
            fetches=tuple(fetches[:FETCHES]),
            message=get_feed_message(feed.error) if feed.error else None,
            next_check_at=feed.next_check_at,
            rests_until=next(iter(self._rests([feed.url])), None),
            pushed_by=self._websubs.find_push_source(feed.id, feed.push_until, now),
            log=tuple(fetches),
            forecast=self._feeds.forecast_intervals(feed, now),
            per_week=self._feeds.find_rates([feed.id], now).get(feed.id, 0.0),
        )


def _is_ill(feed: Feed) -> bool:
    """Whether what is stored of a feed may be old: it failed the last time, or is never asked by itself.

    What failed for all who read it may be mended by now, and who is new is told of today's fault.
    """
    return feed.error is not None or feed.next_check_at is None
