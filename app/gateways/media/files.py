"""Users' files: each refers to a blob, and counts in full for its user (security.md U05, U12).

What uses a file is its owner. A file that loses its last owner is loose, and is deleted after a while.
Nothing here decides who may see a file: that is the rule of the share or comment that owns it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

from app import clock
from app.errors import InvalidError, NotFoundError
from app.gateways.media.blobs import BlobGateway
from app.mappers.media.files import FileMapper
from app.mappers.media.usage import UsageMapper
from app.mappers.mongo import ids
from app.mappers.mongo.store import Session, Store
from app.models.media.blob import Purpose
from app.models.media.user_file import OWNERS_MAX, SYSTEM, UserFile

#: Files that are deleted in one transaction.
TOGETHER = 100

#: Changes what names a file that is deleted, inside the transaction that deletes it.
Forget = Callable[[UserFile, Session], None]


class FileGateway:
    """Stores, finds and deletes users' files.

    Files of the system (user 0) count for nobody.
    """

    def __init__(self, store: Store, files: FileMapper, usage: UsageMapper, blobs: BlobGateway) -> None:
        self._store, self._files, self._usage, self._blobs = store, files, usage, blobs

    def add(
        self,
        session: Session,
        user_id: int,
        blob: bytes,
        name: str,
        size: int,
        *,
        purpose: Purpose,
        owners: Collection[str] = (),
    ) -> UserFile:
        """Store a file of a user, and count its size as finished.

        Only in a transaction that adds a reference to the blob: as the record of :meth:`BlobGateway.keep`, or
        after :meth:`BlobGateway.use`.

        Args:
            purpose: it decides what of the blob is served as this file.
        """
        file = UserFile(
            id=ids.reserve_ids(),
            user_id=user_id,
            blob=blob,
            purpose=purpose,
            name=name,
            size=size,
            owners=tuple(owners),
            loose=None if owners else clock.now(),
        )
        self._files.add(file, session)
        self._count(session, user_id, size)
        return file

    # -- reading
    def get(self, user_id: int, file_id: int) -> UserFile:
        """Return a file of a user.

        Raises:
            NotFoundError: the user has no such file.
        """
        found = self.find(user_id, [file_id]).get(file_id)
        if found is None:
            raise NotFoundError
        return found

    def find_any(self, file_id: int) -> UserFile | None:
        """Return a file of any user; the caller decides whether its viewer may see it (U12)."""
        return self._files.find(file_id, session=None)

    def find(self, user_id: int, file_ids: Iterable[int]) -> dict[int, UserFile]:
        """Return those of these files that a user has, by id."""
        return self._files.find_many(user_id, set(file_ids))

    def list_files(self, user_id: int, limit: int, before: int | None = None) -> list[UserFile]:
        """Return a page of a user's files, newest first; ``before``: only those with lower ids."""
        return self._files.list_by_user(user_id, limit, ids.HIGHEST if before is None else before)

    def find_by_blob(self, user_id: int, blob: bytes) -> UserFile | None:
        """Return a user's newest file that is exactly this content; None: the user has none."""
        return self._files.find_by_blobs(user_id, [blob]).get(blob)

    def has_holders(self, blob: bytes, minimum: int, before: dt.datetime) -> bool:
        """Return whether at least so many users have had a blob since before a moment."""
        return self._files.count_holders(blob, minimum, before) >= minimum

    def find_owned(self, owners: Iterable[str]) -> dict[str, list[UserFile]]:
        """Return the files of each of these owners, in the order in which they were stored."""
        return self._files.find_by_owners(set(owners))

    # -- owners
    def attach(self, session: Session, user_id: int, file_ids: Collection[int], owner: str) -> None:
        """Let an owner use files, inside the transaction that stores the owner.

        Raises:
            NotFoundError: the user doesn't have one of these files (anymore).
            InvalidError: a file has too many owners.
        """
        wanted = set(file_ids)
        if not wanted or self._files.add_owner(user_id, wanted, owner, session) == len(wanted):
            return
        if len(self._files.find_many(user_id, wanted, session)) < len(wanted):
            raise NotFoundError("This file doesn't exist anymore. Upload it again.")
        raise InvalidError(
            "This file is used in %(limit)s places already. Upload it again.", limit=OWNERS_MAX
        )

    def detach(self, session: Session | None, *owners: str) -> None:
        """End the use of all files by owners that are deleted, such as ``share:17``.

        Files without other owners are deleted later, unless they get a new one. Without a session, each file
        is changed on its own.
        """
        if owners:
            self._files.remove_owners(owners, clock.now(), session)

    def drop_unused(
        self,
        prefix: str,
        find_ended: Callable[[Sequence[str]], Iterable[str]],
        is_over: Callable[[], bool] = lambda: False,
    ) -> int:
        """Delete the files of ended owners, unless something else uses them; return how many.

        Args:
            prefix: of the owners, such as ``import:``.
            find_ended: returns which of these owners have ended.
        """
        dropped, last = 0, ""
        while not is_over() and (owners := self._files.list_owners(prefix, last, TOGETHER)):
            last = owners[-1]
            for owner in find_ended(owners):
                dropped += self._store.run_in_transaction(partial(self._drop, owner))
        return dropped

    def rename_owner(self, session: Session | None, owner: str, new: str) -> None:
        """Let another owner use all files of an owner, such as the feed into which one was merged."""
        if owner != new:
            self._files.rename_owner(owner, new, session)

    # -- deletion
    def delete(self, user_id: int, file_id: int, record: Forget | None = None) -> UserFile:
        """Delete a file of a user, whatever uses it.

        Args:
            record: changes what else names the file's blob, in the same transaction.

        Raises:
            NotFoundError: the user has no such file.
        """
        return self._store.run_in_transaction(partial(self._delete, user_id, file_id, record))

    def has_rotten(self, before: dt.datetime) -> bool:
        """Return whether there are files without owners since ``before``."""
        return bool(self._files.find_rotten(before, 1))

    def delete_rotten(self, before: dt.datetime, limit: int) -> int:
        """Delete at most ``limit`` files without owners since ``before``; return how many were found."""
        found = self._files.find_rotten(before, limit)
        for start in range(0, len(found), TOGETHER):
            batch = found[start : start + TOGETHER]
            self._store.run_in_transaction(partial(self._delete_rotten, batch, before))
        return len(found)

    def delete_all(self, user_id: int) -> None:
        """Delete all files of a user; can be repeated, and may be killed anywhere."""
        while self._store.run_in_transaction(partial(self._delete_batch, user_id)):
            pass
        self._usage.remove(user_id)

    def _drop(self, owner: str, session: Session) -> int:
        found = self._files.remove_owned(owner, session)
        self._forget(found, session)
        self._files.remove_owners([owner], clock.now(), session)
        return len(found)

    def _delete(self, user_id: int, file_id: int, record: Forget | None, session: Session) -> UserFile:
        file = self._files.remove(user_id, file_id, session)
        if file is None:
            raise NotFoundError
        self._forget([file], session)
        if record is not None:
            record(file, session)
        return file

    def _delete_rotten(self, file_ids: list[int], before: dt.datetime, session: Session) -> None:
        self._forget(self._files.remove_rotten(file_ids, before, session), session)

    def _delete_batch(self, user_id: int, session: Session) -> int:
        found = self._files.remove_batch(user_id, TOGETHER, session)
        self._forget(found, session)
        return len(found)

    def _forget(self, files: Collection[UserFile], session: Session) -> None:
        """Release the blobs of deleted files, and give their users the room back."""
        self._blobs.release_many(session, [file.blob for file in files])
        sizes: dict[int, int] = {}
        for file in files:
            sizes[file.user_id] = sizes.get(file.user_id, 0) + file.size
        for user_id, size in sorted(sizes.items()):
            self._count(session, user_id, -size)

    def _count(self, session: Session, user_id: int, delta: int) -> None:
        if user_id != SYSTEM:
            self._usage.change_finished(session, user_id, delta)
