"""Grouping: one row per article in a list, for the entry, its copies in other feeds, and all their shares.

The row that represents a group is the one that comes first in the list's order. Nothing is stored for that,
so the choice is the same on every page of a list. Members that the list lacks, that the user's rules hide or
that are gone can't represent a group. In search results, the search engine says which members match.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from app.gateways.reading.late_copies import NONE_LATE, LateCopies, LateCopyGateway
from app.gateways.reading.stories import StoryGateway
from app.gateways.reading.streams import Sources
from app.gateways.sharing.visibility import VisibilityGateway, build_sharer
from app.mappers.feeds.entries import EntryMapper
from app.mappers.reading.entry_keys import EntryKeyMapper, to_millis
from app.mappers.reading.marks import MarkMapper
from app.mappers.sharing.profiles import ProfileMapper
from app.mappers.sharing.shares import ShareMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.reading.entry import Entry, EntryKey
from app.models.reading.story import Story, StoryChoice
from app.models.reading.stream import MARKED, Show, Snapshot, Sort, StreamKind
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
        folded: how many of them are copies of another entry, not shares of it.
        copies: by key, the copies of the article in the list's feeds.
        sharers: by key, the followed people who shared the entry, oldest share first.
        origins: by key of a share, the shared entry.
        late: copies that arrived after their story was read or hidden.
    """

    grouped_ids: Collection[int] = frozenset()
    folded: int = 0
    copies: Mapping[int, tuple[EntryKey, ...]] = dataclasses.field(default_factory=dict)
    sharers: Mapping[int, tuple[Sharer, ...]] = dataclasses.field(default_factory=dict)
    origins: Mapping[int, Origin] = dataclasses.field(default_factory=dict)
    late: LateCopies = NONE_LATE

    def join(self, more: ShareGroups) -> ShareGroups:
        """Return the groups of both pages together."""
        return ShareGroups(
            {*self.grouped_ids, *more.grouped_ids},
            self.folded + more.folded,
            {**self.copies, **more.copies},
            {**self.sharers, **more.sharers},
            {**self.origins, **more.origins},
            self.late.join(more.late),
        )


NOTHING = ShareGroups()
#: Instead of the id of the entry that represents a group: none does.
NO_ENTRY = 0
#: Returns those of some entries that a search finds, in the order of its results.
Matcher = Callable[[Sequence[EntryKey]], Sequence[EntryKey]]
#: Streams in which the copies of an article share one row; feeds show all.
GROUPED = frozenset(
    (
        *(StreamKind.TODAY, StreamKind.ALL, StreamKind.FOLDER, StreamKind.FOLLOWING),
        *(StreamKind.STARRED, StreamKind.TAG, StreamKind.SEARCH),
    )
)


@dataclasses.dataclass(frozen=True, slots=True)
class PageStories:
    """The stories of the entries on a page.

    Attributes:
        by_entry: by id of an entry or shared entry.
        listed: by story, its copies in feeds of the list, or with a mark in lists of marks.
        late: those of them that arrived after their story was read.
    """

    by_entry: Mapping[int, Story] = dataclasses.field(default_factory=dict)
    listed: Mapping[int, tuple[EntryKey, ...]] = dataclasses.field(default_factory=dict)
    late: LateCopies = NONE_LATE

    def get_root(self, entry_id: int) -> int:
        """Return what all copies of an entry have in common: the id of their story, or its own id."""
        story = self.by_entry.get(entry_id)
        return story.id if story else entry_id


NO_STORIES = PageStories()


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
        stories: StoryGateway,
        late_copies: LateCopyGateway,
        marks: MarkMapper,
    ) -> None:
        self._stories, self._late_copies, self._marks = stories, late_copies, marks
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
        firsts = {f: cards[f].find_first_seq(mine[f].keep_newest) for f in some}
        wanted = {f: mine[f].state.find_seqs(firsts[f], cards[f].last_seq) for f in some}
        return len(self._keys.find_roots(wanted))

    def make_own_subscriptions(self, user_id: int) -> list[Subscription]:
        """Return stand-in subscriptions to the user's own shares; empty without a profile."""
        profile = self._profiles.find(user_id)
        feeds = (profile.feed_id, profile.private_feed_id) if profile else ()
        return [Subscription(0, user_id, feed_id, state=ALL_READ) for feed_id in feeds]

    def find_copy_feeds(self, snapshot: Snapshot, keys: Sequence[EntryKey], choice: StoryChoice) -> set[int]:
        """Return the feeds that hold copies of these entries, whose subscriptions a page needs."""
        if snapshot.ref.kind not in GROUPED or snapshot.ref.kind in MARKED:
            return set()
        found = self._stories.find([key.id for key in keys], choice).values()
        return {member.feed_id for story in found for member in story.members}

    def find_stories(
        self,
        snapshot: Snapshot,
        stored: Mapping[int, Entry],
        choice: StoryChoice,
        mine: Mapping[int, Subscription] | None,
    ) -> PageStories:
        """Return the stories of a page's entries.

        Args:
            stored: as for :meth:`find_shares`.
            mine: the user's subscriptions to the list's feeds, if they were just read.
        """
        if snapshot.ref.kind is StreamKind.FEED and choice.hidden:
            return self._find_hidden(snapshot, stored, choice, mine)
        if snapshot.ref.kind not in GROUPED:
            return NO_STORIES
        found = self._stories.find({e.of.entry_id if e.of else e.id for e in stored.values()}, choice)
        if not found:
            return NO_STORIES
        stories = {story.id: story for story in found.values()}
        members = [member for story in stories.values() for member in story.members]
        if snapshot.ref.kind in MARKED:
            marked = self._find_marked(snapshot, members)
            listed = {
                i: tuple(marked[m.id] for m in story.members if m.id in marked)
                for i, story in stories.items()
            }
            return PageStories(found, listed)
        feed_ids = {member.feed_id for member in members}
        if mine is None:
            # Those of the rows are needed soon, and one command reads them all.
            rows = {entry.feed_id for entry in stored.values()}
            found_ones = self._subscriptions.find_by_user(snapshot.user_id, list(feed_ids | rows))
            mine = {s.feed_id: s for s in found_ones}
        readable = {f: mine[f] for f in feed_ids & snapshot.feeds.keys() if f in mine}
        shows_hidden = snapshot.ref.kind is StreamKind.SEARCH
        listed = {
            i: tuple(
                m
                for m in story.members
                if m.feed_id in readable and (shows_hidden or is_shown(m, readable[m.feed_id]))
            )
            for i, story in stories.items()
        }
        late = self._late_copies.find(snapshot, stories.values(), listed, mine, since=choice.since)
        if not shows_hidden:
            # Copies that were there are marked as hidden, and come back if they are marked as unread.
            hidden = tuple(
                (i, m)
                for i in choice.hidden & listed.keys()
                for m in listed[i]
                if not readable[m.feed_id].hidden.has_seq(m.seq)
            )
            left = {m for _, m in hidden}
            listed = {i: tuple(m for m in some if m not in left) for i, some in listed.items()}
            late = late._replace(hidden=hidden)
        return PageStories(found, listed, late)

    def _find_hidden(
        self,
        snapshot: Snapshot,
        stored: Mapping[int, Entry],
        choice: StoryChoice,
        mine: Mapping[int, Subscription] | None,
    ) -> PageStories:
        """Return what the list of a feed leaves out: late copies of stories that the user has hidden."""
        found = self._stories.find([e.id for e in stored.values() if e.of is None], choice)
        keys = {m.id: (s.id, m) for s in found.values() if s.id in choice.hidden for m in s.members}
        some = [keys[i] for i in stored if i in keys]
        if not some:
            return NO_STORIES
        if mine is None:
            feed_ids = list({key.feed_id for _, key in some})
            mine = {s.feed_id: s for s in self._subscriptions.find_by_user(snapshot.user_id, feed_ids)}
        hidden = tuple(
            (i, key)
            for i, key in some
            if key.feed_id in mine and not mine[key.feed_id].hidden.has_seq(key.seq)
        )
        return PageStories(late=LateCopies(hidden=hidden))

    def _find_marked(self, snapshot: Snapshot, members: Sequence[EntryKey]) -> dict[int, EntryKey]:
        """Return the keys of those entries that are in a list of marks; their time is that of the mark."""
        tag, found = snapshot.ref.id, {}
        for mark in self._marks.find_marks(snapshot.user_id, [member.id for member in members]).values():
            at = mark.starred_at if tag is None else mark.tagged_at if tag in mark.tags else None
            if at is not None:
                found[mark.entry_id] = EntryKey(mark.entry_id, mark.feed_id, 0, to_millis(at))
        return found

    def find_shares(
        self,
        snapshot: Snapshot,
        stored: Mapping[int, Entry],
        people: Iterable[Subscription],
        stories: PageStories = NO_STORIES,
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
        origins |= {member.id for story in stories.by_entry.values() for member in story.members}
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
        *,
        stories: PageStories = NO_STORIES,
        matcher: Matcher | None = None,
    ) -> ShareGroups:
        """Return the groups of the shares and copies on a page.

        Args:
            entries: the rows of the page.
            shares: the result of :meth:`find_shares`.
            stories: the result of :meth:`find_stories`.
            matcher: of the search; required for search results.
        """
        if not keys:
            return NOTHING
        origins = {i: entry.of for i, entry in entries.items() if entry.of is not None}
        shared = {k.id: origins[k.id].entry_id if k.id in origins else k.id for k in keys}
        roots = {key: stories.get_root(root) for key, root in shared.items()}
        profiles = self._sight.find_visible_profiles(snapshot.user_id, shares)
        by_root: dict[int, list[Share]] = collections.defaultdict(list)
        for share in shares:
            by_root[stories.get_root(share.of.entry_id)].append(share)
        sharers = {
            key: tuple(build_sharer(s, profiles[s.id]) for s in _drop_repeated(by_root[root]))
            for key, root in roots.items()
            if root in by_root
        }
        hidden = {key.id for _, key in stories.late.hidden}
        shown = [key for key in keys if key.id not in hidden]
        groups = self._find_members(snapshot, shown, roots, origins.values(), by_root, stories=stories)
        if matcher is None:
            first = _choose_listed(snapshot, groups, stories.late.ids)
        else:
            first = _choose_found(keys, groups, matcher)
        left = frozenset(k.id for k in keys if k.id in hidden or first.get(roots[k.id], k.id) != k.id)
        folded = sum(roots[i] in stories.listed for i in left)
        copies = {
            key: tuple(m for m in stories.listed[root] if m.id != shared[key])
            for key, root in roots.items()
            if key not in left and root in stories.listed
        }
        return ShareGroups(left, folded, copies, sharers, origins, stories.late)

    def _find_members(
        self,
        snapshot: Snapshot,
        keys: Sequence[EntryKey],
        roots: Mapping[int, int],
        origins: Iterable[Origin],
        by_root: Mapping[int, Sequence[Share]],
        *,
        stories: PageStories,
    ) -> dict[int, dict[int, EntryKey]]:
        """Return root → the keys that may represent it, by id."""
        groups: dict[int, dict[int, EntryKey]] = collections.defaultdict(dict)
        for key in keys:
            if roots[key.id] in by_root or roots[key.id] in stories.listed:
                groups[roots[key.id]][key.id] = key
        for root in groups:
            groups[root].update((m.id, m) for m in stories.listed.get(root, ()))
        elsewhere = {o.entry_id: o.feed_id for o in origins if o.feed_id in snapshot.feeds}
        missing = [i for i in elsewhere if i not in stories.by_entry and i in groups and i not in groups[i]]
        if missing:
            for key in self._keys.find_by_ids(missing, [elsewhere[i] for i in missing]):
                groups[key.id][key.id] = key
        for root, members in groups.items():
            for s in by_root.get(root, ()) if snapshot.ref.kind not in MARKED else ():
                members.setdefault(s.id, EntryKey(s.id, s.feed_id, s.seq, to_millis(s.at)))
        return groups

    def find_siblings(
        self, user_id: int, keys: Sequence[EntryKey], choice: StoryChoice, *, is_social: bool
    ) -> list[EntryKey]:
        """Return the keys of the same articles in the user's other feeds: shares and copies.

        Args:
            is_social: whether the user follows people.
        """
        people = [s.feed_id for s in self.find_people(user_id)] if is_social else []
        stories = self._stories.find([key.id for key in keys], choice)
        if not people and not stories:
            return []
        # The siblings of an entry that the user may not see would reveal what it is about.
        feed_ids = {key.feed_id for key in keys}
        feed_ids |= {member.feed_id for story in stories.values() for member in story.members}
        mine = self._subscriptions.find_by_user(user_id, list(feed_ids - set(people)))
        own = {s.feed_id for s in mine}
        keys = [key for key in keys if key.feed_id in own or key.feed_id in people]
        if shared := {key.id for key in keys if key.feed_id in people}:
            hidden = self._sight.find_hidden(
                user_id, shared
            )  # people whom the user follows may close their stream
            keys = [key for key in keys if key.id not in hidden]
        origins = self._entries.find_origins(keys) if people else {}
        roots = {origins[k.id].entry_id if k.id in origins else k.id for k in keys}
        known = {k.id for k in keys}
        copies = {m.id: m for s in self._stories.find(roots, choice).values() for m in s.members}
        roots |= copies.keys()
        shares = self._shares.find_among(list(roots), people)
        found = [EntryKey(s.id, s.feed_id, s.seq, to_millis(s.at)) for s in shares if s.id not in known]
        others = {m.id: m.feed_id for m in copies.values() if m.id not in known and m.feed_id in own}
        found += [copies[i] for i in others]
        missing = {o.entry_id: o.feed_id for o in origins.values() if o.entry_id not in {*known, *others}}
        missing |= {
            m.id: m.feed_id for m in copies.values() if m.id not in known and m.feed_id not in feed_ids
        }
        if missing:
            mine = self._subscriptions.find_by_user(user_id, list(set(missing.values())))
            found += self._keys.find_by_ids(list(missing), [s.feed_id for s in mine])
        return found

    def find_sharers(
        self, user_id: int, entry_id: int, origin: Origin | None, story: Story | None = None
    ) -> tuple[tuple[Sharer, ...], tuple[Share, ...]]:
        """Return the sharers of an entry or its copies among followed people and the user, and the shares."""
        root = origin.entry_id if origin else entry_id
        copies = [member.id for member in story.members if member.id != root] if story else []
        shares = self._sight.find_followed_shares(user_id, root, *copies)
        found = self._sight.find_sharers(user_id, shares)
        shown = tuple(s for s in _drop_repeated(shares) if s.id in found)
        return tuple(found[s.id] for s in shown), shown


def is_shown(key: EntryKey, mine: Subscription) -> bool:
    """Return whether the user's rules don't hide an entry of a feed; marked as unread again, it's back."""
    return not (mine.hidden.has_seq(key.seq) and mine.state.is_read(key.seq))


def _choose_listed(
    snapshot: Snapshot, groups: Mapping[int, Mapping[int, EntryKey]], late: Collection[int]
) -> dict[int, int]:
    """Return root → the key that represents it in a list: the first.

    Args:
        late: copies of stories that were read before. Lists of unread entries leave them out; below unread
            entries, an earlier copy represents their story. Other lists don't depend on what was read.
    """
    firsts = {}
    ranks = {key.id: n for n, key in enumerate(snapshot.ranking or ())} if groups else {}
    is_unread = snapshot.show is Show.UNREAD
    for root, members in groups.items():
        listed = [place for k in members.values() if (place := _place(snapshot, k, ranks)) is not None]
        if late and (is_unread or snapshot.sort is Sort.UNREAD_ON_TOP):
            others = [place for place in listed if place[-1] not in late]
            if is_unread and listed and not others:
                firsts[root] = NO_ENTRY
                continue
            listed = others or listed
        if listed:
            firsts[root] = min(listed)[-1]
    return firsts


def _choose_found(
    keys: Sequence[EntryKey], groups: Mapping[int, Mapping[int, EntryKey]], matcher: Matcher
) -> dict[int, int]:
    """Return root → the key that represents it in search results: the first that the search finds.

    The search looks at all members of a group together, whatever page they are on. So each page has the same
    answer, even if the order of members with almost the same relevance differs from that of the results.
    """
    here = {key.id for key in keys}
    several = {root: members for root, members in groups.items() if len(members) > 1}
    elsewhere = {i: key for members in several.values() for i, key in members.items() if i not in here}
    if elsewhere:
        found = matcher([key for members in several.values() for key in members.values()])
    else:
        found = keys  # the page has all members
    order = {key.id: n for n, key in enumerate(found)}
    return {
        root: min(listed, key=order.__getitem__)
        for root, members in several.items()
        if (listed := [i for i in members if i in order])
    }


def _drop_repeated(shares: Sequence[Share]) -> list[Share]:
    """Return the first share of each person: some share several copies of an article."""
    return list({share.user_id: share for share in reversed(shares)}.values())[::-1]


def _place(snapshot: Snapshot, key: EntryKey, ranks: Mapping[int, int]) -> tuple[int, int, int, int] | None:
    """Return the sort position of a key in a list, ending with its id; None: the list lacks it.

    Args:
        ranks: the places of the list's ranking, by id.
    """
    if snapshot.ref.kind in MARKED:
        sign = 1 if snapshot.sort is Sort.OLDEST else -1
        return 0, sign * key.at, sign * key.id, key.id
    if key.id in ranks:
        return 0, ranks[key.id], 0, key.id
    feed = snapshot.feeds.get(key.feed_id)
    if snapshot.ref.kind is StreamKind.TODAY:
        return None
    if feed is None or not feed.first_seq <= key.seq <= feed.last_seq:
        return None
    read = feed.state.is_read(key.seq)
    if read and snapshot.show is Show.UNREAD:
        return None
    if snapshot.ranking is not None:
        return 1, -key.at, -key.id, key.id
    segment = int(read) if snapshot.sort is Sort.UNREAD_ON_TOP and snapshot.show is Show.ALL else 0
    if snapshot.sort is Sort.OLDEST:
        return segment, key.at, key.id, key.id
    return segment, -key.at, -key.id, key.id
