"""Likes and comments: who may, who sees them, and what is left of who goes."""

from __future__ import annotations

import dataclasses
import datetime as dt
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from app import clock
from app.errors import NotFoundError
from app.models.accounts.actor import Actor
from app.models.discussion.comments import CappedCount, CommentView
from app.models.sharing.sharing import Audience, Share
from tests.sharing.conftest import FOLLOWING, People

NOW = clock.now()


@pytest.fixture
def share(people: People, ann: Actor) -> Share:
    """What ann shares with everybody."""
    (entry,) = people.blog([ann])
    people.open(ann)
    return people.services.sharing.share(ann, entry).share


def thread(people: People, who: Actor | None, share: Share) -> list[tuple[int, str, str]]:
    """Return the comments as (depth, who, text as typed or HTML)."""
    return [_said(c) for c in people.services.discussion.get_thread(who, share).comments]


def _said(comment: CommentView) -> tuple[int, str, str]:
    words = comment.html.removeprefix("<p>").removesuffix("</p>")
    return comment.depth, comment.by.handle if comment.by else "", words


def at_once(count: int, work: Callable[[int], None]) -> None:
    """Do something in so many threads at the same moment."""
    gate = threading.Barrier(count)

    def run(number: int) -> None:
        gate.wait()
        work(number)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(run, range(count)))


# -- likes
def test_a_like_is_counted_once_and_taken_back(people: People, bob: Actor, ann: Actor, share: Share) -> None:
    talk = people.services.discussion
    for _ in range(2):
        received = talk.set_share_liked(bob, share.id)
        assert (received.likes, received.liked) == (CappedCount(1), True)
    assert talk.get_reactions(ann, share).likes == talk.get_reactions(None, share).likes == CappedCount(1)
    assert not talk.get_reactions(ann, share).liked
    assert [f.handle for f in talk.list_likers(ann, share.id)[0]] == ["bob"]
    with pytest.raises(NotFoundError):
        talk.list_likers(bob, share.id)
    for _ in range(2):
        assert talk.set_share_liked(bob, share.id, False).likes == CappedCount(0)


def test_a_like_of_what_nobody_shared_is_a_mark_of_ones_own(people: People, ann: Actor, bob: Actor) -> None:
    one, two = people.blog([ann, bob], 2)
    talk, reading, tags = people.services.discussion, people.services.reading, people.services.tags
    talk.set_liked(ann, one)
    talk.set_liked(ann, one)
    assert (talk.find_liked(ann, [one, two]), talk.find_liked(bob, [one, two])) == ({one}, set())
    # It comes and goes beside stars and tags, and keeps no entry.
    reading.set_starred(ann, one, True)
    (tag,) = tags.change_tags(ann, one, add=["kept"])
    tags.change_tags(ann, one, remove=[tag.id])
    talk.set_liked(ann, two)
    reading.set_starred(ann, one, False)
    assert talk.find_liked(ann, [one, two]) == {one, two}
    database = people.services.store.database
    assert [d.get("stars", 0) for d in database["entries"].find({"_id": {"$in": [one, two]}})] == [0, 0]
    tags.change_tags(ann, two, add=["more"])
    talk.set_liked(ann, one, False)
    talk.set_liked(ann, two, False)
    assert talk.find_liked(ann, [one, two]) == set()
    assert [(d["entry_id"], "tags" in d) for d in database["marks"].find()] == [(two, True)]
    assert database["likes"].count_documents({}) == 0
    with pytest.raises(NotFoundError):
        talk.set_liked(ann, 17)


def test_eight_at_once_are_eight_likes(people: People, ann: Actor, share: Share) -> None:
    crowd = [people.join(f"reader{n}") for n in range(8)]
    at_once(8, lambda n: people.services.discussion.set_liked(crowd[n], share.id))
    at_once(8, lambda n: people.services.discussion.set_liked(crowd[0], share.id))
    assert people.services.discussion.get_reactions(ann, share).likes == CappedCount(8)
    page = people.services.notifications.list_notifications(ann)
    assert [(n.kind.value, n.count, n.title) for n in page.notes] == [("like", 8, "blog 1")]
    assert people.services.notifications.count_unread(ann) == 1


# -- who may
def _closed(people: People, share: Share, who: Actor | None) -> None:
    talk = people.services.discussion
    tries: list[Callable[[], object]] = [lambda: talk.get_share(who, share.id)]
    if who is not None:
        tries += [lambda: talk.set_liked(who, share.id), lambda: talk.set_share_liked(who, share.id)]
        tries += [lambda: talk.comment(who, share.id, "hello @ann")]
    for attempt in tries:
        with pytest.raises(NotFoundError):
            attempt()


def test_a_private_share_is_talked_of_by_nobody(people: People, ann: Actor, bob: Actor) -> None:
    (entry,) = people.blog([ann])
    people.open(ann)
    people.follow(bob, "ann")
    secret = people.services.sharing.share(ann, entry, note="dear @bob", audience=Audience.PRIVATE).share
    for who in (bob, None):
        _closed(people, secret, who)
    people.services.discussion.comment(ann, secret.id, "only for me, @bob")
    people.services.discussion.set_liked(ann, secret.id)
    assert people.services.notifications.count_unread(bob) == 0
    assert people.services.notifications.list_notifications(bob).notes == ()
    assert people.services.store.database["notifications"].count_documents({}) == 1  # that ann has a follower


def test_what_is_for_followers_is_talked_of_by_followers(
    people: People, ann: Actor, bob: Actor, cleo: Actor
) -> None:
    (entry,) = people.blog([ann])
    people.open(ann)
    people.follow(bob, "ann")
    share = people.services.sharing.share(ann, entry, audience=Audience.FOLLOWERS).share
    for who in (cleo, None):
        _closed(people, share, who)
    people.services.discussion.comment(bob, share.id, "hello @cleo")
    assert thread(people, ann, share) == [(0, "bob", "hello @cleo")]
    assert people.services.notifications.count_unread(cleo) == 0
    people.services.following.unfollow(bob, "ann")
    _closed(people, share, bob)
    with pytest.raises(NotFoundError):
        people.services.discussion.get_own_comment(
            bob, people.services.discussion.get_thread(ann, share).comments[0].id
        )


def test_who_is_blocked_is_out_and_who_is_muted_or_suspended_is_not_heard(
    people: People, ann: Actor, bob: Actor, cleo: Actor, share: Share
) -> None:
    talk, following = people.services.discussion, people.services.following
    people.open(bob)
    said = talk.comment(bob, share.id, "first")
    talk.comment(cleo, share.id, "second", parent=said.id)
    talk.set_liked(bob, share.id)
    following.set_muted(cleo, "bob", True)
    assert thread(people, cleo, share) == [(0, "", ""), (1, "cleo", "second")]
    assert (talk.get_reactions(cleo, share).comments, talk.get_reactions(cleo, share).likes) == (
        CappedCount(1),
        CappedCount(0),
    )
    assert (talk.get_reactions(None, share).comments, talk.get_reactions(None, share).likes) == (
        CappedCount(2),
        CappedCount(1),
    )
    with pytest.raises(NotFoundError):
        talk.comment(cleo, share.id, "to whom I do not hear", parent=said.id)
    following.block(ann, "bob")
    _closed(people, share, bob)
    assert [who for _, who, _ in thread(people, ann, share)] == ["", "cleo"]
    assert [who for _, who, _ in thread(people, None, share)] == ["bob", "cleo"]
    people.services.gateways.admin_accounts.set_disabled(cleo.user_id, True)
    assert [who for _, who, _ in thread(people, None, share)] == ["bob"]
    people.services.mappers.profiles.update(bob.user_id, {"hidden": True})
    assert thread(people, None, share) == []
    assert talk.get_reactions(None, share).comments == talk.get_reactions(None, share).likes == CappedCount(0)


# -- the end of accounts
def test_G02_of_who_leaves_no_word_is_left(people: People, ann: Actor, bob: Actor, cleo: Actor) -> None:
    (entry,) = people.blog([ann, bob])
    people.open(ann)
    people.open(bob)
    talk = people.services.discussion
    mine = people.services.sharing.share(ann, entry, note="see this").share
    his = people.services.sharing.share(bob, mine.id).share
    talk.comment(cleo, mine.id, "on what goes")
    talk.set_liked(cleo, mine.id)
    answered = talk.comment(ann, his.id, "words of hers")
    talk.comment(cleo, his.id, "an answer", parent=answered.id)
    talk.comment(ann, his.id, "more words of hers @cleo")
    _, _undo = talk.remove_comment(bob, talk.comment(ann, his.id, "removed words").id)
    talk.set_liked(ann, his.id)
    talk.set_liked(cleo, his.id)
    people.follow(ann, "bob")
    people.services.following.block(ann, "cleo")
    with clock.set_source(lambda: NOW):
        people.services.gateways.erasure.begin(ann.user_id, NOW)
    assert [who for _, who, _ in thread(people, None, his)] == ["", "cleo"]
    later = NOW + dt.timedelta(hours=1)
    with clock.set_source(lambda: later):
        assert people.services.gateways.erasure.finish(ann.user_id, later)
    assert thread(people, None, his) == [(0, "", ""), (1, "cleo", "an answer")]
    assert talk.get_reactions(None, his).likes == CappedCount(1)
    assert [n.kind.value for n in people.services.notifications.list_notifications(bob).notes] == [
        "like",
        "comment",
    ]
    database = people.services.store.database
    for name in database.list_collection_names():
        for doc in database[name].find():
            assert "ann" not in str(doc).replace("channel", ""), (name, doc)
            assert "hers" not in str(doc), (name, doc)
            assert str(ann.user_id) not in str(doc), (name, doc)
    assert database["comments"].count_documents({"share_id": mine.id}) == 0
    assert len(people.rows(cleo, FOLLOWING)) == 0


def test_an_article_may_be_shared_by_more_people_than_one_command_asks_for(
    people: People, ann: Actor, bob: Actor, share: Share
) -> None:
    people.services.discussion.comment(bob, share.id, "first")
    others = [dataclasses.replace(share, id=n) for n in range(1, 1200)]
    talks = people.services.discussion.count_reactions(bob, [*others, share])
    assert len(talks) == 1200
    assert talks[share.id].comments == CappedCount(1)
