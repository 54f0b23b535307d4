"""What people are told of: once for what is alike, and never what they may not see."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable

import pytest

from app import clock
from app.config import Settings
from app.errors import InvalidError, NotFoundError
from app.models.accounts.actor import Actor
from app.models.discussion.comments import NotificationKind, NotificationRow
from app.models.sharing.sharing import Audience, Share
from tests.discussion.test_likes_and_comments import at_once, share
from tests.sharing.conftest import People

__all__ = ["share"]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Few rows, so that there are soon too many."""
    return dataclasses.replace(settings, notifications_max=110, notification_rows=20)


def told(people: People, who: Actor) -> list[tuple[str, list[str], int]]:
    """Return what somebody is told as (kind, people, count)."""
    return [_said(n) for n in people.services.notifications.list_notifications(who).notes]


def _said(note: NotificationRow) -> tuple[str, list[str], int]:
    return note.kind.value, [f.handle for f in note.faces], note.count


def unread(people: People, who: Actor) -> int:
    return people.services.notifications.count_unread(who)


def test_what_is_alike_is_one_row(people: People, ann: Actor, bob: Actor, cleo: Actor, share: Share) -> None:
    talk, sharing, notifications = (
        people.services.discussion,
        people.services.sharing,
        people.services.notifications,
    )
    for who in (bob, cleo):
        talk.set_liked(who, share.id)
        sharing.share(who, share.id)
        people.follow(who, "ann")
    one = talk.comment(bob, share.id, "one")
    talk.comment(bob, share.id, "two")
    talk.comment(ann, share.id, "three", parent=one.id)
    talk.comment(cleo, share.id, "four, @bob", parent=one.id)
    assert told(people, ann) == [
        ("comment", ["cleo", "bob"], 3),
        ("follower", ["cleo", "bob"], 2),
        ("reshare", ["cleo", "bob"], 2),
        ("like", ["cleo", "bob"], 2),
    ]
    assert unread(people, ann) == 4
    assert told(people, bob) == [("reply", ["cleo", "ann"], 2)]
    assert told(people, cleo) == []
    page = notifications.list_notifications(ann)
    assert [n.title for n in page.notes] == ["blog 1", "", "blog 1", "blog 1"]
    for _ in range(2):
        notifications.mark_read(ann, page.notes[0].ref)
        assert unread(people, ann) == 3
    for _ in range(2):
        notifications.mark_all_read(ann)
        assert unread(people, ann) == 0
    assert len(told(people, ann)) == 4
    # What was read counts no more.
    talk.comment(bob, share.id, "five")
    assert told(people, ann)[0] == ("comment", ["bob"], 1)
    assert unread(people, ann) == 1


def test_comments_at_once_are_all_counted(people: People, ann: Actor, share: Share) -> None:
    crowd = [people.join(f"reader{n}") for n in range(8)]
    at_once(8, lambda n: people.services.discussion.comment(crowd[n], share.id, "now"))
    ((kind, faces, count),) = told(people, ann)
    assert (kind, len(faces), count, unread(people, ann)) == ("comment", 5, 8, 1)


def test_nobody_is_told_of_himself_or_by_whom_he_does_not_hear(
    people: People, ann: Actor, bob: Actor, cleo: Actor, share: Share
) -> None:
    talk, following = people.services.discussion, people.services.following
    talk.set_liked(ann, share.id)
    talk.comment(ann, share.id, "me, @ann")
    people.open(bob)
    following.set_muted(ann, "bob", True)
    talk.set_liked(bob, share.id)
    talk.comment(bob, share.id, "hello @ann")
    people.follow(bob, "ann")
    assert told(people, ann) == []
    talk.comment(cleo, share.id, "hello")
    assert told(people, ann) == [("comment", ["cleo"], 1)]
    following.block(ann, "cleo")
    assert (told(people, ann), unread(people, ann)) == ([], 0)


@pytest.mark.parametrize(
    "end",
    [
        lambda people, ann, post: people.services.sharing.remove_share(ann, post.id),
        lambda people, ann, post: people.services.sharing.update_share(
            ann, post.id, note="private now", audience=Audience.PRIVATE
        ),
        lambda people, ann, post: people.open(ann, Audience.PRIVATE),
        lambda people, ann, post: people.services.mappers.profiles.update(ann.user_id, {"hidden": True}),
        lambda people, ann, post: people.services.following.block(ann, "bob"),
    ],
    ids=["taken back", "private", "closed", "suspended", "blocked"],
)
def test_what_may_no_more_be_seen_is_told_no_more(
    people: People, ann: Actor, bob: Actor, end: Callable[[People, Actor, Share], object]
) -> None:
    people.open(ann)
    post = people.services.sharing.publish_post(ann, "My day", "with @bob and @nobody")
    assert told(people, bob) == [("mention", ["ann"], 1)]
    end(people, ann, post)
    assert (told(people, bob), unread(people, bob)) == ([], 0)


def test_a_removed_share_stays_hidden_beside_a_live_share_of_the_same_person(
    people: People, ann: Actor, bob: Actor
) -> None:
    """Both notifications are checked in one batch, and the live share makes the person visible."""
    people.open(ann)
    removed, live = (people.services.sharing.publish_post(ann, title, "with @bob") for title in "ab")
    assert told(people, bob) == [("mention", ["ann"], 1)] * 2
    people.services.sharing.remove_share(ann, removed.id)
    notes = people.services.notifications.list_notifications(bob).notes
    assert [note.share_id for note in notes] == [live.id]
    assert unread(people, bob) == 1


def test_a_request_of_somebody_muted_is_not_told(people: People, ann: Actor, bob: Actor, cleo: Actor) -> None:
    people.open(ann, Audience.FOLLOWERS)
    for who in (bob, cleo):
        people.open(who)
        people.services.following.follow(who, "ann")
    assert told(people, ann) == [("request", ["cleo", "bob"], 2)]
    people.services.following.set_muted(ann, "cleo", True)
    assert told(people, ann) == [("request", ["bob"], 1)]


def test_a_removed_comment_that_others_answered_is_not_told(
    people: People, ann: Actor, bob: Actor, cleo: Actor, share: Share
) -> None:
    """The comment stays in its place for the replies, without its text and author."""
    talk = people.services.discussion
    removed = talk.comment(bob, share.id, "first")
    talk.comment(cleo, share.id, "answer", parent=removed.id)
    talk.remove_comment(bob, removed.id)
    assert told(people, ann) == [("comment", ["cleo"], 1)]


def test_a_like_of_ones_own_share_is_not_counted_among_the_others(
    people: People, ann: Actor, bob: Actor, share: Share
) -> None:
    for who in (ann, bob):
        people.services.discussion.set_liked(who, share.id)
    assert told(people, ann) == [("like", ["bob"], 1)]


def test_a_like_a_share_and_a_comment_that_are_taken_back_are_told_no_more(
    people: People, ann: Actor, bob: Actor, cleo: Actor, share: Share
) -> None:
    talk, sharing = people.services.discussion, people.services.sharing
    for who in (bob, cleo):
        talk.set_liked(who, share.id)
    said = [talk.comment(who, share.id, "x") for who in (bob, cleo)]
    shares = [sharing.share(who, share.id).share for who in (bob, cleo)]
    talk.set_liked(bob, share.id, False)
    talk.remove_comment(bob, said[0].id)
    sharing.remove_share(bob, shares[0].id)
    expected = [("reshare", ["cleo"], 1), ("comment", ["cleo"], 1), ("like", ["cleo"], 1)]
    assert told(people, ann) == expected
    talk.set_liked(cleo, share.id, False)
    talk.remove_comment(cleo, said[1].id)
    sharing.update_share(cleo, shares[1].id, note="", audience=Audience.PRIVATE)
    assert (told(people, ann), unread(people, ann)) == ([], 0)
    sharing.update_share(cleo, shares[1].id, note="", audience=Audience.PUBLIC)
    assert [kind for kind, *_ in told(people, ann)] == ["reshare"]


def test_a_like_that_comes_back_is_not_told_again_to_who_has_read_of_it(
    people: People, ann: Actor, bob: Actor, cleo: Actor, share: Share
) -> None:
    talk, notifications = people.services.discussion, people.services.notifications
    for on in (True, False, True):
        talk.set_liked(bob, share.id, on)
    assert (told(people, ann), unread(people, ann)) == ([("like", ["bob"], 1)], 1)
    notifications.mark_all_read(ann)
    (before,) = notifications.list_notifications(ann).notes
    talk.set_liked(bob, share.id, False)
    assert told(people, ann) == []
    talk.set_liked(bob, share.id)
    assert notifications.list_notifications(ann).notes == (before,)
    assert unread(people, ann) == 0
    # Another one is news, and so that of bob stays none.
    talk.set_liked(cleo, share.id)
    assert (told(people, ann), unread(people, ann)) == ([("like", ["cleo", "bob"], 2)], 1)
    notifications.mark_all_read(ann)
    for on in (False, True):
        talk.set_liked(bob, share.id, on)
    assert unread(people, ann) == 0


def test_a_like_that_was_away_when_all_was_read_is_told(
    people: People, ann: Actor, bob: Actor, share: Share
) -> None:
    for on in (True, False):
        people.services.discussion.set_liked(bob, share.id, on)
    rows = people.services.store.database["notifications"]
    assert rows.count_documents({"read": False}) == 0, "a badge looks at so many unread rows"
    people.services.notifications.mark_all_read(ann)
    people.services.discussion.set_liked(bob, share.id)
    assert (told(people, ann), unread(people, ann)) == ([("like", ["bob"], 1)], 1)


def test_likes_that_nobody_remembers_stay_unread_when_those_that_are_go(
    people: People, ann: Actor, bob: Actor, cleo: Actor, share: Share
) -> None:
    for who in (bob, cleo):
        people.services.discussion.set_liked(who, share.id)
    rows = people.services.store.database["notifications"]
    rows.update_one({"kind": "like"}, {"$pull": {"last": {"by": bob.user_id}}})  # as of a row of many
    people.services.discussion.set_liked(cleo, share.id, False)
    assert (told(people, ann), unread(people, ann)) == ([("like", ["bob"], 1)], 1)


def test_what_is_still_said_is_told_when_later_words_are_taken_back(
    people: People, ann: Actor, bob: Actor, cleo: Actor, share: Share
) -> None:
    talk, notifications = people.services.discussion, people.services.notifications
    first, *others = (talk.comment(bob, share.id, str(n)) for n in range(4))
    assert told(people, ann) == [("comment", ["bob"], 4)]
    undo = ""
    for left, said in enumerate(reversed(others)):
        _, undo = talk.remove_comment(bob, said.id)
        assert (told(people, ann), unread(people, ann)) == ([("comment", ["bob"], 3 - left)], 1)
    assert notifications.list_notifications(ann).notes[0].target == first.id, "the row leads to what is there"
    talk.restore_comment(bob, undo)
    assert told(people, ann) == [("comment", ["bob"], 2)]
    for said in (first, others[0]):
        talk.remove_comment(bob, said.id)
    assert (told(people, ann), unread(people, ann)) == ([], 0)
    # What was read already is not told again in the place of what is gone.
    talk.comment(cleo, share.id, "read")
    notifications.mark_all_read(ann)
    talk.remove_comment(cleo, talk.comment(cleo, share.id, "gone").id)
    assert (told(people, ann), unread(people, ann)) == ([], 0)


def test_answers_are_told_while_one_of_them_stands(
    people: People, ann: Actor, bob: Actor, cleo: Actor, share: Share
) -> None:
    talk = people.services.discussion
    asked = talk.comment(bob, share.id, "?")
    said = [talk.comment(who, share.id, "!", parent=asked.id) for who in (cleo, ann, cleo)]
    assert told(people, bob) == [("reply", ["cleo", "ann"], 3)]
    talk.remove_comment(cleo, said[2].id)
    # The newest of those who still say something comes first.
    assert told(people, bob) == [("reply", ["ann", "cleo"], 2)]
    talk.remove_comment(ann, said[1].id)
    assert (told(people, bob), unread(people, bob)) == ([("reply", ["cleo"], 1)], 1)
    talk.remove_comment(cleo, said[0].id)
    assert (told(people, bob), unread(people, bob)) == ([], 0)


def test_who_says_much_hides_nobody_who_spoke_before(
    people: People, ann: Actor, bob: Actor, cleo: Actor, share: Share
) -> None:
    talk = people.services.discussion
    talk.comment(cleo, share.id, "mine")
    said = [talk.comment(bob, share.id, str(n)) for n in range(12)]
    assert told(people, ann) == [("comment", ["bob", "cleo"], 13)]
    (doc,) = people.services.store.database["notifications"].find({"user_id": ann.user_id})
    assert len(doc["last"]) < len(said), "a row does not grow without end"
    people.services.following.block(ann, "bob")
    assert [(kind, names) for kind, names, _ in told(people, ann)] == [("comment", ["cleo"])]


def test_of_who_leaves_none_of_the_words_are_counted(
    people: People, ann: Actor, bob: Actor, cleo: Actor, share: Share
) -> None:
    for who in (bob, bob, bob, cleo):
        people.services.discussion.comment(who, share.id, "words")
    assert told(people, ann) == [("comment", ["cleo", "bob"], 4)]
    people.services.mappers.notifications.forget(bob.user_id, [])
    assert told(people, ann) == [("comment", ["cleo"], 1)]
    people.services.mappers.notifications.forget(cleo.user_id, [])
    assert people.services.store.database["notifications"].count_documents({}) == 0


def test_a_private_share_of_what_is_shared_tells_nobody(
    people: People, ann: Actor, bob: Actor, share: Share
) -> None:
    people.services.sharing.share(bob, share.id, note="@ann", audience=Audience.PRIVATE)
    assert told(people, ann) == []


def test_who_may_see_a_reshare_only_when_it_is_for_more_is_told_then(
    people: People, ann: Actor, bob: Actor, share: Share
) -> None:
    people.open(bob)
    sharing = people.services.sharing
    passed = sharing.share(bob, share.id, audience=Audience.FOLLOWERS).share
    assert told(people, ann) == []
    sharing.update_share(bob, passed.id, note="", audience=Audience.PUBLIC)
    assert told(people, ann) == [("reshare", ["bob"], 1)]
    people.services.notifications.mark_all_read(ann)
    for audience in (Audience.FOLLOWERS, Audience.PUBLIC):
        people.follow(ann, "bob")
        sharing.update_share(bob, passed.id, note="", audience=audience)
    assert unread(people, ann) == 0, "she could see it all the time"


def test_what_comes_after_the_page_was_made_is_not_read_with_it(
    people: People, ann: Actor, bob: Actor, cleo: Actor, share: Share
) -> None:
    talk, notifications = people.services.discussion, people.services.notifications
    talk.set_liked(bob, share.id)
    people.follow(bob, "ann")
    seen = notifications.list_notifications(ann).notes
    later = seen[0].at + dt.timedelta(seconds=1)
    with clock.set_source(lambda: later):
        talk.set_liked(cleo, share.id)
        notifications.mark_read(ann, f"like.{share.id}", seen[1].at.isoformat())
        assert unread(people, ann) == 2, "cleo's like was not in the row"
        notifications.mark_all_read(ann, seen[0].at)
        assert [n.kind.value for n in notifications.list_notifications(ann).notes if not n.read] == ["like"]
        notifications.mark_read(ann, f"like.{share.id}", later.isoformat())
    assert unread(people, ann) == 0


@pytest.mark.parametrize("text", ["soon", "2026-11-23", "2026-11-23T10:00:00", "0001-01-01T00:00:00+14:00"])
def test_a_time_that_is_none_marks_nothing(
    people: People, ann: Actor, bob: Actor, share: Share, text: str
) -> None:
    people.services.discussion.set_liked(bob, share.id)
    for mark in (
        lambda: people.services.notifications.mark_all_read(ann, text),
        lambda: people.services.notifications.mark_read(ann, f"like.{share.id}", text),
    ):
        with pytest.raises(InvalidError):
            mark()
    assert unread(people, ann) == 1


def test_a_badge_counts_likes_as_they_are_listed(
    people: People, ann: Actor, bob: Actor, share: Share
) -> None:
    people.services.discussion.set_liked(bob, share.id)
    for n in range(6):
        people.services.discussion.set_liked(people.join(f"reader{n}"), share.id)
        people.services.following.block(ann, f"reader{n}")
    assert told(people, ann) == [("like", ["bob"], 1)]
    assert unread(people, ann) == 1


def test_asks_to_follow_are_told_until_they_are_answered(
    people: People, ann: Actor, bob: Actor, cleo: Actor
) -> None:
    people.open(ann, Audience.FOLLOWERS)
    following = people.services.following
    for who in (bob, cleo, bob):
        following.follow(who, "ann")
    assert told(people, ann) == [("request", ["cleo", "bob"], 2)]
    following.answer_request(ann, "cleo", True)
    assert told(people, ann) == [("request", ["bob"], 1)]
    following.answer_request(ann, "bob", False)
    assert (told(people, ann), unread(people, ann)) == ([], 0)


def test_a_mention_is_told_once_however_often_it_is_changed(
    people: People, ann: Actor, bob: Actor, cleo: Actor, share: Share
) -> None:
    talk, sharing = people.services.discussion, people.services.sharing
    said = talk.comment(bob, share.id, "hello")
    for words in ("hello @cleo", "hello, @cleo", "hello @cleo @ann"):
        talk.update_comment(bob, said.id, words)
    assert told(people, cleo) == [("mention", ["bob"], 1)]
    people.services.notifications.mark_all_read(cleo)
    sharing.update_share(ann, share.id, note="for @cleo")
    sharing.update_share(ann, share.id, note="for @Cleo!")
    assert [kind for kind, *_ in told(people, cleo)] == ["mention", "mention"]
    assert unread(people, cleo) == 1


def test_whom_a_comment_answers_is_not_told_again_when_its_words_change(
    people: People, ann: Actor, bob: Actor, cleo: Actor, share: Share
) -> None:
    talk = people.services.discussion
    above = talk.comment(bob, share.id, "one")
    said = talk.comment(cleo, share.id, "two, @bob", parent=above.id)
    talk.update_comment(cleo, said.id, "two, @bob!")
    assert told(people, bob) == [("reply", ["cleo"], 1)]
    talk.update_comment(cleo, said.id, "two, @bob, @ann, @eve")
    assert (len(told(people, bob)), unread(people, bob)) == (1, 1)


@pytest.mark.parametrize("wanted", [list(NotificationKind)[::2], list(NotificationKind)[1::2]])
def test_each_kind_can_be_switched_off(
    people: People, ann: Actor, bob: Actor, wanted: list[NotificationKind], share: Share
) -> None:
    people.services.accounts.set_preferences(ann, {k.setting: k in wanted for k in NotificationKind})
    talk = people.services.discussion
    people.follow(bob, "ann")
    people.services.sharing.share(bob, share.id)
    people.open(ann, Audience.FOLLOWERS)
    people.services.following.follow(people.join("eve"), "ann")
    talk.set_liked(bob, share.id)
    mine = talk.comment(ann, share.id, "mine")
    talk.comment(bob, share.id, "a comment")
    talk.comment(bob, share.id, "an answer", parent=mine.id)
    people.services.sharing.publish_post(bob, "", "hello @ann")
    people.services.notifier.notify_import_finished(ann.user_id, 17)
    people.services.notifier.notify_export_finished(ann.user_id)
    people.services.subscriptions.update(ann, share.of.feed_id, notify=True)
    people.services.notifier.notify_new_entries({share.of.feed_id: 2})
    search = people.services.tags.save_search(ann, "", "words")
    people.services.tags.set_search_notify(ann, search.id, True)
    people.services.notifier.notify_search(ann.user_id, search.id, share.of.feed_id, 1, clock.now(), begin=0)
    crawl = people.services.crawls.request_crawl(ann, "town.example")
    assert crawl is not None
    people.services.notifier.notify_feed_found(ann.user_id, crawl.id)
    _break(people, share.of.feed_id, 30)
    kinds = {name for name, *_ in told(people, ann)}
    assert kinds == {k.value for k in wanted}


def _break(people: People, feed_id: int, days: float) -> None:
    since = clock.now() - dt.timedelta(days=days)
    broken = {"error": "http_503", "error_since": since}
    people.services.store.database["feeds"].update_one({"_id": feed_id}, {"$set": broken})


def test_a_feed_that_fails_for_long_is_told_of_until_one_knows(
    people: People, ann: Actor, bob: Actor
) -> None:
    people.blog([ann, bob])
    notifications = people.services.notifications
    feed_id = people.rows(ann)[0].feed_id
    _break(people, feed_id, people.services.settings.feed_broken_days - 1)
    assert told(people, ann) == []
    _break(people, feed_id, people.services.settings.feed_broken_days + 1)
    (note,) = notifications.list_notifications(ann).notes
    assert (note.kind, note.subject, note.title, note.detail) == (
        NotificationKind.FEED,
        feed_id,
        "blog",
        "http_503",
    )
    # Looking writes nothing.
    assert people.services.store.database["notifications"].count_documents({}) == 0
    for _ in range(2):
        notifications.mark_read(ann, note.ref)
        assert told(people, ann) == []
    assert [kind for kind, *_ in told(people, bob)] == ["feed"]
    notifications.mark_all_read(bob)
    assert told(people, bob) == []
    with pytest.raises(NotFoundError):
        notifications.mark_read(people.join("eve"), note.ref)
    for wrong in ("feed", "feed.x", "nothing.1", "like.-1"):
        with pytest.raises(InvalidError):
            notifications.mark_read(ann, wrong)
    later = clock.now() + dt.timedelta(days=40)
    with clock.set_source(lambda: later):
        _break(people, feed_id, 20)
        assert [kind for kind, *_ in told(people, ann)] == ["feed"]


def test_rows_are_read_in_pages_and_only_so_many_are_kept(
    people: People, ann: Actor, bob: Actor, share: Share
) -> None:
    settings, notifier = people.services.settings, people.services.notifier
    start = clock.now() - dt.timedelta(days=1)
    for n in range(settings.notifications_max + 5):
        with clock.set_source(lambda n=n: start + dt.timedelta(seconds=n // 2)):
            notifier.notify_import_finished(ann.user_id, n + 1)
    seen, cursor = list[int](), None
    while True:
        page = people.services.notifications.list_notifications(ann, cursor)
        assert len(page.notes) <= settings.notification_rows
        seen += [n.subject for n in page.notes]
        if (cursor := page.cursor) is None:
            break
    assert len(seen) == len(set(seen)) == settings.notifications_max
    assert set(seen) == set(range(6, settings.notifications_max + 6))
    assert unread(people, ann) == 99


def test_an_import_that_ended_is_told_and_events_say_so(people: People, ann: Actor) -> None:
    people.services.notifier.notify_import_finished(ann.user_id, 17)
    people.services.notifier.notify_import_finished(ann.user_id, 17)
    assert told(people, ann) == [("import", [], 1)]
