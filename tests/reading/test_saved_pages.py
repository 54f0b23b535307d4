"""Saved pages: entries of a feed of one's own, with the page's text, and one root for their shares."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

import pytest

from app.bootstrap.services import Services
from app.errors import ExistsError, InvalidError, NotFoundError, RateLimitedError, TooLargeError
from app.models.accounts.actor import Actor
from app.models.feeds.feed import FeedKind
from app.models.reading.saved import make_title
from app.models.reading.stream import EntryRow, StreamQuery, StreamRef
from app.models.sharing.sharing import Audience
from tests.reading.test_full_texts import Site
from tests.support.reader import add_user, elsewhere

PAGE = "https://magazine.example/2026/roofs"


@pytest.fixture
def ann(services: Services) -> Actor:
    return add_user(services, "ann")


@pytest.fixture
def bob(services: Services) -> Actor:
    return add_user(services, "bob")


def _rows(services: Services, who: Actor, ref: str = "all") -> list[EntryRow]:
    return list(services.reading.load_page(who, StreamQuery(StreamRef.parse(ref))).rows)


def _fetch(services: Services, entry_id: int, feed_id: int, site: Site) -> Any:
    texts: Any = services.full_texts
    elsewhere(lambda: asyncio.run(texts.fetch(feed_id, entry_id, site)))


def test_saved_page_is_an_unread_entry_with_its_title_at_once(services: Services, ann: Actor) -> None:
    saved = services.saved_pages.save(ann, PAGE, title="Old roofs", text="They <curve>.")
    (row,) = _rows(services, ann)
    assert (row.id, row.title, row.url, row.read) == (saved.entry_id, "Old roofs", PAGE, False)
    assert row.feed_title == "Saved pages"
    assert not saved.existed
    assert services.reading.get_article(ann, row.id).entry.content == "<p>They &lt;curve&gt;.</p>"
    assert services.reading.get_article(ann, row.id).saved


def test_job_brings_the_text_and_the_title_of_the_page(services: Services, ann: Actor) -> None:
    saved = services.saved_pages.save(ann, PAGE)
    assert _rows(services, ann)[0].title == "magazine.example/2026/roofs"
    site = Site()
    _fetch(services, saved.entry_id, saved.feed_id, site)
    entry = services.reading.get_article(ann, saved.entry_id).entry
    assert entry.title == "One"
    assert "Paragraph 7 of a long story" in entry.content
    assert "alert" not in entry.content
    assert entry.excerpt.startswith("Paragraph 0")
    _fetch(services, saved.entry_id, saved.feed_id, site)
    assert len(site.requests) == 1
    full = services.full_texts.request_text(ann, saved.entry_id, wait=0)
    assert full is not None
    assert (full.html, full.error) == ("", None)


def test_title_that_the_person_gives_stays(services: Services, ann: Actor) -> None:
    saved = services.saved_pages.save(ann, PAGE, title="Mine")
    _fetch(services, saved.entry_id, saved.feed_id, Site())
    assert services.reading.get_article(ann, saved.entry_id).entry.title == "Mine"


def test_page_may_not_lead_into_the_network_of_the_server(services: Services, ann: Actor) -> None:
    saved = services.saved_pages.save(ann, PAGE)
    site = Site()
    _fetch(services, saved.entry_id, saved.feed_id, site)
    assert site.requests[0].referred_by == "https://invalid/"


def test_failed_fetch_keeps_the_page_and_says_why(services: Services, ann: Actor) -> None:
    saved = services.saved_pages.save(ann, PAGE, text="What I selected.")
    _fetch(services, saved.entry_id, saved.feed_id, Site(error="http_404"))
    article = services.reading.get_article(ann, saved.entry_id)
    assert article.entry.content == "<p>What I selected.</p>"
    assert article.entry.full is not None
    assert article.entry.full.error == "http_404"
    assert article.always_full


def test_saving_again_makes_the_page_unread(services: Services, ann: Actor) -> None:
    first = services.saved_pages.save(ann, PAGE)
    services.reading.mark(ann, [first.entry_id], read=True)
    again = services.saved_pages.save(ann, "http://MAGAZINE.example:80/2026/roofs/?utm_source=mail#part")
    assert again == first._replace(existed=True)
    assert [row.read for row in _rows(services, ann)] == [False]


@pytest.mark.parametrize(
    "url", ["", "   ", "javascript:alert(1)", "ftp://site.example/file", "https://:0/", "?"]
)
def test_address_that_is_no_page_is_refused(services: Services, ann: Actor, url: str) -> None:
    with pytest.raises(InvalidError):
        services.saved_pages.save(ann, url)
    assert services.saved_pages.find_feed(ann) is None


def test_nobody_else_finds_saved_pages(services: Services, ann: Actor, bob: Actor) -> None:
    saved = services.saved_pages.save(ann, PAGE)
    with pytest.raises(NotFoundError):
        services.reading.get_article(bob, saved.entry_id)
    with pytest.raises(NotFoundError):
        services.saved_pages.remove(bob, saved.entry_id)
    theirs = services.saved_pages.save(bob, PAGE)
    assert theirs.feed_id != saved.feed_id


def test_removed_page_comes_back_with_its_marks(services: Services, ann: Actor) -> None:
    saved = services.saved_pages.save(ann, PAGE, title="Roofs")
    other = services.saved_pages.save(ann, f"{PAGE}/2", title="Walls")
    services.reading.mark(ann, [saved.entry_id], read=True)
    services.tags.change_tags(ann, saved.entry_id, add=["kyoto"])
    token = services.saved_pages.remove(ann, saved.entry_id)
    assert [row.id for row in _rows(services, ann)] == [other.entry_id]
    assert services.reading.get_tree(ann).unread == 1
    (action,) = services.marking.list_history(ann, None).actions
    assert (action.undo, action.about) == (f"page.{token}", "Roofs")
    assert services.saved_pages.restore(ann, token) == saved.entry_id
    found = {row.id: row for row in _rows(services, ann)}
    assert found[saved.entry_id].read
    assert [tag.name for tag in services.reading.get_article(ann, saved.entry_id).tags] == ["kyoto"]
    with pytest.raises(NotFoundError):
        services.saved_pages.restore(ann, token)


def test_marks_go_with_a_page_and_come_back_with_it(services: Services, ann: Actor, db: Any) -> None:
    saved = services.saved_pages.save(ann, PAGE)
    services.tags.change_tags(ann, saved.entry_id, add=["kyoto", "roofs"])
    services.reading.set_starred(ann, saved.entry_id, True)
    services.notes.set_text(ann, saved.entry_id, "Mine")
    before, page = db.marks.find_one({}, {"_id": 0}), db.entries.find_one({"_id": saved.entry_id})
    token = services.saved_pages.remove(ann, saved.entry_id)
    assert db.marks.count_documents({}) == 0
    assert [tag.count for tag in services.tags.list_tags(ann)] == [0, 0]
    assert services.notes.list_notes(ann) == []
    services.saved_pages.restore(ann, token)
    assert db.marks.find_one({}, {"_id": 0}) == before
    assert db.entries.find_one({"_id": saved.entry_id})["stars"] == page["stars"] == 1
    assert [tag.count for tag in services.tags.list_tags(ann)] == [1, 1]


def test_undo_of_a_page_that_was_saved_again_changes_nothing(services: Services, ann: Actor) -> None:
    saved = services.saved_pages.save(ann, PAGE)
    token = services.saved_pages.remove(ann, saved.entry_id)
    again = services.saved_pages.save(ann, PAGE)
    with pytest.raises(ExistsError):
        services.saved_pages.restore(ann, token)
    assert [row.id for row in _rows(services, ann)] == [again.entry_id]
    assert services.reading.get_tree(ann).unread == 1


def test_two_people_who_share_a_saved_page_share_one_root(services: Services, ann: Actor, bob: Actor) -> None:
    mine = services.saved_pages.save(ann, PAGE, title="Roofs", text="My private passage.")
    theirs = services.saved_pages.save(bob, "http://m.magazine.example/2026/roofs/#top", title="Other title")
    first = services.sharing.share(ann, mine.entry_id, note="Look").share
    second = services.sharing.share(bob, theirs.entry_id, note="Yes").share
    assert first.of == second.of
    assert first.of.entry_id not in (mine.entry_id, theirs.entry_id)
    article = services.reading.get_article(bob, first.id)
    assert (article.entry.title, article.entry.url) == ("magazine.example/2026/roofs", PAGE)
    assert article.feed_title == "magazine.example"
    assert "private passage" not in str(article.entry)
    box = services.sharing.get_share_box(ann, services.reading.get_article(ann, mine.entry_id).entry)
    assert box.mine == first
    assert services.sharing.share(ann, mine.entry_id).existed


def test_share_shows_an_excerpt_of_the_text_that_was_fetched(
    services: Services, ann: Actor, bob: Actor
) -> None:
    saved = services.saved_pages.save(ann, PAGE, title="Roofs")
    _fetch(services, saved.entry_id, saved.feed_id, Site())
    share = services.sharing.share(ann, saved.entry_id, audience=Audience.PUBLIC).share
    services.saved_pages.remove(ann, saved.entry_id)
    entry = services.reading.get_article(bob, share.id).entry
    assert entry.summary == f"<p>{entry.excerpt}</p>"
    assert entry.excerpt.startswith("Paragraph 0 of a long story")
    assert (entry.content, "Paragraph 7" in entry.summary) == ("", False)
    found = services.full_texts.request_text(bob, share.id)
    assert found is not None, "it is stored already"
    assert "Paragraph 7 of a long story" in found.html


def test_share_has_the_title_of_the_page_and_not_that_of_the_first_sharer(
    services: Services, ann: Actor, bob: Actor
) -> None:
    mine = services.saved_pages.save(ann, PAGE, title="BUY PILLS at evil.example")
    services.sharing.share(ann, mine.entry_id)
    theirs = services.saved_pages.save(bob, PAGE, title="My private remark")
    _fetch(services, theirs.entry_id, theirs.feed_id, Site())
    assert services.reading.get_article(bob, theirs.entry_id).entry.title == "My private remark"
    share = services.sharing.share(bob, theirs.entry_id, audience=Audience.PUBLIC).share
    assert services.reading.get_article(ann, share.id).entry.title == "One"


def test_page_with_an_access_key_is_not_shared(services: Services, ann: Actor) -> None:
    saved = services.saved_pages.save(ann, f"{PAGE}?token=f3a9c1e07b5d4826a1f0c9e8d7b6a543")
    with pytest.raises(InvalidError, match="access key"):
        services.sharing.share(ann, saved.entry_id)


def test_saved_pages_are_not_in_the_opml_file(services: Services, ann: Actor) -> None:
    services.saved_pages.save(ann, PAGE)
    assert b"<outline" not in services.imports.export(ann)


def test_feed_of_saved_pages_has_no_address_to_change(services: Services, ann: Actor) -> None:
    saved = services.saved_pages.save(ann, PAGE)
    with pytest.raises(InvalidError, match="no feed to fetch"):
        services.subscriptions.change_address(ann, saved.feed_id, "https://other.example/feed")
    with pytest.raises(InvalidError, match="no feed to fetch"):
        services.subscriptions.change_fetch_options(ann, saved.feed_id, lambda old: old)


def test_saving_subscribes_again(services: Services, ann: Actor) -> None:
    first = services.saved_pages.save(ann, PAGE)
    services.subscriptions.unsubscribe(ann, first.feed_id)
    assert _rows(services, ann) == []
    second = services.saved_pages.save(ann, f"{PAGE}/2")
    assert {row.id for row in _rows(services, ann)} == {first.entry_id, second.entry_id}
    feed = services.gateways.feeds.get(first.feed_id)
    assert (feed.kind, feed.subscribers, feed.next_check_at) == (FeedKind.SAVED, 1, None)


def test_limits_have_clear_messages(services: Services, ann: Actor) -> None:
    saving: Any = services.saved_pages
    saving._per_hour, services.gateways.saved_pages._limit = 3, 2
    for number in range(2):
        services.saved_pages.save(ann, f"{PAGE}/{number}")
    with pytest.raises(TooLargeError, match="Remove pages"):
        services.saved_pages.save(ann, PAGE)
    with pytest.raises(RateLimitedError):
        services.saved_pages.save(ann, PAGE)


def test_title_made_of_an_address_is_readable() -> None:
    assert make_title("https://site.example/caf%C3%A9/one/?a=b") == "site.example/café/one"
    assert len(make_title("https://site.example/" + "x" * 500)) == 120


def test_retention_and_the_budget_leave_saved_pages_alone(services: Services, ann: Actor) -> None:
    saved = services.saved_pages.save(ann, PAGE)
    database = services.store.database
    old = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    database["feeds"].update_one({"_id": saved.feed_id}, {"$set": {"created": old, "read_at": old}})
    found = services.mappers.retention_budget.find_unopened(0, old + dt.timedelta(days=1), 0, 10)
    assert [one.feed_id for one in found] == []
