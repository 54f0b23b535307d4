"""A feed with a login, cookie, user agent or interval limits is its reader's own copy."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import datetime as dt
import socket
import threading
from collections.abc import AsyncIterator, Iterable
from typing import Any

import bson
import pytest

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.errors import ExistsError, InvalidError, NotFoundError
from app.feeds.fetch.fetcher import Fetcher
from app.feeds.fetch.transfer import get_total_timeout
from app.feeds.urls import hash_url
from app.gateways.feeds.fetch_secrets import FetchSecrets
from app.gateways.privacy.erasure import STRAGGLERS
from app.models.accounts.actor import Actor
from app.models.feeds.discovery import Discovered
from app.models.feeds.fetch_options import FetchOptions
from app.models.feeds.fetched import Fetched, FetchRequest, Validators
from app.models.imports.imports import ItemState
from app.models.reading.stream import StreamKind, StreamQuery, StreamRef
from app.models.subscriptions.subscription import AddressChangeResult
from tests.privacy.test_export import read_export
from tests.support.reader import add_user, elsewhere, rss

URL = "https://paid.example/feed"
OPTIONS = FetchOptions(login="ann", password="s3cret-canary", cookie="sid=c00kie-canary", user_agent="Mine/1")


class Web:
    """Sites that show a paid text to those who send the login, and a teaser to all others."""

    def __init__(self) -> None:
        self.requests: list[FetchRequest] = []
        self.permanent_url: str | None = None
        self.hub = b""

    async def stream_fetches(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
        for request in requests:
            self.requests.append(request)
            paid = any(name == "Authorization" for name, _ in request.headers)
            body = rss("Paid", [("One", "the whole paid text" if paid else "a teaser")])
            body = body.replace(b"<channel>", b"<channel>" + self.hub)
            yield Fetched(
                request,
                200,
                request.url,
                self.permanent_url,
                body,
                validators=Validators(),
                headers={"content-type": "application/rss+xml"},
                wire_bytes=len(body),
            )


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Hubs can reach this server."""
    return dataclasses.replace(settings, base_url="http://localhost", websub="on")


@pytest.fixture
def ann(services: Services) -> Actor:
    return add_user(services, "ann")


@pytest.fixture
def bob(services: Services) -> Actor:
    return add_user(services, "bob")


@pytest.fixture
def web() -> Web:
    return Web()


def pull(services: Services, web: Web, *feed_ids: int) -> None:
    elsewhere(lambda: asyncio.run(services.pull.pull(feed_ids, web)))


def subscribe(services: Services, who: Actor, options: FetchOptions | None = None) -> int:
    return services.subscriptions.subscribe(who, URL, options=options).subscription.feed_id


def set_options(services: Services, who: Actor, feed_id: int, options: FetchOptions) -> AddressChangeResult:
    return services.subscriptions.change_fetch_options(who, feed_id, lambda before: options)


def read(services: Services, who: Actor, feed_id: int) -> str:
    ref = StreamRef(StreamKind.FEED, feed_id)
    rows = services.reading.load_page(who, StreamQuery(ref)).rows
    entry = services.reading.get_article(who, rows[0].id).entry
    return entry.content or entry.summary


def test_each_reader_gets_what_their_own_login_shows(
    services: Services, ann: Actor, bob: Actor, web: Web
) -> None:
    shared, own = subscribe(services, bob), subscribe(services, ann, OPTIONS)
    assert own != shared
    pull(services, web, shared, own)
    by_id = {request.key: dict(request.headers) for request in web.requests}
    assert by_id[shared] == {}
    basic = base64.b64encode(b"ann:s3cret-canary").decode()
    assert by_id[own] == {
        "Authorization": f"Basic {basic}",
        "Cookie": "sid=c00kie-canary",
        "User-Agent": "Mine/1",
    }
    assert "whole paid text" in read(services, ann, own)
    assert "teaser" in read(services, bob, shared)


def test_a_token_headers_and_a_time_limit_go_with_each_request(
    services: Services, ann: Actor, web: Web
) -> None:
    options = FetchOptions(token="t0ken-canary", headers="X-Api-Key: k3y-canary\nAccept: a/b", time_limit=50)
    own = subscribe(services, ann, options)
    pull(services, web, own)
    (request,) = web.requests
    assert dict(request.headers) == {
        "Authorization": "Bearer t0ken-canary",
        "X-Api-Key": "k3y-canary",
        "Accept": "a/b",
    }
    assert get_total_timeout(request, services.settings) >= request.within == 50
    stored: Any = services.store.database["feeds"].find_one({"_id": own})
    assert b"canary" not in bson.encode(stored)
    assert "whole paid text" in read(services, ann, own)


def test_nobody_else_finds_or_reads_the_copy(services: Services, ann: Actor, bob: Actor, web: Web) -> None:
    own = subscribe(services, ann, OPTIONS)
    pull(services, web, own)
    entry_id = services.store.database["entries"].find_one({"feed_id": own})["_id"]
    # By address, by number, by entry, by search, and in a search for feeds.
    assert subscribe(services, bob) != own
    for look in (
        lambda: services.subscriptions.get(bob, own),
        lambda: services.subscriptions.get_fetch_options(bob, own),
        lambda: set_options(services, bob, own, FetchOptions()),
        lambda: services.reading.get_article(bob, entry_id),
        lambda: services.reading.load_page(bob, StreamQuery(StreamRef(StreamKind.FEED, own))),
    ):
        with pytest.raises(NotFoundError):
            look()
    gateway = services.gateways.discoveries
    row = gateway.get_or_create(URL, clock.now())
    gateway.store_result(row.key, Discovered(row.address, error="http_401"), clock.now())
    services.store.database["feeds"].delete_one({"url_key": hash_url(URL)})
    assert services.discovery.discover(bob, URL, wait=0).feeds == ()
    assert services.gateways.feeds.find_by_url(URL) is None


def test_entries_of_the_copy_are_not_shared(services: Services, ann: Actor, web: Web) -> None:
    own = subscribe(services, ann, OPTIONS)
    pull(services, web, own)
    entry_id = services.store.database["entries"].find_one({"feed_id": own})["_id"]
    with pytest.raises(InvalidError):
        services.sharing.share(ann, entry_id)
    entry = services.gateways.entries.get(ann.user_id, entry_id)
    assert not services.sharing.get_share_box(ann, entry).can_reshare


def test_no_hub_learns_of_the_copy(services: Services, ann: Actor, web: Web) -> None:
    link = b"<atom:link xmlns:atom='http://www.w3.org/2005/Atom' rel='%s' href='%s'/>"
    web.hub = link % (b"hub", b"https://hub.example/") + link % (b"self", URL.encode())
    own = subscribe(services, ann, OPTIONS)
    pull(services, web, own)
    assert services.store.database["websubs"].count_documents({}) == 0
    # The same feed for everybody has its hub, so the page above did name one.
    pull(services, web, subscribe(services, add_user(services, "cid")))
    assert services.store.database["websubs"].count_documents({}) == 1


def test_V14_secrets_are_nowhere_in_the_database(services: Services, ann: Actor, web: Web) -> None:
    own = subscribe(services, ann, OPTIONS)
    pull(services, web, own)
    services.subscriptions.unsubscribe(ann, own)
    database = services.store.database
    for name in database.list_collection_names():
        for doc in database[name].find():
            raw = bson.encode(doc)
            for canary in (b"s3cret-canary", b"c00kie-canary", base64.b64encode(b"ann:s3cret-canary")):
                assert canary not in raw, name
    assert "canary" not in repr(OPTIONS)
    assert "canary" not in repr(services.gateways.feeds.get(own))


def test_a_seal_opens_only_for_its_reader_and_key() -> None:
    secrets = FetchSecrets("a key of this server")
    sealed = secrets.encrypt_options(OPTIONS, 7)
    assert secrets.open(sealed, 7) == OPTIONS
    assert secrets.open(sealed, 8) == FetchOptions()
    assert FetchSecrets("another key").open(sealed, 7) == FetchOptions()
    assert secrets.encrypt_options(OPTIONS, 7) != sealed
    with pytest.raises(InvalidError):
        FetchSecrets("").encrypt_options(OPTIONS, 7)


def test_options_lead_to_a_copy_and_back(services: Services, ann: Actor, web: Web) -> None:
    shared = subscribe(services, ann)
    folder = services.folders.create(ann, "News").id
    services.subscriptions.update(ann, shared, title="Mine", folder_ids=[folder])
    there = set_options(services, ann, shared, OPTIONS)
    own = services.subscriptions.get(ann, there.feed_id)
    assert own.feed_id != shared
    assert (own.title, own.folder_ids) == ("Mine", (folder,))
    assert services.subscriptions.get_fetch_options(ann, own.feed_id) == OPTIONS
    # A change keeps the copy, and the same address leads to it.
    again = dataclasses.replace(OPTIONS, user_agent="")
    assert set_options(services, ann, own.feed_id, again).feed_id == own.feed_id
    assert services.subscriptions.get_fetch_options(ann, own.feed_id) == again
    done = services.subscriptions.subscribe(ann, URL)
    assert (done.existed, done.subscription.feed_id) == (True, own.feed_id)
    back = set_options(services, ann, own.feed_id, FetchOptions())
    assert back.feed_id == shared
    assert services.subscriptions.get(ann, shared).title == "Mine"
    assert services.subscriptions.restore(ann, back.undo).feed_id == own.feed_id


def test_interval_limits_hold_within_those_of_the_server(
    services: Services, ann: Actor, bob: Actor, web: Web
) -> None:
    seldom = subscribe(services, ann, FetchOptions(min_minutes=600))
    often = subscribe(services, bob, FetchOptions(max_minutes=10))
    before = clock.now()
    pull(services, web, seldom, often)
    due = {f: services.gateways.feeds.get(f).next_check_at for f in (seldom, often)}
    waits = {f: at - before for f, at in due.items() if at}
    assert waits[seldom] >= dt.timedelta(minutes=600)
    assert waits[often] <= dt.timedelta(minutes=11)
    bounds = services.pull._digester._bounds
    assert bounds.derive_limits(None, 1).poll_max >= bounds.poll_min
    # Quiet polls keep to them, too.
    now = clock.now()
    for poll in services.gateways.feeds.find_polls([seldom, often]):
        quiet = Fetched(FetchRequest(poll.url), 304, poll.url, unchanged=True, validators=poll.validators)
        rest = services.pull._digester.calculate_rest(poll, quiet, now)
        assert rest is not None
        assert rest >= dt.timedelta(minutes=600) if poll.id == seldom else rest <= dt.timedelta(minutes=11)


@pytest.mark.parametrize(
    ("target", "follows"),
    [
        ("https://paid.example/new", True),
        ("https://other.example/feed", False),
        ("http://paid.example/feed", False),
        ("https://paid.example:8443/feed", False),
    ],
)
def test_S09_a_login_never_moves_to_another_origin(
    services: Services, ann: Actor, web: Web, target: str, follows: bool
) -> None:
    own = subscribe(services, ann, OPTIONS)
    web.permanent_url = target
    for _ in range(4):
        pull(services, web, own)
    feed = services.gateways.feeds.get(own)
    assert feed.url == (target if follows else URL)
    assert feed.url_key == f"{hash_url(feed.url)}/{ann.user_id}"


def test_another_address_of_the_site_keeps_the_login_and_another_site_does_not(
    services: Services, ann: Actor
) -> None:
    own = subscribe(services, ann, OPTIONS)
    services.subscriptions.change_address(ann, own, "https://paid.example/other")
    assert services.subscriptions.get_fetch_options(ann, own) == OPTIONS
    left = services.subscriptions.change_address(ann, own, "https://free.example/feed")
    assert left.feed_id != own
    assert services.subscriptions.get_fetch_options(ann, left.feed_id) == FetchOptions()


@pytest.mark.parametrize(
    "options",
    [
        FetchOptions(login="a:b"),
        FetchOptions(password="x"),
        FetchOptions(cookie="a=b\r\nHost: evil"),
        FetchOptions(user_agent="Mine\x00"),
        FetchOptions(user_agent="Möwe"),
        FetchOptions(cookie="x" * 1001),
        FetchOptions(min_minutes=0),
        FetchOptions(max_minutes=1441),
        FetchOptions(min_minutes=60, max_minutes=30),
        FetchOptions(login="ann", token="abc"),
        FetchOptions(token="a b\r\nHost: evil"),
        FetchOptions(headers="Host: evil"),
        FetchOptions(headers="no colon"),
        FetchOptions(headers="X-Key: möwe\u20ac"),
        FetchOptions(headers="Authorization: Bearer x"),
        FetchOptions(headers="If-None-Match: x"),
        FetchOptions(headers="\n".join(f"X-{n}: 1" for n in range(100))),
        FetchOptions(headers="X-Long: " + "x" * 2001),
        FetchOptions(token="x", headers="\n".join(f"X-{n}: 1" for n in range(16))),
        FetchOptions(time_limit=0),
        FetchOptions(time_limit=61),
    ],
)
def test_S12_options_that_http_does_not_allow_are_refused(
    services: Services, ann: Actor, options: FetchOptions
) -> None:
    feed_id = subscribe(services, ann)
    with pytest.raises(InvalidError):
        set_options(services, ann, feed_id, options)
    assert services.subscriptions.get(ann, feed_id).feed_id == feed_id


def test_G02_the_copy_goes_with_the_account(services: Services, ann: Actor, bob: Actor, web: Web) -> None:
    own, shared = subscribe(services, ann, OPTIONS), subscribe(services, bob)
    pull(services, web, own, shared)
    services.gateways.erasure.begin(ann.user_id, clock.now())
    with clock.set_source(lambda: dt.datetime.now(dt.UTC) + STRAGGLERS * 2):
        assert services.gateways.erasure.finish(ann.user_id, clock.now())
    database: Any = services.store.database
    assert database["feeds"].find_one({"_id": own}) is None
    assert database["entries"].find_one({"feed_id": own}) is None
    assert database["feeds"].find_one({"_id": shared}) is not None


def test_G01_the_export_says_how_the_copy_is_fetched_without_its_secrets(
    services: Services, ann: Actor, bob: Actor
) -> None:
    options = dataclasses.replace(OPTIONS, min_minutes=60)
    subscribe(services, ann, options)
    subscribe(services, bob)
    exported = read_export(services, ann)
    (row,) = exported.json("subscriptions")
    assert row["own_copy"]
    assert row["fetching"] == {
        "login": "ann",
        "has_password": True,
        "has_token": False,
        "has_cookie": True,
        "has_headers": False,
        "user_agent": "Mine/1",
        "time_limit": None,
        "min_minutes": 60,
        "max_minutes": None,
    }
    assert not any("canary" in exported.text(name) for name in exported.names)
    (row,) = read_export(services, bob).json("subscriptions")
    assert "fetching" not in row


def test_a_list_that_names_the_copy_adds_no_second_feed(services: Services, ann: Actor, bob: Actor) -> None:
    own = subscribe(services, ann, OPTIONS)
    exported = services.imports.export(ann)
    for who, state in ((ann, ItemState.ALREADY), (bob, ItemState.WAITING)):
        found = services.imports.preview(who, exported, "mine.opml")
        (item,) = services.imports.list_items(who, found.id)
        assert (item.state, item.feed_id) == (state, own if who is ann else None)


def test_a_request_has_each_header_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        heads: list[bytes] = []

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                heads.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<rss/>")

        thread = threading.Thread(target=answer)
        thread.start()
        settings = Settings(fetch_allow=("127.0.0.0/8",), fetch_ports=(port,))
        with Fetcher(settings) as fetcher:
            fetcher.fetch(FetchRequest(f"http://127.0.0.1:{port}/", headers=OPTIONS.build_headers()))
        thread.join()
    lines = [line.split(b": ", 1) for line in heads[0].split(b"\r\n")[1:] if line]
    names = [name.lower() for name, *_ in lines]
    assert len(names) == len(set(names))
    assert [b"User-Agent", b"Mine/1"] in lines
    assert [b"Cookie", b"sid=c00kie-canary"] in lines


def test_a_change_of_the_shared_feed_leaves_an_own_copy_its_login(services: Services, ann: Actor) -> None:
    own = subscribe(services, ann, OPTIONS)
    feed = services.gateways.feeds.get_or_create(URL, now=clock.now())
    wanted = services.subscriptions.get(ann, own)._replace(feed_id=feed.id)
    shared = services.gateways.subscriptions.add(wanted, feed, clock.now()).feed_id
    with pytest.raises(ExistsError, match="already subscribe"):
        set_options(services, ann, shared, FetchOptions(user_agent="Mine/2"))
    assert services.subscriptions.get_fetch_options(ann, own) == OPTIONS


def test_an_address_leads_to_the_own_copy_there(services: Services, ann: Actor) -> None:
    subscribe(services, ann, OPTIONS)
    other = services.subscriptions.subscribe(ann, "https://other.example/feed").subscription.feed_id
    with pytest.raises(ExistsError, match="already subscribe"):
        services.subscriptions.change_address(ann, other, URL)


def test_an_own_copy_cannot_move_onto_another(services: Services, ann: Actor) -> None:
    subscribe(services, ann, OPTIONS)
    second = services.subscriptions.subscribe(ann, "https://paid.example/second", options=OPTIONS)
    with pytest.raises(ExistsError, match="already subscribe"):
        services.subscriptions.change_address(ann, second.subscription.feed_id, URL)


def test_V14_a_login_is_deleted_when_no_undo_needs_it_anymore(
    services: Services, ann: Actor, db: Any
) -> None:
    own = subscribe(services, ann, OPTIONS)
    services.subscriptions.unsubscribe(ann, own)
    services.orphans.run(seconds=60)
    now = clock.now()
    with clock.set_source(lambda: now + dt.timedelta(seconds=services.settings.undo_ttl - 60)):
        services.orphans.run(seconds=60)
        assert "sealed" in db.feeds.find_one({"_id": own})
    with clock.set_source(lambda: now + dt.timedelta(seconds=services.settings.undo_ttl + 60)):
        assert services.orphans.find_due_jobs(clock.now())
        services.orphans.run(seconds=60)
        assert "sealed" not in db.feeds.find_one({"_id": own})


def test_follow_up_requests_have_the_login_too(services: Services, ann: Actor, web: Web) -> None:
    own = subscribe(services, ann, OPTIONS)
    (poll,) = services.gateways.feeds.find_polls([own])
    polls, pulling = {own: poll}, services.pull
    elsewhere(lambda: asyncio.run(pulling._test_validators([(own, URL, Validators(etag="a"))], polls, web)))
    for new in ("https://paid.example/new", "https://other.example/new"):
        moves = [(own, URL, new)]
        elsewhere(lambda moves=moves: asyncio.run(pulling._follow_moves(moves, polls, web)))  # type: ignore[misc]
    sent = {request.url: bool(request.headers) for request in web.requests}
    assert sent == {URL: True, "https://paid.example/new": True, "https://other.example/new": False}


def test_without_its_login_the_copy_is_not_fetched(
    services: Services, settings: Settings, ann: Actor, web: Web
) -> None:
    own = subscribe(services, ann, OPTIONS)
    plain = services.subscriptions.subscribe(ann, "https://plain.example/feed").subscription.feed_id
    changed = dataclasses.replace(settings, secret_key="another key of thirty-two letters")
    with contextlib.closing(bootstrap.build(changed)) as other:
        pull(other, web, own, plain)
    assert [request.url for request in web.requests] == ["https://plain.example/feed"]
    feed = services.gateways.feeds.get(own)
    assert feed.error == "login_unreadable"
    # The right key ends it.
    pull(services, web, own)
    assert services.gateways.feeds.get(own).error is None


def test_equal_headers_keep_their_own_values() -> None:
    stored = FetchOptions(headers="X-K: a\nX-K: b\nX-L: c")
    assert stored.fill_headers(stored.mask_headers()) == stored.headers
    assert stored.fill_headers("X-K: new\nX-K: ••••••••") == "X-K: new\nX-K: b"
