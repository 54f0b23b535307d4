"""F04: browsers keep their streams over killed controllers: nothing is missed, nothing comes twice."""

from __future__ import annotations

import collections
import json
import threading
from typing import Any

import pytest

from app.models.jobs import redis_keys
from app.models.notifications.events import EventKind
from controller.audience import REPLAY_MAX
from tests.faults.browser import Browser
from tests.faults.ears import Crowd, Ear
from tests.faults.system import LONG, System

pytestmark = pytest.mark.timeout(3000)

PEOPLE, EARS_EACH = (20, 10) if LONG else (4, 5)
#: Events of one kill: fewer than are replayed to who comes back, so that nobody may be told to begin anew.
MARKS = 300 if LONG else 80
assert MARKS < REPLAY_MAX // 2


def test_F04_browsers_show_what_a_reload_shows_over_killed_controllers(system: System, in_a_row: int) -> None:
    urls = system.farm.growing(3)
    people = [system.person() for _ in range(PEOPLE)]
    feed_ids = {feed_id for actor, _ in people for feed_id in system.subscribe(actor, urls)}
    system.wait(lambda: all(map(system.farm.expected, urls)) and system.stored(urls), "there is news")
    system.farm.freeze()
    system.wait(lambda: system.stored(urls), "and then there is none")
    ears = [
        Ear(actor, system.browser(actor), system.rng.randrange(1 << 32))
        for actor, _ in people
        for _ in range(EARS_EACH)
    ]
    with system.quiet():  # who stores entries tells of them a moment later
        start = system.services.events.get_position()
    with Crowd(ears):
        system.wait(lambda: all(ear.counts for ear in ears), "all listen")
        system.farm.freeze(False)
        for number in range(1, in_a_row + 1):
            # All: who is away for several kills misses more than is replayed.
            system.wait(lambda: all(ear.listens for ear in ears), "all listen again")
            system.wait(lambda n=number: _told(system, start, feed_ids).total() >= n, "there is news")
            # Who has heard nothing yet has no place to go on from, and begins with the counts of then.
            system.wait(lambda: all(ear.told for ear in ears), "all have heard of some")
            _act_under_a_kill(system, [browser for _, browser in people], feed_ids)
        system.farm.freeze()
        system.wait(lambda: system.stored(urls), "the last news is stored")
        system.wait_sound(lambda: _stale(system, ears), "each shows what a reload shows")
        told = _told(system, start, feed_ids)
        system.wait_sound(lambda: _missed(ears, told), "each was told of all, and of nothing twice")
        system.wait(lambda: min(ear.opened for ear in ears) > 1, "all lost their stream and came back")
    assert not sum(ear.resets for ear in ears), "nobody had to begin anew"


def _act_under_a_kill(system: System, browsers: list[Browser], feed_ids: set[int]) -> None:
    """People mark entries while nobody passes that on, and when somebody does again."""
    entries = [e["_id"] for e in system.db.entries.find({"feed_id": {"$in": list(feed_ids)}, "seq": 1})]
    killing = threading.Thread(target=lambda: system.strike("controller"))
    killing.start()
    for number in range(MARKS // len(browsers)):
        for browser in browsers:
            entry, on = entries[number % len(entries)], str(number % 2 > 0).lower()
            assert browser.post("/entries/mark", entry=entry, read=on) == 303
    killing.join()


def _stale(system: System, ears: list[Ear]) -> list[str]:
    """Say who shows something else than a reload does."""
    now: dict[int, Any] = {}
    for ear in ears:
        if ear.actor.user_id not in now:
            now[ear.actor.user_id] = system.browser(ear.actor).json("/api/counts")
    return [
        f"F04: {ear.counts} is shown to {ear.actor.user_id}, not {now[ear.actor.user_id]}"
        for ear in ears
        if ear.counts != now[ear.actor.user_id]
    ]


def _told(system: System, start: str, feed_ids: set[int]) -> collections.Counter[int]:
    """Add up what the stream for people says about these feeds from a place on."""
    rows: list[Any] = system.client.xrange(redis_keys.PEOPLE, min=f"({start}")  # type: ignore[assignment]
    told: collections.Counter[int] = collections.Counter()
    for _, row in rows:
        if row[b"kind"].decode() == EventKind.NEW:
            told.update(
                {int(feed): n for feed, n in json.loads(row[b"data"]).items() if int(feed) in feed_ids}
            )
    return told


def _missed(ears: list[Ear], told: collections.Counter[int]) -> list[str]:
    return [
        f"F04: {ear.actor.user_id} heard {ear.told}, not {told} ({ear.opened} streams, {ear.resets} resets)"
        for ear in ears
        if ear.told != told
    ]
