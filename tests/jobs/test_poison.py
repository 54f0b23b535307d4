"""A feed whose body crashes whoever parses it: only that feed may suffer (X03)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app import clock
from app.bootstrap.services import Services
from app.config import Settings
from app.models.accounts.actor import Actor
from app.models.jobs.jobs import Job, Queue, Task
from tests.support import manager
from tests.support.rawserver import RawServer, file_reply

ALICE = Actor(1)
FEEDS, POISONED = 50, 17
RSS = b"<rss version='2.0'><channel><title>Feed %d</title><item><guid>1</guid>%s</item></channel></rss>"

#: Python runs this at the start of every process that finds it on its path: a parser with a fault.
_FAULTY = """
import ctypes
from app.feeds import parse as package

_prepare = package.prepare_source

def prepare_source(body, *args, **options):
    if b"poison" in body:
        ctypes.string_at(0)
    return _prepare(body, *args, **options)

package.prepare_source = prepare_source
"""


@pytest.fixture
def faulty_parser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Child processes get a parser that reads address 0 where a body says ``poison``."""
    folder = tmp_path / "faulty"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_FAULTY)
    monkeypatch.setenv("PYTHONPATH", str(folder))


def test_X03_one_poisonous_feed_costs_the_others_a_retry_only(
    faulty_parser: None, services: Services, settings: Settings, eventually: Callable[..., Any]
) -> None:
    with RawServer({}) as server:
        for number in range(FEEDS):
            body = RSS % (number, b"<title>poison</title>" if number == POISONED else b"<title>fine</title>")
            server.set(f"/{number}", file_reply(body))
        urls = [server.url(f"/{number}") for number in range(FEEDS)]
        feed_ids = [services.subscriptions.subscribe(ALICE, u).subscription.feed_id for u in urls]
        services.jobs.enqueue(Job(Task.PULL_SYSTEM, {"feed_ids": feed_ids}, Queue.PULL_SYSTEM))

        with manager.running(dataclasses.replace(settings, fetch_allow=(server.origin,))):
            eventually(lambda: _polled(services, feed_ids) == FEEDS, message="every feed has its result")
            eventually(lambda: _rests(services, feed_ids[POISONED]), message="the third crash was the last")

    feeds = [services.gateways.feeds.get(feed_id) for feed_id in feed_ids]
    assert [f.last_seq for f in feeds] == [int(n != POISONED) for n in range(FEEDS)]
    assert [f.error for f in feeds if f.error] == ["crashed"]
    assert feeds[POISONED].error == "crashed"


def _polled(services: Services, feed_ids: list[int]) -> int:
    feeds = [services.gateways.feeds.get(feed_id) for feed_id in feed_ids]
    return sum(1 for feed in feeds if feed.last_seq or feed.error)


def _rests(services: Services, feed_id: int) -> bool:
    feed = services.gateways.feeds.get(feed_id)
    return feed.next_check_at is not None and (feed.next_check_at - clock.now()).total_seconds() > 3600
