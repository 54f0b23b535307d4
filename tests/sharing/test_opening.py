"""A stream that is opened for everybody: who has asked to follow it waits no more."""

from __future__ import annotations

import datetime as dt

import pytest

from app.errors import StoreError
from app.gateways.sharing import follows
from app.models.accounts.actor import Actor
from app.models.sharing.sharing import Audience, Relationship
from tests.sharing.conftest import People
from tests.support.meanwhile import after


@pytest.fixture
def asked(people: People, ann: Actor, bob: Actor, cleo: Actor) -> None:
    """Bob and Cleo have asked whether they may follow Ann."""
    people.open(ann, Audience.FOLLOWERS)
    for who in (bob, cleo):
        assert people.services.following.follow(who, "ann").requested


def _tie(people: People, who: Actor) -> Relationship:
    return people.services.following.get_person(who, "ann").tie


def _told(people: People, who: Actor) -> list[tuple[str, int]]:
    return [
        (note.kind.value, note.count) for note in people.services.notifications.list_notifications(who).notes
    ]


@pytest.mark.usefixtures("asked")
def test_who_has_asked_follows_a_stream_that_opens_as_if_he_was_let_in(
    people: People, ann: Actor, bob: Actor, cleo: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    services, came = people.services, list[tuple[int, list[int]]]()
    monkeypatch.setattr(
        services.events, "notify_follows", lambda who, *, added: came.append((who, list(added)))
    )
    feed_id = services.following.preview_profile(ann).feed_id
    assert services.following.answer_request(ann, "cleo", True)
    told = _told(people, cleo)
    services.following.update_profile(ann, audience=Audience.PUBLIC)
    for who in (bob, cleo):
        assert _tie(people, who) == Relationship(follows=True)
        assert [feed.feed_id for feed in services.reading.get_tree(who).feeds] == [feed_id]
        assert _told(people, who) == told
    assert came == [(cleo.user_id, [feed_id]), (bob.user_id, [feed_id])]
    assert services.following.get_person(None, "ann").followers == 2
    assert (services.following.list_requests(ann), _told(people, ann)) == ([], [])
    assert services.notifications.count_unread(ann) == 0


@pytest.mark.usefixtures("asked")
def test_only_a_stream_for_everybody_lets_all_in(people: People, ann: Actor, bob: Actor) -> None:
    following = people.services.following
    following.update_profile(ann, bio="Reads much.")
    following.update_profile(ann, audience=Audience.PRIVATE)
    following.update_profile(ann, audience=Audience.FOLLOWERS)
    assert following.list_requests(ann) == ["cleo", "bob"]
    assert _tie(people, bob) == Relationship(requested=True)


@pytest.mark.usefixtures("asked")
def test_a_stream_that_is_narrowed_at_that_moment_lets_nobody_in(
    people: People, ann: Actor, bob: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    services, following = people.services, people.services.following
    after(
        monkeypatch,
        services.mappers.ties,
        "find_initiators",
        lambda: following.update_profile(ann, audience=Audience.FOLLOWERS),
    )
    following.update_profile(ann, audience=Audience.PUBLIC)
    assert following.list_requests(ann) == ["cleo", "bob"]
    assert _tie(people, bob) == Relationship(requested=True)


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("by_ann", [True, False])
def test_who_is_blocked_at_that_moment_stays_out(
    people: People, ann: Actor, bob: Actor, cleo: Actor, monkeypatch: pytest.MonkeyPatch, by_ann: bool
) -> None:
    services = people.services
    blocks = (ann, "bob") if by_ann else (bob, "ann")
    after(monkeypatch, services.mappers.ties, "find_initiators", lambda: services.following.block(*blocks))
    services.following.update_profile(ann, audience=Audience.PUBLIC)
    assert services.reading.get_tree(bob).feeds == ()
    assert _tie(people, cleo).follows
    assert services.following.get_person(None, "ann").followers == 1
    assert services.following.list_requests(ann) == []


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("by_ann", [True, False])
def test_who_is_blocked_while_he_is_let_in_stays_out(
    people: People, ann: Actor, bob: Actor, cleo: Actor, monkeypatch: pytest.MonkeyPatch, by_ann: bool
) -> None:
    services = people.services
    blocks = (ann, "bob") if by_ann else (bob, "ann")
    # The request that was asked last is answered first, so the second one is Bob's.
    after(
        monkeypatch, services.mappers.users, "set_social", lambda: services.following.block(*blocks), call=2
    )
    services.following.update_profile(ann, audience=Audience.PUBLIC)
    assert services.reading.get_tree(bob).feeds == ()
    assert services.following.get_person(None, "ann").followers == 1
    assert services.following.list_requests(ann) == []


@pytest.mark.usefixtures("asked")
def test_who_has_too_many_subscriptions_is_free_to_follow_later(
    people: People, ann: Actor, bob: Actor, cleo: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = people.services
    people.blog([cleo])
    with monkeypatch.context() as full:
        full.setattr(services.gateways.subscriptions, "_most", 1)
        services.following.update_profile(ann, audience=Audience.PUBLIC)
    assert _tie(people, bob) == Relationship(follows=True)
    assert _tie(people, cleo) == Relationship()  # the page offers to follow
    assert services.following.list_requests(ann) == ["cleo"]
    people.follow(cleo, "ann")
    assert services.following.list_requests(ann) == []


@pytest.mark.usefixtures("asked")
def test_what_the_store_did_not_take_is_done_later(
    people: People, ann: Actor, bob: Actor, cleo: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = people.services
    monkeypatch.setattr(follows, "RETRY", dt.timedelta(0))

    def away() -> None:
        raise StoreError

    with monkeypatch.context() as broken:
        after(broken, services.mappers.users, "set_social", away, call=2)
        services.following.update_profile(ann, audience=Audience.PUBLIC)
    assert services.following.list_requests(ann) == [], "both are decided"
    assert services.cell_upkeep.finish_follows() == 1
    assert (_tie(people, bob), _tie(people, cleo)) == (Relationship(follows=True), Relationship(follows=True))
    assert services.following.get_person(None, "ann").followers == 2


def test_who_asks_while_a_stream_opens_is_free_to_follow(
    people: People, ann: Actor, bob: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    following = people.services.following
    people.open(ann, Audience.FOLLOWERS)
    after(
        monkeypatch,
        people.services.mappers.ties,
        "find_between",
        lambda: following.update_profile(ann, audience=Audience.PUBLIC),
        call=2,
    )
    following.follow(bob, "ann")
    assert not _tie(people, bob).requested
    people.follow(bob, "ann")
    assert following.list_requests(ann) == []
