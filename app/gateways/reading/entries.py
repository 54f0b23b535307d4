"""Single entries that a user may see: those of their feeds, and those that they starred or tagged."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from app.errors import ConflictError, ExistsError, NotFoundError
from app.feeds.html.sanitize import SANITIZER_VERSION
from app.gateways.feeds import entry_bodies
from app.gateways.sharing.visibility import VisibilityGateway
from app.mappers.feeds.entries import EntryMapper
from app.mappers.mongo.cells import Cells
from app.mappers.mongo.store import Session
from app.mappers.reading.entry_keys import BRANCHES, EntryKeyMapper
from app.mappers.reading.marks import MarkMapper
from app.mappers.sharing.shares import ShareMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.reading.entry import Entry, EntryKey
from app.models.sharing.sharing import Origin, Profile, Share, ShareVisibility

#: Keys of entries cached in this process, 100 bytes each.
SHOWN = 50_000
#: Users whose feeds' ids are cached in this process, 8 bytes per feed.
USERS = 200


class StarResult(NamedTuple):
    """The result of starring many entries.

    Attributes:
        starred: the ids of entries that have a star now and had none.
        roots: the ids of entries that have the stars of shares.
    """

    starred: tuple[int, ...]
    roots: tuple[int, ...]


class EntryGateway:
    """Reads, stars and likes entries for a user."""

    def __init__(
        self,
        *,
        cells: Cells,
        entries: EntryMapper,
        keys: EntryKeyMapper,
        marks: MarkMapper,
        subscriptions: SubscriptionMapper,
        shares: ShareMapper,
        visibility: VisibilityGateway,
        sanitize: entry_bodies.Sanitize,
    ) -> None:
        self._cells = cells
        self._sight = visibility
        self._sanitize = sanitize
        self._entries = entries
        self._keys = keys
        self._marks = marks
        self._subscriptions = subscriptions
        self._shares = shares
        self._shown: dict[int, EntryKey] = {}
        self._feed_ids: dict[int, array[int]] = {}

    def find_by_seqs(self, seqs: Mapping[int, Sequence[int]]) -> list[EntryKey]:
        """Return the keys of the entries with these numbers (feed → numbers), in no order."""
        found, feeds = list[EntryKey](), list(seqs)
        for start in range(0, len(feeds), BRANCHES):
            found += self._keys.find_by_seqs({f: seqs[f] for f in feeds[start : start + BRANCHES]})
        return found

    def find_keys(self, user_id: int, entry_ids: Sequence[int]) -> list[EntryKey]:
        """Return the keys of the entries that belong to the user's feeds.

        Callers must check the user's subscriptions of the keys' feeds: cached keys may come from another
        user's page, and the user may have left a feed.
        """
        known = {i: key for i in entry_ids if (key := self._shown.get(i)) is not None}
        if missing := [i for i in entry_ids if i not in known]:
            known.update({key.id: key for key in self._find_in_feeds(user_id, missing)})
        return list(known.values())

    def _find_in_feeds(self, user_id: int, entry_ids: Sequence[int]) -> list[EntryKey]:
        """Return the keys of the entries in the user's feeds.

        The feeds' ids are cached, since reading them costs more than a mark. An entry that isn't in one of
        them may be in a feed that the user has added since.
        """
        cached = self._feed_ids.get(user_id)
        if cached is not None:
            found = self._keys.find_by_ids(entry_ids, cached.tolist())
            if len(found) == len(set(entry_ids)):
                return found
        feed_ids = self._subscriptions.find_feed_ids(user_id)
        if len(self._feed_ids) >= USERS:
            self._feed_ids.clear()
        self._feed_ids[user_id] = array("q", feed_ids)
        if cached is not None and set(cached) == set(feed_ids):
            return found
        return self._keys.find_by_ids(entry_ids, feed_ids)

    def remember_keys(self, keys: Iterable[EntryKey]) -> None:
        """Cache the keys that a page showed: they never change, and the entries are soon marked."""
        if len(self._shown) > SHOWN:
            self.forget_keys()
        self._shown.update((key.id, key) for key in keys)

    def forget_keys(self) -> None:
        """Clear the cache of keys that pages showed."""
        self._shown.clear()

    def get(self, user_id: int, entry_id: int, *, with_sharers: bool = False) -> Entry:
        """Return an entry with its body.

        Args:
            with_sharers: whether to read also the sharers among followed people, whom the caller needs.

        Raises:
            NotFoundError: there is no such entry, or it's neither in the user's feeds nor marked by them.
        """
        found = self._find(user_id, entry_id, with_sharers=with_sharers)
        joined = self.join_shares(user_id, {found.id: found}, with_bodies=True)
        if entry_id not in joined:
            raise NotFoundError(entry_id=entry_id)
        return joined[entry_id]

    def find_feed(self, user_id: int, entry_id: int) -> int | None:
        """Return the feed of an entry that isn't a share of another entry, if the user subscribes to it."""
        return self._entries.find_feed(entry_id, self._subscriptions.find_feed_ids(user_id))

    def _find(self, user_id: int, entry_id: int, *, with_sharers: bool = False) -> Entry:
        if with_sharers:
            self._sight.prefetch_followed(user_id)
        entry, share = self._shares.find_with_entry(entry_id, self._subscriptions.find_feed_ids(user_id))
        if share is not None:
            if with_sharers:
                self._sight.prefetch_sharers(user_id, share)
            # A share is visible to its audience, which differs from the sharer's followers.
            entry = entry if self._sight.can_see(user_id, share) else None
        elif entry is None:
            entry = self._find_kept(user_id, entry_id)
        if entry is None or (share is None and entry.of is not None):
            raise NotFoundError(entry_id=entry_id)
        return self._clean(entry)

    def _find_kept(self, user_id: int, entry_id: int) -> Entry | None:
        """Return an entry that a user marked, from a feed without a subscription."""
        feed_id = self._marks.find_feed(user_id, entry_id)
        return None if feed_id is None else self._entries.find(entry_id, [feed_id])

    def find_with_bodies(self, user_id: int | None, keys: Sequence[EntryKey]) -> dict[int, Entry]:
        """Return entries of a user's page with their bodies, by id."""
        return self.join_shares(user_id, self.find_stored(keys, with_bodies=True), with_bodies=True)

    def find_rows(self, user_id: int | None, keys: Sequence[EntryKey]) -> dict[int, Entry]:
        """Return the fields of these entries that lists show, by id; omit entries deleted meanwhile."""
        shares = self._shares.find_kept([k.id for k in keys]).values()
        roots = [EntryKey(s.of.entry_id, s.of.feed_id, 0, 0) for s in shares if not s.is_post]
        stored, wanted = self.find_stored([*keys, *roots]), {k.id for k in keys}
        return self.join_shares(user_id, {i: entry for i, entry in stored.items() if i in wanted})

    def find_stored(self, keys: Sequence[EntryKey], *, with_bodies: bool = False) -> dict[int, Entry]:
        """Return entries as stored, by id; use :meth:`join_shares` before showing them."""
        if not keys:
            return {}
        return (
            {e.id: self._clean(e) for e in self._entries.find_with_bodies(keys)}
            if with_bodies
            else self._entries.find_rows(keys)
        )

    def join_shares(
        self,
        user_id: int | None,
        entries: Mapping[int, Entry],
        *,
        with_bodies: bool = False,
    ) -> dict[int, Entry]:
        """Fill the entries of shares with the content of the shared entries.

        Shares and posts that the user may not see (anymore) are left out. The user may have starred a post of
        a person who then closed their stream, or be reading an older list. If only the shared entry is
        hidden, the share stays without its content and is marked as lost.

        Args:
            with_bodies: with full texts.
        """
        shared = {e.id: e.of for e in entries.values() if e.of is not None and e.of.entry_id != e.id}
        own = [e.id for e in entries.values() if e.of is not None]
        if not own:
            return dict(entries)
        roots = self.find_stored(
            [EntryKey(of.entry_id, of.feed_id, 0, 0) for of in set(shared.values())], with_bodies=with_bodies
        )
        # A root that is a share itself is a post, with its author's audience.
        posts = [e.id for e in roots.values() if e.of is not None]
        sharers = self._sight.find_visible_sharers(user_id, {*own, *posts})
        hidden = {*own, *posts} - sharers.keys()
        seen = {i: _signed(e, sharers) for i, e in roots.items() if i not in hidden}
        lost = {of.entry_id for i, of in shared.items() if i not in hidden} - seen.keys()
        # A post made private is in another feed now; as in chains, its share shows whether it still exists.
        live = self._shares.find_many(list(lost)) if lost else {}
        return {
            entry.id: _shown(_signed(entry, sharers), shared.get(entry.id), seen, live)
            for entry in entries.values()
            if entry.id not in hidden
        }

    def _clean(self, entry: Entry) -> Entry:
        return entry if entry.cleaned_by == SANITIZER_VERSION else self._recleaned(entry)

    def _recleaned(self, entry: Entry) -> Entry:
        """Clean an entry again after a change of the sanitizer, and store the result."""
        stored = entry_bodies.Body(entry.content, entry.summary, entry.excerpt, entry.raw, entry.cleaned_by)
        body = entry_bodies.reclean_body(stored, self._sanitize)
        fresh = dataclasses.replace(entry, **body._asdict())
        self._entries.update_clean_body(fresh, entry.cleaned_by)
        return fresh

    def get_key(self, user_id: int, entry_id: int) -> EntryKey:
        """Return the key of an entry that the user may see; for a share, the key of the shared entry.

        Raises:
            NotFoundError: as for :meth:`get`.
        """
        found = self._keys.find_by_ids([entry_id], self._allowed(user_id, entry_id))
        if not found or self._entries.find_origins(found):
            entry = self._find(user_id, entry_id)
            # Marks on a share belong to the shared entry, which stays after an unshare.
            of = entry.of or Origin(entry.id, entry.feed_id)
            found = self._keys.find_by_ids([of.entry_id], [of.feed_id])
            if of.entry_id != entry.id and self._entries.find_origins(found):
                found = [] if self._sight.find_hidden(user_id, [of.entry_id]) else found
        if not found:
            raise NotFoundError(entry_id=entry_id)
        return found[0]

    def _allowed(self, user_id: int, entry_id: int) -> list[int]:
        feed_ids = self._subscriptions.find_feed_ids(user_id)
        starred = self._marks.find_feed(user_id, entry_id)
        return feed_ids if starred is None else [*feed_ids, starred]

    def set_liked(self, user_id: int, entry_id: int, on: bool, now: dt.datetime) -> bool:
        """Store a private like of an entry, or remove it; return whether that changed anything.

        Raises:
            NotFoundError: as for :meth:`get`.
        """
        if not on:
            return self._marks.unlike(user_id, self.get_kept_key(user_id, entry_id).id)
        return self._marks.like(user_id, self.get_key(user_id, entry_id), now)

    def find_liked(self, user_id: int, entry_ids: Sequence[int]) -> set[int]:
        """Return which of these unshared entries the user likes."""
        return self._marks.find_liked(user_id, entry_ids)

    def set_starred(self, user_id: int, entry_id: int, on: bool, now: dt.datetime) -> tuple[bool, int]:
        """Star or unstar an entry.

        Returns:
            Whether that changed anything, and the id of the entry that has the star: for a share, of the
            shared entry.

        Raises:
            NotFoundError: as for :meth:`get`.
        """
        key = self.get_key(user_id, entry_id) if on else self.get_kept_key(user_id, entry_id)

        def write_star(session: Session) -> bool:
            if on:
                counts = self._marks.star(user_id, key, now, session)
            elif (last := self._marks.unstar(user_id, key.id, session)) is None:
                return False
            else:
                counts = last
            # An entry with both a star and tags is counted once.
            if (
                counts
                and not self._entries.change_star_count(key.feed_id, key.id, 1 if on else -1, session)
                and on
            ):
                raise NotFoundError(entry_id=entry_id)  # retention was faster
            return True

        try:
            return self._cells.run_in_transaction(user_id, write_star), key.id
        except ExistsError:
            return False, key.id

    def set_many_starred(
        self, user_id: int, entry_ids: Sequence[int], on: bool, now: dt.datetime
    ) -> StarResult:
        """Star or unstar many entries at once; skip those that the user may not see.

        Shares, whose star belongs to the shared entry, are handled one by one. So are all if another request
        marks or deletes one of the entries at the same time.
        """
        keys = self.find_markable_keys(user_id, entry_ids)

        def write_stars(session: Session) -> list[int]:
            new = list[EntryKey]()
            if on:
                counted, new = self._marks.star_many(user_id, list(keys.values()), now, session)
            else:
                counted = self._marks.unstar_many(user_id, list(keys), session)
            if counted and not self._entries.change_star_counts(counted, 1 if on else -1, session):
                raise ConflictError(user_id=user_id)
            return [key.id for key in new]

        single, starred, roots = [i for i in entry_ids if i not in keys], list[int](), list[int]()
        if keys:
            try:
                starred = self._cells.run_in_transaction(user_id, write_stars)
            except ConflictError:
                single = list(entry_ids)
        for entry_id in single:
            with contextlib.suppress(NotFoundError):
                changed, root = self.set_starred(user_id, entry_id, on, now)
                starred += [entry_id] if changed and on else []
                roots += [] if root == entry_id else [root]
        return StarResult(tuple(starred), tuple(roots))

    def find_markable_keys(self, user_id: int, entry_ids: Sequence[int]) -> dict[int, EntryKey]:
        """Return the keys, by id, of those entries that a user may see or has marked; shares are left out.

        Marks of shares belong to the shared entry: see :meth:`get_key`.
        """
        known = self._marks.find_marks(user_id, entry_ids)
        mine = set(self._subscriptions.find_feed_ids(user_id))
        feed_ids = mine | {mark.feed_id for mark in known.values()}
        # A mark lets its user see that entry, and no other one of the same feed.
        found = [
            key
            for key in (self._keys.find_by_ids(entry_ids, list(feed_ids)) if feed_ids else [])
            if key.feed_id in mine or (key.id in known and known[key.id].feed_id == key.feed_id)
        ]
        shares = self._entries.find_origins(found) if found else {}
        return {key.id: key for key in found if key.id not in shares}

    def set_many_liked(self, user_id: int, keys: Sequence[EntryKey], on: bool, now: dt.datetime) -> None:
        """Store private likes of entries, as from :meth:`find_markable_keys`, or remove them."""
        if on:
            self._marks.like_many(user_id, keys, now)
        else:
            self._marks.unlike_many(user_id, [key.id for key in keys])

    def get_kept_key(self, user_id: int, entry_id: int) -> EntryKey:
        """Return the key of an entry whose marks a user may remove: one that they marked, or may see.

        Raises:
            NotFoundError: as for :meth:`get`.
        """
        return self._kept(user_id, entry_id) or self.get_key(user_id, entry_id)

    def _kept(self, user_id: int, entry_id: int) -> EntryKey | None:
        """Return the key that a user's mark of an entry is stored under, even if they can't see the entry
        anymore.

        Users may always remove their own marks, even of a post that was hidden or unshared meanwhile.
        """
        feed_id = self._marks.find_feed(user_id, entry_id)
        if feed_id is None:
            share = self._shares.find(entry_id)
            entry_id = share.of.entry_id if share else entry_id
            feed_id = self._marks.find_feed(user_id, entry_id) if share else None
        return None if feed_id is None else EntryKey(entry_id, feed_id, 0, 0)


def _signed(entry: Entry, sharers: Mapping[int, Profile]) -> Entry:
    """Return a post with its author's current name; return any other entry unchanged."""
    if entry.of is None or entry.of.entry_id != entry.id:
        return entry
    by = sharers.get(entry.id)
    return dataclasses.replace(entry, author=by.name) if by else entry


def _shown(entry: Entry, of: Origin | None, seen: Mapping[int, Entry], shares: Mapping[int, Share]) -> Entry:
    """Return an entry as its viewer sees it, who may not be able to see the shared entry."""
    if of is None:
        return entry
    if of.entry_id in seen:
        return _over(entry, seen[of.entry_id])
    there = of.entry_id in shares and shares[of.entry_id].live
    return Entry(
        id=entry.id,
        feed_id=entry.feed_id,
        seq=entry.seq,
        at=entry.at,
        arrived=entry.arrived,
        title="",
        of=entry.of,
        lost=ShareVisibility.PRIVATE if there else ShareVisibility.REMOVED,
    )


def _over(share: Entry, root: Entry) -> Entry:
    """Return the entry of a share with the content of the shared entry, but its own place and time."""
    return dataclasses.replace(
        root,
        id=share.id,
        feed_id=share.feed_id,
        seq=share.seq,
        at=share.at,
        arrived=share.arrived,
        of=share.of,
        stars=share.stars,
    )
