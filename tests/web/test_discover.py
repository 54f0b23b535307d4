"""Discover on a new server: it offers topics, and says how to share."""

from __future__ import annotations

import html

from bs4 import BeautifulSoup

from app.bootstrap.services import Services
from app.models.sharing.sharing import Audience
from tests.sharing.conftest import People
from tests.support.reader import add_user
from tests.web.conftest import Visitor


def _headings(ann: Visitor) -> list[str]:
    return [one.text for one in BeautifulSoup(ann.get("/discover").text, "lxml").select("main h2")]


def test_an_empty_discover_offers_topics_first_and_says_how_to_share(ann: Visitor) -> None:
    page = BeautifulSoup(ann.get("/discover").text, "lxml")
    assert _headings(ann)[0] == "Topics"
    topics = page.select('main a[href^="/packs/"]')
    assert len(topics) == 11
    assert ann.get(str(topics[0]["href"])).status_code == 200
    assert "choose “Share”" in page.text
    assert "press Shift+S" in page.text
    for goal in ("/read/all", "/compose", "/people"):
        assert page.select(f'main .empty a[href="{goal}"]'), goal


def test_topics_are_a_line_above_what_is_shared(ann: Visitor, services: Services) -> None:
    people = People(services)
    bob, eve = add_user(services, "bob"), add_user(services, "eve")
    (entry,) = people.blog([bob, eve])
    for who in (bob, eve):
        people.open(who, Audience.PUBLIC)
        services.sharing.share(who, entry)
    assert _headings(ann)[:2] == ["Topics", "Most shared right now"]


def test_the_feed_of_a_trend_is_subscribed_to_in_its_row(ann: Visitor, services: Services) -> None:
    people = People(services)
    bob = add_user(services, "bob")
    (entry,) = people.blog([bob])
    people.open(bob, Audience.PUBLIC)
    services.sharing.share(bob, entry)
    services.sharing.publish_post(bob, "A post", "It has no feed but bob's.")
    page = BeautifulSoup(ann.get("/discover").text, "lxml")
    (form,) = page.select(".trends .take")
    fields = {str(one["name"]): str(one["value"]) for one in form.select("input[name]")}
    assert ann.post("/subscribe", fields).headers["Location"] == "/discover"
    after = ann.get("/discover").text
    assert "You&#39;re subscribed to “blog”." in after
    assert not BeautifulSoup(after, "lxml").select(".trends .take")
    assert ann.post("/subscribe", fields).headers["Location"] == "/discover"
    assert "You're already subscribed to this feed" in html.unescape(ann.get("/discover").text)


def test_adding_a_feed_offers_topics_and_other_ways(ann: Visitor) -> None:
    page = BeautifulSoup(ann.get("/add").text, "lxml")
    ways = page.select_one(".other-ways")
    assert ways is not None
    goals = [str(link["href"]) for link in ways.select("a")]
    assert goals[-4:] == ["/packs", "/imports", "/imports/server", "/save"]
    assert len(goals) == 15
    assert all(goal.startswith("/packs/") for goal in goals[:-4])


def test_a_trend_shows_its_beginning_and_who_shared_it_with_two_links(
    ann: Visitor, services: Services
) -> None:
    people = People(services)
    sharers = [add_user(services, name) for name in ("bob", "eve", "finn")]
    entry, alone = people.blog(sharers, 2)
    for who in sharers:
        people.open(who, Audience.PUBLIC)
        services.sharing.share(who, entry)
    post = services.sharing.share(sharers[0], alone).share
    row, single = BeautifulSoup(ann.get("/discover").text, "lxml").select(".trends > li")
    assert row.select_one(".excerpt").text.startswith("The text of blog")
    title, chain = row.select("a")
    assert chain["href"].endswith("/chain")
    words = chain.text.split()
    assert words[-3:] == ["and", "1", "other"]
    assert "Shared by" in chain.text
    assert "blog" in row.select_one(".facts > span:first-child").text
    assert ann.get(str(title["href"])).status_code in (200, 302, 303)
    assert ann.get(str(chain["href"])).status_code == 200
    title, person = single.select("a")
    assert (person["href"], person.text.strip()) == ("/@bob", "BShared by bob")
    assert title["href"] == f"/entries/{post.id}"


def test_a_trend_has_the_picture_of_its_entry_in_the_way_the_reader_chose(
    ann: Visitor, services: Services
) -> None:
    people = People(services)
    bob = add_user(services, "bob")
    (entry,) = people.blog([bob])
    people.open(bob, Audience.PUBLIC)
    services.store.database["entries"].update_one(
        {"_id": entry}, {"$set": {"image": "https://blog.example.org/hill.png"}}
    )
    services.sharing.share(bob, entry)

    def list_pictures() -> list[str]:
        page = BeautifulSoup(ann.get("/discover").text, "lxml")
        return [str(one["src"]) for one in page.select(".trends img.thumb")]

    (shown,) = list_pictures()
    assert "blog.example.org" not in shown
    ann.post("/settings/privacy", {"images": "site"})
    assert list_pictures() == ["https://blog.example.org/hill.png"]
    ann.post("/settings/privacy", {"images": "none"})
    assert list_pictures() == []
