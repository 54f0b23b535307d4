"""Fixtures on real parts: MongoDB and Redis of our own, a real Chromium, no stand-ins.

Each xdist worker starts its own servers once, in a folder of its own, and each test gets an empty
database and an empty Redis. So tests run in any order and beside each other.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import shutil
import signal
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import hypothesis
import jinja2
import psutil
import pymongo
import pytest
import redis
from flask import Flask
from jinja2.bccache import Bucket
from pymongo.database import Database
from werkzeug.routing import Rule

from app import embedded
from app.config import Settings
from app.errors import StartupError
from app.mappers.mongo import ids, sharding
from app.mappers.mongo.migrations import schema
from app.runtime.gc import collect_rarely, freeze_loaded
from tests.support import affected, order, redis_set
from tests.support.redis_set import RedisSet

T = TypeVar("T")
#: Longest wait for anything, seconds: a figure for the hung, not for the slow.
PATIENCE: Final = 120.0
Eventually = Callable[..., Any]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--until", type=float, help="begin no test after this moment, seconds since 1970")


def pytest_configure(config: pytest.Config) -> None:
    if until := config.getoption("until"):
        config.pluginmanager.register(affected.Deadline(until))
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(affected.Seconds(config))
    collect_rarely()  # a third of what it takes to load thousands of tests
    # How long an example takes is up to what else the machine does: times are for the benchmark.
    # To explain a failure it follows each line that is run, which takes longer than a test may.
    phases = set(hypothesis.Phase) - {hypothesis.Phase.explain}
    hypothesis.settings.register_profile("eventr", deadline=None, phases=phases)
    hypothesis.settings.load_profile("eventr")
    # Hundreds of tests make an application of their own: each template is compiled once for all of them.
    Flask.jinja_options = {"bytecode_cache": _Compiled()}
    Rule.compile = _compiled_once(Rule.compile)  # type: ignore[method-assign]
    # A setting of the developer's shell must not change what is tested.
    for name in [n for n in os.environ if n.startswith("EVENTR_") and n not in _FOR_TESTS]:
        del os.environ[name]
    # What a shell starts in the background ignores Ctrl-C, and so would all that tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes longest, some of it in each process, and keep together what shares processes."""
    if config.getoption("until"):
        return  # the nearest to what changed are first
    parts = int(getattr(config, "workerinput", {}).get("workercount", 1))
    items[:] = order.arrange([_place(item) for item in items], parts)


def _place(item: pytest.Item) -> order.Place[pytest.Item]:
    folders = item.path.relative_to(Path(__file__).parent).parts[:-1]
    is_long = item.get_closest_marker("long") is not None
    return order.Place(item, folders[0] if folders else "", str(item.path), is_long)


def pytest_collection_finish() -> None:
    """Leave thousands of tests alone when looking for garbage: that was a third of what pages took."""
    freeze_loaded()


def _compiled_once(compile_rule: Callable[[Rule], None]) -> Callable[[Rule], None]:
    """Let each kind of address be compiled once: that is nine tenths of making an application.

    What is made depends on what is in the key, and what becomes of it takes its rule as an argument.
    """
    kept: dict[Any, dict[str, Any]] = {}

    def remembered(rule: Rule) -> None:
        key = (rule.rule, rule.subdomain, rule.host, rule.merge_slashes, repr(rule.defaults))
        if key not in kept:
            compile_rule(rule)
            kept[key] = {name: getattr(rule, name) for name in _COMPILED}
            return
        for name, value in kept[key].items():
            bound = getattr(value, "__func__", None)
            setattr(rule, name, bound.__get__(rule, None) if bound else value)

    return remembered


#: All that compiling a rule leaves in it.
_COMPILED = ("arguments", "_parts", "_trace", "_converters", "_build", "_build_unknown")


class _Compiled(jinja2.BytecodeCache):
    """Compiled templates, kept in memory; a changed one has another checksum."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key in self._kept:
            bucket.bytecode_from_string(self._kept[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._kept[bucket.key] = bucket.bytecode_to_string()


_FOR_TESTS = {"EVENTR_CORPUS", "EVENTR_CHROMIUM", "EVENTR_TEST_CLUSTER_URI", "EVENTR_TEST_CACHE"}
_FOR_TESTS |= {"EVENTR_CACHE_ROUNDS"}
#: A MongoDB cluster to run the tests on; empty: each xdist worker starts a MongoDB of its own.
_CLUSTER: Final = os.environ.get("EVENTR_TEST_CLUSTER_URI", "")


@pytest.fixture(autouse=True)
def _ids_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids rise, and a test that moved the clock took those of its time: the next one starts anew."""
    monkeypatch.setattr(ids, "_last", 0)


@pytest.fixture(autouse=True)
def _logs_of_its_own() -> Iterator[None]:
    """A command that a test runs here sends all logs to that test's stderr, which is closed after it."""
    root = logging.getLogger()
    level = root.level
    yield
    root.handlers[:] = [handler for handler in root.handlers if type(handler) is not logging.StreamHandler]
    root.setLevel(level)


@pytest.fixture(scope="session")
def servers() -> Iterator[embedded.EmbeddedServers]:
    """MongoDB and Redis of this xdist worker; stopped and removed at its end."""
    # Not pytest's own folder: its path is long, and that of a unix socket must not be.
    _remove_left_overs()
    home = Path(tempfile.mkdtemp(prefix=f"eventr-test-{os.getpid()}-", dir=_fast_folder()))
    try:
        given = Settings(home=home, embedded_cache=1 << 28, mongodb_uri=_CLUSTER)
        with embedded.start_servers(given) as running:
            _keep_what_expired(running.mongodb_uri)
            yield running
    except StartupError:
        for log in sorted((home / "log").iterdir()):
            print(log.name, log.read_text()[-20_000:])  # its folder is removed
        raise
    finally:
        shutil.rmtree(home)


def _keep_what_expired(uri: str) -> None:
    """Let MongoDB remove nothing by its own clock: many tests live at another time."""
    with pymongo.MongoClient[dict[str, Any]](uri) as client:
        if not _is_cluster(client):  # each shard has such a clock, and its router doesn't pass this on
            client.admin.command({"setParameter": 1, "ttlMonitorEnabled": False})


def _is_cluster(client: pymongo.MongoClient[dict[str, Any]]) -> bool:
    return bool(_CLUSTER) and sharding.is_cluster(client.admin.command("hello"))


def _migrate(services: Any) -> None:
    """Create all indexes, and spread the entries on a cluster."""
    services.migrate()
    database = services.store.database
    if _CLUSTER and _is_cluster(database.client):
        sharding.declare_shards(database)


def _fast_folder() -> str | None:
    """Memory instead of a disk where there is plenty: MongoDB waits for the disk at each new index."""
    shared = "/dev/shm"
    room = os.path.isdir(shared) and os.access(shared, os.W_OK) and shutil.disk_usage(shared).free > 4 << 30
    return shared if room else None


def _remove_left_overs() -> None:
    """Remove the folders of test runs that were killed: they lie in memory."""
    for folder in Path(_fast_folder() or tempfile.gettempdir()).glob("eventr-test-[0-9]*-*"):
        if not psutil.pid_exists(int(folder.name.split("-")[2])):
            shutil.rmtree(folder, ignore_errors=True)  # another worker may be at it too


class _Indexed:
    """The database that tests with services get one after the other: its indexes are made once.

    To make them and to drop them again costs ten times what it costs to empty it.
    """

    def __init__(self) -> None:
        self.name = f"test_{uuid.uuid4().hex[:12]}"
        self._indexes: int | None = None

    def prepare(self, services: Any) -> None:
        """Create all indexes, if they are not there."""
        database = services.store.database  # either way the services have their store from here on
        if self._indexes is None:
            _migrate(services)
            self._indexes = _indexes(database.command("dbStats"))

    def leave(self, database: Database[dict[str, Any]]) -> None:
        """Let the next test find it empty and with all indexes, or not at all."""
        stats = database.command("dbStats")
        # What a test has changed about indexes, and much to delete, goes with the database.
        if stats["objects"] < _FEW and _indexes(stats) == self._indexes:
            for name in _filled(database):
                if name != schema.COLLECTION:  # the indexes stay, so their version must stay, too
                    database[name].delete_many({})
        else:
            database.client.drop_database(self.name)
            self._indexes = None


#: So many documents are deleted sooner than a database is made anew.
_FEW = 3000


def _indexes(stats: dict[str, Any]) -> int:
    """Return how many indexes there are beside those of ids: no test changes one into another."""
    return int(stats["indexes"] - stats["collections"])


def _filled(database: Database[dict[str, Any]]) -> list[str]:
    """Return the collections that hold anything, by one question for all of them."""
    first, *others = database.list_collection_names()
    found = database[first].aggregate(
        [*_any(first), *({"$unionWith": {"coll": name, "pipeline": _any(name)}} for name in others)]
    )
    return [row["name"] for row in found]


def _any(name: str) -> list[dict[str, Any]]:
    return [{"$limit": 1}, {"$project": {"_id": 0, "name": {"$literal": name}}}]


@pytest.fixture(scope="session")
def _indexed() -> _Indexed:
    return _Indexed()


@pytest.fixture
def settings(
    servers: embedded.EmbeddedServers, tmp_path: Path, _indexed: _Indexed, request: pytest.FixtureRequest
) -> Iterator[Settings]:
    """Settings with this worker's servers, an empty database and cheap password hashes."""
    # The search index waits for the disk at each commit.
    index = Path(tempfile.mkdtemp(prefix="search-", dir=servers.settings.home))
    (tmp_path / "search").symlink_to(index)
    yield dataclasses.replace(
        servers.settings,
        home=tmp_path,
        mongodb_name=_indexed.name if "services" in request.fixturenames else f"test_{uuid.uuid4().hex[:12]}",
        secret_key="pK3v9sXq7Lw2Zr8Tn5Yb1Hd6Jf4Gm0Ca",
        argon2_memory_kib=19456,
        argon2_time=1,
        signup="open",
        sync_hold_back=0.0,
        cache=bool(os.environ.get("EVENTR_TEST_CACHE")),
        # A machine on which little is free can run the tests.
        disk_min_free=0.0,
    )
    shutil.rmtree(index)


@pytest.fixture(scope="session")
def _mongo(servers: embedded.EmbeddedServers) -> Iterator[pymongo.MongoClient[dict[str, Any]]]:
    with pymongo.MongoClient[dict[str, Any]](servers.mongodb_uri, tz_aware=True) as client:
        yield client


@pytest.fixture
def db(
    _mongo: pymongo.MongoClient[dict[str, Any]], settings: Settings, _indexed: _Indexed
) -> Iterator[Database[dict[str, Any]]]:
    """This test's database, empty; with indexes when it has services."""
    database = _mongo[settings.mongodb_name]
    yield database
    if settings.mongodb_name == _indexed.name:
        _indexed.leave(database)
    else:
        _mongo.drop_database(settings.mongodb_name)


@pytest.fixture
def redis_client(servers: embedded.EmbeddedServers) -> Iterator[redis.Redis]:
    """This worker's Redis, empty."""
    with redis.Redis.from_url(servers.redis_url) as client:
        client.flushall()
        yield client
        client.flushall()


@pytest.fixture
def redis_group(tmp_path: Path) -> Iterator[RedisSet]:
    """A primary of its own, two replicas and three Sentinels."""
    with redis_set.running_set(tmp_path / "redis") as made:
        yield made


@pytest.fixture
def services(
    settings: Settings, db: Database[dict[str, Any]], redis_client: redis.Redis, _indexed: _Indexed
) -> Iterator[Any]:
    """All services on the real servers, built as every process builds them, with their indexes."""
    from app.bootstrap import services as bootstrap

    with contextlib.closing(bootstrap.build(settings)) as built:
        if settings.mongodb_name == _indexed.name:
            _indexed.prepare(built)
        else:
            _migrate(built)
        yield built


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """Path of a real Chromium, windows and all: EVENTR_CHROMIUM, else the one on PATH."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = os.environ.get("EVENTR_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    assert found, "There is no Chromium: install your distribution's package or set EVENTR_CHROMIUM."
    return found


@pytest.fixture(scope="session")
def windowless_path(chromium_path: str) -> str:
    """Path of the same browser built without windows, where it is packed: its tests take a third less time.

    What a desktop shows (notifications) it refuses, and it fails at tabs that open behind the one in sight:
    tests of those take the whole one.
    """
    return ("EVENTR_CHROMIUM" not in os.environ and shutil.which("chromium-headless-shell")) or chromium_path


@pytest.fixture(scope="module")
def chromium(windowless_path: str) -> Iterator[Any]:
    """A headless Chromium (playwright's sync ``Browser``); make a ``new_context()`` per test.

    Per module and not per session: as long as playwright runs, its thread counts as one with a
    running event loop, and tests that use ``asyncio.run`` would fail.
    """
    with launched(windowless_path) as browser:
        yield browser


#: Pictures of entries lie on foreign sites: no test sends a packet there. The browser itself is told so, as
#: a route of playwright's turns the cache off that people have, and asks the test about each request.
NO_OTHERS = "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
#: No sandbox: as root Chromium refuses to start with one, and it opens our own pages only. No renderer is
#: kept ready for a page that may never come: each test has a browser context of its own, which cannot use it.
#: Nothing is drawn by a graphics card, so that part needs no process of its own.
CHROMIUM_ARGS = [
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--in-process-gpu",
    "--renderer-process-limit=1",
    f"--host-resolver-rules={NO_OTHERS}",
]


@contextlib.contextmanager
def launched(path: str) -> Iterator[Any]:
    """Yield a browser, driven by a playwright of its own; one at a time."""
    from playwright.sync_api import expect, sync_playwright

    # As long as all else waits: on a busy machine a page takes its time.
    expect.set_options(timeout=PATIENCE * 1000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGS)
        browser.on("context", lambda context: context.set_default_timeout(PATIENCE * 1000))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def eventually() -> Eventually:
    """``eventually(predicate, timeout=120)``: wait until it returns something true, and return that."""

    def wait(predicate: Callable[[], T], timeout: float = PATIENCE, message: str = "") -> T:
        pause = threading.Event()
        deadline = time.monotonic() + timeout
        while not (value := predicate()):
            last = value
            assert time.monotonic() < deadline, f"{message or predicate} not within {timeout} s: {last!r}"
            pause.wait(0.02)
        return value

    return wait
