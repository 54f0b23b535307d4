"""The subscriptions manager and a feed's details, as forms and as a script's calls."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
from collections.abc import Callable
from typing import Any

import lxml.html
import pytest

from app import clock, errors
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.feeds.discovery import Discovered, FoundFeed
from app.models.feeds.feed import FetchRecord
from app.models.reading.stream import StreamKind, StreamQuery, StreamRef
from app.services.subscriptions import bulk_edit
from tests.support.fetches import record_fetches
from tests.support.reader import Canned, add_user, elsewhere, pull, rss
from tests.web.conftest import ORIGIN, Visitor

JSON = {"Accept": "application/json"}
NAMES = ("ada", "bea", "cid")


@pytest.fixture
def reader(services: Services, ann: Visitor) -> Actor:
    found = services.mappers.users.find_credentials("ann")
    assert found is not None
    return found.user.actor


@pytest.fixture
def feeds(services: Services, reader: Actor) -> list[int]:
    urls = [f"https://{name}.example/feed" for name in NAMES]
    ids = [services.subscriptions.subscribe(reader, url).subscription.feed_id for url in urls]
    bodies = {url: rss(name, [(f"Of {name}", "<p>x</p>")]) for url, name in zip(urls, NAMES, strict=True)}
    pull(services, ids, bodies)
    return ids


def rows(page: str) -> list[str]:
    return lxml.html.fromstring(page).xpath("//table//td[@class='name']//a//text()")


def test_without_feeds_the_manager_offers_to_add_one(ann: Visitor) -> None:
    page = ann.get("/subscriptions").text
    assert "No feeds yet." in page
    assert ann.get("/folders").headers["Location"] == "/subscriptions#folders"


def test_the_table_is_asked_by_links_and_a_form(services: Services, ann: Visitor, feeds: list[int]) -> None:
    assert rows(ann.get("/subscriptions").text) == list(NAMES)
    assert rows(ann.get("/subscriptions?q=BE").text) == ["bea"]
    services.store.database["feeds"].update_one({"_id": feeds[2]}, {"$set": {"error": "http_404"}})
    broken = ann.get("/subscriptions?show=error").text
    assert rows(broken) == ["cid"]
    assert "The site has nothing at this address anymore (HTTP 404)." in broken
    assert "No feeds found" in ann.get("/subscriptions?show=dead").text
    for bad in ("show=x", "sort=x", "folder=x", "after=x"):
        assert ann.get(f"/subscriptions?{bad}").status_code == 400, bad
    assert ann.get("/subscriptions?utm_source=x").status_code == 200


def test_the_table_follows_every_change(
    services: Services, ann: Visitor, reader: Actor, feeds: list[int]
) -> None:
    assert rows(ann.get("/subscriptions?show=unread").text) == list(NAMES)
    services.subscriptions.update(reader, feeds[0], title="zoe")
    assert rows(ann.get("/subscriptions").text) == ["bea", "cid", "zoe"]
    services.marking.mark_feeds(reader, feeds[:1])
    assert rows(ann.get("/subscriptions?show=unread").text) == ["bea", "cid"]
    services.store.database["feeds"].update_one({"_id": feeds[1]}, {"$set": {"error": "gone"}})
    assert rows(ann.get("/subscriptions?show=error").text) == ["bea"]
    services.subscriptions.unsubscribe(reader, feeds[2])
    assert rows(ann.get("/subscriptions").text) == ["bea", "zoe"]


def test_feeds_that_a_large_tree_leaves_out_are_found_without_scripts(
    ann: Visitor, feeds: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.web.view.tree.WHOLE_LINES", 2)
    monkeypatch.setattr("app.web.view.tree.PART_LINES", 1)

    def find_feeds(path: str) -> list[str]:
        return lxml.html.fromstring(ann.get(path).text).xpath("//ul[@id='feeds']//a/@data-feed")

    assert find_feeds("/read/tree") == [str(feeds[0])]
    (rest,) = lxml.html.fromstring(ann.get("/read/all").text).xpath("//a[@class='rest']")
    assert rest.text_content() == "2 more"
    assert rows(ann.get(rest.get("href")).text) == list(NAMES)
    # Scripts find any feed.
    assert find_feeds("/read/tree?whole=1") == [str(f) for f in feeds]


def test_each_deed_for_many_says_what_it_did_and_is_taken_back(
    services: Services, ann: Visitor, reader: Actor, feeds: list[int]
) -> None:
    folder = services.folders.create(reader, "Art").id
    before = services.reading.get_tree(reader)
    for do, words in (
        ("move", "2 feeds moved"),
        ("add", "2 feeds added to the folder"),
        ("read", "2 entries marked as read"),
        ("unsubscribe", "Unsubscribed from 2 feeds"),
    ):
        form = {"do": do, "feed": [str(f) for f in feeds[:2]], "into": str(folder), "sort": "rate"}
        done = ann.post("/subscriptions", form)
        assert (done.status_code, done.headers["Location"]) == (303, "/subscriptions?sort=rate"), do
        assert services.reading.get_tree(reader) != before
        page = ann.get("/subscriptions").text
        assert words in page, do
        undo = re.search(r'name="token" value="([^"]+)"', page)
        assert undo
        assert ann.post("/undo", {"token": undo[1]}).status_code == 303
        assert services.reading.get_tree(reader) == before, do
    done = ann.post("/subscriptions", {"do": "refresh", "whole": "1", "q": "be"})
    assert "Checking 1 feed" in ann.get(done.headers["Location"]).text


def test_many_feeds_are_paused_and_resumed_with_their_counts(
    services: Services, ann: Visitor, reader: Actor, feeds: list[int], db: Any
) -> None:
    def count_readers() -> list[int]:
        return [services.gateways.feeds.get(feed_id).subscribers for feed_id in feeds]

    before, two = count_readers(), [str(f) for f in feeds[:2]]
    person = add_user(services, "carla")
    services.subscriptions.set_paused(reader, feeds[0], True)
    for words, lost in (("1 feed paused", 1), ("0 feeds paused", 1)):
        done = ann.post("/subscriptions", {"do": "pause", "feed": two})
        assert words in ann.get(done.headers["Location"]).text, "the other one was paused already"
        assert count_readers() == [before[0] - lost, before[1] - lost, *before[2:]]
    assert [services.subscriptions.get(reader, f).paused for f in feeds[:3]] == [True, True, False]
    later = clock.now() + dt.timedelta(days=9)
    assert not {feeds[0], feeds[1]} & {feed.id for feed in services.gateways.feeds.find_due(later, 99)}
    done = ann.post("/subscriptions", {"do": "resume", "whole": "1"})
    assert "Checks of 2 feeds resumed" in ann.get(done.headers["Location"]).text
    assert count_readers() == before
    assert {feeds[0], feeds[1]} <= {feed.id for feed in services.gateways.feeds.find_due(later, 99)}
    assert services.bulk_edit.set_paused(person, feeds[:2], True) == 0, "somebody else's stay"
    assert count_readers() == before


def test_feeds_that_were_marked_as_read_are_in_the_history_and_come_back(
    ann: Visitor, services: Services, reader: Actor, feeds: list[int]
) -> None:
    before = services.reading.get_tree(reader)
    ann.post("/subscriptions", {"do": "read", "feed": [str(f) for f in feeds[:2]]})
    page = ann.get("/history").text
    assert "2 entries marked as read" in page
    undo = re.search(r'name="token" value="([^"]+)"', page)
    assert undo
    assert ann.post("/undo", {"token": undo[1], "next": "/history"}).status_code == 303
    assert services.reading.get_tree(reader) == before


def test_a_deed_without_feeds_or_folder_says_what_to_do(ann: Visitor, feeds: list[int]) -> None:
    nothing = ann.post("/subscriptions", {"do": "read"})
    assert (nothing.status_code, "Select at least one feed first." in nothing.text) == (400, True)
    nowhere = ann.post("/subscriptions", {"do": "add", "feed": str(feeds[0])})
    assert (nowhere.status_code, "Choose a folder first." in nowhere.text) == (400, True)
    assert rows(nowhere.text) == list(NAMES)
    assert ann.post("/subscriptions", {"do": "x"}).status_code == 400


def test_a_refused_deed_keeps_the_page_the_ticks_and_the_folder(
    services: Services, ann: Visitor, reader: Actor, feeds: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_edit, "ROWS", 2)
    news = services.folders.create(reader, "News")
    first = lxml.html.fromstring(ann.get("/subscriptions?sort=unread").text)
    assert first.xpath("//form[@id='bulk']//input[@name='after']") == []
    following = lxml.html.fromstring(ann.get(first.xpath("//a[@rel='next']/@href")[0]).text)
    form = following.get_element_by_id("bulk")
    (box,) = form.xpath(".//input[@name='feed']")
    box.checked = True
    form.fields["into"] = "0"
    refused = ann.post("/subscriptions", {**dict(form.form_values()), "do": "add"})
    assert (refused.status_code, "Choose a folder first." in refused.text) == (400, True)
    again = lxml.html.fromstring(refused.text).get_element_by_id("bulk")
    kept = {name: value for name, value in again.form_values() if name != "csrf_token"}
    assert kept == {name: value for name, value in form.form_values() if name != "csrf_token"}
    assert kept["feed"] == box.get("value")
    assert kept["into"] == "0"
    assert kept["after"]
    none = ann.post("/subscriptions", {"do": "move", "into": str(news.id)})
    assert lxml.html.fromstring(none.text).get_element_by_id("bulk").fields["into"] == str(news.id)
    # The tick for all that were found is kept, too. The first page names no other one.
    every = ann.post("/subscriptions", {"do": "remove", "whole": "1", "feed": str(feeds[0])})
    again = lxml.html.fromstring(every.text).get_element_by_id("bulk")
    assert again.xpath(".//input[@checked]/@name") == ["whole", "feed"]
    assert again.xpath(".//input[@name='after']") == []


def test_a_script_moves_by_calls(services: Services, ann: Visitor, reader: Actor, feeds: list[int]) -> None:
    made = ann.post("/folders", {"name": "Art"}, **JSON).json
    moved = ann.post(
        "/folders/place", {"feed": str(feeds[1]), "target": str(made["id"]), "after": "0"}, **JSON
    )
    assert moved.json["undo"].startswith("place.")
    assert services.subscriptions.get(reader, feeds[1]).folder_ids == (made["id"],)
    ann.post("/undo", {"token": moved.json["undo"]}, **JSON)
    assert services.subscriptions.get(reader, feeds[1]).folder_ids == ()
    inner = ann.post("/folders", {"name": "Inner", "parent": str(made["id"])}, **JSON).json
    into_itself = ann.post(f"/folders/{made['id']}/move", {"parent": str(inner["id"])}, **JSON)
    assert (into_itself.status_code, into_itself.json["message"]) == (
        400,
        "You can't move a folder into itself.",
    )
    double = ann.post("/folders", {"name": "Art"}, **JSON)
    assert double.status_code == 409
    read = ann.post("/folders/read", {"stream": f"feed/{feeds[0]}"}, **JSON).json
    assert services.reading.get_tree(reader).unread == 2
    ann.post("/undo", {"token": read["undo"]}, **JSON)
    assert services.reading.get_tree(reader).unread == 3
    renamed = ann.post(f"/feeds/{feeds[0]}/rename", {"name": "Mine"}, **JSON).json
    assert (renamed["name"], renamed["before"]) == ("Mine", "")
    assert ann.post(f"/feeds/{feeds[0]}/rename", {"name": ""}, **JSON).json["name"] == "ada"
    gone = ann.post(f"/feeds/{feeds[0]}/unsubscribe", **JSON).json
    assert gone["undo"].startswith("feed.")


def test_feed_details_say_how_it_fares_and_what_to_do(
    services: Services, ann: Visitor, feeds: list[int]
) -> None:
    now = clock.now()
    record_fetches(services, [FetchRecord(feeds[0], now, 404, 80, 500, error="http_404")])
    services.store.database["feeds"].update_one(
        {"_id": feeds[0]}, {"$set": {"error": "http_404", "error_since": now}}
    )
    page = ann.get(f"/feeds/{feeds[0]}").text
    assert "Check whether the site has moved, then change the address below." in page
    tree = lxml.html.fromstring(page)
    assert len(tree.xpath("//li[starts-with(@class, 'day ')]")) == 14
    chart, last = tree.xpath("//table")
    assert len(chart.xpath(".//tbody/tr")) == 24
    assert "failed: HTTP 404" in last.text_content()
    assert tree.xpath("//*[@class='tick-bad']")
    assert "Time zone: UTC." in page


def test_every_error_word_has_a_fix() -> None:
    assert set(errors.FEED_FIXES) == set(errors.FEED_MESSAGES)
    for status in ("401", "404", "410", "418", "429", "503"):
        assert errors.get_feed_fix(f"http_{status}").endswith(".")


def test_W22_a_feed_is_kept_private_by_forms(
    services: Services, ann: Visitor, reader: Actor, feeds: list[int]
) -> None:
    ann.post(f"/feeds/{feeds[0]}/private", {"private": "1"})
    page = ann.get(f"/feeds/{feeds[0]}").text
    assert "You keep this feed private" in page
    assert ">Allow sharing</button>" in page
    ann.post(f"/feeds/{feeds[0]}/private", {"private": "0"})
    assert not services.subscriptions.get(reader, feeds[0]).private
    ann.post("/subscribe", {"url": "https://paid.example/feed", "private": "1"})
    assert [s.private for s in services.gateways.subscriptions.find_by_user(reader.user_id)].count(True) == 1


def test_W22_shares_of_a_feed_close_and_open_with_a_pull(
    services: Services, reader: Actor, feeds: list[int]
) -> None:
    url = "https://ada.example/feed"
    body = rss("ada", [("Of ada", "<p>x</p>")])
    space = b"<block xmlns='http://www.itunes.com/dtds/podcast-1.0.dtd'>yes</block></channel>"
    rows = services.reading.load_page(reader, StreamQuery(StreamRef(StreamKind.FEED, feeds[0]))).rows
    share = services.sharing.share(reader, rows[0].id).share
    for document, audience in ((body.replace(b"</channel>", space), "private"), (body, "public")):
        fetcher = Canned({url: document})
        elsewhere(lambda fetcher=fetcher: asyncio.run(services.pull.pull(feeds[:1], fetcher)))
        assert services.sharing.get_share(reader, share.id).audience == audience


def test_pause_and_address_by_forms(
    services: Services, ann: Visitor, reader: Actor, feeds: list[int]
) -> None:
    ann.post(f"/feeds/{feeds[0]}/pause", {"paused": "1"})
    page = ann.get(f"/feeds/{feeds[0]}").text
    assert "You paused this feed" in page
    assert rows(ann.get("/subscriptions?show=paused").text) == ["ada"]
    ann.post(f"/feeds/{feeds[0]}/pause", {"paused": "0"})
    assert not services.subscriptions.get(reader, feeds[0]).paused
    double = ann.post(f"/feeds/{feeds[0]}/address", {"url": "https://bea.example/feed"})
    assert double.status_code == 409
    assert "You already subscribe to the feed at this address." in double.text
    assert 'value="https://bea.example/feed"' in double.text
    done = ann.post(f"/feeds/{feeds[0]}/address", {"url": "https://new.example/feed"})
    assert done.status_code == 303
    page = ann.get(done.headers["Location"]).text
    assert "Address changed." in page
    assert feeds[0] not in {f.feed_id for f in services.reading.get_tree(reader).feeds}
    token = re.search(r'name="token" value="([^"]+)"', page)
    assert token
    back = ann.post("/undo", {"token": token[1], "next": done.headers["Location"]})
    assert "Undone" in ann.get(back.headers["Location"]).text
    assert {f.feed_id for f in services.reading.get_tree(reader).feeds} == set(feeds)


def test_choices_of_folders_show_where_each_lies_in_the_order_of_the_tree(
    services: Services, ann: Visitor, reader: Actor, feeds: list[int]
) -> None:
    for name in ("Music", "Books"):
        above = services.folders.create(reader, name).id
        services.folders.create(reader, "Live", parent=above)
    names = ["Books", "Books › Live", "Music", "Music › Live"]
    manager = lxml.html.fromstring(ann.get("/subscriptions").text)
    assert manager.xpath("//select[@id='in']/option/text()")[2:] == names
    assert manager.xpath("//select[@id='into']/option/text()")[1:-1] == names
    feed = lxml.html.fromstring(ann.get(f"/feeds/{feeds[0]}").text)
    assert feed.xpath("//input[@name='folder']/../span/text()") == names
    url = "https://new.example/feed"
    new = services.subscriptions.subscribe(Actor(reader.user_id + 1), url).subscription.feed_id
    pull(services, [new], {url: rss("New", [("One", "x")])})
    found = lxml.html.fromstring(ann.post("/add", {"address": url}).text)
    assert found.xpath("//datalist[@id='folder-names']/option/@value") == names


def test_the_history_says_in_words_what_was_moved_and_left(
    services: Services, ann: Visitor, reader: Actor, feeds: list[int]
) -> None:
    folder = services.folders.create(reader, "Mine")
    inner = services.folders.create(reader, "Inner")
    assert ann.post("/folders/place", {"feed": str(feeds[0]), "target": str(folder.id)}).status_code == 303
    ann.post(f"/folders/{inner.id}/move", {"parent": str(folder.id)})
    ann.post("/subscriptions", {"do": "unsubscribe", "feed": [str(feeds[1]), str(feeds[2])]})
    page = ann.get("/history").text
    for words in ("1 feed moved", "Inner: Folder moved", "Unsubscribed from 2 feeds"):
        assert words in page
    tokens = list(dict.fromkeys(re.findall(r'name="token" value="([^"]+)"', page)))  # one in a toast too
    assert len(tokens) == 3
    for token in tokens:
        assert ann.post("/undo", {"token": token, "next": "/history"}).status_code == 303
    assert "Nothing to undo" in ann.get("/history").text
    tree = services.reading.get_tree(reader)
    assert len(tree.feeds) == 3
    assert {f.name for f in tree.folders} == {"Mine", "Inner"}


def test_what_was_found_says_who_reads_it_and_whether_one_does_oneself(
    services: Services, ann: Visitor, visitor: Callable[[], Visitor], feeds: list[int]
) -> None:
    found = ann.post("/add", {"address": "https://ada.example/feed"}).text
    assert "subscriber" not in found  # fewer than five could be told apart
    assert "You're already subscribed to this feed." in found
    assert f'href="/read/feed/{feeds[0]}"' in found
    assert 'action="/subscribe"' in found
    assert ">Subscribe<" not in found
    add_user(services, "bob")
    bob = visitor()
    bob.log_in("bob")
    found = bob.post("/add", {"address": "https://ada.example/feed"}).text
    assert "subscriber" not in found  # fewer than five could be told apart
    assert "You're already subscribed to this feed." not in found
    assert lxml.html.fromstring(found).xpath("//input[@name='url' and @checked]")
    assert ">Subscribe<" in found


def test_a_search_says_what_it_left_out_and_when_it_may_be_made_again(
    services: Services, ann: Visitor
) -> None:
    gateway = services.gateways.discoveries
    feed = FoundFeed("https://many.example/1", "One", None, "rss20", 3, None, None)
    row = gateway.get_or_create("https://many.example/", clock.now())
    gateway.store_result(row.key, Discovered(row.address, (feed,), more=True), clock.now())
    assert "lists more addresses" in ann.post("/add", {"address": "https://many.example/"}).text
    row = gateway.get_or_create("https://ill.example/", clock.now())
    gateway.store_result(row.key, Discovered(row.address, error="http_503"), clock.now())
    failed = ann.post("/add", {"address": "https://ill.example/"}).text
    assert "Try again in a minute" in failed
    assert "After that, you can search again." in failed
    assert "will retry later" not in failed


def test_a_new_folder_comes_with_what_is_new_and_the_top_one_is_meant(
    services: Services, ann: Visitor, reader: Actor, feeds: list[int]
) -> None:
    folders = services.folders
    outer = folders.create(reader, "Outer")
    inner, top = folders.create(reader, "News", parent=outer.id), folders.create(reader, "News")
    assert top.id != inner.id
    ann.post("/subscribe", {"url": "https://new.example/feed", "folder_name": " News "})
    tree = services.reading.get_tree(reader)
    assert [len(one.feeds) for one in tree.folders if one.id == top.id] == [1]
    # What one has, and what is refused, leaves no empty folder behind.
    ann.post("/subscribe", {"url": "https://ada.example/feed", "folder_name": "Empty"})
    assert ann.post("/subscribe", {"url": "mailto:x", "folder_name": "Empty"}).status_code == 400
    assert {folder.name for folder in folders.list_folders(reader)} == {"Outer", "News"}


def test_login_and_folder_are_kept_if_the_address_is_refused_and_if_it_succeeds(
    services: Services, ann: Visitor, reader: Actor
) -> None:
    typed = {"url": "mailto:x", "login": "ann@paid.example", "password": "secret", "folder_name": "Paid"}
    refused = ann.post("/subscribe", typed)
    assert refused.status_code == 400
    (form,) = lxml.html.fromstring(refused.text).xpath("//form[@action='/subscribe']")
    fields = {field.name: field.value for field in form.inputs if isinstance(field, lxml.html.InputElement)}
    assert fields == {**typed, "password": "", "csrf_token": fields["csrf_token"]}
    (reason,) = form.xpath(".//*[@id='refused']")
    assert "Enter an address such as" in reason.text_content()
    # To a script, only the reason goes: the form stays as it is, with the password.
    headers = {"HX-Request": "true", "HX-Target": "div#refused"}
    part = ann.client.post(
        "/subscribe", data={**typed, "csrf_token": ann.token()}, headers={**ORIGIN, **headers}
    )
    assert part.status_code == 200
    assert "Enter an address such as" in part.text
    assert "<form" not in part.text
    assert services.folders.list_folders(reader) == []

    # Without a login, the form without one comes back.
    plain = lxml.html.fromstring(ann.post("/subscribe", {"url": "mailto:x", "folder_name": "Paid"}).text)
    assert plain.xpath("//form[@action='/subscribe']//input[@name='folder_name']/@value") == ["Paid"]
    assert not plain.xpath("//input[@name='login']")

    assert ann.post("/subscribe", {**typed, "url": "https://paid.example/feed"}).status_code == 303
    (mine,) = services.gateways.subscriptions.find_by_user(reader.user_id)
    (folder,) = services.folders.list_folders(reader)
    assert (folder.name, mine.folder_ids) == ("Paid", (folder.id,))
    stored = services.subscriptions.get_fetch_options(reader, mine.feed_id)
    assert stored.login == typed["login"]
    assert stored.password


def test_the_history_leads_on_to_what_is_older(ann: Visitor, services: Services) -> None:
    actor = services.gateways.accounts.find_credentials("ann").user.actor  # type: ignore[union-attr]
    services.marking._history_rows = 2
    for name in "abc":
        services.folders.delete(actor, services.folders.create(actor, f"Folder {name}").id)
    shown, seen = ann.get("/history").text, ""
    while older := re.search(r'href="(/history[?][^"]+)"', shown):
        seen += shown
        assert 'name="next" value="/history' in shown
        shown = ann.get(older[1].replace("&amp;", "&")).text
    assert 'name="next" value="/history?' in shown, "who takes back there stays there"
    for name in "abc":
        assert (seen + shown).count(f"Folder {name}") == 1
    for wrong in ("after=-1-x", f"after={10**30}-x", "after=x-x", "after=1"):
        assert ann.get(f"/history?{wrong}").status_code == 400


def test_a_site_that_asked_for_a_rest_is_named_as_the_reason(
    services: Services, ann: Visitor, reader: Actor, feeds: list[int]
) -> None:
    now = clock.now()
    assert "limits requests" not in ann.get(f"/feeds/{feeds[0]}").text
    for path in "abc":
        services.budget.pause_host("ada.example", 600, f"https://ada.example/{path}")
    new = services.subscriptions.subscribe(reader, "https://ada.example/b").subscription.feed_id
    for feed_id in (feeds[0], new):
        page = ann.get(f"/feeds/{feed_id}").text
        assert "This site limits requests until " in page
        assert "in a moment" not in page.partition("<figure")[0]
        done = ann.post("/refresh", {"stream": f"feed/{feed_id}"}, **JSON).json
        assert done is not None
        assert done["text"].startswith("1 feed wasn't checked: its site limits requests until ")
    done = ann.post("/refresh", {"stream": "all"}, **JSON).json
    assert done is not None
    assert done["text"].startswith(
        "Checking 2 feeds. 2 feeds weren't checked: their sites limit requests until "
    )
    many = ann.post("/subscriptions", {"do": "refresh", "feed": [str(f) for f in feeds[:2]]})
    assert "Checking 1 feed. 1 feed wasn&#39;t checked" in ann.get(many.headers["Location"]).text
    # Those of others tell nothing about where somebody else's are fetched.
    assert services.subscriptions.list_rest_ends(Actor(user_id=77), feeds) == []
    (until,) = services.subscriptions.list_rest_ends(reader, feeds[:2])
    assert 590 < (until - now).total_seconds() < 610


def test_a_first_fetch_that_is_late_is_not_said_to_come_in_a_moment(
    services: Services, ann: Visitor, reader: Actor
) -> None:
    feed_id = services.subscriptions.subscribe(reader, "https://late.example/feed").subscription.feed_id
    assert "Not fetched yet. The first fetch starts in a moment." in ann.get(f"/feeds/{feed_id}").text
    later = {"$set": {"next_check_at": clock.now() + dt.timedelta(hours=3)}}
    services.store.database["feeds"].update_one({"_id": feed_id}, later)
    assert "Not fetched yet. Next check " in ann.get(f"/feeds/{feed_id}").text


def test_X04_a_feed_that_came_without_its_end_is_not_said_to_be_well(
    services: Services, ann: Visitor, feeds: list[int]
) -> None:
    url = f"https://{NAMES[0]}.example/feed"
    body = rss(NAMES[0], [("New", "<p>x</p>"), ("Half", "<p>y</p>")])
    pull(services, feeds[:1], {url: body[: body.index(b"Half")]})
    page = ann.get(f"/feeds/{feeds[0]}").text
    assert "response was cut off. Eventr kept the complete entries." in page
    assert "No problems found." not in page
    pull(services, feeds[:1], {url: body})
    assert "No problems found." in ann.get(f"/feeds/{feeds[0]}").text
    assert services.gateways.feeds.get(feeds[0]).last_seq == 3


def test_old_addresses_of_a_feed_that_was_merged_lead_to_the_other(
    services: Services, ann: Visitor, reader: Actor, feeds: list[int]
) -> None:
    old, new, _ = feeds
    assert services.gateways.feeds.move(old, f"https://{NAMES[1]}.example/feed") == new
    stranger = services.subscriptions.subscribe(Actor(user_id=77), "https://other.example/feed")
    for path in ("/feeds/{}", "/read/feed/{}"):
        found = ann.get(path.format(old))
        assert (found.status_code, found.headers.get("Location")) == (303, path.format(new))
        assert ann.get(path.format(new)).status_code == 200
        assert ann.get(path.format(stranger.subscription.feed_id)).status_code == 404
        assert ann.get(path.format(12345)).status_code == 404
    assert ann.get(f"/read/feed/{new}?entry=12345").status_code == 404
    services.subscriptions.unsubscribe(reader, new)
    assert [ann.get(path.format(old)).status_code for path in ("/feeds/{}", "/read/feed/{}")] == [404, 404]


def test_a_search_without_feeds_names_its_words_and_hides_the_folders(ann: Visitor, feeds: list[int]) -> None:
    page = lxml.html.fromstring(ann.get("/subscriptions?q=<b>rust</b>").text)
    (empty,) = page.xpath("//*[@class='empty']")
    assert "<b>rust</b>" in empty.text_content()
    assert empty.xpath(".//a/@href") == ["/subscriptions", "/add?address=%3Cb%3Erust%3C%2Fb%3E"]
    assert not page.xpath("//*[@id='folders']")
    assert "matches this filter" in ann.get("/subscriptions?show=paused").text
    assert lxml.html.fromstring(ann.get("/subscriptions?q=ada").text).xpath("//*[@id='folders']")
