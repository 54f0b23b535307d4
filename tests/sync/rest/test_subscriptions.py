"""The settings of feeds: a program reads what it can change, and nobody overwrites another's change."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from app import clock
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.web.api.rest.subscriptions import SubscriptionChange
from tests.sharing.conftest import People
from tests.sync.rest.conftest import Program

#: A value of each setting that a new subscription doesn't have.
CHANGES: dict[str, Any] = {
    "title": "My own",
    "folder_ids": [],
    "paused": True,
    "private": True,
    "hidden": True,
    "original": True,
    "notify": True,
    "full_text": True,
    "reopen": True,
    "read_after": 7,
    "keep_newest": 50,
}
#: The title that is read is the feed's own if the user gave none.
_READ_AS = {"title": "own_title"}


@pytest.fixture
def feed_id(services: Services, ann: Actor) -> int:
    folder = services.folders.create(ann, "News")
    done = services.subscriptions.subscribe(ann, "http://site.example/feed", folder_id=folder.id)
    return done.subscription.feed_id


def test_every_setting_that_a_program_changes_is_tried_here() -> None:
    assert set(CHANGES) == set(SubscriptionChange.__struct_fields__)


@pytest.mark.parametrize("name", CHANGES)
def test_a_program_reads_each_setting_that_it_can_change(mine: Program, feed_id: int, name: str) -> None:
    at, read_as = f"/subscriptions/{feed_id}", _READ_AS.get(name, name)
    before = mine.get(at).get_json()
    assert before[read_as] != CHANGES[name]
    assert mine.get("/subscriptions").get_json()["items"] == [before]
    kept = mine.patch(at, {name: CHANGES[name]}).get_json()
    after = mine.get(at).get_json()
    assert after[read_as] == kept[name] == CHANGES[name]
    # The list is kept in memory between two requests.
    assert mine.get("/subscriptions").get_json()["items"] == [after]


@pytest.mark.parametrize("name", CHANGES)
def test_nobody_overwrites_a_setting_that_he_has_not_seen(mine: Program, feed_id: int, name: str) -> None:
    at = f"/subscriptions/{feed_id}"
    tag = mine.get(at).headers["ETag"]
    assert mine.patch(at, {name: CHANGES[name]}).status_code == 200  # another program
    late = mine.patch(at, {"read_after": 30}, headers={"If-Match": tag})
    assert (late.status_code, late.get_json()["word"]) == (412, "changed")
    assert mine.get(at).get_json()["read_after"] == CHANGES["read_after"] * (name == "read_after")
    assert mine.delete(at, headers={"If-Match": tag}).status_code == 412
    tag = mine.get(at).headers["ETag"]
    assert mine.patch(at, {"read_after": 30}, headers={"If-Match": tag}).status_code == 200


def test_many_feeds_are_marked_as_read_with_one_undo(
    services: Services, people: People, ann: Actor, mine: Program, program: Callable[..., Program]
) -> None:
    for name, entries in (("one", 2), ("two", 3), ("three", 1)):
        people.blog([ann], entries, name)
    rows = {row["title"]: row["feed_id"] for row in mine.get("/subscriptions").get_json()["items"]}
    theirs = people.blog([people.join("bob")], 1, "four")
    other = services.store.database["entries"].find_one({"_id": theirs[0]})["feed_id"]
    done = mine.post("/subscriptions/mark-read", {"feed_ids": [rows["one"], rows["two"], other]}).get_json()
    assert done["count"] == 5
    assert mine.get("/counts").get_json()["unread"] == 1
    assert mine.post("/undo", {"undo": done["undo"]}).status_code == 200
    assert mine.get("/counts").get_json()["unread"] == 6
    refused = program(ann, "read", "subscribe").post("/subscriptions/mark-read", {"feed_ids": [rows["one"]]})
    assert (refused.status_code, refused.get_json()["scope"]) == (403, "mark")


def test_a_program_lets_the_icon_of_its_users_feeds_be_looked_for(
    services: Services, people: People, mine: Program, feed_id: int
) -> None:
    feeds = services.store.database["feeds"]
    feeds.update_one({"_id": feed_id}, {"$set": {"icon_next": clock.now() + dt.timedelta(days=7)}})
    assert mine.post(f"/subscriptions/{feed_id}/icon").status_code == 204
    assert feeds.find_one({"_id": feed_id})["icon_next"] <= clock.now()
    bob = people.join("bob")
    other = services.subscriptions.subscribe(bob, "http://other.example/feed").subscription.feed_id
    assert mine.post(f"/subscriptions/{other}/icon").status_code == 404
