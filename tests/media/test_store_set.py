"""Several stores as one: enough copies, stores that are away, misses, deletion, the shelf."""

from __future__ import annotations

import dataclasses
import io
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from werkzeug.wrappers import Request, Response

from app.adapters.media.dav import READ_BYTES, DavStore
from app.adapters.media.disk import DiskStore
from app.adapters.media.shelf import KEPT_SECONDS, Shelf
from app.adapters.media.store_set import StoreSet
from app.errors import MediaStoreError, NoSpaceError, NotFoundError
from app.models.media.blob import build_key
from app.models.media.store import Piece
from app.models.media.store_address import parse_store
from app.ports import MediaStore
from app.runtime.pieces import close_piece, read_piece
from tests.support.media_servers import DavServer
from tests.support.wire import Wire

Eventually = Callable[..., Any]
BODY = os.urandom(3000)
LONG = os.urandom(READ_BYTES * 2 + 777)
PATIENCE = 30.0


@pytest.fixture
def key() -> str:
    return _key()


def _key() -> str:
    return build_key(os.urandom(32), 1, "w640")


def _disk(folder: Path, name: str) -> DiskStore:
    return DiskStore(folder / name, name)


def _put(store: MediaStore, key: str, body: bytes) -> None:
    store.put(key, io.BytesIO(body), len(body))


def _read(stores: StoreSet | MediaStore, key: str, *span: int) -> bytes:
    return b"".join(read_piece(stores.open(key, *span)))


def _has(store: MediaStore, key: str) -> bool:
    try:
        close_piece(store.open(key))
    except NotFoundError:
        return False
    return True


class Clock:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclasses.dataclass
class Away:
    """A WebDAV server that answers each request with an error until it is back; it counts the requests."""

    wire: Wire
    store: DavStore
    is_away: bool = True

    @property
    def count(self) -> int:
        return len(self.wire.seen)


@pytest.fixture
def away() -> Iterator[Away]:
    files: dict[str, bytes] = {}

    def answer(request: Request) -> Response:
        if found.is_away:
            return Response(status=500)
        if request.method == "PUT":
            files[request.path] = request.get_data()
        elif request.method == "MOVE":
            files["/" + request.headers["Destination"].split("/", 3)[3]] = files.pop(request.path)
        elif request.method == "GET":
            body = files.get(request.path)
            if body is None:
                return Response(status=404)
            return Response(body).make_conditional(request, accept_ranges=True, complete_length=len(body))
        elif request.method == "PROPFIND":
            return Response('<multistatus xmlns="DAV:"/>', 207)
        elif request.method == "DELETE":
            return Response(status=204 if files.pop(request.path, None) is not None else 404)
        return Response(status=201)

    with Wire(answer) as wire:
        store = DavStore(parse_store(f"dav:{wire.url('/media')}"), timeout=PATIENCE)
        found = Away(wire, store)
        yield found


def test_a_file_is_put_into_all_stores_and_read_from_the_first(tmp_path: Path, key: str) -> None:
    one, two = _disk(tmp_path, "one"), _disk(tmp_path, "two")
    stores = StoreSet([one, two], copies=2)
    assert stores.names == ("one", "two")
    (tmp_path / "source").write_bytes(BODY)
    assert stores.put(key, tmp_path / "source", len(BODY)) == ("one", "two")
    assert _read(one, key) == _read(two, key) == _read(stores, key) == BODY
    assert _read(stores, key, 5, 9) == BODY[5:10]
    assert stores.delete(key)
    assert not _has(one, key)
    assert not _has(two, key)
    with pytest.raises(NotFoundError):
        stores.open(key)


def test_U09_fewer_stores_than_demanded_are_no_success(tmp_path: Path, away: Away, key: str) -> None:
    one = _disk(tmp_path, "one")
    stores = StoreSet([one, away.store], copies=2)
    with pytest.raises(MediaStoreError):
        stores.put(key, BODY, len(BODY))
    assert not _has(one, key), "what was written is taken back"
    assert StoreSet([one, away.store], copies=1).put(key, BODY, len(BODY)) == ("one",)


def test_F09_stores_that_are_all_full_are_told_apart_from_stores_that_are_away(
    tmp_path: Path, key: str
) -> None:
    stores = StoreSet([DiskStore(tmp_path / "full", "full", min_free=100)])
    for _ in range(5):
        with pytest.raises(NoSpaceError):
            stores.put(key, BODY, len(BODY))
    (state,) = stores.describe()
    assert (state.is_away, state.failures) == (False, 0), "a full store can be read"


@pytest.mark.parametrize("is_first", [True, False])
def test_a_server_that_is_killed_and_started_again_fails_nobody(tmp_path: Path, *, is_first: bool) -> None:
    """Four threads put and read all the time, and what the server missed is copied to it afterwards."""
    one, begun, lacking = _disk(tmp_path, "one"), threading.Semaphore(0), []
    with DavServer(tmp_path / "dav") as server:
        dav = DavStore(server.address(), timeout=2)
        stores = StoreSet([dav, one] if is_first else [one, dav], shelf=Shelf(tmp_path / "shelf", 1 << 20))

        def use() -> None:
            keys: list[str] = []
            for _ in range(30):
                keys.append(_key())
                if dav.name not in stores.put(keys[-1], BODY, len(BODY)):
                    lacking.append(keys[-1])
                assert all(_read(stores, key) == BODY for key in keys[-3:])
                begun.release()

        with ThreadPoolExecutor(4) as pool:
            users = [pool.submit(use) for _ in range(4)]
            for _ in range(20):
                assert begun.acquire(timeout=PATIENCE)
            server.kill()
            for _ in range(40):
                assert begun.acquire(timeout=PATIENCE)
            server.start()
            for user in users:
                user.result()
        assert lacking, "the server was away"
        for key in lacking:
            stores.copy(key, dav.name)
            assert _read(dav, key) == BODY
        stores.close()


@pytest.mark.parametrize("is_first", [True, False])
def test_with_a_store_away_nothing_fails(tmp_path: Path, away: Away, *, is_first: bool) -> None:
    one = _disk(tmp_path, "one")
    stores = StoreSet([away.store, one] if is_first else [one, away.store])
    keys = [_key() for _ in range(10)]
    for key in keys:
        assert stores.put(key, BODY, len(BODY)) == ("one",)
    assert all(_read(stores, key) == BODY for key in keys)


def test_a_store_that_fails_three_times_is_passed_over_longer_each_time(tmp_path: Path, away: Away) -> None:
    clock = Clock()
    stores = StoreSet([away.store, _disk(tmp_path, "one")], timer=clock)
    key, away.is_away = _key(), False
    stores.put(key, BODY, len(BODY))
    away.is_away, seen = True, away.count
    for _ in range(5):
        assert _read(stores, key) == BODY
    assert away.count == seen + 3
    assert [state.is_away for state in stores.describe()] == [True, False]
    assert stores.describe()[0].error == "HTTP 500"
    seen = away.count
    for pause in (30, 60, 120, 240, 300, 300):
        clock.now += pause - 1
        assert _read(stores, key) == BODY
        assert away.count == seen, f"not before {pause} s"
        clock.now += 1
        for _ in range(3):
            assert _read(stores, key) == BODY
        seen += 1
        assert away.count == seen, "one attempt"
    away.is_away = False
    clock.now += 300
    assert _read(stores, key) == BODY
    assert not any(state.is_away for state in stores.describe())
    away.is_away, seen = True, away.count
    for _ in range(5):
        assert _read(stores, key) == BODY
    assert away.count == seen + 3, "it begins anew"


def test_a_lone_folder_is_never_passed_over(tmp_path: Path, key: str) -> None:
    stores = StoreSet([DiskStore(tmp_path / "mount" / "one", "one")])
    for _ in range(5):
        with pytest.raises(MediaStoreError):
            stores.put(key, BODY, len(BODY))
    (tmp_path / "mount").mkdir()
    assert stores.put(key, BODY, len(BODY)) == ("one",)


def test_a_file_that_a_store_away_may_have_is_not_missing(tmp_path: Path, away: Away, key: str) -> None:
    with pytest.raises(MediaStoreError):
        StoreSet([_disk(tmp_path, "one"), away.store]).open(key)


def test_a_slow_store_keeps_nobody_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setattr("app.adapters.media.store_set._GRACE_SECONDS", 0.05)
    over = threading.Event()

    def answer(request: Request) -> Response:
        if request.method == "PUT":
            over.wait(PATIENCE)
        return Response(status=201)

    with Wire(answer) as wire:
        slow = DavStore(parse_store(f"dav:{wire.url('/media')}"), timeout=PATIENCE)
        stores = StoreSet([slow, _disk(tmp_path, "one")])
        assert stores.put(key, BODY, len(BODY)) == ("one",)
        over.set()


def test_a_miss_is_read_elsewhere_and_mended(tmp_path: Path, key: str, eventually: Eventually) -> None:
    one, two = _disk(tmp_path, "one"), _disk(tmp_path, "two")
    stores = StoreSet([one, two])
    stores.put(key, LONG, len(LONG))
    one.delete(key)
    assert _read(stores, key) == LONG
    eventually(lambda: _has(one, key), 20)
    assert _read(one, key) == LONG
    stores.close()


def test_a_miss_in_a_folder_is_mended_from_another_server(
    tmp_path: Path, key: str, eventually: Eventually
) -> None:
    one = _disk(tmp_path, "one")
    with DavServer(tmp_path / "dav") as server:
        stores = StoreSet([one, DavStore(server.address(), timeout=PATIENCE)])
        stores.put(key, LONG, len(LONG))
        one.delete(key)
        assert _read(stores, key, 5, 9) == LONG[5:10]
        eventually(lambda: _has(one, key), 20)
        assert _read(one, key) == LONG
        stores.close()


def test_what_has_a_file_is_asked_first(tmp_path: Path, key: str) -> None:
    one, two = _disk(tmp_path, "one"), _disk(tmp_path, "two")
    _put(one, _key(), BODY)
    _put(two, key, BODY)
    stores = StoreSet([one, two])
    assert b"".join(read_piece(stores.open(key, copies=["two"]))) == BODY
    stores.close()
    assert not _has(one, key), "so it wasn't missed"


def test_a_file_is_deleted_only_when_every_store_has_confirmed_it(
    tmp_path: Path, away: Away, key: str
) -> None:
    one = _disk(tmp_path, "one")
    stores = StoreSet([one, away.store])
    stores.put(key, BODY, len(BODY))
    for _ in range(5):
        assert not stores.delete(key)
    assert not _has(one, key)
    away.is_away = False
    assert not stores.delete(key), "it is passed over"
    assert StoreSet([one, away.store]).delete(key)


def test_a_store_that_fails_in_the_middle_is_continued_by_another(tmp_path: Path, key: str) -> None:
    with DavServer(tmp_path / "dav") as server:
        dav, one = DavStore(server.address(), timeout=2), _disk(tmp_path, "one")
        stores = StoreSet([dav, one])
        stores.put(key, LONG, len(LONG))
        chunks = read_piece(stores.open(key, 7))
        begun = next(chunks)
        server.kill()
        assert begun + b"".join(chunks) == LONG[7:]


def test_a_file_is_copied_to_a_store_that_lacks_it(tmp_path: Path, away: Away, key: str) -> None:
    one = _disk(tmp_path, "one")
    stores = StoreSet([one, away.store])
    for _ in range(3):
        stores.put(key, BODY, len(BODY))
    with pytest.raises(MediaStoreError):
        stores.copy(key, away.store.name)
    away.is_away = False
    stores.copy(key, away.store.name)
    assert _read(away.store, key) == BODY
    assert not stores.describe()[1].is_away
    with pytest.raises(MediaStoreError):
        stores.copy(key, "unknown")
    with pytest.raises(NotFoundError):
        stores.copy(_key(), away.store.name)


@pytest.fixture
def remote(away: Away) -> Away:
    away.is_away = False
    return away


def test_what_another_server_sent_is_on_the_shelf(tmp_path: Path, remote: Away, key: str) -> None:
    stores = StoreSet([remote.store], shelf=Shelf(tmp_path / "shelf", 1 << 20))
    stores.put(key, BODY, len(BODY))
    seen = remote.count
    for _ in range(3):
        piece = stores.open(key)
        assert piece.descriptor is not None
        assert b"".join(read_piece(piece)) == BODY
    assert _read(stores, key, 5, 9) == BODY[5:10]
    assert remote.count == seen + 1
    remote.is_away = True
    assert _read(stores, key) == BODY
    remote.is_away = False
    assert stores.delete(key)
    with pytest.raises(NotFoundError):
        stores.open(key)


def test_the_shelf_keeps_what_was_used_last(tmp_path: Path, remote: Away) -> None:
    clock = Clock()
    stores = StoreSet([remote.store], shelf=Shelf(tmp_path / "shelf", 20_000, get_time=clock))
    body = os.urandom(1000)
    keys = [_key() for _ in range(30)]
    for key in keys:
        stores.put(key, body, len(body))
        clock.now += 1
        assert _read(stores, key) == body
        clock.now += 1
        assert _read(stores, keys[0]) == body
    kept = sorted(path.stat().st_size for path in (tmp_path / "shelf").iterdir())
    assert 10_000 < sum(kept) <= 20_000
    seen = remote.count
    assert all(_read(stores, key) == body for key in (keys[0], *keys[-5:]))
    assert remote.count == seen
    clock.now += KEPT_SECONDS + 1
    stores.put(key := _key(), body, len(body))
    assert _read(stores, key) == body
    assert len(list((tmp_path / "shelf").iterdir())) == 1, "what nobody used for a day is gone"


@pytest.mark.parametrize(("space", "body"), [(10_000, BODY), (1 << 30, bytes((4 << 20) + 1))])
def test_what_is_too_large_for_the_shelf_is_read_each_time(
    tmp_path: Path, remote: Away, key: str, space: int, body: bytes
) -> None:
    stores = StoreSet([remote.store], shelf=Shelf(tmp_path / "shelf", space))
    stores.put(key, body, len(body))
    assert _read(stores, key) == _read(stores, key) == body
    assert not (tmp_path / "shelf").exists()


def test_a_shelf_that_cannot_be_written_hides_nothing(tmp_path: Path, remote: Away, key: str) -> None:
    (tmp_path / "shelf").write_text("not a folder")
    stores = StoreSet([remote.store], shelf=Shelf(tmp_path / "shelf", 1 << 20))
    stores.put(key, BODY, len(BODY))
    assert _read(stores, key) == BODY


def test_a_piece_holds_no_descriptor_after_it_was_read_or_left(tmp_path: Path, key: str) -> None:
    store = _disk(tmp_path, "one")
    _put(store, key, LONG)

    def count() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = count()
    assert _read(store, key) == LONG
    chunks = read_piece(store.open(key))
    next(chunks)
    chunks.close()  # type: ignore[attr-defined]
    close_piece(store.open(key))
    assert count() == before


def test_a_file_that_was_cut_off_is_an_error_and_not_a_shorter_file(tmp_path: Path, key: str) -> None:
    store = _disk(tmp_path, "one")
    _put(store, key, LONG)
    piece: Piece = store.open(key)
    (path,) = (tmp_path / "one" / key[:2]).iterdir()
    os.truncate(path, 100)
    with pytest.raises(OSError, match="too early"):
        b"".join(read_piece(piece))
