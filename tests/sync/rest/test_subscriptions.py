"""The settings of feeds: a program reads what it can change, and nobody overwrites another's change."""

from __future__ import annotations

from typing import Any

import pytest

from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.web.api.rest.subscriptions import SubscriptionChange
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
