"""Information about the server, for administrators: settings, versions and health checks."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable
from importlib import metadata
from typing import Any, Protocol

from app.config import Settings
from app.errors import StoreError
from app.models.accounts.actor import Actor, Permission
from app.models.operations import settings_view
from app.models.operations.check_result import CheckResult
from app.models.operations.write_conflicts import WriteConflicts
from app.services.access import require_permission

#: Libraries whose versions are shown, besides Eventr's and Python's.
_LIBRARIES = ("flask", "gunicorn", "pymongo", "redis", "rq", "lxml", "nh3", "pycurl")


class ConflictCounter(Protocol):
    """Reads MongoDB's write conflicts."""

    def count(self) -> WriteConflicts | None:
        """Return the conflicts; None: unknown.

        Raises:
            StoreError: MongoDB isn't responding.
        """
        ...


class ServerInfoService:
    """Shows settings, versions and check results, without secrets.

    Args:
        examine: runs the health checks of this machine.
        conflicts: reads MongoDB's write conflicts.

    All methods with an actor raise: ForbiddenError: the actor isn't an admin.
    """

    def __init__(
        self,
        settings: Settings,
        examine: Callable[[Settings], Iterable[CheckResult]],
        conflicts: ConflictCounter,
    ) -> None:
        self._settings, self._examine, self._conflicts = settings, examine, conflicts

    def list_settings(
        self, actor: Actor, words: str = "", *, only_changed: bool = False
    ) -> list[dict[str, Any]]:
        """Return one row per setting: ``env``, ``value``, ``default``, ``help``; no secrets.

        Args:
            words: all of them are in a setting's name, value or help.
            only_changed: leave out settings that have their default.
        """
        require_permission(actor, Permission.ADMIN_SEE)
        rows = settings_view.list_settings(self._settings)
        return settings_view.filter_settings(rows, words, only_changed=only_changed)

    def list_versions(self, actor: Actor) -> list[tuple[str, str]]:
        """Return the names and versions of Eventr, Python and the main libraries."""
        require_permission(actor, Permission.ADMIN_SEE)
        found = [("Eventr", metadata.version("eventr")), ("Python", platform.python_version())]
        return found + [(name, metadata.version(name)) for name in _LIBRARIES]

    def run_checks(self, actor: Actor) -> list[CheckResult]:
        """Run the health checks; each store that does not answer takes three seconds."""
        require_permission(actor, Permission.ADMIN_SEE)
        return list(self._examine(self._settings))

    def find_write_conflicts(self, actor: Actor) -> WriteConflicts | None:
        """Return MongoDB's write conflicts; None: unknown."""
        require_permission(actor, Permission.ADMIN_SEE)
        return self.load_write_conflicts()

    def load_write_conflicts(self) -> WriteConflicts | None:
        """Return MongoDB's write conflicts for monitoring; None: unknown."""
        try:
            return self._conflicts.count()
        except StoreError:
            return None
