"""What a user does with his tags and saved searches."""

from __future__ import annotations

from collections.abc import Sequence

from app import clock, logs
from app.errors import InvalidError
from app.gateways.reading.changes import ChangeGateway
from app.gateways.reading.entries import EntryGateway
from app.gateways.reading.tags import TagGateway
from app.models.accounts.actor import Actor, Permission
from app.models.reading.search import QUERY_MAX, normalise_query, parse_query
from app.models.reading.tag import SavedSearch, Tag, make_tag_key, normalise_tag
from app.ports import EventPort
from app.services.access import require_permission
from app.services.validation import check_id, check_ids, check_text

log = logs.get(__name__)

NAME_MAX = 128
TOKEN_MAX = 64


class TagService:
    """Tags on entries; rename, merge, delete and take that back; searches that are kept.

    Args:
        length: characters of a tag's name.
    """

    def __init__(
        self,
        tags: TagGateway,
        entries: EntryGateway,
        changes: ChangeGateway,
        events: EventPort,
        *,
        max_length: int,
    ) -> None:
        self._tags = tags
        self._entries = entries
        self._changes = changes
        self._events = events
        self._length = max_length

    def list_tags(self, actor: Actor) -> list[Tag]:
        """Return the actor's tags by name, with the number of their entries."""
        require_permission(actor, Permission.ENTRY_READ)
        return self._tags.find_by_user(actor.user_id)

    def change_tags(
        self, actor: Actor, entry_id: int, *, add: Sequence[str] = (), remove: Sequence[int] = ()
    ) -> tuple[Tag, ...]:
        """Add tags to an entry by name and take others away by id; return those it has then.

        Raises:
            NotFoundError: no such entry, or not one he may see.
            InvalidError: a name is empty or too long.
            TooLargeError: more tags than the entry or the user may have.
        """
        require_permission(actor, Permission.TAG_EDIT)
        find = self._entries.get_key if add else self._entries.get_kept_key
        entry = find(actor.user_id, check_id(entry_id, "entry_id"))
        names = tuple({make_tag_key(name): self._name(name) for name in add}.values())
        gone = check_ids(remove, "remove", 1000)
        found = self._tags.change_tags(actor.user_id, entry, names, gone, clock.now())
        if actor.synced:  # not before, as in ReadingService.set_starred
            self._changes.record_changes(actor.user_id, {}, {entry_id, entry.id})
        self._events.notify_counts(actor.user_id)
        log.info("tagged", user_id=actor.user_id, entry_id=entry.id, count=len(found))
        return found

    def check_name(self, actor: Actor, name: str) -> str:
        """Return what a tag is called that gets this name.

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
        """Give a tag another name.

        Raises:
            NotFoundError: he has no such tag.
            ExistsError: another one has this name.
        """
        require_permission(actor, Permission.TAG_EDIT)
        tag = self._tags.rename(actor.user_id, check_id(tag_id, "tag_id"), self._name(name))
        self._note(actor, tag_id)
        return tag

    def _note(self, actor: Actor, tag_id: int) -> None:
        """Note that the entries of a tag are called otherwise, once they are."""
        if actor.synced:
            found = self._tags.find_last_tagged(actor.user_id, tag_id, self._changes.limit)
            self._changes.record_changes(actor.user_id, {}, found)

    def merge(self, actor: Actor, tag_id: int, into: int) -> tuple[Tag, Tag]:
        """Give all entries of a tag another one, and delete it; :meth:`restore` takes that back for a day.

        Raises:
            NotFoundError: he has no such tags.
            InvalidError: they are the same.
        """
        require_permission(actor, Permission.TAG_EDIT)
        user_id = actor.user_id
        done = self._tags.merge(user_id, check_id(tag_id, "tag_id"), check_id(into, "into"), clock.now())
        self._note(actor, tag_id)
        log.info("tag_merged", user_id=user_id, tag_id=tag_id, into=into)
        return done

    def delete(self, actor: Actor, tag_id: int) -> Tag:
        """Delete a tag from all entries; :meth:`restore` takes that back for a day.

        Raises:
            NotFoundError: he has no such tag.
        """
        require_permission(actor, Permission.TAG_EDIT)
        tag = self._tags.delete(actor.user_id, check_id(tag_id, "tag_id"), clock.now())
        self._note(actor, tag_id)
        log.info("tag_deleted", user_id=actor.user_id, tag_id=tag_id)
        return tag

    def restore(self, actor: Actor, tag_id: int) -> None:
        """Take back a :meth:`delete` or :meth:`merge`.

        Raises:
            NotFoundError: it was too long ago, or was taken back already.
            TooLargeError: he has as many as he may.
        """
        require_permission(actor, Permission.TAG_EDIT)
        self._tags.restore(actor.user_id, check_id(tag_id, "tag_id"), clock.now())
        self._note(actor, tag_id)

    # -- saved searches
    def list_searches(self, actor: Actor) -> list[SavedSearch]:
        """Return the actor's saved searches by name."""
        require_permission(actor, Permission.ENTRY_READ)
        return self._tags.list_searches(actor.user_id)

    def save_search(self, actor: Actor, name: str, query: str) -> SavedSearch:
        """Keep a search, and return it, under a name, which is the query itself when it is empty.

        Raises:
            InvalidError: the query asks for nothing.
            TooLargeError: he has as many as he may.
        """
        require_permission(actor, Permission.TAG_EDIT)
        query = normalise_query(check_text(query, "query", limit=4 * QUERY_MAX, empty=True))
        if parse_query(query).is_empty:
            raise InvalidError("Enter something to search for.", field="query")
        name = check_text(name, "name", limit=NAME_MAX, empty=True) or query[:NAME_MAX]
        return self._tags.save_search(actor.user_id, name, query)

    def delete_search(self, actor: Actor, search_id: int) -> str | None:
        """Delete a saved search; twice is the same as once.

        Returns:
            A token for :meth:`restore_search`, good for a day; None: it was gone already.
        """
        require_permission(actor, Permission.TAG_EDIT)
        token = self._tags.delete_search(actor.user_id, check_id(search_id, "search_id"), clock.now())
        if token:
            log.info("search_forgotten", user_id=actor.user_id, search_id=search_id)
        return token

    def restore_search(self, actor: Actor, token: str) -> SavedSearch:
        """Take back that a search was deleted; where its name is taken by now, it comes with a number.

        Raises:
            NotFoundError: it was too long ago, was taken back already, or was never his.
            TooLargeError: he has as many as he may.
        """
        require_permission(actor, Permission.TAG_EDIT)
        return self._tags.restore_search(
            actor.user_id, check_text(token, "token", limit=TOKEN_MAX), clock.now()
        )
