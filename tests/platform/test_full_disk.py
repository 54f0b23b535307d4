"""A full disk (F09): a real one, with MongoDB and the search index on it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app import clock, create_app, embedded
from app.adapters.search.generations import META
from app.adapters.search.tantivy_index import IndexWriter, check_files
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.errors import NoSpaceError, SearchUnavailableError, StoreError
from app.models.accounts.actor import Actor
from app.models.operations.check_result import CheckResult, Severity
from app.models.reading.entry import NewEntry
from app.models.reading.search import SearchDocument
from app.models.reading.stream import Sort, StreamKind, StreamQuery, StreamRef
from app.monitoring import health
from app.services import free_space
from tests.feeds.test_entry_writer import check_whole
from tests.support.database import World, new_entry
from tests.support.small_disk import SmallDisk, mount_small_disk, with_mounts

Eventually = Callable[..., object]
OPML = (
    b'<opml version="2.0"><body><outline type="rss" text="A" xmlUrl="https://a.example.org/feed"/>'
    b"</body></opml>"
)
KEY = "pK3v9sXq7Lw2Zr8Tn5Yb1Hd6Jf4Gm0Ca"
_NOISE = random.Random(5)


def _disk(settings: Settings) -> list[CheckResult]:
    return [found for found in health.check_disk(settings) if found.word is not Severity.OK]


def _pull(services: Services, feed_id: int) -> dict[str, Any]:
    with bootstrap.build_fetcher(services.settings) as fetcher:
        return asyncio.run(services.pull.pull([feed_id], fetcher)).counts


def _titles(services: Services, alice: Actor) -> set[str]:
    page = services.reading.load_page(alice, StreamQuery(StreamRef.parse("all"), limit=1000))
    return {row.title for row in page.rows}


def _store_until_full(world: World, disk: SmallDisk, feed_id: int) -> int:
    """Store entries of a megabyte until the disk takes no more; return the number of the last one."""
    for number in range(100, 400):
        if number == 103:
            disk.fill()
        try:
            world.store(feed_id, [new_entry(number)._replace(raw=_NOISE.randbytes(1 << 20))], now=clock.now())
        except StoreError:
            return number
    raise AssertionError("the disk is never full")


@with_mounts
def test_F09_pulls_and_uploads_stop_on_a_full_disk_and_reading_goes_on(
    eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below 5 % first, then without a byte, then with space again."""
    monkeypatch.setattr(free_space, "KEPT", 0.0)
    with mount_small_disk(400 << 20) as disk:
        settings = Settings(home=disk.folder / "var", embedded_cache=1 << 28, secret_key=KEY)
        with (
            embedded.start_servers(settings) as running,
            contextlib.closing(bootstrap.build(running.settings)) as services,
        ):
            services.migrate()
            _live_through(disk, running, services, eventually)


def _live_through(
    disk: SmallDisk,
    running: embedded.EmbeddedServers,
    services: Services,
    eventually: Eventually,
) -> None:
    world, now, alice = World(services), clock.now(), Actor(1_700_000_000_000_001)
    feed_id = world.feed("full")
    services.subscriptions.subscribe(alice, "https://full.example.org/feed")
    world.store(feed_id, [new_entry(n) for n in range(10)], now=now)
    assert [due.id for due in services.pull.find_due(clock.now(), 10)] == [feed_id]

    # -- less than 5 %
    disk.leave(15 << 20)
    assert services.pull.find_due(clock.now(), 10) == []
    assert _pull(services, feed_id)["put_off"] == 1
    for refused in (
        lambda: services.imports.preview(alice, OPML, "a.opml"),
        lambda: services.subscriptions.refresh(alice),
    ):
        with pytest.raises(NoSpaceError):
            refused()
    assert services.import_runner.find_due_jobs() == []
    assert [found.word for found in _disk(running.settings)] == [Severity.FAIL]
    words = [found.text for found in health.check_mongodb(running.settings) if found.check == "disk"]
    assert len(words) == 1
    assert "EVENTR_DISK_MIN_FREE" in words[0]
    assert len(_titles(services, alice)) == 10, "reading goes on"
    page = services.reading.load_page(alice, StreamQuery(StreamRef.parse("all")))
    services.reading.mark(alice, [page.rows[0].id], True)
    assert services.reading.get_tree(alice).unread == 9
    client = create_app(running.settings, services).test_client()
    assert client.get("/login").status_code == 200

    # -- without a byte: MongoDB refuses, or ends
    last = _store_until_full(world, disk, feed_id)
    with contextlib.suppress(StoreError):
        _titles(services, alice)

    # -- with space again
    disk.clear()
    for server in running.servers:  # as the supervisor does
        if server.process is None or server.process.poll() is not None:
            server.start()
            server.wait()
    eventually(lambda: not services.readiness.find_missing())
    assert services.store.database["feeds"].count_documents({}) == 1
    database = services.store.database
    whole = check_whole(database, feed_id)
    assert len(whole) in (10 + last - 100, 11 + last - 100), "nothing that was confirmed is lost"
    rows = services.reading.load_page(alice, StreamQuery(StreamRef.parse("all"), limit=1000)).rows
    assert [row.id for row in rows if row.read] == [page.rows[0].id]
    database["feeds"].update_one({"_id": feed_id}, {"$unset": {"claim_token": "", "claimed_until": ""}})
    world.store(feed_id, [new_entry(n) for n in (last, 999)], now=clock.now())
    assert len(check_whole(database, feed_id)) == 12 + last - 100
    services.gateways.feeds.force_due([feed_id], clock.now())
    assert [due.id for due in services.pull.find_due(clock.now(), 10)] == [feed_id]
    assert services.imports.preview(alice, OPML, "a.opml").total == 1
    assert not any(found.word is Severity.FAIL for found in _disk(running.settings))


@with_mounts
def test_F09_an_index_on_a_full_disk_loses_nothing_and_continues(services: Services) -> None:
    alice = Actor(1_700_000_000_000_001)
    with mount_small_disk(8 << 20) as disk:
        own = dataclasses.replace(services.settings, home=disk.folder)
        with contextlib.closing(bootstrap.build(own)) as here:
            world, now = World(here), clock.now()
            here.subscriptions.subscribe(alice, "https://nature.example.org/feed")
            feed_id = world.feed("nature")
            world.store(feed_id, [_say(n, f"ice w{n}") for n in range(50)], now=now)
            here.indexing.run(now, 30.0)
            assert len(_find(here, alice, "ice")) == 50

            disk.fill()
            world.store(feed_id, [_say(n, f"ice w{n}") for n in range(50, 60)], now=now)
            with pytest.raises(SearchUnavailableError):
                here.indexing.run(now, 30.0)
            assert len(_find(here, alice, "ice")) == 50, "searching goes on"
            assert len(here.indexing.find_due_jobs(now)) == 1, "the news stays marked"

            disk.clear()
            here.indexing.run(now, 30.0)
            assert len(_find(here, alice, "ice")) == 60
            folders = [each for each in (disk.folder / "search").iterdir() if (each / META).exists()]
            assert len(folders) == 1
            check_files(folders[0])


def _say(number: int, text: str) -> NewEntry:
    return new_entry(number, clock.now())._replace(content=f"<p>{text}</p>", excerpt=text)


def _find(services: Services, alice: Actor, query: str) -> list[str]:
    ref = StreamRef(StreamKind.SEARCH, query=query)
    page = services.reading.load_page(alice, StreamQuery(ref, Sort.NEWEST, limit=100))
    return [row.title for row in page.rows]


def test_R07_the_index_stays_small_over_many_commits(tmp_path: Path) -> None:
    """Merges, and the removal of old files, keep up with changed, deleted and new entries."""
    writer = IndexWriter(tmp_path, max_words=1000)

    def commit(first: int) -> tuple[int, int]:
        texts = [" ".join(f"w{_NOISE.randrange(3000)}" for _ in range(40)) for _ in range(20)]
        writer.add(
            SearchDocument(id=first + n, feed_id=1, seq=n, at=n, title="A", text=texts[n]) for n in range(20)
        )
        writer.delete_entries(1, [first])
        writer.commit_batch()
        files = [path.stat().st_size for path in tmp_path.iterdir()]
        return len(files), sum(files)

    changed = [commit(0) for _ in range(25)]
    assert max(count for count, _ in changed) <= 2 * changed[0][0]
    assert max(size for _, size in changed) <= 2 * changed[0][1], "only 20 of 500 entries remain"
    added = [commit(20 * number) for number in range(1, 25)]
    assert max(count for count, _ in added) <= 100, "without merges, each commit would leave six files"
    writer.close()
