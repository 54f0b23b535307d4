"""Pictures that are fetched before someone asks for them."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from app import clock, create_app
from app.bootstrap.services import Services
from app.gateways.media import card_readers
from app.models.accounts.actor import Actor
from app.models.accounts.preferences import Preferences
from app.models.jobs.jobs import Queue, Task
from app.models.reading.stream import Sort, StreamKind, StreamQuery, StreamRef
from tests.media.farm import Worker, build_services, make_png
from tests.support.commands import build_logged_services
from tests.support.rawserver import RawServer, Reply
from tests.support.reader import Canned, add_user, elsewhere, pull, rss
from tests.web.conftest import Visitor
from workers.tasks.media_icons import find_icons
from workers.tasks.media_pictures import fetch_pictures


@pytest.fixture
def server() -> Iterator[RawServer]:
    with RawServer() as running:
        yield running


@pytest.fixture
def site(services: Services, server: RawServer) -> Iterator[Services]:
    with contextlib.closing(build_services(services, server)) as built:
        yield built


def follow(site: Services, server: RawServer, count: int = 7) -> tuple[Actor, int, list[int]]:
    """Return a reader, a feed, and its entries, newest first; entry n has the picture /n.png."""
    actor = add_user(site, "ann")
    url = server.url("/feed")
    feed_id = site.subscriptions.subscribe(actor, url).subscription.feed_id
    for n in range(count):
        server.set(f"/{n}.png", Reply(body=make_png(20, 20 + n)))
    bodies = [(f"Entry {n}", f'<img src="{server.url(f"/{n}.png")}">') for n in range(count)]
    made = rss("Pictures", bodies).replace(b"https://site.example/", server.url("/").encode())
    pull(site, [feed_id], {url: made})
    found = site.store.database["entries"].find({"feed_id": feed_id}, {"title": 1})
    ids = {doc["title"]: doc["_id"] for doc in found}
    return actor, feed_id, [ids[f"Entry {n}"] for n in range(count)]


def list_order(site: Services, actor: Actor, ref: str, **names: Any) -> list[int]:
    page = site.reading.load_page(actor, StreamQuery(StreamRef.parse(ref), **names))
    return [row.id for row in page.rows]


def list_fetched(server: RawServer, ids: list[int]) -> set[int]:
    """Return the entries whose pictures were fetched."""
    return {entry for n, entry in enumerate(ids) if server.seen(f"/{n}.png")}


def log_in(site: Services) -> Visitor:
    visitor = Visitor(create_app(site.settings, site).test_client())
    visitor.log_in()
    return visitor


@pytest.mark.parametrize("is_fragment", [True, False])
def test_the_pictures_of_the_next_three_entries_are_fetched(
    site: Services, server: RawServer, redis_client: redis.Redis, is_fragment: bool
) -> None:
    actor, feed_id, ids = follow(site, server)
    order = list_order(site, actor, f"feed/{feed_id}")
    visitor, worker = log_in(site), Worker(site, redis_client)
    names = {"headers": {"HX-Request": "true", "HX-Target": "section#article"}} if is_fragment else {}
    path = f"/read/feed/{feed_id}?density=compact&entry={order[1]}"
    assert visitor.get(path, **names).status_code == 200
    assert list_fetched(server, ids) == set()
    assert Task.MEDIA_AHEAD in worker.work()
    assert list_fetched(server, ids) == set(order[1:5])
    # Once more: all are known.
    visitor.get(path, **names)
    assert worker.work() == [Task.MEDIA_AHEAD]


@pytest.mark.parametrize(
    ("stream", "sort", "show", "opened", "following"),
    [
        ("all", "oldest", "", 4, [3, 2, 1]),
        ("all", "newest", "", 4, [5, 6]),
        ("all", "", "", 0, [1, 2, 3]),
        ("all", "newest", "unread", 2, [3, 6]),
        ("all", "unread-on-top", "", 6, [4, 5]),
        ("all", "unread-on-top", "", 4, [5]),
        ("starred", "newest", "", 1, [2, 3]),
        ("starred", "newest", "", 6, []),
    ],
)
def test_the_next_entries_are_those_of_the_list(
    site: Services, server: RawServer, stream: str, sort: str, show: str, opened: int, following: list[int]
) -> None:
    """Entries are counted from the newest; 4 and 5 are read, 1 to 3 are starred."""
    actor, _, ids = follow(site, server)
    order = list_order(site, actor, "all", sort=Sort.NEWEST)
    site.reading.mark(actor, order[4:6], True)
    for n in (3, 2, 1):
        site.reading.set_starred(actor, order[n], True)
    given = {"was_read": opened in (4, 5), "sort": sort, "show": show}
    count = site.ahead.fetch_following(actor.user_id, stream, order[opened], **given)
    found = {parts[-1] for doc in site.store.database["sources"].find() if (parts := doc["url"].split("/"))}
    assert found == {f"{ids.index(order[n])}.png" for n in following}
    assert count == len(found)


@pytest.mark.parametrize(
    ("changes", "choice"),
    [({"media_prefetch": False}, "eventr"), ({"images": "direct"}, "eventr"), ({}, "site"), ({}, "none")],
)
def test_nothing_is_fetched_ahead_for_people_who_see_no_pictures_from_here(
    services: Services, server: RawServer, redis_client: redis.Redis, changes: dict[str, Any], choice: str
) -> None:
    with contextlib.closing(build_services(services, server, **changes)) as site:
        actor, _, ids = follow(site, server)
        site.accounts.set_preferences(actor, {"images": choice})
        log_in(site).get(f"/read/all?entry={ids[3]}")
        assert Task.MEDIA_AHEAD not in Worker(site, redis_client).work()


def test_J06_no_job_contains_what_a_person_searches_for(
    site: Services, server: RawServer, redis_client: redis.Redis
) -> None:
    _, _, ids = follow(site, server)
    log_in(site).get(f"/read/{StreamRef(StreamKind.SEARCH, query='Entry')}?entry={ids[3]}")
    assert Task.MEDIA_AHEAD not in Worker(site, redis_client).work()


def test_the_job_fetches_nothing_of_what_its_user_may_not_see(site: Services, server: RawServer) -> None:
    """The entry, the feed and the account may be gone, or be another person's."""
    actor, feed_id, ids = follow(site, server)
    other = add_user(site, "ben")
    given = {"was_read": False, "sort": "", "show": ""}
    fetch = site.ahead.fetch_following
    assert fetch(actor.user_id, f"feed/{feed_id}", ids[3], **given) > 0
    assert fetch(other.user_id, f"feed/{feed_id}", ids[3], **given) == 0
    assert fetch(other.user_id, "all", ids[3], **given) == 0
    assert fetch(404, "all", ids[3], **given) == 0
    assert fetch(actor.user_id, "all", 404, **given) == 0


def test_pictures_ahead_count_within_the_hourly_limit(
    services: Services, server: RawServer, redis_client: redis.Redis
) -> None:
    with contextlib.closing(build_services(services, server, pictures_per_hour=10)) as site:
        actor, _, ids = follow(site, server)
        order = list_order(site, actor, "all")
        log_in(site).get(f"/read/all?density=compact&entry={order[0]}")
        Worker(site, redis_client).work()
        # Counted in steps of ten: the open entry takes the only one.
        assert list_fetched(server, ids) == {order[0]}


def test_a_page_that_opens_an_entry_sends_one_command_more(
    services: Services, server: RawServer, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command goes to Redis; none more goes to MongoDB."""
    with contextlib.closing(build_services(services, server)) as site:
        ids = follow(site, server)[2]
        path = f"/read/all?entry={ids[3]}"
        log_in(site).get(path)
        Worker(site, redis_client).work()
    counts = []
    for is_on in (False, True):
        changed = dataclasses.replace(site.settings, media_prefetch=is_on)
        with build_logged_services(changed, monkeypatch) as (logged, log):
            visitor = log_in(logged)
            visitor.get(path)
            log.clear()
            redis_client.config_resetstat()
            visitor.get(path)
            scripts = redis_client.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0)
            counts.append((len(log.commands), scripts))
    assert counts[1][0] == counts[0][0]
    assert counts[1][1] - counts[0][1] == 1


# -- small pictures of new entries


def make_feed(server: RawServer, count: int) -> bytes:
    body = rss("Cards", [(f"Entry {n}", f"<p>Text {n}</p>") for n in range(count)])
    body = body.replace(b"<rss ", b'<rss xmlns:media="http://search.yahoo.com/mrss/" ')
    for n in range(count):
        thumb = f'<media:thumbnail url="{server.url(f"/{n}.png")}"/>'.encode()
        title = f"<item><title>Entry {n}</title>".encode()
        body = body.replace(title, title + thumb)
    return body.replace(b"https://site.example/", server.url("/").encode())


def pull_by_the_real_service(site: Services, server: RawServer, feed_id: int, body: bytes) -> None:
    canned = Canned({server.url("/feed"): body})
    elsewhere(lambda: asyncio.run(site.pull.pull([feed_id], canned)))


@pytest.mark.parametrize(
    ("view", "days", "changes", "is_fetched"),
    [
        ("preference", 6, {}, True),
        ("feed", 6, {}, True),
        ("all", 6, {}, True),
        ("other", 6, {}, False),
        ("", 6, {}, False),
        ("preference", 8, {}, False),
        ("direct", 6, {}, False),
        ("preference", 6, {"media_prefetch": False}, False),
    ],
)
def test_pictures_of_new_entries_are_fetched_for_recent_readers_of_cards(
    services: Services,
    server: RawServer,
    redis_client: redis.Redis,
    view: str,
    days: int,
    changes: dict[str, Any],
    is_fetched: bool,
) -> None:
    with contextlib.closing(build_services(services, server, **changes)) as site:
        actor, feed_id, _ = follow(site, server, 2)
        log_in(site)
        if view in ("preference", "direct"):
            images = "site" if view == "direct" else "eventr"
            site.accounts.set_preferences(actor, {"density": "card", "images": images})
        elif view:
            number = {"feed": f"/{feed_id}", "other": "/404", "all": ""}[view]
            ref = StreamRef.parse(f"{'all' if view == 'all' else 'feed'}{number}")
            site.stream_views.set(actor, ref, Preferences(), {"density": "card"})
        for n in range(5):
            server.set(f"/{n}.png", Reply(body=make_png(20, 20 + n)))
        at = clock.now() + dt.timedelta(days=days)
        with clock.set_source(lambda: at):
            pull_by_the_real_service(site, server, feed_id, make_feed(server, 5))
            tasks = Worker(site, redis_client).work()
        fetched = [n for n in range(5) if server.seen(f"/{n}.png")]
        assert fetched == ([2, 3, 4] if is_fetched else [])  # the first two aren't new
        assert (Task.MEDIA_THUMBS in tasks) == (not changes)


def test_pictures_of_new_entries_wait_in_the_queue_of_the_system(
    site: Services, server: RawServer, redis_client: redis.Redis
) -> None:
    actor, feed_id, _ = follow(site, server, 2)
    log_in(site)
    site.accounts.set_preferences(actor, {"density": "card"})
    pull_by_the_real_service(site, server, feed_id, make_feed(server, 5))
    redis_client.flushdb()
    assert site.thumbs.fetch_thumbs([feed_id], [3]) == 3
    assert redis_client.llen("rq:queue:media-fetch-sys") == 1
    assert redis_client.llen("rq:queue:media-fetch") == 0
    for n in range(5):
        server.set(f"/{n}.png", Reply(body=make_png(20, 20 + n)))
    worker = Worker(site, redis_client)
    worker.work()
    drawings = [queue for task, queue in worker.queues if task == Task.DRAW]
    assert drawings == [Queue.MEDIA_SYSTEM] * 3, "nor are they drawn before people's pictures"


@pytest.mark.parametrize("task", [fetch_pictures, find_icons])
def test_a_task_says_in_which_queue_it_ran(task: Any) -> None:
    given: list[Any] = []

    async def work(*args: Any) -> dict[str, int]:
        given.extend(args)
        return {}

    services = SimpleNamespace(
        pictures=SimpleNamespace(fetch_many=work), icons=SimpleNamespace(find_icons=work)
    )
    job = SimpleNamespace(token="token", queue="media-fetch-sys")
    ctx: Any = SimpleNamespace(services=services, job=job, fetcher="fetcher")
    asyncio.run(task(ctx, **({"ids": []} if task is fetch_pictures else {"feed_ids": []})))
    assert given == [[], "fetcher", "token", "media-fetch-sys"]


@pytest.mark.parametrize("reader", [0, 3, 6])
def test_one_reader_of_cards_is_found_among_many_however_few_are_read_at_once(
    services: Services, db: Any, monkeypatch: pytest.MonkeyPatch, reader: int
) -> None:
    monkeypatch.setattr(card_readers, "TOGETHER", 2)
    asked: list[int] = []
    mapper = services.mappers.card_readers
    ask = mapper.filter_active

    def filter_active(users: set[int], since: dt.datetime) -> set[int]:
        asked.append(len(users))
        return ask(users, since)

    monkeypatch.setattr(mapper, "filter_active", filter_active)
    now = clock.now()
    for user in range(7):
        db["users"].insert_one(
            {"_id": user, "name_key": str(user), "settings": {"density": "card"} if user == reader else {}}
        )
        db["sessions"].insert_one({"_id": str(user), "user_id": user, "seen": now})
        db["subscriptions"].insert_one({"feed_id": 8, "user_id": user})
    db["subscriptions"].insert_one({"feed_id": 9, "user_id": 1})
    found = services.gateways.card_readers.find_readers([8, 9], now - dt.timedelta(days=1))
    assert found == {8: reader}
    assert max(asked) <= 2
    asked.clear()
    assert services.gateways.card_readers.find_readers([8], now - dt.timedelta(days=1)) == {8: reader}
    assert len(asked) == reader // 2 + 1, "it ends with the first"


def test_a_poll_without_new_pictures_asks_for_none(
    site: Services, server: RawServer, redis_client: redis.Redis
) -> None:
    actor, feed_id, _ = follow(site, server, 2)
    log_in(site)
    site.accounts.set_preferences(actor, {"density": "card"})
    plain = rss("Cards", [("Plain", "<p>No picture</p>")])
    for body in (make_feed(server, 2), plain, plain):
        pull_by_the_real_service(site, server, feed_id, body)
    assert redis_client.llen("rq:queue:media-fetch-sys") == 0
