"""What every kind of store does: folders, WebDAV (wsgidav) and S3 (moto)."""

from __future__ import annotations

import contextlib
import io
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from werkzeug.wrappers import Request, Response

from app.adapters.media.dav import READ_BYTES, DavStore
from app.adapters.media.disk import DiskStore
from app.adapters.media.s3 import S3Store
from app.errors import MediaStoreError, NoSpaceError, NotFoundError
from app.models.media.blob import build_key
from app.models.media.store_address import parse_store
from app.ports import MediaStore
from app.runtime.pieces import PieceReader, read_piece
from tests.support.media_servers import DavServer, S3Server
from tests.support.wire import Wire

KINDS = ("disk", "dav", "s3")
#: More than one request reads, with an end that no size fits.
LONG = os.urandom(READ_BYTES * 2 + 777)
PATIENCE = 30.0


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, MediaStore]]:
    folder = tmp_path_factory.mktemp("stores")
    with DavServer(folder / "dav") as dav, S3Server() as s3:
        yield {
            "disk": DiskStore(folder / "disk", "disk"),
            "dav": DavStore(dav.address(), timeout=PATIENCE),
            "s3": S3Store(s3.address(), timeout=PATIENCE),
        }


@pytest.fixture(params=KINDS)
def store(stores: dict[str, MediaStore], request: pytest.FixtureRequest) -> MediaStore:
    return stores[request.param]


@pytest.fixture
def key() -> str:
    return _key("original")


def _key(name: str) -> str:
    """Return a key of a new blob, outside the shard f0, which one test lists."""
    return build_key(bytes([os.urandom(1)[0] % 0xF0]) + os.urandom(31), 1, name)


def _put(store: MediaStore, key: str, body: bytes) -> None:
    store.put(key, io.BytesIO(body), len(body))


def _read(store: MediaStore, key: str, first: int = 0, last: int | None = None) -> bytes:
    return b"".join(read_piece(store.open(key, first, last)))


@pytest.mark.parametrize("size", [0, 1, 1000, READ_BYTES, len(LONG)])
def test_a_file_comes_back_as_it_was(store: MediaStore, key: str, size: int) -> None:
    _put(store, key, LONG[:size])
    piece = store.open(key)
    assert (piece.length, piece.total) == (size, size)
    assert (piece.descriptor is not None) == store.is_local
    assert b"".join(read_piece(piece)) == LONG[:size]


@pytest.mark.parametrize(
    ("first", "last"),
    [(0, 0), (5, 9), (5, None), (READ_BYTES - 1, READ_BYTES), (len(LONG) - 1, None), (7, len(LONG) + 99)],
)
def test_a_range_has_its_bytes_only(store: MediaStore, key: str, first: int, last: int | None) -> None:
    _put(store, key, LONG)
    wanted = LONG[first:] if last is None else LONG[first : last + 1]
    piece = store.open(key, first, last)
    assert (piece.length, piece.total, piece.first) == (len(wanted), len(LONG), first)
    assert b"".join(read_piece(piece)) == wanted


def test_a_file_that_is_not_there_is_not_found(store: MediaStore, key: str) -> None:
    with pytest.raises(NotFoundError):
        store.open(key)
    store.delete(key)
    _put(store, key, b"x")
    store.delete(key)
    store.delete(key)
    with pytest.raises(NotFoundError):
        store.open(key)


def test_the_files_of_a_shard_are_listed(store: MediaStore) -> None:
    shard = "f0"
    wanted = {shard + _key("original")[2:]: size for size in range(3)}
    for key, size in wanted.items():
        _put(store, key, bytes(size))
    listed = {file.key: file for file in store.list_files(shard)}
    assert {key: file.size for key, file in listed.items()} == wanted
    assert all(file.changed.tzinfo is not None for file in listed.values())
    for key in wanted:
        store.delete(key)
    assert list(store.list_files(shard)) == []


def test_a_file_can_be_stored_twice(store: MediaStore, key: str) -> None:
    _put(store, key, LONG)
    _put(store, key, LONG)
    assert _read(store, key) == LONG


@pytest.mark.parametrize("more", [-1, 1])
@pytest.mark.parametrize("body", [LONG[:1000], LONG * 5], ids=["short", "long"])
def test_a_source_with_another_size_stores_nothing(
    store: MediaStore, key: str, body: bytes, more: int
) -> None:
    with pytest.raises(MediaStoreError):
        store.put(key, io.BytesIO(body), len(body) + more)
    with pytest.raises(NotFoundError):
        store.open(key)


@pytest.mark.parametrize("target", KINDS)
def test_a_file_is_copied_from_any_store_to_any(
    stores: dict[str, MediaStore], store: MediaStore, key: str, target: str
) -> None:
    _put(store, key, LONG)
    other = key[:-8] + "copy"
    with contextlib.closing(PieceReader(store.open(key))) as reader:
        stores[target].put(other, io.BufferedReader(reader), len(LONG))
    assert _read(stores[target], other) == LONG


def test_only_who_has_the_password_reads_and_writes(tmp_path: Path, key: str) -> None:
    with DavServer(tmp_path / "dav") as server:
        _put(DavStore(server.address(), timeout=PATIENCE), key, b"x")
        wrong = DavStore(server.address(password="wrong"), timeout=PATIENCE)
        with pytest.raises(MediaStoreError):
            wrong.open(key)
        with pytest.raises(MediaStoreError):
            _put(wrong, key, b"y")


class _Deadly(io.BytesIO):
    """A file whose reader loses its server after the first part."""

    def __init__(self, body: bytes, kill: Callable[[], None]) -> None:
        super().__init__(body)
        self._kill = kill

    def read(self, size: int | None = -1) -> bytes:
        part = super().read(size)
        if self.tell() > READ_BYTES:
            self._kill()
        return part


def test_U09_a_webdav_server_killed_in_the_middle_of_a_put_has_no_file(tmp_path: Path, key: str) -> None:
    with DavServer(tmp_path / "dav") as server:
        store = DavStore(server.address(), timeout=2)
        with pytest.raises(MediaStoreError):
            store.put(key, _Deadly(LONG, server.kill), len(LONG))
        with pytest.raises(MediaStoreError):
            store.open(key)
        server.start()
        with pytest.raises(NotFoundError):
            store.open(key)
        _put(store, key, LONG)
        assert _read(store, key) == LONG
        for file in store.list_files(key[:2]):
            store.delete(file.key)
        assert not list((server.folder / "media" / key[:2]).iterdir())


@contextlib.contextmanager
def _fake(view: Callable[[Request], Response], timeout: float = PATIENCE) -> Iterator[tuple[DavStore, Wire]]:
    with Wire(view) as wire:
        yield DavStore(parse_store(f"dav:{wire.url('/media')}"), timeout=timeout), wire


def test_F09_a_full_webdav_server_is_full_and_not_away(key: str) -> None:
    with (
        _fake(lambda request: Response(status=507 if request.method == "PUT" else 201)) as (store, _),
        pytest.raises(NoSpaceError),
    ):
        _put(store, key, b"x")


def test_a_server_that_is_too_slow_is_left(key: str) -> None:
    over = threading.Event()

    def wait(_: Request) -> Response:
        over.wait(PATIENCE)
        return Response(b"x", 206)

    with _fake(wait, timeout=0.2) as (store, _):
        with pytest.raises(MediaStoreError):
            store.open(key)
        over.set()


@pytest.mark.parametrize(
    "answer",
    [
        Response(LONG),  # ignores the range
        Response(b"x", 206),
        Response(b"x", 206, {"Content-Range": "bytes 5-5/9"}),
        Response(b"", 206, {"Content-Range": "bytes 0-0/9"}),
        Response(b"x", 302, {"Location": "http://127.0.0.1:1/"}),
        Response(status=500),
    ],
    ids=["whole", "no-range", "other-range", "empty", "redirect", "error"],
)
def test_a_server_that_answers_something_else_is_an_error(key: str, answer: Response) -> None:
    def reply(_: Request) -> Response:
        return Response(answer.get_data(), answer.status_code, answer.headers)

    with _fake(reply) as (store, wire):
        with pytest.raises(MediaStoreError):
            store.open(key)
        assert len(wire.seen) == 1


def test_a_list_is_read_without_entities_and_foreign_names(key: str, tmp_path: Path) -> None:
    (tmp_path / "canary").write_text("canary")
    name = "/".join(key.split("/")[1:]).replace("/", ".")
    rows = "".join(
        f"<d:response><d:href>/media/{key[:2]}/{each}</d:href><d:propstat><d:prop><d:getcontentlength>7"
        "</d:getcontentlength><d:getlastmodified>Sat, 28 Nov 2026 00:00:00 GMT</d:getlastmodified></d:prop>"
        "</d:propstat></d:response>"
        for each in (name, "&e;", "..%2f..%2fpasswd", "")
    )
    text = (
        f'<!DOCTYPE d [<!ENTITY e SYSTEM "file://{tmp_path}/canary">]>'
        f'<d:multistatus xmlns:d="DAV:">{rows}</d:multistatus>'
    )
    with _fake(lambda _: Response(text, 207)) as (store, _):
        assert [(file.key, file.size) for file in store.list_files(key[:2])] == [(key, 7)]


def test_a_webdav_server_tells_its_space() -> None:
    text = (
        '<d:multistatus xmlns:d="DAV:"><d:response><d:href>/</d:href><d:propstat><d:prop>'
        "<d:quota-available-bytes>30</d:quota-available-bytes><d:quota-used-bytes>12</d:quota-used-bytes>"
        "</d:prop></d:propstat></d:response></d:multistatus>"
    )
    with _fake(lambda _: Response(text, 207)) as (store, _):
        space = store.measure_space()
        assert space is not None
        assert (space.free, space.total) == (30, 42)


def test_a_store_without_limits_tells_no_space(stores: dict[str, Any]) -> None:
    assert stores["s3"].measure_space() is None
