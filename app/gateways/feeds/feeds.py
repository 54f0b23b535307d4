"""Feeds: finding them by address, claiming them for a pull, scheduling, storing and moving them."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from urllib.parse import urlsplit

from app import clock, logs
from app.errors import SPACE_IN_ADDRESS, ExistsError, InvalidError, NotFoundError
from app.feeds import schedule
from app.feeds.urls import (
    has_inner_space,
    hash_url,
    is_secret,
    is_upgrade,
    normalise_address,
    strip_tracking,
)
from app.gateways.feeds.entry_writer import EntryWriter
from app.gateways.feeds.feed_merge import FeedMerger
from app.gateways.feeds.fetch_secrets import FetchSecrets
from app.gateways.feeds.websubs import WebsubGateway
from app.mappers.feeds.entries import EntryMapper
from app.mappers.feeds.feeds import FeedMapper
from app.models.feeds.feed import (
    DueFeed,
    Feed,
    FeedCard,
    FeedKind,
    FeedPoll,
    FeedUpdate,
    NextCheck,
    StoreResult,
    UnchangedPoll,
)
from app.models.feeds.fetch_log import FetchLog
from app.models.feeds.fetch_options import FetchOptions
from app.models.feeds.hosts import is_same_site
from app.models.subscriptions.read_state import ReadState

log = logs.get(__name__)

#: Precision of a feed's ``read_at``, which only shows whether anyone reads the feed at all.
TOUCH = dt.timedelta(days=1)
#: Errors that end on their own at a time that the server names; another spelling wouldn't help.
_RESTING = frozenset(("http_429", "http_503"))


def make_private_key(url: str, user_id: int) -> str:
    """Return the address key of a feed that only one user may read; no address alone has it."""
    return derive_private_key(hash_url(url), user_id)


def derive_private_key(url_key: str, user_id: int) -> str:
    """Return the address key of a user's own copy of the feed with an address key."""
    return f"{url_key}/{user_id}"


def _is_secret(card: FeedCard) -> bool:
    is_private = card.private_to is not None
    return card.owner is None and (is_private or card.unlisted or is_secret(card.url))


class FeedGateway:
    """Finds, claims, schedules and stores feeds, independent of their readers."""

    def __init__(
        self,
        feeds: FeedMapper,
        entries: EntryMapper,
        writer: EntryWriter,
        merger: FeedMerger,
        *,
        hubs: WebsubGateway | None = None,
    ) -> None:
        self._feeds = feeds
        self._entries = entries
        self._writer = writer
        self._merger = merger
        self._hubs = hubs

    def find_by_url(self, url: str) -> Feed | None:
        """Return the feed at an address, in any equivalent spelling; None: not known yet."""
        feed = self._feeds.find_by_key(hash_url(url))
        return self._followed(feed) if feed else None

    def resolve_address(self, text: str) -> str:
        """Return the address in a text that a person typed, or the equal one of a known feed.

        Raises:
            InvalidError: there is no address in the text.
        """
        tries = normalise_address(text)
        if not tries and has_inner_space(text):
            raise InvalidError(SPACE_IN_ADDRESS, field="url")
        if not tries:
            raise InvalidError("Enter an address such as https://example.org/feed.", field="url")
        return next((url for url in tries if self._feeds.find_by_key(hash_url(url))), tries[0])

    def resolve_feed_address(self, text: str) -> str:
        """Return a complete web address unchanged, or else the address that the text means.

        Raises:
            InvalidError: there is no address in the text.
        """
        try:
            parts = urlsplit(text)
            whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            whole = False
        return text if whole and text.isprintable() and " " not in text else self.resolve_address(text)

    def get_or_create(self, url: str, *, now: dt.datetime, title: str | None = None) -> Feed:
        """Return the feed at an address; a new feed is due at ``now`` once someone subscribes.

        If the feed is stored under another spelling that fails, or that is plain http, the next pull tries
        this one. All subscribers see the stored address, so it must not contain tracking parameters (W22).
        """
        key = hash_url(url)
        while (feed := self._feeds.find_by_key(key)) is None:
            try:
                return self._feeds.add(strip_tracking(url), key, title or "", now)
            except ExistsError:
                continue  # another request was faster; its feed exists now
        feed = self._followed(feed)
        self.propose_spelling(feed, url, now)
        return feed

    def get_or_create_private(self, url: str, user_id: int, title: str, now: dt.datetime) -> Feed:
        """Return the feed at an address that only this user may read; a new one is due after subscribing."""
        key = make_private_key(url, user_id)
        while (feed := self._feeds.find_by_key(key)) is None:
            try:
                return self._feeds.add_private(strip_tracking(url), key, user_id, title, now)
            except ExistsError:
                continue  # another request was faster
        return feed

    def find_own(self, url: str, user_id: int) -> Feed | None:
        """Return the feed at an address that only this user may read."""
        return self._feeds.find_by_key(make_private_key(url, user_id))

    def find_fetch_options(self, user_id: int, secrets: FetchSecrets) -> dict[int, FetchOptions]:
        """Return how a user has their own copies of feeds fetched, by feed."""
        own = self._feeds.find_private(user_id)
        return {feed.id: secrets.open(feed.sealed, user_id) for feed in own}

    def set_fetch_options(self, feed: Feed, options: FetchOptions, sealed: bytes, now: dt.datetime) -> None:
        """Store how its only reader has a feed fetched, which is due now."""
        limits = options.min_minutes, options.max_minutes
        self._feeds.set_fetch_options(feed.id, feed.private_to or 0, sealed, limits)
        self._feeds.force_due([feed.id], now)

    def get_or_create_many(self, urls: Sequence[str], *, now: dt.datetime, due: dt.datetime) -> list[Feed]:
        """Return the feeds at these addresses, in order; see :meth:`get_or_create`.

        Args:
            now: the time at which new feeds are created.
            due: when the updater fetches new feeds once someone subscribes, unless the caller had them
                fetched by then.
        """
        keys = [hash_url(url) for url in urls]
        feeds = self._feeds.find_by_keys(keys)
        for key, url in zip(keys, urls, strict=True):
            if key in feeds:
                self.propose_spelling(feeds[key], url, now)
        new = {key: strip_tracking(url) for key, url in zip(keys, urls, strict=True) if key not in feeds}
        if new:
            self._feeds.add_many(new, now, due)
            feeds |= self._feeds.find_by_keys(list(new))
        return [
            self._followed(feeds[key]) if key in feeds else self.get_or_create(url, now=now)
            for key, url in zip(keys, urls, strict=True)
        ]

    def propose_spelling(self, feed: Feed, url: str, now: dt.datetime) -> bool:
        """Let the next pull try another spelling of a feed's address; return whether it is worth trying.

        The person who first enters an address decides its spelling for all later subscribers, so a wrong one
        must not stay. But nobody may replace a spelling that works, except by https, nor https that has
        worked by http.
        """
        other = strip_tracking(url.partition("#")[0])
        if other == feed.url or hash_url(other) != feed.url_key or feed.error in _RESTING:
            return False
        if feed.kind is not FeedKind.WEB or feed.private_to is not None:
            return False
        is_failing = feed.error is not None or feed.checked_at is None
        if not (is_failing or is_upgrade(feed.url, other)):
            return False
        if is_upgrade(other, feed.url) and feed.checked_at is not None:
            return False
        if other != feed.other_url:
            self._feeds.propose_spelling(feed.id, other, now)
        return True

    def settle_spelling(self, feed_id: int, url: str, now: dt.datetime, *, accepted: bool) -> None:
        """Store the result of trying a spelling; an accepted one becomes the feed's address."""
        self._feeds.settle_spelling(feed_id, url, now, accepted=accepted)
        log.info("spelling_tried", feed_id=feed_id, accepted=accepted)

    def record_validator_test(self, feed_id: int, url: str, distrusted_at: dt.datetime | None) -> None:
        """Record when the validators of a feed's address proved wrong; None: they proved right."""
        self._feeds.record_validator_test(feed_id, url, distrusted_at)
        log.info("validators_tested", feed_id=feed_id, trusted=distrusted_at is None)

    def _followed(self, feed: Feed) -> Feed:
        """Return the feed that took over a merged feed's subscribers, or the feed itself."""
        while feed.merged_into is not None:
            feed = self.get(feed.merged_into)
        return feed

    def find_successor(self, feed_id: int) -> int | None:
        """Return the feed that took over a feed's subscribers; None: it wasn't merged, or doesn't exist."""
        feed = self._feeds.find(feed_id)
        return None if feed is None or feed.merged_into is None else self._followed(feed).id

    def get(self, feed_id: int) -> Feed:
        """Return a feed.

        Raises:
            NotFoundError: there is no such feed.
        """
        feed = self._feeds.find(feed_id)
        if feed is None:
            raise NotFoundError(feed_id=feed_id)
        return feed

    def is_secret(self, feed_id: int) -> bool:
        """Return whether a feed is only for its subscribers (W22).

        Its address is a secret, its publisher wants it in no directory (``itunes:block``), or it is one
        person's own copy.

        Raises:
            NotFoundError: there is no such feed.
        """
        card = self._feeds.find_cards([feed_id]).get(feed_id)
        if card is None:
            raise NotFoundError(feed_id=feed_id)
        return _is_secret(card)

    def find_secret(self, feed_ids: Sequence[int]) -> set[int]:
        """Return the feeds among these that are only for their subscribers; see :meth:`is_secret`."""
        return {feed_id for feed_id, card in self._feeds.find_cards(feed_ids).items() if _is_secret(card)}

    def reset_gain(self, feed_id: int) -> None:
        """Let the pages of a feed be fetched ahead again."""
        self._feeds.record_gain(feed_id, has_gain=True)

    def find_cards(self, feed_ids: Sequence[int]) -> dict[int, FeedCard]:
        """Return the data about these feeds that lists need, by id."""
        return self._feeds.find_cards(feed_ids)

    def touch(self, cards: Iterable[FeedCard], now: dt.datetime) -> None:
        """Record the day on which someone last read these feeds; unread feeds are polled less often."""
        before = now - TOUCH
        border = before.timestamp() * 1000
        if stale := [card.id for card in cards if card.read_ms <= border]:
            self._feeds.touch(stale, now, before)

    def find_due(self, now: dt.datetime, limit: int) -> list[DueFeed]:
        """Return feeds that are due, longest overdue first."""
        return self._feeds.find_due(now, limit)

    def count_due(self, now: dt.datetime, limit: int) -> int:
        """Return how many feeds are due, counted up to ``limit``."""
        return self._feeds.count_due(now, limit)

    def find_polls(self, feed_ids: Sequence[int]) -> list[FeedPoll]:
        """Return the data that polling these feeds needs, including claimed feeds."""
        return self._feeds.find_polls(feed_ids)

    def record_unchanged(self, polls: Sequence[UnchangedPoll], now: dt.datetime) -> None:
        """Record that polls at ``now`` found nothing; this needs no claim, and breaks none."""
        if polls:
            self._feeds.record_unchanged(polls, now)

    def postpone_checks(self, next_checks: Sequence[NextCheck], now: dt.datetime) -> None:
        """Postpone feeds that were not fetched; feeds that are not due yet keep an earlier time."""
        if next_checks:
            self._feeds.postpone_checks(next_checks, now)

    def correct_late_times(self, now: dt.datetime, longest: float, longest_claim: float) -> int:
        """Correct times that are too late because the clock was set back; return how many feeds changed.

        Args:
            longest, longest_claim: the most seconds between two checks, and of a claim.
        """
        longest *= 1 + schedule.JITTER
        return self._feeds.correct_late_times(
            now, dt.timedelta(seconds=longest), dt.timedelta(seconds=longest_claim)
        )

    def force_due(self, feed_ids: Sequence[int], now: dt.datetime) -> None:
        """Make feeds due now, even those that are gone."""
        if feed_ids:
            self._feeds.force_due(feed_ids, now)

    def claim(
        self,
        feed_ids: Sequence[int],
        token: str,
        now: dt.datetime,
        seconds: float,
        *,
        dead_tokens: Sequence[str] = (),
        is_held: Callable[[], bool] | None = None,
    ) -> list[Feed]:
        """Claim the feeds that no other pull holds, for the given number of seconds.

        Args:
            token: unique for this call; later writes must name it.
            dead_tokens: tokens of writers known to be dead; their claims are taken over.
            is_held: whether the writer's job is still its own, None for a writer without a job. A writer that
                has lost its job gives its claims back.

        Returns:
            The claimed feeds, reconciled if their last writer had died.
        """
        claimed = self._feeds.claim(
            feed_ids, token, now, now + dt.timedelta(seconds=seconds), dead_tokens=dead_tokens
        )
        # After the claim: a worker that takes the job over later knows its token, and takes the claim over.
        if claimed and is_held is not None and not is_held():
            log.warning("claim_refused", feed_ids=[feed.id for feed in claimed])
            self._feeds.release(token, feed_ids)
            return []
        return [self._writer.reconcile(feed, now) if feed.torn else feed for feed in claimed]

    def release(self, token: str, feed_ids: Sequence[int]) -> None:
        """Release claims without a result, as at a graceful stop."""
        self._feeds.release(token, feed_ids)

    def store_updates(self, updates: Sequence[FeedUpdate], now: dt.datetime) -> list[StoreResult]:
        """Store the results of a pull and release its claims; see :meth:`EntryWriter.store_updates`."""
        results = self._writer.store_updates(updates, now)
        if self._hubs is not None:
            new = {result.feed_id: result.new for result in results if result.stored}
            heard = [
                u.hub_announcement for u in updates if u.hub_announcement is not None and u.feed_id in new
            ]
            self._hubs.process_announcements([dataclasses.replace(h, new=new[h.feed_id]) for h in heard], now)
        return results

    def move(self, feed_id: int, url: str) -> int:
        """Set the address that a feed permanently moved to; return the id of the feed that has the address
        now.

        A polled feed at that address takes over this feed's subscribers. If the feed there isn't polled, this
        feed takes over its subscribers instead. A feed there that was merged into this one gives up the
        address. A feed that only one user may read neither merges nor leaves its host, where its login holds.
        """
        mine = self._feeds.find(feed_id)
        if mine is not None and mine.private_to is not None:
            self._move_private(mine, url)
            return feed_id
        key = hash_url(url)
        while True:
            try:
                self._feeds.move(feed_id, url, key)
            except ExistsError:
                known = self._feeds.find_by_key(key)
                other = self._followed(known) if known else None
            else:
                log.info("feed_moved", feed_id=feed_id)
                return feed_id
            if known and other and other.id != feed_id:
                mine = self.get(feed_id)
                is_polled = other.subscribers > 0 and other.next_check_at is not None
                # A late pull of a merged feed must not reverse the merge.
                goes = is_polled or mine.merged_into is not None
                source, target = (mine, other) if goes else (other, mine)
                self._merger.merge(source, target)
                log.info("feed_merged", feed_id=source.id, into=target.id)
                if goes:
                    self.propose_spelling(other, url, clock.now())
                    return other.id
            elif known:
                self._feeds.release_url_key(known.id)

    def _move_private(self, feed: Feed, url: str) -> None:
        if not is_same_site(feed.url, url):
            log.info("private_feed_stays", feed_id=feed.id)
            return
        with contextlib.suppress(ExistsError):  # the user has the other one too
            self.move_own(feed, url)

    def move_own(self, feed: Feed, url: str) -> None:
        """Give a user's own copy another address on its site.

        Raises:
            ExistsError: the user has a copy of the feed there, too.
        """
        self._feeds.move(feed.id, url, make_private_key(url, feed.private_to or 0))

    def carry_state(self, state: ReadState, source: Feed, target: Feed, upto: int) -> ReadState:
        """Return the read state in ``target`` of a user who continues with it; see
        :meth:`FeedMerger.carry_state`.
        """
        return self._merger.carry_state(state, source, target, upto)

    def find_rates(self, feed_ids: Sequence[int], now: dt.datetime) -> dict[int, float]:
        """Return how many entries per week these feeds recently had, by id."""
        found = self._feeds.find_histories(feed_ids)
        return {f: schedule.count_weekly_entries(schedule.History.from_doc(h), now) for f, h in found.items()}

    def list_headlines(self, feed: Feed, limit: int) -> tuple[str, ...]:
        """Return the headlines of a feed's last entries, the newest first."""
        if not feed.last_seq:
            return ()
        found = self._entries.find_range(feed.id, feed.last_seq - limit, feed.last_seq, limit)
        return tuple(text for e in reversed(found) if (text := e.title or e.excerpt))

    def forecast_intervals(self, feed: Feed, now: dt.datetime) -> tuple[float, ...]:
        """Return the seconds expected between a feed's entries, by hour of day (UTC)."""
        return tuple(schedule.forecast_day(schedule.History.from_doc(feed.history), now))

    def find_fetch_log(self, feed_id: int) -> FetchLog:
        """Return a feed's last fetches, with counts for the last hours and days."""
        return self._feeds.find_fetch_log(feed_id)
