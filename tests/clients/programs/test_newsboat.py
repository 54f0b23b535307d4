"""newsboat (Debian 12: 2.21) in a terminal, with Eventr as its ``feedhq``."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator

import pytest

from tests.clients.programs.stage import Stage, program

#: What docs/clients tells people to write.
_CONFIG = """
urls-source "feedhq"
feedhq-url "{url}"
feedhq-login "{name}"
feedhq-password "{password}"
feedhq-show-special-feeds no
feedhq-flag-star "s"
feedhq-flag-share "h"
auto-reload yes
goto-first-unread no
"""
_FEED = re.compile(r"^ *\d+ N? *\((\d+)/(\d+)\) (.*?) *$", re.MULTILINE)
_ENTRY = re.compile(r"^ *\d+ (N?) *(!?) +\w{3} \d\d +\S+ +(.*?) *$", re.MULTILINE)


class Newsboat:
    """newsboat in a terminal of 200 columns; what it shows and what it has stored."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.home = stage.home
        folder = self.home / ".newsboat"
        folder.mkdir(exist_ok=True)
        (folder / "config").write_text(
            _CONFIG.format(url=stage.url, name=stage.name, password=stage.password)
        )
        # The path of a socket must be short.
        self._sockets = tempfile.mkdtemp(prefix="eventr-tmux-")
        self.start()

    def start(self) -> None:
        """Start it; it fetches all feeds by itself."""
        environment = {
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TERM": "screen",
            "PATH": os.environ["PATH"],
        }
        words = [f"{name}={value}" for name, value in environment.items()]
        command = shlex.join(["env", "-i", *words, program("newsboat")])
        # What it says when it dies can be read on the screen.
        stay = ["start-server", ";", "set", "-g", "remain-on-exit", "on", ";"]
        self._tmux(*stay, "new-session", "-d", "-x", "200", "-y", "50", command)

    def _tmux(self, *command: str, check: bool = True) -> str:
        done = subprocess.run(
            [program("tmux"), "-u", "-S", f"{self._sockets}/s", "-f", "/dev/null", *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=60, check=check,
        )  # fmt: skip
        return done.stdout

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names."""
        self._tmux("send-keys", *keys)

    @property
    def screen(self) -> str:
        """What it shows now."""
        return self._tmux("capture-pane", "-p")

    def wait(self, predicate: Callable[[], object], what: str) -> None:
        """Wait until something is so; else tell what is on the screen."""
        try:
            self._stage.wait(predicate, what)
        except AssertionError as e:
            raise AssertionError(f"{e}\n{_held(self._stage)}\n{self.screen}") from None

    def shows(self, words: str) -> None:
        """Wait until it shows this."""
        self.wait(lambda: words in self.screen, f"newsboat shows {words!r}")

    def agrees(self) -> None:
        """Wait until it shows the unread counts that the server has."""

        def agrees() -> bool:
            if self.feeds == _held(self._stage):
                return True
            # It may miss the end of its own fetching, and shows that a minute later or when told to draw.
            self.press("C-l")
            return False

        self.wait(agrees, "newsboat shows the server's counts")

    @property
    def feeds(self) -> dict[str, tuple[int, int]]:
        """The list of feeds as shown: unread and all entries by title."""
        return {title: (int(unread), int(total)) for unread, total, title in _FEED.findall(self.screen)}

    @property
    def entries(self) -> list[tuple[bool, str]]:
        """The list of a feed as shown: whether each is unread, and its title."""
        return [(new == "N", title) for new, _, title in _ENTRY.findall(self.screen)]

    @property
    def unread(self) -> frozenset[int]:
        """Ids of the entries that it has stored as unread; only to be asked when it has ended.

        It gives up where it finds its database locked, be it by a reader.
        """
        with contextlib.closing(sqlite3.connect(self.home / ".newsboat" / "cache.db", timeout=30)) as db:
            found = db.execute("SELECT guid FROM rss_item WHERE unread AND NOT deleted")
            return frozenset(int(guid[-16:], 16) for (guid,) in found)

    def reload(self) -> None:
        """Fetch all feeds; a key that comes while it still does so is lost, and is pressed again."""
        before = len(self._stage.calls)
        begun = False
        while not begun:
            self.press("R")
            with contextlib.suppress(AssertionError):
                begun = self._stage.eventually(lambda: len(self._stage.calls) > before, 3.0)
        self.wait(lambda: len(self._stage.calls) >= before + 4, "newsboat asks for four feeds")

    def quit(self) -> None:
        """Leave it by its own key."""
        self.press("Q")
        dead = ["display-message", "-p", "#{pane_dead}"]
        self.wait(lambda: self._tmux(*dead).strip() == "1", "newsboat has ended")
        self._tmux("kill-server")

    def close(self) -> None:
        """End it, however it is."""
        self._tmux("kill-server", check=False)
        shutil.rmtree(self._sockets)


@pytest.fixture
def newsboat(stage: Stage) -> Iterator[Newsboat]:
    # It must not take this for a state of what lies there.
    folder = stage.services.folders.create(stage.actor, "read")
    stage.services.subscriptions.update(stage.actor, stage.feed_ids[0], folder_ids=[folder.id])
    found = Newsboat(stage)
    yield found
    found.close()


def _held(stage: Stage) -> dict[str, tuple[int, int]]:
    """The list of feeds as the server has it."""
    return {title: (unread, len(stage.of_feed(f))) for f, (title, unread) in stage.feeds.items()}


def test_newsboat_shows_what_the_server_holds(newsboat: Newsboat, stage: Stage) -> None:
    start = stage.state.unread
    newsboat.agrees()
    assert [call.status for call in stage.calls] == [200] * 6, "log in, list, four feeds"

    # A feed, and its first article, which is read by that.
    (first, (title, _)) = sorted(stage.feeds.items(), key=lambda feed: feed[1])[0]
    newsboat.press("Enter")
    newsboat.shows(f"Articles in feed '{title}'")
    ids = stage.of_feed(first)
    assert newsboat.entries == [(i in start, stage.title(i)) for i in ids]
    newsboat.press("Enter")
    newsboat.shows(f"Title: {stage.title(ids[0])}")
    newsboat.press("q")
    newsboat.shows("Articles in feed")
    # It says so when the article is left.
    stage.holds(unread=start - {ids[0]})
    assert newsboat.entries[0] == (False, stage.title(ids[0]))

    # Unread again; a star and a share, which is one of the server's own.
    newsboat.press("N")
    stage.holds(unread=start)
    newsboat.press("Up", "C-e")  # it had gone to the next one
    newsboat.shows("Flags:")
    newsboat.press("-l", "sh")
    newsboat.press("Enter")
    stage.holds(starred=frozenset({ids[0]}), shared=frozenset({ids[0]}))
    newsboat.press("C-e")
    newsboat.shows("Flags: hs")
    newsboat.press("BSpace", "BSpace", "Enter")
    stage.holds(starred=frozenset(), shared=frozenset())

    # The whole feed, and all of it when it was started anew, with what was done elsewhere meanwhile.
    newsboat.press("A")
    stage.holds(unread=start - set(ids))
    newsboat.press("q")
    newsboat.agrees()
    newsboat.quit()
    assert newsboat.unread == stage.state.unread
    stage.services.reading.mark(stage.actor, ids[1:3], False)
    other = stage.of_feed(stage.feed_ids[1])
    stage.services.reading.mark(stage.actor, [i for i in other if i in start][:4], True)
    newsboat.start()
    newsboat.agrees()
    newsboat.press("C")
    newsboat.shows("mark all feeds as read")
    newsboat.press("y")
    stage.holds(unread=frozenset())
    newsboat.agrees()

    # What has not changed is not sent again; the tag is stored with the second answer.
    newsboat.reload()
    newsboat.reload()
    assert [call.status for call in stage.calls[-4:]] == [304] * 4
    newsboat.quit()
    assert newsboat.unread == frozenset()
    assert {call.status for call in stage.calls} == {200, 304}
