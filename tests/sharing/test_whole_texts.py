"""What is shared carries the feed's text, or an excerpt: never the text that Eventr fetched from its page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from app.bootstrap.services import Services
from app.errors import StartupError
from app.mappers.feeds import entry_bodies
from app.mappers.mongo.migrations import m0005_take_back_page_texts
from app.mappers.mongo.migrations.migrator import Migrator
from app.mappers.mongo.migrations.run import Migration
from app.models.accounts.actor import Actor
from app.models.reading.stream import StreamKind, StreamRef
from app.models.sharing.sharing import Audience, Share
from tests.reading.test_full_texts import STORY, Site, feed
from tests.sharing.conftest import People
from tests.sharing.visiting import Doors
from tests.support.reader import elsewhere, pull
from tests.sync.conftest import Reader, password_of
from tests.sync.rest.conftest import Program, token_for

PAGE = "https://magazine.example/2026/roofs"
URL = "https://site.example/feed"
#: The article has 20 paragraphs; its excerpt ends before the seventh.
FIRST, LATER = "Paragraph 0 of a long story", "Paragraph 7 of a long story"


@pytest.fixture
def doors(services: Services) -> Doors:
    return Doors(services)


def _fetch(services: Services, feed_id: int, entry_id: int, site: Site) -> Any:
    texts: Any = services.full_texts
    return elsewhere(lambda: asyncio.run(texts.fetch(feed_id, entry_id, site)))


def _save(services: Services, who: Actor, site: Site | None = None, url: str = PAGE) -> int:
    saved = services.saved_pages.save(who, url, title="Roofs")
    _fetch(services, saved.feed_id, saved.entry_id, site or Site())
    return saved.entry_id


def _subscribe(people: People, who: Actor) -> int:
    """Let a person read an entry's full text, and return the entry."""
    services = people.services
    feed_id = services.subscriptions.subscribe(who, URL).subscription.feed_id
    pull(services, [feed_id], {URL: feed()})
    services.subscriptions.update(who, feed_id, full_text=True)
    (row,) = people.page(who, StreamRef(StreamKind.FEED, feed_id)).rows
    _fetch(services, feed_id, row.id, Site())
    entry = services.reading.get_article(who, row.id).entry
    assert entry.full is not None
    assert LATER in entry.full.html
    return row.id


def _read_all(services: Services, doors: Doors, sharer: str, share_id: int, reader: Actor) -> dict[str, str]:
    """Return everything that shows a share: to strangers, and to a person who follows its sharer."""
    pages = {
        path: doors(None).get(path).text
        for path in (
            "/",
            f"/@{sharer}",
            f"/@{sharer}/{share_id}",
            f"/@{sharer}/{share_id}/chain",
            f"/@{sharer}/atom.xml",
            f"/@{sharer}/feed.json",
        )
    }
    inside = doors(reader)
    for path in (
        f"/shares/{share_id}/comments",
        "/notifications",
        "/read/all?view=expanded",
        f"/read/all?entry={share_id}",
        f"/@{sharer}/{share_id}",
    ):
        answer = inside.get(path)
        assert answer.status_code == 200, path
        pages[f"inside {path}"] = answer.text
    rest = Program(doors.app, token_for(services, reader, "read", "share"))
    for path in (
        f"/entries/{share_id}",
        f"/shares/{share_id}",
        f"/shares/{share_id}/comments",
        f"/people/{sharer}/shares",
        "/streams/all/entries?whole=true",
        "/streams/following/entries?whole=true",
        "/notifications",
    ):
        answer = rest.get(path)
        assert answer.status_code == 200, answer.text
        pages[f"rest {path}"] = answer.text
    name = services.gateways.accounts.find_user(reader.user_id)
    assert name is not None
    app = Reader(doors.app.test_client(), name.name, password_of(services, reader))
    app.log_in()
    pages["greader"] = str(app.items(share_id))
    return pages


def test_shared_saved_page_is_a_link_with_title_excerpt_and_picture(
    services: Services, people: People, ann: Actor, bob: Actor, doors: Doors
) -> None:
    people.open(ann)
    people.follow(bob, "ann")
    entry_id = _save(services, ann)
    share = services.sharing.share(ann, entry_id, note="Read this", audience=Audience.PUBLIC).share
    assert LATER in services.reading.get_article(ann, entry_id).entry.content, "her own page keeps its text"
    pages = _read_all(services, doors, "ann", share.id, bob)
    assert not [path for path, text in pages.items() if LATER in text]
    for path in (
        f"/@ann/{share.id}",
        "/@ann/atom.xml",
        "/@ann/feed.json",
        f"rest /entries/{share.id}",
        "greader",
    ):
        assert FIRST in pages[path], path
        assert "Read this" in pages[path] or path.startswith("rest"), path
        assert PAGE in pages[path], path
        assert "One" in pages[path], path
    shown = services.reading.get_article(bob, share.id).entry
    assert shown.image == "https://magazine.example/lead.jpg"
    assert [picture.url for picture in shown.pictures] == ["https://magazine.example/lead.jpg"]


def test_reshare_of_a_saved_page_carries_no_more(
    services: Services, people: People, ann: Actor, bob: Actor, cleo: Actor, doors: Doors
) -> None:
    for who in (ann, bob):
        people.open(who)
    people.follow(bob, "ann")
    people.follow(cleo, "bob")
    share = services.sharing.share(ann, _save(services, ann), audience=Audience.PUBLIC).share
    again = services.sharing.share(bob, share.id, note="So true", audience=Audience.PUBLIC).share
    pages = _read_all(services, doors, "bob", again.id, cleo)
    assert not [path for path, text in pages.items() if LATER in text]
    assert FIRST in pages[f"/@bob/{again.id}"]


def test_reader_with_an_account_may_request_the_text_of_a_shared_page(
    services: Services, people: People, ann: Actor, bob: Actor, doors: Doors
) -> None:
    """Whether the sharer's page was fetched before the share, or nobody has fetched it."""
    people.open(ann)
    people.follow(bob, "ann")
    share = services.sharing.share(ann, _save(services, ann), audience=Audience.PUBLIC).share
    found = services.full_texts.request_text(bob, share.id)
    assert found is not None
    assert LATER in found.html
    other = services.saved_pages.save(ann, f"{PAGE}/2")
    bare = services.sharing.share(ann, other.entry_id, audience=Audience.PUBLIC).share
    site = Site()
    _fetch(services, bare.of.feed_id, bare.of.entry_id, site)
    assert [request.url for request in site.requests] == [f"{PAGE}/2"]
    found = services.full_texts.request_text(bob, bare.id)
    assert found is not None
    assert LATER in found.html
    entry = services.reading.get_article(bob, bare.id).entry
    assert (entry.title, LATER in entry.content + entry.summary, FIRST in entry.summary) == (
        "One",
        False,
        True,
    )
    pages = _read_all(services, doors, "ann", bare.id, bob)
    assert not [path for path, text in pages.items() if LATER in text]


def test_picture_in_the_text_of_a_page_stands_for_its_share(
    services: Services, people: People, ann: Actor
) -> None:
    body = f"<html><title>One</title><article><h1>One</h1><img src='/roof.jpg'>{STORY}</article></html>"
    people.open(ann)
    entry_id = _save(services, ann, Site(body.encode()))
    share = services.sharing.share(ann, entry_id, audience=Audience.PUBLIC).share
    assert services.reading.get_article(ann, share.id).entry.image == "https://magazine.example/roof.jpg"


def test_entry_with_a_stored_full_text_is_shared_with_the_text_of_its_feed(
    services: Services, people: People, ann: Actor, bob: Actor, cleo: Actor, doors: Doors
) -> None:
    for who in (ann, bob):
        people.open(who)
    people.follow(bob, "ann")
    people.follow(cleo, "bob")
    share = services.sharing.share(ann, _subscribe(people, ann), audience=Audience.PUBLIC).share
    again = services.sharing.share(bob, share.id, audience=Audience.PUBLIC).share
    for sharer, one, reader in (("ann", share, bob), ("bob", again, cleo)):
        pages = _read_all(services, doors, sharer, one.id, reader)
        assert not [path for path, text in pages.items() if LATER in text]
        for path in (f"/@{sharer}/{one.id}", f"/@{sharer}/atom.xml", f"/@{sharer}/feed.json"):
            assert "birds." in pages[path], path


def _restore_text(services: Services, share: Share) -> None:
    """Store a shared page as older versions did: with the whole text as the entry's own."""
    entries = services.store.database["entries"]
    root = {"_id": share.of.entry_id, "feed_id": share.of.feed_id}
    now = entries.find_one(root)
    assert now is not None
    html = entry_bodies.unpack(now["full"]["body"])
    full = {"at": now["full"]["at"], "title": "One"}
    body = entry_bodies.pack(html.content, "", html.raw)
    entries.update_one(root, {"$set": {"body": body, "full": full}})


def _migrate(services: Services, cancelled: Callable[[], bool] = lambda: False) -> None:
    # As the only one: the present database is newer than the versions before it.
    step = Migration(1, "Take back", m0005_take_back_page_texts.apply)
    Migrator(services.store, "9.9", migrations=[step], cancelled=cancelled).run()


def test_pages_that_were_shared_with_their_text_are_taken_back(
    services: Services, people: People, ann: Actor, bob: Actor, doors: Doors
) -> None:
    """Shares of older versions; a repetition changes nothing."""
    people.open(ann)
    people.follow(bob, "ann")
    ordinary = _subscribe(people, ann)
    mine = _save(services, ann)
    share = services.sharing.share(ann, mine, audience=Audience.PUBLIC).share
    db = services.store.database
    _restore_text(services, share)
    assert LATER in doors(None).get(f"/@ann/{share.id}").text
    tag = doors(None).get("/@ann/atom.xml").headers["ETag"]
    db["schema"].delete_many({})
    _migrate(services)
    pages = _read_all(services, doors, "ann", share.id, bob)
    assert not [path for path, text in pages.items() if LATER in text]
    assert FIRST in pages[f"/@ann/{share.id}"]
    assert doors(None).get("/@ann/atom.xml", headers={"If-None-Match": tag}).status_code == 200
    found = services.full_texts.request_text(bob, share.id)
    assert found is not None
    assert LATER in found.html
    once = db["entries"].find_one({"_id": share.of.entry_id})
    db["schema"].delete_many({})
    _migrate(services)
    assert db["entries"].find_one({"_id": share.of.entry_id}) == once
    assert LATER in services.reading.get_article(ann, mine).entry.content
    full = services.reading.get_article(ann, ordinary).entry.full
    assert full is not None
    assert LATER in full.html


def test_a_stopped_migration_of_shared_pages_continues(
    services: Services, people: People, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(m0005_take_back_page_texts, "_BATCH", 1)
    people.open(ann)
    urls = [PAGE, f"{PAGE}/2", "https://paper.example/1", "https://paper.example/2"]
    shares = [services.sharing.share(ann, _save(services, ann, url=url)).share for url in urls]
    for share in shares:
        _restore_text(services, share)
    entries = services.store.database["entries"]
    roots = {"_id": {"$in": [share.of.entry_id for share in shares]}}
    before = {doc["_id"]: doc["revision"] for doc in entries.find(roots)}
    services.store.database["schema"].delete_many({})
    stops = 0
    while True:
        # Each process gets one batch further, until it is stopped.
        stop = iter([False, True]).__next__
        try:
            _migrate(services, stop)
        except StartupError:
            stops += 1
            assert stops < 20
            continue
        break
    assert stops > 1
    after = list(entries.find(roots))
    assert {doc["_id"]: doc["revision"] - 1 for doc in after} == before, "each is changed once"
    texts = [entry_bodies.unpack(doc["body"]) for doc in after]
    assert [(text.content, FIRST in text.summary) for text in texts] == [("", True)] * len(urls)


def test_a_feed_that_is_gone_at_the_next_start_leaves_the_others_whole(
    services: Services, people: People, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next feed may have older entries than the last one that was changed."""
    monkeypatch.setattr(m0005_take_back_page_texts, "_BATCH", 1)
    people.open(ann)
    urls = [PAGE, "https://paper.example/1", f"{PAGE}/2"]
    shares = [services.sharing.share(ann, _save(services, ann, url=url)).share for url in urls]
    for share in shares:
        _restore_text(services, share)
    first, other, last = (share.of for share in shares)
    assert first.feed_id == last.feed_id < other.feed_id
    assert first.entry_id < other.entry_id < last.entry_id
    db = services.store.database
    db["schema"].delete_many({})
    for _ in range(2):  # both entries of the first feed, but not yet the feed
        with pytest.raises(StartupError):
            _migrate(services, iter([False, True]).__next__)
    db["feeds"].delete_one({"_id": first.feed_id})
    _migrate(services)
    doc = db["entries"].find_one({"_id": other.entry_id})
    assert doc is not None
    assert entry_bodies.unpack(doc["body"]).content == ""
