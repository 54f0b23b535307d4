"""Real programs from the distribution against a real web tier: what they show is what the server holds."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from app.bootstrap.services import Services
from app.config import Settings
from app.models.accounts.actor import Actor
from app.models.sync.sync import SyncQuery, SyncStream, SyncStreamKind
from tests.support.imports import REPO
from tests.support.manager import environment
from tests.support.reader import add_user, follow
from tests.support.up import free_port
from tests.sync.conftest import password_of

Eventually = Callable[..., Any]

#: As long as anything here is waited for: programs start slowly where other tests burn the processor.
PATIENCE = 180.0
#: Few entries each, since newsboat takes twenty of a feed; old ones of the second are read from the start.
LOOSE = ("feeds/rss/blog.kagamino.dev-1b8d1d.xml", "feeds/rss/pooriat.com-b8208e.xml")
FILED = ("feeds/rss/zhubert.com-5a452b.xml", "feeds/rss/koerant.co.za-03f457.xml")
#: As people name folders; "&" breaks what is pasted into a form as it is.
FOLDER = "Köln & Essays"

#: ``eventr web`` with a witness before it, which notes each request in a line of JSON.
_SERVER = """
import io, json, os, re, sys
from app import application
from app.commands import processes
from app.config import Settings
notes = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
made = application.build
secret = re.compile(r"(Passwd=|\\bT=)[^&\\s]*")
def build(settings):
    inner = made(settings)
    def witness(environ, start):
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        note = {
            "method": environ["REQUEST_METHOD"],
            "uri": secret.sub(r"\\1…", environ["RAW_URI"]),
            "body": secret.sub(r"\\1…", body.decode("utf-8", "replace")),
            "type": environ.get("CONTENT_TYPE", ""),
            "auth": environ.get("HTTP_AUTHORIZATION", "")[:17],
            "agent": environ.get("HTTP_USER_AGENT", ""),
        }
        def begin(status, headers, exc_info=None):
            note["status"] = int(status[:3])
            os.write(notes, (json.dumps(note, ensure_ascii=False) + "\\n").encode())
            return start(status, headers, exc_info)
        return inner(environ, begin)
    return witness
application.build = build
processes._gunicorn(Settings.from_env())
"""


@dataclasses.dataclass(frozen=True)
class Call:
    """A request as a program made it, its secrets left out."""

    method: str
    uri: str
    body: str
    type: str
    auth: str
    agent: str
    status: int

    @property
    def path(self) -> str:
        """The address without the query."""
        return self.uri.partition("?")[0]


@dataclasses.dataclass(frozen=True)
class State:
    """What the server holds of a user: ids of entries."""

    unread: frozenset[int]
    starred: frozenset[int]
    shared: frozenset[int]


@dataclasses.dataclass
class Stage:
    """A running server and a user with feeds, who has made a password for an app."""

    url: str
    services: Services
    actor: Actor
    name: str
    password: str
    home: Path
    notes: Path
    feed_ids: list[int]
    eventually: Eventually

    def ids(self) -> frozenset[int]:
        """Return all entries of all feeds."""
        query = SyncQuery((SyncStream(SyncStreamKind.READING),), limit=10_000)
        return frozenset(key.id for key in self.services.sync.load_page(self.actor, query)[0])

    def of_feed(self, feed_id: int) -> list[int]:
        """Return a feed's entries, the newest first."""
        query = SyncQuery((SyncStream(SyncStreamKind.FEED, feed_id),), limit=10_000)
        return [key.id for key in self.services.sync.load_page(self.actor, query)[0]]

    @property
    def state(self) -> State:
        """What the server holds now."""
        items = self.services.sync.load_items(self.actor, list(self.ids()))
        return State(
            frozenset(item.entry.id for item in items if not item.read),
            frozenset(item.entry.id for item in items if item.starred),
            frozenset(item.entry.id for item in items if item.shared),
        )

    @property
    def feeds(self) -> dict[int, tuple[str, int]]:
        """The title and the unread count of each feed."""
        return {f.card.id: (f.title, f.unread) for f in self.services.sync.list_feeds(self.actor)}

    def title(self, entry_id: int) -> str:
        """Return an entry's title."""
        (item,) = self.services.sync.load_items(self.actor, [entry_id])
        return item.entry.title

    @property
    def calls(self) -> list[Call]:
        """Return all requests so far."""
        noted = self.notes.read_text("utf-8") if self.notes.exists() else ""
        # The last line may just be written.
        return [Call(**json.loads(line)) for line in noted.rpartition("\n")[0].splitlines()]

    def wait(self, predicate: Callable[[], object], message: str = "") -> Any:
        """Wait until something is so."""
        return self.eventually(predicate, PATIENCE, message)

    def holds(self, **wanted: frozenset[int]) -> None:
        """Wait until the server holds this, and its pages count as many."""
        for name, ids in wanted.items():
            self.wait(lambda n=name, i=ids: getattr(self.state, n) == i, f"{name} at the server: {ids}")
        if "unread" in wanted:
            assert self.services.reading.get_tree(self.actor).unread == len(wanted["unread"])


@contextlib.contextmanager
def running(services: Services, settings: Settings, home: Path, eventually: Eventually) -> Iterator[Stage]:
    """Run a web tier as in production, for ann with four feeds, two of them in a folder."""
    actor = add_user(services, "ann")
    folder = services.folders.create(actor, FOLDER)
    feed_ids = follow(services, actor, LOOSE) + follow(services, actor, FILED, folder_id=folder.id)
    port, notes, log = free_port(), home / "requests", home / "web.log"
    own = dataclasses.replace(
        settings, port=port, base_url=f"http://127.0.0.1:{port}", web_workers=1, web_threads=8
    )
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", _SERVER, str(notes)],
            cwd=REPO,
            env={**os.environ, **environment(own)},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    password = password_of(services, actor)
    user = services.gateways.accounts.find_user(actor.user_id)
    assert user is not None
    try:
        eventually(lambda: _listens(port), PATIENCE, "the web tier answers")
        # The actor of now: with an app's password his changes are noted for programs.
        yield Stage(own.base_url, services, user.actor, "ann", password, home, notes, feed_ids, eventually)
    finally:
        process.terminate()
        process.wait(PATIENCE)
        # Shown where the test has failed.
        sys.stderr.write(f"--- web\n{log.read_text()[-2000:]}\n--- requests\n{_tail(notes)}\n")


def _tail(notes: Path) -> str:
    return notes.read_text()[-6000:] if notes.exists() else "no request"


def _listens(port: int) -> bool:
    """Return whether a server takes connections."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def program(name: str) -> str:
    """Return the path of a program that ``.ci/clients`` installs."""
    found = shutil.which(name)
    assert found, f"There is no {name}: run .ci/clients, or install your distribution's package."
    return found
