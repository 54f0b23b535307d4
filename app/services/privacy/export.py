"""Data exports: a user requests a file of all their data, a job makes it, the user downloads it (G01)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from app import clock, logs
from app.config import Settings
from app.errors import EventrError, InvalidError, NotFoundError, TooLargeError
from app.gateways.accounts.accounts import AccountGateway
from app.gateways.privacy import exports as personal
from app.gateways.privacy.exports import ExportLostError, PersonalExportGateway
from app.models.accounts.actor import Actor, Permission
from app.models.accounts.user import Session
from app.models.jobs.jobs import Job, Queue, Task
from app.models.privacy.export import ExportState, PersonalExport
from app.ports import JobPort
from app.services.access import Limiter, require_permission, throttle
from app.services.accounts.admin_accounts import AdminAccountService
from app.services.free_space import FreeSpace
from app.services.notifications.notifier import Notifier

log = logs.get(__name__)

#: Longest run, seconds; after this time the run is ended, and the next one starts over.
LONGEST = personal.LONGEST
#: Exports whose jobs are queued at a time.
AT_ONCE = 100
_DAY = 86400


class PersonalExportService:
    """Requests, makes and serves data exports.

    Both requesting and downloading a file need the password (W11), unless this session entered it within the
    last minutes. An open or stolen session must not be enough.
    """

    def __init__(
        self,
        *,
        exports: PersonalExportGateway,
        accounts: AccountGateway,
        people: AdminAccountService,
        notifier: Notifier,
        jobs: JobPort,
        limiter: Limiter,
        free_space: FreeSpace,
        settings: Settings,
    ) -> None:
        self._exports, self._accounts, self._people = exports, accounts, people
        self._notifier, self._jobs, self._limiter = notifier, jobs, limiter
        self._free_space = free_space
        self._per_day = settings.exports_per_day

    def find_latest(self, actor: Actor) -> PersonalExport | None:
        """Return the actor's export, finished or not; None: there is none."""
        require_permission(actor, Permission.USER_EDIT_SELF)
        return self._exports.find_by_user(actor.user_id, clock.now())

    def is_proved(self, session: Session) -> bool:
        """Return whether the password was entered recently, so that no form has to request it."""
        return self._people.is_proved(session)

    def verify_password(self, actor: Actor, session: Session, password: str) -> None:
        """Check the password, and let the session request and download files for some minutes.

        Raises:
            InvalidError: this is not the actor's password; field ``proof``.
            RateLimitedError: too many wrong passwords.
        """
        require_permission(actor, Permission.USER_EDIT_SELF)
        if not password and not self.is_proved(session):
            raise InvalidError("Confirm your password. The file contains all your data.", field="proof")
        self._people.verify_password(actor, session, password)

    def request_export(self, actor: Actor, session: Session, password: str = "") -> None:
        """Let a job make a file of all the actor's data, which replaces the previous file.

        Raises:
            InvalidError: the password is required and wrong.
            RateLimitedError: too many wrong passwords, or too many files within a day.
            NoSpaceError: a disk is almost full.
            StoreError: MongoDB does not answer. Without Redis the file is still made.
        """
        self.verify_password(actor, session, password)
        found = self.find_latest(actor)
        if found is None or found.state is not ExportState.MAKING:
            self._free_space.require_space()
            throttle(self._limiter, f"export:{actor.user_id}", limit=self._per_day, window=_DAY)
            if self._exports.request_export(actor.user_id, clock.now()):
                log.info("export_asked", user_id=actor.user_id)
        try:
            self._jobs.enqueue(make_export_job(actor.user_id))
        except EventrError as e:
            # The request is stored, so the updater queues the job later.
            log.warning("export_not_queued", user_id=actor.user_id, error=e.word)

    def get(self, actor: Actor, export_id: str) -> PersonalExport:
        """Return an export of the actor that can be downloaded.

        Raises:
            NotFoundError: the actor has no such file, it isn't ready, or it has expired.
        """
        found = self.find_latest(actor)
        if found is None or found.id != export_id or found.state is not ExportState.READY:
            raise NotFoundError
        return found

    def open_download(
        self, actor: Actor, session: Session, export_id: str
    ) -> tuple[PersonalExport, Iterator[bytes]]:
        """Return an export and its bytes, in parts of some megabytes.

        Raises:
            NotFoundError: as :meth:`get`.
            InvalidError: the password is required first; field ``proof``.
        """
        found = self.get(actor, export_id)
        self.verify_password(actor, session, "")
        log.info("export_downloaded", user_id=actor.user_id, size=found.size, network=session.address)
        return found, self._exports.iter_parts(found)

    # -- for workers and the updater
    def find_due_jobs(self, now: dt.datetime) -> list[Job]:
        """Return the jobs of exports that wait without a live run; each job's identity is unique."""
        return [make_export_job(user_id) for user_id in self._exports.find_stalled(now, AT_ONCE)]

    def run(self, user_id: int) -> dict[str, str]:
        """Make the file that a user waits for.

        Safe to run twice, even concurrently, and to be killed anywhere: the next run starts over.

        Raises:
            StoreError: the store did not answer; the next run starts over.
        """
        begun = self._exports.begin(user_id, clock.now())
        if begun is None:
            return {"state": "left"}
        user = self._accounts.find_user(user_id)
        try:
            if user is None:
                raise ExportLostError
            made = self._exports.make(begun, user)
        except ExportLostError:
            self._exports.drop_parts(begun)
            return {"state": "left"}
        except TooLargeError:
            self._exports.fail(begun, clock.now(), too_large=True)
            log.warning("export_too_large", user_id=user_id)
            return {"state": "too_large"}
        self._notifier.notify_export_finished(user_id)
        log.info("export_made", user_id=user_id, size=made.size, parts=made.parts)
        return {"state": "ready"}


def make_export_job(user_id: int) -> Job:
    """Return the job that makes a user's file."""
    return Job(Task.EXPORT, {"user_id": user_id}, Queue.MAINTENANCE)
