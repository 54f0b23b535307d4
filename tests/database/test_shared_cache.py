"""What outlasts a request in a process's memory is never older than a write that has ended."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import os
import random
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import redis
from pymongo.database import Database

from app import clock
from app.adapters.redis import change_log
from app.adapters.redis.change_log import RedisChangeLog
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.embedded import programs
from app.mappers.feeds.feeds import CARDS_MIN
from app.mappers.mongo.cached_writes import find_changed
from app.mappers.mongo.shared_cache import SharedCache, View
from app.models.accounts.actor import Actor
from app.models.cache import CacheKind, Changed, WriteHold
from app.models.discussion.comments import NotificationKind, NotificationRow
from app.models.reading.stream import StreamQuery, StreamRef
from app.runtime import identity_map
from tests.sharing.conftest import People
from tests.support.commands import build_logged_services
from tests.support.redis_set import wait_until
from tests.support.up import free_port

ALL = StreamRef.parse("all")
Doc = dict[str, Any]


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for Redis on a busy machine."""
    monkeypatch.setattr(change_log, "TIMEOUT", 5.0)


# -- the protocol, with processes that stop at any step


class Model:
    """Processes that read and write documents in any order of their steps, with real stores.

    A reader takes three steps: look, read from MongoDB, keep. A writer takes three: begin, write, end. Both
    may stop for good after each.
    """

    def __init__(self, settings: Settings, db: Database[Doc], seed: int) -> None:
        self.random = random.Random(seed)
        self.docs = db["model"]
        self.logs = [RedisChangeLog(settings) for _ in range(3)]
        self.caches = [SharedCache(log) for log in self.logs]
        self.client = redis.Redis.from_url(settings.redis_url)
        #: Version of each document that every new reader must see at least.
        self.known = dict.fromkeys(range(4), 0)
        self.docs.insert_many([{"_id": key, "version": 0} for key in self.known])
        self.lost = 0
        self.hits = 0
        self.steps: list[Iterator[None]] = []

    def run(self, count: int) -> None:
        """Take this many steps, each of any process."""
        for _ in range(count):
            if len(self.steps) < 6:
                self.steps.append(self.random.choice((self.read, self.read, self.write))())
            place = self.random.randrange(len(self.steps))
            died = self.random.random() < 0.03
            if died or next(self.steps[place], self) is self:
                del self.steps[place]
            if self.random.random() < 0.01:
                self.client.flushdb()
                self.lost += 1

    def read(self) -> Iterator[None]:
        cache = self.random.choice(self.caches)
        least = dict(self.known)
        view = cache.open_view()
        assert view is not None
        yield
        found = cache.get_values(view, CacheKind.CARD, self.known)
        self.hits += len(found)
        assert all(found[key] >= least[key] for key in found)
        yield
        read = {doc["_id"]: doc["version"] for doc in self.docs.find()}
        yield
        cache.keep(view, CacheKind.CARD, {k: v for k, v in read.items() if k not in found}, 600)

    def write(self) -> Iterator[None]:
        log, key, lost = self.random.choice(self.logs), self.random.randrange(4), self.lost
        everything = self.random.random() < 0.1
        hold = log.begin_write([Changed(CacheKind.CARD, None if everything else key)])
        yield
        done = self.docs.find_one_and_update({"_id": key}, {"$inc": {"version": 1}}, return_document=True)
        assert done is not None
        if self.lost == lost:  # the hold is in Redis: from now on nobody may see the old version
            self.known[key] = max(self.known[key], done["version"])
        yield
        log.end_write(hold)
        self.known[key] = max(self.known[key], done["version"])

    def close(self) -> None:
        self.client.close()
        for log in self.logs:
            log.close()


@pytest.mark.parametrize("names_max", [50_000, 3])
def test_no_reader_sees_less_than_what_ended_before_it(
    settings: Settings, db: Database[Doc], names_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_log, "NAMES_MAX", names_max)
    rounds, steps = (int(os.environ.get("EVENTR_CACHE_ROUNDS", "3")), 400)
    hits = 0
    for seed in range(rounds):
        db["model"].drop()
        with contextlib.closing(Model(settings, db, seed)) as model:
            model.client.flushdb()
            model.run(steps)
            hits += model.hits
    assert hits > 20 * rounds


def test_a_killed_writer_lets_nobody_keep_what_it_may_have_changed(settings: Settings) -> None:
    with contextlib.closing(RedisChangeLog(settings)) as log:
        reader = SharedCache(log)
        card = Changed(CacheKind.CARD, 7)
        _keep(reader, {7: "old", 8: "other"})
        log.begin_write([card])  # and never ends
        assert _find(reader, 7, 8) == {8: "other"}
        _keep(reader, {7: "old"})
        assert _find(reader, 7) == {}
        # The hold ends by itself. What was kept before is gone anyway.
        with redis.Redis.from_url(settings.redis_url) as client:
            name = f"eventr:cache:{settings.mongodb_name}:holds"
            (expires,) = (score for _, score in client.zrange(name, 0, -1, withscores=True))
            assert expires <= clock.now().timestamp() + change_log.HOLD_SECONDS + 1
            _keep(reader, {7: "old"})
            client.delete(name)
        assert _find(reader, 7) == {}
        _keep(reader, {7: "new"})
        assert _find(reader, 7) == {7: "new"}


def _view(cache: SharedCache) -> View:
    view = cache.open_view()
    assert view is not None
    return view


def _keep(cache: SharedCache, values: Mapping[int, str]) -> None:
    cache.keep(_view(cache), CacheKind.CARD, values, 600)


def _find(cache: SharedCache, *keys: int) -> dict[int, str]:
    return cache.get_values(_view(cache), CacheKind.CARD, keys)


def test_what_was_read_before_a_write_is_not_kept_after_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(RedisChangeLog(settings)) as log:
        cache = SharedCache(log)
        _view(cache)
        paused = _view(cache)
        log.end_write(log.begin_write([Changed(CacheKind.CARD, 7)]))
        _view(cache)
        cache.keep(paused, CacheKind.CARD, {7: "old", 8: "same"}, 600)
        assert _find(cache, 7, 8) == {8: "same"}
        cache.keep(_view(cache), CacheKind.CARD, {9: "over"}, 0)
        assert _find(cache, 9) == {}
        paused = _view(cache)
        log.end_write(log.begin_write([Changed(CacheKind.CARD, None)]))
        _view(cache)
        cache.keep(paused, CacheKind.CARD, {8: "old"}, 600)
        assert _find(cache, 8) == {}
        # A cache that can't remember every change refuses all that began before.
        monkeypatch.setattr("app.mappers.mongo.shared_cache.DROPS_MAX", 0)
        paused = _view(cache)
        log.end_write(log.begin_write([Changed(CacheKind.CARD, 7)]))
        _view(cache)
        cache.keep(paused, CacheKind.CARD, {7: "old"}, 600)
        assert _find(cache, 7) == {}


def test_a_thread_that_read_the_log_before_redis_was_emptied_uses_nothing(
    settings: Settings, redis_client: redis.Redis
) -> None:
    with contextlib.closing(RedisChangeLog(settings)) as log:
        cache = SharedCache(log)
        before = _view(cache).position
        log.end_write(log.begin_write([Changed(CacheKind.CARD, 1)]))
        late = log.read_changes(before)
        assert late is not None
        redis_client.flushdb()
        _keep(cache, {7: "of another log"})
        cache._apply(late)
        assert cache.get_values(View(late.position, late.held), CacheKind.CARD, [7]) == {}
        assert _find(cache, 7) == {}


# -- what writes change


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ({"update": "feeds", "updates": [{"q": {"_id": 7}, "u": {"$set": {"title": "x"}}}]}, [7]),
        ({"update": "feeds", "updates": [{"q": {"_id": 7}, "u": {"$set": {"next_check_at": 1}}}]}, []),
        (
            {"update": "feeds", "updates": [{"q": {"_id": {"$in": [7, 8]}}, "u": {"$max": {"read_at": 1}}}]},
            [7, 8],
        ),
        ({"update": "feeds", "updates": [{"q": {"_id": 7}, "u": [{"$set": {"first_seq": 1}}]}]}, [7]),
        ({"update": "feeds", "updates": [{"q": {"_id": 7}, "u": [{"$unset": ["error"]}]}]}, [7, 0]),
        ({"update": "feeds", "updates": [{"q": {"_id": 7}, "u": {"$rename": {"a": "title"}}}]}, [7, 0]),
        ({"update": "feeds", "updates": [{"q": {"_id": 7}, "u": {"url": "x"}}]}, [7, 0]),
        ({"update": "feeds", "updates": [{"q": {"url": "x"}, "u": {"$set": {"gone.1": 1}}}]}, [None]),
        ({"update": "feeds", "updates": [{"q": {"owner": 3}, "u": {"$set": {"avatar": "x"}}}]}, []),
        ({"delete": "feeds", "deletes": [{"q": {"_id": 7}}]}, [7, 0]),
        ({"insert": "feeds", "documents": [{"_id": 7}]}, []),
        ({"findAndModify": "feeds", "query": {"_id": 7}, "update": {"$inc": {"last_seq": 1}}}, [7]),
        ({"insert": "folders", "documents": [{"_id": 1, "user_id": 3}]}, [3]),
        ({"update": "tags", "updates": [{"q": {"_id": 1, "user_id": 3}, "u": {"$set": {"x": 1}}}]}, [3]),
        ({"delete": "notifications", "deletes": [{"q": {"share_id": 1}}]}, [None]),
        ({"update": "imports", "updates": [{"q": {"_id": 1}, "u": {"$set": {"done": 1}}}]}, []),
        ({"update": "imports", "updates": [{"q": {"_id": 1}, "u": {"$set": {"state": "x"}}}]}, [None]),
        ({"update": "profiles", "updates": [{"q": {"user_id": 3}, "u": {"$set": {"hidden": True}}}]}, [0]),
        ({"update": "users", "updates": [{"q": {"_id": 3}, "u": {"$set": {"disabled": True}}}]}, [0]),
        ({"update": "users", "updates": [{"q": {"_id": 3}, "u": {"$set": {"settings.x": 1}}}]}, []),
        ({"update": "shares", "updates": [{"q": {"_id": 3}, "u": {"$inc": {"stars": 1}}}]}, []),
        ({"findAndModify": "shares", "query": {"_id": 3, "live": None}, "remove": True}, []),
        ({"delete": "shares", "deletes": [{"q": {"user_id": 3}}]}, [0]),
        ({"update": "subscriptions", "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": 1}}}]}, []),
    ],
)
def test_a_write_names_the_kept_values_that_it_can_change(command: Doc, names: list[int | None]) -> None:
    assert [each.id for each in find_changed(next(iter(command)), command)] == names


# -- two web processes


@pytest.fixture
def pair(services: Services, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Services, Services, Any]]:
    """A process that reads, one that writes, and the commands of the former."""
    settings = dataclasses.replace(services.settings, cache=True)
    with (
        build_logged_services(settings, monkeypatch) as (reader, log),
        contextlib.closing(bootstrap.build(settings)) as writer,
    ):
        yield reader, writer, log


def _read_lists(services: Services, user_id: int) -> Doc:
    with identity_map.open_scope(shared=True):
        services.gateways.page_frame.prefetch_stream(user_id, ALL, whole=True)
        m = services.mappers
        return {
            "folders": m.folders.find_by_user(user_id),
            "tags": m.tags.find_by_user(user_id),
            "searches": m.searches.find_by_user(user_id),
            "view": m.stream_views.get(user_id, ALL),
            "import": m.imports.find_active_by_user(user_id),
            "notes": m.notifications.find_unread(user_id, 99),
        }


def test_a_person_sees_their_changes_in_every_process(
    people: People, ann: Actor, bob: Actor, pair: tuple[Services, Services, Any]
) -> None:
    reader, writer, log = pair
    (entry,) = people.blog([ann, bob])
    notes = writer.mappers.notifications
    note = NotificationRow(user_id=ann.user_id, kind=NotificationKind.LIKE, subject=7, at=clock.now())
    user, preferences = ann.user_id, writer.mappers.users.find(ann.user_id).preferences  # type: ignore[union-attr]
    changes: list[tuple[str, Callable[[], object]]] = [
        ("folders", lambda: writer.folders.create(ann, "new")),
        ("folders", lambda: writer.folders.rename(ann, _read_lists(writer, user)["folders"][0].id, "other")),
        ("tags", lambda: writer.tags.change_tags(ann, entry, add=["red"])),
        ("searches", lambda: writer.tags.save_search(ann, "name", "words")),
        ("view", lambda: writer.stream_views.set(ann, ALL, preferences, {"sort": "oldest"})),
        ("notes", lambda: notes.add_once(note, bob.user_id, entry, note.at + dt.timedelta(days=1))),
        ("notes", lambda: writer.notifications.mark_all_read(ann)),
    ]
    for what, change in changes:
        before = _read_lists(reader, user)
        log.clear()
        assert _read_lists(reader, user) == before
        assert not log.commands, "the lists of an unchanged person come from memory"
        change()
        now = _read_lists(reader, user)
        assert now[what] != before[what], what
        assert now == _read_lists(people.services, user)
        assert _read_lists(reader, bob.user_id)["folders"] == []


def test_cards_are_current_and_private_ones_are_never_kept(
    people: People, ann: Actor, pair: tuple[Services, Services, Any]
) -> None:
    reader, writer, log = pair
    for n in range(CARDS_MIN):
        people.blog([ann], name=f"blog{n}")
    now = clock.now()
    private = writer.mappers.feeds.add_private("https://p.example.org/", "p", ann.user_id, "mine", now).id
    people.services.sharing.share(ann, people.blog([ann], name="last")[0])
    docs = list(people.services.store.database["feeds"].find())
    feeds = [doc["_id"] for doc in docs]
    hidden = {private, *(doc["_id"] for doc in docs if doc.get("owner") == ann.user_id)}
    assert len(hidden) > 1

    def read(services: Services = reader) -> Doc:
        with identity_map.open_scope(shared=True):
            return dict(services.mappers.feeds.find_cards(feeds))

    assert read().keys() == set(feeds)
    log.clear()
    assert read() == read(people.services)
    (command,) = log.commands
    assert sorted(f for f in feeds if str(f) in command) == sorted(hidden)
    cache = reader.store.cache
    assert cache is not None
    assert cache.get_values(_view(cache), CacheKind.CARD, feeds).keys() == set(feeds) - hidden
    title = {"title": "new title"}
    writer.store.database["feeds"].update_one({"_id": feeds[0]}, {"$set": title})
    assert read()[feeds[0]].title == "new title"

    def fail(session: Any) -> None:
        writer.store.database["feeds"].update_one(
            {"_id": feeds[0]}, {"$set": {"title": "x"}}, session=session
        )
        assert read()[feeds[0]].title == "new title"
        raise ZeroDivisionError

    with contextlib.suppress(ZeroDivisionError):
        writer.store.run_in_transaction(fail)
    assert read()[feeds[0]].title == "new title"
    with identity_map.open_scope(shared=True):
        reader.mappers.feeds.touch([feeds[1]], now, now)
        assert reader.store.cache.get_view("feeds") is None, (
            "a request reads from MongoDB what it has written"
        )
    with identity_map.open_scope():
        assert reader.store.cache.get_view("feeds") is None, "jobs read from MongoDB"


def test_a_list_is_stored_again_only_if_it_has_changed(
    people: People, ann: Actor, pair: tuple[Services, Services, Any]
) -> None:
    reader, writer, _ = pair
    first, _ = people.blog([ann], entries=2)

    def open_list() -> str:
        return reader.reading.load_page(ann, StreamQuery(ALL)).snapshot

    token = open_list()
    assert open_list() == token
    writer.reading.mark(ann, [first], read=True)
    assert open_list() != token


# -- Redis away


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[tuple[str, Callable[[], subprocess.Popen[bytes]]]]:
    """The address of a Redis of its own, and what starts it."""
    port, program = free_port(), str(programs.find_program(programs.REDIS))
    running: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        options = ("--appendonly", "yes", "--appendfsync", "always", "--save", "", "--dir", str(tmp_path))
        running.append(subprocess.Popen([program, "--port", str(port), *options], stdout=subprocess.DEVNULL))
        with redis.Redis(port=port) as client:
            wait_until(lambda: _answers(client))
        return running[-1]

    yield f"redis://127.0.0.1:{port}/0", start
    for process in running:
        process.kill()
        process.wait()


def _answers(client: redis.Redis) -> bool:
    with contextlib.suppress(redis.RedisError):
        return bool(client.ping())
    return False


def test_without_redis_everything_is_read_from_mongodb(
    people: People,
    ann: Actor,
    own_redis: tuple[str, Callable[[], subprocess.Popen[bytes]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(change_log, "TIMEOUT", 0.25)
    url, start = own_redis
    process = start()
    settings = dataclasses.replace(people.services.settings, cache=True, cache_url=url)
    with (
        contextlib.closing(bootstrap.build(settings)) as reader,
        contextlib.closing(bootstrap.build(settings)) as writer,
    ):
        user = ann.user_id

        def names() -> list[str]:
            return [folder.name for folder in _read_lists(reader, user)["folders"]]

        writer.folders.create(ann, "a")
        assert names() == names() == ["a"]
        process.kill()
        process.wait()
        writer.folders.create(ann, "b")
        assert names() == ["a", "b"]
        assert reader.store.cache is not None
        assert reader.store.cache.open_view() is None
        process = start()  # with all that it had
        wait_until(lambda: writer.change_log is not None and not writer.change_log._missed)
        assert names() == ["a", "b"]
        wait_until(lambda: reader.store.cache is not None and reader.store.cache.open_view() is not None)
        assert names() == names() == ["a", "b"]
        process.send_signal(signal.SIGSTOP)  # it accepts connections, and never answers
        writer.folders.create(ann, "c")
        assert names() == ["a", "b", "c"]
        process.send_signal(signal.SIGCONT)


def test_where_writers_are_refused_readers_use_nothing(settings: Settings, redis_client: redis.Redis) -> None:
    with contextlib.closing(RedisChangeLog(settings)) as log:
        cache = SharedCache(log)
        _keep(cache, {1: "old"})
        redis_client.config_set("maxmemory", 1)
        try:
            log.end_write(log.begin_write([Changed(CacheKind.CARD, 1)]))
            log._broken_until = 0
            assert cache.open_view() is None
        finally:
            redis_client.config_set("maxmemory", 0)
        wait_until(lambda: not log._missed)
        assert _find(cache, 1) == {}


def test_a_writer_tells_redis_later_what_it_missed(
    settings: Settings, own_redis: tuple[str, Callable[[], subprocess.Popen[bytes]]]
) -> None:
    url, start = own_redis
    away = dataclasses.replace(settings, cache_url=url)
    process = start()
    with contextlib.closing(RedisChangeLog(away)) as log, contextlib.closing(RedisChangeLog(away)) as other:
        cache = SharedCache(other)
        _keep(cache, {1: "old", 2: "old"})
        # Only this writer can't reach Redis.
        log._broken_until = float("inf")
        log.end_write(WriteHold((Changed(CacheKind.CARD, 1),), b"12345678"))
        assert _find(cache, 1, 2) == {1: "old", 2: "old"}
        log._broken_until = 0
        wait_until(lambda: not log._missed)
        assert _find(cache, 1, 2) == {2: "old"}
    process.kill()
