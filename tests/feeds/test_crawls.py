"""Crawling a site for feeds: what is fetched, how slowly, and who is told."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import pytest

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.errors import FetchError, ForbiddenError
from app.feeds.discover.crawl import find_in_sitemap, find_targets, is_of_site, may_be_page
from app.gateways.feeds.crawls import CLAIMED, DEATHS, MAX_REQUESTS, PER_PERSON
from app.models.accounts.actor import Actor, Role
from app.models.discussion.comments import NotificationKind
from app.models.feeds.crawl import Crawl, CrawlFigures
from app.models.feeds.discovery import Discovered
from app.models.feeds.fetched import Fetched, FetchRequest
from app.services.feeds.crawls import CrawlService
from tests.support.reader import add_user, rss

SITE = "https://town.example"
FEED = rss("Town", [("One", "Text")])


class _Site:
    """A site in memory; ``asked`` holds the addresses that were requested."""

    def __init__(self, pages: dict[str, bytes]) -> None:
        self.pages = pages
        self.asked: list[str] = []

    async def stream_fetches(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
        for request in requests:
            self.asked.append(request.url.removeprefix(SITE))
            body = self.pages.get(request.url.removeprefix(SITE))
            if body is None:
                yield Fetched(request, 404, request.url, error=FetchError("http_404"))
            else:
                yield Fetched(request, 200, request.url, body=body, wire_bytes=len(body))


@pytest.fixture
def ann(services: Services) -> Actor:
    return add_user(services, "ann")


def _page(*links: str, head: str = "") -> bytes:
    return f"<html>{head}{''.join(f'<a href={link}>{link}</a> ' for link in links)}</html>".encode()


def _crawl(services: Services, actor: Actor, address: str, site: _Site, db: Any) -> Crawl:
    """Begin a crawl and take all its steps, as if each pause were over."""
    crawl = services.crawls.request_crawl(actor, address)
    assert crawl is not None
    for _ in range(2 * MAX_REQUESTS):
        asyncio.run(services.crawls.run(crawl.id, site))
        if db.crawls.find_one({"_id": crawl.id}).get("next_at") is None:
            break
        db.crawls.update_one({"_id": crawl.id}, {"$set": {"next_at": clock.now()}})
    found = services.gateways.crawls.crawls.find_by_host(crawl.host)
    assert found is not None
    return found


def test_a_feed_that_a_section_announces_is_found_and_people_are_told(
    services: Services, ann: Actor, db: Any
) -> None:
    link = '<link rel=alternate type="application/rss+xml" href="/deep/feed.xml">'
    site = _Site({"/": _page("/news", "/about"), "/news": _page(head=link), "/deep/feed.xml": FEED})
    bob = add_user(services, "bob")
    assert services.crawls.request_crawl(bob, "town.example") is not None
    done = _crawl(services, ann, "https://town.example/start", site, db)
    assert [feed.url for feed in done.found] == [f"{SITE}/deep/feed.xml"]
    assert site.asked[0] == "/robots.txt"
    assert len(site.asked) == len(set(site.asked)) <= MAX_REQUESTS
    for who in (ann, bob):
        (note,) = services.gateways.notifications.list_notifications(who.user_id, "").notes
        assert (note.kind, note.title) == (NotificationKind.FOUND, "town.example")
    assert db.crawl_askers.count_documents({}) == 0
    # The next person who looks for it gets the feed at once.
    row = services.gateways.discoveries.get_or_create(SITE, clock.now())
    services.gateways.discoveries.store_result(row.key, Discovered(SITE, error="no_feed_found"), clock.now())
    answer = services.discovery.discover(add_user(services, "eve"), SITE)
    assert [feed.url for feed in answer.feeds] == [f"{SITE}/deep/feed.xml"]


def test_a_search_without_a_feed_begins_a_crawl(services: Services, ann: Actor, db: Any) -> None:
    row = services.gateways.discoveries.get_or_create(SITE, clock.now())
    services.gateways.discoveries.store_result(row.key, Discovered(SITE, error="no_feed_found"), clock.now())
    answer = services.discovery.discover(ann, SITE)
    assert (answer.error, answer.is_crawled) == ("no_feed_found", True)
    assert db.crawls.count_documents({}) == db.crawl_askers.count_documents({}) == 1
    (job,) = services.crawls.find_due_jobs(clock.now())
    assert job.args == {"crawl_id": db.crawls.find_one()["_id"]}
    services.gateways.discoveries.store_result(row.key, Discovered(SITE, error="http_503"), clock.now())
    db.crawls.delete_many({})
    assert not services.discovery.discover(ann, SITE).is_crawled
    assert db.crawls.count_documents({}) == 0


def test_robots_txt_is_obeyed(services: Services, ann: Actor, db: Any) -> None:
    rules = b"User-agent: *\nDisallow: /news\nDisallow: /sitemap.xml\nCrawl-delay: 40\n"
    site = _Site({"/robots.txt": rules, "/": _page("/news", "/blog"), "/blog": _page()})
    crawl = services.crawls.request_crawl(ann, SITE)
    assert crawl is not None
    asyncio.run(services.crawls.run(crawl.id, site))
    pause = db.crawls.find_one()["next_at"] - clock.now()
    assert dt.timedelta(seconds=38) < pause <= dt.timedelta(seconds=40)
    _crawl(services, ann, SITE, site, db)
    assert site.asked == ["/robots.txt", "/", "/blog"]


def test_a_site_that_does_not_answer_is_left_alone(services: Services, ann: Actor, db: Any) -> None:
    class Down(_Site):
        async def stream_fetches(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
            for request in requests:
                self.asked.append(request.url)
                yield Fetched(request, 0, request.url, error=FetchError("timeout"))

    site = Down({})
    assert _crawl(services, ann, SITE, site, db).found == ()
    assert site.asked == [f"{SITE}/robots.txt"]


def test_requests_are_few_and_five_seconds_apart(services: Services, ann: Actor, db: Any) -> None:
    pages = {f"/p{n}": _page(*(f"/p{n}/s{m}" for m in range(20))) for n in range(60)}
    site = _Site({"/": _page(*pages), **pages})
    crawl = services.crawls.request_crawl(ann, SITE)
    assert crawl is not None
    asyncio.run(services.crawls.run(crawl.id, site))
    pause = db.crawls.find_one()["next_at"] - clock.now()
    assert dt.timedelta(seconds=3) < pause <= dt.timedelta(seconds=5)
    # Before that, neither another job nor another worker sends a request.
    assert asyncio.run(services.crawls.run(crawl.id, site)) == {"requests": 0}
    assert services.crawls.find_due_jobs(clock.now()) == []
    assert len(site.asked) == 1
    done = _crawl(services, ann, SITE, site, db)
    assert (done.requests, done.next_at) == (MAX_REQUESTS, None)
    assert len(site.asked) == len(set(site.asked)) == MAX_REQUESTS
    assert services.crawls.find_due_jobs(clock.now()) == []


def test_a_worker_that_dies_is_followed_by_another_one(services: Services, ann: Actor, db: Any) -> None:
    class Dying(_Site):
        async def stream_fetches(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
            raise SystemError("killed")
            yield  # pragma: no cover

    crawl = services.crawls.request_crawl(ann, SITE)
    assert crawl is not None
    with pytest.raises(SystemError):
        asyncio.run(services.crawls.run(crawl.id, Dying({})))
    assert services.crawls.find_due_jobs(clock.now()) == []
    assert len(services.crawls.find_due_jobs(clock.now() + dt.timedelta(minutes=3))) == 1


def test_requests_of_workers_that_die_count_and_three_deaths_end_the_crawl(
    services: Services, ann: Actor, db: Any
) -> None:
    class Dying(_Site):
        async def stream_fetches(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
            async for fetched in super().stream_fetches(requests):
                if len(self.asked) > 1:
                    raise SystemError("killed")
                yield fetched

    crawl = services.crawls.request_crawl(ann, SITE)
    assert crawl is not None
    site = Dying({})
    for _ in range(2 * MAX_REQUESTS):
        with contextlib.suppress(SystemError):
            asyncio.run(services.crawls.run(crawl.id, site))
        db.crawls.update_one(
            {"_id": crawl.id, "next_at": {"$exists": True}}, {"$set": {"next_at": clock.now()}}
        )
    done = services.gateways.crawls.crawls.find_by_host(crawl.host)
    assert done is not None
    assert (len(site.asked), done.requests, done.next_at) == (1 + DEATHS, 1 + DEATHS, None)
    assert db.crawl_askers.count_documents({}) == 0


def test_a_late_worker_does_not_overwrite_the_next_one(services: Services, ann: Actor, db: Any) -> None:
    crawl = services.crawls.request_crawl(ann, SITE)
    assert crawl is not None
    now, crawls = clock.now(), services.gateways.crawls.crawls
    first = crawls.claim(crawl.id, now, now + CLAIMED)
    second = crawls.claim(crawl.id, now + CLAIMED, now + 2 * CLAIMED)
    assert first is not None
    assert second is not None
    assert (first.requests, second.requests, second.attempts) == (1, 2, 2)
    assert not crawls.store_crawl(dataclasses.replace(first, next_at=None), now + CLAIMED, now)
    assert crawls.store_crawl(dataclasses.replace(second, next_at=now), now + 2 * CLAIMED, now)
    assert db.crawls.find_one()["requests"] == 2


def test_nobody_who_looked_is_forgotten_at_the_end(services: Services, ann: Actor, db: Any) -> None:
    """The worker dies after the first of two notifications, and another one goes on."""
    people = [ann, add_user(services, "bob")]
    for one in people:
        assert services.crawls.request_crawl(one, SITE) is not None
    told: list[int] = []

    def _tell(user_id: int, crawl_id: int) -> None:
        if len(told) == 1:
            told.append(0)
            raise SystemError("killed")
        told.append(user_id)

    service = CrawlService(services.gateways.crawls, services.crawls._jobs, _tell, running=1)
    (job,) = service.find_due_jobs(clock.now())
    crawl_id = job.args["crawl_id"]
    site = _Site({"/": FEED, "/sitemap.xml": b""})
    for _ in range(3):
        asyncio.run(service.run(crawl_id, site))
        db.crawls.update_one({"_id": crawl_id}, {"$set": {"next_at": clock.now()}})
    with pytest.raises(SystemError):
        asyncio.run(service.run(crawl_id, site))
    assert db.crawls.find_one().get("next_at") is None
    assert service.find_due_jobs(clock.now()) == []
    later = clock.now() + CLAIMED
    with clock.set_source(lambda: later):
        assert [job.args["crawl_id"] for job in service.find_due_jobs(later)] == [crawl_id]
        assert asyncio.run(service.run(crawl_id, site)) == {"requests": 0}
        assert "telling" not in db.crawls.find_one()
    assert set(told) == {0, *(one.user_id for one in people)}
    assert db.crawl_askers.count_documents({}) == 0


@pytest.mark.parametrize(
    "address", ["http://localhost/", "http://10.0.0.1/", "http://nas/", "printer.local/x", "no address"]
)
def test_local_sites_are_not_crawled(services: Services, ann: Actor, address: str) -> None:
    assert services.crawls.request_crawl(ann, address) is None


def test_a_typed_secret_is_not_fetched_again(services: Services, ann: Actor, db: Any) -> None:
    site = _Site({"/": _page("/a?token=8c9d1f0a7b6e5d4c3b2a", "/b?page=2", "/c?x=1")})
    _crawl(services, ann, "https://me:pw@town.example/feed?token=8c9d1f0a7b6e5d4c3b2a", site, db)
    assert site.asked == ["/robots.txt", "/sitemap.xml", "/", "/b?page=2"]
    assert "8c9d" not in str(list(db.crawls.find()))


def test_one_person_begins_few_crawls(services: Services, ann: Actor, db: Any) -> None:
    for n in range(PER_PERSON):
        assert services.crawls.request_crawl(ann, f"site{n}.example") is not None
    assert services.crawls.request_crawl(ann, "more.example") is None
    assert services.crawls.request_crawl(ann, "site0.example") is not None
    assert services.crawls.request_crawl(add_user(services, "bob"), "more.example") is not None
    _crawl(services, ann, "site0.example", _Site({}), db)
    assert services.crawls.request_crawl(ann, "other.example") is not None


def test_more_sites_wait_and_a_crawl_can_be_turned_off(services: Services, ann: Actor, db: Any) -> None:
    one = bootstrap.build(dataclasses.replace(services.settings, crawls_running=1))
    off = bootstrap.build(dataclasses.replace(services.settings, crawls_running=0))
    try:
        assert one.crawls.request_crawl(ann, "one.example") is not None
        assert one.crawls.request_crawl(ann, "two.example") is not None
        assert one.crawls.request_crawl(ann, "www.one.example") is not None
        (first,) = one.crawls.find_due_jobs(clock.now())
        assert db.crawls.find_one({"_id": first.args["crawl_id"]})["host"] == "one.example"
        _crawl(one, ann, "one.example", _Site({}), db)
        (second,) = one.crawls.find_due_jobs(clock.now())
        assert db.crawls.find_one({"_id": second.args["crawl_id"]})["host"] == "two.example"
        assert off.crawls.request_crawl(ann, "one.example") is None
        assert off.crawls.find_due_jobs(clock.now()) == []
    finally:
        one.close()
        off.close()


def test_administrators_see_the_figures(services: Services, ann: Actor, db: Any) -> None:
    root = add_user(services, "root", Role.ADMIN)
    assert services.crawls.get_figures(root) == CrawlFigures()
    _crawl(services, ann, SITE, _Site({"/": FEED}), db)
    services.crawls.request_crawl(ann, "other.example")
    assert services.crawls.get_figures(root) == CrawlFigures(1, 1, 1, 3)
    with pytest.raises(ForbiddenError):
        services.crawls.get_figures(ann)


def test_erasing_an_account_forgets_what_they_looked_for(services: Services, ann: Actor, db: Any) -> None:
    services.crawls.request_crawl(ann, SITE)
    assert db.crawl_askers.count_documents({"user_id": ann.user_id}) == 1
    services.gateways.erasure.begin(ann.user_id, clock.now())
    tomorrow = clock.now() + dt.timedelta(days=1)
    with clock.set_source(lambda: tomorrow):
        services.gateways.erasure.finish(ann.user_id, clock.now())
    assert db.crawl_askers.count_documents({}) == 0
    assert str(ann.user_id) not in str(list(db.crawls.find()))


# -- pure rules


def test_pages_of_the_site_are_followed_and_files_are_not() -> None:
    good: Callable[[str], bool] = lambda url: may_be_page(url, "town.example")  # noqa: E731
    for url in ("/", "/news/", "/a.html", "/a?page=2", "/v1.2/x"):
        assert good(SITE + url), url
    assert good("https://www.town.example/x")
    assert good("https://blog.town.example/x")
    for url in ("/a.pdf", "/a.jpg", "/a?x=1", "/a?page=1&x=2", "/a?key=8c9d1f0a7b6e5d4c3b2a"):
        assert not good(SITE + url), url
    for url in ("https://notown.example/", "ftp://town.example/", "https://x@town.example/", "https://[x/"):
        assert not good(url), url
    assert is_of_site("https://www.town.example./", "town.example")


def test_sections_come_before_single_pages() -> None:
    body = _page("/a/b/c", "/news", "/news", "/x", "https://else.example/", "/y.zip")
    found = find_targets(body, SITE, None, depth=0, site="town.example")
    assert [one.url.removeprefix(SITE) for one in found] == ["/news", "/x", "/a/b/c"]
    assert find_targets(body, SITE, None, depth=2, site="town.example") == []


def test_a_sitemap_names_pages() -> None:
    body = b"<urlset xmlns='x'><url><loc>https://town.example/a/b</loc></url><url><loc>https://town.example/n</loc></url></urlset>"
    assert [one.url for one in find_in_sitemap(body, "town.example")] == [f"{SITE}/n", f"{SITE}/a/b"]
    for bad in (b"", b"<html>", b"not xml", b"<!DOCTYPE x [<!ENTITY a 'b'>]><x>&a;</x>"):
        assert find_in_sitemap(bad, "town.example") == []
