"""Texts in archives: they become those of saved pages, sanitized and within limits, and nothing else."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import json
from typing import Any

import lxml.html
import pytest
from werkzeug.wrappers import Request

from app import clock
from app.bootstrap.services import Services
from app.config import Settings
from app.feeds.fetch.fetcher import Fetcher
from app.feeds.html.allow_list import NEVER, TAGS
from app.feeds.html.formulas import ELEMENTS
from app.gateways.imports import archives as gateway
from app.gateways.imports import pulls as pulls_gateway
from app.models.accounts.actor import Actor
from app.models.imports.archives import SavedEntry
from app.models.imports.imports import ImportState
from app.models.imports.pulls import Login, PulledPage, PullKind
from app.models.reading.entry import Entry
from app.models.reading.stream import StreamKind, StreamQuery, StreamRef
from app.services.imports import pulls
from tests.feeds.test_sanitize import vectors
from tests.imports import archives as samples
from tests.imports.archives import HOST, google_item, zipped
from tests.imports.test_archives import entries, feed, imported
from tests.imports.test_imports import Pulling
from tests.imports.test_imports import run as run_import
from tests.reading.test_full_texts import Site
from tests.support.other_readers import NAME, PASSWORD, TOKEN, FreshRSS, Item, Miniflux, NewsBlur, OtherReader
from tests.support.reader import add_user, elsewhere
from tests.support.wire import Wire

TEXT = "<p>Old roofs of <b>Kyoto</b></p>"
HOSTILE = TEXT + "<script>alert(1)</script><img src=x onerror='alert(2)'><a href='javascript:alert(3)'>x</a>"
LINK = "https://gone.example/roofs"
LONG = "<p>" + " ".join(f"word{number}" for number in range(80)) + "</p>"


def texts(services: Services, who: Actor) -> dict[str, Entry]:
    """Return the saved pages of a person by their addresses."""
    feed_id = services.saved_pages.find_feed(who)
    if feed_id is None:
        return {}
    rows = services.reading.load_page(who, StreamQuery(StreamRef.parse(f"feed/{feed_id}"))).rows
    found = (services.reading.get_article(who, row.id).entry for row in rows)
    return {entry.url or "": entry for entry in found}


def page(html: str = TEXT, link: str = LINK, **more: Any) -> dict[str, Any]:
    """Return a row of ``saved.json``."""
    return {"title": "Roofs", "link": link, "html": html, **more}


def saved(*rows: dict[str, Any]) -> bytes:
    return zipped({"saved.json": json.dumps(rows)})


def stored_marks(services: Services) -> list[dict[str, Any]]:
    return [row for doc in services.store.database["import_marks"].find() for row in doc["rows"]]


def fetch(services: Services, entry: Entry, site: Site) -> None:
    service: Any = services.full_texts
    elsewhere(lambda: asyncio.run(service.fetch(entry.feed_id, entry.id, site)))


def google(part: str) -> bytes:
    item = google_item("gone", 1, starred=True)
    del item["content"]
    item |= {part: {"direction": "ltr", "content": HOSTILE}}
    return samples.google_json("starred", [item]).encode()


def miniflux() -> bytes:
    row = {
        "id": 1,
        "user_id": 1,
        "feed_id": 1,
        "status": "read",
        "title": "gone 1",
        "url": f"{HOST}/gone/1",
        "content": HOSTILE,
        "starred": True,
        "feed": {"id": 1, "feed_url": f"{HOST}/gone", "title": "Gone"},
    }
    return json.dumps({"total": 1, "entries": [row]}).encode()


def feedbin() -> bytes:
    row = {"id": 1, "title": "x", "url": f"{HOST}/gone/1", "published": None, "content": HOSTILE}
    return zipped({"starred.json": json.dumps([row])})


def ttrss_article() -> dict[str, Any]:
    return {**samples.ttrss_article("gone", 1), "content": HOSTILE}


@pytest.mark.parametrize(
    "body",
    [
        google("content"),
        google("summary"),
        samples.freshrss({"gone": ()}, [{**google_item("gone", 1, starred=True, old=True),
                                         "content": {"content": HOSTILE}}], {}),
        samples.ttrss([ttrss_article()]),
        samples.ttrss_zip([ttrss_article()]),
        miniflux(),
        feedbin(),
        saved(page(HOSTILE, f"{HOST}/gone/1")),
    ],
    ids=["google", "inoreader", "freshrss", "ttrss", "ttrss-zip", "miniflux", "feedbin", "eventr"],
)  # fmt: skip
def test_texts_of_all_formats_become_those_of_saved_pages(
    services: Services, alice: Actor, body: bytes
) -> None:
    done = imported(services, alice, body, {})
    assert done.marks["pages"] == 1
    (entry,) = texts(services, alice).values()
    assert entry.content.startswith(TEXT)
    assert "script" not in entry.content
    assert "alert" not in entry.content
    assert entry.excerpt.startswith("Old roofs of Kyoto")
    assert stored_marks(services) == []


def test_text_of_an_entry_that_its_feed_has_goes_nowhere(services: Services, alice: Actor) -> None:
    item = {**google_item("a", 1, starred=True), "content": {"content": LONG}}
    imported(services, alice, samples.freshrss({"a": ()}, [item], {}), {f"{HOST}/a": feed("a")})
    docs = list(services.store.database["entries"].find())
    assert len(docs) == 4
    assert not any("word7" in repr(services.reading.get_article(alice, d["_id"]).entry) for d in docs)


def test_texts_of_entries_that_nobody_kept_are_not_stored(services: Services, alice: Actor) -> None:
    body = samples.freshrss({"a": ()}, [], {"a": [google_item("a", 1, read=True)]})
    assert entries(body)[0].html
    services.imports.preview(alice, body, "x")
    assert [row.get("h") for row in stored_marks(services)] == [None]


def test_V23_vectors_of_attacks_come_out_harmless(services: Services, alice: Actor) -> None:
    all_vectors = vectors()
    rows = [page(f"<p>x</p>{one}", f"https://gone.example/{n}") for n, one in enumerate(all_vectors)]
    done = imported(services, alice, saved(*rows), {})
    assert done.marks["pages"] == len(all_vectors) > 100
    feed_id = services.saved_pages.find_feed(alice)
    assert feed_id is not None
    found = [e for some in services.gateways.saved_pages.iter_pages(alice.user_id, 500) for e in some]
    assert len(found) == len(all_vectors)
    for entry in found:
        assert entry.content.startswith("<p>x"), entry.content
        for element in lxml.html.fromstring(f"<div>{entry.content}</div>").iter():
            assert element.tag in TAGS | ELEMENTS | {"div"}, entry.content
            assert element.tag not in NEVER - ELEMENTS, entry.content
            for name, value in element.attrib.items():
                assert not name.startswith("on"), entry.content
                assert not value.strip().lower().startswith(("javascript:", "vbscript:", "data:text")), value


def test_values_that_are_no_texts_are_none(services: Services, alice: Actor) -> None:
    rows = [page(html, f"{LINK}/{n}") for n, html in enumerate([7, None, ["<p>x</p>"], {}, " \n", "\0"])]  # type: ignore[arg-type]
    imported(services, alice, saved(*rows), {})
    assert {entry.content for entry in texts(services, alice).values()} <= {"", "\N{REPLACEMENT CHARACTER}"}
    assert len(texts(services, alice)) == 6


def test_own_texts_come_back_the_same(services: Services, alice: Actor) -> None:
    imported(services, alice, saved(page(HOSTILE)), {})
    belongings: Any = services.gateways.personal_exports
    rows = list(belongings._belongings.iter_saved(alice.user_id))
    again = json.dumps(rows, default=dt.datetime.isoformat).encode()
    bob = add_user(services, "bob")
    imported(services, bob, zipped({"saved.json": again}), {})
    assert texts(services, bob)[LINK].content == texts(services, alice)[LINK].content


def test_any_of_several_entries_of_a_page_brings_its_text(services: Services, alice: Actor) -> None:
    for order in (1, -1):
        who = add_user(services, f"u{order + 1}")
        rows = [page("", title="a"), page(LONG, link=f"{LINK}#part", title="b")][::order]
        imported(services, who, saved(*rows), {})
        assert [entry.content for entry in texts(services, who).values()] == [LONG]


def test_page_without_text_gets_the_one_of_a_later_import(services: Services, alice: Actor) -> None:
    services.saved_pages.save(alice, LINK, title="Mine")
    services.saved_pages.save(alice, f"{LINK}/2", text="What I selected.")
    fetch(services, texts(services, alice)[LINK], Site(error="http_404"))
    imported(services, alice, saved(page(HOSTILE), page(HOSTILE, f"{LINK}/2")), {})
    entry = texts(services, alice)[LINK]
    assert (entry.title, entry.brought) == ("Mine", True)
    assert entry.content.startswith(TEXT)
    assert "alert" not in entry.content
    assert entry.full is not None
    assert entry.full.error == "http_404"
    other = texts(services, alice)[f"{LINK}/2"]
    assert (other.content, other.brought) == ("<p>What I selected.</p>", False)


# -- the page itself


@pytest.mark.parametrize("error", ["http_404", "dns_failed"])
def test_text_stays_if_the_page_is_gone(services: Services, alice: Actor, error: str) -> None:
    imported(services, alice, saved(page()), {})
    fetch(services, texts(services, alice)[LINK], Site(error=error))
    entry = texts(services, alice)[LINK]
    assert (entry.content, entry.brought) == (TEXT, True)
    assert entry.full is not None
    assert entry.full.error == error


def test_page_replaces_the_text_only_if_it_gains(services: Services, alice: Actor) -> None:
    imported(services, alice, saved(page(LONG)), {})
    notice = b"<html><body><article><p>" + b"This domain is for sale. " * 13 + b"</p></article></body></html>"
    fetch(services, texts(services, alice)[LINK], Site(notice))
    entry = texts(services, alice)[LINK]
    assert entry.content == LONG
    assert entry.full is not None
    assert entry.full.error == "nothing_more"
    services.store.database["entries"].update_one({"_id": entry.id}, {"$unset": {"full": 1}})
    fetch(services, entry, Site())
    entry = texts(services, alice)[LINK]
    assert "Paragraph 7 of a long story" in entry.content
    assert not entry.brought
    assert entry.full is not None
    assert entry.full.error is None


HEAD = b"<html><head><title>The roofs of Kyoto</title></head><body>"
SHORT = HEAD + b"<article><p>Sign in.</p></article></body></html>"
EMPTY = HEAD + b"<script>draw()</script></body></html>"


@pytest.mark.parametrize(
    ("body", "html", "error"),
    [(SHORT, LONG, "nothing_more"), (EMPTY, LONG, "unreadable"), (EMPTY, "", "unreadable")],
)
def test_title_of_a_page_without_more_text_replaces_its_address(
    services: Services, alice: Actor, body: bytes, html: str, error: str
) -> None:
    imported(services, alice, saved({"title": "", "link": LINK, "html": html}), {})
    before = texts(services, alice)[LINK]
    assert before.title == "gone.example/roofs"
    fetch(services, before, Site(body))
    entry = texts(services, alice)[LINK]
    assert entry.full is not None
    assert (entry.title, entry.full.error) == ("The roofs of Kyoto", error)
    assert (entry.content, entry.brought) == (html, bool(html))
    services.indexing.run(clock.now(), 30)
    found = services.reading.load_page(alice, StreamQuery(StreamRef(StreamKind.SEARCH, query="kyoto")))
    assert [row.id for row in found.rows] == [entry.id]


@pytest.mark.parametrize(
    ("title", "url", "body"),
    [
        ("Mine", LINK, SHORT),
        ("", "https://gone.example/", SHORT),
        ("", LINK, SHORT.replace(b"The roofs of Kyoto", b"")),
    ],
    ids=["given", "front page", "none"],
)
def test_title_stays_if_it_was_given_or_the_page_is_another(
    services: Services, alice: Actor, title: str, url: str, body: bytes
) -> None:
    imported(services, alice, saved({"title": title, "link": LINK, "html": LONG}), {})
    before = texts(services, alice)[LINK]
    fetch(services, before, Site(body, url=url))
    entry = texts(services, alice)[LINK]
    assert entry.title == before.title
    assert entry.full is not None
    assert entry.full.error == "nothing_more"


def test_text_that_a_person_brings_is_not_shared(services: Services, alice: Actor) -> None:
    """Anyone could write into an archive what a site has never said."""
    imported(services, alice, saved(page(LONG)), {})
    entry = texts(services, alice)[LINK]
    for site in (Site(error="http_404"), Site(b"<html><body><p>Gone.</p></body></html>")):
        fetch(services, entry, site)
        root = services.gateways.saved_pages.find_root(texts(services, alice)[LINK], entry.arrived)
        assert "word7" not in repr(root)
        services.store.database["entries"].update_one({"_id": entry.id}, {"$unset": {"full": 1}})


# -- limits


def test_long_texts_are_cut_and_counted(
    services: Services, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "TEXT_MAX", 40)
    long = "<p>One two three four five six</p><p title='seven eight nine'>ten</p>"
    done = imported(services, alice, saved(page(long), page(link=f"{LINK}/2")), {})
    assert done.marks["long"] == 1
    assert texts(services, alice)[LINK].content == "<p>One two three four five six</p>"
    assert texts(services, alice)[f"{LINK}/2"].content == TEXT


def test_texts_beyond_the_limit_are_left_to_their_pages(
    services: Services, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "TEXTS_MAX", 2 * len(TEXT) + 5)
    done = imported(services, alice, saved(*(page(link=f"{LINK}/{n}") for n in range(5))), {})
    assert (done.marks["pages"], done.marks["long"]) == (5, 3)
    found = texts(services, alice).values()
    assert sorted(entry.content for entry in found) == ["", "", "", TEXT, TEXT]
    wanted = services.gateways.archives.find_textless(alice.user_id, done.created, 10)
    assert {entry.id for entry in found if not entry.content} <= {entry_id for _, entry_id in wanted}


def test_parts_with_the_longest_texts_fit_into_the_database(services: Services, alice: Actor) -> None:
    text = "\N{GRINNING FACE}" * (gateway.TEXT_MAX + 1)
    archives = services.gateways.archives
    many = (SavedEntry(link=f"{LINK}/{number}", html=text) for number in range(14))
    archives.add(alice.user_id, archives.build_contents([], many), "x", clock.now())
    sizes = [
        doc["size"]
        for doc in services.store.database["import_marks"].aggregate(
            [{"$project": {"size": {"$bsonSize": "$$ROOT"}}}]
        )
    ]
    assert len(sizes) > 2
    assert max(sizes) < 8 << 20


# -- other servers


@pytest.fixture
def settings(settings: Settings, wire: Wire) -> Settings:
    return dataclasses.replace(settings, fetch_allow=(wire.host,), import_pull_page=2)


def pulled(services: Services, who: Actor, kind: PullKind, wire: Wire, fetcher: Fetcher) -> Any:
    secret = TOKEN if kind is PullKind.MINIFLUX else PASSWORD
    name = "" if kind is PullKind.MINIFLUX else NAME
    address = "" if kind is PullKind.NEWSBLUR else wire.url()
    one = services.pulled_imports.request_pull(who, kind, address, name=name, secret=secret)
    asyncio.run(services.pulled_imports.run(one.user_id, one.id, "run", fetcher))
    found = services.imports.get(who, one.id)
    assert found.state is ImportState.PREVIEW, found.fault
    return found


@pytest.mark.parametrize(
    ("kind", "server"),
    [(PullKind.MINIFLUX, Miniflux), (PullKind.GREADER, FreshRSS), (PullKind.NEWSBLUR, NewsBlur)],
)
def test_texts_of_other_servers_become_those_of_saved_pages(
    services: Services,
    alice: Actor,
    wire: Wire,
    fetcher: Fetcher,
    kind: PullKind,
    server: type[OtherReader],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pulls_gateway, "NEWSBLUR", wire.url().rstrip("/"))
    items = [Item("a", 0, read=True), Item("a", 7, starred=True)]
    wire.app = Request.application(server({"a": ""}, items, text=HOSTILE))
    found = pulled(services, alice, kind, wire, fetcher)
    assert sum("h" in row for row in stored_marks(services)) == 1
    run_import(services, services.imports.start(alice, found.id), Pulling(services, {f"{HOST}/a": feed("a")}))
    (entry,) = texts(services, alice).values()
    assert entry.content.startswith(TEXT)
    assert "alert" not in entry.content


def test_texts_beyond_the_limit_end_no_pull(
    services: Services, alice: Actor, wire: Wire, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "TEXTS_MAX", 2 * len(LONG) + 5)
    monkeypatch.setattr(pulls, "STORED_MAX", 1500)
    items = [Item("gone", number, starred=True) for number in range(5)]
    wire.app = Request.application(Miniflux({"gone": ""}, items, text=LONG))
    found = pulled(services, alice, PullKind.MINIFLUX, wire, fetcher)
    assert found.marks == {"waiting": 5, "long": 3}
    assert sum("h" in row for row in stored_marks(services)) == 2


def test_texts_of_all_pages_of_a_pull_share_one_limit(
    services: Services, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "TEXTS_MAX", 3 * len(TEXT))
    gateways, now = services.gateways.pulled_imports, clock.now()
    new = gateways.add(alice.user_id, PullKind.MINIFLUX, "https://rss.example", Login("", TOKEN), now)
    one = gateways.begin_run(alice.user_id, new.id, "run", now)
    for start in (0, 2, 4):
        assert one is not None
        found = tuple(SavedEntry(link=f"{LINK}/{start + n}", starred=True, html=TEXT) for n in range(2))
        one = gateways.store_page(one, PulledPage(found, "7", 2), "starred", "7", now, limit=1000)
    assert [row.get("h") for row in stored_marks(services)] == [TEXT] * 3 + [None] * 3
    assert one is not None
    assert one.pull is not None
    assert (one.pull.texts, one.pull.long) == (3 * len(TEXT), 3)
