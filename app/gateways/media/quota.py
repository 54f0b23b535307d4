"""The quota of users: what their storage takes, counted by every change and recounted from time to time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from app import clock, logs
from app.errors import NotFoundError, QuotaError
from app.gateways.media.blobs import BlobGateway
from app.gateways.media.files import FileGateway
from app.mappers.media.cleaning import USAGE_WALK, CleaningMapper
from app.mappers.media.files import FileMapper
from app.mappers.media.uploads import UploadMapper
from app.mappers.media.usage import UsageMapper
from app.mappers.mongo.store import Session, Store
from app.models.media.upload import Usage
from app.models.media.user_file import UserFile

log = logs.get(__name__)

#: Users whose documents are read at once.
BATCH = 1000


class QuotaGateway:
    """Storage of users.

    Args:
        quota: the server's default quota, bytes; 0: no limit.
    """

    def __init__(
        self,
        *,
        store: Store,
        usage: UsageMapper,
        uploads: UploadMapper,
        stored: FileMapper,
        files: FileGateway,
        blobs: BlobGateway,
        progress: CleaningMapper,
        quota: int,
    ) -> None:
        self._store, self._usage, self._uploads, self._stored = store, usage, uploads, stored
        self._files, self._blobs, self._progress, self._quota = files, blobs, progress, quota

    def find(self, user_id: int) -> Usage:
        """Return a user's storage, with the quota that applies."""
        found = self._usage.find(user_id) or Usage()
        return dataclasses.replace(found, quota=found.get_limit(self._quota))

    def add_file(self, known: UserFile, name: str) -> UserFile:
        """Add a file with the content of one that its user has already, if it fits into the quota.

        Raises:
            QuotaError: it doesn't.
            NotFoundError: the content is being deleted.
        """

        def add_file(session: Session) -> UserFile:
            # Reserved first, because that update is the one that checks the quota.
            if not self._usage.reserve_bytes(session, known.user_id, known.size, self._quota):
                raise QuotaError(user_id=known.user_id)
            if not self._blobs.use(session, known.blob):
                raise NotFoundError
            file = self._files.add(
                session, known.user_id, known.blob, name, known.size, purpose=known.purpose
            )
            self._usage.release_reserved(session, known.user_id, known.size)
            return file

        # It may be the first file, which needs no upload if other people have it.
        self._usage.ensure_user(known.user_id)
        return self._store.run_in_transaction(add_file)

    def recount_usage(self, user_id: int) -> Usage | None:
        """Count a user's storage again; return the wrong counts that were replaced, None: all were right."""

        def count_again(session: Session) -> Usage | None:
            stored = self._usage.find(user_id, session)
            if stored is None:
                return None
            reserved, unfinished = self._uploads.sum_active(session, user_id)
            counted = dataclasses.replace(
                stored,
                finished=self._stored.sum_sizes(user_id, session),
                reserved=reserved,
                unfinished=unfinished,
            )
            if counted == stored:
                return None
            # The snapshot of this transaction: a change since then conflicts, and all is counted once more.
            self._usage.replace_counts(session, user_id, counted)
            return stored

        return self._store.run_in_transaction(count_again)

    def is_recounting(self) -> bool:
        """Return whether a recount that resumes has ended early."""
        return self._progress.find_position(USAGE_WALK)[0] > 0

    def recount_all(self, is_over: Callable[[], bool], *, resume: bool = False) -> int:
        """Count the storage of all users again; return how many counts were wrong, and are right now.

        Args:
            is_over: whether to end; the next call continues there, if it resumes.
            resume: continue the recount of an earlier call.
        """
        wrong, after = 0, self._progress.find_position(USAGE_WALK)[0] if resume else 0
        while users := self._usage.find_users(after, BATCH):
            for user_id in users:
                if is_over():
                    if resume:
                        self._progress.set_position(USAGE_WALK, after, ())
                    return wrong
                if (stored := self.recount_usage(user_id)) is not None:
                    wrong += 1
                    log.warning("usage_was_wrong", user_id=user_id, **dataclasses.asdict(stored))
                after = user_id
            if resume:
                self._progress.set_position(USAGE_WALK, after, ())
        if resume:
            self._progress.finish(USAGE_WALK, (), clock.now())
        return wrong
