"""RSS Guard (Debian 12: 4.0) with Eventr as an account of its “Google Reader API”."""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.clients.programs.desk import Desk, Run
from tests.clients.programs.stage import FOLDER, PATIENCE, Stage, program

#: Types of servers that it knows by number, and below which path it asks them. Those like Reedah it asks for
#: a token and names entries by decimal ids.
_TYPES = {"FreshRSS": (1, "/api/greader.php"), "Reedah": (8, "")}
_TIMES = 10
_KEY = 0x1122334455667788
#: It looks for no new version of itself; few of its actions have keys of their own.
_CONFIG = """[general]
update_on_start=false

[main]
first_run=false
first_run_4.0.4=false

[keyboard]
m_actionUpdateAllItems=Ctrl+F1
m_actionMarkAllItemsRead=Ctrl+F2
m_actionSelectNextItem=Ctrl+F3
m_actionSelectNextMessage=Ctrl+F5
m_actionMarkSelectedMessagesAsUnread=Ctrl+F8
m_actionSwitchImportanceOfSelectedMessages=Ctrl+F9
m_actionQuit=Ctrl+F11
"""
FETCH, ALL_READ, NEXT_FEED, NEXT, UNREAD, STAR, QUIT = (f"ctrl+F{n}" for n in (1, 2, 3, 5, 8, 9, 11))


class RssGuard:
    """RSS Guard on a screen, and what it has stored."""

    def __init__(self, desk: Desk, stage: Stage, kind: int) -> None:
        self._desk, self._stage = desk, stage
        self._data = desk.home / "data"
        config = self._data / "config"
        config.mkdir(parents=True)
        (config / "config.ini").write_text(_CONFIG)
        (config / "key.private").write_text(str(_KEY))
        # The first start makes the database; then the account is put into it, as its dialogue does.
        self.run = self.start()
        stage.wait(lambda: self._rows("SELECT 1 FROM Information WHERE inf_key = 'schema_version'"))
        self.run.kill()
        account = {
            "service": kind,
            "username": stage.name,
            "password": _sealed(stage.password),
            "url": stage.url,
            "batch_size": 100,
            "download_only_unread": False,
            "intelligent_synchronization": True,
        }
        with contextlib.closing(sqlite3.connect(self._path)) as db, db:
            db.execute(
                "INSERT INTO Accounts (id, type, proxy_type, custom_data) VALUES (1, 'greader', 0, ?)",
                (json.dumps(account),),
            )
        self.start()

    @property
    def _path(self) -> Path:
        return self._data / "database" / "database.db"

    def start(self) -> Run:
        """Start it; it fetches the list of feeds where it has none, and their entries when it is told to."""
        self.run = self._desk.start(
            program("rssguard"), "--data", str(self._data),
            title="^RSS Guard", QT_QPA_PLATFORM="xcb", QTWEBENGINE_DISABLE_SANDBOX="1",
        )  # fmt: skip
        return self.run

    def _rows(self, query: str, *values: object) -> list[Any]:
        if not self._path.exists():
            return []
        with contextlib.closing(sqlite3.connect(self._path, timeout=30)) as db:
            try:
                return db.execute(query, values).fetchall()
            except sqlite3.OperationalError as e:
                if "no such table" in str(e):
                    return []  # it is about to make them
                raise

    @property
    def feeds(self) -> dict[str, tuple[str, str]]:
        """The title and the folder of each feed by its id, "" for none."""
        rows = self._rows(
            "SELECT f.custom_id, f.title, c.title FROM Feeds f LEFT JOIN Categories c ON f.category = c.id"
        )
        return {feed: (title, folder or "") for feed, title, folder in rows}

    @property
    def items(self) -> dict[int, tuple[bool, bool, str]]:
        """Of each entry whether it is unread and whether it is important, and its title."""
        rows = self._rows("SELECT custom_id, is_read, is_important, title FROM Messages")
        return {int(i[-16:], 16): (not read, bool(star), title) for i, read, star, title in rows}

    @property
    def labels(self) -> set[tuple[str, int]]:
        """Which label lies on which entry."""
        rows = self._rows(
            "SELECT l.name, m.message FROM LabelsInMessages m JOIN Labels l ON m.label = l.custom_id"
        )
        return {(name, int(i[-16:], 16)) for name, i in rows}

    @property
    def unread(self) -> frozenset[int]:
        """Ids of its unread entries."""
        return frozenset(i for i, item in self.items.items() if item[0])

    @property
    def starred(self) -> frozenset[int]:
        """Ids of its important entries."""
        return frozenset(i for i, item in self.items.items() if item[1])

    def lists(self, wanted: dict[str, tuple[str, str]]) -> bool:
        """Whether it lists these feeds, and labels: what it does not know yet it gives to no entry.

        Once in some hundred times it ends at its start, before it has asked for anything: it finds its own
        database locked, into which this looks beside it. It is started again then.
        """
        if self.run.process.poll() is not None:
            self.start()
        return self.feeds == wanted and bool(self._rows("SELECT 1 FROM Labels"))

    def agrees(self) -> bool:
        """Whether it has what the server holds."""
        state, both = self._stage.state, (self.unread, self.starred)
        return self.items.keys() == self._stage.ids() and both == (state.unread, state.starred)

    def make(self, key: str, so: Callable[[], bool], what: str) -> None:
        """Press a key until something is so: one that comes while it fills its lists anew may be lost."""
        for _ in range(_TIMES):
            self.run.press(key)
            with contextlib.suppress(AssertionError):
                self._stage.eventually(so, PATIENCE / _TIMES)
                return
        self._stage.wait(so, what)

    def gave(self, labels: set[tuple[str, int]]) -> bool:
        """Whether these labels lie on these entries, and no others."""
        return self.labels == labels

    def forget(self) -> None:
        """End it, and all that it has stored."""
        self.run.kill()
        shutil.rmtree(self._data)

    def fetch(
        self, until: Callable[[], bool] | None = None, first: Callable[[], None] = lambda: None
    ) -> None:
        """Let it send and fetch until it has what the server holds, or something else is so.

        It takes no order to do so while it still does so, and nothing says when it is done. What a reader
        does meanwhile may be undone by what comes in: `first` does it again each time.
        """
        for _ in range(_TIMES):
            first()
            self.run.press(FETCH)
            with contextlib.suppress(AssertionError):
                self._stage.eventually(until or self.agrees, PATIENCE / _TIMES)
                return
        raise AssertionError(f"RSS Guard has {self.items}, the server {self._stage.state}")


def _sealed(text: str) -> str:
    """Return a password as it stores them: each byte mixed with one of the key and with the one before."""
    last, sealed = 0, bytearray()
    for place, byte in enumerate(b"?" + text.encode()):  # the first one is a random one
        last ^= byte ^ (_KEY >> 8 * (place % 8) & 0xFF)
        sealed.append(last)
    return base64.b64encode(b"\x03\x00" + sealed).decode()


def _filled(desk: Desk, stage: Stage, number: int, labels: set[tuple[str, int]]) -> RssGuard:
    """Return it with all that the server holds.

    Once in some dozen times it stores an entry without the label that its one answer had; it never asks
    for that again, so it begins anew.
    """
    filed = set(stage.feed_ids[2:])
    wanted = {f"feed/{f}": (title, FOLDER if f in filed else "") for f, (title, _) in stage.feeds.items()}
    for _ in range(3):
        rssguard = RssGuard(desk, stage, number)
        stage.wait(
            functools.partial(rssguard.lists, wanted), "RSS Guard lists the feeds, their folder and the label"
        )
        rssguard.fetch()
        with contextlib.suppress(AssertionError):
            stage.eventually(functools.partial(rssguard.gave, labels), PATIENCE / 3)
            return rssguard
        rssguard.forget()
    raise AssertionError(f"RSS Guard never had the labels {labels}")


@pytest.mark.parametrize("kind", _TYPES)
def test_rssguard_shows_what_the_server_holds(desk: Desk, stage: Stage, kind: str) -> None:
    number, mount = _TYPES[kind]
    services, ann, start = stage.services, stage.actor, stage.state.unread
    early = stage.of_feed(stage.feed_ids[0])[-1]
    services.reading.set_starred(ann, early, True)
    services.tags.change_tags(ann, early, add=["to keep"])
    rssguard = _filled(desk, stage, number, {("to keep", early)})
    for entry_id, (_, _, title) in rssguard.items.items():
        assert title == stage.title(entry_id)

    # The first entry of the account is read by being shown; what it does it tells before it fetches again.
    rssguard.run.press(NEXT_FEED)
    rssguard.make(NEXT, lambda: rssguard.unread != start, "one is read")
    (one,) = start - rssguard.unread
    rssguard.make(STAR, lambda: one in rssguard.starred, "it is important")
    rssguard.fetch()
    assert (stage.state.unread, stage.state.starred) == (start - {one}, {early, one})
    # (Fetched anew the one that it shows is read again, and the server is told so next time.)
    rssguard.fetch(
        until=lambda: stage.state.unread == start,
        first=lambda: rssguard.make(UNREAD, lambda: rssguard.unread == start, "it is unread again"),
    )

    # What is done elsewhere.
    later = min(start - {early, one})
    services.reading.mark(ann, [later], True)
    services.reading.set_starred(ann, early, False)
    rssguard.fetch()

    # All of it. What it has not told when it ends it tells when it was started anew.
    rssguard.make(ALL_READ, lambda: not rssguard.unread, "all is read")
    rssguard.run.press(QUIT)
    rssguard.run.wait()
    rssguard.start()
    rssguard.fetch()
    assert (stage.state.unread, stage.state.starred) == (frozenset(), {one})
    services.reading.mark(ann, [early, one], False)
    services.reading.set_starred(ann, later, True)
    rssguard.fetch()
    assert {call.status for call in stage.calls} == {200}
    assert all(call.path.startswith((f"{mount}/reader/", f"{mount}/accounts/")) for call in stage.calls)
    assert any(call.path.endswith("/token") for call in stage.calls) == (kind == "Reedah")
