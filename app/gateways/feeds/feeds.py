"""Feeds: found by address, claimed for a pull, stored, retained, moved."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from urllib.parse import urlsplit

from app import logs
from app.errors import ExistsError, InvalidError, NotFoundError
from app.feeds import schedule
from app.feeds.urls import hash_url, is_secret, normalise_address, strip_tracking
from app.gateways.feeds.entry_writer import EntryWriter
from app.gateways.feeds.feed_merge import FeedMerger
from app.gateways.feeds.websubs import WebsubGateway
from app.mappers.feeds.entries import EntryMapper
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.feeds.fetches import FetchMapper
from app.models.feeds.feed import (
    DueFeed,
    Feed,
    FeedCard,
    FeedPoll,
    FeedUpdate,
    FetchRecord,
    NextCheck,
    StoreResult,
)
from app.models.subscriptions.read_state import ReadState

log = logs.get(__name__)

#: How exact a feed's ``read_at`` is: it only tells whether anybody reads the feed at all.
TOUCH = dt.timedelta(days=1)


class FeedGateway:
    """Everything about feeds that does not depend on who reads them."""

    def __init__(
        self,
        feeds: FeedMapper,
        entries: EntryMapper,
        fetches: FetchMapper,
        writer: EntryWriter,
        merger: FeedMerger,
        *,
        hubs: WebsubGateway | None = None,
    ) -> None:
        self._feeds = feeds
        self._entries = entries
        self._fetches = fetches
        self._writer = writer
        self._merger = merger
        self._hubs = hubs

    def find_by_url(self, url: str) -> Feed | None:
        """Return the feed of an address, whatever spelling of it is stored; None: not known yet."""
        feed = self._feeds.find_by_key(hash_url(url))
        return self._followed(feed) if feed else None

    def resolve_address(self, text: str) -> str:
        """Return the address that somebody means, of a known feed if one is meant.

        Raises:
            InvalidError: there is no address in it.
        """
        tries = normalise_address(text)
        if not tries:
            raise InvalidError("Enter an address such as https://example.org/feed.", field="url")
        return next((url for url in tries if self._feeds.find_by_key(hash_url(url))), tries[0])

    def resolve_feed_address(self, text: str) -> str:
        """Return the address of a feed as it stands, where it is one of the web; else the one that is meant.

        Raises:
            InvalidError: there is no address in it.
        """
        try:
            parts = urlsplit(text)
            whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            whole = False
        return text if whole and text.isprintable() and " " not in text else self.resolve_address(text)

    def get_or_create(self, url: str, *, now: dt.datetime, title: str | None = None) -> Feed:
        """Return the feed of an address; a new one is due at ``now`` once someone subscribes.

        Its address is everybody's: it says nothing of how the first of them came to it (W22).
        """
        key = hash_url(url)
        while (feed := self._feeds.find_by_key(key)) is None:
            try:
                return self._feeds.add(strip_tracking(url), key, title or "", now)
            except ExistsError:
                continue  # somebody else was faster; his is there now
        return self._followed(feed)

    def _followed(self, feed: Feed) -> Feed:
        """Return the feed that took over this one's subscribers, if one did."""
        while feed.merged_into is not None:
            feed = self.get(feed.merged_into)
        return feed

    def find_successor(self, feed_id: int) -> int | None:
        """Return the feed that took over another one's subscribers; None: it was not merged, or never was."""
        feed = self._feeds.find(feed_id)
        return None if feed is None or feed.merged_into is None else self._followed(feed).id

    def get(self, feed_id: int) -> Feed:
        """Return a feed.

        Raises:
            NotFoundError: there is none with this id.
        """
        feed = self._feeds.find(feed_id)
        if feed is None:
            raise NotFoundError(feed_id=feed_id)
        return feed

    def is_secret(self, feed_id: int) -> bool:
        """Return whether a feed's address is a key itself (W22).

        Raises:
            NotFoundError: there is no such feed.
        """
        return is_secret(self.get(feed_id).url)

    def find_cards(self, feed_ids: Sequence[int]) -> dict[int, FeedCard]:
        """Return what lists need of these feeds, by id."""
        return self._feeds.find_cards(feed_ids)

    def touch(self, cards: Iterable[FeedCard], now: dt.datetime) -> None:
        """Note to the day that somebody read these feeds; what nobody reads is polled less."""
        before = now - TOUCH
        border = before.timestamp() * 1000
        if stale := [card.id for card in cards if card.read_ms <= border]:
            self._feeds.touch(stale, now, before)

    def find_due(self, now: dt.datetime, limit: int) -> list[DueFeed]:
        """Return feeds that should be polled now, the longest due first."""
        return self._feeds.find_due(now, limit)

    def count_due(self, now: dt.datetime, limit: int) -> int:
        """Return how many feeds should be polled now, counted up to ``most``."""
        return self._feeds.count_due(now, limit)

    def find_polls(self, feed_ids: Sequence[int]) -> list[FeedPoll]:
        """Return what polling these feeds needs, those included that somebody has claimed."""
        return self._feeds.find_polls(feed_ids)

    def record_unchanged(self, next_checks: Sequence[NextCheck], now: dt.datetime) -> None:
        """Note that polls at ``now`` brought nothing; no claim is needed for that, and none is broken."""
        if next_checks:
            self._feeds.record_unchanged(next_checks, now)

    def postpone_checks(self, next_checks: Sequence[NextCheck], now: dt.datetime) -> None:
        """Let feeds that were not asked be due later; those that are not due yet keep an earlier time."""
        if next_checks:
            self._feeds.postpone_checks(next_checks, now)

    def force_due(self, feed_ids: Sequence[int], now: dt.datetime) -> None:
        """Let feeds be due at once that somebody wants, also those that are gone."""
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
        """Claim those of these feeds that nobody is polling, for so many seconds.

        Args:
            token: unique for this call; later writes name it.
            dead: tokens of writers that are known to be dead; their claims are taken over at once.
            is_held: whether the writer's job is still its own, None for a writer without a job. A writer that
                has lost its job gives its claims back.

        Returns:
            The claimed feeds, in order again if their last writer had died.
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
        """Give claims back without a result, as at a graceful stop."""
        self._feeds.release(token, feed_ids)

    def store_updates(self, updates: Sequence[FeedUpdate], now: dt.datetime) -> list[StoreResult]:
        """Store what a pull brought and release its claims; see :meth:`EntryWriter.store_updates`."""
        results = self._writer.store_updates(updates, now)
        if self._hubs is not None:
            new = {result.feed_id: result.new for result in results if result.stored}
            heard = [
                u.hub_announcement for u in updates if u.hub_announcement is not None and u.feed_id in new
            ]
            self._hubs.process_announcements([dataclasses.replace(h, new=new[h.feed_id]) for h in heard], now)
        return results

    def move(self, feed_id: int, url: str) -> int:
        """Give a feed the address it permanently moved to; return the id of the feed that has it then.

        A feed that is known at that address already takes over the subscribers, if it is polled: else this
        one knows better what there is to read, and takes over its. One that was itself taken over by this
        feed gives the address up.
        """
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
                # A late pull of a feed that was merged before does not turn that round.
                goes = is_polled or mine.merged_into is not None
                source, target = (mine, other) if goes else (other, mine)
                self._merger.merge(source, target)
                log.info("feed_merged", feed_id=source.id, into=target.id)
                if goes:
                    return other.id
            elif known:
                self._feeds.release_url_key(known.id)

    def carry_state(self, state: ReadState, source: Feed, target: Feed, upto: int) -> ReadState:
        """Return what is read of ``target`` by who goes on with it; see :meth:`FeedMerger.carry_state`."""
        return self._merger.carry_state(state, source, target, upto)

    def find_rates(self, feed_ids: Sequence[int], now: dt.datetime) -> dict[int, float]:
        """Return how many entries a week these feeds brought of late, by id."""
        found = self._feeds.find_histories(feed_ids)
        return {f: schedule.count_weekly_entries(schedule.History.from_doc(h), now) for f, h in found.items()}

    def forecast_intervals(self, feed: Feed, now: dt.datetime) -> tuple[float, ...]:
        """Return the seconds expected between a feed's entries, by hour of day (UTC)."""
        return tuple(schedule.forecast_day(schedule.History.from_doc(feed.history), now))

    def record_fetches(self, records: Sequence[FetchRecord]) -> None:
        """Append to the fetch log."""
        self._fetches.add(records)

    def find_fetches(self, feed_id: int, limit: int = 20) -> list[FetchRecord]:
        """Return a feed's last fetches, newest first."""
        return self._fetches.find_by_feed(feed_id, limit)
