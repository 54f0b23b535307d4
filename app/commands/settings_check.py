"""Settings checks: detect values that a part would refuse only after the start."""

from __future__ import annotations

from app import config, logs
from app.config import Settings
from app.feeds.fetch.address_policy import Policy
from app.models.feeds.fetched import Purpose
from app.web.security import keyfile
from queue_manager import groups

_log = logs.get(__name__)


def require_usable(settings: Settings) -> None:
    """Let the parts that interpret settings check them, before any process starts that would fail.

    Raises:
        SettingsError: a setting can't be used; the message names it and the valid values.
    """
    for purpose in Purpose:
        Policy(settings, purpose)
    groups.load(settings)
    if settings.secret_key:
        keyfile.get_secret_key(settings)


def warn_unknown_settings() -> None:
    """Log variables that look like settings but aren't, most often typing errors."""
    for text in config.find_unknown_settings():
        _log.warning("setting_unknown", why=text)
