"""Full texts: pages of strangers, fetched by a job and stored once for all readers."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from app import clock
from app.bootstrap.services import Services
from app.errors import PAGE_MESSAGES, FetchError, InvalidError, NotFoundError, RateLimitedError
from app.feeds.html.main_text import MAX_DEPTH, count_words, extract_main_text
from app.gateways.reading import full_texts
from app.models.accounts.actor import Actor
from app.models.feeds.fetched import Fetched, FetchRequest, Target
from app.models.reading.full_text import FullText
from app.models.reading.stream import StreamKind, StreamQuery, StreamRef
from app.services.reading.full_texts import describe_failure
from tests.support import corpus
from tests.support.reader import add_user, elsewhere, pull

URL, PAGE = "https://site.example/feed", "https://site.example/2026/one"
STORY = "".join(
    f"<p>Paragraph {n} of a long story about trees, birds and the sea, with commas.</p>" for n in range(20)
)
PAGE_BODY = (
    "<html><head><title>One</title><meta property='og:image' content='/lead.jpg'></head><body>"
    "<nav><ul><li><a href='/'>Home</a></li><li><a href='/about'>About</a></li></ul></nav>"
    f"<article><h1>One</h1>{STORY}<p><a href='/more' onclick='steal()'>More</a>, and "
    "<script>alert(1)</script><a href='javascript:alert(2)'>nothing</a>.</p></article>"
    "<footer>Copyright, terms, imprint</footer></body></html>"
).encode()


def feed(summary: str = "Trees &amp; birds.", link: str = PAGE) -> bytes:
    return (
        "<rss version='2.0'><channel><title>Site</title><link>https://site.example/</link>"
        f"<item><title>One</title><guid>1</guid><link>{link}</link><description>{summary}</description>"
        "</item></channel></rss>"
    ).encode()


class Site:
    """A site that answers with a page, or with an error."""

    def __init__(self, body: bytes = PAGE_BODY, error: str | None = None) -> None:
        self.body, self.error, self.requests = body, error, list[FetchRequest]()

    async def stream_fetches(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
        for request in requests:
            self.requests.append(request)
            error = FetchError(self.error) if self.error else None
            yield Fetched(request, 200, request.url, body=None if error else self.body, error=error)


@pytest.fixture
def ann(services: Services) -> Actor:
    return add_user(services, "ann")


def subscribe(services: Services, who: Actor, body: bytes) -> int:
    feed_id = services.subscriptions.subscribe(who, URL).subscription.feed_id
    pull(services, [feed_id], {URL: body})
    return services.reading.load_page(who, StreamQuery(StreamRef(StreamKind.FEED, feed_id))).rows[0].id


def request(services: Services, who: Actor, entry_id: int) -> FullText | None:
    return services.full_texts.request_text(who, entry_id, wait=0)


def fetch(services: Services, who: Actor, entry_id: int, site: Site, *, attempts: int = 0) -> Any:
    entry = services.reading.get_article(who, entry_id).entry
    found = list[dict[str, Any]]()
    texts: Any = services.full_texts

    def run() -> None:
        found.append(asyncio.run(texts.fetch(entry.feed_id, entry.id, site, attempts=attempts)))

    elsewhere(run)
    return found[0]["error"]


def test_page_is_fetched_once_for_all_readers_and_cleaned(services: Services, ann: Actor) -> None:
    entry_id, site, bob = subscribe(services, ann, feed()), Site(), add_user(services, "bob")
    subscribe(services, bob, feed())
    assert request(services, ann, entry_id) is None
    assert fetch(services, ann, entry_id, site) is None
    assert fetch(services, bob, entry_id, site) is None
    (sent,) = site.requests
    assert (sent.url, sent.target, sent.referred_by) == (PAGE, Target.PAGE, URL)
    for reader in (ann, bob):
        found = request(services, reader, entry_id)
        assert found is not None
        assert "Paragraph 19 of a long story" in found.html
        assert 'src="https://site.example/lead.jpg"' in found.html
        assert 'href="https://site.example/more"' in found.html
        for foreign in ("<script", "onclick", "javascript:", "About", "imprint"):
            assert foreign not in found.html
        assert describe_failure(found) is None
    # The feed's own text stays.
    entry = services.reading.get_article(ann, entry_id).entry
    assert "Trees &amp; birds." in (entry.content or entry.summary)
    assert "Paragraph" not in entry.content + entry.summary


def test_page_that_says_no_more_than_the_feed_is_not_shown(services: Services, ann: Actor) -> None:
    entry_id = subscribe(services, ann, feed(f"<![CDATA[{STORY}<p>{'And more. ' * 20}</p>]]>"))
    assert fetch(services, ann, entry_id, Site()) == "nothing_more"
    found = request(services, ann, entry_id)
    assert found is not None
    assert (found.html, describe_failure(found)) == ("", PAGE_MESSAGES["nothing_more"])


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("http_404", "gone"),
        ("http_403", "walled"),
        ("http_502", "unreachable"),
        ("timeout", "unreachable"),
        ("http_429", "busy"),
        ("too_large", "unreadable"),
    ],
)
def test_failure_has_a_reason_and_rests_for_an_hour(
    services: Services, ann: Actor, word: str, message: str
) -> None:
    entry_id, site = subscribe(services, ann, feed()), Site(error=word)
    assert fetch(services, ann, entry_id, site) == word
    found = request(services, ann, entry_id)
    assert found is not None
    assert describe_failure(found) == PAGE_MESSAGES[message]
    fetch(services, ann, entry_id, site)
    assert len(site.requests) == 1
    later = clock.now() + full_texts.RETRY
    with clock.set_source(lambda: later):
        assert request(services, ann, entry_id) is None


def test_page_that_ends_its_worker_twice_is_given_up(services: Services, ann: Actor) -> None:
    entry_id, site = subscribe(services, ann, feed()), Site()
    assert fetch(services, ann, entry_id, site, attempts=2) == "unreadable"
    assert not site.requests


def test_only_readers_of_an_entry_with_a_page_may_request_it(services: Services, ann: Actor) -> None:
    entry_id, bob = subscribe(services, ann, feed(link="magnet:?xt=1")), add_user(services, "bob")
    with pytest.raises(InvalidError):
        request(services, ann, entry_id)
    with pytest.raises(NotFoundError):
        request(services, bob, entry_id)


def test_requests_are_limited(services: Services, ann: Actor) -> None:
    texts = services.full_texts
    texts._settings = dataclasses.replace(services.settings, full_texts_per_hour=1)
    entry_id = subscribe(services, ann, feed())
    assert request(services, ann, entry_id) is None
    with pytest.raises(RateLimitedError):
        request(services, ann, entry_id)


def test_changed_entry_loses_its_full_text(services: Services, ann: Actor) -> None:
    entry_id = subscribe(services, ann, feed())
    fetch(services, ann, entry_id, Site())
    entry = services.reading.get_article(ann, entry_id).entry
    assert entry.full is not None
    pull(services, [entry.feed_id], {URL: feed("Now something else.")})
    assert services.reading.get_article(ann, entry_id).entry.full is None


def test_H03_full_text_is_cleaned_again_by_a_newer_sanitizer(
    services: Services, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry_id = subscribe(services, ann, feed())
    fetch(services, ann, entry_id, Site())
    seen: list[str] = []

    def sanitize(markup: str, base_url: str) -> str:
        seen.append(markup)
        return "<p>Cleaned again.</p>"

    monkeypatch.setattr(full_texts, "SANITIZER_VERSION", 99)
    monkeypatch.setattr(services.gateways.full_texts, "_sanitize", sanitize)
    found = request(services, ann, entry_id)
    assert found is not None
    assert found.html == "<p>Cleaned again.</p>"
    # What was published is cleaned, not what an older version made of it.
    assert "<div><article>" in seen[0]


def test_pages_of_the_corpus_become_articles() -> None:
    pages = [row.read() for row in corpus.rows("html") if row.path.startswith("html/pages/")]
    read = [page for page in pages if count_words(extract_main_text(page, "https://x.example/a").html) >= 60]
    assert len(read) >= 0.8 * len(pages)


@pytest.mark.parametrize(
    "page",
    [
        b"<div>" * (MAX_DEPTH + 9) + STORY.encode(),
        b"",
        b"\0\xff\xfe",
        b"<html><body></body></html>",
        b"<p hidden><body hidden>",
        b"<!doctype html><frameset><frame src=x></frameset>",
    ],
)
def test_odd_pages_have_no_article(page: bytes) -> None:
    assert count_words(extract_main_text(page, "https://x.example/").html) <= 1
