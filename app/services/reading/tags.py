"""What a user does with his tags and saved searches."""

from __future__ import annotations

from collections.abc import Sequence

from app import clock, logs
from app.errors import InvalidError
from app.gateways.reading.changes import ChangeGateway
from app.gateways.reading.entries import EntryGateway
from app.gateways.reading.tags import TagGateway
from app.models.accounts.actor import Actor, Permission
from app.models.reading.search import QUERY_MAX, parse, tidy
from app.models.reading.tag import SavedSearch, Tag, key_of, normal
from app.ports import EventPort
from app.services.access import require
from app.services.validation import a_text, an_id, some_ids

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
        length: int,
    ) -> None:
        self._tags = tags
        self._entries = entries
        self._changes = changes
        self._events = events
        self._length = length

    def all(self, actor: Actor) -> list[Tag]:
        """Return the actor's tags by name, with the number of their entries."""
        require(actor, Permission.ENTRY_READ)
        return self._tags.of_user(actor.user_id)

    def change(
        self, actor: Actor, entry_id: int, *, add: Sequence[str] = (), remove: Sequence[int] = ()
    ) -> tuple[Tag, ...]:
        """Add tags to an entry by name and take others away by id; return those it has then.

        Raises:
            NotFoundError: no such entry, or not one he may see.
            InvalidError: a name is empty or too long.
            TooLargeError: more tags than the entry or the user may have.
        """
        require(actor, Permission.TAG_EDIT)
        find = self._entries.key if add else self._entries.kept_key
        entry = find(actor.user_id, an_id(entry_id, "entry_id"))
        names = tuple({key_of(name): self._name(name) for name in add}.values())
        gone = some_ids(remove, "remove", 1000)
        found = self._tags.change(actor.user_id, entry, names, gone, clock.now())
        if actor.synced:  # not before, as in ReadingService.star
            self._changes.note(actor.user_id, {}, {entry_id, entry.id})
        self._events.counts(actor.user_id)
        log.info("tagged", user_id=actor.user_id, entry_id=entry.id, count=len(found))
        return found

    def named(self, actor: Actor, name: str) -> str:
        """Return what a tag is called that gets this name.

        Raises:
            InvalidError: the name is empty or too long.
        """
        require(actor, Permission.TAG_EDIT)
        return self._name(name)

    def _name(self, name: object) -> str:
        found = normal(name) if isinstance(name, str) else ""
        if not key_of(found):
            raise InvalidError("Enter a name for the tag.", field="name")
        if len(found) > self._length:
            raise InvalidError("A tag has at most %(most)s characters.", field="name", most=self._length)
        return found

    def rename(self, actor: Actor, tag_id: int, name: str) -> Tag:
        """Give a tag another name.

        Raises:
            NotFoundError: he has no such tag.
            ExistsError: another one has this name.
        """
        require(actor, Permission.TAG_EDIT)
        tag = self._tags.rename(actor.user_id, an_id(tag_id, "tag_id"), self._name(name))
        self._note(actor, tag_id)
        return tag

    def _note(self, actor: Actor, tag_id: int) -> None:
        """Note that the entries of a tag are called otherwise, once they are."""
        if actor.synced:
            found = self._tags.last_of(actor.user_id, tag_id, self._changes.most)
            self._changes.note(actor.user_id, {}, found)

    def merge(self, actor: Actor, tag_id: int, into: int) -> tuple[Tag, Tag]:
        """Give all entries of a tag another one, and delete it; :meth:`restore` takes that back for a day.

        Raises:
            NotFoundError: he has no such tags.
            InvalidError: they are the same.
        """
        require(actor, Permission.TAG_EDIT)
        user_id = actor.user_id
        done = self._tags.merge(user_id, an_id(tag_id, "tag_id"), an_id(into, "into"), clock.now())
        self._note(actor, tag_id)
        log.info("tag_merged", user_id=user_id, tag_id=tag_id, into=into)
        return done

    def delete(self, actor: Actor, tag_id: int) -> Tag:
        """Delete a tag from all entries; :meth:`restore` takes that back for a day.

        Raises:
            NotFoundError: he has no such tag.
        """
        require(actor, Permission.TAG_EDIT)
        tag = self._tags.delete(actor.user_id, an_id(tag_id, "tag_id"), clock.now())
        self._note(actor, tag_id)
        log.info("tag_deleted", user_id=actor.user_id, tag_id=tag_id)
        return tag

    def restore(self, actor: Actor, tag_id: int) -> None:
        """Take back a :meth:`delete` or :meth:`merge`.

        Raises:
            NotFoundError: it was too long ago, or was taken back already.
            TooLargeError: he has as many as he may.
        """
        require(actor, Permission.TAG_EDIT)
        self._tags.restore(actor.user_id, an_id(tag_id, "tag_id"), clock.now())
        self._note(actor, tag_id)

    # -- saved searches
    def searches(self, actor: Actor) -> list[SavedSearch]:
        """Return the actor's saved searches by name."""
        require(actor, Permission.ENTRY_READ)
        return self._tags.searches(actor.user_id)

    def save_search(self, actor: Actor, name: str, query: str) -> SavedSearch:
        """Keep a search, and return it, under a name, which is the query itself when it is empty.

        Raises:
            InvalidError: the query asks for nothing.
            TooLargeError: he has as many as he may.
        """
        require(actor, Permission.TAG_EDIT)
        query = tidy(a_text(query, "query", most=4 * QUERY_MAX, empty=True))
        if parse(query).is_empty:
            raise InvalidError("Enter something to search for.", field="query")
        name = a_text(name, "name", most=NAME_MAX, empty=True) or query[:NAME_MAX]
        return self._tags.save_search(actor.user_id, name, query)

    def forget_search(self, actor: Actor, search_id: int) -> str | None:
        """Delete a saved search; twice is the same as once.

        Returns:
            A token for :meth:`restore_search`, good for a day; None: it was gone already.
        """
        require(actor, Permission.TAG_EDIT)
        token = self._tags.forget_search(actor.user_id, an_id(search_id, "search_id"), clock.now())
        if token:
            log.info("search_forgotten", user_id=actor.user_id, search_id=search_id)
        return token

    def restore_search(self, actor: Actor, token: str) -> SavedSearch:
        """Take back that a search was deleted; where its name is taken by now, it comes with a number.

        Raises:
            NotFoundError: it was too long ago, was taken back already, or was never his.
            TooLargeError: he has as many as he may.
        """
        require(actor, Permission.TAG_EDIT)
        return self._tags.restore_search(actor.user_id, a_text(token, "token", most=TOKEN_MAX), clock.now())
