"""Liferea (Debian 12: 1.14) with Eventr as its source “Google Reader API”."""

from __future__ import annotations

import contextlib
import sqlite3
from html import escape
from pathlib import Path
from typing import Any

import pytest

from tests.clients.programs.desk import Desk, Run
from tests.clients.programs.stage import FOLDER, Stage, program

#: As its own dialogue writes a new source.
_SOURCES = """<?xml version="1.0"?>
<opml version="1.0"><head><title>Liferea Feed List Export</title></head><body>
<outline title="Eventr" text="Eventr" description="Eventr" type="source" sourceType="fl_google_reader"
 id="eventr1" xmlUrl="{url}" username="{name}" password="{password}"/>
</body></opml>
"""
#: It must not ask back.
_SETTINGS = (
    "[org/gnome/liferea]\nconfirm-mark-all-read=false\n[org/gnome/liferea/plugins]\nactive-plugins=@as []\n"
)


class Liferea:
    """Liferea on a screen, and what it has stored."""

    def __init__(self, desk: Desk, stage: Stage) -> None:
        self._desk, self._stage = desk, stage
        _write(desk.home / ".config/liferea/feedlist.opml", _SOURCES.format(
            url=escape(stage.url), name=stage.name, password=stage.password,
        ))  # fmt: skip
        _write(desk.home / ".config/glib-2.0/settings/keyfile", _SETTINGS)
        self.run = self.start()

    def start(self) -> Run:
        """Start it; it fetches what it does not know."""
        self.run = self._desk.start(program("liferea"), title="^Liferea$", GSETTINGS_BACKEND="keyfile")
        return self.run

    def _rows(self, query: str) -> list[Any]:
        path = self._desk.home / ".local/share/liferea/liferea.db"
        if not path.exists():
            return []
        with contextlib.closing(sqlite3.connect(path, timeout=30)) as db:
            try:
                return db.execute(query).fetchall()
            except sqlite3.OperationalError as e:
                if "no such table" in str(e):
                    return []  # it is about to make them
                raise

    @property
    def feeds(self) -> dict[str, str]:
        """The folder of each feed by its title, "" for none."""
        rows = self._rows(
            "SELECT n.title, n.parent_id FROM node n WHERE n.node_id IN (SELECT node_id FROM items)"
        )
        return {
            title: parent.rpartition("-folder-")[2] if "-folder-" in parent else "" for title, parent in rows
        }

    @property
    def items(self) -> dict[int, tuple[bool, bool, str]]:
        """Of each item whether it is unread and whether it is starred, and its title."""
        rows = self._rows("SELECT source_id, read, marked, title FROM items")
        return {int(i[-16:], 16): (not read, bool(marked), title) for i, read, marked, title in rows}

    @property
    def unread(self) -> frozenset[int]:
        """Ids of its unread items."""
        return frozenset(i for i, item in self.items.items() if item[0])

    @property
    def starred(self) -> frozenset[int]:
        """Ids of its starred items."""
        return frozenset(i for i, item in self.items.items() if item[1])

    def agrees(self) -> None:
        """Wait until it has what the server holds."""
        self._stage.wait(
            lambda: (
                self.items.keys() == self._stage.ids()
                and (self.unread, self.starred) == (self._stage.state.unread, self._stage.state.starred)
            ),
            "Liferea has what the server holds",
        )


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(text)


@pytest.fixture
def liferea(desk: Desk, stage: Stage) -> Liferea:
    return Liferea(desk, stage)


def test_liferea_shows_what_the_server_holds(liferea: Liferea, stage: Stage) -> None:
    services, ann, start = stage.services, stage.actor, stage.state.unread
    early = stage.of_feed(stage.feed_ids[0])[-1]
    services.reading.set_starred(ann, early, True)
    liferea.run.window()
    liferea.agrees()
    for entry_id, (_, _, title) in liferea.items.items():
        assert title == stage.title(entry_id)
    filed = {stage.feeds[f][0] for f in stage.feed_ids[2:]}
    assert liferea.feeds == {title: FOLDER if title in filed else "" for title, _ in stage.feeds.values()}

    # The next unread one is read by being shown, made unread again, and starred.
    liferea.run.press("ctrl+n")
    stage.wait(lambda: stage.state.unread != start, "one is read")
    (one,) = start - stage.state.unread
    liferea.agrees()
    liferea.run.press("ctrl+m")
    stage.holds(unread=start)
    liferea.agrees()
    liferea.run.press("ctrl+t")
    stage.holds(starred=frozenset({early, one}))
    liferea.agrees()

    # Its whole feed; then what is done elsewhere.
    liferea.run.press("ctrl+r")
    (feed,) = [f for f in stage.feed_ids if one in stage.of_feed(f)]
    stage.holds(unread=start - set(stage.of_feed(feed)))
    liferea.agrees()
    services.reading.set_starred(ann, early, False)
    services.reading.mark(ann, [early], True)
    liferea.run.press("ctrl+u")
    liferea.agrees()

    # It ends with the same; started anew it updates by itself, and has what was done meanwhile.
    liferea.run.press("ctrl+q")
    liferea.run.wait()
    liferea.agrees()
    later = min(stage.state.unread)
    services.reading.mark(ann, [later], True)
    services.reading.set_starred(ann, later, True)
    liferea.start().window()
    liferea.agrees()
    assert {call.status for call in stage.calls if "/reader/" in call.uri} == {200}
