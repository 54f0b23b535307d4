"""Discover on a new server: it offers topics, and says how to share."""

from __future__ import annotations

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
    assert len(topics) >= 12
    assert ann.get(str(topics[0]["href"])).status_code == 200
    assert "choose “Share”" in page.text
    assert "press Shift+S" in page.text
    for goal in ("/read/all", "/compose", "/people"):
        assert page.select(f'main .empty a[href="{goal}"]'), goal


def test_topics_follow_what_is_shared(ann: Visitor, services: Services) -> None:
    people = People(services)
    bob, eve = add_user(services, "bob"), add_user(services, "eve")
    (entry,) = people.blog([bob, eve])
    for who in (bob, eve):
        people.open(who, Audience.PUBLIC)
        services.sharing.share(who, entry)
    assert (_headings(ann)[0], _headings(ann)[-1]) == ("Most shared right now", "Topics")
