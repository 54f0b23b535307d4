"""The Fever API: questions in one request, marks that can come twice, lists that are whole."""

from __future__ import annotations

import datetime as dt
import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from flask.testing import FlaskClient

from app import clock
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from tests.support.reader import add_user, pull, rss
from tests.sync.conftest import password_of

UNFILED = (1 << 31) - 1


class Fever:
    def __init__(self, client: FlaskClient, name: str, password: str, address: str = "/fever/") -> None:
        self.client, self.address = client, address
        self.key = hashlib.md5(f"{name}:{password}".encode()).hexdigest()

    def ask(self, query: str, **form: Any) -> Any:
        answer = self.client.post(f"{self.address}?api&{query}", data={"api_key": self.key, **form})
        assert answer.status_code == 200, answer.text
        found = answer.get_json()
        for item in found.get("items", ()):
            assert isinstance(item["id"], str), "an id is too large for a 32-bit integer"
            item["id"] = int(item["id"])
        return found

    def ids(self, name: str = "unread_item_ids") -> list[int]:
        return [int(i) for i in self.ask(name)[name].split(",") if i]

    def mark(self, what: str, how: str, ident: int, **more: int) -> Any:
        return self.ask("", mark=what, **{"as": how, "id": ident, **more})


@pytest.fixture
def fever(services: Services, ann: Actor, app: Any) -> Fever:
    return Fever(app.test_client(), "ann", password_of(services, ann, fever=True))


def test_nobody_is_told_anything_without_a_key(fever: Fever) -> None:
    fever.key = "0" * 32
    assert fever.ask("feeds&groups") == {"api_version": 3, "auth": 0}


@pytest.mark.parametrize("address", ["/fever", "/fever/", "/api/fever.php", "/fever/fever/", "//fever/"])
def test_it_is_where_apps_look_for_it(fever: Fever, address: str) -> None:
    if address.startswith("//"):
        environ = {"PATH_INFO": address}
        answer = fever.client.get("/", environ_overrides=environ, query_string={"api_key": fever.key.upper()})
        assert answer.get_json()["auth"] == 1
        return
    fever.address = address
    assert fever.ask("")["auth"] == 1


def test_several_questions_come_in_one_request(fever: Fever, services: Services, ann: Actor) -> None:
    folder = services.folders.create(ann, "News")
    feed = services.sync.list_feeds(ann)[0].card.id
    services.subscriptions.update(ann, feed, folder_ids=[folder.id])
    found = fever.ask("groups&feeds&favicons&links&items&unread_item_ids&saved_item_ids&since_id=")
    number, rest = found["groups"]
    assert number == {"id": 1, "title": "News"}
    assert rest == {"id": UNFILED, "title": "No folder"}
    members = {each["group_id"]: each["feed_ids"].split(",") for each in found["feeds_groups"]}
    assert (len(members[1]), len(members[UNFILED])) == (1, 7)
    (mine,) = services.short_ids.resolve_feeds(ann, [int(members[1][0])])
    assert mine == feed
    assert len(found["feeds"]) == 8
    assert (found["links"], found["saved_item_ids"]) == ([], "")
    assert (len(found["items"]), found["total_items"]) == (50, services.sync.count_all_entries(ann))
    for item in found["items"]:
        assert all(isinstance(item[name], str) for name in ("title", "author", "html", "url"))
        assert isinstance(item["id"], int)


def test_items_come_page_by_page_both_ways(fever: Fever) -> None:
    up: list[int] = []
    while page := fever.ask(f"items&since_id={up[-1] if up else 0}")["items"]:
        up += [item["id"] for item in page]
    assert up == sorted(set(up))
    assert len(up) == fever.ask("items")["total_items"] > 100
    down: list[int] = []
    while page := fever.ask(f"items&max_id={down[-1] if down else (1 << 53) - 1}")["items"]:
        down += [item["id"] for item in page]
    assert down == up[::-1]
    assert [i["id"] for i in fever.ask("items&max_id=0")["items"]] == down[:50]
    wanted = up[3:60:2]
    assert (
        sorted(i["id"] for i in fever.ask(f"items&with_ids={','.join(map(str, wanted))}")["items"]) == wanted
    )
    feed = fever.ask("feeds")["feeds"][0]["id"]
    assert {i["feed_id"] for i in fever.ask(f"items&feed_ids={feed}")["items"]} == {feed}


def test_marks_say_what_is_to_be(fever: Fever) -> None:
    unread = fever.ids()
    for _ in range(2):
        assert str(unread[0]) not in fever.mark("item", "read", unread[0])["unread_item_ids"].split(",")
        assert fever.mark("item", "saved", unread[1])["saved_item_ids"] == str(unread[1])
    fever.mark("item", "unread", unread[0])
    assert fever.ids() == unread
    for _ in range(2):
        assert fever.mark("item", "unsaved", unread[1])["saved_item_ids"] == ""
    assert fever.mark("item", "read", 17)["auth"] == 1


def test_feeds_and_groups_are_read_up_to_a_time(fever: Fever, services: Services, ann: Actor) -> None:
    unread = fever.ids()
    feed = fever.ask("items&with_ids=" + str(unread[0]))["items"][0]["feed_id"]
    before = unread[0] // 1_000_000 - 10
    fever.mark("feed", "read", feed, before=before)
    assert fever.ids() == unread, "it came later than the app has seen"
    later = unread[-1] // 1_000_000 + 10
    fever.mark("feed", "read", feed, before=later)
    left = fever.ids()
    assert 0 < len(left) < len(unread)
    folder = services.folders.create(ann, "News")
    number = fever.ask("items&with_ids=" + str(left[0]))["items"][0]["feed_id"]
    (other,) = services.short_ids.resolve_feeds(ann, [number])
    services.subscriptions.update(ann, other, folder_ids=[folder.id])
    (group,) = [g["id"] for g in fever.ask("groups")["groups"] if g["id"] != UNFILED]
    fever.mark("group", "read", group, before=later)
    assert left[0] not in fever.ids()
    fever.mark("group", "read", -1, before=later)
    assert fever.ids()
    fever.mark("group", "read", 0, before=later)
    assert fever.ids() == []


def test_what_came_to_light_late_is_told_of_too(
    fever: Fever, services: Services, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two writers took ids, and who took the smaller one was the slower: its entry is not lost."""
    last = fever.ids()[-1]
    feed = services.subscriptions.subscribe(ann, "https://feeds.example/new").subscription.feed_id
    monkeypatch.setattr(services.sync, "_hold_back", dt.timedelta(seconds=5))
    later = clock.now() + dt.timedelta(hours=1)
    monkeypatch.setattr(clock, "now", lambda: later)
    pull(services, [feed], {"https://feeds.example/new": rss("New", [("one", "1")])})
    assert fever.ask(f"items&since_id={last}")["items"] == [], "another one may still be on its way"
    monkeypatch.setattr(clock, "now", lambda: later + dt.timedelta(seconds=6))
    assert len(fever.ask(f"items&since_id={last}")["items"]) == 1


def test_numbers_are_small_and_stay(fever: Fever, services: Services, ann: Actor) -> None:
    """Read You and Readrops read them as 32-bit integers."""
    services.folders.create(ann, "News")
    found = fever.ask("feeds&groups")
    assert sorted(feed["id"] for feed in found["feeds"]) == list(range(1, 9))
    titles = {feed["id"]: feed["title"] for feed in found["feeds"]}
    gone = services.sync.list_feeds(ann)[0].card
    services.subscriptions.unsubscribe(ann, gone.id)
    services.subscriptions.subscribe(ann, "https://feeds.example/new")
    after = {feed["id"]: feed["title"] for feed in fever.ask("feeds")["feeds"]}
    assert after.items() ^ titles.items() == {
        (min(titles.keys() - after.keys()), gone.title),
        (9, "https://feeds.example/new"),
    }
    services.subscriptions.subscribe(ann, gone.url)
    assert titles.items() <= {(feed["id"], feed["title"]) for feed in fever.ask("feeds")["feeds"]}


def test_numbers_are_assigned_once_by_concurrent_requests(services: Services, ann: Actor) -> None:
    with ThreadPoolExecutor(4) as pool:
        wanted = [range(1 << 40, (1 << 40) + 20 + n) for n in range(8)]
        found = list(pool.map(lambda ids: services.short_ids.get_feed_numbers(ann, ids), wanted))
    whole = found[-1]
    assert sorted(set(whole.values())) == sorted(whole.values())
    assert all(numbers.items() <= whole.items() for numbers in found)


def test_each_user_has_numbers_of_their_own(services: Services, ann: Actor) -> None:
    other = add_user(services, "bob")
    (feed,) = services.short_ids.get_feed_numbers(ann, [services.sync.list_feeds(ann)[3].card.id])
    assert services.short_ids.resolve_feeds(other, [1]) == []
    assert services.short_ids.resolve_feeds(ann, [1, 2, feed]) == [feed, feed]


def test_feeds_outside_of_folders_are_a_group(fever: Fever, services: Services, ann: Actor) -> None:
    folder = services.folders.create(ann, "News")
    filed = services.sync.list_feeds(ann)[0].card.id
    services.subscriptions.update(ann, filed, folder_ids=[folder.id])
    (number,) = services.short_ids.get_feed_numbers(ann, [filed]).values()
    unread = fever.ids()
    listed = fever.ask(f"items&group_ids={UNFILED}")["items"]
    assert listed
    assert number not in {item["feed_id"] for item in listed}
    fever.mark("group", "read", UNFILED)
    left = fever.ids()
    assert 0 < len(left) < len(unread)
    assert {item["feed_id"] for item in fever.ask("items&with_ids=" + ",".join(map(str, left)))["items"]} == {
        number
    }


def test_feeds_tell_of_their_last_check(fever: Fever, services: Services, ann: Actor) -> None:
    checked = {
        feed.card.url: services.subscriptions.get_health(ann, feed.card.id).feed.checked_at
        for feed in services.sync.list_feeds(ann)
    }
    for feed in fever.ask("feeds")["feeds"]:
        at = checked[feed["url"]]
        assert at is not None
        assert feed["last_updated_on_time"] == int(at.timestamp())
