"""Subscriptions and labels through the Google Reader API, and files of them."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask

from app import clock, create_app
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.feeds.discovery import Discovered
from app.models.sharing.sharing import Audience
from app.models.subscriptions.folder import FolderEditMode
from app.services.subscriptions.subscriptions import FOLDERS_MAX
from tests.sharing.conftest import People
from tests.support.rawserver import RawServer, Reply
from tests.support.world import World
from tests.sync.conftest import API, READ, READING, STARRED, Reader

RSS = (
    b"<rss version='2.0'><channel><title>Blog</title><link>http://blog.example/</link>"
    b"<item><title>One</title><link>http://blog.example/1</link></item></channel></rss>"
)
LABEL = "user/-/label/"


@pytest.fixture
def app(services: Services) -> Flask:
    """No worker looks for feeds here: nobody waits for one."""
    settings = dataclasses.replace(services.settings, discovery_wait=0.0)
    services.discovery._settings = settings
    return create_app(settings, services)


@pytest.fixture
def ann(services: Services) -> Actor:
    people = People(services)
    actor = people.join("ann")
    people.blog([actor], 3)
    people.blog([actor], 2, "other")
    return actor


@pytest.fixture
def world() -> Iterator[World]:
    page = Reply(body=b"<link rel=alternate type=application/rss+xml href=/rss>")
    with RawServer({"/": page, "/rss": Reply(body=RSS), "/none": Reply(body=b"<p>x")}) as server:
        world = World(server)
        world.add("blog.example", "93.184.215.20")
        yield world


def found(services: Services, actor: Actor, world: World, address: str) -> None:
    """Let the worker search before the app asks."""
    asked = services.discovery.discover(actor, address, wait=0)

    async def run() -> None:
        with world.fetcher() as fetcher:
            await services.discovery.run(asked.key, fetcher, lambda step: None)

    asyncio.run(run())


def feeds(reader: Reader) -> dict[str, Any]:
    return {f["id"]: f for f in reader.json("subscription/list")["subscriptions"]}


def labels(reader: Reader) -> list[str]:
    return sorted(tag["id"] for tag in reader.json("tag/list")["tags"] if "type" in tag)


def quickadd(reader: Reader, address: str, **query: str) -> Any:
    answer = reader.client.post(
        f"{API}/subscription/quickadd", query_string=query, data={"quickadd": address}, headers=reader.headers
    )
    assert answer.status_code == 200, answer.text
    return answer.get_json()


# -- quickadd
def test_what_is_new_is_added_once(reader: Reader, services: Services, ann: Actor, world: World) -> None:
    for n, address in enumerate(
        ("http://blog.example/", "http://blog.example/rss", "feed/http://blog.example/rss")
    ):
        if n == 0:
            found(services, ann, world, address)
        done = quickadd(reader, address, quickadd=address)
        if n == 0:
            assert (done["numResults"], done["query"], done["streamName"]) == (1, address, "Blog")
            assert done["streamId"] in feeds(reader)
        else:
            assert done["numResults"] == 0
            assert done["error"].startswith("Already subscribed! ")
    assert len(feeds(reader)) == 3
    reader.do("subscription/edit", ac="subscribe", s="feed/http://blog.example/rss", i="null")
    assert len(feeds(reader)) == 3


def test_what_is_known_is_added_without_a_search(reader: Reader, services: Services, ann: Actor) -> None:
    people = People(services)
    people.blog([], 1, "third")
    done = quickadd(reader, "third.example.org/feed")
    assert (done["numResults"], done["streamName"]) == (1, "third")
    (feed_id,) = [f for f, feed in feeds(reader).items() if feed["title"] == "third"]
    assert done["streamId"] == feed_id
    again = quickadd(reader, feed_id)
    assert (again["numResults"], again["error"][:19]) == (0, "Already subscribed!")


def test_people_of_this_server_are_found_at_their_addresses(
    reader: Reader, services: Services, ann: Actor
) -> None:
    people = People(services)
    bob = people.join("bob")
    people.open(bob)
    post = services.sharing.publish_post(bob, "", "Words").id
    people.follow(ann, "bob")
    (mine,) = [f for f in feeds(reader).values() if f["title"] == "bob"]
    url, page = mine["url"], mine["htmlUrl"]
    assert url.endswith("/@bob/atom.xml")
    assert reader.ids(f"feed/{url}") == [post]
    (item,) = reader.json(f"stream/contents/feed/{url}")["items"]
    assert item["origin"]["streamId"] == mine["id"]
    assert reader.get("subscribed", s=f"feed/{url}").text == "true"
    for address in (url, page, f"feed/{url}", "@bob"):
        done = quickadd(reader, address)
        assert (done["numResults"], done["streamId"]) == (0, mine["id"]), address
        assert done["error"].startswith("Already subscribed! ")
    for address in (url, page):
        reader.do("subscription/edit", ac="unsubscribe", s=f"feed/{url}")
        assert reader.get("subscribed", s=f"feed/{url}").text == "false"
        done = quickadd(reader, address)
        assert (done["numResults"], done["streamId"], done["streamName"]) == (1, mine["id"], "bob")
        reader.do("subscription/edit", ac="unsubscribe", s=mine["id"])
        reader.do("subscription/edit", ac="subscribe", s=f"feed/{address}", a="user/-/label/Friends")
        assert feeds(reader)[mine["id"]]["categories"] == [{"id": f"{LABEL}Friends", "label": "Friends"}]


def test_people_of_this_server_are_added_as_they_want_to_be(reader: Reader, services: Services) -> None:
    people = People(services)
    bob, cleo = people.join("bob"), people.join("cleo")
    people.open(bob, Audience.FOLLOWERS)
    people.open(cleo, Audience.PRIVATE)
    before = feeds(reader)
    for _ in range(2):
        done = quickadd(reader, "@bob")
        assert (done["numResults"], done["error"][:26]) == (0, "You've sent a follow reque")
    assert services.following.list_requests(bob) == ["ann"]
    for address in ("@cleo", "@nobody"):
        done = quickadd(reader, address)
        assert (done["numResults"], done["error"][:26]) == (0, "Nobody with this user name")
        answer = reader.post("subscription/edit", ac="subscribe", s=f"feed/{address}")
        assert answer.status_code == 400
    assert feeds(reader) == before


def test_while_the_search_runs_no_page_is_taken_for_a_feed(
    reader: Reader, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    object.__setattr__(services.settings, "discovery_wait", 0.0)
    before = feeds(reader)
    done = quickadd(reader, "slow.example.org")
    assert (done["numResults"], "streamId" in done) == (0, False)
    assert "Try again" in done["error"]
    assert feeds(reader) == before
    # Who says that it is a feed is believed.
    reader.do("subscription/edit", ac="subscribe", s="feed/http://slow.example.org/feed", t="Slow")
    assert [feed["title"] for id, feed in feeds(reader).items() if id not in before] == ["Slow"]


def test_a_page_that_an_app_called_a_feed_does_not_hide_what_is_found(
    reader: Reader, services: Services, ann: Actor, world: World
) -> None:
    before = feeds(reader)
    reader.do("subscription/edit", ac="subscribe", s="feed/http://blog.example/")
    found(services, ann, world, "http://blog.example/")
    assert quickadd(reader, "http://blog.example/")["numResults"] == 1
    assert "http://blog.example/rss" in [f["url"] for i, f in feeds(reader).items() if i not in before]


def test_what_is_no_feed_is_said_to_be_none(
    reader: Reader, services: Services, ann: Actor, world: World
) -> None:
    found(services, ann, world, "http://blog.example/none")
    found(services, ann, world, "http://gone.example/")
    for address in (
        "http://blog.example/none",
        "http://gone.example/",
        "feed/77",
        "feed/²",
        "nothing here",
        "",
    ):
        done = quickadd(reader, address)
        assert (done["numResults"], done["query"]) == (0, address)
        assert done["error"]
    assert len(feeds(reader)) == 2
    answer = reader.post("subscription/edit", ac="subscribe", s="feed/http://blog.example/none")
    assert (answer.status_code, answer.mimetype) == (400, "text/plain")


def test_a_site_that_is_ill_is_to_be_tried_again_by_who_asked(reader: Reader, services: Services) -> None:
    gateway = services.gateways.discoveries
    row = gateway.get_or_create("http://ill.example/", clock.now())
    gateway.store_result(row.key, Discovered(row.address, error="http_503"), clock.now())
    assert "Try again in a minute" in quickadd(reader, "http://ill.example/")["error"]


# -- subscription/edit
def test_feeds_are_named_moved_and_left(reader: Reader, services: Services, ann: Actor) -> None:
    one, two = feeds(reader)
    reader.do("subscription/edit", ac="edit", s=[one, two], t=["First", "Second"], a=f"{LABEL}News")
    assert [f["title"] for f in feeds(reader).values()] == ["First", "Second"]
    for feed in feeds(reader).values():
        assert feed["categories"] == [{"id": f"{LABEL}News", "label": "News"}]
    for _ in range(2):
        reader.do("subscription/edit", ac="edit", s=one, a=f"{LABEL}Other", r=f"{LABEL}News")
    assert [c["label"] for c in feeds(reader)[one]["categories"]] == ["Other"]
    assert reader.ids(f"{LABEL}Other") == reader.ids(one)
    assert labels(reader) == [f"{LABEL}News", f"{LABEL}Other"]
    # RSS Guard says it all in the address, and sends nothing but T.
    answer = reader.client.post(
        f"{API}/subscription/edit?ac=edit&s={two}&t=Two&a={LABEL}Other&r={LABEL}News", data=b"T=",
        headers=reader.headers,
    )  # fmt: skip
    assert (answer.status_code, answer.text) == (200, "OK")
    assert feeds(reader)[two]["title"] == "Two"
    for _ in range(2):
        reader.do("subscription/edit", ac="unsubscribe", s=[one, two])
    assert feeds(reader) == {}
    assert reader.get("subscribed", s="feed/https://blog.example.org/feed").text == "false"


def test_a_label_of_the_web_may_be_called_as_it_likes(reader: Reader, services: Services, ann: Actor) -> None:
    """A folder that is there takes feeds, and a tag takes entries."""
    name = "Science & Tech, R/C"
    services.folders.create(ann, name)
    one = next(iter(feeds(reader)))
    reader.do("subscription/edit", ac="edit", s=one, a=LABEL + name)
    assert [c["label"] for c in feeds(reader)[one]["categories"]] == [name]
    first, second = reader.ids(one)[:2]
    services.tags.change_tags(ann, first, add=["C++/Rust"])
    reader.do("edit-tag", i=str(second), a=f"{LABEL}C++/Rust")
    assert reader.ids(f"{LABEL}C++/Rust") == [first, second]
    reader.do("edit-tag", a=LABEL + name)


SIGNS = 'R&D, and/or? "so" <b> ^ back\\slash'


def test_a_label_of_an_app_may_have_any_sign(reader: Reader, services: Services, ann: Actor) -> None:
    """As on the pages: in each call that can make or rename a label."""
    one = next(iter(feeds(reader)))
    first = str(reader.ids(one)[0])
    reader.do("subscription/edit", ac="edit", s=one, a=LABEL + SIGNS)
    assert [c["label"] for c in feeds(reader)[one]["categories"]] == [SIGNS]
    assert reader.ids(LABEL + SIGNS) == reader.ids(one)
    tag = f"{LABEL}tag {SIGNS}".replace(",", "")  # a comma separates tags on the pages
    reader.do("edit-tag", i=first, a=tag)
    assert tag in reader.categories(int(first))
    reader.do("edit-tag", a=f"{LABEL}empty {SIGNS}")
    reader.do("rename-tag", s=f"{LABEL}empty {SIGNS}", dest=f"{LABEL}new {SIGNS}")
    assert {f.name for f in services.sync.list_folders(ann)} == {SIGNS, f"new {SIGNS}"}
    reader.do("disable-tag", s=f"{LABEL}new {SIGNS}")
    assert labels(reader) == [LABEL + SIGNS, tag]


def test_labels_are_one_in_any_case(reader: Reader) -> None:
    one = next(iter(feeds(reader)))
    first, second = reader.ids(one)[:2]
    for entry_id, name in ((first, "Later"), (second, "later")):
        reader.do("edit-tag", i=str(entry_id), a=LABEL + name)
        assert entry_id in reader.ids(LABEL + name)
    for name in ("News", "news"):
        reader.do("edit-tag", a=LABEL + name)
        reader.do("subscription/edit", ac="edit", s=one, a=LABEL + name)
    assert labels(reader) == [f"{LABEL}Later", f"{LABEL}News"]


def test_two_devices_that_move_one_feed_at_once_both_get_what_they_asked_for(
    reader: Reader, services: Services, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An app says ``a`` and ``r`` in two requests, too, one beside the other."""
    one = next(iter(feeds(reader)))
    new = services.folders.create(ann, "New").id
    reader.do("subscription/edit", ac="edit", s=one, a=f"{LABEL}Old")
    folders = services.gateways.folders
    check = folders.check_folders

    def overtaken(*args: Any) -> None:
        monkeypatch.setattr(folders, "check_folders", check)
        services.folders.place_feeds(ann, [int(one.removeprefix("feed/"))], [new], FolderEditMode.ADD)
        check(*args)

    monkeypatch.setattr(folders, "check_folders", overtaken)
    reader.do("subscription/edit", ac="edit", s=one, r=f"{LABEL}Old")
    assert folders.check_folders == check  # it was overtaken
    assert [c["label"] for c in feeds(reader)[one]["categories"]] == ["New"]


def test_a_refused_label_or_name_changes_nothing(reader: Reader, services: Services) -> None:
    People(services).blog([], 1, "third")
    before, first = feeds(reader), str(reader.ids()[0])
    address = "feed/https://third.example.org/feed"
    for bad in ({"a": f"{LABEL}fresh"}, {"a": [f"{LABEL}Good", STARRED]}, {"r": STARRED}, {"t": "x" * 600}):
        assert reader.post("subscription/edit", ac="subscribe", s=address, **bad).status_code == 400
    for bad in (f"{LABEL}fresh", LABEL + "x" * 65):
        assert reader.post("edit-tag", i=first, a=[f"{LABEL}Good", STARRED, bad]).status_code == 400
    assert reader.post("edit-tag", a=[f"{LABEL}Good", f"{LABEL}fresh"]).status_code == 400
    assert "none of these words: fresh," in reader.post("edit-tag", a=f"{LABEL}fresh").text
    assert feeds(reader) == before
    assert labels(reader) == []
    assert reader.ids(STARRED) == []


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("👩\u200d💻 Dev", "👩\u200d💻 Dev"),
        ("می\u200cخوانم", "می\u200cخوانم"),
        ("\u200fاخبار", "اخبار"),
        ("soft\u00adhyphen", "soft hyphen"),
        ("a\x00b\x01", "a b"),
        ("cafe\u0301", "café"),
        ("\u200dread it", "read it"),
        ("two  words", "two words"),
        ("x²", "x²"),
    ],
)
def test_a_label_is_found_again_as_the_app_says_it(reader: Reader, said: str, kept: str) -> None:
    """Whatever of it is not kept: with signs that nobody sees, or letters that are put together."""
    one, two = feeds(reader)
    label, tag = LABEL + said, f"{LABEL}{said} tag"
    for feed in (one, two, one):
        reader.do("subscription/edit", ac="edit", s=feed, a=label)
    reader.do("edit-tag", a=label)
    first = reader.ids(one)[0]
    for _ in range(2):
        reader.do("edit-tag", i=str(first), a=tag)
    assert labels(reader) == [LABEL + kept, f"{LABEL}{kept} tag"]
    assert reader.ids(label) == reader.ids(LABEL + kept) == reader.ids()
    assert reader.ids(tag) == [first]
    reader.do("mark-all-as-read", s=label)
    assert reader.ids(xt=READ) == []
    reader.do("edit-tag", i=str(first), r=tag)
    reader.do("subscription/edit", ac="edit", s=one, r=label)
    assert (reader.ids(tag), reader.ids(label)) == ([], reader.ids(two))
    reader.do("rename-tag", s=label, dest=f"{LABEL}Other")
    assert reader.ids(f"{LABEL}Other") == reader.ids(two)


def test_a_label_that_was_kept_with_blanks_is_found_by_what_joins_it(reader: Reader) -> None:
    """So names were stored once."""
    one, two = feeds(reader)
    old, said = f"{LABEL}👩 💻 Dev", f"{LABEL}👩\u200d💻 Dev"
    first = reader.ids(one)[0]
    reader.do("subscription/edit", ac="edit", s=one, a=old)
    reader.do("edit-tag", i=str(first), a=old)
    reader.do("subscription/edit", ac="edit", s=two, a=said)
    reader.do("edit-tag", i=str(first), a=said)
    assert labels(reader) == [old]
    reader.do("edit-tag", i=str(first), r=said)
    for feed in one, two:
        reader.do("subscription/edit", ac="edit", s=feed, r=said)
    assert reader.ids(old) == []


def test_one_feed_lies_in_so_many_folders_at_most(reader: Reader) -> None:
    one, *_ = feeds(reader)
    wanted = [f"{LABEL}F{n:02}" for n in range(FOLDERS_MAX + 1)]
    reader.do("subscription/edit", ac="edit", s=one, a=wanted[:-1])
    assert reader.post("subscription/edit", ac="edit", s=one, a=wanted[-1]).status_code == 400
    reader.do("subscription/edit", ac="edit", s=one, a=wanted[-1], r=wanted[0])
    assert [label["id"] for label in feeds(reader)[one]["categories"]] == wanted[1:]


def test_a_label_that_nobody_sees_is_none(reader: Reader) -> None:
    for name in ("\u200d", "\u200f\u00ad", "\x00", "read\u200c"):
        assert reader.post("edit-tag", a=LABEL + name).status_code == 400
    assert labels(reader) == []


# -- labels
def test_labels_are_made_renamed_and_taken_away(reader: Reader) -> None:
    for _ in range(2):
        reader.do("edit-tag", a=f"{LABEL}News")
    assert labels(reader) == [f"{LABEL}News"]
    one = next(iter(feeds(reader)))
    reader.do("subscription/edit", ac="edit", s=one, a=f"{LABEL}News")
    first = reader.ids(one)[0]
    reader.do("edit-tag", i=str(first), a=f"{LABEL}later")
    types = {tag["id"]: tag.get("type") for tag in reader.json("tag/list")["tags"]}
    assert types == {STARRED: None, f"{LABEL}News": "folder", f"{LABEL}later": "tag"}
    for name in ("s", "t"):
        old, new = ("News", "World") if name == "s" else ("World", "Globe")
        for _ in range(2):
            reader.do("rename-tag", **{name: LABEL + old, "dest": LABEL + new})
    reader.do("rename-tag", s="later", dest="soon")
    assert labels(reader) == [f"{LABEL}Globe", f"{LABEL}soon"]
    assert f"{LABEL}soon" in reader.categories(first)
    for bad in ("", f"{LABEL}read", READING, "feed/1"):
        assert reader.post("rename-tag", s=f"{LABEL}Globe", dest=bad).status_code == 400
    assert reader.post("rename-tag", s=f"{LABEL}none", dest=f"{LABEL}nil").status_code == 400
    for _ in range(2):
        reader.do("disable-tag", s=[f"{LABEL}Globe"], t=f"{LABEL}soon")
    assert labels(reader) == []
    assert feeds(reader)[one]["categories"] == []
    assert READ not in reader.categories(first)


def test_a_label_that_cannot_be_renamed_keeps_its_name(
    reader: Reader, services: Services, ann: Actor
) -> None:
    first, second, third = map(str, reader.ids()[:3])
    for label in ("A", "F"):
        reader.do("edit-tag", a=LABEL + label)
        reader.do("edit-tag", i=first, a=LABEL + label)
    reader.do("edit-tag", i=second, a=f"{LABEL}B")
    services.folders.create(ann, "A", parent=services.folders.create(ann, "Around").id)
    services.folders.create(ann, "C")
    before = (labels(reader), [f.name for f in services.sync.list_folders(ann)])
    # A tag, a folder beside one of them; and what is longer than a tag may be.
    for name in ("B", "C", "F", "x" * 65):
        assert reader.post("rename-tag", s=f"{LABEL}A", dest=LABEL + name).status_code == 400, name
        assert (labels(reader), [f.name for f in services.sync.list_folders(ann)]) == before, name
    reader.do("rename-tag", s=f"{LABEL}A", dest=f"{LABEL}a")
    assert labels(reader) == sorted(LABEL + name for name in ("A", "Around", "B", "C", "F", "a"))
    assert third not in map(str, reader.ids(f"{LABEL}a"))


def test_states_cannot_be_made_or_renamed(reader: Reader) -> None:
    assert reader.post("edit-tag", a=READING).status_code == 400
    assert reader.post("edit-tag", r=READING).status_code == 400
    assert reader.post("edit-tag").status_code == 400
    assert reader.post("disable-tag", s=STARRED).status_code == 400
    first = str(reader.ids()[0])
    assert reader.post("edit-tag", i=first, a="user/-/state/com.google/reading-list").status_code == 400
    assert reader.post("edit-tag", i=first, a="nothing").status_code == 400
    reader.do("edit-tag", i=first, a="user/-/state/com.google/tracking-kept-unread")


def test_an_unchanged_list_is_not_sent_again_and_a_changed_one_is(
    reader: Reader, services: Services, ann: Actor
) -> None:
    one = next(iter(feeds(reader)))
    for path in ("tag/list", "subscription/list", f"stream/contents/{one}", f"stream/items/ids?s={one}"):
        reader.do("subscription/edit", ac="edit", s=one, a=f"{LABEL}News")
        first = reader.client.get(f"{API}/{path}", headers=reader.headers)
        known = {**reader.headers, "If-None-Match": first.headers["ETag"]}
        assert reader.client.get(f"{API}/{path}", headers=known).status_code == 304
        reader.do("rename-tag", s=f"{LABEL}News", dest=f"{LABEL}World")
        if "ids" not in path:
            assert reader.client.get(f"{API}/{path}", headers=known).status_code == 200, path
        reader.do("rename-tag", s=f"{LABEL}World", dest=f"{LABEL}News")


def test_NetNewsWire_gets_no_tags_of_articles(reader: Reader) -> None:
    reader.do("edit-tag", i=str(reader.ids()[0]), a=f"{LABEL}later")
    said = {**reader.headers, "User-Agent": "NetNewsWire (RSS Reader; https://netnewswire.com/)"}
    tags = reader.client.get(f"{API}/tag/list", headers=said).get_json()["tags"]
    assert [tag["id"] for tag in tags] == [STARRED]


# -- files
@pytest.mark.parametrize(
    "kind", ["text/xml", "application/x-www-form-urlencoded", None, "multipart", "text/x-opml"]
)
def test_a_file_of_subscriptions_comes_back_as_it_went(
    reader: Reader, services: Services, ann: Actor, kind: str | None
) -> None:
    body = reader.get("subscription/export").get_data()
    assert body == reader.client.get("/reader/subscriptions/export", headers=reader.headers).get_data()
    assert b"https://blog.example.org/feed" in body
    more = body.replace(b"blog.example.org", b"blog.example.net")
    if kind == "multipart":
        import io

        sent: Any = {"data": {"file": (io.BytesIO(more), "mine.opml"), "T": "x"}}
    else:
        sent = {"data": more, "content_type": kind}
    answer = reader.client.post(f"{API}/subscription/import", headers=reader.headers, **sent)
    assert (answer.status_code, answer.text) == (200, "OK: 2"), answer.text
    again = reader.client.post(
        f"{API}/subscription/import", headers=reader.headers, data=body, content_type="text/xml"
    )
    assert (again.status_code, again.text) == (200, "OK: 0")
    bad = reader.client.post(
        f"{API}/subscription/import", headers=reader.headers, data=b"nothing", content_type="text/xml"
    )
    assert (bad.status_code, bad.mimetype) == (400, "text/plain")


def test_a_large_file_without_its_type_is_no_form(reader: Reader) -> None:
    rows = "".join(
        f'<outline type="rss" xmlUrl="https://a.example/{n}?a=1&amp;b=2&amp;c=3"/>' for n in range(11_000)
    )
    body = f"<opml version='1.0'><body>{rows}</body></opml>".encode()
    answer = reader.client.post(
        f"{API}/subscription/import", headers=reader.headers, data=body,
        content_type="application/x-www-form-urlencoded",
    )  # fmt: skip
    assert answer.status_code in (200, 413), answer.text


def test_old_apps_find_preferences(reader: Reader) -> None:
    assert reader.json("preference/list")["prefs"][0]["id"] == "lhn-prefs"
    assert reader.json("preference/stream/list") == {"streamprefs": {}}
    reader.do("preference/stream/set", s="feed/1", k="is-expanded", v="true")
    assert reader.client.get("/reader/ping", headers=reader.headers).text == "OK"
    assert reader.client.get("/reader/ping").status_code == 401
    options = reader.client.options(f"{API}/tag/list")
    assert (options.status_code, options.headers["Access-Control-Allow-Origin"]) == (204, "*")
    assert "Authorization" in options.headers["Access-Control-Allow-Headers"]


def test_page_is_saved_from_the_field_for_feeds(reader: Reader) -> None:
    done = quickadd(reader, "page/https://magazine.example/roofs")
    assert (done["numResults"], done["streamName"]) == (1, "Saved pages")
    (item,) = reader.json(f"stream/contents/{done['streamId']}")["items"]
    assert item["alternate"][0]["href"] == "https://magazine.example/roofs"
    wrong = quickadd(reader, "page/ftp://site.example")
    assert (wrong["numResults"], wrong["error"][:27]) == (0, "Enter the address of a page")
