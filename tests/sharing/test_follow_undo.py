"""Taking an unfollow back: what comes back is what a fresh follow would be given."""

from __future__ import annotations

from contextvars import Context

import pytest

from app.errors import ForbiddenError, NotFoundError
from app.models.accounts.actor import Actor
from app.models.sharing.sharing import Audience
from app.runtime import identity_map
from tests.sharing.conftest import People
from tests.sharing.visiting import Doors


def _left(people: People, who: Actor, name: str) -> str:
    people.follow(who, name)
    token = people.services.following.unfollow(who, name)
    assert token
    return token


def _undo(people: People, who: Actor, token: str) -> str:
    """Take something back as a script does; return what he is told."""
    answer = Doors(people.services)(who).post("/undo", {"token": token}, Accept="application/json")
    assert answer.status_code == 200, answer.text
    return str(answer.get_json()["text"])


def test_an_undo_asks_where_a_stream_asks_by_now(people: People, ann: Actor, bob: Actor) -> None:
    people.open(ann)
    token = _left(people, bob, "ann")
    people.open(ann, Audience.FOLLOWERS)
    following, services = people.services.following, people.services
    assert "Follow request sent." in _undo(people, bob, f"feed.{token}")
    assert services.reading.get_tree(bob).feeds == ()
    assert following.get_person(bob, "ann").tie.requested
    assert following.list_requests(ann) == ["bob"]
    kinds = [note.kind.value for note in services.notifications.list_notifications(ann).notes]
    assert "request" in kinds
    with pytest.raises(NotFoundError):  # it is used
        services.subscriptions.restore(bob, token)
    assert following.answer_request(ann, "bob", True)
    assert len(services.reading.get_tree(bob).feeds) == 1


def test_an_undo_brings_an_open_stream_back_as_it_was(people: People, ann: Actor, bob: Actor) -> None:
    people.open(ann)
    token = _left(people, bob, "ann")
    assert _undo(people, bob, f"feed.{token}") == "Undone"
    assert people.services.following.get_person(bob, "ann").tie.follows


@pytest.mark.parametrize("how", ["closed", "suspended", "blocks"])
def test_an_undo_finds_nobody_where_a_fresh_follow_would_not(
    people: People, ann: Actor, bob: Actor, how: str
) -> None:
    people.open(ann)
    services = people.services
    token = _left(people, bob, "ann")
    match how:
        case "closed":
            people.open(ann, Audience.PRIVATE)
        case "suspended":
            services.gateways.profiles.set_suspended(ann.user_id, True)
        case _:
            services.following.block(bob, "ann")
    error = ForbiddenError if how == "blocks" else NotFoundError
    with pytest.raises(error):
        services.following.follow(bob, "ann")
    with pytest.raises((error, NotFoundError)):
        services.subscriptions.restore(bob, token)
    assert services.reading.get_tree(bob).feeds == ()


def test_an_undo_of_many_asks_and_leaves_out_one_by_one(
    people: People, ann: Actor, bob: Actor, cleo: Actor
) -> None:
    dora, services = people.join("dora"), people.services
    people.blog([dora])
    for who in (ann, bob, cleo):
        people.open(who)
        people.follow(dora, services.following.preview_profile(who).handle)
    feeds = [feed.feed_id for feed in services.reading.get_tree(dora).feeds]
    token, count = services.bulk_edit.unsubscribe(dora, feeds)
    assert count == 4
    people.open(ann, Audience.FOLLOWERS)
    people.open(bob, Audience.PRIVATE)
    words = _undo(people, dora, f"feeds.{token}")
    assert "follow request sent to 1 person" in words
    assert "1 person can no longer be followed" in words
    ties = {n: services.following.get_person(dora, n).tie for n in ("ann", "cleo")}
    assert (ties["ann"].requested, ties["ann"].follows, ties["cleo"].follows) == (True, False, True)
    assert len(services.reading.get_tree(dora).feeds) == 2
    assert services.following.list_requests(ann) == ["dora"]


@pytest.mark.parametrize("many", [False, True])
def test_a_block_wins_over_an_undo_at_the_same_moment(
    people: People, ann: Actor, bob: Actor, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    services = people.services
    people.open(ann)
    token = _left(people, bob, "ann")
    if many:
        people.follow(bob, "ann")
        token, _ = services.bulk_edit.unsubscribe(
            bob, [f.feed_id for f in services.reading.get_tree(bob).feeds]
        )
    add, store = services.mappers.subscriptions.add, services.mappers.removals

    def late(*args: object, **kwargs: object) -> object:
        # All of a block but its last step, which finds nothing: what comes back is not there for others yet.
        monkeypatch.setattr(store, "remove_by_feed", lambda *a: None)
        Context().run(services.following.block, ann, "bob")  # as another process
        monkeypatch.undo()
        return add(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(services.mappers.subscriptions, "add", late)
    with identity_map.open_scope():  # as a request
        if many:
            assert services.bulk_edit.restore(bob, token).restored == ()
        else:
            with pytest.raises(NotFoundError):
                services.subscriptions.restore(bob, token)
    assert services.reading.get_tree(bob).feeds == ()
    with pytest.raises(NotFoundError):
        services.subscriptions.restore(bob, token)


@pytest.mark.parametrize("many", [False, True])
def test_who_comes_back_asks_no_more(people: People, ann: Actor, bob: Actor, many: bool) -> None:
    people.open(ann)
    services, following = people.services, people.services.following
    people.follow(bob, "ann")
    feed_id = following.preview_profile(ann).feed_id
    token = services.bulk_edit.unsubscribe(bob, [feed_id])[0] if many else following.unfollow(bob, "ann")
    people.open(ann, Audience.FOLLOWERS)
    assert following.follow(bob, "ann").requested
    # Opened while he asked, so that nobody has let him in.
    services.gateways.profiles.update(following.preview_profile(ann), {"audience": Audience.PUBLIC.value})
    assert following.list_requests(ann) == ["bob"]
    (services.bulk_edit if many else services.subscriptions).restore(bob, str(token))
    tie = following.get_person(bob, "ann").tie
    assert (tie.follows, tie.requested) == (True, False)
    assert following.list_requests(ann) == []
