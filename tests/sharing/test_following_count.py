"""The number beside "Following" is of rows: an article that several people share is one."""

from __future__ import annotations

import contextlib
import dataclasses
import random

import pytest

from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.gateways.reading import grouping
from app.mappers.reading import entry_keys
from app.models.accounts.actor import Actor
from app.models.reading.stream import Show, StreamQuery
from tests.database.test_explain import Recorder, stages, statements
from tests.sharing.conftest import FOLLOWING, People
from tests.support.commands import add_listener


def _number(services: Services, who: Actor) -> int:
    """Return what each place says, which must be one number."""
    reading = services.reading
    tree, page = reading.load_tree_and_page(who, StreamQuery(FOLLOWING, show=Show.UNREAD))
    found = {tree.following, reading.get_tree(who).following}
    assert found == {len(page.rows)}
    return len(page.rows)


@pytest.fixture
def crowd(people: People, ann: Actor) -> list[Actor]:
    """Three whom ann follows; she, as each request of hers makes her."""
    return _followed(people, ann, 3)


def _followed(people: People, who: Actor, count: int) -> list[Actor]:
    made = [people.join(f"p{n}") for n in range(count)]
    for n, one in enumerate(made):
        people.open(one)
        people.follow(who, f"p{n}")
    return made


@pytest.fixture
def reader(ann: Actor) -> Actor:
    return dataclasses.replace(ann, social=True)


def test_an_article_that_three_share_is_one_and_read_once(
    people: People, reader: Actor, crowd: list[Actor]
) -> None:
    services = people.services
    first, second = people.blog(crowd, 2)
    for one in crowd:
        services.sharing.share(one, first)
    services.sharing.share(crowd[0], second)
    assert _number(services, reader) == 2
    tree = services.reading.get_tree(reader)
    assert sorted(f.unread for f in tree.feeds) == [1, 1, 2], "of each of them it is what he shares"
    row = next(r for r in people.rows(reader, FOLLOWING) if len(r.sharers) == 3)
    services.reading.mark(reader, [row.id], True)
    assert _number(services, reader) == 1
    services.reading.mark(reader, [row.id], False)
    assert _number(services, reader) == 2
    services.reading.mark_all(reader, FOLLOWING)
    assert _number(services, reader) == 0


def test_a_post_and_who_passes_it_on_are_one(people: People, reader: Actor, crowd: list[Actor]) -> None:
    services = people.services
    people.follow(crowd[1], "p0")
    post = services.sharing.publish_post(crowd[0], "A day", "words")
    services.sharing.share(crowd[1], post.id)
    assert _number(services, reader) == 1
    services.sharing.publish_post(crowd[2], "Another", "words")
    assert _number(services, reader) == 2


def test_who_is_muted_or_took_it_back_does_not_count(
    people: People, reader: Actor, crowd: list[Actor]
) -> None:
    services = people.services
    (first, second) = people.blog(crowd, 2)
    for one in crowd:
        services.sharing.share(one, first)
    alone = services.sharing.share(crowd[2], second).share
    services.following.set_muted(reader, "p1", True)
    assert _number(services, reader) == 2
    services.sharing.remove_share(crowd[2], alone.id)
    assert _number(services, reader) == 1


@pytest.mark.parametrize("dense", [True, False])
def test_it_is_the_same_however_it_is_read(
    people: People, reader: Actor, monkeypatch: pytest.MonkeyPatch, dense: bool
) -> None:
    """Of few feeds or many, with all unread or here and there one."""
    monkeypatch.setattr(entry_keys, "BRANCHES", 2)
    monkeypatch.setattr(entry_keys, "IDLE", 10**6 if dense else -(10**6))
    services, rng = people.services, random.Random(5)
    crowd = _followed(people, reader, 5)
    entries = people.blog(crowd, 8)
    for one in crowd:
        for entry in rng.sample(entries, 5):
            services.sharing.share(one, entry)
    for row in rng.sample(list(people.rows(reader, FOLLOWING)), 3):
        services.reading.mark(reader, [row.id], True)
    assert _number(services, reader) > 0
    one = services.reading.get_tree(reader).feeds[0].feed_id
    (subscription,) = services.gateways.subscriptions.find_by_user(reader.user_id, [one])
    assert subscription.person


def test_of_very_many_the_shares_are_counted(
    people: People, reader: Actor, crowd: list[Actor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grouping, "EXACT", 3)
    (entry,) = people.blog(crowd)
    for one in crowd:
        people.services.sharing.share(one, entry)
    assert people.services.reading.get_tree(reader).following == 1
    people.services.sharing.publish_post(crowd[0], "", "one more")
    assert people.services.reading.get_tree(reader).following == 4


def test_it_takes_one_query_by_an_index_and_none_without_people(
    people: People, reader: Actor, crowd: list[Actor], bob: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Recorder()
    add_listener(monkeypatch, found)
    services = people.services
    first, second = people.blog([*crowd, bob], 2)
    with contextlib.closing(bootstrap.build(services.settings)) as recorded:
        counts = []
        for entry in (first, second):
            for one in crowd:
                services.sharing.share(one, entry)
            recorded.reading.get_tree(reader)
            found.commands.clear()
            recorded.reading.get_tree(reader)
            counts.append(len(found.commands))
        asked = [
            explainable
            for name, command in found.commands
            for collection, _, explainable in statements(name, command)
            if collection == "entries"
        ]
        found.commands.clear()
        recorded.reading.get_tree(bob)
        assert "entries" not in {command.get("find") for _, command in found.commands}
    assert counts[0] == counts[1]
    (query,) = asked
    plan = stages(services.store.database.command("explain", query, verbosity="queryPlanner"))
    assert {"COLLSCAN", "SORT"} & set(plan) == set()
