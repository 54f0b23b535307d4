"""Hiding one entry by hand, with all copies of its story."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from app import clock, logs
from app.errors import NotFoundError
from app.gateways.accounts.accounts import AccountGateway
from app.gateways.reading.changes import ChangeGateway
from app.gateways.reading.entries import EntryGateway
from app.gateways.reading.hiding import HidingGateway
from app.models.accounts.actor import Actor, Permission
from app.models.reading.entry import EntryKey
from app.ports import EventPort
from app.services.access import require_permission
from app.services.reading.stories import StoryService
from app.services.validation import check_id, check_text

log = logs.get(__name__)

TOKEN_MAX = 64


class HidingService:
    """Hides entries from the actor's lists. Searches, stars and tags still find them.

    Args:
        undo_ttl: seconds for which hiding can be undone.
    """

    def __init__(
        self,
        hiding: HidingGateway,
        entries: EntryGateway,
        stories: StoryService,
        accounts: AccountGateway,
        changes: ChangeGateway,
        *,
        events: EventPort,
        undo_ttl: float,
    ) -> None:
        self._hiding, self._entries, self._stories = hiding, entries, stories
        self._accounts, self._changes, self._events = accounts, changes, events
        self._undo_ttl = dt.timedelta(seconds=undo_ttl)

    def hide_entry(self, actor: Actor, entry_id: int) -> str:
        """Hide an entry and all copies of its story, also later ones; return a token that undoes this.

        Hidden entries count as read. The token is empty if all of this was so before.

        Raises:
            NotFoundError: the entry isn't in the actor's feeds.
        """
        require_permission(actor, Permission.ENTRY_MARK)
        keys = self._find_all(actor, entry_id)
        story_id = self._stories.find_lasting_id(actor, entry_id)
        rows = self._entries.find_rows(actor.user_id, keys[:1])
        title = rows[entry_id].title if entry_id in rows else ""
        is_new = story_id != 0 and story_id not in self._stories.find_hidden(actor.user_id)
        done = self._hiding.hide_entries(
            actor.user_id, keys, story_id, title, is_new=is_new, now=clock.now(), ttl=self._undo_ttl
        )
        if story_id:
            self._accounts.store_story_hidden(actor.user_id, story_id, is_hidden=True)
        if actor.synced:
            self._changes.record_changes(actor.user_id, done.unread)
        self._events.notify_counts(actor.user_id)
        log.info("entry_hidden", user_id=actor.user_id, entry_id=entry_id, entries=len(keys))
        return done.token

    def show_entry(self, actor: Actor, entry_id: int) -> None:
        """Show a hidden entry and all copies of its story in lists again; they stay read.

        An earlier hiding of them can't be undone anymore, as that would mark them as unread.

        Raises:
            NotFoundError: the entry isn't in the actor's feeds.
        """
        require_permission(actor, Permission.ENTRY_MARK)
        keys = self._find_all(actor, entry_id)
        # First, so that no list hides them again.
        if story_id := self._stories.find_lasting_id(actor, entry_id):
            self._accounts.store_story_hidden(actor.user_id, story_id, is_hidden=False)
        self._hiding.show_entries(actor.user_id, keys, story_id)
        self._events.notify_counts(actor.user_id)
        log.info("entry_shown", user_id=actor.user_id, entry_id=entry_id)

    def restore(self, actor: Actor, token: str) -> None:
        """Undo :meth:`hide_entry`: show the entries, and mark as unread those that were.

        Those that a later mass mark covers stay read until that mark is undone.
        The token stays until all is done, so an interrupted undo can be repeated.

        Raises:
            NotFoundError: the token has expired, was used, or isn't the actor's.
        """
        require_permission(actor, Permission.ENTRY_MARK)
        token = check_text(token, "token", limit=TOKEN_MAX)
        found = self._hiding.undos.find_hidden(actor.user_id, token, clock.now())
        if found is None:
            raise NotFoundError("This can no longer be undone.", undo=token)
        # First, so that no list hides the entries again.
        if found.story_id:
            self._accounts.store_story_hidden(actor.user_id, found.story_id, is_hidden=False)
        self._hiding.restore(actor.user_id, found, clock.now())
        if actor.synced:
            self._changes.record_changes(actor.user_id, found.unread)
        self._hiding.undos.remove(actor.user_id, token)
        self._events.notify_counts(actor.user_id)
        log.info("hiding_undone", user_id=actor.user_id)

    def _find_all(self, actor: Actor, entry_id: int) -> Sequence[EntryKey]:
        """Return the keys of an entry in the actor's feeds, its copies, and their shares."""
        keys = self._entries.find_keys(actor.user_id, [check_id(entry_id, "entry_id")])
        if not keys:
            raise NotFoundError(entry_id=entry_id)
        return [*keys, *self._stories.find_copies(actor, keys)]
