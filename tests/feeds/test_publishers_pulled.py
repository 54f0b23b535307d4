"""Publishers that do what publishers do, pulled from a real server into a real store."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import re
from email.utils import format_datetime
from typing import Any
from xml.sax.saxutils import escape

import pytest

from app.bootstrap import services as bootstrap
from app.config import Settings
from app.models.feeds.parsed import ParsedEntry
from tests.feeds.publisher import Guids, Publisher
from tests.feeds.test_publishers import EVENTS
from tests.feeds.test_pull import ALICE, Site
from tests.support.rawserver import RawServer, file_reply


@pytest.fixture
def site(services: Any, settings: Settings) -> Any:
    with RawServer({}) as server:
        yield Site(server, services, settings)


def item(entry: ParsedEntry) -> str:
    guid = "" if entry.guid is None else f'<guid isPermaLink="false">{escape(entry.guid)}</guid>'
    date = f"<pubDate>{format_datetime(entry.published)}</pubDate>" if entry.published else ""
    return (
        f"<item><title>{entry.title}</title><link>{escape(entry.url or '')}</link>{guid}{date}"
        f"<description>{entry.content}</description></item>"
    )


def rss(*items: str) -> bytes:
    return f"<rss version='2.0'><channel><title>News</title>{''.join(items)}</channel></rss>".encode()


def stories(*numbers: int, issue: int = 0, count: int = 0, text: str = "What happened") -> list[str]:
    return [
        f"<item><title>Story {n}</title><link>https://e.org/c{n}?n={count}</link>"
        f"<guid>c{n}#{issue if n == 3 else 0}</guid><description>{text} {n}</description></item>"
        for n in numbers
    ]


@pytest.mark.parametrize("guids", Guids)
def test_each_article_is_stored_once(site: Site, db: Any, guids: Guids) -> None:
    rng, publisher = random.Random(guids.value), Publisher(guids, 10)
    feed = None
    for _ in range(20):
        site.server.set("/feed", file_reply(rss(*map(item, publisher.fetch().entries))))
        feed = feed or site.follow("/feed")
        site.pull([feed.id])
        links = [doc["url"] for doc in db.entries.find({"feed_id": feed.id})]
        numbers = [int(re.findall(r"/articles/(\d+)", link)[0]) for link in links]
        assert sorted(numbers) == sorted(publisher.listed_ever)
        rng.choice(EVENTS)(publisher, rng.randrange(30))
        publisher.publish(rng.randrange(3))


def test_one_reissued_guid_of_many_stays_read(site: Site) -> None:
    site.server.set("/feed", file_reply(rss(*stories(*range(8)))))
    feed = site.follow("/feed")
    site.pull([feed.id])
    site.services.marking.mark_feeds(ALICE, [feed.id])
    for issue in (1, 2):
        site.server.set("/feed", file_reply(rss(*stories(*range(8), issue=issue))))
        assert site.pull([feed.id]).new == 0
    assert (site.feed(feed.id).last_seq, site.unread(feed.id)) == (8, 0)


def test_links_with_counters_are_not_written_again(site: Site, db: Any) -> None:
    for count in range(4):
        site.server.set("/feed", file_reply(rss(*stories(*range(8), count=count))))
        if not count:
            feed = site.follow("/feed")
        assert site.pull([feed.id]).new == (0 if count else 8)
        written = [doc["revision"] for doc in db.entries.find({"feed_id": feed.id})]
        assert written == [1] * 8, "each was written when it was new"
    site.server.set("/feed", file_reply(rss(*stories(*range(8), count=9, text="Edited"))))
    site.pull([feed.id])
    assert {doc["revision"] for doc in db.entries.find({"feed_id": feed.id})} == {2}


def test_a_feed_that_shrinks_and_grows_brings_nothing_back(
    settings: Settings, db: Any, redis_client: Any
) -> None:
    """Also nothing that retention has deleted meanwhile."""
    few = dataclasses.replace(settings, retention_entries=100)
    with contextlib.closing(bootstrap.build(few)) as services, RawServer({}) as server:
        services.migrate()
        site = Site(server, services, few)
        server.set("/feed", file_reply(rss(*stories(*range(150)))))
        feed = site.follow("/feed")
        assert site.pull([feed.id]).new == 150
        services.marking.mark_feeds(ALICE, [feed.id])
        for numbers in (range(10), range(150), range(60), range(2), range(150)):
            server.set("/feed", file_reply(rss(*stories(*numbers))))
            assert site.pull([feed.id]).new == 0
        assert site.unread(feed.id) == 0
        assert db.entries.count_documents({"feed_id": feed.id}) == 100
