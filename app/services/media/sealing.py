"""Sealing: a complete upload becomes a file of its user.

A job does it, since it reads the whole file. It may run twice, and be killed anywhere: the upload's state,
the blob's reference, the file and the storage change in one transaction. Only then the upload's bytes go.
"""

from __future__ import annotations

from typing import Any

from app import clock, logs
from app.errors import (
    ConflictError,
    LaterError,
    MediaStoreError,
    NoSpaceError,
    NotFoundError,
    PictureError,
    PicturesUnsupportedError,
    StoreError,
)
from app.gateways.media.drawing import DrawingGateway, read_body
from app.gateways.media.uploads import UploadGateway
from app.models.media.drawn import MAX_ATTEMPTS, compute_pause
from app.models.media.upload import Upload, UploadState
from app.ports import UploadStaging

log = logs.get(__name__)

#: Error words of uploads that can't become files, beside those of pictures.
WRONG_CHECKSUM, LOST = "checksum", "lost"


class SealingService:
    """Stores complete uploads; for workers."""

    def __init__(self, uploads: UploadGateway, staging: UploadStaging, drawing: DrawingGateway) -> None:
        self._uploads, self._staging, self._drawing = uploads, staging, drawing
        #: One line per process says that servers don't share EVENTR_HOME/media.
        self._has_warned = False

    def seal_upload(self, upload_id: str, attempts: int = 0, waited: float = 0.0) -> dict[str, Any]:
        """Store a complete upload; does nothing for one that is stored already.

        Args:
            attempts: earlier attempts that ended with the worker, or took too long.
            waited: seconds since the job was queued.

        Raises:
            LaterError: MongoDB isn't responding, or another server has the bytes; the job runs again.
        """
        try:
            return self._seal_due(upload_id, attempts, waited)
        except StoreError as e:
            pause = compute_pause(waited)
            raise LaterError(pause) from e

    def _seal_due(self, upload_id: str, attempts: int, waited: float) -> dict[str, Any]:
        upload = self._uploads.find_due(upload_id)
        if upload is None:
            return {"state": "ended"}
        if upload.home not in (None, self._staging.home):
            if self._uploads.is_lost(upload, clock.now()):
                return self._fail(upload, LOST)
            # The job runs again, until a worker of that home takes it.
            if not self._has_warned:
                log.warning("upload_elsewhere", user_id=upload.user_id, home=upload.home)
            self._has_warned = True
            pause = compute_pause(waited)
            raise LaterError(pause)
        return self._seal(upload, attempts)

    def _seal(self, upload: Upload, attempts: int) -> dict[str, Any]:
        try:
            if attempts >= MAX_ATTEMPTS and upload.is_drawn:
                raise PictureError("crashed")
            with self._staging.open(upload) as path:
                body = read_body(path)
                if body.size != upload.size or upload.claimed not in (None, body.blob_id):
                    return self._fail(upload, WRONG_CHECKSUM)
                file = self._uploads.finish(upload, body, self._drawing)
        except NotFoundError:
            return self._fail(upload, LOST)
        except (PictureError, PicturesUnsupportedError) as e:
            return self._fail(upload, e.word)
        except (MediaStoreError, NoSpaceError) as e:
            # Not a fault of this file: it waits, and maintenance queues the job again.
            log.warning("upload_waits", user_id=upload.user_id, error=e.word)
            return {"state": "waiting", "error": e.word}
        except ConflictError:
            if self._uploads.find_due(upload.id) is None:
                return {"state": "ended"}  # another run of this job was first
            raise
        self._staging.remove(upload)
        log.info("upload_stored", user_id=upload.user_id, purpose=upload.purpose.value, size=file.size)
        return {"state": "done", "file_id": file.id}

    def _fail(self, upload: Upload, word: str) -> dict[str, Any]:
        if self._uploads.end(upload, UploadState.FAILED, word):
            log.info("upload_failed", user_id=upload.user_id, error=word)
        self._staging.remove(upload)
        return {"state": "failed", "error": word}
