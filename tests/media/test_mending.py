"""Stores that were away get what they lack: ``media.mend`` and the settings of stores."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bson.int64 import Int64

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.models.jobs.jobs import Queue, Task
from app.models.media.blob import build_key
from app.runtime.pieces import read_piece

BODIES = {"w640": b"large" * 100, "w1280": b"larger" * 100}


@pytest.fixture
def two(settings: Settings, services: Services, tmp_path: Path) -> Iterator[Services]:
    """Services with two stores: folders of disks that may be taken away."""
    stores = tuple(f"disk:{tmp_path}/{name}/files" for name in ("one", "two"))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with contextlib.closing(bootstrap.build(dataclasses.replace(settings, media_stores=stores))) as built:
        yield built


def _keep(services: Services, db: Any, body: dict[str, bytes] = BODIES, generation: int = 5) -> bytes:
    """Store a blob as drawing does; return its id."""
    blob_id, stores = os.urandom(32), services.media_stores
    copies = set(stores.names)
    for name, content in body.items():
        copies &= set(stores.put(build_key(blob_id, generation, name), content, len(content)))
    doc = {
        "_id": blob_id,
        "g": Int64(generation),
        "n": 1,
        "names": {name: len(content) for name, content in body.items()},
        "copies": [name for name in stores.names if name in copies],
    }
    if want := [name for name in stores.names if name not in copies]:
        doc["want"] = want
    db.blobs.insert_one(doc)
    return blob_id


def _read(services: Services, blob_id: bytes, position: int) -> dict[str, bytes]:
    store = services.media_stores.stores[position]
    return {name: b"".join(read_piece(store.open(build_key(blob_id, 5, name)))) for name in BODIES}


@contextlib.contextmanager
def _unmounted(folder: Path) -> Iterator[None]:
    folder.rename(folder.with_suffix(".away"))
    try:
        yield
    finally:
        folder.with_suffix(".away").rename(folder)


def test_what_was_stored_while_a_store_was_away_is_copied(two: Services, db: Any, tmp_path: Path) -> None:
    assert _keep(two, db)
    with _unmounted(tmp_path / "two"):
        blobs = [_keep(two, db) for _ in range(5)]
        assert db.blobs.count_documents({"want": two.media_stores.names[1]}) == 5
        assert two.media_mending.run(seconds=60) == 0
    assert two.media_mending.run(seconds=60) == 5
    assert db.blobs.count_documents({"want": {"$exists": True}}) == 0
    for blob_id in blobs:
        assert _read(two, blob_id, 1) == BODIES
        assert db.blobs.find_one({"_id": blob_id})["copies"] == list(two.media_stores.names)
    assert two.media_mending.run(seconds=60) == 0, "a second run changes nothing"


def test_the_job_is_due_while_something_is_missing(two: Services, db: Any, tmp_path: Path) -> None:
    now = clock.now()
    assert two.media_mending.find_due_jobs(now) == []
    with _unmounted(tmp_path / "one"):
        _keep(two, db)
    assert two.media_mending.find_due_jobs(now + dt.timedelta(seconds=59)) == []
    (job,) = two.media_mending.find_due_jobs(now + dt.timedelta(seconds=60))
    assert (job.task, job.queue, job.args) == (Task.MEND, Queue.MAINTENANCE, {})
    two.media_mending.run(seconds=60)
    assert two.media_mending.find_due_jobs(now + dt.timedelta(seconds=120)) == []


def test_a_blob_that_no_store_has_does_not_block_the_others(two: Services, db: Any, tmp_path: Path) -> None:
    with _unmounted(tmp_path / "two"):
        lost = [_keep(two, db) for _ in range(5)]
        for blob_id in lost:
            for name in BODIES:
                two.media_stores.stores[0].delete(build_key(blob_id, 5, name))
        kept = [_keep(two, db) for _ in range(5)]
    assert two.media_mending.run(seconds=60) == 5
    assert all(_read(two, blob_id, 1) == BODIES for blob_id in kept)
    assert db.blobs.count_documents({"want": {"$exists": True}}) == 5
    assert two.media_mending.find_due_jobs(clock.now())
    db.blobs.update_many({"want": {"$exists": True}}, {"$set": {"lost": True}})
    assert two.media_mending.find_due_jobs(clock.now() + dt.timedelta(hours=1)) == [], "nobody has it"


def test_a_new_generation_is_copied_and_the_old_one_recorded_nowhere(
    two: Services, db: Any, tmp_path: Path
) -> None:
    with _unmounted(tmp_path / "two"):
        blob_id = _keep(two, db)
    mapper = two.mappers.media_mending
    (wanting,) = mapper.find_wanting(two.media_stores.names[1], (b"", None), 10)
    db.blobs.update_one({"_id": blob_id}, {"$set": {"g": Int64(6)}})
    assert not mapper.record_copy(wanting, two.media_stores.names[1])
    assert db.blobs.find_one({"_id": blob_id})["want"] == [two.media_stores.names[1]]
    db.blobs.update_one({"_id": blob_id}, {"$set": {"n": -1}})
    assert mapper.find_wanting(two.media_stores.names[1], (b"", None), 10) == [], "it is being deleted"


def test_a_store_that_is_not_used_anymore_lacks_nothing(
    two: Services, settings: Settings, db: Any, tmp_path: Path
) -> None:
    with _unmounted(tmp_path / "two"):
        blob_id = _keep(two, db)
    shutil.rmtree(tmp_path / "two")
    only = dataclasses.replace(settings, media_stores=(f"disk:{tmp_path}/one/files",))
    with contextlib.closing(bootstrap.build(only)) as one:
        assert one.media_mending.run(seconds=60) == 0
        assert "want" not in db.blobs.find_one({"_id": blob_id})
        assert _read(one, blob_id, 0) == BODIES


def test_a_run_ends_when_its_worker_stops(two: Services, db: Any, tmp_path: Path) -> None:
    with _unmounted(tmp_path / "two"):
        for _ in range(5):
            _keep(two, db)
    turns = iter([False, False, True, True])
    assert two.media_mending.run(seconds=60, is_stopping=lambda: next(turns)) == 2
    assert two.media_mending.run(seconds=60) == 3


def test_a_walk_over_what_a_store_lacks_reads_only_that_and_sorts_nothing(two: Services, db: Any) -> None:
    name = two.media_stores.names[1]
    for number in range(12):
        blob_id = _keep(two, db)
        if number % 2 == 0:
            db.blobs.update_one({"_id": blob_id}, {"$set": {"want": [name]}})
    found = two.mappers.media_mending.find_wanting(name, (b"", None), 2)
    assert [blob.id for blob in found] == sorted(blob.id for blob in found)
    db.command("profile", 2)
    two.mappers.media_mending.find_wanting(name, (found[-1].id, None), 2)
    db.command("profile", 0)
    (seen,) = db["system.profile"].find({"ns": f"{db.name}.blobs", "op": "query"})
    assert (seen["keysExamined"], seen["docsExamined"], seen.get("hasSortStage")) == (2, 2, None)


def test_without_a_setting_files_are_in_the_data_folder(services: Services) -> None:
    key = build_key(os.urandom(32), 1, "original")
    assert services.media_stores.put(key, b"x", 1) == ("disk",)
    shard, _, rest = key.partition("/")
    path = services.settings.home / "media" / "files" / shard / rest.replace("/", ".")
    assert path.read_bytes() == b"x"
