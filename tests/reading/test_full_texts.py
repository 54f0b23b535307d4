"""Full texts: pages of strangers, fetched by a job and stored once for all readers."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import re
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from typing import Any

import pytest

from app import clock
from app.bootstrap.services import Services
from app.errors import (
    PAGE_MESSAGES,
    FetchError,
    InvalidError,
    LaterError,
    NotFoundError,
    RateLimitedError,
)
from app.feeds.html.main_text import MAX_DEPTH, count_words, drop_heading, extract_main_text
from app.feeds.html.text import flatten_html
from app.gateways.reading import full_texts
from app.models.accounts.actor import Actor
from app.models.feeds.fetched import Fetched, FetchRequest, Target
from app.models.jobs.jobs import Job, Queue
from app.models.reading.full_text import FullText
from app.models.reading.stream import StreamKind, StreamQuery, StreamRef
from app.services.reading.full_texts import AHEAD_PAUSE, WAITS_MAX, describe_failure
from tests.support import corpus
from tests.support.reader import Canned, add_user, elsewhere, pull

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

_HEADING = re.compile(r"<h[123][^>]*>(.*?)</h[123]>", re.DOTALL)


def feed(summary: str = "Trees &amp; birds.", link: str = PAGE, number: int = 1) -> bytes:
    link += "" if number == 1 else f"/{number}"
    return (
        "<rss version='2.0'><channel><title>Site</title><link>https://site.example/</link>"
        f"<item><title>Story {number}</title><guid>{number}</guid><link>{link}</link>"
        f"<description>{summary}</description></item></channel></rss>"
    ).encode()


class Site:
    """A site that answers with a page, or with an error."""

    def __init__(
        self,
        body: bytes = PAGE_BODY,
        error: str | None = None,
        *,
        robots: str | None = None,
        headers: dict[str, str] | None = None,
        url: str = "",
    ) -> None:
        self.body, self.error, self.requests = body, error, list[FetchRequest]()
        self.robots, self.headers, self.url = robots, headers or {}, url

    async def stream_fetches(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
        for request in requests:
            self.requests.append(request)
            yield self._answer(request)

    def _answer(self, request: FetchRequest) -> Fetched:
        if request.url.endswith("/robots.txt"):
            if self.robots is None:
                return Fetched(request, 404, request.url, error=FetchError("http_404"))
            if self.robots.startswith("http_"):
                return Fetched(request, int(self.robots[5:]), request.url, error=FetchError(self.robots))
            return Fetched(request, 200, request.url, body=self.robots.encode())
        error = FetchError(self.error) if self.error else None
        body = None if error else self.body
        return Fetched(request, 200, self.url or request.url, body=body, error=error, headers=self.headers)


@pytest.fixture
def ann(services: Services) -> Actor:
    return add_user(services, "ann")


def subscribe(services: Services, who: Actor, body: bytes) -> int:
    feed_id = services.subscriptions.subscribe(who, URL).subscription.feed_id
    pull(services, [feed_id], {URL: body})
    page = services.reading.load_page(who, StreamQuery(StreamRef(StreamKind.FEED, feed_id)))
    return max(row.id for row in page.rows)


def request(services: Services, who: Actor, entry_id: int) -> FullText | None:
    return services.full_texts.request_text(who, entry_id, wait=0)


def fetch(
    services: Services, who: Actor, entry_id: int, site: Site, *, ahead: bool = False, **counts: int
) -> Any:
    entry = services.reading.get_article(who, entry_id).entry
    found = list[dict[str, Any]]()
    texts: Any = services.full_texts

    def run() -> None:
        fetching = texts.fetch(entry.feed_id, entry.id, site, ahead=ahead, **counts)
        found.append(asyncio.run(fetching))

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
    ("page", "title"),
    [
        ("diy-expeditions.com-88a4bf", "Expeditionen in Übersee"),
        ("newsday.co.tt-bb404d", "Forex motion defeated in Senate"),
        ("newsday.co.tt-bb404d", "Forex Motion Defeated in Senate – Newsday"),
        ("thw.de-3e5040", "Frauen im THW: Vergangenheit, Gegenwart …"),
        ("shingon-reiki.de-e06005", "Reiki und Schamanismus"),
    ],
)
def test_a_text_does_not_repeat_the_title_above_it(page: str, title: str) -> None:
    (row,) = (row for row in corpus.rows("html") if page in row.path)
    whole = extract_main_text(row.read(), "https://x.example/a").html
    text = extract_main_text(row.read(), "https://x.example/a", title=title).html
    headings, left = ([flatten_html(h) for h in _HEADING.findall(markup)] for markup in (whole, text))
    assert headings[0] not in left
    assert left == headings[1:]
    assert count_words(whole) - count_words(text) == len(headings[0].split())


@pytest.mark.parametrize(
    ("markup", "title", "rest"),
    [
        ("<h2>News</h2><h1>A title</h1><p>Text</p>", "A title", "<h2>News</h2><p>Text</p>"),
        ("<h1><a href='/a'>A  TITLE!</a></h1>tail<p>Text</p>", "a title", "tail<p>Text</p>"),
        ("<h1>A title</h1><p>A title</p>", "A title", "<p>A title</p>"),
        ("<h1>A title of four words and more</h1>", "A title of four", ""),
        ("<h1>A title</h1>", "A title that is longer", "<h1>A title</h1>"),
        ("<h1>A title<img src='/x'></h1>", "A title", "<h1>A title<img src='/x'></h1>"),
        ("<h2>1</h2><h2>2</h2><h2>3</h2><h2>A title</h2>", "A title", None),
        ("<h1>!</h1>", "?", "<h1>!</h1>"),
        ("<h1>A title</h1>", "", "<h1>A title</h1>"),
        ("", "A title", ""),
    ],
)
def test_only_a_first_heading_of_the_same_words_is_dropped(markup: str, title: str, rest: str | None) -> None:
    found = drop_heading(markup, title)
    assert found.removeprefix("<div>").removesuffix("</div>") == (markup if rest is None else rest)


def test_a_fetched_text_has_no_heading_like_its_entry(services: Services, ann: Actor) -> None:
    entry_id = subscribe(services, ann, feed())
    fetch(services, ann, entry_id, Site(PAGE_BODY.replace(b"<h1>One</h1>", b"<h1>Story 1</h1>")))
    found = request(services, ann, entry_id)
    assert found is not None
    assert "Paragraph 0 of" in found.html
    assert "Story 1" not in found.html


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


def want(services: Services, who: Actor, *, full_text: bool = True) -> int:
    """Let a person read the full texts of the feed; return its id."""
    feed_id = services.subscriptions.subscribe(who, URL).subscription.feed_id
    services.subscriptions.update(who, feed_id, full_text=full_text)
    return feed_id


def test_pages_of_new_entries_are_fetched_ahead_for_those_who_want_them(
    services: Services, ann: Actor
) -> None:
    bob, ahead = add_user(services, "bob"), list[Job]()
    services.full_texts._jobs = Recorder(ahead)  # type: ignore[assignment]
    feed_id = services.subscriptions.subscribe(bob, URL).subscription.feed_id
    for number in range(2):
        assert not ahead
        body = feed(number=number)
        elsewhere(lambda body=body: asyncio.run(services.pull.pull([feed_id], Canned({URL: body}))))  # type: ignore[misc]
        want(services, ann)
    (job,) = ahead
    newest = services.reading.load_page(ann, StreamQuery(StreamRef(StreamKind.FEED, feed_id))).rows[0].id
    assert (job.queue, job.args) == (
        Queue.ARTICLES_SYSTEM,
        {"feed_id": feed_id, "entry_id": newest, "ahead": True},
    )
    # Those who don't want them still see the feed's text first.
    assert services.reading.get_article(ann, newest).always_full
    assert not services.reading.get_article(bob, newest).always_full


class Recorder:
    """Keeps the jobs that are queued."""

    def __init__(self, jobs: list[Job]) -> None:
        self.jobs = jobs

    def enqueue_many(self, jobs: Iterable[Job]) -> None:
        self.jobs += jobs


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (None, None),
        ("User-agent: *\nDisallow: /private/", None),
        ("User-agent: *\nDisallow: /2026/", "robots"),
        ("User-agent: *\nDisallow: /\n\nUser-agent: Eventr\nAllow: /", None),
        ("User-agent: Eventr\nDisallow: /", "robots"),
        ("http_503", "robots"),
    ],
)
def test_robots_txt_holds_for_pages_that_nobody_waits_for(
    services: Services, ann: Actor, rules: str | None, expected: str | None
) -> None:
    entry_id, site = subscribe(services, ann, feed()), Site(robots=rules)
    want(services, ann)
    assert fetch(services, ann, entry_id, site, ahead=True) == expected
    assert site.requests[0].url == "https://site.example/robots.txt"
    assert len(site.requests) == (1 if expected else 2)
    if expected:
        # A person who asks for the page isn't a robot.
        assert request(services, ann, entry_id) is None
        assert fetch(services, ann, entry_id, site) is None
    # The rules are known now.
    asked = len(site.requests)
    other = subscribe(services, ann, feed(number=2))
    fetch(services, ann, other, site, ahead=True)
    assert all(not r.url.endswith("robots.txt") for r in site.requests[asked:])


def test_page_that_may_not_be_stored_is_only_fetched_for_a_person(services: Services, ann: Actor) -> None:
    entry_id, site = subscribe(services, ann, feed()), Site(headers={"cache-control": "private, No-Store"})
    want(services, ann)
    assert fetch(services, ann, entry_id, site, ahead=True) == "no_store"
    assert fetch(services, ann, entry_id, site) is None


def test_pages_that_gain_nothing_three_times_are_not_fetched_ahead(services: Services, ann: Actor) -> None:
    feed_id, whole = want(services, ann), f"<![CDATA[{STORY}]]>"
    gateway = services.gateways.full_texts
    for number in range(3):
        assert gateway.find_wanted([feed_id]) == {feed_id}
        entry_id = subscribe(services, ann, feed(whole, number=number))
        fetch(services, ann, entry_id, Site())
    assert gateway.find_wanted([feed_id]) == set()
    assert not services.full_texts.has_gain(ann, feed_id)
    want(services, ann)
    assert gateway.find_wanted([feed_id]) == {feed_id}
    want(services, ann, full_text=False)
    assert gateway.find_wanted([feed_id]) == set()


def _search(services: Services, who: Actor, words: str) -> list[int]:
    services.indexing.run(clock.now(), seconds=30)
    return [
        row.id
        for row in services.reading.load_page(
            who, StreamQuery(StreamRef(StreamKind.SEARCH, query=words))
        ).rows
    ]


def test_search_and_lists_know_the_longer_text(services: Services, ann: Actor) -> None:
    entry_id = subscribe(services, ann, feed())
    assert _search(services, ann, "paragraph") == []
    assert _search(services, ann, "trees") == [entry_id]
    before = services.reading.get_article(ann, entry_id).entry
    assert fetch(services, ann, entry_id, Site()) is None
    assert _search(services, ann, "paragraph") == [entry_id]
    query = StreamQuery(StreamRef(StreamKind.SEARCH, query="nothing"))
    (row,) = services.reading.load_page(ann, query).rows
    assert "and nothing" in row.excerpt
    entry = services.reading.get_article(ann, entry_id).entry
    assert entry.excerpt.startswith("One Paragraph 0 of a long story")
    # For readers and for apps that sync, the entry hasn't changed.
    assert (entry.summary, entry.content, entry.revision) == (before.summary, before.content, before.revision)
    assert services.mappers.arrivals.find_last_revised(entry.feed_id) is None
    # A share has the link and the excerpt.
    services.sharing.share(ann, entry_id)
    (shared,) = services.store.database["entries"].find({"of": entry_id})
    assert "full" not in shared
    assert "Paragraph 9" not in str(shared)


@pytest.mark.parametrize("seconds", [1, -30], ids=["later", "clock_behind"])
def test_a_text_that_is_found_after_newer_news_is_searched(
    services: Services, ann: Actor, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    entry_id = subscribe(services, ann, feed())
    assert _search(services, ann, "paragraph") == []
    real, news = extract_main_text, list[dt.datetime]()

    def take_long(*args: Any, **kwargs: Any) -> Any:
        def bring_news() -> None:
            later = clock.now() + dt.timedelta(minutes=10)
            with clock.set_source(lambda: later):
                subscribe(services, ann, feed(number=2))
                services.indexing.run(clock.now(), seconds=30)
            news.append(later)

        found = real(*args, **kwargs)
        elsewhere(bring_news)
        return found

    monkeypatch.setattr(full_texts, "extract_main_text", take_long)
    start = clock.now()
    with clock.set_source(lambda: news[0] + dt.timedelta(seconds=seconds) if news else start):
        assert fetch(services, ann, entry_id, Site()) is None
        assert _search(services, ann, "paragraph") == [entry_id]


def test_a_text_of_the_same_moment_as_news_is_news_of_its_own(services: Services, ann: Actor) -> None:
    entry_id = subscribe(services, ann, feed())
    feed_id = services.reading.get_article(ann, entry_id).entry.feed_id
    queue: Any = services.gateways.indexing
    (read,) = queue.find_unindexed(clock.now(), 10)
    (before,) = services.store.database["feeds"].find({"_id": feed_id})

    def mark_texts(at: dt.datetime) -> Any:
        services.store.run_in_transaction(lambda s: services.mappers.feeds.mark_texts(feed_id, at, s))
        (after,) = services.store.database["feeds"].find({"_id": feed_id})
        return after

    for earlier in (0, 5):
        after = mark_texts(before["news_at"] - dt.timedelta(seconds=earlier))
        assert after["news_at"] > before["news_at"]
        assert after["index_at"] > before["index_at"]
        before = after
    queue.mark_indexed(read)
    later = clock.now() + dt.timedelta(seconds=1)
    (again,) = queue.find_unindexed(later, 10)
    assert (again.id, again.index_at) == (feed_id, before["index_at"])
    queue.mark_indexed(again)
    assert mark_texts(later)["index_at"] == later


def test_a_change_of_the_feed_takes_its_place_back(services: Services, ann: Actor) -> None:
    entry_id = subscribe(services, ann, feed())
    assert fetch(services, ann, entry_id, Site()) is None
    subscribe(services, ann, feed("Trees, birds &amp; bees."))
    assert services.reading.get_article(ann, entry_id).entry.excerpt == "Trees, birds & bees."
    assert _search(services, ann, "paragraph") == []
    assert _search(services, ann, "bees") == [entry_id]


def test_an_excerpt_of_the_feed_that_is_longer_stays(services: Services, ann: Actor) -> None:
    entry_id = subscribe(services, ann, feed("Long teaser. " * 40))
    before = services.reading.get_article(ann, entry_id).entry.excerpt
    short = STORY.replace("<p>", "<p>x ", 1)
    page = PAGE_BODY.replace(STORY.encode(), short.encode())
    assert fetch(services, ann, entry_id, Site(page)) is None
    after = services.reading.get_article(ann, entry_id).entry.excerpt
    assert len(after) >= len(before)


def _find_pause(fetching: Coroutine[Any, Any, object]) -> float | None:
    """Return after how many seconds an attempt wants to run again."""

    def run() -> float | None:
        try:
            asyncio.run(fetching)
        except LaterError as e:
            return e.seconds
        return None

    return elsewhere(run)


class _Pause:
    """The rate limit of a host that allows nothing for ``seconds``."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def find_pauses(self, hosts: Sequence[str]) -> list[float]:
        return [self.seconds for _ in hosts]

    def take_tokens(self, hosts: Sequence[str], *, urgent: bool = False) -> list[float]:
        return [0.0 for _ in hosts]


def test_a_page_that_nobody_waits_for_is_fetched_when_its_host_allows_it(
    services: Services, ann: Actor
) -> None:
    entry_id, site = subscribe(services, ann, feed()), Site()
    texts: Any = services.full_texts
    own, feed_id = texts._budget, services.reading.get_article(ann, entry_id).entry.feed_id
    texts._budget = _Pause(60)
    assert _find_pause(texts.fetch(feed_id, entry_id, site, ahead=True)) == 60
    assert fetch(services, ann, entry_id, site, ahead=True, waits=WAITS_MAX) == "busy", "not for ever"
    texts._budget = _Pause(AHEAD_PAUSE + 1)
    assert fetch(services, ann, entry_id, site, ahead=True) == "busy", "nor for long"
    assert site.requests == []
    assert services.mappers.entries.find_unfetched([entry_id], [feed_id]), "nothing is stored"
    texts._budget = own
    assert fetch(services, ann, entry_id, site, ahead=True) is None
    assert not services.mappers.entries.find_unfetched([entry_id], [feed_id])
