"""What is shared most, and who reads the same."""

from __future__ import annotations

import datetime as dt

from app import clock
from app.models.accounts.actor import Actor
from app.models.sharing.sharing import Audience
from tests.sharing.conftest import People


def test_what_is_shared_more_and_later_stands_higher(people: People) -> None:
    many = [people.join(f"p{n}") for n in range(5)]
    entries = people.blog(many, 3)
    for who in many:
        people.open(who)
    share = people.services.sharing.share
    now = clock.now()
    with clock.set_source(lambda: now - dt.timedelta(days=3)):
        for who in many:
            share(who, entries[0])
    for who in many[:2]:
        share(who, entries[1])
    last = share(many[0], entries[2]).share
    # Five shares of three days ago weigh 5/8 of one of today.
    top = people.services.trends.list_top(many[4])
    assert [t.entry.id for t in top] == [entries[1], entries[2], entries[0]]
    assert (top[2].total, len(top[2].sharers)) == (5, 5)
    people.services.sharing.remove_share(many[0], last.id)
    assert [t.entry.id for t in people.services.trends.list_top(many[4])] == [entries[1], entries[0]]


def test_what_is_not_for_everybody_is_no_trend(people: People, ann: Actor, bob: Actor) -> None:
    one, two, three = people.blog([ann], 3)
    people.open(ann)
    share = people.services.sharing.share
    share(ann, one, audience=Audience.PRIVATE)
    share(ann, two, audience=Audience.FOLLOWERS)
    public = share(ann, three).share
    assert [t.entry.id for t in people.services.trends.list_top(bob)] == [three]
    people.services.sharing.update_share(ann, public.id, note="", audience=Audience.FOLLOWERS)
    assert people.services.trends.list_top(bob) == []
    people.services.sharing.update_share(ann, public.id, note="", audience=Audience.PUBLIC)
    people.services.following.block(ann, "bob")
    assert people.services.trends.list_top(bob) == []
    people.open(ann, Audience.PRIVATE)
    assert people.services.trends.list_top(people.join("cleo")) == []


def test_people_who_read_the_same_are_found_where_both_want_it(
    people: People, ann: Actor, bob: Actor, cleo: Actor
) -> None:
    people.blog([ann, bob], name="one")
    people.blog([ann, bob, cleo], name="two")
    for who in (ann, bob, cleo):
        people.open(who)
    alike = people.services.trends.list_similar_readers
    profiles = people.services.gateways.profiles
    for who in (ann, bob):
        profiles.update(people.services.following.get_or_create_profile(who), {"similar": True})
    assert [(a.profile.handle, a.common) for a in alike(ann)] == [("bob", 2)]
    assert alike(cleo) == []
    profiles.update(people.services.following.get_or_create_profile(cleo), {"similar": True})
    assert [(a.profile.handle, a.common) for a in alike(ann)] == [("bob", 2), ("cleo", 1)]
    people.services.following.block(cleo, "ann")
    people.follow(ann, "bob")
    assert alike(ann) == []


def test_who_shares_is_asked_once_for_all_rows(people: People, ann: Actor, bob: Actor) -> None:
    entries = people.blog([ann], 12)
    people.open(ann)
    for entry in entries:
        people.services.sharing.share(ann, entry)
    database = people.services.store.database
    database.command("profile", 2)
    assert len(people.services.trends.list_top(bob)) == 12
    database.command("profile", 0)
    asked = database["system.profile"].count_documents({"ns": f"{database.name}.profiles", "op": "query"})
    database["system.profile"].drop()
    assert asked <= 4
