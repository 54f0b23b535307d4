"""Copies of one article in several feeds: rows that name them, and the buttons of the article."""

from __future__ import annotations

import re
from typing import Any

import lxml.html
import pytest

from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.sharing.sharing import Audience
from tests.reading.test_stories import PAGE, write
from tests.support.database import NOW, World
from tests.support.reader import add_user
from tests.web.conftest import Visitor


@pytest.fixture
def world(services: Services) -> World:
    return World(services)


@pytest.fixture
def reader(services: Services, ann: Visitor, db: Any) -> Actor:
    """The actor behind ``ann``."""
    return Actor(db.users.find_one({"name": "ann"})["_id"])


@pytest.fixture
def story(services: Services, world: World, reader: Actor) -> dict[str, int]:
    """Return the ids of an article in three feeds of Ann, by feed."""
    for name in ("Site", "Planet", "<b>List"):
        url = f"https://{name.strip('<b>').lower()}.example.org/feed"
        services.subscriptions.subscribe(reader, url, title=name)
    feeds = {name: world.feed(name.lower()) for name in ("Site", "Planet", "list")}
    for number, feed in enumerate(feeds.values()):
        world.store(feed, [write(number, PAGE, title="Sea level", age=number)])
    services.indexing.run(NOW, 30.0)
    keys = services.store.database["entries"].find().sort("_id")
    return {name: doc["_id"] for name, doc in zip(feeds, keys, strict=True)}


def _texts(html: str, path: str) -> list[str]:
    return [" ".join(node.text_content().split()) for node in lxml.html.fromstring(html).xpath(path)]


def test_a_row_names_the_copies_it_stands_for(ann: Visitor, story: dict[str, int]) -> None:
    page = ann.get("/read/all").text
    assert len(_texts(page, "//article[contains(@class, 'row')]")) == 1
    assert _texts(page, "//bdi[@class='twins']") == ["also in Planet, <b>List"]
    links = lxml.html.fromstring(page).xpath("//bdi[@class='twins']/a/@href")
    assert [link.rpartition("=")[2] for link in links] == [str(story["Planet"]), str(story["list"])]


def test_copies_can_be_shown_apart_and_as_one_row_again(ann: Visitor, story: dict[str, int]) -> None:
    at = f"/read/all?entry={story['Site']}"
    article = ann.get(at).text
    assert _texts(article, "//div[@class='copies small']/span") == ["Also in Planet, <b>List"]
    assert "Show as separate entries" in article
    ann.post("/entries/apart", {"entry": story["Site"], "on": "1", "next": at})
    page = ann.get(at).text
    assert len(_texts(page, "//article[contains(@class, 'row')]")) == 3
    assert "Show as one row" in page
    ann.post("/entries/apart", {"entry": story["Planet"], "on": "0", "next": at})
    assert len(_texts(ann.get(at).text, "//article[contains(@class, 'row')]")) == 1


def test_an_entry_can_be_hidden_and_shown_again(ann: Visitor, story: dict[str, int]) -> None:
    at = f"/read/all?entry={story['Site']}"
    assert "Hide" in _texts(ann.get(at).text, "//details//button")
    ann.post("/entries/hide", {"entry": story["Site"], "on": "1", "next": "/read/all"})
    page = ann.get("/read/all").text
    assert _texts(page, "//article[contains(@class, 'row')]") == []
    assert "Entry hidden" in page
    undo = re.search(r'name="token" value="(hidden\.[^"]+)"', page)
    assert undo
    history = ann.get("/history").text
    assert _texts(history, "//ul[@class='lines']//bdi") == ["Sea level: Entry hidden"]
    assert undo[1] in history
    ann.post("/entries/hide", {"entry": story["Site"], "on": "1", "next": "/read/all"})
    assert 'value="hidden.' not in ann.get("/read/all").text, "nothing changed, so there is nothing to undo"
    assert len(_texts(ann.get("/history").text, "//ul[@class='lines']//bdi")) == 1
    ann.post("/undo", {"token": undo[1], "next": "/read/all"})
    assert len(_texts(ann.get("/read/all").text, "//article[contains(@class, 'row')]")) == 1
    assert _texts(ann.get("/history").text, "//ul[@class='lines']//bdi") == []
    ann.post("/entries/hide", {"entry": story["Planet"], "on": "1", "next": "/read/all"})
    assert "Show in lists" in _texts(ann.get(at).text, "//details//button")
    ann.post("/entries/hide", {"entry": story["Site"], "on": "0", "next": at})
    page = ann.get(at).text
    assert len(_texts(page, "//article[contains(@class, 'row')]")) == 1
    assert "Lists show the entry again" in page


def test_shares_and_comments_of_all_copies_are_at_each(
    services: Services, ann: Visitor, reader: Actor, story: dict[str, int]
) -> None:
    ben = add_user(services, "ben")
    services.following.update_profile(
        ben, display="", bio="", links=(), audience=Audience.PUBLIC, listed=False, open_lists=False
    )
    services.following.follow(reader, "ben")
    services.subscriptions.subscribe(ben, "https://planet.example.org/feed")
    share = services.sharing.share(ben, story["Planet"], note="Worth reading.").share
    services.discussion.comment(ben, share.id, "A comment on the copy.")
    services.discussion.set_liked(reader, share.id)
    page = ann.get(f"/read/all?entry={story['Site']}").text
    rows = _texts(page, "//article[contains(@class, 'row')]")
    assert len(rows) == 1, "the share of the copy is in the story's row"
    assert "ben" in rows[0]
    shared = _texts(page, "//div[@id='share']")
    assert "Worth reading." in shared[0]
    assert "1 comment" in page
