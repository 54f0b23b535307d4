"""Copies that arrived after the reader had read their story: they count as read.

Nothing is written per reader when a copy arrives. A page that has such a copy shows its story as read. Then
the copy is marked as read, so that counts and apps agree.

Only what the reader has read counts. A copy in a feed tells nothing that the start of the subscription, its
days until read, or a rule of that feed has marked as read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from app.mappers.reading.rules import RuleMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.reading.entry import EntryKey
from app.models.reading.rules import Rule
from app.models.reading.story import Story
from app.models.reading.stream import Snapshot, StreamKind
from app.models.subscriptions.read_state import ReadState
from app.models.subscriptions.subscription import Subscription

#: Lists of only some feeds of a reader, who may have read a story in another feed.
PARTIAL = frozenset({StreamKind.FOLDER})


class LateCopies(NamedTuple):
    """Copies of stories that the reader had read before they arrived.

    Attributes:
        ids: as of the list's snapshot. They don't stand for their story where a copy that was read does.
        unread: those to be marked as read now.
        hidden: copies of stories that the reader has hidden, to be hidden now, with the ids of the stories.
    """

    ids: frozenset[int] = frozenset()
    unread: tuple[EntryKey, ...] = ()
    hidden: tuple[tuple[int, EntryKey], ...] = ()

    def join(self, more: LateCopies) -> LateCopies:
        """Return the late copies of both pages together."""
        unread, hidden = (
            dict.fromkeys((*self.unread, *more.unread)),
            dict.fromkeys((*self.hidden, *more.hidden)),
        )
        return LateCopies(self.ids | more.ids, tuple(unread), tuple(hidden))


NONE_LATE = LateCopies()


class LateCopyGateway:
    """Finds late copies among the stories of a page."""

    def __init__(self, subscriptions: SubscriptionMapper, rules: RuleMapper) -> None:
        self._subscriptions, self._rules = subscriptions, rules

    def find(
        self,
        snapshot: Snapshot,
        stories: Iterable[Story],
        listed: Mapping[int, Collection[EntryKey]],
        mine: Mapping[int, Subscription],
        *,
        since: int,
    ) -> LateCopies:
        """Return the late copies on a page.

        Args:
            listed: story → its copies in the list.
            since: an id; copies up to it were there while the user wanted copies apart.
            mine: the user's subscriptions to the feeds of the copies. In lists of :data:`PARTIAL`, others are
                read if a copy in another feed may tell.
        """
        pairs = [
            (copy, earlier)
            for story in stories
            for copy in listed[story.id]
            if copy.id > since and _is_untouched(copy, snapshot.feeds[copy.feed_id].state)
            for earlier in story.members
            if earlier.id < copy.id and earlier.feed_id != copy.feed_id
        ]
        missing = {earlier.feed_id for _, earlier in pairs} - mine.keys()
        if missing and snapshot.ref.kind in PARTIAL:
            found = self._subscriptions.find_by_user(snapshot.user_id, list(missing))
            mine = {**mine, **{one.feed_id: one for one in found}}
        pairs = [(copy, earlier) for copy, earlier in pairs if earlier.feed_id in mine]
        ruled = self._find_ruled(snapshot.user_id, [mine[e.feed_id] for _, e in pairs if is_tried(e, mine)])
        pairs = [(copy, earlier) for copy, earlier in pairs if earlier.feed_id not in ruled]
        ids, unread = set[int](), dict[int, EntryKey]()
        for copy, earlier in pairs:
            theirs, now = mine[earlier.feed_id], mine[copy.feed_id].state
            is_unread = _is_untouched(copy, now)
            # Within the list, its snapshot decides: each of its pages has the same answer.
            then = snapshot.feeds.get(earlier.feed_id)
            if is_read_by_hand(earlier, theirs, then.state if then else theirs.state) and (then or is_unread):
                ids.add(copy.id)
            if is_unread and is_read_by_hand(earlier, theirs, theirs.state):
                unread[copy.id] = copy
        if not ids and not unread:
            return NONE_LATE
        return LateCopies(frozenset(ids), tuple(unread.values()))

    def _find_ruled(self, user_id: int, feeds: Sequence[Subscription]) -> set[int]:
        """Return those of these feeds whose entries a rule of some feeds marks as read.

        A rule of all feeds is tried on the copies, too.
        """
        if not feeds:
            return set()
        rules = [rule for rule in self._rules.find_by_user(user_id).rules if rule.enabled and rule.read]
        return {one.feed_id for one in feeds if any(_is_of_feed(rule, one) for rule in rules)}


def is_tried(key: EntryKey, mine: Mapping[int, Subscription]) -> bool:
    """Return whether rules were tried on an entry that counts as read."""
    one = mine[key.feed_id]
    return one.ruled is not None and key.seq <= one.ruled and is_read_by_hand(key, one, one.state)


def is_read_by_hand(key: EntryKey, mine: Subscription, state: ReadState) -> bool:
    """Return whether the user has read an entry, unless a rule has marked it.

    What was there before the subscription, what rules hide, and what its days until read have marked as read
    doesn't count.
    """
    return (
        state.is_read(key.seq)
        and key.id > mine.id
        and key.seq > mine.read_after_done
        and not mine.hidden.has_seq(key.seq)
    )


def _is_untouched(key: EntryKey, state: ReadState) -> bool:
    """Return whether an entry is unread, and wasn't marked as unread: then it was read or has changed."""
    return not state.is_read(key.seq) and key.seq not in state.unread


def _is_of_feed(rule: Rule, mine: Subscription) -> bool:
    # Its folders may be within those of the rule; that costs another query, and is decided on the safe side.
    return mine.feed_id in rule.feeds or bool(rule.folders and mine.folder_ids)
