"""The cost of sharing: a share, its delay to an open page, the stream of followed people, chains.

``social.share_ms`` is one share of a user with 100,000 followers; ``social.share_growth`` compares it with
one follower: nothing is written per follower. ``social.following_ms`` is a page of 50 of the shares of 500
people, some of whom share the same articles. ``social.live_ms`` is the time from the call that shares until a
follower's open page reports it: the 95th percentile, over the event stream, in Chromium. Shares are one to
two seconds apart; a page gets at most one event per second.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import random
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from bson.int64 import Int64
from playwright.sync_api import Page

from app import clock
from app.bootstrap.services import Services, build
from app.config import Settings
from app.models.accounts.actor import Actor
from app.models.accounts.user import NewUser
from app.models.feeds.feed import FeedFields, FeedUpdate
from app.models.reading.entry import NewEntry
from app.models.reading.stream import StreamKind, StreamQuery, StreamRef
from app.models.sharing.sharing import Profile
from bench.browser import chromium
from bench.engine import SECRET
from bench.harness import Bench, benchmark, time_call
from tests.support import live

FOLLOWERS, PEOPLE, ENTRIES, EACH = 100_000, 500, 2000, 10
WIDE, DEEP = 10_000, 50
OPERATIONS = 40
FOLLOWING = StreamRef(StreamKind.FOLLOWING)


@benchmark("social")
def social(bench: Bench) -> None:
    """Publish the times that readers and sharers wait."""
    with bench.servers(embedded_cache=1 << 30) as running:
        services = build(running.settings)
        services.migrate()
        try:
            crowd = Crowd(services, bench.quick)
            _shares(bench, crowd)
            _following(bench, crowd)
            _chains(bench, crowd)
        finally:
            services.close()
    _live(bench)


class Crowd:
    """A blog, the people who share it, and the services for both."""

    def __init__(self, services: Services, quick: bool) -> None:
        self.services, self.quick = services, quick
        self.random = random.Random(7)
        self._made = 0
        self.entries = self._blog(200 if quick else ENTRIES)

    def _blog(self, count: int) -> list[int]:
        feeds, now = self.services.gateways.feeds, clock.now()
        feed = feeds.get_or_create("https://blog.example.org/feed", now=now, title="A blog")
        feeds.claim([feed.id], "bench", now, 60)
        new = tuple(_entry(n, now - dt.timedelta(minutes=n)) for n in range(count))
        feeds.store_updates([FeedUpdate(feed.id, "bench", now, new, fields=FeedFields(checked_at=now))], now)
        return [d["_id"] for d in self.services.store.database["entries"].find({"feed_id": feed.id})]

    def join(self) -> tuple[Actor, Profile]:
        """Create an account with a stream that subscribes to the blog."""
        self._made += 1
        new = NewUser(f"p{self._made}@example.org", f"p{self._made}", "$argon2id$none")
        actor = Actor(self.services.gateways.accounts.add_user(new).id)
        profile = self.services.following.get_or_create_profile(actor)
        self.services.subscriptions.subscribe(actor, "https://blog.example.org/feed")
        return actor, profile

    def add_followers(self, profile: Profile, count: int) -> None:
        """Write the subscriptions of followers without creating their accounts."""
        rows = [
            {
                "_id": Int64(10**15 + n),
                "user_id": Int64(10**15 + n),
                "feed_id": Int64(profile.feed_id),
                "rev": Int64(0),
                "upto": Int64(0),
                "words": {},
                "unread": [],
                "title": "",
                "folder_ids": [],
                "orders": {},
                "person": True,
            }
            for n in range(count)
        ]
        for start in range(0, count, 10_000):
            self.services.store.database["subscriptions"].insert_many(rows[start : start + 10_000])


def _entry(number: int, at: dt.datetime) -> NewEntry:
    return NewEntry(
        guid_hash=number.to_bytes(8, "big"),
        at=at,
        arrived=at,
        title=f"Entry {number} with a title of usual length",
        url=f"https://blog.example.org/{number}",
        content="<p>What stands in it, some words more than a line.</p>" * 20,
        excerpt="What stands in it, some words more than a line. " * 5,
    )


def _median(work: Callable[[], Any], times: int = OPERATIONS) -> float:
    return statistics.median(time_call(work) for _ in range(times))


def _shares(bench: Bench, crowd: Crowd) -> None:
    followers = 1000 if crowd.quick else FOLLOWERS
    (few, _), (many, profile) = crowd.join(), crowd.join()
    crowd.add_followers(profile, followers)
    sharing = crowd.services.sharing
    sharing._per_hour = 10**6
    took: dict[int, list[float]] = {few.user_id: [], many.user_id: []}
    entries = iter(crowd.entries)
    for _ in range(bench.repeats):
        some = [next(entries) for _ in range(OPERATIONS // 2)]
        for actor in (few, many):
            left = iter(some)
            took[actor.user_id].append(
                _median(lambda: sharing.share(actor, next(left)), len(some))  # noqa: B023
            )
    bench.figure("social.share_ms", took[many.user_id], "ms")
    growth = [b / a for a, b in zip(took[few.user_id], took[many.user_id], strict=True)]
    bench.figure("social.share_growth", growth, "×", at_most=1.5)


def _following(bench: Bench, crowd: Crowd) -> None:
    people, each = (20, 10) if crowd.quick else (PEOPLE, EACH)
    reader, _ = crowd.join()
    services = crowd.services
    for _ in range(people):
        actor, profile = crowd.join()
        for entry in crowd.random.sample(crowd.entries, each):
            services.sharing.share(actor, entry)
        services.gateways.follows._subscribe(reader.user_id, profile, clock.now())
    query = StreamQuery(FOLLOWING, limit=50)
    pages = [_median(lambda: services.reading.load_page(reader, query)) for _ in range(bench.repeats)]
    bench.figure("social.following_ms", pages, "ms", at_most=40)
    found = services.reading.load_page(reader, query)
    row = next(r for r in found.rows)
    article = [_median(lambda: services.reading.get_article(reader, row.id)) for _ in range(bench.repeats)]
    bench.figure("social.article_ms", article, "ms")


def _chains(bench: Bench, crowd: Crowd) -> None:
    services = crowd.services
    first, _ = crowd.join()
    root = services.sharing.share(first, crowd.entries[-1]).share
    last, actor = root, first
    for _ in range(5 if crowd.quick else DEEP - 1):
        actor, _ = crowd.join()
        last = services.sharing.share(actor, last.id).share
    table = services.store.database["shares"]
    base = table.find_one({"_id": root.id}) or {}
    wide = 100 if crowd.quick else WIDE
    for start in range(0, wide, 1000):
        rows = []
        for n in range(start, min(wide, start + 1000)):
            ident = 2 * 10**15 + n
            fields = {
                "_id": Int64(ident),
                "user_id": Int64(10**15 + n),
                "path": f"{base['path']}{ident:014x}",
            }
            rows.append({**base, **fields})
        table.insert_many(rows)
    viewer, _ = crowd.join()
    deep = [_median(lambda: services.sharing.list_chain(viewer, last.id)) for _ in range(bench.repeats)]
    bench.figure("social.chain_ms", deep, "ms")


def _live(bench: Bench) -> None:
    """Share repeatedly while a follower's page is open."""
    times = 5 if bench.quick else 60
    with bench.servers() as running, live.homed(running.settings) as settings:
        settings = dataclasses.replace(settings, secret_key=SECRET)
        services = build(settings)
        services.migrate()
        crowd = Crowd(services, quick=True)
        (sharer, profile), (reader, _) = crowd.join(), crowd.join()
        services.following.follow(reader, profile.handle)
        token = services.gateways.sessions.open_session(reader.user_id, agent="bench", address="")
        with contextlib.ExitStack() as stack:
            for part in (live.web(settings), live.controller(settings)):
                stack.callback(part.stop)
            stack.callback(services.close)
            page = stack.enter_context(_page(settings, token))
            with page.expect_response(lambda r: "/events" in r.url and r.status == 200):
                page.goto(f"{settings.own_origin}/read/following")
            took = [_seen(page, services, sharer, entry) for entry in crowd.entries[:times]]
    bench.figure("social.live_ms", [statistics.quantiles(took, n=20)[-1]], "ms", at_most=1000)


@contextlib.contextmanager
def _page(settings: Settings, token: str) -> Iterator[Page]:
    with chromium() as launched:
        context = launched.new_context(viewport={"width": 1440, "height": 900})
        context.add_cookies([{"name": "eventr", "value": token, "url": settings.own_origin}])
        yield context.new_page()


def _seen(page: Page, services: Services, sharer: Actor, entry: int) -> float:
    """Return the milliseconds until the page reports a share; then show the share."""
    bar = page.locator("#newbar")
    started = time.perf_counter()
    services.sharing.share(sharer, entry)
    bar.wait_for(state="visible")
    took = (time.perf_counter() - started) * 1000
    bar.click()
    bar.wait_for(state="hidden")
    time.sleep(random.uniform(1, 2))
    return took
