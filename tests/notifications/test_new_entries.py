"""Notifications of new entries: for readers who asked, one row for each feed, also on their devices."""

from __future__ import annotations

import asyncio

import pytest

from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.discussion.comments import NotificationKind, NotificationRow
from app.services.notifications import texts
from tests.support.reader import Canned, add_user, elsewhere, rss

URL, OTHER = "https://site.example/feed", "https://other.example/feed"


@pytest.fixture
def ann(services: Services) -> Actor:
    return add_user(services, "ann")


def subscribe(services: Services, who: Actor, url: str = URL) -> int:
    return services.subscriptions.subscribe(who, url).subscription.feed_id


def publish(services: Services, feed_id: int, titles: str, url: str = URL) -> None:
    answers = Canned({url: rss("Site", [(title, title) for title in titles])})
    elsewhere(lambda: asyncio.run(services.pull.pull([feed_id], answers)))


def rows(services: Services, who: Actor) -> list[NotificationRow]:
    return list(services.notifications.list_notifications(who).notes)


def test_new_entries_of_a_chosen_feed_are_counted_in_one_row(services: Services, ann: Actor) -> None:
    bob = add_user(services, "bob")
    feed, other = subscribe(services, ann), subscribe(services, ann, OTHER)
    subscribe(services, bob)
    publish(services, feed, "a")
    publish(services, other, "a", OTHER)
    assert rows(services, ann) == []
    services.subscriptions.update(ann, feed, title="My site", notify=True)
    publish(services, feed, "bca")
    publish(services, other, "ba", OTHER)
    publish(services, feed, "dbca")
    publish(services, feed, "dbca")
    (row,) = rows(services, ann)
    assert (row.kind, row.subject, row.count, row.title) == (NotificationKind.ENTRIES, feed, 3, "My site")
    assert services.notifications.count_unread(ann) == 1
    assert rows(services, bob) == []
    # What was read counts no longer.
    services.notifications.mark_read(ann, row.ref)
    assert services.notifications.count_unread(ann) == 0
    publish(services, feed, "edbca")
    assert [(one.count, one.read) for one in rows(services, ann)] == [(1, False)]


def test_nobody_is_notified_of_a_feed_that_was_left_paused_or_no_longer_chosen(
    services: Services, ann: Actor
) -> None:
    feed = subscribe(services, ann)
    publish(services, feed, "a")
    services.subscriptions.update(ann, feed, notify=True)
    publish(services, feed, "ba")
    assert len(rows(services, ann)) == 1
    services.subscriptions.update(ann, feed, notify=False)
    assert (rows(services, ann), services.notifications.count_unread(ann)) == ([], 0)
    services.subscriptions.update(ann, feed, notify=True, paused=True)
    publish(services, feed, "cba")
    assert [one.count for one in rows(services, ann)] == [1]
    services.subscriptions.unsubscribe(ann, feed)
    assert rows(services, ann) == []


def test_devices_are_rung_for_new_entries(
    services: Services, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = subscribe(services, ann)
    services.subscriptions.update(ann, feed, notify=True)
    rung: list[tuple[int, NotificationKind, int]] = []
    monkeypatch.setattr(services.push, "notify_devices", lambda *about: rung.append(about[:3]))
    publish(services, feed, "ab")
    assert rung == [(ann.user_id, NotificationKind.ENTRIES, feed)]
    note = services.notifications.find_notification(ann, NotificationKind.ENTRIES, feed)
    assert note is not None
    message = texts.build_message(note, "en")
    assert (message.title, message.url) == ("New entries", f"/read/feed/{feed}")
    assert "2 new entries in" in message.body
