"""The hourly report: when it is due, its content, and sending it once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Protocol
from urllib.parse import urlsplit

from app import clock, logs
from app.config import Settings
from app.errors import InvalidError, UnsentError
from app.models.jobs.jobs import Job, Queue, Task
from app.models.operations import hourly_report
from app.models.operations.hourly_report import HourlyReport, ReportFigures
from app.models.operations.hourly_stats import HOUR_MS

_log = logs.get(__name__)

#: Events at the very end of an hour are counted some seconds later.
_COUNTED = dt.timedelta(seconds=30)


class Figures(Protocol):
    """The source of the figures; ``app.adapters.redis.stats.RedisFigures``. All methods raise StoreError."""

    def read_figures(self, hour: int) -> ReportFigures: ...
    def get_reported_hour(self) -> int: ...
    def set_reported_hour(self, hour: int) -> None: ...


class ReportSender(Protocol):
    """Sends reports; ``app.adapters.apprise.AppriseNotifier``."""

    def send(self, title: str, body: str) -> tuple[int, int]: ...


class ReportService:
    """Composes and sends the report; has no actor, because the settings name the recipients."""

    def __init__(self, figures: Figures, notifier: ReportSender, settings: Settings) -> None:
        self._figures, self._notifier, self._settings = figures, notifier, settings
        self._queued = 0

    def find_due_jobs(self, now: dt.datetime) -> list[Job]:
        """Return the job that reports the last full hour, if it must be queued now.

        Several processes may call this: the job's identity is its hour, and a sent report is recorded. The
        job stays due until :meth:`mark_queued` is called, so that an outage at that moment doesn't lose the
        report.
        """
        hour = _number(now - _COUNTED) - 1
        if not self._settings.report_urls or hour <= self._queued:
            return []
        if self._figures.get_reported_hour() >= hour:
            self._queued = hour
            return []
        return [Job(Task.REPORT, {"hour": hour}, Queue.MAINTENANCE)]

    def mark_queued(self, jobs: Sequence[Job]) -> None:
        """Record that the due jobs are queued; a job that finally fails is not queued again."""
        self._queued = max([self._queued, *(job.args["hour"] for job in jobs)])

    def compose_current(self) -> HourlyReport:
        """Return the report about the current hour so far."""
        return self._compose(_number(clock.now()))

    def send(self, hour: int) -> dict[str, int]:
        """Send the report about an hour unless it was sent; return the number of ``sent`` and ``refused``
        addresses.

        The report may be sent twice if a worker dies between sending and recording it.

        Raises:
            UnsentError: no address accepted the report.
        """
        if self._figures.get_reported_hour() >= hour:
            return {"sent": 0, "refused": 0}
        done = self._send(self._compose(hour))
        self._figures.set_reported_hour(hour)
        return done

    def send_now(self) -> dict[str, int]:
        """Send a report about the current hour; returns and raises like :meth:`send`.

        Raises:
            InvalidError: no address is configured.
        """
        if not self._settings.report_urls:
            raise InvalidError("There's nowhere to send the report. Set EVENTR_REPORT_URLS.")
        return self._send(self.compose_current())

    def _send(self, what: HourlyReport) -> dict[str, int]:
        sent, refused = self._notifier.send(what.title, what.body)
        if not sent:
            raise UnsentError
        _log.info("report_sent", sent=sent, refused=refused)
        return {"sent": sent, "refused": refused}

    def _compose(self, hour: int) -> HourlyReport:
        name = urlsplit(self._settings.own_origin).hostname or "here"
        return hourly_report.compose(self._figures.read_figures(hour), name)


def _number(moment: dt.datetime) -> int:
    return int(moment.timestamp() * 1000) // HOUR_MS
