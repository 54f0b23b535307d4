"""Results of cleaning and checking stored pictures and files."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import NamedTuple

from app.models.media.upload import Usage


class CleanCounts(NamedTuple):
    """The result of one run of the cleaner.

    Attributes:
        files: users' files deleted because nothing had used them for long.
        sources: pictures of other sites deleted because nobody had seen them for long.
        evicted: pictures of other sites deleted because the cache was full.
        blobs: stored contents deleted.
        generations: replaced generations whose files were deleted.
        waiting: deletions that a store didn't confirm; the next run repeats them.
    """

    files: int = 0
    sources: int = 0
    evicted: int = 0
    blobs: int = 0
    generations: int = 0
    waiting: int = 0

    def __add__(self, other: object) -> CleanCounts:
        """Return the sums."""
        if not isinstance(other, CleanCounts):
            return NotImplemented
        return CleanCounts(*(a + b for a, b in zip(self, other, strict=True)))


class DiskCounts(NamedTuple):
    """The result of a walk over the stores.

    Attributes:
        shards: folders that were listed, of 256.
        files: files seen, in all stores.
        strays: old files that no document names, and their ``stray_bytes``.
        deleted: those of them that were deleted.
        mended: blobs that lack files in some stores, which get a copy from another one.
        lost: blobs that lack files in every store.
        silent: folders that a store could not list.
    """

    shards: int = 0
    files: int = 0
    strays: int = 0
    stray_bytes: int = 0
    deleted: int = 0
    mended: int = 0
    lost: int = 0
    silent: int = 0

    def __add__(self, other: object) -> DiskCounts:
        """Return the sums."""
        if not isinstance(other, DiskCounts):
            return NotImplemented
        return DiskCounts(*(a + b for a, b in zip(self, other, strict=True)))


class CheckCounts(NamedTuple):
    """The result of a recount.

    Attributes:
        blobs: blobs counted.
        wrong: blobs with a wrong number of references, which is correct now.
        dangling: contents that files or sources name and that don't exist.
        wrong_usage: users whose storage was wrong, which is correct now.
    """

    blobs: int = 0
    wrong: int = 0
    dangling: int = 0
    wrong_usage: int = 0


class StorageFigures(NamedTuple):
    """Figures for monitoring, at most an hour old.

    Attributes:
        stored: bytes by kind: ``picture``, ``file``, and ``cache`` for pictures that may be deleted.
        problems: numbers by kind: ``lost``, and ``stray`` for files that the database doesn't know.
    """

    stored: dict[str, int]
    problems: dict[str, int]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StorageStats:
    """How much is stored, for administrators.

    Attributes:
        pictures, files: numbers of blobs of each kind; ``picture_bytes`` and ``file_bytes`` are their sizes.
        states: number of blobs by state, see :meth:`app.mappers.media.blobs.BlobMapper.count_states`.
        cache_limit: most bytes of pictures from other sites.
        oldest_use: day on which the longest unused source was last shown.
        disk: the last finished walk over the stores.
        disk_at: when it ended.
    """

    pictures: int
    picture_bytes: int
    files: int
    file_bytes: int
    states: dict[str, int]
    cache_limit: int
    oldest_use: dt.datetime | None = None
    disk: DiskCounts | None = None
    disk_at: dt.datetime | None = None


class UserStorage(NamedTuple):
    """The storage of a user; ``limit``: the quota that applies, bytes; 0: none."""

    user_id: int
    name: str
    usage: Usage
    limit: int


class UserStoragePage(NamedTuple):
    """A page of users and their storage; ``next`` is the position behind it, None: it is the last."""

    users: list[UserStorage]
    next: str | None = None
