"""How a user's streams are displayed: view, density, sort and filter per stream."""

from __future__ import annotations

from collections.abc import Mapping

from app import clock, logs
from app.errors import InvalidError
from app.gateways.reading.stream_views import StreamViewGateway
from app.models.accounts.actor import Actor, Permission
from app.models.accounts.page_save import PageSave
from app.models.accounts.preferences import Preferences
from app.models.reading.stream import StreamRef
from app.models.reading.stream_view import FIELDS, StreamView, check_setting, complete_changes, merge_settings
from app.services.access import require_permission

log = logs.get(__name__)


class StreamViewService:
    """Reads and stores the display settings per stream; the user's preferences are the defaults."""

    def __init__(self, views: StreamViewGateway) -> None:
        self._views = views

    def get(
        self,
        actor: Actor,
        ref: StreamRef,
        preferences: Preferences,
        overrides: Mapping[str, str] | None = None,
    ) -> StreamView:
        """Return the display settings of a stream.

        Args:
            overrides: take precedence over stored settings, and are not stored; empty values are ignored.
        """
        require_permission(actor, Permission.ENTRY_READ)
        overrides = {name: value for name, value in (overrides or {}).items() if value}
        kept = {} if len(overrides) == len(FIELDS) else self._views.get(actor.user_id, ref)
        return StreamView.resolve(preferences, kept, overrides)

    def set(
        self,
        actor: Actor,
        ref: StreamRef,
        preferences: Preferences,
        changes: Mapping[str, str],
        save: PageSave | None = None,
    ) -> StreamView:
        """Store display settings of a stream, and return all of them.

        Args:
            save: which save of an open page it is; a late one changes nothing.

        Raises:
            InvalidError: a name or value is invalid; the error names the field.
        """
        require_permission(actor, Permission.PREFERENCE_EDIT)
        if unknown := set(changes) - set(FIELDS):
            raise InvalidError("This setting doesn't exist.", field=min(unknown))
        checked: dict[str, str] = {name: check_setting(name, value) for name, value in changes.items()}
        now = merge_settings(preferences, self._views.get(actor.user_id, ref))
        if checked:
            self._views.set(actor.user_id, ref, complete_changes(checked, now), clock.now(), save)
            log.info("view_changed", user_id=actor.user_id, stream=str(ref), fields=sorted(checked))
        return StreamView.resolve(preferences, self._views.get(actor.user_id, ref))
