"""Small numbers of feeds and folders, for the Fever API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app.gateways.sync.short_ids import ShortIdGateway
from app.models.accounts.actor import Actor, Permission
from app.models.sync.short_ids import ShortIdKind
from app.services.access import require_permission


class ShortIdService:
    """Translates between ids and the numbers that apps with 32-bit integers get."""

    def __init__(self, short_ids: ShortIdGateway) -> None:
        self._ids = short_ids

    def get_feed_numbers(self, actor: Actor, feed_ids: Iterable[int]) -> dict[int, int]:
        """Return feed → number; new feeds get one."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self._ids.get_numbers(actor.user_id, ShortIdKind.FEED, feed_ids)

    def get_folder_numbers(self, actor: Actor, folder_ids: Iterable[int]) -> dict[int, int]:
        """Return folder → number; new folders get one."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self._ids.get_numbers(actor.user_id, ShortIdKind.FOLDER, folder_ids)

    def resolve_feeds(self, actor: Actor, numbers: Sequence[int]) -> list[int]:
        """Return the feeds of numbers; leave out unknown ones."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self._ids.resolve_numbers(actor.user_id, ShortIdKind.FEED, numbers)

    def resolve_folders(self, actor: Actor, numbers: Sequence[int]) -> list[int]:
        """Return the folders of numbers; leave out unknown ones."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self._ids.resolve_numbers(actor.user_id, ShortIdKind.FOLDER, numbers)

    def find_check_times(self, actor: Actor, feed_ids: Sequence[int]) -> dict[int, int]:
        """Return feed → when it was last checked successfully, in seconds since the epoch; 0: never."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self._ids.find_check_times(feed_ids)
