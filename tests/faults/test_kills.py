"""F01, F02, F04, F05, F14: parts are killed, Redis is emptied, and nothing that was promised is lost."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.faults.system import System
from tests.jobs import support

pytestmark = pytest.mark.timeout(3000)

#: Weights of the parts among random kills: workers do the work, so most blows are theirs.
VICTIMS = {"worker": 12, "manager": 3, "controller": 2, "updater": 2, "web": 1}
KILLS = 50


def test_F01_F14_random_kills_during_an_import_of_the_corpus(system: System, scale: int) -> None:
    """Two people import the same list at once; others' feeds are refreshed; parts die all the time."""
    urls, kills = (system.farm.corpus(1000), KILLS) if scale > 1 else (system.farm.corpus(40), 4)
    first, second, other = system.user(), system.user(), system.user()
    system.subscribe(other, system.farm.growing(10 * scale))
    with ThreadPoolExecutor(2) as people:
        imports = [people.submit(system.subscribe, who, urls) for who in (first, second)]
        blows = _plan(system, kills)
        if scale > 1:
            blows[kills // 3] = ("redis emptied",)
            blows[2 * kills // 3] = ("mongodb",)
        for blow in blows:
            if blow == ("redis emptied",):
                system.empty_redis()
            else:
                system.strike(*blow)
        ids = [done.result() for done in imports]
    assert ids[0] == ids[1], "one feed for each address, whoever asks"
    system.wait(lambda: system.stored(urls), "the import is complete")
    assert system.subscribe(first, urls) == ids[0]
    for who in (first, second):
        assert system.db.subscriptions.count_documents({"user_id": who.user_id}) == len(urls)


def _plan(system: System, kills: int) -> list[tuple[str, ...]]:
    """Draw blows; now and then two parts fall at once."""
    rng, names = system.rng, list(VICTIMS)
    plan: list[tuple[str, ...]] = []
    for part in rng.choices(names, list(VICTIMS.values()), k=kills):
        others = [name for name in names if name != part]
        plan.append((part,) if rng.random() < 0.8 else (part, rng.choice(others)))
    return plan


def test_F02_killed_managers_take_no_job_along(system: System, scale: int, in_a_row: int) -> None:
    start, count = 1_000_000, 50 * scale
    jobs = system.services.jobs
    tickets = jobs.enqueue_many(support.effects(count, seconds=0.2, start=start))
    with ThreadPoolExecutor(1) as waiter:
        waiting = waiter.submit(lambda: {o.id: o.error for o in jobs.await_many(tickets, 900)})
        for _ in range(in_a_row):
            system.strike("manager")
        assert waiting.result() == {ticket.id: None for ticket in tickets}
    wanted = range(start, start + count)  # others may have left traces of theirs before
    traces = [trace for trace in support.traces(system.client) if trace[0] in wanted]
    assert {key for key, _ in traces} == set(wanted)
    assert len(set(traces)) == len(traces), "no attempt did its work twice"


def test_F04_who_waits_gets_each_result_over_a_killed_controller(
    system: System, scale: int, in_a_row: int
) -> None:
    jobs = system.services.jobs
    got: list[str] = []
    tickets = jobs.enqueue_many(support.effects(80 * scale, seconds=0.3, start=2_000_000))

    def wait() -> None:
        got.extend(outcome.id for outcome in jobs.await_many(tickets, 900))

    waiting = threading.Thread(target=wait)
    waiting.start()
    for _ in range(in_a_row):
        system.strike("controller")
    waiting.join()
    assert sorted(got) == sorted(ticket.id for ticket in tickets), "each once"


def test_F05_a_redis_that_starts_empty_costs_no_feed_its_entries(system: System, scale: int) -> None:
    reader = system.user()
    urls = system.farm.growing(20 * scale)
    system.subscribe(reader, urls)
    system.strike("redis")
    more = system.farm.growing(20 * scale)
    system.subscribe(reader, more)
    system.empty_redis()
    # Nobody asks for these: the updater finds in MongoDB what is due.
    system.wait(lambda: all(system.farm.expected(url) for url in urls + more), "every feed is asked")
    system.wait(lambda: system.stored(urls + more), "every entry is stored")
