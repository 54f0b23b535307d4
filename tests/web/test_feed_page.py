"""The feed page: settings first, then health, then charts; and one way out of every failure."""

from __future__ import annotations

import re
from typing import Any

import lxml.html
import pytest

from app import clock
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.feeds.discovery import Discovered, FoundFeed
from app.models.feeds.feed import FetchRecord
from tests.web.conftest import Visitor


@pytest.fixture
def reader(services: Services, ann: Visitor) -> Actor:
    found = services.mappers.users.find_credentials("ann")
    assert found is not None
    return found.user.actor


@pytest.fixture
def feed_id(services: Services, reader: Actor) -> int:
    return services.subscriptions.subscribe(reader, "https://blog.example/feed").subscription.feed_id


def break_feed(db: Any, feed_id: int, error: str = "http_404", detail: str = "") -> None:
    db.feeds.update_one({"_id": feed_id}, {"$set": {"error": error, "error_detail": detail, "errors": 3}})


def test_settings_come_first_then_health_then_charts(ann: Visitor, feed_id: int) -> None:
    page = lxml.html.fromstring(ann.get(f"/feeds/{feed_id}").text)
    headings = [h.text_content() for h in page.xpath("//main//h2")]
    assert headings == ["Settings", "Health", "Last 20 hours and next 4 hours", "Recent fetches"]


def test_one_field_holds_all_folders_and_creates_new_ones(
    services: Services, ann: Visitor, reader: Actor, feed_id: int
) -> None:
    news = services.folders.create(reader, "News")
    local = services.folders.create(reader, "Local", parent=news.id)
    page = lxml.html.fromstring(ann.get(f"/feeds/{feed_id}").text)
    assert page.xpath("//details[@class='pick']/summary/span/text()") == ["No folder"]
    ann.post(f"/feeds/{feed_id}/edit", {"folder": str(local.id), "new_folder": " Blogs "})
    names = {folder.id: folder.name for folder in services.folders.list_folders(reader)}
    mine = services.subscriptions.get(reader, feed_id)
    assert [names[f] for f in mine.folder_ids] == ["Local", "Blogs"]
    page = lxml.html.fromstring(ann.get(f"/feeds/{feed_id}").text)
    (shown,) = page.xpath("//details[@class='pick']/summary/span")
    assert shown.text_content() == "Blogs, News › Local"
    # The path of a folder is as good as its name.
    ann.post(f"/feeds/{feed_id}/edit", {"new_folder": "News › Local"})
    assert services.subscriptions.get(reader, feed_id).folder_ids == (local.id,)
    assert ann.post(f"/feeds/{feed_id + 1}/edit", {"new_folder": "Lost"}).status_code == 404
    assert "Lost" not in {folder.name for folder in services.folders.list_folders(reader)}


def test_the_view_of_a_feed_is_one_of_its_settings(ann: Visitor, feed_id: int) -> None:
    assert ann.post(f"/feeds/{feed_id}/edit", {"view": "list"}).status_code == 303
    page = lxml.html.fromstring(ann.get(f"/feeds/{feed_id}").text)
    assert page.xpath("//select[@name='view']/option[@selected]/@value") == ["list"]
    assert 'data-view="list"' in ann.get(f"/read/feed/{feed_id}").text
    assert ann.post(f"/feeds/{feed_id}/edit", {"view": "x"}).status_code == 400


def test_every_failure_offers_to_look_for_the_feed(
    services: Services, ann: Visitor, db: Any, feed_id: int
) -> None:
    places = (f"/feeds/{feed_id}", "/subscriptions", f"/read/feed/{feed_id}")
    for place in places:
        assert "Look for its feed" not in ann.get(place).text, place
    break_feed(db, feed_id)
    for place in places:
        page = ann.get(place).text
        assert "Look for its feed" in page, place
        assert f'action="/feeds/{feed_id}/find"' in page, place


def find(services: Services, address: str, *feeds: FoundFeed, error: str | None = None) -> None:
    """Store the result of a search."""
    gateway = services.gateways.discoveries
    row = gateway.get_or_create(address, clock.now())
    gateway.store_result(row.key, Discovered(row.address, feeds, error=error), clock.now())


def test_a_feed_that_was_found_takes_the_place_of_the_broken_one(
    services: Services, ann: Visitor, reader: Actor, db: Any, feed_id: int
) -> None:
    folder = services.folders.create(reader, "News").id
    services.subscriptions.update(reader, feed_id, title="Mine", folder_ids=[folder])
    break_feed(db, feed_id)
    new = "https://blog.example/atom.xml"
    find(services, "https://blog.example/", FoundFeed(new, "The blog", None, "atom10", 7, None, None))
    answer = ann.post(f"/feeds/{feed_id}/find")
    assert answer.status_code == 200
    page = lxml.html.fromstring(answer.text)
    (form,) = page.xpath(f"//form[@action='/feeds/{feed_id}/address'][.//input[@type='radio']]")
    assert form.xpath(".//input[@name='url']/@value") == [new]
    done = ann.post(f"/feeds/{feed_id}/address", {"url": new})
    (mine,) = services.gateways.subscriptions.find_by_user(reader.user_id)
    assert mine.feed_id != feed_id
    assert (mine.title, mine.folder_ids) == ("Mine", (folder,))
    assert "Address changed." in ann.get(done.headers["Location"]).text


def test_a_search_without_a_feed_names_its_reason(
    services: Services, ann: Visitor, db: Any, feed_id: int
) -> None:
    break_feed(db, feed_id)
    find(services, "https://blog.example/", error="http_404")
    page = ann.post(f"/feeds/{feed_id}/find").text
    assert "Eventr found no feed at https://blog.example/." in page
    assert "The site has nothing at this address (HTTP 404)." in page
    assert 'href="/add?address=https%3A//blog.example/"' in page


def test_the_search_begins_at_the_site_that_the_feed_named(
    services: Services, ann: Visitor, db: Any, feed_id: int
) -> None:
    break_feed(db, feed_id)
    db.feeds.update_one({"_id": feed_id}, {"$set": {"site_url": "https://blog.example/home/"}})
    find(services, "https://blog.example/home/", error="no_feed_found")
    assert "no feed at https://blog.example/home/" in ann.post(f"/feeds/{feed_id}/find").text


def test_a_failed_check_without_a_record_is_not_called_missing(ann: Visitor, db: Any, feed_id: int) -> None:
    break_feed(db, feed_id)
    page = ann.get(f"/feeds/{feed_id}").text
    (last,) = re.findall(r"<dt>Last check</dt><dd>(.*?)</dd>", page)
    assert last == "failed"


@pytest.mark.parametrize(
    ("detail", "reason"),
    [
        ("refused: 127.0.0.2 isn't public", "127.0.0.2 isn't a public address."),
        ("refused: port 25 isn't allowed", "Port 25 isn't allowed."),
        ("refused: nas.local is a local name", "nas.local is a name of a local network."),
    ],
)
def test_a_refused_redirect_names_its_reason(
    ann: Visitor, db: Any, feed_id: int, detail: str, reason: str
) -> None:
    break_feed(db, feed_id, "bad_redirect", detail)
    page = lxml.html.fromstring(ann.get(f"/feeds/{feed_id}").text)
    assert reason in page.text_content()


def test_S13_what_a_name_resolves_to_stays_a_secret(
    services: Services, ann: Visitor, db: Any, feed_id: int
) -> None:
    break_feed(db, feed_id, "refused", "10.1.2.3 isn't public")
    now = clock.now()
    services.gateways.feeds.record_fetches([FetchRecord(feed_id, now, 0, 1, 0, error="refused")])
    db.users.update_one({"name": "ann"}, {"$set": {"role": "user"}})
    assert "10.1.2.3" not in ann.get(f"/feeds/{feed_id}").text
    db.users.update_one({"name": "ann"}, {"$set": {"role": "admin"}})
    assert "10.1.2.3" in ann.get(f"/feeds/{feed_id}").text
