"""What a client did, what it was told, and what must therefore be stored: R01 from a reader's side.

An answer is a promise. A call without one, or with "not now", may have had its effect or not, and may have
it as late as it likes: from then on both values are right, until the end.
"""

from __future__ import annotations

import collections
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.bootstrap.services import Services
from app.embedded.child import poll
from app.models.accounts.actor import Actor
from tests.faults.browser import Browser

_SNAPSHOT = re.compile(r'data-snapshot="([^"]+)"')
#: Entries, or feeds, are held to be so.
Values = dict[int, bool]


class Belief:
    """What must be true of some things, by their id."""

    def __init__(self, values: Mapping[int, bool]) -> None:
        self.sure: Values = dict(values)
        self._maybe: dict[int, set[bool]] = collections.defaultdict(set)

    def told(self, status: int | None, changes: Mapping[int, bool]) -> None:
        """Take in the answer to a change of these things."""
        if status is not None and status < 400:
            self.sure.update(changes)
        elif status is None or status == 503:
            for key, value in changes.items():
                self._maybe[key].add(value)

    def wrong(self, stored: Mapping[int, bool]) -> list[int]:
        """Return the things that are stored as they cannot be."""
        return [k for k, value in self.sure.items() if stored.get(k, False) not in {value, *self._maybe[k]}]


class Reader:
    """Somebody who reads by forms, one call after the other, and believes what he is told.

    Args:
        entries: entry id → read, of feeds that he follows all the time.
        urls: feeds that he follows now and then.
    """

    def __init__(
        self, actor: Actor, browser: Browser, entries: Mapping[int, bool], urls: Sequence[str], seed: int
    ) -> None:
        self.actor, self._browser = actor, browser
        self._rng = random.Random(seed)
        self._entries = list(entries)
        self.read = Belief(entries)
        self.starred = Belief(dict.fromkeys(entries, False))
        self.followed = Belief({})
        self._urls = list(urls)
        self._feeds: dict[str, int] = {}
        #: Of the last mass action: what takes it back, what was read before, what was marked since.
        self._undo: tuple[str, Values, set[int]] | None = None
        #: Answers by what was asked.
        self.answers: collections.Counter[tuple[str, int | None]] = collections.Counter()
        self._browser.get("/add")

    @property
    def answered(self) -> int:
        """How many of his calls got an answer."""
        return sum(count for (_, status), count in self.answers.items() if status is not None)

    def act(self) -> None:
        """Do one thing, as soon as somebody is there."""
        if self._browser.status is None:
            poll(lambda: self._browser.get("/healthz") is not None, 60)
        what = self._rng.choices(("mark", "star", "follow", "mass"), (6, 3, 1, 1))[0]
        getattr(self, f"_{what}")()

    def problems(self, services: Services) -> list[str]:
        """Say where what is stored is not what was acknowledged."""
        mine = {s.feed_id: s.state for s in services.mappers.subscriptions.find_by_user(self.actor.user_id)}
        db = services.store.database
        read = {
            e["_id"]: e["feed_id"] in mine and mine[e["feed_id"]].is_read(e["seq"])
            for e in db.entries.find({"_id": {"$in": self._entries}}, {"feed_id": 1, "seq": 1})
        }
        starred = {m["entry_id"]: True for m in db.marks.find({"user_id": self.actor.user_id})}
        held = {
            "read": self.read.wrong(read),
            "starred": self.starred.wrong(starred),
            "followed": self.followed.wrong(dict.fromkeys(mine, True)),
        }
        return [f"R01: {name} of {self.actor.user_id}: {ids[:5]}" for name, ids in held.items() if ids]

    # -- what he does

    def _mark(self) -> None:
        entry, on = self._rng.choice(self._entries), self._rng.random() < 0.7
        status = self._post("mark", "/entries/mark", entry=entry, read=str(on).lower())
        self.read.told(status, {entry: on})
        if self._undo and status == 303:
            self._undo[2].add(entry)

    def _star(self) -> None:
        entry, on = self._rng.choice(self._entries), self._rng.random() < 0.7
        status = self._post("star", "/entries/star", entry=entry, on=str(on).lower())
        self.starred.told(status, {entry: on})

    def _follow(self) -> None:
        url = self._rng.choice(self._urls)
        feed = self._feeds.get(url)
        if feed is not None and self.followed.sure.get(feed):
            self.followed.told(self._post("leave", f"/feeds/{feed}/unsubscribe"), {feed: False})
            return
        status = self._post("follow", "/subscribe", url=url)
        if status == 303 and self._browser.location:
            feed = self._feeds[url] = int(self._browser.location.rsplit("/", 1)[1])
        if feed is not None:
            self.followed.told(status, {feed: True})

    def _mass(self) -> None:
        """Mark everything as read, or take that back."""
        if self._undo:
            token, before, since = self._undo
            self._undo = None
            status = self._post("undo", "/undo", token=token)
            self.read.told(status, {e: on for e, on in before.items() if e not in since})
            return
        if self._browser.get("/read/all") != 200:
            return
        found = _SNAPSHOT.search(self._browser.text)
        assert found, "a list has a snapshot"
        before = dict(self.read.sure)
        done = self._browser.json("/read/mark-all", {"stream": "all", "snapshot": found[1]})
        status = 200 if done else self._browser.status
        self.answers["mass", status] += 1
        self.read.told(status, dict.fromkeys(before, True))
        if done and done["undo"]:
            self._undo = done["undo"], before, set()

    def _post(self, what: str, path: str, **fields: Any) -> int | None:
        status = self._browser.post(path, **fields)
        self.answers[what, status] += 1
        assert status != 503 or self._browser.retry_after == "10"
        return status


def answered(readers: Iterable[Reader]) -> collections.Counter[tuple[str, int | None]]:
    """Return how often what was answered how."""
    return sum((reader.answers for reader in readers), collections.Counter())
