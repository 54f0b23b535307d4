"""Full texts: the article on an entry's page, found, cleaned and stored once for all readers."""

from __future__ import annotations

import dataclasses
import datetime as dt
import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from app import clock
from app.feeds.html.main_text import count_words, drop_heading, extract_main_text
from app.feeds.html.sanitize import SANITIZER_VERSION
from app.gateways.feeds import entry_bodies
from app.gateways.reading.saved_pages import SavedPageGateway
from app.mappers.feeds.entries import EntryMapper
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.mongo.store import Session, Store
from app.mappers.reading.text_rules import TextRuleMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.feeds.fetched import Fetched
from app.models.feeds.hosts import parse_host
from app.models.reading.entry import Entry, EntryKey
from app.models.reading.full_text import (
    GAIN,
    MIN_WORDS,
    NOTHING_MORE,
    UNREADABLE,
    FullText,
    is_only_ahead,
    is_worthwhile,
)
from app.models.reading.text_rules import list_hosts
from app.models.sharing.sharing import Origin
from app.models.subscriptions.subscription import Subscription
from app.models.subscriptions.text_choice import is_always_full

#: Time until a page is fetched again after a failure.
RETRY: Final = dt.timedelta(hours=1)
#: Pages in a row with hardly more text than their feed, after which no more are fetched ahead.
MISSES: Final = 3

#: How the addresses of pages begin that can be fetched.
_PAGES = ("https://", "http://")


class FullTextGateway:
    """Finds the address of an entry's page, and stores its text."""

    def __init__(
        self,
        *,
        entries: EntryMapper,
        feeds: FeedMapper,
        subscriptions: SubscriptionMapper,
        sanitize: entry_bodies.Sanitize,
        saved: SavedPageGateway,
        store: Store,
        rules: TextRuleMapper,
    ) -> None:
        self._entries, self._feeds, self._sanitize = entries, feeds, sanitize
        self._saved, self._store, self._rules = saved, store, rules
        self._subscriptions = subscriptions

    def find_page(self, entry: Entry) -> str | None:
        """Return the address of an entry's page; None: there is none that can be fetched."""
        url = entry.url or ""
        return url if url.startswith(_PAGES) else None

    def is_due(self, entry: Entry, now: dt.datetime) -> bool:
        """Return whether an entry's page has to be fetched: it wasn't, or it failed some time ago."""
        if entry.full is None or is_only_ahead(entry.full.error):
            return True
        return bool(entry.full.error) and entry.full.at <= now - RETRY

    def find_wanted(self, feed_ids: Sequence[int]) -> set[int]:
        """Return the feeds among these whose full texts someone reads, and whose pages gain something."""
        wanted = self._subscriptions.find_full_text_feeds(feed_ids)
        return wanted - self._feeds.find_without_gain(list(wanted), MISSES) if wanted else wanted

    def has_gain(self, feed_id: int) -> bool:
        """Return whether the last pages of a feed said more than the feed."""
        return not self._feeds.find_without_gain([feed_id], MISSES)

    def find_new_pages(self, new: Mapping[int, int], limit: int) -> list[tuple[int, int]]:
        """Return (feed, entry) of new entries whose pages are fetched ahead, newest first.

        Args:
            new: feed → its number of new entries.
            limit: most entries of one feed.
        """
        return [
            (feed_id, entry_id)
            for feed_id in sorted(self.find_wanted(list(new)))
            for entry_id in self._entries.find_without_full(feed_id, min(new[feed_id], limit))
        ]

    def find_pages_without_text(self, keys: Sequence[EntryKey]) -> list[tuple[int, int]]:
        """Return (feed, entry) of those whose pages are worth a request, in order; of shares, their roots."""
        origins = self._entries.find_origins(keys)
        roots = [origins.get(key.id) or Origin(key.id, key.feed_id) for key in keys]
        pages = [(root.feed_id, root.entry_id) for root in roots]
        feed_ids = list({feed for feed, _ in pages})
        bare = self._entries.find_unfetched([entry for _, entry in pages], feed_ids)
        useless = self._feeds.find_without_gain(feed_ids, MISSES) if bare else set()
        return [
            (feed, entry)
            for feed, entry in dict.fromkeys(pages)
            if entry in bare and bare[entry][1].startswith(_PAGES) and feed not in useless
        ]

    def find(self, feed_id: int, entry_id: int) -> Entry | None:
        """Return an entry as stored."""
        return self._entries.find(entry_id, [feed_id])

    def get_feed_url(self, feed_id: int) -> str | None:
        """Return the address of a feed, which named the page; None: it is gone, or the page was saved."""
        card = self._feeds.find_cards([feed_id]).get(feed_id)
        return card.url if card and not card.saved else None

    def store_failure(self, entry: Entry, error: str, now: dt.datetime) -> FullText:
        """Store why an entry's page has no text for readers."""
        full = FullText(now, error=error)
        self._entries.store_full(entry, full)
        return full

    def store_page(self, entry: Entry, page: Fetched) -> FullText:
        """Find, clean and store the article on an entry's page.

        It takes up to a few seconds of CPU time, so the text gets the time after that: the search index looks
        for texts since the feed's last news.
        """
        found = extract_main_text(
            page.body or b"",
            page.url,
            page.content_type,
            title=entry.title,
            rule=self._rules.find_by_hosts(list_hosts(parse_host(page.url))),
        )
        is_saved = self._saved.is_saved(entry.feed_id)
        if is_saved:
            found = found._replace(html=drop_heading(found.html, found.title))
        lead = f'<p><img src="{html.escape(found.picture)}" alt=""></p>' if found.picture else ""
        body = entry_bodies.clean_body(lead + found.html if found.html else "", "", page.url, self._sanitize)
        if is_saved:
            if not body.content:
                return self._saved.store_failure(entry, UNREADABLE, page.url, found.title, clock.now())
            words, own_words = count_words(body.content), count_words(entry.content)
            if entry.brought and not is_worthwhile(words, own_words):
                # A page that is gone often answers with a notice, which isn't worth the text of an archive.
                return self._saved.store_failure(entry, NOTHING_MORE, page.url, found.title, clock.now())
            return self._saved.store_text(entry, found.title, body, found.picture, clock.now())
        words, feed_words = count_words(body.content), count_words(entry.content or entry.summary)
        self._feeds.record_gain(entry.feed_id, has_gain=words >= max(MIN_WORDS, GAIN * feed_words))
        if not is_worthwhile(words, feed_words):
            return self.store_failure(entry, NOTHING_MORE, clock.now())
        excerpt = body.excerpt if len(entry.excerpt) < len(body.excerpt) else ""

        def write_text(session: Session) -> FullText:
            full = FullText(clock.now(), body.content, body.raw, SANITIZER_VERSION)  # anew for each attempt
            if self._entries.store_full(entry, full, excerpt=excerpt, session=session):
                self._feeds.mark_texts(entry.feed_id, full.at, session)
            return full

        return self._store.run_in_transaction(write_text)

    def find_always(
        self, user_id: int, entries: Iterable[Entry], subscriptions: Mapping[int, Subscription]
    ) -> dict[int, str]:
        """Return the HTML that a reader gets instead of the feeds' texts, by entry id.

        These are the full texts of pages that say more than their feed, if the reader's subscription asks for
        full texts. They are for this reader alone: what others see of a list or a share has the feeds' texts.

        Args:
            entries: with their bodies.
            subscriptions: those of the reader that were just read, by feed. Of shares with a full text, those
                to the feeds of the shared entries are read here, all at once.
        """
        stored = [e for e in entries if e.full and e.full.html and not e.lost]
        missing = {e.source_id for e in stored if e.of} - subscriptions.keys()
        if missing:
            found = self._subscriptions.find_by_user(user_id, sorted(missing))
            subscriptions = {**subscriptions, **{one.feed_id: one for one in found}}
        wanted = [entry for entry in stored if is_always_full(entry, subscriptions)]
        return {entry.id: full.html for entry in wanted if (full := self.clean(entry)) and full.html}

    def clean(self, entry: Entry) -> FullText | None:
        """Return the text of an entry's page, cleaned again after a change of the sanitizer (H03).

        That of a share is stored with the shared entry.
        """
        full = entry.full
        if full is None or not full.html or full.cleaned_by == SANITIZER_VERSION:
            return full
        stored = entry_bodies.Body(full.html, "", "", full.raw, full.cleaned_by)
        body = entry_bodies.reclean_body(stored, self._sanitize)
        fresh = FullText(full.at, body.content, body.raw, body.cleaned_by, title=full.title)
        of = entry.of or Origin(entry.id, entry.feed_id)
        self._entries.store_full(dataclasses.replace(entry, id=of.entry_id, feed_id=of.feed_id), fresh)
        return fresh
