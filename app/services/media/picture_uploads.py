"""Pictures that someone uploads with a form: the worker draws each, and the request waits a moment for it.

The name of a picture's file says what it is for, so a job that was lost with Redis can be queued again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import BinaryIO, Final

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

#: What a picture may be for → the task that draws it, and the argument that names its subject.
_TASKS: Final = {"avatar": (Task.DRAW_AVATAR, "user_id"), "icon": (Task.DRAW_ICON, "feed_id")}
#: Seconds after which the job of a picture that waits is queued again, in case Redis has lost it.
REQUEUE_SECONDS: Final = 120.0


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

    def send(self, kind: str, subject_id: int, picture: BinaryIO) -> bool:
        """Let a worker draw a picture instead of those that still wait for the same subject.

        Args:
            kind: avatar or icon.
            subject_id: the person or feed that the picture is for.

        Returns:
            Whether that's done; otherwise it happens soon.

        Raises:
            PictureError: the file can't be drawn.
            StoreError: the stores aren't responding.
        """
        name = f"{kind}-{subject_id}-{secrets.token_hex(16)}"
        self._bodies.put(name, picture)
        try:
            ticket = self._jobs.enqueue(self._make_job(kind, subject_id, name))
        except EventrError:
            self._bodies.delete(name)
            raise
        self._bodies.delete_older(name)
        for outcome in self._jobs.await_many([ticket], self.wait):
            error = outcome.error or (outcome.value or {}).get("error")
            if error == "gone":
                return False  # the same person has sent another picture, which is drawn instead
            if error in PICTURE_MESSAGES:
                raise PictureError(error)
            if error:
                raise EventrError
            return True
        return False

    def cancel(self, kind: str, subject_id: int) -> None:
        """Forget the pictures that still wait for a subject: it was given another one, or none."""
        self._bodies.delete_of(f"{kind}-{subject_id}")

    def _make_job(self, kind: str, subject_id: int, name: str) -> Job:
        task, argument = _TASKS[kind]
        return Job(task, {argument: subject_id, "body": name, "home": self._bodies.home}, Queue.MEDIA)

    # -- for workers
    def requeue_waiting(self) -> int:
        """Queue the jobs of pictures again that have waited for minutes; return how many there are.

        A job that is still queued, running or waiting for a store isn't queued twice.

        Raises:
            StoreError: Redis isn't responding.
        """
        jobs = []
        for subject, name in self._bodies.list_waiting(REQUEUE_SECONDS):
            kind, _, number = subject.partition("-")
            if kind in _TASKS:
                jobs.append(self._make_job(kind, int(number), name))
        if jobs:
            self._jobs.enqueue_many(jobs)
        return len(jobs)

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
            error = "gone"  # an earlier run has drawn it, or a later picture has replaced it
        except StoreError as e:
            # Not a fault of the picture, which stays until maintenance deletes what nobody could draw.
            pause = compute_pause(waited)
            raise LaterError(pause) from e
        self._bodies.delete(name)
        return error
