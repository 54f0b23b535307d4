"""Callbacks that never answer, or one byte at a time, hold up no other subscriber (tarpits)."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Iterator

import pytest

from app.bootstrap import services
from app.config import Settings
from app.feeds.fetch.fetcher import Fetcher
from app.models.accounts.actor import Actor
from app.models.jobs.jobs import Task
from app.models.sharing.hub import Subscriber
from tests.sharing.hub.conftest import Now
from tests.support.rawserver import RawServer, Reply
from tests.support.servers import Callback, Server
from tests.support.wire import Wire

#: Longer than any test may take.
EVER = 3600.0


@pytest.fixture
def tarpit() -> Iterator[RawServer]:
    with RawServer(hosts=("127.0.0.2",), default=Reply(delay=EVER)) as made:
        made.set("/drip", Reply(body=b"x" * 1000, drip=(1, 0.05)))
        yield made


@pytest.fixture
def settings(settings: Settings, wire: Wire, callback: Callback, tarpit: RawServer) -> Settings:
    """A server that may reach the tarpit, and whose own patience with feeds would end no test."""
    return dataclasses.replace(
        settings,
        hub_allow=(*settings.hub_allow, tarpit.origin),
        fetch_first_byte_timeout=60,
        fetch_idle_timeout=60,
        fetch_total_timeout=300,
        hub_timeout=8,  # in which good ones answer on a busy machine, too
    )


def _add(server: Server, known: Subscriber, urls: list[str], first: int = 1) -> None:
    """Subscribe these callbacks as well; they come first in each order."""
    rows = server.services.store.database["hubsubs"]
    doc = rows.find_one_and_delete({"_id": known.id}) or {}
    host = urls[0].split("/")[2].split(":")[0]
    rows.insert_many([{**doc, "_id": first + n, "callback": url, "host": host} for n, url in enumerate(urls)])
    rows.insert_one(doc)


def _push(server: Server, feed_id: int, seconds: float) -> dict[str, int]:
    return asyncio.run(server.services.hub.push_changes(feed_id, server.fetcher, seconds=seconds))


@pytest.mark.parametrize("path", ["/0", "/drip"])
def test_a_push_has_so_much_time_and_no_more(
    server: Server, ann: Actor, entries: list[int], callback: Callback, tarpit: RawServer, path: str
) -> None:
    row = server.subscribe(callback.url())
    assert row is not None
    _add(server, row, [tarpit.url(path)])
    server.services.sharing.share(ann, entries[0])
    assert _push(server, row.feed_id, 600) == {"pushed": 1, "dropped": 0}
    slow = server.services.mappers.hubs.find(1)
    assert slow is not None
    assert slow.failures == 1


def test_a_silent_host_rests_with_all_its_callbacks(
    server: Server, ann: Actor, entries: list[int], callback: Callback, tarpit: RawServer, now: Now
) -> None:
    """However many there are, one batch of them is asked, and then come the others."""
    with contextlib.closing(
        services.build(dataclasses.replace(server.services.settings, hub_batch=2))
    ) as few:
        row = server.subscribe(callback.url())
        assert row is not None
        _add(server, row, [tarpit.url(f"/{n}") for n in range(8)])
        few.sharing.share(ann, entries[0])
        with Fetcher(few.settings) as fetcher:
            done = asyncio.run(few.hub.push_changes(row.feed_id, fetcher, seconds=60))
    assert done == {"pushed": 1, "dropped": 0}
    assert len(tarpit.requests) == 2
    hubs = server.services.mappers.hubs
    assert [hubs.find(n).failures for n in range(1, 9)] == [1, 1, 0, 0, 0, 0, 0, 0]  # type: ignore[union-attr]
    assert hubs.claim_subscribers(row.feed_id, now(), now(), 10) == []
    now.go(seconds=90)
    assert len(hubs.claim_subscribers(row.feed_id, now(), now(), 10)) == 8, "they are tried again"


def test_who_failed_before_comes_last(
    server: Server, ann: Actor, entries: list[int], callback: Callback, now: Now
) -> None:
    row = server.subscribe(callback.url())
    assert row is not None
    _add(server, row, [callback.url(f"/{n}") for n in range(3)])
    rows = server.services.store.database["hubsubs"]
    rows.update_many({"_id": {"$lt": 4}}, {"$set": {"failures": 2, "push_at": now.at, "owed": now.at}})
    now.go(seconds=1)
    server.services.sharing.share(ann, entries[0])
    hubs = server.services.mappers.hubs
    hubs.mark_owed(row.feed_id, now())
    assert [t.id for t in hubs.claim_subscribers(row.feed_id, now(), now(), 2)] == [row.id, 1]


def test_questions_are_asked_together_and_by_one_job(
    server: Server, ann: Actor, callback: Callback, tarpit: RawServer, now: Now
) -> None:
    """Anybody may name any address as a callback: his costs a worker one place, whatever it does."""
    urls = [*(tarpit.url(f"/{n}") for n in range(3)), callback.url()]
    for url in urls:
        assert server.post(mode="subscribe", topic=server.topic(), callback=url) == (202, "")
        now.go(seconds=1)
    ids = [row.id for url in urls if (row := server.row(url))]

    async def ask() -> list[object]:
        hub = server.services.hub
        jobs = [hub.verify_intents(i, server.fetcher) for i in ids]
        return [done["confirmed"] for done in await asyncio.gather(*jobs)]

    assert asyncio.run(ask()) == [False, None, None, None]
    good = server.row(callback.url())
    assert good is not None
    assert good.since is not None
    asked = [row.ask for url in urls[:3] if (row := server.row(url))]
    assert [ask and ask.failures for ask in asked] == [1, 1, 1]
    assert [job for job in server.services.hub.find_due_jobs(now(), 10) if job.task is Task.HUB_VERIFY] == []
