"""Chapters in a file of their own (podcast:chapters): foreign bytes, which a job fetches at an opening."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from app import clock
from app.bootstrap.services import Services
from app.errors import FetchError, NotFoundError
from app.feeds.parse.chapters import parse_chapters
from app.gateways.feeds.chapters import KEPT, RETRY
from app.models.accounts.actor import Actor
from app.models.feeds.chapters import CHAPTERS_BYTES
from app.models.feeds.fetched import Fetched, FetchRequest, Target
from app.models.reading.stream import StreamKind, StreamQuery, StreamRef
from tests.support.reader import add_user, elsewhere, pull

URL, FILE = "https://pod.example/feed", "https://pod.example/1/chapters.json"
BODY = json.dumps(
    {
        "version": "1.2.0",
        "chapters": [{"startTime": 0, "title": "Intro"}, {"startTime": 30.5, "title": "<b>Trees"}],
    }
).encode()


def feed(address: str = FILE) -> bytes:
    return (
        "<rss version='2.0' xmlns:podcast='https://podcastindex.org/namespace/1.0'><channel><title>Pod</title>"
        "<item><title>One</title><guid>1</guid><description>Notes.</description>"
        "<enclosure url='https://pod.example/1.mp3' type='audio/mpeg' length='9'/>"
        f"<podcast:chapters url='{address}' type='application/json+chapters'/></item></channel></rss>"
    ).encode()


class Site:
    """A site that answers with a file, or with an error."""

    def __init__(self, body: bytes | None = BODY) -> None:
        self.body, self.requests = body, list[FetchRequest]()

    async def stream_fetches(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
        for request in requests:
            self.requests.append(request)
            error = FetchError("http_404") if self.body is None else None
            yield Fetched(request, 404 if error else 200, request.url, body=self.body, error=error)


@pytest.fixture
def ann(services: Services) -> Actor:
    return add_user(services, "ann")


def subscribe(services: Services, who: Actor, body: bytes) -> int:
    feed_id = services.subscriptions.subscribe(who, URL).subscription.feed_id
    pull(services, [feed_id], {URL: body})
    page = services.reading.load_page(who, StreamQuery(StreamRef(StreamKind.FEED, feed_id)))
    return page.rows[0].id


def fetch(services: Services, who: Actor, entry_id: int, site: Site) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    elsewhere(
        lambda: found.append(asyncio.run(services.chapters.fetch(who.user_id, entry_id, site)))  # type: ignore[arg-type]
    )
    return found[0]


def test_chapters_are_fetched_once_and_found_afterwards(services: Services, ann: Actor) -> None:
    entry_id = subscribe(services, ann, feed())
    assert services.chapters.find_for_entry(ann, entry_id) is None
    site = Site()
    for state in ("fetched", "ended"):
        assert fetch(services, ann, entry_id, site)["state"] == state
    (request,) = site.requests
    assert (request.url, request.target, bool(request.referred_by)) == (FILE, Target.CHAPTERS, True)
    assert services.chapters.find_for_entry(ann, entry_id) == [(0, "Intro"), (30, "<b>Trees")]
    later = clock.now() + KEPT
    with clock.set_source(lambda: later):
        assert services.chapters.find_for_entry(ann, entry_id) is None


def test_file_that_fails_rests_for_an_hour(services: Services, ann: Actor) -> None:
    entry_id = subscribe(services, ann, feed())
    fetch(services, ann, entry_id, Site(None))
    assert services.chapters.find_for_entry(ann, entry_id) == []
    later = clock.now() + RETRY
    with clock.set_source(lambda: later):
        assert services.chapters.find_for_entry(ann, entry_id) is None


def test_only_readers_cause_a_fetch(services: Services, ann: Actor) -> None:
    entry_id, bob, site = subscribe(services, ann, feed()), add_user(services, "bob"), Site()
    with pytest.raises(NotFoundError):
        services.chapters.find_for_entry(bob, entry_id)
    assert fetch(services, bob, entry_id, site) == {"state": "ended"}
    assert not site.requests


@pytest.mark.parametrize(
    "address", ["ftp://pod.example/c.json", "javascript:alert(1)", "data:application/json,{}"]
)
def test_only_web_addresses_are_fetched(services: Services, ann: Actor, address: str) -> None:
    entry_id = subscribe(services, ann, feed(address))
    assert services.chapters.find_for_entry(ann, entry_id) == ()


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (b"", 0),
        (b"<html>", 0),
        (b"\xff\xfe{", 0),
        (b"[" * 100_000, 0),
        (b'{"chapters": 7}', 0),
        (b'{"chapters": {"a": 1}}', 0),
        (json.dumps({"chapters": [7, None, [], {"startTime": 1}, {"title": "x"}]}).encode(), 0),
        (
            json.dumps(
                {"chapters": [{"startTime": s, "title": "x"} for s in (-1, True, "5", 1e300)]}
            ).encode(),
            0,
        ),
        (b'{"chapters": [{"startTime": NaN, "title": "x"}, {"startTime": Infinity, "title": "x"}]}', 0),
        (json.dumps({"chapters": [{"startTime": 1, "title": "x", "toc": False}]}).encode(), 0),
        (json.dumps({"chapters": [{"startTime": n, "title": "x"} for n in range(900)]}).encode(), 200),
        (BODY + b" " * CHAPTERS_BYTES, 0),
    ],
)
def test_foreign_files_are_read_within_limits(body: bytes, count: int) -> None:
    assert len(parse_chapters(body)) == count


def test_titles_are_one_line_and_bounded() -> None:
    rows = [{"startTime": 9, "title": "a\n\u202eb\x00" + "x" * 900}, {"startTime": 2, "title": "first"}]
    first, second = parse_chapters(json.dumps({"chapters": rows}).encode())
    assert (first.title, second.second) == ("first", 9)
    assert len(second.title) <= 200
    assert second.title.isprintable()
