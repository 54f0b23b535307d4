"""Tags of entries, and saved searches."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import itertools
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NoReturn, TypeVar

from app.errors import ConflictError, ExistsError, InvalidError, NotFoundError, StoreError, TooLargeError
from app.mappers.feeds.entries import EntryMapper
from app.mappers.mongo.cells import Cells
from app.mappers.mongo.store import Session
from app.mappers.reading.entry_keys import TimeRange
from app.mappers.reading.marks import MarkMapper
from app.mappers.reading.rules import RuleMapper
from app.mappers.reading.tags import SavedSearchMapper, TagMapper
from app.mappers.subscriptions.undo import RemovalMapper
from app.models.reading.entry import EntryKey
from app.models.reading.tag import Mark, SavedSearch, Tag, make_tag_key
from app.models.subscriptions.undo import Removal

T = TypeVar("T")

#: Attempts when the same user's other devices interfere.
ROUNDS = 8
#: Entries that a deleted tag is removed from per batch.
PURGED = 200
SAME = "You already have a tag with this name. Merge the two tags instead."


@dataclasses.dataclass(frozen=True, slots=True)
class TagLimits:
    """The most tags that an entry and a user may have."""

    per_entry: int
    per_user: int


class TagGateway:
    """Manages tags and saved searches; deletions and merges can be undone for ``undo_ttl``."""

    def __init__(
        self,
        *,
        cells: Cells,
        tags: TagMapper,
        marks: MarkMapper,
        entries: EntryMapper,
        searches: SavedSearchMapper,
        removals: RemovalMapper,
        rules: RuleMapper,
        limits: TagLimits,
        max_searches: int,
        undo_ttl: dt.timedelta,
    ) -> None:
        self._cells = cells
        self._tags = tags
        self._marks = marks
        self._entries = entries
        self._searches = searches
        self._removals = removals
        self._rules = rules
        self._limits = limits
        self._searches_most = max_searches
        self._undo_ttl = undo_ttl

    def find_by_user(self, user_id: int) -> list[Tag]:
        """Return a user's tags, sorted by name."""
        return [tag for tag in self._tags.find_by_user(user_id) if tag.deleted_at is None]

    def get(self, user_id: int, tag_id: int) -> Tag:
        """Return a tag.

        Raises:
            NotFoundError: the user has no such tag.
        """
        return self._alive(user_id, tag_id)

    def _alive(self, user_id: int, tag_id: int, session: Session | None = None) -> Tag:
        return _get_alive(self._tags.find_by_user(user_id, session), tag_id)

    def find_by_marks(self, user_id: int, marks: Mapping[int, Mark]) -> dict[int, tuple[Tag, ...]]:
        """Return the tags of marked entries, by entry."""
        if not any(mark.tags for mark in marks.values()):
            return {}
        mine = self.find_by_user(user_id)
        return {i: tuple(t for t in mine if t.id in mark.tags) for i, mark in marks.items() if mark.tags}

    def find_last_tagged(self, user_id: int, tag_id: int, limit: int) -> list[int]:
        """Return at most ``limit`` entries with a tag (deleted or not) that were tagged last."""
        found = self._marks.find_marked_keys(user_id, TimeRange(), newest_first=True, limit=limit, tag=tag_id)
        return [key.id for key in found]

    def find_marks(self, user_id: int, entry_ids: Sequence[int]) -> dict[int, Mark]:
        """Return the marks of these entries, if any, by entry id."""
        return self._marks.find_marks(user_id, entry_ids) if entry_ids else {}

    def change_tags(
        self, user_id: int, entry: EntryKey, add: Sequence[str], remove: Sequence[int], now: dt.datetime
    ) -> tuple[Tag, ...]:
        """Add tags by name, remove others by id, and return the entry's tags after that.

        Raises:
            TooLargeError: the entry or the user would have too many tags.
            NotFoundError: the entry is gone.
        """

        def write_tags(session: Session) -> tuple[Tag, ...]:
            mine = {
                make_tag_key(t.name): t for t in self._tags.find_by_user(user_id, session) if not t.deleted_at
            }
            mark = self._marks.find_marks(user_id, [entry.id], session).get(entry.id)
            alive = {t.id for t in mine.values()}
            before = [t for t in (mark.tags if mark else ()) if t in alive]
            wanted = [t for t in before if t not in remove]
            for name in add:
                tag = mine.get(make_tag_key(name)) or self._new(user_id, name, len(mine), session)
                mine[make_tag_key(name)] = tag
                wanted += [tag.id] if tag.id not in wanted else []
            if len(wanted) > self._limits.per_entry:
                self._refuse_more_tags()
            hidden = [t for t in (mark.tags if mark else ()) if t not in alive]
            self._write(user_id, entry, mark, tags=[*wanted, *hidden], now=now, session=session)
            for tag_id in {*before, *wanted}:
                if by := (tag_id in wanted) - (tag_id in before):
                    self._tags.change_count(user_id, tag_id, by, session)
            return tuple(
                sorted((t for t in mine.values() if t.id in wanted), key=lambda t: make_tag_key(t.name))
            )

        return self._again(user_id, write_tags)

    def tag_many(self, user_id: int, entries: Sequence[EntryKey], name: str, now: dt.datetime) -> None:
        """Add a tag to many entries at once.

        Raises:
            TooLargeError: an entry or the user would have too many tags.
            NotFoundError: an entry is gone; nothing has changed.
        """

        def write_tag(session: Session) -> None:
            mine = [t for t in self._tags.find_by_user(user_id, session) if not t.deleted_at]
            marks = self._marks.find_marks(user_id, [entry.id for entry in entries], session)
            named = (t for t in mine if make_tag_key(t.name) == make_tag_key(name))
            tag = next(named, None) or self._new(user_id, name, len(mine), session)
            alive = {t.id for t in mine}
            for mark in marks.values():
                if tag.id not in mark.tags and len(alive.intersection(mark.tags)) >= self._limits.per_entry:
                    self._refuse_more_tags()
            added = [e for e in entries if e.id not in marks or tag.id not in marks[e.id].tags]
            if added:
                first = self._marks.tag_many(user_id, added, tag.id, now, session)
                self._tags.change_count(user_id, tag.id, len(added), session)
                if first and not self._entries.change_star_counts(first, 1, session):
                    raise NotFoundError(user_id=user_id)  # retention was faster

        self._again(user_id, write_tag)

    def untag_many(self, user_id: int, entries: Sequence[EntryKey], tag_id: int) -> None:
        """Remove a tag from many entries at once.

        Raises:
            NotFoundError: an entry is gone; nothing has changed.
        """

        def remove_tag(session: Session) -> None:
            # Deletions count no entries, so a tag that is deleted meanwhile keeps its count.
            if all(t.id != tag_id or t.deleted_at for t in self._tags.find_by_user(user_id, session)):
                return
            ids = [entry.id for entry in entries]
            count, left = self._marks.untag_many(user_id, ids, tag_id, session)
            if count:
                self._tags.change_count(user_id, tag_id, -count, session)
            if left and not self._entries.change_star_counts(left, -1, session):
                raise NotFoundError(user_id=user_id)

        self._again(user_id, remove_tag)

    def _refuse_more_tags(self) -> NoReturn:
        most = self._limits.per_entry
        raise TooLargeError("An entry can have at most %(limit)s tags. Remove one first.", limit=most)

    def _new(self, user_id: int, name: str, number: int, session: Session) -> Tag:
        self._check_number(number)
        return self._tags.add(user_id, name, session)

    def _check_number(self, number: int) -> None:
        if number >= self._limits.per_user:
            most = self._limits.per_user
            raise TooLargeError("You can have at most %(limit)s tags.", limit=most)

    def _write(
        self,
        user_id: int,
        entry: EntryKey,
        mark: Mark | None,
        *,
        tags: Sequence[int],
        now: dt.datetime,
        session: Session,
    ) -> None:
        """Store an entry's tags; the entry counts its marks, so that retention keeps it."""
        by = 0
        if tags:
            by = int(self._marks.set_tags(user_id, entry, tags, now, session))
        elif mark and mark.tags:
            by = -int(self._marks.remove_tags(user_id, entry.id, session))
        if by and not self._entries.change_star_count(entry.feed_id, entry.id, by, session) and by > 0:
            raise NotFoundError(entry_id=entry.id)  # retention was faster

    def _again(self, user_id: int, work: Callable[[Session], T]) -> T:
        for _ in range(ROUNDS):
            try:
                return self._cells.run_in_transaction(user_id, work)
            except ConflictError:
                continue  # another device; the next round sees its tags
        raise StoreError

    def rename(self, user_id: int, tag_id: int, name: str) -> Tag:
        """Rename a tag.

        Raises:
            NotFoundError: the user has no such tag.
            ExistsError: another tag has this name.
        """

        def write_name(session: Session) -> Tag:
            # Read in the transaction: renaming must not restore a tag that another device just deleted.
            tag = self._alive(user_id, tag_id, session)
            self._tags.set_name(user_id, tag_id, name, session)
            return dataclasses.replace(tag, name=name)

        try:
            return self._cells.run_in_transaction(user_id, write_name)
        except ExistsError as e:
            raise ExistsError(SAME, field="name") from e

    def delete(self, user_id: int, tag_id: int, now: dt.datetime) -> Tag:
        """Delete a tag; :meth:`restore` undoes that.

        Raises:
            NotFoundError: the user has no such tag.
        """

        def mark_deleted(session: Session) -> Tag:
            tag = self._alive(user_id, tag_id, session)
            self._tags.mark_deleted(user_id, tag_id, now, session)
            return tag

        tag = self._cells.run_in_transaction(user_id, mark_deleted)
        self.purge(user_id, now)
        return tag

    def merge(self, user_id: int, tag_id: int, into: int, now: dt.datetime) -> tuple[Tag, Tag]:
        """Merge a tag into another one and delete it; return both.

        Raises:
            NotFoundError: the user has no such tags.
            InvalidError: both tags are the same.
        """
        if tag_id == into:
            raise InvalidError("Choose a different tag to merge into.", field="into")

        def move_marks(session: Session) -> tuple[Tag, Tag]:
            # Read in the transaction: another device may have just merged or deleted one of them.
            tags = self._tags.find_by_user(user_id, session)
            source, target = (_get_alive(tags, t) for t in (tag_id, into))
            marks = self._marks.find_by_tag(user_id, tag_id, session)
            added = [m.entry_id for m in marks if into not in m.tags]
            self._marks.add_tag(user_id, tag_id, into, session)
            self._tags.change_count(user_id, into, len(added), session)
            self._tags.mark_deleted(user_id, tag_id, now, session, merged={"into": into, "added": added})
            return source, target

        both = self._cells.run_in_transaction(user_id, move_marks)
        self.purge(user_id, now)
        return both

    def restore(self, user_id: int, tag_id: int, now: dt.datetime) -> None:
        """Restore a deleted or merged tag; if its name is taken now, add a number.

        Raises:
            NotFoundError: the undo has expired, or the tag was restored already.
            TooLargeError: the user has the maximum number of tags.
        """

        def write_restored(session: Session) -> None:
            mine = self._tags.find_by_user(user_id, session)
            tag = next((t for t in mine if t.id == tag_id), None)
            # After that time, a purge may have removed the tag from some entries.
            if tag is None or tag.deleted_at is None or tag.deleted_at < now - self._undo_ttl:
                raise NotFoundError("This can no longer be undone.", tag_id=tag_id)
            if tag.merged:
                into, added = tag.merged
                # Some of these entries may have lost the tag since then.
                taken_from = self._marks.remove_tag(user_id, into, added, session)
                self._tags.change_count(user_id, into, -taken_from, session)
            taken = {make_tag_key(t.name) for t in mine if not t.deleted_at}
            self._check_number(len(taken))
            self._tags.set_name(user_id, tag_id, _free(tag.name, taken, make_tag_key), session)

        self._cells.run_in_transaction(user_id, write_restored)

    def purge(self, user_id: int, now: dt.datetime) -> None:
        """Permanently remove tags whose undo has expired.

        A user waits for this, so only some entries of a large tag are handled now, and the rest the next
        time.
        """
        before = now - self._undo_ttl
        for tag in self._tags.find_by_user(user_id):
            if tag.deleted_at is not None and tag.deleted_at < before and not self._remove(tag):
                return

    def _remove(self, tag: Tag) -> bool:
        """Remove a tag from its entries, one after the other; return False if there are more."""
        marks = self._marks.find_by_tag(tag.user_id, tag.id, limit=PURGED)
        for mark in marks:
            self._cells.run_in_transaction(tag.user_id, functools.partial(self._drop, mark, tag))
        if len(marks) == PURGED:
            return False
        self._cells.run_in_transaction(tag.user_id, functools.partial(self._tags.remove, tag.user_id, tag.id))
        return True

    def _drop(self, mark: Mark, tag: Tag, session: Session) -> None:
        if len(mark.tags) > 1:
            self._marks.remove_tag(tag.user_id, tag.id, [mark.entry_id], session)
        elif self._marks.remove_tags(tag.user_id, mark.entry_id, session):
            self._entries.change_star_count(mark.feed_id, mark.entry_id, -1, session)

    # -- saved searches
    def list_searches(self, user_id: int) -> list[SavedSearch]:
        """Return a user's saved searches, sorted by name."""
        return self._searches.find_by_user(user_id)

    def save_search(self, user_id: int, name: str, query: str) -> SavedSearch:
        """Save a search and return it; an existing name gets the new query.

        Raises:
            TooLargeError: the user has the maximum number of saved searches.
        """
        mine = self._searches.find_by_user(user_id)
        if name not in {s.name for s in mine}:
            self._check_searches(len(mine))
        return self._searches.put(user_id, name, query)

    def delete_search(self, user_id: int, search_id: int, now: dt.datetime) -> str | None:
        """Delete a saved search.

        Returns:
            A token for :meth:`restore_search`; None: the search was already gone.
        """
        token = secrets.token_urlsafe(16)

        def remove_search(session: Session) -> str | None:
            was = self._searches.remove(user_id, search_id, session)
            if was is None:
                return None
            self._removals.add(Removal(token, user_id, search=was), now + self._undo_ttl, session)
            if was.notify:
                self._rules.set_alert(user_id, search_id, False, session)
            return token

        return self._cells.run_in_transaction(user_id, remove_search)

    def restore_search(self, user_id: int, token: str, now: dt.datetime) -> SavedSearch:
        """Restore a deleted search; if its name is taken now, add a number.

        Raises:
            NotFoundError: the token has expired, was used, or isn't the user's.
            TooLargeError: the user has the maximum number of saved searches.
        """
        removal = self._removals.find(user_id, token, now)
        if removal is None or removal.search is None:
            raise NotFoundError("This can no longer be undone.", undo=token)
        was = removal.search

        def write_search(session: Session) -> SavedSearch:
            mine = self._searches.find_by_user(user_id, session)
            if any(one.id == was.id for one in mine):
                raise NotFoundError("This can no longer be undone.", undo=token)
            self._check_searches(len(mine))
            back = dataclasses.replace(was, name=_free(was.name, {one.name for one in mine}, str))
            self._searches.add(back, session)
            if back.notify:
                self._rules.set_alert(user_id, back.id, True, session)
            self._removals.remove(user_id, token, session)
            return back

        return self._again(user_id, write_search)

    def _check_searches(self, number: int) -> None:
        if number >= self._searches_most:
            most = self._searches_most
            raise TooLargeError("You can have at most %(limit)s saved searches.", limit=most)


def _get_alive(tags: Iterable[Tag], tag_id: int) -> Tag:
    tag = next((t for t in tags if t.id == tag_id), None)
    if tag is None or tag.deleted_at is not None:
        raise NotFoundError("You don't have this tag.", tag_id=tag_id)
    return tag


def _free(name: str, taken: Collection[str], key: Callable[[str], str]) -> str:
    """Return the name, with a number if its key is taken."""
    names = itertools.chain([name], (f"{name} ({n})" for n in itertools.count(2)))
    return next(one for one in names if key(one) not in taken)
