"""Re-share chains: the way from the root, and what of it who may see."""

from __future__ import annotations

import dataclasses

import pytest

from app.config import Settings
from app.errors import InvalidError, NotFoundError
from app.models.accounts.actor import Actor
from app.models.sharing.sharing import Audience, ShareVisibility
from tests.sharing.conftest import FOLLOWING, SHARES, People


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Pages as short as a few people fill."""
    return dataclasses.replace(settings, chain_rows=10)


def test_a_chain_names_everybody_on_its_way(people: People, ann: Actor, bob: Actor, cleo: Actor) -> None:
    (entry,) = people.blog([ann])
    for who in (ann, bob, cleo):
        people.open(who)
    people.follow(bob, "ann")
    people.follow(cleo, "bob")
    sharing = people.services.sharing
    first = sharing.share(ann, entry, note="look").share
    second = sharing.share(bob, first.id).share
    third = sharing.share(cleo, second.id).share
    assert (second.source, third.path) == (first.id, (first.id, second.id))
    assert people.chain(None, third.id) == [(0, "ann"), (1, "bob"), (2, "cleo")]
    assert [s.handle for s in sharing.list_chain_sharers(None, third) if s] == ["bob", "ann"]
    assert sharing.list_chain(None, third.id).total == 3


def test_what_is_taken_back_or_hidden_keeps_its_place_without_a_name(
    people: People, ann: Actor, bob: Actor, cleo: Actor
) -> None:
    (entry,) = people.blog([ann, cleo])
    people.open(ann, Audience.FOLLOWERS)
    people.open(bob)
    people.open(cleo)
    people.services.following.follow(bob, "ann")
    people.services.following.answer_request(ann, "bob", True)
    people.follow(cleo, "bob")
    sharing = people.services.sharing
    first = sharing.share(ann, entry).share
    second = sharing.share(bob, first.id, audience=Audience.PUBLIC).share
    assert second.audience is Audience.FOLLOWERS  # no wider than it came to him
    third = sharing.share(cleo, second.id).share
    assert third.audience is Audience.FOLLOWERS
    assert people.chain(cleo, third.id) == [(0, "private"), (1, "bob"), (2, "cleo")]
    assert [s and s.handle for s in sharing.list_chain_sharers(cleo, third)] == ["bob", None]
    assert people.chain(bob, second.id) == [(0, "ann"), (1, "bob")]
    with pytest.raises(NotFoundError):
        sharing.list_chain(None, third.id)
    sharing.remove_share(bob, second.id)
    assert people.chain(cleo, third.id) == [(0, "private"), (1, "removed"), (2, "cleo")]
    with pytest.raises(NotFoundError):
        sharing.list_chain(cleo, second.id)


def test_a_private_share_is_nowhere_in_a_chain(people: People, ann: Actor, bob: Actor) -> None:
    (entry,) = people.blog([ann, bob])
    people.open(ann)
    people.open(bob)
    public = people.services.sharing.share(ann, entry).share
    people.follow(bob, "ann")
    people.services.sharing.share(bob, public.id, audience=Audience.PRIVATE)
    for viewer in (None, ann):
        page = people.services.sharing.list_chain(viewer, public.id)
        assert ([n.by.handle for n in page.nodes if n.by], page.total) == (["ann"], 1)
    assert people.chain(bob, public.id) == [(0, "ann"), (1, "bob")]


def test_a_post_for_followers_is_not_passed_on(people: People, ann: Actor, bob: Actor) -> None:
    people.open(ann)
    people.follow(bob, "ann")
    post = people.services.sharing.publish_post(ann, "", "Only you", audience=Audience.FOLLOWERS)
    assert len(people.rows(bob, FOLLOWING)) == 1
    with pytest.raises(InvalidError, match="for followers only"):
        people.services.sharing.share(bob, post.id)


def test_a_post_that_is_closed_later_closes_what_others_made_of_it(
    people: People, ann: Actor, bob: Actor, cleo: Actor
) -> None:
    people.open(ann)
    people.open(bob)
    people.follow(bob, "ann")
    people.follow(cleo, "bob")
    post = people.services.sharing.publish_post(ann, "Mine", "Words of ann")
    copy = people.services.sharing.share(bob, post.id, note="see").share
    assert [r.title for r in people.rows(cleo, FOLLOWING)] == ["Mine"]
    people.services.sharing.update_share(ann, post.id, note="Words of ann", audience=Audience.FOLLOWERS)
    assert [(r.title, r.excerpt, r.lost) for r in people.rows(cleo, FOLLOWING)] == [
        ("", "", ShareVisibility.PRIVATE)
    ]
    article = people.services.reading.get_article(cleo, copy.id)
    assert (article.entry.title, article.entry.content, article.feed_title) == ("", "", "bob")
    assert [r.title for r in people.rows(bob, SHARES)] == ["Mine"]


def test_a_long_chain_and_a_wide_one_come_in_pages(people: People) -> None:
    many = [people.join(f"p{n:02}") for n in range(6)]
    (entry,) = people.blog(many)
    sharing = people.services.sharing
    last = None
    for depth, who in enumerate(many):
        people.open(who)
        if last is not None:
            people.follow(who, f"p{depth - 1:02}")
        last = sharing.share(who, last.id if last else entry).share
    assert last is not None
    others = [people.join(f"q{n:03}") for n in range(15)]
    for who in others:
        people.follow(who, "p00")
        sharing.share(who, last.path[0])
    seen, cursor = list[tuple[int, str]](), None
    while True:
        page = sharing.list_chain(None, last.id, cursor)
        seen += [(n.depth, n.by.handle) for n in page.nodes if n.by]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen[:6] == [(n, f"p{n:02}") for n in range(6)]
    rest = [row for row in seen[6:] if row[0]]
    assert rest == [(1, f"q{n:03}") for n in range(15)]
    assert page.total == 21
    with pytest.raises(InvalidError):
        sharing.list_chain(None, last.id, "no cursor")


def test_a_count_holds_only_what_may_be_seen(people: People, ann: Actor, bob: Actor, cleo: Actor) -> None:
    (entry,) = people.blog([ann])
    people.open(ann)
    people.open(bob)
    people.follow(bob, "ann")
    first = people.services.sharing.share(ann, entry).share
    people.services.sharing.share(bob, first.id)

    def seen(who: Actor | None) -> int:
        return people.services.sharing.list_chain(who, first.id).total

    assert (seen(None), seen(cleo)) == (2, 2)
    people.open(bob, Audience.PRIVATE)
    assert (seen(None), seen(cleo), seen(bob)) == (1, 1, 2)
    people.open(bob, Audience.PUBLIC)
    people.services.gateways.profiles.set_suspended(bob.user_id, True)
    assert seen(None) == 1
    people.services.gateways.profiles.set_suspended(bob.user_id, False)
    people.services.following.block(bob, "cleo")
    assert (seen(None), seen(cleo)) == (2, 1)
