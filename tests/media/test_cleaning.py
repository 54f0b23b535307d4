"""The cleaner: what is deleted when, and how the stores are compared with the database (U11, R06)."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.errors import ForbiddenError, MediaStoreError
from app.gateways.media import cleaning as gateway
from app.models.accounts.actor import Actor, Role
from app.models.jobs.jobs import Queue, Task
from app.models.media.blob import Purpose
from app.models.media.cleaning import DiskCounts
from app.models.media.source import Source, SourceState
from app.models.media.user_file import SYSTEM
from tests.support.media import add_file, find_faults, find_strays, list_keys, make_content
from workers import registry

ANN = 11
DAY = dt.timedelta(days=1)


@pytest.fixture
def time() -> Iterator[list[dt.datetime]]:
    """The time is its only item; files are as old as the machine says, so it begins now."""
    now = [dt.datetime.now(dt.UTC).replace(microsecond=0)]
    with clock.set_source(lambda: now[0]):
        yield now


@pytest.fixture
def two_stores(settings: Settings, tmp_path: Path, services: Services) -> Iterator[Services]:
    """The same services with two folders as stores."""
    addresses = tuple(f"disk:{tmp_path / name}" for name in ("one", "two"))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    changed = dataclasses.replace(services.settings, media_stores=addresses)
    with contextlib.closing(bootstrap.build(changed)) as built:
        yield built


def add_source(services: Services, number: int, used: dt.datetime, content: int | None = None) -> Source:
    """Store a source that was last shown at a time, with a picture of its own."""
    token = "token"
    source = Source(
        id=number.to_bytes(16, "big"),
        url=f"https://example.org/{number}.png",
        purpose=Purpose.PICTURE,
        used=used.replace(hour=0, minute=0, second=0),
    )
    services.mappers.sources.add([source])
    services.gateways.sources.claim([source.id], token, used)
    picture = make_content(number if content is None else content)
    services.gateways.blobs.keep(
        picture,
        lambda session, blob_id: services.gateways.sources.finish(session, source.id, token, blob_id, used),
    )
    return source


def run(services: Services, **options: Any) -> dict[str, int]:
    return services.media_cleaning.run(**options)._asdict()


def make_older(services: Services, by: dt.timedelta) -> None:
    """Let all files of the first store be older than they are."""
    for store in services.media_stores.stores:
        for path in store._folder.rglob("*"):  # type: ignore[attr-defined]
            if path.is_file():
                then = path.stat().st_mtime - by.total_seconds()
                os.utime(path, (then, then))


def test_pictures_that_nobody_has_seen_for_the_window_are_deleted(
    services: Services, time: list[dt.datetime]
) -> None:
    add_source(services, 1, time[0])
    seen = add_source(services, 2, time[0])
    time[0] += 10 * DAY
    services.gateways.sources.touch([seen.id], time[0])
    assert run(services)["sources"] == 0
    time[0] += 5 * DAY
    assert run(services)["sources"] == 1
    time[0] += DAY
    run(services)
    assert list(services.gateways.sources.find([(1).to_bytes(16, "big"), seen.id])) == [seen.id]
    assert [blob.references for blob in services.mappers.blobs.list_after(b"", 9)] == [1]
    assert (list(find_faults(services)), find_strays(services)) == ([], set())


def test_a_picture_that_is_kept_keeps_its_source(services: Services, time: list[dt.datetime]) -> None:
    source = add_source(services, 1, time[0])
    add_file(services, SYSTEM, make_content(1), ["entry:5"])
    time[0] += 20 * DAY
    assert run(services)["sources"] == 0
    (kept,) = services.gateways.sources.find([source.id]).values()
    assert kept.state is SourceState.READY
    services.gateways.files.detach(None, "entry:5")
    time[0] += 20 * DAY
    run(services)
    assert services.gateways.sources.find([source.id]) == {}


def test_a_full_cache_loses_what_was_seen_longest_ago(
    services: Services, time: list[dt.datetime], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [sum(map(len, make_content(n).files.values())) for n in range(8)]
    limit = sum(sizes[:6])
    cleaning = services.gateways.media_cleaning
    monkeypatch.setattr(cleaning, "_budget", limit)  # as a setting, it is never so small
    monkeypatch.setattr(gateway, "TOGETHER", 1)
    for number in range(8):
        add_source(services, number, time[0] - (8 - number) * DAY)
    # What users own is free: it neither fills the cache nor goes.
    add_file(services, ANN, make_content(100), ["share:1"])
    assert run(services)["evicted"] == 3, "down to nine tenths"
    left = services.gateways.sources.find([n.to_bytes(16, "big") for n in range(8)])
    assert sorted(int.from_bytes(i, "big") for i in left) == [3, 4, 5, 6, 7]
    assert cleaning.measure_cache() <= limit * 0.9
    time[0] += dt.timedelta(hours=2)
    assert run(services)["evicted"] == 0


def test_a_kept_picture_does_not_end_the_cleaning_of_a_full_cache(
    services: Services, time: list[dt.datetime], monkeypatch: pytest.MonkeyPatch, db: Any
) -> None:
    monkeypatch.setattr(services.gateways.media_cleaning, "_budget", 1)
    monkeypatch.setattr(gateway, "BATCH", 2)
    ids = [add_source(services, n, time[0] - (8 - n) * DAY).id for n in range(6)]
    db["entries"].insert_one({"_id": 5, "stars": 1, "guid_hash": b"5", "seq": 1})
    db["sources"].update_one({"_id": ids[0]}, {"$set": {"entry": 5}})
    assert run(services)["evicted"] == 5
    assert list(services.gateways.sources.find(ids)) == [ids[0]]


def test_many_kept_pictures_do_not_end_the_cleaning_of_a_full_cache(
    services: Services, time: list[dt.datetime], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole batches of older pictures are kept, on one day and on several; two run into today."""
    monkeypatch.setattr(services.gateways.media_cleaning, "_budget", 1)
    monkeypatch.setattr(gateway, "BATCH", 2)
    ids = [add_source(services, n, time[0] - max(1, 5 - n) * DAY).id for n in range(9)]
    for number in range(8):
        add_file(services, SYSTEM, make_content(number), [f"entry:{number}"])
    last = add_source(services, 9, time[0])
    assert run(services)["evicted"] == 2
    assert set(services.gateways.sources.find([*ids, last.id])) == set(ids[:8])


def test_icons_of_feeds_stay_however_full_the_cache_is_and_long_ago_they_were_asked_for(
    services: Services, time: list[dt.datetime], monkeypatch: pytest.MonkeyPatch, db: Any
) -> None:
    """They are only asked for once a week, so that they look older than pictures."""
    ids = [add_source(services, n, time[0] - (8 - n) * DAY).id for n in range(4)]
    db["sources"].update_many({"_id": {"$in": ids[:2]}}, {"$set": {"kind": Purpose.ICON.value}})
    db["feeds"].insert_one({"_id": 1, "icon_source": ids[0]})
    monkeypatch.setattr(services.gateways.media_cleaning, "_budget", 1)
    assert run(services)["evicted"] == 2
    assert set(services.gateways.sources.find(ids)) == set(ids[:2])
    time[0] += 30 * DAY
    assert run(services)["sources"] == 1, "the icon that no feed has"
    assert set(services.gateways.sources.find(ids)) == {ids[0]}
    assert db["feeds"].find_one({"_id": 1})["icon_source"] == ids[0]


def test_work_is_found_behind_old_pictures_that_are_kept(
    services: Services, time: list[dt.datetime], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "BATCH", 2)
    services.store.database["entries"].insert_one({"_id": 1, "stars": 1})
    for number in range(5):
        add_source(services, number, time[0])
    services.store.database["sources"].update_many({}, {"$set": {"entry": 1}})
    add_source(services, 5, time[0])
    run(services)  # measured, so nothing else is due
    assert not services.gateways.media_cleaning.has_work(time[0])
    for number in range(6):
        day = time[0] - (60 - number) * DAY
        services.store.database["sources"].update_one({"_id": number.to_bytes(16)}, {"$set": {"used": day}})
    assert services.gateways.media_cleaning.has_work(time[0])
    assert run(services)["sources"] == 1
    assert not services.gateways.media_cleaning.has_work(time[0])


def test_a_run_that_is_over_ends_and_the_next_continues(services: Services, time: list[dt.datetime]) -> None:
    for number in range(3):
        add_file(services, ANN, make_content(number))
    time[0] += 20 * DAY
    assert not any(run(services, is_stopping=lambda: True).values())
    assert services.gateways.media_cleaning.has_work(time[0])
    assert run(services)["files"] == 3


@pytest.mark.parametrize("kind", ["idle", "condemned", "old"])
def test_files_that_cannot_be_deleted_keep_no_others(
    services: Services, time: list[dt.datetime], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(gateway, "BATCH", 2)
    monkeypatch.setattr(gateway, "REFUSALS", 2)
    contents = [make_content(number) for number in range(1, 9)]
    files = services.gateways.files
    for content in contents:
        files.delete(ANN, add_file(services, ANN, content).id)
        time[0] += dt.timedelta(seconds=1)
    time[0] += DAY
    if kind != "idle":
        services.mappers.blobs.condemn([content.id for content in contents], time[0])
    if kind == "old":
        for content in contents:
            add_file(services, ANN, content)
    stuck = tuple(f"{content.id.hex()[:2]}/" for content in contents[:6])
    delete = services.media_stores.delete
    monkeypatch.setattr(
        services.media_stores, "delete", lambda key: not key.startswith(stuck) and delete(key)
    )
    counts = [run(services) for _ in range(4)]
    assert sum(one["blobs"] + one["generations"] for one in counts) == 2
    assert all(one["waiting"] <= 10 for one in counts)
    monkeypatch.setattr(services.media_stores, "delete", delete)
    counts = [run(services) for _ in range(2)]
    assert sum(one["blobs"] + one["generations"] for one in counts) == 6, "the walk begins again"
    assert (find_strays(services), list(find_faults(services))) == (set(), [])


def test_the_job_is_due_every_five_minutes_if_there_is_something_to_do(
    services: Services, time: list[dt.datetime]
) -> None:
    cleaning = services.media_cleaning
    assert cleaning.find_due_jobs(time[0]) == [], "a server without pictures has no such job"
    add_file(services, ANN, make_content(1), ["share:1"])
    time[0] += dt.timedelta(minutes=5)
    (job,) = cleaning.find_due_jobs(time[0])
    assert (job.task, job.args, job.queue) == (Task.MEDIA_CLEAN, {}, Queue.MAINTENANCE)
    registry.load_tasks()
    spec = registry.find_task(Task.MEDIA_CLEAN)
    assert spec is not None
    assert spec.mode == "solo"
    cleaning.run()
    assert cleaning.find_due_jobs(time[0] + dt.timedelta(minutes=4)) == []
    assert cleaning.find_due_jobs(time[0] + dt.timedelta(minutes=5)) == [], "nothing to do"
    services.gateways.files.delete(ANN, add_file(services, ANN, make_content(2)).id)
    time[0] += dt.timedelta(minutes=90)
    assert cleaning.find_due_jobs(time[0])


# -- the stores against the database
def walk(services: Services, apply: bool = True) -> DiskCounts:
    return services.media_cleaning.walk_stores(apply=apply)


def test_U11_files_without_a_document_are_deleted_after_a_day_and_only_on_demand(
    services: Services, time: list[dt.datetime]
) -> None:
    add_file(services, ANN, make_content(1))
    add_file(services, ANN, make_content(2))
    services.store.database.blobs.delete_one({"_id": make_content(2).id})
    before = list_keys(services)
    assert walk(services).strays == 0, "it may be young: its document comes soon"
    make_older(services, 23 * dt.timedelta(hours=1))
    assert walk(services).strays == 0
    make_older(services, 2 * dt.timedelta(hours=1))
    found = walk(services, apply=False)
    assert (found.strays, found.deleted, list_keys(services)) == (2, 0, before)
    found = walk(services)
    assert (found.shards, found.files, found.strays, found.deleted) == (256, 4, 2, 2)
    assert list_keys(services) == {key for key in before if make_content(1).id.hex()[2:] in key}


def test_U11_old_generations_that_are_still_named_stay(services: Services, time: list[dt.datetime]) -> None:
    add_file(services, ANN, make_content(1))
    add_file(services, ANN, make_content(1, ["w640", "t208"]))
    make_older(services, 2 * DAY)
    assert walk(services).strays == 0
    services.mappers.blobs.forget_old(make_content(1).id, services.mappers.blobs.list_after(b"", 1)[0].old)
    assert walk(services).deleted == 2
    assert list(find_faults(services)) == []


def test_U11_temporary_files_of_interrupted_writes_are_deleted(
    services: Services, time: list[dt.datetime]
) -> None:
    add_file(services, ANN, make_content(1))
    (store,) = services.media_stores.stores
    name = next(path for path in store._folder.rglob("*w640*") if path.is_file())  # type: ignore[attr-defined]
    name.with_name(f"{name.name}.0123abcd.tmp").write_bytes(b"half")
    assert walk(services).deleted == 0
    make_older(services, 2 * DAY)
    assert walk(services).deleted == 1
    assert len(list_keys(services)) == 2


def test_U11_no_live_file_is_deleted_while_others_are_stored(
    services: Services, time: list[dt.datetime], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each shard is listed while content is being stored: its files are there, its document isn't yet."""
    stores = services.media_stores
    rounds = iter(range(1, 1000))
    (store,) = stores.stores
    real = store.list_files

    def list_files(shard: str) -> Any:
        found = list(real(shard))
        if int(shard, 16) % 16 == 0:
            add_file(services, ANN, make_content(256 * next(rounds) + int(shard, 16)))
        return iter(found)

    monkeypatch.setattr(type(stores), "stores", property(lambda self: [store]))
    monkeypatch.setattr(store, "list_files", list_files)
    for _ in range(2):
        found = walk(services)
        assert (found.deleted, found.mended, found.lost) == (0, 0, 0)
    monkeypatch.undo()
    assert (list(find_faults(services)), len(list_keys(services))) == ([], 2 * 2 * 16)


def test_a_document_whose_files_a_store_lost_gets_them_from_another(
    two_stores: Services, time: list[dt.datetime]
) -> None:
    services = two_stores
    add_file(services, ANN, make_content(1))
    one, two = services.media_stores.stores
    _remove_all(one)
    assert walk(services, apply=False).mended == 1
    assert services.gateways.blobs.find([make_content(1).id])[make_content(1).id].missing == ()
    found = walk(services)
    assert (found.mended, found.lost) == (1, 0)
    (blob,) = services.mappers.blobs.list_after(b"", 9)
    assert (blob.copies, blob.missing) == ((two.name,), (one.name,))


def test_a_document_whose_files_are_in_no_store_is_kept_and_drawn_anew(
    two_stores: Services, time: list[dt.datetime]
) -> None:
    services = two_stores
    source = add_source(services, 1, time[0])
    for store in services.media_stores.stores:
        _remove_all(store)
    assert (walk(services, apply=False).lost, walk(services).lost) == (1, 1)
    (blob,) = services.mappers.blobs.list_after(b"", 9)
    assert blob.lost, "its document stays"
    (again,) = services.gateways.sources.find([source.id]).values()
    assert again.next_at == time[0]
    services.gateways.sources.claim([source.id], "new", time[0])
    services.gateways.blobs.keep(
        make_content(1),
        lambda session, blob_id: services.gateways.sources.finish(
            session, source.id, "new", blob_id, time[0]
        ),
    )
    assert list(find_faults(services)) == []


def test_a_silent_store_loses_nothing(
    two_stores: Services, time: list[dt.datetime], monkeypatch: pytest.MonkeyPatch
) -> None:
    services = two_stores
    add_file(services, ANN, make_content(1))
    one, _ = services.media_stores.stores

    def refuse(*_: Any) -> Any:
        raise MediaStoreError

    monkeypatch.setattr(one, "list_files", refuse)
    found = walk(services)
    assert (found.silent, found.mended, found.lost, found.files) == (256, 0, 0, 2)


def test_F20_a_database_older_than_the_files_deletes_none_of_today(
    services: Services, time: list[dt.datetime]
) -> None:
    """A restored database doesn't know the latest files, and knows some that were deleted since."""
    add_file(services, ANN, make_content(1))
    gone = add_file(services, ANN, make_content(2))
    backup = {name: list(services.store.database[name].find()) for name in ("blobs", "files", "usage")}
    services.gateways.files.delete(ANN, gone.id)
    time[0] += dt.timedelta(hours=2)
    run(services)
    add_file(services, ANN, make_content(3))
    for name, docs in backup.items():
        services.store.database[name].delete_many({})
        services.store.database[name].insert_many(docs)
    found = walk(services)
    assert (found.deleted, found.lost) == (0, 1)
    add_file(services, ANN, make_content(3))
    add_file(services, ANN, make_content(2))
    assert list(find_faults(services)) == []
    make_older(services, 2 * DAY)
    assert walk(services).deleted == 2, "the first upload of content 3, which nobody knows"


def _remove_all(store: Any) -> None:
    for shard in range(256):
        for file in store.list_files(f"{shard:02x}"):
            store.delete(file.key)


# -- the admin's view
def test_monitoring_gets_the_figures_of_the_last_run(services: Services, time: list[dt.datetime]) -> None:
    assert services.media_cleaning.load_figures().stored == {"picture": 0, "file": 0, "cache": 0}
    add_source(services, 1, time[0])
    add_file(services, ANN, make_content(2, ["original"]))
    services.mappers.blobs.mark_lost(services.mappers.blobs.list_after(b"", 1)[0])
    run(services)
    figures = services.media_cleaning.load_figures()
    assert figures.stored == {"picture": 27, "file": 17, "cache": 27}
    assert figures.problems == {"lost": 1, "stray": 0}


def test_only_admins_see_and_start_it(services: Services, time: list[dt.datetime]) -> None:
    add_source(services, 1, time[0])
    admin = Actor(1, Role.ADMIN)
    stats, stores = services.media_cleaning.describe(admin)
    assert (stats.pictures, stats.files, len(stores)) == (1, 0, 1)
    assert services.media_cleaning.list_storage(admin).users == []
    assert stats.oldest_use is not None
    assert stats.oldest_use.date() == time[0].date()
    services.media_cleaning.request_run(admin)
    cleaning = services.media_cleaning
    for call in (cleaning.describe, cleaning.list_storage, cleaning.request_run):
        with pytest.raises(ForbiddenError):
            call(Actor(2))
