"""Imports from other readers' servers: what they bring, what goes wrong, and how they go on."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import json
import uuid
from typing import Any

import pytest
from werkzeug.wrappers import Request, Response

from app import clock, create_app
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.errors import (
    ConflictError,
    EventrError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    RateLimitedError,
)
from app.feeds.fetch.fetcher import Fetcher
from app.gateways.imports import pulls as gateway
from app.gateways.imports.pulls import TRIES
from app.models.accounts.actor import Actor
from app.models.feeds.hosts import parse_host
from app.models.imports.imports import Import, ImportState
from app.models.imports.pulls import PullKind
from app.models.reading.stream import StreamQuery, StreamRef
from app.services.imports import pulls
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
def settings(settings: Settings, wire: Wire) -> Settings:
    return dataclasses.replace(settings, fetch_allow=(wire.host,), import_pull_page=2)


@pytest.fixture
def mine(services: Services, alice: Actor) -> Reader:
    return Reader(services, alice)


def serve(wire: Wire, server: OtherReader) -> OtherReader:
    wire.app = Request.application(server)
    return server


@pytest.fixture(autouse=True)
def _newsblur(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "NEWSBLUR", wire.url().rstrip("/"))


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
    found = pulled(services, alice, PullKind.NEWSBLUR, "", fetcher)
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


def test_stories_shared_on_newsblur_get_a_tag_and_their_comments_become_notes(
    services: Services, alice: Actor, mine: Reader, wire: Wire, fetcher: Fetcher
) -> None:
    items = [
        Item("a", 0, shared=""),
        Item("a", 1, starred=True, note="Mine", shared="For all of you"),
        Item("b", 0, shared="  Worth it\n"),
        Item("b", 1, starred=True),
        Item("gone", 7, shared="Kept"),
    ]
    server = NewsBlur({"a": "News", "b": ""}, items)
    server.most_shared = 1  # fewer than are asked for
    serve(wire, server)
    done = imported(services, pulled(services, alice, PullKind.NEWSBLUR, "", fetcher))
    assert mine.tags == {title: {"Shared"} for title in ("a 0", "a 1", "b 0", "gone 7")}
    assert set(mine.starred) == {"a 1", "b 1"}
    assert done.marks == {"starred": 2, "tagged": 4, "noted": 3, "pages": 1}
    notes = {one.title: one.note.text for one in services.notes.list_notes(alice)}
    assert notes == {"a 1": "Mine\n\nFor all of you", "b 0": "Worth it", "gone 7": "Kept"}
    # Other people read it there, so nothing is shared anew.
    assert services.store.database["shares"].count_documents({}) == 0


def test_a_newsblur_that_repeats_its_first_page_of_shares_is_read_once(
    services: Services, alice: Actor, mine: Reader, wire: Wire, fetcher: Fetcher
) -> None:
    class Repeating(NewsBlur):
        def list_shared(self, offset: int, limit: int) -> Response:
            return super().list_shared(0, limit)

    serve(wire, Repeating({"a": ""}, [Item("a", 0, shared=""), Item("a", 1, shared="")]))
    imported(services, pulled(services, alice, PullKind.NEWSBLUR, "", fetcher))
    assert set(mine.tags) == {"a 0", "a 1"}
    assert sum(r.path.startswith("/social/") for r in wire.seen) == 2


def test_shares_of_a_newsblur_that_names_no_stories_are_read_to_their_end(
    services: Services, alice: Actor, mine: Reader, wire: Wire, fetcher: Fetcher
) -> None:
    class Nameless(NewsBlur):
        def _shared_story(self, number: int, item: Item) -> dict[str, Any]:
            return {**super()._shared_story(number, item), "story_hash": None}

    server = Nameless({"a": ""}, [Item("a", number, shared="") for number in range(3)])
    server.most_shared = 1
    serve(wire, server)
    imported(services, pulled(services, alice, PullKind.NEWSBLUR, "", fetcher))
    assert set(mine.tags) == {"a 0", "a 1", "a 2"}


def test_a_newsblur_without_profiles_brings_the_rest(
    services: Services, alice: Actor, mine: Reader, wire: Wire, fetcher: Fetcher
) -> None:
    class Plain(NewsBlur):
        def serve(self, request: Request) -> Response:
            found = super().serve(request)
            if request.path != "/reader/feeds":
                return found
            body = json.loads(found.get_data())
            del body["social_profile"]
            return others.answer(body)

    serve(wire, Plain({"a": ""}, [Item("a", 0, starred=True, shared="x")]))
    imported(services, pulled(services, alice, PullKind.NEWSBLUR, "", fetcher))
    assert set(mine.starred) == {"a 0"}
    assert mine.tags == {}


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
    found = pulled(services, alice, PullKind.MINIFLUX, "http://127.0.0.2", fetcher)
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

    def store_one(*args: Any, **more: Any) -> Any:
        stored.append(args)
        if len(stored) == 2:
            raise KilledError
        return store(*args, **more)

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


class KilledError(BaseException):
    """The process dies."""


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


def test_a_try_by_hand_does_not_wait_and_counts_for_the_failed_one(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher
) -> None:
    server = serve(wire, Miniflux({"a": ""}, ITEMS))
    server.refuse = lambda request: Response("broken", 502)
    one, now = request(services, alice, PullKind.MINIFLUX, wire.url()), clock.now()
    assert services.pulled_imports.try_now(alice, one.id).pull == one.pull, "nothing has failed yet"
    for turn in range(3 * services.settings.import_pull_tries):
        with clock.set_source(lambda turn=turn: now + dt.timedelta(seconds=turn)):
            assert go_on(services, one, fetcher) == {"state": "waits"}, "it is never given up"
            waiting = services.imports.get(alice, one.id)
            assert waiting.pull
            assert waiting.pull.failures == 1
            assert waiting.build_report(clock.now())["waits"]
            for _ in range(2):  # a double click
                tried = services.pulled_imports.try_now(alice, one.id).pull
                assert tried
                assert (tried.failures, tried.due) == (0, clock.now())
                assert not services.imports.get(alice, one.id).build_report(clock.now())["waits"]
        if turn == pulls.TRIES_NOW - 2:
            break
    server.refuse = lambda request: None
    with clock.set_source(lambda: now + dt.timedelta(seconds=turn)):
        assert go_on(services, one, fetcher) == {"state": "preview"}
    with pytest.raises(ConflictError):
        services.pulled_imports.try_now(alice, one.id)


def test_tries_by_hand_are_limited_and_for_the_owner(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher
) -> None:
    server = serve(wire, Miniflux({"a": ""}, ITEMS))
    server.refuse = lambda request: Response("broken", 502)
    one = request(services, alice, PullKind.MINIFLUX, wire.url())
    go_on(services, one, fetcher)
    put_off = services.gateways.pulled_imports.put_off
    for _ in range(pulls.TRIES_NOW):
        services.pulled_imports.try_now(alice, one.id)
        services.pulled_imports.try_now(alice, one.id)
        tried = services.imports.get(alice, one.id)
        put_off(tried, "timeout", clock.now() + dt.timedelta(hours=1), clock.now())
    with pytest.raises(RateLimitedError):
        services.pulled_imports.try_now(alice, one.id)
    with pytest.raises(NotFoundError):
        services.pulled_imports.try_now(Actor(one.user_id + 1), one.id)
    with pytest.raises(ForbiddenError):
        services.pulled_imports.try_now(dataclasses.replace(alice, limits=frozenset()), one.id)


@pytest.mark.parametrize(("status", "asked"), [(429, "300"), (503, "300"), (429, "")])
def test_a_pause_that_the_server_asked_for_holds_for_a_try_by_hand(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher, status: int, asked: str
) -> None:
    server = serve(wire, Miniflux({"a": ""}, ITEMS))
    server.refuse = lambda request: Response("later", status, {"Retry-After": asked} if asked else {})
    one = request(services, alice, PullKind.MINIFLUX, wire.url())
    assert go_on(services, one, fetcher) == {"state": "waits"}
    due, now = login_of(services, one)["due"], clock.now()
    with pytest.raises(ConflictError, match="asked Eventr to wait"):
        services.pulled_imports.try_now(alice, one.id)
    assert login_of(services, one)["due"] == due
    # Once that is over, nothing speaks against a try, even if Eventr itself would wait for longer.
    services.store.database["imports"].update_one(
        {"_id": one.id}, {"$set": {"pull.due": due + dt.timedelta(hours=1)}}
    )
    with clock.set_source(lambda: now + dt.timedelta(seconds=301)):
        tried = services.pulled_imports.try_now(alice, one.id).pull
        assert tried
        assert tried.due == clock.now()


def test_a_short_pause_that_the_server_asked_for_ends_before_ours(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher
) -> None:
    server = serve(wire, Miniflux({"a": ""}, ITEMS))
    server.refuse = lambda request: Response("later", 503, {"Retry-After": "5"})
    one = request(services, alice, PullKind.MINIFLUX, wire.url())
    now = clock.now()
    assert go_on(services, one, fetcher) == {"state": "waits"}
    with clock.set_source(lambda: now + dt.timedelta(seconds=4)), pytest.raises(ConflictError):
        services.pulled_imports.try_now(alice, one.id)
    with clock.set_source(lambda: now + dt.timedelta(seconds=15)):
        tried = services.pulled_imports.try_now(alice, one.id).pull
        assert tried
        assert tried.due == clock.now()


def test_a_pause_asked_for_since_the_page_was_shown_holds(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher
) -> None:
    server = serve(wire, Miniflux({"a": ""}, ITEMS))
    server.refuse = lambda request: Response("broken", 502)
    one = request(services, alice, PullKind.MINIFLUX, wire.url())
    go_on(services, one, fetcher)
    gateway, is_asked = services.gateways.pulled_imports, list[dt.datetime]()
    mapper = gateway.mapper

    class Late:
        """Another try ends between the check and the write."""

        def __getattr__(self, name: str) -> Any:
            return getattr(mapper, name)

        def make_pull_due(self, *args: Any) -> bool:
            later = clock.now() + dt.timedelta(minutes=10)
            now = services.imports.get(alice, one.id)
            assert gateway.put_off(now, "http_429", later, clock.now(), asked_until=later)
            is_asked.append(later)
            return mapper.make_pull_due(*args)

    gateway.mapper = Late()  # type: ignore[assignment]
    with pytest.raises(ConflictError):
        services.pulled_imports.try_now(alice, one.id)
    gateway.mapper = mapper
    assert login_of(services, one)["due"] > clock.now() + dt.timedelta(minutes=9)
    assert is_asked


@pytest.mark.parametrize("method", ["add", "remove_pull"])
def test_a_kill_while_an_import_is_replaced_leaves_the_old_one_or_the_new_one(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher, method: str
) -> None:
    server = serve(wire, Miniflux({"a": ""}, ITEMS))
    server.refuse = lambda request: Response("broken", 502)
    one = request(services, alice, PullKind.MINIFLUX, wire.url())
    go_on(services, one, fetcher)
    gateway = services.gateways.pulled_imports
    mapper = gateway.mapper

    class Dying:
        """Dies after a write."""

        def __getattr__(self, name: str) -> Any:
            def write_and_die(*args: Any, **more: Any) -> Any:
                getattr(mapper, name)(*args, **more)
                raise KilledError

            return write_and_die if name == method else getattr(mapper, name)

    gateway.mapper = Dying()  # type: ignore[assignment]
    more: dict[str, Any] = {"secret": "new", "instead_of": one.id}
    with pytest.raises(KilledError):
        services.pulled_imports.request_pull(alice, PullKind.MINIFLUX, wire.url(), **more)
    gateway.mapper = mapper
    assert [found.id for found in services.imports.list_recent(alice)] == [one.id]
    new = services.pulled_imports.request_pull(alice, PullKind.MINIFLUX, wire.url(), **more)
    assert [found.id for found in services.imports.list_recent(alice)] == [new.id]


def test_what_a_killed_run_has_stored_goes_with_the_import_that_is_replaced(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher
) -> None:
    server = serve(wire, Miniflux({"a": ""}, ITEMS))
    one = request(services, alice, PullKind.MINIFLUX, wire.url())
    gateway = services.gateways.pulled_imports
    end = gateway.mapper.end_pull

    def die(*args: Any) -> Any:
        raise KilledError

    gateway.mapper.end_pull = die  # type: ignore[method-assign]
    with pytest.raises(KilledError):
        go_on(services, one, fetcher)
    gateway.mapper.end_pull = end  # type: ignore[method-assign]
    tables = [services.store.database[name] for name in ("import_parts", "import_marks")]
    assert all(table.count_documents({"import_id": one.id}) for table in tables)
    server.refuse = lambda request: Response("broken", 502)
    assert go_on(services, one, fetcher) == {"state": "waits"}
    services.pulled_imports.request_pull(
        alice, PullKind.MINIFLUX, wire.url(), secret="new", instead_of=one.id
    )
    assert [table.count_documents({}) for table in tables] == [0, 0]


def test_runs_that_store_nothing_end_the_import(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher
) -> None:

    serve(wire, Miniflux({"a": ""}, ITEMS))
    one = request(services, alice, PullKind.MINIFLUX, wire.url())
    for number in range(TRIES):
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
    assert {r.args["limit"] for r in wire.seen if r.path == "/v1/entries"} == {"64", "32", "16", "8"}
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


# -- limits, and servers that misbehave


def wait_until(services: Services, one: Import, fetcher: Fetcher, **later: float) -> dict[str, Any]:
    """Go on later; what has expired until then is deleted, as MongoDB does by itself."""
    at = clock.now() + dt.timedelta(**later)
    for name in ("imports", "import_marks"):
        services.store.database[name].delete_many({"expires": {"$lt": at}})
    with clock.set_source(lambda: at):
        return go_on(services, one, fetcher)


def refuse_at(field: str, value: str = "") -> Any:
    """Return what answers requests with a field that they are too many."""

    def refuse(request: Request) -> Response | None:
        found = request.args.get(field) if request.method == "GET" else None
        return Response("later", 429) if found is not None and value in found else None

    return refuse


def fault_of(services: Services, one: Import) -> str:
    found = services.imports.get(Actor(one.user_id), one.id)
    assert found.state is ImportState.UNREADABLE
    assert found.fault is not None
    return InvalidError(found.fault[0], **found.fault[1]).message


def asked_for(wire: Wire, since: int, field: str = "s") -> list[tuple[str, str]]:
    """Return the stage and the continuation of the lists that were asked for."""
    return [(r.args[field], r.args.get("c", "")) for r in wire.seen[since:] if field in r.args]


def test_a_pull_of_many_days_keeps_its_first_pages(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher
) -> None:
    server = serve(wire, Miniflux({"a": "", "b": ""}, ITEMS))
    one = request(services, alice, PullKind.MINIFLUX, wire.url())
    server.refuse = refuse_at("before_entry_id")
    assert go_on(services, one, fetcher) == {"state": "waits"}
    server.refuse = lambda request: None
    assert wait_until(services, one, fetcher, days=20) == {"state": "preview"}
    assert services.imports.get(alice, one.id).marks["waiting"] == len(ITEMS)


def test_a_pull_ends_after_a_month(services: Services, alice: Actor, wire: Wire, fetcher: Fetcher) -> None:
    server = serve(wire, Miniflux({"a": "", "b": ""}, ITEMS))
    one = request(services, alice, PullKind.MINIFLUX, wire.url())
    server.refuse = refuse_at("before_entry_id")
    go_on(services, one, fetcher)
    assert wait_until(services, one, fetcher, days=30, hours=1) == {"state": "unreadable"}
    assert "takes too long" in fault_of(services, one)
    assert login_of(services, one) is None


def test_lost_pages_are_never_left_out_silently(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher
) -> None:
    server = serve(wire, Miniflux({"a": "", "b": ""}, ITEMS))
    one = request(services, alice, PullKind.MINIFLUX, wire.url())
    server.refuse = refuse_at("before_entry_id")
    go_on(services, one, fetcher)
    assert services.store.database["import_marks"].delete_one({}).deleted_count
    server.refuse = lambda request: None
    assert wait_until(services, one, fetcher, hours=1) == {"state": "unreadable"}
    assert "is gone" in fault_of(services, one)


@pytest.mark.parametrize("gone", [[0], [1], [0, 1]], ids=["first", "last", "all"])
def test_stories_that_are_unsaved_between_two_runs_leave_no_other_out(
    services: Services, alice: Actor, mine: Reader, wire: Wire, fetcher: Fetcher, gone: list[int]
) -> None:
    items = [Item("a", number, starred=True) for number in range(6)]
    server = serve(wire, NewsBlur({"a": ""}, items))
    one = request(services, alice, PullKind.NEWSBLUR, "")
    server.refuse = refuse_at("h", ":000002")
    assert go_on(services, one, fetcher) == {"state": "waits"}
    for number in gone:
        items[number].starred = False
    server.refuse = lambda request: None
    assert wait_until(services, one, fetcher, hours=1) == {"state": "preview"}
    imported(services, services.imports.get(alice, one.id), {f"{HOST}/a": feed("a", 6)})
    assert {"a 2", "a 3", "a 4", "a 5"} <= set(mine.starred)


class Endless(FreshRSS):
    """Always has one more page, whose items are none."""

    def _stream_items_ids(self, request: Request) -> Response:
        number = int(request.args.get("c", 0)) + 1
        if number > 40:
            return Response("stop", 404)
        refs = [{"id": str(number * 100 + place)} for place in range(2)]
        return others.answer({"itemRefs": refs, "continuation": str(number)})

    def _stream_items_contents(self, request: Request) -> Response:
        return others.answer({"items": []})


def test_a_list_without_end_ends(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher, settings: Settings
) -> None:
    serve(wire, Endless({"a": ""}, []))
    services.pulled_imports._settings = dataclasses.replace(settings, archive_entries_max=20)
    found = pulled(services, alice, PullKind.GREADER, wire.url(), fetcher)
    assert found.state is ImportState.PREVIEW, found.fault
    assert len(asked_for(wire, 0)) == 11


def test_pages_are_limited(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulls, "PAGES_MAX", 5)
    serve(wire, Endless({"a": ""}, []))
    found = pulled(services, alice, PullKind.GREADER, wire.url(), fetcher)
    assert found.state is ImportState.PREVIEW, found.fault
    assert len(asked_for(wire, 0)) == 5


def test_labels_without_end_are_cut_when_they_are_read(
    services: Services, alice: Actor, mine: Reader, wire: Wire, fetcher: Fetcher
) -> None:
    labels = tuple(f"{number:05}{'x' * 1990}" for number in range(9000))
    server = serve(wire, FreshRSS({"a": ""}, [Item("a", 0, starred=True, tags=("Later", *labels))]))
    server.refuse = lambda r: others.answer({"tags": []}) if r.path.endswith("tag/list") else None
    found = pulled(services, alice, PullKind.GREADER, wire.url(), fetcher)
    assert found.state is ImportState.PREVIEW, found.fault
    imported(services, found)
    assert mine.tags == {"a 0": {"Later"}}


def test_what_a_pull_stores_is_limited(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulls, "STORED_MAX", 4000)
    items = [Item("a", number, starred=True, note="x" * 900) for number in range(6)]
    serve(wire, NewsBlur({"a": ""}, items))
    found = pulled(services, alice, PullKind.NEWSBLUR, "", fetcher)
    assert "larger than this server accepts" in fault_of(services, found)
    assert services.store.database["import_marks"].count_documents({}) == 0


def test_notes_and_highlights_of_a_page_fit_into_the_database(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher, settings: Settings
) -> None:
    services.pulled_imports._settings = dataclasses.replace(settings, import_pull_page=100)
    quotes = tuple(f"{number:04}" + "語" * 4990 for number in range(200))
    items = [Item("a", number, starred=True, highlights=quotes) for number in range(8)]
    serve(wire, NewsBlur({"a": ""}, items))
    found = pulled(services, alice, PullKind.NEWSBLUR, "", fetcher)
    assert found.state is ImportState.PREVIEW, found.fault


def test_halves_of_characters_are_replaced(
    services: Services, alice: Actor, mine: Reader, wire: Wire, fetcher: Fetcher
) -> None:
    items = [Item("a", 0, starred=True, tags=("Half\ud83d", "Whole😀", "\\ud83d")), Item("\udc00", 1)]
    serve(wire, FreshRSS({"a": "Folder\ud800", "b\udfff": ""}, items))
    found = pulled(services, alice, PullKind.GREADER, wire.url(), fetcher)
    assert found.state is ImportState.PREVIEW, found.fault
    imported(services, found)
    assert mine.tags == {"a 0": {"Half\ufffd", "Whole😀", "\\ud83d"}}


class Halves(FreshRSS):
    """Names its items and its pages with halves of characters."""

    def _stream_items_ids(self, request: Request) -> Response:
        more = {} if "c" in request.args else {"continuation": "\udc00"}
        return others.answer({"itemRefs": [{"id": "1\ud800"}], **more})

    def _stream_items_contents(self, request: Request) -> Response:
        return others.answer({"items": [self._item(1)]})


def test_ids_of_half_characters_are_sent_back_replaced(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher
) -> None:
    serve(wire, Halves({"a": ""}, [Item("a", 0, starred=True)]))
    found = pulled(services, alice, PullKind.GREADER, wire.url(), fetcher)
    assert found.state is ImportState.PREVIEW, found.fault


@pytest.mark.parametrize("number", [True, -1, 0, 10**40])
def test_impossible_numbers_of_entries_end_the_list(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher, number: int
) -> None:
    server = serve(wire, Miniflux({"a": ""}, ITEMS))
    rows = [{"id": number, "url": f"{HOST}/a/0"}, {"id": number, "url": f"{HOST}/a/1"}]
    server.refuse = lambda r: others.answer({"entries": rows}) if r.path == "/v1/entries" else None
    assert pulled(services, alice, PullKind.MINIFLUX, wire.url(), fetcher).state is ImportState.PREVIEW


class AllAtOnce(FreshRSS):
    """Ignores how many ids were asked for."""

    def _stream_items_ids(self, request: Request) -> Response:
        stream = request.args["s"]
        found = [number for number, item in enumerate(self.items, 1) if self._is_in(item, stream)]
        return others.answer({"itemRefs": [{"id": str(number)} for number in found]})


def test_a_server_that_lists_all_at_once_is_read_in_pages(
    services: Services, alice: Actor, mine: Reader, wire: Wire, fetcher: Fetcher
) -> None:
    items = [Item("a", number, starred=True) for number in range(7)]
    server = serve(wire, AllAtOnce({"a": ""}, items))
    sizes = list[int]()

    def refuse_later(request: Request) -> Response | None:
        if request.path.endswith("items/contents"):
            sizes.append(len(request.form.getlist("i")))
        return Response("later", 429) if len(sizes) == 3 else None

    server.refuse = refuse_later
    one = request(services, alice, PullKind.GREADER, wire.url())
    assert go_on(services, one, fetcher) == {"state": "waits"}
    sizes.append(0)
    items[0].starred = False
    assert wait_until(services, one, fetcher, hours=1) == {"state": "preview"}
    assert max(sizes) == 2
    imported(services, services.imports.get(alice, one.id), {f"{HOST}/a": feed("a", 7)})
    assert {f"a {number}" for number in range(1, 7)} <= set(mine.starred)


def test_eventrs_own_rate_limit_is_no_failure_of_the_server(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher
) -> None:
    serve(wire, Miniflux({"a": ""}, ITEMS))
    one = request(services, alice, PullKind.MINIFLUX, wire.url())
    for address in ("a", "b", "c"):
        services.budget.pause_host(parse_host(wire.url()), 3600, wire.url() + address)
    for turn in range(services.settings.import_pull_tries + 1):
        assert wait_until(services, one, fetcher, hours=2 * turn) == {"state": "waits"}
    assert login_of(services, one)["failures"] == 0
    assert not login_of(services, one)["problem"]
    assert not wire.seen


def test_a_server_that_says_at_once_isnt_asked_at_once_for_ever(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher
) -> None:
    server = serve(wire, Miniflux({"a": ""}, ITEMS))
    one = request(services, alice, PullKind.MINIFLUX, wire.url())
    server.refuse = lambda request: Response("later", 429, {"Retry-After": "1"})
    assert go_on(services, one, fetcher) == {"state": "waits"}
    at = clock.now() + dt.timedelta(hours=1)
    with clock.set_source(lambda: at):
        assert go_on(services, one, fetcher) == {"state": "waits"}
    pending = {task.key: task.due for task in services.pulled_imports.find_pending()}
    assert pending[str(one.id)] - at >= dt.timedelta(seconds=60)


def test_one_server_at_a_time_is_read_for_a_person(
    services: Services, alice: Actor, bob: Actor, wire: Wire, fetcher: Fetcher
) -> None:
    serve(wire, Miniflux({"a": ""}, ITEMS))
    first, second = (request(services, alice, PullKind.MINIFLUX, wire.url()) for _ in range(2))
    services.gateways.pulled_imports.begin_run(first.user_id, first.id, "another", clock.now())
    assert go_on(services, second, fetcher) == {"state": "waits"}
    assert not wire.seen
    assert pulled(services, bob, PullKind.MINIFLUX, wire.url(), fetcher).state is ImportState.PREVIEW
    assert go_on(services, first, fetcher) == {"state": "preview"}
    assert go_on(services, second, fetcher) == {"state": "preview"}


def test_a_run_that_died_keeps_others_waiting_for_minutes_only(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher
) -> None:
    serve(wire, Miniflux({"a": ""}, ITEMS))
    first, second = (request(services, alice, PullKind.MINIFLUX, wire.url()) for _ in range(2))
    services.gateways.pulled_imports.begin_run(first.user_id, first.id, "killed", clock.now())
    assert wait_until(services, second, fetcher, minutes=10) == {"state": "preview"}


def test_a_long_run_makes_room_for_others(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulls, "LONGEST", 0.0)
    serve(wire, Miniflux({"a": ""}, ITEMS))
    first, second = (request(services, alice, PullKind.MINIFLUX, wire.url()) for _ in range(2))
    states = list[str]()
    while "preview" not in states[-2:]:
        states += [go_on(services, one, fetcher)["state"] for one in (first, second)]
    assert states == ["waits"] * (len(states) - 2) + ["preview"] * 2
    assert services.imports.get(alice, first.id).marks["waiting"] == len(ITEMS)


def test_a_tag_that_vanished_gives_its_place_to_no_other_list(
    services: Services, alice: Actor, mine: Reader, wire: Wire, fetcher: Fetcher
) -> None:
    items = [Item("a", number, read=True, starred=True, tags=("Later",)) for number in range(4)]
    server = serve(wire, FreshRSS({"a": ""}, items))
    one = request(services, alice, PullKind.GREADER, wire.url())
    server.refuse = lambda r: Response("", 429) if "Later" in r.args.get("s", "") and "c" in r.args else None
    assert go_on(services, one, fetcher) == {"state": "waits"}
    for item in items:
        item.tags = ("New",)
    server.refuse, asked = lambda request: None, len(wire.seen)
    assert wait_until(services, one, fetcher, hours=1) == {"state": "preview"}
    lists = asked_for(wire, asked)
    assert lists[0] == ("user/-/label/New", "")
    assert not [stream for stream, _ in lists if stream == others.STARRED]  # it had been read
    assert ("user/-/state/com.google/reading-list", "") in lists


def test_tags_in_another_order_are_all_read_once(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher
) -> None:
    items = [Item("a", 0, tags=("A",)), Item("a", 1, tags=("B",)), Item("a", 2, tags=("C",))]
    server = serve(wire, FreshRSS({"a": ""}, items))
    one = request(services, alice, PullKind.GREADER, wire.url())
    server.refuse = refuse_at("s", "label/B")
    assert go_on(services, one, fetcher) == {"state": "waits"}
    items.reverse()
    server.refuse, asked = lambda request: None, len(wire.seen)
    assert wait_until(services, one, fetcher, hours=1) == {"state": "preview"}
    tags = [stream[-1] for stream, _ in asked_for(wire, asked) if "/label/" in stream]
    assert sorted(tags) == ["B", "C"]


@pytest.mark.parametrize("secret", ["tökén☃", "x" * 513])
def test_a_token_that_no_header_may_have_is_refused_at_once(
    services: Services, alice: Actor, secret: str
) -> None:
    with pytest.raises(InvalidError) as caught:
        services.pulled_imports.request_pull(
            alice, PullKind.MINIFLUX, "https://rss.example.org", secret=secret
        )
    assert caught.value.ids["field"] == "secret"


def test_passwords_may_have_all_letters(services: Services, alice: Actor) -> None:
    one = services.pulled_imports.request_pull(
        alice, PullKind.GREADER, "https://rss.example.org", name="Ålice", secret="пароль☃"
    )
    assert one.pull is not None


@pytest.mark.parametrize("auth", ["☃", "x" * 2000])
def test_a_session_that_no_header_may_have_is_none(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher, auth: str
) -> None:
    server = serve(wire, FreshRSS({"a": ""}, ITEMS))
    server.refuse = lambda r: Response(f"Auth={auth}\n") if r.path.endswith("ClientLogin") else None
    found = pulled(services, alice, PullKind.GREADER, wire.url(), fetcher)
    assert "something else than an interface" in fault_of(services, found)


def test_a_port_that_isnt_allowed_is_named(services: Services, alice: Actor, fetcher: Fetcher) -> None:
    found = pulled(services, alice, PullKind.MINIFLUX, "https://rss.example.org:25", fetcher)
    assert "port" in fault_of(services, found)
    assert "public" not in fault_of(services, found)


def test_pages_grow_again_after_a_long_answer(
    services: Services, alice: Actor, wire: Wire, settings: Settings
) -> None:
    services.pulled_imports._settings = dataclasses.replace(settings, import_pull_page=64)
    server = serve(wire, Miniflux({"a": ""}, [Item("a", n, read=True) for n in range(200)]))

    def shorten(request: Request) -> Response | None:
        server.text = "x" * (10 if "before_entry_id" in request.args else 2000)
        return None

    server.refuse = shorten
    with Fetcher(dataclasses.replace(settings, import_pull_bytes=1 << 16)) as fetcher:
        found = pulled(services, alice, PullKind.MINIFLUX, wire.url(), fetcher)
    assert found.state is ImportState.PREVIEW
    limits = [r.args["limit"] for r in wire.seen if r.path == "/v1/entries" and "starred" not in r.args]
    assert limits[:7] == ["64", "16", "32", "32", "32", "32", "64"]


def test_what_nobody_expected_ends_the_import_with_a_sentence(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher
) -> None:
    serve(wire, Miniflux({"a": ""}, ITEMS))

    def store_nothing(*args: Any, **more: Any) -> Any:
        raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")

    services.gateways.pulled_imports.store_page = store_nothing  # type: ignore[method-assign]
    found = pulled(services, alice, PullKind.MINIFLUX, wire.url(), fetcher)
    assert "can't read the answer" in fault_of(services, found)
    assert login_of(services, found) is None
