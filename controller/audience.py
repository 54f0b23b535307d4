"""Who is there and what he follows: finds the browsers that an event is for. No I/O.

An event names a user, or feeds. A feed is found by an index of the users who are there, so that one
event about a feed reaches all its readers and costs nothing for those who are away.
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

#: Newest events kept for those who come back.
RECENT = 5000
#: Who has missed more than this is told to ask for everything anew.
REPLAY_MAX = 1000
#: Browsers that hear of new entries ask for their counts spread over 5 ms each, 10 s at most.
SPREAD_MS, SPREAD_MAX_MS = 5, 10_000

Place = tuple[int, int]


class Listener(Protocol):
    """A browser's stream."""

    #: The place of the pass that it came with.
    since: Place

    def queue_event(self, at: str, kind: str, data: dict[str, Any]) -> None:
        """Take an event."""
        ...

    def abort_now(self) -> None:
        """End at once."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class UserEvent:
    """An entry of the stream for people.

    Attributes:
        user_id: whom it is for; None: whoever follows the feeds that ``data`` names.
        data: of kind ``new``: feed id as text → number of new entries.
    """

    at: str
    kind: str
    user_id: int | None
    data: dict[str, Any]

    @property
    def place(self) -> Place:
        """Its id as numbers, which sort."""
        return parse_place(self.at)


def read_event(row: Row) -> UserEvent:
    """Read an entry of the stream; what nobody of ours wrote becomes an event for nobody."""
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
        ValueError: it is none.
    """
    ms, _, number = at.partition("-")
    if not (ms.isascii() and ms.isdigit() and (number or "0").isascii() and (number or "0").isdigit()):
        raise ValueError("not an id of a stream")
    return int(ms), int(number or 0)


def unpack_ids(raw: bytes | None) -> array.array[int]:
    """Return the ids in 8 bytes each, little-endian, as the web tier leaves them."""
    numbers = array.array("q", raw or b"")
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def compute_spread(count: int) -> int:
    """Return over how many milliseconds so many browsers shall spread their questions."""
    return min(count * SPREAD_MS, SPREAD_MAX_MS)


class _User:
    __slots__ = ("feeds", "id", "listeners")

    def __init__(self, user_id: int) -> None:
        self.id = user_id
        self.feeds: array.array[int] = array.array("q")
        self.listeners: list[Listener] = []


class Audience:
    """The users who are there, their browsers and feeds."""

    def __init__(self) -> None:
        self._users: dict[int, _User] = {}
        self._readers: dict[int, list[_User]] = {}

    def count_streams(self, user_id: int) -> int:
        """Return how many streams a user has open."""
        user = self._users.get(user_id)
        return len(user.listeners) if user else 0

    def __len__(self) -> int:
        return sum(len(user.listeners) for user in self._users.values())

    def add_listener(self, listener: Listener, user_id: int, feeds: Iterable[int]) -> None:
        """Let a browser hear of what is for this user; his feeds are those from now on."""
        user = self._users.setdefault(user_id, _User(user_id))
        user.listeners.append(listener)
        self._set_feeds(user, set(feeds))

    def remove_listener(self, listener: Listener, user_id: int) -> None:
        """Let a browser go."""
        user = self._users.get(user_id)
        if user is not None and listener in user.listeners:
            user.listeners.remove(listener)
            if not user.listeners:
                self._set_feeds(user, set())
                del self._users[user_id]

    def notify(self, happened: UserEvent) -> None:
        """Offer an event to the browsers it is for."""
        if happened.kind == EventKind.NEW:
            self._tell_readers(happened)
        elif (user := self._users.get(happened.user_id or 0)) is not None:
            self._tell_one(user, happened)

    def _tell_one(self, user: _User, happened: UserEvent) -> None:
        kind = happened.kind
        if kind == ENDS:
            # A pass from after the end is another session's, however late we read of the end.
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


class RecentEvents:
    """The newest events, for those who come back after a while.

    Args:
        floor: events before this place may be missing.
    """

    def __init__(self, floor: Place) -> None:
        self._floor = floor
        self._events: collections.deque[UserEvent] = collections.deque()

    def add(self, happened: UserEvent) -> None:
        """Keep an event."""
        self._events.append(happened)
        if len(self._events) > RECENT:
            self._floor = self._events.popleft().place

    def has_ended(self, user_id: int, since: str) -> bool:
        """Return whether a session or token of a user ended after a place; True when that is not known."""
        at = parse_place(since)
        return at < self._floor or any(e.kind == ENDS and e.user_id == user_id for e in self._after(at))

    def replay_follows(self, user_id: int, feeds: Iterable[int], since: str) -> set[int]:
        """Return what a user follows now who followed ``feeds`` at a place."""
        found = set(feeds)
        for happened in self._after(parse_place(since)):
            if happened.kind == FOLLOWS and happened.user_id == user_id:
                found = _follows(found, happened)
        return found

    def find_missed(
        self, user_id: int, feeds: set[int], after: Place
    ) -> list[tuple[str, str, dict[str, Any]]] | None:
        """Return (id, kind, data) of what a user has missed; None when that is not known, or too much."""
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
