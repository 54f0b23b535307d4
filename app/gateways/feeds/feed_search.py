"""The search of feeds by words, and the index that it asks.

Only feeds that anyone may know are found: see :meth:`FeedSearchGateway._find_findable`. The index may be
older than a choice of a publisher or reader, so each result is checked again before it is shown.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
from collections.abc import Iterable, Mapping, Sequence

from app.feeds import schedule
from app.feeds.urls import hash_url, is_secret
from app.gateways.feeds.feeds import derive_private_key
from app.mappers.feeds.feed_words import FeedWordsMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.feeds.feed import count_shown_readers
from app.models.feeds.feed_search import (
    PACK_READERS,
    FeedWords,
    FindableFeed,
    FoundByWords,
    KnownFeed,
    PackFeed,
    build_score,
    is_public_host,
    rate_match,
    split_about,
    split_headlines,
    split_host,
    split_title,
)
from app.models.reading.tokenizer import fold_text

#: Feeds of the index that are compared with a query, and those of the best that are checked and shown.
CANDIDATES, CHECKED, SHOWN = 100, 40, 20
#: Headlines shown of each.
SHOWN_HEADLINES = 3
#: Feeds that the index reads at once, and headlines of each.
BATCH, HEADLINES = 200, 20
#: Readers who must have given a folder the same name, so that nobody's own word for a feed is found.
SAME_NAME = 3
#: Subscriptions of a feed, in each store, whose folders are read.
FOLDERS_READ = 300
#: How long the headlines and the names of folders of a feed are kept before they are read again.
HEADLINES_KEPT, FOLDERS_KEPT = dt.timedelta(hours=3), dt.timedelta(days=1)
#: From so many subscribers on, it isn't checked how many of them keep a feed private.
WELL_KNOWN = 50


class FeedSearchGateway:
    """Finds feeds by words, and keeps the index up to date.

    Args:
        min_readers: the fewest subscribers of a feed that may be found outside starter packs; 0: none may.
    """

    def __init__(
        self, words: FeedWordsMapper, subscriptions: SubscriptionMapper, *, min_readers: int
    ) -> None:
        self._words = words
        self._subscriptions = subscriptions
        self._min_readers = min_readers

    def find(
        self,
        user_id: int,
        query: Sequence[str],
        packs: Sequence[PackFeed],
        now: dt.datetime,
        *,
        admin: bool = False,
    ) -> list[FoundByWords]:
        """Return the feeds that have all words of a query, the best first.

        Args:
            query: see :func:`app.models.feeds.feed_search.parse_query`; must not be empty.
            packs: all feeds of starter packs.
            admin: whether small numbers of readers are shown.
        """
        stored = {words.feed_id: rate_match(words, query) * words.score for words in self._match(query)}
        best = sorted((i for i, rate in stored.items() if rate), key=lambda i: (-stored[i], i))[:CHECKED]
        packed = {feed.url_key: feed for feed in packs if rate_match(feed.words, query)}
        known = self._words.find_open_feeds(best, list(packed)) if best or packed else {}
        findable = self._find_findable(known)
        rates: dict[str, float] = {}
        for key, feed in packed.items():
            rates[key] = rate_match(feed.words, query) * self._score_packed(known.get(key), now)
        for key in findable:
            rates[key] = max(rates.get(key, 0.0), stored.get(known[key].id, 0.0))
        shown = sorted((k for k, rate in rates.items() if rate), key=lambda k: (-rates[k], k))[:SHOWN]
        ids = [known[key].id for key in shown if key in known]
        mine = {s.feed_id for s in self._subscriptions.find_by_user(user_id, ids)} if ids else set()
        found = [
            self._describe(known.get(key), packed.get(key), mine, now, findable=key in findable, admin=admin)
            for key in shown
        ]
        last_seqs = {feed.id: feed.last_seq for feed in known.values()}
        open_ids = [one.feed_id for one in found if one.feed_id is not None]
        lines = self._words.find_headlines({i: last_seqs[i] for i in open_ids}, SHOWN_HEADLINES)
        return [dataclasses.replace(one, headlines=tuple(lines.get(one.feed_id or 0, ()))) for one in found]

    def find_known(self, user_id: int, urls: Iterable[str], now: dt.datetime) -> dict[str, KnownFeed]:
        """Return what a person may know about those of these feeds that this server has, by address."""
        keys = {url: hash_url(url) for url in urls}
        own = {key: derive_private_key(key, user_id) for key in keys.values()}
        feeds = self._words.find_feeds([*own, *own.values()]) if keys else {}
        if not feeds:
            return {}
        ids = {i for feed in feeds.values() for i in (feed.id, feed.merged_into) if i is not None}
        mine = {s.feed_id for s in self._subscriptions.find_by_user(user_id, sorted(ids))}
        findable = self._find_findable({key: feed for key, feed in feeds.items() if feed.is_open})
        found: dict[str, KnownFeed] = {}
        for url, key in keys.items():
            copies = [feed for feed in (feeds.get(own[key]), feeds.get(key)) if feed is not None]
            if copies:
                ours = [feed for feed in copies if mine & {feed.id, feed.merged_into}]
                alive = [feed for feed in ours if feed.merged_into is None]
                shown = [*alive, *(feed for feed in copies if feed.url_key in findable)]
                icon = next((feed.icon for feed in copies if feed.icon), None)
                rate = _count_weekly(shown[0], now) if shown else None
                found[url] = KnownFeed(icon, bool(ours), rate)
        return found

    def _match(self, query: Sequence[str]) -> list[FeedWords]:
        if not self._min_readers:
            return []
        # Many feeds of better score may have a word that only begins like a whole one.
        whole = self._words.find_whole(query, CANDIDATES)
        found = {words.feed_id: words for words in (*self._words.find_best(query, CANDIDATES), *whole)}
        if sum(rate_match(words, query) > 0 for words in found.values()) < SHOWN:
            found |= {words.feed_id: words for words in self._words.find_longer(query, CANDIDATES)}
        return list(found.values())

    def _find_findable(self, feeds: Mapping[str, FindableFeed]) -> set[str]:
        """Return the address keys of those of these feeds that anyone may find.

        Their addresses mean the same for everyone and have no key in them, and enough readers subscribe who
        don't keep them private.
        """
        fewest = self._min_readers
        if not fewest:
            return set()
        may_be = [f for f in feeds.values() if f.readers >= fewest and may_be_found(f.url)]
        few = [feed.id for feed in may_be if feed.readers < WELL_KNOWN]
        readers = self._words.find_open_readers(few)
        return {f.url_key for f in may_be if f.readers >= WELL_KNOWN or len(readers.get(f.id, ())) >= fewest}

    @staticmethod
    def _score_packed(feed: FindableFeed | None, now: dt.datetime) -> float:
        if feed is None or not feed.readers:
            return build_score(PACK_READERS, now, now, is_failing=False)
        readers = feed.readers + PACK_READERS
        newest = feed.newest if feed.changed_at else now
        return build_score(readers, newest, now, is_failing=feed.is_failing)

    @staticmethod
    def _describe(
        feed: FindableFeed | None,
        pack: PackFeed | None,
        mine: set[int],
        now: dt.datetime,
        *,
        findable: bool,
        admin: bool,
    ) -> FoundByWords:
        """Return a found feed; one only known from a pack, without the facts that its readers know."""
        packs, about = (pack.packs, pack.about) if pack else ((), "")
        if feed is None:
            assert pack is not None  # noqa: S101 — each result is of the index or of a pack
            return FoundByWords(pack.url, pack.title, pack.site_url, about, packs=packs)
        if pack is not None and not (findable or feed.id in mine):
            return FoundByWords(pack.url, pack.title, pack.site_url, about, packs=packs, icon=feed.icon)
        return FoundByWords(
            url=feed.url,
            title=(pack.title if pack else "") or feed.title or feed.url,
            site_url=feed.site_url,
            about=about or feed.about,
            packs=packs,
            feed_id=feed.id,
            readers=count_shown_readers(feed.readers, admin=admin),
            mine=feed.id in mine,
            icon=feed.icon,
            per_week=_count_weekly(feed, now),
        )

    def index_next(self, after: int, now: dt.datetime) -> int | None:
        """Index the next feeds, by ascending id, and remove those that may not be found anymore.

        Safe to repeat. Returns where to continue; None: there are no more feeds.
        """
        feeds, last = self._words.find_next_feeds(after, max(self._min_readers, 1), BATCH)
        open_feeds = [f for f in feeds if self._min_readers and may_be_found(f.url)]
        old = self._words.find_by_feeds(open_feeds[0].id, open_feeds[-1].id) if open_feeds else {}
        new = [self._collect(feed, old.get(feed.id), now) for feed in open_feeds]
        self._words.store_words([words for words in new if words != old.get(words.feed_id)])
        self._words.remove_others(after, last, {feed.id for feed in open_feeds})
        return last

    def _collect(self, feed: FindableFeed, old: FeedWords | None, now: dt.datetime) -> FeedWords:
        words = FeedWords(
            feed_id=feed.id,
            title=split_title(feed.title),
            host=split_host(feed.url, feed.site_url),
            folders=old.folders if old else (),
            about=split_about(feed.about),
            headlines=old.headlines if old else (),
            score=round(build_score(feed.readers, feed.newest, now, is_failing=feed.is_failing), 3),
            headlines_at=old.headlines_at if old else None,
            folders_at=old.folders_at if old else None,
        )
        has_news = feed.changed_at is not None and (
            words.headlines_at is None
            or (feed.changed_at > words.headlines_at and now - words.headlines_at > HEADLINES_KEPT)
        )
        if has_news:
            titles = self._words.find_titles(feed.id, HEADLINES)
            words = dataclasses.replace(words, headlines=split_headlines(titles), headlines_at=now)
        if words.folders_at is None or now - words.folders_at > FOLDERS_KEPT:
            words = dataclasses.replace(words, folders=self._find_folders(feed.id), folders_at=now)
        return words

    def _find_folders(self, feed_id: int) -> tuple[str, ...]:
        """Return the words of the names that enough readers have given to folders with a feed."""
        people: dict[str, set[int]] = {}
        for name, users in self._words.find_folder_names(feed_id, FOLDERS_READ).items():
            people.setdefault(fold_text(name).strip(), set()).update(users)
        common = [name for name, users in people.items() if len(users) >= SAME_NAME]
        ranked = sorted(common, key=lambda name: (-len(people[name]), name))
        return tuple(dict.fromkeys(itertools.chain.from_iterable(map(split_title, ranked))))


def _count_weekly(feed: FindableFeed, now: dt.datetime) -> float | None:
    """Return the recent entries a week; None: the feed was never read."""
    if feed.changed_at is None:
        return None
    return schedule.count_weekly_entries(schedule.History.from_doc(feed.history), now)


def may_be_found(url: str) -> bool:
    """Return whether an address has no key in it and means the same for everyone."""
    return is_public_host(url) and not is_secret(url)
