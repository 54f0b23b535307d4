"""Uploads: beginning, appending parts, ending; and the count of the bytes that have come.

Bytes go straight into one file per upload, whose length is the offset, so a part costs the database nothing.
A delayed task counts them later. It stores the lengths of the files, so it may run at any time and twice.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import itertools
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from app import clock, config, logs
from app.config import Settings
from app.errors import (
    ConflictError,
    ForbiddenError,
    GoneError,
    NotFoundError,
    OffsetError,
    PicturesUnsupportedError,
    StoreError,
    TooLargeError,
)
from app.gateways.media.uploads import BATCH, UploadGateway
from app.models.accounts.actor import Actor, Permission
from app.models.jobs.jobs import Job, Queue, Task
from app.models.jobs.later import PendingTask
from app.models.media.blob import Purpose
from app.models.media.upload import (
    DRAWN,
    NAME_MAX,
    NewUpload,
    PartDigest,
    StagedFile,
    Upload,
    UploadState,
    UploadStatus,
    reserve_steps,
)
from app.models.names import to_one_line
from app.ports import JobPort, LaterPort, PartSource, UploadStaging
from app.services.access import Limiter, require_permission, throttle
from app.services.free_space import FreeSpace

log = logs.get(__name__)

#: Kind of the delayed task that counts received bytes.
FLUSH = "usage.flush"
#: Seconds after the last part, and after the first one, when received bytes are counted. Only a pause would
#: never come during a long upload.
FLUSH_DELAY, FLUSH_LIMIT = 30.0, 600.0


class UploadService:
    """Receives an actor's uploads."""

    def __init__(
        self,
        *,
        uploads: UploadGateway,
        staging: UploadStaging,
        jobs: JobPort,
        later: LaterPort,
        limiter: Limiter,
        free_space: FreeSpace,
        settings: Settings,
    ) -> None:
        self._uploads, self._staging = uploads, staging
        self._jobs, self._later, self._limiter = jobs, later, limiter
        self._free_space, self._settings = free_space, settings
        self._ttl = dt.timedelta(seconds=settings.upload_expires)

    def get_max(self, purpose: Purpose = Purpose.ATTACHMENT) -> int:
        """Return the most bytes of a file for a purpose."""
        settings = self._settings
        limits = {
            Purpose.AVATAR: settings.avatar_max,
            Purpose.PICTURE: settings.upload_picture_max,
            Purpose.IMPORT: settings.upload_import_max,
        }
        return min(settings.upload_max, limits.get(purpose, settings.upload_max))

    def check_new(self, actor: Actor, new: NewUpload) -> None:
        """Check that an upload may begin.

        Raises:
            ForbiddenError: uploads are off, or the actor may not upload.
            PicturesUnsupportedError: it is to be drawn, and this server can't draw.
            TooLargeError: the file is too large for its purpose.
            NoSpaceError: a disk is almost full.
        """
        self._require(actor)
        if new.purpose in DRAWN and not config.can_draw():
            raise PicturesUnsupportedError
        limit = self.get_max(new.purpose)
        if new.size is not None and new.size > limit:
            raise TooLargeError("The file is larger than %(mb)s MB.", mb=limit >> 20, limit=limit)
        self._free_space.require_space()

    def create(self, actor: Actor, new: NewUpload) -> UploadStatus:
        """Begin an upload; its bytes are reserved.

        Raises:
            QuotaError: the file doesn't fit into the actor's quota.
            RateLimitedError: too many uploads, at the same time or within the hour.
            ForbiddenError, PicturesUnsupportedError, TooLargeError, NoSpaceError: see :meth:`check_new`.
        """
        self.check_new(actor, new)
        limit = self._settings.uploads_per_hour
        throttle(self._limiter, f"upload:{actor.user_id}", limit=limit, window=clock.HOUR)
        now = clock.now()
        reserved = min(reserve_steps(1), self.get_max(new.purpose)) if new.size is None else new.size
        upload = Upload(
            id=secrets.token_hex(16),
            user_id=actor.user_id,
            purpose=new.purpose,
            name=to_one_line(new.name)[:NAME_MAX],
            size=new.size,
            reserved=reserved,
            received=0,
            state=UploadState.OPEN,
            created=now,
            expires=now + self._ttl,
            claimed=new.claimed,
            metadata=new.metadata,
            home=self._staging.home,
        )
        # The file first: a crash leaves a file without a document, which is deleted with its day.
        self._staging.create(upload)
        try:
            self._uploads.create(upload)
        except BaseException:
            self._staging.remove(upload)
            raise
        log.info("upload_begun", user_id=actor.user_id, purpose=new.purpose.value, size=new.size)
        return self._finish_part(upload, 0)

    def find(self, actor: Actor, upload_id: str) -> UploadStatus:
        """Return an upload and its offset.

        Raises:
            NotFoundError: the actor has no such upload.
            GoneError: it was deleted, or has expired.
        """
        self._require(actor)
        upload = self._uploads.find(actor.user_id, upload_id)
        if upload.state is UploadState.GONE:
            raise GoneError
        if upload.state is not UploadState.OPEN:
            return UploadStatus(upload, upload.size or 0, upload.expires)
        staged = self._measure(upload)
        if staged.size == upload.size:
            return self._finish_part(upload, staged.size)  # the answer to the last part was lost, perhaps
        return UploadStatus(upload, staged.size, self._get_expiry(upload, staged))

    def check_part(self, actor: Actor, upload_id: str, offset: int, size: int) -> UploadStatus:
        """Check that a part may be sent, before it is.

        Raises:
            OffsetError: the upload continues at another byte.
            TooLargeError: the part goes beyond the end of the file, or the largest file of its purpose.
            NoSpaceError: a disk is almost full.
            NotFoundError, GoneError: see :meth:`find`.
        """
        status = self.find(actor, upload_id)
        if offset != status.offset:
            raise OffsetError(offset=status.offset)
        upload = status.upload
        end, limit = offset + size, self.get_max(upload.purpose) if upload.size is None else upload.size
        if end > limit:
            raise TooLargeError("This part goes beyond the end of the file.", limit=limit)
        if size:
            self._free_space.require_space()
        return status

    def declare_size(self, actor: Actor, upload_id: str, size: int) -> UploadStatus:
        """Declare the size of an upload that was begun without one.

        Raises:
            ConflictError: another size is known already.
            TooLargeError: the file is too large, or less than what has come.
            QuotaError: the file doesn't fit into the actor's quota.
        """
        status = self.find(actor, upload_id)
        upload = status.upload
        if upload.size is not None:
            if upload.size == size:
                return status
            raise ConflictError("The size of this upload is known already.")
        if not status.offset <= size <= self.get_max(upload.purpose):
            raise TooLargeError("This part goes beyond the end of the file.")
        changed = self._uploads.reserve_more(upload, size, size=size)
        return self._finish_part(changed, status.offset)

    def append(
        self,
        actor: Actor,
        upload_id: str,
        offset: int,
        source: PartSource | bytes,
        digest: PartDigest | None = None,
        *,
        part_start: int | None = None,
    ) -> UploadStatus:
        """Append a part durably, or the next slice of one.

        Args:
            offset: where the sender says the part or slice begins.
            digest: checksum of the part, given with its last slice.
            part_start: where the part begins; None: at ``offset``.

        Raises:
            ChecksumError: the part was damaged.
            QuotaError: an upload without a size has outgrown the actor's quota.
            OffsetError, TooLargeError, NoSpaceError, NotFoundError, GoneError: see :meth:`check_part`.
        """
        size = len(source) if isinstance(source, bytes) else source.size
        status = self.check_part(actor, upload_id, offset, size)
        upload = status.upload
        if upload.state is not UploadState.OPEN or (not size and digest is None):
            return status
        if upload.size is None and offset + size > upload.reserved:
            steps = min(reserve_steps(offset + size), self.get_max(upload.purpose))
            upload = self._uploads.reserve_more(upload, steps)
        try:
            end = self._staging.append(upload, offset, source, digest=digest, part_start=part_start)
        except NotFoundError:
            raise GoneError from None
        return self._finish_part(upload, end)

    def discard_part(self, actor: Actor, upload_id: str, first: int, end: int) -> UploadStatus:
        """Delete a part that begins at ``first``, if the upload still ends at ``end``."""
        self._require(actor)
        upload = self._uploads.find(actor.user_id, upload_id)
        if upload.state is UploadState.OPEN and end > first:
            self._staging.truncate_file(upload, first, end)
        return self.find(actor, upload_id)

    def delete(self, actor: Actor, upload_id: str) -> None:
        """Cancel an upload: its bytes and its reservation are gone.

        Raises:
            ConflictError: it is complete, so there is a file to delete instead.
            NotFoundError, GoneError: see :meth:`find`.
        """
        self._require(actor)
        upload = self._uploads.find(actor.user_id, upload_id)
        if upload.state is UploadState.GONE:
            raise GoneError
        if upload.state in (UploadState.SEALING, UploadState.DONE):
            raise ConflictError("This upload is complete. Delete the file instead.")
        if upload.state is UploadState.OPEN and not self._uploads.end(upload, UploadState.GONE):
            raise ConflictError
        self._staging.remove(upload)
        log.info("upload_cancelled", user_id=actor.user_id)

    def list_active(self, actor: Actor) -> list[UploadStatus]:
        """Return the actor's uploads in progress, newest first; those without a file here are at byte 0."""
        self._require(actor)
        found = []
        for upload in self._uploads.list_active(actor.user_id):
            staged = self._staging.measure(upload)
            if upload.state is UploadState.OPEN:
                offset = staged.size if staged else 0
                found.append(UploadStatus(upload, offset, self._get_expiry(upload, staged)))
            else:
                found.append(UploadStatus(upload, upload.size or 0, upload.expires))
        return found

    # -- the count of received bytes
    def flush(self, user_id: int) -> int:
        """Count what a user's open uploads have received; return how many counts have changed."""
        changed = 0
        for upload in self._uploads.list_active(user_id):
            staged = self._staging.measure(upload) if upload.state is UploadState.OPEN else None
            if staged is None:
                continue  # not on this machine
            if staged.size != upload.received:
                changed += self._uploads.record_received(upload, staged.size, staged.changed + self._ttl)
            if staged.size == upload.size:
                self._complete(upload)
        return changed

    def find_flushes(self, now: dt.datetime) -> Iterable[PendingTask]:
        """Return the delayed tasks that may be pending: one for each user with an open upload."""
        due = now + dt.timedelta(seconds=FLUSH_LIMIT)
        for user_id in self._uploads.find_senders():
            yield PendingTask(str(user_id), {"user_id": user_id}, due)

    # -- maintenance
    def expire(self, now: dt.datetime, is_over: Callable[[], bool]) -> int:
        """End the uploads that have got no part for too long; return how many."""
        ended = 0
        while found := self._uploads.find_expired(now, self._staging.home):
            for upload in found:
                if is_over():
                    return ended
                staged = self._staging.measure(upload)
                if staged and staged.size == upload.size:
                    self._complete(upload)
                elif staged and staged.changed + self._ttl > now:
                    self._uploads.record_received(upload, staged.size, staged.changed + self._ttl)
                elif self._uploads.end(upload, UploadState.GONE):
                    self._staging.remove(upload)
                    ended += 1
        return ended

    def requeue_sealing(self) -> int:
        """Queue the sealing of complete uploads again, as after a crash; return how many there are."""
        count, waiting = 0, self._uploads.find_sealing()
        while jobs := [make_seal_job(upload.id) for upload in itertools.islice(waiting, BATCH)]:
            self._jobs.enqueue_many(jobs)
            count += len(jobs)
        return count

    def remove_leftovers(self, before: dt.date) -> int:
        """Delete files of earlier days whose uploads have ended; return how many."""
        removed = 0
        for day in self._staging.list_days():
            if day < before:
                ids = self._staging.list_ids(day)
                leftovers = self._uploads.find_leftovers(ids)
                removed += self._staging.remove_day(day, set(ids) - leftovers)
        return removed

    def end_all(self, user_id: int) -> None:
        """End all uploads of a user whose account is deleted; can be repeated."""
        while found := self._uploads.list_active(user_id):
            for upload in found:
                self._uploads.end(upload, UploadState.GONE)
                self._staging.remove(upload)

    def _require(self, actor: Actor) -> None:
        require_permission(actor, Permission.FILE_EDIT)
        if not self._settings.uploads:
            raise ForbiddenError("Uploads are turned off on this server.")

    def _measure(self, upload: Upload) -> StagedFile:
        staged = self._staging.measure(upload)
        if staged is None and upload.home not in (None, self._staging.home):
            # Not gone: the proxy should have sent this request to the server that has the bytes.
            log.warning("upload_elsewhere", user_id=upload.user_id, home=upload.home)
            raise StoreError
        if staged is None or self._get_expiry(upload, staged) <= clock.now():
            raise GoneError
        return staged

    def _get_expiry(self, upload: Upload, staged: StagedFile | None) -> dt.datetime:
        return max(upload.expires, staged.changed + self._ttl) if staged else upload.expires

    def _finish_part(self, upload: Upload, offset: int) -> UploadStatus:
        """Note that an upload has ``offset`` bytes now; seal it if that is all."""
        expires = clock.now() + self._ttl
        if offset == upload.size:
            self._complete(upload)
            return UploadStatus(dataclasses.replace(upload, state=UploadState.SEALING), offset, expires)
        if offset:
            args = {"user_id": upload.user_id}
            with contextlib.suppress(StoreError):  # found again in the database, see find_flushes
                self._later.touch(FLUSH, str(upload.user_id), args, delay=FLUSH_DELAY, limit=FLUSH_LIMIT)
        return UploadStatus(upload, offset, expires)

    def _complete(self, upload: Upload) -> None:
        self._uploads.begin_sealing(upload)
        with contextlib.suppress(StoreError):  # queued again by the next maintenance
            self._jobs.enqueue(make_seal_job(upload.id))


def make_seal_job(upload_id: str) -> Job:
    """Return the job that stores a complete upload."""
    return Job(Task.SEAL, {"upload_id": upload_id}, Queue.MEDIA)


def make_flush_job(args: Mapping[str, Any]) -> Job:
    """Return the job that counts a user's received bytes, from the arguments of the delayed task."""
    return Job(Task.FLUSH_USAGE, {"user_id": int(args["user_id"])}, Queue.MAINTENANCE)
