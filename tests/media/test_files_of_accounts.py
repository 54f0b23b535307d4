"""Files in the deletion of an account (G02) and in its data export (G01); other users notice nothing."""

from __future__ import annotations

import datetime as dt
import io
import json
import zipfile
from typing import Any

import pytest

from app import clock
from app.bootstrap.services import Services
from app.gateways.media import files as gateway
from app.gateways.privacy.erasure import STRAGGLERS
from app.models.accounts.actor import Actor
from app.models.media.blob import ORIGINAL
from tests.support.media import add_file, find_faults, find_strays, list_keys, make_content
from tests.support.reader import PASSWORD, add_user


@pytest.fixture
def ann(services: Services) -> Actor:
    add_user(services, "root")
    return add_user(services, "ann")


@pytest.fixture
def bob(services: Services, ann: Actor) -> Actor:
    return add_user(services, "bob")


def test_G02_files_of_a_deleted_account_go_and_those_of_others_stay(
    services: Services, ann: Actor, bob: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "TOGETHER", 2)
    for number in range(5):
        add_file(services, ann.user_id, make_content(number), [f"share:{number}"])
    other = add_file(services, bob.user_id, make_content(0))
    services.accounts.delete_account(ann, PASSWORD)
    later = clock.now() + STRAGGLERS
    with clock.set_source(lambda: later):
        assert services.erasure.run(ann.user_id) == {"state": "gone"}
    db = services.store.database
    assert [doc["user_id"] for doc in db.files.find()] == [bob.user_id]
    assert [doc["_id"] for doc in db.usage.find()] == [bob.user_id]
    assert list(find_faults(services)) == []
    with clock.set_source(lambda: later + dt.timedelta(hours=2)):
        services.media_cleaning.run()
    assert {doc["_id"] for doc in db.blobs.find()} == {other.blob}
    assert (len(list_keys(services)), find_strays(services)) == (2, set())
    assert services.gateways.files.get(bob.user_id, other.id) == other


@pytest.mark.parametrize("at", [1, 2])
def test_G02_a_deletion_killed_between_two_batches_of_files_is_finished(
    services: Services, ann: Actor, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "TOGETHER", 2)
    for number in range(5):
        add_file(services, ann.user_id, make_content(number))
    services.accounts.delete_account(ann, PASSWORD)
    real, calls = services.mappers.files.remove_batch, []

    def killed(*args: Any) -> Any:
        found = real(*args)
        calls.append(found)
        if len(calls) == at:
            raise KeyboardInterrupt
        return found

    later = clock.now() + STRAGGLERS
    with clock.set_source(lambda: later):
        with monkeypatch.context() as patch:
            patch.setattr(services.mappers.files, "remove_batch", killed)
            with pytest.raises(KeyboardInterrupt):
                services.erasure.run(ann.user_id)
        assert list(find_faults(services)) == []
        assert services.erasure.run(ann.user_id) == {"state": "gone"}
    assert services.store.database.files.count_documents({}) == 0
    assert list(find_faults(services)) == []


def test_G02_a_file_that_a_job_stores_at_the_last_moment_is_deleted_by_the_next_run(
    services: Services, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.accounts.delete_account(ann, PASSWORD)
    real = services.mappers.erasure.erase

    def erase(*args: Any) -> bool:
        if services.store.database.blobs.count_documents({}) == 0:
            add_file(services, ann.user_id, make_content(1))
        return real(*args)

    monkeypatch.setattr(services.mappers.erasure, "erase", erase)
    later = clock.now() + STRAGGLERS
    with clock.set_source(lambda: later):
        assert services.erasure.run(ann.user_id) == {"state": "again"}
        assert list(find_faults(services)) == []
        assert services.erasure.run(ann.user_id) == {"state": "gone"}
    assert list(find_faults(services)) == []


def _export(services: Services, who: Actor) -> zipfile.ZipFile:
    gateways = services.gateways
    assert gateways.personal_exports.request_export(who.user_id, clock.now())
    assert services.personal_exports.run(who.user_id) == {"state": "ready"}
    made = services.personal_exports.find_latest(who)
    assert made is not None
    return zipfile.ZipFile(io.BytesIO(b"".join(gateways.personal_exports.iter_parts(made))))


def test_G01_the_export_contains_the_users_own_files(services: Services, ann: Actor, bob: Actor) -> None:
    own = add_file(services, ann.user_id, make_content(1, [ORIGINAL]), name="../../holiday.png")
    drawn = add_file(services, ann.user_id, make_content(2), name="avatar")
    # The other user of the same content leaves no trace.
    add_file(services, bob.user_id, make_content(1, [ORIGINAL]), name="of bob")
    add_file(services, bob.user_id, make_content(3), name="only of bob")
    archive = _export(services, ann)
    rows = {row["name"]: row for row in json.loads(archive.read("files.json"))}
    assert set(rows) == {"../../holiday.png", "avatar"}
    assert rows["../../holiday.png"]["file"] == f"files/{own.id}.png"
    assert archive.read(f"files/{own.id}.png") == b"content 1original"
    assert archive.read(f"files/{drawn.id}.webp") == b"content 2w1280", "the largest there is"
    members = [name for name in archive.namelist() if name.startswith("files/")]
    assert sorted(members) == sorted([f"files/{own.id}.png", f"files/{drawn.id}.webp"])


def test_G01_files_that_do_not_fit_or_are_lost_are_named_without_content(
    services: Services, ann: Actor
) -> None:
    big = make_content(1, [ORIGINAL])
    object.__setattr__(big, "files", {ORIGINAL: bytes(100_000)})
    object.__setattr__(big, "size", 100_000)
    add_file(services, ann.user_id, big, name="big")
    add_file(services, ann.user_id, make_content(2, [ORIGINAL]), name="small")
    add_file(services, ann.user_id, make_content(3, [ORIGINAL]), name="lost")
    services.store.database.blobs.update_one({"_id": make_content(3).id}, {"$set": {"lost": True}})
    services.gateways.personal_exports._most = 50_000
    archive = _export(services, ann)
    rows = {row["name"]: row for row in json.loads(archive.read("files.json"))}
    assert {name: row["file"] is not None for name, row in rows.items()} == {
        "big": False,
        "small": True,
        "lost": False,
    }
    assert rows["big"]["size"] == 100_000
