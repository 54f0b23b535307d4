"""F15: the network between Eventr and its stores loses what goes one way or both."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import pytest
import redis

from app import clock, create_app
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.embedded import EmbeddedServers
from app.errors import EventrError
from app.models.feeds.fetched import Fetched, FetchRequest
from app.models.jobs.jobs import Job, Queue, Task
from app.services.accounts.sign_in import Client
from app.services.feeds.pull import PullService
from app.web.security.sessions import get_cookie_name
from tests.faults import checks
from tests.faults.relay import Relay
from tests.faults.system import LONG
from tests.jobs import support
from tests.support.reader import PASSWORD, Canned, add_user, elsewhere
from tests.web.conftest import Visitor

#: The short form: a write that happens without a reply is the hardest.
EACH = [("there",), ("back",), ("there", "back")]
WAYS = EACH if LONG else EACH[1:2]
URL = "https://feeds.example.org/one"
FEED = b"""<rss version="2.0"><channel><title>Tides</title><link>https://feeds.example.org/</link>
<item><title>High water</title><guid>1</guid></item><item><title>Low water</title><guid>2</guid></item>
</channel></rss>"""


@dataclasses.dataclass(frozen=True)
class Network:
    """Services that reach both stores only through relays."""

    services: Services
    mongodb: Relay
    redis: Relay


@pytest.fixture
def network(services: Services, servers: EmbeddedServers, tmp_path: Path) -> Iterator[Network]:
    """The services of a server whose network can be cut; ``services`` has another way to the stores."""
    sockets = [Path(unquote(urlsplit(servers.mongodb_uri).netloc)), Path(urlsplit(servers.redis_url).path)]
    with contextlib.ExitStack() as opened:
        relays = []
        for name, target in zip(("mongodb", "redis"), sockets, strict=True):
            relay = Relay(servers.settings.home / f"{name}-{tmp_path.name}.sock", target)
            opened.callback(relay.close)
            relays.append(relay)
        settings = dataclasses.replace(
            services.settings,
            mongodb_uri=f"mongodb://{quote(str(relays[0].path), safe='')}/?directConnection=true",
            redis_url=f"unix://{relays[1].path}?db=0",
        )
        built = opened.enter_context(contextlib.closing(bootstrap.build(settings)))
        yield Network(built, *relays)


@pytest.fixture
def browser(network: Network, services: Services) -> Visitor:
    """A browser of ann, logged in, whose requests go to the server behind the relays."""
    add_user(services, "ann")
    visitor = Visitor(create_app(network.services.settings, network.services).test_client())
    token = services.sign_in.log_in("ann", PASSWORD, Client("127.0.0.1", "A browser"))
    visitor.client.set_cookie(get_cookie_name(secure=False), token)
    visitor.show_form()
    return visitor


@pytest.mark.parametrize("ways", EACH, ids="-".join)
def test_F15_what_mongodb_does_not_confirm_is_not_acknowledged(
    network: Network, browser: Visitor, services: Services, ways: tuple[str, ...]
) -> None:
    with network.mongodb.losing(*ways):
        refused = browser.post("/subscribe", {"url": URL})
    assert refused.status_code == 503
    assert int(refused.headers["Retry-After"]) > 0
    done = browser.post("/subscribe", {"url": URL})
    assert done.status_code == 303, "the same again works as soon as the network does"
    db = services.store.database
    assert db.subscriptions.count_documents({}) == 1
    assert checks.doubled(db) + checks.miscounted(db) == []


@pytest.mark.parametrize("ways", WAYS, ids="-".join)
def test_F15_without_redis_a_subscription_is_kept_and_its_feed_is_due(
    network: Network, browser: Visitor, services: Services, ways: tuple[str, ...]
) -> None:
    with network.redis.losing(*ways):
        answer = browser.post("/subscribe", {"url": URL})
    assert answer.status_code in (303, 503)
    db = services.store.database
    if answer.status_code == 303:
        assert db.subscriptions.count_documents({}) == 1
    assert browser.post("/subscribe", {"url": URL}).status_code == 303
    assert db.subscriptions.count_documents({}) == 1
    assert checks.doubled(db) + checks.miscounted(db) == []
    due = [feed.id for feed in services.gateways.feeds.find_due(clock.now() + dt.timedelta(minutes=1), 10)]
    assert len(due) == 1, "MongoDB knows what Redis has not heard"


class _Cut(Canned):
    """A network that loses MongoDB while the feed is fetched."""

    def __init__(self, bodies: dict[str, bytes], cut: contextlib.AbstractContextManager[None]) -> None:
        super().__init__(bodies)
        self._cut = cut

    async def stream_fetches(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
        async for fetched in super().stream_fetches(requests):
            self._cut.__enter__()
            yield fetched


@pytest.mark.parametrize("ways", WAYS, ids="-".join)
def test_F15_a_worker_that_loses_mongodb_stores_each_entry_once(
    network: Network, browser: Visitor, services: Services, ways: tuple[str, ...]
) -> None:
    assert browser.post("/subscribe", {"url": URL}).status_code == 303
    db = services.store.database
    feed_id = int(db.feeds.find_one({})["_id"])  # type: ignore[index]
    with contextlib.ExitStack() as healing:
        cut = network.mongodb.losing(*ways)
        healing.push(cut)
        with pytest.raises(EventrError):
            _pull(network.services, feed_id, _Cut({URL: FEED}, cut))
    # The claim of a worker that is gone runs out; the next one puts in order what it left.
    with clock.set_source(lambda: dt.datetime.now(clock.UTC) + dt.timedelta(hours=1)):
        _pull(network.services, feed_id, Canned({URL: FEED}))
    assert db.entries.count_documents({}) == 2
    assert checks.doubled(db) + checks.unsettled(db) == []


@pytest.mark.parametrize("ways", WAYS, ids="-".join)
def test_F15_a_manager_and_its_workers_that_lose_a_store_run_each_job_once(
    network: Network, services: Services, redis_client: redis.Redis, ways: tuple[str, ...], eventually: Any
) -> None:
    """They lose Redis, which has their jobs, and then MongoDB, which has the data of the jobs."""
    feed_ids = [
        services.gateways.feeds.get_or_create(f"https://f{n}.invalid/", now=clock.now()).id for n in range(5)
    ]
    settings = dataclasses.replace(network.services.settings, stop_grace=1.0, job_backoff=0.05, worker_nice=0)
    settings = dataclasses.replace(settings, queues_file=support.groups(settings))

    def echo(*numbers: int) -> list[Any]:
        return services.jobs.enqueue_many([Job(Task.ECHO, {"n": n}, Queue.PULL) for n in numbers])

    def await_all(tickets: list[Any]) -> None:
        outcomes = services.jobs.await_many(tickets, 90)
        assert [outcome.error for outcome in outcomes] == [None] * len(tickets)
        assert {services.jobs.get_status(ticket.id).crashes for ticket in tickets} == {0}

    with support.running("queue_manager.main", settings, "manager"):
        await_all(echo(*range(5)))
        before = network.redis.connections
        with network.redis.losing(*ways):
            late = echo(*range(10, 20))
            eventually(lambda: network.redis.connections > before, message="somebody connects anew")
        await_all(late)
        pulls = [Job(Task.PULL, {"feed_ids": [feed_id]}, Queue.PULL) for feed_id in feed_ids]
        with network.mongodb.losing(*ways):
            tickets = services.jobs.enqueue_many(pulls)
            # Jobs that need no MongoDB go on.
            await_all(echo(*range(20, 25)))
        await_all(tickets)
    assert set(support.ends(redis_client).values()) == {1}
    assert {doc["error"] for doc in services.store.database.feeds.find()} == {"dns_failed"}


def _pull(services: Services, feed_id: int, network: Canned) -> None:
    gateways = services.gateways
    service = PullService(gateways.feeds, gateways.retention, services.settings, events=services.events)
    failed: list[BaseException] = []

    def work() -> Any:
        try:
            return asyncio.run(service.pull([feed_id], network))
        except EventrError as e:
            failed.append(e)

    elsewhere(work)
    if failed:
        raise failed[0]
