"""Counts of what users read, star and share, for those who have switched that on."""

from __future__ import annotations

import datetime as dt

from app import logs
from app.errors import StoreError
from app.mappers.accounts.users import UserMapper
from app.mappers.reading.statistics import StatisticsMapper
from app.models.reading.statistics import Counted, DayCounts, fill_days, find_day
from app.runtime import identity_map

log = logs.get(__name__)

#: Days without entries are shown at most for this long: days of other time zones may be a day ahead.
_SPARE = 2


class StatisticsGateway:
    """Counts by day, in the user's time zone.

    Args:
        days: after which a day is forgotten.
    """

    def __init__(self, statistics: StatisticsMapper, users: UserMapper, *, days: int) -> None:
        self._statistics, self._users = statistics, users
        self._days = days

    @property
    def days(self) -> int:
        """How many days are kept."""
        return self._days

    def count(self, user_id: int, what: Counted, count: int, now: dt.datetime) -> None:
        """Count what a user has done, if they want that; a store that doesn't answer loses the count."""
        user = self._users.find(user_id) if count > 0 else None
        if user is None or not user.preferences.statistics:
            return
        day = find_day(now, user.preferences.time_zone)
        expires = now + dt.timedelta(days=self._days + _SPARE)
        try:
            self._statistics.add(user_id, day, what, count, expires)
            with identity_map.bypass():  # it may have been switched off meanwhile, or the account be leaving
                user = self._users.find(user_id)
            if user is None or not user.preferences.statistics:
                self._statistics.remove_all(user_id)
        except StoreError as e:  # the mark itself matters more
            log.info("statistics_lost", user_id=user_id, error=type(e).__name__)

    def find_days(self, user_id: int, today: dt.date, days: int) -> list[DayCounts]:
        """Return each of the last days, also those without counts, the oldest first."""
        first = fill_days((), today, days)[0].day
        return fill_days(self._statistics.find_since(user_id, first), today, days)

    def list_all(self, user_id: int) -> list[DayCounts]:
        """Return all days with counts, the oldest first."""
        return self._statistics.find_since(user_id, dt.date(2000, 1, 1))

    def remove_all(self, user_id: int) -> None:
        """Delete everything that was counted."""
        self._statistics.remove_all(user_id)
        log.info("statistics_removed", user_id=user_id)
