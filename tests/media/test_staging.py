"""The files of uploads: U01 (ids, folders, links), U04 (one writer), durable offsets, a full disk."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import hashlib
import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.adapters.media.staging import FolderStaging
from app.errors import ChecksumError, NoSpaceError, NotFoundError, OffsetError
from app.models.media.blob import Purpose
from app.models.media.upload import PartDigest, Upload, UploadState

NOW = dt.datetime(2026, 11, 28, 12, tzinfo=dt.UTC)
UPLOAD = Upload(
    id="0123456789abcdef" * 2,
    user_id=7,
    purpose=Purpose.ATTACHMENT,
    name="../../etc/passwd",
    size=None,
    reserved=0,
    received=0,
    state=UploadState.OPEN,
    created=NOW,
    expires=NOW,
)


@dataclasses.dataclass
class Part:
    """A part as the web server hands it in."""

    descriptor: int
    size: int


@contextlib.contextmanager
def spooled(data: bytes, folder: Path) -> Iterator[Part]:
    path = folder / "spool"
    path.write_bytes(data)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield Part(descriptor, len(data))
    finally:
        os.close(descriptor)


@pytest.fixture
def staging(tmp_path: Path) -> FolderStaging:
    return FolderStaging(tmp_path / "up")


def read(staging: FolderStaging, upload: Upload = UPLOAD) -> bytes:
    with staging.open(upload) as path:
        return path.read_bytes()


def test_parts_are_appended_and_the_length_is_the_offset(staging: FolderStaging, tmp_path: Path) -> None:
    staging.create(UPLOAD)
    assert staging.append(UPLOAD, 0, b"hello ") == 6
    with spooled(b"world" * 1000, tmp_path) as part:
        assert staging.append(UPLOAD, 6, part) == 5006
    measured = staging.measure(UPLOAD)
    assert measured is not None
    assert measured.size == 5006
    assert read(staging) == b"hello " + b"world" * 1000
    assert (tmp_path / "up" / "2026-11-28" / UPLOAD.id).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "..",
        ".",
        "",
        "/etc/passwd",
        "%2e%2e%2f",
        "..\\x",
        "x\0",
        "A" * 32,
        "0" * 31,
        "0" * 33,
        "0" * 5000,
    ],
)
def test_U01_only_our_own_ids_reach_a_path(staging: FolderStaging, tmp_path: Path, name: str) -> None:
    bad = dataclasses.replace(UPLOAD, id=name)
    staging.create(UPLOAD)
    with pytest.raises(NotFoundError):
        staging.create(bad)
    with pytest.raises(NotFoundError):
        staging.append(bad, 0, b"x")
    assert staging.measure(bad) is None
    staging.remove(bad)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [UPLOAD.id]


@pytest.mark.parametrize("where", ["file", "day"])
def test_U01_planted_links_are_not_followed(staging: FolderStaging, tmp_path: Path, where: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    secret = outside / UPLOAD.id
    secret.write_bytes(b"secret")
    day = tmp_path / "up" / "2026-11-28"
    day.parent.mkdir()
    if where == "day":
        day.symlink_to(outside)
    else:
        day.mkdir()
        (day / UPLOAD.id).symlink_to(secret)
    with pytest.raises(NotFoundError):
        staging.append(UPLOAD, 6, b"!")
    with pytest.raises(NotFoundError), staging.open(UPLOAD):
        pass
    assert staging.measure(UPLOAD) is None
    staging.remove(UPLOAD)
    assert secret.read_bytes() == b"secret"


def test_appending_never_creates_a_file(staging: FolderStaging) -> None:
    with pytest.raises(NotFoundError):
        staging.append(UPLOAD, 0, b"x")
    staging.create(UPLOAD)
    staging.remove(UPLOAD)
    staging.remove(UPLOAD)
    with pytest.raises(NotFoundError):
        staging.append(UPLOAD, 0, b"x")
    assert staging.measure(UPLOAD) is None


def test_U04_of_two_parts_at_one_offset_one_is_stored(staging: FolderStaging) -> None:
    staging.create(UPLOAD)
    data = [bytes([number]) * (100_000 + number) for number in range(8)]
    start, results = threading.Barrier(len(data)), dict[int, object]()

    def send(number: int) -> None:
        start.wait()
        try:
            results[number] = staging.append(UPLOAD, 0, data[number])
        except OffsetError as e:
            results[number] = e.ids["offset"]

    threads = [threading.Thread(target=send, args=(number,)) for number in range(len(data))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(results.values()) == {len(read(staging))}
    assert read(staging) in data


def test_a_part_that_was_deleted_meanwhile_is_not_stored(staging: FolderStaging) -> None:
    staging.create(UPLOAD)
    with staging.open(UPLOAD) as path:
        staging.remove(UPLOAD)
        with pytest.raises(NotFoundError):
            staging.append(UPLOAD, 0, b"x")
        assert path.read_bytes() == b""


@pytest.mark.parametrize("algorithm", ["sha1", "sha256"])
def test_a_damaged_part_changes_nothing(staging: FolderStaging, tmp_path: Path, algorithm: str) -> None:
    staging.create(UPLOAD)
    staging.append(UPLOAD, 0, b"kept")
    digest = PartDigest(algorithm, hashlib.new(algorithm, b"part", usedforsecurity=False).digest())
    for data in (b"pars", b"part "):
        with pytest.raises(ChecksumError):
            staging.append(UPLOAD, 4, data, digest=digest)
        with spooled(data, tmp_path) as part, pytest.raises(ChecksumError):
            staging.append(UPLOAD, 4, part, digest=digest)
    assert read(staging) == b"kept"
    with spooled(b"part", tmp_path) as part:
        assert staging.append(UPLOAD, 4, part, digest=digest) == 8
    staging.truncate_file(UPLOAD, 4, 7)
    assert read(staging) == b"keptpart"  # it has another length by then, so somebody else has written
    staging.truncate_file(UPLOAD, 4, 8)
    assert read(staging) == b"kept"


@pytest.mark.parametrize("is_spooled", [False, True])
def test_the_slices_of_a_part_count_together_or_not_at_all(
    staging: FolderStaging, tmp_path: Path, is_spooled: bool
) -> None:
    staging.create(UPLOAD)
    staging.append(UPLOAD, 0, b"kept")
    digest = PartDigest("sha256", hashlib.sha256(b"a part").digest())

    def append(data: bytes, offset: int, digest: PartDigest | None = None) -> int:
        with spooled(data, tmp_path) as part:
            source = part if is_spooled else data
            return staging.append(UPLOAD, offset, source, digest=digest, part_start=4)

    for last in (b"arx", b"ar", b"part"):
        assert append(b"a p", 4) == 7
        with pytest.raises(OffsetError):
            append(last, 8, digest)
        with pytest.raises(ChecksumError):
            append(last, 7, digest)
        assert read(staging) == b"kept"
    append(b"a p", 4)
    assert append(b"art", 7, digest) == 10
    assert read(staging) == b"kepta part"


@pytest.mark.parametrize("is_spooled", [False, True])
def test_F09_a_full_disk_leaves_the_offset(staging: FolderStaging, tmp_path: Path, is_spooled: bool) -> None:
    staging.create(UPLOAD)
    staging.append(UPLOAD, 0, b"x" * 1000)
    data = b"y" * 100_000
    with spooled(data, tmp_path) as part:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
        try:
            with pytest.raises(NoSpaceError):
                staging.append(UPLOAD, 1000, part if is_spooled else data)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert read(staging) == b"x" * 1000
    assert staging.append(UPLOAD, 1000, data) == 101_000


def test_a_source_that_is_shorter_than_it_said_counts_what_came(
    staging: FolderStaging, tmp_path: Path
) -> None:
    staging.create(UPLOAD)
    with spooled(b"short", tmp_path) as part:
        part.size = 10
        assert staging.append(UPLOAD, 0, part) == 5


def test_days_are_removed_with_all_but_open_uploads(staging: FolderStaging, tmp_path: Path) -> None:
    other = dataclasses.replace(UPLOAD, id="f" * 32)
    next_day = dataclasses.replace(UPLOAD, id="e" * 32, created=NOW + dt.timedelta(days=1))
    for upload in (UPLOAD, other, next_day):
        staging.create(upload)
    (tmp_path / "up" / "not-a-day").mkdir()
    (tmp_path / "up" / "2026-13-45").mkdir()
    first = NOW.date()
    assert staging.list_days() == [first, first + dt.timedelta(days=1)]
    assert staging.list_ids(first) == sorted([UPLOAD.id, other.id])
    assert staging.remove_day(first, {other.id}) == 1
    assert staging.list_ids(first) == [other.id]
    assert staging.remove_day(first, set()) == 1
    assert staging.list_days() == [first + dt.timedelta(days=1)]
    assert staging.remove_day(first, set()) == 0
    assert staging.list_ids(first) == []
