"""Our own WebSub hub: subscriptions, their verification, deliveries and dropped subscribers."""

from __future__ import annotations

import datetime as dt
import random
import secrets
from collections.abc import Callable, Iterable, Sequence
from urllib.parse import quote, unquote

from app import logs
from app.config import Settings
from app.errors import FetchError, InvalidError, NotFoundError, TooLargeError
from app.feeds.fetch.address_policy import Policy
from app.feeds.websub import hub
from app.gateways.accounts.accounts import AccountGateway
from app.gateways.sharing.profiles import ProfileGateway
from app.mappers.sharing.hubs import HubMapper
from app.models.feeds.fetched import Fetched, Purpose
from app.models.feeds.websub import Mode
from app.models.sharing.hub import Delivery, Document, HubForm, IntentVerification, PendingIntent, Subscriber
from app.models.sharing.sharing import STRANGER, Audience, Profile

log = logs.get(__name__)

#: The ends of the addresses of a stream's feeds.
FEEDS = ("/atom.xml", "/feed.json")
_CHALLENGE_BYTES = 32


class HubGateway:
    """Manages the hub's subscribers, and builds requests to them.

    Args:
        find_document: returns the public document at the address of one of our feeds; None: there is none.
        rng: draws the jitter of retries.
    """

    def __init__(
        self,
        *,
        hubs: HubMapper,
        profiles: ProfileGateway,
        accounts: AccountGateway,
        find_document: Callable[[str], Document | None],
        settings: Settings,
        rng: random.Random | None = None,
    ) -> None:
        self._hubs, self._profiles, self._accounts = hubs, profiles, accounts
        self._served, self._settings = find_document, settings
        self._policy = Policy(settings, Purpose.HUB)
        self._rng = rng or random.Random()  # noqa: S311 — spreads load, guards nothing
        #: The hub's address, which feeds link to.
        self.address = f"{settings.own_origin}/hub"

    # -- requests from subscribers

    def submit_request(self, form: HubForm, now: dt.datetime) -> int | None:
        """Store a request for verification; return the subscriber's id, or None if nothing needs verifying.

        Raises:
            InvalidError: a field is missing, too long, or an address that may not be fetched.
            NotFoundError: the topic isn't a public feed of this server.
            TooLargeError: the stream or the callback's host has the maximum number of subscriptions.
        """
        mode = self._check(form)
        known = self._hubs.find_by_callback(form.topic, form.callback)
        if mode is Mode.UNSUBSCRIBE:
            return None if known is None else self._note(known, form, mode, now)
        if known is not None and form.topic in self._current([known]):
            return self._note(known, form, mode, now)
        profile = self._owner(form.topic)
        if profile is None:
            raise NotFoundError(field=hub.TOPIC)
        if known is not None:
            # Requested when this name belonged to another user.
            self._hubs.remove([known.id])
        self._check_room(profile.feed_id, hub.get_callback_host(form.callback))
        new = Subscriber(
            id=0,
            user_id=profile.user_id,
            feed_id=profile.feed_id,
            topic=form.topic,
            callback=form.callback,
            expires=now + hub.PENDING,
        )
        return self._note(new, form, mode, now)

    def _note(self, known: Subscriber, form: HubForm, mode: Mode, now: dt.datetime) -> int:
        ask = PendingIntent(mode, hub.clamp_lease(form.lease, self._settings), form.secret, now)
        return self._hubs.set_intent(known, hub.get_callback_host(known.callback), ask)

    def _check(self, form: HubForm) -> Mode:
        settings = self._settings
        if form.mode not in (Mode.SUBSCRIBE, Mode.UNSUBSCRIBE):
            raise InvalidError(field=hub.MODE)
        if len(form.secret.encode("utf-8", "replace")) > settings.hub_secret_length:
            raise InvalidError(field=hub.SECRET)
        if not hub.is_valid_callback(form.callback, settings.hub_callback_length):
            raise InvalidError(field=hub.CALLBACK)
        try:
            self._policy.check_url(form.callback)
        except FetchError as e:
            raise InvalidError(field=hub.CALLBACK) from e
        return Mode(form.mode)

    def _check_room(self, feed_id: int, host: str) -> None:
        # Concurrent requests may exceed the limit slightly, which does no harm.
        most = self._settings.hub_stream_max, self._settings.hub_host_max
        of_feed, of_host = self._hubs.count(feed_id, host, most)
        if of_feed >= most[0] or of_host >= most[1]:
            log.warning("hub_full", feed_id=feed_id, host=host)
            raise TooLargeError(field=hub.TOPIC if of_feed >= most[0] else hub.CALLBACK)

    def _owner(self, topic: str) -> Profile | None:
        """Return the profile whose public feed a topic is, or None."""
        handle, end = self._parts(topic)
        if not end:
            return None
        try:
            profile = self._profiles.get_by_name(handle)
        except NotFoundError:
            return None
        # Only one address per feed: otherwise any spelling of the owner's name could be subscribed to.
        fits = topic == self._topic(profile, end)
        return profile if fits and profile.allows_view(Audience.PUBLIC, STRANGER) else None

    def _parts(self, topic: str) -> tuple[str, str]:
        """Return the user name and the end of a topic; both empty: it isn't a topic of ours."""
        end = next((e for e in FEEDS if topic.endswith(e)), "")
        start = self._profiles.build_page_url("")
        return (unquote(topic[len(start) : -len(end)]), end) if end and topic.startswith(start) else ("", "")

    def _topic(self, profile: Profile, end: str) -> str:
        return self._profiles.build_page_url("") + quote(profile.handle) + end

    def _current(self, known: Sequence[Subscriber]) -> dict[str, str]:
        """Return the current feed addresses for subscribers of one stream, by their topics.

        A former name leads to the stream while it is reserved for its owner; after that, its topics are left
        out. If the stream isn't public, all topics are.
        """
        profile = self._profiles.find(known[0].user_id) if known else None
        if profile is None or not profile.allows_view(Audience.PUBLIC, STRANGER):
            return {}
        parts = {topic: self._parts(topic) for topic in {each.topic for each in known}}
        led = self._accounts.filter_names_of(profile.user_id, {handle for handle, _ in parts.values()})
        return {t: self._topic(profile, end) for t, (handle, end) in parts.items() if end and handle in led}

    # -- verification

    def find_due(self, now: dt.datetime, limit: int) -> tuple[list[int], list[int]]:
        """Return at most ``limit`` subscriptions to verify, and streams with pending deliveries."""
        return self._hubs.find_due(now, limit), self._hubs.find_owed_feeds(now, limit)

    def begin_verifications(self, sub_id: int, now: dt.datetime) -> list[IntentVerification]:
        """Return the verifications of a subscription and of others that are due; empty: none."""
        due = [i for i in self._hubs.find_due(now, self._settings.hub_batch) if i != sub_id]
        return [question for i in (sub_id, *due) if (question := self._begin(i, now))]

    def _begin(self, sub_id: int, now: dt.datetime) -> IntentVerification | None:
        known = self._hubs.find(sub_id)
        if known is None or known.ask is None:
            return None
        ask = known.ask
        if not self._hubs.claim(sub_id, ask.at, now, now + hub.CLAIM):
            return None
        within = self._settings.hub_timeout
        if ask.mode is Mode.SUBSCRIBE and not self._current([known]):
            return IntentVerification(known, ask, "", hub.build_denial(known, within))
        challenge = secrets.token_urlsafe(_CHALLENGE_BYTES)
        return IntentVerification(
            known, ask, challenge, hub.build_verification(known, ask, challenge, within)
        )

    def finish_verification(
        self, verification: IntentVerification, fetched: Fetched | None, now: dt.datetime
    ) -> bool:
        """Record a callback's answer (None: no answer); return whether it confirmed the request."""
        known, ask, failures = verification.subscriber, verification.ask, verification.ask.failures + 1
        confirmed = (
            hub.is_confirmed(fetched, verification.challenge) if fetched and verification.challenge else False
        )
        if confirmed and ask.mode is Mode.UNSUBSCRIBE:
            self._hubs.remove([known.id])
        elif confirmed:
            until = now + dt.timedelta(seconds=ask.lease)
            topic = self._current([known]).get(known.topic)
            document = self._document(topic)[0] if topic else None
            heard = document.digest if document else b""
            confirmed = self._hubs.confirm(known.id, ask, heard, now, until)
        elif verification.challenge and hub.is_unavailable(fetched) and failures < self._settings.hub_asks:
            pause = hub.compute_retry_delay(failures, self._settings, self._rng)
            self._hubs.postpone_request(known.id, ask.at, now + pause, failures)
        else:
            self._hubs.refuse(known.id, ask.at)
        error = fetched.error if fetched else None
        word = error.word if error else ""
        log.info("hub_verified", id=known.id, mode=ask.mode.value, confirmed=confirmed, error=word)
        return confirmed

    # -- pushing

    def has_subscribers(self, feed_id: int) -> bool:
        """Return whether a stream has subscribers; if not, clear its mark of a change to deliver."""
        if self._hubs.has_subscribers(feed_id):
            return True
        self._hubs.clear_changed(feed_id)
        return False

    def claim_deliveries(self, feed_id: int, now: dt.datetime) -> list[Delivery]:
        """Claim the deliveries that are due now for a stream's subscribers; empty: none.

        A subscriber that already has the current document gets nothing, so that changes of non-public shares
        stay hidden.
        """
        self._hubs.mark_owed(feed_id, now)
        taken = self._hubs.claim_subscribers(feed_id, now, now + hub.CLAIM, self._settings.hub_batch)
        # Read after the claim, so that the document contains all the changes owed.
        current = self._current(taken)
        served = {topic: self._document(topic) for topic in set(current.values())}
        made: list[Delivery] = []
        rest: list[tuple[Subscriber, bytes]] = []
        within = self._settings.hub_timeout
        for each in taken:
            document, public = served.get(current.get(each.topic, ""), (None, False))
            if not public:
                made.append(Delivery(each, hub.build_denial(each, within)))
            elif document is None or document.digest == each.heard:
                rest.append((each, each.heard))
            else:
                pushed = hub.build_push(each, document, self.address, within)
                made.append(Delivery(each, pushed, document.digest))
        self._hubs.record_results(rest, {}, (), now)
        return made

    def _document(self, topic: str) -> tuple[Document | None, bool]:
        """Return the document to push (None: there is none), and whether the feed is still public."""
        document = self._served(topic)
        if document is None:
            return None, False
        if len(document.body) > self._settings.hub_push_max:
            log.warning("feed_too_long_to_push", topic=topic, bytes=len(document.body))
            return None, True
        return document, True

    def record_results(
        self, deliveries: Sequence[Delivery], answers: Iterable[Fetched], now: dt.datetime
    ) -> tuple[int, int]:
        """Record the results of deliveries; return how many arrived and how many subscriptions ended.

        A delivery without an answer failed. A 410 answer ends a subscription, as do too many failures in a
        row. For hosts that didn't answer, all callbacks of this stream are postponed, so that they delay
        others little.
        """
        by_id = {fetched.request.key: fetched for fetched in answers}
        got: list[tuple[Subscriber, bytes]] = []
        later: dict[int, tuple[int, dt.datetime]] = {}
        gone: list[int] = []
        heard, silent = set[str](), dict[str, dt.datetime]()
        for delivery in deliveries:
            known, fetched = delivery.subscriber, by_id.get(delivery.subscriber.id)
            failures, host = known.failures + 1, hub.get_callback_host(known.callback)
            if fetched is not None and not hub.is_unanswered(fetched):
                heard.add(host)
            if not delivery.digest or (fetched is not None and fetched.status == 410):
                gone.append(known.id)
            elif fetched is not None and fetched.error is None:
                got.append((known, delivery.digest))
            elif failures >= self._settings.hub_failures:
                gone.append(known.id)
            else:
                pause = hub.compute_retry_delay(failures, self._settings, self._rng)
                asked = dt.timedelta(seconds=(fetched.retry_after if fetched else None) or 0)
                later[known.id] = failures, now + max(pause, asked)
                silent[host] = max(silent.get(host, now), now + pause)
        self._hubs.record_results(got, later, gone, now)
        if hosts := silent.keys() - heard:
            feed_id = deliveries[0].subscriber.feed_id
            self._hubs.postpone_hosts(feed_id, sorted(hosts), now, max(silent[host] for host in hosts))
        return len(got), len(gone)
