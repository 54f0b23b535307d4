"""A user's tags and saved searches."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence

from app import clock, logs
from app.errors import InvalidError, NotFoundError
from app.gateways.reading.changes import ChangeGateway
from app.gateways.reading.entries import EntryGateway
from app.gateways.reading.rules import RuleGateway
from app.gateways.reading.tags import TagGateway
from app.models.accounts.actor import Actor, Permission
from app.models.reading.entry import EntryKey
from app.models.reading.rules import parse_alert
from app.models.reading.search import QUERY_MAX, normalise_query, parse_query
from app.models.reading.tag import SavedSearch, Tag, make_tag_key, normalise_tag
from app.ports import EventPort
from app.services.access import require_permission
from app.services.reading.reading import MARKS_MAX
from app.services.validation import check_id, check_ids, check_text

log = logs.get(__name__)

NAME_MAX = 128
TOKEN_MAX = 64


class TagService:
    """Tags entries; renames, merges, deletes and restores tags; saves searches.

    Args:
        max_length: longest name of a tag, in characters.
    """

    def __init__(
        self,
        tags: TagGateway,
        rules: RuleGateway,
        entries: EntryGateway,
        changes: ChangeGateway,
        events: EventPort,
        *,
        max_length: int,
    ) -> None:
        self._tags = tags
        self._rules = rules
        self._entries = entries
        self._changes = changes
        self._events = events
        self._length = max_length

    def list_tags(self, actor: Actor) -> list[Tag]:
        """Return the actor's tags sorted by name, with the number of their entries."""
        require_permission(actor, Permission.ENTRY_READ)
        return self._tags.find_by_user(actor.user_id)

    def get_tags(self, actor: Actor, entry_id: int) -> tuple[Tag, ...]:
        """Return the tags of an entry that the actor marked or may see.

        Raises:
            NotFoundError: there is no such entry, or the actor may not see it.
        """
        require_permission(actor, Permission.TAG_EDIT)
        entry = self._entries.get_kept_key(actor.user_id, check_id(entry_id, "entry_id"))
        marks = self._tags.find_marks(actor.user_id, [entry.id])
        return self._tags.find_by_marks(actor.user_id, marks).get(entry.id, ())

    def change_tags(
        self, actor: Actor, entry_id: int, *, add: Sequence[str] = (), remove: Sequence[int] = ()
    ) -> tuple[Tag, ...]:
        """Add tags to an entry by name and remove others by id; return the entry's tags after that.

        Raises:
            NotFoundError: there is no such entry, or the actor may not see it.
            InvalidError: a name is empty or too long.
            TooLargeError: more tags than the entry or the user may have.
        """
        require_permission(actor, Permission.TAG_EDIT)
        gone = check_ids(remove, "remove", 1000)
        entry, found = self._change(actor, check_id(entry_id, "entry_id"), add, gone)
        self._publish(actor, {entry_id, entry.id})
        log.info("tagged", user_id=actor.user_id, entry_id=entry.id, count=len(found))
        return found

    def _change(
        self, actor: Actor, entry_id: int, add: Sequence[str], remove: Sequence[int]
    ) -> tuple[EntryKey, tuple[Tag, ...]]:
        find = self._entries.get_key if add else self._entries.get_kept_key
        entry = find(actor.user_id, entry_id)
        names = tuple({make_tag_key(name): self._name(name) for name in add}.values())
        return entry, self._tags.change_tags(actor.user_id, entry, names, remove, clock.now())

    def _publish(self, actor: Actor, entry_ids: Collection[int]) -> None:
        if actor.synced:  # after the change, as in ReadingService.set_starred
            self._changes.record_changes(actor.user_id, {}, entry_ids)
        self._events.notify_counts(actor.user_id)

    def change_many_tags(
        self, actor: Actor, entry_ids: Sequence[int], *, add: str | None = None, remove: int | None = None
    ) -> None:
        """Add a tag by name to many entries, or remove one by id; skip entries that the actor may not see.

        Raises:
            InvalidError: the name is empty or too long, or there are more than :data:`MARKS_MAX` entries.
            TooLargeError: more tags than an entry or the user may have.
        """
        require_permission(actor, Permission.TAG_EDIT)
        wanted = check_ids(entry_ids, "entry_ids", MARKS_MAX)
        keys = self._entries.find_markable_keys(actor.user_id, wanted)
        entries, changed = list(keys.values()), set(wanted)
        try:
            if entries and add is not None:
                self._tags.tag_many(actor.user_id, entries, self._name(add), clock.now())
            elif entries and remove is not None:
                self._tags.untag_many(actor.user_id, entries, remove)
        except NotFoundError:
            keys = {}  # an entry was deleted meanwhile
        names, gone = ([add] if add is not None else []), ([remove] if remove is not None else [])
        for entry_id in wanted:
            if entry_id not in keys:
                with contextlib.suppress(NotFoundError):
                    changed.add(self._change(actor, entry_id, names, gone)[0].id)
        self._publish(actor, changed)
        log.info("tagged_many", user_id=actor.user_id, count=len(wanted))

    def check_name(self, actor: Actor, name: str) -> str:
        """Return the normalized name of a tag.

        Raises:
            InvalidError: the name is empty or too long.
        """
        require_permission(actor, Permission.TAG_EDIT)
        return self._name(name)

    def _name(self, name: object) -> str:
        found = normalise_tag(name) if isinstance(name, str) else ""
        if not make_tag_key(found):
            raise InvalidError("Enter a name for the tag.", field="name")
        if len(found) > self._length:
            raise InvalidError("A tag can have at most %(most)s characters.", field="name", most=self._length)
        return found

    def rename(self, actor: Actor, tag_id: int, name: str) -> Tag:
        """Rename a tag.

        Raises:
            NotFoundError: the actor has no such tag.
            ExistsError: another tag has this name.
        """
        require_permission(actor, Permission.TAG_EDIT)
        tag = self._tags.rename(actor.user_id, check_id(tag_id, "tag_id"), self._name(name))
        self._note(actor, tag_id)
        return tag

    def _note(self, actor: Actor, tag_id: int) -> None:
        """Record for apps that sync that the tag's entries have changed, after the change."""
        if actor.synced:
            found = self._tags.find_last_tagged(actor.user_id, tag_id, self._changes.limit)
            self._changes.record_changes(actor.user_id, {}, found)

    def merge(self, actor: Actor, tag_id: int, into: int) -> tuple[Tag, Tag]:
        """Merge a tag into another one and delete it; :meth:`restore` can undo that for a day.

        Raises:
            NotFoundError: the actor has no such tags.
            InvalidError: both tags are the same.
        """
        require_permission(actor, Permission.TAG_EDIT)
        user_id = actor.user_id
        done = self._tags.merge(user_id, check_id(tag_id, "tag_id"), check_id(into, "into"), clock.now())
        self._note(actor, tag_id)
        log.info("tag_merged", user_id=user_id, tag_id=tag_id, into=into)
        return done

    def delete(self, actor: Actor, tag_id: int) -> Tag:
        """Delete a tag from all entries; :meth:`restore` can undo that for a day.

        Raises:
            NotFoundError: the actor has no such tag.
        """
        require_permission(actor, Permission.TAG_EDIT)
        tag = self._tags.delete(actor.user_id, check_id(tag_id, "tag_id"), clock.now())
        self._note(actor, tag_id)
        log.info("tag_deleted", user_id=actor.user_id, tag_id=tag_id)
        return tag

    def restore(self, actor: Actor, tag_id: int) -> None:
        """Undo a :meth:`delete` or :meth:`merge`.

        Raises:
            NotFoundError: the undo has expired, or was used already.
            TooLargeError: the actor has the maximum number of tags.
        """
        require_permission(actor, Permission.TAG_EDIT)
        self._tags.restore(actor.user_id, check_id(tag_id, "tag_id"), clock.now())
        self._note(actor, tag_id)

    # -- saved searches
    def list_searches(self, actor: Actor) -> list[SavedSearch]:
        """Return the actor's saved searches, sorted by name."""
        require_permission(actor, Permission.ENTRY_READ)
        return self._tags.list_searches(actor.user_id)

    def save_search(self, actor: Actor, name: str, query: str) -> SavedSearch:
        """Save a search and return it; an empty name becomes the query itself.

        Raises:
            InvalidError: the query is empty.
            TooLargeError: the actor has the maximum number of saved searches.
        """
        require_permission(actor, Permission.TAG_EDIT)
        query = normalise_query(check_text(query, "query", limit=4 * QUERY_MAX, empty=True))
        if parse_query(query).is_empty:
            raise InvalidError("Enter something to search for.", field="query")
        name = check_text(name, "name", limit=NAME_MAX, empty=True) or query[:NAME_MAX]
        kept = self._tags.save_search(actor.user_id, name, query)
        if kept.notify and parse_alert(query) is None:
            return self._rules.set_search_notify(actor.user_id, kept.id, False) or kept
        return kept

    def set_search_notify(self, actor: Actor, search_id: int, notify: bool) -> SavedSearch:
        """Switch the notifications of a saved search: of entries that arrive from now on.

        Raises:
            InvalidError: the search finds only entries that are read or starred; new ones are neither.
            NotFoundError: the actor has no such search.
        """
        require_permission(actor, Permission.TAG_EDIT)
        check_id(search_id, "search_id")
        mine = self._tags.list_searches(actor.user_id)
        search = next((one for one in mine if one.id == search_id), None)
        if search is not None and notify and parse_alert(search.query) is None:
            raise InvalidError(
                "New entries are neither read nor starred, so this search can't notify you. "
                "Save it without “is:read” and “is:starred”.",
                field="notify",
            )
        found = search and self._rules.set_search_notify(actor.user_id, search_id, notify)
        if found is None:
            raise NotFoundError("You don't have this saved search.", search_id=search_id)
        log.info("search_notify_set", user_id=actor.user_id, search_id=search_id, notify=notify)
        return found

    def delete_search(self, actor: Actor, search_id: int) -> str | None:
        """Delete a saved search; twice is the same as once.

        Returns:
            A token for :meth:`restore_search`, valid for a day; None: the search was already gone.
        """
        require_permission(actor, Permission.TAG_EDIT)
        token = self._tags.delete_search(actor.user_id, check_id(search_id, "search_id"), clock.now())
        if token:
            self._rules.watch_user(actor.user_id)
            log.info("search_forgotten", user_id=actor.user_id, search_id=search_id)
        return token

    def restore_search(self, actor: Actor, token: str) -> SavedSearch:
        """Restore a deleted search; if its name is taken now, a number is added.

        Raises:
            NotFoundError: the token has expired, was used, or isn't the actor's.
            TooLargeError: the actor has the maximum number of saved searches.
        """
        require_permission(actor, Permission.TAG_EDIT)
        back = self._tags.restore_search(
            actor.user_id, check_text(token, "token", limit=TOKEN_MAX), clock.now()
        )
        if back.notify:
            self._rules.watch_user(actor.user_id)
        return back
