"""Grouping: one row per article in a list, for all shares of the same entry and the entry itself.

The row that represents a group is the one that comes first in the list's order. Nothing is stored for that,
so the choice is the same on every page of a list.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

from app.gateways.reading.streams import Sources
from app.gateways.sharing.visibility import VisibilityGateway, build_sharer
from app.mappers.feeds.entries import EntryMapper
from app.mappers.reading.entry_keys import EntryKeyMapper, to_millis
from app.mappers.sharing.profiles import ProfileMapper
from app.mappers.sharing.shares import ShareMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.reading.entry import Entry, EntryKey
from app.models.reading.stream import Show, Snapshot, Sort, StreamKind
from app.models.sharing.sharing import Origin, Share, Sharer
from app.models.subscriptions.muting import exclude_muted, is_followed_person
from app.models.subscriptions.read_state import ReadState
from app.models.subscriptions.subscription import Subscription

#: Up to this number of unread shares, count articles; above it, count the shares, which costs nothing.
EXACT = 1000
#: More than any feed has entries: all of a user's own shares count as read.
ALL_READ = ReadState(upto=1 << 53)


@dataclasses.dataclass(frozen=True, slots=True)
class ShareGroups:
    """The groups of shares on a page.

    Attributes:
        grouped_ids: keys that another row represents.
        sharers: by key, the followed people who shared the entry, oldest share first.
        origins: by key of a share, the shared entry.
    """

    grouped_ids: Collection[int] = frozenset()
    sharers: Mapping[int, tuple[Sharer, ...]] = dataclasses.field(default_factory=dict)
    origins: Mapping[int, Origin] = dataclasses.field(default_factory=dict)

    def join(self, more: ShareGroups) -> ShareGroups:
        """Return the groups of both pages together."""
        return ShareGroups(
            {*self.grouped_ids, *more.grouped_ids},
            {**self.sharers, **more.sharers},
            {**self.origins, **more.origins},
        )


NOTHING = ShareGroups()


class GroupingGateway:
    """Groups the shares in a list, and finds their sharers."""

    def __init__(
        self,
        *,
        subscriptions: SubscriptionMapper,
        profiles: ProfileMapper,
        shares: ShareMapper,
        entries: EntryMapper,
        keys: EntryKeyMapper,
        visibility: VisibilityGateway,
    ) -> None:
        self._subscriptions, self._profiles, self._shares = subscriptions, profiles, shares
        self._entries, self._keys, self._sight = entries, keys, visibility

    def find_people(self, user_id: int) -> list[Subscription]:
        """Return a user's subscriptions to people."""
        return self._subscriptions.find_people(user_id)

    def count_unread_rows(self, sources: Sources, counts: Mapping[int, int]) -> int:
        """Return how many rows of the list of people's shares are unread, counting each article once.

        Args:
            sources: subscriptions; sites and muted people are left out.
            counts: unread entries by feed.
        """
        some = {
            f: counts[f]
            for f, mine in sources.subscriptions.items()
            if is_followed_person(mine) and counts.get(f)
        }
        total = sum(some.values())
        # A single person shares an article only once.
        if len(some) < 2 or total > EXACT:
            return total
        cards, mine = sources.cards, sources.subscriptions
        wanted = {f: mine[f].state.find_seqs(cards[f].first_seq, cards[f].last_seq) for f in some}
        return len(self._keys.find_roots(wanted))

    def make_own_subscriptions(self, user_id: int) -> list[Subscription]:
        """Return stand-in subscriptions to the user's own shares; empty without a profile."""
        profile = self._profiles.find(user_id)
        feeds = (profile.feed_id, profile.private_feed_id) if profile else ()
        return [Subscription(0, user_id, feed_id, state=ALL_READ) for feed_id in feeds]

    def find_shares(
        self,
        snapshot: Snapshot,
        stored: Mapping[int, Entry],
        people: Iterable[Subscription],
    ) -> list[Share]:
        """Read all shares that a page needs: its own, the posts that they share, and other shares of the same
        entries.

        Args:
            stored: the page's entries as stored, before :meth:`EntryGateway.join_shares`.
            people: the user's subscriptions to people.

        Returns:
            The visible shares by people whom the user follows and doesn't mute, oldest first.
        """
        feeds = {s.feed_id for s in exclude_muted(people)}
        if snapshot.ref.is_own:
            feeds |= set(snapshot.feeds)
        shares = [e for e in stored.values() if e.of is not None]
        if not feeds and not shares:
            return []
        origins = {e.of.entry_id if e.of else e.id for e in stored.values()}
        # A post is in the feed that its shares name; feeds of sites contain no shares.
        places = {feed for e in shares if e.of for feed in (e.feed_id, e.of.feed_id)}
        found = self._shares.find_among(list(origins), list(feeds | places))
        seen = self._sight.find_visible_profiles(snapshot.user_id, found)
        return [s for s in found if s.id in seen and s.feed_id in feeds]

    def group_shares(
        self,
        snapshot: Snapshot,
        keys: Sequence[EntryKey],
        entries: Mapping[int, Entry],
        shares: Sequence[Share],
    ) -> ShareGroups:
        """Return the groups of the shares on a page.

        Args:
            entries: the rows of the page.
            shares: the result of :meth:`find_shares`.
        """
        if not keys:
            return NOTHING
        origins = {i: entry.of for i, entry in entries.items() if entry.of is not None}
        roots = {k.id: origins[k.id].entry_id if k.id in origins else k.id for k in keys}
        profiles = self._sight.find_visible_profiles(snapshot.user_id, shares)
        by_root: dict[int, list[Share]] = collections.defaultdict(list)
        for share in shares:
            by_root[share.of.entry_id].append(share)
        sharers = {
            key: tuple(build_sharer(s, profiles[s.id]) for s in by_root[root])
            for key, root in roots.items()
            if root in by_root
        }
        first = self._first(snapshot, keys, roots, origins.values(), by_root)
        left = frozenset(k.id for k in keys if first.get(roots[k.id], k.id) != k.id)
        return ShareGroups(left, sharers, origins)

    def _first(
        self,
        snapshot: Snapshot,
        keys: Sequence[EntryKey],
        roots: Mapping[int, int],
        origins: Iterable[Origin],
        by_root: Mapping[int, Sequence[Share]],
    ) -> dict[int, int]:
        """Return root → the key that represents it in this list."""
        groups: dict[int, dict[int, EntryKey]] = collections.defaultdict(dict)
        for key in keys:
            if roots[key.id] in by_root:
                groups[roots[key.id]][key.id] = key
        elsewhere = {o.entry_id: o.feed_id for o in origins if o.feed_id in snapshot.feeds}
        missing = [i for i in elsewhere if i in groups and i not in groups[i]]
        if missing:
            for key in self._keys.find_by_ids(missing, [elsewhere[i] for i in missing]):
                groups[key.id][key.id] = key
        for root, members in groups.items():
            for s in by_root[root]:
                members.setdefault(s.id, EntryKey(s.id, s.feed_id, s.seq, to_millis(s.at)))
        firsts = {}
        for root, members in groups.items():
            listed = [place for k in members.values() if (place := _place(snapshot, k)) is not None]
            if listed:
                firsts[root] = min(listed)[-1]
        return firsts

    def find_siblings(self, user_id: int, keys: Sequence[EntryKey]) -> list[EntryKey]:
        """Return the keys of the same articles in the user's other feeds."""
        people = [s.feed_id for s in self.find_people(user_id)]
        if not people:
            return []
        # The siblings of an entry that the user may not see would reveal what it is about.
        feed_ids = list({key.feed_id for key in keys} - set(people))
        own = {s.feed_id for s in self._subscriptions.find_by_user(user_id, feed_ids)} if feed_ids else set()
        keys = [key for key in keys if key.feed_id in own or key.feed_id in people]
        if shared := {key.id for key in keys if key.feed_id in people}:
            hidden = self._sight.find_hidden(
                user_id, shared
            )  # people whom the user follows may close their stream
            keys = [key for key in keys if key.id not in hidden]
        origins = self._entries.find_origins(keys)
        roots = {origins[k.id].entry_id if k.id in origins else k.id for k in keys}
        known = {k.id for k in keys}
        shares = self._shares.find_among(list(roots), people)
        found = [EntryKey(s.id, s.feed_id, s.seq, to_millis(s.at)) for s in shares if s.id not in known]
        missing = {o.entry_id: o.feed_id for o in origins.values() if o.entry_id not in known}
        if missing:
            mine = self._subscriptions.find_by_user(user_id, list(set(missing.values())))
            found += self._keys.find_by_ids(list(missing), [s.feed_id for s in mine])
        return found

    def find_sharers(
        self, user_id: int, entry_id: int, origin: Origin | None
    ) -> tuple[tuple[Sharer, ...], tuple[Share, ...]]:
        """Return the sharers of an entry among followed people and the user, and these shares."""
        shares = self._sight.find_followed_shares(user_id, origin.entry_id if origin else entry_id)
        found = self._sight.find_sharers(user_id, shares)
        shown = tuple(s for s in shares if s.id in found)
        return tuple(found[s.id] for s in shown), shown


def _place(snapshot: Snapshot, key: EntryKey) -> tuple[int, int, int, int] | None:
    """Return the sort position of a key in a list, ending with its id; None: the list lacks it."""
    feed = snapshot.feeds.get(key.feed_id)
    if snapshot.ref.kind is StreamKind.TODAY and all(key.id != one.id for one in snapshot.ranking or ()):
        return None
    if feed is None or not feed.first_seq <= key.seq <= feed.last_seq:
        return None
    read = feed.state.is_read(key.seq)
    if read and snapshot.show is Show.UNREAD:
        return None
    segment = int(read) if snapshot.sort is Sort.UNREAD_ON_TOP and snapshot.show is Show.ALL else 0
    if snapshot.sort is Sort.OLDEST:
        return segment, key.at, key.id, key.id
    return segment, -key.at, -key.id, key.id
