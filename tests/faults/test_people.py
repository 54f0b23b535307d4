"""F03, F06, F08: what people were told is what is stored, whatever is killed or frozen while they read."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.embedded.child import poll
from app.models.accounts.actor import Actor
from tests.faults import checks
from tests.faults.history import Reader, answered
from tests.faults.system import LONG, System

pytestmark = pytest.mark.timeout(3000)

READERS = 16 if LONG else 4
#: Answers that each of them gets at least, and at most until he has done everything once.
LEAST, MOST = 40, 2000
#: What each of them has done, as it is answered then.
DONE = {("mark", 303), ("star", 303), ("follow", 303), ("mass", 200), ("undo", 303)}
#: A frozen MongoDB, seconds; the short form thaws it as soon as a reader was refused.
FROZEN = 30.0 if LONG else 0.0


def test_F03_a_killed_web_tier_keeps_all_that_it_acknowledged(system: System, in_a_row: int) -> None:
    readers = _readers(system)
    _act_under(readers, lambda: [system.strike("web") for _ in range(in_a_row)])
    _judge(system, readers)


def test_F06_a_killed_mongodb_keeps_all_that_was_acknowledged(system: System, in_a_row: int) -> None:
    readers = _readers(system)
    _act_under(readers, lambda: [system.strike("mongodb") for _ in range(in_a_row)])
    _judge(system, readers)


def test_F08_a_frozen_mongodb_refuses_and_keeps_what_it_acknowledged(system: System) -> None:
    readers = _readers(system)
    _act_under(readers, lambda: _freeze_mongodb(system, readers))
    _judge(system, readers)
    assert [status for (_, status) in answered(readers) if status == 503], "who writes is told: not now"


def _readers(system: System) -> list[Reader]:
    """Let some people follow feeds with entries, and know of others."""
    urls, others = system.farm.corpus(3), system.farm.corpus(3)
    first = system.user()
    system.subscribe(first, urls)
    system.wait(lambda: system.stored(urls), "there is something to read")
    with ThreadPoolExecutor(4) as crowd:
        seeds = [system.rng.randrange(1 << 32) for _ in range(READERS)]
        return list(crowd.map(lambda seed: _reader(system, urls, others, seed), seeds))


def _reader(system: System, urls: list[str], others: list[str], seed: int) -> Reader:
    actor, browser = system.person()
    feed_ids = system.subscribe(actor, urls)
    state = {s.feed_id: s.state for s in system.services.mappers.subscriptions.find_by_user(actor.user_id)}
    found = system.db.entries.find({"feed_id": {"$in": feed_ids}}, {"feed_id": 1, "seq": 1})
    entries = {e["_id"]: state[e["feed_id"]].is_read(e["seq"]) for e in found}
    return Reader(actor, browser, entries, others, seed)


def _act_under(readers: list[Reader], blows: Callable[[], object]) -> None:
    """Let all read at once, until the blows are over and each has done enough."""
    over = threading.Event()

    def enough(reader: Reader) -> bool:
        # Chance may let him do no mass action, or not take one back, for long.
        return reader.answered >= (LEAST if reader.answers.keys() >= DONE else MOST)

    def read(reader: Reader) -> None:
        while not over.is_set() or not enough(reader):
            reader.act()

    with ThreadPoolExecutor(len(readers)) as crowd:
        reading = [crowd.submit(read, reader) for reader in readers]
        try:
            blows()
        finally:
            over.set()
        for done in reading:
            done.result()


def _freeze_mongodb(system: System, readers: list[Reader]) -> None:
    pid = system.up.pids()["mongodb"]
    os.kill(pid, signal.SIGSTOP)
    try:
        system.wait(lambda: [s for _, s in answered(readers) if s == 503], "somebody is refused")
        poll(lambda: False, FROZEN)
    finally:
        os.kill(pid, signal.SIGCONT)
    system.wait(lambda: system.up.status("/healthz") == 200, "pages are there again")


def _judge(system: System, readers: list[Reader]) -> None:
    # Done, "not now", "no such thing", or nobody there: never a page that looks as if it were done.
    answers = answered(readers)
    assert {status for _, status in answers} <= {200, 303, 404, 503, None}, answers
    assert answers.keys() >= DONE, answers
    system.wait_sound(
        lambda: [p for reader in readers for p in reader.problems(system.services)], "what was told is stored"
    )
    for reader in readers:
        _counts_are_right(system, reader.actor)


def _counts_are_right(system: System, actor: Actor) -> None:
    """R03: the number that a page shows is a recount of what is stored."""
    browser = system.browser(actor)
    system.wait(lambda: browser.json("/api/counts"), "the page has its counts")
    assert browser.json("/api/counts")["total"] == checks.unread(system.db, actor.user_id)
