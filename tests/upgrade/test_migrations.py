"""Migrations run in order, once and in one process, resume after a kill, and refuse newer databases."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pymongo.database import Database

from app.bootstrap import services as bootstrap
from app.config import Settings, build_env_name
from app.errors import StartupError
from app.mappers.mongo import indexes
from app.mappers.mongo.migrations import table
from app.mappers.mongo.migrations.migrator import Migrator
from app.mappers.mongo.migrations.run import Migration, Run
from app.mappers.mongo.migrations.schema import COLLECTION, LostLockError, SchemaMapper
from app.mappers.mongo.store import Doc, Session, Store
from app.models.operations.check_result import CheckResult, Severity
from app.monitoring import health
from tests.support.imports import REPO

Eventually = Callable[..., Any]
#: The lock of a killed process expires after this time, seconds.
SECONDS = 1.0
THINGS = 300


@pytest.fixture
def store(settings: Settings, db: Database[Doc]) -> Iterator[Store]:
    """The store of an empty database without a schema."""
    with contextlib.closing(Store(settings.mongodb_uri, settings.mongodb_name)) as made:
        yield made


def _migrator(store: Store, *steps: Callable[[Run], None], **more: Any) -> Migrator:
    numbered = [Migration(n, getattr(step, "__name__", ""), step) for n, step in enumerate(steps, 1)]
    return Migrator(store, "9.9", migrations=numbered, **{"seconds": SECONDS, **more})


def _nothing(run: Run) -> None:
    """Change nothing."""


def _add(name: str) -> Callable[[Run], None]:
    def step(run: Run) -> None:
        run.database["applied"].insert_one({"step": name})

    return step


def _applied(db: Database[Doc]) -> list[str]:
    return [doc["step"] for doc in db["applied"].find().sort("_id")]


def _schema(db: Database[Doc]) -> Doc:
    return db[COLLECTION].find_one() or {}


# -- versions and order


def test_numbers_rise_by_one_from_one() -> None:
    assert [m.number for m in table.MIGRATIONS] == list(range(1, table.VERSION + 1))


def test_a_new_database_gets_the_newest_version_and_all_indexes(store: Store, db: Database[Doc]) -> None:
    assert SchemaMapper(db).get_version() is None
    done = Migrator(store, "9.9").run()
    assert (done.before, done.after) == (None, table.VERSION)
    assert SchemaMapper(db).get_version() == table.VERSION
    assert indexes.find_missing_indexes(db) == []
    assert "vouched" in db["users"].index_information()


def test_the_history_names_each_migration_with_the_program_that_applied_it(
    store: Store, db: Database[Doc]
) -> None:
    _migrator(store, _nothing).run()
    _migrator(store, _nothing, _add("second")).run()
    rows = [(row["number"], row["title"], row["program"]) for row in _schema(db)["history"]]
    assert rows == [(1, "_nothing", "9.9"), (2, "step", "9.9")]
    assert all(row["began"] <= row["ended"] for row in _schema(db)["history"])


def test_migrations_are_applied_in_order_and_once(store: Store, db: Database[Doc]) -> None:
    _migrator(store, _add("a"), _add("b")).run()
    _migrator(store, _add("a"), _add("b")).run()
    assert _applied(db) == ["a", "b"]
    _migrator(store, _add("a"), _add("b"), _add("c")).run()
    assert _applied(db) == ["a", "b", "c"]


def test_a_database_from_before_versions_is_upgraded_from_0(store: Store, db: Database[Doc]) -> None:
    db["users"].insert_one({"_id": 1, "name": "ann"})
    db["users"].create_index("email_key", unique=True, name="email")
    done = Migrator(store, "9.9").run()
    assert (done.before, done.after) == (0, table.VERSION)
    assert "email" not in db["users"].index_information()


def test_the_newest_version_is_set_after_its_indexes_exist(
    store: Store, db: Database[Doc], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def ensure(database: Database[Doc]) -> None:
        seen.append(SchemaMapper(database).get_version())

    monkeypatch.setattr(indexes, "ensure_indexes", ensure)
    _migrator(store, _nothing, _nothing).run()
    assert seen == [1], "after the last migration, before its version is set"


def test_a_failed_migration_keeps_the_old_version_and_releases_the_lock(
    store: Store, db: Database[Doc]
) -> None:
    def fail(run: Run) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        _migrator(store, _add("a"), fail).run()
    assert SchemaMapper(db).get_version() == 1
    assert SchemaMapper(db).get_holder() is None
    _migrator(store, _add("a"), _add("b")).run()
    assert _applied(db) == ["a", "b"]


# -- batches that resume


def _fill(db: Database[Doc]) -> None:
    db["things"].insert_many([{"_id": n, "odd": n % 2 == 1} for n in range(THINGS)])


def _count(documents: Sequence[Doc], session: Session, things: Any) -> None:
    things.update_many(
        {"_id": {"$in": [d["_id"] for d in documents]}}, {"$inc": {"times": 1}}, session=session
    )


def _count_all(run: Run, stop: Callable[[], None] = lambda: None, **options: Any) -> None:
    batches = 0

    def change(documents: list[Doc], session: Session) -> None:
        nonlocal batches
        _count(documents, session, run.database["things"])
        batches += 1
        if batches == 3:
            stop()

    run.walk_collection("things", change, batch=50, **options)


def _times(db: Database[Doc], where: Doc | None = None) -> set[int]:
    return {doc.get("times", 0) for doc in db["things"].find(where or {})}


def test_a_walk_changes_each_matching_document_once(store: Store, db: Database[Doc]) -> None:
    _fill(db)
    _migrator(store, lambda run: _count_all(run, where={"odd": True})).run()
    assert _times(db, {"odd": True}) == {1}
    assert _times(db, {"odd": False}) == {0}
    assert "progress" not in _schema(db), "progress ends with its migration"


def test_a_failed_batch_is_rolled_back_and_the_next_run_resumes_there(
    store: Store, db: Database[Doc]
) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    _fill(db)
    with pytest.raises(ZeroDivisionError):
        _migrator(store, lambda run: _count_all(run, fail)).run()
    assert db["things"].count_documents({"times": 1}) == 100, "two whole batches"
    assert _schema(db)["progress"] == {"things": 99}
    _migrator(store, _count_all).run()
    assert _times(db) == {1}


#: Counts all, and hangs after the third batch is written, before it is committed.
HALTED = """
import sys, threading
from app.mappers.mongo.store import Store
from tests.upgrade.test_migrations import _count_all, _migrator

def halt():
    print("halted", flush=True)
    threading.Event().wait()

def step(run):
    _count_all(run, halt)

uri, name = sys.argv[1:]
_migrator(Store(uri, name), step).run()
"""


def test_after_a_kill_the_next_process_waits_for_the_lock_and_finishes(
    store: Store, db: Database[Doc], settings: Settings
) -> None:
    _fill(db)
    with _python(HALTED, settings) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "halted\n"
        first.kill()
        first.wait()
    assert db["things"].count_documents({"times": 1}) == 100, "two whole batches"
    assert _migrator(store, _count_all).run().after == 1
    assert _times(db) == {1}
    assert _schema(db)["fence"] == 2


def test_the_lock_is_renewed_while_a_migration_runs(
    store: Store, db: Database[Doc], eventually: Eventually
) -> None:
    def wait(run: Run) -> None:
        taken = _schema(db)["expires"]
        eventually(lambda: _schema(db)["expires"] > taken, message="the lock is renewed")

    _migrator(store, wait).run()
    assert _schema(db)["fence"] == 1


@contextlib.contextmanager
def _python(code: str, settings: Settings) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", code, settings.mongodb_uri, settings.mongodb_name],
        cwd=REPO,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


# -- one at a time


def test_concurrent_migrators_apply_each_migration_once_and_all_wait_for_it(
    store: Store, db: Database[Doc]
) -> None:
    together = threading.Barrier(4)

    def start() -> int:
        together.wait()
        _migrator(store, _add("a"), _add("b")).run()
        return len(_applied(db))

    with ThreadPoolExecutor(4) as pool:
        seen = [task.result() for task in [pool.submit(start) for _ in range(4)]]
    assert seen == [2, 2, 2, 2]
    assert _applied(db) == ["a", "b"]


def test_a_process_that_lost_the_lock_while_frozen_writes_nothing(store: Store, db: Database[Doc]) -> None:
    schema = SchemaMapper(store.database)
    frozen = schema.acquire("frozen", -1)  # its lease has expired
    assert frozen is not None
    run = Run(store, schema, frozen, 1, lambda: False)
    run.commit_batch(lambda session: _insert(store, session), {"n": 1})
    other = schema.acquire("other", 60)
    assert other is not None
    assert other.fence > frozen.fence
    with pytest.raises(LostLockError):
        run.commit_batch(lambda session: _insert(store, session), {"n": 2})
    with pytest.raises(LostLockError):
        schema.finish(frozen, 1, {})
    assert not schema.renew(frozen, 60)
    schema.release(frozen)
    assert schema.get_holder() == "other"
    assert db["things"].count_documents({}) == 1
    assert _schema(db)["progress"] == {"n": 1}


def _insert(store: Store, session: Session) -> None:
    store.database["things"].insert_one({}, session=session)


def test_a_held_lock_is_not_acquired_twice(db: Database[Doc]) -> None:
    schema = SchemaMapper(db)
    first = schema.acquire("first", 60)
    assert first is not None
    assert schema.acquire("second", 60) is None
    assert schema.get_holder() == "first"
    schema.release(first)
    assert schema.acquire("second", 60) is not None


def test_a_cancelled_process_does_not_wait_for_the_lock(store: Store, db: Database[Doc]) -> None:
    assert SchemaMapper(db).acquire("another", 60)
    with pytest.raises(StartupError, match="while another process was upgrading"):
        _migrator(store, _nothing, cancelled=lambda: True).run()


def test_a_cancelled_process_stops_between_two_batches(store: Store, db: Database[Doc]) -> None:
    _fill(db)
    asked = threading.Event()
    with pytest.raises(StartupError, match="The next start continues"):
        _migrator(store, lambda run: _count_all(run, asked.set), cancelled=asked.is_set).run()
    assert db["things"].count_documents({"times": 1}) == 150
    _migrator(store, _count_all).run()
    assert _times(db) == {1}


# -- an older program


@pytest.fixture
def newer(db: Database[Doc]) -> int:
    """The version of a database that a newer program has upgraded."""
    version = table.VERSION + 6
    db[COLLECTION].insert_one({"_id": "schema", "version": version})
    return version


def _environment(settings: Settings, **more: str) -> dict[str, str]:
    names = ("home", "mongodb_uri", "mongodb_name", "redis_url", "secret_key")
    ours = {build_env_name(name): str(getattr(settings, name)) for name in names}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("EVENTR_")}
    return {**kept, **ours, "EVENTR_PORT": "0", **more}


def _run(settings: Settings, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=REPO,
        env=_environment(settings),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _eventr(settings: Settings, *words: str) -> subprocess.CompletedProcess[str]:
    return _run(settings, "-m", "app", *words)


@pytest.mark.parametrize("command", ["web", "manager", "controller", "updater", "up", "migrate"])
def test_an_older_program_refuses_a_newer_database(
    command: str, newer: int, settings: Settings, db: Database[Doc]
) -> None:
    done = _eventr(settings, command)
    assert done.returncode == 1
    assert done.stderr == (
        f"eventr: The database has schema version {newer}, but this Eventr supports only {table.VERSION}: "
        "install the newer Eventr, or restore a backup from before the upgrade.\n"
    )
    assert db.list_collection_names() == [COLLECTION], "nothing was written"


#: A worker process, started as the manager does.
WORKER = """
from app.config import Settings
from app.models.jobs.workers import WorkerSpec
from workers.main import run

spec = WorkerSpec(
    name="w", manager="m", group="feeds", queues=("feed-pull",), mode="loop", slots=1, system_slots=1,
    memory=1 << 30, lifetime=60.0, max_jobs=9, grace=1.0,
)
run(spec, Settings.from_env(), None, None)
"""


def test_an_older_worker_refuses_a_newer_database(newer: int, settings: Settings) -> None:
    done = _run(settings, "-c", WORKER)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "refused_to_start" in line
    assert f"schema version {newer}" in line


def test_services_refuse_a_newer_database(newer: int, settings: Settings) -> None:
    with (
        contextlib.closing(bootstrap.build(settings)) as services,
        pytest.raises(StartupError, match=f"schema version {newer}"),
    ):
        services.migrate()


# -- an older database


@pytest.mark.parametrize("command", ["manager", "updater"])
def test_a_process_waits_until_another_one_has_upgraded_the_database(
    command: str, settings: Settings, db: Database[Doc], redis_client: Any, eventually: Eventually
) -> None:
    db["users"].insert_one({"_id": 1, "name": "ann", "name_key": "ann"})
    log = settings.home / f"{command}.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "app", command], cwd=REPO, env=_environment(settings), stderr=output
        )
    with process:
        try:
            eventually(lambda: "waiting_for_migration" in log.read_text(), message="the process waits")
            done = _eventr(settings, "migrate")
            assert done.stdout == f"Upgraded the database from schema version 0 to {table.VERSION}.\n"
            eventually(lambda: " ready" in log.read_text(), message=log.read_text())
        finally:
            process.send_signal(signal.SIGTERM)
    assert process.returncode == 0, log.read_text()


def test_migrate_prints_the_schema_version(settings: Settings, db: Database[Doc]) -> None:
    version = table.VERSION
    assert _eventr(settings, "migrate").stdout == f"Set up a new database with schema version {version}.\n"
    assert _eventr(settings, "migrate").stdout == (
        f"The database is already up to date (schema version {version}).\n"
    )


# -- doctor


def _doctor(settings: Settings) -> CheckResult:
    (found,) = [f for f in health.check_mongodb(settings) if f.check == "schema"]
    return found


def test_doctor_shows_the_version(settings: Settings, db: Database[Doc], store: Store) -> None:
    assert _doctor(settings).word is Severity.OK
    assert "is new" in _doctor(settings).text
    db["users"].insert_one({"_id": 1})
    assert _doctor(settings).word is Severity.WARN
    assert "schema version 0" in _doctor(settings).text
    assert "eventr migrate" in _doctor(settings).text
    lease = SchemaMapper(db).acquire("web1:7", 60)
    assert lease is not None
    assert "web1:7 is upgrading" in _doctor(settings).text
    SchemaMapper(db).finish(lease, table.VERSION, {})
    assert _doctor(settings) == CheckResult(
        "schema", Severity.OK, f"The database is up to date (schema version {table.VERSION})."
    )


def test_doctor_fails_on_a_newer_database(newer: int, settings: Settings) -> None:
    assert _doctor(settings).word is Severity.FAIL
    assert f"schema version {newer}" in _doctor(settings).text
