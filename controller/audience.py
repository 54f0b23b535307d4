"""The browsers that are connected and the feeds they follow: finds the browsers for an event. No I/O.

An event names a user, or feeds. An index of the connected users finds a feed's readers, so one event about
a feed reaches all of them, and users who aren't connected cost nothing.
"""

from __future__ import annotations

import array
import bisect
import collections
import dataclasses
import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from app.models.notifications.events import ENDS, FOLLOWS, EventKind
from controller.follower import Row

#: Number of recent events kept for browsers that reconnect, and of feeds that they name.
RECENT, RECENT_FEEDS = 5000, 100_000
#: A browser that missed more events than this must reload everything.
REPLAY_MAX = 1000
#: Browsers that receive new entries request their counts spread over 5 ms each, 10 s at most.
SPREAD_MS, SPREAD_MAX_MS = 5, 10_000

Place = tuple[int, int]


class Listener(Protocol):
    """A browser's stream."""

    #: The stream position of the browser's pass.
    since: Place

    def queue_event(self, at: str, kind: str, data: dict[str, Any]) -> None:
        """Accept an event."""
        ...

    def abort_now(self) -> None:
        """Close the stream at once."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class UserEvent:
    """An event for users.

    Attributes:
        user_id: The user; None: everyone who follows the feeds that ``data`` names.
        data: For kind ``new``: feed id as text → number of new entries.
    """

    at: str
    kind: str
    user_id: int | None
    data: dict[str, Any]

    @property
    def place(self) -> Place:
        """The event's id as numbers, which sort correctly."""
        return parse_place(self.at)


def read_event(row: Row) -> UserEvent:
    """Read an event of the stream; a malformed entry becomes an event for nobody."""
    at, fields = row
    try:
        user = fields.get(b"user")
        data = json.loads(fields.get(b"data", b"{}"))
        if not isinstance(data, dict):
            raise ValueError("not an object")
        return UserEvent(at.decode(), fields[b"kind"].decode(), int(user) if user else None, data)
    except (KeyError, ValueError):
        return UserEvent(at.decode(), "", 0, {})


def parse_place(at: str) -> Place:
    """Return a stream id ``<ms>-<n>`` as numbers.

    Raises:
        ValueError: The text isn't a stream id.
    """
    ms, _, number = at.partition("-")
    if not (ms.isascii() and ms.isdigit() and (number or "0").isascii() and (number or "0").isdigit()):
        raise ValueError("not an id of a stream")
    return int(ms), int(number or 0)


def unpack_ids(raw: bytes | None) -> array.array[int]:
    """Return the ids stored by the web tier in 8 bytes each, little-endian."""
    numbers = array.array("q", raw or b"")
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def compute_spread(count: int) -> int:
    """Return the milliseconds over which this many browsers should spread their requests."""
    return min(count * SPREAD_MS, SPREAD_MAX_MS)


class _User:
    __slots__ = ("feeds", "id", "listeners")

    def __init__(self, user_id: int) -> None:
        self.id = user_id
        self.feeds: array.array[int] = array.array("q")
        self.listeners: list[Listener] = []


class Audience:
    """The connected users, their browsers and feeds."""

    def __init__(self) -> None:
        self._users: dict[int, _User] = {}
        self._readers: dict[int, list[_User]] = {}

    def count_streams(self, user_id: int) -> int:
        """Return the number of a user's open streams."""
        user = self._users.get(user_id)
        return len(user.listeners) if user else 0

    def __len__(self) -> int:
        return sum(len(user.listeners) for user in self._users.values())

    def add_listener(self, listener: Listener, user_id: int, feeds: Iterable[int]) -> None:
        """Add a browser of this user; ``feeds`` replaces the user's followed feeds."""
        user = self._users.setdefault(user_id, _User(user_id))
        user.listeners.append(listener)
        self._set_feeds(user, set(feeds))

    def remove_listener(self, listener: Listener, user_id: int) -> None:
        """Remove a browser."""
        user = self._users.get(user_id)
        if user is not None and listener in user.listeners:
            user.listeners.remove(listener)
            if not user.listeners:
                self._set_feeds(user, set())
                del self._users[user_id]

    def notify(self, happened: UserEvent) -> None:
        """Queue an event for all browsers that it concerns."""
        if happened.kind == EventKind.NEW:
            self._tell_readers(happened)
        elif (user := self._users.get(happened.user_id or 0)) is not None:
            self._tell_one(user, happened)

    def _tell_one(self, user: _User, happened: UserEvent) -> None:
        kind = happened.kind
        if kind == ENDS:
            # A pass from after the end belongs to another session, however late this event arrives.
            for listener in [each for each in user.listeners if each.since < happened.place]:
                listener.abort_now()
            return
        if kind == FOLLOWS:
            kind = EventKind.COUNTS
            self._set_feeds(user, _follows(set(user.feeds), happened))
        for listener in user.listeners:
            listener.queue_event(happened.at, kind, happened.data if kind == EventKind.IMPORT else {})

    def list_listeners(self) -> Iterator[Listener]:
        """Return all browsers."""
        return itertools.chain.from_iterable(user.listeners for user in list(self._users.values()))

    def _tell_readers(self, happened: UserEvent) -> None:
        told: dict[_User, dict[str, int]] = {}
        for feed_id, count in happened.data.items():
            for user in self._readers.get(int(feed_id), ()):
                told.setdefault(user, {})[feed_id] = count
        pause = compute_spread(sum(len(user.listeners) for user in told))
        for user, feeds in told.items():
            for listener in user.listeners:
                listener.queue_event(happened.at, EventKind.NEW, {"feeds": feeds, "spread_ms": pause})

    def _set_feeds(self, user: _User, feeds: set[int]) -> None:
        before = set(user.feeds)
        for feed_id in before - feeds:
            readers = self._readers[feed_id]
            readers.remove(user)
            if not readers:
                del self._readers[feed_id]
        for feed_id in feeds - before:
            self._readers.setdefault(feed_id, []).append(user)
        user.feeds = array.array("q", sorted(feeds))


def _follows(feeds: set[int], happened: UserEvent) -> set[int]:
    added, removed = (happened.data.get(name, ()) for name in ("added", "removed"))
    return (feeds | set(added)) - set(removed)


def _count_named(happened: UserEvent) -> int:
    return sum(len(value) if isinstance(value, list) else 1 for value in happened.data.values())


class RecentEvents:
    """The newest events, for browsers that reconnect after a while.

    Args:
        floor: Events before this position may be missing.
    """

    def __init__(self, floor: Place) -> None:
        self._floor = floor
        self._events: collections.deque[UserEvent] = collections.deque()
        self._named = 0

    def __len__(self) -> int:
        return len(self._events)

    def add(self, happened: UserEvent) -> None:
        """Store an event, and drop the oldest ones that don't fit."""
        self._events.append(happened)
        self._named += _count_named(happened)
        while len(self._events) > RECENT or self._named > RECENT_FEEDS:
            dropped = self._events.popleft()
            self._floor, self._named = dropped.place, self._named - _count_named(dropped)

    def has_ended(self, user_id: int, since: str) -> bool:
        """Return whether a session or token of a user ended after a position; True if unknown."""
        at = parse_place(since)
        return at < self._floor or any(e.kind == ENDS and e.user_id == user_id for e in self._after(at))

    def replay_follows(self, user_id: int, feeds: Iterable[int], since: str) -> set[int]:
        """Return the feeds that a user follows now, given the feeds that they followed at a position."""
        found = set(feeds)
        for happened in self._after(parse_place(since)):
            if happened.kind == FOLLOWS and happened.user_id == user_id:
                found = _follows(found, happened)
        return found

    def find_missed(
        self, user_id: int, feeds: set[int], after: Place
    ) -> list[tuple[str, str, dict[str, Any]]] | None:
        """Return (id, kind, data) of the events that a user missed; None: unknown, or too many."""
        if after < self._floor:
            return None
        events = self._after(after)
        if len(events) > REPLAY_MAX:
            return None
        found = []
        for e in events:
            if e.kind == EventKind.NEW:
                if mine := {feed: n for feed, n in e.data.items() if int(feed) in feeds}:
                    found.append((e.at, str(EventKind.NEW), {"feeds": mine, "spread_ms": SPREAD_MAX_MS // 5}))
            elif e.user_id == user_id and e.kind not in ("", ENDS):
                kind = str(EventKind.COUNTS) if e.kind == FOLLOWS else e.kind
                found.append((e.at, kind, e.data if kind == EventKind.IMPORT else {}))
        return found

    def _after(self, after: Place) -> list[UserEvent]:
        start = bisect.bisect_right(self._events, after, key=lambda e: e.place)
        return list(itertools.islice(self._events, start, None))
