"""The services for a command, with the settings of this server and its embedded databases, if any."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from app import embedded, logs
from app.bootstrap.services import Services, build
from app.config import Settings


@contextlib.contextmanager
def open_services() -> Iterator[Services]:
    """Yield all services; they are closed in the end.

    Raises:
        SettingsError: a setting is invalid.
    """
    given = Settings.from_env()
    logs.configure(given.log_level, given.log_format)
    with embedded.use_servers(given) as settings, contextlib.closing(build(settings)) as services:
        yield services
