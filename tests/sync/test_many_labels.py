"""Many labels and likes in one request of an app: a few commands, and the same result as one by one."""

from __future__ import annotations

from typing import Any

import pytest

from app.bootstrap.services import Services
from app.errors import RateLimitedError, TooLargeError
from app.mappers.feeds.entries import EntryMapper
from app.models.accounts.actor import Actor
from tests.sharing.conftest import People
from tests.sync.conftest import Reader
from tests.sync.test_many_stars import _count_stars, ann, app, entries, log, people, reader
from tests.sync.test_mark_commands import CommandLog

__all__ = ["ann", "app", "entries", "log", "people", "reader"]

LABEL, LIKE = "user/-/label/later", "user/-/state/com.google/like"


def change(reader: Reader, entries: list[int], tag: str, on: bool = True) -> None:
    reader.do("edit-tag", i=[str(i) for i in entries], **{"a" if on else "r": tag})


def find_marks(services: Services) -> list[dict[str, Any]]:
    """Return all marks without their times, sorted by entry."""
    found = services.store.database["marks"].find(projection={"_id": 0, "tagged_at": 0, "liked_at": 0})
    return sorted(found, key=lambda doc: (doc["user_id"], doc["entry_id"]))


@pytest.mark.parametrize("tag", [LABEL, LIKE])
def test_many_labels_and_likes_take_as_many_commands_as_two(
    reader: Reader, log: CommandLog, entries: list[int], tag: str
) -> None:
    change(reader, entries[:2], tag)
    commands = []
    for some in (entries[2:4], entries[4:]):
        for on in (True, False):
            log.names.clear()
            change(reader, some, tag, on)
            commands.append(len(log.names))
            assert sorted(reader.ids(tag)) == sorted([*entries[:2], *(some if on else [])])
    assert commands[:2] == commands[2:]
    assert max(commands) < 20


def test_many_labels_leave_the_same_as_one_by_one(
    reader: Reader, services: Services, ann: Actor, entries: list[int]
) -> None:
    """Beside stars, likes, other labels and a deleted one."""
    one, two = entries[:6], entries[6:12]
    for some in (one, two):
        services.reading.set_starred(ann, some[0], True)
        services.discussion.set_liked(ann, some[1], True)
        services.tags.change_tags(ann, some[2], add=["other"])
        services.tags.change_tags(ann, some[3], add=["later"])
        services.tags.change_tags(ann, some[4], add=["gone"])
    services.tags.delete(ann, next(tag.id for tag in services.tags.list_tags(ann) if tag.name == "gone"))

    for on in (True, True, False, False):
        for entry_id in one:
            change(reader, [entry_id], LABEL, on)
        change(reader, [*two, 12345], LABEL, on)
        marks = find_marks(services)
        shown: list[list[dict[str, Any]]] = [
            [
                {
                    k: sorted(v) if k == "tags" else v
                    for k, v in mark.items()
                    if k not in ("entry_id", "starred_at")
                }
                | {"at": some.index(mark["entry_id"]), "starred": "starred_at" in mark}
                for mark in marks
                if mark["entry_id"] in some
            ]
            for some in (one, two)
        ]
        assert shown[0] == shown[1]
        stars = _count_stars(services)
        assert [stars.get(i, 0) for i in one] == [stars.get(i, 0) for i in two]
        count = {tag.name: tag.count for tag in services.tags.list_tags(ann)}
        assert count["later"] == (12 if on else 0)


def test_labels_and_likes_of_shares_are_those_of_the_single_request(
    reader: Reader, people: People, services: Services, ann: Actor, entries: list[int]
) -> None:
    bea = people.join("bea")
    theirs = people.blog([bea], 2, "third")
    people.open(bea)
    people.follow(ann, "bea")
    shares = [services.sharing.share(bea, i).share.id for i in theirs]
    change(reader, [*shares, *entries[:3]], LABEL)
    assert {doc["entry_id"] for doc in find_marks(services)} == {*theirs, *entries[:3]}
    change(reader, [*shares, *entries[:3]], LABEL, on=False)
    assert find_marks(services) == []

    change(reader, [*shares, *entries[:3]], LIKE)
    assert services.store.database["likes"].count_documents({}) == 2
    assert {doc["entry_id"] for doc in find_marks(services)} == set(entries[:3])
    change(reader, [*shares, *entries[:3]], LIKE, on=False)
    assert services.store.database["likes"].count_documents({}) == 0
    assert find_marks(services) == []


@pytest.mark.parametrize("on", [True, False])
def test_an_entry_that_is_deleted_meanwhile_spoils_no_other_label(
    reader: Reader, services: Services, entries: list[int], on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(reader, entries[:1], LABEL)
    change(reader, entries[:8], LABEL, on=not on)
    genuine = EntryMapper.change_star_counts

    def overtaken(*args: object, **kwargs: object) -> bool:
        services.store.database["entries"].delete_one({"_id": entries[7]})
        monkeypatch.setattr(EntryMapper, "change_star_counts", genuine)
        return False

    monkeypatch.setattr(EntryMapper, "change_star_counts", overtaken)
    change(reader, entries[:8], LABEL, on=on)
    assert EntryMapper.change_star_counts is genuine
    assert _count_stars(services) == (dict.fromkeys(entries[:7], 1) if on else {})


def test_too_many_tags_change_no_entry(services: Services, ann: Actor, entries: list[int]) -> None:
    most = services.settings.tags_per_entry
    services.tags.change_tags(ann, entries[3], add=[f"t{n}" for n in range(most)])
    with pytest.raises(TooLargeError):
        services.tags.change_many_tags(ann, entries[:5], add="one more")
    assert {doc["entry_id"] for doc in find_marks(services)} == {entries[3]}


def test_likes_over_the_limit_are_refused(services: Services, ann: Actor, entries: list[int]) -> None:
    most = services.settings.likes_per_hour
    for _ in range(most - 3):
        services.discussion._count_like(ann)
    services.discussion.set_many_liked(ann, entries[:2], True)
    services.discussion.set_many_liked(ann, entries[:2], True)
    with pytest.raises(RateLimitedError):
        services.discussion.set_many_liked(ann, entries[:10], True)
    assert len(find_marks(services)) in (3, 4)


def test_other_apps_hear_of_many_labels_and_likes(
    reader: Reader, services: Services, ann: Actor, entries: list[int]
) -> None:
    changes = services.store.database["changes"]
    for tag in (LABEL, LIKE):
        before = changes.count_documents({})
        change(reader, entries, tag)
        assert changes.count_documents({}) == before + 1


def test_a_label_shows_no_other_entry_of_a_feed_that_was_left(
    reader: Reader, services: Services, ann: Actor, entries: list[int]
) -> None:
    change(reader, entries[:1], LABEL)
    for feed_id in services.gateways.subscriptions.find_feed_ids(ann.user_id):
        services.subscriptions.unsubscribe(ann, feed_id)
    for tag in (LABEL, LIKE):
        change(reader, entries[:3], tag)
    assert {doc["entry_id"] for doc in find_marks(services)} == {entries[0]}
