"""Recordings that a user plays: positions on all devices, and the sites that may send them."""

from __future__ import annotations

from app import clock
from app.errors import InvalidError
from app.gateways.accounts.accounts import AccountGateway
from app.gateways.reading.playback import PlaybackGateway
from app.models.accounts.actor import Actor, Permission
from app.models.accounts.preferences import check
from app.models.reading.playback import PlayPosition
from app.services.access import require_permission

#: The longest recording, in seconds: a live stream may run for days.
LONGEST = 30 * 86400


class PlaybackService:
    """Remembers where a user stopped listening."""

    def __init__(self, positions: PlaybackGateway, accounts: AccountGateway) -> None:
        self._positions, self._accounts = positions, accounts

    def find_start(self, actor: Actor, url: str) -> int:
        """Return the second from which the actor continues a recording."""
        require_permission(actor, Permission.ENTRY_READ)
        return self._positions.find_start(actor.user_id, url)

    def list_positions(self, actor: Actor) -> list[PlayPosition]:
        """Return the actor's positions, the latest first."""
        require_permission(actor, Permission.ENTRY_READ)
        return self._positions.list_positions(actor.user_id)

    def record(self, actor: Actor, entry_id: int, url: str, *, seconds: int, duration: int) -> PlayPosition:
        """Store the actor's position in a recording of an entry.

        Nothing is read for it: a player calls this every few seconds, and the position is the actor's own.

        Raises:
            InvalidError: the address isn't one of the web, or a number is out of range.
        """
        require_permission(actor, Permission.ENTRY_MARK)
        if not url.startswith(("https://", "http://")):
            raise InvalidError("This isn't the address of a recording.", field="url")
        for name, value in (("seconds", seconds), ("duration", duration)):
            if not 0 <= value <= LONGEST:
                raise InvalidError("This isn't a position in a recording.", field=name)
        position = PlayPosition(
            entry_id=entry_id, url=url, seconds=seconds, duration=duration, at=clock.now()
        )
        self._positions.record(actor.user_id, position)
        return position

    def allow_site(self, actor: Actor, site: str) -> None:
        """Let recordings of a site play without a question; beyond the limit, forget the oldest site.

        Raises:
            InvalidError: this isn't the name of a host.
        """
        require_permission(actor, Permission.PREFERENCE_EDIT)
        check("media_sites", [site])
        self._accounts.store_media_site(actor.user_id, site, is_allowed=True)

    def forget_site(self, actor: Actor, site: str) -> None:
        """Ask again before a recording of this site plays."""
        require_permission(actor, Permission.PREFERENCE_EDIT)
        self._accounts.store_media_site(actor.user_id, site, is_allowed=False)
