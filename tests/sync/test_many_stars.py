"""Many stars in one request of an app: a few commands, and the same result as one by one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from flask import Flask

from app import create_app
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.mappers.feeds.entries import EntryMapper
from app.models.accounts.actor import Actor
from tests.sharing.conftest import People
from tests.support.commands import add_listener
from tests.sync.conftest import STARRED, Reader, password_of
from tests.sync.test_mark_commands import CommandLog

MANY = 40


@pytest.fixture
def people(services: Services) -> People:
    return People(services)


@pytest.fixture
def ann(people: People) -> Actor:
    return people.join("ann")


@pytest.fixture
def entries(people: People, ann: Actor) -> list[int]:
    return [*people.blog([ann], MANY), *people.blog([ann], MANY, "other")]


@pytest.fixture
def log() -> CommandLog:
    return CommandLog()


@pytest.fixture
def app(services: Services, log: CommandLog, monkeypatch: pytest.MonkeyPatch) -> Iterator[Flask]:
    add_listener(monkeypatch, log)
    with contextlib.closing(bootstrap.build(services.settings)) as built:
        yield create_app(built.settings, built)


@pytest.fixture
def reader(services: Services, app: Flask, ann: Actor) -> Reader:
    made = Reader(app.test_client(), "ann", password_of(services, ann))
    made.log_in()
    return made


def _count_stars(services: Services) -> dict[int, int]:
    """Return entry → its count of stars, which keeps it from retention."""
    found = services.store.database["entries"].find({"stars": {"$gt": 0}}, {"stars": 1})
    return {doc["_id"]: doc["stars"] for doc in found}


def _star(reader: Reader, entries: list[int], on: bool = True) -> None:
    reader.do("edit-tag", i=[str(i) for i in entries], **{"a" if on else "r": STARRED})


def test_many_stars_take_as_many_commands_as_two(
    reader: Reader, services: Services, log: CommandLog, entries: list[int]
) -> None:
    _star(reader, entries[:2])
    commands = []
    for some in (entries[2:4], entries[4:]):
        for on in (True, False):
            log.names.clear()
            _star(reader, some, on)
            commands.append(len(log.names))
            assert sorted(reader.ids(STARRED)) == sorted([*entries[:2], *(some if on else [])])
            assert _count_stars(services) == dict.fromkeys([*entries[:2], *(some if on else [])], 1)
    assert commands[:2] == commands[2:]
    assert max(commands) < 20


def test_many_stars_count_each_entry_once(
    reader: Reader, services: Services, ann: Actor, entries: list[int]
) -> None:
    tagged, liked, starred = entries[:3]
    services.tags.change_tags(ann, tagged, add=["later"])
    services.discussion.set_liked(ann, liked, True)
    services.reading.set_starred(ann, starred, True)
    for _ in range(2):
        _star(reader, [*entries[:6], 12345])
        assert sorted(reader.ids(STARRED)) == sorted(entries[:6])
        assert _count_stars(services) == dict.fromkeys(entries[:6], 1)
    for _ in range(2):
        _star(reader, [*entries[:6], 12345], on=False)
        assert reader.ids(STARRED) == []
        assert _count_stars(services) == {tagged: 1}
    assert reader.ids("user/-/state/com.google/like") == [liked]
    assert reader.ids("user/-/label/later") == [tagged]


def test_stars_of_shares_belong_to_the_shared_entries(
    reader: Reader, people: People, services: Services, ann: Actor, entries: list[int]
) -> None:
    bea = people.join("bea")
    theirs = people.blog([bea], 3, "third")
    people.open(bea)
    people.follow(ann, "bea")
    shares = [services.sharing.share(bea, i).share.id for i in theirs]
    before = _count_stars(services)  # a share keeps its entry too
    _star(reader, [*shares, *entries[:3]])
    assert _count_stars(services) == {i: before.get(i, 0) + 1 for i in (*theirs, *entries[:3])}
    assert set(shares) <= set(reader.ids(STARRED))
    _star(reader, [*shares, *entries[:3]], on=False)
    assert _count_stars(services) == before
    assert reader.ids(STARRED) == []


@pytest.mark.parametrize("on", [True, False])
def test_an_entry_that_changes_meanwhile_spoils_no_other(
    reader: Reader, services: Services, entries: list[int], on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention deletes it between the look-up and the write."""
    _star(reader, entries[:1])
    _star(reader, entries[:8], on=not on)
    change = EntryMapper.change_star_counts

    def overtaken(*args: object, **kwargs: object) -> bool:
        services.store.database["entries"].delete_one({"_id": entries[7]})
        monkeypatch.setattr(EntryMapper, "change_star_counts", change)
        return False

    monkeypatch.setattr(EntryMapper, "change_star_counts", overtaken)
    _star(reader, entries[:8], on=on)
    assert EntryMapper.change_star_counts is change
    assert _count_stars(services) == (dict.fromkeys(entries[:7], 1) if on else {})


def test_other_apps_hear_of_many_stars(reader: Reader, services: Services, entries: list[int]) -> None:
    before = services.store.database["changes"].count_documents({})
    _star(reader, entries)
    docs = list(services.store.database["changes"].find())
    assert len(docs) == before + 1


def test_a_star_shows_no_other_entry_of_a_feed_that_was_left(
    reader: Reader, services: Services, ann: Actor, entries: list[int]
) -> None:
    """Ids of one pull follow each other, so that they are easy to guess."""
    _star(reader, entries[:1])
    for feed_id in services.gateways.subscriptions.find_feed_ids(ann.user_id):
        services.subscriptions.unsubscribe(ann, feed_id)
    _star(reader, entries[:3])
    assert _count_stars(services) == {entries[0]: 1}
