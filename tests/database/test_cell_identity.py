"""Each cell's database knows whose it is: a wrong address in EVENTR_CELLS stops processes and movers."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pymongo.database import Database

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.commands.stores import require_stores
from app.config import Settings
from app.errors import CellError, CellMismatchError, StartupError
from app.mappers.mongo import cell_store, cell_watch, cells, store
from app.mappers.mongo.cell_store import CellStore
from app.mappers.mongo.migrations.run import Migration, Run
from app.mappers.mongo.migrations.schema import COLLECTION
from app.models.accounts.actor import Actor
from app.models.operations.cells import HOME
from app.models.operations.check_result import Severity
from app.monitoring import health
from tests.operations.test_move_commands import run
from tests.support.cells import CELL, SecondCell, cell_db, move, second_cell, settings, wait_until
from tests.support.database import World, world
from tests.support.reader import add_user

__all__ = ["cell_db", "second_cell", "settings", "world"]


@contextlib.contextmanager
def build_with(settings: Settings, value: str) -> Iterator[Services]:
    with contextlib.closing(bootstrap.build(dataclasses.replace(settings, cells=value))) as built:
        yield built


def get_name(database: Database[Any]) -> Any:
    return (database[COLLECTION].find_one({"_id": "cell"}) or {}).get("name")


@pytest.fixture
def ann(services: Services, cell_db: Database[Any], world: World) -> Actor:
    """A reader of a feed, at home."""
    ann = add_user(services, "ann")
    services.subscriptions.subscribe(ann, services.gateways.feeds.get(world.feed()).url)
    return ann


def _find_wrong(settings: Settings, cell: SecondCell, which: str) -> tuple[str, str]:
    """Return a wrong EVENTR_CELLS, and what the error must name."""
    if which == "home":
        return f"c9={settings.mongodb_uri}", "c9 leads to the database of the cell home"
    return f"{CELL}={cell.uri} c9={cell.uri}", "c9 leads to the database of the cell c1"


@pytest.mark.parametrize("which", ["home", "twice"])
def test_a_cell_with_the_address_of_another_one_stops_processes_and_moves(
    settings: Settings, services: Services, second_cell: SecondCell, ann: Actor, which: str
) -> None:
    value, text = _find_wrong(settings, second_cell, which)
    if which == "twice":
        move_to(services, ann, CELL)
    held = services.cells.get_database(ann.user_id)
    begun = services.cells.places.update(_find_place(services, ann), to="c9", step="copy")
    assert begun is not None
    with build_with(settings, value) as wrong:
        for start in (wrong.migrate, lambda: require_stores(wrong.settings)):
            with pytest.raises(StartupError, match=text):
                start()
        with pytest.raises(CellMismatchError, match=text):
            wrong.mover.run(ann.user_id, clock.now())
        bob = add_user(services, "bob")
        with pytest.raises(CellMismatchError, match=text):
            wrong.mover.start(bob.user_id, "c9")
        with pytest.raises(CellError):
            wrong.cells.get_store("c9")
    assert held["subscriptions"].count_documents({"user_id": ann.user_id}) == 1


def move_to(services: Services, who: Actor, cell: str) -> None:
    assert services.mover.start(who.user_id, cell)
    assert services.mover.run(who.user_id, clock.now()).state == "moved"
    services.cells.forget_places()


def _find_place(services: Services, who: Actor) -> Any:
    return services.cells.places.read_place(who.user_id) or services.cells.find_place(who.user_id)


def test_swapped_addresses_stop_processes_and_sweeps(
    settings: Settings, services: Services, cell_db: Database[Any], ann: Actor
) -> None:
    """Even where it is the home store that was swapped."""
    home = services.store.database
    identity = {"_id": "cell"}
    cell_db[COLLECTION].update_one(identity, {"$set": {"name": "c2"}})
    with pytest.raises(StartupError, match="c1 leads to the database of the cell c2"):
        require_stores(settings)
    with pytest.raises(CellMismatchError):
        services.mover._sweep_cell(_find_place(services, ann), CELL)
    cell_db[COLLECTION].update_one(identity, {"$set": {"name": CELL}})
    require_stores(settings)
    home[COLLECTION].update_one(identity, {"$set": {"name": "c2", "prepared": ["1-a"]}})
    try:
        for value in ("", settings.cells):
            with pytest.raises(StartupError, match="home leads to the database of the cell c2"):
                require_stores(dataclasses.replace(settings, cells=value))
    finally:
        home[COLLECTION].update_one(identity, {"$set": {"name": HOME, "prepared": []}})


def test_a_running_installation_gets_its_identities_at_the_first_start(
    settings: Settings, services: Services, cell_db: Database[Any], ann: Actor
) -> None:
    for database in (services.store.database, cell_db):
        database[COLLECTION].delete_one({"_id": "cell"})
    services.store.database["cells"].delete_many({})
    with build_with(settings, settings.cells) as upgraded:
        upgraded.migrate()
        assert (get_name(services.store.database), get_name(cell_db)) == (HOME, CELL)
        move_to(upgraded, ann, CELL)
        assert [each.feed_id for each in upgraded.mappers.subscriptions.find_by_user(ann.user_id)]


def test_an_empty_database_is_not_taken_for_a_cell_that_had_one(
    settings: Settings, services: Services, cell_db: Database[Any], ann: Actor
) -> None:
    """A replica set that was replaced, or set up anew: its people would find nothing, and write to it."""
    with build_with(settings, settings.cells) as built:
        move_to(built, ann, CELL)
    for name in cell_db.list_collection_names():
        cell_db[name].delete_many({})
    with build_with(settings, settings.cells) as built:
        with pytest.raises(StartupError, match="c1 leads to an empty database"):
            require_stores(built.settings)
        with pytest.raises(StartupError, match="restore the cell from its backup"):
            built.cells.prepare_missing()
        with pytest.raises(CellMismatchError):
            built.mover.start(add_user(services, "eve").user_id, CELL)
        with pytest.raises(CellError):
            built.mappers.subscriptions.find_by_user(ann.user_id)
    assert get_name(cell_db) is None
    assert any("an empty database" in check.text for check in health.check_cells(settings))
    assert "There is no cell named c7" in run(services, "cells", "--empty", "c7", code=1)
    assert [row["responding"] for row in run(services, "cells", "--empty", CELL)["cells"]] == [True, True]
    assert get_name(cell_db) == CELL
    with build_with(settings, settings.cells) as built:
        require_stores(built.settings)
        assert built.mappers.subscriptions.find_by_user(ann.user_id) == []


def test_without_cells_nothing_is_written(
    settings: Settings, services: Services, cell_db: Database[Any]
) -> None:
    services.store.database[COLLECTION].delete_one({"_id": "cell"})
    with build_with(settings, "") as single:
        single.migrate()
    assert get_name(services.store.database) is None


# -- cells that aren't prepared


def test_eventr_starts_while_a_cell_is_down_and_prepares_it_later(
    settings: Settings,
    services: Services,
    cell_db: Database[Any],
    second_cell: SecondCell,
    ann: Actor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store, "TIMEOUT_MS", 500)
    monkeypatch.setattr(cell_watch, "PAUSE_SECONDS", 600.0)
    # An upgrade with a new index.
    bob = add_user(services, "bob")
    move(services, bob.user_id)
    cell_db["subscriptions"].drop_indexes()
    cell_db[COLLECTION].update_one({"_id": "cell"}, {"$set": {"prepared": ["0-before"]}})
    second_cell.kill()
    try:
        with build_with(settings, settings.cells) as built:
            require_stores(built.settings)
            built.migrate()
            assert built.mappers.subscriptions.find_by_user(ann.user_id), "others read"
            built.cells.prepare_missing()
            assert not built.cells._get_cells()[0].is_prepared
            second_cell.start()
            wait_until(lambda: bool(cell_db.client.admin.command("ping")))
            with pytest.raises(CellError):
                built.mappers.subscriptions.find_by_user(bob.user_id)
            built.cells.prepare_missing()
            assert not built.cells._get_cells()[0].is_prepared, "only one thread asks a cell that is down"
            built.cells._get_cells()[0].watch._ask_now.set()

            def prepare() -> bool:
                built.cells.prepare_missing()
                return built.cells._get_cells()[0].is_prepared

            wait_until(prepare)
            assert built.mappers.subscriptions.find_by_user(bob.user_id) == []
    finally:
        if not second_cell.server.is_responding():
            second_cell.start()
    assert len(cell_db["subscriptions"].index_information()) > 1
    assert cell_db[COLLECTION].find_one({"_id": "cell"}, {"_id": 0}) == {
        "name": CELL,
        "prepared": ["0-before", cell_store.compute_program(())],
    }


# -- processes that don't know a cell


def test_a_process_that_does_not_know_a_cell_does_not_start(
    settings: Settings, services: Services, cell_db: Database[Any], ann: Actor
) -> None:
    move_to(services, ann, CELL)
    single = dataclasses.replace(settings, cells="")
    with build_with(settings, "") as built:
        for start in (lambda: require_stores(single), built.migrate):
            with pytest.raises(StartupError, match=r"EVENTR_CELLS doesn't name: c1\."):
                start()


def test_a_process_that_runs_when_cells_are_added_refuses_their_people(
    settings: Settings,
    services: Services,
    cell_db: Database[Any],
    ann: Actor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cells, "LOOK_SECONDS", 0.0)
    bob = add_user(services, "bob")
    feed = services.mappers.subscriptions.find_by_user(ann.user_id)[0].feed_id
    with build_with(settings, "") as single:
        assert single.subscriptions.get(ann, feed)
        move_to(services, ann, CELL)
        uses: tuple[Callable[[], object], ...] = (
            lambda: single.subscriptions.get(ann, feed),
            lambda: single.subscriptions.update(ann, feed, title="A"),
            lambda: single.subscriptions.subscribe(ann, "https://other.example.org/feed"),
            lambda: single.reading.get_tree(ann),
            # These must not count without her.
            lambda: single.mappers.orphans.has_references(feed),
            lambda: single.mappers.outbox.find_unsettled_entries(feed),
            lambda: single.gateways.outbox.recount(clock.now()),
        )
        for use in uses:
            with pytest.raises(CellError):
                use()
        assert single.mappers.subscriptions.find_by_user(bob.user_id) == []
    assert services.subscriptions.get(ann, feed)


# -- migrations


def _migrate(number: int, step: Callable[[Run], None]) -> Migration:
    return Migration(number, "Tag them", step, in_cells=True)


def test_migrations_of_peoples_data_also_run_in_each_cell_and_are_resumed(
    settings: Settings, services: Services, cell_db: Database[Any], second_cell: SecondCell
) -> None:
    cell_db["tags"].insert_many([{"_id": i, "user_id": i, "key": "a"} for i in range(1, 8)])
    seen = list[int]()

    def apply(run: Run) -> None:
        def mark(docs: list[Any], session: Any) -> None:
            if len(seen) == 4:
                raise StartupError("killed")
            seen.extend(doc["_id"] for doc in docs)
            for doc in docs:
                run.database["tags"].update_one({"_id": doc["_id"]}, {"$set": {"n": 1}}, session=session)

        run.walk_collection("tags", mark, batch=2)

    steps = (_migrate(5, apply),)

    def build() -> CellStore:
        return CellStore(second_cell.uri, settings.mongodb_name, CELL, migrations=steps)

    with contextlib.closing(build()) as killed:
        with pytest.raises(StartupError, match="killed"):
            killed.prepare()
        with pytest.raises(CellError):
            killed.require_prepared()
    assert cell_db["tags"].count_documents({"n": 1}) == 4
    seen.append(0)
    with contextlib.closing(build()) as later:
        later.prepare()
        later.require_prepared()
    assert seen == [1, 2, 3, 4, 0, 5, 6, 7]
    assert cell_db["tags"].count_documents({"n": 1}) == 7
    with contextlib.closing(build()) as again:
        again.require_prepared()
        again.prepare()
    assert len(seen) == 8, "it isn't repeated"
    newer = CellStore(second_cell.uri, settings.mongodb_name, CELL, migrations=(_migrate(4, apply),))
    with contextlib.closing(newer), pytest.raises(StartupError, match="schema version 5"):
        newer.prepare()


def test_the_checks_say_that_a_cell_is_another_one_or_is_not_prepared(
    settings: Settings, services: Services, cell_db: Database[Any]
) -> None:
    identity = {"_id": "cell"}
    for change, severity, text in (
        ({}, Severity.OK, "The cell c1 responds."),
        ({"prepared": []}, Severity.FAIL, "isn't prepared for this version"),
        ({"name": "c2"}, Severity.FAIL, "c1 leads to the database of the cell c2"),
    ):
        cell_db[COLLECTION].update_one(identity, {"$set": {"name": CELL, **change}})
        [check] = health.check_cells(settings)
        assert (check.word, text in check.text) == (severity, True), check
