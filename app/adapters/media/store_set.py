"""All media stores together: written at once, read in order, deleted everywhere."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import BinaryIO, Final, TypeVar, cast

from app import logs
from app.adapters.media.shelf import Shelf
from app.adapters.media.store_health import StoreHealth
from app.errors import MediaStoreError, NoSpaceError, NotFoundError
from app.models.media.store import Piece, StoreSpace, StoreState
from app.ports import MediaStore
from app.runtime.pieces import PieceReader, close_piece

log = logs.get(__name__)
T = TypeVar("T")

#: Files that one process writes to one store at once.
_THREADS = 4
#: Once enough stores have a file, the others get this many seconds more, plus the time for its size at
#: this rate in bytes per second. ``media.mend`` copies the file to those that need longer.
_GRACE_SECONDS: Final = 2.0
_GRACE_RATE: Final = 4 << 20
#: Missing files that wait to be copied back; further ones are found again at their next reading.
_REPAIRS_MAX = 100


@dataclasses.dataclass(frozen=True, slots=True)
class _Member:
    store: MediaStore
    health: StoreHealth
    pool: ThreadPoolExecutor


class StoreSet:
    """Implements :class:`app.ports.MediaStores`.

    Args:
        stores: in the order of reading.
        copies: how many must have a file before it counts as stored.
        shelf: copies on this disk of what other servers' stores send; None: no copies.
    """

    def __init__(
        self,
        stores: Sequence[MediaStore],
        *,
        copies: int = 1,
        shelf: Shelf | None = None,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._members = [_Member(store, StoreHealth(timer), _make_pool(store.name)) for store in stores]
        self._copies, self._shelf = copies, shelf
        self._repairer = _make_pool("repairs", 1)
        self._repairing: set[str] = set()
        self._lock = threading.Lock()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the stores, in the order of reading."""
        return tuple(member.store.name for member in self._members)

    @property
    def stores(self) -> Sequence[MediaStore]:
        """The stores one by one."""
        return [member.store for member in self._members]

    def put(self, key: str, source: Path | bytes, size: int) -> tuple[str, ...]:
        """Store a file in all stores at once; return the names of the stores that have it.

        Raises:
            MediaStoreError: too few stores have it.
            NoSpaceError: as before, because a store is full.
        """
        members = [member for member in self._members if self._admit(member)]
        errors: list[MediaStoreError | NoSpaceError] = []
        stored: list[_Member] = []
        if len(members) >= self._copies:
            end = time.monotonic() + _GRACE_SECONDS + size / _GRACE_RATE
            waiting = {m.pool.submit(self._put, m, key, source, size): m for m in members}
            while waiting:
                rest = end - time.monotonic() if len(stored) >= self._copies else None
                done, _ = wait(waiting, None if rest is None else max(0.0, rest), FIRST_COMPLETED)
                if not done:
                    break
                for future in done:
                    member = waiting.pop(future)
                    try:
                        future.result()
                        stored.append(member)
                    except (MediaStoreError, NoSpaceError) as e:
                        errors.append(e)
            for future in waiting:
                future.cancel()
        if len(stored) < self._copies:
            for member in stored:
                with contextlib.suppress(MediaStoreError):
                    member.store.delete(key)
            raise next((e for e in errors if isinstance(e, NoSpaceError)), MediaStoreError())
        return tuple(member.store.name for member in self._members if member in stored)

    def _put(self, member: _Member, key: str, source: Path | bytes, size: int) -> None:
        with _open_source(source) as file:
            self._run(member, lambda: member.store.put(key, file, size))

    def open(self, key: str, first: int = 0, last: int | None = None, copies: Collection[str] = ()) -> Piece:
        """Return a file, or its bytes from ``first`` to ``last`` inclusive.

        Raises:
            NotFoundError: no store has the file.
            MediaStoreError: no store gave the file, but one that isn't responding may have it.
        """
        return self._open(key, first, last, self._order(copies))

    def _open(self, key: str, first: int, last: int | None, members: Sequence[_Member]) -> Piece:
        missing: list[_Member] = []
        is_sure = True
        for position, member in enumerate(members):
            if not member.store.is_local and self._shelf and (piece := self._shelf.find(key, first, last)):
                return piece
            if not self._admit(member):
                is_sure = False
                continue
            try:
                piece = self._run(member, lambda m=member: m.store.open(key, first, last))  # type: ignore[misc]
                piece = self._shelve(key, piece, members[position + 1 :])
            except NotFoundError:
                missing.append(member)
            except MediaStoreError:
                is_sure = False
            else:
                self._repair_later(key, missing)
                return piece
        raise NotFoundError if is_sure else MediaStoreError

    def _order(self, copies: Collection[str]) -> list[_Member]:
        return sorted(self._members, key=lambda m: bool(copies) and m.store.name not in copies)

    def _shelve(self, key: str, piece: Piece, others: Sequence[_Member]) -> Piece:
        if piece.chunks is None:
            return piece
        chunks = self._continue(key, piece, others)
        safe = dataclasses.replace(piece, chunks=chunks)
        if self._shelf and piece.length == piece.total and self._shelf.can_hold(piece.total):
            return self._shelf.add_copy(key, safe)
        return safe

    def _continue(self, key: str, piece: Piece, others: Sequence[_Member]) -> Iterator[bytes]:
        """Yield the bytes of a piece; if its store fails in the middle, go on with another store."""
        position = piece.first
        last = piece.first + piece.length - 1
        try:
            for chunk in piece.chunks or ():
                position += len(chunk)
                yield chunk
        except (MediaStoreError, NotFoundError) as e:
            if not others:
                raise MediaStoreError from e
            rest = self._open(key, position, last, others)
            with contextlib.closing(PieceReader(rest)) as reader:
                while chunk := reader.read(1 << 17):
                    yield chunk
        finally:
            close_piece(piece)

    def delete(self, key: str) -> bool:
        """Delete a file everywhere; return whether each store has confirmed it. Never raises."""
        if self._shelf:
            self._shelf.remove(key)
        members = [member for member in self._members if self._admit(member)]
        waiting = [m.pool.submit(self._delete, m, key) for m in members]
        return all([future.result() for future in waiting]) and len(members) == len(self._members)

    def _delete(self, member: _Member, key: str) -> bool:
        try:
            self._run(member, lambda: member.store.delete(key))
        except (MediaStoreError, NoSpaceError):
            return False
        return True

    def copy(self, key: str, name: str) -> None:
        """Copy a file from the other stores to the store of this name, even if that is passed over.

        Raises:
            NotFoundError: no other store has the file.
            MediaStoreError: a store isn't responding, or is unknown.
        """
        target = next((member for member in self._members if member.store.name == name), None)
        if target is None:
            raise MediaStoreError
        piece = self._open(key, 0, None, [member for member in self._members if member is not target])
        with contextlib.closing(PieceReader(piece)) as reader:
            file = cast(BinaryIO, io.BufferedReader(reader, 1 << 17))
            self._run(target, lambda: target.store.put(key, file, piece.total))

    def measure_space(self) -> StoreSpace | None:
        """Return the space of the store with the least free space; None: no store knows its own."""
        spaces = [space for member in self._members if (space := self._measure(member))]
        return min(spaces, key=lambda space: space.free, default=None)

    def describe(self) -> list[StoreState]:
        """Return the state of each store; measures their space."""
        states = []
        for member in self._members:
            space, health = self._measure(member), member.health
            states.append(StoreState(member.store.name, space, health.failures, health.is_away, health.error))
        return states

    def close(self) -> None:
        """End the threads after what is running now."""
        for pool in (self._repairer, *(member.pool for member in self._members)):
            pool.shutdown(wait=False, cancel_futures=True)

    def _measure(self, member: _Member) -> StoreSpace | None:
        if not self._admit(member):
            return None
        with contextlib.suppress(MediaStoreError):
            return self._run(member, member.store.measure_space)
        return None

    def _admit(self, member: _Member) -> bool:
        # A failing folder answers at once, so a store that is alone isn't passed over.
        return member.health.begin_attempt() or (len(self._members) == 1 and member.store.is_local)

    def _run(self, member: _Member, action: Callable[[], T]) -> T:
        """Run something in a store, and record how the store is."""
        try:
            result = action()
        except (NotFoundError, NoSpaceError):
            self._record_success(member)  # a full store can be read
            raise
        except MediaStoreError as e:
            if member.health.record_failure(explain_failure(e)):
                log.warning("media_store_away", store=member.store.name, error=explain_failure(e))
            raise
        self._record_success(member)
        return result

    def _record_success(self, member: _Member) -> None:
        if member.health.record_success():
            log.info("media_store_back", store=member.store.name)

    def _repair_later(self, key: str, members: Sequence[_Member]) -> None:
        with self._lock:
            if not members or key in self._repairing or len(self._repairing) >= _REPAIRS_MAX:
                return
            self._repairing.add(key)
        self._repairer.submit(self._repair, key, members)

    def _repair(self, key: str, members: Sequence[_Member]) -> None:
        try:
            for member in members:
                try:
                    self.copy(key, member.store.name)
                    log.info("media_file_repaired", store=member.store.name)
                except (MediaStoreError, NoSpaceError, NotFoundError) as e:
                    log.warning("media_repair_failed", store=member.store.name, error=e.word)
        finally:
            with self._lock:
                self._repairing.discard(key)


def _make_pool(name: str, threads: int = _THREADS) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix=f"media-{name}")  # starts no thread yet


@contextlib.contextmanager
def _open_source(source: Path | bytes) -> Iterator[BinaryIO]:
    if isinstance(source, bytes):
        yield io.BytesIO(source)
        return
    try:
        file = source.open("rb")
    except OSError as e:
        raise MediaStoreError from e
    with file:
        yield file


def explain_failure(error: MediaStoreError) -> str:
    """Return what happened, a text for administrators without credentials."""
    if status := error.ids.get("status"):
        return f"HTTP {status}"
    if reason := error.ids.get("reason"):
        return str(reason)
    return getattr(error.__cause__, "strerror", None) or "incomplete"
