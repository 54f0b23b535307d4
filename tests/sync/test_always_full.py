"""“Show full texts” of a subscription: wherever its reader gets an entry's text, and nobody else."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from werkzeug.test import TestResponse

from app import create_app
from app.bootstrap.services import Services
from app.config import Settings
from app.mappers.feeds import entry_bodies
from app.models.accounts.actor import Actor
from app.models.reading.full_text import NOTHING_MORE
from app.models.reading.stream import StreamQuery, StreamRef
from app.models.sharing.sharing import Audience
from tests.privacy.test_export import read_export
from tests.reading.test_full_texts import Site, feed
from tests.reading.test_full_texts import subscribe as subscribe_and_pull
from tests.sharing.visiting import Doors
from tests.support.commands import CommandLog, build_logged_services
from tests.support.reader import add_user, elsewhere
from tests.sync.conftest import API, Connect, password_of
from tests.sync.rest.conftest import Program, token_for
from tests.sync.test_fever import Fever

#: The article has 20 paragraphs; the feed has a teaser.
LATER, TEASER = "Paragraph 7 of a long story", "Trees &amp; birds."
#: Of the picture of the page, which comes before its text, the address at its own site; apps and pages get
#: that of the proxy.
PICTURE = "https://site.example/lead.jpg"


@pytest.fixture
def ann(services: Services) -> Actor:
    return add_user(services, "ann")


@pytest.fixture
def bob(services: Services) -> Actor:
    return add_user(services, "bob")


@pytest.fixture
def doors(services: Services) -> Doors:
    return Doors(services)


@pytest.fixture
def entry_id(services: Services, ann: Actor, bob: Actor) -> int:
    """An entry with a stored full text, which ann always wants, and bob doesn't."""
    found = subscribe_and_pull(services, ann, feed())
    subscribe_and_pull(services, bob, feed())
    entry = services.reading.get_article(ann, found).entry
    texts: Any = services.full_texts
    elsewhere(lambda: asyncio.run(texts.fetch(entry.feed_id, found, Site())))
    services.subscriptions.update(ann, entry.feed_id, full_text=True)
    return found


def _read(
    services: Services, doors: Doors, connect: Connect, who: Actor, name: str, entry_id: int
) -> dict[str, str]:
    """Return what shows the text of an entry to its reader."""
    entry = services.reading.get_article(who, entry_id).entry
    page, rest = doors(who), Program(doors.app, token_for(services, who))
    app = connect(who, name)
    fever = Fever(doors.app.test_client(), name, password_of(services, who, fever=True))
    (item,) = app.items(entry_id)
    (whole,) = rest.get("/streams/all/entries?whole=true").json["items"]
    services.reading.set_starred(who, entry_id, True)
    (starred,) = rest.get("/streams/starred/entries?whole=true").json["items"]
    (fevered,) = fever.ask(f"items&with_ids={entry_id}")["items"]
    return {
        "pane": page.get(f"/read/feed/{entry.feed_id}?entry={entry_id}").text,
        "expanded": page.get("/read/all?view=expanded").text,
        "expanded feed": page.get(f"/read/feed/{entry.feed_id}?view=expanded").text,
        "more rows": page.get("/read/all?view=expanded", headers={"X-Fragment": "more"}).text,
        "rest": rest.get(f"/entries/{entry_id}").json["html"],
        "rest list": whole["html"],
        "rest starred": starred["html"],
        "greader": item["summary"]["content"],
        "greader atom": app.client.get(f"/reader/atom/feed/{entry.feed_id}", headers=app.headers).text,
        "fever": fevered["html"],
    }


def test_reader_gets_it_in_lists_and_apps(
    services: Services, doors: Doors, connect: Connect, ann: Actor, bob: Actor, entry_id: int
) -> None:
    mine = _read(services, doors, connect, ann, "ann", entry_id)
    assert not [name for name, text in mine.items() if LATER not in text]
    for name, text in mine.items():
        assert "onclick" not in text.partition("Paragraph 0")[2].partition("Paragraph 19")[2], name
        assert f'src="{PICTURE}"' not in text, f"{name}: the picture comes from its own site"
    others = _read(services, doors, connect, bob, "bob", entry_id)
    assert not [name for name, text in others.items() if LATER in text]
    assert not [name for name, text in others.items() if "birds." not in text]


@pytest.mark.parametrize(
    "path",
    ["/reader/atom/feed/{}", f"{API}/stream/contents/feed/{{}}", f"{API}/stream/items/ids?s=feed/{{}}"],
)
def test_an_app_with_the_text_of_the_feed_gets_the_full_one(
    services: Services, connect: Connect, bob: Actor, path: str
) -> None:
    """No entry is new then, and none was revised: the ETag still changes with the text."""
    entry_id = subscribe_and_pull(services, bob, feed())
    entry = services.reading.get_article(bob, entry_id).entry
    app, url, has_texts = connect(bob, "bob"), path.format(entry.feed_id), "ids" not in path
    tag = ""

    def ask() -> TestResponse:
        return app.client.get(url, headers={**app.headers, "If-None-Match": tag})

    services.subscriptions.update(bob, entry.feed_id, full_text=True)
    tag = ask().headers["ETag"]
    assert ask().status_code == 304
    texts: Any = services.full_texts
    elsewhere(lambda: asyncio.run(texts.fetch(entry.feed_id, entry_id, Site())))
    stored = ask()
    assert ((stored.status_code, LATER in stored.text) == (200, True)) or not has_texts
    for wanted in (False, True):
        tag = ask().headers["ETag"]
        assert ask().status_code == 304
        services.subscriptions.update(bob, entry.feed_id, full_text=wanted)
        answer = ask()
        assert ((answer.status_code, LATER in answer.text) == (200, wanted)) or not has_texts


def test_rest_says_which_text_it_is(
    services: Services, doors: Doors, ann: Actor, bob: Actor, entry_id: int
) -> None:
    for who, expected in ((ann, True), (bob, False)):
        rest = Program(doors.app, token_for(services, who))
        assert rest.get(f"/entries/{entry_id}").json["full_text"] is expected
        (row,) = rest.get("/streams/all/entries?whole=true").json["items"]
        assert row["full_text"] is expected
        (row,) = rest.get("/streams/all/entries").json["items"]
        assert (row["full_text"], row["html"]) == (False, None)


def test_page_that_says_no_more_leaves_the_text_of_the_feed(
    services: Services, doors: Doors, connect: Connect, ann: Actor, entry_id: int
) -> None:
    entry = services.reading.get_article(ann, entry_id).entry
    services.gateways.full_texts.store_failure(entry, NOTHING_MORE, entry.at)
    rest = Program(doors.app, token_for(services, ann))
    answer = rest.get(f"/entries/{entry_id}").json
    assert (answer["full_text"], TEASER in answer["html"]) == (False, True)
    (row,) = rest.get("/streams/all/entries?whole=true").json["items"]
    assert (row["full_text"], TEASER in row["html"]) == (False, True)
    (item,) = connect(ann).items(entry_id)
    assert TEASER in item["summary"]["content"]


def test_share_shows_it_only_to_those_who_read_its_feed_like_this(
    services: Services, doors: Doors, connect: Connect, ann: Actor, bob: Actor, entry_id: int
) -> None:
    """The reader's own subscription decides, as in the article pane; the sharer's doesn't."""
    for who in (ann, bob):
        services.following.update_profile(
            who, display="", bio="", links=(), audience=Audience.PUBLIC, listed=False, open_lists=False
        )
    cleo = add_user(services, "cleo")
    services.following.follow(ann, "bob")
    services.following.follow(cleo, "ann")
    theirs = services.sharing.share(bob, entry_id, audience=Audience.PUBLIC).share
    mine = services.sharing.share(ann, entry_id, audience=Audience.PUBLIC).share
    (item,) = connect(ann).items(theirs.id)
    assert LATER in item["summary"]["content"]
    rest = Program(doors.app, token_for(services, ann))
    assert LATER in rest.get(f"/entries/{theirs.id}").text
    assert LATER in rest.get("/streams/following/entries?whole=true").text
    assert LATER in rest.get("/streams/shares/entries?whole=true").text, "her own shares, as she reads them"
    (item,) = connect(cleo, "cleo").items(mine.id)
    assert LATER not in item["summary"]["content"]
    rest = Program(doors.app, token_for(services, cleo))
    assert LATER not in rest.get("/streams/following/entries?whole=true").text
    assert LATER not in rest.get(f"/entries/{mine.id}").text
    for path in (f"/@ann/{mine.id}", "/@ann", "/@ann/atom.xml", "/@ann/feed.json"):
        assert LATER not in doors(ann).get(path).text, path


def test_feed_at_a_secret_address_has_the_text_of_the_feed(
    services: Services, doors: Doors, ann: Actor, entry_id: int
) -> None:
    """Everyone who knows the address can read it."""
    sessions = services.gateways.sessions
    found = sessions.find_session(sessions.open_session(ann.user_id, agent="", address=""))
    assert found is not None
    _, secret = services.stream_feeds.make_address(ann, found[0], "All", "all")
    for name in ("atom.xml", "feed.json"):
        text = doors(None).get(f"/feed/{secret}/{name}").text
        assert "birds." in text
        assert LATER not in text


def test_a_list_for_others_never_has_it(services: Services, doors: Doors, ann: Actor, entry_id: int) -> None:
    """Whatever shows its rows; and no request of a stranger looks for the text or cleans it again."""
    query = StreamQuery(StreamRef.parse("all"), with_bodies=True)
    (mine,) = services.reading.load_page(ann, query).rows
    assert LATER in (mine.full or "")
    sessions = services.gateways.sessions
    found = sessions.find_session(sessions.open_session(ann.user_id, agent="", address=""))
    assert found is not None
    entries = services.store.database["entries"]
    entries.update_one({"_id": entry_id}, {"$set": {"full.cleaned_by": 0}})
    _, secret = services.stream_feeds.make_address(ann, found[0], "All", "all")
    assert "birds." in doors(None).get(f"/feed/{secret}/atom.xml").text
    first = dataclasses.replace(query, for_others=True, limit=1)
    page = services.reading.load_page(ann, first)
    again = services.reading.load_page(ann, dataclasses.replace(first, snapshot=page.snapshot))
    for row in (*page.rows, *again.rows):
        assert (row.full, row.shown_html) == ("", mine.html)
    assert (entries.find_one({"_id": entry_id}) or {})["full"]["cleaned_by"] == 0


def test_stars_of_the_data_export_have_it(services: Services, ann: Actor, bob: Actor, entry_id: int) -> None:
    for who, expected in ((ann, True), (bob, False)):
        services.reading.set_starred(who, entry_id, True)
        (row,) = read_export(services, who).json("starred")
        assert (LATER in row["html"]) is expected


def test_a_longer_text_than_lists_show_leaves_the_one_of_the_feed(
    services: Services, doors: Doors, ann: Actor, entry_id: int, settings: Settings
) -> None:
    entry = services.reading.get_article(ann, entry_id).entry
    long = f"<p>{'x' * settings.whole_text_max}</p>"
    services.store.database["entries"].update_one(
        {"_id": entry_id, "feed_id": entry.feed_id}, {"$set": {"full.body": entry_bodies.pack(long, "", b"")}}
    )
    page = doors(ann).get("/read/all?view=expanded").text
    assert "birds." in page.partition('class="text-whole"')[2].partition("</article>")[0]
    rest = Program(doors.app, token_for(services, ann))
    (row,) = rest.get("/streams/all/entries?whole=true").json["items"]
    assert (TEASER in row["html"], row["full_text"]) == (True, False)
    article = rest.get(f"/entries/{entry_id}").json
    assert (len(article["html"]) >= settings.whole_text_max, article["full_text"]) == (True, True)
    for own in (long, ""):
        services.store.database["entries"].update_one(
            {"_id": entry_id, "feed_id": entry.feed_id}, {"$set": {"body": entry_bodies.pack(own, "", b"")}}
        )
        (row,) = rest.get("/streams/all/entries?whole=true").json["items"]
        assert (row["html"], row["full_text"]) == (None, True)


def test_a_text_of_an_older_sanitizer_is_cleaned_also_in_lists_and_of_shares(
    services: Services, doors: Doors, ann: Actor, bob: Actor, entry_id: int
) -> None:
    services.following.update_profile(
        bob, display="", bio="", links=(), audience=Audience.PUBLIC, listed=False, open_lists=False
    )
    services.following.follow(ann, "bob")
    share = services.sharing.share(bob, entry_id, audience=Audience.PUBLIC).share
    entries = services.store.database["entries"]
    evil = entry_bodies.pack("<p onclick='steal()'>Old text</p>", "", b"")
    for path in ("/streams/all/entries?whole=true", "/streams/following/entries?whole=true"):
        entries.update_one({"_id": entry_id}, {"$set": {"full.body": evil, "full.cleaned_by": 0}})
        text = Program(doors.app, token_for(services, ann)).get(path).text
        assert "Old text" in text
        assert "onclick" not in text
        doc = entries.find_one({"_id": entry_id}) or {}
        assert doc["full"]["cleaned_by"] > 0, "it is stored, once"
    assert "full" not in (entries.find_one({"_id": share.id}) or {})


@pytest.fixture
def logged(services: Services, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Services, CommandLog]]:
    with build_logged_services(services.settings, monkeypatch) as both:
        yield both


def test_a_page_needs_no_command_for_it(
    services: Services, logged: tuple[Services, CommandLog], ann: Actor, bob: Actor, entry_id: int
) -> None:
    built, log = logged
    app = create_app(built.settings, built)
    counts = []
    for who in (ann, bob):
        rest = Program(app, token_for(services, who))
        for path in ("/streams/all/entries?whole=true", f"/entries/{entry_id}"):
            rest.get(path)
            log.clear()
            assert rest.get(path).status_code == 200
            counts.append(len(log.commands))
    assert counts[:2] == counts[2:]
