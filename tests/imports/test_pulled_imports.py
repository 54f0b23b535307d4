"""Imports from other readers' servers: what they bring, what goes wrong, and how they go on."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from werkzeug.wrappers import Request, Response

from app import clock, create_app
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.errors import EventrError, InvalidError
from app.feeds.fetch.fetcher import Fetcher
from app.models.accounts.actor import Actor
from app.models.imports.imports import Import, ImportState
from app.models.imports.pulls import PullKind
from app.models.reading.stream import StreamQuery, StreamRef
from tests.imports.archives import HOST
from tests.imports.test_archives import Reader, feed
from tests.imports.test_imports import Pulling
from tests.imports.test_imports import run as run_import
from tests.support import other_readers as others
from tests.support.other_readers import NAME, PASSWORD, TOKEN, FreshRSS, Item, Miniflux, NewsBlur, OtherReader
from tests.support.reader import add_user, document_count, pull
from tests.support.wire import Wire
from tests.sync.conftest import password_of

ITEMS = [
    Item("a", 0, read=True),
    Item("a", 1, starred=True),
    Item("b", 0, read=True, starred=True),
    Item("b", 1),
    Item("gone", 7, starred=True),
]
BODIES = {f"{HOST}/a": feed("a", 2), f"{HOST}/b": feed("b", 2)}
SECRETS = {PullKind.MINIFLUX: ("", TOKEN)}


@pytest.fixture
def wire() -> Iterator[Wire]:
    with Wire() as found:
        yield found


@pytest.fixture
def settings(settings: Settings, wire: Wire) -> Settings:
    return dataclasses.replace(settings, fetch_allow=(wire.host,), import_pull_page=2)


@pytest.fixture
def fetcher(settings: Settings) -> Iterator[Fetcher]:
    with Fetcher(settings) as found:
        yield found


@pytest.fixture
def mine(services: Services, alice: Actor) -> Reader:
    return Reader(services, alice)


def serve(wire: Wire, server: OtherReader) -> OtherReader:
    wire.app = Request.application(server)
    return server


def request(services: Services, who: Actor, kind: PullKind, address: str) -> Import:
    name, secret = SECRETS.get(kind, (NAME, PASSWORD))
    return services.pulled_imports.request_pull(who, kind, address, name=name, secret=secret)


def go_on(services: Services, one: Import, fetcher: Fetcher, run: str = "") -> dict[str, Any]:
    name = run or uuid.uuid4().hex
    return asyncio.run(services.pulled_imports.run(one.user_id, one.id, name, fetcher))


def pulled(services: Services, who: Actor, kind: PullKind, address: str, fetcher: Fetcher) -> Import:
    """Read a server, and return the import."""
    one = request(services, who, kind, address)
    go_on(services, one, fetcher)
    return services.imports.get(who, one.id)


def imported(services: Services, one: Import, bodies: dict[str, bytes] | None = None) -> Import:
    """Start a preview, import everything in it, and return the import."""
    who = Actor(one.user_id)
    run_import(services, services.imports.start(who, one.id), Pulling(services, bodies or BODIES))
    return services.imports.get(who, one.id)


def login_of(services: Services, one: Import) -> Any:
    doc = services.store.database["imports"].find_one({"_id": one.id})
    assert doc is not None
    return doc["pull"]


# -- what each brings


def test_miniflux_brings_folders_stars_and_read_states(
    services: Services, alice: Actor, mine: Reader, wire: Wire, fetcher: Fetcher
) -> None:
    serve(wire, Miniflux({"a": "News", "b": ""}, ITEMS))
    found = pulled(services, alice, PullKind.MINIFLUX, wire.url(), fetcher)
    assert found.state is ImportState.PREVIEW
    assert [folder.name for folder in found.folders] == ["News"]
    assert login_of(services, found) is None
    done = imported(services, found)
    assert done.state is ImportState.DONE
    assert set(mine.starred) == {"a 1", "b 0", "gone 7"}
    assert mine.unread == {"a 1", "b 1", "gone 7"}
    assert done.marks == {"starred": 3, "read": 2, "pages": 1}


@pytest.mark.parametrize("base", ["/api/greader.php", ""], ids=["freshrss", "root"])
@pytest.mark.parametrize("given", ["", "/", "/reader/api/0"])
def test_google_reader_servers_bring_folders_stars_tags_and_read_states(
    services: Services,
    alice: Actor,
    mine: Reader,
    wire: Wire,
    fetcher: Fetcher,
    base: str,
    given: str,
) -> None:
    items = [*ITEMS, Item("a", 2, tags=("Later", "Work"), read=True), Item("lost", 1, tags=("Later",))]
    server = FreshRSS({"a": "News", "b": ""}, items)
    server.base = base
    serve(wire, server)
    found = pulled(services, alice, PullKind.GREADER, wire.url() + given, fetcher)
    assert found.state is ImportState.PREVIEW, found.fault
    done = imported(services, found, BODIES | {f"{HOST}/a": feed("a", 3)})
    assert [folder.name for folder in found.folders] == ["News"]
    assert set(mine.starred) == {"a 1", "b 0", "gone 7"}
    assert mine.tags == {"a 2": {"Later", "Work"}, "lost 1": {"Later"}}
    assert mine.unread == {"a 1", "b 1", "gone 7", "lost 1"}
    assert done.marks == {"starred": 3, "tagged": 2, "read": 3, "pages": 2}


def test_newsblur_brings_saved_stories_with_their_times_tags_notes_and_highlights(
    services: Services, alice: Actor, mine: Reader, wire: Wire, fetcher: Fetcher
) -> None:
    items = [
        Item("a", 0),
        Item("a", 1, starred=True, tags=("Later",), note="Why this matters", highlights=("a  1", "x")),
        Item("b", 0, starred=True),
        Item("gone", 7, starred=True, note="Kept"),
    ]
    serve(wire, NewsBlur({"a": "News", "b": ""}, items))
    found = pulled(services, alice, PullKind.NEWSBLUR, wire.url(), fetcher)
    assert found.state is ImportState.PREVIEW, found.fault
    done = imported(services, found)
    assert [folder.name for folder in found.folders] == ["News"]
    assert set(mine.starred) == {"a 1", "b 0", "gone 7"}
    assert mine.starred["a 1"] == dt.datetime.fromtimestamp(1_700_000_000, dt.UTC)
    assert mine.tags == {"a 1": {"Later"}}
    assert done.marks == {"starred": 3, "tagged": 1, "noted": 2, "pages": 1}
    notes = {one.title: one.note for one in services.notes.list_notes(alice)}
    assert notes["a 1"].text == "Why this matters"
    assert [quote.exact for quote in notes["a 1"].quotes] == ["a 1", "x"]
    assert notes["gone 7"].text == "Kept"


def test_another_eventr_is_read_by_its_own_interface(
    services: Services, alice: Actor, mine: Reader, wire: Wire, fetcher: Fetcher, settings: Settings
) -> None:
    other = dataclasses.replace(settings, mongodb_name=f"test_{uuid.uuid4().hex[:12]}")
    with contextlib.closing(bootstrap.build(other)) as there:
        there.migrate()
        try:
            ann = add_user(there, NAME)
            folder = there.folders.create(ann, "News")
            ids = [
                there.subscriptions.subscribe(ann, url, folder_id=folder.id).subscription.feed_id
                for url in BODIES
            ]
            pull(there, ids, BODIES)
            entries = {
                row.title: row.id
                for feed_id in ids
                for row in there.reading.load_page(ann, StreamQuery(StreamRef.parse(f"feed/{feed_id}"))).rows
            }
            there.reading.set_starred(ann, entries["a 1"], True)
            there.tags.change_tags(ann, entries["b 0"], add=["Later"])
            there.reading.mark(ann, [entries["a 0"]], True)
            wire.app = create_app(other, there)
            one = services.pulled_imports.request_pull(
                alice, PullKind.GREADER, wire.url(), name=NAME, secret=password_of(there, ann)
            )
            go_on(services, one, fetcher)
        finally:
            there.store.database.client.drop_database(other.mongodb_name)
    imported(services, services.imports.get(alice, one.id))
    assert set(mine.starred) == {"a 1"}
    assert mine.tags == {"b 0": {"Later"}}
    assert mine.unread == {"a 1", "b 0", "b 1"}


# -- what goes wrong


@pytest.mark.parametrize(
    ("kind", "secret", "said"),
    [
        (PullKind.MINIFLUX, "wrong", "127.0.0.1 refused this token. Make a new one in Miniflux"),
        (PullKind.GREADER, "wrong", "127.0.0.1 refused this login. Check the name and the password."),
        (PullKind.NEWSBLUR, "wrong", "NewsBlur refused this login."),
    ],
)
def test_a_refused_login_says_what_to_do_and_is_deleted(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher, kind: PullKind, secret: str, said: str
) -> None:
    servers = {PullKind.MINIFLUX: Miniflux, PullKind.GREADER: FreshRSS, PullKind.NEWSBLUR: NewsBlur}
    serve(wire, servers[kind]({"a": ""}, ITEMS))
    one = services.pulled_imports.request_pull(alice, kind, wire.url(), name=NAME, secret=secret)
    assert go_on(services, one, fetcher) == {"state": "unreadable"}
    found = services.imports.get(alice, one.id)
    assert found.fault is not None
    assert InvalidError(found.fault[0], **found.fault[1]).message.startswith(said)
    assert login_of(services, one) is None


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Response("no", 404), "doesn't have this interface"),
        (Response(status=301, headers={"Location": "https://elsewhere.example/"}), "sends visitors"),
        (Response("<html>Hello</html>", content_type="text/html"), "something else than an interface"),
        (Response("[" * 100_000), "something else than an interface"),
    ],
)
def test_answers_that_are_none_end_the_import(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher, reply: Response, said: str
) -> None:
    server = serve(wire, Miniflux({"a": ""}, ITEMS))
    server.refuse = lambda request: reply
    found = pulled(services, alice, PullKind.MINIFLUX, wire.url(), fetcher)
    assert found.state is ImportState.UNREADABLE
    assert found.fault is not None
    assert said in found.fault[0]
    assert len(wire.seen) == 1  # the token went to no other address


def test_private_addresses_are_refused(services: Services, alice: Actor, fetcher: Fetcher) -> None:
    found = pulled(services, alice, PullKind.MINIFLUX, "http://127.0.0.2:9", fetcher)
    assert found.state is ImportState.UNREADABLE
    assert found.fault is not None
    assert "isn't public" in found.fault[0]


@pytest.mark.parametrize(
    ("kind", "fields", "field"),
    [
        (PullKind.MINIFLUX, {"address": "", "secret": "x"}, "address"),
        (PullKind.MINIFLUX, {"address": "ftp://x.example", "secret": "x"}, "address"),
        (PullKind.MINIFLUX, {"address": "https://a:b@x.example", "secret": "x"}, "address"),
        (PullKind.MINIFLUX, {"address": "https://x.example"}, "secret"),
        (PullKind.MINIFLUX, {"address": "https://x.example", "secret": "a\r\nHost: b"}, "secret"),
        (PullKind.GREADER, {"address": "https://x.example", "secret": "x"}, "name"),
    ],
)
def test_wrong_fields_are_named(
    services: Services, alice: Actor, kind: PullKind, fields: dict[str, str], field: str
) -> None:
    with pytest.raises(InvalidError) as caught:
        services.pulled_imports.request_pull(alice, kind, **fields)
    assert caught.value.ids["field"] == field
    assert not services.imports.list_recent(alice)


def test_logins_are_encrypted_and_not_in_any_other_document(
    services: Services, alice: Actor, wire: Wire
) -> None:
    one = request(services, alice, PullKind.GREADER, wire.url())
    stored = services.store.database["imports"].find_one({"_id": one.id})
    assert PASSWORD not in repr(stored)
    assert PASSWORD.encode() not in bytes(stored["pull"]["sealed"])


def test_without_a_key_nothing_is_stored(services: Services, alice: Actor, wire: Wire) -> None:
    services.gateways.pulled_imports._key = b""
    with pytest.raises(InvalidError, match="no key"):
        request(services, alice, PullKind.GREADER, wire.url())
    assert not services.imports.list_recent(alice)


# -- going on


def test_a_run_that_died_is_continued_with_the_next_page(
    services: Services, alice: Actor, mine: Reader, wire: Wire, fetcher: Fetcher
) -> None:
    serve(wire, Miniflux({"a": "", "b": ""}, ITEMS))
    one = request(services, alice, PullKind.MINIFLUX, wire.url())
    gateway, stored = services.gateways.pulled_imports, list[Any]()
    store = gateway.store_page

    class KilledError(BaseException):
        """The process dies after a page was fetched and before it is stored."""

    def store_one(*args: Any) -> Any:
        stored.append(args)
        if len(stored) == 2:
            raise KilledError
        return store(*args)

    gateway.store_page = store_one  # type: ignore[method-assign]
    with pytest.raises(KilledError):
        go_on(services, one, fetcher)
    gateway.store_page = store  # type: ignore[method-assign]
    lost = wire.seen[-1].full_path
    asked = len(wire.seen)
    assert go_on(services, one, fetcher) == {"state": "preview"}
    pages = [r.full_path for r in wire.seen[asked:] if r.path == "/v1/entries"]
    assert pages[0] == lost  # neither left out nor read from the beginning
    imported(services, services.imports.get(alice, one.id))
    assert set(mine.starred) == {"a 1", "b 0", "gone 7"}


def test_a_run_that_was_replaced_stores_nothing(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher
) -> None:
    server = serve(wire, Miniflux({"a": ""}, ITEMS))
    one = request(services, alice, PullKind.MINIFLUX, wire.url())

    def replace_run(request: Request) -> Response | None:
        services.gateways.pulled_imports.begin_run(one.user_id, one.id, "another", clock.now())
        return None

    server.refuse = replace_run
    assert go_on(services, one, fetcher) == {"state": "left"}
    assert services.store.database["import_marks"].count_documents({}) == 0
    server.refuse = lambda request: None
    assert go_on(services, one, fetcher) == {"state": "preview"}


def test_a_busy_server_is_asked_again_when_it_says(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher
) -> None:
    server = serve(wire, Miniflux({"a": ""}, ITEMS))
    one = request(services, alice, PullKind.MINIFLUX, wire.url())
    server.refuse = lambda request: Response("later", 429, {"Retry-After": "300"})
    assert go_on(services, one, fetcher) == {"state": "waits"}
    pending = {task.key: task.due for task in services.pulled_imports.find_pending()}
    assert pending[str(one.id)] - clock.now() > dt.timedelta(seconds=290)
    asked = len(wire.seen)
    assert go_on(services, one, fetcher) == {"state": "ended"}  # too early
    assert len(wire.seen) == asked
    server.refuse = lambda request: None
    later = clock.now() + dt.timedelta(seconds=301)
    with clock.set_source(lambda: later):
        assert go_on(services, one, fetcher) == {"state": "preview"}


def test_a_server_that_never_answers_is_given_up_and_the_login_deleted(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher
) -> None:
    server = serve(wire, Miniflux({"a": ""}, ITEMS))
    server.refuse = lambda request: Response("broken", 502)
    one, now = request(services, alice, PullKind.MINIFLUX, wire.url()), clock.now()
    states = []
    for turn in range(services.settings.import_pull_tries):
        with clock.set_source(lambda turn=turn: now + dt.timedelta(hours=2 * turn)):
            states.append(go_on(services, one, fetcher)["state"])
    assert states == ["waits"] * (services.settings.import_pull_tries - 1) + ["given_up"]
    assert services.imports.get(alice, one.id).state is ImportState.UNREADABLE
    assert login_of(services, one) is None


def test_runs_that_store_nothing_end_the_import(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher
) -> None:
    from app.gateways.imports import pulls

    serve(wire, Miniflux({"a": ""}, ITEMS))
    one = request(services, alice, PullKind.MINIFLUX, wire.url())
    for number in range(pulls.TRIES):
        services.gateways.pulled_imports.begin_run(one.user_id, one.id, f"run {number}", clock.now())
    assert go_on(services, one, fetcher) == {"state": "unreadable"}


def test_long_answers_are_asked_for_in_shorter_pages(
    services: Services, alice: Actor, mine: Reader, wire: Wire, settings: Settings
) -> None:
    services.pulled_imports._settings = dataclasses.replace(settings, import_pull_page=64)
    server = serve(wire, Miniflux({"a": ""}, [Item("a", n, starred=n == 3) for n in range(120)]))
    server.text = "x" * 2000
    with Fetcher(dataclasses.replace(settings, import_pull_bytes=1 << 16)) as fetcher:
        found = pulled(services, alice, PullKind.MINIFLUX, wire.url(), fetcher)
    assert {r.args["limit"] for r in wire.seen if r.path == "/v1/entries"} == {"64", "16"}
    assert found.state is ImportState.PREVIEW
    assert found.marks["waiting"] == 120


def test_entries_beyond_the_limit_are_counted_and_not_asked_for(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher, settings: Settings
) -> None:
    serve(wire, Miniflux({"a": ""}, [Item("a", n, read=True) for n in range(50)]))
    services.pulled_imports._settings = dataclasses.replace(settings, archive_entries_max=5)
    archives = services.gateways.archives
    archives._limits = dataclasses.replace(archives._limits, entries=5)
    found = pulled(services, alice, PullKind.MINIFLUX, wire.url(), fetcher)
    assert found.marks == {"waiting": 5, "cut": 1}
    assert len(wire.seen) == 5


def test_a_deleted_import_leaves_nothing(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher
) -> None:
    server = serve(wire, Miniflux({"a": ""}, ITEMS))
    before = document_count(services.store.database)
    one = request(services, alice, PullKind.MINIFLUX, wire.url())

    def delete_at_the_second_page(request: Request) -> Response | None:
        if "before_entry_id" in request.args:
            services.imports.remove(alice, one.id)
        return None

    server.refuse = delete_at_the_second_page
    assert go_on(services, one, fetcher) == {"state": "left"}
    assert document_count(services.store.database) == before


def test_strangers_cannot_see_or_delete_it(services: Services, alice: Actor, bob: Actor, wire: Wire) -> None:
    one = request(services, alice, PullKind.MINIFLUX, wire.url())
    for call in (services.imports.get, services.imports.remove):
        with pytest.raises(EventrError):
            call(bob, one.id)
    assert others.TOKEN not in repr(services.imports.get(alice, one.id))
