"""Followed lists as a page: follow, see what is wrong, answer, stop; and the same in REST."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from app import clock
from app.bootstrap.services import Services
from app.feeds.urls import hash_url
from app.models.accounts.actor import Actor
from tests.web.conftest import Visitor

PAGE, URL = "/imports/lists", "https://lists.example/feeds.opml"


@pytest.fixture
def reader(db: Any, ann: Visitor) -> Actor:
    return Actor(db.users.find_one({"name": "ann"})["_id"])


def test_a_list_is_followed_and_left(ann: Visitor, services: Services, reader: Actor) -> None:
    assert PAGE in ann.get("/imports").text
    assert ann.post(PAGE, {"url": URL, "name": "Work"}).location == PAGE
    page = ann.get(PAGE).text
    assert "Work" in page
    assert "Eventr is fetching the list" in page
    again = ann.post(PAGE, {"url": URL})
    assert again.status_code == 409
    assert "You already follow this list." in again.text
    (view,) = services.followed_lists.list_lists(reader)
    assert ann.post(f"{PAGE}/{view.of.id}/check", {}).location == PAGE
    ann.post(f"{PAGE}/{view.of.id}/delete", {})
    assert services.followed_lists.list_lists(reader) == []


def test_a_wrong_address_is_explained_beside_its_field(ann: Visitor) -> None:
    page = ann.post(PAGE, {"url": "nowhere", "name": "Work"})
    assert page.status_code == 400
    assert "Enter the web address of an OPML file" in page.text
    assert 'value="nowhere"' in page.text
    assert 'value="Work"' in page.text


def test_trouble_and_removals_are_shown(ann: Visitor, services: Services, reader: Actor) -> None:
    feed_id = services.subscriptions.subscribe(reader, "https://one.example/feed").subscription.feed_id
    one = services.followed_lists.add(reader, URL)
    lists, now = services.gateways.followed_lists.lists, clock.now()
    for word, told in (("no_list", "have an OPML file"), ("http_404", "404")):
        lists.save(one.note_failure(word, now))
        page = ann.get(PAGE).text
        assert told in page
        assert "next check in" in page
    known = one.note_success([hash_url("https://one.example/feed")], now)
    lists.save(dataclasses.replace(known.note_success([], now), id=one.id))
    page = ann.get(PAGE).text
    assert "1 feed is no longer in the list" in page
    assert f'href="/feeds/{feed_id}"' in page
    done = ann.post(f"{PAGE}/{one.id}/answer", {"unsubscribe": "1"})
    page = ann.get(done.location).text
    assert "Unsubscribed from 1 feed" in page
    assert "no longer in the list" not in page
