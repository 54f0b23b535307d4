"""What scripts and apps stumbled over: each of these was a fault once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from flask import Flask

from app import create_app
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.models.sharing.sharing import Audience
from app.web.pages.apps import SCOPES
from tests.sharing.conftest import People
from tests.sync.conftest import password_of
from tests.sync.rest.conftest import Program, token_for
from tests.sync.test_fever import Fever


@pytest.fixture
def people(services: Services) -> People:
    return People(services)


@pytest.fixture
def app(services: Services) -> Flask:
    return create_app(services.settings, services)


@pytest.fixture
def ann(people: People) -> Actor:
    return people.join("ann")


@pytest.fixture
def bob(people: People) -> Actor:
    """Somebody whose stream is for everybody."""
    actor = people.join("bob")
    people.open(actor)
    return actor


@pytest.fixture
def fever(services: Services, ann: Actor, app: Flask) -> Fever:
    return Fever(app.test_client(), "ann", password_of(services, ann, fever=True))


@pytest.fixture
def mine(services: Services, ann: Actor, app: Flask) -> Program:
    return Program(app, token_for(services, ann))


# -- Fever
def test_W08_a_fever_key_dies_with_the_name(fever: Fever, services: Services, ann: Actor, app: Flask) -> None:
    services.gateways.accounts.set_identity(ann.user_id, "Ann", "ann@example.org")
    assert fever.ask("")["auth"] == 1, "for who compares names, it is the same one"
    assert [token.fever for token in services.tokens.list_tokens(ann)] == [True]
    services.gateways.accounts.set_identity(ann.user_id, "anna", "ann@example.org")
    assert fever.ask("") == {"api_version": 3, "auth": 0}
    assert [token.fever for token in services.tokens.list_tokens(ann)] == [False]
    with_address = hashlib.md5(b"ann@example.org:x").hexdigest()
    assert app.test_client().get(f"/fever/?api&api_key={with_address}").get_json()["auth"] == 0


def test_a_starred_share_is_in_the_list_of_what_is_starred(
    fever: Fever, services: Services, people: People, ann: Actor, bob: Actor
) -> None:
    (entry,) = people.blog([bob])
    people.follow(ann, "bob")
    share = services.sharing.share(bob, entry).share.id
    assert fever.mark("item", "saved", share)["saved_item_ids"] == f"{entry},{share}"
    found = fever.ask("items&saved_item_ids")
    starred = [item["id"] for item in found["items"] if item["is_saved"]]
    assert starred == [share]
    assert set(starred) <= set(map(int, found["saved_item_ids"].split(",")))
    services.sharing.update_share(bob, share, note="", audience=Audience.PRIVATE)
    assert fever.ids("saved_item_ids") == [entry]
    assert fever.mark("item", "unsaved", entry)["saved_item_ids"] == ""


@pytest.mark.parametrize("largest", [2**53 - 1, 2**63 - 1, 2**64 - 1])
def test_the_largest_number_of_any_app_is_one(fever: Fever, people: People, ann: Actor, largest: int) -> None:
    entries = people.blog([ann], entries=3)
    assert [i["id"] for i in fever.ask(f"items&max_id={largest}")["items"]] == entries[::-1]
    assert fever.ask(f"items&since_id={largest}")["items"] == []


def test_what_is_asked_for_is_answered_and_nothing_else(fever: Fever, people: People, ann: Actor) -> None:
    entries = people.blog([ann], entries=3)
    for garbled in ("with_ids=abc", "with_ids=1,2", "feed_ids=abc", "group_ids=-1"):
        assert fever.ask(f"items&{garbled}")["items"] == [], garbled
    for empty in ("with_ids=", "feed_ids=", "max_id=", "since_id=", "group_ids=0"):
        assert [i["id"] for i in fever.ask(f"items&{empty}")["items"]] == entries, empty


@pytest.mark.parametrize("what", ["feed", "group"])
def test_a_garbled_time_marks_nothing(fever: Fever, people: People, ann: Actor, what: str) -> None:
    entries = people.blog([ann], entries=3)
    ident = fever.ask("feeds")["feeds"][0]["id"] if what == "feed" else 0
    for before in ("abc", "-1", "1.2.3", "NaN", "1e12"):
        fever.mark(what, "read", ident, before=before)  # type: ignore[arg-type]
        assert fever.ids() == entries, before
    fever.mark(what, "read", ident, before="1700000000.25")  # type: ignore[arg-type]
    assert fever.ids() == entries, "long before they came"
    fever.mark(what, "read", ident, before=f"{entries[-1] // 1_000_000 + 1}.5")  # type: ignore[arg-type]
    assert fever.ids() == []


def test_who_is_muted_stays_out_of_what_is_unread(
    fever: Fever, services: Services, people: People, ann: Actor, bob: Actor
) -> None:
    (entry,) = people.blog([bob])
    people.follow(ann, "bob")
    share = services.sharing.share(bob, entry).share.id
    feed = fever.ask("feeds")["feeds"][0]["id"]
    services.following.set_muted(ann, "bob", True)
    assert (fever.ids(), fever.ask("items")["items"]) == ([], [])
    assert fever.ask("items")["total_items"] == 0, "nobody waits for what does not come"
    fever.mark("group", "read", 0, before=str(share // 1_000_000 + 60))  # type: ignore[arg-type]
    assert [item["id"] for item in fever.ask(f"items&feed_ids={feed}")["items"]] == [share]
    services.following.set_muted(ann, "bob", False)
    assert fever.ids() == [share], "and nothing was lost"


# -- REST
def test_W04_no_share_tells_of_one_that_may_not_be_seen(
    mine: Program, services: Services, people: People, ann: Actor, bob: Actor
) -> None:
    cleo = people.join("cleo")
    people.open(cleo)
    (entry,) = people.blog([cleo])
    people.follow(bob, "cleo")
    first = services.sharing.share(cleo, entry).share.id
    share = services.sharing.share(bob, first).share.id

    def sources() -> list[Any]:
        listed = mine.get("/people/bob/shares").get_json()["items"]
        return [mine.get(f"/shares/{share}").get_json()["share"]["source"], listed[0]["share"]["source"]]

    assert sources() == [first, first]
    services.sharing.update_share(cleo, first, note="", audience=Audience.PRIVATE)
    assert mine.get(f"/shares/{first}").status_code == 404
    assert sources() == [None, None]


def test_a_change_that_is_refused_changes_nothing(
    mine: Program, services: Services, people: People, ann: Actor, bob: Actor
) -> None:
    people.blog([ann])
    people.follow(ann, "bob")
    rows = {row["title"]: row for row in mine.get("/subscriptions").get_json()["items"]}
    blog, person = rows["blog"], rows["bob"]
    theirs = services.folders.create(bob, "News").id
    refused = mine.patch(f"/subscriptions/{blog['feed_id']}", {"paused": True, "folder_ids": [theirs]})
    assert refused.status_code == 404
    assert mine.get(f"/subscriptions/{blog['feed_id']}").get_json() == blog
    refused = mine.patch(f"/subscriptions/{person['feed_id']}", {"paused": True, "title": "Bobby"})
    assert refused.status_code == 400
    assert mine.get(f"/subscriptions/{person['feed_id']}").get_json() == person


def test_a_report_is_about_one_thing(mine: Program, bob: Actor) -> None:
    for about in ({}, {"name": "bob", "share_id": 17}, {"comment_id": 17, "share_id": 17}):
        assert mine.post("/reports", {"reason": "spam", **about}).status_code == 400
    assert mine.post("/reports", {"reason": "spam", "name": "bob"}).status_code == 204


def test_who_makes_a_token_reads_what_it_may_do(
    services: Services, ann: Actor, bob: Actor, app: Flask
) -> None:
    for scope, method, path, word in (
        (Scope.MARK, "PUT", "/shares/17/like", "like"),
        (Scope.SUBSCRIBE, "PUT", "/people/bob/follow", "follow"),
        (Scope.SUBSCRIBE, "PUT", "/people/bob/block", "block"),
        (Scope.SHARE, "DELETE", "/followers/bob", "follow you"),
    ):
        program = Program(app, token_for(services, ann, scope.value))
        assert program.send(method, path).status_code != 403
        assert word in SCOPES[scope][1]


def test_a_start_that_was_refused_chooses_nothing_for_the_next(mine: Program) -> None:
    lines = "".join(f'<outline text="{n}" xmlUrl="https://{n}.example.org/f"/>' for n in ("one", "two"))
    made = mine.post("/imports", {"opml": f'<opml version="2.0"><body>{lines}</body></opml>'}).get_json()
    path = f"/imports/{made['id']}"
    for chosen in ([], [77]):
        assert mine.post(f"{path}/start", {"chosen": chosen}).status_code == 400
    started = mine.post(f"{path}/start", {})
    assert (started.status_code, started.get_json()["goal"]) == (202, 2)


def test_what_changed_nothing_is_not_taken_back(mine: Program) -> None:
    for do in ("unsubscribe", "move"):
        done = mine.post("/subscriptions/bulk", {"feed_ids": [17], "do": do}).get_json()
        assert done == {"count": 0, "undo": None}


def test_every_change_of_an_entry_gives_it_another_tag(
    mine: Program, services: Services, people: People, ann: Actor, bob: Actor
) -> None:
    (entry,) = people.blog([ann, bob])
    people.open(ann)
    people.follow(ann, "bob")
    path, shares = f"/entries/{entry}", list[int]()
    changes: list[Callable[[], object]] = [
        *(partial(mine.patch, path, {name: True}) for name in ("read", "starred", "liked")),
        lambda: mine.patch(path, {"tags": ["später"]}),
        lambda: mine.patch(f"/tags/{services.tags.list_tags(ann)[0].id}", {"name": "日本"}),
        lambda: services.sharing.share(bob, entry),
        lambda: shares.append(mine.post(f"{path}/share", {}).get_json()["id"]),
        lambda: mine.patch(f"/subscriptions/{mine.get(path).get_json()['feed_id']}", {"title": "Neu"}),
        lambda: mine.delete(f"/shares/{shares[0]}"),
    ]
    seen = [mine.get(path).headers["ETag"]]
    for change in changes:
        change()
        answer = mine.get(path, headers={"If-None-Match": seen[-1]})
        assert answer.status_code == 200
        assert answer.get_json()["share"] == (shares[0] if shares and change is not changes[-1] else None)
        seen.append(answer.headers["ETag"])
    assert mine.get(path, headers={"If-None-Match": seen[-1]}).status_code == 304


def test_no_address_is_more_than_a_link(
    mine: Program, fever: Fever, services: Services, people: People, ann: Actor, bob: Actor
) -> None:
    (entry,) = people.blog([ann, bob])
    share = services.sharing.share(bob, entry).share.id
    people.follow(ann, "bob")
    entries = services.store.database["entries"]
    entries.update_many({"url": {"$exists": True}}, {"$set": {"url": "javascript:alert(1)"}})
    services.store.database["feeds"].update_many({}, {"$set": {"site_url": "javascript:alert(1)"}})
    feed = mine.get(f"/entries/{entry}").get_json()["feed_id"]
    lists = ("/people/bob/shares", "/streams/all/entries", f"/subscriptions/{feed}/health")
    for path in (f"/entries/{entry}", f"/shares/{share}", *lists):
        answer = mine.get(path)
        assert answer.status_code == 200
        assert "javascript" not in answer.text, path
    assert "javascript" not in str(fever.ask("items"))


def test_a_refusal_names_the_field_that_was_sent(mine: Program, people: People, ann: Actor) -> None:
    (entry,) = people.blog([ann])
    for tags in ([""], ["y" * 200]):
        refused = mine.patch(f"/entries/{entry}", {"tags": tags})
        assert (refused.status_code, refused.get_json()["field"]) == (400, "tags")


def test_only_addresses_of_the_web_are_subscribed_to(mine: Program, services: Services) -> None:
    feeds = services.store.database["feeds"]
    for none in (
        "javascript:alert(1)",
        "ftp://site.example.org/f",
        "file:///etc/passwd",
        "http://",
        "mailto:a@b.c",
    ):
        refused = mine.post("/subscriptions", {"url": none})
        assert (refused.status_code, refused.get_json().get("field")) == (400, "url"), none
    assert feeds.count_documents({}) == 0
    for sent, kept in (
        ("https://Ann:PassWord@site.example.org/f_(x)", "https://Ann:PassWord@site.example.org/f_(x)"),
        ("feed:https://Ann:PassWord@OTHER.example.org/f", "https://Ann:PassWord@other.example.org/f"),
        ("third.example.org/f", "https://third.example.org/f"),
        ("https://пример.рф/лента?я=1", "https://пример.рф/лента?я=1"),
    ):
        made = mine.post("/subscriptions", {"url": sent}).get_json()
        assert feeds.find_one({"_id": made["feed_id"]}, {"_id": 0, "url": 1}) == {"url": kept}
