"""A user's own reading statistics: off until they switch it on, and deleted when they switch it off."""

from __future__ import annotations

from app import clock, logs
from app.errors import InvalidError
from app.gateways.accounts.accounts import AccountGateway
from app.gateways.reading.statistics import StatisticsGateway
from app.models.accounts.actor import Actor, Permission
from app.models.reading.statistics import DayCounts, find_day
from app.services.access import require_permission

log = logs.get(__name__)


class StatisticsService:
    """Shows and switches reading statistics. Nobody else can see them, not even admins."""

    def __init__(self, statistics: StatisticsGateway, accounts: AccountGateway) -> None:
        self._statistics, self._accounts = statistics, accounts

    @property
    def days(self) -> int:
        """How many days are kept."""
        return self._statistics.days

    def list_days(self, actor: Actor, days: int) -> list[DayCounts] | None:
        """Return the actor's counts of each of the last days, the oldest first; None: it is switched off.

        Raises:
            InvalidError: more days than are kept.
        """
        require_permission(actor, Permission.ENTRY_READ)
        if not 1 <= days <= self._statistics.days:
            raise InvalidError("Ask for 1 to %(most)s days.", field="days", most=self._statistics.days)
        user = self._accounts.find_user(actor.user_id)
        if user is None or not user.preferences.statistics:
            return None
        today = find_day(clock.now(), user.preferences.time_zone)
        return self._statistics.find_days(actor.user_id, today, days)

    def set_enabled(self, actor: Actor, on: bool) -> None:
        """Begin to count, or stop and delete everything that was counted; twice is the same as once."""
        require_permission(actor, Permission.PREFERENCE_EDIT)
        user = self._accounts.find_user(actor.user_id)
        if on and user is not None and user.preferences.statistics:
            return
        self._accounts.set_preferences(actor.user_id, {"statistics": False})
        # Also before it begins: a mark that came during the last switch may have been counted.
        self._statistics.remove_all(actor.user_id)
        if on:
            self._accounts.set_preferences(actor.user_id, {"statistics": True})
        log.info("statistics_switched", user_id=actor.user_id, on=on)
