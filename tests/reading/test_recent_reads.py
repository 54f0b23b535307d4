"""The stream of recently read entries: what counts as reading, its order, its limit, and who sees it."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import random
from collections.abc import Callable, Iterator

import pytest

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.errors import InvalidError
from app.models.accounts.actor import Actor
from app.models.reading.stream import EntryRow, Show, Sort, StreamQuery, StreamRef
from tests.reading.test_marking import follow
from tests.support.database import NOW, World

ALL, RECENT = StreamRef.parse("all"), StreamRef.parse("recent")
Eventually = Callable[..., object]


class Clock:
    """A clock that moves on by a second per look."""

    def __init__(self) -> None:
        self.time = NOW

    def __call__(self) -> dt.datetime:
        self.time += dt.timedelta(seconds=1)
        return self.time


@pytest.fixture(autouse=True)
def ticking() -> Iterator[None]:
    with clock.set_source(Clock()):
        yield


def list_rows(
    services: Services, who: Actor, *, sort: Sort = Sort.UNREAD_ON_TOP, limit: int = 50
) -> list[EntryRow]:
    page = services.reading.load_page(who, StreamQuery(RECENT, sort, limit=limit))
    rows = list(page.rows)
    while page.cursor is not None:
        page = services.reading.load_page(who, StreamQuery(RECENT, sort, page.cursor, page.snapshot, limit))
        rows += page.rows
    return rows


def list_ids(services: Services, who: Actor, sort: Sort = Sort.UNREAD_ON_TOP) -> list[int]:
    return [row.id for row in list_rows(services, who, sort=sort)]


def list_unread(services: Services, who: Actor) -> list[int]:
    return [row.id for row in services.reading.load_page(who, StreamQuery(ALL, Sort.NEWEST)).rows]


def test_entries_are_listed_by_the_time_of_reading(
    world: World, alice: Actor, bob: Actor, eventually: Eventually
) -> None:
    services = world.services
    follow(world, alice, [1, 3, 5], [2, 4, 6])
    ids = list_unread(services, alice)
    order = [ids[2], ids[5], ids[0]]
    for one in order:
        services.reading.mark(alice, [one], True)
    eventually(lambda: list_ids(services, alice) == order[::-1])
    assert list_ids(services, alice, Sort.OLDEST) == order
    rows = list_rows(services, alice)
    assert all(row.read for row in rows)
    times = [row.read_at for row in rows if row.read_at]
    assert len(times) == 3
    assert times == sorted(times, reverse=True)
    assert not any(row.read_at for row in services.reading.load_page(alice, StreamQuery(ALL)).rows)
    # Read again: to the front, once.
    services.reading.mark(alice, [ids[2]], False)
    assert list_ids(services, alice) == order[::-1]
    services.reading.mark(alice, [ids[2]], True)
    eventually(lambda: list_ids(services, alice) == [ids[2], ids[0], ids[5]])
    assert list_ids(services, bob) == []
    unread = services.reading.load_page(alice, StreamQuery(RECENT, show=Show.UNREAD))
    assert [row.id for row in unread.rows] == [ids[2], ids[0], ids[5]]


def test_entries_of_one_request_keep_their_order(world: World, alice: Actor, eventually: Eventually) -> None:
    services = world.services
    follow(world, alice, [1, 2, 3, 4])
    ids = list_unread(services, alice)
    services.reading.mark(alice, [ids[1], ids[3], ids[0]], True)
    eventually(lambda: list_ids(services, alice) == [ids[0], ids[3], ids[1]])


def test_mass_marks_are_not_reading(world: World, alice: Actor, eventually: Eventually) -> None:
    services = world.services
    follow(world, alice, list(range(1, 31)))
    ids = list_unread(services, alice)
    page = services.reading.load_page(alice, StreamQuery(ALL, Sort.NEWEST))
    services.marking.mark_above(alice, ALL, page.snapshot, ids[3])
    services.reading.mark(alice, ids[3:24], True)  # one more than counts as one by one
    services.reading.mark_all(alice, ALL)
    services.reading.mark(alice, [ids[29]], True)
    eventually(lambda: list_ids(services, alice) == [ids[29]])


def test_the_list_keeps_the_latest(
    services: Services, world: World, alice: Actor, eventually: Eventually
) -> None:
    follow(world, alice, list(range(1, 9)))
    ids = list_unread(services, alice)
    settings = dataclasses.replace(services.settings, recent_reads_max=5)
    with contextlib.closing(bootstrap.build(settings)) as small:
        for one in ids:
            small.reading.mark(alice, [one], True)
        eventually(lambda: list_ids(small, alice) == ids[:2:-1])
        (doc,) = services.store.database["recentreads"].find({"user_id": alice.user_id})
        assert len(doc["reads"]) == 5


def test_opening_a_read_entry_counts_except_in_the_list_itself(
    world: World, alice: Actor, eventually: Eventually
) -> None:
    services = world.services
    follow(world, alice, [1, 2, 3])
    ids = list_unread(services, alice)
    services.reading.record_opened(
        alice, services.reading.get_article(alice, ids[0]), ALL
    )  # its mark follows
    for one in ids[:2]:
        services.reading.mark(alice, [one], True)
    eventually(lambda: list_ids(services, alice) == [ids[1], ids[0]])
    article = services.reading.get_article(alice, ids[0])
    services.reading.record_opened(alice, article, RECENT)
    services.reading.mark(alice, [ids[2]], True)
    eventually(lambda: list_ids(services, alice) == [ids[2], ids[1], ids[0]])
    services.reading.record_opened(alice, article, ALL)
    eventually(lambda: list_ids(services, alice) == [ids[0], ids[2], ids[1]])


def test_feeds_that_were_left_and_entries_that_are_gone_are_left_out(
    world: World, alice: Actor, eventually: Eventually
) -> None:
    services = world.services
    one, two = follow(world, alice, [1, 3, 5], [2, 4, 6])
    ids = list_unread(services, alice)
    for entry in ids:
        services.reading.mark(alice, [entry], True)
    eventually(lambda: len(list_ids(services, alice)) == 6)
    services.store.database["entries"].delete_one({"_id": ids[0]})
    services.subscriptions.unsubscribe(alice, two)
    kept = services.reading.load_page(alice, StreamQuery(StreamRef.parse(f"feed/{one}"), Sort.NEWEST)).rows
    assert list_ids(services, alice) == [row.id for row in kept][::-1]
    # A page is full although the latest ones are left out.
    page = services.reading.load_page(alice, StreamQuery(RECENT, limit=1))
    assert [row.id for row in page.rows] == [kept[-1].id]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("sort", [Sort.NEWEST, Sort.OLDEST])
def test_pages_neither_repeat_nor_lose_entries(
    world: World, alice: Actor, eventually: Eventually, seed: int, sort: Sort
) -> None:
    services, dice = world.services, random.Random(seed)
    follow(world, alice, list(range(1, 14)), list(range(3, 14)))
    ids = list_unread(services, alice)
    dice.shuffle(ids)
    read = ids[: dice.randint(5, len(ids))]
    for start in range(0, len(read), 3):
        services.reading.mark(alice, read[start : start + 3], True)
    eventually(lambda: list_ids(services, alice) == read[::-1])
    limit = dice.randint(1, 5)
    rows = list_rows(services, alice, sort=sort, limit=limit)
    assert [row.id for row in rows] == (read if sort is Sort.OLDEST else read[::-1])
    # Meanwhile one more is read: the pages after it stay as they are.
    first = services.reading.load_page(alice, StreamQuery(RECENT, Sort.NEWEST, limit=limit))
    services.reading.mark(alice, [first.rows[0].id], False)
    services.reading.mark(alice, [first.rows[0].id], True)
    found, page = [row.id for row in first.rows], first
    while page.cursor is not None:
        page = services.reading.load_page(
            alice, StreamQuery(RECENT, Sort.NEWEST, page.cursor, page.snapshot, limit)
        )
        found += [row.id for row in page.rows]
    assert found == read[::-1]


def test_the_list_is_marked_row_by_row_only(world: World, alice: Actor, eventually: Eventually) -> None:
    services = world.services
    follow(world, alice, [1, 2, 3])
    ids = list_unread(services, alice)
    services.reading.mark(alice, ids, True)
    eventually(lambda: len(list_ids(services, alice)) == 3)
    services.reading.mark(alice, ids, False)
    with pytest.raises(InvalidError):
        services.reading.mark_all(alice, RECENT)
    page = services.reading.load_page(alice, StreamQuery(RECENT))
    listed = [row.id for row in page.rows]
    done = services.marking.mark_below(alice, RECENT, page.snapshot, listed[0])
    assert done.count == 2
    after = services.reading.find_following(alice, StreamQuery(RECENT), listed[0], 5, was_read=True)
    assert [entry.id for entry, _ in after] == listed[1:]


def test_a_left_account_leaves_no_list(world: World, alice: Actor, eventually: Eventually) -> None:
    services = world.services
    follow(world, alice, [1])
    services.reading.mark(alice, list_unread(services, alice), True)
    reads = services.store.database["recentreads"]
    eventually(lambda: reads.count_documents({"user_id": alice.user_id}) == 1)
    services.mappers.erasure.erase(alice.user_id, clock.now())
    assert reads.count_documents({}) == 0
