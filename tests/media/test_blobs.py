"""Blobs: content exists once, and goes when nothing refers to it anymore (U10, R06)."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app import clock
from app.bootstrap.services import Services
from app.errors import ConflictError, InvalidError, MediaStoreError, NotFoundError
from app.models.media.blob import ORIGINAL, Blob, split_key
from app.models.media.user_file import OWNERS_MAX, SYSTEM
from app.runtime.pieces import read_piece
from tests.support.database import NOW
from tests.support.media import add_file, find_faults, find_strays, list_keys, make_content

ANN, BOB = 11, 12
DAY = dt.timedelta(days=1)


@pytest.fixture
def time() -> Iterator[list[dt.datetime]]:
    """The time is its only item."""
    now = [NOW]
    with clock.set_source(lambda: now[0]):
        yield now


def clean(services: Services) -> dict[str, int]:
    return services.media_cleaning.run()._asdict()


def get_blob(services: Services, number: int = 1) -> Blob | None:
    return services.mappers.blobs.find(make_content(number).id)


def read(services: Services, number: int, name: str = "w640") -> bytes:
    return b"".join(read_piece(services.gateways.blobs.open(make_content(number).id, name)))


def test_two_users_with_the_same_content_share_one_blob(services: Services) -> None:
    first, second = add_file(services, ANN, make_content(1)), add_file(services, BOB, make_content(1))
    blob = get_blob(services)
    assert blob is not None
    assert (blob.references, first.blob, second.blob) == (2, blob.id, blob.id)
    assert len(list_keys(services)) == 2, "w640 and w1280"
    assert read(services, 1) == b"content 1w640"
    assert list(find_faults(services)) == []


def test_content_without_references_is_deleted_after_an_hour(
    services: Services, time: list[dt.datetime]
) -> None:
    file = add_file(services, ANN, make_content(1))
    services.gateways.files.delete(ANN, file.id)
    assert clean(services)["blobs"] == 0
    assert read(services, 1), "a repeated upload finds it"
    time[0] += dt.timedelta(hours=1, seconds=1)
    assert clean(services)["blobs"] == 1
    assert (get_blob(services), list_keys(services)) == (None, set())


def test_content_that_is_used_again_within_the_hour_stays(
    services: Services, time: list[dt.datetime]
) -> None:
    services.gateways.files.delete(ANN, add_file(services, ANN, make_content(1)).id)
    add_file(services, BOB, make_content(1))
    time[0] += DAY
    assert clean(services)["blobs"] == 0
    assert read(services, 1)


def test_content_that_is_being_deleted_is_stored_anew_without_waiting(
    services: Services, time: list[dt.datetime]
) -> None:
    services.gateways.files.delete(ANN, add_file(services, ANN, make_content(1)).id)
    time[0] += DAY
    (before,) = services.mappers.blobs.condemn([make_content(1).id], time[0])
    assert services.gateways.blobs.find([before.id]) == {}, "nobody can use it"
    add_file(services, BOB, make_content(1))
    after = get_blob(services)
    assert after is not None
    assert (after.references, after.old) == (1, (before.generation,))
    # The interrupted deletion ends late, and meets only its own generation.
    for name in before.names:
        services.media_stores.delete(
            f"{before.id.hex()[:2]}/{before.id.hex()[2:]}.{before.generation:010x}/{name}"
        )
    assert services.mappers.blobs.remove([before]) == 0
    assert read(services, 1)
    assert clean(services)["generations"] == 1
    assert get_blob(services) == dataclasses.replace(after, old=())
    assert find_strays(services) == set()


def test_a_file_without_an_owner_is_deleted_after_the_window(
    services: Services, time: list[dt.datetime]
) -> None:
    files = services.gateways.files
    loose, owned = (
        add_file(services, ANN, make_content(1)),
        add_file(services, ANN, make_content(2), ["share:7"]),
    )
    time[0] += dt.timedelta(days=14, seconds=1)
    assert clean(services)["files"] == 1
    assert set(files.find(ANN, [loose.id, owned.id])) == {owned.id}
    files.detach(None, "share:7")
    time[0] += 13 * DAY
    assert clean(services)["files"] == 0
    services.store.run_in_transaction(lambda s: files.attach(s, ANN, [owned.id], "comment:8"))
    time[0] += 30 * DAY
    assert clean(services)["files"] == 0
    assert [f.id for f in files.find_owned(["comment:8"])["comment:8"]] == [owned.id]
    assert list(find_faults(services)) == []


def test_an_owner_leaves_files_that_others_own_as_well(services: Services) -> None:
    files = services.gateways.files
    file = add_file(services, ANN, make_content(1), ["share:7", "share:8"])
    files.detach(None, "share:7", "share:9")
    assert (files.get(ANN, file.id).owners, files.get(ANN, file.id).loose) == (("share:8",), None)
    files.rename_owner(None, "share:8", "share:10")
    assert files.get(ANN, file.id).owners == ("share:10",)
    files.detach(None, "share:10")
    assert files.get(ANN, file.id).loose is not None


def test_only_the_users_own_files_can_be_attached(services: Services) -> None:
    files, run = services.gateways.files, services.store.run_in_transaction
    mine, other = add_file(services, ANN, make_content(1)), add_file(services, BOB, make_content(1))
    with pytest.raises(NotFoundError):
        run(lambda s: files.attach(s, ANN, [mine.id, other.id], "share:7"))
    assert files.get(ANN, mine.id).owners == (), "all or nothing"
    full = add_file(services, ANN, make_content(2), [f"share:{n}" for n in range(OWNERS_MAX)])
    with pytest.raises(InvalidError):
        run(lambda s: files.attach(s, ANN, [full.id], "share:99"))
    run(lambda s: files.attach(s, ANN, [full.id], "share:3"))  # it is one of them already


def test_the_other_user_of_a_blob_notices_nothing_of_its_deletion(services: Services) -> None:
    mine, other = add_file(services, ANN, make_content(1)), add_file(services, BOB, make_content(1))
    with pytest.raises(NotFoundError):
        services.gateways.files.delete(ANN, other.id)
    services.gateways.files.delete(ANN, mine.id)
    usage = services.mappers.usage
    assert [getattr(usage.find(user), "finished", 0) for user in (ANN, BOB)] == [0, make_content(1).size]
    assert services.gateways.files.get(BOB, other.id) == other
    assert read(services, 1)
    assert services.gateways.files.find_by_blob(ANN, other.blob) is None


def test_files_of_the_system_count_for_nobody(services: Services) -> None:
    add_file(services, SYSTEM, make_content(1), ["entry:5"])
    assert services.store.database.usage.count_documents({}) == 0


def test_content_with_more_files_gets_a_new_generation_with_all_of_them(
    services: Services, time: list[dt.datetime]
) -> None:
    add_file(services, ANN, make_content(1))
    add_file(services, BOB, make_content(1, [ORIGINAL]))
    blob = get_blob(services)
    assert blob is not None
    assert (sorted(blob.names), blob.references, blob.width) == (["original", "w1280", "w640"], 2, 640)
    assert read(services, 1) == b"content 1w640"
    assert read(services, 1, ORIGINAL) == b"content 1original"
    clean(services)
    assert {split_key(key)[1] for key in list_keys(services)} == {blob.generation}  # type: ignore[index]


@pytest.mark.parametrize("error", [NotFoundError, ConflictError])
def test_a_refused_record_leaves_no_content_behind(services: Services, error: type[Exception]) -> None:
    def refuse(*_: Any) -> None:
        raise error

    with pytest.raises(error):
        services.gateways.blobs.keep(make_content(1), refuse)
    assert (get_blob(services), list_keys(services)) == (None, set())
    add_file(services, ANN, make_content(1))
    with pytest.raises(error):
        services.gateways.blobs.keep(make_content(1), refuse)
    assert list(find_faults(services)) == []


def test_a_store_that_fails_in_the_middle_leaves_no_content_behind(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = services.media_stores
    real: Callable[..., Any] = stores.put

    def put(key: str, *args: Any) -> Any:
        if key.endswith("w1280"):
            raise MediaStoreError
        return real(key, *args)

    monkeypatch.setattr(stores, "put", put)
    with pytest.raises(MediaStoreError):
        add_file(services, ANN, make_content(1))
    assert (get_blob(services), list_keys(services)) == (None, set())


def test_a_deletion_that_a_store_does_not_confirm_waits_and_blocks_nobody(
    services: Services, time: list[dt.datetime], monkeypatch: pytest.MonkeyPatch
) -> None:
    services.gateways.files.delete(ANN, add_file(services, ANN, make_content(1)).id)
    time[0] += DAY
    with monkeypatch.context() as down:
        down.setattr(services.media_stores, "delete", lambda key: False)
        done = clean(services)
        assert (done["blobs"], done["waiting"]) == (0, 1)
        assert services.gateways.media_cleaning.has_work(time[0])
        add_file(services, BOB, make_content(1))
        assert clean(services)["waiting"] == 1
        assert read(services, 1)
    clean(services)
    assert (find_strays(services), list(find_faults(services))) == (set(), [])


def test_a_release_too_many_changes_nothing_and_is_corrected(services: Services) -> None:
    add_file(services, ANN, make_content(1))
    db = services.store.database
    db.blobs.update_one({}, {"$set": {"n": 0}})
    services.store.run_in_transaction(lambda s: services.gateways.blobs.release(s, make_content(1).id))
    assert db.blobs.find_one()["n"] == 0  # type: ignore[index]
    assert services.media_cleaning.recount().wrong == 1
    assert list(find_faults(services)) == []


def test_a_recount_corrects_all_wrong_numbers(services: Services) -> None:
    for number in range(4):
        add_file(services, ANN, make_content(number))
    db = services.store.database
    db.blobs.update_one({"_id": make_content(0).id}, {"$set": {"n": 5}})
    db.blobs.update_one({"_id": make_content(1).id}, {"$set": {"n": -1}})
    db.files.delete_one({"blob": make_content(2).id})
    db.blobs.delete_one({"_id": make_content(3).id})
    found = services.media_cleaning.recount()
    assert (found.blobs, found.wrong, found.dangling) == (3, 3, 1)
    assert get_blob(services, 1).lost  # type: ignore[union-attr]
    assert services.media_cleaning.recount().wrong == 0
    # Its files may be gone: the next use stores them anew.
    before = get_blob(services, 1)
    assert not services.store.run_in_transaction(
        lambda s: services.gateways.blobs.use(s, make_content(1).id)
    ), "the instant path has nothing to offer"
    add_file(services, BOB, make_content(1))
    after = get_blob(services, 1)
    assert before is not None
    assert after is not None
    assert (after.references, after.lost, after.generation != before.generation) == (2, False, True)
