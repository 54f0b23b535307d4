"""Uploads and the quota: reservations (U05), counting in any order, sealing, expiry, known files."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import functools
import hashlib
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from app import clock, config
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.errors import (
    ChecksumError,
    ConflictError,
    EventrError,
    ForbiddenError,
    GoneError,
    NotFoundError,
    OffsetError,
    PicturesUnsupportedError,
    QuotaError,
    RateLimitedError,
    TooLargeError,
)
from app.gateways.media import quota
from app.gateways.media import uploads as gateway
from app.models.accounts.actor import Actor, Role
from app.models.media.blob import Purpose
from app.models.media.upload import (
    RESERVED_STEP,
    NewUpload,
    PartDigest,
    Upload,
    UploadState,
    Usage,
)
from tests.support.media import add_file, make_content
from tests.support.reader import add_user

ANN = Actor(11)
BOB = Actor(12)
MB = 1 << 20


def rebuild(services: Services, **changes: Any) -> Services:
    """Return the same services with other settings; nothing of them needs to be closed by itself."""
    other = bootstrap.Services(dataclasses.replace(services.settings, **changes))
    for name in ("store", "jobs", "limiter", "later"):
        other.__dict__[name] = getattr(services, name)
    return other


def begin(services: Services, size: int | None = 10, actor: Actor = ANN, **changes: Any) -> Upload:
    return services.uploads.create(actor, NewUpload(size=size, name="a.bin", **changes)).upload


def send(services: Services, data: bytes, actor: Actor = ANN, **changes: Any) -> Upload:
    """Upload a file completely, and store it as the job does."""
    upload = begin(services, len(data), actor, **changes)
    if data:
        services.uploads.append(actor, upload.id, 0, data)
    services.sealing.seal_upload(upload.id)
    found = services.mappers.uploads.find(upload.id)
    assert found is not None
    return found


def find_usage(services: Services, actor: Actor = ANN) -> Usage:
    return services.gateways.quota.find(actor.user_id)


def assert_counted(services: Services, actor: Actor = ANN) -> Usage:
    """Check that the counts are those of a recount, and return them."""
    found = find_usage(services, actor)
    assert services.gateways.quota.recount_usage(actor.user_id) is None
    return found


# -- reservations
def test_U05_of_fifty_uploads_at_once_as_many_begin_as_fit(services: Services) -> None:
    few = rebuild(services, quota=100_000, uploads_open=50)
    start, begun, refused = threading.Barrier(10), list[Upload](), list[EventrError]()

    def create() -> None:
        start.wait()
        for _ in range(5):
            try:
                begun.append(begin(few, 10_000))
            except QuotaError as e:
                refused.append(e)

    threads = [threading.Thread(target=create) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(begun), len(refused)) == (10, 40)
    assert assert_counted(few) == Usage(0, 100_000, 0, 100_000)
    assert sum(1 for _ in (few.settings.home / "media" / "up").rglob("*") if _.is_file()) == 10
    for upload in begun:
        few.uploads.append(ANN, upload.id, 0, os.urandom(10_000))
        few.sealing.seal_upload(upload.id)
    assert assert_counted(few) == Usage(100_000, 0, 0, 100_000)
    with pytest.raises(QuotaError):
        begin(few, 1)


def test_U05_the_limit_of_open_uploads_holds_for_parallel_ones_too(services: Services) -> None:
    few = rebuild(services, uploads_open=3)
    start, begun = threading.Barrier(6), list[Upload]()

    def create() -> None:
        start.wait()
        with contextlib.suppress(RateLimitedError):
            begun.append(begin(few))

    threads = [threading.Thread(target=create) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(begun) == 3
    few.uploads.delete(ANN, begun[0].id)
    assert begin(few, actor=BOB).user_id == BOB.user_id
    begin(few)
    assert_counted(few)


def test_a_quota_of_their_own_counts_instead_of_the_default(services: Services) -> None:
    few = rebuild(services, quota=100)
    few.mappers.usage.set_quota(ANN.user_id, 5)
    few.mappers.usage.set_quota(BOB.user_id, 0)
    with pytest.raises(QuotaError):
        begin(few, 6)
    begin(few, 5)
    begin(few, 1000, BOB)
    few.mappers.usage.set_quota(ANN.user_id, None)
    begin(few, 95)
    with pytest.raises(QuotaError):
        begin(few, 1)
    assert begin(rebuild(services, quota=0), 1000).size == 1000


@pytest.mark.parametrize("missing", [(), ("finished",), ("reserved",), ("unfinished", "reserved")])
def test_U05_the_quota_applies_to_users_whose_first_file_came_without_an_upload(
    services: Services, missing: tuple[str, ...]
) -> None:
    few = rebuild(services, quota=100)
    add_file(few, ANN.user_id, make_content(1))  # as an avatar does
    usage = few.store.database.usage
    assert set(usage.find_one({"_id": ANN.user_id})) == {"_id", "finished", "reserved", "unfinished", "quota"}
    if missing:
        usage.update_one({"_id": ANN.user_id}, {"$unset": dict.fromkeys(missing, "")})
    with pytest.raises(QuotaError):
        begin(few, 101)
    with pytest.raises(QuotaError):
        begin(few, None)
    begin(few, 1)


def test_uploads_without_a_size_reserve_in_steps(services: Services) -> None:
    few = rebuild(services, quota=2 * RESERVED_STEP)
    upload = begin(few, None)
    assert find_usage(few).reserved == RESERVED_STEP
    few.uploads.append(ANN, upload.id, 0, b"x" * RESERVED_STEP)
    assert find_usage(few).reserved == RESERVED_STEP
    few.uploads.append(ANN, upload.id, RESERVED_STEP, b"y")
    assert assert_counted(few).reserved == 2 * RESERVED_STEP
    with pytest.raises(QuotaError):
        begin(few, 1)
    status = few.uploads.declare_size(ANN, upload.id, RESERVED_STEP + 3)
    assert (status.offset, status.upload.size) == (RESERVED_STEP + 1, RESERVED_STEP + 3)
    assert assert_counted(few).reserved == RESERVED_STEP + 3
    with pytest.raises(ConflictError):
        few.uploads.declare_size(ANN, upload.id, RESERVED_STEP + 4)
    assert few.uploads.declare_size(ANN, upload.id, RESERVED_STEP + 3).offset == RESERVED_STEP + 1
    few.uploads.append(ANN, upload.id, RESERVED_STEP + 1, b"zz")
    few.sealing.seal_upload(upload.id)
    assert assert_counted(few) == Usage(RESERVED_STEP + 3, 0, 0, 2 * RESERVED_STEP)


def test_an_upload_without_a_size_ends_at_the_quota(services: Services) -> None:
    few = rebuild(services, quota=RESERVED_STEP)
    upload = begin(few, None)
    few.uploads.append(ANN, upload.id, 0, b"x" * RESERVED_STEP)
    with pytest.raises(QuotaError):
        few.uploads.append(ANN, upload.id, RESERVED_STEP, b"y")
    assert few.uploads.find(ANN, upload.id).offset == RESERVED_STEP
    with pytest.raises(TooLargeError):
        few.uploads.declare_size(ANN, upload.id, RESERVED_STEP - 1)
    few.uploads.delete(ANN, upload.id)
    assert assert_counted(few) == Usage(0, 0, 0, RESERVED_STEP)


@pytest.mark.parametrize(
    ("purpose", "setting"),
    [
        (Purpose.ATTACHMENT, "upload_max"),
        (Purpose.PICTURE, "upload_picture_max"),
        (Purpose.AVATAR, "avatar_max"),
        (Purpose.IMPORT, "upload_import_max"),
    ],
)
def test_each_purpose_has_its_own_limit(services: Services, purpose: Purpose, setting: str) -> None:
    few = rebuild(services, **{setting: 1024})
    begin(few, 1024, purpose=purpose)
    with pytest.raises(TooLargeError):
        begin(few, 1025, purpose=purpose)
    endless = begin(few, None, purpose=purpose)
    few.uploads.append(ANN, endless.id, 0, b"x" * 1024)
    with pytest.raises(TooLargeError):
        few.uploads.append(ANN, endless.id, 1024, b"x")


@pytest.mark.parametrize("purpose", [Purpose.PICTURE, Purpose.AVATAR])
def test_without_pillow_pictures_are_refused_and_other_files_work(
    services: Services, purpose: Purpose, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "can_draw", lambda: False)
    with pytest.raises(PicturesUnsupportedError):
        begin(services, purpose=purpose)
    assert services.uploads.list_active(ANN) == []
    assert send(services, b"data").state is UploadState.DONE


@pytest.mark.parametrize("purpose", [Purpose.PICTURE, Purpose.AVATAR])
def test_a_picture_that_no_worker_can_draw_ends_and_gives_its_bytes_back(
    services: Services, purpose: Purpose, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_drawer() -> Any:
        raise ModuleNotFoundError("No module named 'PIL'")

    monkeypatch.setattr(services.drawing, "_find_drawer", find_drawer)
    upload = send(services, b"\x89PNG\r\n\x1a\n", purpose=purpose)
    assert (upload.state, upload.error) == (UploadState.FAILED, "pictures_unsupported")
    assert assert_counted(services).reserved == 0
    assert services.uploads.requeue_sealing() == 0


def test_uploads_can_be_turned_off_and_are_limited_per_hour(services: Services) -> None:
    with pytest.raises(ForbiddenError):
        begin(rebuild(services, uploads=False))
    few = rebuild(services, uploads_per_hour=2)
    begin(few)
    begin(few)
    with pytest.raises(RateLimitedError):
        begin(few)
    with pytest.raises(ForbiddenError):
        begin(services, actor=dataclasses.replace(ANN, limits=frozenset()))


# -- who may, and where a part belongs
def test_U02_others_uploads_are_not_there(services: Services) -> None:
    upload = begin(services)
    for call in (
        lambda: services.uploads.find(BOB, upload.id),
        lambda: services.uploads.append(BOB, upload.id, 0, b"x"),
        lambda: services.uploads.declare_size(BOB, upload.id, 10),
        lambda: services.uploads.discard_part(BOB, upload.id, 0, 1),
        lambda: services.uploads.delete(BOB, upload.id),
    ):
        with pytest.raises(NotFoundError):
            call()
    assert services.uploads.list_active(BOB) == []
    assert [status.upload.id for status in services.uploads.list_active(ANN)] == [upload.id]


def test_parts_must_continue_where_the_upload_ends(services: Services) -> None:
    upload = begin(services)
    assert services.uploads.append(ANN, upload.id, 0, b"01234").offset == 5
    for offset in (0, 4, 6):
        with pytest.raises(OffsetError) as e:
            services.uploads.append(ANN, upload.id, offset, b"x")
        assert e.value.ids["offset"] == 5
    with pytest.raises(TooLargeError):
        services.uploads.append(ANN, upload.id, 5, b"567890")
    assert services.uploads.append(ANN, upload.id, 5, b"56789").upload.state is UploadState.SEALING
    # The last part once more, as after a lost answer: its client asks where to go on.
    with pytest.raises(OffsetError):
        services.uploads.append(ANN, upload.id, 5, b"56789")
    assert services.uploads.append(ANN, upload.id, 10, b"").offset == 10


def test_a_part_in_slices_counts_as_a_whole_or_not_at_all(services: Services) -> None:
    digest = PartDigest("sha1", hashlib.sha1(b"0123456789", usedforsecurity=False).digest())
    upload = begin(services)
    services.uploads.append(ANN, upload.id, 0, b"01234", part_start=0)
    with pytest.raises(ChecksumError):
        services.uploads.append(ANN, upload.id, 5, b"5678X", digest, part_start=0)
    assert services.uploads.find(ANN, upload.id).offset == 0
    services.uploads.append(ANN, upload.id, 0, b"0123", part_start=0)
    assert services.uploads.discard_part(ANN, upload.id, 0, 4).offset == 0
    services.uploads.append(ANN, upload.id, 0, b"01234", part_start=0)
    ended = services.uploads.append(ANN, upload.id, 5, b"56789", digest, part_start=0)
    assert ended.upload.state is UploadState.SEALING


@pytest.mark.parametrize("look", ["head", "flush"])
def test_a_look_at_a_damaged_part_does_not_store_it(
    services: Services, look: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = PartDigest("sha1", hashlib.sha1(b"0123456789", usedforsecurity=False).digest())
    upload = begin(services)
    services.uploads.append(ANN, upload.id, 0, b"01234", part_start=0)
    seen = []

    def look_first(real: Callable[..., None], *args: Any) -> None:
        """Look at the upload just before its file changes."""
        if look == "flush":
            services.uploads.flush(ANN.user_id)
        else:
            seen.append(services.uploads.find(ANN, upload.id).offset)
        real(*args)

    with monkeypatch.context() as patch:
        for name in ("fdatasync", "ftruncate"):
            patch.setattr(os, name, functools.partial(look_first, getattr(os, name)))
        with pytest.raises(ChecksumError):
            services.uploads.append(ANN, upload.id, 5, b"5678X", digest, part_start=0)
    assert 10 not in seen
    found = services.uploads.find(ANN, upload.id)
    assert (found.upload.state, found.offset) == (UploadState.OPEN, 0)
    ended = services.uploads.append(ANN, upload.id, 0, b"0123456789", digest)
    assert ended.upload.state is UploadState.SEALING


# -- sealing
def test_a_complete_upload_becomes_a_file(services: Services) -> None:
    data = os.urandom(100_000)
    upload = send(services, data, claimed=hashlib.sha256(data).digest())
    assert upload.state is UploadState.DONE
    assert upload.file_id is not None
    file = services.files.get(ANN, upload.file_id)
    assert (file.name, file.size, file.blob) == ("a.bin", 100_000, hashlib.sha256(data).digest())
    assert services.gateways.blobs.find([file.blob])[file.blob].references == 1
    assert assert_counted(services).finished == 100_000
    assert not [path for path in (services.settings.home / "media" / "up").rglob("*") if path.is_file()]
    with pytest.raises(ConflictError):
        services.uploads.delete(ANN, upload.id)
    with pytest.raises(NotFoundError):
        services.files.get(BOB, upload.file_id)
    services.files.delete(ANN, upload.file_id)
    assert assert_counted(services).finished == 0


def test_sealing_twice_stores_one_file(services: Services) -> None:
    upload = begin(services, 5)
    services.uploads.append(ANN, upload.id, 0, b"12345")
    start, results = threading.Barrier(4), list[dict[str, Any]]()

    def seal() -> None:
        start.wait()
        results.append(services.sealing.seal_upload(upload.id))

    threads = [threading.Thread(target=seal) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each["state"] for each in results) == ["done", "ended", "ended", "ended"]
    assert services.sealing.seal_upload(upload.id) == {"state": "ended"}
    assert assert_counted(services).finished == 5
    (file,) = services.files.list_files(ANN)
    assert services.gateways.blobs.find([file.blob])[file.blob].references == 1


def test_an_empty_file_is_a_file_too(services: Services) -> None:
    assert send(services, b"").state is UploadState.DONE


@pytest.mark.parametrize(
    ("changes", "lost", "word"),
    [
        ({"claimed": b"x" * 32}, False, "checksum"),
        ({"purpose": Purpose.PICTURE}, False, "not_a_picture"),
        ({"purpose": Purpose.AVATAR}, False, "not_a_picture"),
        ({}, True, "lost"),
    ],
)
def test_what_cannot_be_stored_fails_and_gives_the_room_back(
    services: Services, changes: dict[str, Any], lost: bool, word: str
) -> None:
    upload = begin(services, 5, **changes)
    services.uploads.append(ANN, upload.id, 0, b"12345")
    if lost:
        services.upload_staging.remove(upload)
    assert services.sealing.seal_upload(upload.id) == {"state": "failed", "error": word}
    found = services.uploads.find(ANN, upload.id).upload
    assert (found.state, found.error, found.file_id) == (UploadState.FAILED, word, None)
    assert assert_counted(services) == Usage(0, 0, 0, services.settings.quota)
    assert services.files.list_files(ANN) == []
    services.uploads.delete(ANN, upload.id)


# -- counting
def test_a_flush_counts_what_the_files_have(services: Services) -> None:
    upload = begin(services, 100)
    services.uploads.append(ANN, upload.id, 0, b"x" * 60)
    assert find_usage(services).unfinished == 0
    assert services.uploads.flush(ANN.user_id) == 1
    assert services.uploads.flush(ANN.user_id) == 0
    assert assert_counted(services).unfinished == 60
    services.uploads.append(ANN, upload.id, 60, b"x" * 40)
    assert services.uploads.flush(ANN.user_id) == 0  # complete: the end subtracts what was counted
    services.sealing.seal_upload(upload.id)
    assert services.uploads.flush(ANN.user_id) == 0
    assert assert_counted(services) == Usage(100, 0, 0, services.settings.quota)


def test_of_two_flushes_at_once_one_counts(services: Services) -> None:
    upload = begin(services, 100)
    services.uploads.append(ANN, upload.id, 0, b"x" * 80)
    # Both have read the same document, and measured at different times.
    assert services.gateways.uploads.record_received(upload, 60, upload.expires)
    assert not services.gateways.uploads.record_received(upload, 80, upload.expires)
    assert assert_counted(services).unfinished == 60
    services.uploads.flush(ANN.user_id)
    assert assert_counted(services).unfinished == 80


def test_a_late_flush_does_not_count_an_upload_that_has_ended(services: Services) -> None:
    upload = begin(services, 100)
    services.uploads.append(ANN, upload.id, 0, b"x" * 60)
    services.uploads.delete(ANN, upload.id)
    assert not services.gateways.uploads.record_received(upload, 60, upload.expires)
    assert assert_counted(services) == Usage(0, 0, 0, services.settings.quota)
    with pytest.raises(GoneError):
        services.uploads.find(ANN, upload.id)
    with pytest.raises(GoneError):
        services.uploads.delete(ANN, upload.id)


def test_parts_cost_the_database_no_write(services: Services, db: Any) -> None:
    upload = begin(services, 2000)
    db.command("profile", 2)
    try:
        for offset in range(200):
            services.uploads.append(ANN, upload.id, offset, b"x")
        services.uploads.flush(ANN.user_id)
    finally:
        db.command("profile", 0)
    writes = list(db["system.profile"].find({"op": {"$in": ["update", "insert", "remove"]}}))
    assert len(writes) <= 10
    assert find_usage(services).unfinished == 200
    db["system.profile"].drop()


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["create", "endless", "append", "flush", "late", "delete", "seal", "expire", "remove"]
        ),
        st.integers(0, 3),
    ),
    max_size=25,
)


@given(steps=_STEPS)
@hypothesis_settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_in_any_order_and_twice_the_counts_are_those_of_a_recount(
    services: Services, db: Any, steps: list[tuple[str, int]]
) -> None:
    for name in ("uploads", "usage", "files", "blobs"):
        db[name].delete_many({})
    services.limiter.reset(f"upload:{ANN.user_id}")
    world = _Model(services)
    for name, which in steps:
        for _ in range(2 if name in ("flush", "late", "seal", "delete", "expire") else 1):
            with contextlib.suppress(ConflictError, GoneError, NotFoundError, TooLargeError):
                getattr(world, name)(which)
    assert_counted(services)
    usage = find_usage(services)
    assert min(usage.finished, usage.reserved, usage.unfinished) >= 0
    for upload in world.uploads:
        with contextlib.suppress(ConflictError, GoneError):
            services.uploads.delete(ANN, upload.id)
        services.sealing.seal_upload(upload.id)
    for file in services.files.list_files(ANN):
        services.files.delete(ANN, file.id)
    assert find_usage(services) == Usage(0, 0, 0, services.settings.quota)


class _Model:
    """Steps of uploads; each works on one of those that were begun."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.uploads: list[Upload] = []

    def _pick(self, which: int) -> Upload:
        if not self.uploads:
            raise NotFoundError
        return self.uploads[which % len(self.uploads)]

    def create(self, which: int) -> None:
        self.uploads.append(begin(self.services, 2 * which))

    def endless(self, which: int) -> None:
        self.uploads.append(begin(self.services, None))

    def append(self, which: int) -> None:
        upload = self._pick(which)
        offset = self.services.uploads.find(ANN, upload.id).offset
        self.services.uploads.append(ANN, upload.id, offset, b"x" * 2)

    def flush(self, which: int) -> None:
        self.services.uploads.flush(ANN.user_id)

    def late(self, which: int) -> None:
        """A flush that has read the upload long ago."""
        upload = self._pick(which)
        self.services.gateways.uploads.record_received(upload, 2, upload.expires)

    def delete(self, which: int) -> None:
        self.services.uploads.delete(ANN, self._pick(which).id)

    def seal(self, which: int) -> None:
        self.services.sealing.seal_upload(self._pick(which).id)

    def expire(self, which: int) -> None:
        upload = self._pick(which)
        found = self.services.mappers.uploads.find(upload.id)
        if found is not None and found.state is UploadState.OPEN:
            self.services.gateways.uploads.end(found, UploadState.GONE)

    def remove(self, which: int) -> None:
        for file in self.services.files.list_files(ANN)[which : which + 1]:
            self.services.files.delete(ANN, file.id)


# -- maintenance
def _at(services: Services, hours: float, work: Callable[[], Any]) -> Any:
    then = clock.now() + dt.timedelta(hours=hours)
    with clock.set_source(lambda: then):
        return work()


def _tend(services: Services) -> dict[str, int]:
    return services.upload_upkeep.run(60.0, lambda: False)


def test_an_upload_without_parts_for_a_day_expires(services: Services) -> None:
    silent, busy = begin(services, 100), begin(services, 100)
    services.uploads.append(ANN, busy.id, 0, b"x" * 60)
    _at(services, 1, lambda: services.uploads.flush(ANN.user_id))
    folder = services.settings.home / "media" / "up"
    (file,) = folder.rglob(busy.id)
    later = (clock.now() + dt.timedelta(hours=12)).timestamp()
    os.utime(file, (later, later))  # its last part came then, and wasn't counted yet
    assert _at(services, 25, lambda: _tend(services))["expired"] == 1
    with pytest.raises(GoneError):
        services.uploads.find(ANN, silent.id)
    assert services.uploads.find(ANN, busy.id).offset == 60
    assert assert_counted(services) == Usage(0, 100, 60, services.settings.quota)
    assert not list(folder.rglob(silent.id))
    with pytest.raises(GoneError):
        _at(services, 40, lambda: services.uploads.append(ANN, busy.id, 60, b"x"))
    assert _at(services, 40, lambda: _tend(services))["expired"] == 1
    assert assert_counted(services) == Usage(0, 0, 0, services.settings.quota)


def test_an_upload_that_was_complete_before_a_crash_is_sealed(services: Services) -> None:
    upload = begin(services, 5)
    services.upload_staging.append(upload, 0, b"12345")  # and the process was killed
    assert services.uploads.find(ANN, upload.id).upload.state is UploadState.SEALING
    other = begin(services, 5)
    services.upload_staging.append(other, 0, b"54321")
    services.uploads.flush(ANN.user_id)
    assert _tend(services)["sealing"] == 2
    for each in (upload, other):
        assert services.sealing.seal_upload(each.id)["state"] == "done"
    assert _tend(services)["sealing"] == 0


@pytest.mark.parametrize("step", [dt.timedelta(), dt.timedelta(seconds=1)], ids=["at once", "later"])
def test_every_upload_that_waits_is_queued_however_many_do(
    services: Services, monkeypatch: pytest.MonkeyPatch, step: dt.timedelta
) -> None:
    monkeypatch.setattr(gateway, "BATCH", 2)
    start, ids = clock.now(), []
    for number in range(5):
        with clock.set_source(lambda now=start + number * step: now):  # type: ignore[misc]
            upload = begin(services, 1)
            services.uploads.append(ANN, upload.id, 0, b"x")
            ids.append(upload.id)
    assert services.uploads.requeue_sealing() == 5
    found = [upload.id for upload in services.gateways.uploads.find_sealing()]
    assert sorted(found) == sorted(ids)


def test_leftovers_go_with_their_day_and_open_uploads_stay(services: Services) -> None:
    old = clock.now() - dt.timedelta(days=5)
    with clock.set_source(lambda: old):
        kept, ended = begin(services, 100), begin(services, 100)
    services.gateways.uploads.end(ended, UploadState.GONE)
    fresh = begin(services, 100)
    services.gateways.uploads.end(fresh, UploadState.GONE)
    assert services.uploads.remove_leftovers((clock.now() - dt.timedelta(days=3)).date()) == 1
    names = {path.name for path in (services.settings.home / "media" / "up").rglob("*") if path.is_file()}
    assert names == {kept.id, fresh.id}


def test_wrong_counts_are_mended_hourly(services: Services, db: Any) -> None:
    send(services, b"12345")
    upload = begin(services, 100)
    db.usage.update_one({"_id": ANN.user_id}, {"$set": {"finished": 1, "reserved": 2, "unfinished": 3}})
    at = clock.now().replace(minute=7)
    with clock.set_source(lambda: at):
        assert "recounted" not in _tend(services)
    with clock.set_source(lambda: at.replace(minute=2)):
        assert _tend(services)["recounted"] == 1
    assert find_usage(services) == Usage(5, upload.reserved, 0, services.settings.quota)


def test_a_recount_that_ends_early_goes_on_with_the_next_user(
    services: Services, db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quota, "BATCH", 2)
    users = [Actor(number) for number in range(11, 16)]
    for user in users:
        begin(services, actor=user)
    at = clock.now().replace(minute=2)

    def run(minute: int, most: int) -> list[int]:
        """Let all counts be wrong, and return those that a run mends before it is stopped."""
        db.usage.update_many({}, {"$set": {"finished": 1}})
        asked = iter([False] * most)
        with clock.set_source(lambda: at.replace(minute=minute)):
            services.upload_upkeep.run(60.0, lambda: next(asked, True))
        return sorted(doc["_id"] for doc in db.usage.find({"finished": 0}))

    assert run(2, 3) == [11, 12, 13]
    assert run(7, 1) == [14], "it doesn't wait for the next hour"
    assert run(12, 9) == [15]
    assert run(17, 9) == []
    assert run(2, 9) == [11, 12, 13, 14, 15]


def test_a_run_is_queued_every_five_minutes(services: Services) -> None:
    now = dt.datetime(2026, 11, 28, 12, 0, tzinfo=dt.UTC)
    seconds = (0, 10, 299, 300, 301)
    queued = [len(services.upload_upkeep.find_due_jobs(now + dt.timedelta(seconds=s))) for s in seconds]
    assert queued == [1, 0, 0, 1, 0]


def test_pending_counts_are_found_again_in_the_database(services: Services) -> None:
    begin(services)
    begin(services, actor=BOB)
    send(services, b"x", Actor(13))
    assert {task.key for task in services.uploads.find_flushes(clock.now())} == {"11", "12"}


# -- known files
def test_a_known_file_needs_no_upload(services: Services) -> None:
    few = rebuild(services, instant_min=5, quota=12)
    data = b"12345"
    digest = hashlib.sha256(data).digest()
    with pytest.raises(NotFoundError):
        few.files.add_known(ANN, digest, 5, "b.bin")
    send(few, data)
    new = few.files.add_known(ANN, digest, 5, "b.bin")
    assert new.name == "b.bin"
    assert few.gateways.blobs.find([digest])[digest].references == 2
    assert assert_counted(few) == Usage(10, 0, 0, 12)
    with pytest.raises(QuotaError):
        few.files.add_known(ANN, digest, 5, "c.bin")
    assert assert_counted(few) == Usage(10, 0, 0, 12)


@pytest.mark.parametrize(
    ("changes", "actor", "size"),
    [
        ({}, BOB, 5),
        ({}, ANN, 6),
        ({"instant": "off"}, ANN, 5),
        ({"instant_min": 6}, ANN, 5),
        ({"uploads": False}, ANN, 5),
    ],
)
def test_a_file_of_others_is_as_unknown_as_none(
    services: Services, changes: dict[str, Any], actor: Actor, size: int
) -> None:
    few = rebuild(services, **{"instant_min": 1, **changes})
    send(rebuild(services), b"12345")
    with pytest.raises(NotFoundError):
        few.files.add_known(actor, hashlib.sha256(b"12345").digest(), size, "b.bin")
    assert len(services.files.list_files(ANN)) == 1
    assert services.files.list_files(BOB) == []


def test_without_redis_uploads_go_on_and_are_found_again(services: Services) -> None:
    away = bootstrap.Services(dataclasses.replace(services.settings, redis_url="redis://127.0.0.1:1/0"))
    away.__dict__["store"] = services.store
    upload, other = begin(away, 5), begin(away, 5)
    assert away.uploads.append(ANN, upload.id, 0, b"12").offset == 2
    assert away.uploads.append(ANN, upload.id, 2, b"345").upload.state is UploadState.SEALING
    away.uploads.append(ANN, other.id, 0, b"12")
    assert _tend(services)["sealing"] == 1
    assert {task.key for task in services.uploads.find_flushes(clock.now())} == {"11"}
    assert services.sealing.seal_upload(upload.id)["state"] == "done"
    services.uploads.flush(ANN.user_id)
    assert assert_counted(services) == Usage(5, 5, 2, services.settings.quota)


def test_G02_a_deleted_account_leaves_no_upload_and_no_storage(services: Services, db: Any) -> None:
    actor = add_user(services, "ann")
    begin(services, actor=actor)
    send(services, b"12345", actor)
    add_user(services, "root", Role.ADMIN)
    services.gateways.erasure.begin(actor.user_id, clock.now())
    assert _at(services, 1, lambda: services.erasure.run(actor.user_id)) == {"state": "gone"}
    assert [db[name].count_documents({}) for name in ("uploads", "usage", "files")] == [0, 0, 0]
    folder = services.settings.home / "media" / "up"
    assert not [path for path in folder.rglob("*") if path.is_file()]


def test_an_account_that_goes_takes_its_uploads_along(services: Services) -> None:
    begin(services)
    upload = begin(services, 5)
    services.uploads.append(ANN, upload.id, 0, b"12345")
    services.uploads.end_all(ANN.user_id)
    assert services.uploads.list_active(ANN) == []
    assert assert_counted(services).reserved == 0
    assert not [path for path in (services.settings.home / "media" / "up").rglob("*") if path.is_file()]
