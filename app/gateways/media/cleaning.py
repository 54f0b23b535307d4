"""Deletes pictures and files that nothing needs, and compares the stores with the database.

Every step can be repeated, may be killed anywhere, and may run beside itself (security.md U10, U11).
A blob's files are only deleted once its document says so, and its document only after its files.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from app import clock, logs
from app.errors import EventrError, MediaStoreError, NotFoundError
from app.gateways.media.blobs import BlobGateway, list_names
from app.gateways.media.files import FileGateway
from app.gateways.media.sources import get_day
from app.mappers.accounts.users import UserMapper
from app.mappers.media.blobs import BlobMapper
from app.mappers.media.cleaning import CACHE_WALK, DISK_WALK, OLD_WALK, SWEEP_WALK, CleaningMapper
from app.mappers.media.icons import IconMapper
from app.mappers.media.references import ReferenceMapper
from app.mappers.media.sources import SourceMapper
from app.mappers.mongo.store import Session, Store
from app.models.media.blob import DELETING, Blob, BlobKind, Purpose, build_key, split_key
from app.models.media.cleaning import (
    CheckCounts,
    CleanCounts,
    DiskCounts,
    StorageFigures,
    StorageStats,
    UserStorage,
    UserStoragePage,
)
from app.models.media.source import Source
from app.models.media.store import StoredFile
from app.models.media.upload import Usage
from app.ports import MediaStore, MediaStores
from app.runtime.pieces import close_piece

log = logs.get(__name__)

#: Documents that are read, or deleted in one transaction.
BATCH, TOGETHER = 500, 50
#: Deletions that a store may refuse before a run goes on with its next step. The next run continues behind
#: them, so that files that can't be deleted don't keep the others.
REFUSALS = 500
#: The budget is exceeded by at most this part before eviction begins, and ends below it.
_FILL = 0.9
#: Shards of a store, and those that a killed run may walk over again.
SHARDS, _SHARDS_TOGETHER = 256, 16
#: Bytes of an id that are stored as a position.
_ID_BYTES = 6
#: Time between two measurements of the cache, unless it was full.
_MEASURED = dt.timedelta(hours=1)

#: Size of the files and id of the last user of a page.
_POSITION = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")

IsOver = Callable[[], bool]


class CleaningGateway:
    """Deletes and counts.

    Args:
        quota: the server's default quota, bytes; 0: none.
        window: how long unused files and unseen pictures are kept.
        idle: how long content without references is kept, so that a repeated upload finds it.
        budget: most bytes of pictures from other sites.
        age: how old a file must be before it can be a stray: longer than any upload or drawing takes.
    """

    def __init__(
        self,
        *,
        store: Store,
        blobs: BlobMapper,
        references: ReferenceMapper,
        progress: CleaningMapper,
        files: FileGateway,
        content: BlobGateway,
        icons: IconMapper,
        sources: SourceMapper,
        stores: MediaStores,
        users: UserMapper,
        quota: int,
        window: dt.timedelta,
        idle: dt.timedelta,
        budget: int,
        age: dt.timedelta,
    ) -> None:
        self._store, self._blobs, self._references = store, blobs, references
        self._progress, self._files, self._stores = progress, files, stores
        self._content, self._icons, self._sources = content, icons, sources
        self._users, self._quota = users, quota
        self._window, self._idle, self._budget, self._age = window, idle, budget, age

    # -- what nothing needs anymore
    def has_work(self, now: dt.datetime) -> bool:
        """Return whether :meth:`clean` has something to do now."""
        before, (_, _, measured) = now - self._window, self._progress.find_position(CACHE_WALK)
        return bool(
            self._files.has_rotten(before)
            or self._has_rotten_sources(before)
            or self._blobs.find_idle(now - self._idle, 1)
            or self._blobs.find_condemned(1)
            or self._blobs.find_with_old(1)
            or ((measured is None or measured + _MEASURED <= now) and not self._blobs.is_empty())
        )

    def _has_rotten_sources(self, before: dt.datetime) -> bool:
        """Return whether a source may be deleted; those that are kept count as shown today from now on."""
        after = None
        while True:
            found, after = self._sources.find_rotten(before, BATCH, after)
            if found or after is None:
                return bool(found)

    def clean(self, now: dt.datetime, is_over: IsOver) -> CleanCounts:
        """Delete what nothing needs anymore, in the order in which one step makes work for the next.

        Args:
            is_over: whether to end; the next call continues.
        """
        files = self._delete_rotten_files(now, is_over)
        sources = self._remove_sources(now - self._window, None, now, is_over)
        evicted = self._evict(now, is_over)
        swept = self._sweep(is_over)
        condemned = self._condemn(now, is_over)
        return CleanCounts(files=files, sources=sources, evicted=evicted) + swept + condemned

    def _delete_rotten_files(self, now: dt.datetime, is_over: IsOver) -> int:
        deleted = 0
        while not is_over() and (found := self._files.delete_rotten(now - self._window, BATCH)):
            deleted += found
        return deleted

    def _remove_sources(
        self, before: dt.datetime, excess: int | None, now: dt.datetime, is_over: IsOver
    ) -> int:
        """Delete sources that were last shown before a day, the oldest first; return how many.

        Sources whose picture someone keeps stay, since a page would fetch the picture again.

        Args:
            excess: end when this many bytes have become free; None: never.
        """
        removed, freed, after = 0, 0, None
        while not is_over() and (excess is None or freed < excess):
            # Icons are small, and each would be fetched again: they don't go for want of space.
            found, after = self._sources.find_rotten(before, BATCH, after, icons=excess is None)
            named = {source.blob for source in found if source.blob is not None}
            kept = self._references.find_in_files(named) if named else set()
            if stay := [source.id for source in found if source.blob in kept]:
                self._sources.touch(stay, get_day(now))
            gone = [source for source in found if source.blob not in kept]
            for start in range(0, len(gone), TOGETHER):
                if excess is not None and freed >= excess:
                    break
                batch = gone[start : start + TOGETHER]
                freed += self._measure(batch) if excess is not None else 0
                removed += self._store.run_in_transaction(partial(self._remove_batch, batch))
            if after is None:
                break
        return removed

    def _remove_batch(self, batch: Sequence[Source], session: Session) -> int:
        """Delete sources with their references; feeds with such an icon look for it again."""
        removed = self._references.remove_sources([source.id for source in batch], session)
        self._content.release_many(session, [blob_id for _, blob_id, _ in removed if blob_id is not None])
        for source_id, _, purpose in removed:
            if purpose is Purpose.ICON:
                self._icons.forget(session, source_id)
        return len(removed)

    def _measure(self, sources: Sequence[Source]) -> int:
        blobs = self._blobs.find_many({s.blob for s in sources if s.blob is not None})
        return sum(sum(blob.names.values()) for blob in blobs.values())

    def _evict(self, now: dt.datetime, is_over: IsOver) -> int:
        """Delete the pictures that nobody has seen for longest, until the cache is within its budget."""
        _, _, measured = self._progress.find_position(CACHE_WALK)
        if is_over() or (measured is not None and measured + _MEASURED > now):
            return 0
        cached = self.measure_cache()
        removed = 0
        if cached > self._budget:
            tomorrow = now + dt.timedelta(days=1)
            removed = self._remove_sources(tomorrow, cached - int(self._budget * _FILL), now, is_over)
            log.info("media_cache_full", megabytes=cached >> 20, sources=removed)
        if not is_over():
            kinds = self._blobs.measure()
            stored = [kinds.get(kind.value, (0, 0))[1] for kind in (BlobKind.PICTURE, BlobKind.FILE)]
            self._progress.finish(CACHE_WALK, [*stored, cached], now)
        return removed

    def load_figures(self) -> StorageFigures:
        """Return the figures of the last measurement and walk, without measuring anything."""
        measured = self._progress.find_last(CACHE_WALK)
        walked = self._progress.find_last(DISK_WALK)
        counts = DiskCounts(*walked[0]) if walked else DiskCounts()
        return StorageFigures(
            stored=dict(
                zip(("picture", "file", "cache"), measured[0] if measured else (0, 0, 0), strict=True)
            ),
            problems={"lost": self._blobs.count_lost(), "stray": counts.strays - counts.deleted},
        )

    def measure_cache(self) -> int:
        """Return the bytes of pictures that no file names, so that they may be deleted at any time."""
        total, after = 0, b""
        while batch := self._blobs.list_pictures(after, BATCH):
            kept = self._references.find_in_files(i for i, _ in batch)
            total += sum(size for i, size in batch if i not in kept)
            after = batch[-1][0]
        return total

    # -- states of blobs
    def _condemn(self, now: dt.datetime, is_over: IsOver) -> CleanCounts:
        """Delete blobs that have had no references for a while."""
        done = CleanCounts()
        before = now - self._idle
        while not is_over() and (found := self._blobs.find_idle(before, TOGETHER)):
            done += self._finish(self._blobs.condemn(found, before), is_over)
        return done

    def _sweep(self, is_over: IsOver) -> CleanCounts:
        """Finish deletions that were interrupted, or that a store didn't confirm."""
        return self._sweep_condemned(is_over) + self._sweep_old(is_over)

    def _sweep_condemned(self, is_over: IsOver) -> CleanCounts:
        done = CleanCounts()
        after = _from_milliseconds(self._progress.find_position(SWEEP_WALK)[0])
        while not is_over() and done.waiting < REFUSALS:
            # Far more than are touched by one transaction, so a whole batch never has the same time.
            found = self._blobs.find_condemned(BATCH, after)
            done += self._finish(found, is_over)
            if len(found) < BATCH:
                after = _from_milliseconds(0)
                break
            after = found[-1].touched or after
        self._progress.set_position(SWEEP_WALK, round(after.timestamp() * 1000), ())
        return done

    def _sweep_old(self, is_over: IsOver) -> CleanCounts:
        done = CleanCounts()
        after = _to_id(self._progress.find_position(OLD_WALK)[0])
        while not is_over() and done.waiting < REFUSALS:
            found = self._blobs.find_with_old(BATCH, after)
            for blob in found:
                if is_over() or done.waiting >= REFUSALS:
                    break
                done += self._delete_old(blob)
                after = blob.id
            else:
                if len(found) < BATCH:
                    after = _to_id(0)
                    break
        self._progress.set_position(OLD_WALK, int.from_bytes(after[:_ID_BYTES]), ())
        return done

    def _delete_old(self, blob: Blob) -> CleanCounts:
        old = [generation for generation in blob.old if generation != blob.generation]
        if not all([self._delete_files(blob, generation) for generation in old]):
            return CleanCounts(waiting=1)
        self._blobs.forget_old(blob.id, blob.old)
        return CleanCounts(generations=len(old))

    def _finish(self, condemned: Sequence[Blob], is_over: IsOver) -> CleanCounts:
        """Delete the files of blobs that are being deleted, in every store, and then their documents.

        A blob that someone has taken over meanwhile has another generation of files, and keeps its document.
        """
        gone: list[Blob] = []
        waiting = 0
        for blob in condemned:
            if is_over():
                break
            if all([self._delete_files(blob, generation) for generation in (blob.generation, *blob.old)]):
                gone.append(blob)
            else:
                waiting += 1
        return CleanCounts(blobs=self._blobs.remove(gone), waiting=waiting)

    def _delete_files(self, blob: Blob, generation: int) -> bool:
        """Delete all files of a generation; return whether every store has confirmed it."""
        names = sorted(list_names(blob, generation))
        return all([self._stores.delete(build_key(blob.id, generation, name)) for name in names])

    # -- the stores against the database
    def is_walk_due(self, now: dt.datetime, every: dt.timedelta) -> bool:
        """Return whether a walk over the stores has to continue, or to begin."""
        position, _, ended = self._progress.find_position(DISK_WALK)
        is_due = position > 0 or ended is None or ended + every <= now
        return is_due and not self._blobs.is_empty()

    def walk_stores(
        self,
        now: dt.datetime,
        *,
        delete: bool,
        mend: bool,
        is_over: IsOver = lambda: False,
        resume: bool = False,
    ) -> DiskCounts:
        """Look for files without a document, and documents without files, shard by shard.

        Args:
            delete: delete the former; otherwise they are only counted.
            mend: let other stores, or the site of a picture, replace the files of the latter.
            is_over: whether to end; the next call continues there, if it resumes.
            resume: continue the walk of an earlier call.

        Returns:
            The counts of the whole walk so far.
        """
        first, counts, _ = self._progress.find_position(DISK_WALK) if resume else (0, (), None)
        done = DiskCounts(*counts)
        for shard in range(first, SHARDS):
            over = is_over()
            if resume and (over or not shard % _SHARDS_TOGETHER):
                self._progress.set_position(DISK_WALK, shard, done)
            if over:
                return done
            done += self._walk_shard(shard, now, delete=delete, mend=mend)
        self._progress.finish(DISK_WALK, done, now)
        log.info("media_walked", **done._asdict())
        return done

    def _walk_shard(self, shard: int, now: dt.datetime, *, delete: bool, mend: bool) -> DiskCounts:
        # First the files, then the documents (U11): the document of a listed file is there already, or the
        # file is too young to be a stray.
        listed, silent = dict[str, list[StoredFile]](), 0
        for store in self._stores.stores:
            try:
                listed[store.name] = list(store.list_files(f"{shard:02x}"))
            except MediaStoreError:
                silent += 1
        strays = list(self._find_strays(listed, now - self._age))
        deleted = 0
        by_name = {store.name: store for store in self._stores.stores}
        for name, file in strays:
            if delete and _delete(by_name[name], file.key):
                deleted += 1
                log.info("stray_file_deleted", key=file.key, size=file.size)
        mended, lost = self._compare_documents(shard, listed, mend)
        return DiskCounts(
            shards=1,
            files=sum(map(len, listed.values())),
            strays=len(strays),
            stray_bytes=sum(file.size for _, file in strays),
            deleted=deleted,
            mended=mended,
            lost=lost,
            silent=silent,
        )

    def _find_strays(
        self, listed: dict[str, list[StoredFile]], before: dt.datetime
    ) -> Iterator[tuple[str, StoredFile]]:
        """Yield (store, file) of files older than ``before`` whose generation no document names."""
        old = [(name, file) for name, files in listed.items() for file in files if file.changed < before]
        parts = {file.key: split_key(file.key) for _, file in old}
        wanted = sorted({part[0] for part in parts.values() if part is not None})
        known: dict[bytes, frozenset[int]] = {}
        for start in range(0, len(wanted), BATCH):
            known |= self._blobs.find_generations(wanted[start : start + BATCH])
        for name, file in old:
            part = parts[file.key]
            # A temporary file that old belongs to a write that was interrupted.
            if part is None or file.key.endswith(".tmp") or part[1] not in known.get(part[0], ()):
                yield name, file

    def _compare_documents(
        self, shard: int, listed: dict[str, list[StoredFile]], mend: bool
    ) -> tuple[int, int]:
        """Look for blobs of a shard whose files are missing; return how many in some, and in all stores."""
        keys = {name: {file.key for file in files} for name, files in listed.items()}
        after, until = bytes([shard]) + bytes(31), bytes([shard]) + b"\xff" * 31
        mended = lost = 0
        while batch := self._blobs.list_after(after, BATCH, until):
            for blob in batch:
                lacking = [name for name in keys if self._lacks_files(blob, name, keys[name])]
                if not lacking:
                    continue
                holders = [name for name in blob.copies if name not in lacking]
                if holders:
                    mended += 1
                    log.warning("media_copy_missing", blob=blob.id.hex(), stores=",".join(lacking))
                    if mend:
                        self._blobs.set_copies(blob, holders, sorted({*blob.missing, *lacking}))
                else:
                    lost += 1
                    log.error("media_file_lost", blob=blob.id.hex(), kind=blob.kind.value)
                    if mend and self._blobs.mark_lost(blob):
                        # A picture of another site is fetched and drawn anew; a user's file can't be.
                        self._references.fetch_again(blob.id, clock.now())
            after = batch[-1].id
        return mended, lost

    def _lacks_files(self, blob: Blob, store_name: str, keys: set[str]) -> bool:
        """Return whether a store that should have a blob's files lacks one, when asked again."""
        if blob.references == DELETING or store_name not in blob.copies:
            return False
        missing = [
            key for name in blob.names if (key := build_key(blob.id, blob.generation, name)) not in keys
        ]
        store = next(store for store in self._stores.stores if store.name == store_name)
        # The files of a blob that is younger than the list aren't in it.
        return any(_is_missing(store, key) for key in missing)

    # -- counting again
    def recount(self, is_over: IsOver = lambda: False) -> CheckCounts:
        """Count the references of all blobs again, and correct wrong numbers."""
        blobs = wrong = dangling = 0
        after = b""
        while not is_over() and (batch := self._blobs.list_after(after, BATCH)):
            counts = self._references.count(blob.id for blob in batch)
            for blob in batch:
                if max(0, blob.references) != counts[blob.id]:
                    wrong += self._store.run_in_transaction(partial(self._recount_one, blob.id))
            blobs += len(batch)
            after = batch[-1].id
        after = b""
        while not is_over() and (named := self._references.list_after(after, BATCH)):
            missing = set(named) - self._blobs.find_generations(named).keys()
            for blob_id in missing & self._references.count(missing).keys():
                dangling += 1
                log.error("media_file_lost", blob=blob_id.hex(), kind="unknown")
                self._references.fetch_again(blob_id, clock.now())
            after = named[-1]
        return CheckCounts(blobs=blobs, wrong=wrong, dangling=dangling)

    def _recount_one(self, blob_id: bytes, session: Session) -> int:
        """Correct one number in a transaction, so that every change of it at this moment is seen."""
        blob = self._blobs.find(blob_id, session)
        count = self._references.count([blob_id], session)[blob_id]
        if blob is None or max(0, blob.references) == count:
            return 0
        log.warning("blob_count_wrong", blob=blob_id.hex(), counted=count, stored=blob.references)
        self._blobs.set_references(blob_id, count, clock.now(), session)
        return 1

    def measure(self) -> StorageStats:
        """Return how much is stored."""
        kinds = self._blobs.measure()
        pictures, files = (kinds.get(kind.value, (0, 0)) for kind in (BlobKind.PICTURE, BlobKind.FILE))
        oldest, _ = self._sources.find_rotten(clock.now() + dt.timedelta(days=1), 1, icons=False)
        last = self._progress.find_last(DISK_WALK)
        return StorageStats(
            pictures=pictures[0],
            picture_bytes=pictures[1],
            files=files[0],
            file_bytes=files[1],
            states=self._blobs.count_states(),
            cache_limit=self._budget,
            oldest_use=oldest[0].used if oldest else None,
            disk=DiskCounts(*last[0]) if last else None,
            disk_at=last[1] if last else None,
        )

    def list_storage(self, limit: int, after: str = "") -> UserStoragePage:
        """Return the storage of users, those who store most first.

        Args:
            after: ``next`` of the page before, or nothing.
        """
        found = self._references.list_storage(limit + 1, _parse_position(after))
        shown = dict(list(found.items())[:limit])
        names = self._users.find_names(list(shown))
        users = [
            UserStorage(user_id, names[user_id], usage, usage.get_limit(self._quota))
            for user_id, usage in shown.items()
            if user_id in names
        ]
        last, usage = next(reversed(shown.items()), (0, Usage()))
        return UserStoragePage(users, f"{usage.finished}-{last}" if len(found) > limit else None)


def _parse_position(text: str) -> tuple[int, int] | None:
    """Return size and user id from a position; None for whatever isn't one: the list begins anew."""
    match = _POSITION.fullmatch(text)
    return (int(match[1]), int(match[2])) if match else None


def _from_milliseconds(position: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(position / 1000, dt.UTC)


def _to_id(position: int) -> bytes:
    """Return the highest id with these first bytes; 0: before any."""
    return position.to_bytes(_ID_BYTES) + b"\xff" * (32 - _ID_BYTES) if position else b""


def _delete(store: MediaStore, key: str) -> bool:
    try:
        store.delete(key)
    except (EventrError, ValueError):
        return False
    return True


def _is_missing(store: MediaStore, key: str) -> bool:
    try:
        close_piece(store.open(key))
    except NotFoundError:
        return True
    except MediaStoreError:
        return False
    return False
