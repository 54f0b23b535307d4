"""What was read before it changed: moved and restored shares, lists that were begun, calls at one moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from app import clock
from app.errors import EventrError, NotFoundError
from app.gateways.sharing.shares import SharingGateway
from app.models.accounts.actor import Actor
from app.models.reading.entry import NewEntry
from app.models.reading.stream import StreamQuery
from app.models.sharing.sharing import Audience
from tests.sharing.conftest import ALL, FOLLOWING, People, names


@pytest.mark.parametrize("how", ["restored", "moved"])
def test_a_share_that_got_another_place_is_read_there(
    people: People, ann: Actor, bob: Actor, how: str
) -> None:
    (entry,) = people.blog([ann])
    people.open(ann)
    people.follow(bob, "ann")
    sharing, reading = people.services.sharing, people.services.reading
    share = sharing.share(ann, entry).share
    people.rows(bob, FOLLOWING)
    if how == "restored":
        sharing.restore_share(ann, sharing.remove_share(ann, share.id))
    else:
        sharing.update_share(ann, share.id, note="", audience=Audience.PRIVATE)
        sharing.update_share(ann, share.id, note="", audience=Audience.PUBLIC)
    assert reading.get_tree(bob).unread == 1
    reading.mark(bob, [share.id], True)
    assert reading.get_tree(bob).unread == 0


def test_an_article_stays_in_a_list_when_the_share_that_stood_for_it_goes(
    people: People, ann: Actor, bob: Actor, cleo: Actor
) -> None:
    entries = people.blog([ann, bob], 2)
    for who in (ann, bob):
        people.open(who)
    people.follow(cleo, "ann", "bob")
    sharing, reading = people.services.sharing, people.services.reading
    sharing.share(ann, entries[0])
    gone = sharing.share(bob, entries[0]).share
    sharing.share(ann, entries[1])
    first = reading.load_page(cleo, StreamQuery(FOLLOWING, limit=1))
    assert [r.title for r in first.rows] == ["blog 1"]
    sharing.remove_share(bob, gone.id)
    rest = reading.load_page(
        cleo, StreamQuery(FOLLOWING, cursor=first.cursor, snapshot=first.snapshot, limit=5)
    )
    assert [(r.title, names(r)) for r in rest.rows] == [("blog 2", ["ann"])]


def test_an_article_stays_in_a_list_when_who_stood_for_it_closes_his_stream(
    people: People, ann: Actor, bob: Actor, cleo: Actor
) -> None:
    entries = people.blog([ann, bob], 2)
    for who in (ann, bob):
        people.open(who)
    people.follow(cleo, "ann", "bob")
    sharing, reading = people.services.sharing, people.services.reading
    sharing.share(ann, entries[0])
    sharing.share(bob, entries[0])
    sharing.share(ann, entries[1])
    first = reading.load_page(cleo, StreamQuery(FOLLOWING, limit=1))
    people.open(bob, Audience.PRIVATE)
    rest = reading.load_page(
        cleo, StreamQuery(FOLLOWING, cursor=first.cursor, snapshot=first.snapshot, limit=5)
    )
    assert [(r.title, names(r)) for r in rest.rows] == [("blog 2", ["ann"])]


def test_reading_says_nothing_of_shares_in_a_closed_stream(people: People, ann: Actor, bob: Actor) -> None:
    (entry,) = people.blog([ann, bob])
    people.open(ann)
    people.follow(bob, "ann")
    share = people.services.sharing.share(ann, entry).share
    people.open(ann, Audience.PRIVATE)
    bob = Actor(bob.user_id)
    marked = people.services.reading.mark(bob, [entry], True)
    assert share.feed_id not in marked.deltas


def test_a_list_does_not_count_what_comes_to_a_closed_stream(people: People, ann: Actor, bob: Actor) -> None:
    one, two = people.blog([ann], 2)
    people.open(ann)
    people.follow(bob, "ann")
    sharing, reading = people.services.sharing, people.services.reading
    sharing.share(ann, one)
    page = people.page(bob, FOLLOWING)
    people.open(ann, Audience.PRIVATE)
    sharing.share(ann, two, audience=Audience.PUBLIC)
    assert reading.count_newer(bob, page.snapshot) == 0


class Between:
    """Lets something happen after a share was read and before it is written."""

    def __init__(self, sharing: SharingGateway, monkeypatch: pytest.MonkeyPatch) -> None:
        self._mapper, self._patch = sharing._shares, monkeypatch

    def __call__(self, act: Callable[[], object]) -> None:
        read, did = self._mapper.find, threading.Event()

        def get(share_id: int, *args: object) -> object:
            found = read(share_id, *args)  # type: ignore[arg-type]
            if not did.is_set():
                did.set()
                act()
            return found

        self._patch.setattr(self._mapper, "find", get)


@pytest.fixture
def between(people: People, monkeypatch: pytest.MonkeyPatch) -> Between:
    return Between(people.services.gateways.sharing, monkeypatch)


def test_a_share_that_is_moved_and_taken_back_at_once_leaves_nothing(
    people: People, ann: Actor, between: Between
) -> None:
    (entry,) = people.blog([ann])
    people.open(ann)
    gateway, now = people.services.gateways.sharing, clock.now()
    share = people.services.sharing.share(ann, entry).share
    profile = people.services.gateways.profiles.find(ann.user_id)
    assert profile is not None
    between(lambda: gateway.update_share(profile, share.id, now, note="", audience=Audience.PRIVATE))
    gateway.remove_share(ann.user_id, share.id, now, now)
    store = people.services.store.database
    assert store["entries"].count_documents({"of": entry}) == 0
    assert store["entries"].find_one({"_id": entry})["stars"] == 0
    assert people.services.reading.load_page(ann, StreamQuery(ALL)).rows[0].id == entry


def test_a_share_that_is_edited_and_taken_back_at_once_is_counted_down_once(
    people: People, ann: Actor, bob: Actor, between: Between
) -> None:
    (entry,) = people.blog([ann, bob])
    for who in (ann, bob):
        people.open(who)
    gateway, now = people.services.gateways.sharing, clock.now()
    share = people.services.sharing.share(ann, entry).share
    people.services.sharing.share(bob, entry)
    profile = people.services.gateways.profiles.find(ann.user_id)
    assert profile is not None
    trends = people.services.store.database["trends"]
    between(lambda: gateway.remove_share(ann.user_id, share.id, now, now))
    with pytest.raises(NotFoundError):
        gateway.update_share(profile, share.id, now, note="", audience=Audience.FOLLOWERS)
    score = trends.find_one({"_id": entry})["score"]
    people.services.sharing.share(ann, entry)
    assert trends.find_one({"_id": entry})["score"] == pytest.approx(score + 1, abs=0.01)


def test_what_is_shared_while_an_account_goes_counts_nowhere(
    people: People, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = people.blog([ann], 2)
    people.open(ann)
    services, now = people.services, clock.now()
    profile = services.gateways.profiles.find(ann.user_id)
    assert profile is not None
    services.sharing.share(ann, one)
    late = services.gateways.entries.get(ann.user_id, two)
    erasing = services.gateways.erasure
    forget = erasing._erasure.forget

    def between(user_id: int) -> None:
        services.gateways.sharing.share(profile, late, "", Audience.PUBLIC, now)
        forget(user_id)

    monkeypatch.setattr(erasing._erasure, "forget", between)
    erasing.begin(ann.user_id, now)
    erasing.finish(ann.user_id, now)
    store = services.store.database
    assert store["shares"].count_documents({"user_id": ann.user_id}) == 0
    assert [d["stars"] for d in store["entries"].find({"_id": {"$in": [one, two]}})] == [0, 0]


def test_many_moves_and_ends_at_once_leave_one_or_nothing(people: People, ann: Actor) -> None:
    entries = people.blog([ann], 3)
    people.open(ann)
    sharing = people.services.sharing
    for entry in entries:
        share = sharing.share(ann, entry).share

        def move(audience: Audience, share_id: int = share.id) -> None:
            try:
                sharing.update_share(ann, share_id, note="", audience=audience)
            except EventrError:
                return

        acts: list[Callable[[], object]] = [
            lambda m=move: m(Audience.PRIVATE),
            lambda m=move: m(Audience.FOLLOWERS),
            lambda m=move: m(Audience.PUBLIC),
            lambda s=share.id: sharing.remove_share(ann, s),
        ]
        threads = [threading.Thread(target=act) for act in acts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    store = people.services.store.database
    for entry in entries:
        live = store["shares"].count_documents({"of": entry, "live": True})
        assert store["entries"].count_documents({"of": entry}) == live
        assert store["entries"].find_one({"_id": entry})["stars"] == live


@pytest.mark.parametrize("how", ["shared", "restored", "opened"])
def test_a_share_that_is_made_while_its_stream_closes_is_not_counted(
    people: People, ann: Actor, bob: Actor, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    (entry,) = people.blog([ann, bob])
    for who in (ann, bob):
        people.open(who)
    sharing, gateway = people.services.sharing, people.services.gateways.sharing
    seen = sharing.share(bob, entry).share
    audience = Audience.PRIVATE if how == "opened" else Audience.PUBLIC
    share = sharing.share(ann, entry, audience=audience).share if how != "shared" else None
    token = sharing.remove_share(ann, share.id) if share and how == "restored" else ""
    body = gateway._body

    def between(*args: Any) -> NewEntry:
        monkeypatch.setattr(gateway, "_body", body)
        people.open(ann, Audience.FOLLOWERS)
        return body(*args)

    monkeypatch.setattr(gateway, "_body", between)
    if how == "shared":
        sharing.share(ann, entry, audience=Audience.PUBLIC)
    elif how == "restored":
        sharing.restore_share(ann, token)
    else:
        assert share is not None
        sharing.update_share(ann, share.id, note="", audience=Audience.PUBLIC)
    assert sharing.list_chain(None, seen.id).total == 1


def test_of_two_changes_of_a_stream_at_once_the_last_one_counts(
    people: People, ann: Actor, bob: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry,) = people.blog([ann, bob])
    people.open(ann)
    share = people.services.sharing.share(ann, entry).share
    shares = people.services.gateways.profiles._shares
    narrow = shares.set_stream_audience

    def between(*args: Any) -> None:
        monkeypatch.setattr(shares, "set_stream_audience", narrow)
        people.open(ann, Audience.PUBLIC)
        narrow(*args)

    monkeypatch.setattr(shares, "set_stream_audience", between)
    people.open(ann, Audience.FOLLOWERS)
    assert people.services.sharing.list_chain(None, share.id).total == 1
