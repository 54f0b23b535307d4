"""All that is somebody's own, as a file: he asks for it, a job makes it, he downloads it (G01)."""

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
from app.services.notifications.notifier import Notifier

log = logs.get(__name__)

#: A run that takes longer is ended, and the next one begins again; seconds.
LONGEST = personal.LONGEST
#: Files whose jobs are queued at once.
AT_ONCE = 100
_DAY = 86400


class PersonalExportService:
    """Asks for, makes and serves files.

    The password is asked for (W11) both to have a file made and to download it, unless this session entered
    it within the last minutes: a session left open, or a stolen one, must get none.
    """

    def __init__(
        self,
        exports: PersonalExportGateway,
        accounts: AccountGateway,
        people: AdminAccountService,
        notifier: Notifier,
        jobs: JobPort,
        limiter: Limiter,
        settings: Settings,
    ) -> None:
        self._exports, self._accounts, self._people = exports, accounts, people
        self._notifier, self._jobs, self._limiter = notifier, jobs, limiter
        self._per_day = settings.exports_per_day

    def find_latest(self, actor: Actor) -> PersonalExport | None:
        """Return the actor's file, being made or made; None: he has none."""
        require_permission(actor, Permission.USER_EDIT_SELF)
        return self._exports.find_by_user(actor.user_id, clock.now())

    def is_proved(self, session: Session) -> bool:
        """Whether the password is not asked for at the moment."""
        return self._people.is_proved(session)

    def verify_password(self, actor: Actor, session: Session, password: str) -> None:
        """Let a session have and download a file, for some minutes.

        Raises:
            InvalidError: this is not the actor's password; field ``proof``.
            RateLimitedError: too many wrong ones.
        """
        require_permission(actor, Permission.USER_EDIT_SELF)
        if not password and not self.is_proved(session):
            raise InvalidError("Confirm your password. The file contains all your data.", field="proof")
        self._people.verify_password(actor, session, password)

    def request_export(self, actor: Actor, session: Session, password: str = "") -> None:
        """Let a job make a file of all that is the actor's, in the place of the one he has.

        Raises:
            InvalidError: his password is wanted and wrong.
            RateLimitedError: too many wrong ones, or too many files within a day.
            StoreError: MongoDB does not answer. Without Redis it is made all the same.
        """
        self.verify_password(actor, session, password)
        found = self.find_latest(actor)
        if found is None or found.state is not ExportState.MAKING:
            throttle(self._limiter, f"export:{actor.user_id}", limit=self._per_day, window=_DAY)
            if self._exports.request_export(actor.user_id, clock.now()):
                log.info("export_asked", user_id=actor.user_id)
        try:
            self._jobs.enqueue(make_export_job(actor.user_id))
        except EventrError as e:
            # It is stored: the updater queues it as soon as it can.
            log.warning("export_not_queued", user_id=actor.user_id, error=e.word)

    def get(self, actor: Actor, export_id: str) -> PersonalExport:
        """Return a file of the actor's that can be downloaded.

        Raises:
            NotFoundError: he has no such file, it is not made yet, or its time is over.
        """
        found = self.find_latest(actor)
        if found is None or found.id != export_id or found.state is not ExportState.READY:
            raise NotFoundError
        return found

    def open_download(
        self, actor: Actor, session: Session, export_id: str
    ) -> tuple[PersonalExport, Iterator[bytes]]:
        """Return a file and its bytes, in parts of some megabytes.

        Raises:
            NotFoundError: as :meth:`get`.
            InvalidError: the password is wanted first; field ``proof``.
        """
        found = self.get(actor, export_id)
        self.verify_password(actor, session, "")
        log.info("export_downloaded", user_id=actor.user_id, size=found.size, network=session.address)
        return found, self._exports.iter_parts(found)

    # -- for workers and the updater
    def find_due_jobs(self, now: dt.datetime) -> list[Job]:
        """Return the jobs of files that wait and that nobody works on; however often asked, each is one."""
        return [make_export_job(user_id) for user_id in self._exports.find_stalled(now, AT_ONCE)]

    def run(self, user_id: int) -> dict[str, str]:
        """Make the file that a user waits for.

        Safe to run twice, at once too, and to be killed anywhere: the next run begins again.

        Raises:
            StoreError: the store did not answer; the next run begins again.
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
