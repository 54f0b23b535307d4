"""Imports from the real Miniflux: every star, read state, folder and title is there afterwards."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
from typing import Any

import pytest
from werkzeug.wrappers import Request

from app.bootstrap.services import Services
from app.config import Settings
from app.feeds.fetch.fetcher import Fetcher
from app.models.accounts.actor import Actor
from app.models.imports.imports import Import, ImportState
from app.models.imports.pulls import PullKind
from tests.imports.test_imports import Pulling
from tests.imports.test_imports import run as run_import
from tests.support.other_readers import NAME, PASSWORD, TOKEN
from tests.support.recorded_miniflux import FARM, VERSIONS, RecordedMiniflux
from tests.support.wire import Wire

ODD_TITLE = "Ödd <Feed> & “Co” 🎉 日本 title"


@pytest.fixture(params=VERSIONS)
def there(request: pytest.FixtureRequest) -> RecordedMiniflux:
    return RecordedMiniflux(request.param)


@pytest.fixture
def settings(settings: Settings, wire: Wire) -> Settings:
    return dataclasses.replace(settings, fetch_allow=(wire.host, FARM), import_pull_page=17)


class Account:
    """What a person has after an import, by address of a feed."""

    def __init__(self, services: Services, who: Actor) -> None:
        self._services, self._who, self._database = services, who, services.store.database
        subscriptions = list(self._database["subscriptions"].find({"user_id": who.user_id}))
        feeds = {doc["_id"]: doc for doc in self._database["feeds"].find({})}
        self.subscriptions = {feeds[doc["feed_id"]]["url"]: doc for doc in subscriptions}
        self._feeds = {feeds[doc["feed_id"]]["url"]: feeds[doc["feed_id"]] for doc in subscriptions}
        self._entries = list(self._database["entries"].find({}))
        self._saved_feed = services.gateways.saved_pages.find_feed(who.user_id)
        ids = [doc["_id"] for doc in self._entries]
        self._read = services.reading.find_read_states(who, ids)
        query = {"user_id": who.user_id, "starred_at": {"$exists": True}}
        self._starred = {doc["entry_id"]: doc["starred_at"] for doc in self._database["marks"].find(query)}

    @property
    def starred_count(self) -> int:
        return len(self._starred)

    @property
    def tags(self) -> list[Any]:
        return list(self._services.tags.list_tags(self._who))

    def find(self, row: dict[str, Any]) -> dict[str, Any] | None:
        """Return the entry that a stored row of the other reader is, by feed and time."""
        feed = self._feeds[row["feed"]]["_id"]
        at = dt.datetime.fromisoformat(row["published"])
        found = [d for d in self._entries if (d["feed_id"], d.get("published")) == (feed, at)]
        assert len(found) < 2, "the recorded feeds have no two entries of one time"
        return found[0] if found else None

    def find_page(self, row: dict[str, Any]) -> dict[str, Any] | None:
        pages = (d for d in self._entries if d["feed_id"] == self._saved_feed)
        return next((d for d in pages if d["title"] == row["title"]), None)

    def get_state(self, doc: dict[str, Any]) -> tuple[str, bool]:
        return "read" if self._read[doc["_id"]] else "unread", doc["_id"] in self._starred

    def get_star_time(self, doc: dict[str, Any]) -> dt.datetime:
        found: dt.datetime = self._starred[doc["_id"]]
        return found

    def get_title(self, url: str) -> str:
        return str(self.subscriptions[url].get("title") or self._feeds[url].get("title"))

    def list_folders(self, url: str) -> list[str]:
        ids = self.subscriptions[url].get("folder_ids") or []
        names = {doc["_id"]: doc["name"] for doc in self._database["folders"].find({})}
        return [names[one] for one in ids]


def finish(services: Services, one: Import, there: RecordedMiniflux) -> Account:
    assert one.state is ImportState.PREVIEW, one.fault
    who = Actor(one.user_id)
    run_import(services, services.imports.start(who, one.id), Pulling(services, there.bodies))
    assert services.imports.get(who, one.id).counts == {"added": 15, "failed": 1}
    return Account(services, who)


def pull(
    services: Services, who: Actor, there: RecordedMiniflux, wire: Wire, fetcher: Fetcher, kind: PullKind
) -> Account:
    wire.app = Request.application(there)
    login = ("", TOKEN) if kind is PullKind.MINIFLUX else (NAME, PASSWORD)
    one = services.pulled_imports.request_pull(who, kind, wire.url(), name=login[0], secret=login[1])
    asyncio.run(services.pulled_imports.run(one.user_id, one.id, "run", fetcher))
    return finish(services, services.imports.get(who, one.id), there)


def check_states(mine: Account, there: RecordedMiniflux) -> None:
    wrong, pages = list[Any](), 0
    for row in there.stored_entries:
        doc = mine.find(row)
        if doc is None and not row["starred"]:
            continue  # its feed dropped it, and nobody kept it
        pages += doc is None
        doc = doc or mine.find_page(row)
        state = mine.get_state(doc) if doc else None
        if state != (row["status"], row["starred"]):
            wrong.append((row["feed"], row["title"], row["status"], row["starred"], state))
    assert wrong == []
    assert mine.starred_count == sum(row["starred"] for row in there.stored_entries)
    assert pages == 6
    assert mine.tags == []


def check_feeds(mine: Account, there: RecordedMiniflux) -> None:
    urls = {feed["url"] for feed in there.stored_feeds}
    assert urls <= set(mine.subscriptions)
    for feed in there.stored_feeds:
        expected = [] if feed["category"] == "All" else [feed["category"]]
        assert mine.list_folders(feed["url"]) == expected
    titles = {feed["url"]: feed["title"] for feed in there.stored_feeds}
    given = next(url for url, title in titles.items() if title.startswith("Mein Titel"))
    assert mine.get_title(given) == "Mein Titel „x“ <x> & 🎈"
    odd = next(url for url, title in titles.items() if title.startswith("Ödd"))
    assert mine.get_title(odd) == ODD_TITLE


@pytest.mark.parametrize("kind", [PullKind.MINIFLUX, PullKind.GREADER])
def test_a_real_account_is_complete(
    services: Services, alice: Actor, there: RecordedMiniflux, wire: Wire, fetcher: Fetcher, kind: PullKind
) -> None:
    mine = pull(services, alice, there, wire, fetcher, kind)
    check_states(mine, there)
    check_feeds(mine, there)


def test_a_star_has_the_time_of_its_entrys_last_change(
    services: Services, alice: Actor, there: RecordedMiniflux, wire: Wire, fetcher: Fetcher
) -> None:
    mine = pull(services, alice, there, wire, fetcher, PullKind.MINIFLUX)
    changed = {row["title"]: row["changed_at"] for row in there.list_starred()}
    row = next(row for row in there.stored_entries if row["starred"] and row["title"].startswith("utm"))
    doc = mine.find(row)
    assert doc is not None
    at = dt.datetime.fromisoformat(changed[row["title"]])
    assert abs(mine.get_star_time(doc) - at) < dt.timedelta(milliseconds=1)


def test_its_entries_as_a_file_bring_the_same(
    services: Services, alice: Actor, there: RecordedMiniflux
) -> None:
    one = services.imports.preview(alice, there.entries, "entries.json")
    mine = finish(services, one, there)
    check_states(mine, there)
    check_feeds(mine, there)


def test_its_list_of_subscriptions_has_no_folder_for_feeds_in_none(
    services: Services, alice: Actor, there: RecordedMiniflux
) -> None:
    one = services.imports.preview(alice, there.opml, "feeds.opml")
    check_feeds(finish(services, one, there), there)
