"""Notifications to phones, chats and e-mail by Apprise. Its addresses are secrets: they are never logged.

Apprise needs 36 MB, so it is loaded only when a message is sent, in a process that ends soon.
"""

from __future__ import annotations

import logging
from typing import Final

from app import logs
from app.config import Settings

_log = logs.get(__name__)

#: Libraries that log addresses with their tokens, at one level or another.
_TALKERS: Final = ("apprise", "urllib3", "requests", "oauthlib", "requests_oauthlib")


class AppriseNotifier:
    """Sends to the addresses of ``report_urls``; implements
    ``app.services.operations.hourly_report.Notifier``.
    """

    def __init__(self, settings: Settings) -> None:
        self._urls = settings.report_urls

    def send(self, title: str, body: str) -> tuple[int, int]:
        """Send to all addresses, one after the other; return how many accepted it, and how many didn't.

        An address that can't be parsed counts as one that didn't accept. The log names a failed address only
        by its position in the list and its kind.
        """
        import apprise

        for name in _TALKERS:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        taken = refused = 0
        for place, url in enumerate(self._urls.split(), start=1):
            target = apprise.Apprise()
            known = target.add(url)
            if known and target.notify(title=title, body=body):
                taken += 1
                continue
            refused += 1
            kind = str(target[0].service_name) if known else "unknown"
            _log.warning("report_undelivered", place=place, kind=kind)
        return taken, refused
