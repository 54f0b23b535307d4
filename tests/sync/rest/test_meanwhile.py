"""Two changes of the same at one moment: a field that a program leaves out stays as the other one made it."""

from __future__ import annotations

import pytest

from app.models.accounts.actor import Actor
from app.models.sharing.sharing import Audience
from tests.sharing.conftest import People
from tests.support.meanwhile import after
from tests.sync.rest.conftest import Program


@pytest.mark.parametrize("read", [1, 2])
@pytest.mark.parametrize("mine_first", [True, False])
def test_fields_of_a_share_that_are_left_out_stay(
    people: People,
    ann: Actor,
    mine: Program,
    monkeypatch: pytest.MonkeyPatch,
    mine_first: bool,
    read: int,
) -> None:
    people.open(ann)
    services = people.services
    post = services.sharing.publish_post(ann, "A day", "wrods")
    changes: list[dict[str, str]] = [{"note": "words"}, {"audience": "followers"}]
    sent, meant = changes if mine_first else changes[::-1]
    at = f"/shares/{post.id}"
    after(monkeypatch, services.mappers.shares, "find", lambda: mine.patch(at, meant), read)
    assert mine.patch(at, sent).status_code == 200
    now = services.sharing.get_share(ann, post.id)
    assert (now.note, now.audience) == ("words", Audience.FOLLOWERS)


@pytest.mark.parametrize("read", [1, 2])
@pytest.mark.parametrize("closing_first", [True, False])
def test_fields_of_the_own_page_that_are_left_out_stay(
    people: People,
    ann: Actor,
    mine: Program,
    monkeypatch: pytest.MonkeyPatch,
    closing_first: bool,
    read: int,
) -> None:
    people.open(ann)
    changes: list[dict[str, object]] = [{"audience": "private", "listed": False}, {"bio": "Reads much."}]
    sent, meant = changes if closing_first else changes[::-1]
    profiles = people.services.mappers.profiles
    after(monkeypatch, profiles, "find", lambda: mine.patch("/me/profile", meant), read)
    assert mine.patch("/me/profile", sent).status_code == 200
    now = people.services.following.preview_profile(ann)
    assert (now.audience, now.bio) == (Audience.PRIVATE, "Reads much.")
