"""A user's subscriptions: subscribing, editing, refreshing, unsubscribing, and the health of a feed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from app import clock, logs
from app.errors import ExistsError, InvalidError, get_feed_message
from app.gateways.feeds.feeds import FeedGateway
from app.gateways.feeds.fetch_secrets import FetchSecrets
from app.gateways.feeds.websubs import WebsubGateway
from app.gateways.subscriptions.folders import FolderGateway
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.models.accounts.actor import Actor, Permission
from app.models.accounts.page_save import PageSave
from app.models.feeds.feed import Feed, FeedKind
from app.models.feeds.fetch_options import FetchOptions
from app.models.feeds.health import FeedHealth
from app.models.feeds.hosts import is_same_site, parse_host
from app.models.jobs.jobs import RefreshResult
from app.models.subscriptions.read_state import ReadState
from app.models.subscriptions.subscription import AddressChangeResult, SubscribeResult, Subscription
from app.ports import EventPort, HostBudget
from app.services.access import Limiter, require_permission, throttle
from app.services.feeds.refresh_requests import RefreshRequests
from app.services.notifications.notifier import Notifier
from app.services.subscriptions.adding import add_at_address
from app.services.validation import check_id, check_ids, check_text

log = logs.get(__name__)

URL_MAX = 2048
TWICE = "You already subscribe to the feed at this address. Unsubscribe from one of the two feeds."
FOLDERS_MAX = 50
#: Most characters of extra headers, and most seconds of a fetch. The server may allow less time.
HEADERS_MAX, TIME_LIMIT_MAX = 2000, 60
#: Most days after which entries are marked as read.
READ_AFTER_MAX = 365
#: Most newest entries to which a list can be limited.
KEEP_NEWEST_MAX = 10_000
#: Folders that a subscription is removed from at once: the most that a user may have.
REMOVED_MAX = 1000
TOKEN_MAX = 64
#: Characters of a cookie; and the longest interval between two checks that a reader may set.
OPTION_MAX, DAY_MINUTES = 1000, 1440


class SubscriptionService:
    """Adds, edits, refreshes and removes subscriptions, undoes that, and reports a feed's health.

    Args:
        undo_ttl: seconds for which an action can be undone.
        addresses_per_hour: changes of a feed's address per user and hour.
        subscriptions_per_hour: new subscriptions per user and hour.
    """

    def __init__(
        self,
        *,
        subscriptions: SubscriptionGateway,
        feeds: FeedGateway,
        folders: FolderGateway,
        secrets: FetchSecrets,
        refresh_requests: RefreshRequests,
        events: EventPort,
        websubs: WebsubGateway,
        notifier: Notifier,
        limiter: Limiter,
        budget: HostBudget,
        undo_ttl: float,
        addresses_per_hour: int,
        subscriptions_per_hour: int,
    ) -> None:
        self._subscriptions = subscriptions
        self._feeds = feeds
        self._folders = folders
        self._secrets = secrets
        self._asking = refresh_requests
        self._events = events
        self._websubs = websubs
        self._notifier = notifier
        self._limiter = limiter
        self._budget = budget
        self._addresses_per_hour = addresses_per_hour
        self._subscriptions_per_hour = subscriptions_per_hour
        self._undo_ttl = dt.timedelta(seconds=undo_ttl)

    def subscribe(
        self,
        actor: Actor,
        url: str,
        *,
        title: str | None = None,
        folder_id: int | None = None,
        private: bool = False,
        options: FetchOptions | None = None,
    ) -> SubscribeResult:
        """Subscribe to a feed's address; twice is the same as once.

        Args:
            private: keep a new subscription private; an existing one stays as it is.
            options: how to have the feed fetched: then it is a copy that only the actor may read.

        A feed without entries or in error is pulled now, by the job of the returned ticket. Without a ticket
        the updater pulls the feed within seconds.

        Raises:
            InvalidError: the address is too long, empty, or not a web address.
            NotFoundError: the actor has no such folder.
            TooLargeError: the actor has the maximum number of subscriptions.
            RateLimitedError: too many new subscriptions within the hour.
            StoreError: MongoDB or Redis does not answer; the updater pulls a subscription that was stored.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        url = self._feeds.resolve_feed_address(check_text(url, "url", limit=URL_MAX))
        folder_ids = () if folder_id is None else (check_id(folder_id, "folder_id"),)
        self._folders.check_folders(actor.user_id, folder_ids)
        limit = self._subscriptions_per_hour
        throttle(self._limiter, f"subscribe:{actor.user_id}", limit=limit, window=clock.HOUR)
        now = clock.now()
        name = check_text(title or "", "title", empty=True)

        def make_subscription(feed: Feed) -> Subscription:
            return Subscription(0, actor.user_id, feed.id, name, folder_ids, private=private)

        own = self._find_own(actor, url)
        if options is not None and options.is_set:
            own = self._prepare_own(actor, url, title or "", options, now)

        def find_feed() -> Feed:
            return own or self._feeds.get_or_create(url, now=now)

        feed, added = add_at_address(
            self._feeds, self._subscriptions, url, make_subscription, now=now, find_feed=find_feed
        )
        existed = added is None
        subscription = added or self._subscriptions.get(actor.user_id, feed.id)
        wanting = not feed.last_seq or (not existed and _is_ill(feed))
        ticket = self._asking.request_first_pull(actor, feed.id) if wanting else None
        self._events.notify_follows(actor.user_id, added=[feed.id])
        log.info("subscribed", user_id=actor.user_id, feed_id=feed.id, existed=existed)
        return SubscribeResult(subscription, existed, ticket.id if ticket else None)

    def get(self, actor: Actor, feed_id: int) -> Subscription:
        """Return one subscription.

        Raises:
            NotFoundError: the actor isn't subscribed to this feed.
        """
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self._subscriptions.get(actor.user_id, check_id(feed_id, "feed_id"))

    def get_feed(self, actor: Actor, feed_id: int) -> Feed:
        """Return a feed that the actor subscribes to.

        Raises:
            NotFoundError: the actor isn't subscribed to this feed.
        """
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self._feeds.get(self.get(actor, feed_id).feed_id)

    def find_successor(self, actor: Actor, feed_id: int) -> int | None:
        """Return the feed that a feed was merged into, if the actor subscribes to it, or else None."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        into = self._feeds.find_successor(check_id(feed_id, "feed_id"))
        return into if into is not None and self._subscriptions.find_by_user(actor.user_id, [into]) else None

    def unsubscribe(self, actor: Actor, feed_id: int) -> str:
        """End a subscription; starred entries stay.

        Returns:
            A token for :meth:`restore`, valid for ``undo_ttl``.

        Raises:
            NotFoundError: the actor isn't subscribed to this feed.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        now = clock.now()
        token = self._subscriptions.remove(actor.user_id, check_id(feed_id, "feed_id"), now + self._undo_ttl)
        self._websubs.leave_if_unsubscribed(feed_id, now)
        self._events.notify_follows(actor.user_id, removed=[feed_id])
        log.info("unsubscribed", user_id=actor.user_id, feed_id=feed_id)
        return token

    def restore(self, actor: Actor, token: str) -> Subscription | None:
        """Undo an ``unsubscribe`` or ``change_address``, with the title, folders and read state.

        Returns:
            The restored subscription; None: the feed is a person's who now approves followers and got a
            request.

        Raises:
            NotFoundError: the token has expired, was used, or isn't the actor's; or the person can no longer
                be followed.
            ForbiddenError: the actor blocks this person.
            ExistsError: the actor has subscribed again; that subscription stays as it is.
            TooLargeError: the actor has the maximum number of subscriptions.
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
        hidden: bool | None = None,
        original: bool | None = None,
        notify: bool | None = None,
        full_text: bool | None = None,
        read_after: int | None = None,
        keep_newest: int | None = None,
        reopen: bool | None = None,
        add_folders: Sequence[int] = (),
        remove_folders: Sequence[int] = (),
        save: PageSave | None = None,
    ) -> Subscription:
        """Change the title or the folders of a subscription, or pause it; None leaves a value as it is.

        Args:
            hidden: hide the feed from the lists of all feeds; its folders still show it.
            original: let titles in lists open the page at the feed's site.
            notify: notify the actor of new entries.
            full_text: show the full texts of its entries.
            reopen: let entries become unread again when their text changes.
            read_after: mark its entries as read after so many days; 0: never.
            keep_newest: show only so many of its newest entries in the actor's lists; 0: all.
            add_folders, remove_folders: instead of ``folder_ids``, as in :meth:`update_folders`.
            save: which save of an open page it is.

        Everything is checked before the first change: all changes are made, or none.

        Raises:
            NotFoundError: the actor has no such subscription or folder.
            InvalidError: the subscription is to a person, who can be neither paused nor hidden here; or a
                value is invalid; or saved pages would be left out of lists.
            StaleSaveError: a later save of the same page came first.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        flags = {"muted": hidden, "original": original, "notify": notify}
        flags |= {"full_text": full_text, "reopen": reopen}
        changes: dict[str, Any] = {name: bool(on) for name, on in flags.items() if on is not None}
        if read_after is not None:
            if not isinstance(read_after, int) or not 0 <= read_after <= READ_AFTER_MAX:
                raise InvalidError("Enter 0 to %(most)s days.", field="read_after", most=READ_AFTER_MAX)
            changes["read_after"] = read_after
        if keep_newest is not None:
            changes["keep_newest"] = self._check_newest(keep_newest, check_id(feed_id, "feed_id"))
        if paused is not None or changes:
            self._fetched(actor, feed_id)
        if title is not None:
            changes["title"] = check_text(title, "title", empty=True)
        if folder_ids is not None:
            changes["folder_ids"] = check_ids(folder_ids, "folder_ids", FOLDERS_MAX)
            self._folders.check_folders(actor.user_id, changes["folder_ids"])
        add, remove = add_folders, remove_folders
        if add or remove:
            add, remove = self._check_folder_changes(actor, feed_id, add, remove)
        edited = self._subscriptions.update(
            actor.user_id, check_id(feed_id, "feed_id"), changes, add=add, remove=remove, save=save
        )
        if full_text:
            self._feeds.reset_gain(feed_id)
        if changes or add or remove:
            self._events.notify_counts(actor.user_id)
        return edited if paused is None else self.set_paused(actor, feed_id, paused)

    def update_folders(
        self, actor: Actor, feed_id: int, *, add: Sequence[int] = (), remove: Sequence[int] = ()
    ) -> None:
        """Add a subscription to folders and remove it from others; a folder in both lists is added.

        Unlike the full list of :meth:`update`, this doesn't revert what another device changes meanwhile.

        Raises:
            NotFoundError: the actor has no such subscription, or no such folder to add.
            InvalidError: too many folders at once.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        added, removed = self._check_folder_changes(actor, feed_id, add, remove)
        self._subscriptions.update_folders(actor.user_id, feed_id, added, removed)
        self._events.notify_counts(actor.user_id)

    def _check_folder_changes(
        self, actor: Actor, feed_id: int, add: Sequence[int], remove: Sequence[int]
    ) -> tuple[Sequence[int], Sequence[int]]:
        add = check_ids(add, "add", FOLDERS_MAX)
        remove = check_ids(remove, "remove", REMOVED_MAX)
        mine = self._subscriptions.get(actor.user_id, check_id(feed_id, "feed_id"))
        check_ids(list({*mine.folder_ids, *add}.difference(set(remove) - set(add))), "add", FOLDERS_MAX)
        self._folders.check_folders(actor.user_id, add)
        return add, remove

    def set_paused(self, actor: Actor, feed_id: int, paused: bool) -> Subscription:
        """Pause or resume a subscription; a feed with only paused subscriptions isn't polled.

        A feed that is resumed is checked when it would have been, or now if that time has passed.

        Raises:
            NotFoundError: the actor isn't subscribed to this feed.
            InvalidError: the subscription is to a person.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        subscription, now = self._fetched(actor, feed_id), clock.now()
        if self._subscriptions.set_paused(actor.user_id, feed_id, bool(paused), now):
            if paused:
                self._websubs.leave_if_unsubscribed(feed_id, now)
            log.info("subscription_paused", user_id=actor.user_id, feed_id=feed_id, paused=bool(paused))
        return subscription._replace(paused=bool(paused))

    def change_address(self, actor: Actor, feed_id: int, url: str) -> AddressChangeResult:
        """Subscribe to another address of a feed, with the same title and folders.

        If the feed at the new address is known, entries read in the old feed are marked as read there too. If
        not, reading starts as with a new subscription. Other subscribers of the old address keep it. Another
        spelling of the feed's own address is tried, and replaces one that fails or is plain http.

        Raises:
            InvalidError: the address is empty, too long, or exactly the current one; or the subscription is
                to a person.
            ExistsError: the actor already subscribes to the feed at that address.
            NotFoundError: the actor isn't subscribed to this feed.
            RateLimitedError: too many changes within the hour, each of which causes a fetch.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        url = self._feeds.resolve_address(check_text(url, "url", limit=URL_MAX))
        mine, now = self._fetched(actor, feed_id), clock.now()
        throttle(self._limiter, f"address:{actor.user_id}", limit=self._addresses_per_hour, window=clock.HOUR)
        source = self._feeds.get(mine.feed_id)
        self._refuse_saved(source)
        if source.private_to is not None:
            if url == source.url:
                raise InvalidError("The feed already has this address. Enter a different one.", field="url")
            if (moved := self._change_own_address(actor, source, url, now)) is not None:
                return moved
        target = self._find_own(actor, url) or self._feeds.get_or_create(url, now=now)
        if target.id == source.id:
            return self._retry_address(actor, source, url, now)
        return self._continue_with(actor, mine, source, target, now)

    def _check_newest(self, count: int, feed_id: int) -> int:
        if not isinstance(count, int) or not 0 <= count <= KEEP_NEWEST_MAX:
            raise InvalidError("Enter 0 to %(most)s entries.", field="keep_newest", most=KEEP_NEWEST_MAX)
        if count and self._feeds.get(feed_id).kind is FeedKind.SAVED:
            raise InvalidError(
                "Lists show all pages that you saved. Remove those that you no longer need.",
                field="keep_newest",
            )
        return count

    def _refuse_saved(self, feed: Feed) -> None:
        if feed.kind is FeedKind.SAVED:
            raise InvalidError("These are pages that you saved. There is no feed to fetch.", feed_id=feed.id)

    def _continue_with(
        self, actor: Actor, mine: Subscription, source: Feed, target: Feed, now: dt.datetime
    ) -> AddressChangeResult:
        """Replace the subscription to ``source`` by one to ``target``."""
        state = ReadState()
        if target.last_seq:
            state = self._feeds.carry_state(
                mine.state, source, target, self._subscriptions.calculate_start(target, now)
            )
        try:
            undo = self._subscriptions.replace_feed(mine, target, state, now + self._undo_ttl, now)
        except ExistsError as e:
            raise ExistsError(TWICE, field="url", feed_id=target.id) from e
        self._websubs.leave_if_unsubscribed(source.id, now)
        self._events.notify_follows(actor.user_id, added=[target.id], removed=[source.id])
        if not target.last_seq or _is_ill(target):
            self._asking.request_first_pull(actor, target.id)
        log.info("address_changed", user_id=actor.user_id, feed_id=source.id, into=target.id)
        is_own = target.private_to is not None
        return AddressChangeResult(target.id, undo, bool(target.last_seq), is_own)

    def get_fetch_options(self, actor: Actor, feed_id: int) -> FetchOptions:
        """Return how the actor has a feed fetched, with the secrets.

        Raises:
            NotFoundError: the actor isn't subscribed to this feed.
        """
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self.open_fetch_options(actor, self.get_feed(actor, feed_id))

    def open_fetch_options(self, actor: Actor, feed: Feed) -> FetchOptions:
        """Return how the actor, the only reader of a feed, has it fetched, with the secrets."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self._open(actor, feed)

    def _open(self, actor: Actor, feed: Feed) -> FetchOptions:
        return self._secrets.open(feed.sealed, actor.user_id if feed.private_to else None)

    def change_fetch_options(
        self, actor: Actor, feed_id: int, change: Callable[[FetchOptions], FetchOptions]
    ) -> AddressChangeResult:
        """Change how the actor has a feed fetched; ``change`` gets the options and returns the new ones.

        With options, the actor reads a copy of the feed that nobody else can find or subscribe to. Without,
        the actor returns to the feed that everyone reads. The name, folders and stars stay.

        Raises:
            InvalidError: an option isn't allowed, or the subscription is to a person.
            NotFoundError: the actor isn't subscribed to this feed.
            ExistsError: the actor also has an own copy of this feed.
            RateLimitedError: too many changes within the hour, each of which causes a fetch.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        mine, now = self._fetched(actor, feed_id), clock.now()
        feed = self._feeds.get(mine.feed_id)
        self._refuse_saved(feed)
        options = check_fetch_options(change(self._open(actor, feed)))
        throttle(self._limiter, f"address:{actor.user_id}", limit=self._addresses_per_hour, window=clock.HOUR)
        is_own = feed.private_to is not None
        if not is_own and (own := self._find_own(actor, feed.url)):
            # Before anything is stored: the copy keeps its login.
            raise ExistsError(TWICE, feed_id=own.id)
        if not options.is_set and not is_own:
            return AddressChangeResult(feed.id, "", was_known=True)
        if not options.is_set:
            target = self._feeds.get_or_create(feed.url, now=now, title=feed.title)
        else:
            target = self._prepare_own(actor, feed.url, feed.title, options, now)
        log.info("fetch_options_set", user_id=actor.user_id, feed_id=feed.id, into=target.id)
        if target.id == feed.id:
            self._asking.request_first_pull(actor, feed.id)
            return AddressChangeResult(feed.id, "", was_known=True)
        return self._continue_with(actor, mine, feed, target, now)

    def _find_own(self, actor: Actor, url: str) -> Feed | None:
        """Return the actor's own copy of the feed at an address, if they subscribe to it."""
        own = self._feeds.find_own(url, actor.user_id)
        is_mine = own is not None and self._subscriptions.find_by_user(actor.user_id, [own.id])
        return own if is_mine else None

    def _prepare_own(
        self, actor: Actor, url: str, title: str, options: FetchOptions, now: dt.datetime
    ) -> Feed:
        """Return the actor's own copy of the feed at an address, with these options."""
        options = check_fetch_options(options)
        sealed = self._secrets.encrypt_options(options, actor.user_id)
        feed = self._feeds.get_or_create_private(url, actor.user_id, title, now)
        self._feeds.set_fetch_options(feed, options, sealed, now)
        return feed

    def _change_own_address(
        self, actor: Actor, feed: Feed, url: str, now: dt.datetime
    ) -> AddressChangeResult | None:
        """Move the actor's own copy of a feed on its site; None: elsewhere its login doesn't hold."""
        if not is_same_site(feed.url, url):
            return None
        try:
            self._feeds.move_own(feed, url)
        except ExistsError as e:
            raise ExistsError(TWICE, field="url") from e
        self._feeds.force_due([feed.id], now)
        self._asking.request_first_pull(actor, feed.id)
        return AddressChangeResult(feed.id, "", was_known=True)

    def _retry_address(self, actor: Actor, feed: Feed, url: str, now: dt.datetime) -> AddressChangeResult:
        """Try another spelling of a feed's own address; the subscription stays as it is."""
        if url == feed.url:
            raise InvalidError("The feed already has this address. Enter a different one.", field="url")
        self._feeds.propose_spelling(feed, url, now)
        self._asking.request_first_pull(actor, feed.id)
        return AddressChangeResult(feed.id, "", was_known=True)

    def refresh(self, actor: Actor, feed_id: int | None = None) -> RefreshResult:
        """Queue pulls of one feed, or of all the actor's feeds (None).

        Raises:
            NotFoundError: the actor isn't subscribed to this feed.
            InvalidError: the subscription is to a person.
            RateLimitedError: too many requests within a minute.
        """
        require_permission(actor, Permission.FEED_REFRESH)
        if feed_id is None:
            feeds = self._subscriptions.find_web_feed_ids(actor.user_id)
        else:
            feeds = [self._fetched(actor, feed_id).feed_id]
        return RefreshResult(len(feeds), self._asking.request_pulls(actor, feeds))

    def list_rest_ends(self, actor: Actor, feed_ids: Collection[int] | None = None) -> list[dt.datetime]:
        """Return when the pauses requested by the hosts of the actor's feeds end; refreshes wait for them.

        Args:
            feed_ids: the feeds to check; None: all of the actor's.
        """
        require_permission(actor, Permission.FEED_REFRESH)
        mine = self._subscriptions.find_web_feed_ids(actor.user_id)
        polls = self._feeds.find_polls([f for f in mine if feed_ids is None or f in feed_ids])
        return self._rests({poll.url: poll.retry_ms for poll in polls})

    def _rests(self, retries: Mapping[str, int]) -> list[dt.datetime]:
        """Return when the pauses of these feeds (address → ``retry_ms``) and their hosts end."""
        now, stops = clock.now(), self._budget.find_pauses([parse_host(url) for url in retries])
        now_ms = now.timestamp() * 1000
        waits = [
            max(stop, (retry - now_ms) / 1000) for retry, stop in zip(retries.values(), stops, strict=True)
        ]
        return [now + dt.timedelta(seconds=seconds) for seconds in waits if seconds > 0]

    def _fetched(self, actor: Actor, feed_id: int) -> Subscription:
        """Return a subscription to a fetched feed, not to a person."""
        found = self._subscriptions.get(actor.user_id, check_id(feed_id, "feed_id"))
        if found.person:
            raise InvalidError(
                "This is a person's feed. Their shares appear right away, so Eventr doesn't fetch it."
            )
        return found

    def get_health(self, actor: Actor, feed_id: int) -> FeedHealth:
        """Return a feed's state, its last fetches and its error message.

        Raises:
            NotFoundError: the actor isn't subscribed to this feed.
        """
        require_permission(actor, Permission.FEED_SEE)
        subscription = self._subscriptions.get(actor.user_id, check_id(feed_id, "feed_id"))
        feed, now = self._feeds.get(subscription.feed_id), clock.now()
        return FeedHealth(
            feed=feed,
            log=self._feeds.find_fetch_log(feed.id),
            message=get_feed_message(feed.error) if feed.error else None,
            next_check_at=feed.next_check_at,
            rests_until=next(
                iter(self._rests({feed.url: int(feed.retry_at.timestamp() * 1000) if feed.retry_at else 0})),
                None,
            ),
            pushed_by=self._websubs.find_push_source(feed.id, feed.push_until, now),
            forecast=self._feeds.forecast_intervals(feed, now),
            per_week=self._feeds.find_rates([feed.id], now).get(feed.id, 0.0),
        )


def check_fetch_options(options: FetchOptions) -> FetchOptions:
    """Return options that a request may carry (S12).

    Raises:
        InvalidError: an option is too long, contains characters that HTTP doesn't allow, or is out of range.
    """
    if ":" in options.login:
        raise InvalidError("A user name can't contain a colon.", field="login")
    if options.password and not options.login:
        raise InvalidError("Enter the user name that belongs to the password.", field="login")
    if options.token and options.login:
        raise InvalidError("Enter a login or an access token, not both.", field="token")
    _check_option_texts(options)
    if options.time_limit is not None and not 1 <= options.time_limit <= TIME_LIMIT_MAX:
        most = TIME_LIMIT_MAX
        raise InvalidError("Enter a number of seconds from 1 to %(most)s.", field="time_limit", most=most)
    for name in ("min_minutes", "max_minutes"):
        minutes = getattr(options, name)
        if minutes is not None and not 1 <= minutes <= DAY_MINUTES:
            raise InvalidError("Enter a number of minutes from 1 to %(most)s.", field=name, most=DAY_MINUTES)
    if options.min_minutes and options.max_minutes and options.min_minutes > options.max_minutes:
        raise InvalidError(
            "The longest interval can't be shorter than the shortest one.", field="max_minutes"
        )
    return options


def _check_option_texts(options: FetchOptions) -> None:
    """Raise InvalidError if a text is too long, or no header can hold it."""
    for name, limit in (
        *(("login", 200), ("password", 400), ("token", OPTION_MAX)),
        *(("cookie", OPTION_MAX), ("user_agent", 300)),
    ):
        value = getattr(options, name)
        if len(value) > limit:
            raise InvalidError("Use at most %(most)s characters.", field=name, most=limit)
        if not value.isprintable() or (name in ("token", "cookie", "user_agent") and not value.isascii()):
            raise InvalidError("This contains characters that HTTP doesn't allow.", field=name)
    if len(options.headers) > HEADERS_MAX:
        raise InvalidError("Use at most %(most)s characters.", field="headers", most=HEADERS_MAX)


def _is_ill(feed: Feed) -> bool:
    """Return whether a feed's stored state may be old: its last fetch failed, or it isn't polled.

    An error may be fixed meanwhile, and a new subscriber must see the current state.
    """
    return feed.error is not None or feed.next_check_at is None
