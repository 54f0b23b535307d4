"""Saved searches that notify: once for each new entry, in one row, by the same job as rules."""

from __future__ import annotations

from typing import Any

import pytest

from app import clock
from app.bootstrap.services import Services
from app.errors import InvalidError, NotFoundError
from app.models.accounts.actor import Actor
from app.models.discussion.comments import NotificationKind, NotificationRow
from app.models.reading.rules import Rule
from app.models.reading.tag import SavedSearch
from app.services.notifications import texts
from tests.support.reader import add_user, pull, rss

URL = "https://feeds.example/"


@pytest.fixture
def ann(services: Services) -> Actor:
    return add_user(services, "ann")


def follow(services: Services, who: Actor, name: str = "one") -> int:
    return services.subscriptions.subscribe(who, URL + name).subscription.feed_id


def bring(services: Services, feed_id: int, *titles: str, name: str = "one") -> None:
    items = [(title, f"<p>About {title}.</p>") for title in titles]
    pull(services, [feed_id], {URL + name: rss(name, items)})
    services.rule_runner.run(clock.now(), 30)


def save(services: Services, who: Actor, query: str, name: str = "") -> SavedSearch:
    search = services.tags.save_search(who, name, query)
    return services.tags.set_search_notify(who, search.id, True)


def rows(services: Services, who: Actor) -> list[NotificationRow]:
    found = services.notifications.list_notifications(who).notes
    return [note for note in found if note.kind is NotificationKind.SEARCH]


def test_new_results_of_all_feeds_are_counted_in_one_row(services: Services, ann: Actor) -> None:
    one, two = follow(services, ann), follow(services, ann, "two")
    bring(services, one, "Old rose")
    search = save(services, ann, "rose -thorn", "Roses")
    assert search.notify
    assert rows(services, ann) == []
    bring(services, one, "Old rose", "Red rose", "Rose thorn", "Tulips")
    bring(services, two, "White rose", "A rose at night", name="two")
    services.rule_runner.run(clock.now(), 30)
    (row,) = rows(services, ann)
    assert (row.subject, row.count, row.title, row.read) == (search.id, 3, "Roses", False)
    message = texts.build_message(row, "en")
    assert message.title == "New search results"
    assert message.body == "3 new results of your search “\u2068Roses\u2069”"
    assert message.url.startswith("/read/search/")
    services.notifications.mark_read(ann, row.ref)
    bring(services, one, "Old rose", "Red rose", "Rose thorn", "Tulips", "Another rose")
    assert [row.count for row in rows(services, ann)] == [1]


def test_a_search_notifies_without_rules_and_in_feeds_that_come_later(services: Services, ann: Actor) -> None:
    search = save(services, ann, "rose")
    feed_id = follow(services, ann)
    bring(services, feed_id, "A rose")
    bring(services, feed_id, "A rose", "A second rose")
    assert [row.count for row in rows(services, ann)] == [2]
    services.tags.set_search_notify(ann, search.id, False)
    assert rows(services, ann) == []
    assert services.notifications.count_unread(ann) == 0
    assert not services.gateways.rules.has_news(clock.now(), clock.now() - clock.now())


def test_a_repeated_run_counts_no_entry_twice(services: Services, ann: Actor, db: Any) -> None:
    feed_id = follow(services, ann)
    bring(services, feed_id)
    save(services, ann, "rose")
    before = db.subscriptions.find_one({"feed_id": feed_id})["ruled"]
    bring(services, feed_id, "A rose")
    # As after a crash between the notification and the place.
    db.subscriptions.update_one({"feed_id": feed_id}, {"$set": {"ruled": before}})
    services.rule_runner.run(clock.now(), 30)
    (row,) = db.notifications.find({"kind": "search"})
    assert row["count"] == 1


def test_a_repeated_run_with_more_news_counts_each_entry_once(
    services: Services, ann: Actor, db: Any
) -> None:
    feed_id = follow(services, ann)
    bring(services, feed_id)
    save(services, ann, "rose")
    services.rules.save(ann, Rule(0, "", "rose", notify=True))
    before = db.subscriptions.find_one({"feed_id": feed_id})["ruled"]
    bring(services, feed_id, "A rose")
    # As after a crash between the notification and the place; then the feed has more news.
    db.subscriptions.update_one({"feed_id": feed_id}, {"$set": {"ruled": before}})
    bring(services, feed_id, "A rose", "A second rose")
    assert {row["kind"]: row["count"] for row in db.notifications.find()} == {"search": 2, "entries": 2}
    (row,) = rows(services, ann)
    services.notifications.mark_read(ann, row.ref)
    db.subscriptions.update_one({"feed_id": feed_id}, {"$set": {"ruled": before}})
    bring(services, feed_id, "A rose", "A second rose", "A third rose")
    assert [row.count for row in rows(services, ann)] == [1]


def test_a_muted_feed_notifies_only_if_it_is_named(services: Services, ann: Actor, db: Any) -> None:
    feed_id = follow(services, ann)
    bring(services, feed_id)
    save(services, ann, "rose", "All")
    save(services, ann, "rose feed:one", "Named")
    save(services, ann, "rose -feed:two", "Not the other")
    services.rules.save(ann, Rule(0, "", "rose", notify=True, star=True))
    services.subscriptions.update(ann, feed_id, hidden=True)
    bring(services, feed_id, "A rose")
    assert {row.title: row.count for row in rows(services, ann)} == {"Named": 1}
    assert db.marks.count_documents({}) == 1, "other actions of the rule"
    assert not db.notifications.count_documents({"kind": "entries"})
    services.rules.save(ann, Rule(0, "", "rose", feeds=(feed_id,), notify=True))
    bring(services, feed_id, "A rose", "A second rose")
    assert [row["count"] for row in db.notifications.find({"kind": "entries"})] == [1]


def test_hidden_entries_and_other_feeds_notify_nobody(services: Services, ann: Actor) -> None:
    one, two = follow(services, ann), follow(services, ann, "two")
    services.rules.save(ann, Rule(0, "", "advert", hide=True))
    services.rules.save(ann, Rule(0, "", "quiet", read=True, tag="silent"))
    save(services, ann, "rose feed:one is:unread")
    save(services, ann, "tag:silent", "silent")
    bring(services, one, "Rose advert", "quiet rose", "A rose")
    bring(services, two, "Rose elsewhere", name="two")
    assert {row.title: row.count for row in rows(services, ann)} == {
        "rose feed:one is:unread": 1,
        "silent": 1,
    }


@pytest.mark.parametrize("query", ["rose is:starred", "is:read", "-is:unread"])
def test_a_search_that_no_new_entry_can_match_is_refused(services: Services, ann: Actor, query: str) -> None:
    search = services.tags.save_search(ann, "", query)
    with pytest.raises(InvalidError, match="neither read nor starred"):
        services.tags.set_search_notify(ann, search.id, True)
    kept = save(services, ann, "rose", "Mine")
    assert services.tags.save_search(ann, "Mine", query) == SavedSearch(
        kept.id, ann.user_id, "Mine", query, notify=False
    )
    assert services.gateways.rules.find_by_user(ann.user_id).has_alerts is False


def test_only_the_owner_switches_a_search(services: Services, ann: Actor) -> None:
    search = services.tags.save_search(ann, "", "rose")
    ben = add_user(services, "ben")
    with pytest.raises(NotFoundError):
        services.tags.set_search_notify(ben, search.id, True)
    assert services.gateways.rules.find_by_user(ben.user_id).is_active is False


def test_a_deleted_search_comes_back_with_its_switch(services: Services, ann: Actor) -> None:
    feed_id = follow(services, ann)
    bring(services, feed_id)
    search = save(services, ann, "rose")
    token = services.tags.delete_search(ann, search.id)
    bring(services, feed_id, "A rose")
    assert rows(services, ann) == []
    assert services.tags.restore_search(ann, token or "").notify
    bring(services, feed_id, "A rose", "A second rose")
    assert [row.count for row in rows(services, ann)] == [1]


def test_rules_that_are_switched_off_leave_searches_alone(services: Services, ann: Actor) -> None:
    feed_id = follow(services, ann)
    bring(services, feed_id)
    rule = services.rules.save(ann, Rule(0, "", "tulip", star=True))
    save(services, ann, "rose")
    services.rules.set_enabled(ann, rule.id, False)
    bring(services, feed_id, "A rose")
    assert [row.count for row in rows(services, ann)] == [1]


def test_people_who_want_no_such_notifications_get_none(services: Services, ann: Actor) -> None:
    feed_id = follow(services, ann)
    bring(services, feed_id)
    save(services, ann, "rose")
    services.accounts.set_preferences(ann, {"notify_search": False})
    bring(services, feed_id, "A rose")
    assert rows(services, ann) == []
