"""Small numbers of feeds and folders for apps that read 32-bit integers, assigned on first use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app.errors import ConflictError
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.sync.short_ids import ShortIdMapper
from app.models.sync.short_ids import SHORT_MAX, ShortIdKind

#: Attempts to assign numbers while other requests of the same user do so, too.
ATTEMPTS = 20


class ShortIdGateway:
    """Assigns and resolves numbers. They are per user, so they don't show how many feeds a server has."""

    def __init__(self, short_ids: ShortIdMapper, feeds: FeedMapper) -> None:
        self._ids, self._feeds = short_ids, feeds

    def get_numbers(self, user_id: int, kind: ShortIdKind, things: Iterable[int]) -> dict[int, int]:
        """Return id → number, and assign numbers to those without one.

        Raises:
            ConflictError: other requests assigned numbers at every attempt.
        """
        wanted = list(dict.fromkeys(things))
        for _ in range(ATTEMPTS):
            known = self._ids.find_numbers(user_id, kind)
            missing = sorted(thing for thing in wanted if thing not in known)
            if not missing:
                return {thing: known[thing] for thing in wanted}
            start = max(known.values(), default=0) + 1
            self._ids.add_numbers(user_id, kind, dict(zip(missing, range(start, SHORT_MAX), strict=False)))
        raise ConflictError(user_id=user_id)

    def resolve_numbers(self, user_id: int, kind: ShortIdKind, numbers: Sequence[int]) -> list[int]:
        """Return the ids of numbers; leave out unknown ones.

        An app that synced before there were numbers still sends the ids themselves.
        """
        known = self._ids.find_things(user_id, kind, [n for n in numbers if n <= SHORT_MAX])
        found = (known.get(n) if n <= SHORT_MAX else n for n in numbers)
        return [thing for thing in found if thing is not None]

    def find_check_times(self, feed_ids: Sequence[int]) -> dict[int, int]:
        """Return feed → when it was last checked successfully, in seconds; 0: never."""
        found = self._feeds.find_check_times(feed_ids)
        return {feed_id: int(found[feed_id].timestamp()) if feed_id in found else 0 for feed_id in feed_ids}
