"""Uploads and the quota: each change of an upload and of its user's storage is one transaction.

So the sums hold in any order, however often parts are counted, uploads end and files go: what is reserved and
unfinished is the sum over active uploads, and what is finished is the sum over files.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator, Sequence

from app import clock
from app.errors import ConflictError, NotFoundError, QuotaError, RateLimitedError
from app.gateways.media.blobs import BlobGateway
from app.gateways.media.drawing import Body, DrawingGateway
from app.gateways.media.files import FileGateway
from app.mappers.media.uploads import UploadMapper
from app.mappers.media.usage import UsageMapper
from app.mappers.mongo.store import Session, Store
from app.models.media.blob import ORIGINAL, BlobKind, Content
from app.models.media.upload import Upload, UploadState
from app.models.media.user_file import UserFile

#: Uploads that a maintenance run reads at once.
BATCH = 500
#: Time after which the uploads of a server that doesn't end them itself are ended by another one.
AWAY = dt.timedelta(days=3)


class _NewUserError(Exception):
    """Nothing was ever counted for this user."""


class UploadGateway:
    """Uploads of users, with what they take of the quota.

    Args:
        quota: the server's default quota, bytes; 0: no limit.
        open_max: most uploads in progress per user.
    """

    def __init__(
        self,
        *,
        store: Store,
        uploads: UploadMapper,
        usage: UsageMapper,
        files: FileGateway,
        blobs: BlobGateway,
        quota: int,
        open_max: int,
    ) -> None:
        self._store, self._uploads, self._usage = store, uploads, usage
        self._files, self._blobs = files, blobs
        self._quota, self._open_max = quota, open_max

    def create(self, upload: Upload) -> None:
        """Store a new upload and reserve its bytes.

        Raises:
            QuotaError: they don't fit into the user's quota.
            RateLimitedError: the user has too many uploads in progress.
        """

        def add_upload(session: Session) -> None:
            # First the update that all uploads of a user share: of two transactions one begins again, so both
            # see how many uploads there are.
            self._reserve(session, upload.user_id, upload.reserved)
            if self._uploads.count_active(upload.user_id, session) >= self._open_max:
                raise RateLimitedError(
                    "You have %(most)s uploads in progress. Finish or cancel one of them first.",
                    most=self._open_max,
                )
            self._uploads.add(session, upload)

        try:
            self._store.run_in_transaction(add_upload)
        except _NewUserError:
            self._usage.ensure_user(upload.user_id)
            self._store.run_in_transaction(add_upload)

    def _reserve(self, session: Session, user_id: int, size: int) -> None:
        if not self._usage.reserve_bytes(session, user_id, size, self._quota):
            raise QuotaError(user_id=user_id) if self._usage.find(user_id, session) else _NewUserError

    def find(self, user_id: int, upload_id: str) -> Upload:
        """Return a user's upload.

        Raises:
            NotFoundError: the user has no such upload.
        """
        found = self._uploads.find(upload_id)
        if found is None or found.user_id != user_id:
            raise NotFoundError
        return found

    def list_active(self, user_id: int) -> list[Upload]:
        """Return a user's uploads that are open or being stored, newest first."""
        return self._uploads.find_active(user_id, self._open_max)

    def find_expired(self, now: dt.datetime, home: str) -> list[Upload]:
        """Return some of the open uploads that have expired, unless a newer part isn't counted yet.

        Another home knows its uploads better, unless it has been away for long.
        """
        return self._uploads.find_expired(now, BATCH, home, now - AWAY)

    def find_sealing(self) -> Iterator[Upload]:
        """Yield all uploads that wait to be stored, or are being stored."""
        since: dt.datetime | None = None
        seen: set[str] = set()
        while found := self._uploads.find_sealing(BATCH, since, seen):
            yield from found
            last = found[-1].expires
            seen = {upload.id for upload in found if upload.expires == last} | (
                seen if last == since else set()
            )
            since = last

    def is_lost(self, upload: Upload, now: dt.datetime) -> bool:
        """Return whether the server that has the bytes of an upload has been away for too long."""
        return upload.expires + AWAY <= now

    def find_due(self, upload_id: str) -> Upload | None:
        """Return an upload that is to be stored; None: it is stored already, or has ended otherwise."""
        found = self._uploads.find(upload_id)
        return found if found and found.state is UploadState.SEALING else None

    def find_leftovers(self, upload_ids: Sequence[str]) -> set[str]:
        """Return which of these uploads need no file anymore."""
        return set(upload_ids) - self._uploads.find_active_ids(upload_ids)

    def find_senders(self) -> set[int]:
        """Return the users who have open uploads."""
        return set(self._uploads.find_senders())

    def begin_sealing(self, upload: Upload) -> bool:
        """Mark an open upload as complete; return whether this call did."""
        return self._uploads.begin_sealing(upload.id)

    def reserve_more(self, upload: Upload, reserved: int, *, size: int | None = None) -> Upload:
        """Change what an upload without a size reserves; with ``size``, also declare its size.

        Raises:
            QuotaError: the new bytes don't fit into the user's quota.
            ConflictError: the upload has changed.
        """

        def change_upload(session: Session) -> None:
            delta = reserved - upload.reserved
            if not self._uploads.change_reserved(session, upload, reserved, size=size):
                raise ConflictError
            if delta > 0:
                self._reserve(session, upload.user_id, delta)
            elif delta:
                self._usage.release_reserved(session, upload.user_id, -delta)

        self._store.run_in_transaction(change_upload)
        return dataclasses.replace(upload, reserved=reserved, size=size)

    def record_received(self, upload: Upload, received: int, expires: dt.datetime) -> bool:
        """Count the bytes that an open upload has received; return whether this call did."""

        def count_bytes(session: Session) -> bool:
            if not self._uploads.record_received(session, upload, received, expires):
                return False
            self._usage.change_unfinished(session, upload.user_id, received - upload.received)
            return True

        return self._store.run_in_transaction(count_bytes)

    def end(self, upload: Upload, state: UploadState, error: str | None = None) -> bool:
        """End an upload without a file, from the state that the caller has seen.

        Returns:
            Whether this call ended it; only then its bytes are released.
        """

        def end_upload(session: Session) -> bool:
            return self._end(session, upload, state, error=error) is not None

        return self._store.run_in_transaction(end_upload)

    def _end(
        self,
        session: Session,
        upload: Upload,
        state: UploadState,
        *,
        file_id: int | None = None,
        error: str | None = None,
    ) -> Upload | None:
        seen = self._uploads.end(
            session, upload.id, upload.state, state, now=clock.now(), file_id=file_id, error=error
        )
        if seen is not None:
            # Exactly what this document says was counted of it, which is what its transactions have counted.
            self._usage.release_reserved(session, seen.user_id, seen.reserved, seen.received)
        return seen

    def finish(self, upload: Upload, body: Body, drawing: DrawingGateway) -> UserFile:
        """Store the content of a sealed upload, and turn the upload into a file of its user.

        Of a picture for a post or a profile, the drawn sizes are stored instead of the original.

        Raises:
            ConflictError: the upload has ended meanwhile.
            PictureError: it should be a picture, and can't be drawn.
            MediaStoreError: too few stores accepted the content.
            NoSpaceError: the stores are full.
        """

        def record_file(session: Session, blob_id: bytes) -> UserFile:
            new = self._files.add(
                session, upload.user_id, blob_id, upload.name, body.size, purpose=upload.purpose
            )
            if self._end(session, upload, UploadState.DONE, file_id=new.id) is None:
                raise ConflictError
            return new

        if upload.is_drawn:
            return drawing.keep(body, upload.purpose, record_file)
        content = Content(
            id=body.blob_id, kind=BlobKind.FILE, size=body.size, type=body.type, files={ORIGINAL: body.path}
        )
        return self._blobs.keep(content, record_file)
