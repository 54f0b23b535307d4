"""The session of each app that we know, against the real server: what it shows is what the server has."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from freshrss_api import FreshRSSAPI

from app import embedded
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.sharing.sharing import Audience
from tests.clients.sequences import desktop, fever, pocket, scripts
from tests.clients.sequences.wire import App, Shown
from tests.conftest import Eventually
from tests.platform.test_web_tier import Web, _web
from tests.support.reader import SAMPLE, add_user, follow
from tests.sync.conftest import password_of

_KEY = "pK3v9sXq7Lw2Zr8Tn5Yb1Hd6Jf4Gm0Ca"
GREADER: tuple[Callable[[App], Shown], ...] = (
    desktop.newsboat_feedhq,
    desktop.newsboat_freshrss,
    desktop.liferea_1_14,
    desktop.liferea_master,
    desktop.rss_guard_freshrss,
    desktop.rss_guard_other,
    desktop.fluent_reader,
    desktop.vienna,
    desktop.newsflash,
    pocket.netnewswire,
    pocket.reeder,
    pocket.feedme,
    pocket.unread_app,
    pocket.capy,
    pocket.read_you,
    pocket.readrops,
    scripts.google_reader,
)
FEVER: tuple[Callable[[App], Shown], ...] = (
    fever.reeder,
    fever.feedme,
    fever.feedme_body,
    fever.readkit,
    fever.unread_app,
    fever.raven,
    fever.fluent_reader,
    fever.newsflash,
)


class World:
    """A server with feeds and somebody who shares; each app has a user of its own."""

    def __init__(self, services: Services, port: int) -> None:
        self.services, self.port = services, port
        self.mira = add_user(services, "mira")
        services.following.update_profile(
            self.mira,
            display="Mira",
            bio="",
            links=(),
            audience=Audience.PUBLIC,
            listed=False,
            open_lists=False,
        )
        self.feeds = follow(services, self.mira, SAMPLE[2:6])
        self.urls = [services.subscriptions.get_health(self.mira, feed).feed.url for feed in self.feeds]
        entries = services.sync.list_unread_ids(self.mira)
        shared = services.sharing.share(self.mira, entries[0], note="Worth <reading> & more").share.id
        #: One article twice: whoever reads or stars one of them has read or starred the other.
        self.twins = {entries[0]: shared, shared: entries[0]}
        services.sharing.publish_post(self.mira, "", "A walk in the hills")

    def user(self, name: str) -> Actor:
        """One who reads four feeds in two folders, and her; with a star, a tag, and something read."""
        services = self.services
        actor = add_user(services, name)
        for n, url in enumerate(self.urls):
            feed = services.subscriptions.subscribe(actor, url).subscription.feed_id
            if n < 3:
                folder = "News" if n < 2 else "Science & Tech"
                known = {f.name: f.id for f in services.sync.list_folders(actor)}
                place = known.get(folder) or services.folders.create(actor, folder).id
                services.subscriptions.update(actor, feed, folder_ids=[place])
        services.following.follow(actor, "mira")
        unread = services.sync.list_unread_ids(actor)
        services.reading.set_starred(actor, unread[1], True)
        services.reading.set_starred(actor, unread[-1], True)
        services.tags.change_tags(actor, unread[2], add=["later"])
        services.reading.mark(actor, unread[3:5], True)
        return actor

    def app(self, actor: Actor, name: str, *, is_fever: bool) -> App:
        return App(self.port, name, password_of(self.services, actor, fever=is_fever))


@pytest.fixture(scope="module")
def world(servers: embedded.EmbeddedServers, eventually: Eventually) -> Iterator[World]:
    home = Path(tempfile.mkdtemp(prefix="eventr-sequences-"))
    settings = dataclasses.replace(
        servers.settings, home=home, mongodb_name="test_sequences", secret_key=_KEY, argon2_time=1
    )
    tier: Iterator[Web] = _web(
        eventually,
        *(1e6, 1e6, 1e6),
        EVENTR_MONGODB_URI=servers.mongodb_uri,
        EVENTR_MONGODB_NAME="test_sequences",
        EVENTR_REDIS_URL=servers.redis_url,
        EVENTR_SECRET_KEY=_KEY,
        EVENTR_SYNC_HOLD_BACK="0",
    )
    with contextlib.closing(bootstrap.build(settings)) as services, contextlib.closing(tier):
        services.migrate()
        yield World(services, next(tier).port)
        services.store.database.client.drop_database("test_sequences")
    shutil.rmtree(home)


def _name(sequence: Callable[[App], Shown]) -> str:
    return f"{sequence.__module__.rpartition('.')[2]}.{sequence.__name__}"


@pytest.mark.parametrize("sequence", [*GREADER, *FEVER], ids=_name)
def test_an_app_shows_what_the_server_has(world: World, sequence: Callable[[App], Shown]) -> None:
    name = _name(sequence).replace(".", "-").replace("_", "-")
    actor, services = world.user(name), world.services
    app = world.app(actor, name, is_fever=sequence in FEVER)
    with contextlib.closing(app):
        shown = sequence(app)
    if shown.unread is not None:
        left = {i for i in shown.unread if world.twins.get(i, i) in shown.unread}
        assert sorted(left) == services.sync.list_unread_ids(actor)
    if shown.starred is not None:
        both = {*shown.starred, *(world.twins[i] for i in shown.starred if i in world.twins)}
        assert sorted(both) == services.sync.list_starred_ids(actor)
    if shown.titles is not None:
        assert shown.titles == {feed.title for feed in services.sync.list_feeds(actor)}
    if shown.folders is not None:
        assert shown.folders == {folder.name for folder in services.sync.list_folders(actor)}
    if shown.shared is not None:
        page = services.public_pages.get_person_page(actor, name)
        assert len(page.part.items) == len(shown.shared)


def test_the_python_client_freshrss_api_reads_and_marks(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package itself, which speaks Fever. It fails if one item that it names is missing."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    actor, services = world.user("freshrss-api"), world.services
    password = password_of(services, actor, fever=True)
    client = FreshRSSAPI(
        host=f"http://127.0.0.1:{world.port}", username="freshrss-api", password=password, verify_ssl=False
    )
    unread, starred = services.sync.list_unread_ids(actor), services.sync.list_starred_ids(actor)
    assert [item.id for item in client.get_unreads()] == unread
    assert [item.id for item in client.get_saved()] == starred
    arrived = client.get_items_from_dates(since=1, until=max(unread) + 1)
    assert {*unread} <= {item.id for item in arrived}
    assert all(item.title for item in arrived)
    feeds = client.get_feeds()["feeds"]
    assert {feed["title"] for feed in feeds} == {feed.title for feed in services.sync.list_feeds(actor)}
    assert {item.feed_id for item in arrived} <= {feed["id"] for feed in feeds}
    groups = client.get_groups()["groups"]
    assert {folder.name for folder in services.sync.list_folders(actor)} < {row["title"] for row in groups}
    for state, listed in (("read", "unread"), ("saved", "saved"), ("unsaved", "saved")):
        answer = client.set_mark(state, unread[0])
        assert (str(unread[0]) in answer[f"{listed}_item_ids"].split(",")) is (state == "saved")
    assert unread[0] not in services.sync.list_unread_ids(actor)


def test_who_is_cut_off_has_changed_nothing(world: World) -> None:
    """The connection ends within the body: what came by then could pass for a whole request."""
    actor = world.user("cut-off")
    unread = world.services.sync.list_unread_ids(actor)
    password = password_of(world.services, actor)
    body = "&".join(f"i={i}" for i in unread) + "&a=user/-/state/com.google/read"
    head = (
        f"POST /reader/api/0/edit-tag HTTP/1.1\r\nHost: 127.0.0.1:{world.port}\r\n"
        f"Authorization: GoogleLogin auth={world.services.tokens.build_reader_auth(password)}\r\n"
        f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(body) + 100}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", world.port), timeout=30) as wire:
        wire.sendall((head + body).encode())
        wire.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            answer = wire.recv(1 << 16)
    assert b" 200 " not in answer.split(b"\r\n")[0]
    assert world.services.sync.list_unread_ids(actor) == unread
