"""WebSub hubs of feeds: subscriptions, their verification, and how far pushes are trusted."""

from __future__ import annotations

import datetime as dt
import random
import secrets
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlsplit

from app import logs
from app.config import Settings
from app.errors import NotFoundError
from app.feeds.websub import subscriber
from app.mappers.feeds.websubs import WebsubMapper
from app.models.feeds.fetched import Fetched, FetchRequest
from app.models.feeds.websub import (
    HubAnnouncement,
    HubRequest,
    HubState,
    HubSubscription,
    Intent,
    Mode,
    PushPullOutcome,
    PushResult,
    PushSource,
)

log = logs.get(__name__)

#: A pull for a push that never ended, because its worker died, is due again after this time.
PULL_LEASE = dt.timedelta(minutes=3)


class WebsubGateway:
    """Manages subscriptions at hubs, and accepts their pushes.

    Args:
        rng: draws the jitter of renewals.
    """

    def __init__(self, websubs: WebsubMapper, settings: Settings, rng: random.Random | None = None) -> None:
        self._websubs = websubs
        self._callbacks = f"{settings.own_origin}/websub/"
        self._interval = dt.timedelta(seconds=settings.websub_interval)
        self._poll_soon = dt.timedelta(seconds=settings.poll_min)
        self._rng = rng or random.Random()  # noqa: S311 — spreads load, guards nothing

    # -- announcements found by pulls

    def process_announcements(self, announcements: Sequence[HubAnnouncement], now: dt.datetime) -> None:
        """Process a pull's findings: new, changed and removed hubs, and entries with or without a push."""
        known = self._websubs.find_current([h.feed_id for h in announcements])
        for each in announcements:
            subscription = known.get(each.feed_id)
            if subscription is None:
                self._want(each, now)
            elif (each.hub, each.topic) != (subscription.hub, subscription.topic):
                self._change(subscription, each, now)
            elif each.new and subscription.state is HubState.ACTIVE:
                self._judge(subscription, now)

    def _want(self, announcement: HubAnnouncement, now: dt.datetime) -> None:
        if (
            announcement.hub is None
            or announcement.topic is None
            or not self._websubs.count_readers(announcement.feed_id)
        ):
            return
        token, secret = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        if self._websubs.add(
            announcement.feed_id, announcement.hub, announcement.topic, token=token, secret=secret, now=now
        ):
            log.info("hub_found", feed_id=announcement.feed_id, host=_host(announcement.hub))

    def _change(self, old: HubSubscription, announcement: HubAnnouncement, now: dt.datetime) -> None:
        if announcement.hub is not None and now < old.created + subscriber.CHANGE_REST:
            return
        self.leave_hub(old.feed_id, now)
        self._want(announcement, now)

    def _judge(self, subscription: HubSubscription, now: dt.datetime) -> None:
        """Record whether a push had announced the entries that a pull just found."""
        if subscription.pull_at is None:
            self._websubs.record_miss(subscription.id, now)
            if self._websubs.distrust_pushes(subscription.feed_id, now + self._poll_soon):
                log.info("push_missed", feed_id=subscription.feed_id, host=_host(subscription.hub))
            return
        after = self._websubs.count_proof(subscription.id)
        if after is not None:
            self._trust(after, now)

    def _trust(self, subscription: HubSubscription, now: dt.datetime) -> None:
        if subscription.lease_until is not None and subscriber.is_proven(subscription, now):
            self._websubs.trust_pushes(subscription.feed_id, subscription.lease_until)

    def leave_hub(self, feed_id: int, now: dt.datetime) -> None:
        """End a feed's hub subscription, if any; the next :meth:`begin_request` tells the hub."""
        if self._websubs.mark_leaving(feed_id, now):
            self._websubs.distrust_pushes(feed_id, now + self._poll_soon)
            log.info("hub_left", feed_id=feed_id)

    def leave_if_unsubscribed(self, feed_id: int, now: dt.datetime) -> None:
        """End a feed's hub subscription if nobody reads the feed anymore."""
        if not self._websubs.count_readers(feed_id):
            self.leave_hub(feed_id, now)

    def leave_unsubscribed(self, feed_ids: Sequence[int], now: dt.datetime) -> None:
        """End the hub subscriptions of those feeds that nobody reads anymore."""
        for feed_id in self._websubs.find_current(feed_ids):
            self.leave_if_unsubscribed(feed_id, now)

    # -- requests to hubs

    def find_due(self, now: dt.datetime, limit: int) -> tuple[list[int], list[int]]:
        """Return at most ``limit`` subscriptions that need a request, and feeds to pull for a push."""
        return self._websubs.find_due(now, limit), self._websubs.find_due_pulls(now, limit)

    def begin_request(self, sub_id: int, now: dt.datetime) -> HubRequest | None:
        """Prepare the request that a subscription needs; return None if it needs none."""
        subscription = self._websubs.find(sub_id)
        if subscription is None or subscription.tend_at is None or subscription.tend_at > now:
            return None
        if subscription.lease_until is not None and subscription.lease_until <= now:
            self._lapse(subscription, now)
        if subscription.state is not HubState.LEAVING:
            self.leave_if_unsubscribed(subscription.feed_id, now)
            subscription = self._websubs.find(sub_id) or subscription
        mode = subscriber.choose_next_mode(subscription, now)
        feed = self._websubs.find_feed_url(subscription.feed_id)
        if mode is None or feed is None:
            self._websubs.remove(sub_id)
            return None
        failures = subscription.failures + subscriber.is_unanswered(subscription)
        self._websubs.record_request(sub_id, mode, now, now + subscriber.RETRY_FIRST, failures)
        form = subscriber.build_form(subscription, mode, self._callbacks + subscription.token)
        # The feed named the hub, so a private address is refused unless it's the feed's own host.
        request = FetchRequest(subscription.hub, key=sub_id, referred_by=feed, form=form)
        return HubRequest(sub_id, mode, now, failures, subscription.lease_until, request)

    def _lapse(self, subscription: HubSubscription, now: dt.datetime) -> None:
        self._websubs.mark_lapsed(subscription.id)
        self._websubs.distrust_pushes(subscription.feed_id, now + self._poll_soon)
        log.info("hub_lease_over", feed_id=subscription.feed_id, host=_host(subscription.hub))

    def end_request(self, request: HubRequest, fetched: Fetched, now: dt.datetime) -> None:
        """Record the result of a request; keep what the hub has confirmed meanwhile."""
        failures = request.failures + (fetched.error is not None)
        pause = subscriber.compute_retry_delay(failures, self._rng) if failures else subscriber.CONFIRM_SOON
        if fetched.error is None:
            pause = max(pause, subscriber.CONFIRM_SOON)
        pause = max(pause, dt.timedelta(seconds=fetched.retry_after or 0))
        tend_at = now + pause
        if request.lease_until is not None and now < request.lease_until < tend_at:
            tend_at = request.lease_until  # polling must resume when the lease ends
        word = fetched.error.word if fetched.error else ""
        self._websubs.record_request_result(request.id, request.at, tend_at, failures, word)
        log.info(
            "hub_asked",
            id=request.id,
            mode=request.mode.value,
            status=fetched.status,
            error=word,
            failures=failures,
        )

    # -- requests from hubs

    def answer_hub(self, token: str, intent: Intent, now: dt.datetime) -> str:
        """Process a hub's verification or denial at a callback; return the body of the answer.

        Raises:
            NotFoundError: there is no such callback, or we made no such request.
        """
        subscription = self._websubs.find_by_token(token)
        if subscription is None:
            raise NotFoundError
        if subscriber.is_denial(subscription, intent):
            self._deny(subscription, intent.reason, now)
            return ""
        confirmed = subscriber.confirm(subscription, intent, now)
        if confirmed is None:
            log.warning("hub_intent_refused", id=subscription.id, feed_id=subscription.feed_id)
            raise NotFoundError
        if confirmed.mode is Mode.UNSUBSCRIBE:
            self._websubs.mark_ended(subscription.id, now)
        else:
            self._activate(subscription, confirmed.lease, now)
        log.info("hub_confirmed", id=subscription.id, mode=confirmed.mode.value)
        return intent.challenge

    def _activate(self, subscription: HubSubscription, lease: dt.timedelta, now: dt.datetime) -> None:
        renew_at = now + subscriber.compute_renewal_delay(lease, self._rng)
        after = self._websubs.mark_verified(subscription.id, now, now + lease, renew_at)
        if after is None:
            raise NotFoundError
        self._trust(after, now)

    def _deny(self, subscription: HubSubscription, reason: str, now: dt.datetime) -> None:
        said = "".join(c for c in reason[: subscriber.MAX_REASON] if c.isprintable())
        self._websubs.mark_denied(subscription.id, now + subscriber.RETRY_MOST, said)
        self._websubs.distrust_pushes(subscription.feed_id, now + self._poll_soon)
        log.info("hub_denied", id=subscription.id, feed_id=subscription.feed_id, reason=said)

    # -- pushes

    def get_receiver(self, token: str) -> HubSubscription:
        """Return the subscription of a callback that accepts pushes.

        Raises:
            NotFoundError: there is no such callback, or its feed isn't subscribed anymore.
        """
        subscription = self._websubs.find_by_token(token)
        if subscription is None or subscription.state is HubState.LEAVING:
            raise NotFoundError
        return subscription

    def accept_push(
        self, token: str, signature: str, read_body: Callable[[], bytes], now: dt.datetime
    ) -> PushResult:
        """Check a push and plan the feed's pull; ignore and count pushes with a wrong signature (§7.1).

        Raises:
            NotFoundError: there is no such callback, or its feed isn't subscribed anymore.
        """
        subscription = self.get_receiver(token)
        if not subscriber.is_signed(signature, subscription.secret, read_body()):
            self._websubs.count_forged_push(subscription.id)
            log.warning("push_forged", id=subscription.id, feed_id=subscription.feed_id)
            return PushResult(None)
        after = self._websubs.record_push(subscription.id, now, self._interval, subscriber.LATE)
        if after is None:
            raise NotFoundError
        self._trust(after, now)
        ready = after.pull_at is not None and after.pull_at <= now
        return PushResult(after.feed_id if ready else None)

    def begin_pull(self, feed_id: int, now: dt.datetime, *, last: bool = False) -> HubSubscription | None:
        """Begin the pull that pushes wait for; None: no pull is due. ``last``: don't retry the pull.

        A feed that crashes workers rests, even if it is pushed.
        """
        rests = not last and self._websubs.is_crashing(feed_id, now)
        begun = self._websubs.begin_pull(feed_id, now, None if last or rests else now + PULL_LEASE)
        return None if rests else begun

    def end_pull(self, begun: HubSubscription, outcome: PushPullOutcome, now: dt.datetime) -> None:
        """Record the end of a pull for pushes, and plan the next one."""
        began = begun.pulled_at or now
        after_push = max(now, began + self._interval)
        looks = begun.looks + 1
        pause = subscriber.compute_recheck_delay(looks, outcome, self._interval)
        again = None if pause is None else now + pause
        self._websubs.end_pull(begun.id, began, after_push, again, looks)

    # -- for users

    def find_push_source(
        self, feed_id: int, until: dt.datetime | None, now: dt.datetime
    ) -> PushSource | None:
        """Return the hub that pushes a feed, while its pushes are trusted (``until``), or None."""
        if until is None or until <= now:
            return None
        subscription = self._websubs.find_current([feed_id]).get(feed_id)
        if subscription is None or subscription.since is None:
            return None
        return PushSource(_host(subscription.hub), subscription.since)


def parse_intent(parameters: Mapping[str, str]) -> Intent:
    """Return the intent in a hub's query; missing and malformed values are refused later."""
    lease = parameters.get("hub.lease_seconds", "")
    return Intent(
        parameters.get("hub.mode", ""),
        parameters.get("hub.topic", ""),
        parameters.get("hub.challenge", ""),
        int(lease) if lease.isascii() and lease.isdigit() and len(lease) <= 12 else None,
        parameters.get("hub.reason", ""),
    )


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""
