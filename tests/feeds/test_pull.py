"""Pulling feeds on real parts: a real server on loopback, the real fetcher, a real MongoDB."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any

import pytest
import redis
from bson.int64 import Int64

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.errors import StoreError
from app.feeds.parse import parse
from app.gateways.feeds.digest import Digester
from app.mappers.feeds import entry_bodies
from app.mappers.feeds.entries import NumberedEntry
from app.models.accounts.actor import Actor
from app.models.feeds.feed import DueFeed, Feed, FeedFields, FeedUpdate, StoreResult
from app.models.feeds.fetched import Fetched, FetchRequest, Validators
from app.models.jobs.jobs import Task
from app.models.reading.entry import NewEntry
from app.services.feeds import pull_batch
from app.services.feeds.pull import HOST_SHARE, PullService, make_batches
from app.services.feeds.pull_batch import PullResult
from tests.support import corpus
from tests.support.fetches import quiet_poll
from tests.support.rawserver import RawServer, Reply, file_reply
from workers import registry
from workers.context import Context, Resources
from workers.job import ClaimedJob

ALICE = Actor(1)
RSS = b"<rss version='2.0'><channel><title>Blog</title>%s</channel></rss>"
ITEM = b"<item><title>Post %d</title><guid>g%d</guid><description>body %d</description></item>"


def rss(*numbers: int) -> bytes:
    return RSS % b"".join(ITEM % (n, n, n) for n in numbers)


class Site:
    """A server on loopback whose feeds are followed by one reader."""

    def __init__(self, server: RawServer, services: Services, settings: Settings) -> None:
        self.server, self.services = server, services
        self._settings = dataclasses.replace(settings, fetch_allow=(server.origin,))

    def follow(self, path: str) -> Feed:
        subscribed = self.services.subscriptions.subscribe(ALICE, self.server.url(path))
        return self.feed(subscribed.subscription.feed_id)

    def feed(self, feed_id: int) -> Feed:
        return self.services.gateways.feeds.get(feed_id)

    def pull(self, feed_ids: Sequence[int], **options: Any) -> PullResult:
        async def run() -> PullResult:
            with bootstrap.build_fetcher(self._settings) as fetcher:
                return await self.services.pull.pull(feed_ids, fetcher, **options)

        return asyncio.run(run())

    def unread(self, feed_id: int) -> int:
        tree = self.services.reading.get_tree(ALICE)
        return next(f.unread for f in tree.feeds if f.feed_id == feed_id)


@pytest.fixture
def site(services: Services, settings: Settings) -> Any:
    with RawServer({}) as server:
        yield Site(server, services, settings)


def test_pull_stores_what_is_new_once(site: Site) -> None:
    site.server.set("/feed", file_reply(rss(2, 1)))
    feed = site.follow("/feed")

    first = site.pull([feed.id])
    site.server.set("/feed", file_reply(rss(3, 2, 1)))
    second = site.pull([feed.id])
    third = site.pull([feed.id])
    site.server.set("/feed", file_reply(rss(3, 2, 1), etag=False))
    fourth = site.pull([feed.id])

    assert (first.new, second.new, third.new, fourth.new) == (2, 1, 0, 0)
    assert (third.unchanged, fourth.unchanged) == (1, 1)
    assert (third.not_modified, fourth.not_modified) == (1, 0)
    assert site.feed(feed.id).last_seq == 3
    assert site.feed(feed.id).title == "Blog"
    assert site.unread(feed.id) == 3


def test_what_is_listed_again_is_no_news(site: Site) -> None:
    site.server.set("/feed", file_reply(rss(*range(10, 0, -1))))
    feed = site.follow("/feed")
    site.pull([feed.id])
    site.server.set("/feed", file_reply(rss(11, *range(10, 4, -1))))
    site.pull([feed.id])
    before = site.feed(feed.id)

    site.server.set("/feed", file_reply(rss(*range(10, 0, -1))))
    again = site.pull([feed.id])
    after = site.feed(feed.id)

    assert (again.new, after.last_seq, after.seen != before.seen) == (0, 11, True)
    assert (after.history, after.changed_at) == (before.history, before.changed_at)
    assert after.checked_at != before.checked_at
    assert [f.new for f in site.services.gateways.feeds.find_fetch_log(feed.id).fetches] == [0, 1, 10]

    site.server.set("/feed", file_reply(rss(12, 11, *range(10, 4, -1))))
    mixed = site.pull([feed.id])
    assert (mixed.new, site.feed(feed.id).changed_at) == (1, site.feed(feed.id).checked_at)
    assert [f.new for f in site.services.gateways.feeds.find_fetch_log(feed.id).fetches] == [1, 0, 1, 10]


def test_only_what_was_stored_counts_for_the_rhythm_of_a_feed(site: Site, services: Services) -> None:
    """What is listed again beside one new entry is not counted; what a dead writer left is."""
    site.server.set("/feed", file_reply(rss(2, 1)))
    feed = site.follow("/feed")
    counted: list[list[bytes]] = []
    start = clock.now()

    def fields_of(added: Sequence[NewEntry]) -> FeedFields:
        counted.append([entry.guid_hash for entry in added])
        return FeedFields(checked_at=start)

    def entry(number: int) -> NewEntry:
        return NewEntry(guid_hash=bytes([number] * 8), at=start, arrived=start, title=str(number))

    def store(*numbers: int) -> StoreResult:
        feeds = services.gateways.feeds
        assert feeds.claim([feed.id], "writer", start, 60)
        update = FeedUpdate(feed.id, "writer", start, tuple(map(entry, numbers)), fields_of=fields_of)
        return feeds.store_updates([update], start)[0]

    assert (store(2, 1).new, counted) == (2, [])
    services.mappers.entries.add([NumberedEntry(feed.id, 3, entry(3))])
    assert (store(4, 3, 2, 1).new, [sorted(guids) for guids in counted]) == (2, [[b"\3" * 8, b"\4" * 8]])


def test_pull_keeps_going_past_broken_feeds(site: Site) -> None:
    good = corpus.genuine_feeds()[10]
    answers = {
        "/good": file_reply(good.read()),
        "/gone": Reply(status=410),
        "/fault": Reply(status=500),
        "/page": file_reply(b"<html><title>Hello</title><p>words</html>"),
        "/empty": file_reply(b""),
    }
    for path, reply in answers.items():
        site.server.set(path, reply)
    feeds = {path: site.follow(path) for path in answers}
    dead = site.services.subscriptions.subscribe(ALICE, "http://127.0.0.1:1/feed").subscription.feed_id

    result = site.pull([*(f.id for f in feeds.values()), dead])

    words = {path: site.feed(f.id).error for path, f in feeds.items()}
    assert words == {
        "/good": None,
        "/gone": "gone",
        "/fault": "http_500",
        "/page": "html_page",
        "/empty": "empty",
    }
    assert site.feed(dead).error in ("refused", "connect_failed")
    assert (result.feeds, result.errors) == (6, 5)
    told = [*words.values(), site.feed(dead).error]
    assert result.to_json()["words"] == {word: told.count(word) for word in told if word}
    assert site.feed(feeds["/good"].id).last_seq > 0
    assert site.feed(feeds["/gone"].id).next_check_at is None
    assert {len(site.services.gateways.feeds.find_fetch_log(f.id).fetches) for f in feeds.values()} == {1}


def test_pull_of_a_system_job_skips_what_is_not_due(site: Site) -> None:
    site.server.set("/feed", file_reply(rss(1)))
    feed = site.follow("/feed")
    site.pull([feed.id])

    again = site.pull([feed.id], only_due=True)

    assert (again.feeds, again.skipped) == (0, 1)
    assert len(site.server.seen("/feed")) == 1
    assert site.feed(feed.id).claim_token is None


def test_pull_skips_what_another_is_pulling_unless_that_one_died(site: Site) -> None:
    site.server.set("/feed", file_reply(rss(1)))
    feed = site.follow("/feed")
    site.services.gateways.feeds.claim([feed.id], "died", clock.now(), 60)

    blocked = site.pull([feed.id])
    taken_over = site.pull([feed.id], dead_tokens=["died"])

    assert (blocked.skipped, blocked.feeds) == (1, 0)
    assert (taken_over.skipped, taken_over.new) == (0, 1)


@pytest.mark.parametrize("left", [{"claim_token": "dead"}, {"torn": True}])
def test_a_feed_whose_writer_died_is_put_in_order_even_when_nothing_has_changed(
    site: Site, db: Any, left: dict[str, Any]
) -> None:
    """Its answer is that of before the writer came, or of one who came between: a rest alone would leave
    it to the dead one, and what waits for its place would wait until the feed has news."""
    site.server.set("/feed", file_reply(rss(1)))
    feed = site.follow("/feed")
    assert site.pull([feed.id]).new == 1
    entry = db.entries.find_one({"feed_id": feed.id})
    db.entries.insert_one({**entry, "_id": Int64(17), "seq": Int64(2), "guid_hash": b"0123456789abcdef"})
    late = clock.now() - dt.timedelta(seconds=1)
    db.feeds.update_one({"_id": feed.id}, {"$set": {**left, "claimed_until": late, "next_check_at": late}})

    assert site.pull([feed.id], only_due=True).not_modified == 1

    after = site.feed(feed.id)
    assert (after.claim_token, after.torn, after.last_seq) == (None, False, 2)
    assert after.next_check_at is not None
    assert after.next_check_at > clock.now()


def test_a_feed_that_fails_from_the_first_pull_on_is_in_order_after_a_take_over(site: Site) -> None:
    feed = site.follow("/missing")
    site.services.gateways.feeds.claim([feed.id], "died", clock.now(), 60)

    site.pull([feed.id], dead_tokens=["died"])

    after = site.feed(feed.id)
    assert (after.error, after.claim_token, after.torn) == ("http_404", None, False)


def test_a_feed_that_is_found_out_of_order_while_it_is_asked_does_not_rest(site: Site, db: Any) -> None:
    site.server.set("/feed", file_reply(rss(1)))
    feed = site.follow("/feed")
    site.pull([feed.id])
    now = clock.now()
    db.feeds.update_one({"_id": feed.id}, {"$set": {"torn": True, "next_check_at": now}})

    site.services.gateways.feeds.record_unchanged([quiet_poll(feed.id, now + dt.timedelta(hours=1))], now)

    assert site.pull([feed.id], only_due=True).not_modified == 1
    assert not site.feed(feed.id).torn


def test_feeds_of_a_batch_that_rest_equally_long_stay_together(site: Site, db: Any) -> None:
    paths = [f"/{n}" for n in range(5)]
    for path in paths:
        site.server.set(path, file_reply(rss(1)))
    feed_ids = [site.follow(path).id for path in paths]
    site.pull(feed_ids)
    assert site.pull(feed_ids[:3]).not_modified == 3
    assert site.pull(feed_ids[3:]).not_modified == 2

    waits = {doc["_id"]: doc["next_check_at"] - doc["checked_at"] for doc in db.feeds.find()}
    first, second = ({waits[feed_id] for feed_id in some} for some in (feed_ids[:3], feed_ids[3:]))
    assert (len(first), len(second)) == (1, 1)


def test_cancelled_pull_stores_what_came_and_gives_back_the_rest(site: Site) -> None:
    site.server.set("/fast", file_reply(rss(1)))
    site.server.set("/slow", Reply(body=rss(1), delay=30))
    fast, slow = site.follow("/fast"), site.follow("/slow")

    async def run() -> None:
        stored = asyncio.Event()
        with bootstrap.build_fetcher(site._settings) as fetcher:
            work = asyncio.create_task(
                site.services.pull.pull([fast.id, slow.id], fetcher, progress=lambda _: stored.set())
            )
            async with asyncio.timeout(20):
                await stored.wait()
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work

    asyncio.run(run())

    assert site.feed(fast.id).last_seq == 1
    assert site.feed(slow.id).claim_token is None
    assert site.feed(slow.id).errors == 0


def test_permanent_redirect_moves_the_feed_after_three_answers(site: Site) -> None:
    target = site.server.url("/new")
    site.server.set("/old", Reply(status=301, headers=(("Location", target),)))
    site.server.set("/new", file_reply(rss(1)))
    feed = site.follow("/old")

    urls = []
    for _ in range(3):
        site.pull([feed.id])
        urls.append(site.feed(feed.id).url)

    assert urls == [feed.url, feed.url, target]


def announce(body: bytes, url: str) -> bytes:
    space = "http://www.itunes.com/dtds/podcast-1.0.dtd"
    element = f"<i:new-feed-url xmlns:i='{space}'>{url}</i:new-feed-url><item>"
    return body.replace(b"<item>", element.encode(), 1)


def test_a_feed_moves_to_the_address_that_it_states_if_a_feed_is_there(site: Site) -> None:
    target = site.server.url("/new")
    site.server.set("/old", file_reply(announce(rss(1), target)))
    site.server.set("/new", Reply(body=b"<html>Moved</html>"))
    feed = site.follow("/old")

    for _ in range(5):
        site.pull([feed.id])
    before = site.feed(feed.id)
    site.server.set("/new", file_reply(announce(rss(2), target)))
    site.pull([feed.id])
    moved = site.feed(feed.id)
    site.pull([feed.id])
    after = site.feed(feed.id)

    assert (before.url, before.error) == (feed.url, None)
    assert (moved.url, moved.validators) == (target, Validators())
    assert (after.url, after.moved_to, after.last_seq) == (target, None, 2)


def test_a_feed_that_points_back_is_not_moved_to(site: Site) -> None:
    old, new = site.server.url("/old"), site.server.url("/new")
    site.server.set("/old", file_reply(announce(rss(1), new)))
    site.server.set("/new", file_reply(announce(rss(1), old)))
    feed = site.follow("/old")

    for _ in range(3):
        site.pull([feed.id])

    assert site.feed(feed.id).url == old


def test_suspect_feed_rests_with_its_reason_until_it_can_be_read(site: Site) -> None:
    site.server.set("/feed", file_reply(rss(1)))
    feed = site.follow("/feed")

    site.services.pull.mark_suspect(feed.id, "third")
    rests = site.feed(feed.id)
    site.pull([feed.id])

    assert rests.error == "crashed"
    assert rests.next_check_at is not None
    assert (rests.next_check_at - clock.now()).total_seconds() > 80000
    assert site.feed(feed.id).error is None


def test_due_feeds_come_in_batches_until_they_are_pulled(site: Site) -> None:
    site.server.set("/feed", file_reply(rss(1)))
    feed = site.follow("/feed")

    pulls = site.services.pull
    before = pulls.find_due(clock.now(), 100)
    assert pulls.count_due(clock.now(), 100) == 1
    site.pull([feed.id])

    assert pulls.make_batches(before) == [[feed.id]]
    assert [(due.host, due.due_at, due.readers) for due in before] == [("127.0.0.1", feed.next_check_at, 1)]
    assert (pulls.find_due(clock.now(), 100), pulls.count_due(clock.now(), 100)) == ([], 0)


def test_batches_hold_each_feed_once_and_spread_a_host() -> None:
    due = [DueFeed(i, "big.example" if i % 2 else f"h{i}.example") for i in range(400)]

    found = make_batches(due, 50)

    assert sorted(i for batch in found for i in batch) == list(range(400))
    assert max(map(len, found)) <= 50
    assert len(found) == 8
    assert max(sum(i % 2 for i in batch) for batch in found) < 50
    assert make_batches([], 50) == []
    alone = make_batches([DueFeed(i, "one.example") for i in range(HOST_SHARE)], 50)
    assert alone == [list(range(HOST_SHARE))]


def test_what_a_silent_store_did_not_take_is_an_error_of_the_pull(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the store answers again before the pull ends: its counts would be wrong."""
    site.server.set("/fast", file_reply(rss(1)))
    site.server.set("/slow", Reply(body=rss(1), delay=1))
    ids = [site.follow("/fast").id, site.follow("/slow").id]
    feeds = site.services.gateways.feeds
    real, calls = feeds.store_updates, iter([StoreError()])

    def store(*args: Any) -> Any:
        for error in calls:
            raise error
        return real(*args)

    monkeypatch.setattr(feeds, "store_updates", store)

    with pytest.raises(StoreError):
        site.pull(ids)


def test_a_pull_drops_what_is_above_the_limit(settings: Settings, db: Any, redis_client: Any) -> None:
    few = dataclasses.replace(settings, retention_entries=100)
    with contextlib.closing(bootstrap.build(few)) as services, RawServer({}) as server:
        services.migrate()
        site = Site(server, services, few)
        server.set("/feed", file_reply(rss(*range(150))))
        feed = site.follow("/feed")
        assert site.pull([feed.id]).new == 150
        server.set("/feed", file_reply(rss(*range(140, 170))))
        assert site.pull([feed.id]).new == 20

    stored = [d["seq"] for d in db.entries.find({"feed_id": feed.id}).sort("seq")]
    assert stored == list(range(71, 171))


def test_an_answer_that_waited_never_overwrites_a_later_one(
    site: Site, db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_batch, "FLUSH_SECONDS", 60)
    site.server.set("/feed", Reply(body=rss(1).replace(b"body 1", b"first")))
    feed = site.follow("/feed")
    site.pull([feed.id])

    class Overtaken:
        """Answers as the fetcher does; before the answer is stored, another pull gets a later one."""

        def __init__(self, fetcher: Any) -> None:
            self._fetcher = fetcher

        async def stream_fetches(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
            async for fetched in self._fetcher.stream_fetches(requests):
                yield fetched
            site.server.set("/feed", Reply(body=rss(1).replace(b"body 1", b"third")))
            await site.services.pull.pull([feed.id], self._fetcher)

    async def run() -> None:
        with bootstrap.build_fetcher(site._settings) as fetcher:
            await site.services.pull.pull([feed.id], Overtaken(fetcher))

    site.server.set("/feed", Reply(body=rss(1).replace(b"body 1", b"second")))
    asyncio.run(run())

    html = [entry_bodies.unpack(d["body"]) for d in db.entries.find({"feed_id": feed.id})]
    assert [found.content or found.summary for found in html] == ["third"]


class _Frozen:
    """Answers as the fetcher does, but before the answers are stored something else happens."""

    def __init__(self, fetcher: Any, meanwhile: Callable[[Any], Awaitable[object]]) -> None:
        self._fetcher, self._meanwhile = fetcher, meanwhile

    async def stream_fetches(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
        async for fetched in self._fetcher.stream_fetches(requests):
            yield fetched
        await self._meanwhile(self._fetcher)


def test_a_worker_that_lost_its_job_claims_no_feed(
    site: Site, db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It wakes up before its claim, after another worker has pulled the feed and released it."""
    monkeypatch.setattr(pull_batch, "FLUSH_SECONDS", 60)
    site.server.set("/feed", file_reply(rss(1)))
    feed = site.follow("/feed")
    documents: list[Any] = []
    seen: list[str | None] = []

    async def heir(fetcher: Any) -> None:
        site.server.set("/feed", file_reply(rss(2, 1)))
        await site.services.pull.pull([feed.id], fetcher, token="heir", dead_tokens=["zombie"])
        documents.append(db.feeds.find_one({"_id": feed.id}))

    def is_held() -> bool:
        seen.append(site.feed(feed.id).claim_token)
        return False

    async def zombie() -> PullResult:
        with bootstrap.build_fetcher(site._settings) as fetcher:
            late = _Frozen(fetcher, heir)
            return await site.services.pull.pull([feed.id], late, token="zombie", is_held=is_held)

    result = asyncio.run(zombie())

    assert (result.skipped, result.feeds) == (1, 0)
    assert [db.feeds.find_one({"_id": feed.id})] == documents
    assert site.feed(feed.id).last_seq == 2
    # Asked before the claim, it could be frozen in between once more.
    assert seen == ["zombie"]


def test_a_worker_that_holds_its_job_stores_what_it_claims(site: Site) -> None:
    site.server.set("/feed", file_reply(rss(1)))
    feed = site.follow("/feed")
    assert site.pull([feed.id], token="attempt", is_held=lambda: True).new == 1


@pytest.mark.parametrize("task", [Task.PULL, Task.PULL_SYSTEM])
def test_tasks_that_pull_ask_whether_their_job_is_still_held(
    site: Site, redis_client: redis.Redis, task: Task
) -> None:
    site.server.set("/feed", file_reply(rss(1)))
    feed = site.follow("/feed")
    registry.load_tasks()
    spec = registry.find_task(task)
    assert spec is not None

    with contextlib.closing(Resources(site._settings)) as resources:
        lost = Context(ClaimedJob("lost", "feed-pull", 1, 1), site._settings, 60, resources, lambda _: None)
        result = asyncio.run(spec.body(lost, feed_ids=[feed.id]))

    assert (result["skipped"], result["feeds"]) == (1, 0)
    assert site.feed(feed.id).last_seq == 0


def test_a_worker_that_lost_its_job_suspects_no_feed(site: Site) -> None:
    site.server.set("/feed", file_reply(rss(1)))
    feed = site.follow("/feed")

    site.services.pull.mark_suspect(feed.id, "zombie", is_held=lambda: False)

    assert (site.feed(feed.id).error, site.feed(feed.id).claim_token) == (None, None)


def test_answers_wait_for_the_store_instead_of_piling_up(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull_batch, "FLUSH_BYTES", 1000)
    paths = [f"/{n}" for n in range(12)]
    for path in paths:
        site.server.set(path, file_reply(rss(*range(20))))
    feeds = [site.follow(path) for path in paths]
    held: list[int] = []
    store = site.services.gateways.feeds.store_updates

    def watched(updates: Sequence[FeedUpdate], now: dt.datetime) -> list[StoreResult]:
        held.append(len(updates))
        return store(updates, now)

    monkeypatch.setattr(site.services.gateways.feeds, "store_updates", watched)

    result = site.pull([feed.id for feed in feeds])

    assert result.new == 240
    assert max(held) <= 2, "a body is over the limit, so no two rounds of them wait together"


def _faulty(body: bytes, **how: Any) -> Any:
    """Read a feed, with a fault of ours in store for some."""
    if b"unforeseen" in body:
        raise RuntimeError("a case that nobody thought of")
    if b"memory" in body:
        raise MemoryError
    parsed = parse(body, **how)
    if b"huge" not in body:
        return parsed
    return dataclasses.replace(
        parsed, entries=tuple(dataclasses.replace(e, title="x" * (17 << 20)) for e in parsed.entries)
    )


def test_a_feed_that_fails_unforeseen_costs_its_batch_nothing(
    site: Site, services: Services, settings: Settings
) -> None:
    names = ("good", "unforeseen", "also-good", "memory", "huge", "good-as-well")
    for name in names:
        site.server.set(f"/{name}", file_reply((RSS % (ITEM % (1, 1, 1))).replace(b"Blog", name.encode())))
    feeds = {name: site.follow(f"/{name}") for name in names}
    faulty = PullService(
        services.gateways.feeds, services.gateways.retention, settings, Digester(settings, parse=_faulty)
    )
    allowed = dataclasses.replace(settings, fetch_allow=(site.server.origin,))

    async def run() -> PullResult:
        with bootstrap.build_fetcher(allowed) as fetcher:
            return await faulty.pull([feed.id for feed in feeds.values()], fetcher)

    result = asyncio.run(run())
    after = {name: site.feed(feed.id) for name, feed in feeds.items()}
    fine = {name for name in names if "good" in name}
    assert {name for name, feed in after.items() if feed.last_seq == 1} == fine
    assert {feed.error for name, feed in after.items() if name not in fine} == {"unreadable"}
    assert [feed.claim_token for feed in after.values()] == [None] * len(names)
    assert (result.feeds, result.new, result.errors) == (6, 3, 3)
    # What cannot be stored today may be tomorrow: nothing is left that would stand in its way.
    assert site.pull([feeds["huge"].id]).new == 1
    assert site.feed(feeds["huge"].id).error is None
