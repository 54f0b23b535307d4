"""What is taken back by a token after something has changed between two people."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from app import clock
from app.errors import NotFoundError, RateLimitedError
from app.models.accounts.actor import Actor
from app.models.reading.entry import NewEntry
from app.models.sharing.sharing import Audience
from tests.sharing.conftest import People


def test_who_was_blocked_brings_no_comment_back(people: People, ann: Actor, bob: Actor, cleo: Actor) -> None:
    (entry,) = people.blog([ann])
    people.open(ann)
    talk = people.services.discussion
    share = people.services.sharing.share(ann, entry).share
    said = talk.comment(bob, share.id, "Words")
    _, token = talk.remove_comment(bob, said.id)
    people.services.following.block(ann, "bob")
    with pytest.raises(NotFoundError):
        talk.restore_comment(bob, token)
    assert talk.get_thread(cleo, talk.get_share(cleo, share.id)).comments == ()


def test_what_was_narrowed_is_not_widened_by_who_passed_it_on(
    people: People, ann: Actor, bob: Actor, cleo: Actor
) -> None:
    (entry,) = people.blog([ann])
    people.open(ann)
    people.open(bob)
    people.follow(bob, "ann")
    sharing = people.services.sharing
    share = sharing.share(ann, entry, audience=Audience.FOLLOWERS).share
    passed = sharing.share(bob, share.id, audience=Audience.PUBLIC).share
    assert passed.audience is Audience.FOLLOWERS
    sharing.remove_share(ann, share.id)
    assert (
        sharing.update_share(bob, passed.id, note="", audience=Audience.PUBLIC).audience is Audience.FOLLOWERS
    )


def test_changes_are_limited_like_what_they_change(
    people: People, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    sharing, talk = people.services.sharing, people.services.discussion
    post = sharing.publish_post(ann, "", "Hello")
    said = talk.comment(ann, post.id, "Words")
    monkeypatch.setattr(sharing, "_per_hour", 2)
    monkeypatch.setattr(talk, "_per_hour", 2)
    for n in range(2):
        sharing.update_share(ann, post.id, note=f"Hello @p{n}")
        talk.update_comment(ann, said.id, f"Words @p{n}")
    with pytest.raises(RateLimitedError):
        sharing.update_share(ann, post.id, note="Hello @p3")
    with pytest.raises(RateLimitedError):
        talk.update_comment(ann, said.id, "Words @p3")


@pytest.mark.parametrize("how", ["blocked", "dismissed"])
def test_who_was_sent_away_does_not_come_back_by_a_token(
    people: People, ann: Actor, bob: Actor, how: str
) -> None:
    people.open(ann)
    people.follow(bob, "ann")
    following = people.services.following
    token = following.unfollow(bob, "ann")
    assert token
    if how == "blocked":
        following.block(ann, "bob")
        following.unblock(ann, "bob")
    else:
        following.remove_follower(ann, "bob")
    with pytest.raises(NotFoundError):
        people.services.subscriptions.restore(bob, token)
    people.follow(bob, "ann")


@pytest.mark.parametrize("how", ["restored", "moved"])
def test_a_post_bears_the_date_of_its_writing(
    people: People, ann: Actor, bob: Actor, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    people.open(ann)
    people.follow(bob, "ann")
    services = people.services
    post = services.sharing.publish_post(ann, "A day", "Words")
    later = clock.now() + dt.timedelta(hours=5)
    monkeypatch.setattr(clock, "now", lambda: later)
    if how == "restored":
        services.sharing.restore_share(ann, services.sharing.remove_share(ann, post.id))
    else:
        services.sharing.update_share(ann, post.id, note="Words", audience=Audience.PRIVATE)
        services.sharing.update_share(ann, post.id, note="Words", audience=Audience.PUBLIC)
    entry = services.reading.get_article(bob, post.id).entry
    assert abs(entry.published - post.at) < dt.timedelta(seconds=1)
    assert entry.published == entry.at


def test_a_share_does_not_come_back_that_was_decided_on_at_that_moment(
    people: People, ann: Actor, bob: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry,) = people.blog([ann])
    people.open(ann)
    sharing, gateway = people.services.sharing, people.services.gateways.sharing
    share = sharing.share(ann, entry).share
    token, write = sharing.remove_share(ann, share.id), gateway._body

    def between(*args: Any) -> NewEntry:
        gateway.remove_undo(ann.user_id, share.id)
        return write(*args)

    monkeypatch.setattr(gateway, "_body", between)
    with pytest.raises(NotFoundError):
        sharing.restore_share(ann, token)
    with pytest.raises(NotFoundError):
        sharing.get_share(bob, share.id)
