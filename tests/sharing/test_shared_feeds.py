"""Feeds of shared streams: right by the grammars, the same for all parsers, and for strangers' eyes."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import re
from pathlib import Path
from typing import Any

import feedparser
import pytest
from flask import Flask
from lxml import etree
from werkzeug.test import TestResponse

from app import create_app
from app.bootstrap.services import Services
from app.config import Settings
from app.feeds.parse import parse
from app.models.accounts.actor import Actor
from app.models.accounts.user import NewUser
from app.models.feeds.chain import make_tag_uri
from app.models.sharing.sharing import Audience
from tests.sharing.conftest import People
from tests.web.conftest import Visitor

_RNG = etree.RelaxNG(etree.parse(Path(__file__).parent / "data" / "atom.rng"))
_NS = {"a": "http://www.w3.org/2005/Atom", "e": "urn:eventr:chain:1"}
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)")
_PATHS = ("atom.xml", "feed.json")
_EVIL = '<script>alert(1)</script> ]]> & "quotes" <b>bold</b>'


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return dataclasses.replace(settings, hub="on")


@pytest.fixture
def app(services: Services) -> Flask:
    return create_app(services.settings, services)


@pytest.fixture
def stranger(app: Flask) -> Visitor:
    return Visitor(app.test_client())


class Chain:
    """ann shares from a blog, bob takes it from her, cleo from him; cleo wrote something, too."""

    def __init__(self, people: People, ann: Actor, bob: Actor, cleo: Actor) -> None:
        self.services = people.services
        (self.entry,) = people.blog([ann], name="slow")
        for who in (ann, bob, cleo):
            people.open(who)
        people.follow(bob, "ann")
        people.follow(cleo, "bob")
        sharing = people.services.sharing
        self.first = sharing.share(ann, self.entry, note="note of ann").share
        self.second = sharing.share(bob, self.first.id, note="note of bob").share
        self.third = sharing.share(cleo, self.second.id, note="note of cleo\n\nhttps://a.example.org/").share
        self.post = sharing.publish_post(cleo, "", "Words of cleo, & more")


@pytest.fixture
def chain(people: People, ann: Actor, bob: Actor, cleo: Actor) -> Chain:
    return Chain(people, ann, bob, cleo)


def atom_of(answer: TestResponse) -> Any:
    """Return an Atom document, which is valid."""
    tree = etree.fromstring(answer.data)
    assert _RNG.validate(tree), _RNG.error_log
    # What RFC 4287 says beside its grammar.
    assert tree.find("a:author", _NS) is not None
    ids = [e.text for e in tree.findall("a:entry/a:id", _NS)]
    assert len(ids) == len(set(ids))
    assert len(tree.xpath("a:link[@rel='self']", namespaces=_NS)) == 1
    for entry in tree.findall("a:entry", _NS):
        alternates = entry.xpath("a:link[@rel='alternate']", namespaces=_NS)
        assert len({(x.get("type"), x.get("hreflang")) for x in alternates}) == len(alternates)
        assert alternates or entry.find("a:content", _NS) is not None
    for time in tree.iter(f"{{{_NS['a']}}}updated", f"{{{_NS['a']}}}published"):
        assert _RFC3339.fullmatch(time.text)
    return tree


def json_of(answer: TestResponse) -> dict[str, Any]:
    """Return a JSON Feed, which is what jsonfeed.org/version/1.1 asks for."""
    feed: dict[str, Any] = json.loads(answer.data)
    assert feed["version"] == "https://jsonfeed.org/version/1.1"
    assert isinstance(feed["title"], str)
    assert feed["feed_url"].startswith("http")
    for hub in feed["hubs"]:
        assert set(hub) == {"type", "url"}
    ids = [item["id"] for item in feed["items"]]
    assert len(ids) == len(set(ids))
    known = {"id", "url", "external_url", "title", "content_html", "image", "date_published"}
    known |= {"date_modified", "authors", "language"}
    for item in feed["items"]:
        assert isinstance(item["id"], str)
        assert isinstance(item["content_html"], str)
        assert _RFC3339.fullmatch(item["date_published"])
        assert _RFC3339.fullmatch(item["date_modified"])
        assert all(a.get("name") or a.get("url") for a in item.get("authors", ()))
        assert {key for key in item if not key.startswith("_")} <= known
        assert all("." not in key for key in item)
    assert set(feed) <= {
        *("version", "title", "home_page_url", "feed_url", "description", "authors", "hubs", "items")
    }
    return feed


def test_our_parser_feedparser_and_the_json_feed_agree(chain: Chain, stranger: Visitor) -> None:
    base = chain.services.settings.own_origin
    answer = stranger.get("/@cleo/atom.xml")
    assert answer.headers["Content-Type"] == "application/atom+xml; charset=utf-8"
    atom_of(answer)
    ours = parse(answer.data, url=f"{base}/@cleo/atom.xml")
    theirs = feedparser.parse(answer.data)
    assert not theirs.bozo
    got = stranger.get("/@cleo/feed.json")
    assert got.headers["Content-Type"] == "application/feed+json; charset=utf-8"
    feed = json_of(got)
    assert parse(got.data, url=f"{base}/@cleo/feed.json").format == "json11"
    assert ours.title == theirs.feed.title == feed["title"] == "cleo"
    assert ours.site_url == theirs.feed.link == feed["home_page_url"] == f"{base}/@cleo"
    assert ours.hub == feed["hubs"][0]["url"] == f"{base}/hub"
    assert ours.self_url == f"{base}/@cleo/atom.xml"
    assert feed["feed_url"] == f"{base}/@cleo/feed.json"
    post, share = ours.entries
    assert (
        [e.guid for e in ours.entries] == [e.id for e in theirs.entries] == [i["id"] for i in feed["items"]]
    )
    assert [e.title for e in ours.entries] == [i["title"] for i in feed["items"]]
    assert [e.title for e in ours.entries] == [e.title for e in theirs.entries]
    assert post.title == "Words of cleo, & more"
    assert [e.url for e in ours.entries] == [e.link for e in theirs.entries]
    assert share.url == feed["items"][1]["external_url"] == "https://slow.example.org/1"
    assert post.url == feed["items"][0]["url"] == f"{base}/@cleo/{chain.post.id}"
    assert feed["items"][1]["url"] == f"{base}/@cleo/{chain.third.id}"
    for mine, other, item in zip(ours.entries, theirs.entries, feed["items"], strict=True):
        assert mine.content == item["content_html"]
        assert re.sub(r"\s", "", other.content[0].value) != ""
        assert mine.published is not None
        assert mine.published.strftime("%Y-%m-%dT%H:%M:%SZ") == other.published == item["date_published"]
        assert other.updated == item["date_modified"]
    assert share.content.startswith("<blockquote><p>note of cleo</p>")
    assert share.content.endswith("<p>The text of slow 1</p>")
    assert (share.author, post.author) == ("slow", "cleo")


def test_the_chain_alone_says_through_whose_hands_it_came(chain: Chain, stranger: Visitor) -> None:
    base = chain.services.settings.own_origin
    tree = atom_of(stranger.get("/@cleo/atom.xml"))
    entry = tree.findall("a:entry", _NS)[1]
    via = [link.get("href") for link in entry.xpath("a:link[@rel='via']", namespaces=_NS)]
    assert via == [f"{base}/@bob/{chain.second.id}", "https://slow.example.org/1"]
    (found,) = entry.findall("e:chain", _NS)
    root = dict(found.find("e:root", _NS).attrib)
    assert root == {"href": "https://slow.example.org/1", "title": "slow 1"}
    hops = [dict(h.attrib) for h in found.findall("e:hop", _NS)]
    assert [(h["name"], h["href"]) for h in hops] == [
        ("ann", f"{base}/@ann/{chain.first.id}"),
        ("bob", f"{base}/@bob/{chain.second.id}"),
        ("cleo", f"{base}/@cleo/{chain.third.id}"),
    ]
    assert hops[2]["id"] == entry.find("a:id", _NS).text
    # A hop is named alike in everybody's feed, so that branches meet again.
    said = [{**{k: v for k, v in hop.items() if k != "href"}, "url": hop["href"]} for hop in hops]
    bobs = json_of(stranger.get("/@bob/feed.json"))["items"][0]
    assert bobs["id"] == hops[1]["id"]
    assert bobs["_eventr"]["chain"] == said[:2]
    mine = json_of(stranger.get("/@cleo/feed.json"))["items"]
    assert mine[1]["_eventr"]["chain"] == said
    # A post begins its own chain.
    own = mine[0]["_eventr"]
    assert own["chain"][0]["id"] == mine[0]["id"]
    assert own["root"]["url"] == mine[0]["url"]


def test_a_hidden_hop_says_no_more_than_why(
    chain: Chain, people: People, ann: Actor, bob: Actor, stranger: Visitor
) -> None:
    people.open(ann, Audience.FOLLOWERS)
    chain.services.sharing.remove_share(bob, chain.second.id)
    for path in _PATHS:
        answer = stranger.get(f"/@cleo/{path}")
        for word in ("bob", "ann", str(chain.first.id), str(chain.second.id)):
            assert not re.search(rf"\b{word}\b", answer.text), (path, word)
    item = json_of(stranger.get("/@cleo/feed.json"))["items"][1]
    assert item["_eventr"]["chain"][:2] == [{"state": "private"}, {"state": "removed"}]
    tree = atom_of(stranger.get("/@cleo/atom.xml"))
    states = tree.xpath("//e:hop/@state", namespaces=_NS)
    assert states == ["private", "removed"]
    vias = tree.findall("a:entry", _NS)[1].xpath("a:link[@rel='via']/@href", namespaces=_NS)
    assert vias == ["https://slow.example.org/1"]


def test_ids_outlive_a_new_name(chain: Chain, cleo: Actor, stranger: Visitor) -> None:
    before = json_of(stranger.get("/@cleo/feed.json"))
    tag = stranger.get("/@cleo/atom.xml").headers["ETag"]
    feed_id = atom_of(stranger.get("/@cleo/atom.xml")).findtext("a:id", namespaces=_NS)
    chain.services.gateways.accounts.set_identity(cleo.user_id, "kleo", "cleo@example.org")
    after = json_of(stranger.get("/@kleo/feed.json"))
    assert [i["id"] for i in after["items"]] == [i["id"] for i in before["items"]]
    assert atom_of(stranger.get("/@kleo/atom.xml")).findtext("a:id", namespaces=_NS) == feed_id
    assert after["items"][0]["url"] != before["items"][0]["url"]
    assert stranger.get("/@kleo/atom.xml", headers={"If-None-Match": tag}).status_code == 200


def test_names_are_tag_uris(chain: Chain) -> None:
    name = make_tag_uri("https://reader.example.org:8443", "share", 1_750_000_000_000_000)
    assert name == "tag:reader.example.org,2025-06-15:share/1750000000000000"


# -- caching
@pytest.mark.parametrize("path", _PATHS)
def test_who_has_it_gets_no_body(chain: Chain, cleo: Actor, stranger: Visitor, path: str) -> None:
    first = stranger.get(f"/@cleo/{path}")
    tag = first.headers["ETag"]
    assert re.fullmatch(r'"[0-9a-f]{32}"', tag)
    assert first.headers["Cache-Control"] == "public, max-age=60"
    assert "Cookie" not in first.headers["Vary"]
    assert "Set-Cookie" not in first.headers
    assert first.headers["X-Robots-Tag"] == "noindex"
    base = chain.services.settings.own_origin
    assert first.headers["Link"] == f'<{base}/hub>; rel="hub", <{base}/@cleo/{path}>; rel="self"'
    modified = first.headers["Last-Modified"]
    asks: tuple[dict[str, str], ...] = (
        {"If-None-Match": tag},
        {"If-None-Match": f'"other", W/{tag}'},
        {"If-Modified-Since": modified},
    )
    for headers in asks:
        again = stranger.get(f"/@cleo/{path}", headers=headers)
        assert (again.status_code, again.data) == (304, b""), headers
        assert again.headers["ETag"] == tag
        assert again.headers["Cache-Control"] == "public, max-age=60"
    # A tag goes before a time.
    both = {"If-None-Match": '"other"', "If-Modified-Since": modified}
    assert stranger.get(f"/@cleo/{path}", headers=both).status_code == 200
    assert stranger.client.head(f"/@cleo/{path}").headers["ETag"] == tag


@pytest.mark.parametrize("path", _PATHS)
def test_compressed_it_has_a_tag_of_its_own(chain: Chain, cleo: Actor, stranger: Visitor, path: str) -> None:
    chain.services.sharing.publish_post(cleo, "Long", "long words " * 200)
    plain = stranger.get(f"/@cleo/{path}")
    packed = stranger.get(f"/@cleo/{path}", headers={"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert packed.headers["ETag"] == plain.headers["ETag"][:-1] + '-gz"'
    for tag in (plain.headers["ETag"], packed.headers["ETag"]):
        headers = {"If-None-Match": tag, "Accept-Encoding": "gzip"}
        assert stranger.get(f"/@cleo/{path}", headers=headers).status_code == 304


def test_a_conditional_request_reads_no_texts(
    chain: Chain, stranger: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    tag = stranger.get("/@cleo/atom.xml").headers["ETag"]

    def refused(*_: object) -> None:
        raise AssertionError("a text was read")

    monkeypatch.setattr(chain.services.mappers.entries, "find_with_bodies", refused)
    assert stranger.get("/@cleo/atom.xml", headers={"If-None-Match": tag}).status_code == 304


def test_all_that_is_in_it_changes_the_tag_and_nothing_else(
    chain: Chain, people: People, ann: Actor, bob: Actor, cleo: Actor, stranger: Visitor
) -> None:
    services = chain.services
    sharing, entries = services.sharing, services.store.database["entries"]
    edie = services.gateways.accounts.add_user(NewUser("edie@example.org", "edie", "$argon2id$none")).actor

    def tag() -> str:
        found = stranger.get("/@cleo/atom.xml").headers["ETag"]
        light = stranger.get("/@cleo/atom.xml", headers={"If-None-Match": found})
        assert (light.status_code, light.headers["ETag"]) == (304, found)
        return found

    before = tag()
    hidden = sharing.publish_post(cleo, "Mine", "alone", audience=Audience.PRIVATE)
    close = sharing.publish_post(cleo, "For", "followers", audience=Audience.FOLLOWERS)
    people.follow(edie, "cleo")
    people.open(edie)
    sharing.share(edie, chain.third.id, note="once more")
    assert tag() == before
    sharing.remove_share(cleo, hidden.id)
    sharing.remove_share(cleo, close.id)
    assert tag() == before
    seen = {before}
    changes = (
        lambda: sharing.update_share(cleo, chain.third.id, note="another word"),
        lambda: entries.update_one({"_id": chain.entry}, {"$set": {"title": "New"}, "$inc": {"revision": 1}}),
        lambda: entries.update_one({"_id": chain.entry}, {"$inc": {"revision": 1}}),
        lambda: services.mappers.profiles.update(cleo.user_id, {"bio": "Reads"}),
        lambda: services.mappers.profiles.update(bob.user_id, {"display": "Bobby"}),
        lambda: sharing.remove_share(bob, chain.second.id),
        lambda: people.open(ann, Audience.FOLLOWERS),
        lambda: sharing.publish_post(cleo, "Another", "post"),
        lambda: sharing.remove_share(cleo, chain.post.id),
    )
    for change in changes:
        change()
        seen.add(tag())
    assert len(seen) == len(changes) + 1


def test_an_edit_is_newer_than_the_share(chain: Chain, cleo: Actor, stranger: Visitor) -> None:
    later = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    chain.services.store.database["shares"].update_one({"_id": chain.third.id}, {"$set": {"edited": later}})
    item = json_of(stranger.get("/@cleo/feed.json"))["items"][1]
    assert item["date_modified"] == later.strftime("%Y-%m-%dT%H:%M:%SZ") > item["date_published"]
    answer = stranger.get("/@cleo/atom.xml")
    assert answer.last_modified == later.replace(microsecond=0)
    assert atom_of(answer).findtext("a:updated", namespaces=_NS) == item["date_modified"]


# -- who may not see
@pytest.mark.parametrize("path", _PATHS)
def test_only_what_is_for_everybody_is_in_it(
    people: People, ann: Actor, stranger: Visitor, services: Services, path: str
) -> None:
    people.open(ann)
    services.sharing.publish_post(ann, "Open", "for all")
    for audience in (Audience.FOLLOWERS, Audience.PRIVATE):
        services.sharing.publish_post(ann, "Hidden", "A secret of mine", audience=audience)
    answer = stranger.get(f"/@ann/{path}")
    assert "for all" in answer.text
    assert "ecret" not in answer.text
    assert "Hidden" not in answer.text
    for audience in (Audience.FOLLOWERS, Audience.PRIVATE):
        people.open(ann, audience)
        assert stranger.get(f"/@ann/{path}").status_code == 404
        known = {"If-None-Match": answer.headers["ETag"]}
        assert stranger.get(f"/@ann/{path}", headers=known).status_code == 404
    people.open(ann)
    services.mappers.profiles.update(ann.user_id, {"hidden": True})
    assert stranger.get(f"/@ann/{path}").status_code == 404
    assert stranger.get(f"/@nobody/{path}").status_code == 404


def test_a_post_that_is_closed_later_is_in_nobodys_feed(
    people: People, ann: Actor, bob: Actor, stranger: Visitor, services: Services
) -> None:
    for who in (ann, bob):
        people.open(who)
    people.follow(bob, "ann")
    post = services.sharing.publish_post(ann, "Mine", "Words of ann")
    services.sharing.share(bob, post.id)
    tag = stranger.get("/@bob/atom.xml").headers["ETag"]
    assert "Words of ann" in stranger.get("/@bob/atom.xml").text
    services.sharing.update_share(ann, post.id, note="Words of ann", audience=Audience.FOLLOWERS)
    answer = stranger.get("/@bob/atom.xml", headers={"If-None-Match": tag})
    assert answer.status_code == 200
    (entry,) = atom_of(answer).findall("a:entry", _NS)
    assert entry.findtext("a:title", namespaces=_NS) == "(private share)"
    assert not any(word in answer.text for word in ("Mine", "Words of ann", "@ann", str(post.id)))
    assert "private share" in stranger.get("/@bob/feed.json").text
    assert (
        stranger.get("/@bob/atom.xml", headers={"If-None-Match": answer.headers["ETag"]}).status_code == 304
    )


def test_a_stream_without_shares_is_a_feed(people: People, ann: Actor, stranger: Visitor) -> None:
    people.open(ann)
    atom_of(stranger.get("/@ann/atom.xml"))
    assert json_of(stranger.get("/@ann/feed.json"))["items"] == []


# -- markup of others
def test_nothing_that_people_type_is_markup(
    people: People, ann: Actor, stranger: Visitor, services: Services
) -> None:
    services.following.update_profile(
        ann, display=_EVIL, bio=_EVIL, links=(), audience=Audience.PUBLIC, listed=False, open_lists=False
    )
    (entry,) = people.blog([ann])
    change = {"title": _EVIL + "\x0b\ufffe", "url": "javascript:alert(1)", "author": _EVIL}
    services.store.database["entries"].update_one({"_id": entry}, {"$set": change})
    services.sharing.share(ann, entry, note=_EVIL)
    services.sharing.publish_post(ann, _EVIL, _EVIL)
    tree = atom_of(stranger.get("/@ann/atom.xml"))
    feed = json_of(stranger.get("/@ann/feed.json"))
    contents = [
        *tree.xpath("//a:content/text()", namespaces=_NS),
        *(i["content_html"] for i in feed["items"]),
    ]
    assert len(contents) == 4
    for content in contents:
        assert "<script" not in content
        assert "<b>" not in content
    assert tree.findtext("a:title", namespaces=_NS) == _EVIL
    for text in (stranger.get("/@ann/atom.xml").text, stranger.get("/@ann/feed.json").text):
        assert "javascript:" not in text


def test_what_is_not_there_is_no_document_for_everybody(stranger: Visitor) -> None:
    answer = stranger.get("/@nobody/atom.xml")
    assert answer.status_code == 404
    assert answer.headers["Cache-Control"] == "no-store"
    assert "Cookie" in answer.headers["Vary"]
    assert "ETag" not in answer.headers
