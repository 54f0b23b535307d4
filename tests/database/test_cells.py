"""People on several replica sets: who is sent where, and what a move or a dead cell refuses to whom."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import datetime as dt
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from pymongo.database import Database
from pymongo.errors import AutoReconnect

from app import clock
from app.adapters.redis import slot as slots
from app.adapters.redis.slot import RedisSlot
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.errors import CellError, MovingError, NotFoundError, SettingsError, StartupError, StoreError
from app.mappers.mongo import ids, store
from app.mappers.mongo.cell_store import CellStore
from app.mappers.mongo.cells import Cells
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.placement import PLACEMENTS, Home
from app.mappers.operations.person_documents import PersonDocuments
from app.mappers.operations.places import PlaceMapper
from app.models.accounts.actor import Actor, Role
from app.models.jobs import redis_keys
from app.models.operations.cells import HOME, SLOTS, Place, PlaceState
from app.models.operations.check_result import Severity
from app.monitoring import health
from app.services.operations import moves as move_service
from tests.support import cells as support
from tests.support import demo as demos
from tests.support import moves, social, talking
from tests.support.cells import CELL, SecondCell, cell_db, second_cell, settings
from tests.support.commands import build_logged_services
from tests.support.demo import Demo
from tests.support.reader import add_user
from tests.support.shortcuts import collect_names, find_shortcuts

__all__ = ["cell_db", "second_cell", "settings"]


def test_each_person_is_sent_to_their_cell(
    services: Services, cell_db: Database[Any], alice: Actor, bob: Actor
) -> None:
    support.move(services, alice.user_id)
    assert services.cells.get_database(alice.user_id).client is cell_db.client
    assert services.cells.get_database(bob.user_id).client is services.store.database.client
    groups = services.cells.group_places([alice.user_id, bob.user_id])
    assert {name: [place.user_id for place in places] for name, places in groups.items()} == {
        CELL: [alice.user_id],
        HOME: [bob.user_id],
    }


def test_writes_of_a_person_who_moves_are_refused(
    services: Services, cell_db: Database[Any], alice: Actor
) -> None:
    place = Place(alice.user_id, HOME)
    moving = services.cells.places.update(place, state=PlaceState.MIGRATING, to=CELL)
    assert moving is not None
    services.cells.forget_places()
    tags = services.cells.get_table("tags")
    assert list(tags.get(alice.user_id).find()) == []
    for write in (
        lambda: tags.get(alice.user_id).insert_one({}),
        lambda: services.cells.get_database(alice.user_id, write=True),
        lambda: services.cells.run_in_transaction(alice.user_id, lambda session: None),
    ):
        with pytest.raises(MovingError):
            write()
    assert services.cells.places.update(place, state=PlaceState.MIGRATING) is None, "it isn't that place"
    assert services.cells.places.update(moving, cell=CELL, state=PlaceState.CLEANING, to=HOME) is not None
    services.cells.forget_places()
    tags.get(alice.user_id).insert_one({"user_id": alice.user_id, "key": "a"})
    assert cell_db["tags"].count_documents({"user_id": alice.user_id}) == 1


def test_without_cells_nothing_is_looked_up(services: Services, alice: Actor) -> None:
    cells = Cells(services.store, {}, "x")
    assert cells.names == [HOME]
    cells.places = None  # type: ignore[assignment]  # a look-up would fail
    assert cells.get_database(alice.user_id) is services.store.database
    assert cells.is_home(alice.user_id)


@pytest.mark.parametrize(
    "value",
    [
        "c1",
        "home=mongodb://a",
        "c1=http://a",
        "c1=mongodb://a c1=mongodb://b",
        "c1=mongodb://",
        "c1=mongodb+srv://",
        "c1=mongodb:///?replicaSet=a",
        "c1=mongodb://a,",
        "c1=mongodb://a:port",
    ],
)
def test_wrong_cells_are_refused_without_their_passwords(value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings(cells=value)
    assert "//a" not in caught.value.message


@pytest.mark.parametrize("address", ["mongodb://a:70000", "mongodb://ann:p%@//a"])
def test_an_address_that_the_driver_refuses_is_a_clear_error(services: Services, address: str) -> None:
    with pytest.raises(StartupError, match="The address of the cell c1 isn't a valid MongoDB URI") as caught:
        Cells(services.store, {"c1": address}, "x")
    assert "//a" not in caught.value.message


@pytest.mark.parametrize(
    "address",
    [
        "mongodb://a",
        "mongodb://ann:p%40ss@a:27017,b.example.org:1/?replicaSet=rs0",
        "mongodb://[::1]:27017/db?tls=true",
        "mongodb+srv://ann:b@a.example.org/",
        "mongodb://%2Frun%2Fmongodb.sock/?directConnection=true",
    ],
)
def test_addresses_of_all_kinds_are_accepted(services: Services, address: str) -> None:
    assert Settings(cells=f"c1={address}").cells
    with contextlib.closing(Cells(services.store, {"c1": address}, "x")) as cells:
        assert cells.names == [HOME, "c1"]


def _find_strays(services: Services) -> dict[str, int]:
    """Return the people's data that lies in the home store."""
    home = services.store.database
    names = [name for name, (where, _) in PLACEMENTS.items() if where is Home.CELL]
    return {name: n for name in names if (n := home[name].count_documents({}))}


@pytest.fixture
def life(services: Services, cell_db: Database[Any]) -> Demo:
    """Everyone of the demo signs up into the second cell: feeds, marks, tags, shares and comments."""
    services.cells.places.set_weights({CELL: 1})
    services.cells.forget_places()
    demo = social.around(demos.fill(services))
    talking.fill(services, demo.ann, demo.entry)
    return demo


def test_all_that_people_do_in_a_cell_stays_in_it(
    services: Services, cell_db: Database[Any], life: Demo
) -> None:
    """And the numbers at home are right once the outbox is settled, as often as it is settled."""
    assert _find_strays(services) == {}
    ann, gateways = life.ann, services.gateways
    assert cell_db["subscriptions"].count_documents({"user_id": ann.user_id}) > len(life.feeds)
    while gateways.outbox.settle_rows(clock.now()):
        pass
    _assert_numbers(services, cell_db)
    assert gateways.outbox.recount(clock.now())[1::2] == (0, 0), "nothing is wrong"

    # Damage of every kind is found and mended by a recount.
    feeds, entries = services.store.database["feeds"], services.store.database["entries"]
    feeds.update_many({}, {"$inc": {"subscribers": 3}})
    entries.update_many({}, {"$inc": {"stars": 2}})
    services.store.database["feed_readers"].update_many({}, {"$inc": {"n": 1}})
    services.store.database["entry_keepers"].delete_many({})
    found = gateways.outbox.recount(clock.now())
    assert found.wrong_feeds > 0
    assert found.wrong_entries > 0
    _assert_numbers(services, cell_db)
    assert gateways.outbox.recount(clock.now())[1::2] == (0, 0)

    # And they stay right when somebody moves, and leaves a feed and a star before the old cell is cleaned.
    services.mover.start(ann.user_id, HOME)
    services.mover.run(ann.user_id, clock.now())
    services.cells.forget_places()
    services.subscriptions.unsubscribe(ann, next(iter(life.feeds.values())))
    starred = services.store.database["marks"].find_one({"user_id": ann.user_id, "starred_at": {"$ne": None}})
    assert starred is not None
    services.reading.set_starred(ann, starred["entry_id"], False)
    assert gateways.outbox.settle_rows(clock.now()), "their rows wait for the end of the move"
    moves.work(services, ann.user_id)
    later = clock.now() + dt.timedelta(minutes=1)
    while gateways.outbox.settle_rows(later):
        pass
    _assert_numbers(services, cell_db)
    assert cell_db["outbox"].count_documents({}) == 0


def test_followed_lists_are_due_in_each_cell_and_move_along(
    services: Services, cell_db: Database[Any], life: Demo
) -> None:
    ann = life.ann
    services.followed_lists.add(ann, "https://lists.example/feeds.opml")
    later = clock.now() + dt.timedelta(days=1)
    before = services.followed_lists.list_lists(ann)
    ids = {doc["_id"] for doc in cell_db["followedlists"].find({"user_id": ann.user_id})}
    assert len(ids) == len(before)
    assert {job.args["list_id"] for job in services.followed_lists.find_due_jobs(later)} == ids
    services.mover.start(ann.user_id, HOME)
    moves.work(services, ann.user_id)
    services.cells.forget_places()
    assert services.followed_lists.list_lists(ann) == before
    assert cell_db["followedlists"].count_documents({}) == 0
    assert {job.args["list_id"] for job in services.followed_lists.find_due_jobs(later)} == ids


def _assert_numbers(services: Services, cell_db: Database[Any]) -> None:
    home = services.store.database
    for feed in home["feeds"].find():
        if feed.get("merged_into") is None:
            mine = {"feed_id": feed["_id"], "paused": None}
            n = sum(store["subscriptions"].count_documents(mine) for store in (home, cell_db))
            assert feed["subscribers"] == n, feed["_id"]
    kept = {"$or": [{"starred_at": {"$type": "date"}}, {"tags": {"$exists": True}}]}
    for entry in home["entries"].find():
        mine = {"entry_id": entry["_id"], **kept}
        n = sum(store["marks"].count_documents(mine) for store in (home, cell_db))
        others = {"of": entry["_id"], "live": True, "_id": {"$ne": entry["_id"]}}
        assert entry.get("stars", 0) == n + home["shares"].count_documents(others), entry["_id"]


def test_an_account_in_a_cell_can_be_undone_exported_and_erased(
    services: Services, cell_db: Database[Any], life: Demo
) -> None:
    ann = life.ann
    feed = next(iter(life.feeds.values()))
    services.subscriptions.restore(ann, services.subscriptions.unsubscribe(ann, feed))
    undo = services.sharing.unshare(ann, life.entry)
    assert undo is not None
    assert services.sharing.restore_share(ann, undo).live
    with pytest.raises(NotFoundError):
        services.sharing.restore_share(ann, undo)
    assert services.gateways.outbox.settle_rows(clock.now())
    add_user(services, "root", Role.ADMIN)
    services.gateways.erasure.begin(ann.user_id, clock.now())
    tomorrow = clock.now() + dt.timedelta(days=1)
    with clock.set_source(lambda: tomorrow):
        assert services.gateways.erasure.finish(ann.user_id, clock.now())
        while services.gateways.outbox.settle_rows(clock.now()):
            pass
    for name in cell_db.list_collection_names():
        assert cell_db[name].count_documents({"user_id": ann.user_id}) == 0, name
    assert services.cells.places.read_place(ann.user_id) is None
    _assert_numbers(services, cell_db)
    assert _find_strays(services) == {}


#: Methods that read or write people's data without knowing whose: they ask every store.
FOR_ALL = {
    "reopening.find_wanted",
    "reopening.find_readers",
    "auto_read.find_users",
    "followed_lists.find_due",
    "erasure.forget",
    "imports._find_waiting",
    "imports.find_pulling",
    "imports.find_unended",
    "feed_words.find_folder_names",
    "feed_words.find_open_readers",
    "notifications.forget",
    "orphans._has_liked_entry",
    "orphans.has_references",
    "privacy.exports.find_stalled",
    "rule_runs.find_waiting",
    "snapshots.find_waiting",
    "subscriptions.find_by_feed",
    "subscriptions.find_followers",
    "subscriptions.find_ruled",
    "subscriptions.has_ruled",
    "subscriptions.find_full_text_feeds",
    "subscriptions.find_notified",
    "subscriptions.find_readers",
    "subscriptions.find_readers_in_parts",
    "subscriptions.set_start",
    "targets.find_due",
    "undo.find_left",
}
#: Functions that open people's data by a name or a database, and why they may.
PAST = {
    # The routing itself.
    *("cells._open", "cells.get", "cells.group_by_people", "cells._write_group"),
    # Indexes of all collections, in each store.
    *("indexes.ensure_cell_indexes", "indexes.ensure_indexes", "indexes.find_missing_indexes"),
    # They count and copy in a store that the outbox or the mover names.
    *("outbox._iterate_marks", "outbox.count_all_readers", "outbox.count_keepers", "outbox.count_readers"),
    *("outbox.find_counted", "outbox.has_pending"),
    *("person_documents.add_documents", "person_documents.add_late", "person_documents.compute_digests"),
    *("person_documents.delete", "person_documents.delete_late", "person_documents.find_filled"),
    *("person_documents.read", "person_documents.remove_all"),
    # They choose the database by person, or ask every store.
    *("erasure._erase_counted", "erasure._erase_in", "erasure.erase", "erasure.forget", "erasure.stop"),
    *("personal_data._batch", "personal_data.list_positions", "personal_data.list_stream_views"),
    *("subscriptions.mark_together", "feed_words.find_folder_names"),
}
APP = Path(__file__).parents[2] / "app"


def test_no_function_opens_peoples_data_past_the_cells() -> None:
    people = {name for name, (where, _) in PLACEMENTS.items() if where is Home.CELL}
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in APP.rglob("*.py")}
    names = collect_names(trees.values())
    past, for_all = set(), set()
    for path, tree in trees.items():
        if "migrations" in path.parts:
            continue  # they run in each store
        found = find_shortcuts(tree, people, names)
        past |= {f"{path.stem}.{name}" for name in found[0]}
        for_all |= {f"{path.stem}.{name}" for name in found[1]}
    assert past == PAST
    assert for_all - {"cells.iterate_tables"} == {name.removeprefix("privacy.") for name in FOR_ALL}


@pytest.mark.parametrize(
    "line",
    [
        "self._database['marks'].find()",
        "self._store.database['marks'].find()",
        "self._held['marks'].find()",
        "self._open('c1')['marks'].find()",
        "given['marks'].find()",
        "(store.database if one else given)['marks'].find()",
        "[each['marks'].find() for each in (store.database, given)]",
        "self._held[NAME].find()",
        "self._held[name].find()",
        "self._held[f'{name}s'].find()",
        "self._held.marks.find()",
        "self._client['eventr']['marks'].find()",
        "anything.get_collection('marks').find()",
        "anything.get_collection(name=NAME).find()",
        "Table(given, 'marks').find()",
        "given.command('find', 'marks')",
        "self._entries.aggregate([{'$lookup': {'from': 'marks', 'as': 'x'}}])",
        "self._entries.aggregate([{'$out': 'marks'}])",
    ],
)
def test_each_short_cut_past_the_cells_is_caught(line: str) -> None:
    assert _find_in(line)[0] == {"find"}


@pytest.mark.parametrize(
    "line",
    [
        "doc['marks']",
        "self._held['entries'].find()",
        "self._held[OTHER].find()",
        "self._marks.get(user_id).find()",
        "given.command('ping')",
        "anything.get_collection('entries')",
    ],
)
def test_what_opens_other_collections_is_no_short_cut(line: str) -> None:
    assert _find_in(line) == (set(), set())


def test_what_asks_every_store_is_found() -> None:
    assert _find_in("self._marks.read_each(read)") == (set(), {"find"})


def _find_in(line: str) -> tuple[set[str], set[str]]:
    """Return what is found in a mapper with this line."""
    code = f"""
NAME, KEPT = "marks", 1
NAME = "marks"
OTHER = "entries"
class Mapper:
    def __init__(self, database: Database[Doc]) -> None:
        self._held = database
    def _open(self, cell: str) -> Database[Doc]: ...
    def find(self, given: Database[Doc], name: str) -> None:
        {line}
"""
    tree = ast.parse(code)
    return find_shortcuts(tree, {"marks"}, collect_names([tree]))


def test_errors_between_two_steps_of_a_mapper_are_translated(
    services: Services, cell_db: Database[Any], second_cell: SecondCell
) -> None:
    """Of a recount, and of a mover that would otherwise go on refusing writes."""
    cell_db["folders"].insert_many([{"user_id": 1} for _ in range(3)])
    store = services.cells.get_store(CELL)
    documents = PersonDocuments(store, 1, "x")
    keys = list(documents.compute_digests("folders", clock.now()))
    second_cell.kill()
    try:
        with pytest.raises(CellError):
            list(services.mappers.outbox.iterate_keepers([HOME, CELL]))
        with pytest.raises(CellError):
            list(documents.read("folders", keys))
        with pytest.raises(CellError):
            list(PlaceMapper(store.database).list_all())
    finally:
        second_cell.start()


def test_errors_of_those_who_use_a_step_pass_through() -> None:
    @translate_errors
    def count() -> Iterator[int]:
        yield from range(3)

    def use() -> None:
        for number in count():
            raise AutoReconnect(str(number))

    with pytest.raises(AutoReconnect):
        use()


def test_a_cell_that_is_down_hurts_only_its_people(
    services: Services, cell_db: Database[Any], second_cell: SecondCell
) -> None:
    services.cells.places.set_weights({CELL: 1})
    ann = add_user(services, "ann")
    services.cells.places.set_weights({CELL: 0, HOME: 1})
    bob = add_user(services, "bob")
    url = "https://one.example.org/feed"
    feed = services.gateways.feeds.get_or_create(url, now=clock.now(), title="One").id
    for who in (ann, bob):
        services.subscriptions.subscribe(who, url)
    second_cell.kill()
    try:
        with pytest.raises(CellError):
            services.subscriptions.get(ann, feed)
        begun = clock.now()
        for _ in range(20):  # nobody waits for it again and again
            with pytest.raises(CellError):
                services.subscriptions.get(ann, feed)
        assert clock.now() - begun < dt.timedelta(seconds=30)
        assert services.subscriptions.get(bob, feed).feed_id == feed
        [check] = health.check_cells(services.settings)
        assert (check.word, CELL in check.text) == (Severity.FAIL, True)
        assert services.mappers.subscriptions.find_readers([feed]) == {feed: [bob.user_id]}
        assert services.gateways.outbox.settle_rows(clock.now()) == 0
        with pytest.raises(CellError):
            services.mappers.orphans.has_references(feed + 1)
    finally:
        second_cell.start()
    [check] = health.check_cells(services.settings)
    assert check.word is Severity.OK
    [check] = health.check_cells(dataclasses.replace(services.settings, cells=""))
    assert "The cell c1 has people (1)" in check.text
    support.wait_until(lambda: services.subscriptions.get(ann, feed).feed_id == feed)
    while services.gateways.outbox.settle_rows(clock.now()):
        pass
    assert services.gateways.feeds.get(feed).subscribers == 2


@pytest.mark.parametrize("count", [0, 1])
def test_what_asks_all_stores_sends_one_command_to_each(
    settings: Settings,
    services: Services,
    second_cell: SecondCell,
    count: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So a job for each cell would cost more than it does: see docs/design/cells.md."""
    spread = dataclasses.replace(settings, cells=settings.cells if count else "")
    with build_logged_services(spread, monkeypatch) as (built, log):
        built.cells.prepare()
        mapper = built.mappers.subscriptions
        for ask in (
            lambda: mapper.find_readers([1, 2]),
            lambda: mapper.find_notified([1, 2], 0, 1000),
            lambda: mapper.find_followers(1, 0, 50),
            lambda: mapper.find_readers_in_parts([1, 2], 1000, lambda _: True),
            lambda: mapper.set_start({1: 5, 2: 5}),
        ):
            log.clear()
            ask()
            assert len(log.commands) == 1 + count


def test_cells_are_pinged_at_the_same_time(
    settings: Settings, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = threading.Barrier(2)
    original = CellStore.ping

    def ping(self: CellStore) -> None:
        together.wait(60)
        original(self)

    monkeypatch.setattr(CellStore, "ping", ping)
    monkeypatch.setattr(store, "TIMEOUT_MS", 300)
    two = dataclasses.replace(settings, cells=f"{settings.cells} c2=mongodb://127.0.0.1:1")
    with contextlib.closing(bootstrap.build(two)) as built:
        rows = built.cell_upkeep.list_cells(Actor(1, Role.ADMIN))
    assert {row.name: row.responding for row in rows} == {HOME: True, CELL: True, "c2": False}


def test_people_are_counted_once_a_minute_for_monitoring(
    services: Services, cell_db: Database[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = add_user(services, "ann")
    before = services.moves.count_people()
    support.move(services, ann.user_id)
    assert services.moves.count_people() == before
    monkeypatch.setattr(move_service, "COUNT_SECONDS", 0.0)
    assert services.moves.count_people() == {HOME: 0, CELL: 1}


def test_no_two_processes_reserve_the_same_id(
    settings: Settings, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = RedisSlot(settings.redis_url), RedisSlot(settings.redis_url)
    mine = [*ids.reserve_slot_ids(one.get_slot(), 300), *ids.reserve_slot_ids(one.get_slot())]
    assert mine == sorted(set(mine))
    assert {i % SLOTS for i in mine} == {one.get_slot()}
    assert one.get_slot() != other.get_slot()
    monkeypatch.setattr(slots, "RENEWED", 0.0)
    assert one.get_slot() == mine[0] % SLOTS, "renewed"
    # Another process has it: this one takes another slot.
    redis_client.set(f"{redis_keys.SLOT}{mine[0] % SLOTS}", "someone else", ex=60)
    assert one.get_slot() not in (mine[0] % SLOTS, other.get_slot())
    monkeypatch.setattr(slots, "USED", 0.0)
    redis_client.client_pause(1500)
    with pytest.raises(StoreError):
        one.get_slot()
