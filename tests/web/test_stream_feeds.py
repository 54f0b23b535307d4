"""Feeds of people's lists at secret addresses: what is in them, and who gets them."""

from __future__ import annotations

import datetime as dt
import gzip
import html
import json
import re
from typing import Any

import feedparser
import pytest
from flask.testing import FlaskClient
from lxml import etree
from werkzeug.test import TestResponse

from app import clock
from app.bootstrap.services import Services
from app.mappers.mongo.store import Doc
from app.models.accounts.actor import Actor
from app.models.reading.stream import StreamQuery, StreamRef
from app.models.sharing.sharing import Audience
from app.web.assets.compress import MIN_BYTES
from tests.support.reader import PASSWORD, add_user, document_count, follow, pull, rss
from tests.web.conftest import Visitor

BLOG = "https://blog.example/feed"
ATOM = "{http://www.w3.org/2005/Atom}"
_SHOWN = re.compile(r'<code id="v-secret(?:-json)?"[^>]*>(.+?)</code>')


@pytest.fixture
def me(services: Services, ann: Visitor) -> Actor:
    found = services.gateways.accounts.find_by_name("ann")
    assert found is not None
    user = services.gateways.accounts.find_user(found)
    assert user is not None
    return user.actor


def _write(services: Services, me: Actor, items: list[tuple[str, str]], url: str = BLOG) -> int:
    feed_id = services.subscriptions.subscribe(me, url).subscription.feed_id
    pull(services, [feed_id], {url: rss("Blog", items)})
    return feed_id


def _make(who: Visitor, stream: str = "all", **more: str) -> list[str]:
    """Return the paths of the two formats of a new address."""
    done = who.post("/settings/apps/feed", {"stream": stream, **more})
    assert done.status_code == 200, done.text
    assert done.headers["Cache-Control"] == "no-store"
    return [
        re.sub(r"^https?://[^/]+", "", html.unescape(url.replace("<wbr>", "")))
        for url in _SHOWN.findall(done.text)
    ]


def _get(who: Visitor, path: str, **headers: str) -> TestResponse:
    """Fetch as a program: another client, which has no cookie."""
    client: FlaskClient = who.client.application.test_client()
    answer = client.get(path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    assert "Set-Cookie" not in answer.headers
    return answer


def _titles(who: Visitor, path: str) -> list[str]:
    answer = _get(who, path)
    assert answer.status_code == 200, answer.text
    return [entry.title for entry in feedparser.parse(answer.data).entries]


def test_a_list_is_published_as_atom_and_json(ann: Visitor, me: Actor, services: Services) -> None:
    items = [("One", "<p>First text</p>"), ("", "<p>Only a text</p>"), ("<b> & co", "<p>x</p>")]
    _write(services, me, items)
    atom, feed_json = _make(ann, name="Mine & yours")
    answer = _get(ann, atom)
    assert answer.mimetype == "application/atom+xml"
    assert (answer.headers["Cache-Control"], answer.headers["X-Robots-Tag"]) == (
        "private, no-cache",
        "noindex",
    )
    root = etree.fromstring(answer.data)
    assert root.findtext(f"{ATOM}title") == "Mine & yours"
    (own,) = root.xpath("a:link[@rel='self']/@href", namespaces={"a": ATOM[1:-1]})
    assert own == services.settings.own_origin + atom
    found = feedparser.parse(answer.data)
    assert not found.bozo
    assert sorted(entry.title for entry in found.entries) == ["<b> & co", "One", "Only a text"]
    (one,) = (entry for entry in found.entries if entry.title == "One")
    assert (one.link, one.content[0].value) == ("https://site.example/0", "<p>First text</p>")
    assert one.source.title == "Blog"
    answer = _get(ann, feed_json)
    assert answer.mimetype == "application/feed+json"
    document = json.loads(answer.data)
    assert (document["version"], document["title"]) == ("https://jsonfeed.org/version/1.1", "Mine & yours")
    assert document["feed_url"] == services.settings.own_origin + feed_json
    assert sorted(item["title"] for item in document["items"]) == ["<b> & co", "One", "Only a text"]
    assert {item["id"] for item in document["items"]} == {entry.id for entry in found.entries}


def test_the_real_feeds_of_the_corpus_make_valid_documents(
    ann: Visitor, me: Actor, services: Services
) -> None:
    follow(services, me)
    atom, feed_json = _make(ann)
    found = feedparser.parse(_get(ann, atom).data)
    assert not found.bozo
    assert len(found.entries) == services.settings.stream_feed_rows
    for entry in found.entries:
        assert entry.id.startswith("tag:")
        assert entry.title
        assert entry.link.startswith(("http://", "https://"))
        assert "<script" not in entry.content[0].value
    items = json.loads(_get(ann, feed_json).data)["items"]
    assert [item["id"] for item in items] == [entry.id for entry in found.entries]
    # No site sees who reads: pictures come from this server.
    pictures = re.findall(r'<img [^>]*src="([^"]+)"', "".join(item["content_html"] for item in items))
    assert pictures
    assert all(url.startswith(services.settings.own_origin) for url in pictures)


def test_each_kind_of_list_has_a_feed(ann: Visitor, me: Actor, services: Services, db: Any) -> None:
    folder = services.folders.create(me, "Trains")
    url = "https://rail.example/feed"
    feed_id = services.subscriptions.subscribe(me, url, folder_id=folder.id).subscription.feed_id
    pull(services, [feed_id], {url: rss("Rail", [("Night train", "<p>x</p>"), ("Day train", "<p>x</p>")])})
    _write(services, me, [("Garden", "<p>x</p>")])
    entry = db.entries.find_one({"title": "Night train"})["_id"]
    services.reading.set_starred(me, entry, True)
    (tag,) = services.tags.change_tags(me, entry, add=["Later"])
    everything = ["Day train", "Garden", "Night train"]
    expected = {
        "all": everything,
        # Entries without a date are none of today's.
        "today": [],
        "recent": [],
        "starred": ["Night train"],
        "following": [],
        "shares": [],
        f"folder/{folder.id}": ["Day train", "Night train"],
        f"feed/{feed_id}": ["Day train", "Night train"],
        f"tag/{tag.id}": ["Night train"],
    }
    for stream, titles in expected.items():
        assert sorted(_titles(ann, _make(ann, stream, name="x")[0])) == titles, stream


def test_a_poll_writes_nothing_and_sends_nothing_twice(
    ann: Visitor, me: Actor, services: Services, db: Any
) -> None:
    _write(services, me, [("One", f"<p>{'x' * MIN_BYTES}</p>")])
    atom, _json = _make(ann)
    first = _get(ann, atom)
    before = document_count(db)
    again = _get(ann, atom, If_None_Match=first.headers["ETag"])
    assert (again.status_code, again.data) == (304, b"")
    assert document_count(db) == before
    packed = _get(ann, atom, Accept_Encoding="gzip")
    assert packed.headers["ETag"] != first.headers["ETag"]
    assert gzip.decompress(packed.data) == first.data
    _write(services, me, [("Two", "<p>y</p>"), ("One", "<p>x</p>")])
    changed = _get(ann, atom, If_None_Match=first.headers["ETag"])
    assert changed.status_code == 200
    assert "Two" in changed.text


def test_W08_a_feed_address_opens_its_list_and_nothing_else(
    ann: Visitor, me: Actor, services: Services, db: Any
) -> None:
    _write(services, me, [("One", "<p>x</p>")])
    atom, _json = _make(ann, name="Kitchen")
    secret = atom.split("/")[2]
    assert secret not in ann.get("/settings/apps").text
    stored: Doc = db.tokens.find_one({"kind": "feed"})
    assert secret not in str(stored)
    assert _get(ann, "/api/v1/subscriptions", Authorization=f"Bearer {secret}").status_code == 401
    assert _get(ann, "/reader/api/0/tag/list", Authorization=f"GoogleLogin auth={secret}").status_code == 401
    token = ann.post("/settings/apps/token", {"name": "Script", "read": "1", "days": "30"}).text
    (api,) = re.findall(r'<code id="v-secret"[^>]*>([^<]+)</code>', token)
    assert _get(ann, f"/feed/{api}/atom.xml").status_code == 404
    assert _get(ann, "/feed/wrong/feed.json").status_code == 404


def test_a_revoked_address_and_a_locked_account_open_nothing(
    ann: Visitor, me: Actor, services: Services, db: Any
) -> None:
    _write(services, me, [("One", "<p>x</p>")])
    first, second = (_make(ann, name=name)[0] for name in ("First", "Second"))
    page = ann.get("/settings/apps").text
    assert "Feed address" in page
    assert 'href="/read/all">All entries</a>' in page
    ann.post("/settings/apps/revoke", {"token": str(db.tokens.find_one({"name": "First"})["_id"])})
    assert (_get(ann, first).status_code, _get(ann, second).status_code) == (404, 200)
    db.users.update_one({"_id": me.user_id}, {"$set": {"disabled": True}})
    assert _get(ann, second).status_code == 404


def test_W22_feeds_that_cannot_be_shared_are_left_out(
    ann: Visitor, me: Actor, services: Services, db: Any
) -> None:
    _write(services, me, [("Open", "<p>x</p>")])
    secret = _write(services, me, [("Closed", "<p>x</p>")], "https://secret.example/feed")
    db.feeds.update_one({"_id": secret}, {"$set": {"unlisted": True}})
    assert _titles(ann, _make(ann)[0]) == ["Open"]
    refused = ann.post("/settings/apps/feed", {"stream": f"feed/{secret}", "name": "x"})
    assert refused.status_code == 400
    assert "You can&#39;t share this feed" in refused.text
    assert not db.tokens.count_documents({"stream": f"feed/{secret}"})


def test_a_list_that_is_gone_or_not_ones_own_has_no_feed(
    ann: Visitor, me: Actor, services: Services, db: Any
) -> None:
    _write(services, me, [("One", "<p>x</p>")])
    bob = add_user(services, "bob")
    theirs = services.folders.create(bob, "Bob's")
    for stream in (f"folder/{theirs.id}", "tag/1", "feed/1"):
        assert ann.post("/settings/apps/feed", {"stream": stream, "name": "x"}).status_code == 404, stream
    assert ann.post("/settings/apps/feed", {"stream": "nothing", "name": "x"}).status_code == 400
    entry = db.entries.find_one({"title": "One"})["_id"]
    (tag,) = services.tags.change_tags(me, entry, add=["Later"])
    atom, _json = _make(ann, f"tag/{tag.id}")
    assert _titles(ann, atom) == ["One"]
    services.tags.delete(me, tag.id)
    assert _get(ann, atom).status_code == 404


def test_the_menu_of_a_list_leads_to_the_form_with_this_list_chosen(
    ann: Visitor, me: Actor, services: Services
) -> None:
    feed_id = _write(services, me, [("One", "<p>x</p>")])
    page = ann.get(f"/read/feed/{feed_id}").text
    (link,) = re.findall(r'href="(/settings/apps\?stream=[^"]+)#feed"', page)
    form = ann.get(html.unescape(link)).text
    assert f'<option value="feed/{feed_id}" selected>Blog</option>' in form
    # Without a name the feed is called as the list.
    assert feedparser.parse(_get(ann, _make(ann, f"feed/{feed_id}")[0]).data).feed.title == "Blog"


def test_W11_an_address_needs_the_password_unless_it_was_entered_recently(
    ann: Visitor, me: Actor, services: Services, db: Any
) -> None:
    before = clock.now() - dt.timedelta(seconds=services.settings.proof_ttl + 1)
    db.sessions.update_many({}, {"$set": {"created": before}})
    refused = ann.post("/settings/apps/feed", {"stream": "all", "name": "x", "proof": "wrong"})
    assert refused.status_code == 400
    assert not db.tokens.count_documents({})
    assert len(_make(ann, name="x", proof=PASSWORD)) == 2


def test_W22_shares_that_are_not_public_are_left_out(
    ann: Visitor, me: Actor, services: Services, db: Any
) -> None:
    """Ann may read them, but not everyone who knows the address."""
    bob = add_user(services, "bob")
    for who in (me, bob):
        services.following.update_profile(
            who, display="", bio="", links=(), audience=Audience.PUBLIC, listed=False, open_lists=True
        )
    services.following.follow(me, "bob")
    for who in (me, bob):
        for audience in Audience:
            services.sharing.publish_post(
                who, "", f"{audience.value} words of {who.user_id}", audience=audience
            )
    for stream, theirs in (("following", bob), ("all", bob), ("shares", me)):
        page = services.reading.load_page(me, StreamQuery(StreamRef.parse(stream)))
        assert any("followers" in row.excerpt for row in page.rows), f"{stream}: Ann sees more"
        for path in _make(ann, stream, name="x"):
            text = _get(ann, path).text
            assert f"public words of {theirs.user_id}" in text, stream
            assert "followers words" not in text, stream
            assert "private words" not in text, stream


def test_W22_entries_with_access_keys_are_left_out(
    ann: Visitor, me: Actor, services: Services, db: Any
) -> None:
    _write(services, me, [("Open", "<p>x</p>"), ("Paid", "<p>x</p>")])
    paid = {"enclosures": [{"url": "https://cdn.example.org/private/4f8a91c2d7e03b56a1f09c8e.mp3"}]}
    db.entries.update_one({"title": "Paid"}, {"$set": paid})
    assert _titles(ann, _make(ann)[0]) == ["Open"]


def test_polls_of_others_leave_the_owners_programs_their_quota(
    ann: Visitor, me: Actor, services: Services
) -> None:
    _write(services, me, [("One", "<p>x</p>")])
    atom, _json = _make(ann)
    token = ann.post("/settings/apps/token", {"name": "Script", "read": "1", "days": "30"}).text
    (api,) = re.findall(r'<code id="v-secret"[^>]*>([^<]+)</code>', token)
    limit, key = services.settings.api_per_minute, f"feed:{_token_id(services, me)}"
    for _ in range(limit):
        services.limiter.count_request(key, limit, 60)
    assert _get(ann, atom).status_code == 429
    assert _get(ann, "/api/v1/subscriptions", Authorization=f"Bearer {api}").status_code == 200


def _token_id(services: Services, me: Actor) -> int:
    return next(token.id for token in services.tokens.list_tokens(me) if token.stream)
