"""Pictures that someone uploads with a form: the worker draws each, and the request waits a moment for it."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, BinaryIO

from app import logs
from app.errors import (
    PICTURE_MESSAGES,
    EventrError,
    LaterError,
    NotFoundError,
    PictureError,
    PicturesUnsupportedError,
    StoreError,
)
from app.gateways.media.drawing import Body, read_body
from app.models.jobs.jobs import Job, Queue, Task
from app.models.media.drawn import BODY_SECONDS, MAX_ATTEMPTS, compute_pause
from app.ports import JobPort, PictureBodies
from app.services.free_space import FreeSpace

log = logs.get(__name__)


class PictureUploads:
    """Hands uploaded pictures to the worker.

    Args:
        is_supported: whether pictures can be drawn at all.
        wait: seconds that a request waits for the worker.
    """

    def __init__(
        self, bodies: PictureBodies, jobs: JobPort, free_space: FreeSpace, *, is_supported: bool, wait: float
    ) -> None:
        self._bodies, self._jobs, self._free_space = bodies, jobs, free_space
        self.is_supported = is_supported
        self.wait = wait

    def require_support(self) -> None:
        """Check that a picture can be stored and drawn now.

        Raises:
            PicturesUnsupportedError: this server can't draw pictures.
            NoSpaceError: a disk is almost full.
        """
        if not self.is_supported:
            raise PicturesUnsupportedError
        self._free_space.require_space()

    def send(self, task: Task, args: dict[str, Any], picture: BinaryIO) -> bool:
        """Let a worker draw a picture; the task gets ``args``, the name of the ``body`` and its ``home``.

        Returns:
            Whether that's done; otherwise it happens soon.

        Raises:
            PictureError: the file can't be drawn.
            StoreError: the stores aren't responding.
        """
        name = secrets.token_hex(16)
        self._bodies.put(name, picture)
        try:
            given = {**args, "body": name, "home": self._bodies.home}
            ticket = self._jobs.enqueue(Job(task, given, Queue.MEDIA))
        except EventrError:
            self._bodies.delete(name)
            raise
        for outcome in self._jobs.await_many([ticket], self.wait):
            error = outcome.error or (outcome.value or {}).get("error")
            if error in PICTURE_MESSAGES:
                raise PictureError(error)
            if error:
                raise EventrError
            return True
        return False

    # -- for workers
    def draw(
        self, name: str, attempts: int, home: str | None, waited: float, draw: Callable[[Body], None]
    ) -> str | None:
        """Draw an uploaded picture with ``draw``, and delete its body; return the error's word, or None.

        Args:
            attempts: earlier attempts that ended with the worker, or took too long.
            home: id of the EVENTR_HOME that has the picture; None: not known.
            waited: seconds since the job was queued.

        Raises:
            LaterError: the stores aren't responding, or another server has the picture; the job runs again.
        """
        if home not in (None, self._bodies.home):
            log.warning("picture_elsewhere", home=home)
            if waited > BODY_SECONDS:
                return "gone"  # that server has deleted it, too
            pause = compute_pause(waited)
            raise LaterError(pause)
        error: str | None = None
        try:
            if attempts >= MAX_ATTEMPTS:
                raise PictureError("crashed")
            draw(read_body(self._bodies.get_path(name)))
        except (PictureError, NotFoundError, PicturesUnsupportedError) as e:
            # What the picture is for was deleted, or only the web server has the package.
            error = e.word
        except FileNotFoundError:
            error = "gone"  # an earlier run has drawn it
        except StoreError as e:
            # Not a fault of the picture, which stays until maintenance deletes what nobody could draw.
            pause = compute_pause(waited)
            raise LaterError(pause) from e
        self._bodies.delete(name)
        return error
