"""The field for an address or words: matches while typing, with and without scripts."""

from __future__ import annotations

import lxml.html

from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.sharing.sharing import Audience
from tests.sharing.conftest import People
from tests.support.reader import add_user
from tests.web.conftest import Visitor

FRAGMENT = {"HX-Request": "true", "HX-Target": "div#matches"}


def _titles(html: str) -> list[str]:
    page = lxml.html.fromstring(html)
    return [" ".join(h3.text_content().split()) for h3 in page.cssselect(".matches h3")]


def test_typing_shows_matches_as_a_part_of_the_page(ann: Visitor) -> None:
    part = ann.get("/add?address=quanta", headers=FRAGMENT)
    assert part.status_code == 200
    assert "<html" not in part.text
    assert "Quanta Magazine" in _titles(part.text)[0]
    assert ann.get("/add?address=", headers=FRAGMENT).text.strip() == ""
    assert ann.get("/add?address=qqqqzzzz", headers=FRAGMENT).text.strip() == ""


def test_without_scripts_words_give_matches_and_a_match_can_be_subscribed_to(
    ann: Visitor, services: Services
) -> None:
    for page in (ann.post("/add", {"address": "quanta mag"}), ann.get("/add?address=quanta+mag")):
        assert page.status_code == 200
        (form,) = lxml.html.fromstring(page.text).cssselect('.matches form[action="/subscribe"]')
    url = form.cssselect('input[name="url"]')[0].get("value")
    assert ann.post("/subscribe", {"url": url}).status_code == 303
    shown = lxml.html.fromstring(ann.get("/add?address=quanta+mag").text)
    assert not shown.cssselect('.matches form[action="/subscribe"]')
    assert shown.cssselect('.matches a.btn[href^="/read/feed/"]')


def test_words_that_nothing_has_say_what_to_do(ann: Visitor) -> None:
    page = ann.post("/add", {"address": "qqqqzzzz"})
    assert page.status_code == 400
    assert "No feed has these words." in page.text
    spaced = ann.post("/add", {"address": "https://example.org/a b"})
    assert "No feed has these words." not in spaced.text


def test_discover_has_the_same_field(ann: Visitor) -> None:
    page = lxml.html.fromstring(ann.get("/discover").text)
    (field,) = page.cssselect('form[action="/add"] input[name="address"]')
    assert (field.get("hx-get"), field.get("hx-target")) == ("/add", "#matches")
    assert len(page.cssselect("#matches")) == 1


def test_people_are_found_by_name_if_both_want_it(ann: Visitor, services: Services) -> None:
    people = People(services)
    bob, me = add_user(services, "bobette"), services.gateways.accounts.find_by_name("ann")
    assert me is not None
    people.open(bob, Audience.PUBLIC)
    assert "bobette" not in ann.get("/add?address=bobe", headers=FRAGMENT).text
    services.following.update_profile(bob, similar=True)
    assert "bobette" not in ann.get("/add?address=bobe", headers=FRAGMENT).text
    services.following.update_profile(Actor(me), similar=True)
    assert "/@bobette" in ann.get("/add?address=bobe", headers=FRAGMENT).text
    services.following.block(bob, "ann")
    assert "/@bobette" not in ann.get("/add?address=bobe", headers=FRAGMENT).text


def test_matches_among_people_say_what_was_typed_and_whom_one_follows(
    ann: Visitor, services: Services
) -> None:
    people = People(services)
    account = services.gateways.accounts.find_by_name("ann")
    assert account is not None
    me = Actor(account)
    services.following.update_profile(me, similar=True)
    for name in ("bobfollowed", "bobnew"):
        one = add_user(services, name)
        people.open(one, Audience.PUBLIC)
        services.following.update_profile(one, similar=True)
    services.following.follow(me, "bobfollowed")
    for place in ("/people?name=bob", "/add?address=bob"):
        part = lxml.html.fromstring(ann.get(place, headers=FRAGMENT).text)
        heading = " ".join(part.cssselect("h2")[0].text_content().split())
        assert heading.endswith("matches for “bob”"), place
        said = {
            line.cssselect("h3")[0].text_content().strip(): " ".join(
                (line.cssselect("form button") + line.cssselect(".state"))[0].text_content().split()
            )
            for line in part.cssselect("li")
            if line.cssselect('a[href^="/@"]')
        }
        assert said == {"bobfollowed": "You're following", "bobnew": "Follow bobnew"}, place
