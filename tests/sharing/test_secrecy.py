"""Secret feeds: whose entries nobody may share, and what happens to earlier shares of them (W22)."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from app import clock
from app.errors import InvalidError, NotFoundError
from app.mappers.feeds import entry_bodies
from app.mappers.mongo.migrations.migrator import Migrator
from app.mappers.mongo.migrations.schema import COLLECTION
from app.models.accounts.actor import Actor
from app.models.jobs.jobs import Task
from app.models.sharing.sharing import Audience
from app.services.sharing import secrecy, sharing
from tests.sharing.conftest import FOLLOWING, People

KEY = "4f8a91c2d7e03b56a1f09c8e"


def _set_unlisted(people: People, feed_id: int, unlisted: bool, db: Any) -> None:
    db.feeds.update_one({"_id": feed_id}, {"$set": {"unlisted": unlisted}})
    people.services.sharing.apply_secrecy(feed_id)


def _feed_of(db: Any, entry: int) -> int:
    return int(db.entries.find_one({"_id": entry})["feed_id"])


def _refuse(people: People, who: Actor, entry: int, words: str) -> None:
    with pytest.raises(InvalidError, match=words):
        people.services.sharing.share(who, entry)
    box = people.services.sharing.get_share_box(who, people.services.gateways.entries.get(who.user_id, entry))
    assert not box.can_reshare


def test_W22_a_feed_that_its_publisher_hides_cannot_be_shared(people: People, ann: Actor, db: Any) -> None:
    (entry,) = people.blog([ann])
    db.feeds.update_one({"_id": _feed_of(db, entry)}, {"$set": {"unlisted": True}})
    _refuse(people, ann, entry, "private")


@pytest.mark.parametrize(
    "change",
    [
        {"url": "https://blog.example.org/1?token=abc"},
        {"body": entry_bodies.pack('<a href="https://a.example/leave?b=1&amp;auth=c">Leave</a>', "", b"")},
        {"enclosures": [{"url": f"https://cdn.example.org/private/{KEY}.mp3"}]},
    ],
)
def test_W22_an_entry_with_a_key_in_a_link_or_file_cannot_be_shared(
    people: People, ann: Actor, db: Any, change: dict[str, Any]
) -> None:
    (entry,) = people.blog([ann])
    db.entries.update_one({"_id": entry}, {"$set": change})
    _refuse(people, ann, entry, "access key")


def test_W22_keeping_a_feed_private_closes_its_shares_and_loses_nothing(
    people: People, ann: Actor, bob: Actor, cleo: Actor, db: Any
) -> None:
    one, two, three = people.blog([ann], 3)
    for who in (ann, bob):
        people.open(who)
    people.follow(bob, "ann")
    people.follow(cleo, "ann", "bob")
    sharing = people.services.sharing
    first = sharing.share(ann, one, note="Read this", audience=Audience.FOLLOWERS).share
    mine = sharing.share(ann, two, audience=Audience.PRIVATE).share
    again = sharing.share(bob, first.id, note="Indeed").share
    feed_id = _feed_of(db, one)
    before = db.shares.find_one({"_id": first.id}), db.shares.find_one({"_id": again.id})

    sharing.set_feed_private(ann, feed_id, True)
    assert people.rows(cleo, FOLLOWING) == ()
    for share in (first, again):
        with pytest.raises(NotFoundError):
            sharing.get_share(cleo, share.id)
    assert sharing.get_share(ann, first.id).note == "Read this"
    with pytest.raises(InvalidError, match="private"):
        sharing.update_share(ann, first.id, audience=Audience.PUBLIC)
    _refuse(people, ann, three, "private")
    undo = sharing.remove_share(ann, first.id)
    sharing.restore_share(ann, undo)
    assert people.rows(cleo, FOLLOWING) == ()

    sharing.set_feed_private(ann, feed_id, False)
    after = db.shares.find_one({"_id": first.id}), db.shares.find_one({"_id": again.id})
    assert [{**doc, "left": 0} for doc in after] == [{**doc, "left": 0} for doc in before]
    assert len(people.rows(cleo, FOLLOWING)) == 1
    assert sharing.get_share(ann, mine.id).audience is Audience.PRIVATE
    sharing.share(ann, three)


def test_W22_an_unshared_entry_comes_back_closed_if_its_feed_became_private(
    people: People, ann: Actor, bob: Actor, db: Any
) -> None:
    (entry,) = people.blog([ann])
    people.open(ann)
    people.follow(bob, "ann")
    sharing = people.services.sharing
    undo = sharing.remove_share(ann, sharing.share(ann, entry).share.id)
    sharing.set_feed_private(ann, _feed_of(db, entry), True)
    assert sharing.restore_share(ann, undo).closed is Audience.PUBLIC
    assert people.rows(bob, FOLLOWING) == ()
    sharing.set_feed_private(ann, _feed_of(db, entry), False)
    assert len(people.rows(bob, FOLLOWING)) == 1


def test_W22_a_private_feed_stays_shareable_for_others(
    people: People, ann: Actor, bob: Actor, db: Any
) -> None:
    (entry,) = people.blog([ann, bob])
    people.services.sharing.set_feed_private(ann, _feed_of(db, entry), True)
    people.open(bob)
    assert people.services.sharing.share(bob, entry).share.audience is Audience.PUBLIC
    assert bob.user_id != ann.user_id
    with pytest.raises(NotFoundError):
        people.services.sharing.set_feed_private(ann, 999, True)


def test_W22_shares_of_a_feed_close_while_its_publisher_hides_it(
    people: People, ann: Actor, bob: Actor, cleo: Actor, db: Any
) -> None:
    (entry,) = people.blog([ann, bob])
    for who in (ann, bob):
        people.open(who)
        people.services.sharing.share(who, entry)
    people.follow(cleo, "ann", "bob")
    feed_id = _feed_of(db, entry)
    people.services.sharing.set_feed_private(bob, feed_id, True)
    _set_unlisted(people, feed_id, True, db)
    assert people.rows(cleo, FOLLOWING) == ()
    _set_unlisted(people, feed_id, False, db)
    (row,) = people.rows(cleo, FOLLOWING)
    assert [one.handle for one in row.sharers] == ["ann"], "bob still keeps the feed private"


def test_W22_nobody_learns_that_a_person_reads_a_private_feed(
    people: People, ann: Actor, bob: Actor, db: Any
) -> None:
    feeds = [_feed_of(db, people.blog([ann, bob], name=name)[0]) for name in ("open", "paid")]
    people.services.sharing.set_feed_private(bob, feeds[1], True)
    common = people.services.mappers.subscriptions.count_common([bob.user_id], feeds)
    assert common == {bob.user_id: 1}


def test_W22_a_subscription_can_be_private_from_the_start(people: People, ann: Actor, db: Any) -> None:
    (entry,) = people.blog([])
    url = "https://blog.example.org/feed"
    done = people.services.subscriptions.subscribe(ann, url, private=True)
    assert done.subscription.private
    assert people.services.subscriptions.get(ann, _feed_of(db, entry)).private
    _refuse(people, ann, entry, "private")


# -- marks: what a killed process left, and what is too much for a request


def _is_closed(people: People, share_id: int) -> bool:
    share = people.services.mappers.shares.find(share_id)
    assert share is not None
    return bool(share.closed)


def _run_job(people: People, minutes: int = 5) -> int:
    later = clock.now() + dt.timedelta(minutes=minutes)
    with clock.set_source(lambda: later):
        [job] = people.services.secrecy.find_due_jobs(later)
        assert job.task == Task.SECRECY
        return people.services.secrecy.run(seconds=60)


def test_W22_a_job_closes_the_shares_that_a_killed_process_left_open(people: People, db: Any) -> None:
    ann, ben = people.join("ann"), people.join("ben")
    [entry] = people.blog([ann, ben], 1)
    share = people.services.sharing.share(ann, entry).share
    feed_id = _feed_of(db, entry)
    db.feeds.update_one({"_id": feed_id}, {"$set": {"unlisted": True}})
    people.services.secrecy.mark_feed(feed_id)  # and then it was killed
    assert people.services.secrecy.find_due_jobs(clock.now()) == [], "it may still be at work"
    people.services.secrecy._next = None
    assert _run_job(people) == 1
    assert _is_closed(people, share.id)
    assert "secrecy_at" not in db.feeds.find_one({"_id": feed_id})
    people.services.secrecy._next = None
    assert people.services.secrecy.find_due_jobs(clock.now() + dt.timedelta(hours=1)) == []


def test_W22_a_job_closes_the_shares_that_are_too_many_for_a_request(
    people: People, db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "AT_ONCE", 2)
    ann = people.join("ann")
    entries = people.blog([ann], 5)
    shares = [people.services.sharing.share(ann, entry).share.id for entry in entries]
    feed_id = _feed_of(db, entries[0])
    people.services.sharing.set_feed_private(ann, feed_id, True)

    def count_closed() -> int:
        return sum(_is_closed(people, share_id) for share_id in shares)

    assert count_closed() == 2
    _run_job(people)
    assert count_closed() == 5


def test_W22_the_choice_of_one_subscriber_keeps_the_mark_for_the_shares_of_others(
    people: People, db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "AT_ONCE", 2)
    ann, ben, eve = people.join("ann"), people.join("ben"), people.join("eve")
    entries = people.blog([ann, ben], 5)
    shares = [people.services.sharing.share(ann, entry).share.id for entry in entries]
    feed_id = _feed_of(db, entries[0])
    people.services.sharing.set_feed_private(ann, feed_id, True)
    left = db.feeds.find_one({"_id": feed_id})["secrecy_at"]
    with pytest.raises(NotFoundError):
        people.services.sharing.set_feed_private(eve, feed_id, True)
    assert db.feeds.find_one({"_id": feed_id})["secrecy_at"] == left, "who isn't subscribed changes nothing"
    people.services.sharing.set_feed_private(ben, feed_id, True)
    _run_job(people)
    assert all(_is_closed(people, share_id) for share_id in shares)


def test_W22_a_reshare_that_cannot_open_does_not_keep_the_job_busy(
    people: People, db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrecy, "AT_ONCE", 1)
    ann, ben, cem = people.join("ann"), people.join("ben"), people.join("cem")
    entries = people.blog([ann, cem], 2)
    source = people.services.sharing.share(ann, entries[0]).share
    people.follow(ben, "ann")
    again = people.services.sharing.share(ben, source.id).share
    other = people.services.sharing.share(cem, entries[1]).share
    feed_id = _feed_of(db, entries[0])
    for unlisted in (True, False):
        db.feeds.update_one({"_id": feed_id}, {"$set": {"unlisted": unlisted}})
        people.services.secrecy.mark_feed(feed_id)
        assert _run_job(people) == 1
        people.services.secrecy._next = None
        if unlisted:
            assert all(_is_closed(people, share.id) for share in (source, again, other))
            people.services.sharing.unshare(ann, source.id)
    assert _is_closed(people, again.id), "its source is gone"
    assert not _is_closed(people, other.id)


def test_W22_a_mark_that_was_set_again_stays(people: People, db: Any) -> None:
    ann = people.join("ann")
    [entry] = people.blog([ann], 1)
    feed_id, marks = _feed_of(db, entry), people.services.gateways.secrecy
    first, again = clock.now(), clock.now() + dt.timedelta(seconds=1)
    marks.mark_feed(feed_id, first)
    marks.mark_feed(feed_id, again)
    marks.remove_mark(feed_id, first)
    assert [found for found, _ in marks.find_left_over(again + dt.timedelta(minutes=9), 9)] == [feed_id]


def test_W22_an_upgrade_checks_all_shared_feeds(people: People, db: Any) -> None:
    """Shares may be of feeds that are secret only by rules that came later."""
    ann = people.join("ann")
    [entry] = people.blog([ann], 1)
    share = people.services.sharing.share(ann, entry).share
    feed_id = _feed_of(db, entry)
    db.feeds.update_one({"_id": feed_id}, {"$set": {"url": f"https://blog.example.org/{KEY}/feed"}})
    db[COLLECTION].update_one({}, {"$set": {"version": 1}})
    Migrator(people.services.store, "9.9").run()
    assert _run_job(people) == 1
    assert _is_closed(people, share.id)
