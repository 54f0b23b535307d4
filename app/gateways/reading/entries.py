"""Single entries, as far as a user may see them: those of his feeds, and those he starred or tagged."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable, Mapping, Sequence

from app.errors import ExistsError, NotFoundError
from app.feeds.html.sanitize import SANITIZER_VERSION
from app.gateways.feeds import entry_bodies
from app.gateways.sharing.visibility import RequestCache, VisibilityGateway
from app.mappers.feeds.entries import EntryMapper
from app.mappers.mongo.store import Session, Store
from app.mappers.reading.entry_keys import EntryKeyMapper
from app.mappers.reading.marks import MarkMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.reading.entry import Entry, EntryKey
from app.models.sharing.sharing import Origin, Share, ShareVisibility

#: Keys of entries kept in this process, 100 bytes each.
SHOWN = 50_000


class EntryGateway:
    """Reads and stars entries on behalf of a user."""

    def __init__(
        self,
        store: Store,
        entries: EntryMapper,
        keys: EntryKeyMapper,
        marks: MarkMapper,
        subscriptions: SubscriptionMapper,
        visibility: VisibilityGateway,
        sanitize: entry_bodies.Sanitize,
    ) -> None:
        self._store = store
        self._sight = visibility
        self._sanitize = sanitize
        self._entries = entries
        self._keys = keys
        self._marks = marks
        self._subscriptions = subscriptions
        self._shown: dict[int, EntryKey] = {}

    def find_keys(self, user_id: int, entry_ids: Sequence[int]) -> list[EntryKey]:
        """Return the keys of those entries that belong to the user's feeds.

        Whether a key that a page showed (maybe to somebody else) is of this user's feeds is seen when it
        is used: each write carries his id and the feed's.
        """
        known = {i: key for i in entry_ids if (key := self._shown.get(i)) is not None}
        if missing := [i for i in entry_ids if i not in known]:
            feed_ids = self._subscriptions.find_feed_ids(user_id)
            known.update({key.id: key for key in self._keys.find_by_ids(missing, feed_ids)})
        return list(known.values())

    def remember_keys(self, keys: Iterable[EntryKey]) -> None:
        """Keep keys that a page showed: an entry's feed and number never change, and are marked soon."""
        if len(self._shown) > SHOWN:
            self.forget_keys()
        self._shown.update((key.id, key) for key in keys)

    def forget_keys(self) -> None:
        """Forget the keys that pages showed."""
        self._shown.clear()

    def get(self, user_id: int, entry_id: int) -> Entry:
        """Return an entry with its body.

        Raises:
            NotFoundError: no such entry, or it is neither of his feeds nor marked by him.
        """
        found = self._find(user_id, entry_id)
        joined = self.join_shares(user_id, {found.id: found}, with_bodies=True)
        if entry_id not in joined:
            raise NotFoundError(entry_id=entry_id)
        return joined[entry_id]

    def _find(self, user_id: int, entry_id: int) -> Entry:
        entry = self._entries.find(entry_id, self._allowed(user_id, entry_id))
        if entry is None or entry.of is not None:
            # A share is seen by whom it is for: some do not follow, and who does may not see all.
            feed_id = self._sight.find_shared_feed(user_id, entry_id)
            entry = None if feed_id is None else self._entries.find(entry_id, [feed_id])
        if entry is None:
            raise NotFoundError(entry_id=entry_id)
        return self._clean(entry)

    def find_with_bodies(
        self, user_id: int | None, keys: Sequence[EntryKey], cache: RequestCache | None = None
    ) -> dict[int, Entry]:
        """Return entries of a user's page with their bodies, by id."""
        return self.join_shares(
            user_id, self.find_stored(keys, with_bodies=True), with_bodies=True, cache=cache
        )

    def find_rows(
        self, user_id: int | None, keys: Sequence[EntryKey], cache: RequestCache | None = None
    ) -> dict[int, Entry]:
        """Return what lists show of these entries, by id; those deleted meanwhile are not in it."""
        return self.join_shares(user_id, self.find_stored(keys), cache=cache)

    def find_stored(self, keys: Sequence[EntryKey], *, with_bodies: bool = False) -> dict[int, Entry]:
        """Return entries as they lie in the store, by id: for :meth:`joined`, and nobody's eyes."""
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
        cache: RequestCache | None = None,
    ) -> dict[int, Entry]:
        """Put what was shared in the place of what a share's own entry holds.

        Shares and posts that are not for this user, or not any more, are left out: he may have starred a
        post of somebody who has closed his stream since, or read on in a list that was begun before. Where
        that is only true of what was shared, the share says so, with nothing of it: it is counted, and stays
        its sharer's.

        Args:
            whole: with texts.
        """
        shared = {e.id: e.of for e in entries.values() if e.of is not None and e.of.entry_id != e.id}
        own = [e.id for e in entries.values() if e.of is not None]
        if not own:
            return dict(entries)
        roots = self.find_stored(
            [EntryKey(of.entry_id, of.feed_id, 0, 0) for of in set(shared.values())], with_bodies=with_bodies
        )
        # A root that is a share itself is somebody's post: he says for whom it is.
        posts = [e.id for e in roots.values() if e.of is not None]
        cache = cache or RequestCache()
        hidden = self._sight.find_hidden(user_id, {*own, *posts}, cache)
        seen = {i: _signed(e, cache) for i, e in roots.items() if i not in hidden}
        lost = {of.entry_id for i, of in shared.items() if i not in hidden} - seen.keys()
        # A post that its author keeps for himself lies elsewhere now: as in chains, its share tells.
        live = self._sight.find_shares(lost, cache) if lost else {}
        return {
            entry.id: _shown(_signed(entry, cache), shared.get(entry.id), seen, live)
            for entry in entries.values()
            if entry.id not in hidden
        }

    def _clean(self, entry: Entry) -> Entry:
        return entry if entry.cleaned_by == SANITIZER_VERSION else self._recleaned(entry)

    def _recleaned(self, entry: Entry) -> Entry:
        """Clean an entry that an older sanitiser let through, and keep that."""
        stored = entry_bodies.Body(entry.content, entry.summary, entry.excerpt, entry.raw, entry.cleaned_by)
        body = entry_bodies.reclean_body(stored, self._sanitize)
        fresh = dataclasses.replace(entry, **body._asdict())
        self._entries.update_clean_body(fresh, entry.cleaned_by)
        return fresh

    def get_key(self, user_id: int, entry_id: int) -> EntryKey:
        """Return the key of an entry that the user may see; of a share, that of what was shared.

        Raises:
            NotFoundError: as for :meth:`get`.
        """
        found = self._keys.find_by_ids([entry_id], self._allowed(user_id, entry_id))
        if not found or self._entries.find_origins(found):
            entry = self._find(user_id, entry_id)
            # Whoever keeps a share keeps what was shared, which stays when the share is taken back.
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
        """Note for the user himself that he likes an entry, or not; return whether that changed anything.

        Raises:
            NotFoundError: as for :meth:`get`.
        """
        if not on:
            return self._marks.unlike(user_id, self.get_kept_key(user_id, entry_id).id)
        return self._marks.like(user_id, self.get_key(user_id, entry_id), now)

    def find_liked(self, user_id: int, entry_ids: Sequence[int]) -> set[int]:
        """Return those of these entries, which nobody shared, that the user likes."""
        return self._marks.find_liked(user_id, entry_ids)

    def set_starred(self, user_id: int, entry_id: int, on: bool, now: dt.datetime) -> bool:
        """Star or unstar an entry; return whether that changed anything.

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
            # An entry that is tagged too is counted once.
            if (
                counts
                and not self._entries.change_star_count(key.feed_id, key.id, 1 if on else -1, session)
                and on
            ):
                raise NotFoundError(entry_id=entry_id)  # retention was faster
            return True

        try:
            return self._store.run_in_transaction(write_star)
        except ExistsError:
            return False

    def get_kept_key(self, user_id: int, entry_id: int) -> EntryKey:
        """Return what a user may take his marks from: what he marked, or may see.

        Raises:
            NotFoundError: as for :meth:`get`.
        """
        return self._kept(user_id, entry_id) or self.get_key(user_id, entry_id)

    def _kept(self, user_id: int, entry_id: int) -> EntryKey | None:
        """Return what a user's mark of an entry is about, also of one that he may not see any more.

        What he keeps is his to let go: a post may be closed or taken back meanwhile, and its shares too.
        """
        feed_id = self._marks.find_feed(user_id, entry_id)
        if feed_id is None:
            share = self._sight.find_shares([entry_id], RequestCache()).get(entry_id)
            entry_id = share.of.entry_id if share else entry_id
            feed_id = self._marks.find_feed(user_id, entry_id) if share else None
        return None if feed_id is None else EntryKey(entry_id, feed_id, 0, 0)


def _signed(entry: Entry, cache: RequestCache) -> Entry:
    """Return a post with the name that its author has now; anything else as it is."""
    if entry.of is None or entry.of.entry_id != entry.id:
        return entry
    by = cache.seen.get(entry.id)
    return dataclasses.replace(entry, author=by.name) if by else entry


def _shown(entry: Entry, of: Origin | None, seen: Mapping[int, Entry], shares: Mapping[int, Share]) -> Entry:
    """Return an entry as one sees it who may see it, but perhaps not what it shares."""
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
    """Return the entry of a share with what it shares; its place and time are the share's own."""
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
