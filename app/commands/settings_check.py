"""Settings as they were given, looked at by all who would refuse one of them after the start."""

from __future__ import annotations

from app import config, logs
from app.config import Settings
from app.feeds.fetch.address_policy import Policy
from app.web.security import keyfile
from queue_manager import groups

_log = logs.get(__name__)


def require_usable(settings: Settings) -> None:
    """Ask those who read more of a setting than its form, before anything runs that would die of it.

    Raises:
        SettingsError: one cannot be used; says which and what fits.
    """
    Policy(settings)
    groups.load(settings)
    if settings.secret_key:
        keyfile.get_secret_key(settings)


def warn_unknown_settings() -> None:
    """Log the variables that look like settings and are none, most often a slip of the pen."""
    for text in config.find_unknown_settings():
        _log.warning("setting_unknown", why=text)
